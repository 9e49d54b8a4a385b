"""Placeholders in the instructions of a skill: found by one scanner, replaced in one pass, never expanded twice.

What a value contains is text. `substitute` serves a skill that is loaded or invoked with a line of arguments; `render`
serves one that is rendered with named values. Both use `expand`.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING, Literal, NamedTuple

from metier._lazy import dataclass, field, pattern
from metier.errors import InvalidArgument
from metier.run.environment import skill_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import date

    from metier.skill import Argument


MAX_ARGUMENTS = 256 * 1024
"""Characters in a line of arguments."""
MAX_TEXT = 8 * 1024 * 1024
"""Characters of instructions after substitution: a short body can ask for a long value a thousand times."""
MAX_LISTED = 100
"""Undefined names that are listed; a last warning counts the rest."""

_PLACEHOLDER = pattern(
    r"""
    (?P<escape>\\?)
    (?:
        \$ARGUMENTS\[(?P<part>[0-9]{1,4})\]
      | \$\{(?P<braced>[A-Za-z_][A-Za-z0-9_]*)\}
      | \$(?P<bare>[A-Za-z_][A-Za-z0-9_]*)
      | \$(?P<position>[0-9]{1,4})(?![A-Za-z0-9_])
      | \{\{[ \t]*(?P<template>[A-Za-z_][A-Za-z0-9_]*)[ \t]*\}\}
      | \{(?P<base>baseDir)\}
    )
    """,
    re.VERBOSE,
)
_UPPER = pattern(r"[A-Z][A-Z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of instructions; a literal one comes from a command and is passed on as it is."""

    text: str
    literal: bool = False


