"""Did you mean: the known word that a mistyped one resembles most."""

from __future__ import annotations

TYPE_CHECKING = False  # true for type checkers
if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST = 100
"""Characters of a word that are compared; the time grows with the square of them."""


def suggestions(word: str, known: Iterable[str], n: int = 3, *, cutoff: float = 0.6) -> list[str]:
    """The known words that resemble a mistyped one, the most similar first.

    >>> suggestions("deplyo", ["deploy", "delete", "list"])
    ['deploy']
    """
    from difflib import get_close_matches

    return get_close_matches(word[:_LONGEST], list(known), n=n, cutoff=cutoff)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The question whether one of the two most similar names was meant, with a space behind it; empty without any.

    >>> did_you_mean("deplyo", ["deploy", "delete", "list"])
    "Did you mean 'deploy'? "
    """
    close = [repr(one[:_LONGEST]) for one in suggestions(word, known, 2)]
    return f"Did you mean {' or '.join(close)}? " if close else ""


def suggestion(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known word that a mistyped one resembles most; None when it resembles none.

    >>> suggestion("deplyo", ["deploy", "delete"]), suggestion("x", ["deploy"])
    ('deploy', None)
    """
    return next(iter(suggestions(word, known, 1, cutoff=cutoff)), None)
