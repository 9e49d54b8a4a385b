"""Word vectors of the package `wordllama`: the vector of a text is the mean of those of its words."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import os
import struct
import zlib
from itertools import accumulate, pairwise
from operator import mul
from typing import TYPE_CHECKING, Any

from metier._cache import BoundedCache
from metier._paths import open_own, short_digest, write_file
from metier.errors import SearchUnavailable
from metier.find.tokenizer import STOP_WORDS
from metier.hints import for_people

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy
    from numpy.typing import NDArray

    Matrix = NDArray[numpy.float32]

MAX_EMBEDDED = 4_096
"""The characters of a text that are embedded."""

_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_TOKENIZER_DIGEST = "bf467c9e0f536bda271283c6ef85eb1a943e3196b621c8a912d64953b205df83"
"""The tokenizer whose rules `_Vocabulary` follows; any other is left to the package `tokenizers`."""
_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TENSOR = "embedding.weight"

_MAX_SHORT = 8_192
"""The characters up to which reading tokens and numbers one by one is quicker than importing numpy and the others."""
_MAX_WORD = 64
"""The characters of a word whose parts are joined here: the work grows with the square."""
_SPECIAL = ("<unk>", "<s>", "</s>", "\u2581")
"""Texts that the tokenizer takes for something else than the letters of a word."""

_FORMAT = 1
_BUCKETS = 4_096
_SPAN = struct.Struct("<2I")
"""Where a bucket begins, and where the next one does."""
_MAX_TABLE = 4 * 1024 * 1024
_NUMBERS_KEPT = 10_000


class WordVectors:
    """Means of word vectors, which come inside the package `wordllama`: small, fast, and no network.

    >>> WordVectors().embed(["fill a form", "complete a document"]).shape
    (2, 256)
    """

    name = "wordllama-l2-supercat-256"
    weight = 0.4
    unrelated = 0.3

    def __init__(self, cache_folder: str | None = None) -> None:
        self._cache_folder = cache_folder
        self._loaded: tuple[Any, Matrix] | None = None
        self._vocabulary: _Vocabulary | None = None

    def embed(self, texts: Sequence[str]) -> Matrix:
        """The mean of the vectors of each text's words, without stop words."""
        import numpy

        tokenizer, vectors = self._model()
        rows = numpy.zeros((len(texts), vectors.shape[1]), dtype=numpy.float32)
        for row, tokens in enumerate(tokenizer.encode_batch(list(map(_telling, texts)), add_special_tokens=False)):
            if tokens.ids:
                rows[row] = vectors[tokens.ids].mean(axis=0)
        return unit_rows(rows)

    def embed_short(self, texts: Sequence[str]) -> list[list[float]] | None:
        """The same for a few short texts, without numpy; None where it takes the packages that `embed` imports.

        Importing those, and reading all words and weights, takes several times as long as a whole search of a small
        library.
        """
        if sum(map(len, texts)) > _MAX_SHORT:
            return None
        folder = package_folder("wordllama", "Vectors are not installed.", "vectors")
        try:
            if self._vocabulary is None:
                self._vocabulary = _Vocabulary.read(f"{folder}/{_TOKENIZER}", self._cache_folder)
            tokens = [self._vocabulary.tokens(_telling(text)) for text in texts]
            return _means(f"{folder}/{_WEIGHTS}", tokens)
        except (OSError, ValueError, LookupError, TypeError, ArithmeticError, MemoryError, struct.error):
            return None  # whatever it is, the packages that read such files know better what to say of it

    def _model(self) -> tuple[Any, Matrix]:
        if self._loaded is None:
            folder = package_folder("wordllama", "Vectors are not installed.", "vectors")
            import numpy
            from safetensors.numpy import load_file
            from tokenizers import Tokenizer

            tokenizer = Tokenizer.from_file(f"{folder}/{_TOKENIZER}")
            tokenizer.no_padding()
            tokenizer.no_truncation()
            self._loaded = tokenizer, load_file(f"{folder}/{_WEIGHTS}")[_TENSOR].astype(numpy.float32)
        return self._loaded


