"""Parser of shell commands: a command line becomes a `Script` of the simple commands that it would run.

The grammar is the part of bash that POSIX shells share: lists, pipelines, groups, subshells, `if`, `for`, `while`,
`case`, redirections and here-documents. `refusal` names the construct (a substitution, an assignment, a function) that
keeps rules with patterns from allowing a command although it can be parsed. A command that cannot be parsed with
certainty raises `UnreadableCommand`. A command without a refusal was parsed twice, by `grammar` and by tree-sitter's
grammar of bash, and both found the same words, operators and command names. Each grammar of bash is an approximation.

Shells are taken to be non-interactive: there are no aliases and no history.

The command does not choose the values of variables from the environment, and each command is taken to run in a shell of
its own. A value that the command itself gives, by a loop, an assignment or a builtin, was chosen by the author of the
command, who may mean it to be an option. Any variable may be unset.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING
from unicodedata import category

from metier.guard.shell.command import Script, SimpleCommand
from metier.guard.shell.grammar import MAX_DEPTH, Grammar
from metier.guard.shell.lexer import UNKNOWN, UnreadableCommand
from metier.guard.shell.variables import printf_stores

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tree_sitter import Language, Node

    from metier.guard.shell.grammar import Mark, Syntax
    from metier.guard.shell.lexer import ShellWord

MAX_COMMAND = 16 * 1024
"""Characters of a command that rules are held against."""

_CACHED_LENGTH = 4 * 1024
_LOST = re.compile(r"-[ \t]*<<(?!<)")
_JOINED = re.compile("(?<=[^\\x00-\\x7f])[\\u200c\\u200d](?=[^\\x00-\\x7f])")
"""Characters that join two signs to one, in pictures and in Persian."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_MAX_VARIANTS = 32
_WHOLE = re.compile(r"[\w./@:%+=,^-]+")
"""A value that stays one word however it is written."""
_SETTERS = frozenset({
    "declare", "export", "getopts", "let", "local", "mapfile", "read", "readarray", "readonly", "typeset",
})  # fmt: skip
_SAME_SHELL = frozenset({"builtin", "command", "time"})
_RUNS_ANYTHING = frozenset({".", "eval", "source", "trap"})
_CHOSEN = frozenset({*"0123456789@*_", "DIRSTACK", "OLDPWD", "OPTARG", "PIPESTATUS", "PWD", "REPLY"})
"""Parameters that a command gives values to without an assignment."""
_AMBIGUOUS = "its words can be read in more than one way"
_WORDS = frozenset({
    "ansi_c_string", "brace_expression", "concatenation", "expansion", "extglob_pattern", "number", "raw_string",
    "simple_expansion", "string", "word",
})  # fmt: skip
_WITHIN_WORDS = _WORDS | frozenset(["special_variable_name", "string_content", "variable_name"])
_BRANCHES = frozenset({
    "case_item", "case_statement", "command", "compound_statement", "do_group", "elif_clause", "else_clause",
    "file_redirect", "for_statement", "heredoc_redirect", "herestring_redirect", "if_statement", "list",
    "negated_command", "pipeline", "program", "redirected_statement", "subshell", "while_statement",
})  # fmt: skip
_LEAVES = {
    "comment": "comment",
    "file_descriptor": "number",
    "heredoc_body": "body",
    "heredoc_start": "delimiter",
    "variable_name": "variable",
}
# Commands with a grammar of their own in the tree, and words like any others in a shell.
_BUILTINS = frozenset({"declaration_command", "test_command", "unset_command"})
_BUILTIN_WORDS = _WORDS | frozenset({"test_operator", "variable_assignment", "variable_name"})
_BUILTIN_BRANCHES = frozenset({"binary_expression", "negated_expression", "unary_expression"})


def shell_parts(command: str) -> tuple[str, ...]:
    """The simple commands of a command line, as written; nothing when it cannot be read.

    >>> shell_parts("git add . && git commit -m 'a; b' | tee log")
    ('git add .', "git commit -m 'a; b'", 'tee log')
    """
    try:
        return tuple(part.text for part in parse_script(command).commands)
    except UnreadableCommand:
        return ()


