"""`metier policy`: check, show and explain what policy files allow."""

from __future__ import annotations

import functools
import os
import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from metier.cli.exit_codes import FINE, PROBLEMS, exit_code_of_outcome
from metier.cli.json_shapes import listing_shape
from metier.cli.output import Style, plural, print_json, short_path, table
from metier.cli.parser import Parser, library_of
from metier.errors import InvalidArgument, MetierError
from metier.hints import for_person
from metier.skill.untrusted_text import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from metier import Library
    from metier.guard.explanation import Explanation
    from metier.guard.policy.effective import EffectivePolicy
    from metier.guard.policy.file import PolicyProblem
    from metier.skill.listing import ListingRule

_WOULD = {"allow": "be allowed", "ask": "have to be asked about", "deny": "be denied"}


def add(parser: Parser) -> None:
    parser.example("metier policy explain csv-analyst")
    check = parser.verb(
        "check",
        "say what is wrong with policy files; exits with 1 where something is",
        "metier policy check .metier/policy.yaml --layer project",
        _check,
    )
    check.option("files", "FILE", "a policy file (default: all that count here)", nargs="*")
    check.option(
        "--layer",
        None,
        "whose files these are (default: enterprise)",
        choices=("enterprise", "personal", "project"),
        default="enterprise",
    )
    check.json()

    show = parser.verb("show", "show what holds, and which file and line set it", "metier policy show sources", _show)
    show.option("key", "KEY", "only this key, or those below it: sources", nargs="?")
    show.json()

    explain = parser.verb(
        "explain",
        "say why something is allowed, asked about or denied",
        "metier policy explain csv-analyst --script scripts/peek_csv.py",
        _explain,
    )
    explain.option("name", "NAME", "the skill: a name, or NAME@SOURCE", nargs="?")
    explain.option(
        "--point",
        "POINT",
        "what would happen: discover, activate, read-resource, tool-call, script-run, hook-run, install, update, "
        "publish, propose, apply, deploy (default: activate)",
    )
    explain.option("--tool", "NAME", "a call of this tool, while the skill is active")
    explain.option("--args", "JSON", "the arguments of the call")
    explain.option("--command", "TEXT", "a command for the shell, instead of --tool", dest="shell")
    explain.option("--script", "PATH", "a run of this script of the skill")
    explain.option("--source", "URL", "an installation from there: git+https://github.com/acme/x")
    callers = ("model", "user", "host")
    explain.option("--by", None, "who asks for it (default: model)", choices=callers, default="model")
    explain.check()
    explain.library()
    explain.json()

    test = parser.verb(
        "test", "try cases against what holds; exits with 1 where one fails", "metier policy test cases.yaml", _test
    )
    test.option("file", "FILE", "YAML: a list of cases with `expect: allow`, `ask` or `deny`")
    test.library()
    test.json()


def run(options: Namespace) -> int:
    return options.do(options) or FINE


def _test(options: Namespace) -> int:
    from metier.cli.policy_cases import run_cases

    return run_cases(options)


def _check(options: Namespace) -> int:
    from metier.guard.policy.files import Policies
    from metier.guard.policy.reader import read_policy, unreadable
    from metier.guard.policy.summary import problems_of_packs

    style = Style(sys.stdout)
    if options.files:
        # Each by itself: which of them would be there together, nobody knows.
        files = [
            read_policy(path, options.layer)
            or unreadable(path, options.layer, "it is not there", "Name a file that is.")
            for path in map(os.path.abspath, options.files)
        ]
        ignored: tuple[PolicyProblem, ...] = ()
    else:
        effective = Policies.discover().current()
        files, ignored = list(effective.files), effective.ignored
    problems = [problem for file in files for problem in file.problems]
    if not options.files:
        problems += problems_of_packs(effective)
    errors = sum(problem.severity == "error" for problem in problems)
    if options.json:
        print_json(
            {
                "files": [{"layer": file.layer, "path": file.path, "digest": file.digest} for file in files],
                "problems": [problem.as_dict() for problem in (*problems, *ignored)],
            }
        )
        return PROBLEMS if errors else FINE
    _print_problems(style, (*problems, *ignored))
    if not files:
        print("There is no policy file here; the defaults hold. `metier policy show` has them.")
        print("Yours is `~/.metier/policy.yaml`, that of a project `.metier/policy.yaml`; begin with `version: 1`.")
    elif not problems and not ignored:
        print(f"{style.good('✓')} {plural(len(files), 'policy file')} without problems")
    else:
        print(f"{plural(errors, 'error')} and {plural(len(problems) + len(ignored) - errors, 'warning')}")
    return PROBLEMS if errors else FINE


