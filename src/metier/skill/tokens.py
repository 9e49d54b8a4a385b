"""How many tokens a text costs, near enough, without a tokenizer or a network."""

from __future__ import annotations


def estimate_tokens(text: str) -> int:
    """About how many tokens a model would count; within a fifth of o200k on English Markdown.

    >>> estimate_tokens("Fill the form, then check every field twice.")
    8
    """
    return tokens_of(len(text), len(text.encode(errors="replace")))


def tokens_of(characters: int, size: int) -> int:
    """The same from lengths alone: bytes beyond one a character come from scripts with a token for most characters."""
    wide = (size - characters) / 2
    return round((characters - wide) / 5.2 + wide * 0.8)
