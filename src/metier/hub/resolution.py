"""The skills that others need: chosen from sources, or found installed, so that every range of versions holds."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

from resolvelib import AbstractProvider, BaseReporter, ResolutionImpossible, ResolutionTooDeep, Resolver

from metier._lazy import dataclass, replace
from metier.errors import MetierError, RequirementsConflict
from metier.skill import parse, shown
from metier.skill.skill_requirement import SkillRequirement, comes_from, parse_skill_requirement, version_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from metier.hub.sources.fetch import Candidate
    from metier.library import SkillLookup
    from metier.library.lock_file import LockedSkill

_MOST_ROUNDS = 1_000
"""The most steps beyond the skills that were chosen; each of them keeps a list of all that was settled before."""
_MOST_NEEDED = 500
"""The most names that skills may need, beyond those that were chosen: each step looks at all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """A version of a skill that a requirement may be met by."""

    name: str
    version: str = ""
    packages: tuple[str, ...] = ()
    """The names of its package and source."""
    requires: tuple[SkillRequirement, ...] = ()
    candidate: Candidate | None = None
    """Where it would be installed from; None for one that is installed."""
    is_absent: bool = False
    """Whether it only stands for a skill that is nowhere, which the person may add later."""


def with_requirements(
    chosen: Sequence[Candidate],
    available: Sequence[Candidate],
    installed: Iterable[LockedSkill] = (),
    library: SkillLookup | None = None,
    *,
    source: str = "",
    elsewhere: Iterable[Candidate] = (),
) -> tuple[list[Candidate], list[str]]:
    """The chosen skills behind all that they need and that is not there, and notes about what is nowhere.

    What is needed is taken from the same source first, in the newest version that fits and was not withdrawn. Else it
    may be installed already, or `elsewhere`, which is looked through only then. Raises `RequirementsConflict`, in
    words, where ranges exclude each other.
    """
    skills = _Skills(chosen, available, installed, library, source, elsewhere)
    names = list(skills.chosen)
    if not any(one.requires for one in skills.chosen.values()):
        return list(chosen), []
    resolver: Resolver[SkillRequirement, _Choice, str] = Resolver(skills, BaseReporter())
    try:
        found = resolver.resolve(
            [SkillRequirement(name=name) for name in names], max_rounds=_MOST_ROUNDS + len(names)
        ).mapping
    except ResolutionImpossible as error:
        raise RequirementsConflict(
            _explained(list(error.causes), skills), hint="Add other versions of them, or ask their authors."
        ) from None
    except ResolutionTooDeep:
        raise _too_many() from None
    needed_by: dict[str, list[str]] = {}
    for one in found.values():
        for requirement in one.requires:
            needed_by.setdefault(requirement.name, []).append(one.name)
    needed: list[Candidate] = []
    notes: list[str] = []
    for one in _in_order(found, names):
        if one.is_absent:
            by = " and ".join(needed_by[one.name])
            notes.append(f"{by} needs {one.name!r}, which neither the source has nor is installed.")
        elif one.candidate is not None and one.name in skills.chosen:
            needed.append(one.candidate)
        elif one.candidate is not None:
            why = f"Needed by {', '.join(needed_by[one.name])}."
            needed.append(replace(one.candidate, notes=(*one.candidate.notes, why)))
    return needed, notes


