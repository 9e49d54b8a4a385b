"""`metier feedback`."""

from __future__ import annotations

from argparse import Namespace

import metier.hub
from metier.cli.identity import acting
from metier.cli.output import Style, print_result
from metier.cli.parser import Parser, library_of
from metier.guard.audit.governance_events import actor_of
from metier.session.active_skills import subject_of


def add(parser: Parser) -> None:
    parser.example('metier feedback pdf-forms --did-not-help --comment "It lost the second page"')
    parser.skill()
    verdict = parser.add_mutually_exclusive_group(required=True)
    verdict.add_argument("--helped", action="store_true", help="it helped")
    verdict.add_argument("--did-not-help", action="store_false", dest="helped", help="it did not")
    parser.option("--comment", "TEXT", "why; whoever decides about changes of the skill reads it", default="")
    parser.library()
    parser.json()


def run(options: Namespace) -> None:
    library = library_of(options)
    entry = library.get(options.name)
    with acting(options) as (scope, person):
        actor = actor_of(person, scope, options.environment or "")
        subject = subject_of(entry, library.digest(entry))
        feedback = metier.hub.give_feedback(scope, subject, options.helped, options.comment, actor=actor)
    verdict = "helped" if feedback.helped else "did not help"
    print_result(options, {"feedback": feedback}, f"{Style.text(feedback.skill)} {verdict}: noted, as {feedback.id}.")
