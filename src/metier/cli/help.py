"""`metier help`, and the text of `metier --help`."""

from __future__ import annotations

from argparse import Namespace

from metier.cli.commands import COMMANDS, GROUPS
from metier.cli.parser import Parser

_EVERYDAY = """\
examples:
  metier add anthropics/skills pdf       a skill of a repository: what it can do first, then the question
  metier list                            the skills that are there for you, here
  metier search "plot a csv file"        the skills that fit, the best first, and why
  metier run csv-analyst peek_csv.py -- data.csv              one of its scripts, in a sandbox
  metier ask "What is in sales.csv?"     an agent that uses the skills that fit
  metier mcp --install claude-code       skills for an MCP client: also cursor, vscode, codex, zed and others
  metier new my-skill                    a skill to begin with
  metier scan ./skills                   signs of an attack, without running anything
  metier explain --rules "Bash(git:*)" --command "git push"   whether a call is allowed, and why
  metier approve list                    what waits for somebody to agree
  metier doctor                          what is found where, what is wrong, what to do
"""
_MORE = """\
  metier --skills ./skills list --all    those of a folder, shadowed and broken ones too
  metier update --all --dry-run          what would change in the skills that were added
  metier lock --check                    whether they are as they were installed
  metier show csv-analyst                what one skill says of itself
  metier catalog --budget 1024           what a model is shown of them
  metier listing csv-analyst pinned      how much models are shown of one
  metier validate ./my-skill --strict    what the specification has against it
  metier session csv-analyst             load it as a model would, and see what the model sees
  metier shell                           a shell that has skills and nothing of this machine
  metier chat --agent skill-builder      talk with an agent; `metier agents` lists them
  metier sync --to .claude/skills        skills as folders, for clients that only read disk
  metier policy explain deploy           why a skill is allowed, asked about or denied, with file and line
  metier audit verify                    whether all records are as they were written
"""
_EXIT_CODES = """
exit codes: 0 fine, 1 problems found, 2 wrong usage, 3 content is not what was recorded, 4 an approval is needed
"""


def add(parser: Parser) -> None:
    parser.example("metier help policy check")
    parser.option("words", "COMMAND", "a command, and a verb of it", nargs="*", default=[])
    parser.flag("--all", "describe all commands, not only those of every day")


def run(options: Namespace) -> None:
    from metier.cli.parser import TopParser, parse

    if options.words:
        # Ends with the exit code of `--help` behind the words.
        parse([*options.words, "--help"], options)
    parser = TopParser()
    parser.describes_all = options.all
    parser.print_help()


def overview(*, describes_all: bool) -> str:
    """Format the commands by group: everyday ones with their summary, the others by name unless all are described."""
    lines = ["Skills for any agent, and control over what they may do."]
    others: list[str] = []
    for group, title in GROUPS.items():
        lines += ["", f"{group}: {title}"]
        for name, command in COMMANDS.items():
            if command.group == group and (describes_all or command.everyday):
                lines.append(f"  {name:<10}   {command.summary}")
        rest = [name for name, command in COMMANDS.items() if command.group == group and not command.everyday]
        others += [f"  {group:<10}   {', '.join(rest)}"] if rest else []
    if not describes_all:
        lines += ["", "more commands; `metier help --all` describes them:", *others]
    return "\n".join(lines)


def examples(*, describes_all: bool) -> str:
    """Format the examples and the exit codes."""
    return _EVERYDAY + (_MORE if describes_all else "") + _EXIT_CODES
