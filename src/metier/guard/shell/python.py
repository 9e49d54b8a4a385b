"""The module or file that a command of Python runs: `python3 -Im pip`, `python tools/x.py`.

A rule that allows Python allows what Python can do, and a rule that forbids a program sees it as a module too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from metier.guard.shell.scanner import Word
from metier.guard.shell.starting import Inner

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_NAME = re.compile(r"(graalpy|jython|micropython|python|pypy|py)[0-9.]*[tw]?")


class Target(NamedTuple):
    """The module or file that Python runs."""

    name: str
    at: int
    """The word that names it."""
    is_module: bool


def is_python(name: str) -> bool:
    """Whether a program is Python.

    >>> is_python("python3.12"), is_python("pythonic")
    (True, False)
    """
    return _NAME.fullmatch(name) is not None


def python_target(words: Sequence[Word]) -> Target | None:
    """The module or file that Python runs; None for code in the command itself, and what is not known."""
    i = 1
    while i < len(words) and words[i].is_known:
        text = words[i].text
        if text == "--" or not text.startswith("-") or text == "-":
            i += text == "--"
            return Target(words[i].text, i, is_module=False) if i < len(words) else None
        letters = "" if text.startswith("--") else text[1:]
        valued = re.search("[cmWX]", letters)
        value = letters[valued.end() :] if valued else ""
        if valued and valued[0] == "c":
            return None
        if valued and valued[0] == "m":
            at = i if value else i + 1
            return Target(value or words[at].text, at, is_module=True) if at < len(words) else None
        i += 2 if (valued and not value) or text == "--check-hash-based-pycs" else 1
    return None


def read_python(words: Sequence[Word]) -> Iterator[Inner]:
    """The programs that Python is made to be."""
    target = python_target(words)
    if target is None:
        return
    rest = tuple(words[target.at + 1 :])
    yield _inner(target.at, target.name, rest)
    name, dot, _ = target.name.partition(".")
    if target.is_module and dot:
        yield _inner(target.at, name, rest)


def _inner(at: int, name: str, rest: tuple[Word, ...]) -> Inner:
    # A folder with this file in it goes by its own name.
    program = name.removesuffix("/__main__.py") or name
    return Inner(at, (Word(program), *rest), is_own_matter=True, is_guess=True)
