"""The functions of a piece of code: what they are called, what they are given, and which lines they are made of."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from metier._lazy import dataclass, field
from metier.scan.rules._words import word_set

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metier.scan.rules._statements import Statement

_MAX_HEAD = 12
"""Lines that the head of a function may go on for."""
_MAX_FUNCTIONS = 300
"""A script with more is a bundle, in which one short name stands for many things."""
_HEAD = re.compile(
    r"\s*(?:(?:export|default|async|static|public|private|pub|local)\s+){0,4}"
    r"(?:(?:def|function|func|fn|sub)\s*\*?\s*(?:\([^()\n]{0,60}\)\s*)?(?P<named>[A-Za-z_][\w-]{0,60}[?!]?)\s*(?P<open>[(]?)"
    r"|(?:const|let|var)\s+(?P<arrow>\w{1,60})\s*=\s*(?:async\s*)?(?:function\b\s*\w{0,40}\s*(?P<open2>\()"
    r"|(?P<open4>\()(?=[^()\n]{0,200}\)\s*(?::[^=\n]{1,60})?=>)|(?=\w{1,60}\s*=>))"
    r"|(?P<method>[A-Za-z_]\w{0,60})\s*(?P<open3>\()(?=[^\n;]{0,200}\)\s*(?::[^{}()\n]{1,60})?\{\s*$))"
)
_NO_METHOD = frozenset({"if", "for", "while", "switch", "catch", "return", "else", "with", "elif", "foreach", "until"})
_MARKS = ("def ", "function", "func ", "fn ", "sub ", "=>", ") {", "){", "()", "= (", "async (")
_ANYBODYS = word_set(
    "get set put add update pop open read write print log info debug error warn run main format join split replace "
    "keys items values copy map filter post send request fetch call load save parse dump dumps loads close start stop "
    "connect init create delete remove list find query execute exec push echo test check"
)
"""What methods of all kinds of things are called."""
_GIVEN = re.compile(r"[A-Za-z_]\w{0,60}")


@dataclass(frozen=True, slots=True)
class Function:
    """A function, by the lines of code that it begins on and ends before."""

    name: str
    given: frozenset[str]
    """What it is given, by the names that it has inside."""
    begin: int
    """The line with its name."""
    end: int
    """The line after its last one."""


@dataclass
class FunctionScope:
    """Lines that share their names: those of a function, or those outside of all."""

    lines: list[int]
    function: Function | None = None
    around: FunctionScope | None = None
    names: dict[str, Statement] = field(default_factory=dict)
    """What its names carry at its end."""


def functions_in(code: Sequence[Statement]) -> list[Function]:
    """The functions of a script, as they are indented; code that is not has none but those of one line."""
    found: list[Function] = []
    depths = [_depth(one.text) for one in code]
    for index, one in enumerate(code):
        if len(one.text) < 1_000 and any(mark in one.text for mark in _MARKS):
            head = _HEAD.match(one.text)
            if head is not None and head["method"] not in _NO_METHOD:
                name = head["named"] or head["arrow"] or head["method"]
                found.append(Function(name, _given(code, index, head), index, _end(code, depths, index)))
    return found


def _depth(text: str) -> int:
    return len(text) - len(text.lstrip())


def _end(code: Sequence[Statement], depths: Sequence[int], begin: int) -> int:
    """Where something no deeper comes that neither goes on with the head nor closes the body."""
    for index in range(begin + 1, len(code)):
        if depths[index] <= depths[begin] and not code[index].text.lstrip().startswith((")", "{")):
            return index
    return len(code)


def _given(code: Sequence[Statement], index: int, head: re.Match[str]) -> frozenset[str]:
    """The names between the brackets of a head, without what they are by default or what kind they are of."""
    if not (head["open"] or head["open2"] or head["open3"] or head["open4"]):
        return frozenset(_GIVEN.findall(code[index].text[head.end() :].split("=>")[0])[:1])
    text = " ".join(one.text for one in code[index : index + _MAX_HEAD])[head.end() : head.end() + 600]
    depth, parts, begun = 0, [""], False
    for letter in text:
        if letter == ")" and depth == 0:
            begun = True
            break
        depth += (letter in "([{<") - (letter in ")]}>")
        if letter == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    if not begun:
        return frozenset()
    return frozenset(name for part in parts for name in _names(part))


def _names(part: str) -> list[str]:
    plain = part.split("=")[0]
    names = _GIVEN.findall(plain)
    return names if plain.lstrip().startswith(("{", "[")) else names[:1]


def scopes_of(code: Sequence[Statement]) -> list[FunctionScope]:
    """The lines outside of functions, and those of each function without those of functions in it."""
    functions = functions_in(code)
    if len(functions) > _MAX_FUNCTIONS:
        functions = []
    outside = FunctionScope([])
    scopes = [outside]
    begun: list[FunctionScope] = []
    at = 0
    for index in range(len(code)):
        while begun and begun[-1].function is not None and begun[-1].function.end <= index:
            begun.pop()
        if at < len(functions) and functions[at].begin == index:
            begun.append(FunctionScope([], functions[at], begun[-1] if begun else outside))
            scopes.append(begun[-1])
            at += 1
        (begun[-1] if begun else outside).lines.append(index)
    return scopes


@lru_cache(maxsize=256)
def _call_of(name: str) -> re.Pattern[str]:
    word = re.escape(name)
    before = r"(?:(?<![\w.$-])|\b(?:self|this|cls)\.)" if name in _ANYBODYS else r"(?<![\w$-])"
    return re.compile(rf"{before}{word}(?:\s*\(|\s+[\"'$@<]|\s*(?:[)|;&]|$))")


def is_called(name: str, text: str) -> bool:
    """Whether a line calls a function of the script; what is called as many things are has to be its own.

    >>> is_called("load", "json.load(x)"), is_called("load", "self.load(x)"), is_called("push_it", "net.push_it(x)")
    (False, True, True)
    """
    return _call_of(name).search(text) is not None
