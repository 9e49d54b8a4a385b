"""Resolution of declared packages: each to one version and the hashes of its files, by the index or by the lock."""

from __future__ import annotations

import json
import os
import re
import tempfile
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from metier._lazy import dataclass, field
from metier._paths import short_digest
from metier.errors import PackagesRefused
from metier.hints import for_people
from metier.hub.packages.declared import declared_by
from metier.hub.packages.index_settings import NPM, npm_registry
from metier.hub.packages.tools import run_uv
from metier.run.environment import find_program
from metier.run.packages import platform_tag, python_version
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from metier.hub.packages.declared import Declared
    from metier.skill.package import Files
    from metier.skill.script_packages import PackageKind

_HASH = re.compile(r"\s+--hash=(sha256:[0-9a-f]{64})(?=\s|$)")
_NPM_PATH = re.compile(
    r"(?:node_modules/(?:@[\w.~-]+/)?[.~-]*\w[\w.~-]*)(?:/node_modules/(?:@[\w.~-]+/)?[.~-]*\w[\w.~-]*)*"
)
_INTEGRITY = re.compile(r"sha(?:512|384|256)-[A-Za-z0-9+/=]{40,100}")
_NOT_GIVEN = frozenset({"resolved", "hasInstallScript", "license", "funding", "deprecated"})
NPM_PREFIX = "npm:"
"""Before the packages of npm, in a list with those of Python."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The exact packages of one language that a skill's scripts get."""

    kind: PackageKind
    requirements: tuple[str, ...]
    """One line for each package, sorted: its version and the hashes of its files. They stand in the lock."""
    inputs: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The package.json and the lock of npm, which it is built from."""
    notes: tuple[str, ...] = ()
    """Sentences for the person who decides."""

    @property
    def digest(self) -> str:
        """The identity of the environment that is built of it: packages, where they lie, interpreter and machine."""
        # The same packages of npm make other environments in other folders, or under other names.
        text = "\n".join((platform_tag(self.kind), *self.requirements, json.dumps(self.inputs, sort_keys=True)))
        return f"sha256:{short_digest(text.encode(), 64)}"

    @property
    def names(self) -> tuple[str, ...]:
        """The packages with their versions, for people: `pandas==3.0.1`."""
        return tuple(line.split(" ")[0] for line in self.requirements)


def resolve_packages(
    files: Files, *, locked: Collection[str] = (), may_run_unsandboxed: bool = False
) -> tuple[Resolution, ...]:
    """The exact packages that the scripts of a skill need, one resolution for each language; none declared, none given.

    Python packages are resolved by the index unless the lines of a lock, `locked`, say what they are; those of npm are
    what the skill's own lock says. Raises `PackagesRefused` for what cannot be had as files with hashes.
    """
    declared = declared_by(files)
    found: list[Resolution] = []
    if declared.python:
        _require_version(declared)
        own = [line for line in locked if not line.startswith(NPM_PREFIX)]
        lines = own or _compiled(declared, may_run_unsandboxed)
        found.append(Resolution(kind="python", requirements=_checked_lines(lines, declared)))
    if declared.manifest is not None and declared.lock is not None:
        exact, notes = _npm_lines(declared.lock)
        inputs = {"package.json": declared.manifest, "package-lock.json": _plain_lock(declared.lock)}
        found.append(Resolution(kind="npm", requirements=exact, inputs=inputs, notes=notes))
        if locked and {line for line in locked if line.startswith(NPM_PREFIX)} != set(exact):
            raise PackagesRefused(
                "The lock has other packages of npm than the skill.",
                hint=for_people("`metier update` resolves them again."),
            )
    return tuple(found)


def _require_version(declared: Declared) -> None:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    here = python_version(find_program("python3"))
    for wanted in declared.python_versions:
        try:
            fits = SpecifierSet(wanted).contains(f"{here}.99", prereleases=True) or SpecifierSet(wanted).contains(here)
        except InvalidSpecifier:
            fits = False
        if not fits:
            raise PackagesRefused(
                f"A script asks for Python {shown(wanted)!r}, and python3 is {here} here.",
                hint="Put another python3 on the PATH.",
            )


def _compiled(declared: Declared, may_run_unsandboxed: bool) -> list[str]:
    """The lines that uv resolves requirements to; wheels only, so that nothing of a package is executed for it."""
    with tempfile.TemporaryDirectory(prefix="metier-resolve-") as folder:
        folder = os.path.realpath(folder)
        with open(os.path.join(folder, "requirements.in"), "w", encoding="utf-8") as file:
            file.write("\n".join(declared.python) + "\n")
        command = ("compile", "requirements.in", "--output-file", "resolved.txt")
        options = ("--universal", "--generate-hashes", "--no-annotate", "--no-header")
        what = "resolving the Python packages"
        run_uv((*command, *options), folder, what=what, may_run_unsandboxed=may_run_unsandboxed)
        with open(os.path.join(folder, "resolved.txt"), encoding="utf-8") as file:
            text = file.read().replace("\\\n", " ")
    return [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def _checked_lines(lines: Sequence[str], declared: Declared) -> tuple[str, ...]:
    """Lines of exact versions with hashes, in one spelling; raises for anything else, whoever wrote it."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    found = []
    for line in lines:
        hashes = set(_HASH.findall(line))
        try:
            one = Requirement(_HASH.sub("", line).strip())
        except (InvalidRequirement, RecursionError):
            one = None
        exact = one is not None and one.url is None and [spec.operator for spec in one.specifier] == ["=="]
        if one is None or not exact or not hashes:
            raise PackagesRefused(
                f"{shown(line)!r} is no exact version with a hash.",
                hint=for_people("`metier update` resolves it again."),
            )
        wanted = declared.hashes.get(canonicalize_name(one.name))
        if wanted is not None:
            hashes &= {f"sha256:{digest}" for digest in wanted}
            if not hashes:
                raise PackagesRefused(
                    f"No file of {one.name} has a hash that requirements.txt demands.",
                    hint="The index has other files than its author had: ask them.",
                )
        marker = f" ; {one.marker}" if one.marker is not None else ""
        name = f"{canonicalize_name(one.name)}{one.specifier}"
        found.append(f"{name}{marker}{''.join(f' --hash={digest}' for digest in sorted(hashes))}")
    _require_declared(found, declared)
    return tuple(sorted(found))


