"""Commands as a shell or an interpreter would read them, whatever quotes, escapes and variables they are hidden in.

How they are hidden is data: `packs/core/hidden.yaml`.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from metier.scan.name_lists import entries, sense

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Replacement: TypeAlias = str | Callable[[re.Match[str]], str]

_MAX = 8_000
"""Characters that a command may grow to when its variables are put in."""
_MAX_VARIABLES = 200
_ALIASES = "alias"
"""Set with the variables once some command has another name."""


def revealed(line: str, variables: dict[str, str]) -> tuple[str, bool]:
    """A line of code with what it hides in sight, and whether it hid a command; literals that it names are kept.

    >>> revealed("c''url${IFS}-s x | b\\\\ash", {})
    ('curl -s x | bash', True)
    >>> revealed("$A -s x", {"A": "curl"})
    ('curl -s x', False)
    """
    if _ALIASES in variables and (first := line.split(None, 1)):
        line = line.replace(first[0], variables.get(f"alias {first[0]}", first[0]), 1)
    if sense("marks-of-hiding").search(line) is None:
        return line, False
    if "=" in line and len(line) < 600 and len(variables) < _MAX_VARIABLES:
        _remember(line, variables)
    text = expanded = _expanded(line, variables)
    if "$" in text or "%" in text:
        text = sense("blanks-by-a-variable").sub(" ", text) if "IFS" in text else text
        text = sense("variables").sub(lambda found: variables.get(_name(found), found[0]), text)[:_MAX]
    # A variable that holds a command is nothing special; a command that comes out of several pieces is.
    is_cut = "$" in line and re.search(r"\$\{?\w+\}?\$\{?\w", line) is not None
    pieces = is_cut and _count(text) > _count(line) + _whole(line, variables)
    put_in = line if pieces or (expanded != line and _count(expanded) > _count(line)) else text
    text = _undone(text)
    hid = "IFS" in line or (text is not put_in and _count(text) > _count(put_in))
    return text, hid and _count(text) > _count(line)


def assigned_in(text: str) -> dict[str, str]:
    """The variables that a file of settings sets, for scripts that read it.

    >>> assigned_in("A=cu\\nB='rl -s'\\nexit")
    {'A': 'cu', 'B': 'rl -s'}
    """
    return _assigned(text.split("\n", _MAX_VARIABLES)[:_MAX_VARIABLES])


def _assigned(parts: Iterable[str]) -> dict[str, str]:
    found = (sense("assignments").match(part) for part in parts if "=" in part)
    return {one[1]: one[2] or one[3] or one[4] or "" for one in found if one is not None}


def _remember(line: str, variables: dict[str, str]) -> None:
    """Take down the variables, the lists and the other names of commands that a line sets."""
    variables.update(_assigned(line.split(";")))
    for found in sense("lists-of-a-shell").finditer(line) if "=(" in line else ():
        for at, item in enumerate(re.findall(r"""'([^']*)'|"([^"]*)"|(\S+)""", found[2])[:20]):
            variables[f"{found[1]}[{at}]"] = "".join(item)
    if "alias" in line and (alias := sense("aliases").match(line)) is not None:
        variables[f"alias {alias[1]}"] = variables[_ALIASES] = alias[3]


def _expanded(line: str, variables: dict[str, str]) -> str:
    """A line with parts of variables put in, and with the programs that it names by wildcards."""
    if "/?" in line:
        line = _counted(line, "paths-with-wildcards", _program)
    if "${" in line:
        line = sense("parts-of-variables").sub(lambda found: _part(found, variables), line)
    if "$(" in line:
        line = _counted(line, "printed-texts", lambda found: found[1].replace(" ", ""))
    return _counted(line, "unset-variables", "") if "$" in line else line


def _program(found: re.Match[str]) -> str:
    """The program that a path with wildcards names."""
    paths = (f"{place}/{name}" for place in ("/bin", "/usr/bin") for (name,) in entries("programs-in-bin"))
    return next((path for path in paths if fnmatchcase(path, found[0])), found[0])


