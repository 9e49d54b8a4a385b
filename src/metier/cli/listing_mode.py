"""`metier listing`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from metier.cli.barred import Barred
from metier.cli.library import library_of
from metier.cli.output import Style, print_json, short_path
from metier.cli.shapes import listing_shape
from metier.errors import InvalidArgument, SkillNotFound
from metier.guard.policy.files import policy_places

if TYPE_CHECKING:
    import argparse

    from metier.guard.policy.files import PolicyPlace
    from metier.skill.listing import ListingRule


def run(options: argparse.Namespace) -> int:
    name: str = options.name
    if options.mode is not None:
        from metier.cli.identity import require_person
        from metier.guard.policy.edit import set_listing_mode

        require_person()
        place = _place(is_project=options.project)
        set_listing_mode(place.path, place.layer, name, options.mode)
        if not options.json:
            style = Style(sys.stdout)
            print(
                f"{style.good('✓')} {Style.text(name)}: {options.mode}, in {Style.text(short_path(place.path), 4_096)}"
            )
    rule = _rule(options, name)
    if options.json:
        print_json({"name": name, **listing_shape(rule)})
    elif options.mode is None:
        print(f"{Style.text(name)}: {Style.text(str(rule), 1_000)}")
    elif "*" not in name and (missing := _missing(options, name)):
        print(f"  {Style.text(missing, 1_000)} The mode counts once a skill is called so.", file=sys.stderr)
    elif rule.mode != options.mode:
        print(f"It is {Style.text(str(rule), 1_000)} all the same, which counts before it.")
    return 0


def _rule(options: argparse.Namespace, name: str) -> ListingRule:
    library = library_of(options)
    barred = Barred(library)
    try:
        return barred.listing(library.get(name))
    except SkillNotFound:
        # A pattern, or a skill that is not here yet.
        rule = barred.governance.listings.rule_for(*name.partition("@")[::2])
        if rule is None:
            raise
        return rule


def _missing(options: argparse.Namespace, name: str) -> str:
    """The sentence that no skill here has a name, and which one may have been meant; empty where one has it."""
    try:
        library_of(options).get(name)
    except SkillNotFound as error:
        return error.message
    return ""


def _place(*, is_project: bool) -> PolicyPlace:
    """The policy file to write: the user's own, or that of the project."""
    layer = "project" if is_project else "personal"
    places = [place for place in policy_places() if place.layer == layer]
    if not places:
        raise InvalidArgument("There is no folder for this policy file here.", hint="Change into a project first.")
    return places[-1]  # of the folders of a project its root comes last
