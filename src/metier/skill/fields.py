"""From a mapping of strings to typed fields: lenient about form, precise about what was assumed."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Literal

from metier._aliases import SKILL_FIELDS
from metier.skill.diagnostic import Diagnostic, as_text
from metier.skill.skill import Argument, Execution, Hook, HookGroup, Hooks, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FIELD_NAMES = [
    "name",
    "description",
    "license",
    "compatibility",
    "metadata",
    "allowed-tools",
    "disallowed-tools",
    "version",
    "tags",
    "requires",
    "model",
    "context",
    "agent",
    "hooks",
    "priority",
    "scope",
    "execution",
    "arguments",
    "argument-hint",
    "user-invocable",
    "disable-model-invocation",
    "triggers",
    "when_to_use",
    "insert",
    "execution-mode",
    "max-iterations",
    "max-retries-per-tool",
    "timeout-per-iteration",
    "early-termination",
    "legacy-large-file",
]

_CANONICAL = {name.replace("_", "-"): name for name in FIELD_NAMES} | dict(SKILL_FIELDS)
# `tools` names the same thing in some collections and quite another (a list of MCP servers) in others.
_TOOLS_ALIAS = "tools"
_BOOLEANS = {
    "true": True, "yes": True, "on": True, "1": True, "y": True,
    "false": False, "no": False, "off": False, "0": False, "n": False,
}  # fmt: skip
SPECIFICATION_FIELDS = frozenset({"name", "description", "license", "compatibility", "metadata", "allowed-tools"})
_ARGUMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SAID_AT_MOST = 10
_MAX_JSON_DEPTH = 32
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_TOOL_SEPARATORS = ",;\uff0c\u3001"  # the last two are what CJK keyboards make of a comma
SCOPE_KEYS = {
    "agent": "agents", "agents": "agents",
    "tenant": "tenants", "tenants": "tenants",
    "environment": "environments", "environments": "environments", "env": "environments",
}  # fmt: skip
NETWORKS: tuple[Literal["none"], Literal["restricted"], Literal["host"]] = ("none", "restricted", "host")
EXECUTION_KEYS = {
    "allow-hosts": "allow-hosts", "allowed-hosts": "allow-hosts", "hosts": "allow-hosts",
    "allowed-paths": "allowed-paths", "allow-paths": "allowed-paths", "paths": "allowed-paths",
    "network": "network", "sandbox": "sandbox",
}  # fmt: skip


def canonical_field(key: str) -> str | None:
    """The field that a key means (`allowedTools`, `allowed_tools`, `Allowed-Tools`), or None for an unknown one."""
    return _CANONICAL.get(hyphenated(key)) or _CANONICAL.get(key.strip().replace("_", "-").lower())


def hyphenated(key: str) -> str:
    """A key with hyphens between its words, however they are told apart."""
    return _CAMEL.sub("-", key.strip()).replace("_", "-").replace(" ", "-").lower()


class Fields:
    """Reads typed fields out of one frontmatter, collecting diagnostics as it goes."""

    def __init__(self, mapping: Mapping[str, Any], lines: Mapping[str, int]) -> None:
        self.notes: list[Diagnostic] = []
        self._said: dict[tuple[str, ...], int] = {}
        self.extra: dict[str, Any] = {}
        self._values: dict[str, Any] = {}
        self._lines: dict[str, int] = {}
        # Fields under their own names first: another spelling of one that is there has nothing to say.
        for key, value in sorted(mapping.items(), key=lambda item: item[0] not in FIELD_NAMES):
            self._place(key, value, lines.get(key, 1))
        self._place_from_metadata()
        if "<<" in mapping:
            self._place_merged(mapping["<<"], lines.get("<<", 1))

    def _place(self, key: str, value: Any, line: int) -> None:
        if key in FIELD_NAMES:
            field = key
        else:
            known = canonical_field(key)
            if known is None and key == _TOOLS_ALIAS and "allowed-tools" not in self._values and is_tool_list(value):
                known = "allowed-tools"
            if known == "requires" and isinstance(self._values.get(known), dict):
                # That says what the machine has to have; this names skills.
                self.drop(known)
            if known is None or known in self._values:
                if known is None or not self._restrict(known, value, line):
                    self.extra[key] = value
                if known == "requires" and value != self._values[known]:
                    self.note("field-twice", line, key, known)
                return
            self.note("field-alias", line, key, known)
            field = known
        self._values[field] = value
        self._lines[field] = line

    def _restrict(self, field: str, value: Any, line: int) -> bool:
        """Add what another spelling of a field restricts to what the field does; False for a field that does not."""
        from metier.skill.restrictions import RESTRICTING, combined

        if field not in RESTRICTING:
            return False
        self._values[field] = combined(field, self._values[field], value)
        self.note("field-restricts-twice", line, field)
        return True

    def _place_merged(self, value: Any, line: int) -> None:
        """Take the restrictions that YAML 1.1 would merge by `<<`: other readers of the file merge them."""
        from metier.skill.restrictions import RESTRICTING

        for part in value if isinstance(value, list) else [value]:
            for key, item in part.items() if isinstance(part, dict) else ():
                field = canonical_field(key)
                if field in RESTRICTING and not (field in self._values and self._restrict(field, item, line)):
                    self._place(key, item, line)

    def _place_from_metadata(self) -> None:
        """Fields outside the specification may stand where every client accepts them: below `metadata: metier:`.

        Tags and a version directly below `metadata:` are what other collections write.
        """
        metadata = self._values.get("metadata")
        if not isinstance(metadata, dict):
            return
        own = metadata.get("metier")
        found = {key: metadata[key] for key in ("tags", "version") if key in metadata}
        found |= own if isinstance(own, dict) else {}
        for key, value in found.items():
            field = canonical_field(key)
            if field is None or field in SPECIFICATION_FIELDS:
                continue
            if field in self._values:
                self._restrict(field, value, self._lines["metadata"])
            else:
                self._values[field] = value
                self._lines[field] = self._lines["metadata"]

    def note(self, code: str, line: int | None, *values: str) -> None:
        """Say something, but not a million times about one field."""
        about = (code, *values[:1])
        self._said[about] = self._said.get(about, 0) + 1
        if self._said[about] <= _SAID_AT_MOST:
            self.notes.append(Diagnostic(code, line, values))

    def line(self, field: str) -> int | None:
        """The line on which a field stands."""
        return self._lines.get(field)

    def drop(self, field: str) -> None:
        """Move a field that cannot be what its name says to `extra`."""
        self.extra[field] = self._values.pop(field)

    def raw(self, field: str) -> Any:
        return self._values.get(field)

    def text(self, field: str, *, strip: bool = True) -> str | None:
        """Text; a list or map where text is expected is joined."""
        value = self._values.get(field)
        if value is None:
            return None
        if not isinstance(value, str):
            self.note("field-joined", self.line(field), field)
            value = as_text(value)
        return (value.strip() if strip else value) or None

    def flag(self, field: str, default: bool | None) -> bool | None:
        """A boolean in any of the spellings that authors use."""
        value = self._values.get(field)
        if value is None or value == "":
            return default
        known = is_yes(value)
        if known is None:
            self._ignored(field, value, "true or false")
            return default
        return known

    def number(self, field: str, low: int, high: int) -> int | None:
        value = self._values.get(field)
        if value is None or value == "":
            return None
        try:
            number = int(str(value).strip()) if len(str(value)) <= 12 else None
        except ValueError:
            number = None
        if number is None or not low <= number <= high:
            self._ignored(field, value, f"a whole number from {low} to {high}")
            return None
        return number

    def choice(self, field: str, choices: tuple[str, ...], default: str) -> str:
        value = self._values.get(field)
        if value is None or value == "":
            return default
        if isinstance(value, str) and value.strip().lower() in choices:
            return value.strip().lower()
        self._ignored(field, value, " or ".join(choices))
        return default

    def words(self, field: str, *, warn_single: bool = False, commas: bool = True) -> tuple[str, ...]:
        """A list of short texts, given as a list, as comma-separated text, or alone."""
        value = self._values.get(field)
        if value is None or value == "":
            return ()
        if isinstance(value, str):
            items: list[Any] = re.split(r"[,\n]", value) if commas else [value]
            if len(items) == 1 and warn_single:
                self.note("field-as-list", self.line(field), field, value)
        elif isinstance(value, list):
            items = value
        else:
            items = list(value)
        return self._texts(field, items)

    def _texts(self, field: str, items: list[Any]) -> tuple[str, ...]:
        seen: dict[str, None] = {}
        for item in items:
            if not isinstance(item, str):
                self.note("item-dropped", self.line(field), field, "it is not text")
            elif not (text := item.strip().removeprefix("- ").strip("\"' ")):
                self.note("item-dropped", self.line(field), field, "it is empty")
            else:
                seen.setdefault(text)
        return tuple(seen)

    def tools(self, field: str) -> tuple[str, ...] | None:
        """Tool rules; None when the field is absent, which is not the same as an empty list."""
        if field not in self._values:
            return None
        return split_tools(self._values[field])

    def metadata(self) -> dict[str, Any]:
        written = value = self._values.get("metadata")
        if isinstance(value, str) and value.strip().startswith("{"):
            value = _from_json(value)
        if isinstance(value, dict):
            return value
        if written:
            self.note("metadata-not-a-map", self.line("metadata"))
        return {}

    def requires(self) -> tuple[str, ...]:
        """Names of skills; a map of requirements of another kind is kept in `extra`."""
        if isinstance(self._values.get("requires"), dict):
            self.drop("requires")
            return ()
        return self.words("requires")

    def scope(self) -> Scope | None:
        value = self._values.get("scope")
        if value is None:
            return None
        if not isinstance(value, dict):
            # Other tools use `scope: project` as a label; a label restricts nobody.
            self._ignored("scope", value, "a map with agents, tenants or environments")
            return None
        # Whoever writes `agent:` or `Agents:` means to restrict; reading it as no restriction would be the wrong way
        # to be lenient.
        from metier.skill.restrictions import scope_lists

        spelled = scope_lists(value.items())
        for key in spelled:
            if key not in SCOPE_KEYS.values():
                reason = f"`{key}` is not agents, tenants or environments"
                self.note("item-dropped", self.line("scope"), "scope", reason)
        return Scope(**{key: tuple(spelled[key]) for key in ("agents", "tenants", "environments") if key in spelled})

    def execution(self) -> Execution | None:
        value = self._values.get("execution")
        if not isinstance(value, dict):
            if value:
                self._ignored("execution", value, "a map with sandbox, allowed-paths, network or allow-hosts")
            return None
        inner = Fields({}, {})
        from metier.skill.restrictions import execution_values

        inner._values = execution_values(value.items())
        for key in inner._values:
            if key not in EXECUTION_KEYS.values():
                reason = f"`{key}` is not sandbox, allowed-paths, network or allow-hosts"
                self.note("item-dropped", self.line("execution"), "execution", reason)
        inner._lines = dict.fromkeys(inner._values, self.line("execution") or 1)
        execution = Execution(
            sandbox=inner.flag("sandbox", None),
            allowed_paths=inner.words("allowed-paths"),
            network=inner._network(),
            hosts=inner.words("allow-hosts") if "allow-hosts" in inner._values else None,
        )
        self.notes.extend(inner.notes)
        return execution

    def _network(self) -> Literal["none", "restricted", "host"] | None:
        """What a skill says of the network. Whoever says something means to restrict: what makes no sense is none."""
        if "network" not in self._values:
            return None
        value = self._values["network"]
        for network in NETWORKS:
            if isinstance(value, str) and value.strip().lower() == network:
                return network
        self._ignored("network", value, "none, restricted or host; until then it is none")
        return "none"

    def arguments(self) -> tuple[Argument, ...]:
        value = self._values.get("arguments")
        if value is None or value == "":
            return ()
        line = self.line("arguments")
        if isinstance(value, str):
            self.note("field-as-list", line, "arguments", value)
            value = value.replace(",", " ").split()
        elif isinstance(value, dict):
            value = [
                {"name": key, **(item if isinstance(item, dict) else {"description": item})}
                for key, item in value.items()
            ]
        found: dict[str, Argument] = {}
        for item in value:
            argument = _argument(item)
            if isinstance(argument, str):
                self.note("item-dropped", line, "arguments", argument)
            elif argument.name in found:
                self.note("item-dropped", line, "arguments", f"`{argument.name}` is given twice")
            else:
                found[argument.name] = argument
        return tuple(found.values())

    def hooks(self) -> Hooks | None:
        value = self._values.get("hooks")
        if not isinstance(value, dict):
            if value:
                self._ignored("hooks", value, "a map of events")
            return None
        events = {key: _hook_groups(item) for key, item in value.items() if key not in ("pre", "post")}
        old = {key: item for key in ("pre", "post") if isinstance(item := value.get(key), str) and item.strip()}
        for key, command in old.items():
            event = "PreToolUse" if key == "pre" else "PostToolUse"
            self.note("hooks-old-form", self.line("hooks"), key, event)
            events.setdefault(event, (HookGroup(hooks=(Hook(command=command),)),))
        for key, event in (("pre", "PreToolUse"), ("post", "PostToolUse")):
            if isinstance(value.get(key), dict | list):
                self.note("hooks-old-form", self.line("hooks"), key, event)
                events.setdefault(event, _hook_groups(value[key]))
        return Hooks(pre=old.get("pre"), post=old.get("post"), events=events)

    def _ignored(self, field: str, value: Any, expected: str) -> None:
        self.note("field-value", self.line(field), field, as_text(value), expected)


def is_yes(value: Any) -> bool | None:
    """A boolean in any of the spellings that authors use; None for what is none."""
    return _BOOLEANS.get(value.strip().lower()) if isinstance(value, str) else None


def split_tools(value: Any) -> tuple[str, ...]:
    """Tool rules from a list or from text separated by commas, blanks or line ends, outside parentheses.

    >>> split_tools("Bash(git add:*), Read Write")
    ('Bash(git add:*)', 'Read', 'Write')
    """
    if isinstance(value, dict):
        value = list(value)
    if isinstance(value, list):
        return tuple(dict.fromkeys(rule for item in value if isinstance(item, str) for rule in split_tools(item)))
    text = value.strip()
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    rules: list[str] = []
    depth, start = 0, 0
    for i, character in enumerate(text + " "):
        if character == "(":
            depth += 1
        elif character == ")":
            depth = max(0, depth - 1)
        elif (not depth and (character in _TOOL_SEPARATORS or character.isspace())) or i == len(text):
            rules.append(text[start:i])
            start = i + 1
    cleaned = (rule.strip().strip("\"'") for rule in rules)
    return tuple(dict.fromkeys(rule for rule in cleaned if rule not in ("", "-")))


def is_tool_list(value: Any) -> bool:
    """Whether the value of a `tools:` key can be a list of tool names at all."""
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(item, str) for item in value))


def _from_json(text: str) -> Any:
    """A map in JSON text, every number as text like everywhere in a frontmatter; None when it is none or too deep."""
    try:
        value = json.loads(text, parse_float=str, parse_int=str, parse_constant=str)
    except (ValueError, RecursionError):
        return None
    level = [value]
    for _ in range(_MAX_JSON_DEPTH):
        inner = [item for part in level for item in (part.values() if isinstance(part, dict) else part)]
        level = [item for item in inner if isinstance(item, dict | list)]
        if not level:
            return value
    return None


def _argument(item: Any) -> Argument | str:
    if isinstance(item, str):
        item = {"name": item}
    if not isinstance(item, dict):
        return "it is neither a name nor a map"
    name = item.get("name")
    if not isinstance(name, str) or not _ARGUMENT_NAME.fullmatch(name.strip()):
        return f"`{as_text(name) if name else ''}` is not a valid argument name"
    required = item.get("required")
    default = item.get("default")
    return Argument(
        name=name.strip(),
        description=as_text(item.get("description", "")).strip(),
        default=as_text(default) if default is not None else None,
        required=isinstance(required, str) and _BOOLEANS.get(required.strip().lower(), False),
    )


def _hook_groups(value: Any) -> tuple[HookGroup, ...]:
    groups = value if isinstance(value, list) else [value]
    return tuple(_hook_group(group) for group in groups if isinstance(group, (dict, str)))


def _hook_group(group: Any) -> HookGroup:
    if isinstance(group, str):
        return HookGroup(hooks=(Hook(command=group),))
    inner = group.get("hooks", [group] if "command" in group else [])
    hooks = [_hook(item) for item in (inner if isinstance(inner, list) else [inner])]
    matcher = group.get("matcher")
    return HookGroup(
        matcher=matcher if isinstance(matcher, str) and matcher else None,
        hooks=tuple(hook for hook in hooks if hook is not None),
    )


def _hook(item: Any) -> Hook | None:
    if isinstance(item, str):
        return Hook(command=item)
    if not isinstance(item, dict) or not isinstance(item.get("command"), str):
        return None
    read: Callable[[str], str] = lambda key: item[key].strip().lower() if isinstance(item.get(key), str) else ""  # noqa: E731
    return Hook(command=item["command"], once=_BOOLEANS.get(read("once"), False), timeout=read("timeout") or None)
