"""`metier test`."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from typing import TYPE_CHECKING

import metier.source
from metier._json_object import read_plain
from metier._paths import write_file
from metier.cli.exit_codes import FINE, PROBLEMS
from metier.cli.output import print_done, print_json, short_path
from metier.cli.parser import Parser, library_of
from metier.cli.test_view import TestProgress, print_comparison, print_report
from metier.errors import InvalidArgument
from metier.proof.report import TIERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from metier import Entry, Library
    from metier.proof.comparison import Comparison
    from metier.proof.report import Report

_WORKFLOWS = ("github", "gitlab")
_MAX_REPORT = 64 * 1024 * 1024
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
    parser.option("--compare", "REPORT", "say what changed since a report that --json printed", default="")
    parser.option("--workflow", "SERVICE", "print a workflow file for github or gitlab", choices=_WORKFLOWS)
    parser.flag("--full", "print all failures, and why cases were skipped")
    for name, about in _FORMATS.items():
        parser.option(f"--{name}", "FILE", f"write {about}", default="")
    parser.json()


def run(options: Namespace) -> int:
    if options.workflow:
        print(_workflow(options.workflow), end="")
        return FINE
    from metier.proof.runner import TestSettings, test_skills

    base = _base_of(options.compare) if options.compare else None
    library, entries = skills_of(options)
    tiers = tuple(options.tiers or TIERS)
    listener = None if options.json else TestProgress(len(entries) * len(tiers))
    report = test_skills(library, entries, TestSettings(tiers=tiers, listener=listener))
    comparison = base(report) if base is not None else None
    _write_files(options, report, comparison)
    if options.json:
        print_json(report.as_dict() | ({"comparison": comparison} if comparison is not None else {}))
    else:
        print_report(report, full=options.full)
        if comparison is not None:
            print_comparison(comparison)
    is_worse = comparison is not None and comparison.is_worse
    return PROBLEMS if is_worse or report.verdict == "failed" else FINE


def _workflow(service: str) -> str:
    from importlib import resources

    return resources.files("metier.proof").joinpath("workflows", f"{service}.yml").read_text(encoding="utf-8")


def skills_of(options: Namespace) -> tuple[Library, list[Entry]]:
    """The library that prompts are searched in, and the skills to test, named by name or by path."""
    library = library_of(options)
    if not options.names:
        return library, list(library)
    paths = [
        name for name in options.names if os.path.lexists(metier.source.expanded(name)) and _is_path(name, library)
    ]
    if paths:
        library = _with_paths(library, paths)
    found: list[Entry] = []
    for name in options.names:
        found += _entries_at(library, name) if name in paths else [library.get(name)]
    return library, found


def _is_path(name: str, library: Library) -> bool:
    return os.sep in name or "/" in name or name not in library


def _with_paths(library: Library, paths: list[str]) -> Library:
    """The library with what lies at these paths, which need not be installed to be tested."""
    from metier.library import Place

    known = {os.path.realpath(os.path.dirname(entry.location)) for entry in library.snapshot.entries}
    new = [path for path in paths if _folder(path) not in known]
    places = [Place(layer="project", source=metier.source.open_source(_folder(path))) for path in new]
    return metier.Library([*places, *library.places], cache=False) if places else library


def _entries_at(library: Library, path: str) -> Iterator[Entry]:
    top = _folder(path)
    found = [one for one in library.snapshot.entries if _lies_in(os.path.realpath(one.location), top)]
    if not found:
        raise InvalidArgument(f"There is no skill in {path!r}.", hint="Name a skill's folder, or a folder of skills.")
    yield from found


def _folder(path: str) -> str:
    whole = os.path.realpath(metier.source.expanded(path))
    return os.path.dirname(whole) if os.path.basename(whole).lower() == "skill.md" else whole


def _lies_in(path: str, folder: str) -> bool:
    from metier._paths import is_inside

    return is_inside(path, folder)


def _base_of(path: str) -> Callable[[Report], Comparison]:
    """Read the report to compare with before anything is tested."""
    from metier.proof.comparison import compare_reports, read_verdicts, verdicts_of

    try:
        data = read_plain(path, most=_MAX_REPORT)
    except ValueError as error:
        raise InvalidArgument(
            f"{path!r} cannot be read: {error}.", hint="Name a file of `metier test --json`."
        ) from None
    if data is None:
        raise InvalidArgument(f"There is no {path!r}.", hint="Write one with `metier test --json > base.json`.")
    base = read_verdicts(data, path)
    return lambda report: compare_reports(base, verdicts_of(report))


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
            write_file(path, text().encode(errors="backslashreplace"), mode=0o666)
        except OSError as error:
            raise InvalidArgument(f"{path!r} cannot be written: {error.strerror}.", hint="Name another file.") from None
        if not options.json:
            print_done(f"{short_path(os.path.abspath(path))} has the report as {name}.")
