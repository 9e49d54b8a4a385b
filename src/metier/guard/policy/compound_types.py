"""The value types of policy keys that are maps, or lists of more than plain text."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from metier._lazy import replace
from metier._paths import is_inside
from metier.errors import InvalidArgument
from metier.guard.policy.effective import NOTIFY_KINDS, AutoApproval, NotifyCommand, ScanEngine
from metier.guard.policy.file import Located
from metier.guard.policy.program import VARIABLE
from metier.guard.policy.value_types import (
    MAX_TEXT,
    ValueType,
    choice,
    number,
    one_of,
    read_texts,
    read_word,
    subset_list,
)
from metier.scan.finding import SEVERITIES
from metier.skill import shown
from metier.skill.listing import MODES, ListingRule, Listings
from metier.skill.package import is_digest
from metier.skill.tool_rules import parse_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from metier.guard.policy.reader import KeyReader
    from metier.guard.policy.yaml_tree import Node
    from metier.scan.pack_store import PackRef
    from metier.skill.tool_rules import ToolRule

_ROLES = ("viewer", "author", "reviewer", "admin")
_APPROVER = re.compile(r"(role|user|agent|service):(\S.{0,127})").fullmatch
_SIGNER = re.compile(r"oms:\S.{0,255}|sigstore:[^\s@]\S{0,255}@https?://\S{1,255}").fullmatch
_SEVERITIES = ("none", *SEVERITIES)
_MAX_ARGUMENTS = 64


_ListingModes: TypeAlias = "tuple[tuple[ListingRule, ...], ...]"


def listing_modes() -> ValueType[_ListingModes]:
    """Maps from patterns of skills to listing modes, one for each file that has one; the strictest mode counts."""

    def read(key: KeyReader, node: Node) -> _ListingModes:
        rules: list[ListingRule] = []
        for pattern, value in key.pairs(node, "{my-skill: name-only}"):
            inner = key.below(pattern)
            mode = read_word(inner, value, MODES)
            rules.append(ListingRule(pattern=pattern, mode=mode, origin=inner.origin(value)))
        return (tuple(rules),)

    def tighten(base: _ListingModes, value: _ListingModes) -> tuple[_ListingModes, str]:
        lost = ""
        stricter = {rule.pattern: rule for layer in base for rule in layer if rule.is_strict}
        for own in (rule for layer in value for rule in layer):
            given = stricter.get(own.pattern)
            if given is not None and MODES.index(own.mode) < MODES.index(given.mode):
                lost = f"`{own.mode}` for {shown(own.pattern)!r} is less strict than `{given.mode}`"
        return (*base, *value), lost

    def show(value: _ListingModes) -> object:
        maps = [{rule.pattern: rule.mode for rule in layer} for layer in value]
        return maps[0] if len(maps) == 1 else maps

    return ValueType(read=read, tighten=tighten, shown=show, setting=Listings, adds_up=True)


_Pins: TypeAlias = "Mapping[str, tuple[Located, ...]]"


def pins() -> ValueType[_Pins]:
    """A map from skills to the only digest that their content may have; two different ones exclude the skill."""

    def read(key: KeyReader, node: Node) -> _Pins:
        found: _Pins = {}
        for name, value in key.pairs(node, '{"pdf@acme": "sha256:..."}'):
            inner = key.below(name)
            if not is_digest(value.text):
                inner.wrong(value, "Write sha256: and 64 digits and letters a-f, as `metier show` has them.")
            found, _ = tighten(found, {name: (Located(value.text, inner.origin(value)),)})
        return found

    def tighten(base: _Pins, value: _Pins) -> tuple[_Pins, str]:
        merged = dict(base)
        for name, digests in value.items():
            known = merged.get(name, ())
            merged[name] = (*known, *(pin for pin in digests if all(pin.text != one.text for one in known)))
        return merged, ""

    def show(value: _Pins) -> object:
        return {name: pins[0].text if len(pins) == 1 else [one.text for one in pins] for name, pins in value.items()}

    return ValueType(read=read, tighten=tighten, shown=show, adds_up=True)


_Enforcements: TypeAlias = "Mapping[str, Located]"


def enforcements() -> ValueType[_Enforcements]:
    """A map from layers, sources or folders to `advisory` or `enforced`; a weaker file only enforces."""

    def read(key: KeyReader, node: Node) -> _Enforcements:
        found: dict[str, Located] = {}
        for pattern, value in key.pairs(node, '{plugin: advisory, ".claude/skills": enforced}'):
            inner = key.below(pattern)
            word = read_word(inner, value, ("advisory", "enforced"))
            if word == "advisory" and pattern == "enterprise" and key.reader.layer != "enterprise":
                message = "Only an enterprise file makes the lists of enterprise skills advisory"
                key.warning(value.line, message, "Take it out.")
                continue
            if pattern not in found or word == "enforced":
                found[pattern] = Located(word, inner.origin(value))
        return found

    def tighten(base: _Enforcements, value: _Enforcements) -> tuple[_Enforcements, str]:
        enforced = {pattern: own for pattern, own in value.items() if own.text == "enforced"}
        loosening = [one for one in value if one not in enforced and (one not in base or base[one].text != "advisory")]
        lost = f"it cannot make {shown(loosening[0])!r} advisory" if loosening else ""
        # An entry that is enforced already keeps the line that said so first.
        first = {pattern: own for pattern, own in base.items() if own.text == "enforced"}
        return {**base, **enforced, **first}, lost

    def show(value: _Enforcements) -> object:
        return {pattern: one.text for pattern, one in value.items()}

    return ValueType(read=read, tighten=tighten, shown=show, adds_up=True)


_Secrets: TypeAlias = "Mapping[str, tuple[str, ...]]"


def secrets() -> ValueType[_Secrets]:
    """A map from skills to the names of the secrets that they get."""

    def problem_of(entry: str) -> str:
        return "" if VARIABLE.fullmatch(entry) else f"{shown(entry)!r}, which is no name"

    def read(key: KeyReader, node: Node) -> _Secrets:
        found: dict[str, tuple[str, ...]] = {}
        for skill, value in key.pairs(node, "{deploy: [API_TOKEN]}"):
            names = dict.fromkeys(one.text for one in read_texts(key.below(skill), value, problem_of, "[API_TOKEN]"))
            found[skill] = tuple(one for one in names if one in found.get(skill, names))
        return found

    def tighten(base: _Secrets, value: _Secrets) -> tuple[_Secrets, str]:
        lost = next((skill for skill, names in value.items() if set(names) - set(base.get(skill, ()))), None)
        common = {skill: tuple(one for one in base[skill] if one in value[skill]) for skill in base if skill in value}
        return common, f"it cannot grant more to {shown(lost)!r}" if lost is not None else ""

    def show(value: _Secrets) -> object:
        return {skill: list(names) for skill, names in value.items()}

    return ValueType(read=read, tighten=tighten, shown=show, adds_up=True)


_Limits: TypeAlias = "Mapping[str, float]"


def limits(*names: str) -> ValueType[_Limits]:
    """A map from resources to their limits."""

    def read(key: KeyReader, node: Node) -> _Limits:
        found: dict[str, float] = {}
        for written, value in key.pairs(node, "{seconds: 60, memory-bytes: 1073741824}"):
            inner, name = key.below(written), written.replace("-", "_")
            if name not in names:
                known = ", ".join(one.replace("_", "-") for one in names)
                inner.error(value.line, f"There is no limit {shown(written)!r}", f"Limits are {known}.")
                continue
            limit = _positive(value.text, is_whole=name != "seconds")
            if limit is None:
                inner.wrong(value, "Write a number above 0; all but the seconds are whole.")
            found[name] = min(limit or 1, found.get(name, limit or 1))
        return found

    def tighten(base: _Limits, value: _Limits) -> tuple[_Limits, str]:
        lost = next((name for name, most in value.items() if most > base.get(name, most)), None)
        merged = {name: min(base.get(name, most), value.get(name, most)) for name, most in {**base, **value}.items()}
        return merged, f"{lost.replace('_', '-')} is more than is allowed" if lost is not None else ""

    def show(value: _Limits) -> object:
        return {name.replace("_", "-"): most for name, most in value.items()}

    return ValueType(read=read, tighten=tighten, shown=show, adds_up=True)


def _positive(written: str, *, is_whole: bool) -> float | None:
    if re.fullmatch(r"[0-9]{1,18}", written, re.ASCII) and int(written) > 0:
        return int(written)
    if not is_whole and re.fullmatch(r"[0-9]{1,9}\.[0-9]{1,9}", written, re.ASCII) and float(written) > 0:
        return float(written)
    return None


def approvers() -> ValueType[tuple[str, ...]]:
    """The people, roles and agents who decide about approvals."""

    def problem_of(entry: str) -> str:
        found = _APPROVER(entry)
        if found and (found[1] != "role" or found[2] in (*_ROLES, "skill-admin")):
            return ""
        return f"{shown(entry)!r}, which is neither role:{'|'.join(_ROLES)} nor user:NAME or agent:NAME"

    def normalise(entry: str) -> str:
        return "role:admin" if entry == "role:skill-admin" else entry

    def covers(given: str, own: str) -> bool:
        if given == own:
            return True
        # Each role includes the ones before it.
        role, other = given.removeprefix("role:"), own.removeprefix("role:")
        return role in _ROLES and other in _ROLES and _ROLES.index(role) <= _ROLES.index(other)

    def tighten(base: tuple[str, ...], value: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
        common = tuple(own for own in value if any(covers(given, own) for given in base))
        lost = next((own for own in value if own not in common), None)
        return common if common or not value else base, f"it cannot add {shown(lost)!r}" if lost is not None else ""

    # Of a list that a stronger file does not allow at all, nothing counts: somebody has to be able to approve.
    return replace(subset_list('["role:admin", "user:ada"]', problem_of, normalise=normalise), tighten=tighten)


def _read_record(
    key: KeyReader,
    node: Node,
    example: str,
    readers: Mapping[str, Callable[[KeyReader, Node], Any]],
    unknown: tuple[str, str] = ("key", "Keys here are"),
) -> dict[str, Any] | None:
    """The fields of a map with known names, each read by its reader; None where any of it cannot be read."""
    before = len(key.reader.problems)
    record: dict[str, Any] = {}
    for name, value in key.pairs(node, example):
        inner = key.below(name)
        if name in readers:
            record[name] = readers[name](inner, value)
        else:
            noun, known = unknown
            inner.error(value.line, f"There is no {noun} {shown(name)!r}", f"{known} {', '.join(readers)}.")
    return record if len(key.reader.problems) == before else None


def _read_signers(key: KeyReader, node: Node) -> tuple[Located, ...]:
    """Names of signers; the path of a key starts from the folder of the file."""

    def problem_of(entry: str) -> str:
        return "" if _SIGNER(entry) else f"{shown(entry)!r}, which names no signer"

    if node.kind == "list" and not node.items:
        key.error(node.line, "An empty list of signers is nobody", "Name one, or leave it out.")
    return tuple(
        Located(_signer_below(os.path.dirname(key.origin(node).path), one.text), one.origin)
        for one in read_texts(key, node, problem_of, '["oms:keys/acme.pub"]')
    )


def _signer_below(folder: str, name: str) -> str:
    if not name.startswith("oms:") or is_digest(name[4:]):
        return name
    return f"oms:{os.path.join(folder, os.path.expanduser(name[4:]))}"


_Signers: TypeAlias = "Mapping[str, tuple[Located, ...]]"


def source_signers(problem_of: Callable[[str], str]) -> ValueType[_Signers]:
    """A map from sources to signers, one of whom must have signed what comes from there; files only take some away."""

    def read(key: KeyReader, node: Node) -> _Signers:
        found: dict[str, tuple[Located, ...]] = {}
        for pattern, value in key.pairs(node, '{"git+https://github.com/acme/*": ["oms:keys/acme.pub"]}'):
            problem = problem_of(pattern)
            if problem:
                key.error(value.line, f"`{key.key}` has {problem}", "Write such as git+https://github.com/acme/*.")
            found[pattern] = _read_signers(key.below(pattern), value)
        return found

    def tighten(base: _Signers, value: _Signers) -> tuple[_Signers, str]:
        merged, lost = dict(base), ""
        for pattern, signers in value.items():
            given = base.get(pattern)
            names = {one.text for one in signers}
            merged[pattern] = signers if given is None else tuple(one for one in given if one.text in names)
            if given is not None and not names <= {one.text for one in given}:
                lost = f"it cannot add a signer for {shown(pattern)!r}"
        return merged, lost

    def show(value: _Signers) -> object:
        return {pattern: [one.text for one in signers] for pattern, signers in value.items()}

    return ValueType(read=read, tighten=tighten, shown=show, adds_up=True)


def auto_approval() -> ValueType[AutoApproval | None]:
    """The conditions for approval without a person; with one that cannot be read, nothing is approved."""
    example = "{scan-max: low, no-new-capabilities: true}"

    def read_signers(key: KeyReader, node: Node) -> tuple[str, ...]:
        return tuple(one.text for one in _read_signers(key, node))

    def read_flag(key: KeyReader, node: Node) -> bool:
        if node.text.lower() not in ("true", "false"):
            key.wrong(node, "Write true or false.")
        return node.text.lower() == "true"

    severity = choice(*reversed(_SEVERITIES))
    readers = {"signer": read_signers, "scan-max": severity.read, "no-new-capabilities": read_flag}

    def read(key: KeyReader, node: Node) -> AutoApproval | None:
        record = _read_record(key, node, example, readers, ("condition", "Conditions are"))
        if node.kind == "map" and not node.pairs:
            key.error(node.line, "No condition would approve everything", f"Write such as {example}.")
        if not record:
            return None
        return AutoApproval(**{name.replace("-", "_"): one for name, one in record.items()}, origin=key.origin(node))

    def tighten(base: AutoApproval | None, value: AutoApproval | None) -> tuple[AutoApproval | None, str]:
        # All conditions of both hold; a weaker layer cannot begin to approve by itself.
        if base is None or value is None:
            return None, "nothing is approved without a person" if value is not None else ""
        signer = base.signer or value.signer
        if base.signer and value.signer:
            signer = tuple(one for one in base.signer if one in value.signer)
            if not signer:
                return None, ""
        severities = [one for one in (base.scan_max, value.scan_max) if one is not None]
        both = AutoApproval(
            signer=signer,
            scan_max=min(severities, key=_SEVERITIES.index) if severities else None,
            no_new_capabilities=base.no_new_capabilities or value.no_new_capabilities,
            origin=base.origin,
        )
        return both, ""

    def show(value: AutoApproval | None) -> object:
        if value is None:
            return None
        conditions = (list(value.signer) or None, value.scan_max, value.no_new_capabilities or None)
        return {name: one for name, one in zip(readers, conditions, strict=True) if one is not None}

    return ValueType(read=read, tighten=tighten, shown=show, adds_up=True, takes_none=True)


_Engines: TypeAlias = "tuple[ScanEngine, ...]"


def engines() -> ValueType[_Engines]:
    """The scanners. A project adds none: whoever opens it would run its commands."""
    example = '[core, {sarif: "cmd: skill-scanner scan {dir} --format sarif"}]'

    def read(key: KeyReader, node: Node) -> _Engines | None:
        if node.kind != "list":
            key.wrong(node, f"Write a list, such as {example}.")
            return None
        found: dict[str, ScanEngine] = {}
        for item in node.items:
            try:
                engine = read_engine(key, item)
            except InvalidArgument as flaw:
                key.error(item.line, f"`{key.key}`: {flaw.message.rstrip('.')}", flaw.hint)
                continue
            if engine is None:
                key.error(item.line, f"`{key.key}` has {shown(item.text) or item.noun}", f"Write such as {example}.")
            elif engine.command and key.reader.layer == "project":
                key.warning(item.line, "A project's policy adds no scanner", "Add it to your own policy file.")
            else:
                found.setdefault(engine.name, engine)
        return tuple(found.values())

    def read_engine(key: KeyReader, item: Node) -> ScanEngine | None:
        if item.kind == "text":
            return ScanEngine(name="core") if item.text == "core" else None
        fields = {name: value.text for name, value in key.pairs(item, "{sarif: ...}") if value.kind == "text"}
        command = fields.get("sarif", "").removeprefix("cmd:").strip()
        words = command.split()
        name = fields.get("name") or (os.path.basename(words[0]) if words else "")
        if not command or len(fields) != len(item.pairs) or set(fields) - {"sarif", "name"} or name == "core":
            return None
        if not name.isprintable() or len(command) > 1_024:
            return None
        from metier.scan.external import scanner_of

        scanner_of(command)  # which raises for one that can never scan: here, and not when the first skill is scanned
        return ScanEngine(name=name, command=command)

    def tighten(base: _Engines, value: _Engines) -> tuple[_Engines, str]:
        known = {one.name for one in base}
        return (*base, *(one for one in value if one.name not in known)), ""

    def show(value: _Engines) -> object:
        return [{"name": one.name, "command": one.command} if one.command else one.name for one in value]

    return ValueType(read=read, tighten=tighten, shown=show, adds_up=True)


_Packs: TypeAlias = "tuple[PackRef, ...]"
_PACKS = '[{folder: acme-rules, digest: "sha256:..."}]'


def packs() -> ValueType[_Packs]:
    """Packs of rules, each pinned by its digest; those of all files count. A path starts from its file's folder."""

    def read(key: KeyReader, node: Node) -> _Packs | None:
        if node.kind != "list":
            key.wrong(node, f"Write a list, such as {_PACKS}.")
            return None
        found = (_read_pack(key, item) for item in node.items)
        return tuple(dict.fromkeys(pack for pack in found if pack is not None))

    def tighten(base: _Packs, value: _Packs) -> tuple[_Packs, str]:
        lost = "an empty list takes nothing away" if base and not value else ""
        return tuple(dict.fromkeys((*base, *value))), lost

    def show(value: _Packs) -> object:
        return [
            {"folder": one.folder, "digest": one.digest}
            if one.folder
            else {"package": one.package, "digest": one.digest}
            for one in value
        ]

    return ValueType(read=read, tighten=tighten, shown=show, adds_up=True)


