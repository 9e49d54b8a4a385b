"""Fields that restrict a skill and are given more than once: only what all of them allow counts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from metier.skill.fields import EXECUTION_KEYS, NETWORKS, SCOPE_KEYS, canonical_field, hyphenated, is_yes, split_tools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Pairs = Iterable[tuple[Any, Any]]

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
