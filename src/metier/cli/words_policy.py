"""The words of `metier policy`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.cli.verbs import add_check, add_json, verbs

if TYPE_CHECKING:
    import argparse

    from metier.cli.parser import Command


def add(command: Command) -> None:
    """Add them to the parser."""
    verb = verbs(
        command("policy", "check, show and explain what policy files allow", "metier policy explain csv-analyst")
    )

    check = verb(
        "check",
        "say what is wrong with policy files; exits with 1 where something is",
        "metier policy check .metier/policy.yaml --layer project",
    )
    check.add_argument("files", metavar="FILE", nargs="*", help="a policy file (default: all that count here)")
    check.add_argument(
        "--layer",
        choices=("enterprise", "personal", "project"),
        default="enterprise",
        help="whose files these are (default: enterprise)",
    )
    add_json(check)

    show = verb("show", "show what holds, and which file and line set it", "metier policy show sources")
    show.add_argument("key", metavar="KEY", nargs="?", help="only this key, or those below it: sources")
    add_json(show)

    explain = verb(
        "explain",
        "say why something is allowed, asked about or denied",
        "metier policy explain csv-analyst --script scripts/peek_csv.py",
    )
    explain.add_argument("name", metavar="NAME", nargs="?", help="the skill: a name, or NAME@SOURCE")
    explain.add_argument(
        "--point",
        metavar="POINT",
        help="what would happen: discover, activate, read-resource, tool-call, script-run, hook-run, install, update, "
        "publish, propose, apply, deploy (default: activate)",
    )
    explain.add_argument("--tool", metavar="NAME", help="a call of this tool, while the skill is active")
    explain.add_argument("--args", metavar="JSON", help="the arguments of the call")
    explain.add_argument("--command", metavar="TEXT", dest="shell", help="a command for the shell, instead of --tool")
    explain.add_argument("--script", metavar="PATH", help="a run of this script of the skill")
    explain.add_argument("--source", metavar="URL", help="an installation from there: git+https://github.com/acme/x")
    explain.add_argument(
        "--by", choices=("model", "user", "host"), default="model", help="who asks for it (default: model)"
    )
    add_check(explain)
    _library(explain)
    add_json(explain)

    test = verb("test", "try cases against what holds; exits with 1 where one fails", "metier policy test cases.yaml")
    test.add_argument("file", metavar="FILE", help="YAML: a list of cases with `expect: allow`, `ask` or `deny`")
    _library(test)
    add_json(test)


def _library(parser: argparse.ArgumentParser) -> None:
    from metier.cli.parser import _caller, _shared

    _shared(parser, "after")
    _caller(parser)