def _require_declared(lines: Sequence[str], declared: Declared) -> None:
    """Raise unless lines have all that is declared, in versions that fit: a lock comes with a project, and may lie."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    versions: dict[str, list[str]] = {}
    for line in lines:
        name, _, version = line.split(" ")[0].partition("==")
        versions.setdefault(name, []).append(version)
    for text in declared.python:
        wanted = Requirement(text)
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        there = versions.get(canonicalize_name(wanted.name), ())
        if not any(wanted.specifier.contains(version, prereleases=True) for version in there):
            raise PackagesRefused(
                f"The packages of the lock are not those of the skill: it needs {shown(text)!r}.",
                hint=for_people("`metier update` resolves it again."),
            )


def _npm_lines(lock: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The packages of a lock of npm; raises for one that is not a file of the registry with a hash."""
    hosts = {urlsplit(address).netloc.rpartition("@")[2] for address in (NPM, npm_registry()[0].default)}
    lines: set[str] = set()
    with_scripts: set[str] = set()
    for path, entry in lock["packages"].items():
        if path == "":
            continue
        name = path.rpartition("node_modules/")[2]
        if not _NPM_PATH.fullmatch(path) or not isinstance(entry, dict) or entry.get("link"):
            raise _npm_refused(path, "is no package of a registry")
        # That it lies in the file of another package is only said: npm fetches what is not there, without a hash.
        if entry.get("inBundle"):
            raise _npm_refused(path, "is bundled with another package, and has no hash of its own")
        at, integrity, version = (entry.get(key, "") for key in ("resolved", "integrity", "version"))
        own = entry.get("name", name)
        if not isinstance(own, str) or not _NPM_PATH.fullmatch(f"node_modules/{own}") or "/node_modules/" in own:
            raise _npm_refused(path, f"is called {shown(str(own))!r}, which is no name")
        parts = urlsplit(at) if isinstance(at, str) else None
        if parts is None or (at and (parts.scheme not in ("https", "http") or parts.netloc not in hosts)):
            raise _npm_refused(path, f"comes from {shown(str(at))!r}, which is not the registry")
        # Of several hashes npm is content with any; those of SHA-1, which old locks have too, do not count.
        known = [one for one in str(integrity).split() if not one.startswith("sha1-")]
        if (
            len(known) != 1
            or not _INTEGRITY.fullmatch(known[0])
            or not isinstance(version, str)
            or not re.fullmatch(r"[\w.+-]{1,100}", version)
        ):
            raise _npm_refused(path, "has no version with a hash, one only, of at least SHA-256")
        lines.add(f"{NPM_PREFIX}{own}@{version} {known[0]}")
        if entry.get("hasInstallScript"):
            with_scripts.add(name)
    notes = [f"{shown(name)} has an install script, which is not run." for name in sorted(with_scripts)]
    return tuple(sorted(lines)), tuple(notes)


def _plain_lock(lock: Mapping[str, Any]) -> dict[str, Any]:
    """A lock without addresses, so that npm asks the registry for exactly the package that a person was shown."""
    plain = {
        path: {key: value for key, value in entry.items() if key not in _NOT_GIVEN}
        for path, entry in lock["packages"].items()
        if isinstance(entry, dict)
    }
    return {**lock, "packages": plain}


def _npm_refused(path: str, why: str) -> PackagesRefused:
    return PackagesRefused(
        f"{shown(path)!r} of the package-lock.json {why}.", hint="Only packages of the registry with a hash are taken."
    )
