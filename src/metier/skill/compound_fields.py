"""The fields that hold maps (scope, execution, hooks, arguments), and restrictions that are given more than once.

Of a restriction that is given twice, only what both allow counts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

from metier.skill.diagnostic import as_text
from metier.skill.fields import canonical_field, hyphenated, is_yes, split_tools
from metier.skill.skill import Argument, Execution, Hook, HookGroup, Hooks, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from metier.skill.fields import Fields

    Pairs = Iterable[tuple[Any, Any]]

_ARGUMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
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


def _read_scope(fields: Fields, value: Any) -> Scope | None:
    if not isinstance(value, dict):
        # Other tools use `scope: project` as a label; a label restricts nobody.
        fields.ignored("scope", value, "a map with agents, tenants or environments")
        return None
    # Authors who write `agent:` or `Agents:` mean to restrict; reading it as no restriction would be the wrong way
    # to be lenient.
    spelled = scope_lists(value.items())
    for key in spelled:
        if key not in SCOPE_KEYS.values():
            reason = f"`{key}` is not agents, tenants or environments"
            fields.note("item-dropped", fields.line("scope"), "scope", reason)
    return Scope(**{key: tuple(spelled[key]) for key in ("agents", "tenants", "environments") if key in spelled})


def _read_execution(fields: Fields, value: Any) -> Execution | None:
    if not isinstance(value, dict):
        if value:
            fields.ignored("execution", value, "a map with sandbox, allowed-paths, network or allow-hosts")
        return None
    values = execution_values(value.items())
    for key in values:
        if key not in EXECUTION_KEYS.values():
            reason = f"`{key}` is not sandbox, allowed-paths, network or allow-hosts"
            fields.note("item-dropped", fields.line("execution"), "execution", reason)
    inner = fields.below("execution", values)
    execution = Execution(
        sandbox=inner.flag("sandbox"),
        allowed_paths=inner.words("allowed-paths"),
        network=_read_network(inner) if "network" in values else None,
        hosts=inner.words("allow-hosts") if "allow-hosts" in values else None,
    )
    fields.notes.extend(inner.notes)
    return execution


def _read_network(fields: Fields) -> Literal["none", "restricted", "host"]:
    """The network that a skill asks for; a value that is not understood was meant to restrict, and counts as none."""
    value = fields.values["network"]
    for network in NETWORKS:
        if isinstance(value, str) and value.strip().lower() == network:
            return network
    fields.ignored("network", value, "none, restricted or host; until then it is none")
    return "none"


def _read_arguments(fields: Fields, value: Any) -> tuple[Argument, ...]:
    line = fields.line("arguments")
    if isinstance(value, str):
        fields.note("field-as-list", line, "arguments", value)
        value = value.replace(",", " ").split()
    elif isinstance(value, dict):
        value = [
            {"name": key, **(item if isinstance(item, dict) else {"description": item})} for key, item in value.items()
        ]
    found: dict[str, Argument] = {}
    for item in value:
        argument = _argument(item)
        if isinstance(argument, str):
            fields.note("item-dropped", line, "arguments", argument)
        elif argument.name in found:
            fields.note("item-dropped", line, "arguments", f"`{argument.name}` is given twice")
        else:
            found[argument.name] = argument
    return tuple(found.values())


def _read_hooks(fields: Fields, value: Any) -> Hooks | None:
    if not isinstance(value, dict):
        if value:
            fields.ignored("hooks", value, "a map of events")
        return None
    events = {key: _hook_groups(item) for key, item in value.items() if key not in ("pre", "post")}
    old = {key: item for key in ("pre", "post") if isinstance(item := value.get(key), str) and item.strip()}
    for key, command in old.items():
        event = "PreToolUse" if key == "pre" else "PostToolUse"
        fields.note("hooks-old-form", fields.line("hooks"), key, event)
        events.setdefault(event, (HookGroup(hooks=(Hook(command=command),)),))
    for key, event in (("pre", "PreToolUse"), ("post", "PostToolUse")):
        if isinstance(value.get(key), dict | list):
            fields.note("hooks-old-form", fields.line("hooks"), key, event)
            events.setdefault(event, _hook_groups(value[key]))
    return Hooks(pre=old.get("pre"), post=old.get("post"), events=events)


def _argument(item: Any) -> Argument | str:
    if isinstance(item, str):
        item = {"name": item}
    if not isinstance(item, dict):
        return "it is neither a name nor a map"
    name = item.get("name")
    if not isinstance(name, str) or not _ARGUMENT_NAME.fullmatch(name.strip()):
        return f"`{as_text(name) if name else ''}` is not a valid argument name"
    default = item.get("default")
    return Argument(
        name=name.strip(),
        description=as_text(item.get("description", "")).strip(),
        default=as_text(default) if default is not None else None,
        required=bool(is_yes(item.get("required"))),
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
    return Hook(
        command=item["command"], once=bool(is_yes(item.get("once"))), timeout=_word(item.get("timeout")) or None
    )


READERS: dict[str, Callable[[Fields, Any], Any]] = {
    "scope": _read_scope,
    "execution": _read_execution,
    "arguments": _read_arguments,
    "hooks": _read_hooks,
}
"""Fields that hold a map, by the reader of their value, which returns None for one that is not understood."""


RESTRICTING = frozenset(
    {
        *("allowed-tools", "disallowed-tools", "scope", "execution", "hooks"),
        *("disable-model-invocation", "user-invocable"),
    }
)
"""Fields of which another one cannot take back what the first restricts."""


def restricted_field(key: str) -> str | None:
    """The restricting field that a key means, in any spelling; None for every other key."""
    field = "allowed-tools" if key == "tools" else canonical_field(key)
    return field if field in RESTRICTING else None


def combined(field: str, one: Any, other: Any) -> Any:
    """The value of a restricting field that two values come to, whichever of them stands first.

    >>> combined("allowed-tools", "Read, Bash", ["Bash(git:*)", "Write"])
    ['Bash(git:*)']
    """
    if field == "allowed-tools":
        return _common_tools(split_tools(one), split_tools(other))
    if field == "disallowed-tools":
        return list(dict.fromkeys((*split_tools(one), *split_tools(other))))
    if field == "disable-model-invocation":
        return one if is_yes(one) else other
    if field == "user-invocable":
        return one if is_yes(one) is False else other
    if not isinstance(one, dict) or not isinstance(other, dict):
        return one if isinstance(one, dict) else other
    if field == "hooks":
        return {**one, **other}
    pairs = [*one.items(), *other.items()]
    return scope_lists(pairs) if field == "scope" else execution_values(pairs)


def _common_tools(one: tuple[str, ...], other: tuple[str, ...]) -> list[str]:
    """The rules of each list that the other one has too, or has for the whole tool."""
    kept = [*(rule for rule in one if _is_covered(rule, other)), *(rule for rule in other if _is_covered(rule, one))]
    return list(dict.fromkeys(kept))


def _is_covered(rule: str, rules: tuple[str, ...]) -> bool:
    return rule in rules or rule.partition("(")[0] in rules or "*" in rules


def scope_lists(pairs: Pairs) -> dict[str, Any]:
    """The lists of a scope by what they are lists of; of several for the same, what all of them name."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        name = SCOPE_KEYS.get(str(key).strip().lower(), str(key))
        if name in SCOPE_KEYS.values():
            names = _texts(value, r"[,\s]+")
            found[name] = _common(found[name], names) if name in found else names
        else:
            found[name] = value
    return found


