"""`metier publish`."""

from __future__ import annotations

import sys
from argparse import Namespace

import metier
from metier.cli.identity import acting
from metier.cli.output import Style, print_done, print_json
from metier.cli.parser import Parser


def add(parser: Parser) -> None:
    parser.example("metier publish ./pdf-forms --to git+ssh://git@example.com/acme/skills")
    parser.option("path", "DIR", "the folder of the skill, which has a version")
    parser.option(
        "--to",
        "TARGET",
        "the folder of a registry, a git repository (git+ssh://, git+https://, git+file://), or oci:HOST/REPOSITORY",
        required=True,
    )
    parser.sign()
    parser.accept_findings("publish it")
    parser.reason()
    parser.option("--environment", "NAME", "decide as in this environment")
    parser.tenant()
    parser.json()


def run(options: Namespace) -> None:
    from metier.cli.install_view import TransferLine
    from metier.hub.publish.publishing import publish
    from metier.hub.sources.fetch import Transfer

    with acting(options, decides=True) as (scope, person), TransferLine() as line:
        done = publish(
            scope,
            person,
            options.path,
            options.to,
            reason=options.reason,
            accept_findings=options.accept_findings,
            environment=options.environment or "",
            key=options.sign,
            guard=metier.Guard(),
            transfer=Transfer(progress=line.show),
        )
    release = done.release
    if options.json:
        print_json(
            {
                "name": release.name,
                "version": release.version,
                "digest": release.digest,
                "target": done.target,
                "location": done.location,
                "revision": done.revision or None,
                "copied": list(release.copied),
            }
        )
        return
    style = Style(sys.stdout)
    print_done(f"{Style.text(release.name)} {release.version} is published: {Style.text(done.target, 4_096)}")
    print(style.dim(f"  {Style.text(done.location, 4_096)} {done.revision}".rstrip()))
    print(style.dim(f"  content {release.digest}"))
