"""`metier propose`."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING
from urllib.parse import quote

import metier
import metier.hub
import metier.skill
from metier.cli.identity import acting
from metier.cli.improvement_view import find_improvement, print_improvement
from metier.cli.output import Style, plural, print_done, print_json, print_result, table
from metier.cli.parser import Parser, library_of
from metier.cli.server_decisions import decide_at_server, require_own_skill, speaks_to_server
from metier.errors import InvalidArgument, SourceUnavailable
from metier.guard.remedies import tenant_option
from metier.hub.proposal_page import page_of
from metier.skill.untrusted_text import shown

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


def run(options: Namespace) -> None:
    from metier.guard.approvals.roles import require_role

    if options.verb in ("approve", "reject") and speaks_to_server():
        _decide_at_server(options)
        return
    with acting(options, decides=options.verb in ("approve", "reject")) as (scope, person):
        if options.verb in ("approve", "reject"):
            require_own_skill(metier.hub.find_proposal(scope, options.id).location)
        if options.verb in ("list", "show"):
            require_role(person, "viewer", "see proposals")
        elif options.verb in ("update", "new") and person.kind != "agent":
            # Agents propose instead of changing things, whatever roles they have.
            require_role(person, "author", "propose a change")
        options.do(options, scope, person)


def _update(options: Namespace, scope: TenantScope, person: Person) -> None:
    from metier.hub.skill_location import find_skill

    change: str | Files | None = _files(options.folder) if options.folder is not None else None
    if options.diff is not None:
        change = _diff(options.diff)
    library, skill = find_skill(library_of(options), scope, options.name)
    made = metier.hub.propose_update(
        library, scope, skill, change, options.why, options.evidence, author=person, guard=metier.Guard()
    )
    _parked(options, scope, person, made)


def _new(options: Namespace, scope: TenantScope, person: Person) -> None:
    made = metier.hub.propose_new(
        scope,
        options.name,
        _files(options.folder),
        options.why,
        options.evidence,
        author=person,
        into=options.into,
        guard=metier.Guard(),
    )
    _parked(options, scope, person, made)


def _diff(file: str) -> str:
    from metier.hub.diff_parser import MAX_DIFF_BYTES

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
    from metier.skill.package import files_of
    from metier.source.source import absolute, expanded

    return files_of(metier.skill.FolderPackage(absolute(expanded(folder))))


def _parked(options: Namespace, scope: TenantScope, person: Person, made: Proposal) -> None:
    improvement = find_improvement(scope, person, made) if made.status == "open" else None
    if options.json:
        print_json({"proposal": made, "page": str(page_of(scope, made)), "tests": improvement})
        return
    style = Style(sys.stdout)
    if made.justification != options.why.strip():
        print_done(f"{made.id} waits already with this very change; what you say was added to it.")
    else:
        what = "a change to" if made.kind == "update" else "the new skill"
        print_done(f"{made.id} proposes {what} {Style.text(made.skill)}.")
    if made.capabilities_new:
        print(style.warn(f"  New capabilities: {', '.join(made.capabilities_new)}"))
    if made.status == "open":
        command = f"metier propose show {made.id}{tenant_option(options.tenant)}"
        print(f"  Nothing has changed yet: somebody else decides, with `{command}`.")
    else:
        print(f"  {Style.text(made.comment, 1_000)}")
    print(style.dim(f"  {Style.text(str(page_of(scope, made)), 4_096)}"))
    print_improvement(style, improvement)


def _list(options: Namespace, scope: TenantScope, person: Person) -> None:
    found = [
        one
        for one in scope.proposals.all()
        if (options.all or one.status in ("open", "approved"))
        and (options.skill is None or options.skill in (one.skill, one.skill.partition("@")[0]))
    ]
    if options.json:
        print_json({"proposals": found})
        return
    if not found:
        print("No proposal waits." if not options.all else "There are no proposals.")
        return
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


def _show(options: Namespace, scope: TenantScope, person: Person) -> None:
    from metier.cli.proposal_view import print_proposal

    print_proposal(options, scope, person, metier.hub.find_proposal(scope, options.id))


def _approve(options: Namespace, scope: TenantScope, person: Person) -> None:
    guard = metier.Guard()
    if guard.governance.effective.proposals_no_test_worse:
        find_improvement(scope, person, metier.hub.find_proposal(scope, options.id))
    done = metier.hub.approve(
        scope,
        person,
        options.id,
        comment=options.reason,
        apply=not options.no_apply,
        environment=options.environment or "",
        guard=guard,
    )
    if done.status == "approved":
        command = f"metier propose approve {done.id}{tenant_option(options.tenant)}"
        _print_proposal(options, done, f"agreed to; `{command}` applies it")
        return
    number, name = scope.versions.of(done.location)[-1].number, Style.text(done.skill)
    _print_proposal(options, done, f"{name} is version {number} now. `metier rollback {name}` brings back what it was")
    is_approved = any(one.decided_by == person.name for one in scope.approvals.of(done.applied_digest))
    if not is_approved and not options.json:
        print(Style(sys.stdout).warn("  Its content is not approved by that: `metier approve list` shows what waits."))


def _decide_at_server(options: Namespace) -> None:
    body: dict[str, object] = {"comment": options.reason or ""}
    if options.verb == "approve":
        body["apply"] = not options.no_apply
    found = decide_at_server(f"/proposals/{quote(options.id, safe='')}/{options.verb}", body)
    print_result(
        options, {"proposal": found}, f"{Style.text(options.id)}: decided at the server, for all of its nodes."
    )


def _reject(options: Namespace, scope: TenantScope, person: Person) -> None:
    done = metier.hub.reject(scope, person, options.id, comment=options.reason, guard=metier.Guard())
    _print_proposal(options, done, "rejected; nothing has changed")


def _withdraw(options: Namespace, scope: TenantScope, person: Person) -> None:
    _print_proposal(options, metier.hub.withdraw(scope, person, options.id, comment=options.reason), "withdrawn")


def _recommend(options: Namespace, scope: TenantScope, person: Person) -> None:
    done = metier.hub.recommend(scope, person, options.id, options.verdict, reason=options.reason)
    said = plural(len(done.recommendations), "recommendation")
    _print_proposal(
        options, done, f"you recommend to {options.verdict} it; it has {said}, and waits for somebody to decide"
    )


def _print_proposal(options: Namespace, done: Proposal, what: str) -> None:
    print_result(options, {"proposal": done}, f"{done.id}: {what}.")
