"""`metier pack`."""

from __future__ import annotations

import sys
from argparse import Namespace

import metier
from metier.cli.identity import user_actor
from metier.cli.output import Style, plural, print_done, print_json
from metier.cli.parser import Parser


def add(parser: Parser) -> None:
    parser.example("metier pack ./pdf-forms --to pdf-forms.skill")
    parser.option("path", "DIR", "the folder of the skill")
    parser.option("--to", "FILE", "the archive to write: .skill, .zip or .tar.gz", required=True)
    parser.sign()
    parser.accept_findings("pack it")
    parser.json()


def run(options: Namespace) -> None:
    from metier.hub.publish.pack import pack_skill

    by, accepted = (metier.Guard(), user_actor()), options.accept_findings
    release, facts = pack_skill(options.path, options.to, accept_findings=accepted, key=options.sign, by=by)
    if options.json:
        print_json(facts)
        return
    style = Style(sys.stdout)
    print_done(f"{Style.text(release.label)}: {Style.text(facts['file'], 4_096)}")
    print(style.dim(f"  {plural(facts['files'], 'file')}, {facts['bytes']:,} bytes, sha256 {facts['sha256']}"))
    print(style.dim(f"  content {facts['digest']}"))
    if release.copied:
        links = Style.text(", ".join(release.copied), 1_000)
        print(style.warn(f"  Archives have no links: copies take the place of {links}."))
