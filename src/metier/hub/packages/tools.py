"""Runs of uv and npm: in a sandbox, in a folder of their own, with the network of the package index and no other.

The index is the one that this user has configured. The settings are read here, and not by the tools: the sandbox has to
know the hosts beforehand, and in it there is nothing of the user that the tools could read.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from metier._extras import optional
from metier._lazy import dataclass
from metier.errors import IsolationMissing, PackagesRefused, PartMissing
from metier.hints import NO_ISOLATION
from metier.run import Job, Limits
from metier.run.environment import find_program, search_path, which
from metier.run.job import MAX_SECONDS, NEEDS, JobPath, missing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from metier.run import Outcome

PYPI, NPM = "https://pypi.org/simple", "https://registry.npmjs.org/"
_FILES_OF = {"pypi.org": "files.pythonhosted.org"}
"""The host that an index has its files on, where that is another."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageIndexes:
    """The indexes that a tool takes packages from."""

    addresses: tuple[str, ...]
    """The main index first. uv may have a name before one, as `name=https://...`; folders may be among them."""
    variables: Mapping[str, str]
    """The settings as the tool reads them; addresses may hold a password, and so are no arguments."""
    login: str = ""
    """The lines of the user's settings of npm that say who they are there."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that a build has to reach, and no other."""
        found: dict[str, None] = {}
        for address in self.addresses:
            parts = urlsplit(address.partition("=")[2] if "=" in address.partition(":")[0] else address)
            if parts.scheme in ("http", "https") and parts.hostname:
                found[parts.netloc.rpartition("@")[2].lower()] = None
                if parts.hostname in _FILES_OF:
                    found[_FILES_OF[parts.hostname]] = None
        return tuple(found)

    @property
    def places(self) -> tuple[JobPath, ...]:
        """The folders of this machine that are indexes."""
        paths = (unquote(urlsplit(one).path) if one.startswith("file:") else one for one in self.addresses)
        return tuple(JobPath(os.path.realpath(path)) for path in paths if os.path.isabs(path) and os.path.isdir(path))


def python_indexes() -> PackageIndexes:
    """The indexes of Python packages, as variables and files of uv name them; else the main index of pip.

    All of them count: a package of a private index that was left out would be looked for in the public one.
    """
    env = os.environ
    user, system = map(_read_toml, _config_files("uv/uv.toml"))
    uv = system | user
    tables = [one for one in uv.get("index", ()) if isinstance(one, dict) and one.get("url")]
    own = [*(one["url"] for one in tables if one.get("default") is True), uv.get("index-url")]
    named = (env.get("UV_DEFAULT_INDEX"), env.get("UV_INDEX_URL"), *own, env.get("PIP_INDEX_URL"), _pip_index())
    default = str(next(filter(None, named), PYPI))
    more = [*env.get("UV_INDEX", "").split(), *env.get("UV_EXTRA_INDEX_URL", "").split()]
    more += [
        *_texts([one["url"] for one in tables if one.get("default") is not True]),
        *_texts(uv.get("extra-index-url")),
    ]
    links = [*_texts(env.get("UV_FIND_LINKS", "").split(",")), *_texts(uv.get("find-links"))]
    variables = {"UV_DEFAULT_INDEX": default, "UV_INDEX": " ".join(more), "UV_FIND_LINKS": ",".join(links)}
    return PackageIndexes(
        addresses=(default, *more, *links),
        variables={"UV_HTTP_RETRIES": "1", **{name: value for name, value in variables.items() if value}},
    )


def _texts(value: object) -> list[str]:
    """The texts of a setting that is one of them, or a list."""
    return [str(one) for one in (value if isinstance(value, list) else [value]) if one]


def npm_registry() -> PackageIndexes:
    """The registry of npm."""
    path = os.environ.get("NPM_CONFIG_USERCONFIG") or os.path.expanduser("~/.npmrc")
    lines: list[str] = []
    with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    named = (line.partition("=")[2].strip() for line in lines if line.partition("=")[0].strip() == "registry")
    env = (os.environ.get(name) for name in ("npm_config_registry", "NPM_CONFIG_REGISTRY"))
    address = next(filter(None, (*env, *named)), NPM)
    own = f"//{urlsplit(address).netloc.rpartition('@')[2]}/"
    return PackageIndexes(
        addresses=(address,),
        variables={"NPM_CONFIG_REGISTRY": address, "NPM_CONFIG_GLOBALCONFIG": os.devnull},
        login="".join(f"{line}\n" for line in lines if line.startswith(own)),
    )


