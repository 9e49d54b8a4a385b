"""A skill that another one needs: its name, a range of versions, and the package that it is to come from.

`requires: [csv, pdf-forms>=1.2,<2, charts@acme/skills]` names three.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier._lazy import dataclass, pattern
from metier.errors import SkillInvalid
from metier.skill.untrusted_text import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packaging.version import Version

_BEFORE_RANGE = pattern(r"[^<>=!~]*")
_OPERATOR = ("<", ">", "=", "!", "~")


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillRequirement:
    """A skill that another one needs.

    >>> parse_skill_requirement("pdf-forms@acme/skills >=1.2, <2")
    SkillRequirement(name='pdf-forms', versions='>=1.2,<2', package='acme/skills')
    """

    name: str
    versions: str = ""
    """A range of versions, as Python packages have them; empty for any."""
    package: str = ""
    """The package or source that it is to come from; empty for any."""

    def __str__(self) -> str:
        return f"{self.name}{f'@{self.package}' if self.package else ''}{self.versions}"

    @property
    def reference(self) -> str:
        """The name that a library finds it by."""
        return f"{self.name}@{self.package}" if self.package else self.name

    def allows(self, version: str | None) -> bool:
        """Whether a version is in the range; one that is missing or cannot be compared is in no range but that of all.

        >>> parse_skill_requirement("a>=1,<2").allows("1.4"), parse_skill_requirement("a").allows(None)
        (True, True)
        """
        if not self.versions:
            return True
        from packaging.specifiers import SpecifierSet

        found = version_of(version)
        return found is not None and SpecifierSet(self.versions).contains(found, prereleases=True)


def parse_skill_requirement(text: str) -> SkillRequirement:
    """A requirement as it is written; raises `SkillInvalid` for one that cannot be understood."""
    from_where = _BEFORE_RANGE.match(text)[0]  # type: ignore[index]
    name, _, package = (part.strip() for part in from_where.partition("@"))
    versions = "".join(text[len(from_where) :].split())
    if versions:
        from packaging.specifiers import InvalidSpecifier, SpecifierSet

        try:
            if len(text) > 500 or not name or (name + package).split() != [name + package]:
                raise InvalidSpecifier
            SpecifierSet(versions)
        except InvalidSpecifier:
            raise SkillInvalid(
                f"{shown(text)!r} is no requirement of a skill.",
                hint="Write a name, and perhaps a range of versions: pdf-forms>=1.2,<2.",
            ) from None
    return SkillRequirement(name=name, versions=versions, package=package)


def required_name(text: str) -> str:
    """The name in a requirement, also in one that cannot be understood."""
    return _BEFORE_RANGE.match(text)[0].partition("@")[0].strip()  # type: ignore[index]


def version_of(text: str | None) -> Version | None:
    """A version that can be compared; None for one that cannot.

    >>> version_of("1.2") == version_of("v1.2.0"), version_of("newest")
    (True, None)
    """
    from packaging.version import InvalidVersion, Version

    try:
        return Version(text) if text and len(text) <= 200 else None
    except InvalidVersion:
        return None


def joined_requirements(items: Iterable[str]) -> tuple[str, ...]:
    """Requirements of which a list has made several, as commas part both requirements and ranges.

    >>> joined_requirements(["pdf-forms>=1.2", "<2", "csv"])
    ('pdf-forms>=1.2,<2', 'csv')
    """
    found: list[str] = []
    for item in items:
        if found and item.startswith(_OPERATOR):
            found[-1] += f",{item}" if any(sign in found[-1] for sign in _OPERATOR) else item
        else:
            found.append(item)
    return tuple(dict.fromkeys(found))


def comes_from(package: str, *names: str) -> bool:
    """Whether one of the names of a skill's package or source is meant by what a person wrote.

    >>> comes_from("acme/skills", "git+https://github.com/acme/skills"), comes_from("skills", "acme/skills")
    (True, False)
    """
    return any(name == package or (name.endswith(f"/{package}") and "/" in package) for name in names if name)