def _read_pack(key: KeyReader, item: Node) -> PackRef | None:
    from metier.scan.pack_store import PackRef

    fields = {name: value.text for name, value in key.pairs(item, _PACKS[1:-1]) if value.kind == "text"}
    kinds = [name for name in ("folder", "package") if fields.get(name)]
    if item.kind != "map":
        return None
    if len(fields) != len(item.pairs) or set(fields) - {"folder", "package", "digest"}:
        key.error(item.line, f"`{key.key}` has something other than a pack", f"Write such as {_PACKS}.")
    elif len(kinds) != 1 or not fields[kinds[0]].isprintable() or len(fields[kinds[0]]) > MAX_TEXT:
        key.error(
            item.line, f"`{key.key}` has a pack without one `folder` or one `package`", f"Write such as {_PACKS}."
        )
    elif not is_digest(fields.get("digest", "")):
        hint = "Write `digest: sha256:...`; `metier scan rules test DIR` says what it is."
        key.error(item.line, f"`{key.key}` has a pack without the digest of what it is", hint)
    elif kinds == ["package"]:
        if key.reader.layer != "project":
            return PackRef(package=fields["package"], digest=fields["digest"])
        hint = "Keep the rules in a folder of the project, or name the package in your own policy file."
        key.warning(item.line, "A project's policy names no package with rules", hint)
    else:
        above = os.path.dirname(key.reader.path)
        folder = os.path.normpath(os.path.join(above, os.path.expanduser(fields["folder"])))
        project = os.path.dirname(above) if os.path.basename(above) == ".metier" else above
        if key.reader.layer != "project" or is_inside(os.path.realpath(folder), os.path.realpath(project)):
            return PackRef(folder=folder, digest=fields["digest"])
        key.warning(item.line, "A project's policy adds no rules from elsewhere", "Name a folder of the project.")
    return None


