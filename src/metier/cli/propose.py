"""`metier propose`."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from metier.cli.identity import acting
from metier.cli.output import Style, plural, print_json, table
from metier.cli.parser import Parser, library_of
from metier.cli.proposal_view import print_proposal, proposal_shape
from metier.errors import InvalidArgument, SourceUnavailable

if TYPE_CHECKING:
    from metier.skill.package import Files
    from metier.store import Person, Proposal, TenantScope


def add(parser: Parser) -> None:
    parser.example("metier propose show p-7f3k2m9q")
    update = parser.verb(
        "update",
        "propose to change a skill; nothing changes until somebody agrees",
        'metier propose update deploy --from ./deploy --why "Step two fails on empty tables"',
        _update,
    )
    update.skill()
    change = update.add_mutually_exclusive_group()
    change.add_argument("--diff", metavar="FILE", help="a unified diff, with paths relative to the skill; - for a pipe")
    change.add_argument(
        "--from",
        metavar="DIR",
        dest="folder",
        help="a changed copy of the skill's folder (default: the folder itself, where it was changed by hand)",
    )
    new = parser.verb(
        "new",
        "propose a new skill; nobody can use it until somebody agrees",
        'metier propose new tidy-tables --from ./tidy-tables --why "We do it every week"',
        _new,
    )
    new.option("name", "NAME", "what it is called")
    new.option("--from", "DIR", "its folder", dest="folder", required=True)
    new.option("--into", "DIR", "the folder of skills that it is for (default: ~/.metier/skills)")
    for verb in (update, new):
        verb.option("--why", "TEXT", "why it is needed", required=True)
        evidence = "what shows that it is needed (repeatable)"
        verb.option("--evidence", "TEXT", evidence, action="append", default=[])

    listed = parser.verb("list", "list what waits for somebody to decide", "metier propose list --skill deploy", _list)
    listed.flag("--all", "also what was decided, withdrawn or went stale")
    listed.option("--skill", "NAME", "only for this skill")

    show = parser.verb(
        "show",
        "show all that somebody who decides should see, new capabilities first",
        "metier propose show p-7f3k2m9q --full",
        _show,
    )
    approve = parser.verb(
        "approve",
        "agree to a proposal, and apply it",
        'metier propose approve p-7f3k2m9q --reason "It is right"',
        _approve,
    )
    reject = parser.verb(
        "reject",
        "decide against a proposal; nothing of the skill changes",
        'metier propose reject p-7f3k2m9q --reason "The script is not needed"',
        _reject,
    )
    withdraw = parser.verb(
        "withdraw", "take back a proposal of your own", "metier propose withdraw p-7f3k2m9q", _withdraw
    )
    recommend = parser.verb(
        "recommend",
        "say what you think of a proposal; it decides nothing",
        'metier propose recommend p-7f3k2m9q approve --reason "SKILL.md:12 agrees"',
        _recommend,
    )
    for verb in (show, approve, reject, withdraw, recommend):
        verb.option("id", "ID", "its id: p-...")
    show.flag("--full", "all findings and all of the diff")
    approve.flag("--no-apply", "only agree; `approve` once more applies it")
    recommend.option("verdict", None, "what you would do", choices=("approve", "reject"))
    for verb in (approve, reject, withdraw, recommend):
        verb.reason(required=verb in (reject, recommend))
    for verb in (update, approve):
        verb.library()
    for verb in (new, listed, show, reject, withdraw, recommend):
        verb.tenant()
    for verb in (update, new, listed, show, approve, reject, withdraw, recommend):
        verb.json()


def run(options: Namespace) -> int:
    with acting(options, decides=options.verb in ("approve", "reject")) as (scope, person):
        return int(options.do(options, scope, person))


def _update(options: Namespace, scope: TenantScope, person: Person) -> int:
    from metier.guard import Guard
    from metier.hub.proposals import propose_update
    from metier.hub.skill_location import find_skill

    _require_author(person)
    change: str | Files | None = _files(options.folder) if options.folder is not None else None
    if options.diff is not None:
        change = _diff(options.diff)
    library, skill = find_skill(library_of(options), scope, options.name)
    made = propose_update(library, scope, skill, change, options.why, options.evidence, author=person, guard=Guard())
    return _parked(options, scope, made)


def _new(options: Namespace, scope: TenantScope, person: Person) -> int:
    from metier.guard import Guard
    from metier.hub.proposals import propose_new

    _require_author(person)
    made = propose_new(
        scope,
        options.name,
        _files(options.folder),
        options.why,
        options.evidence,
        author=person,
        into=options.into,
        guard=Guard(),
    )
    return _parked(options, scope, made)


def _require_author(person: Person) -> None:
    from metier.guard.approvals.roles import require_role

    if person.kind != "agent":  # whatever roles they have: to propose is what agents do instead of changing things
        require_role(person, "author", "propose a change")


def _diff(file: str) -> str:
    from metier.hub.diff_parser import MAX_DIFF_BYTES
    from metier.skill import shown

    try:
        if file == "-":
            data = sys.stdin.buffer.read(MAX_DIFF_BYTES + 1)
        else:
            with open(file, "rb") as opened:
                data = opened.read(MAX_DIFF_BYTES + 1)
    except OSError as error:
        raise SourceUnavailable(
            f"{shown(file, 300)} cannot be read: {error.strerror}.", hint="Name a file with a unified diff, or -."
        ) from None
    try:
        return data.decode()
    except UnicodeDecodeError:
        if len(data) > MAX_DIFF_BYTES:
            return data.decode(errors="replace")  # which is refused for its length
        raise InvalidArgument("The diff is not UTF-8.", hint="Propose the files as a whole, with --from.") from None


def _files(folder: str) -> Files:
    from metier.skill import FolderPackage
    from metier.skill.package import files_of
    from metier.source.source import absolute, expanded

    return files_of(FolderPackage(absolute(expanded(folder))))


def _parked(options: Namespace, scope: TenantScope, made: Proposal) -> int:
    from metier.guard.remedies import tenant_option
    from metier.hub.proposal_page import page_of

    if options.json:
        print_json({"proposal": proposal_shape(made), "page": str(page_of(scope, made))})
        return 0
    style = Style(sys.stdout)
    if made.justification != options.why.strip():
        print(f"{style.good('✓')} {made.id} waits already with this very change; what you say was added to it.")
    else:
        print(f"{style.good('✓')} {made.id} proposes {_what(made)}.")
    if made.capabilities_new:
        print(style.warn(f"  New capabilities: {', '.join(made.capabilities_new)}"))
    if made.status == "open":
        command = f"metier propose show {made.id}{tenant_option(options.tenant)}"
        print(f"  Nothing has changed yet: somebody else decides, with `{command}`.")
    else:
        print(f"  {Style.text(made.comment, 1_000)}")
    print(style.dim(f"  {Style.text(str(page_of(scope, made)), 4_096)}"))
    return 0


def _what(proposal: Proposal) -> str:
    name = Style.text(proposal.skill)
    return f"a change to {name}" if proposal.kind == "update" else f"the new skill {name}"


def _list(options: Namespace, scope: TenantScope, person: Person) -> int:
    from metier.guard.approvals.roles import require_role
    from metier.guard.remedies import tenant_option

    require_role(person, "viewer", "see proposals")
    found = [
        one
        for one in scope.proposals.all()
        if (options.all or one.status in ("open", "approved"))
        and (options.skill is None or options.skill in (one.skill, one.skill.partition("@")[0]))
    ]
    if options.json:
        print_json({"proposals": [proposal_shape(one) for one in found]})
        return 0
    if not found:
        print("No proposal waits." if not options.all else "There are no proposals.")
        return 0
    style = Style(sys.stdout)
    rows = [
        (
            one.id,
            one.skill,
            one.status,
            f"{one.author_kind} {one.author}",
            style.when(one.created_at),
            ", ".join(one.capabilities_new) or "-",
            " ".join(one.justification.split()),
        )
        for one in found
    ]
    paint = {1: style.strong, 2: style.outcome}
    print(table(style, ("PROPOSAL", "SKILL", "STATUS", "BY", "MADE", "NEW", "WHY"), rows, paint=paint))
    waiting = next((one for one in found if one.status == "open"), None)
    if waiting is not None:
        command = f"metier propose show {waiting.id}{tenant_option(options.tenant)}"
        print(style.dim(f"`{command}` shows what somebody who decides should see."))
    return 0


def _show(options: Namespace, scope: TenantScope, person: Person) -> int:
    from metier.guard.approvals.roles import require_role
    from metier.guard.remedies import tenant_option
    from metier.hub.review import find_proposal

    require_role(person, "viewer", "see proposals")
    proposal = find_proposal(scope, options.id)
    tenant = tenant_option(options.tenant)
    print_proposal(scope, person, proposal, full=options.full, json=options.json, tenant=tenant)
    return 0


def _approve(options: Namespace, scope: TenantScope, person: Person) -> int:
    from metier.guard import Guard
    from metier.guard.remedies import tenant_option
    from metier.hub.review import approve

    done = approve(
        scope,
        person,
        options.id,
        comment=options.reason,
        apply=not options.no_apply,
        environment=options.environment or "",
        guard=Guard(),
    )
    if options.json:
        return _print_proposal(options, done, "")
    if done.status == "approved":
        command = f"metier propose approve {done.id}{tenant_option(options.tenant)}"
        return _print_proposal(options, done, f"agreed to; `{command}` applies it")
    version = scope.versions.of(done.location)[-1]
    name = Style.text(done.skill)
    _print_proposal(
        options, done, f"{name} is version {version.number} now. `metier rollback {name}` brings back what it was"
    )
    given = [one for one in scope.approvals.of(done.applied_digest) if one.decided_by == person.name]
    if not given:
        print(Style(sys.stdout).warn("  Its content is not approved by that: `metier approve list` shows what waits."))
    return 0


def _reject(options: Namespace, scope: TenantScope, person: Person) -> int:
    from metier.guard import Guard
    from metier.hub.review import reject

    done = reject(scope, person, options.id, comment=options.reason, guard=Guard())
    return _print_proposal(options, done, "rejected; nothing has changed")


def _withdraw(options: Namespace, scope: TenantScope, person: Person) -> int:
    from metier.hub.review import withdraw

    return _print_proposal(options, withdraw(scope, person, options.id, comment=options.reason), "withdrawn")


def _recommend(options: Namespace, scope: TenantScope, person: Person) -> int:
    from metier.hub.review import recommend

    done = recommend(scope, person, options.id, options.verdict, reason=options.reason)
    said = plural(len(done.recommendations), "recommendation")
    return _print_proposal(
        options, done, f"you recommend to {options.verdict} it; it has {said}, and waits for somebody to decide"
    )


def _print_proposal(options: Namespace, done: Proposal, what: str) -> int:
    if options.json:
        print_json({"proposal": proposal_shape(done)})
    else:
        print(f"{Style(sys.stdout).good('✓')} {done.id}: {what}.")
    return 0
