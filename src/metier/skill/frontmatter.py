"""Where the frontmatter begins and ends: a line scanner, never a regular expression over the whole file."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from metier.skill.diagnostic import Diagnostic


class Split(NamedTuple):
    """A SKILL.md cut in two.

    `block` is None when there is no frontmatter at all, which is not the same as an empty one.
    """

    block: str | None
    """The YAML between the delimiters, ending in a line feed when it is not empty."""
    block_line: int
    """The line of the file that the block's first line is, counted from 1."""
    body: str
    """What follows, untrimmed."""
    body_line: int
    """The line of the file that the body's first line is."""
    notes: tuple[Diagnostic, ...]


def split(text: str) -> Split:
    """Cut decoded text into frontmatter and body.

    >>> split("---\\nname: a\\n---\\nDo it.").block
    'name: a\\n'
    >>> split("# Just text").block is None
    True
    """
    if text.startswith("---\n"):
        end = text.find("\n---", 3)
        if end >= 0 and text[end + 4 : end + 5] == "\n" and text.find("\n...", 3, end) < 0:
            block = text[4 : end + 1]
            return Split(block, 2, text[end + 5 :], block.count("\n") + 3, ())
    from metier.skill._odd_frontmatter import split_oddly

    return split_oddly(text.split("\n"))