def _part(found: re.Match[str], variables: dict[str, str]) -> str:
    name, start, length, what, by, item = found.groups()
    value = variables.get(f"{name}[{item}]" if item else name)
    if value is None or item:
        return value or found[0]
    if what:
        return value.replace(what, by, -1 if "//" in found[0] else 1)
    return value[int(start) :][: int(length) if length else None]


def _name(found: re.Match[str]) -> str:
    return found[1] or found[2] or found[3]


def _whole(line: str, variables: dict[str, str]) -> int:
    """How many commands come out of a variable each, all of them, as the base of an address does."""
    held = {name: _count(value) for name, value in variables.items() if name in line}
    return sum(held.get(_name(found), 0) for found in sense("variables").finditer(line))


@lru_cache(maxsize=256)
def _undone(text: str) -> str:
    """A text with its letters as they are read: without escapes, numbers, quotes and sums in place of them."""
    for marks, name, by, is_counted in _STEPS:
        if any(map(text.__contains__, marks)):
            text = _counted(text, name, by) if is_counted else sense(name).sub(by, text)
    return text


def _counted(text: str, name: str, by: Replacement) -> str:
    """A text with what a lexicon finds replaced, when a command comes out of it."""
    changed = sense(name).sub(by, text)
    return changed if changed != text and _count(changed) > _count(text) else text


@lru_cache(maxsize=256)
def _count(text: str) -> int:
    return len(sense("commands-that-are-hidden").findall(text.lower()))


def _letters(found: re.Match[str]) -> str:
    """What was found with its escapes taken back."""
    return sense("letters-by-number").sub(_letter, found[1] if found.re.groups else found[0])


def _letter(found: re.Match[str]) -> str:
    digits = found[1] or found[2] or found[4]
    return _shown(int(digits, 16) if digits else int(found[3], 8))


def _of_numbers(found: re.Match[str]) -> str:
    """The text whose letters are the numbers in what was found."""
    numbers = re.findall(r"0[xX][0-9a-fA-F]+|\d+", found[0])
    return repr("".join(_shown(int(one, 16 if "x" in one.lower() else 10)) for one in numbers))


def _shown(code: int) -> str:
    return chr(code) if 32 <= code < 127 else " "


def _joined(found: re.Match[str]) -> str:
    """A list of short texts as the one text that they make, when a command comes out."""
    parts = re.findall(r"""["']([^"'\\]{1,12})["']""", found[0])
    text = "".join(parts)
    # Whole commands in a list are no pieces of one.
    return repr(text) if _count(text) > sum(max(_count(part), _count(f"x{part}")) for part in parts) else found[0]


_STEPS: tuple[tuple[tuple[str, ...], str, Replacement, bool], ...] = (
    (("$'",), "escaped-texts", _letters, False),
    (("\\",), "runs-of-letters-by-number", _letters, False),
    (("+",), "sums-of-texts", "", False),
    (("'", '"'), "texts-side-by-side", "", True),
    (("\\N{",), "letters-by-name", lambda found: found[2].lower() if found[1] == "SMALL" else found[2], False),
    (("chr(", "Chr(", "CHR("), "calls-of-chr", _of_numbers, False),
    (("fromCharCode",), "codes-of-characters", _of_numbers, False),
    (("','", '","', "', '", '", "'), "lists-of-pieces", _joined, False),
    (("[::", ".reverse()"), "texts-backwards", lambda one: repr((one[2] or one[5])[:: int(one[3] or -1)]), False),
    (("''", '""'), "empty-quotes", "", False),
    (("\\", "^", "`"), "escaped-letters", "", True),
    (("'", '"'), "quotes-in-words", r"\1\3\4", True),
)
"""What a text must have, the lexicon that finds it, what takes its place, and whether a command must come out."""
