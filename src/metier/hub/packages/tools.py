"""Runs of uv and npm: in a sandbox, in a folder of their own, with the network of the package index and no other."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from metier._extras import optional
from metier.errors import IsolationMissing, PackagesRefused, PartMissing
from metier.hints import NO_ISOLATION
from metier.hub.packages.index_settings import python_indexes
from metier.run import Job, Limits
from metier.run.environment import find_program, search_path, which
from metier.run.job import MAX_SECONDS, NEEDS, JobPath, missing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from metier.hub.packages.index_settings import IndexSettings
    from metier.run import Outcome

_LIMITS = Limits(
    seconds=MAX_SECONDS,
    memory_bytes=4 * 1024**3,
    processes=400,
    file_bytes=4 * 1024**3,
    disk_bytes=8 * 1024**3,
    open_files=4096,
)
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS")
_UV_OPTIONS = ("--only-binary", ":all:", "--no-config", "--no-cache", "--no-python-downloads", "--quiet")
"""Options of every call of uv: nothing is built, and nothing is taken that anybody else has put into a cache."""
_MOST_SHOWN = 2_000
_LOGIN = re.compile(r"(?<=//)[^/@\s]+@")


def uv_program() -> str:
    """The path of uv: of the package of that name, or on the search path."""
    found = which("uv", search_path())
    try:
        with optional("Packages of scripts", "uv", extra="packages"):
            from uv import find_uv_bin

            return find_uv_bin()
    except (PartMissing, FileNotFoundError):
        if found is None:
            raise
        return found


def npm_program() -> str:
    """The path of npm."""
    found = which("npm", search_path())
    if found is None:
        raise PartMissing("Packages of npm need npm, which is not installed.", hint="Install Node.js with npm.")
    return found


def run_uv(command: Sequence[str], folder: str, *, what: str, may_run_unsandboxed: bool) -> None:
    """Run a command of `uv pip`, with the indexes of the user; see `run_tool`."""
    indexes = python_indexes()
    run_tool(
        (uv_program(), "pip", *command, *_UV_OPTIONS, "--python", find_program("python3")),
        folder,
        indexes=indexes,
        variables=indexes.variables(),
        what=what,
        may_run_unsandboxed=may_run_unsandboxed,
    )


def run_tool(
    command: Sequence[str],
    folder: str,
    *,
    indexes: IndexSettings,
    variables: Mapping[str, str],
    what: str,
    may_run_unsandboxed: bool = False,
) -> None:
    """Run a tool in a folder; raises `PackagesRefused` with what it says where it fails.

    It sees the folder, the machine's programs and nothing of the user. On a machine without a sandbox it does not run,
    unless policy lets jobs run without one.
    """
    from metier.run.selection import AutoRunner

    certificates = {name: os.environ[name] for name in _CERTIFICATES if name in os.environ}
    places = (*indexes.places, *(JobPath(path) for path in certificates.values() if os.path.exists(path)))
    hosts = indexes.hosts
    job = Job(
        argv=tuple(command),
        folder=folder,
        env={**certificates, **variables},
        limits=_LIMITS,
        places=(JobPath(folder, is_writable=True), JobPath(os.path.realpath(command[0]), at=command[0]), *places),
        network="restricted" if hosts else "none",
        hosts=hosts,
        may_reach_private=True,
    )
    runner = AutoRunner()
    lacking = missing(job, runner.capabilities())
    if lacking and not may_run_unsandboxed:
        raise IsolationMissing(
            f"Nothing here can keep {what} from {' or '.join(NEEDS[name][1] for name in lacking)}.",
            hint=NO_ISOLATION,
            missing=list(lacking),
        )
    if lacking:
        from metier._lazy import replace

        job = replace(job, sandbox=False, network="host", hosts=(), places=())
    outcome = runner.run_blocking(job)
    if not outcome.is_success:
        raise _failed(what, outcome)


def _failed(what: str, outcome: Outcome) -> PackagesRefused:
    told = _LOGIN.sub("", (outcome.stderr.strip() or outcome.stdout.strip()))
    why = " ".join(told.split())[:_MOST_SHOWN] or f"it ended with {outcome.exit_code}"
    if outcome.timed_out:
        why = f"it took longer than {MAX_SECONDS:.0f} seconds"
    refused = [contact.split()[0] for contact in outcome.contacts if not contact.endswith(" listed")]
    hint = "Nothing was installed. The settings of uv, pip or npm say which index is used."
    if refused:
        hint = f"It was kept from {', '.join(refused[:4])}: only hosts of the configured index are reached."
    return PackagesRefused(f"{what[0].upper()}{what[1:]} failed: {why}", hint=hint)
