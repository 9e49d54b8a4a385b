"""Which variables a command gives values to, and what that makes of its words.

A value that comes from the environment was chosen by whoever set the environment up, and each command is taken to run
in a shell of its own. A value that the command gives, by a loop, an assignment or a builtin, was chosen by whoever
wrote the command, who may mean it to be an option. Any variable may be unset.
"""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING

from metier.guard.shell.scanner import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metier.guard.shell.scanner import Word

_MAX_VARIANTS = 32
_LOCAL = re.compile(r"[a-z][a-z0-9_]*|[A-Z]")
_WHOLE = re.compile(r"[\w./@:%+=,^-]+")
"""A value that stays one word however it is written."""
_SETTERS = frozenset({
    "declare", "export", "getopts", "let", "local", "mapfile", "read", "readarray", "readonly", "typeset",
})  # fmt: skip
_SAME_SHELL = frozenset({"builtin", "command", "time"})
_RUNS_ANYTHING = frozenset({".", "eval", "source", "trap"})
_COUNTS = re.compile(r"%[^A-Za-z%]*[hlLjzt]*n")
"""The directive by which `printf` stores a number in a variable."""
_EVALUATED = re.compile(
    r"BASH_.*|BASHOPTS|SHELLOPTS|PS[04]|PROMPT_COMMAND|LD_(PRELOAD|AUDIT)|DYLD_INSERT_LIBRARIES|GIT_CONFIG.*|"
    r"GIT_EXEC_PATH|GIT_TEMPLATE_DIR|TAR_OPTIONS|\w*MAKEFLAGS|MAKEFILES|LUA_INIT\w*|VIMINIT|EXINIT|"
    r"npm_config_(script_shell|shell|prefix|userconfig|globalconfig|editor|git|viewer|browser)",
    re.DOTALL | re.IGNORECASE,
)
_TAME = re.compile(
    r"BASH_SILENCE_\w+=.*|GIT_CONFIG_NOSYSTEM=.*|GIT_CONFIG_(GLOBAL|SYSTEM)=/dev/null|\w*MAKEFLAGS=[\w -]*|[^=]*=",
    re.DOTALL,
)
"""Values of such variables that do nothing."""
_COMMAND = re.compile(
    r"\w*(EDITOR|PAGER|_COMMAND|_SSH|_RSH|ASKPASS|BROWSER|EXTERNAL_DIFF|_PROG|_WRAPPER)|LESSOPEN|LESSCLOSE|VISUAL|SHELL|"
    r"FCEDIT|HGMERGE|CC|CXX|LD|AR|CPP|RUSTC"
)
_CHOSEN = frozenset({*"0123456789@*_", "DIRSTACK", "OLDPWD", "OPTARG", "PIPESTATUS", "PWD", "REPLY"})
"""Parameters that a command gives values to without an assignment."""


def is_read_by_programs(name: str) -> bool:
    """Whether a variable may mean something to a program.

    >>> is_read_by_programs("PATH"), is_read_by_programs("https_proxy"), is_read_by_programs("file")
    (True, True, False)
    """
    return not _LOCAL.fullmatch(name) or name.startswith("npm_") or name.endswith("_proxy")


def is_evaluated(name: str) -> bool:
    """Whether a shell or a program takes the value of a variable for more than one command, or for its own options.

    >>> is_evaluated("BASH_ENV"), is_evaluated("GIT_CONFIG_COUNT"), is_evaluated("CI")
    (True, True, False)
    """
    return _EVALUATED.fullmatch(name) is not None


def is_tame(assignment: str) -> bool:
    """Whether the value is one that does nothing, although the variable is one that is evaluated.

    >>> is_tame("MAKEFLAGS=-j8"), is_tame("MAKEFLAGS=--eval=x")
    (True, False)
    """
    return _TAME.fullmatch(assignment) is not None


def is_command(name: str) -> bool:
    """Whether a program starts what a variable says.

    >>> is_command("GIT_EDITOR"), is_command("PAGER"), is_command("CI")
    (True, True, False)
    """
    return _COMMAND.fullmatch(name) is not None


