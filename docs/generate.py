"""Writes the reference pages that are made from the code: diagnostics, the command, errors, rules of the scanner.

python docs/generate.py            write them
python docs/generate.py --check    exit 1 when one is out of date
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import functools
import inspect
import itertools
import json
import os
import re
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from server_page import roles_page
from suite_page import suites_page

import metier
import metier.guard
import metier.hub
import metier.store
from metier import _aliases, errors
from metier.cli.commands import COMMANDS, GROUPS
from metier.cli.help import examples
from metier.cli.parser import TopParser, parser_of
from metier.cli.rule_syntax import syntax_shape
from metier.scan import condition, phrase
from metier.scan.finding import rank
from metier.scan.pack import MAX_FILES, MAX_PACK_BYTES, SCHEMA
from metier.scan.ruleset import all_rules
from metier.session.files import ReadOptions, read_resource
from metier.session.runs import RunOptions, ScriptRun
from metier.skill import DIAGNOSTIC_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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
    "node-state-invalid, node-lease-ended, node-offline": "This machine is a node, and what it has of its server is "
    "missing or wrong, or was not confirmed for too long.",
    "digest-mismatch, integrity-failed": "Its content is not the one that policy pins, or that was recorded.",
    "skill-disabled": "It is turned off in its place.",
    "tests-missing, score-too-low": "Policy wants tests to be passed, or a score, which this content does not have.",
    "tests-not-compared, tests-worse": "Policy wants no test to fail after a change that passed before it.",
    "rule-denied, source-denied": "A rule of a policy is against it, or against where it comes from.",
    "signature-missing, signer-unknown": "Policy wants a signature, and nobody has signed, or nobody who counts here.",
    "scripts-denied, hooks-denied, injection-denied": "Policy does not let this be run.",
    "script-read": "It is a script, to be run instead of read.",
    "scan-findings": "The scanner found something that keeps it from being deployed.",
    "policy-unreadable": "A policy file is broken, and says that nothing begins until it is mended.",
    "not-examined": "What would have to be known about the skill cannot be told, or a scanner failed.",
    "not-decided": "Nothing could be decided about it, so it did not happen.",
}
"""The codes of decisions, for which there is no class of their own."""


PARAMETERS = {
    "agent": "The id of the agent that asks.",
    "tenant": "The tenant on whose behalf it is asked.",
    "environment": "The environment of the machine, such as `production`.",
    "by": "Who asks: `model`, `user`, `host` (the program) or `client` (a program that speaks for a person).",
    "name": "The name of a skill, `name@source`, or its folder.",
    "names": "Names of skills.",
    "args": "Arguments, as the instructions or the script ask for them.",
    "arguments": "The arguments of the tool call, by name.",
    "tool": "The name of the tool.",
    "tools": "Tools of the agent itself.",
    "skill": "The name of an active skill; the one that was loaded last when left out.",
    "skills": "The skills: names, or for `from_files` the files of each.",
    "script": "The path of the script in the skill, such as `scripts/check.py`.",
    "path": "The path of a file, relative to the skill's folder.",
    "all": "All skills: `entries` includes shadowed, broken and excluded ones, `unload` unloads every one.",
    "id": "The id of the session, or of the task.",
    "text": "What a person typed.",
    "words": "The names of the model's tools; those of the runtime dialect when left out.",
    "make_room": "Whether skills that were loaded longest ago are unloaded where there would be too many.",
    "mode": "`replace` the active skills, or `add` to them.",
    "query": "What to look for.",
    "k": "How many results at most.",
    "layer": "The layer of the skills, which decides between equal names.",
    "cache": "Whether the index is kept on disk, or the folder to keep it in.",
    "start": "The folder of the project; the working folder when left out.",
    "folders": "Folders or archives with skills.",
    "places": "The places to look in, the strongest first.",
    "order": "The order of layers, the strongest first.",
    "findings": "Diagnostics about places that are already known.",
    "on_change": "A function that is called with each change.",
    "interval": "Seconds between two looks; None for none.",
    "events": "Whether the events of the operating system are used.",
    "state": "What `Session.save` returned.",
    "options": "Options of a session: see `Session` and `Options`.",
    "dialect": "How the model sees skills: `runtime`, `registry`, `tool`, `sandbox`, or a dialect of your own.",
    "prompt": "The request of the user.",
    "spawn": "A function that starts an agent for a skill with `context: fork`.",
    "builtin": "Names of built-in tools that the agent is to have.",
    "is_all": "Whether these are all tools of the agent.",
    "listener": "A function that is called with each event.",
    "view": "`full`, or `summary` for what was done and what came of it.",
    "library": "The library of the session.",
    "user": "The person in audit records.",
    "lineage": "The agents that started one another on the way here.",
    "policy": "The policy of the program.",
    "guard": "The guard that decides.",
    "action": "The action to decide about.",
    "actor": "On whose behalf it happens.",
    "active": "Labels of the active skills, for the record.",
    "decision": "The decision.",
    "record": "The audit record.",
    "function": "The function.",
    "embedder": "A function that turns texts into vectors.",
    "progress": "A function of the number done and the number of all.",
    "budget": "Bytes that the text may have.",
    "format": "`xml`, `markdown` or `json`.",
    "search_tool": "The tool that finds further skills; None to mention none.",
    "machine": "The programs, variables and tools that are there.",
    "mount": "The folder that has the files of skills for the reader.",
    "listing": "Listing modes by name or pattern.",
    "before": "The earlier snapshot.",
    "after": "The later snapshot.",
    "include_unlisted": "Whether skills that are not for models are found too.",
    "seal": "Whether nothing can be done with it afterwards.",
    "contains": "Text in the name or a tag.",
    "name_prefix": "The beginning of the name.",
    "location_prefix": "The beginning of the path.",
    "layers": "Layers to choose from.",
    "sources": "Sources to choose from.",
    "inserts": "Kinds of insertion to choose from.",
    "activity": "Whether active or inactive skills are chosen.",
    "rung": "How much was cut: `full`, `shortened`, `named` or `digest`.",
    "added": "Names of new skills.",
    "changed": "Names of skills with another content.",
    "removed": "Names of skills that are gone.",
    "outcome": "`allow`, `ask` or `deny`.",
    "reason": "The reason, as a sentence for people and models.",
    "hint": "What to do next.",
    "code": "A stable code.",
    "line": "The line in the file.",
    "values": "The values of the message.",
    "body": "The instructions below the frontmatter.",
    "caller": "On whose behalf it is asked.",
    "kind": "The kind of the event.",
    "data": "Further values, by name.",
    "session": "The id of the session.",
    "at": "The time, in ISO 8601 and UTC.",
    "description": "The description; that of the docstring when left out.",
    "timeout": "Seconds that a call may take; None for no limit.",
    "subject": "The skill that the decision is about.",
    "place": "The place of a skill.",
    "folder": "The folder of a skill in its place.",
    "own": "The decision of the program's own policy.",
    "context": "Of a decision, its context; of a skill, whether it joins the conversation (`inherit`) or `fork`s.",
    "check": "The check that decides.",
    "first": "The decision before anybody was asked.",
    "on_missing_description": "What becomes of a skill without a description: `derive` one, or `skip` it.",
    "system": "The operating system.",
    "source": "The source of the skills.",
    "trusted": "Whether somebody vouches for it.",
    "entry": "The skill in the library.",
    "license": "The licence of the skill.",
    "compatibility": "What the skill says that it needs.",
    "metadata": "Fields of the author's own.",
    "disallowed_tools": "Tools that must not be called while it is active.",
    "version": "The version that the author gives it.",
    "tags": "Tags.",
    "triggers": "Words that it is found by.",
    "when_to_use": "When to use it.",
    "model": "The model that it asks for.",
    "hooks": "Commands around its use and around tool calls.",
    "scope": "The agents, tenants and environments that it is for.",
    "execution": "What its scripts need: network, hosts, paths, sandbox.",
    "argument_hint": "The arguments, as a person is shown them.",
    "user_invocable": "Whether people may invoke it by `/name`.",
    "disable_model_invocation": "Whether models must not load it.",
    "insert": "Whether it is instructions, or the text of a message of the user.",
    "execution_mode": "How an agent works under it.",
    "max_iterations": "Iterations of an agent that works by itself.",
    "max_retries_per_tool": "How often a failed call is tried again.",
    "timeout_per_iteration": "How long one iteration may take, such as `30s`.",
    "early_termination": "Whether the agent may end before the last iteration.",
    "legacy_large_file": "Whether it says that its SKILL.md may be long.",
    "body_lines": "Lines of its instructions.",
    "diagnostics": "Findings about its file.",
    "success": "Whether the call succeeded.",
    "error": "What went wrong.",
    "duration_ms": "Milliseconds that it took.",
    "tokens_used": "Tokens that it used, where it says so.",
    "cost_usd": "What it cost, where it says so.",
    "cached": "Whether the result was kept from an earlier call.",
    "retry_count": "How often it was tried again.",
    "more": "Further fields.",
}
"""The meaning of parameters and fields that have the same one everywhere."""

TYPED_OPTIONS: dict[object, tuple[Any, Callable[..., object]]] = {
    "Unpack[ReadOptions]": (ReadOptions, read_resource),
    "Unpack[RunOptions]": (RunOptions, ScriptRun),
}
"""Types of `**options`, each with the function that has their defaults."""


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


def rule_packs_page() -> str:
    """The format of packs of rules: the keys of a rule, and how phrases and conditions are written."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    rule = schema["$defs"]["rule"]
    syntax = syntax_shape()
    return "\n".join(
        [
            "# Packs of rules\n",
            NOTICE,
            "A pack is a folder with YAML files, or a folder `metier_rules` in an installed Python package. [Write a",
            "rule of your own](../how-to/scan-rules.md) says how to begin. A file has `rules` (a list), `lexicons`",
            "(phrases for several rules, each with its `meaning` and its `terms`), or both. Its rules can use the",
            "lexicons of their own pack and ours; ids and names that come with Métier are taken.\n",
            f"A pack has at most {MAX_FILES} files and {MAX_PACK_BYTES:,} bytes. Anchors and aliases of YAML are not",
            "read, and neither are links. The digest that a policy pins is over names and content of all files.\n",
            "## A rule\n",
            "| key | needed | what it is | values |",
            "|---|---|---|---|",
            *(
                f"| `{name}` | {'yes' if name in rule['required'] else ''} | {_cell(about['description'])} "
                f"| {_cell(_values(about, schema))} |"
                for name, about in rule["properties"].items()
            ),
            "",
            "A rule has `when`, `matcher` or both. Every sentence that `when` holds for must say one of some words: a",
            "term whose phrases have none, or a condition of facts alone, is refused, as is an expression that could",
            "take very long.\n",
            "What is quoted, taught, shown as a bad example or part of tests loses two steps of severity, and what a",
            "sentence speaks against is `info`, unless `stance` is `[any]`.\n",
            "## Phrases\n",
            *_docstring(phrase),
            "## Conditions\n",
            *_docstring(condition),
            "## Matchers\n",
            "| matcher | what it looks for, and its options |",
            "|---|---|",
            *(f"| `{name}` | {_cell(about)} |" for name, about in syntax["matchers"].items()),
            "",
            "## Lexicons\n",
            "`metier scan rules show LEXICON` lists the phrases.\n",
            "| lexicon | meaning |",
            "|---|---|",
            *(f"| `{name}` | {_cell(about)} |" for name, about in syntax["lexicons"].items()),
            "",
        ]
    )


