"""The collision map of `metier test --collisions`: skills that come up for one another's prompts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from metier.cli.exit_codes import FINE
from metier.cli.output import Progress, Style, plural, print_json
from metier.cli.search import update_index

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from metier import Entry, Library
    from metier.proof.collisions import Collision, SkillCollisions

_MOST_SKILLS, _MOST_OTHERS = 20, 3
"""The skills, and the others beside each, that are printed without `--full`."""


def print_collisions(options: Namespace, library: Library, entries: Sequence[Entry]) -> int:
    """Print which of these skills are likely to be taken for one another."""
    from metier.proof.collisions import collision_map

    update_index(library)
    with Progress("Searching the prompts of", len(entries)) as progress:
        found = list(collision_map(library, entries, lambda done, _: progress.reach(done)))
    if options.json:
        print_json({"skills": found})
        return FINE
    style = Style(sys.stdout)
    likely = sorted((one for one in found if one.is_confusable), key=lambda one: (one.first, one.weight, one.skill))
    shown = likely if options.full or options.names else likely[:_MOST_SKILLS]
    for one in shown:
        _print_collisions_of(style, one, full=options.full)
    if len(likely) > len(shown):
        print(style.dim(f"and {plural(len(likely) - len(shown), 'more skill')}; `--full` prints all"))
    told = f"{len(likely)} of {plural(len(found), 'skill')} likely to be taken for another."
    print(f"\n{told}" if likely else style.good(told))
    return FINE


def _print_collisions_of(style: Style, one: SkillCollisions, *, full: bool) -> None:
    print(f"{style.strong(Style.text(one.skill))}  {one.warning or 'Another skill comes up for half of its prompts.'}")
    for other in one.collisions if full else one.collisions[:_MOST_OTHERS]:
        print(f"  {Style.text(other.other)}: {_format_share(other)}; both have {_listed(other.common)}")
        if other.apart:
            print(style.dim(f"  → only {Style.text(one.skill)} has {_listed(other.apart)}: say more of that"))


def _format_share(one: Collision) -> str:
    above = f", above it for {one.above:.0%}" if one.above else ""
    return f"near it for {one.share:.0%} of its prompts{above}"


def _listed(words: tuple[str, ...]) -> str:
    return Style.text(", ".join(words), 200) or "no word"