def sets_variables(words: Sequence[Word]) -> bool:
    """Whether a simple command is a builtin that gives variables values, or may run one in the same shell."""
    name = words[0].text
    if name == "printf":
        return any(not word.is_known or word.text.startswith("-") or stores(word.text) for word in words[1:])
    if name == "wait":
        return any(not word.is_known or word.text.startswith("-") for word in words[1:])
    return name in _SETTERS or name in _RUNS_ANYTHING


def stores(form: str) -> bool:
    """Whether a text that `printf` is given makes it store a number in a variable.

    >>> stores("%5n"), stores("%s\\n")
    (True, False)
    """
    return _COUNTS.search(form) is not None


class Variables:
    """What a command does to variables."""

    __slots__ = ("_all_chosen", "_chosen", "_values")

    def __init__(self) -> None:
        self._all_chosen = False
        self._chosen: set[str] = set()
        self._values: dict[str, list[Word]] = {}

    def note_choice(self, name: str) -> None:
        """Say that a variable may have any value."""
        self._chosen.add(name)

    def note_loop(self, name: str, values: Sequence[Word]) -> None:
        """Say that a variable has each of these values in turn."""
        if any(value.free or any(value.variables) or value.braces for value in values):
            self._chosen.add(name)
        self._values.setdefault(name, []).extend(values)

    def note_command(self, words: Sequence[Word]) -> None:
        """Say that a command runs, which may be a builtin that sets variables."""
        at = 0
        # What cannot be read behind `command` may be an option of it.
        while at < len(words) - 1 and (
            words[at].text in _SAME_SHELL or (at and (words[at].text.startswith("-") or not words[at].is_known))
        ):
            at += 1
        self._all_chosen |= sets_variables(words[at:])

    def settle(
        self, words: tuple[Word, ...], *, are_chosen: bool
    ) -> tuple[tuple[Word, ...], tuple[tuple[Word, ...], ...]]:
        """The words with those marked whose values the command chooses, and with the values of its loops put in."""
        names = {name for word in words for name in word.variables if name}
        if not names:
            return words, ()
        chosen = {name for name in names if are_chosen or self._is_chosen(name)}
        looped = sorted(names & self._values.keys() - chosen)
        several = [self._values[name] for name in looped]
        size = 1
        for values in several:
            size *= max(1, len(values))
        if size > _MAX_VARIANTS:
            chosen, looped = chosen.union(looped), []
        words = tuple(word._replace(free=True) if chosen.intersection(word.variables) else word for word in words)
        if not looped:
            return words, ()
        choices = (dict(zip(looped, values, strict=True)) for values in product(*several))
        return words, tuple(tuple(_filled(word, choice) for word in words) for choice in choices)

    def _is_chosen(self, name: str) -> bool:
        return (
            self._all_chosen
            or name in self._chosen
            or name in _CHOSEN
            or name.isdigit()
            or name.startswith(("BASH", "COMP_"))
        )


def _filled(word: Word, values: dict[str, Word]) -> Word:
    """The word with the values put in where its variables are."""
    if not values.keys() & set(word.variables):
        return word
    pieces = word.text.split(UNKNOWN)
    text, left = pieces[0], []
    is_whole, is_free = True, word.free
    for name, piece in zip(word.variables, pieces[1:], strict=True):
        value = values.get(name)
        if value is None:
            text += UNKNOWN + piece
            left.append(name)
            is_whole = False
            continue
        is_whole &= value.is_known and _WHOLE.fullmatch(value.text) is not None
        is_free |= not value.is_known or (word.breaks and not _WHOLE.fullmatch(value.text))
        text += value.text + piece
        left += [""] * value.text.count(UNKNOWN)
    return word._replace(
        text=text,
        variables=tuple(left),
        free=is_free,
        breaks=word.breaks and not is_whole,
        splits=word.splits and not is_whole,
        firm=word.firm or (not pieces[0] and word.variables[0] in values and values[word.variables[0]].firm),
    )
