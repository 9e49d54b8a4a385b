"""`metier approve`."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from typing import TYPE_CHECKING
from urllib.parse import quote

import metier.store
from metier._lazy import asdict
from metier.cli.identity import acting
from metier.cli.output import Style, print_done, print_json, print_result, table
from metier.cli.parser import Parser
from metier.cli.server_decisions import decide_at_server, decides_at_server
from metier.errors import InvalidArgument, RequestNotFound
from metier.guard.approvals.decisions import people_who_agreed
from metier.guard.approvals.status import state_of, timestamp
from metier.guard.policy.durations import seconds_of
from metier.guard.remedies import tenant_option
from metier.skill.untrusted_text import shown

if TYPE_CHECKING:
    from metier.guard.policy.effective import EffectivePolicy
    from metier.store import Approval, ApprovalRequest, Person, TenantScope


_REQUEST = "the id of a request, the digest of its content, or the name of a skill for which one request waits"


def add(parser: Parser) -> None:
    parser.example("metier approve show r-7f3k2m9q")
    listed = parser.verb(
        "list", "list what waits for an answer, and what was approved", "metier approve list --all", _list
    )
    listed.flag("--all", "also what was decided, revoked or has run out")

    show = parser.verb(
        "show",
        "show all that somebody who decides should see, new capabilities first",
        "metier approve show r-7f3k2m9q",
        _show,
    )
    show.option(
        "id", "ID", "the id of a request or an approval, a digest, or the name of a skill for which one request waits"
    )
    show.flag("--full", "all findings and all of the difference")

    grant = parser.verb(
        "grant",
        "agree that a skill may do what it asks for, as long as its content is this",
        'metier approve grant r-7f3k2m9q --expires 30d --reason "I read its scripts"',
        _grant,
    )
    grant.option("id", "ID", _REQUEST)
    grant.option("--only", "CAPABILITY", "this of what is asked for, not all (repeatable)", action="append")
    grant.option("--tool", "RULE", "also these tool calls: Bash(git:*) (repeatable)", action="append", default=[])
    grant.option("--expires", "TIME", "for so long: 12h, 30d; never longer than policy says")
    grant.option("--reason", "TEXT", "why", default="")

    deny = parser.verb(
        "deny",
        "say no; it outweighs everybody who agrees, until it is revoked",
        'metier approve deny r-7f3k2m9q --reason "It sends files away"',
        _deny,
    )
    deny.option("id", "ID", _REQUEST)
    deny.reason(required=True)

    revoke = parser.verb(
        "revoke",
        "take back an approval, or a no",
        'metier approve revoke a-5h2n8c4d --reason "It is not needed any more"',
        _revoke,
    )
    revoke.option("id", "ID", "the id of the approval: a-...")
    revoke.reason(required=True)
    for verb in (listed, show, grant, deny, revoke):
        verb.tenant()
        verb.json()


def run(options: Namespace) -> None:
    from metier.guard.approvals.requests import expire_requests, supersede_requests
    from metier.guard.approvals.roles import require_role
    from metier.guard.policy.files import Policies

    if options.verb in ("grant", "deny", "revoke") and decides_at_server():
        _decide_at_server(options)
        return
    with acting(options, decides=options.verb in ("grant", "deny", "revoke")) as (scope, person):
        effective = Policies.discover().current()
        expire_requests(scope, effective)
        supersede_requests(scope)
        if options.verb in ("list", "show"):
            require_role(person, "viewer", "see approvals")
        options.do(options, scope, person, effective)


def _decide_at_server(options: Namespace) -> None:
    body = {"reason": options.reason}
    if options.verb == "grant":
        body |= {"only": options.only, "tools": options.tool, "expires": options.expires}
    kind = "approvals" if options.verb == "revoke" else "requests"
    found = decide_at_server(f"/{kind}/{quote(options.id, safe='')}/{options.verb}", body)
    print_result(
        options, {"approval": found}, f"{Style.text(options.id)}: decided at the server, for all of its nodes."
    )


def _list(options: Namespace, scope: TenantScope, person: Person, effective: EffectivePolicy) -> None:
    now = timestamp(time.time())
    requests = scope.approvals.requests(None if options.all else "pending")
    given = scope.approvals.all()
    counting = [one for one in given if state_of(one, now) in ("counts", "denied")]
    listed = given if options.all else counting
    if options.json:
        approvals = [{**asdict(one), "state": state_of(one, now)} for one in listed]
        print_json({"requests": requests, "approvals": approvals})
        return
    style = Style(sys.stdout)
    paint = {1: style.strong, 2: style.outcome}
    if requests:
        known = {one.skill for one in given if one.decision == "approved"}
        rows = [
            (
                *(one.id, one.skill, _status(scope, one, effective, now), _short(one.digest), _where(one)),
                *(one.requested_by, style.when(one.created_at), _capabilities(one, is_known=one.skill in known)),
            )
            for one in requests
        ]
        head = ("REQUEST", "SKILL", "STATUS", "CONTENT", "WHERE", "BY", "MADE", "ASKS FOR")
        print(table(style, head, rows, paint=paint))
    else:
        print("Nobody waits for an answer.")
    if options.all and listed:
        print()
        titles = ("APPROVAL", "SKILL", "STATE", "CONTENT", "WHERE", "BY", "UNTIL", "GRANTS", "WHY")
        print(table(style, titles, [_row(style, one, now) for one in listed], paint=paint))
    waiting = next((one for one in requests if one.status == "pending"), None)
    tenant = tenant_option(options.tenant)
    if waiting is not None:
        print(style.dim(f"`metier approve show {waiting.id}{tenant}` shows what somebody who decides should see."))
    elif counting and not options.all:
        stand = "decision stands" if len(counting) == 1 else "decisions stand"
        print(style.dim(f"{len(counting):,} {stand}; `metier approve list --all{tenant}` shows them."))


def _status(scope: TenantScope, one: ApprovalRequest, effective: EffectivePolicy, now: str) -> str:
    quorum = effective.approval.quorum
    if one.status != "pending" or quorum == 1:
        return one.status
    return f"{len(people_who_agreed(scope, one, quorum, now))} of {quorum} agreed"


def _capabilities(one: ApprovalRequest, *, is_known: bool) -> str:
    new = one.new if is_known else ()  # of a skill that was never approved, all of it is
    return ", ".join(f"{name} (new)" if name in new else name for name in one.capabilities) or "to be used"


def _row(style: Style, one: Approval, now: str) -> tuple[str, ...]:
    granted = "nothing" if one.decision == "denied" else ", ".join((*one.grants, *one.tools)) or "to be used"
    until = style.when(one.expires_at) if one.expires_at else "never"
    about = (one.id, one.skill, state_of(one, now), _short(one.digest), _where(one), one.decided_by)
    return *about, until, granted, " ".join(one.reason.split()) or "-"


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:8]


def _where(about: ApprovalRequest | Approval) -> str:
    return ", ".join(part for part in (about.layer, about.environment) if part) or "anywhere"


def _show(options: Namespace, scope: TenantScope, person: Person, effective: EffectivePolicy) -> None:
    from metier.cli.request_view import print_request_view
    from metier.guard.approvals.decisions import reason_against_deciding
    from metier.hub.request_view import request_view_of

    asked = _find_request(scope, options.id)
    view = request_view_of(scope, asked, effective.scan.packs)
    now = timestamp(time.time())
    terms = effective.approval
    agreed = people_who_agreed(scope, asked, terms.quorum, now)
    why_not = reason_against_deciding(effective, person, asked)
    if options.json:
        who = {"approvers": terms.approvers, "quorum": terms.quorum, "agreed": agreed, "why_not_you": why_not}
        print_json({**view.as_dict(), "decides": who})
        return
    print_request_view(view, full=options.full)
    style = Style(sys.stdout)
    print()
    for one in view.approvals:
        said = f"{Style.text(one.decided_by)}  {style.when(one.decided_at)}  {Style.text(one.reason)}"
        print(f"{one.id}  {style.outcome(state_of(one, now))}  {said}")
    if asked.status == "pending" and asked.id:
        if terms.quorum > 1:
            print(f"{len(agreed)} of {terms.quorum} agreed: {Style.text(', '.join(agreed)) or 'nobody yet'}")
        if why_not is None:
            tenant = tenant_option(options.tenant)
            deny = f"metier approve deny {asked.id}{tenant} --reason TEXT"
            print(style.strong(f"Decide: `metier approve grant {asked.id}{tenant}` or `{deny}`"))
        else:
            print(style.dim(Style.text(why_not, 1_000)))


def _find_request(scope: TenantScope, wanted: str) -> ApprovalRequest:
    """The request that an id of it, of an approval or of its content means."""
    from metier.guard.approvals.requests import pending_request

    found = scope.approvals.get_request(wanted)
    if found is not None:
        return found
    approval = scope.approvals.get(wanted)
    if approval is not None:
        of_it = scope.approvals.get_request(approval.request)
        return of_it or metier.store.ApprovalRequest(
            digest=approval.digest, skill=approval.skill, capabilities=approval.grants, status="approved"
        )
    of_content = [one for one in scope.approvals.requests() if one.digest == wanted]
    if of_content:
        return next((one for one in of_content if one.status == "pending"), of_content[-1])
    named = pending_request(scope, wanted)
    if named is None:
        raise RequestNotFound(
            f"There is no request or approval {shown(wanted)!r}.", hint="`metier approve list` shows them."
        )
    return named


def _grant(options: Namespace, scope: TenantScope, person: Person, effective: EffectivePolicy) -> None:
    from metier.guard.approvals.decisions import grant

    given = grant(
        scope,
        effective,
        person,
        options.id,
        grants=options.only,
        tools=options.tool,
        expires=seconds(options.expires),
        reason=options.reason,
    )
    asked = scope.approvals.get_request(given.request)
    if options.json:
        print_json({"approval": given, "request": asked})
        return
    style = Style(sys.stdout)
    until = f" until {given.expires_at}" if given.expires_at else ""
    granted = Style.text(", ".join((*given.grants, *given.tools)), 1_000) or "what was asked about"
    print_done(f"{given.id}: {Style.text(given.skill)} may do {granted}{until}, as long as its content is")
    revoke = f"metier approve revoke {given.id}{tenant_option(options.tenant)} --reason TEXT"
    print(f"  {given.digest}. `{revoke}` takes it back.")
    if asked is not None and asked.status == "pending":
        quorum = effective.approval.quorum
        agreed = people_who_agreed(scope, asked, quorum, timestamp(time.time()))
        rest = ", ".join(name for name in asked.capabilities if name not in given.grants)
        if len(agreed) < quorum:
            print(style.warn(f"  Not yet: {len(agreed)} of {quorum} people agreed."))
        elif rest:
            print(f"  {asked.id} still waits for the rest: {Style.text(rest, 1_000)}.")


def _deny(options: Namespace, scope: TenantScope, person: Person, effective: EffectivePolicy) -> None:
    from metier.guard.approvals.decisions import deny

    given = deny(scope, effective, person, options.id, reason=options.reason)
    _print_approval(options, given, f"{Style.text(given.skill)} may not be used with this content")


def _revoke(options: Namespace, scope: TenantScope, person: Person, effective: EffectivePolicy) -> None:
    from metier.guard.approvals.decisions import revoke

    given = revoke(scope, effective, person, options.id, reason=options.reason)
    what = "the refusal is taken back" if given.decision == "denied" else "the approval is taken back"
    _print_approval(options, given, f"{what} for {Style.text(given.skill)}")


def _print_approval(options: Namespace, given: Approval, what: str) -> None:
    print_result(options, {"approval": given}, f"{given.id}: {what}, from the next decision on.\n  {given.digest}")


def seconds(text: str | None) -> float | None:
    """The seconds of a time such as `30d`; raises `InvalidArgument` for what is none."""
    if text is None:
        return None
    found = seconds_of(text)
    if found is None:
        raise InvalidArgument(f"{shown(text)!r} is no time.", hint="Write 12h, 30d or 26w.")
    return found
