"""`metier explain`."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

import metier
import metier.dialect
import metier.guard
from metier.cli.exit_codes import FINE, exit_code_of_outcome
from metier.cli.output import Style, print_json
from metier.cli.parser import Parser, library_of
from metier.errors import InvalidArgument
from metier.hints import for_person

if TYPE_CHECKING:
    from metier.guard import Decision
    from metier.guard.decision import Ceiling, Enforcement


def add(parser: Parser) -> None:
    parser.example("""metier explain --rules "Bash(git:*) Read" --tool Bash --args '{"command": "git status"}'""")
    parser.library()
    parser.skill("a skill, whose rules count", nargs="?")
    parser.option("--rules", "RULES", "rules to allow by, as allowed-tools are written")
    parser.option("--deny", "RULES", "rules to refuse by, as disallowed-tools are written")
    parser.option("--ask", "RULES", "rules to ask by, as a policy has them")
    parser.option("--tool", "TOOL", "the tool that is called")
    parser.option("--args", "JSON", "its arguments, a JSON object")
    parser.option("--command", "TEXT", "short for --tool Bash with this command", dest="shell")
    parser.option("--workspace", "DIR", "where relative paths start (default: here)")
    parser.check()
    parser.json()


def run(options: Namespace) -> int:
    from metier.guard.decision import STRICTNESS
    from metier.guard.explanation import run_of_call

    tool, arguments = tool_call(options.tool, read_arguments(options.args), options.shell)
    ceiling, enforcement = _ceiling(options)
    action = metier.guard.Action(
        point="call",
        tool=tool,
        arguments=arguments,
        ceilings=(ceiling,),
        workspace=os.path.abspath(options.workspace or "."),
        is_control=tool in metier.dialect.CONTROL_TOOLS,
    )
    # What would be decided; nothing happens, so nothing is recorded.
    guard = metier.Guard(metier.Policy(ask=options.ask or ()), audit=metier.guard.MemoryLog())
    decision = guard.decide(action)
    if (run := run_of_call(action)) is not None:
        decision = max(decision, guard.decide(run), key=lambda one: STRICTNESS[one.outcome])
    if options.json:
        found = {"decision": decision.outcome, "reason": decision.reason, "rule": decision.rule}
        print_json(found | ({"allowed_tools": enforcement.as_dict()} if enforcement is not None else {}))
    else:
        _print_decision(decision, tool, arguments)
        if enforcement is not None:
            print(Style.text(f"allowed-tools are {enforcement}", 1_000))
    return exit_code_of_outcome(decision.outcome) if options.check else FINE


def tool_call(tool: str | None, arguments: dict[str, Any] | None, command: str | None) -> tuple[str, dict[str, Any]]:
    """Return the tool and the arguments of a call, which `--tool` and `--args` name, or `--command`."""
    if command is not None:
        if arguments is not None or tool:
            raise InvalidArgument("--command stands for --tool and --args.", hint="Give it alone.")
        return "Bash", {"command": command}
    if not tool:
        raise InvalidArgument("No tool is named.", hint='Add --tool Bash, or --command "git status".')
    return tool, arguments or {}


def read_arguments(text: str | None) -> dict[str, Any] | None:
    """Read the JSON object behind `--args`; raises `InvalidArgument` for anything else."""
    if text is None:
        return None
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(text)
        if isinstance(found, dict):
            return found
    raise InvalidArgument("--args is no JSON object.", hint="""Write --args '{"command": "git status"}'.""")


def _ceiling(options: Namespace) -> tuple[Ceiling, Enforcement | None]:
    """The rules to explain, and for the list of a skill whether it restricts calls."""
    from metier.guard.decision import Ceiling
    from metier.skill.tool_rules import parse_rules

    if options.name is None:
        if options.rules is None and options.deny is None and options.ask is None:
            raise InvalidArgument("No rules are given.", hint='Name a skill, or add --rules "Bash(git:*) Read".')
        allowed = None if options.rules is None else parse_rules(options.rules)
        return Ceiling(owner="", allowed=allowed, disallowed=parse_rules(options.deny)), None
    if options.rules is not None or options.deny is not None:
        raise InvalidArgument("A skill has rules of its own.", hint="Give a skill or rules, not both.")
    with library_of(options).session(
        guard=metier.Guard(audit=metier.guard.MemoryLog()), workspace=options.workspace
    ) as session:
        session.load(options.name)
        one = session.loaded.one()
        has_list = one.ceiling.allowed is not None
        return one.ceiling, session.guard.enforcement_of(one.entry.place, one.entry.folder) if has_list else None


def _print_decision(decision: Decision, tool: str, arguments: dict[str, Any]) -> None:
    from metier.guard.shell.parser import shell_parts
    from metier.skill.tool_rules import canonical_tool

    style = Style(sys.stdout)
    asked = arguments.get("command") if isinstance(arguments.get("command"), str) else json.dumps(arguments)
    print(f"{style.outcome(decision.outcome)}  {style.strong(Style.text(tool))} {Style.text(str(asked), 2_000)}")
    parts = shell_parts(asked) if canonical_tool(tool) == "bash" and isinstance(asked, str) else ()
    if len(parts) > 1:
        print(style.dim(f"runs {', '.join(f'`{Style.text(part)}`' for part in parts)}"))
    print(Style.text(decision.reason, 2_000))
    print(f"{style.dim('rule')}: {Style.text(decision.rule, 1_000)}")
    if decision.hint:
        print(f"{style.dim('hint')}: {Style.text(for_person(decision.hint), 1_000)}")
