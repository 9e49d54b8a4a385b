"""Whether a command line goes on in the next line."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_OPENING = frozenset(
    (
        *("if", "then", "elif", "else", "for", "select", "while", "until", "do", "case", "in", "function"),
        *("{", "(", "((", "$(", "${", "$((", "<(", ">(", "[[", '"', "`", "<<", "<<-", "|", "|&", "&&", "||"),
    )
)


def awaited(text: str) -> str:
    """What has to come before a command line can be run: the end of a here-document, or just `more`; nothing if it can.

    >>> awaited("if true; then"), awaited("cat <<END"), awaited("echo done")
    ('more', 'END', '')
    """
    if (len(text) - len(text.rstrip("\\"))) % 2:
        return "more"
    data = f"{text}\n".encode(errors="replace")
    size, nodes = len(data.rstrip()), [_parser().parse(data).root_node]
    waits = False
    while nodes:
        node = nodes.pop()
        nodes.extend(node.children)
        if node.type == "heredoc_start" and not _has_end(node):
            return (node.text or b"").decode(errors="replace").strip("\\'\"")
        if node.end_byte >= size and (node.is_missing or (node.is_error and _opens(node))):
            waits = True
    return "more" if waits else ""


def _opens(error: Node) -> bool:
    return any(child.type in _OPENING for child in error.children) or (error.text or b"").startswith(b"'")


def _has_end(start: Node) -> bool:
    around = start.parent
    return around is not None and any(child.type == "heredoc_end" and not child.is_missing for child in around.children)


@functools.cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))
