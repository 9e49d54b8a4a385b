"""A shell command, taken apart into the simple commands that it would run.

The grammar is the part of bash that POSIX shells share: lists, pipelines, groups, subshells, `if`, `for`, `while`,
`case`, redirections and here-documents. `read_shell` gives the parts, and says in `refusal` why rules cannot be held
against the command although it can be read: it substitutes, assigns, or defines functions. What cannot be read with
certainty raises `Unreadable`. A command without a refusal has been read twice, by this grammar and by tree-sitter's,
and both found the same words, operators and command names.

Shells are taken to be non-interactive: there are no aliases and no history.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING
from unicodedata import category

from metier.guard.shell.grammar import MAX_DEPTH, Grammar
from metier.guard.shell.scanner import Unreadable

if TYPE_CHECKING:
    from metier.guard.shell.script import Script

MAX_COMMAND = 16 * 1024
"""Characters of a command that rules are held against."""

_CACHED_LENGTH = 4 * 1024
_LOST = re.compile(r"-[ \t]*<<(?!<)")
_JOINED = re.compile("(?<=[^\\x00-\\x7f])[\\u200c\\u200d](?=[^\\x00-\\x7f])")
"""What joins two signs to one, in pictures and in Persian."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def shell_parts(command: str) -> tuple[str, ...]:
    """The simple commands of a command line, as written; nothing when it cannot be read.

    >>> shell_parts("git add . && git commit -m 'a; b' | tee log")
    ('git add .', "git commit -m 'a; b'", 'tee log')
    """
    try:
        return tuple(part.text for part in read_shell(command).commands)
    except Unreadable:
        return ()


def read_shell(command: str, *, depth: int = 0) -> Script:
    """Take a command line apart.

    `depth` says how many commands it is an argument of, as the text after `bash -c` is.

    >>> [word.text for word in read_shell("git log 'a b'").commands[0].words]
    ['git', 'log', 'a b']
    >>> read_shell("echo $(date)").refusal
    'a command substitution'
    """
    if len(command) > MAX_COMMAND:
        raise Unreadable(f"it is longer than {MAX_COMMAND} characters")
    if depth > MAX_DEPTH:
        raise Unreadable("it is nested too deep")
    return _read_cached(command, depth) if len(command) <= _CACHED_LENGTH else _read(command, depth)


def odd_character(text: str) -> str:
    """What is wrong with the characters of a command, if anything: what is not seen must not count.

    >>> odd_character("git status\\r")
    'it contains the control character U+000D'
    """
    found = _CONTROL.search(text)
    if found:
        return f"it contains the control character U+{ord(found[0]):04X}"
    if not text.isascii():
        text = _JOINED.sub("", text)
        for character in text:
            if not character.isascii() and category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp", "Zs"):
                return f"it contains the invisible character U+{ord(character):04X}"
    return ""


def _read(command: str, depth: int) -> Script:
    if odd := odd_character(command):
        raise Unreadable(odd)
    grammar = Grammar(command, is_inner=depth > 0)
    script = grammar.script()
    if not script.refusal and grammar.joins:
        # Both readers get the one line that a shell makes of them, or they would disagree where its words end.
        return _read(_joined(command, grammar.joins), depth)
    if not script.refusal:
        from metier.guard.shell.tree import tree_marks

        # The tree loses a lone hyphen before a here-document.
        seen = {mark for mark in grammar.marks if not (mark[0] == "word" and _LOST.match(command, mark[1]))}
        if tree_marks(command) != seen:
            raise Unreadable("its words can be read in more than one way")
    return script


def _joined(command: str, joins: list[int]) -> str:
    starts = [0, *(at + 2 for at in joins)]
    return "".join(command[start:end] for start, end in zip(starts, [*joins, len(command)], strict=True))


@lru_cache(maxsize=512)
def _read_cached(command: str, depth: int) -> Script:
    return _read(command, depth)
