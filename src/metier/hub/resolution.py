"""The skills that others need: chosen from the source, or found installed, so that every range of versions holds."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, cast

from metier._lazy import dataclass, replace
from metier.errors import MetierError, RequirementsConflict
from metier.skill import parse, shown
from metier.skill.skill_requirement import SkillRequirement, comes_from, parse_skill_requirement, version_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from metier.hub.sources.fetch import Candidate
    from metier.library import SkillLookup
    from metier.library.lock_file import LockedSkill

_MOST_ROUNDS = 1_000
"""The most steps beyond the skills that were chosen; each of them keeps a list of all that was settled before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """A version of a skill that a requirement may be met by."""

    name: str
    version: str
    packages: tuple[str, ...]
    """The names of its package and source."""
    requires: tuple[SkillRequirement, ...]
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
) -> tuple[list[Candidate], list[str]]:
    """The chosen skills behind all that they need and that is not there, and notes about what is nowhere.

    What is needed is taken from the same source first, in the newest version that fits and was not withdrawn, and else
    may be installed already. Raises `RequirementsConflict`, in words, where ranges exclude each other.
    """
    choices = _Choices(available, {skill.name: skill for skill in installed}, library, source)
    wanted = [choices.of_candidate(one) for one in chosen]
    if not any(one.requires for one in wanted):
        return list(chosen), []
    import resolvelib

    resolver: Any = resolvelib.Resolver(
        cast("Any", _Provider(choices, {one.name: one for one in wanted})), resolvelib.BaseReporter()
    )
    try:
        result = resolver.resolve(
            [SkillRequirement(name=one.name) for one in wanted], max_rounds=_MOST_ROUNDS + len(wanted)
        )
    except resolvelib.ResolutionImpossible as error:
        raise RequirementsConflict(
            _explained(list(error.causes), choices), hint="Add other versions of them, or ask their authors."
        ) from None
    except resolvelib.ResolutionTooDeep:
        raise RequirementsConflict("The skills need too many others.", hint="Add them one by one.") from None
    found: dict[str, _Choice] = result.mapping
    needed_by: dict[str, list[str]] = {}
    for one in found.values():
        for requirement in one.requires:
            needed_by.setdefault(requirement.name, []).append(one.name)
    ordered = list(_in_order(found, [one.name for one in wanted]))
    asked = {one.name for one in wanted}
    notes = [
        f"{' and '.join(needed_by[one.name])} needs {one.name!r}, which neither the source has nor is installed."
        for one in ordered
        if one.is_absent
    ]
    return [
        one.candidate
        if one.name in asked
        else replace(one.candidate, notes=(*one.candidate.notes, f"Needed by {', '.join(needed_by[one.name])}."))
        for one in ordered
        if one.candidate is not None
    ], notes


class _Choices:
    """All versions of each skill that there are, looked up by name; files are read only for names that are needed."""

    def __init__(
        self,
        available: Sequence[Candidate],
        installed: Mapping[str, LockedSkill],
        library: SkillLookup | None,
        source: str,
    ) -> None:
        self._available, self._installed, self._library, self._source = available, installed, library, source

    def of_candidate(self, one: Candidate) -> _Choice:
        """The choice that a candidate is."""
        skill = parse(one.skill_file(), folder=one.folder).skill
        return _Choice(
            name=skill.name,
            version=skill.version or one.version,
            packages=(one.package, self._source),
            requires=_parsed(skill.requires),
            candidate=one,
        )

    @functools.cached_property
    def _by_name(self) -> dict[str, list[_Choice]]:
        """All of them, for a name that no folder has."""
        found: dict[str, list[_Choice]] = {}
        for one in self._available:
            if not one.yanked:
                choice = self.of_candidate(one)
                found.setdefault(choice.name, []).append(choice)
        return found

    @functools.cache  # noqa: B019  (it lives no longer than one resolution)
    def named(self, name: str) -> list[_Choice]:
        """The versions of a skill: those of the source, the newest first, and then the one that is installed."""
        # In nearly all sources the folder has the name.
        same = [self.of_candidate(one) for one in self._available if one.folder == name and not one.yanked]
        found = [one for one in same if one.name == name] or self._by_name.get(name, [])
        found = sorted(found, key=lambda one: _order(one.version), reverse=True)
        return [*found, *self._here(name)]

    def _here(self, name: str) -> Iterator[_Choice]:
        if locked := self._installed.get(name):
            yield _Choice(
                name=name,
                version=locked.version,
                packages=(locked.package, locked.source),
                requires=_parsed(locked.requires),
            )
        if self._library is not None:
            try:
                entry = self._library.get(name)
            except MetierError:
                return
            if entry.name == name:
                skill = entry.skill
                packages = (entry.source,)
                yield _Choice(
                    name=name, version=skill.version or "", packages=packages, requires=_parsed(skill.requires)
                )


def _parsed(requires: Iterable[str]) -> tuple[SkillRequirement, ...]:
    return tuple(parse_skill_requirement(text) for text in requires)


def _order(version: str) -> tuple[bool, Any]:
    found = version_of(version)
    return (found is not None, found or 0)


class _Provider:
    """The answers to all that `resolvelib` asks about skills."""

    def __init__(self, choices: _Choices, fixed: Mapping[str, _Choice]) -> None:
        self._choices, self._fixed = choices, fixed

    def identify(self, requirement_or_candidate: SkillRequirement | _Choice) -> str:
        """The name that only one version can have."""
        return requirement_or_candidate.name

    def get_preference(self, identifier: str, **_: Any) -> bool:
        """Those that were named by a person are settled first."""
        return identifier not in self._fixed

    def find_matches(
        self,
        identifier: str,
        requirements: Mapping[str, Iterator[SkillRequirement]],
        incompatibilities: Mapping[str, Iterator[_Choice]],
    ) -> list[_Choice]:
        """The versions that may be taken, the best first."""
        wanted, against = list(requirements[identifier]), list(incompatibilities[identifier])
        every = [self._fixed[identifier]] if identifier in self._fixed else self._choices.named(identifier)
        if not every:
            every = [_Choice(name=identifier, version="", packages=(), requires=(), is_absent=True)]
        return [one for one in every if one not in against and all(self.is_satisfied_by(each, one) for each in wanted)]

    def is_satisfied_by(self, requirement: SkillRequirement, candidate: _Choice) -> bool:
        """Whether a version is what is needed."""
        if candidate.is_absent:
            return True
        if requirement.package and not comes_from(requirement.package, *candidate.packages):
            return False
        return requirement.allows(candidate.version)

    def get_dependencies(self, candidate: _Choice) -> tuple[SkillRequirement, ...]:
        """The skills that a version needs itself."""
        return candidate.requires

    def narrow_requirement_selection(self, identifiers: Iterable[str], **_: Any) -> Iterable[str]:
        """All of them may be next."""
        return identifiers


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


def _explained(causes: Sequence[Any], choices: _Choices) -> str:
    """The conflict in words: who needs what, and what there is."""
    needs = dict.fromkeys(
        f"{cause.parent.name} needs {cause.requirement}" for cause in causes if cause.parent is not None
    )
    name = causes[0].requirement.name if causes else ""
    versions = dict.fromkeys(shown(one.version) or "no version" for one in choices.named(name))
    there = f"there is {' and '.join(versions)} of {shown(name)!r}" if versions else f"there is no {shown(name)!r}"
    return shown(f"{', but '.join(needs) or 'The skills exclude each other'}; {there}.", 1_000)