def execution_values(pairs: Pairs) -> dict[str, Any]:
    """The values of `execution` by their own names; of several for one name, the strictest."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        spelled = hyphenated(str(key))
        name = EXECUTION_KEYS.get(spelled, spelled)
        found[name] = _STRICTEST.get(name, _last)(found[name], value) if name in found else value
    return found


def _last(_: Any, other: Any) -> Any:
    return other


def _least_network(one: Any, other: Any) -> Any:
    # What makes no sense is none, and stays what it is so that it is told.
    return min(one, other, key=lambda value: NETWORKS.index(word) if (word := _word(value)) in NETWORKS else -1)


def _sandboxed(one: Any, other: Any) -> Any:
    return other if is_yes(one) is False else one


def _common_texts(one: Any, other: Any) -> list[str]:
    return _common(_texts(one, r"[,\n]"), _texts(other, r"[,\n]"))


def _common(one: list[str], other: list[str]) -> list[str]:
    return [text for text in one if text in other]


def _texts(value: Any, separators: str) -> list[str]:
    items = value if isinstance(value, list) else re.split(separators, value) if isinstance(value, str) else []
    return [item.strip() for item in items if isinstance(item, str) and item.strip()]


def _word(value: Any) -> str:
    return value.strip().lower() if isinstance(value, str) else ""


_STRICTEST: dict[str, Callable[[Any, Any], Any]] = {
    "sandbox": _sandboxed,
    "network": _least_network,
    "allowed-paths": _common_texts,
    "allow-hosts": _common_texts,
}
