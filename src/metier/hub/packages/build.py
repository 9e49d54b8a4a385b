"""Builds of environments: once for each resolution, into the cache, whole or not at all."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from typing import TYPE_CHECKING

from metier._paths import locked_folder, safe_rmtree, write_file
from metier.errors import PackagesRefused
from metier.hub.packages.index_settings import npm_registry
from metier.hub.packages.tools import npm_program, run_tool, run_uv
from metier.run.packages import (
    CONTENT,
    FILES,
    MANIFEST,
    environments_folder,
    hashes_of,
    is_whole,
    platform_tag,
    read_record,
    record_path,
    state_of,
)
from metier.skill.package import digest_of_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metier.hub.packages.resolution import Resolution
    from metier.skill.package import Files

_STAGING = ".building-"


def provide(files: Files, resolutions: Sequence[Resolution], *, may_run_unsandboxed: bool = False) -> None:
    """Build what the scripts of a skill need, and record that this content of it has it."""
    if not resolutions:
        return
    record = {one.kind: build(one, may_run_unsandboxed=may_run_unsandboxed) for one in resolutions}
    path = record_path(digest_of_files(files))
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    write_file(path, json.dumps({kind: os.path.basename(folder) for kind, folder in record.items()}).encode())


def build(resolution: Resolution, *, may_run_unsandboxed: bool = False) -> str:
    """The folder of the environment; where there is a whole one, nothing is done and nobody asked.

    Raises `PackagesRefused` where a file has another hash than the resolution says, or cannot be had.
    """
    above, kind = environments_folder(), resolution.kind
    folder = os.path.join(above, resolution.digest.removeprefix("sha256:"))
    os.makedirs(above, mode=0o700, exist_ok=True)
    with locked_folder(above):
        if is_whole(folder, kind, read_record(os.path.join(folder, MANIFEST))):
            return folder
        for name in os.listdir(above):
            if name.startswith(_STAGING):  # of a build that was killed
                safe_rmtree(os.path.join(above, name))
        staging = tempfile.mkdtemp(prefix=_STAGING, dir=above)
        try:
            content = os.path.join(staging, CONTENT[kind])
            _INSTALL[kind](resolution, staging, may_run_unsandboxed)
            os.makedirs(content, exist_ok=True)
            for name in set(os.listdir(staging)) - {CONTENT[kind]}:
                path = os.path.join(staging, name)
                safe_rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
            _close(content)
            write_file(os.path.join(staging, FILES), json.dumps(hashes_of(content)).encode())
            manifest = {"for": platform_tag(kind), "state": state_of(content), "packages": resolution.requirements}
            write_file(os.path.join(staging, MANIFEST), json.dumps(manifest).encode(), sync=True)
            # A damaged one, which no run uses, goes first.
            safe_rmtree(folder)
            os.rename(staging, folder)
        finally:
            safe_rmtree(staging)
    return folder


def _install_python(resolution: Resolution, staging: str, may_run_unsandboxed: bool) -> None:
    with open(os.path.join(staging, "requirements.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(resolution.requirements) + "\n")
    command = ("install", "--requirement", "requirements.txt", "--target", CONTENT["python"])
    options = ("--require-hashes", "--no-deps", "--link-mode", "copy", "--compile-bytecode")
    what = "installing the Python packages"
    run_uv((*command, *options), staging, what=what, may_run_unsandboxed=may_run_unsandboxed)


def _install_npm(resolution: Resolution, staging: str, may_run_unsandboxed: bool) -> None:
    indexes, login = npm_registry()
    for name, data in resolution.inputs.items():
        with open(os.path.join(staging, name), "w", encoding="utf-8") as file:
            json.dump(data, file)
    write_file(os.path.join(staging, ".user-npmrc"), login.encode())
    options = ("--ignore-scripts", "--omit=dev", "--no-bin-links", "--no-audit", "--no-fund", "--no-update-notifier")
    run_tool(
        (npm_program(), "ci", *options, "--loglevel=error", "--cache", ".npm-cache", "--registry", indexes.default),
        staging,
        indexes=indexes,
        variables={
            "NPM_CONFIG_USERCONFIG": os.path.join(staging, ".user-npmrc"),
            "NPM_CONFIG_GLOBALCONFIG": os.devnull,
        },
        what="installing the packages of npm",
        may_run_unsandboxed=may_run_unsandboxed,
    )


_INSTALL = {"python": _install_python, "npm": _install_npm}


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
