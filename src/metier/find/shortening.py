"""Making a text shorter without making it wrong: at the end of a sentence, else of a word, and never silently."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_SENTENCE = re.compile("[.!?](?=\\s|$)|[\u3002\uff01\uff1f]")
_WORD = re.compile(r"\s+")
_LEFT_OF = 0.6
"""A sentence may end this much earlier than the last word that fits."""


def shortened(text: str, limit: int, size: Callable[[str], int]) -> str:
    """The longest beginning of a text whose size is within the limit; "" when not even a word fits.

    >>> shortened("Fill PDF forms. Use it for tax forms.", 20, len)
    'Fill PDF forms.'
    >>> shortened("Fill PDF forms and sign them", 20, len)
    'Fill PDF forms and…'
    """
    if size(text) <= limit:
        return text
    fitting = _longest(text, [match.start() for match in _WORD.finditer(text)], limit, size)
    if not fitting:
        # One word longer than the limit, or a script without blanks.
        fitting = _longest(text, list(range(1, min(len(text), limit + 1))), limit, size)
    end = len(fitting)
    # One character more, to see what follows an end.
    ends = [match.end() for match in _SENTENCE.finditer(text, 0, end + 1) if match.end() <= end]
    if ends and ends[-1] >= _LEFT_OF * end and size(text[: ends[-1]]) <= limit:
        return text[: ends[-1]]
    return _with_ellipsis(fitting) if fitting else ""


def _longest(text: str, ends: list[int], limit: int, size: Callable[[str], int]) -> str:
    """The longest of the beginnings that fits with an ellipsis; sizes grow with length."""
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high) // 2
        if size(_with_ellipsis(text[: ends[middle]])) <= limit:
            low = middle + 1
        else:
            high = middle
    return text[: ends[low - 1]] if low else ""


def _with_ellipsis(text: str) -> str:
    return text.rstrip(" ,;:.-") + "…"