class ToolRuleList(NamedTuple):
    """The tool rules of one list of one file, each with its line."""

    rules: Mapping[ToolRule, int]
    line: int


TOOL_RULE_EXAMPLE = '["WebFetch", "Bash(curl *)"]'


def tool_rules() -> ValueType[tuple[ToolRuleList, ...]]:
    """Tool rules, one list for each file that has one; a malformed one allows nothing, and denies its whole tool."""

    def read(key: KeyReader, node: Node) -> tuple[ToolRuleList, ...]:
        rules: dict[ToolRule, int] = {}
        for one in read_texts(key, node, None, TOOL_RULE_EXAMPLE):
            line = one.origin.line if one.origin is not None else node.line
            for rule in parse_rules(one.text):
                rules.setdefault(rule, line)
                if rule.is_malformed:
                    what = f"`{key.key}` has {shown(rule.text)!r}, which is no rule"
                    key.error(line, what, "Write `Tool` or `Tool(pattern)`, with every parenthesis closed.")
        return (ToolRuleList(rules, node.line),)

    def show(value: tuple[ToolRuleList, ...]) -> object:
        return [[rule.text for rule in one.rules] for one in value] if value else None

    return ValueType(read=read, tighten=lambda base, value: ((*base, *value), ""), shown=show, adds_up=True)


