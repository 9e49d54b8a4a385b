"""`metier completion`, and the words that complete a command line."""

from __future__ import annotations

import os
from argparse import Namespace
from typing import TYPE_CHECKING, Any

import metier.agent
from metier.cli.commands import COMMANDS
from metier.cli.parser import Parser, TopParser, library_of, parser_of, split_command

if TYPE_CHECKING:
    from collections.abc import Iterable


def add(parser: Parser) -> None:
    parser.example('eval "$(metier completion bash)"')
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    parser.set_defaults(is_exact=True)


def run(options: Namespace) -> None:
    from argcomplete.shell_integration import shellcode

    print(shellcode(["metier"], shell=options.shell))


def print_completions() -> None:
    """Print the words that may follow a line which a shell wants to complete, and end the process."""
    import argcomplete
    from argcomplete.lexers import split_line

    line, point = os.environ.get("COMP_LINE", ""), os.environ.get("COMP_POINT", "")
    words = split_line(line, int(point) if point.isdecimal() else len(line))[3]
    _, named, _ = split_command(words[1:])
    parser = TopParser()
    commands: Any = parser.add_subparsers(dest="command", parser_class=Parser)
    for name, command in COMMANDS.items():
        if " " in name:
            continue
        # The module of no other command is imported.
        full = parser_of(name) if name == named else None
        commands.add_parser(name, help=command.summary, add_help=full is None)
        if full is not None:
            commands.choices[name] = full
    if named in COMMANDS and " " in named:
        first, second = named.split()
        commands.choices[first].add_subparsers().choices[second] = parser_of(named)
    argcomplete.autocomplete(parser)


def names(prefix: str, options: Namespace) -> list[str]:
    """List the names of skills that begin so."""
    return _beginning(prefix, (entry.name for entry in library_of(options)))


def agents(prefix: str, options: Namespace) -> list[str]:
    """List the ids of agents that begin so."""
    return _beginning(prefix, (agent.id for agent in metier.agent.Agents.discover(library_of(options))))


def files(prefix: str, options: Namespace) -> list[str]:
    """List the files of the named skill that begin so."""
    return _beginning(prefix, (file.path for file in library_of(options).files(options.name).files))


def scripts(prefix: str, options: Namespace) -> list[str]:
    """List the scripts of the named skill that begin so, by path or by name."""
    paths = [file.path for file in library_of(options).files(options.name).scripts()]
    return _beginning(prefix, paths) or _beginning(prefix, (path.rpartition("/")[2] for path in paths))


def _beginning(prefix: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.startswith(prefix)]
