"""Rendering a skill with named values, for skills whose text a person sends as a message."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from metier.errors import InvalidArgument
from metier.session.substitution import expand, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from metier.session.substitution import Placeholder, Segment
    from metier.skill import Argument

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A body with its arguments in place."""

    text: str
    applied: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
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


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch


def is_argument_name(name: str) -> bool:
    """Whether an argument can be called so.

    >>> is_argument_name("a1_b2"), is_argument_name("bad-name")
    (True, False)
    """
    return isinstance(name, str) and _NAME(name) is not None
