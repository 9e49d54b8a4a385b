"""A second reading of a shell command, by tree-sitter's grammar of bash.

It only approximates bash, as every grammar of bash does. What it finds is compared with what `Grammar` found; a command
that the two read differently is not read at all.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from metier.guard.shell.scanner import Unreadable

if TYPE_CHECKING:
    from tree_sitter import Language, Node

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


def tree_marks(command: str) -> set[tuple[str, int, int]]:
    """Which words, operators and names the tree has, and where."""
    from tree_sitter import Parser

    data = command.encode()
    root = Parser(_language()).parse(data).root_node
    if root.has_error:
        raise Unreadable("its words can be read in more than one way")
    marks: set[tuple[str, int, int]] = set()
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
            raise Unreadable("its words can be read in more than one way")
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
            raise Unreadable("its words can be read in more than one way")
        waiting += inner.children


def _builtin_marks(node: Node) -> set[tuple[str, int, int]]:
    marks = {("name", node.children[0].start_byte, node.children[0].end_byte)}
    waiting = node.children[1:]
    while waiting:
        inner = waiting.pop()
        if inner.type in _BUILTIN_BRANCHES:
            waiting += inner.children
        elif inner.type in _BUILTIN_WORDS or not inner.is_named:
            marks.add(("word", inner.start_byte, inner.end_byte))
        else:
            raise Unreadable("its words can be read in more than one way")
    return marks


def _in_characters(marks: set[tuple[str, int, int]], data: bytes) -> set[tuple[str, int, int]]:
    """The same marks, counted in characters instead of bytes."""
    # A byte that goes on with a character stands where the character began.
    places = [0]
    for byte in data[1:] + b".":
        places.append(places[-1] + ((byte & 0xC0) != 0x80))
    return {(kind, places[start], places[end]) for kind, start, end in marks}
