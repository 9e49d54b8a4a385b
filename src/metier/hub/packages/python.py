"""Python packages: the requirements of a skill, their resolution to exact versions with hashes, their installation."""

from __future__ import annotations

import os
import tempfile
import tomllib
from typing import TYPE_CHECKING, NamedTuple

from metier._lazy import pattern
from metier.errors import PackagesRefused
from metier.hints import for_people
from metier.run.environment import find_program
from metier.run.packages import CONTENT, python_version
from metier.skill import shown
from metier.skill.script_packages import REQUIREMENTS, inline_metadata, requirement_lines

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from packaging.requirements import Requirement

    from metier.hub.packages.tools import PackageTools

MAX_REQUIREMENTS = 500
_PLAIN = "Only plain requirements are read, such as `pandas>=2,<3`: no addresses, paths, options or other files."
_HASH = pattern(r"\s--hash[= ]sha256:([0-9a-f]{64})(?=\s|$)")
_QUOTED = pattern(r"'[^']*'|\"[^\"]*\"")
_BOTH_QUOTES = pattern(r"'.*\"|\".*'")
_EXACT = pattern(r"==[^=*,]+")
_RESOLVE_AGAIN = for_people("`metier update` resolves it again.")


class RequirementLine(NamedTuple):
    """A plain requirement, and the SHA-256 of the files that may meet it; none for any file."""

    requirement: Requirement
    hashes: frozenset[str]
    is_needed: bool
    """Whether it is one for this interpreter and system."""

    @classmethod
    def parse(cls, text: str) -> RequirementLine:
        """Read a line; raises `ValueError`, whose text continues the line, for anything but a plain requirement."""
        from packaging.requirements import Requirement

        try:
            # A text in a marker that writes its own end, or lines, would be more than one requirement to uv.
            is_line = text.replace("\t", " ").isprintable() and "\\" not in text
            if not is_line or any(map(_BOTH_QUOTES.search, _QUOTED.findall(text))):
                raise ValueError
            found = Requirement(_HASH.sub("", text).strip())
            is_needed = found.marker is None or found.marker.evaluate({"extra": ""})
        except (ValueError, LookupError, RecursionError):  # a marker may compare what cannot be compared
            raise ValueError("is no plain requirement") from None
        if found.url is not None:
            raise ValueError("names an address")
        return cls(found, frozenset(_HASH.findall(text)), is_needed)

    @property
    def name(self) -> str:
        """The name of the package, in the one spelling that indexes compare."""
        from packaging.utils import canonicalize_name

        return canonicalize_name(self.requirement.name)


def read_requirements(contents: Mapping[str, bytes], paths: Iterable[str]) -> tuple[RequirementLine, ...]:
    """The requirements that files declare; raises `PackagesRefused` for what is no plain declaration."""
    found: dict[str, RequirementLine] = {}
    for path in paths:
        data = contents[path]
        texts = requirement_lines(data) if path in REQUIREMENTS else _read_inline(path, data)
        count = len({*found, *texts})
        if count > MAX_REQUIREMENTS:
            raise refusal(path, f"the skill declares {count:,} packages", f"At most {MAX_REQUIREMENTS} are resolved.")
        for text in texts:
            try:
                found[text] = RequirementLine.parse(text)
            except ValueError as problem:
                raise refusal(path, f"{shown(text)!r} {problem}", _PLAIN) from None
    return tuple(found.values())