class _Skills(AbstractProvider[SkillRequirement, _Choice, str]):
    """The answers to all that `resolvelib` asks about skills; files are read only for names that are needed."""

    def __init__(
        self,
        chosen: Sequence[Candidate],
        available: Sequence[Candidate],
        installed: Iterable[LockedSkill],
        library: SkillLookup | None,
        source: str,
        elsewhere: Iterable[Candidate],
    ) -> None:
        self._available, self._library, self._source, self._others = available, library, source, elsewhere
        self._needed: set[str] = set()
        self._installed = {skill.name: skill for skill in installed}
        self.chosen = {choice.name: choice for choice in map(self._choice, chosen)}

    def identify(self, requirement_or_candidate: SkillRequirement | _Choice) -> str:
        """The name that only one version can have."""
        return requirement_or_candidate.name

    def get_preference(self, identifier: str, *_: Any, **__: Any) -> bool:
        """Skills that a person named are settled first."""
        return identifier not in self.chosen

    def find_matches(
        self,
        identifier: str,
        requirements: Mapping[str, Iterator[SkillRequirement]],
        incompatibilities: Mapping[str, Iterator[_Choice]],
    ) -> list[_Choice]:
        """The versions that may be taken, the best first."""
        wanted, against = list(requirements[identifier]), list(incompatibilities[identifier])
        every = [self.chosen[identifier]] if identifier in self.chosen else self.named(identifier)
        every = every or [_Choice(name=identifier, is_absent=True)]
        return [one for one in every if one not in against and all(self.is_satisfied_by(each, one) for each in wanted)]

    def is_satisfied_by(self, requirement: SkillRequirement, candidate: _Choice) -> bool:
        """Whether a version is what is needed."""
        is_from_there = not requirement.package or comes_from(requirement.package, *candidate.packages)
        return candidate.is_absent or (is_from_there and requirement.allows(candidate.version))

    def get_dependencies(self, candidate: _Choice) -> tuple[SkillRequirement, ...]:
        """The skills that a version needs itself; raises where there are too many altogether."""
        self._needed.update(one.name for one in candidate.requires)
        if len(self._needed) > _MOST_NEEDED + len(self.chosen):
            raise _too_many()
        return candidate.requires

    @functools.cache  # noqa: B019  (it lives no longer than one resolution)
    def named(self, name: str) -> list[_Choice]:
        """The versions of a skill: those of the source, the newest first, and the installed one, else others."""
        # In nearly all sources the folder has the name.
        same = _by_name(self._choice, (one for one in self._available if one.folder == name))
        found = same.get(name) or self._all_available.get(name, [])
        return [*found, *self._here(name)] or self._all_elsewhere.get(name, [])

    @functools.cached_property
    def _all_available(self) -> dict[str, list[_Choice]]:
        return _by_name(self._choice, self._available)

    @functools.cached_property
    def _all_elsewhere(self) -> dict[str, list[_Choice]]:
        return _by_name(self._choice, self._others)

    def _choice(self, one: Candidate) -> _Choice:
        skill = parse(one.skill_file(), folder=one.folder).skill
        return _Choice(
            name=skill.name,
            version=skill.version or one.version,
            packages=(one.package, one.resolved.address.name if one.resolved is not None else self._source),
            requires=_parsed(skill.requires),
            candidate=one,
        )

    def _here(self, name: str) -> Iterator[_Choice]:
        if locked := self._installed.get(name):
            packages = (locked.package, locked.source)
            yield _Choice(name=name, version=locked.version, packages=packages, requires=_parsed(locked.requires))
        with contextlib.suppress(MetierError):
            entry = self._library.get(name) if self._library is not None else None
            if entry is not None and entry.name == name:
                requires = _parsed(entry.skill.requires)
                version = entry.skill.version or ""
                yield _Choice(name=name, version=version, packages=(entry.source,), requires=requires)


def _by_name(choice: Callable[[Candidate], _Choice], candidates: Iterable[Candidate]) -> dict[str, list[_Choice]]:
    """The versions of each skill that can be chosen, the newest first."""
    found: dict[str, list[_Choice]] = {}
    for one in candidates:
        if not one.yanked and not one.is_plugin:
            with contextlib.suppress(MetierError):  # of one that nobody asked for
                made = choice(one)
                found.setdefault(made.name, []).append(made)
    return {name: sorted(each, key=lambda one: _order(one.version), reverse=True) for name, each in found.items()}


def _too_many() -> RequirementsConflict:
    return RequirementsConflict("The skills need too many others.", hint="Add them one by one.")


def _parsed(requires: Iterable[str]) -> tuple[SkillRequirement, ...]:
    return tuple(map(parse_skill_requirement, requires))


def _order(version: str) -> tuple[bool, Any]:
    found = version_of(version)
    return (found is not None, found or 0)


def _in_order(found: Mapping[str, _Choice], names: Iterable[str]) -> Iterator[_Choice]:
    """Each skill behind all that it needs; skills that need each other in any order."""
    seen: set[str] = set()
    waiting: list[tuple[str, bool]] = [(name, False) for name in reversed(list(names))]
    while waiting:
        name, is_ready = waiting.pop()
        if is_ready:
            yield found[name]
        elif name not in seen:
            seen.add(name)
            waiting.append((name, True))
            waiting += [(one.name, False) for one in reversed(found[name].requires) if one.name in found]


def _explained(causes: Sequence[Any], skills: _Skills) -> str:
    """The conflict in words: who needs what, and what there is."""
    needs = dict.fromkeys(
        f"{cause.parent.name} needs {cause.requirement}" for cause in causes if cause.parent is not None
    )
    name = causes[0].requirement.name if causes else ""
    versions = dict.fromkeys(shown(one.version) or "no version" for one in skills.named(name))
    there = f"there is {' and '.join(versions)} of {shown(name)!r}" if versions else f"there is no {shown(name)!r}"
    return shown(f"{', but '.join(needs) or 'The skills exclude each other'}; {there}.", 1_000)