class _Vocabulary(BoundedCache[bytes, int]):
    """The tokens of the tokenizer with their numbers, which are all that splitting a word takes.

    Its rules join any two neighbours that are a token together, the one of the lowest number first; the list of all
    such pairs, which is most of its file, says no more than that.
    """

    def __init__(self, table: bytes) -> None:
        super().__init__(_NUMBERS_KEPT)
        self._table = table

    @classmethod
    def read(cls, path: str, cache_folder: str | None) -> _Vocabulary:
        """The vocabulary of a tokenizer's file, from the cache if that has it; raises ValueError for another one."""
        status = os.stat(path)
        kind = json.dumps([_FORMAT, _TOKENIZER_DIGEST, path, status.st_ino, status.st_size, status.st_mtime_ns])
        cached = None if cache_folder is None else f"{cache_folder}/tokens-{short_digest(os.fsencode(path), 24)}"
        if cached is not None:
            with contextlib.suppress(OSError, ValueError), open_own(cached) as file:
                head, _, table = file.read(_MAX_TABLE).partition(b"\n")
                if head.decode() == f"{kind} {zlib.crc32(table)}":
                    return cls(table)
        import hashlib

        with open(path, "rb") as file:
            data = file.read()
        if hashlib.sha256(data).hexdigest() != _TOKENIZER_DIGEST:
            raise ValueError("another tokenizer")
        table = _table_of(json.loads(data)["model"]["vocab"])
        if cache_folder is not None and cached is not None:
            with contextlib.suppress(OSError):
                os.makedirs(cache_folder, mode=0o700, exist_ok=True)
                write_file(cached, f"{kind} {zlib.crc32(table)}\n".encode() + table)
        return cls(table)

    def tokens(self, text: str) -> list[int]:
        """The numbers of the tokens of a text; raises ValueError for one that has more in it than words."""
        if any(special in text for special in _SPECIAL):
            raise ValueError("more than words")
        return [token for word in text.split() for token in self._tokens_of(word)]

    def _tokens_of(self, word: str) -> Iterator[int]:
        if len(word) > _MAX_WORD:
            raise ValueError("a long word")
        parts = [letter.encode() for letter in f"\u2581{word}"]
        while True:
            pairs = [
                (joined, self[left], at)
                for at, (left, right) in enumerate(pairwise(parts))
                if (joined := self[left + right]) >= 0 and self[left] >= 0 and self[right] >= 0
            ]
            if not pairs:
                break
            at = min(pairs)[2]
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        for part in parts:
            # A letter that is no token is written by its bytes.
            yield from [self[part]] if self[part] >= 0 else [self[b"<0x%02X>" % byte] for byte in part]

    def __missing__(self, token: bytes) -> int:
        """The number of a token; less than 0 for what is none."""
        start, end = _SPAN.unpack_from(self._table, _SPAN.size // 2 * (zlib.crc32(token) % _BUCKETS))
        _, found, rest = self._table[start:end].partition(b"\n%b\t" % token)
        number = self[token] = int(rest.partition(b"\n")[0]) if found else -1
        return number


def _table_of(vocabulary: Mapping[str, int]) -> bytes:
    """A vocabulary in which a token is found by a look at a few others: the places of all buckets, and their tokens."""
    buckets = [b""] * _BUCKETS
    for text, number in vocabulary.items():
        token = text.encode()
        buckets[zlib.crc32(token) % _BUCKETS] += b"\n%b\t%d" % (token, number)
    first = _SPAN.size // 2 * (_BUCKETS + 1)
    places = accumulate(map(len, buckets), initial=first)
    return b"".join((struct.pack(f"<{_BUCKETS + 1}I", *places), *buckets))


def _means(path: str, texts: Sequence[Sequence[int]]) -> list[list[float]]:
    """The means of the rows of some tokens, each of length 1, read from the file of weights one by one."""
    with open(path, "rb", buffering=0) as file:
        size = int.from_bytes(file.read(8), "little")
        tensor = json.loads(file.read(size))[_TENSOR]
        if tensor["dtype"] != "F16":
            raise ValueError("other numbers")
        start, width = 8 + size + tensor["data_offsets"][0], tensor["shape"][1]
        rows: dict[int, tuple[float, ...]] = {}
        for token in {token for tokens in texts for token in tokens}:
            file.seek(start + 2 * width * token)
            rows[token] = struct.unpack(f"<{width}e", file.read(2 * width))
    return [unit([*map(sum, zip(*map(rows.__getitem__, tokens), strict=True))] or [0.0] * width) for tokens in texts]


def unit(row: Sequence[float]) -> list[float]:
    """A vector of the same direction and of length 1; raises ValueError if one of its numbers is none."""
    length = math.sqrt(sum(map(mul, row, row)))
    if not math.isfinite(length):
        raise ValueError("no numbers")
    return [one / (length or 1.0) for one in row]


def unit_rows(rows: Matrix) -> Matrix:
    """The same for all rows of a matrix."""
    import numpy

    lengths = numpy.linalg.norm(rows, axis=1, keepdims=True)
    unit: Matrix = (rows / numpy.where(lengths == 0, 1, lengths)).astype(numpy.float32)
    return unit


def package_folder(package: str, missing: str, extra: str) -> str:
    """The folder of a package of which only the data is used: importing it would bring its whole machinery."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise SearchUnavailable(missing, hint=for_people(f"pip install 'metier[{extra}]'"))
    return found.submodule_search_locations[0]


def _telling(text: str) -> str:
    words = text[:MAX_EMBEDDED].split()
    return " ".join(word for word in words if word.lower().strip(".,:;!?()\"'") not in STOP_WORDS)
