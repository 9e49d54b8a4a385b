"""Writes the reference pages that are made from the code: diagnostics, the command line, errors, rules of the scanner.

python docs/generate.py            write them
python docs/generate.py --check    exit 1 when one is out of date
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import inspect
import itertools
import os
import re
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import metier
import metier.guard
import metier.hub
import metier.store
from metier import _aliases, errors
from metier.cli.commands import COMMANDS, GROUPS
from metier.cli.help import examples
from metier.cli.parser import TopParser, parser_of
from metier.scan.finding import rank
from metier.scan.ruleset import all_rules
from metier.skill import DIAGNOSTIC_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable

REFERENCE = Path(__file__).parent / "reference"
NOTICE = "<!-- Made from the code by `make docs`; edit the code instead. -->\n"


REFUSALS = {
    "approval-needed": "Somebody has to agree first; where the content needs an approval, a request waits for one.",
    "approval-pending": "Somebody was asked and has not answered yet.",
    "approval-denied": "Somebody decided against this content, or said no when asked.",
    "approval-failed": "Nobody could be asked, or what to agree to is too long to be shown.",
    "tool-not-allowed": "A rule of an active skill or of a policy is against this tool call.",
    "skill-untrusted": "It comes from a place that nobody vouches for.",
    "not-for-models, not-for-people": "Only people, or only models, may load it.",
    "skill-blocked, skill-quarantined": "It was taken out of use, by the program or by `metier quarantine`.",
    "skill-denied, name-reserved": "Policy does not let it be here, or reserves its name for administrators.",
    "environment-denied": "Administrators say that this machine is in another environment than the one that was named.",
    "digest-mismatch, integrity-failed": "Its content is not the one that policy pins, or that was recorded.",
    "skill-disabled": "It is turned off in its place.",
    "rule-denied, source-denied": "A rule of a policy is against it, or against where it comes from.",
    "scripts-denied, hooks-denied, injection-denied": "Policy does not let this be run.",
    "script-read": "It is a script, to be run instead of read.",
    "scan-findings": "The scanner found something that keeps it from being deployed.",
    "policy-unreadable": "A policy file is broken, and says that nothing begins until it is mended.",
    "not-examined": "What would have to be known about the skill cannot be told, or a scanner failed.",
    "not-decided": "Nothing could be decided about it, so it did not happen.",
}
"""The codes of decisions, for which there is no class of their own."""


def diagnostics_page() -> str:
    """All diagnostic codes."""
    lines = [
        "# Diagnostics\n",
        NOTICE,
        "Every finding has a stable code, a severity, a line where there is one, a message and a hint. `error` means",
        "that the skill is not loaded; codes that begin with `spec-` or `portable-` come from `validate --strict` and",
        "`--portable` only. `{0}`, `{1}` stand for the values of the case at hand.\n",
        "| code | severity | message | what to do |",
        "|---|---|---|---|",
    ]
    for code, kind in DIAGNOSTIC_KINDS.items():
        cells = (text.replace("|", "\\|") for text in (f"`{code}`", kind.severity, kind.message, kind.hint))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def errors_page() -> str:
    """All errors that a program may catch."""
    found = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.MetierError)]
    lines = [
        "# Errors\n",
        NOTICE,
        "All are in `metier.errors` and derive from `MetierError`. Each has `code`, `message`, `hint` and `context`.",
        "The hint is worded for programs; `for_person` and `for_model` of `metier.hints` word it for other readers.\n",
        "| error | code | when |",
        "|---|---|---|",
        *(f"| `{kind.__name__}` | `{kind.code}` | {(kind.__doc__ or '').splitlines()[0]} |" for kind in found),
        "",
        "## When the guard says no\n",
        "`Refused`, results of tools and records have the code of the decision:\n",
        "| code | why it did not happen |",
        "|---|---|",
        *(f"| `{codes.replace(', ', '`, `')}` | {why} |" for codes, why in REFUSALS.items()),
    ]
    return "\n".join(lines) + "\n"


def aliases_page() -> str:
    """All names of other systems that are taken."""
    arguments = [(f"`{tool}`", *row) for tool, rows in _aliases.ARGUMENTS.items() for row in rows.items()]
    tools = [(f"`{name}` in `uses_tools`", _listed(tools) or "nothing") for name, tools in _aliases.AGENT_TOOLS.items()]
    lines = [
        "# Names from other systems\n",
        NOTICE,
        "Whoever comes from another system keeps its names. Each is taken where a call, a manifest, a provider or a",
        "SKILL.md enters; rules, records and hooks have the canonical name alone. A rule may be written with either. A",
        "name from here beside its canonical one must say the same, or it is an error. A tool that an agent has itself",
        "under such a name stays that.\n",
        "## Tools\n",
        "Names with a dot are for hosts that call the executor themselves: providers' APIs refuse them.\n",
        "| name | canonical |",
        "|---|---|",
        *(f"| `{alias}` | `{name}` |" for alias, name in _aliases.TOOLS.items()),
        "",
        "`activate` and `deactivate` are actions of the tool `skill`: like `load` and `unload`, but on a stack.\n",
        "## Arguments\n",
        "| tool | name | canonical |",
        "|---|---|---|",
        *(f"| {tool} | `{alias}` | `{name}` |" for tool, alias, name in arguments),
        "",
        "`env` of `skills_run` is a list of `NAME=value`, one such text, or an object; `timeout_ms` is milliseconds.\n",
        "## Manifests of agents\n",
        "| there | here |",
        "|---|---|",
        f"| `{_aliases.AGENT_FILE}` with a block `{_aliases.AGENT_BLOCK}:` | `agent.yaml` with its fields |",
        *(f"| {name} | {meaning} |" for name, meaning in tools),
        f"| {_listed(sorted(_aliases.ALWAYS_THERE))} in `depends_on` | always there |",
        "",
        "## Context providers\n",
        "| member | canonical |",
        "|---|---|",
        *(f"| `{alias}` | `{name}` |" for alias, name in _aliases.PROVIDER_MEMBERS.items()),
        "",
        "Either may be async, and may take the turn beside the prompt.\n",
        "## Fields of a SKILL.md\n",
        "| field | canonical |",
        "|---|---|",
        *(f"| `{alias}` | `{name}` |" for alias, name in _aliases.SKILL_FIELDS.items()),
    ]
    return "\n".join(lines) + "\n"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def scan_rules_page() -> str:
    """All rules of the scanner, the gravest first."""
    rules = sorted(all_rules(), key=lambda rule: (-rank(rule.severity), rule.id))
    lines = [
        "# Rules of the scanner\n",
        NOTICE,
        "What [`metier scan`](../how-to/scan.md) looks for. The severity is the usual one: what surrounds a place, and",
        "where an address leads, can make a finding graver or milder. `AST01` and the like are places in the OWASP",
        "Agentic Skills Top 10.",
        "`SCAN_FAILED` (AST08, high) is no rule: it says that the scan itself did not finish.\n",
        "| rule | OWASP | category | severity | what it says | what to do |",
        "|---|---|---|---|---|---|",
    ]
    for rule in rules:
        cells = (f"`{rule.id}`", rule.ast, f"`{rule.category}`", rule.severity, rule.message, rule.hint)
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join(lines) + "\n"


def command_page() -> str:
    """What `--help` says, for every command and every verb of one."""
    os.environ["NO_COLOR"] = "1"
    lines = ["# The `metier` command\n", NOTICE, "`--help` behind any command says the same.\n", *_words(TopParser())]
    for group, title in GROUPS.items():
        rows = [(name, command.summary) for name, command in COMMANDS.items() if command.group == group]
        lines.extend([f"**{group}**: {title}\n", "| | |", "|---|---|"])
        lines.extend([*(f"| [`{name}`](#metier-{name}) | {_cell(summary)} |" for name, summary in rows), ""])
    lines.extend(["```text", examples(describes_all=True).rstrip(), "```\n"])
    for name in COMMANDS:
        command = parser_of(name)
        lines.extend([f"## `metier {name}`\n", f"{command.description}\n", *_words(command)])
        for verb, words, what in _commands(command):
            lines.extend([f"### `metier {name} {verb}`\n", f"{what[0].upper()}{what[1:]}.\n", *_words(words)])
    return "\n".join(lines)


def _commands(parser: argparse.ArgumentParser) -> list[tuple[str, argparse.ArgumentParser, str]]:
    """The words that may follow, each with its parser and what it does."""
    return [
        (choice.dest, action.choices[choice.dest], choice.help or "")
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for choice in action._choices_actions
    ]


def _words(parser: argparse.ArgumentParser) -> list[str]:
    """How a command is written, and what each of its words means: the same on every version of Python."""
    usage = " ".join(parser.format_usage().removeprefix("usage: ").replace("[-h] ", "").split())
    # An option and its value stay on one line.
    kept = re.sub(r"\[[^\[\]]*\]", lambda part: part[0].replace(" ", "\0"), usage)
    written = textwrap.fill(kept, 100, subsequent_indent="    ", break_on_hyphens=False).replace("\0", " ")
    example = (parser.epilog or "").removeprefix("example:\n  ") if parser.prog.count(" ") else ""
    lines = ["```text", written, *([f"\n{example}"] if example else []), "```\n"]
    rows = [
        (f"`{_invocation(action)}`", (action.help or "") % {**vars(action), "prog": parser.prog})
        for action in parser._actions
        if not isinstance(action, argparse._SubParsersAction | argparse._HelpAction)
        and action.help is not argparse.SUPPRESS
    ]
    rows += [(f"[`{name}`](#{words.prog.replace(' ', '-')})", what) for name, words, what in _commands(parser)]
    if rows:
        lines.extend(["| | |", "|---|---|", *(f"| {_cell(word)} | {_cell(what)} |" for word, what in rows), ""])
    return lines


def _invocation(action: argparse.Action) -> str:
    """`-n N`, `--json`, `NAME`: what is written for an option or an argument."""
    values = "" if action.nargs == 0 else argparse.HelpFormatter("")._format_args(action, _placeholder(action))
    return f"{', '.join(action.option_strings)} {values}".strip()


def _placeholder(action: argparse.Action) -> str:
    return "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def api_page() -> str:
    """What a program may use, from the docstrings."""
    lines = [
        "# The Python API\n",
        NOTICE,
        "All of this is imported from `metier`; errors are in `metier.errors`. At the end is what programs import from",
        "single rooms, for what they decide and keep themselves.\n",
    ]
    for name in sorted(set(metier.__all__) - {"__version__", "MetierError", "SkillNotFound"}):
        kind = getattr(metier, name)
        lines.extend([f"## `{name}`\n", _prose(kind), ""])
        lines.extend(_fields(kind))
        rows = [row for member, value in _members(kind).items() if (row := _member(kind, member, value)) is not None]
        if rows:
            lines.extend(["| | |", "|---|---|", *rows, ""])
    for room in (metier.guard, metier.store, metier.hub):
        rows = [f"| `{name}` | {_cell(_prose(getattr(room, name)).partition(chr(10))[0])} |" for name in room.__all__]
        lines.extend(
            [f"## `{room.__name__}`\n", f"{_prose(room).partition(chr(10))[0]}\n", "| | |", "|---|---|", *rows, ""]
        )
    return "\n".join(lines)


def _fields(kind: Any) -> list[str]:
    """What a class is made with: the fields of a dataclass, or the parameters of its constructor."""
    if dataclasses.is_dataclass(kind):
        about_fields = _documented_fields(kind)
        rows = [_field(field, about_fields) for field in dataclasses.fields(kind)]
        return ["| field | default | |", "|---|---|---|", *rows, ""]
    if "__init__" not in vars(kind) or not (about := _prose(kind.__init__)):
        return []
    row = _member(kind, "__call__", kind.__init__, shown_as=kind.__name__)
    return [f"Made by {row.strip('| ').partition(' | ')[0]}. {about}", ""] if row else []


def _field(field: dataclasses.Field[Any], about: dict[str, str]) -> str:
    has_default = field.default is not dataclasses.MISSING and not isinstance(field.default, dataclasses.Field)
    default = f"`{field.default!r}`" if has_default else ""
    return f"| `{field.name}` | {default} | {about.get(field.name, '').replace('|', chr(92) + '|')} |"


def _documented_fields(kind: Any) -> dict[str, str]:
    """The docstrings that stand below the fields of a class."""
    body = ast.parse(inspect.cleandoc("\n" + inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for first, second in itertools.pairwise(body.body):
        if isinstance(first, ast.AnnAssign) and isinstance(first.target, ast.Name) and isinstance(second, ast.Expr):
            text = ast.literal_eval(second.value) if isinstance(second.value, ast.Constant) else ""
            found[first.target.id] = " ".join(str(text).split())
    return found


def _members(kind: type) -> dict[str, object]:
    """What a class offers, with what it has from classes of ours that it builds on."""
    found: dict[str, object] = {}
    for one in reversed(kind.__mro__):
        if one.__module__.startswith("metier"):
            found.update(vars(one))
    return found


def _prose(value: object) -> str:
    """A docstring without its examples."""
    return inspect.cleandoc(getattr(value, "__doc__", "") or "").partition(">>>")[0].strip()


def _member(kind: type, name: str, value: object, shown_as: str = "") -> str | None:
    """One row: a method with its parameters, or a property, and the first line about it."""
    if (not shown_as and name.startswith("_")) or (
        not isinstance(value, property | classmethod | staticmethod) and not callable(value)
    ):
        return None
    function: Any = getattr(value, "__func__", value)
    about = _prose(value.fget if isinstance(value, property) else function).replace("\n", " ").replace("|", "\\|")
    if isinstance(value, property):
        return f"| `{name}` | {about} |"
    parameters = [part for part in inspect.signature(function).parameters.values() if part.name not in ("self", "cls")]
    shown = ", ".join(str(_plain(part)) for part in parameters)
    owner = f"{kind.__name__}." if isinstance(value, classmethod) else ""
    return f"| `{owner}{shown_as or name}({shown})` | {about} |"


def _plain(part: inspect.Parameter) -> inspect.Parameter:
    """A parameter without its type, and without all fields of a default that says nothing."""
    default = part.default
    kind = type(default)
    if dataclasses.is_dataclass(kind) and all(
        getattr(default, one.name) == one.default for one in dataclasses.fields(kind)
    ):
        default = _Shown(f"{kind.__name__}()")
    return part.replace(annotation=inspect.Parameter.empty, default=default)


class _Shown(str):
    """A default as it is written."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


PAGES = {
    "aliases.md": aliases_page,
    "api.md": api_page,
    "diagnostics.md": diagnostics_page,
    "errors.md": errors_page,
    "command.md": command_page,
    "scan-rules.md": scan_rules_page,
}


def main() -> int:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say whether they are up to date")
    check = parser.parse_args().check
    outdated = []
    for name, page in PAGES.items():
        file = REFERENCE / name
        text = page()
        if check and (not file.exists() or file.read_text(encoding="utf-8") != text):
            outdated.append(name)
        elif not check:
            REFERENCE.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
    if outdated:
        print(f"Out of date: {', '.join(outdated)}. Run `make docs`.", file=sys.stderr)
    return 1 if outdated else 0


if __name__ == "__main__":
    raise SystemExit(main())
