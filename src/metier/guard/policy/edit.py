"""Setting one listing mode in a policy file, with everything else in it left as people wrote it."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import yaml

from metier._paths import write_file
from metier.errors import InvalidArgument
from metier.guard.policy.reader import parse_policy
from metier.hints import for_people
from metier.skill import shown

if TYPE_CHECKING:
    from metier.library import Layer
    from metier.skill.listing import Mode

_PLAIN = re.compile(r"[a-z0-9][a-z0-9-]*[a-z0-9]").fullmatch
_WORDS = frozenset({"on", "off", "yes", "no", "true", "false", "null"})


def set_listing_mode(path: str, layer: Layer, pattern: str, mode: Mode) -> None:
    """Set the mode of a pattern in a policy file, which is made where there is none.

    Raises `InvalidArgument` for a file that is broken, or written in a way that cannot be changed with certainty.
    """
    try:
        with open(path, encoding="utf-8", newline="") as file:
            before = file.read()
    except FileNotFoundError:
        before = ""
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"{shown(path, 500)} cannot be read: {error}.", hint="Mend the file first.") from None
    if all(not line.strip() or line.startswith("#") for line in before.splitlines()):
        before = _block(before, 0, ["version: 1"])
    if any(problem.severity == "error" for problem in parse_policy(before, path, layer).problems):
        raise InvalidArgument(
            f"The policy file {shown(path, 500)} has errors.",
            hint=for_people("`metier policy check` says which; mend them first."),
        )
    after = _edited(before, pattern, mode)
    _require_only_that(before, after, path, layer, pattern, mode)
    _replace(path, after)


def _edited(text: str, pattern: str, mode: Mode) -> str:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    key = pattern if _PLAIN(pattern) and pattern not in _WORDS else '"' + pattern.replace("\\", "\\\\") + '"'
    at, value = _deepest(root, ("skills", "listing", pattern))
    missing = ("skills", "listing", key)[at:]
    if not missing:
        return text[: value.start_mark.index] + mode + text[value.end_mark.index :]
    if isinstance(value, yaml.MappingNode) and not value.flow_style:
        # Behind the last value: what people wrote above a key stays above it.
        end = text.find("\n", _end(value)) + 1 or len(text)
        lines = [f"{'  ' * depth}{name}:" for depth, name in enumerate(missing)]
        return (
            _block(text[:end], value.value[0][0].start_mark.column, [*lines[:-1], f"{lines[-1]} {mode}"]) + text[end:]
        )
    flow = f"{missing[-1]}: {mode}"
    for name in reversed(missing[:-1]):
        flow = f"{name}: {{{flow}}}"
    start = value.start_mark.index
    if isinstance(value, yaml.ScalarNode):
        return f"{text[:start]} {{{flow}}}{text[value.end_mark.index :]}"  # `skills:` with nothing behind it
    return text[: start + 1] + flow + (", " if value.value else "") + text[start + 1 :]


def _block(before: str, column: int, lines: list[str]) -> str:
    """Text with more lines behind it, each from a column on."""
    before += "" if not before or before.endswith("\n") else "\n"
    return before + "".join(f"{' ' * column}{line}\n" for line in lines)


def _end(node: Any) -> int:
    """The position behind the last value of a block, before comments that may follow."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    return int(node.end_mark.index)


def _deepest(root: Any, keys: tuple[str, ...]) -> tuple[int, Any]:
    """The last of the keys that is there, by its number, and its value."""
    value = root
    for at, key in enumerate(keys):
        pairs = value.value if isinstance(value, yaml.MappingNode) else ()
        found = next((inner for name, inner in pairs if name.value == key), None)
        if found is None:
            return at, value
        value = found
    return len(keys), value


def _require_only_that(before: str, after: str, path: str, layer: Layer, pattern: str, mode: Mode) -> None:
    """Raise unless the new text says what the old one did, but for this one mode."""
    old, new = parse_policy(before, path, layer), parse_policy(after, path, layer)
    wanted = {rule.pattern: rule.mode for rules in old.settings.get("skills.listing", ()) for rule in rules}
    found = {rule.pattern: rule.mode for rules in new.settings.get("skills.listing", ()) for rule in rules}
    is_sound = not any(problem.severity == "error" for problem in new.problems)
    if not is_sound or found != wanted | {pattern: mode} or {*old.settings, "skills.listing"} - {*new.settings}:
        raise InvalidArgument(
            f"{shown(path, 500)} is written in a way that cannot be changed with certainty.",
            hint=f"Write it yourself: skills: {{listing: {{{shown(pattern)}: {mode}}}}}.",
        )


def _replace(path: str, text: str) -> None:
    """Write a file so that nobody ever reads half of it; a link stays one."""
    path = os.path.realpath(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o644
    write_file(path, text.encode(), exact_mode=mode)