def _docstring(module: Any) -> list[str]:
    """A docstring without its first line, tables as they are."""
    lines = (inspect.getdoc(module) or "").split("\n")
    return [*lines[2:], ""]


def _values(about: dict[str, Any], schema: dict[str, Any]) -> str:
    """The values that a key of a rule can have."""
    choice = about.get("enum") or about.get("items", {}).get("enum")
    if about.get("$ref", "").endswith("/severity") or about.get("propertyNames", {}).get("$ref"):
        choice = schema["$defs"]["severity"]["enum"]
    return ", ".join(f"`{one}`" for one in choice) if choice else ""


def command_page() -> str:
    """What `--help` says, for every command and every verb of one."""
    os.environ["NO_COLOR"] = "1"
    lines = ["# The `metier` command\n", NOTICE, "`--help` behind any command says the same.\n", *_words(TopParser())]
    for group, title in GROUPS.items():
        rows = [(name, command.summary) for name, command in COMMANDS.items() if command.group == group]
        lines.extend([f"**{group}**: {title}\n", "| | |", "|---|---|"])
        lines.extend(
            [*(f"| [`{name}`](#metier-{name.replace(' ', '-')}) | {_cell(summary)} |" for name, summary in rows), ""]
        )
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
        properties, methods = _public_members(kind)
        if properties:
            rows = [f"| `{member}` | {_type_of(value)} | {_cell(_prose(value))} |" for member, value in properties]
            lines.extend(["| attribute | type | |", "|---|---|---|", *rows, ""])
        for member, value in methods:
            lines.extend(_method(kind, member, value))
    for room in (metier.guard, metier.store, metier.hub):
        rows = [f"| `{name}` | {_cell(_prose(getattr(room, name)).partition(chr(10))[0])} |" for name in room.__all__]
        lines.extend(
            [f"## `{room.__name__}`\n", f"{_prose(room).partition(chr(10))[0]}\n", "| | |", "|---|---|", *rows, ""]
        )
    return "\n".join(lines)


