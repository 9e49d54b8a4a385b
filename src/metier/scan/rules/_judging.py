"""What rules share when they weigh what they found: whose a host is, and how much its context takes away."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rules._kinds import odd

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from metier.scan.finding import Severity
    from metier.scan.rules._hosts import HostAddress
    from metier.scan.rules._reading import SkillStatements
    from metier.scan.rules._statements import Statement

_GENERIC = frozenset(
    {
        "agent", "agents", "skill", "skills", "tool", "tools", "help", "helper", "install", "installer", "setup",
        "update",
        "data", "code", "file", "files", "user", "users", "server", "client", "cloud", "online", "service", "services",
        "http", "https", "main", "master", "page", "pages", "site", "free", "auto", "smart", "claude", "openclaw",
        "that", "this", "with", "from", "your", "when", "into", "uses", "download", "downloads", "releases", "raw",
    }
)  # fmt: skip


_STEP_DOWN: dict[Severity, Severity] = {
    "critical": "high",
    "high": "medium",
    "medium": "low",
    "low": "low",
    "info": "info",
}
_SETTING_UP = re.compile(
    r"install|setup|set up|prereq|require|depend|getting started|before|first|init|quick ?start|activat|安装|установ"
    r"|instal"
)
"""Where a page says what to do first: what stands there is meant to be done, whatever the page is about."""


_SERVED = ("api", "apis", "static", "cdn")
_SERVES = re.compile(r"(?:apis?|static|cdn)$")
"""How makers call the hosts that their programs talk to, after their own name."""

_LONG = 600
"""Characters of a statement that count for those around it."""


def related(address: HostAddress, reading: SkillStatements) -> bool:
    """Whether a host, or on a forge its owner or project, is called like something that the skill says it is about."""
    squashed = reading.squashed
    for label in address.labels:
        plain = re.sub(r"[^a-z0-9]", "", label.lower())
        if len(plain) >= 4 and plain not in _GENERIC and plain in squashed:
            return True
        short = len(plain) == 3 and address.host.split(".")[-2:-1] == [plain]
        if short and plain in reading.view.name.lower().split("-"):
            return True
        if plain.endswith(_SERVED) and _SERVES.sub("", plain) in reading.named:
            return True
        words = [word for word in re.split(r"[^a-z0-9]+", label.lower()) if word and word not in _GENERIC]
        if words and max(map(len, words)) >= 4 and all(word in reading.words for word in words):
            return True
    return any(
        len(name) >= 3 and f"{name}_api" in reading.low
        for name in (re.sub(r"[^a-z0-9]", "", label) for label in address.labels)
    )


def doubt(address: HostAddress, reading: SkillStatements) -> int:
    """How little is known of who answers at an address: 0 nothing to fear, 1 its own, 2 a stranger, 3 odd, 4 nobody.

    The project's own host is one that is called like it; free hosting can be called like anything.
    """
    key = address.host, address.path[:200], address.secure
    if key not in reading.doubts:
        reading.doubts[key] = _doubt(address, reading)
    return reading.doubts[key]


def _doubt(address: HostAddress, reading: SkillStatements) -> int:
    match address.kind:
        case "local":
            return 0
        case "known":
            forge = address.host in {
                "raw.githubusercontent.com",
                "github.com",
                "gitlab.com",
                "gitee.com",
                "codeberg.org",
            }
            return 1 if forge and not related(address, reading) else 0
        case "unknown":
            strange = odd(address.host) or not address.secure
            if related(address, reading):
                return 2 if strange else 1
            return 3 if strange else 2
        case "free":
            return 2 if related(address, reading) else 3
        case _:
            return 4


def weighed(
    severity: Severity, statement: Statement, found: re.Match[str] | None, reading: SkillStatements
) -> Severity:
    """The severity in its context.

    What is spoken against, or stands in a list of attacks, is worth knowing and no more. A word that calls it an
    attack takes one step away, as it costs nothing to write; what is plainly one loses no more than that.
    """
    plain = severity == "critical"
    if statement.warns_of(found):
        return "low" if plain and statement.warned else "info"
    if statement.script or _SETTING_UP.search(statement.heading):
        return severity
    if statement.hinted or (reading.about_security and statement.kind in ("code", "row")):
        return _STEP_DOWN[severity]
    return severity


def nearby(statements: Sequence[Statement], index: int, before: int, after: int, lines: int) -> list[Statement]:
    """A statement with those that stand close to it."""
    here = statements[index].line
    return [one for one in statements[max(0, index - before) : index + after + 1] if abs(one.line - here) <= lines]


def wording(near: Iterable[Statement], one: Statement | None = None) -> str:
    """What statements say together, in lower case; of long ones that only stand near, how they begin."""
    return " ".join(other.low if other is one else other.low[:_LONG] for other in near)


def words_among(near: Iterable[Statement]) -> frozenset[str]:
    """The words of statements that stand together."""
    return frozenset().union(*(one.words for one in near))


def farthest(near: Iterable[Statement], reading: SkillStatements, *, none: int = 0) -> int:
    """The doubt about the most doubtful address in statements; `none` when there is no address."""
    return max((doubt(place, reading) for one in near for place in one.places), default=none)
