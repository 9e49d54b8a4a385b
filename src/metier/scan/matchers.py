"""Matchers: what rules look for that takes more than words, each by the name that a rule calls it with.

A matcher is a function of the skill's text and the rule. It returns hits, takes time that grows with the size of the
text and no faster, and runs, imports or fetches nothing of what it is given. The rule's `options` are its settings.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from metier.scan.rule import Hit
    from metier.scan.rule_book import Rule
    from metier.scan.text import SkillText

Matcher: TypeAlias = "Callable[[SkillText, Rule], Iterable[Hit]]"


@cache
def matcher(name: str) -> Matcher:
    """The matcher of a name; its module is imported when the first skill is scanned."""
    module = import_module(f"metier.scan.{_MODULES[name]}")
    found: Matcher = getattr(module, "match_" + name.replace("-", "_"))
    return found


_MODULES: dict[str, str] = {
    "encoded-text": "encoded_text",
    "flow": "flow.matcher",
    "characters": "file_matchers",
    "declared": "declaration",
    "files": "file_matchers",
    "findings": "sums",
    "lookalikes": "lookalikes",
    "package-names": "package_names",
}
"""The module of each matcher, by its name: `match_NAME` is the function."""


def matcher_names() -> tuple[str, ...]:
    """The names of all matchers."""
    return tuple(sorted(_MODULES))