class Placeholder(NamedTuple):
    """A placeholder in a text."""

    kind: Literal["variable", "template", "position", "base"]
    """`$NAME` or `${NAME}`; `{{ name }}`; `$0` or `$ARGUMENTS[0]`; `{baseDir}`."""
    name: str
    """The name, or the number of a position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """A text after its placeholders were replaced: which were, and which were left as written."""

    text: str
    count: int
    applied: tuple[Placeholder, ...]
    left: tuple[Placeholder, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Substituted:
    """Instructions with their placeholders replaced."""

    text: str
    count: int = 0
    """The number of replaced placeholders."""
    undefined: tuple[str, ...] = ()
    """Names in upper case that nobody gave a value; often they belong to shell code and are meant to stay."""
    warnings: tuple[str, ...] = ()


def substitute(
    body: str | Sequence[Segment],
    *,
    variables: Mapping[str, str],
    arguments: str = "",
    declared: Sequence[Argument] = (),
    append: bool = True,
) -> Substituted:
    """Replace the placeholders of a body.

    `$ARGUMENTS` is the whole line; `$0`, `$ARGUMENTS[0]` and the names of declared arguments are parts of it, and are
    touched only when there are arguments. Without any of them in the body the line is appended, unless `append` is
    false. A backslash keeps a placeholder as written.

    >>> substitute("Fix $ARGUMENTS in ${SKILL_DIR}.", variables={"SKILL_DIR": "/s"}, arguments="it").text
    'Fix it in /s.'
    >>> substitute("Fix it.", variables={}, arguments="now").text
    'Fix it.\\n\\nARGUMENTS: now'
    """
    _check_arguments(arguments)
    parts = split_arguments(arguments)
    named = named_values(declared, parts) if parts else {}

    def resolve(placeholder: Placeholder) -> str | None:
        kind, name = placeholder
        if kind == "position":
            return parts[int(name)] if int(name) < len(parts) else None
        if name in named:
            return named[name]
        if kind == "variable" and _UPPER.fullmatch(name):
            return arguments if name == "ARGUMENTS" and name not in variables else variables.get(name)
        return variables.get("SKILL_DIR") if kind == "base" else None

    done = expand(body, resolve)
    text = done.text
    asks = any(kind == "position" or name in named or name == "ARGUMENTS" for kind, name in done.applied)
    if append and arguments.strip() and not asks:
        text = f"{text}\n\nARGUMENTS: {arguments}"
    undefined = [name for kind, name in done.left if kind == "variable" and _UPPER.fullmatch(name)]
    return Substituted(
        text=text,
        count=done.count,
        undefined=tuple(undefined[:MAX_LISTED]),
        warnings=listed(undefined, "${} has no value and was left as written."),
    )


def expand(body: str | Sequence[Segment], resolve: Callable[[Placeholder], str | None]) -> Expansion:
    """Replace every placeholder that `resolve` has a value for, in one pass from left to right.

    A backslash before a placeholder with a value is dropped, and the placeholder stays as written.
    """
    pieces: list[str] = []
    size = count = 0
    applied: dict[Placeholder, None] = {}
    left: dict[Placeholder, None] = {}

    def add(piece: str) -> None:
        nonlocal size
        size += len(piece)
        if size > MAX_TEXT:
            raise InvalidArgument(
                f"With all values in place the instructions would be longer than {MAX_TEXT:,} characters.",
                hint="Pass shorter arguments.",
            )
        pieces.append(piece)

    for segment in (Segment(text=body),) if isinstance(body, str) else body:
        text, at = segment.text, 0
        for found in () if segment.literal else _PLACEHOLDER.finditer(text):
            placeholder = _placeholder(found)
            value = resolve(placeholder)
            if value is None:
                if not found["escape"]:
                    left[placeholder] = None
                continue
            add(text[at : found.start()])
            if found["escape"]:
                add(found[0][1:])
            else:
                add(value)
                count += 1
                applied[placeholder] = None
            at = found.end()
        add(text[at:])
    return Expansion(text="".join(pieces), count=count, applied=tuple(applied), left=tuple(left))


def standard_variables(
    *,
    workspace: str | None = None,
    skill_dir: str | None = None,
    session_id: str | None = None,
    plugin_root: str | None = None,
    project_dir: str | None = None,
    user: str | None = None,
    today: date | None = None,
) -> dict[str, str]:
    """The variables that every body can use; without a value given, what this process knows.

    >>> sorted(standard_variables(workspace="/w", session_id="s-1"))
    ['CLAUDE_PROJECT_DIR', 'CLAUDE_SESSION_ID', 'DATE', 'SESSION_ID', 'USER', 'WORKSPACE']
    """
    from datetime import date as calendar

    today = today or calendar.today()
    names = (user, *(os.environ.get(name) for name in ("USER", "LOGNAME", "USERNAME")))
    return {
        "USER": next(filter(None, names), "unknown"),
        "DATE": today.isoformat(),
        **skill_variables(
            workspace=workspace or os.getcwd(),
            skill_dir=skill_dir,
            session_id=session_id or new_session_id(today),
            plugin_root=plugin_root,
            project_dir=project_dir,
        ),
    }


def new_session_id(today: date | None = None) -> str:
    """A name for a session that has none: the day, and enough chance to tell two apart.

    >>> from datetime import date
    >>> new_session_id(date(2026, 1, 27))[:17]
    'session-20260127-'
    """
    import secrets
    from datetime import date as calendar

    return f"session-{today or calendar.today():%Y%m%d}-{secrets.token_hex(4)}"


def split_arguments(arguments: str) -> tuple[str, ...]:
    """The parts of a line of arguments, quoted as for a shell; where the quotes do not close, the words.

    >>> split_arguments("one 'two three'"), split_arguments("don't stop")
    (('one', 'two three'), ("don't", 'stop'))
    """
    _check_arguments(arguments)
    try:
        return tuple(shlex.split(arguments))
    except ValueError:
        return tuple(arguments.split())


def named_values(declared: Iterable[Argument], parts: Sequence[str]) -> dict[str, str]:
    """The values of declared arguments: the parts in order, and then their defaults."""
    values: dict[str, str] = {}
    for at, argument in enumerate(declared):
        value = parts[at] if at < len(parts) else argument.default
        if value is not None:
            values.setdefault(argument.name, value)
    return values


def listed(names: Sequence[str], sentence: str) -> tuple[str, ...]:
    """A warning for each name, up to a limit, and one for the rest."""
    warnings = [sentence.replace("{}", name[:80], 1) for name in names[:MAX_LISTED]]
    if len(names) > MAX_LISTED:
        warnings.append(f"{len(names) - MAX_LISTED:,} more names like these.")
    return tuple(warnings)


def _placeholder(found: re.Match[str]) -> Placeholder:
    kind = found.lastgroup
    if kind in ("part", "position"):
        return Placeholder("position", found[kind])
    if kind == "template":
        return Placeholder("template", found["template"])
    if kind == "base":
        return Placeholder("base", found["base"])
    return Placeholder("variable", found["braced"] or found["bare"])


def _check_arguments(arguments: str) -> None:
    if not isinstance(arguments, str) or len(arguments) > MAX_ARGUMENTS:
        raise InvalidArgument(
            f"Arguments are text of at most {MAX_ARGUMENTS:,} characters.",
            hint="Put long material into a file and pass its path.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A body with its arguments in place."""

    text: str
    applied: Mapping[str, str] = field(default_factory=dict)
    """The arguments that the text uses, with the values that it got."""
    unknown: tuple[str, ...] = ()
    """Placeholders that no argument is declared for; they were left as written."""
    warnings: tuple[str, ...] = ()


