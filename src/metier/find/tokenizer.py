"""The tokenizer: text becomes the words that are searched, folded, split, without stop words, stemmed."""

from __future__ import annotations

import itertools
import operator
import threading
import unicodedata
from typing import TYPE_CHECKING

import Stemmer

from metier._cache import BoundedCache
from metier._lazy import pattern

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator

MAX_WORD = 40
"""Longer runs of letters are keys, digests and encoded data; nobody searches for them."""

STOP_WORDS = frozenset(
    """
    a about above after again all also am an and any are as at be because been before being below between both but by
    can cannot could d did do does doing don down during each few for from further had has have having he her here
    hers him his how i if in into is it its itself just let ll m me more most my myself need no nor not now of off on
    once only or other our ours out over own please re s same she should so some such t than that the their them then
    there these they this those through to too under until up us use used using ve very want was we were what when
    where which while who whom why will with would you your yours yourself
    """.split()  # noqa: SIM905  # as text it can be read
)

_WORDS = pattern(r"[^\W_]+")
# In bytes: letters become small ones, digits and all that is not ASCII stay, anything else parts words.
_PARTED = bytes(byte if byte > 127 else ord(chr(byte).lower()) if chr(byte).isalnum() else 32 for byte in range(256))
# Where a word of several begins another one, there is `aA` or `AAa`.
_CASES = bytes(32 if small == 32 else 97 if small == byte else 65 for byte, small in enumerate(_PARTED))
# Names of languages that a rule for words would cut down to one letter.
_SPOKEN = {"c++": "cpp", "c#": "csharp", "f#": "fsharp", ".net": "dotnet"}
# It begins with a character: so it is looked for several times faster than if it began with what stands before.
_SIGNED = pattern(r"[.cCfF](?<!\w.)(?:(?<=[cC])\+\+|(?<=[cCfF])#|(?<=\.)(?:NET|net|Net))(?!\w)")
# Each begins with the character that is looked for, and the rarest of its own.
_SHARP, _PLUS, _DOT = pattern(rb"#(?<=[cCfF]#)"), pattern(rb"\+(?<=[cC]\+)\+"), pattern(rb"\.[nN][eE][tT]")
_HUMPS = pattern(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ACCENTS = pattern("[\u0300-\u036f]+")
# Scripts that write no blanks between words: every pair of neighbours is taken for a word.
_UNSPACED = pattern("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
# Nothing in it is folded, neither alone nor beside another one, and nothing parts words: no signs as U+4DC0 to U+4DFF.
_UNFOLDED = pattern("[\u3041-\u3096\u30a1-\u30fa\u30fc\u3400-\u4dbf\u4e00-\u9fff]+")
_STEMS_KEPT = 100_000

_local = threading.local()


def stems(text: str) -> list[str]:
    """The words of a text that say what it is about, in order.

    >>> stems("How do I fill the PDF forms?")
    ['fill', 'pdf', 'form']
    """
    return list(itertools.chain.from_iterable(map(known_stems().__getitem__, words(text))))


def words(text: str) -> list[bytes]:
    """The words of a text, in order, as `known_stems` takes them.

    >>> words("Fill PDF forms!")
    [b'fill', b'pdf', b'forms']
    """
    # Nearly all words are ASCII, and bytes are parted several times faster than text; the few others part in `_Stems`.
    encoded = _bytes(text)
    if _has_signs(encoded):
        encoded = _bytes(_SIGNED.sub(_spoken, text))
    return encoded.translate(_PARTED).split()


def split_stems(text: str) -> list[str]:
    """The same, and after them the parts of identifiers: `pdfForms` is also searched for as `pdf` and as `forms`.

    >>> split_stems("fillPdfForms well")
    ['fillpdfform', 'well', 'fill', 'pdf', 'form']
    """
    known = known_stems()
    text = _composed(_SIGNED.sub(_spoken, text) if _has_signs(_bytes(text)) else text)
    small = text if text.isascii() else text.lower()
    found = list(itertools.chain.from_iterable(map(known.__getitem__, _bytes(small).translate(_PARTED).split())))
    cases = _bytes(text).translate(_CASES)
    if b"aA" in cases or b"AAa" in cases:
        for word in _WORDS.findall(text):
            if not word.islower() and not word.isupper() and len(word) <= MAX_WORD:
                humps = _HUMPS.split(word)
                if len(humps) > 1:
                    for hump in humps:
                        found.extend(known[_bytes(hump.lower())])
    return found


def _has_signs(text: bytes) -> bool:
    """Whether the names of languages with signs may stand in a text."""
    return bool(_SHARP.search(text) or _PLUS.search(text) or _DOT.search(text))


def _spoken(found: re.Match[str]) -> str:
    """The name of such a language without signs."""
    return f" {_SPOKEN[found[0].lower()]} "


def _composed(text: str) -> str:
    """Letters and their accents in one."""
    return text if text.isascii() else _ACCENTS.sub("", unicodedata.normalize("NFC", text))


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _folded(word: str) -> str:
    """One form of each letter, without accents."""
    folded = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", word))).lower()
    return folded.replace("\u03c2", "\u03c3")  # a sigma is another letter at the end of a word


class _Stems(BoundedCache[bytes, tuple[str, ...]]):
    """The stems of each word that one thread has seen, none for a stop word."""

    def __init__(self) -> None:
        super().__init__(_STEMS_KEPT)
        self.stem = Stemmer.Stemmer("english", 0).stemWord

    def __missing__(self, word: bytes) -> tuple[str, ...]:
        learned = self.learn(word)
        if len(word) <= MAX_WORD:
            self[word] = learned
        return learned

    def learn(self, word: bytes) -> tuple[str, ...]:
        """The stems of a word, for somebody who keeps them."""
        text = word.decode(errors="surrogatepass")
        if word.isascii():
            return self._stem_of(text)
        if _UNFOLDED.fullmatch(text):
            return tuple(_pairs(text))
        found: list[str] = []
        for part in _WORDS.findall(_composed(text)):
            found.extend(_pairs(part) if _UNFOLDED.fullmatch(part) else self._stems_of(part))
        return tuple(found)

    def _stem_of(self, word: str) -> tuple[str, ...]:
        return (self.stem(word),) if 0 < len(word) <= MAX_WORD and word not in STOP_WORDS else ()

    def _stems_of(self, word: str) -> Iterator[str]:
        for part in _WORDS.findall(_folded(word)):
            start = 0
            for run in _UNSPACED.finditer(part):
                yield from self._stem_of(part[start : run.start()])
                yield from _pairs(run[0])
                start = run.end()
            yield from self._stem_of(part[start:])


def _pairs(letters: str) -> Iterable[str]:
    # No stemmer: it leaves what is as short as this.
    return map(operator.add, letters, letters[1:]) if len(letters) > 1 else [letters]


def known_stems() -> _Stems:
    """The stems of each word, for this thread."""
    # The stemmer keeps state of its own, so each thread has one.
    try:
        known: _Stems = _local.known
    except AttributeError:
        known = _local.known = _Stems()
    return known
