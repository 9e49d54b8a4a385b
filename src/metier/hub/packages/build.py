"""Environments of packages: resolved to exact files, and built once for each list of them, whole or not at all."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from typing import TYPE_CHECKING

from metier._lazy import replace
from metier._paths import locked_folder, safe_rmtree, short_digest, write_file
from metier.errors import PackagesRefused
from metier.hints import for_people
from metier.hub.packages.npm import install_npm, read_npm
from metier.hub.packages.plan import NO_PACKAGES
from metier.hub.packages.python import install_python, read_requirements, resolve_python
from metier.hub.packages.tools import PackageTools
from metier.run.packages import CONTENT, MANIFEST, fingerprint, is_whole, platform_tag
from metier.skill.package import digest_of_files
from metier.skill.script_packages import (
    NPM_PREFIX,
    declaring_files,
    environments_folder,
    package_record,
    read_cached,
    record_path,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from metier.hub.packages.plan import PackagePlan
    from metier.skill.package import Files
    from metier.skill.script_packages import PackageKind

_STAGING = ".building-"
_TOOLS = PackageTools()


def resolve_packages(files: Files, *, locked: Collection[str] = (), tools: PackageTools = _TOOLS) -> PackagePlan:
    """The exact packages that the scripts of a skill need.

    Python packages are resolved by the index unless the lines of a lock, `locked`, say what they are; those of npm are
    what the skill's own lock says. Raises `PackagesRefused` for what cannot be had as files with hashes.
    """
    contents = {path: data for path, (mode, data) in files.items() if mode != "link"}
    declared = declaring_files(contents, contents.__getitem__)
    plan, manifests = NO_PACKAGES, [path for path, kind in declared.items() if kind == "npm"]
    requirements = read_requirements(contents, [path for path in declared if path not in manifests])
    if requirements:
        own = [line for line in locked if not line.startswith(NPM_PREFIX)]
        plan = replace(plan, python=resolve_python(requirements, own, tools))
    if manifests:
        npm, npm_files, notes = read_npm(contents, manifests)
        plan = replace(plan, npm=npm, npm_files=npm_files, notes=notes)
        if locked and {line for line in locked if line.startswith(NPM_PREFIX)} != set(npm):
            raise PackagesRefused(
                "The lock has other packages of npm than the skill.",
                hint=for_people("`metier update` resolves them again."),
            )
    return plan


def environments_of(plan: PackagePlan) -> dict[PackageKind, str]:
    """The name of the folder for the packages of each language: a digest of them, of interpreter and machine."""
    # The same packages of npm make other environments in other folders, or under other names.
    inputs: dict[PackageKind, tuple[str, ...]] = {"python": plan.python}
    inputs["npm"] = (*plan.npm, json.dumps(plan.npm_files, sort_keys=True)) if plan.npm else ()
    return {
        kind: short_digest("\n".join((platform_tag(kind), *lines)).encode(), 64)
        for kind, lines in inputs.items()
        if lines
    }


def provide(files: Files, plan: PackagePlan, tools: PackageTools = _TOOLS) -> None:
    """Record which packages this content of a skill gets, and build them where there is no whole environment.

    Raises `PackagesRefused` where a file has another hash than the plan says, or cannot be had.
    """
    environments, above = environments_of(plan), environments_folder()
    path = record_path(digest_of_files(files))
    for folder in (above, os.path.dirname(path)):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    write_file(path, json.dumps({"packages": plan.lines, "environments": environments}).encode())
    with locked_folder(above):
        for kind, name in environments.items():
            folder = os.path.join(above, name)
            if not is_whole(folder, kind, read_cached(os.path.join(folder, MANIFEST))):
                _build(plan, kind, folder, tools)


def _build(plan: PackagePlan, kind: PackageKind, folder: str, tools: PackageTools) -> None:
    above = os.path.dirname(folder)
    for name in os.listdir(above):
        if name.startswith(_STAGING):  # of a build that was killed
            safe_rmtree(os.path.join(above, name))
    staging = tempfile.mkdtemp(prefix=_STAGING, dir=above)
    try:
        content = os.path.join(staging, CONTENT[kind])
        if kind == "python":
            install_python(plan.python, staging, tools)
        else:
            install_npm(plan.npm_files, staging, tools)
        os.makedirs(content, exist_ok=True)
        for name in set(os.listdir(staging)) - {CONTENT[kind]}:
            path = os.path.join(staging, name)
            safe_rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
        _close(content)
        manifest = {
            "for": platform_tag(kind),
            "state": fingerprint(content),
            "content": fingerprint(content, reads=True),
        }
        write_file(os.path.join(staging, MANIFEST), json.dumps(manifest).encode(), sync=True)
        # A damaged one, which no run uses, goes first.
        safe_rmtree(folder)
        os.rename(staging, folder)
    finally:
        safe_rmtree(staging)


def prune(digests: Collection[str]) -> tuple[int, int]:
    """Remove the environments that none of these contents of skills uses; how many they were, and their bytes."""
    above = environments_folder()
    records = os.path.dirname(record_path(""))
    if not os.path.isdir(records):
        return 0, 0
    used, sizes = {os.path.basename(records)}, []
    with locked_folder(above):
        for name in os.listdir(records):
            if f"sha256:{name}" in digests:
                used |= {*package_record(name).environments.values()}
            else:
                os.unlink(os.path.join(records, name))
        for name in {*os.listdir(above)} - used:
            folder = os.path.join(above, name)
            paths = (os.path.join(parent, file) for parent, _, files in os.walk(folder) for file in files)
            sizes.append(sum(os.lstat(path).st_size for path in paths))
            safe_rmtree(folder)
    return len(sizes), sum(sizes)


def _close(folder: str) -> None:
    """Let nobody write to files of an environment, and let none of them lead out of it."""
    for above, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(above, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                raise PackagesRefused(f"A package has a link, {name!r}.", hint="Do without this package.")
            if stat.S_ISREG(mode):
                os.chmod(path, 0o555 if mode & 0o111 else 0o444)