def render(
    body: str | Sequence[Segment],
    declared: Iterable[Argument] = (),
    values: Mapping[str, str] | None = None,
    *,
    variables: Mapping[str, str] | None = None,
) -> Rendered:
    """Put values, or else the defaults of declared arguments, where a body has `$name` or `{{ name }}`.

    >>> from metier.skill import Argument
    >>> greeting = (Argument(name="name"), Argument(name="title", default="Commander"))
    >>> render("Hello $name, {{ title }}.", greeting, {"name": "Alice"}).text
    'Hello Alice, Commander.'
    """
    values = values or {}
    warnings: list[str] = []
    arguments: dict[str, str | None] = {}
    for argument in declared:
        name = argument.name
        if not is_argument_name(name):
            warnings.append(f"{name[:80]!r} is not a valid argument name: letters, digits and underscores.")
        elif name in arguments:
            warnings.append(f"The argument {name} is declared twice; the first one counts.")
        else:
            value = arguments[name] = values.get(name, argument.default)
            if value is None and argument.required:
                warnings.append(f"The argument {name} is required and has no value.")
            elif value is not None and not isinstance(value, str):
                raise InvalidArgument(f"The value of {name} is not text.", hint="Pass every argument as a string.")
    warnings.extend(listed([str(name) for name in values if name not in arguments], "There is no argument {}."))

    known: dict[str, str] = {
        **(variables or {}),
        **{name: value for name, value in arguments.items() if value is not None},
    }

    def resolve(placeholder: Placeholder) -> str | None:
        kind, name = placeholder
        if kind == "base":
            return known.get("SKILL_DIR")
        return None if kind == "position" else known.get(name)

    done = expand(body, resolve)
    used = {name: value for _, name in done.applied if (value := arguments.get(name)) is not None}
    left = [name for kind, name in done.left if kind in ("variable", "template") and name not in arguments]
    unknown = tuple(dict.fromkeys(left))
    warnings.extend(listed(unknown, "There is no argument for the placeholder {}; it was left as written."))
    return Rendered(text=done.text, applied=used, unknown=unknown, warnings=tuple(warnings))


_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_]*")


def is_argument_name(name: str) -> bool:
    """Whether an argument can be called so.

    >>> is_argument_name("a1_b2"), is_argument_name("bad-name")
    (True, False)
    """
    return isinstance(name, str) and _NAME.fullmatch(name) is not None
