"""`metier test`."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

import metier
import metier.source
from metier._json_object import read_plain
from metier._lazy import replace
from metier._paths import is_inside, write_file
from metier.cli.exit_codes import FINE, PROBLEMS
from metier.cli.output import print_done, print_json, print_warning, short_path
from metier.cli.parser import Parser, library_of, positive
from metier.cli.report_view import TestProgress, print_comparison, print_report
from metier.errors import InvalidArgument
from metier.proof.report import TIERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from metier import Entry, Library
    from metier.proof.behaviour import BehaviourSettings
    from metier.proof.comparison import CaseKey, Comparison
    from metier.proof.model_price import ModelPrice
    from metier.proof.report import Report
    from metier.proof.runner import TestSettings
    from metier.proof.suite import Suite

_EXPORTS = ("pydantic-evals",)
_WORKFLOWS = ("github", "gitlab")
_MAX_REPORT = 64 * 1024 * 1024
_MAX_SUITE = 4 * 1024 * 1024
_FORMATS = {
    "junit": "JUnit XML, which CI services read",
    "html": "a page that needs nothing else",
    "markdown": "a text for a pull request",
    "sarif": "what is wrong with the form, for code hosts (SARIF)",
}


def add(parser: Parser) -> None:
    parser.example("metier test pdf-forms --tier routing --tier scripts --html report.html")
    parser.library()
    parser.option("names", "SKILL", "names, or paths of skills (default: all that are here)", nargs="*")
    parser.option(
        "--tier", "TIER", f"only {', '.join(TIERS)} (repeatable)", action="append", choices=TIERS, dest="tiers"
    )
    parser.option("--suite", "FILE", "test by this suite instead of the skill's own", default="")
    parser.option(
        "--compare",
        "BASE",
        "say what changed since a report that --json printed, or since the version in a folder or a git state: .@main",
        default="",
    )
    parser.flag(
        "--collisions", "list the skills that are found for one another's prompts, and what would tell them apart"
    )
    parser.flag("--network", "also run cases that reach hosts, which their suite names")
    _add_behaviour(parser)
    parser.option("--export", "FORMAT", "print the tasks of one skill as a dataset of pydantic-evals", choices=_EXPORTS)
    parser.option("--workflow", "SERVICE", "print a workflow file for github or gitlab", choices=_WORKFLOWS)
    parser.flag("--full", "print all failures, and why cases were skipped")
    for name, about in _FORMATS.items():
        parser.option(f"--{name}", "FILE", f"write {about}", default="")
    parser.json()


def _add_behaviour(parser: Parser) -> None:
    """Add the options of the tier of behaviour."""
    parser.option(
        "--with",
        "RUNNER",
        "run behaviour with scripted, recorded, a model such as openai:gpt-5, or a client such as claude-code "
        "(repeatable; default: what is free)",
        action="append",
        dest="runners",
        default=[],
    )
    parser.option("--repeat", "N", "run each trial so often (default: 1)", type=positive, default=1)
    parser.option("--budget", "USD", "spend at most that on models", type=_amount, default=None)
    parser.option("--max-time", "SECONDS", "begin no trial after that", type=_amount, default=None)
    parser.option("--price", "MODEL=IN,OUT", "a price in USD for a million tokens (repeatable)", action="append",
                  type=_price, dest="prices", default=[])  # fmt: skip
    parser.option("--judge", "MODEL", "let a model grade assertions that code cannot check", default=None)
    parser.option("--min-pass-rate", "SHARE", "of trials with the skill (default: 1)", type=_share, default=1.0)
    parser.flag("--record", "keep the answers of models in evals/recordings, to be replayed for nothing")


def _amount(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is no amount")
    return found


def _share(text: str) -> float:
    found = _amount(text)
    if found > 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share from 0 to 1")
    return found


def _price(text: str) -> tuple[str, ModelPrice]:
    from metier.proof.model_price import ModelPrice

    name, _, amounts = text.rpartition("=")
    parts = amounts.split(",")
    if not name or len(parts) != 2:
        raise argparse.ArgumentTypeError(f"{text!r} is no price such as openai:gpt-5=1.25,10")
    return name, ModelPrice(input=_amount(parts[0]), output=_amount(parts[1]))


def run(options: Namespace) -> int:
    if options.workflow:
        print(_workflow(options.workflow), end="")
        return FINE
    if options.export:
        print(_exported(options), end="")
        return FINE
    if options.collisions:
        from metier.cli.collisions import print_collisions

        return print_collisions(options, *skills_of(options))
    from metier.cli.score import keep_results
    from metier.proof.runner import TestSettings, test_skills

    tiers = tuple(options.tiers or TIERS)
    with contextlib.ExitStack() as stack:
        library, entries = skills_of(options)
        base = _Base(stack, options.compare, entries) if options.compare else None
        listener = None if options.json else TestProgress(len(entries) * len(tiers))
        settings = TestSettings(
            tiers=tiers,
            suite=_read_suite(options.suite) if options.suite else None,
            network=options.network,
            listener=listener,
            behaviour=_behaviour(options, base),
        )
        report = test_skills(library, entries, settings)
        comparison = base.compare(report, settings) if base is not None else None
    if not options.suite:  # by another suite, nothing is known of the skill's own tests
        keep_results(options, report, entries)
    _write_files(options, report, comparison)
    if options.json:
        print_json(report.as_dict() | ({"comparison": comparison} if comparison is not None else {}))
    else:
        print_report(report, full=options.full)
        if comparison is not None:
            print_comparison(comparison)
    is_worse = comparison is not None and bool(comparison.worse)
    is_idle = _warn_of_idle_runners(options.runners, report)
    return PROBLEMS if is_worse or is_idle or report.verdict == "failed" else FINE


def _warn_of_idle_runners(names: list[str], report: Report) -> bool:
    """Whether something was to run behaviour and did not run one case: that is no test, and is said."""
    from metier.proof.trial_result import NOT_RUN

    cases = [case for skill in report.skills for tier in skill.tiers if tier.tier == "behaviour" for case in tier.cases]
    # `recorded` stands for the recordings of all models.
    trials = [(case.data["runner"], one) for case in cases for one in case.data.get("trials", ())]
    run = {runner for runner, one in trials if not one["reason"].startswith(NOT_RUN)}
    is_recorded = any(one.startswith("recorded:") for one in run)
    idle = [name for name in names if cases and name not in run and not (name == "recorded" and is_recorded)]
    for name in idle:
        reason = next((case.reason for case in cases if case.id.endswith(f"[{name}]")), "No case can run with it.")
        print_warning(f"{name} ran nothing. {reason}")
    return bool(idle)


def _behaviour(options: Namespace, base: _Base | None) -> BehaviourSettings:
    from metier.proof.behaviour import BehaviourSettings
    from metier.proof.budget import TrialBudget

    return BehaviourSettings(
        runners=tuple(options.runners),
        repeats=options.repeat,
        budget=TrialBudget(money=options.budget, seconds=options.max_time),
        prices=dict(options.prices),
        judge=options.judge,
        min_pass_rate=options.min_pass_rate,
        record=options.record,
        previous=base.folders if base is not None else {},
    )


def _workflow(service: str) -> str:
    from importlib import resources

    return resources.files("metier.proof").joinpath("workflows", f"{service}.yml").read_text(encoding="utf-8")


def _exported(options: Namespace) -> str:
    from metier.proof.suite_export import pydantic_evals_yaml
    from metier.proof.suite_reader import read_suite

    _, entries = skills_of(options)
    if len(entries) != 1:
        raise InvalidArgument(
            "A dataset has the tasks of one skill.", hint="Name one: `metier test NAME --export ...`."
        )
    suite = _read_suite(options.suite) if options.suite else read_suite(entries[0].package)
    return pydantic_evals_yaml(suite, entries[0].name)


def _read_suite(path: str) -> Suite:
    """The suite in a file, for skills that have none, or another one."""
    from metier.proof.suite_reader import read_suite
    from metier.skill import MemoryPackage

    data = _read(path, _MAX_SUITE, "Name a suite, such as evals/suite.yaml.")
    ending = "json" if path.lower().endswith(".json") else "yaml"
    # Of other tools, a suite may be a list, or have any name.
    for name in (os.path.basename(path), f"suite.{ending}", f"evals.{ending}"):
        found = read_suite(MemoryPackage({f"evals/{name}": data}))
        if found.files and not any(note.is_error for note in found.notes):
            break
    return found


def _read(path: str, most: int, hint: str) -> bytes:
    try:
        data = read_plain(path, most=most)
    except ValueError as error:
        raise InvalidArgument(f"{path!r} cannot be read: {error}.", hint=hint) from None
    if data is None:
        raise InvalidArgument(f"There is no {path!r}.", hint=hint)
    return data


class _Base:
    """The report or the skills that a comparison is with, read before anything is tested."""

    def __init__(self, stack: contextlib.ExitStack, source: str, entries: list[Entry]) -> None:
        from metier.proof.base_version import base_library
        from metier.proof.comparison import read_verdicts

        self._verdicts: dict[CaseKey, str] = {}
        self._library: Library | None = None
        is_report = source.lower().endswith(".json") or os.path.isfile(source)
        if is_report and not source.lower().endswith(metier.source.ARCHIVE_SUFFIXES):
            hint = "Name a file of `metier test --json`, a folder, or a state of a repository: .@main."
            self._verdicts = read_verdicts(_read(source, _MAX_REPORT, hint), source)
        else:
            self._library = stack.enter_context(base_library(source))
        self._tested = {entry.name: entry for entry in entries}

    @property
    def folders(self) -> dict[str, Path]:
        """The folders of the versions before, for the arm `previous`."""
        return {entry.name: Path(entry.location).parent for entry in self._entries}

    @property
    def _entries(self) -> list[Entry]:
        return [entry for entry in self._library or () if entry.name in self._tested]

    def compare(self, report: Report, settings: TestSettings) -> Comparison:
        """The difference of a report from the base; versions before are tested by the suites that count now."""
        from metier.proof.comparison import compare_reports, only_tested, verdicts_of
        from metier.proof.runner import test_skills
        from metier.proof.suite_reader import read_suite

        now = verdicts_of(report)
        if self._library is None:
            return compare_reports(only_tested(self._verdicts, report), now)
        # Behaviour was compared already, trial by trial, with the arm `previous`.
        tiers = tuple(tier for tier in settings.tiers if tier != "behaviour")
        before: dict[CaseKey, str] = {}
        for entry in self._entries:
            suite = settings.suite or read_suite(self._tested[entry.name].package)
            offline = replace(settings, tiers=tiers, suite=suite, listener=None)
            before |= verdicts_of(test_skills(self._library, [entry], offline))
        return compare_reports(before, {key: verdict for key, verdict in now.items() if key.tier in tiers})


def skills_of(options: Namespace) -> tuple[Library, list[Entry]]:
    """The library that prompts are searched in, and the skills to test, named by name or by path."""
    library = library_of(options)
    if not options.names:
        return library, list(library)
    paths = [name for name in options.names if _is_path(name, library)]
    if paths:
        library = _with_paths(library, paths)
    found: list[Entry] = []
    for name in options.names:
        found += _entries_at(library, name) if name in paths else [library.get(name)]
    return library, found


def _is_path(name: str, library: Library) -> bool:
    is_there = os.path.lexists(metier.source.expanded(name))
    return is_there and (os.sep in name or "/" in name or name not in library)


def _with_paths(library: Library, paths: list[str]) -> Library:
    """The library with what lies at these paths, which need not be installed to be tested."""
    from metier.library import Place

    known = {os.path.realpath(os.path.dirname(entry.location)) for entry in library.snapshot.entries}
    new = [path for path in paths if _folder(path) not in known]
    places = [Place(layer="project", source=metier.source.open_source(_folder(path))) for path in new]
    return metier.Library([*places, *library.places], cache=False) if places else library


def _entries_at(library: Library, path: str) -> Iterator[Entry]:
    top = _folder(path)
    found = [one for one in library.snapshot.entries if is_inside(os.path.realpath(one.location), top)]
    if not found:
        raise InvalidArgument(f"There is no skill in {path!r}.", hint="Name a skill's folder, or a folder of skills.")
    yield from found


def _folder(path: str) -> str:
    whole = os.path.realpath(metier.source.expanded(path))
    return os.path.dirname(whole) if os.path.basename(whole).lower() == "skill.md" else whole


def _write_files(options: Namespace, report: Report, comparison: Comparison | None) -> None:
    from metier.proof.form import form_sarif
    from metier.proof.junit import junit_of
    from metier.proof.report_pages import html_of, markdown_of

    texts: dict[str, Callable[[], str]] = {
        "junit": lambda: junit_of(report),
        "html": lambda: html_of(report, comparison),
        "markdown": lambda: markdown_of(report, comparison),
        "sarif": lambda: json.dumps(form_sarif(report), indent=2) + "\n",
    }
    for name, text in texts.items():
        path = getattr(options, name)
        if not path:
            continue
        try:
            data = text().encode(errors="backslashreplace")
            if os.path.exists(path) and not os.path.isfile(path):
                Path(path).write_bytes(data)  # such as /dev/stdout, which nothing may take the place of
            else:
                write_file(path, data, mode=0o666)
        except OSError as error:
            raise InvalidArgument(f"{path!r} cannot be written: {error.strerror}.", hint="Name another file.") from None
        if not options.json:
            print_done(f"{short_path(os.path.abspath(path))} has the report as {name}.")
