"""What scanning a skill said: findings, the worst first, and whether all of it was looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from metier._lazy import dataclass, field, replace
from metier.scan.finding import failure, rank
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from metier.scan.finding import Finding
    from metier.scan.suppression import Suppression
    from metier.scan.together import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanReport:
    """What scanning a skill said.

    >>> from metier.skill import MemoryPackage
    >>> from metier.scan import scan
    >>> report = scan(MemoryPackage({"SKILL.md": "---\\nname: a\\ndescription: Greets.\\n---\\nSay hello."}), rules=())
    >>> report.name, report.status, report.max_severity
    ('a', 'ok', 'none')
    """

    name: str
    digest: str
    """Of the content that was scanned; empty when it could not be read."""
    findings: tuple[Finding, ...] = ()
    """The worst first; those that are suppressed are among them, marked."""
    capabilities: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()
    """What its frontmatter says that it does."""
    undeclared: tuple[str, ...] = ()
    """The capabilities that its frontmatter could name, and does not."""
    takes: tuple[Fact, ...] = ()
    """The secrets that it reads, which matters beside a skill that sends."""
    sends: tuple[Fact, ...] = ()
    """The hosts that it sends something to."""
    status: Literal["ok", "error"] = "ok"
    error: str = ""
    """Why the status is `error`: then what the findings leave out was perhaps not looked at."""
    ms: float = 0.0
    ruleset: str = ""
    """Changes with the rules."""
    not_shown: int = 0
    """How many more findings there were of rules that found very many."""

    max_severity: str = field(init=False)
    """The severity of the worst finding that counts; `none` when there is none."""

    def __post_init__(self) -> None:
        counting = (found.severity for found in self.findings if not found.suppressed_by)
        object.__setattr__(self, "max_severity", max(counting, key=rank, default="none"))

    def with_findings(self, more: Iterable[Finding], suppressions: Sequence[Suppression] = ()) -> ScanReport:
        """The same report with what another scanner found: it can only get worse."""
        added = tuple(marked(found, suppressions, self.digest) for found in more)
        return replace(self, findings=worst_first((*self.findings, *added)))

    def failed(self, error: str) -> ScanReport:
        """The same report, no longer to be taken for complete."""
        hint = "Look at the skill yourself before you use it, or scan it again."
        found = worst_first((*self.findings, failure(shown(error, 500), hint, path="SKILL.md")))
        return replace(self, status="error", error=f"{self.error} {error}".strip(), findings=found)

    def as_dict(self) -> dict[str, Any]:
        """The shape that `--json` prints, but for the path."""
        return {
            "name": self.name,
            "digest": self.digest,
            "status": self.status,
            "error": self.error,
            "max_severity": self.max_severity,
            "capabilities": list(self.capabilities),
            "declared": list(self.declared),
            "undeclared": list(self.undeclared),
            "takes": [fact._asdict() for fact in self.takes],
            "sends": [fact._asdict() for fact in self.sends],
            "findings": [found.as_dict() for found in self.findings],
            "suppressed": sum(bool(found.suppressed_by) for found in self.findings),
            "not_shown": self.not_shown,
            "ruleset": self.ruleset,
            "ms": round(self.ms, 1),
        }


def marked(found: Finding, suppressions: Sequence[Suppression], digest: str) -> Finding:
    """The finding, with who answers for it if somebody does."""
    said = next((one.said for one in suppressions if one.covers(found, digest)), "")
    return replace(found, suppressed_by=said) if said else found


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings in the order of a report: what counts before what is suppressed, then by severity and place."""

    def key(found: Finding) -> tuple[bool, int, str, int, str]:
        return bool(found.suppressed_by), -rank(found.severity), found.path, found.line, found.rule

    return tuple(sorted(findings, key=key))
