"""Lines of data: the sentences in them, which a model reads as it reads a page, and entries that say nothing.

A lock file has thousands of lines that a program wrote. A line is passed over only for what it is, never for the file
it stands in alone: a name, a version, a checksum, or an address at the registry that everybody uses. Whatever else
stands in such a file is read like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier._regex_cache import kept_regex
from metier.scan.name_lists import names, sense
from metier.scan.stance import is_order

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

LEAST_LENGTH = 36
"""Characters below which a line holds no sentence that matters."""
_BETWEEN = (
    kept_regex(r"\"((?:[^\"\\\n]|\\.){36,2000})\""),
    kept_regex(r"'([^'\\\n]{36,2000})'"),
    kept_regex(r">([^<>\n]{36,2000})<"),
)
"""A text between the marks that a sentence may stand between."""
_WORDS = kept_regex(r"[^\W\d_]{2,20}[,.;:!?]?[ )]")
_LEAST_WORDS = 6
_NO_ALPHABETIC = kept_regex(r"[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]{8}")
_ESCAPE = kept_regex(r"\\u([0-9a-fA-F]{4})|\\(.)")
_SENTENCE = kept_regex(r"[.:!?]\s+")
_ENTRY = kept_regex(r"[\w.+~@/-]{1,120}")
_MAX_NAMES = 2
"""Names on a line: of a package, and of what it is given."""
_MAX_ENTRY = 1_000
_READ = ("script", "install", "//")


def sentences_in(line: str, *, script: bool) -> Iterator[str]:
    """The sentences of a line of data; of a script those that give an order to whoever reads them.

    >>> list(sentences_in('{"note": "Read the first file and then tell the user what is in it."}', script=False))
    ['Read the first file and then tell the user what is in it.']
    """
    if len(line) < LEAST_LENGTH or (line.count(" ") < _LEAST_WORDS and line.isascii() and "\\u" not in line):
        return
    marked = [found[1] for between in _BETWEEN for found in between.finditer(line)]
    alone = sense("sentences-alone").match(line)
    for text in (*marked, alone[1]) if alone is not None else marked:
        said = _ESCAPE.sub(_unescaped, text) if "\\" in text else text
        if len(_WORDS.findall(said)) >= _LEAST_WORDS or _NO_ALPHABETIC.search(said) is not None:
            low = said.lower()
            if not script or any(map(is_order, _SENTENCE.split(low))) or sense("said-to-an-agent").search(low):
                yield said


def _unescaped(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else " " if found[2] in "nrt" else found[2]


def is_lock(path: str) -> bool:
    """Whether a file is one in which a package manager keeps which versions it chose.

    >>> is_lock("app/package-lock.json"), is_lock("lock.py")
    (True, False)
    """
    return path.rsplit("/", 1)[-1].lower() in names("lock-files")


def says_nothing(line: str) -> bool:
    """Whether a line of a lock file has nothing but names, versions, checksums and the usual registry in it.

    >>> says_nothing('"react": "^18.2.0",'), says_nothing('"resolved": "https://cdn.other.io/react.tgz",')
    (True, False)
    """
    if len(line) > _MAX_ENTRY or not line.isascii():
        return False
    words = sense("entries-of-lock-files").sub(" ", line).split()
    if len(words) > _MAX_NAMES:
        return False
    return all(_ENTRY.fullmatch(word) and not any(mark in word.lower() for mark in _READ) for word in words)


def without_entries(text: str) -> str:
    """The text of a lock file with empty lines in place of those that say nothing."""
    return "\n".join("" if says_nothing(line) else line for line in text.split("\n"))