def _config_files(name: str) -> tuple[str, str]:
    above = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(above, name), os.path.join("/etc", name)


def _pip_index() -> str:
    import configparser

    user, system = _config_files("pip/pip.conf")
    files = ("/etc/pip.conf", system, os.path.expanduser("~/.pip/pip.conf"), user)  # the last one counts
    own, parser = os.environ.get("PIP_CONFIG_FILE"), configparser.ConfigParser(interpolation=None)
    with contextlib.suppress(configparser.Error, OSError, ValueError):
        parser.read(own or files, encoding="utf-8")
    return parser.get("global", "index-url", fallback="")


def _read_toml(path: str) -> dict[str, Any]:
    import tomllib

    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except (OSError, ValueError, RecursionError):
        return {}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageTools:
    """The tools that fetch packages, on the terms of policy and of the person who waits for them."""

    may_run_unsandboxed: bool = False
    """Whether policy lets jobs run without a sandbox, on a machine that has none."""
    progress: Callable[[str], object] = str
    """Gets a few words about each step when it begins, and an empty text when it has ended."""

    def uv(self, *command: str, folder: str, what: str) -> None:
        """Run a command of `uv pip`; see `run`."""
        options = (*_UV_OPTIONS, "--python", find_program("python3"))
        self.run((uv_program(), "pip", *command, *options), folder, python_indexes(), what=what)

    def run(self, command: Sequence[str], folder: str, indexes: PackageIndexes, *, what: str) -> None:
        """Run a tool in a folder; raises `PackagesRefused` with what it says where it fails.

        It sees the folder, the machine's programs and nothing of the user. On a machine without a sandbox it does not
        run, unless policy lets jobs run without one.
        """
        from metier.run.selection import AutoRunner

        certificates = {name: os.environ[name] for name in _CERTIFICATES if name in os.environ}
        places = (*indexes.places, *(JobPath(path) for path in certificates.values() if os.path.exists(path)))
        hosts = indexes.hosts
        job = Job(
            argv=tuple(command),
            folder=folder,
            env={**certificates, **indexes.variables},
            limits=_LIMITS,
            places=(JobPath(folder, is_writable=True), JobPath(os.path.realpath(command[0]), at=command[0]), *places),
            network="restricted" if hosts else "none",
            hosts=hosts,
            may_reach_private=True,
        )
        runner = AutoRunner()
        lacking = missing(job, runner.capabilities())
        if lacking and not self.may_run_unsandboxed:
            raise IsolationMissing(
                f"Nothing here can keep {what} from {' or '.join(NEEDS[name][1] for name in lacking)}.",
                hint=NO_ISOLATION,
                missing=list(lacking),
            )
        if lacking:
            from metier._lazy import replace

            job = replace(job, sandbox=False, network="host", hosts=(), places=())
        self.progress(what)
        try:
            outcome = runner.run_blocking(job)
        finally:
            self.progress("")
        if not outcome.is_success:
            raise _failed(what, outcome)


def _failed(what: str, outcome: Outcome) -> PackagesRefused:
    output = _LOGIN.sub("", (outcome.stderr.strip() or outcome.stdout.strip()))
    why = " ".join(output.split())[:_MOST_SHOWN] or f"it ended with {outcome.exit_code}"
    if outcome.timed_out:
        why = f"it took longer than {MAX_SECONDS:.0f} seconds"
    refused = [contact.split()[0] for contact in outcome.contacts if not contact.endswith(" listed")]
    hint = "No package was installed. The settings of uv, pip or npm say which index is used."
    if refused:
        hint = f"It was kept from {', '.join(refused[:4])}: only hosts of the configured index are reached."
    return PackagesRefused(f"{what[0].upper()}{what[1:]} failed: {why}", hint=hint)
