"""`metier registry`."""

from __future__ import annotations

import sys
from argparse import Namespace

import metier
from metier.cli.identity import acting, user_actor
from metier.cli.output import Style, plural, print_done, print_json, print_result
from metier.cli.parser import Parser


def add(parser: Parser) -> None:
    parser.example("metier registry build skills --to site")
    build = parser.verb(
        "build", "write a static site, for any web server", "metier registry build skills --to site", _build
    )
    build.option("path", "DIR", "the folder of the registry: releases in NAME/VERSION/, or one in NAME/")
    build.option(
        "--to", "SITE", "the folder to write; what lies there and is no such site stays as it is", required=True
    )
    build.option("--url", "URL", "the address that the site will have (default: `url` in registry.json)", default="")
    build.accept_findings("build it")
    build.json()
    verbs = [
        parser.verb(
            "yank",
            "withdraw a version: nobody who does not have it gets it any more",
            'metier registry yank skills pdf-forms 1.2.0 --reason "It loses data"',
            _withdraw,
        ),
        parser.verb(
            "deprecate",
            "say of a skill that it should not be used any more",
            "metier registry deprecate skills pdf --successor pdf-forms",
            _withdraw,
        ),
    ]
    for verb in verbs:
        verb.option("path", "DIR", "the folder of the registry")
        verb.option("name", "NAME", "the skill")
    yank, deprecate = verbs
    yank.option("version", "VERSION", "the version to withdraw")
    deprecate.option("--successor", "NAME", "the skill to use instead", default="")
    for verb in verbs:
        verb.flag("--undo", "take it back")
        verb.reason()
        verb.tenant()
        verb.json()


def run(options: Namespace) -> int | None:
    done: int | None = options.do(options)
    return done


def _build(options: Namespace) -> None:
    from metier.hub.publish.site import build_site

    by, accepted = (metier.Guard(), user_actor()), options.accept_findings
    built = build_site(options.path, options.to, url=options.url, accept_findings=accepted, by=by)
    current = {one["url"]: one for one in built.current}
    releases = [one for found in built.skills.values() for one in found]
    if options.json:
        shapes = [
            {
                "name": one["name"],
                "version": one.get("version"),
                "sha256": one["digest"].removeprefix("sha256:"),
                "digest": one["content"],
                "current": one["url"] in current,
                "yanked": one.get("yanked"),
            }
            for one in releases
        ]
        print_json({"site": built.path, "name": built.name, "releases": shapes})
        return
    what = f"{plural(len(current), 'skill')}, {plural(len(releases), 'release')}"
    print_done(f"{what}: {Style.text(built.path, 4_096)}")
    style = Style(sys.stdout)
    for one in current.values():
        print(style.dim(f"  {one['name']} {one.get('version', '')}".rstrip()))


def _withdraw(options: Namespace) -> None:
    from metier.hub.publish.publishing import withdraw

    version, successor = getattr(options, "version", None), getattr(options, "successor", "")
    with acting(options, decides=True) as (scope, person):
        about = {"version": version, "successor": successor, "reason": options.reason}
        withdraw(scope, person, options.path, options.name, **about, undo=options.undo)
    if options.verb == "yank":
        shape = {"name": options.name, "version": version, "yanked": None if options.undo else options.reason}
    else:
        shape = {"name": options.name, "successor": successor or None, "reason": options.reason}
    done = f"{'no longer ' if options.undo else ''}{options.verb.rstrip('e')}ed"
    what = Style.text(f"{options.name} {version or ''}".rstrip())
    print_result(options, shape, f"{what} is {done}. `metier registry build` tells everybody.")
