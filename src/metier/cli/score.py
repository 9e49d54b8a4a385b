"""`metier score`."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from metier.cli.output import Style, plural, print_json, print_warning, table
from metier.cli.parser import Parser
from metier.errors import InvalidArgument, MetierError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metier import Entry
    from metier.proof.report import Report
    from metier.proof.score import Score

_FEW = 5
"""Pieces of advice that are printed of one skill, and skills of which any are."""
_WIDTH = 20
_GOOD, _FAIR = 80, 50
_BADGE = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="104" height="20" role="img" aria-label="skill score: {score}">'
    '<rect width="70" height="20" fill="#555"/><rect x="70" width="34" height="20" fill="{colour}"/>'
    '<g fill="#fff" font-family="Verdana,sans-serif" font-size="11" text-anchor="middle">'
    '<text x="35" y="14">skill score</text><text x="87" y="14">{score}</text></g></svg>'
)


def add(parser: Parser) -> None:
    parser.example("metier score pdf-forms")
    parser.library()
    parser.option("names", "SKILL", "names, or paths of skills (default: all that are here)", nargs="*")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--badge", action="store_true", help="print the score of one skill as an SVG image")
    form.add_argument("--json", action="store_true", help="print JSON for a program to read")


def run(options: Namespace) -> None:
    from metier.cli.report_view import TestProgress
    from metier.cli.test import skills_of
    from metier.proof.result_records import OFFLINE_TIERS
    from metier.proof.runner import TestSettings, test_skills

    library, entries = skills_of(options)
    if options.badge and len(entries) != 1:
        raise InvalidArgument("A badge has the score of one skill.", hint="Name one: `metier score NAME --badge`.")
    listener = TestProgress(len(entries) * len(OFFLINE_TIERS))
    report = test_skills(library, entries, TestSettings(tiers=OFFLINE_TIERS, listener=listener))
    scores = keep_results(options, report, entries)
    if options.json:
        print_json({"skills": scores})
    elif options.badge:
        print(_BADGE.format(score=scores[0].score, colour=_colour(scores[0].score)))
    else:
        _print_scores(scores)


def keep_results(options: Namespace, report: Report, entries: Sequence[Entry]) -> list[Score]:
    """Keep the results of tests, and return the scores; where they cannot be kept, say why on standard error."""
    from metier.cli.identity import acting, may_decide
    from metier.proof.result_records import record_results
    from metier.proof.score import score_of

    try:
        with acting(options) as (scope, person):
            return record_results(scope, person, report, entries, counts=may_decide(scope.store))
    except MetierError as error:
        print_warning(f"The results were not recorded. {error.message}")
        return [score_of(entry, skill) for entry, skill in zip(entries, report.skills, strict=True)]


def _print_scores(scores: Sequence[Score]) -> None:
    style = Style(sys.stdout)
    if not scores:
        print("No skills here. `metier doctor` shows where they are looked for.")
        return
    parts = [part.part for part in scores[0].parts]
    rows = [
        (one.name, _bar(one.score), str(one.score), *(f"{part.points:g}/{part.out_of}" for part in one.parts))
        for one in scores
    ]
    paint = {0: style.strong, 1: lambda cell: _painted(style, cell)}
    print(table(style, ("SKILL", "", "SCORE", *(part.upper() for part in parts)), rows, paint=paint))
    for one in scores if len(scores) <= _FEW else ():
        print(f"\n{style.strong(Style.text(one.name))}")
        for part in one.parts:
            print(f"  {style.dim(f'{part.part:7}')} {Style.text(part.reason, 1_000)}")
        for advice in one.advice[:_FEW]:
            print(f"  {style.warn(f'+{advice.points:<6g}')} {Style.text(advice.text, 1_000)}")
    average = round(sum(one.score for one in scores) / len(scores))
    more = "" if len(scores) <= _FEW else " `metier score NAME` says what would raise one."
    print(style.dim(f"\n{plural(len(scores), 'skill')}, {average} on average.{more}"))


def _bar(score: int) -> str:
    full = round(score * _WIDTH / 100)
    return "█" * full + "░" * (_WIDTH - full)


def _painted(style: Style, cell: str) -> str:
    score = cell.count("█") * 100 // _WIDTH
    return (style.good if score >= _GOOD else style.warn if score >= _FAIR else style.bad)(cell)


def _colour(score: int) -> str:
    return "#2d8a4e" if score >= _GOOD else "#b58900" if score >= _FAIR else "#c0392b"
