"""Kinds of values in a policy file by which something is granted, and how a weaker layer narrows them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from metier._paths import is_inside
from metier.errors import InvalidArgument
from metier.guard.policy.program import Policy, split_mode
from metier.guard.policy.value_types import Choice, Kind, Number, texts_of
from metier.scan.finding import SEVERITIES
from metier.skill import shown
from metier.skill.tool_rules import parse_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from metier.guard.policy.file import Origin
    from metier.guard.policy.reader import At
    from metier.guard.policy.yaml_tree import Node
    from metier.skill.tool_rules import ToolRule


_ROLES = ("viewer", "author", "reviewer", "admin")
_APPROVER = re.compile(r"(role|user|agent|service):(\S.{0,127})").fullmatch
_SIGNER = re.compile(r"(oms|sigstore):\S.{0,255}").fullmatch
LEAST = ("none", *SEVERITIES)
"""How bad what a scan found may be, from nothing on."""


def wrong_for_policy(field: str) -> Callable[[str], str]:
    """What a `Policy` says to a text in one of its lists: the checks of programs and of files are the same."""

    def wrong(text: str) -> str:
        try:
            Policy(**{field: [text]})  # type: ignore[arg-type]
        except InvalidArgument as error:
            return f"{shown(text)!r}. {error.message.rstrip('.')}"
        return ""

    return wrong


def covers_host(entry: str, other: str) -> bool:
    """Whether one entry of a list of hosts means all that another one does."""
    from metier import _hosts  # imported when lists are compared, as it takes a while

    return _hosts.covers_host(entry, other)


def _split_port(entry: str) -> tuple[str, str]:
    host, colon, port = entry.rpartition(":")
    return (host, port) if colon and port.isdigit() and not host.endswith(":") else (entry, "")


def plain_host(entry: str) -> str:
    """An entry as it is compared: lower case, without the dot at the end."""
    host, port = _split_port(entry.lower())
    return host.removesuffix(".") + (f":{port}" if port else "")


def covers_path(entry: str, other: str) -> bool:
    """Whether a path that is granted is all that another one is.

    >>> covers_path("/data", "/data/in"), covers_path("/data", "/data:rw"), covers_path("/data:rw", "/data")
    (True, False, True)
    """
    path, mode = split_mode(entry)
    inner, inner_mode = split_mode(other)
    path, inner = os.path.normpath(path), os.path.normpath(inner)
    return (mode == "rw" or inner_mode != "rw") and is_inside(inner, path)


class Secrets(Kind["dict[str, tuple[str, ...]]"]):
    """A map from skills to the names of the secrets that they get."""

    example = "{deploy: [API_TOKEN]}"

    def read(self, at: At, node: Node) -> dict[str, tuple[str, ...]] | None:
        """All of the map that can be read."""
        found: dict[str, tuple[str, ...]] = {}
        for name, value in at.pairs(node, self.example):
            texts = texts_of(at.below(name), value, _wrong_variable, "[API_TOKEN]")
            mine = tuple(dict.fromkeys(one.text for one in texts))
            found[name] = tuple(one for one in mine if one in found[name]) if name in found else mine
        return found

    def tighten(
        self, base: dict[str, tuple[str, ...]], value: dict[str, tuple[str, ...]]
    ) -> tuple[dict[str, tuple[str, ...]], str]:
        """What both grant."""
        lost = next((own for own, names in value.items() if set(names) - set(base.get(own, ()))), None)
        kept = {name: tuple(one for one in base[name] if one in value[name]) for name in base if name in value}
        return kept, f"it cannot grant more to {shown(lost)!r}" if lost is not None else ""

    def shown(self, value: dict[str, tuple[str, ...]]) -> object:
        """Skill to names."""
        return {name: list(names) for name, names in value.items()}


def _wrong_variable(text: str) -> str:
    return "" if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,127}", text) else f"{shown(text)!r}, which is no name"


class Limits(Kind["dict[str, float]"]):
    """A map from what is limited to the most of it."""

    example = "{seconds: 60, memory-bytes: 1073741824}"

    def __init__(self, *names: str) -> None:
        self._names = names

    def read(self, at: At, node: Node) -> dict[str, float] | None:
        """All of the map that can be read; a number that cannot be read is the least there is."""
        found: dict[str, float] = {}
        for written, value in at.pairs(node, self.example):
            inner, name = at.below(written), written.replace("-", "_")
            if name not in self._names:
                known = ", ".join(one.replace("_", "-") for one in self._names)
                inner.error(value.line, f"There is no limit {shown(written)!r}", f"Limits are {known}.")
                continue
            number = _number(value.text if value.kind == "text" else "", is_whole=name != "seconds")
            if number is None:
                inner.wrong(value, "Write a number above 0; all but the seconds are whole.")
            found[name] = min(number or 1, found.get(name, number or 1))
        return found

    def tighten(self, base: dict[str, float], value: dict[str, float]) -> tuple[dict[str, float], str]:
        """Of each the least."""
        lost = next((name for name, most in value.items() if most > base.get(name, most)), None)
        merged = {name: min(base.get(name, most), value.get(name, most)) for name, most in (base | value).items()}
        return merged, f"{lost.replace('_', '-')} is more than is allowed" if lost is not None else ""

    def shown(self, value: dict[str, float]) -> object:
        """Limit to number."""
        return {name.replace("_", "-"): most for name, most in value.items()}


def _number(text: str, *, is_whole: bool) -> float | None:
    if re.fullmatch(r"[0-9]{1,18}", text, re.ASCII) and int(text) > 0:
        return int(text)
    if not is_whole and re.fullmatch(r"[0-9]{1,9}\.[0-9]{1,9}", text, re.ASCII) and float(text) > 0:
        return float(text)
    return None


class Approvers(Kind["tuple[str, ...]"]):
    """Who may decide about approvals."""

    example = '["role:admin", "user:ada"]'

    def read(self, at: At, node: Node) -> tuple[str, ...] | None:
        """All of the list that can be read; nobody where there is none."""
        texts = texts_of(at, node, _wrong_approver, self.example)
        return tuple(dict.fromkeys("role:admin" if one.text == "role:skill-admin" else one.text for one in texts))

    def tighten(self, base: tuple[str, ...], value: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
        """Whoever the stronger layer names, as far as the weaker does too; it cannot name anybody else."""
        kept = tuple(own for own in value if any(_covers_approver(given, own) for given in base))
        lost = next((own for own in value if own not in kept), None)
        return kept if kept or not value else base, f"it cannot add {shown(lost)!r}" if lost is not None else ""

    def shown(self, value: tuple[str, ...]) -> object:
        """The list."""
        return list(value)


def _wrong_approver(text: str) -> str:
    found = _APPROVER(text)
    if found and (found[1] != "role" or found[2] in (*_ROLES, "skill-admin")):
        return ""
    return f"{shown(text)!r}, which is neither role:{'|'.join(_ROLES)} nor user:NAME or agent:NAME"


def _covers_approver(given: str, own: str) -> bool:
    """Whether everybody whom one entry means is meant by another: each role includes the ones before it."""
    if given == own:
        return True
    role, other = given.removeprefix("role:"), own.removeprefix("role:")
    return role in _ROLES and other in _ROLES and _ROLES.index(role) <= _ROLES.index(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoApproval:
    """When content is approved without a person: all of it must hold."""

    signer: tuple[str, ...] = ()
    """Who must have signed it, one of them; empty: it need not be signed."""
    scan_max: str | None = None
    """The worst that scanners may have found: `none`, `info`, `low`, `medium` and so on."""
    no_new_capabilities: bool = False
    """Whether it must do nothing that the version approved before did not."""
    origin: Origin | None = None


class AutoApprovals(Kind["AutoApproval | None"]):
    """The conditions for approval without a person; whatever cannot be read of them approves nothing."""

    takes_none = True
    example = "{scan-max: low, no-new-capabilities: true}"

    def read(self, at: At, node: Node) -> AutoApproval | None:
        """The conditions."""
        before = len(at.reading.problems)
        signer: tuple[str, ...] = ()
        scan_max: str | None = None
        no_new: bool | None = None
        names = ("signer", "scan-max", "no-new-capabilities")
        for name, value in at.pairs(node, self.example):
            inner = at.below(name)
            if name == "signer":
                signer = tuple(one.text for one in texts_of(inner, value, _wrong_signer, '["oms:keys/acme.pub"]'))
                if not signer and value.kind == "list" and not value.items:
                    inner.error(value.line, "An empty list of signers is nobody", "Name one, or leave `signer` out.")
            elif name == "scan-max":
                scan_max = Choice(*reversed(LEAST)).read(inner, value)
            elif name == "no-new-capabilities":
                no_new = value.text.lower() == "true"
                if value.kind != "text" or value.text.lower() not in ("true", "false"):
                    inner.wrong(value, "Write true or false.")
            else:
                inner.error(value.line, f"There is no condition {shown(name)!r}", f"Conditions are {', '.join(names)}.")
        if node.kind == "map" and not node.pairs:
            at.error(node.line, "No condition would approve everything", f"Write such as {self.example}.")
        if len(at.reading.problems) > before:
            return None
        return AutoApproval(signer=signer, scan_max=scan_max, no_new_capabilities=bool(no_new), origin=at.origin(node))

    def tighten(self, base: AutoApproval | None, value: AutoApproval | None) -> tuple[AutoApproval | None, str]:
        """The conditions of both; a weaker layer cannot begin to approve by itself."""
        if base is None or value is None:
            return None, "nothing is approved without a person" if value is not None else ""
        if base.signer and value.signer and not set(base.signer) & set(value.signer):
            return None, ""
        both = tuple(one for one in base.signer if one in value.signer) if base.signer and value.signer else ()
        found = [one for one in (base.scan_max, value.scan_max) if one is not None]
        return (
            AutoApproval(
                signer=both or base.signer or value.signer,
                scan_max=min(found, key=LEAST.index) if found else None,
                no_new_capabilities=base.no_new_capabilities or value.no_new_capabilities,
                origin=base.origin,
            ),
            "",
        )

    def shown(self, value: AutoApproval | None) -> object:
        """The conditions."""
        if value is None:
            return None
        said = {
            "signer": list(value.signer) or None,
            "scan-max": value.scan_max,
            "no-new-capabilities": value.no_new_capabilities or None,
        }
        return {name: one for name, one in said.items() if one is not None}


def _wrong_signer(text: str) -> str:
    return "" if _SIGNER(text) else f"{shown(text)!r}, which names no signer"


@dataclass(frozen=True, slots=True)
class Engine:
    """A scanner: our own, or a command that writes SARIF."""

    name: str
    command: str = ""
    """With `{dir}` for the folder of the skill; empty for our own."""
    origin: Origin | None = None


class Engines(Kind["tuple[Engine, ...]"]):
    """The scanners. A project adds none: whoever opens it would run its commands."""

    example = '[core, {sarif: "cmd: skill-scanner scan {dir} --format sarif"}]'

    def read(self, at: At, node: Node) -> tuple[Engine, ...] | None:
        """All of the list that can be read and that this file may say."""
        if node.kind != "list":
            at.wrong(node, f"Write a list, such as {self.example}.")
            return None
        found: dict[str, Engine] = {}
        for item in node.items:
            engine = self._engine(at, item)
            if engine is not None and engine.command and (flaw := _flaw_of(engine.command)) is not None:
                at.error(item.line, f"`{at.key}`: {flaw.message.rstrip('.')}", flaw.hint)
            elif engine is None:
                at.error(item.line, f"`{at.key}` has {shown(item.text) or item.noun}", f"Write such as {self.example}.")
            elif engine.command and at.reading.layer == "project":
                at.warning(item.line, "A project's policy adds no scanner", "Add it to your own policy file.")
            else:
                found.setdefault(engine.name, engine)
        return tuple(found.values())

    def _engine(self, at: At, item: Node) -> Engine | None:
        if item.kind == "text":
            return Engine("core", origin=at.origin(item)) if item.text == "core" else None
        said = {name: value.text for name, value in at.pairs(item, "{sarif: ...}") if value.kind == "text"}
        command = said.get("sarif", "").removeprefix("cmd:").strip()
        words = command.split()
        name = said.get("name") or (os.path.basename(words[0]) if words else "")
        if not command or len(said) != len(item.pairs) or set(said) - {"sarif", "name"} or name == "core":
            return None
        return Engine(name, command, at.origin(item)) if name.isprintable() and len(command) <= 1_024 else None

    def tighten(self, base: tuple[Engine, ...], value: tuple[Engine, ...]) -> tuple[tuple[Engine, ...], str]:
        """All scanners of both; of two with one name the first."""
        known = {one.name for one in base}
        return (*base, *(one for one in value if one.name not in known)), ""

    def shown(self, value: tuple[Engine, ...]) -> object:
        """The scanners."""
        return [{"name": one.name, "command": one.command} if one.command else one.name for one in value]


def _flaw_of(command: str) -> InvalidArgument | None:
    """Why a command can never scan anything: found while the file is read, not when the first skill is scanned."""
    from metier.scan.external import scanner_of

    try:
        scanner_of(command)
    except InvalidArgument as error:
        return error
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRules:
    """The tool rules of one list of one file."""

    rules: tuple[ToolRule, ...]
    origin: Origin
    lines: Mapping[str, int]
    """The line of each rule, by its text."""


class Tools(Kind["tuple[ToolRules, ...]"]):
    """Tool rules, one list for each file that has one."""

    example = '["WebFetch", "Bash(curl *)"]'

    def read(self, at: At, node: Node) -> tuple[ToolRules, ...] | None:
        """The rules; one that cannot be understood allows nothing, and forbids every use of its tool."""
        rules: dict[ToolRule, None] = {}
        lines: dict[str, int] = {}
        for one in texts_of(at, node, None, self.example):
            line = one.origin.line if one.origin is not None else node.line
            for rule in parse_rules(one.text):
                rules[rule] = None
                lines.setdefault(rule.text, line)
                if rule.is_malformed:
                    what = f"`{at.key}` has {shown(rule.text)!r}, which is no rule"
                    at.error(line, what, "Write `Tool` or `Tool(pattern)`, with every parenthesis closed.")
        return (ToolRules(rules=tuple(rules), origin=at.origin(node), lines=lines),)

    def tighten(self, base: tuple[ToolRules, ...], value: tuple[ToolRules, ...]) -> tuple[tuple[ToolRules, ...], str]:
        """Both."""
        return (*base, *value), ""

    def shown(self, value: tuple[ToolRules, ...]) -> object:
        """The lists."""
        return [[rule.text for rule in one.rules] for one in value] if value else None


NOTIFY_KINDS = ("request", "proposal", "quarantine")
"""The kinds of things that wait for somebody."""
_ARGUMENTS = 64
_RUN = "[/usr/local/bin/tell-the-team, --urgent]"
_SECONDS = Number(1, 600, strict=min)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyCommand:
    """A program that is started when something begins to wait."""

    run: tuple[str, ...]
    """The program, by an absolute path or a name on the PATH, and its arguments."""
    kinds: tuple[str, ...] = NOTIFY_KINDS
    seconds: int = 10
    """The time after which the program is ended."""


class NotifyCommandType(Kind["NotifyCommand"]):
    """The notification of the strongest file that has one. A project has none: it would start what it names."""

    adds_up = False
    example = f"{{run: {_RUN}, for: [request], seconds: 10}}"

    def read(self, at: At, node: Node) -> NotifyCommand | None:
        """The notification; None where any of it cannot be read, or where this file may have none."""
        if at.reading.layer == "project":
            at.warning(node.line, "A project's policy starts no program", "Add it to your own policy file.")
            return None
        before = len(at.reading.problems)
        run: tuple[str, ...] = ()
        kinds: tuple[str, ...] = NOTIFY_KINDS
        seconds = 10
        for name, value in at.pairs(node, self.example):
            inner = at.below(name)
            if name == "run":
                run = tuple(one.text for one in texts_of(inner, value, None, _RUN))
            elif name == "for":
                kinds = tuple(one.text for one in texts_of(inner, value, _wrong_kind, f"[{', '.join(NOTIFY_KINDS)}]"))
            elif name == "seconds":
                seconds = _SECONDS.read(inner, value) or seconds
            else:
                inner.error(value.line, f"There is no key {shown(name)!r}", "Keys here are run, for, seconds.")
        if len(at.reading.problems) > before:
            return None
        if not run or len(run) > _ARGUMENTS or not (os.path.isabs(run[0]) or os.path.basename(run[0]) == run[0]):
            what = f"`{at.key}.run` names no program by an absolute path, or by a name that is on the PATH"
            at.error(node.line, what, f"Write such as {_RUN}.")
            return None
        return NotifyCommand(run=run, kinds=kinds, seconds=seconds)

    def tighten(self, base: NotifyCommand, value: NotifyCommand) -> tuple[NotifyCommand, str]:
        """The stronger layer's."""
        return base, "one program is told, by the strongest file that names one" if value != base else ""

    def shown(self, value: NotifyCommand | None) -> object:
        """The program, and what it is told of."""
        if value is None:
            return None
        return {"run": list(value.run), "for": list(value.kinds), "seconds": value.seconds}


def _wrong_kind(text: str) -> str:
    return "" if text in NOTIFY_KINDS else f"{shown(text)!r}, which is none of {', '.join(NOTIFY_KINDS)}"
