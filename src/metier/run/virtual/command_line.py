"""Preparation of a command line for the interpreter: scripts named by their path, and requests for help."""

from __future__ import annotations

import functools
import re
import shlex
from typing import TYPE_CHECKING

from metier.run.environment import INTERPRETERS

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

PROGRAMS_BY_EXTENSION = {extension: command[0] for extension, command in INTERPRETERS.items()}
"""The programs of scripts that a command line names by their path."""
_RUN, _KIND = "__script", "script-kind"
_OURS = {
    "sh": ("sh FILE [ARGUMENT]...", "Run a script; it stops on the first error"),
    "bash": ("bash FILE [ARGUMENT]...", "Run a script; it goes on after an error"),
    "python3": ("python3 FILE [ARGUMENT]...", "Run a Python program, if there is a sandbox for it"),
    "node": ("node FILE [ARGUMENT]...", "Run a JavaScript program, if there is a sandbox for it"),
}
"""Commands that run programs, which the interpreter's own `help` does not know."""
_LIST = "\\n".join(f"  {name:<12} {about}" for name, (_, about) in _OURS.items())
_TOPICS = "\n".join(
    f"    {name}) echo '{name}: {usage}'; echo '    {about}.' ;;" for name, (usage, about) in _OURS.items()
)
PRELUDE = f"""shopt -s expand_aliases
alias sh='sh -e'
{_RUN}() {{
  case "$({_KIND} "$1")" in
    sh) command sh -e "$@" ;;
    python3) python3 "$@" ;;
    node) node "$@" ;;
    *) "$@" ;;
  esac
}}
help() {{
  case "$1" in
{_TOPICS}
    '') command help --list
      printf '{_LIST}\\n\\nPrograms:\\n'
      ls /usr/bin | tr '\\n' ' ' | fold -s -w 100
      echo ;;
    *) command help "$@" ;;
  esac
}}
"""
"""The first commands of a shell. Scripts that `sh` runs stop on the first error, at any depth, because an alias is the
one thing that scripts inherit. A file that is named by its path is run by the program of its first line or extension,
and stops on an error too."""

_OWN = ("/bin/", "/usr/bin/")
_USAGE = {
    "alias": "alias [NAME[=VALUE]...]",
    "cd": "cd [FOLDER]",
    "command": "command [-v] NAME [ARGUMENT]...",
    "echo": "echo [-neE] [TEXT]...",
    "eval": "eval [TEXT]...",
    "exit": "exit [CODE]",
    "export": "export [NAME[=VALUE]]...",
    "help": "help [COMMAND]",
    "pwd": "pwd [-LP]",
    "read": "read [-r] [-a ARRAY] [-d DELIMITER] [-n COUNT] [-p PROMPT] [NAME]...",
    "set": "set [-euxo OPTION] [--] [ARGUMENT]...",
    "source": "source FILE [ARGUMENT]...",
    "test": "test EXPRESSION",
    "type": "type [-t] NAME...",
    "unset": "unset [-fv] NAME...",
    "which": "which NAME...",
}
"""Usage of builtins that do not print it themselves."""
_HELPFUL = frozenset(
    """
    awk basename bash cat comm cp csplit cut date diff env expand find fold head id join jq ln mkdir mktemp mv nl od
    paste printf readlink realpath rev rm rmdir sed seq sh shuf sleep split stat tac tail tar tee timeout touch tr tree
    truncate uniq wc xargs
    """.split()  # noqa: SIM905  # as text it can be read
)
"""Commands that print their usage for `--help` and have no other use for `-h`."""
_QUESTION = re.compile(r"\s*([a-z0-9]+)\s+(-h|--help)\s*").fullmatch
_OPEN_END = re.compile(r"(?:&&|\|)\s*\Z").search
_UNFINISHED = "bash: syntax error: unexpected end of file\n"
_MISSING = "sh: missing script path\nUsage: sh FILE [ARGUMENT]...\n"


def prepare_command(command: str, *, has_input: bool = False) -> str:
    """A command line as the shell is to run it.

    >>> prepare_command("mkdir -h")
    'mkdir --help'
    >>> prepare_command("cd /work && ./run.sh a | sort")
    'cd /work && __script ./run.sh a | sort'
    """
    if question := _QUESTION(command):
        name = question[1]
        if name in _USAGE:
            return f"echo {shlex.quote('Usage: ' + _USAGE[name])}"
        if name in _HELPFUL:
            return f"{name} --help"
    alone = command.strip()
    if alone == "sh" and not has_input:
        return f"printf %s {shlex.quote(_MISSING)} >&2; (exit 2)"
    if _OPEN_END(command) and _parser().parse(command.encode()).root_node.has_error:
        # The interpreter would run what comes before.
        return f"printf %s {shlex.quote(_UNFINISHED)} >&2; (exit 2)"
    return _route_scripts(command) if "/" in command else command


def _route_scripts(command: str) -> str:
    """Let scripts that are named by their path be run by the program they are written for."""
    text = command.encode()
    root = _parser().parse(text).root_node
    if root.has_error:
        return command
    parts, end = [], 0
    for start in sorted(_path_names(root)):
        parts += [text[end:start], f"{_RUN} ".encode()]
        end = start
    return b"".join((*parts, text[end:])).decode()


def _path_names(root: Node) -> list[int]:
    """The offsets of command names that are written as a path."""
    found, nodes = [], [root]
    while nodes:
        node = nodes.pop()
        nodes.extend(node.children)
        if node.type != "command_name" or len(node.children) != 1 or node.children[0].type != "word":
            continue
        name = (node.text or b"").decode()
        if "/" in name and not name.startswith(_OWN) and not set(name) & set("*?[~\\{"):
            found.append(node.start_byte)
    return found


@functools.cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))
