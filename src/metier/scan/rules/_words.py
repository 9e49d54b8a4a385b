"""Words, and sets of them."""

from __future__ import annotations

import re

# A run of marks that no letter follows is gone over once, and not from each of them.
_WORD = re.compile(r"(?<![.'’-])[a-z0-9_.'’-]*[a-z0-9_]")  # noqa: RUF001  (word processors write this apostrophe)


def words_of(low: str) -> frozenset[str]:
    """The words of a sentence in lower case.

    >>> sorted(words_of("don't send ~/.ssh/id_rsa"))
    ['.ssh', "don't", 'id_rsa', 'send']
    """
    return frozenset(_WORD.findall(low))


def word_set(text: str) -> frozenset[str]:
    """The words of a text with blanks between them.

    >>> sorted(word_set("to send"))
    ['send', 'to']
    """
    return frozenset(text.split())
