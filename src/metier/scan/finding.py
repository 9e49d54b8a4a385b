"""What the scanner found in a skill: one frozen value for each place that a rule points at."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from metier._lazy import asdict, dataclass
from metier.skill import shown

Severity: TypeAlias = Literal["info", "low", "medium", "high", "critical"]

SEVERITIES: tuple[Severity, ...] = ("info", "low", "medium", "high", "critical")
"""From what is merely worth knowing to what looks like an attack beyond doubt."""

FAILURE = "SCAN_FAILED"
"""The rule of the finding that says that a scanner did not finish."""
MAX_TEXT = 200
MAX_HITS = 50
"""Findings that are kept of one rule and severity; the rest is counted, as far as it was looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One place in a skill that a rule points at.

    >>> found = Finding(rule="PERSISTENCE", ast="AST01", category="persistence_control", severity="high",
    ...                 path="SKILL.md", line=3, message="It starts itself again.", hint="Ask why.", text="crontab -")
    >>> found.fingerprint == fingerprint_of("PERSISTENCE", "SKILL.md", " crontab  -")
    True
    """

    rule: str
    """The id of the rule, such as `REMOTE_PIPE_TO_SHELL`."""
    ast: str
    """Its place in the OWASP Agentic Skills Top 10, such as `AST01`."""
    category: str
    """Its harmonised category, such as `execution_code_delivery`."""
    severity: Severity
    path: str
    """The file, relative to the skill's folder."""
    line: int
    """The line of the file, counted from 1."""
    message: str
    hint: str
    harmless: str = ""
    """What would make it harmless, where its rule says so."""
    text: str
    """The offending text as it may be shown: escaped, at most 200 characters."""
    stance: str = ""
    """Who says it to whom: an `order`, a `command`, a `description`, a `quotation`, a `warning`, a `fixture` ..."""
    fingerprint: str = ""
    """The same for the same text in the same file, wherever its line moved; made of the other fields when left out."""
    engine: str = "core"
    """Who found it: our own rules, or the name of another scanner."""
    suppressed_by: str = ""
    """Why it does not count, when somebody took responsibility for it."""

    def __post_init__(self) -> None:
        if not self.fingerprint:
            object.__setattr__(self, "fingerprint", fingerprint_of(self.rule, self.path, self.text))
        object.__setattr__(self, "text", shown(self.text, MAX_TEXT))

    def as_dict(self) -> dict[str, Any]:
        """The shape that `--json` prints."""
        return {**asdict(self), "path": shown(self.path, 4_096)}


def failure(message: str, hint: str, *, path: str, engine: str = "core") -> Finding:
    """The finding that a scanner did not finish, which makes a skill suspicious: nobody has seen all of it."""
    return Finding(
        rule=FAILURE,
        ast="AST08",
        category="defense_evasion_obfuscation",
        severity="high",
        path=path,
        line=1,
        message=message,
        hint=hint,
        text="",
        engine=engine,
    )


def fingerprint_of(rule: str, path: str, text: str) -> str:
    """What stays the same about a finding when lines move and blank space changes.

    >>> fingerprint_of("X", "SKILL.md", "a  b") == fingerprint_of("X", "SKILL.md", "a b ")
    True
    """
    import hashlib  # imported for the first finding: help and clean skills need none

    normal = " ".join(text.split())
    return hashlib.sha256("\0".join((rule, path, normal)).encode(errors="surrogatepass")).hexdigest()


def rank(severity: str) -> int:
    """How much a severity weighs; -1 for `none`.

    >>> rank("high") > rank("low") > rank("none")
    True
    """
    return SEVERITIES.index(severity) if severity in SEVERITIES else -1
