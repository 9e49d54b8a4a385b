"""`metier deploy`."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from metier.cli.identity import acting
from metier.cli.library import library_of
from metier.cli.output import Style, print_json
from metier.guard import Guard
from metier.hub.deploying import deploy, folder_of_layer
from metier.hub.homes import home_of
from metier.source.path import expanded

if TYPE_CHECKING:
    import argparse


def folder_of(options: argparse.Namespace) -> str:
    """The folder that is to be deployed: the one that was named, or that of the skill of this name."""
    path: str = options.path
    if os.path.lexists(expanded(path)) or os.path.basename(path) != path:
        return path
    entry = library_of(options).get(path)
    return home_of(entry).location


def target_of(options: argparse.Namespace) -> str:
    """The folder of skills that it is deployed to."""
    return options.to or folder_of_layer(options.scope, Path.cwd())


def run(options: argparse.Namespace) -> int:
    if options.dry_run:
        from metier.cli.rehearsal import run as rehearsed

        return rehearsed(options)
    with acting(options, decides=True) as (scope, person):
        done = deploy(
            scope,
            person,
            folder_of(options),
            to=target_of(options),
            reason=options.reason,
            accept_findings=options.accept_findings,
            environment=options.environment or "",
            guard=Guard(),
        )
    if options.json:
        print_json(
            {
                "skill": done.home.ref,
                "location": done.home.location,
                "layer": done.home.layer,
                "version": asdict(done.version),
                "findings": [found.as_dict() for found in done.report.findings],
                "approved": not done.not_approved,
                "changed": not done.is_unchanged,
            }
        )
        return 0
    style = Style(sys.stdout)
    where = Style.text(done.home.location, 4_096)
    how = "was deployed already" if done.is_unchanged else "is deployed"
    print(f"{style.good('✓')} {Style.text(done.home.ref)} {how} as version {done.version.number}: {where}")
    print(style.dim(f"  {done.version.digest}, {done.home.layer} layer"))
    if done.not_approved:
        print(style.warn(f"  Its content is not approved by that. {Style.text(done.not_approved, 1_000)}"))
    return 0