def notify_command() -> ValueType[NotifyCommand]:
    """The notify command of the strongest file that has one. A project has none: it would start what it names."""
    run_example = "[/usr/local/bin/tell-the-team, --urgent]"
    example = f"{{run: {run_example}, for: [request], seconds: 10}}"

    def read_kinds(key: KeyReader, node: Node) -> tuple[str, ...]:
        kinds = read_texts(key, node, one_of(*NOTIFY_KINDS), f"[{', '.join(NOTIFY_KINDS)}]")
        return tuple(one.text for one in kinds)

    def read_run(key: KeyReader, node: Node) -> tuple[str, ...]:
        return tuple(one.text for one in read_texts(key, node, None, run_example))

    readers = {"run": read_run, "for": read_kinds, "seconds": number(1, 600, strict=min).read}

    def read(key: KeyReader, node: Node) -> NotifyCommand | None:
        if key.reader.layer == "project":
            key.warning(node.line, "A project's policy starts no program", "Add it to your own policy file.")
            return None
        record = _read_record(key, node, example, readers)
        if record is None:
            return None
        run: tuple[str, ...] = record.get("run", ())
        if not run or len(run) > _MAX_ARGUMENTS or not (os.path.isabs(run[0]) or os.path.basename(run[0]) == run[0]):
            what = f"`{key.key}.run` names no program by an absolute path, or by a name that is on the PATH"
            key.error(node.line, what, f"Write such as {run_example}.")
            return None
        return NotifyCommand(**{{"for": "kinds"}.get(name, name): one for name, one in record.items()})

    def tighten(base: NotifyCommand, value: NotifyCommand) -> tuple[NotifyCommand, str]:
        return base, "one program is told, by the strongest file that names one" if value != base else ""

    def show(value: NotifyCommand | None) -> object:
        if value is None:
            return None
        return {"run": list(value.run), "for": list(value.kinds), "seconds": value.seconds}

    return ValueType(read=read, tighten=tighten, shown=show)
