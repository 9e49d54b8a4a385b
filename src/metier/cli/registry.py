"""`metier registry`."""

from __future__ import annotations

import sys
from argparse import Namespace

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
    yank = parser.verb(
        "yank",
        "withdraw a version: nobody who does not have it gets it any more",
        'metier registry yank skills pdf-forms 1.2.0 --reason "It loses data"',
        _yank,
    )
    deprecate = parser.verb(
        "deprecate",
        "say of a skill that it should not be used any more",
        "metier registry deprecate skills pdf --successor pdf-forms",
        _deprecate,
    )
    for verb in (yank, deprecate):
        verb.option("path", "DIR", "the folder of the registry")
        verb.option("name", "NAME", "the skill")
    yank.option("version", "VERSION", "the version to withdraw")
    yank.reason(required=True)
    deprecate.option("--successor", "NAME", "the skill to use instead", default="")
    deprecate.reason()
    for verb in (yank, deprecate):
        verb.json()


def run(options: Namespace) -> int | None:
    done: int | None = options.do(options)
    return done


def _build(options: Namespace) -> None:
    from metier.hub.publish.site import build_site

    built = build_site(options.path, options.to, url=options.url, accept_findings=options.accept_findings)
    if options.json:
        print_json(
            {
                "site": built.path,
                "name": built.name,
                "releases": [
                    {
                        "name": one.name,
                        "version": one.version or None,
                        "sha256": one.sha256,
                        "digest": one.digest,
                        "current": one in built.current,
                        "yanked": one.yanked or None,
                    }
                    for one in built.releases
                ],
            }
        )
        return
    what = f"{plural(len(built.current), 'skill')}, {plural(len(built.releases), 'release')}"
    print_done(f"{what}: {Style.text(built.path, 4_096)}")
    style = Style(sys.stdout)
    for one in built.current:
        print(style.dim(f"  {one.name} {one.version}".rstrip()))


def _yank(options: Namespace) -> None:
    from metier.cli.identity import require_person
    from metier.hub.publish.registry_folder import RegistryFolder

    require_person()
    RegistryFolder(options.path).yank(options.name, options.version, options.reason)
    shape = {"name": options.name, "version": options.version, "yanked": options.reason}
    print_result(options, shape, f"{Style.text(options.name)} {Style.text(options.version)} is yanked. {_NEXT}")


def _deprecate(options: Namespace) -> None:
    from metier.cli.identity import require_person
    from metier.hub.publish.registry_folder import RegistryFolder

    require_person()
    RegistryFolder(options.path).deprecate(options.name, successor=options.successor, reason=options.reason)
    shape = {"name": options.name, "successor": options.successor or None, "reason": options.reason}
    print_result(options, shape, f"{Style.text(options.name)} is deprecated. {_NEXT}")


_NEXT = "`metier registry build` tells everybody."
