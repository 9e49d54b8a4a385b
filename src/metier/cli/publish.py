"""`metier publish`."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

import metier
from metier.cli.exit_codes import FINE, exit_code_for
from metier.cli.identity import acting, looking
from metier.cli.output import Progress, Style, plural, print_done, print_json
from metier.cli.parser import Parser
from metier.errors import InvalidArgument
from metier.hints import for_person

if TYPE_CHECKING:
    from metier.hub.publish.publishing import Published


def add(parser: Parser) -> None:
    parser.example("metier publish ./pdf-forms --to git+ssh://git@example.com/acme/skills")
    parser.option("path", "DIR", "the folder of the skill, which has a version")
    parser.option(
        "--to",
        "TARGET",
        "the folder of a registry, a git repository (git+ssh://, git+https://, git+file://), oci:HOST/REPOSITORY, or a "
        "server (https://HOST, or https://HOST/NAMESPACE)",
        required=True,
    )
    parser.sign()
    parser.accept_findings("publish it")
    parser.reason()
    parser.option("--environment", "NAME", "decide as in this environment")
    parser.flag("--submit", "let an owner of the namespace review it first (servers only)")
    parser.flag("--dry-run", "only say what would be published where, what the scanner found and what decides")
    parser.tenant()
    parser.json()


def run(options: Namespace) -> int:
    from metier.hub.publish.publishing import publish
    from metier.hub.sources.fetch import Transfer

    if options.to.startswith(("https://", "http://")):
        from metier.cli.server_registry import publish_to_server

        publish_to_server(options)
        return FINE
    if options.submit:
        raise InvalidArgument("Only a server has people who review submissions.", hint="Leave out --submit.")
    opened = looking(options) if options.dry_run else acting(options, decides=True)
    with opened as (scope, person), Progress() as progress:
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
            transfer=Transfer(progress=progress.transfer),
            dry_run=options.dry_run,
        )
    release, decision = done.release, done.judged.decision
    if not options.json:
        _print(done, is_dry_run=options.dry_run)
    else:
        shape: dict[str, object] = {
            "name": release.name,
            "version": release.version,
            "digest": release.digest,
            "target": done.target,
            "location": done.location or None,
            "revision": done.revision or None,
            "copied": list(release.copied),
        }
        if options.dry_run:
            shape |= {"dry_run": True, "findings": [one.as_dict() for one in done.judged.report.findings]}
            shape |= {"decision": decision.outcome, "reason": decision.reason, "rule": decision.rule}
        print_json(shape)
    return FINE if decision.is_allowed else exit_code_for(decision.code)


def _print(done: Published, *, is_dry_run: bool) -> None:
    release, decision, report = done.release, done.judged.decision, done.judged.report
    style, what, to = Style(sys.stdout), f"{Style.text(release.name)} {release.version}", Style.text(done.target, 4_096)
    if is_dry_run:
        how = "would be published" if decision.is_allowed else "would not be published"
        print(f"{style.outcome(decision.outcome)}  {style.strong(what)} {how}: {to}")
    else:
        print_done(f"{what} is published: {to}")
    if done.location:
        revision = "" if done.location.endswith(done.revision) else f" {done.revision}"
        print(style.dim(f"  {Style.text(done.location, 4_096)}{revision}"))
    print(style.dim(f"  content {release.digest}"))
    if is_dry_run:
        worst = f", the worst {report.max_severity}" if report.findings else ""
        print(f"{style.dim('scan')}: {plural(len(report.findings), 'finding')}{worst}")
        print(f"{style.dim('why')}: {Style.text(decision.reason, 2_000)}")
        if decision.hint:
            print(f"{style.dim('hint')}: {Style.text(for_person(decision.hint), 1_000)}")
        print("Nothing was published.")
