"""One policy file: what it says, and what is wrong with it, each with its line.

Reading never raises for what a file contains. What is wrong is a problem with a line; the rest of the file counts.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from metier._paths import is_inside
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.library import Layer

MAX_BYTES = 1024 * 1024
"""How large a policy file may be."""
_REPLACE = "Replace it by a plain file that this user can read."


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The line of a policy file that says something.

    >>> str(Origin(layer="enterprise", path="/etc/metier/policy.yaml", line=14, key="sources.allow"))
    '/etc/metier/policy.yaml:14 (enterprise)'
    """

    layer: Layer
    path: str
    line: int
    key: str = ""
    """What stands there, with the names of what it is in: `sources.allow`."""

    def __str__(self) -> str:
        return f"{shown(self.path, 300)}:{self.line} ({self.layer})"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyProblem:
    """What is wrong with a policy file, and what to write instead."""

    origin: Origin
    severity: Literal["error", "warning"]
    message: str
    hint: str

    @property
    def path(self) -> str:
        """The file."""
        return self.origin.path

    @property
    def line(self) -> int:
        """The line, counted from 1."""
        return self.origin.line

    @property
    def key(self) -> str:
        """The key that it is about; empty when it is about the whole file."""
        return self.origin.key

    def __str__(self) -> str:
        return f"{shown(self.path, 300)}:{self.line}: {self.message}"

    def as_dict(self) -> dict[str, Any]:
        """The problem as JSON has it."""
        return {
            "path": self.path,
            "line": self.line,
            "layer": self.origin.layer,
            "key": self.key,
            "severity": self.severity,
            "message": self.message,
            "hint": self.hint,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFile:
    """A policy file as it was read."""

    layer: Layer
    path: str
    digest: str
    """The sha256 of its bytes; of one that could not be read, of the reason."""
    text: str = ""
    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """What it says, for each key that it has an opinion on."""
    lines: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """The line of each key."""
    problems: tuple[PolicyProblem, ...] = ()
    is_torn: bool = False
    """Whether nobody knows all that it has: it is unreadable, or no sound YAML."""

    @property
    def is_broken(self) -> bool:
        """Whether some of it cannot be used: what it says may only tighten, and `on-error` decides about the rest."""
        return any(problem.severity == "error" for problem in self.problems)

    @property
    def mode(self) -> str | None:
        """Its own mode; None where it has no opinion, `enforce` where that cannot be told."""
        mode: str | None = self.settings.get("mode", "enforce" if self.is_torn else None)
        return mode

    @property
    def on_error(self) -> str | None:
        """What it wants to happen where something cannot be read; None where it has no opinion."""
        outcome: str | None = self.settings.get("on-error", "deny" if self.is_torn else None)
        return outcome

    def origin(self, key: str = "") -> Origin:
        """Where a key stands in it."""
        return Origin(layer=self.layer, path=self.path, line=self.lines.get(key, 1), key=key)


def read_policy(path: str | os.PathLike[str], layer: Layer) -> PolicyFile | None:
    """The policy file at a path; None where there is none.

    A project's file is read from inside the project alone: no link of it shows a file of the user to whoever is told
    what is wrong with it.
    """
    name = os.fspath(path)
    try:
        if layer == "project" and os.path.lexists(name) and not _is_own(name):
            return unreadable(name, layer, "it is a link that leads out of the project", "Replace it by a plain file.")
        data = bytes_of(name)
    except FileNotFoundError:
        if not os.path.lexists(name):
            return None
        return unreadable(name, layer, "it is a link to nothing")
    except NotADirectoryError:
        return None
    except OSError as error:
        return unreadable(name, layer, (error.strerror or type(error).__name__).lower())
    except ValueError as error:
        return unreadable(name, layer, str(error))
    if isinstance(data, str):
        return unreadable(name, layer, data)
    return parse_policy(data, name, layer)


def _is_own(path: str) -> bool:
    """Whether a file lies where it seems to lie: below the folder that has the `.metier` it is in."""
    root = os.path.realpath(os.path.dirname(os.path.dirname(os.path.abspath(path))))
    return is_inside(os.path.realpath(path), root)


def unreadable(path: str, layer: Layer, why: str, hint: str = _REPLACE) -> PolicyFile:
    """A policy file that cannot be read at all."""
    problem = PolicyProblem(
        origin=Origin(layer=layer, path=path, line=1),
        severity="error",
        message=f"The policy file cannot be read: {why}.",
        hint=hint,
    )
    digest = _digest(f"unreadable: {why}".encode())
    return PolicyFile(layer=layer, path=path, digest=digest, problems=(problem,), is_torn=True)


def parse_policy(data: bytes | str, path: str, layer: Layer) -> PolicyFile:
    """What the text of a policy file says.

    >>> file = parse_policy("mode: audit\\ntools: {deny: WebFetch}\\n", "policy.yaml", "personal")
    >>> file.settings["mode"], file.is_broken
    ('audit', True)
    >>> print(file.problems[0], file.problems[0].hint)
    policy.yaml:2: `tools.deny` is text. Write a list: [WebFetch].
    """
    from metier.guard.policy.reader import Reading

    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    text = raw.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    reading = Reading(path, layer)
    if len(raw) > MAX_BYTES:
        return unreadable(path, layer, f"it has more than {MAX_BYTES:,} bytes")
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        reading.error(line, "", f"Byte {error.start:,} is not UTF-8", "Save it as UTF-8.")
        reading.is_torn = True
    reading.take(text)
    return PolicyFile(
        layer=layer,
        path=path,
        digest=_digest(raw),
        text=text,
        settings=MappingProxyType(reading.settings),
        lines=MappingProxyType(reading.lines),
        problems=tuple(reading.problems),
        is_torn=reading.is_torn,
    )


def _digest(data: bytes) -> str:
    return f"sha256:{sha256(data).hexdigest()}"


def bytes_of(path: str) -> bytes | str:
    """The bytes of a plain file, or why there are none; waits for nobody."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOCTTY", 0)
    try:
        handle = os.open(path, flags | getattr(os, "O_BINARY", 0))
    except OSError as error:
        if error.errno == errno.ENXIO:
            return "it is no plain file"
        raise
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return "it is no plain file"
        data = b""
        while len(data) <= MAX_BYTES and (more := os.read(handle, MAX_BYTES + 1 - len(data))):
            data += more
    finally:
        os.close(handle)
    return data if len(data) <= MAX_BYTES else f"it has more than {MAX_BYTES:,} bytes"
