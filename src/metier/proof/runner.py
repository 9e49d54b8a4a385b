"""Running the suites of skills, tier by tier."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from metier._lazy import dataclass, field, replace
from metier._version import __version__
from metier.errors import FileRefused, MetierError
from metier.proof.behaviour import BehaviourSettings, run_behaviour
from metier.proof.form import run_form
from metier.proof.report import TIERS, CaseResult, Report, SkillReport, TierResult
from metier.proof.routing import run_routing
from metier.proof.rules import run_rules
from metier.proof.scripts import run_scripts
from metier.proof.subject import subject_of
from metier.store.rows import now

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metier import Entry, Library
    from metier.proof.report import Tier
    from metier.proof.subject import TestSubject
    from metier.proof.suite import Suite


class Listener(Protocol):
    """Told of results as they come, for whoever shows progress."""

    def begin(self, skill: str, tier: Tier) -> None:
        """A tier of a skill begins."""

    def end(self, skill: str, result: TierResult) -> None:
        """A tier of a skill has its result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestSettings:
    """The choices of whoever tests."""

    __test__ = False  # pytest would take it for a test

    tiers: tuple[Tier, ...] = TIERS
    suite: Suite | None = None
    """The suite of all skills, instead of their own."""
    network: bool = False
    """Whether cases are run that reach the hosts which their suite names; policy has the last word about those."""
    listener: Listener | None = None
    behaviour: BehaviourSettings = field(default_factory=BehaviourSettings)


def test_skills(library: Library, entries: Iterable[Entry], settings: TestSettings) -> Report:
    """Test skills of a library; one that cannot be tested is a failure of its own."""
    started, begin = now(), time.monotonic()
    skills = tuple(_test_skill(library, entry, settings) for entry in entries)
    cost = sum(tier.cost for skill in skills for tier in skill.tiers)
    return Report(skills=skills, started_at=started, seconds=time.monotonic() - begin, cost=cost, version=__version__)


test_skills.__test__ = False  # type: ignore[attr-defined]


def _test_skill(library: Library, entry: Entry, settings: TestSettings) -> SkillReport:
    try:
        with subject_of(entry, settings.suite, network=settings.network) as subject:
            tiers = tuple(_run_tier(tier, library, subject, settings) for tier in settings.tiers)
            return SkillReport(
                name=subject.name,
                digest=subject.digest,
                location=subject.location,
                tiers=tiers,
                notes=subject.suite.notes,
            )
    except (MetierError, OSError) as error:
        # A file of the skill may have a name that this disk cannot hold; the other skills are tested all the same.
        known = error if isinstance(error, MetierError) else _disk_problem(error)
        form = TierResult.of("form", [CaseResult.of_error("readable", known)])
        return SkillReport(name=entry.name, digest="", location=entry.location, tiers=(form,))


def _disk_problem(error: OSError) -> MetierError:
    return FileRefused(
        f"It cannot be tested on this disk: {error.strerror}.", hint="Look at the names of its files and of its suite."
    )


def _run_tier(tier: Tier, library: Library, subject: TestSubject, settings: TestSettings) -> TierResult:
    if settings.listener is not None:
        settings.listener.begin(subject.name, tier)
    begin = time.monotonic()
    result = replace(_run(tier, library, subject, settings), seconds=time.monotonic() - begin)
    if settings.listener is not None:
        settings.listener.end(subject.name, result)
    return result


def _run(tier: Tier, library: Library, subject: TestSubject, settings: TestSettings) -> TierResult:
    """The result of a tier; what keeps it from being run is that of each of its cases, and not of other tiers."""
    ids = [tier] if tier == "form" else [case.id for case in getattr(subject.suite, tier)]
    if not ids:
        return TierResult.of(tier, [])
    runs = {
        "form": lambda: run_form(subject),
        "routing": lambda: run_routing(library, subject),
        "scripts": lambda: run_scripts(subject, settings.behaviour.budget),
        "rules": lambda: run_rules(subject),
        "behaviour": lambda: run_behaviour(subject, settings.behaviour),
    }
    try:
        return runs[tier]()
    except MetierError as error:
        return TierResult.of(tier, [CaseResult.of_error(id_, error) for id_ in ids])