def _read_inline(path: str, data: bytes) -> list[str]:
    """The requirements of a script's inline metadata; raises where it asks for another version of Python."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        block = tomllib.loads(inline_metadata(data) or "")
    except (ValueError, RecursionError) as error:
        raise refusal(path, f"its block of inline metadata cannot be read: {error}", "See PEP 723.") from None
    lines, version = block.get("dependencies", []), block.get("requires-python", "")
    if not isinstance(lines, list) or not all(isinstance(one, str) for one in lines) or not isinstance(version, str):
        raise refusal(path, "its dependencies are no list of texts", 'Write `dependencies = ["pandas>=2"]`.')
    here = python_version(find_program("python3"))
    try:
        fits = any(SpecifierSet(version).contains(one, prereleases=True) for one in (here, f"{here}.99"))
    except InvalidSpecifier:
        fits = False
    if not fits:
        why = f"it asks for Python {shown(version)!r}, and python3 is {here} here"
        raise refusal(path, why, "Put another python3 on the PATH.")
    return lines


def refusal(path: str, why: str, hint: str) -> PackagesRefused:
    """The error for a file whose declarations cannot be used."""
    return PackagesRefused(f"The packages of {shown(path)!r} cannot be installed: {why}.", hint=hint, path=path)


def resolve_python(
    declared: Sequence[RequirementLine], locked: Collection[str], tools: PackageTools
) -> tuple[str, ...]:
    """Lines of exact versions with hashes: those of a lock, where it has any, else those that the index resolves to."""
    found = [_exact(text, declared) for text in locked or _compile(declared, tools)]
    # A lock comes with a project, and may lie.
    for wanted in (one for one in declared if one.is_needed):
        specifier = wanted.requirement.specifier
        versions = [str(one.requirement.specifier)[2:] for one in found if one.name == wanted.name]
        if not any(specifier.contains(version, prereleases=True) for version in versions):
            raise PackagesRefused(
                f"The packages of the lock are not those of the skill: it needs {shown(str(wanted.requirement))!r}.",
                hint=_RESOLVE_AGAIN,
            )
    return tuple(sorted(map(_format_exact, found)))


def _compile(declared: Sequence[RequirementLine], tools: PackageTools) -> list[str]:
    """The lines that uv resolves requirements to; wheels only, so that nothing of a package is executed for it."""
    with tempfile.TemporaryDirectory(prefix="metier-resolve-") as folder:
        folder = os.path.realpath(folder)
        _write_lines(os.path.join(folder, "requirements.in"), sorted({str(one.requirement) for one in declared}))
        command = ("compile", "requirements.in", "--output-file", "resolved.txt")
        options = ("--universal", "--generate-hashes", "--no-annotate", "--no-header")
        tools.uv(*command, *options, folder=folder, what="resolving the Python packages")
        with open(os.path.join(folder, "resolved.txt"), "rb") as file:
            return requirement_lines(file.read())


def _exact(text: str, declared: Sequence[RequirementLine]) -> RequirementLine:
    """An exact version with hashes, of those that are demanded; raises for anything else, whoever wrote it."""
    try:
        found = RequirementLine.parse(text)
    except ValueError:
        found = None
    if found is None or not found.hashes or not _EXACT.fullmatch(str(found.requirement.specifier)):
        raise PackagesRefused(f"{shown(text)!r} is no exact version with a hash.", hint=_RESOLVE_AGAIN)
    demanded = frozenset[str]().union(*(one.hashes for one in declared if one.name == found.name))
    hashes = found.hashes & demanded if demanded else found.hashes
    if not hashes:
        raise PackagesRefused(
            f"No file of {found.name} has a hash that requirements.txt demands.",
            hint="The index has other files than its author had: ask them.",
        )
    return found._replace(hashes=hashes)


def _format_exact(line: RequirementLine) -> str:
    marker = f" ; {line.requirement.marker}" if line.requirement.marker is not None else ""
    hashes = "".join(f" --hash=sha256:{digest}" for digest in sorted(line.hashes))
    return f"{line.name}{line.requirement.specifier}{marker}{hashes}"


def install_python(lines: Sequence[str], staging: str, tools: PackageTools) -> None:
    """Install exact versions into a folder: wheels with these hashes and nothing else."""
    _write_lines(os.path.join(staging, "requirements.txt"), lines)
    command = ("install", "--requirement", "requirements.txt", "--target", CONTENT["python"])
    options = ("--require-hashes", "--no-deps", "--link-mode", "copy", "--compile-bytecode")
    tools.uv(*command, *options, folder=staging, what="installing the Python packages")


def _write_lines(path: str, lines: Iterable[str]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
