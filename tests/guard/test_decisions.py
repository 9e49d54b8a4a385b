"""Asking for approvals, giving them and taking them back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.store.postgres import store_url

from metier.errors import InvalidArgument, MetierError, NotPermitted, RequestNotFound
from metier.guard import Actor, Subject
from metier.guard.approvals.decisions import (
    approve_automatically,
    automatic_approval,
    deny,
    grant,
    reason_against_deciding,
    revoke,
)
from metier.guard.approvals.requests import lapse_earlier_approvals, request_approval
from metier.guard.approvals.status import ApprovalStatus, approval_status, timestamp
from metier.guard.policy.effective import ApprovalTerms, AutoApproval, EffectivePolicy
from metier.store import Approval, ApprovalRequest, Person, Revision, Store, TenantScope
from metier.testing import FakeClock

__all__ = ["store_url"]

ADA = Person(name="ada", roles=frozenset({"reviewer"}))
BOB = Person(name="bob", roles=frozenset({"admin"}))
EVE = Person(name="eve", roles=frozenset({"author"}))
ROBOT = Person(name="robot", kind="agent", roles=frozenset({"admin"}))
PDF = Subject(name="pdf", source="acme", layer="plugin", digest="sha256:" + "1" * 64)
CHANGED = replace(PDF, digest="sha256:" + "2" * 64)
USER = Actor(user="cyd", session="s-1")
DEFAULT = EffectivePolicy(digest="sha256:policy")


def terms(**more: Any) -> EffectivePolicy:
    return EffectivePolicy(digest="sha256:policy", approval=ApprovalTerms(**more))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path}/store/metier.db") as store:
        yield store


@pytest.fixture
def scope(store: Store) -> TenantScope:
    return store.of("acme")


def ask(scope: TenantScope, subject: Subject = PDF, **more: Any) -> ApprovalRequest:
    given: dict[str, Any] = {
        "capabilities": ["scripts", "network-tools"],
        "new": ["network-tools"],
        "scripts": {"scripts/x.py": "ab" * 32},
        "actor": USER,
    }
    return request_approval(scope, subject, **{**given, **more})


def standing_of(scope: TenantScope, subject: Subject = PDF, *, quorum: int = 1, now: float = 1e9) -> ApprovalStatus:
    given = scope.state().approvals.get(subject.digest, ())
    return approval_status(given, layer=subject.layer, environment="", quorum=quorum, now=timestamp(now))


def trail(scope: TenantScope, *wanted: str) -> list[tuple[Any, ...]]:
    """The types of all records, the oldest first, each with these values."""
    records = scope.audit.tail(100)
    return [(record["type"], *(record.get(name) for name in wanted)) for record in records]


# --- asking -----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("A-9")
def test_a_request_says_what_is_asked_for_and_of_which_content(scope: TenantScope) -> None:
    asked = ask(scope, reason="Skill 'pdf' has scripts.")
    assert (asked.digest, asked.skill, asked.layer, asked.status) == (PDF.digest, "pdf@acme", "plugin", "pending")
    assert asked.capabilities == ("network-tools", "scripts")
    assert asked.new == ("network-tools",)
    assert asked.scripts == {"scripts/x.py": "ab" * 32}
    assert asked.requested_by == "cyd"
    (record,) = scope.audit.tail(10)
    assert record["type"] == "approval.requested"
    assert (record["skill"], record["source"], record["digest"]) == ("pdf", "acme", PDF.digest)
    assert (record["request"], record["user"], record["session"]) == (asked.id, "cyd", "s-1")


@pytest.mark.covers("A-9")
def test_there_is_one_request_however_often_somebody_asks(scope: TenantScope) -> None:
    first = ask(scope)
    assert ask(scope, actor=Actor(user="dan")) == first
    assert scope.approvals.requests() == [first]
    assert trail(scope) == [("approval.requested",)]


def test_each_environment_has_a_request_of_its_own(scope: TenantScope) -> None:
    assert ask(scope, environment="prod").id != ask(scope, environment="dev").id
    assert len(scope.approvals.requests("pending")) == 2


def test_a_request_for_content_that_is_gone_is_superseded(scope: TenantScope) -> None:
    old, elsewhere = ask(scope), ask(scope, replace(PDF, layer="project", digest="sha256:" + "3" * 64))
    new = ask(scope, CHANGED)
    assert [one.id for one in scope.approvals.requests("pending")] == [elsewhere.id, new.id]
    with pytest.raises(RequestNotFound, match=f"Request {old.id} waits no longer: it is superseded"):
        grant(scope, DEFAULT, ADA, old.id)
    assert not standing_of(scope).is_approved


def test_a_request_knows_the_agent_that_asked_and_for_whom(scope: TenantScope) -> None:
    assert ask(scope, actor=Actor(user="cyd", agent="helper")).requested_by == "cyd, agent:helper"
    assert ask(scope, CHANGED, actor=Actor(agent="helper")).requested_by == "agent:helper"


def test_requests_and_approvals_of_one_tenant_are_not_there_for_another(store: Store) -> None:
    ours, theirs = store.of("acme"), store.of("other")
    asked = ask(ours)
    with pytest.raises(RequestNotFound):
        grant(theirs, DEFAULT, ADA, asked.id)
    with pytest.raises(RequestNotFound):
        deny(theirs, DEFAULT, ADA, asked.digest, reason="no")
    given = grant(ours, DEFAULT, ADA, asked.id)
    with pytest.raises(RequestNotFound):
        revoke(theirs, DEFAULT, BOB, given.id, reason="no")
    assert lapse_earlier_approvals(theirs, "pdf@acme", CHANGED.digest) == []
    assert standing_of(ours).is_approved
    assert not standing_of(theirs).is_approved
    assert trail(theirs) == []


# --- granting ---------------------------------------------------------------------------------------------------------


@pytest.mark.covers("A-10")
def test_what_is_granted_counts_from_the_next_decision_on(scope: TenantScope) -> None:
    asked = ask(scope)
    assert not standing_of(scope).is_approved
    given = grant(scope, DEFAULT, ADA, asked.id, reason="Looks fine.")
    assert standing_of(scope).grants == {"scripts", "network-tools"}
    assert (given.request, given.decided_by, given.reason, given.policy) == (
        asked.id,
        "ada",
        "Looks fine.",
        "sha256:policy",
    )
    assert [one.status for one in scope.approvals.requests()] == ["approved"]
    assert trail(scope, "user", "approval", "request", "digest")[-1] == (
        "approval.granted",
        "ada",
        given.id,
        asked.id,
        PDF.digest,
    )


def test_a_part_of_what_was_asked_for_may_be_granted(scope: TenantScope) -> None:
    asked = ask(scope)
    given = grant(scope, DEFAULT, ADA, asked.id, grants=["scripts"], tools=["Bash(git:*), Read"])
    assert (given.grants, given.tools) == (("scripts",), ("Bash(git:*)", "Read"))
    with pytest.raises(InvalidArgument, match="'hooks' was not asked for"):
        grant(scope, DEFAULT, ADA, ask(scope).id, grants=["hooks"])
    with pytest.raises(InvalidArgument, match="is no tool rule"):
        grant(scope, DEFAULT, ADA, ask(scope).id, tools=["Bash(git"])


def test_a_request_is_answered_by_the_digest_of_its_content_too(scope: TenantScope) -> None:
    asked = ask(scope)
    assert grant(scope, DEFAULT, ADA, PDF.digest).request == asked.id
    ask(scope, environment="prod")
    ask(scope, environment="dev")
    with pytest.raises(InvalidArgument, match="Several requests wait for this content"):
        grant(scope, DEFAULT, ADA, PDF.digest)


def test_a_known_content_is_approved_before_anybody_asks(scope: TenantScope) -> None:
    with pytest.raises(RequestNotFound, match="Nothing is known"):
        grant(scope, DEFAULT, ADA, PDF.digest)
    scope.revisions.put(Revision(digest=PDF.digest, skill="pdf@acme", capabilities={"names": ["scripts"]}))
    given = grant(scope, DEFAULT, ADA, PDF.digest)
    assert (given.request, given.skill, given.layer, given.grants) == ("", "pdf@acme", "", ("scripts",))
    assert standing_of(scope).is_approved


@pytest.mark.parametrize("wanted", ["r-nothing", "", "x" * 5_000, "\x1b[2J", "sha256:", "a\0b", "\ud800"])
def test_what_nobody_asked_for_is_not_found(scope: TenantScope, wanted: str) -> None:
    for act in (grant, deny):
        with pytest.raises(RequestNotFound) as caught:
            act(scope, DEFAULT, ADA, wanted, reason="")
        assert "\x1b" not in caught.value.message
    with pytest.raises(RequestNotFound):
        revoke(scope, DEFAULT, ADA, wanted, reason="")


def test_a_reason_has_an_end(scope: TenantScope) -> None:
    with pytest.raises(InvalidArgument, match="at most 2,000 characters"):
        grant(scope, DEFAULT, ADA, ask(scope).id, reason="x" * 2_001)
    assert ask(scope, CHANGED, reason="x" * 3_000).reason == "x" * 2_000


# --- who may decide ---------------------------------------------------------------------------------------------------


@pytest.mark.covers("A-15")
def test_nobody_approves_their_own_request_where_policy_forbids_it(scope: TenantScope) -> None:
    asked = ask(scope, actor=Actor(user="ada"))
    with pytest.raises(NotPermitted, match="'ada' asked for it") as caught:
        grant(scope, terms(self_approval=False), ADA, asked.id)
    assert caught.value.context["request"] == asked.id
    assert not standing_of(scope).is_approved
    refused = scope.audit.tail(1)[0]
    assert (refused["type"], refused["decision"], refused["user"]) == ("approval.refused", "deny", "ada")
    assert (refused["request"], refused["digest"], refused["code"]) == (asked.id, PDF.digest, "not-permitted")
    grant(scope, terms(self_approval=False), BOB, asked.id)
    assert standing_of(scope).is_approved


@pytest.mark.covers("A-15")
@pytest.mark.parametrize(
    ("actor", "who", "is_own"),
    [
        (Actor(user="ada"), ADA, True),
        (Actor(user="ADA"), ADA, True),
        (Actor(user="ada", agent="helper"), ADA, True),
        (Actor(user="bob", agent="ada"), ADA, False),
        (Actor(agent="robot"), ROBOT, True),
        (Actor(user="ada", agent="robot"), ROBOT, True),
        (Actor(user="ada", agent="other"), ROBOT, False),
        (Actor(), ADA, False),
    ],
)
def test_a_request_is_that_of_the_user_and_of_the_agent_behind_it(
    scope: TenantScope, actor: Actor, who: Person, is_own: bool
) -> None:
    effective = terms(self_approval=False, approvers=("role:reviewer", "agent:robot"))
    assert (reason_against_deciding(effective, who, ask(scope, actor=actor)) is not None) is is_own


def test_without_a_policy_about_it_people_may_approve_what_they_asked_for(scope: TenantScope) -> None:
    grant(scope, DEFAULT, ADA, ask(scope, actor=Actor(user="ada")).id)
    assert standing_of(scope).is_approved


@pytest.mark.parametrize(
    ("approvers", "who", "may"),
    [
        (("role:reviewer",), EVE, False),
        (("role:reviewer",), ROBOT, False),
        (("role:admin",), ADA, False),
        (("role:admin",), BOB, True),
        (("user:eve",), EVE, True),
        (("agent:robot",), ROBOT, True),
        ((), BOB, False),
    ],
)
def test_policy_says_who_decides(scope: TenantScope, approvers: tuple[str, ...], who: Person, may: bool) -> None:
    asked = ask(scope)
    if may:
        grant(scope, terms(approvers=approvers), who, asked.id)
    else:
        with pytest.raises(NotPermitted, match="is not among those who decide"):
            grant(scope, terms(approvers=approvers), who, asked.id)
        with pytest.raises(NotPermitted):
            deny(scope, terms(approvers=approvers), who, asked.id, reason="no")
    assert standing_of(scope).is_approved is may
    assert [kind for (kind,) in trail(scope)][1:] == (
        ["approval.granted"] if may else ["approval.refused", "approval.refused"]
    )


def test_what_an_agent_decides_is_recorded_as_that_of_an_agent(scope: TenantScope) -> None:
    grant(scope, terms(approvers=("agent:robot",)), ROBOT, ask(scope).id)
    assert trail(scope, "agent", "user")[-1] == ("approval.granted", "robot", None)


# --- several people ---------------------------------------------------------------------------------------------------


def test_a_request_waits_until_enough_people_agreed(scope: TenantScope) -> None:
    effective = terms(quorum=2)
    asked = ask(scope)
    grant(scope, effective, ADA, asked.id)
    assert scope.approvals.requests("pending") == [asked]
    assert not standing_of(scope, quorum=2).is_approved
    with pytest.raises(NotPermitted, match="'ada' has agreed already"):
        grant(scope, effective, ADA, asked.id)
    grant(scope, effective, BOB, asked.id)
    assert scope.approvals.requests("pending") == []
    assert standing_of(scope, quorum=2).grants == {"scripts", "network-tools"}


def test_two_people_who_agree_to_different_things_have_not_agreed(scope: TenantScope) -> None:
    effective = terms(quorum=2)
    asked = ask(scope)
    grant(scope, effective, ADA, asked.id, grants=["scripts"])
    grant(scope, effective, BOB, asked.id, grants=["network-tools"])
    assert scope.approvals.requests("pending") == [asked]
    assert standing_of(scope, quorum=2).grants == frozenset()


def test_a_quorum_that_is_raised_holds_for_what_was_approved_before(scope: TenantScope) -> None:
    grant(scope, DEFAULT, ADA, ask(scope).id)
    assert standing_of(scope, quorum=1).is_approved
    assert not standing_of(scope, quorum=2).is_approved


def at_once(*acts: Callable[[], object]) -> list[BaseException | None]:
    """Run all of them in threads that begin together; what each of them raised."""
    ready = threading.Barrier(len(acts))
    raised: list[BaseException | None] = [None] * len(acts)

    def run(number: int) -> None:
        ready.wait(30)
        try:
            acts[number]()
        except MetierError as error:
            raised[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(acts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return raised


def test_two_people_agree_at_once_and_the_quorum_is_reached_once(store_url: str) -> None:
    people = [Person(name=f"p{number}", roles=frozenset({"reviewer"})) for number in range(4)]
    effective = terms(quorum=2)
    with Store.open(store_url) as store:
        scope = store.of("acme")
        asked = ask(scope)
        raised = at_once(*(lambda who=who: grant(store.of("acme"), effective, who, asked.id) for who in people))
        assert sum(error is None for error in raised) == 2
        assert all(isinstance(error, RequestNotFound) for error in raised if error is not None)
        assert [one.status for one in scope.approvals.requests()] == ["approved"]
        assert len(standing_of(scope, quorum=2).ids) == 2
        assert [kind for (kind,) in trail(scope)].count("approval.granted") == 2


def test_one_person_who_agrees_twice_at_once_agrees_once(store_url: str) -> None:
    effective = terms(quorum=2)
    with Store.open(store_url) as store:
        scope = store.of("acme")
        asked = ask(scope)
        raised = at_once(*[lambda: grant(store.of("acme"), effective, ADA, asked.id)] * 3)
        assert sum(error is None for error in raised) == 1
        assert len(scope.approvals.of(PDF.digest)) == 1


def test_many_who_ask_at_once_ask_once(store_url: str) -> None:
    with Store.open(store_url) as store:
        at_once(*[lambda: ask(store.of("acme"))] * 4)
        assert len(store.of("acme").approvals.requests()) == 1
        assert trail(store.of("acme")) == [("approval.requested",)]


def test_whoever_revokes_while_another_agrees_leaves_nothing_half_done(store_url: str) -> None:
    effective = terms(quorum=2)
    with Store.open(store_url) as store:
        scope = store.of("acme")
        asked = ask(scope)
        first = grant(scope, effective, ADA, asked.id)
        raised = at_once(
            lambda: revoke(store.of("acme"), effective, ADA, first.id, reason="Second thoughts."),
            lambda: grant(store.of("acme"), effective, BOB, asked.id),
        )
        assert raised == [None, None]
        assert standing_of(scope, quorum=2).approvers == {"bob"}
        assert not standing_of(scope, quorum=2).is_approved
        # In whichever order it happened, what is on record for the request is what was so.
        is_first = [kind for (kind,) in trail(scope)].index("approval.revoked") == 2
        assert [one.status for one in scope.approvals.requests()] == ["pending" if is_first else "approved"]


# --- time -------------------------------------------------------------------------------------------------------------


@pytest.mark.covers("A-16")
def test_an_approval_runs_out_and_is_asked_for_again(scope: TenantScope) -> None:
    clock = FakeClock(1_000)
    given = grant(scope, terms(expires=3_600), ADA, ask(scope, clock=clock).id, clock=clock)
    assert given.expires_at == timestamp(4_600)
    assert standing_of(scope, now=4_599).is_approved
    clock.advance(3_600)
    found = standing_of(scope, now=clock())
    assert not found.is_approved
    assert [one.id for one in found.expired] == [given.id]
    again = ask(scope, clock=clock)
    assert again.status == "pending"
    assert trail(scope, "approval", "request")[-2:] == [
        ("approval.expired", given.id, again.id),
        ("approval.requested", None, again.id),
    ]


def test_that_an_approval_ran_out_is_recorded_once(scope: TenantScope) -> None:
    clock = FakeClock(1_000)
    effective = terms(expires=60)
    for _ in range(3):
        grant(scope, effective, ADA, ask(scope, clock=clock).id, clock=clock)
        clock.advance(60)
    assert [kind for (kind,) in trail(scope)].count("approval.expired") == 2


def test_nobody_approves_for_longer_than_policy_lets_them(scope: TenantScope) -> None:
    clock = FakeClock(0)
    given = grant(scope, terms(expires=60), ADA, ask(scope).id, expires=1e6, clock=clock)
    assert given.expires_at == timestamp(60)
    assert grant(scope, terms(expires=60), ADA, ask(scope).id, expires=10, clock=clock).expires_at == timestamp(10)
    assert grant(scope, DEFAULT, ADA, ask(scope).id, clock=clock).expires_at == ""
    with pytest.raises(InvalidArgument):
        grant(scope, DEFAULT, ADA, ask(scope).id, expires=-1, clock=clock)


# --- no, and second thoughts ------------------------------------------------------------------------------------------


def test_a_refusal_outweighs_an_approval_and_nobody_overrules_it(scope: TenantScope) -> None:
    grant(scope, DEFAULT, ADA, ask(scope).id)
    refused = deny(scope, DEFAULT, BOB, ask(scope).id, reason="It phones home.")
    found = standing_of(scope)
    assert found.denied is not None
    assert found.denied.reason == "It phones home."
    assert not found.is_approved
    assert scope.approvals.requests("pending") == []
    with pytest.raises(NotPermitted, match=f"'bob' said no; `metier approve revoke {refused.id}`"):
        grant(scope, DEFAULT, ADA, ask(scope).id)
    assert ("approval.denied", "It phones home.") in trail(scope, "reason")


def test_whoever_asked_may_say_no(scope: TenantScope) -> None:
    deny(scope, terms(self_approval=False), ADA, ask(scope, actor=Actor(user="ada")).id, reason="Not needed.")
    assert standing_of(scope).denied is not None


def test_a_refusal_is_taken_back_by_who_may_agree(scope: TenantScope) -> None:
    refused = deny(scope, DEFAULT, BOB, ask(scope, actor=Actor(user="ada")).id, reason="no")
    with pytest.raises(NotPermitted):
        revoke(scope, DEFAULT, EVE, refused.id, reason="yes")
    with pytest.raises(NotPermitted, match="'ada' asked for it"):
        revoke(scope, terms(self_approval=False), ADA, refused.id, reason="yes")
    revoke(scope, DEFAULT, ADA, refused.id, reason="yes")
    assert standing_of(scope).denied is None


def test_what_was_revoked_is_asked_for_again(scope: TenantScope) -> None:
    asked = ask(scope)
    given = grant(scope, DEFAULT, ADA, asked.id)
    taken = revoke(scope, DEFAULT, BOB, given.id, reason="Too much.")
    assert (taken.revoked_by, taken.revoked_reason) == ("bob", "Too much.")
    assert not standing_of(scope).is_approved
    assert ask(scope).id != asked.id
    assert ("approval.revoked", given.id, "bob", "Too much.") in trail(scope, "approval", "user", "reason")
    with pytest.raises(RequestNotFound, match="was taken back already"):
        revoke(scope, DEFAULT, BOB, given.id, reason="Again.")
    grant(scope, DEFAULT, ADA, ask(scope).id)
    assert standing_of(scope).is_approved


@pytest.mark.parametrize(
    ("who", "may"), [(ADA, True), (BOB, True), (EVE, False), (ROBOT, False), (replace(ADA, name="fay"), True)]
)
def test_reviewers_take_back_any_approval_and_others_none(scope: TenantScope, who: Person, may: bool) -> None:
    effective = terms(approvers=("user:ada",))
    given = grant(scope, effective, ADA, ask(scope).id)
    if may:
        revoke(scope, effective, who, given.id, reason="x")
    else:
        with pytest.raises(NotPermitted):
            revoke(scope, effective, who, given.id, reason="x")
    assert standing_of(scope).is_approved is not may


# --- content that changes ---------------------------------------------------------------------------------------------


@pytest.mark.covers("A-11")
def test_an_approval_falls_with_its_content_and_that_is_recorded_once(scope: TenantScope) -> None:
    given = grant(scope, DEFAULT, ADA, ask(scope).id)
    for _ in range(2):
        assert [one.id for one in lapse_earlier_approvals(scope, "pdf@acme", CHANGED.digest, actor=USER)] == [given.id]
    assert not standing_of(scope, CHANGED).is_approved
    assert trail(scope, "digest", "new_digest", "approval", "user")[2:] == [
        ("approval.revoked", PDF.digest, CHANGED.digest, given.id, "cyd")
    ]


@pytest.mark.covers("A-11")
def test_what_did_not_change_or_is_another_skill_keeps_its_approval(scope: TenantScope) -> None:
    grant(scope, DEFAULT, ADA, ask(scope).id)
    assert lapse_earlier_approvals(scope, "pdf@acme", PDF.digest) == []
    assert lapse_earlier_approvals(scope, "pdf@other", CHANGED.digest) == []
    assert len(trail(scope)) == 2


@pytest.mark.covers("A-11", "A-40")
def test_an_approval_counts_again_when_its_content_comes_back(scope: TenantScope) -> None:
    grant(scope, DEFAULT, ADA, ask(scope).id)
    lapse_earlier_approvals(scope, "pdf@acme", CHANGED.digest)
    assert standing_of(scope).is_approved


# --- without anybody --------------------------------------------------------------------------------------------------

AUTO = AutoApproval(signer=("oms:keys/acme.pub",), scan_max="low", no_new_capabilities=True)
FINE: dict[str, Any] = {"new": (), "scan_max": "low", "scan_status": "ok", "signer": "oms:keys/acme.pub"}


@pytest.mark.covers("A-17")
def test_a_rule_approves_where_all_of_its_conditions_hold() -> None:
    found = automatic_approval(terms(auto=AUTO), **FINE)
    assert found == "auto-approve-when: signer oms:keys/acme.pub, scan-max low, no-new-capabilities"


@pytest.mark.covers("A-17")
@pytest.mark.each(
    "wrong",
    [
        {"new": ("network-tools",)},
        {"new": None},
        {"scan_max": "medium"},
        {"scan_max": "critical"},
        {"scan_max": ""},
        {"scan_max": "none?"},
        {"scan_status": "error"},
        {"scan_status": ""},
        {"signer": ""},
        {"signer": "oms:keys/other.pub"},
    ],
)
def test_a_rule_approves_of_nothing_when_a_condition_fails_or_cannot_be_told(wrong: dict[str, Any]) -> None:
    assert automatic_approval(terms(auto=AUTO), **{**FINE, **wrong}) is None


@pytest.mark.each(
    ("auto", "approves"),
    [
        (None, False),
        (AutoApproval(), False),
        (AutoApproval(scan_max="none"), False),
        (AutoApproval(scan_max="odd"), False),
        (AutoApproval(scan_max="low"), True),
        (AutoApproval(no_new_capabilities=True), True),
    ],
)
def test_a_rule_has_a_condition_that_holds_or_it_approves_of_nothing(auto: AutoApproval | None, approves: bool) -> None:
    assert (automatic_approval(terms(auto=auto), **{**FINE, "signer": ""}) is not None) is approves


def test_a_scan_that_failed_never_counts_as_clean() -> None:
    no_new = AutoApproval(no_new_capabilities=True)
    assert automatic_approval(terms(auto=no_new), **{**FINE, "scan_status": "error"}) is None


@pytest.mark.covers("A-17")
def test_what_policy_approves_of_is_recorded_with_the_rule_once(scope: TenantScope) -> None:
    clock = FakeClock(0)
    effective = terms(quorum=2, expires=60)

    def approve() -> Approval:
        given = approve_automatically(
            scope, effective, PDF, capabilities=["scripts"], rule="auto-approve-when: x", actor=USER, clock=clock
        )
        assert given is not None
        return given

    given = approve()
    assert approve() == given
    assert (given.rule, given.grants, given.expires_at) == ("auto-approve-when: x", ("scripts",), timestamp(60))
    assert standing_of(scope, quorum=2, now=1).grants == {"scripts"}
    assert trail(scope, "rule", "digest", "approval") == [
        ("approval.automatic", "auto-approve-when: x", PDF.digest, given.id)
    ]
    clock.advance(60)
    assert approve().id != given.id


def test_what_a_person_took_back_policy_does_not_give_again(scope: TenantScope) -> None:
    def approve() -> Approval | None:
        return approve_automatically(scope, DEFAULT, PDF, capabilities=["scripts"], rule="r", actor=USER)

    given = approve()
    assert given is not None
    revoke(scope, DEFAULT, ADA, given.id, reason="Not this one.")
    assert approve() is None
    assert not standing_of(scope).is_approved
    grant(scope, DEFAULT, ADA, ask(scope).id)
    assert standing_of(scope).is_approved


def test_what_a_person_refused_policy_does_not_approve_of(scope: TenantScope) -> None:
    deny(scope, DEFAULT, ADA, ask(scope).id, reason="no")
    assert approve_automatically(scope, DEFAULT, PDF, capabilities=["scripts"], rule="r", actor=USER) is None


@pytest.mark.covers("ENV-1")
def test_requests_of_one_moment_are_listed_in_the_order_they_were_made(scope: TenantScope) -> None:
    asked = [
        ask(scope, replace(PDF, digest=f"sha256:{number:064}", name=f"s{number}"), clock=lambda: 0.0)
        for number in range(20)
    ]
    assert [one.id for one in scope.approvals.requests()] == [one.id for one in asked]
    given = [grant(scope, DEFAULT, ADA, one.id, clock=lambda: 0.0) for one in asked]
    assert [one.id for one in scope.approvals.all()] == [one.id for one in given]