def parse_script(command: str, *, depth: int = 0) -> Script:
    """Parse a command line.

    `depth` says how many commands it is an argument of, as the text after `bash -c` is.

    >>> [word.text for word in parse_script("git log 'a b'").commands[0].words]
    ['git', 'log', 'a b']
    >>> parse_script("echo $(date)").refusal
    'a command substitution'
    """
    if len(command) > MAX_COMMAND:
        raise UnreadableCommand(f"it is longer than {MAX_COMMAND} characters")
    if depth > MAX_DEPTH:
        raise UnreadableCommand("it is nested too deep")
    return _parse_cached(command, depth) if len(command) <= _CACHED_LENGTH else _parse(command, depth)


def unsafe_character(text: str) -> str:
    """The fault of the characters of a command, "" without one: an invisible character must not count.

    >>> unsafe_character("git status\\r")
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


def _parse(command: str, depth: int) -> Script:
    if wrong := unsafe_character(command):
        raise UnreadableCommand(wrong)
    grammar = Grammar(command)
    syntax = grammar.parse()
    if not syntax.refusals:
        if grammar.joins:
            # Both grammars get the one line that a shell makes of them, or they would disagree where its words end.
            return _parse(_join_lines(command, grammar.joins), depth)
        # The tree loses a lone hyphen before a here-document.
        marks = {mark for mark in grammar.marks if not (mark[0] == "word" and _LOST.match(command, mark[1]))}
        if _tree_marks(command) != marks:
            raise UnreadableCommand(_AMBIGUOUS)
    # The shell around an inner one may have given its variables any value.
    return _Values(syntax, is_inner=depth > 0).script()


_parse_cached = lru_cache(maxsize=512)(_parse)


def _join_lines(command: str, joins: list[int]) -> str:
    starts = [0, *(at + 2 for at in joins)]
    return "".join(command[start:end] for start, end in zip(starts, [*joins, len(command)], strict=True))


class _Values:
    """The values that variables may have in a command line, put into its words."""

    def __init__(self, syntax: Syntax, *, is_inner: bool) -> None:
        self._syntax = syntax
        self._is_inner = is_inner
        self._chosen = set(syntax.assigned)
        self._loops: dict[str, list[ShellWord]] = {}
        for name, values in syntax.loops:
            if any(value.free or any(value.variables) or value.braces for value in values):
                self._chosen.add(name)
            self._loops.setdefault(name, []).extend(values)
        self._all_chosen = any(_sets_variables(command.words) for command in syntax.commands)

    def script(self) -> Script:
        """The script with the words marked whose values the command chooses, and with the values of loops put in."""
        syntax = self._syntax
        commands = {id(command): self._fill_command(command) for command in syntax.commands}
        return Script(
            commands=tuple(commands[id(command)] for command in syntax.commands),
            pipelines=tuple(
                tuple(commands[id(command)] if command else None for command in pipeline)
                for pipeline in syntax.pipelines
            ),
            redirections=tuple(syntax.redirections),
            assignments=tuple(map(self._fill_assignment, syntax.assignments)),
            refusal=syntax.refusals[0] if syntax.refusals else "",
        )

    def _fill_command(self, command: SimpleCommand) -> SimpleCommand:
        words, variants = self._fill(command.words)
        return SimpleCommand(text=command.text, words=words, variants=variants)

    def _fill_assignment(self, word: ShellWord) -> ShellWord:
        (filled,), variants = self._fill((word,))
        return filled._replace(free=filled.free or bool(variants))

    def _fill(self, words: tuple[ShellWord, ...]) -> tuple[tuple[ShellWord, ...], tuple[tuple[ShellWord, ...], ...]]:
        """The words with those marked whose values the command chooses, and once for each value of its loops."""
        names = {name for word in words for name in word.variables if name}
        if not names:
            return words, ()
        chosen = {name for name in names if self._is_inner or self._is_chosen(name)}
        looped = sorted(names & self._loops.keys() - chosen)
        several = [self._loops[name] for name in looped]
        size = 1
        for values in several:
            size *= max(1, len(values))
        if size > _MAX_VARIANTS:
            chosen, looped = chosen.union(looped), []
        words = tuple(word._replace(free=True) if chosen.intersection(word.variables) else word for word in words)
        if not looped:
            return words, ()
        choices = (dict(zip(looped, values, strict=True)) for values in product(*several))
        return words, tuple(tuple(_filled_word(word, choice) for word in words) for choice in choices)

    def _is_chosen(self, name: str) -> bool:
        return (
            self._all_chosen
            or name in self._chosen
            or name in _CHOSEN
            or name.isdigit()
            or name.startswith(("BASH", "COMP_"))
        )


def _sets_variables(words: Sequence[ShellWord]) -> bool:
    """Whether a command is a builtin that gives variables values, or may run one in the same shell."""
    at = 0
    # An unknown word behind `command` may be an option of it.
    while at < len(words) - 1 and (
        words[at].text in _SAME_SHELL or (at and (words[at].text.startswith("-") or not words[at].is_known))
    ):
        at += 1
    name, rest = words[at].text, words[at + 1 :]
    if name == "printf":
        return any(not word.is_known or word.text.startswith("-") or printf_stores(word.text) for word in rest)
    if name == "wait":
        return any(not word.is_known or word.text.startswith("-") for word in rest)
    return name in _SETTERS or name in _RUNS_ANYTHING


def _filled_word(word: ShellWord, values: dict[str, ShellWord]) -> ShellWord:
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


def _tree_marks(command: str) -> set[Mark]:
    """The words, operators and names of the tree, with their positions."""
    from tree_sitter import Parser

    data = command.encode()
    root = Parser(_language()).parse(data).root_node
    if root.has_error:
        raise UnreadableCommand(_AMBIGUOUS)
    marks: set[Mark] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        kind = node.type
        if kind == "command_name":
            marks.add(("name", node.start_byte, node.end_byte))
            _check_word(node.children[0])
        elif kind in _WORDS:
            marks.add(("word", node.start_byte, node.end_byte))
            _check_word(node)
        elif kind in _LEAVES:
            marks.add((_LEAVES[kind], node.start_byte, node.end_byte))
        elif kind in _BUILTINS:
            marks |= _builtin_marks(node)
        elif kind in _BRANCHES:
            waiting += node.children
        elif not node.is_named:
            if kind != "\n":
                marks.add((kind, node.start_byte, node.end_byte))
        elif kind != "heredoc_end":
            raise UnreadableCommand(_AMBIGUOUS)
    return marks if len(data) == len(command) else _in_characters(marks, data)


@lru_cache(maxsize=1)
def _language() -> Language:
    import tree_sitter_bash
    from tree_sitter import Language

    return Language(tree_sitter_bash.language())


def _check_word(node: Node) -> None:
    """Nothing inside a word may be of a kind that is not understood."""
    waiting = [node]
    while waiting:
        inner = waiting.pop()
        if inner.is_named and inner.type not in _WITHIN_WORDS:
            raise UnreadableCommand(_AMBIGUOUS)
        waiting += inner.children


def _builtin_marks(node: Node) -> set[Mark]:
    marks = {("name", node.children[0].start_byte, node.children[0].end_byte)}
    waiting = node.children[1:]
    while waiting:
        inner = waiting.pop()
        if inner.type in _BUILTIN_BRANCHES:
            waiting += inner.children
        elif inner.type in _BUILTIN_WORDS or not inner.is_named:
            marks.add(("word", inner.start_byte, inner.end_byte))
        else:
            raise UnreadableCommand(_AMBIGUOUS)
    return marks


def _in_characters(marks: set[Mark], data: bytes) -> set[Mark]:
    """The same marks, counted in characters instead of bytes."""
    # A byte that goes on with a character stands where the character began.
    places = [0]
    for byte in data[1:] + b".":
        places.append(places[-1] + ((byte & 0xC0) != 0x80))
    return {(kind, places[start], places[end]) for kind, start, end in marks}
