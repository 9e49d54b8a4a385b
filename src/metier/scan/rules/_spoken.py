"""What is said to an agent in words, wherever it stands: prose, remarks in code, and fences that hold no code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.rules._reading import SkillStatements
    from metier.scan.rules._statements import Statement

_REMARK = re.compile(r"\s*(?:#|//|/?\*|<!--|\"\"\"|echo\b)")


def is_spoken(one: Statement) -> bool:
    """Whether a statement is language: prose, a remark in code, or a line of a fence that holds no code."""
    if one.kind != "code" or _REMARK.match(one.text):
        return True
    return not one.script and one.language in ("", "text", "markdown")


def spoken(read: SkillStatements) -> Iterator[Statement]:
    """All that a skill says in words, but for rows of tables."""
    return (one for one in read.statements if one.kind != "row" and is_spoken(one))