def _fields(kind: Any) -> list[str]:
    """The fields of a dataclass, or the constructor of a class, with types, defaults and meanings."""
    if dataclasses.is_dataclass(kind):
        about_fields = _documented_fields(kind)
        public = [field for field in dataclasses.fields(kind) if not field.name.startswith("_")]
        rows = [_field(field, about_fields) for field in public]
        return ["| field | type | default | |", "|---|---|---|---|", *rows, ""]
    if "__init__" not in vars(kind) or not _prose(kind.__init__):
        return []
    return _method(kind, "__init__", kind.__init__)


def _field(field: dataclasses.Field[Any], about: dict[str, str]) -> str:
    has_default = field.default is not dataclasses.MISSING and not isinstance(field.default, dataclasses.Field)
    default = f"`{field.default!r}`" if has_default else ""
    meaning = about.get(field.name) or PARAMETERS.get(field.name, "")
    return f"| `{field.name}` | {_code(field.type)} | {default} | {_cell(meaning)} |"


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


class _Attribute:
    """An attribute that a class declares with a type and a docstring."""

    def __init__(self, type_: object, about: str) -> None:
        self.type = type_
        self.__doc__ = about


def _public_members(kind: type) -> tuple[list[tuple[str, object]], list[tuple[str, object]]]:
    """The properties and the methods of a class that users call."""
    attributes = {} if dataclasses.is_dataclass(kind) else _documented_fields(kind)
    types = vars(kind).get("__annotations__", {})
    properties: list[tuple[str, object]] = [
        (name, _Attribute(types[name], about)) for name, about in attributes.items() if not name.startswith("_")
    ]
    methods: list[tuple[str, object]] = []
    for name, declared in vars(kind).items():
        value = getattr(declared, "method", declared)  # of a part, where a library has the methods of its parts
        if name.startswith("_"):
            continue
        if inspect.isfunction(value) or isinstance(value, classmethod | staticmethod):
            methods.append((name, value))
        elif isinstance(value, property | functools.cached_property) or hasattr(value, "_make"):
            properties.append((name, value))
    return properties, methods


