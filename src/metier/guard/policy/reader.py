"""The reader of policy files: settings key by key, and problems with line, key and hint.

Reading never raises for the content of a file. A problem has a line, and the rest of the file counts.
"""

from __future__ import annotations

import errno
import os
import stat
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from metier._lazy import dataclass
from metier._paths import is_inside
from metier._suggest import suggestions
from metier.guard.decision import Origin
from metier.guard.policy.file import PolicyFile, PolicyProblem
from metier.guard.policy.schema import KEYS, SECTIONS, names_below
from metier.guard.policy.yaml_tree import read_tree
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.guard.policy.yaml_tree import Node
    from metier.library import Layer

MAX_BYTES = 1024 * 1024
"""The size limit of a policy file."""
_MAX_PROBLEMS = 200
_REPLACE = "Replace it by a plain file that this user can read."


def read_policy(path: str | os.PathLike[str], layer: Layer) -> PolicyFile | None:
    """Read the policy file at a path; None where there is none.

    A project's file is read from inside the project alone: no link shows a file of the user to readers of its problems.
    """
    name = os.fspath(path)
    try:
        if layer == "project" and os.path.lexists(name) and not _is_in_project(name):
            return unreadable(name, layer, "it is a link that leads out of the project", "Replace it by a plain file.")
        data = read_regular_file(name)
    except FileNotFoundError:
        return unreadable(name, layer, "it is a link to nothing") if os.path.lexists(name) else None
    except NotADirectoryError:
        return None
    except OSError as error:
        return unreadable(name, layer, (error.strerror or type(error).__name__).lower())
    except ValueError as error:
        return unreadable(name, layer, str(error))
    return unreadable(name, layer, data) if isinstance(data, str) else parse_policy(data, name, layer)


def _is_in_project(path: str) -> bool:
    """Whether a file, with its links resolved, is below the folder that has its `.metier`."""
    root = os.path.realpath(os.path.dirname(os.path.dirname(os.path.abspath(path))))
    return is_inside(os.path.realpath(path), root)


def read_regular_file(path: str) -> bytes | str:
    """The bytes of a regular file, or the reason why there are none; never blocks on a pipe or device."""
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


def parse_policy(data: bytes | str, path: str, layer: Layer, *, is_shared: bool = False) -> PolicyFile:
    """Parse the text of a policy file; one that is shared by many machines names nothing of a single one.

    >>> file = parse_policy("mode: audit\\ntools: {deny: WebFetch}\\n", "policy.yaml", "personal")
    >>> file.settings["mode"], file.is_broken
    ('audit', True)
    >>> print(file.problems[0], file.problems[0].hint)
    policy.yaml:2: `tools.deny` is text. Write a list: [WebFetch].
    """
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if len(raw) > MAX_BYTES:
        return unreadable(path, layer, f"it has more than {MAX_BYTES:,} bytes")
    text = raw.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    reader = PolicyReader(path, layer, is_shared=is_shared)
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        reader.report("error", line, "", f"Byte {error.start:,} is not UTF-8", "Save it as UTF-8.")
        reader.is_torn = True
    reader.read(text)
    return PolicyFile(
        layer=layer,
        path=path,
        digest=_digest(raw),
        text=text,
        settings=MappingProxyType(reader.settings),
        lines=MappingProxyType(reader.lines),
        problems=tuple(reader.problems),
        is_torn=reader.is_torn,
    )


def _digest(data: bytes) -> str:
    return f"sha256:{sha256(data).hexdigest()}"


