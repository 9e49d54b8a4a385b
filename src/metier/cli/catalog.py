"""`metier catalog` and `metier listing`: the skills that models are shown."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from metier._lazy import replace
from metier.cli.identity import require_person
from metier.cli.json_shapes import listing_shape
from metier.cli.output import Style, plural, print_done, print_json, short_path
from metier.cli.parser import Parser, library_of, positive
from metier.cli.policy_view import PolicyView
from metier.cli.search import update_index
from metier.errors import InvalidArgument, SkillNotFound

if TYPE_CHECKING:
    from metier.find import Catalog
    from metier.guard.policy.files import PolicyPlace
    from metier.skill.listing import ListingMode, ListingRule


_SHOWN = 5


def add(parser: Parser) -> None:
    parser.library()
    if parser.command == "listing":
        _add_listing(parser)
    else:
        _add_catalog(parser)
    parser.json()


def _add_catalog(parser: Parser) -> None:
    parser.example('metier catalog --budget 1024 --query "plot a csv file"')
    parser.option("--budget", "BYTES", "at most (default: 4096)", type=positive, default=4_096)
    parser.option("--query", "TEXT", "what the user asks for: the most relevant skills come in")
    parser.option("--pin", "NAME", "a skill that is always shown (repeatable)", action="append")
    parser.option("--format", None, "(default: xml)", choices=("xml", "markdown", "jsonl"), default="xml")


def _add_listing(parser: Parser) -> None:
    from metier.skill.listing import MODES

    parser.example("metier listing legacy-reports name-only --project")
    parser.skill()
    parser.option(
        "mode",
        "MODE",
        "pinned: always with its description; listed: as the budget allows; name-only: found by search; manual: "
        "only a person may start it; off: as good as absent (default: show the mode and what sets it)",
        nargs="?",
        choices=MODES,
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--user", action="store_true", help="in your own policy file (default)")
    where.add_argument("--project", action="store_true", help="in the policy file of this project")


def run(options: Namespace) -> None:
    from metier.skill.listing import Listings

    if options.command == "listing":
        _run_listing(options)
        return
    library = library_of(options)
    pins: dict[str, ListingMode] = dict.fromkeys(options.pin or (), "pinned")
    if len(library) > 200:
        # So many hardly ever fit, and then the first catalog indexes them.
        update_index(library)
    policy = PolicyView(library)
    statuses = policy.among(library)
    catalog = library.catalog(
        options.budget,
        query=options.query,
        format=options.format,
        names=policy.names(),
        listing=policy.governance.listings + Listings.of(pins, "--pin"),
    )
    kept = {entry.name: status.sentence for entry, status in statuses.items() if status.is_kept_from_models}
    catalog = replace(catalog, withheld={**catalog.withheld, **kept})
    if options.json:
        print_json(
            {
                "text": catalog.text,
                "size": catalog.size,
                "budget": catalog.budget,
                "rung": catalog.rung,
                "shown": catalog.shown,
                "shortened": catalog.shortened,
                "named": catalog.named,
                "left_out": catalog.left_out,
                "withheld": dict(catalog.withheld),
                "unplaced_pins": dict(catalog.unplaced_pins),
            }
        )
        return
    if catalog.text:
        # Exactly the text and one line feed: what a model would be given can be piped.
        print(catalog.text)
    _explain(catalog, Style(sys.stderr))


def _explain(catalog: Catalog, style: Style) -> None:
    """Print on standard error which skills were cut, and the reason."""
    if catalog.rung == "none":
        said = ["No skill to show" + ("" if catalog.withheld else "; `metier doctor` shows where they are looked for")]
    else:
        said = [f"{catalog.size:,} of {catalog.budget:,} bytes, {plural(len(catalog.shown), 'skill')} shown"]
    cuts = {"shortened": len(catalog.shortened), "by name only": len(catalog.named), "left out": catalog.left_out}
    said += [f"{count:,} {how}" for how, count in cuts.items() if count]
    for reasons, what in ((catalog.withheld, "withheld"), (catalog.unplaced_pins, "pins not placed")):
        if reasons:
            first = "; ".join(f"{Style.text(name)} ({why})" for name, why in list(reasons.items())[:_SHOWN])
            more = f" and {len(reasons) - _SHOWN:,} more" if len(reasons) > _SHOWN else ""
            said.append(f"{what}: {first}{more}")
    print(style.dim(", ".join(said)), file=sys.stderr)


def _run_listing(options: Namespace) -> None:
    name: str = options.name
    if options.mode is not None:
        from metier.guard.policy.edit import set_listing_mode

        require_person()
        place = _policy_place(is_project=options.project)
        set_listing_mode(place.path, place.layer, name, options.mode)
        if not options.json:
            print_done(f"{Style.text(name)}: {options.mode}, in {Style.text(short_path(place.path), 4_096)}")
    rule, missing = _rule(options, name)
    if options.json:
        print_json({"name": name, **listing_shape(rule)})
    elif options.mode is None:
        print(f"{Style.text(name)}: {Style.text(str(rule), 1_000)}")
    elif missing and "*" not in name:
        print(f"  {Style.text(missing, 1_000)} The mode counts once a skill is called so.", file=sys.stderr)
    elif rule.mode != options.mode:
        print(f"It is {Style.text(str(rule), 1_000)} all the same, which counts before it.")


def _rule(options: Namespace, name: str) -> tuple[ListingRule, str]:
    """Return the listing mode of a name, and the sentence that no skill here has it; empty where one has."""
    library = library_of(options)
    policy = PolicyView(library)
    try:
        return policy.listing(library.get(name)), ""
    except SkillNotFound as error:
        # A pattern, or a skill that is not here yet.
        rule = policy.governance.listings.rule_for(*name.partition("@")[::2])
        if rule is None:
            raise
        return rule, error.message


def _policy_place(*, is_project: bool) -> PolicyPlace:
    """Return the policy file to write: the user's own, or that of the project."""
    from metier.guard.policy.files import policy_places

    layer = "project" if is_project else "personal"
    places = [place for place in policy_places() if place.layer == layer]
    if not places:
        raise InvalidArgument("There is no folder for this policy file here.", hint="Change into a project first.")
    return places[-1]  # of the folders of a project its root comes last