def _method(kind: type, name: str, value: object) -> list[str]:
    """A method: its signature, its docstring, and a table of its parameters."""
    function: Any = getattr(value, "__func__", value)
    signature = inspect.signature(function)
    parameters = [part for part in signature.parameters.values() if part.name not in ("self", "cls")]
    called = kind.__name__ if name == "__init__" else f"{kind.__name__}.{name}"
    shown = ", ".join(str(_plain(part)) for part in parameters)
    gives = "" if name == "__init__" else f" -> {_annotation(signature.return_annotation)}"
    about = _prose(function)
    lines = [f"### `{called}({shown}){gives}`\n", about, ""]
    rows = []
    for part in parameters:
        rows += _typed_options(part.annotation) or [
            f"| `{_stars(part)}{part.name}` | {_code(part.annotation)} | {_default(part)} "
            f"| {_cell(_meaning(f'{called}.{part.name}', part.name, about))} |"
        ]
    return [*lines, "| parameter | type | default | |", "|---|---|---|---|", *rows, ""] if rows else lines


def _typed_options(annotation: object) -> list[str]:
    """A row for each key of `**options` whose keys are declared; none for other parameters."""
    if annotation not in TYPED_OPTIONS:
        return []
    kind, user = TYPED_OPTIONS[annotation]
    about, defaults = _documented_fields(kind), inspect.signature(user).parameters
    types = {name: one.__forward_arg__ for name, one in kind.__annotations__.items()}
    return [
        f"| `{name}` | {_code(types[name])} | {_default(defaults[name])} | {_cell(about[name])} |" for name in types
    ]


def _meaning(full: str, name: str, about: str) -> str:
    """The meaning of a parameter: its own entry, sentences of the docstring that name it, or its general meaning."""
    if full in PARAMETERS:
        return PARAMETERS[full]
    text = " ".join(about.split())
    found = [part for part in re.split(r"(?<=[.;:])\s+(?=[A-Z`])", text) if f"`{name}`" in part or f"`{name}=" in part]
    return " ".join(found) or PARAMETERS.get(name, "")


def _stars(part: inspect.Parameter) -> str:
    if part.kind is part.VAR_POSITIONAL:
        return "*"
    return "**" if part.kind is part.VAR_KEYWORD else ""


def _default(part: inspect.Parameter) -> str:
    return "" if part.default is part.empty else f"`{_plain(part).default!r}`"


def _annotation(annotation: object) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def _code(annotation: object) -> str:
    return "" if annotation is inspect.Parameter.empty else f"`{_cell(_annotation(annotation))}`"


def _type_of(value: object) -> str:
    """The type of a property, or of a part that is made when it is first used."""
    if isinstance(value, _Attribute):
        return _code(value.type)
    function = getattr(value, "fget", None) or getattr(value, "func", None) or getattr(value, "_make", None)
    return _code(inspect.signature(function).return_annotation) if function is not None else ""


def _prose(value: object) -> str:
    """A docstring without its examples."""
    return inspect.cleandoc(getattr(value, "__doc__", "") or "").partition(">>>")[0].strip()


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
    "rule-packs.md": rule_packs_page,
    "scan-rules.md": scan_rules_page,
    "server-roles.md": roles_page,
    "test-suites.md": suites_page,
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
