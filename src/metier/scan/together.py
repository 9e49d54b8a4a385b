"""What two skills can do together and neither alone: one takes secrets, another sends what it is given."""

from __future__ import annotations

from itertools import islice, permutations
from typing import TYPE_CHECKING, Literal, NamedTuple

from metier._regex_cache import kept_regex
from metier.scan.finding import Finding
from metier.scan.hosts import addresses
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from metier.scan.finding import Severity
    from metier.scan.report import ScanReport
    from metier.scan.rule import Hit

FACTS = {
    "takes": "(places-store or places-memory or places-clipboard or places-dotenv) and opens-file"
    " and not negated(opens-file)",
    "sends": "(sends-data or (words and order and send and not negated(send))) and receiver >= own"
    " or (sends-data and script and file(host >= own))",
}
"""The conditions by which a statement of a skill shows that it takes secrets, or sends to a host that few know."""
_PRIVATE = ("store", "memory", "clipboard", "dotenv")
_MOST = 5
_PLACE = kept_regex(r"[\w.~$/\\{}*-]{0,80}$")
_REST = kept_regex(r"[\w./\\*-]{0,80}")


class Fact(NamedTuple):
    """A place in a skill that takes or sends something, and what it takes or where it sends."""

    what: str
    path: str
    line: int

    def __str__(self) -> str:
        return f"{shown(self.what, 100)} ({shown(self.path, 200)}:{self.line})"


def taken(hits: Iterable[Hit]) -> tuple[Fact, ...]:
    """The secrets that statements take."""
    from metier.scan.flow.catalog import places_in

    found = []
    for hit in islice(hits, _MOST):
        where = next((place for sense, place in places_in(hit.text[:1_000].lower()) if sense in _PRIVATE), "secrets")
        at = hit.text.lower().find(where)
        before, behind = _PLACE.search(hit.text[: max(0, at)]), _REST.match(hit.text, at + len(where))
        whole = f"{before[0] if before else ''}{where}{behind[0] if behind else ''}" if at >= 0 else where
        found.append(Fact(whole, hit.path, hit.line))
    return tuple(found)


def sent(hits: Iterable[Hit]) -> tuple[Fact, ...]:
    """The hosts that statements send to."""
    hosts = ((next(addresses(hit.text, bare=True), None), hit) for hit in islice(hits, _MOST))
    return tuple(
        Fact(at.host.rstrip("}") if at is not None else "a host that it names", hit.path, hit.line) for at, hit in hosts
    )


def found_together(reports: Sequence[ScanReport], severity: Severity | Literal["off"] = "low") -> list[Finding]:
    """A finding for each two skills of which one takes secrets and the other sends; none where that is `off`."""
    if severity == "off":
        return []
    return [
        Finding(
            rule="TAKEN_AND_SENT",
            ast="AST01",
            category="data_exfiltration_disclosure",
            severity=severity,
            path=sent.path,
            line=sent.line,
            message=f"`{shown(one.name, 80)}` reads {taken}; "
            f"`{shown(other.name, 80)}` sends what it is given to {sent}.",
            hint="Use one without the other, or look at what goes where.",
            text=sent.what,
        )
        for one, other in permutations(reports, 2)
        if one.takes and other.sends
        for taken, sent in [(one.takes[0], other.sends[0])]
    ]
