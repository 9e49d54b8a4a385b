"""One policy file as data: its settings, and its problems, each with its line."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from metier._lazy import dataclass, field
from metier.guard.decision import Origin
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.library import Layer


class Located(NamedTuple):
    """A text of a policy file, and its line."""

    text: str
    origin: Origin | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyProblem:
    """A problem of a policy file, and its remedy."""

    origin: Origin
    severity: Literal["error", "warning"]
    message: str
    hint: str

    @property
    def path(self) -> str:
        """The file."""
        return self.origin.path

    @property
    def line(self) -> int:
        """The line, counted from 1."""
        return self.origin.line

    @property
    def key(self) -> str:
        """The key of the problem; empty for the whole file."""
        return self.origin.key

    def __str__(self) -> str:
        return f"{shown(self.path, 300)}:{self.line}: {self.message}"

    def as_dict(self) -> dict[str, Any]:
        """The problem as JSON has it."""
        return {
            "path": self.path,
            "line": self.line,
            "layer": self.origin.layer,
            "key": self.key,
            "severity": self.severity,
            "message": self.message,
            "hint": self.hint,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFile:
    """A policy file as it was read."""

    layer: Layer
    path: str
    digest: str
    """The sha256 of its bytes; of an unreadable one, of the reason."""
    text: str = ""
    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """The value of each key that the file sets."""
    lines: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """The line of each key."""
    problems: tuple[PolicyProblem, ...] = ()
    is_torn: bool = False
    """Whether its content is known in part alone: it is unreadable, or no sound YAML."""

    @property
    def is_broken(self) -> bool:
        """Whether some of it cannot be used: the rest may only tighten, and `on-error` decides about the gap."""
        return any(problem.severity == "error" for problem in self.problems)

    def origin(self, key: str = "") -> Origin:
        """The line of a key."""
        return Origin(layer=self.layer, path=self.path, line=self.lines.get(key, 1), key=key)
