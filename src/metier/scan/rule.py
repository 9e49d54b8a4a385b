"""A rule of the scanner: what it is called, how much it matters, and how it looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from metier._lazy import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from metier.scan.finding import Severity
    from metier.scan.view import SkillView


@dataclass(frozen=True, slots=True)
class Hit:
    """One place that a rule points at; the message and the severity replace the rule's own when given."""

    path: str
    line: int
    text: str
    message: str = ""
    severity: Severity | None = None
    stance: str = ""
    """Who says it to whom: `order`, `command`, `quotation` ... (see `stance.Stance`)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScanRule:
    """One thing to look for in a skill.

    `check` takes the view of a skill and returns hits. It must take time that grows with the size of the text and no
    faster, and nothing that it is given is ever executed, imported or fetched.
    """

    id: str
    ast: str
    category: str
    severity: Severity
    message: str
    """What it is, in one sentence."""
    hint: str
    """What to do about it."""
    check: Callable[[SkillView], Iterable[Hit]]
    sums_up: Literal["", "line", "skill"] = ""
    """Whether it only weighs what other rules find, too: at the same line, or in the whole skill."""
    title: str = ""
    """What it is called, in a few words."""
    harmless: str = ""
    """What would make it harmless."""
    source: str = ""
    """The digest of the pack that it stands in."""
    keeps_time: bool = False
    """Whether it asks itself if there is time left, and gives what it has."""
