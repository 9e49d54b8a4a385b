"""The home folder of a client for one trial: the skill, its settings, our hooks and policy, and the audit log."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass, fields, replace
from metier.errors import IntegrityFailed, PartMissing
from metier.guard.audit.log import AuditRecord
from metier.hints import for_people
from metier.library.clients import CLIENTS, in_home
from metier.proof.clients import client_program
from metier.proof.mocks import mock_servers
from metier.run import Job, Limits, PlainRunner
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from metier.proof.suite import Environment
    from metier.proof.trial import Trial

_FROM_USER = (
    *("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
    *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
)
"""The variables that every client gets: how programs are found, and how the network is reached."""
_PROTECT_SECONDS = 60.0
_LIMITS = Limits(output_bytes=64 * 2**20, memory_bytes=2**46, file_bytes=2**30, open_files=2**16)
"""Much more than a script has: the runtimes of clients reserve memory by the gigabyte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientHome:
    """A home folder in which a client finds nothing of its user."""

    client: str
    folder: Path
    workspace: Path
    environ: Mapping[str, str]
    """All variables of the client."""
    values: Mapping[str, str]
    """The values for its options."""

    @property
    def skills(self) -> Path:
        """The folder in which it looks for skills."""
        return _skills_folder(self.client, self.folder)

    @property
    def _store(self) -> str:
        return _store_url(self.folder)

    def job(self, command: Sequence[str], stdin: bytes, seconds: float) -> Job:
        """A program of this user in the workspace, with no variables but those of the trial."""
        return Job(
            argv=tuple(command), folder=str(self.workspace), env=self.environ, stdin=stdin, sandbox=False,
            limits=replace(_LIMITS, seconds=seconds),
        )  # fmt: skip

    def records(self) -> list[AuditRecord]:
        """The records of its conversations and their scripts; raises `IntegrityFailed` where the log is not whole."""
        from metier.guard.audit.keys import known_keys
        from metier.guard.audit.verification import verify_store
        from metier.store import Store

        key = self.folder / ".config/metier/keys/audit.ed25519"
        if not verify_store(known_keys(key), self._store, key_file=key).is_ok:
            raise IntegrityFailed("The audit log of the trial was changed.", hint="Look at what the skill does.")
        store = Store.peek(self._store)
        with store or contextlib.nullcontext():
            rows = [one.record or {} for one in store.of().audit.walk()] if store is not None else []
        own = f"{self.client}:"
        return [_record(row) for row in rows if row.get("event") == "run" or str(row.get("session")).startswith(own)]


def make_home(client: str, folder: Path, trial: Trial, values: Mapping[str, str]) -> ClientHome:
    """Fill a new folder: the skill and its neighbours, the settings of the client, and our hooks.

    Raises `PartMissing` where the hooks cannot be installed.
    """
    program = client_program(client)
    skills = _skills_folder(client, folder)
    sources = {one.name: one for one in _neighbours(trial.neighbours)} | {trial.skill: trial.folder}
    for name, source in sources.items():
        if source is not None:
            shutil.copytree(source, skills / name, symlinks=True)
    addresses = {name: os.environ.get(name) or usual for name, usual in program.addresses.items()}
    servers = mock_servers(trial.case.environment, folder / "servers", sources=trial.sources)
    texts = {"policy.json": json.dumps(_policy(folder, trial.case.environment))}
    if servers:
        started = {name: {"command": command[0], "args": command[1:]} for name, command in servers.items()}
        texts["servers.json"] = json.dumps({"mcpServers": started})
        values = {**values, "servers": str(folder / "servers.json")}
    if program.file:
        settings = os.path.relpath(in_home(program.file, str(folder), {}), folder)
        texts[settings] = program.settings({**addresses, **values}, servers)
    with contextlib.suppress(OSError):
        # What the user's own policy denies stays denied.
        texts[".metier/policy.yaml"] = Path("~/.metier/policy.yaml").expanduser().read_text("utf-8")
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    (folder / "tmp").mkdir()
    given = {name: os.environ[name] for name in (*_FROM_USER, *program.keys) if os.environ.get(name)}
    policies = [os.environ.get("METIER_POLICY", ""), str(folder / "policy.json")]
    environ = {
        **given,
        **{name: address for name, address in addresses.items() if address},
        **program.variables,
        "HOME": str(folder),
        "PWD": str(trial.workspace),
        "TMPDIR": str(folder / "tmp"),
        "METIER_POLICY": os.pathsep.join(filter(None, policies)),
        "METIER_HOOK_IDLE": "5",
    }
    home = ClientHome(client=client, folder=folder, workspace=trial.workspace, environ=environ, values=values)
    protect = (sys.executable, "-I", "-m", "metier", "protect", client, "--user")
    done = PlainRunner().run_blocking(home.job(protect, b"", _PROTECT_SECONDS))
    if not done.is_success:
        why = shown((done.stderr.strip().splitlines() or ["it took too long"])[-1], 300)
        raise PartMissing(
            f"Our hooks could not be installed: {why}", hint=for_people("`metier doctor` says what is missing.")
        )
    return home


def _skills_folder(client: str, folder: Path) -> Path:
    return Path(in_home(CLIENTS[client].personal[0], str(folder), {}))


def _store_url(folder: Path) -> str:
    return f"sqlite:///{folder}/store/metier.db"


def _neighbours(folder: Path | None) -> list[Path]:
    return [] if folder is None else sorted(one for one in folder.iterdir() if (one / "SKILL.md").is_file())


def _policy(folder: Path, environment: Environment) -> dict[str, Any]:
    """The policy of a trial: an administrator's, so that nothing in the home can loosen it."""
    from metier.scan.capabilities import NETWORK_TOOLS

    hosts = list(environment.network)
    return {
        "version": 1,
        "store": _store_url(folder),
        "audit": {"max-arguments": 65_536},
        "protect": {"fail": "closed", "scripts": "sandbox"},
        "run": {"network": "restricted", "hosts": hosts} if hosts else {"network": "none"},
        "tools": {} if hosts else {"deny": list(NETWORK_TOOLS)},
    }


def _record(row: Mapping[str, Any]) -> AuditRecord:
    known = {one.name for one in fields(AuditRecord)}
    least = {"timestamp": "", "event": "", "decision": "", "reason": ""}
    return AuditRecord(**{**least, **{name: value for name, value in row.items() if name in known}})