class PolicyReader:
    """The settings and problems of one policy file while it is read."""

    def __init__(self, path: str, layer: Layer, *, is_shared: bool = False) -> None:
        self.path = path
        self.layer = layer
        self.is_shared = is_shared
        self.problems: list[PolicyProblem] = []
        self.settings: dict[str, Any] = {}
        self.lines: dict[str, int] = {}
        self.is_torn = False
        self._is_strict = False

    def report(self, severity: Literal["error", "warning"], line: int, key: str, message: str, hint: str) -> None:
        """Report a value that cannot be used, or has no effect."""
        # The first error makes a file broken; no number of warnings may keep it from being reported.
        if len(self.problems) >= _MAX_PROBLEMS and severity == "warning":
            return
        if len(self.problems) < 2 * _MAX_PROBLEMS:
            origin = self.origin(line, key)
            self.problems.append(PolicyProblem(origin=origin, severity=severity, message=f"{message}.", hint=hint))

    def origin(self, line: int, key: str) -> Origin:
        """A line of the file."""
        return Origin(layer=self.layer, path=self.path, line=line, key=key)

    def read(self, text: str) -> None:
        """Read all settings of a text."""
        tree = read_tree(text)
        for flaw in tree.flaws:
            self.is_torn = True
            hint = "Write plain `key: value` lines, indent with spaces, and close every bracket."
            self.report("error", flaw.line, "", f"The YAML cannot be read: {shown(flaw.message)}", hint)
        maps = [root for root in tree.roots if root.kind == "map"]
        if not tree.flaws and not any(root.pairs for root in maps):
            # A file that is being written is empty for a moment, which must not pass for a policy without rules.
            self.report("error", 1, "", "The file says nothing", "Begin with `version: 1`, or remove the file.")
            self.is_torn = True
        self._is_strict = any(
            key.text == "strict" and value.text.lower() in ("true", "yes", "on")
            for root in maps
            for key, value in root.pairs
        )
        for root in maps:
            self._read_section("", root)

    def _read_section(self, above: str, node: Node) -> None:
        for name, value in KeyReader(self, above).pairs(node, "key: value"):
            key = f"{above}.{name}" if above else name
            if key in KEYS:
                self._read_setting(key, value)
            elif key in SECTIONS:
                self.lines.setdefault(key, value.line)
                if value.kind == "map":
                    self._read_section(key, value)
                elif not value.is_null:
                    KeyReader(self, key).wrong(value, "Write its keys below it, indented.")
            else:
                self._report_unknown(value.line, above, name)

    def _read_setting(self, key: str, node: Node) -> None:
        if node.is_null:
            if node.text == "" and key.endswith(".allow"):
                what = f"`{key}` has no value and so no opinion"
                hint = "Write [] to allow nothing, or `null` to say that it is meant."
                self.report("warning", node.line, key, what, hint)
            return
        if self.is_shared and KEYS[key].is_of_machine:
            # Whoever may write it is an admin of a tenant, and not of the machine that would start or open it.
            hint = "Write it into the policy file of the machine that it is for."
            self.report("error", node.line, key, f"`{key}` is a matter of one machine, and this is for many", hint)
            return
        value_type = KEYS[key].type
        value = value_type.read(KeyReader(self, key), node)
        if value is None:
            return
        if key in self.settings:
            value, _ = value_type.tighten(self.settings[key], value)
        else:
            self.lines[key] = node.line
        self.settings[key] = value

    def _report_unknown(self, line: int, above: str, name: str) -> None:
        known = names_below(above)
        key = f"{above}.{name}" if above else name
        meant = suggestions(name.lower().replace("_", "-"), known, 1, cutoff=0.75)
        meant += [other for other in (*KEYS, *SECTIONS) if other.rpartition(".")[2] == name]
        hint = f"Did you mean `{meant[0]}`?" if meant else f"Keys here are {', '.join(known)}."
        # A key that is nearly right, or in another place, was meant to set something, and now sets nothing.
        severity: Literal["error", "warning"] = "error" if meant or self._is_strict else "warning"
        self.report(severity, line, key[:200], f"There is no key {shown(key)!r}", hint)


@dataclass(frozen=True, slots=True)
class KeyReader:
    """The reader at one key of a file; value types read their values through it."""

    reader: PolicyReader
    key: str

    def below(self, name: str) -> KeyReader:
        """The reader at a key inside of this one."""
        return KeyReader(self.reader, f"{self.key}.{shown(name)}" if self.key else shown(name))

    def origin(self, node: Node) -> Origin:
        """The line of a value."""
        return self.reader.origin(node.line, self.key)

    def error(self, line: int, message: str, hint: str) -> None:
        """Report a value that cannot be used."""
        self.reader.report("error", line, self.key, message, hint)

    def warning(self, line: int, message: str, hint: str) -> None:
        """Report a value that has no effect."""
        self.reader.report("warning", line, self.key, message, hint)

    def wrong(self, node: Node, hint: str) -> None:
        """Report a value that the key cannot have."""
        if node.kind == "alias":
            self.error(node.line, f"`{self.key}` is an alias", "Write the value out: policy files have no aliases.")
        elif node.kind == "text" and not hint.startswith("Write a list"):
            self.error(node.line, f"`{self.key}` cannot be {shown(node.text)!r}", hint)
        else:
            self.error(node.line, f"`{self.key}` is {node.noun}", hint)

    def pairs(self, node: Node, example: str) -> Iterator[tuple[str, Node]]:
        """The keys and values of a map; a key that is given twice comes twice. Anything else is reported."""
        if node.kind != "map":
            self.wrong(node, f"Write a map, such as {example}.")
            return
        seen: set[str] = set()
        for key, value in node.pairs:
            if key.kind != "text" or not key.text or len(key.text) > 256 or not key.text.isprintable():
                self.error(key.line, "A key is no plain text", "Write `key: value`.")
                continue
            if key.text in seen:
                self.error(key.line, f"`{shown(key.text)}` is given twice", "Keep one.")
            seen.add(key.text)
            yield key.text, value