def _print_problems(style: Style, problems: Iterable[PolicyProblem]) -> None:
    for problem in problems:
        place = f"{Style.text(problem.path, 4_096)}:{problem.line}"
        print(f"{place}: {style.severity(problem.severity)}: {Style.text(problem.message, 1_000)}")
        print(f"  {style.dim('→ ' + Style.text(problem.hint, 1_000))}")


def _show(options: Namespace) -> None:
    from metier.guard.policy.files import Policies
    from metier.guard.policy.schema import KEYS
    from metier.guard.policy.summary import summarise, value_of

    effective = Policies.discover().current()
    keys = [key for key in KEYS if options.key is None or key == options.key or key.startswith(f"{options.key}.")]
    if not keys:
        raise InvalidArgument(
            f"There is no key {shown(options.key)!r}.", hint="`metier policy show` without a key lists them all."
        )
    if options.json:
        print_json(summarise(effective, keys))
        return
    style = Style(sys.stdout)
    rows = [[key, ", ".join(_near(effective, key)) or "default", _words(value_of(effective, key))] for key in keys]
    print(table(style, ("KEY", "SET BY", "VALUE"), rows))
    problems = (*effective.problems, *effective.ignored)
    if problems:
        print()
        _print_problems(style, problems)


def _near(effective: EffectivePolicy, key: str) -> list[str]:
    """List the origins for a table: full paths would leave no room for the values."""
    return [f"{short_path(one.path)}:{one.line} ({one.layer})" for one in effective.origins.get(key, ())]


def _words(value: Any) -> str:
    """Format a value for a table, without the brackets of JSON."""
    if value is None or value in ([], {}):
        return "-" if value is None else "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(f"[{_words(one)}]" if isinstance(one, list) else _words(one) for one in value)
    if isinstance(value, dict) and "effect" in value:
        return f"{value['id']} ({value['effect']})"
    if isinstance(value, dict):
        return "; ".join(f"{name}: {_words(one)}" for name, one in value.items())
    return str(value)


def _explain(options: Namespace) -> int:
    from metier.cli.explain import read_arguments
    from metier.cli.policy_cases import ask
    from metier.guard.policy_question import PolicyQuestion

    names = ("point", "tool", "script", "source", "by", "agent", "tenant", "environment")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    arguments = read_arguments(options.args)
    question = PolicyQuestion(skill=options.name or "", arguments=arguments, command=options.shell, **given)
    library = functools.cache(lambda: library_of(options))
    what, explanation = ask(question, library)
    listing = _listing(library, question.skill)
    if options.json:
        print_json(
            {"about": what, **explanation.as_dict(), "listing": None if listing is None else listing_shape(listing)}
        )
    else:
        _print_explanation(what, explanation)
        if listing is not None:
            print(f"{Style(sys.stdout).dim('listing')}  {Style.text(str(listing), 1_000)}")
    return exit_code_of_outcome(explanation.outcome) if options.check else FINE


def _listing(library_of: Callable[[], Library], name: str) -> ListingRule | None:
    """Return the listing mode of a skill that is here, with its origin."""
    if not name:
        return None
    from metier.cli.policy_view import PolicyView

    library = library_of()
    try:
        return PolicyView(library).listing(library.get(name))
    except MetierError:
        return None


def _print_explanation(what: str, explanation: Explanation) -> None:
    style = Style(sys.stdout)
    print(f"{style.outcome(explanation.outcome)}  {Style.text(what, 1_000)}")
    if explanation.would is not None:
        print(
            f"{style.warn('audit')}  Policy only watches: if it were enforced, this would {_WOULD[explanation.would]}."
        )
    print(Style.text(explanation.reason, 1_000))
    print(f"{style.dim('rule')}  {Style.text(explanation.rule, 1_000)}")
    if explanation.hint and (explanation.would or explanation.outcome) != "allow":
        print(f"{style.dim('hint')}  {Style.text(for_person(explanation.hint), 1_000)}")
    others = [one for one in explanation.considered if one.rule != explanation.rule]
    if others:
        print(style.dim("also considered"))
    for one in others:
        said = f"{Style.text(one.rule, 500)}: {Style.text(one.reason, 500)}"
        print(f"  {style.outcome(one.outcome.ljust(5))}  {said}")
