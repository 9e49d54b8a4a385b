"""Who decides about proposals, and what becomes of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.hub.conftest import ADA, ADDS_SCRIPT, BOB, BUILDER, DIFF, EVE, diff_of, records

from metier import Guard, Library
from metier.errors import (
    InvalidArgument,
    MetierError,
    NotPermitted,
    ProposalNotFound,
    ProposalStale,
    Refused,
)
from metier.guard import Actor
from metier.hub.proposals import propose_update
from metier.hub.review import approve, recommend, reject, withdraw
from metier.library import Place
from metier.library.places import Layer
from metier.skill import FolderPackage
from metier.source import FolderSource
from metier.store import Person, Proposal, Store, TenantScope

Guarded = Callable[..., Guard]
REVIEWER = Person(name="reviewer", kind="agent", roles=frozenset({"admin"}))
LETS_REVIEWER = "rules: [{id: R9, point: apply, agent: reviewer, effect: allow}]"


@pytest.fixture
def proposal(library: Library, scope: TenantScope, guard: Guard) -> Proposal:
    return propose_update(library, scope, "deploy", DIFF, "Why.", author=BUILDER, guard=guard)


def is_unchanged(proposal: Proposal) -> bool:
    return FolderPackage(proposal.location).digest() == proposal.base_digest


@pytest.mark.covers("Y-34")
def test_a_rejected_proposal_changes_nothing_but_its_state(
    proposal: Proposal, scope: TenantScope, guard: Guard
) -> None:
    after = reject(scope, BOB, proposal.id, comment="Not now.", guard=guard)
    assert (after.status, after.reviewer, after.comment) == ("rejected", "bob", "Not now.")
    assert is_unchanged(proposal)
    (record,) = records(scope, "proposal.rejected")
    assert (record["proposal"], record["user"], record["reason"]) == (proposal.id, "bob", "Not now.")
    with pytest.raises(ProposalStale, match="rejected by 'bob'"):
        approve(scope, ADA, proposal.id, guard=guard)


@pytest.mark.covers("A-44")
def test_an_agent_cannot_approve_its_own_proposal(proposal: Proposal, scope: TenantScope, guarded: Guarded) -> None:
    lets = guarded(("enterprise", "rules: [{id: R9, point: apply, agent: builder, effect: allow}]"))
    for who in (BUILDER, Person(name="Builder", kind="agent", roles=frozenset({"admin"}))):
        with pytest.raises(NotPermitted, match="nobody decides about their own"):
            approve(scope, who, proposal.id, guard=lets)
    with pytest.raises(NotPermitted):
        reject(scope, BUILDER, proposal.id, comment="", guard=lets)
    assert scope.proposals.get(proposal.id) == proposal
    assert is_unchanged(proposal)
    assert records(scope, "proposal.approved") == records(scope, "proposal.rejected") == []
    refused = records(scope, "proposal.refused")
    assert [record["decision"] for record in refused] == ["deny", "deny", "deny"]
    tried = ["tried proposal.approved", "tried proposal.approved", "tried proposal.rejected"]
    assert [note for record in refused for note in record["notes"]] == tried  # type: ignore[attr-defined]


def test_a_person_does_not_approve_their_own_proposal_either(
    library: Library, scope: TenantScope, guard: Guard
) -> None:
    mine = propose_update(library, scope, "deploy", DIFF, "Why.", author=ADA, guard=guard)
    with pytest.raises(NotPermitted):
        approve(scope, ADA, mine.id, guard=guard)
    assert approve(scope, BOB, mine.id, guard=guard).status == "applied"


def test_to_decide_takes_a_role(proposal: Proposal, scope: TenantScope, guard: Guard) -> None:
    for decide in (approve, reject):
        with pytest.raises(NotPermitted, match="role reviewer"):
            decide(scope, EVE, proposal.id, comment="", guard=guard)
    assert is_unchanged(proposal)
    assert approve(scope, BOB, proposal.id, guard=guard).status == "applied"


def test_a_reviewer_agent_recommends_and_decides_nothing(proposal: Proposal, scope: TenantScope, guard: Guard) -> None:
    after = recommend(scope, REVIEWER, proposal.id, "approve", reason="SKILL.md:6 is right now.")
    assert after.status == "open"
    (told,) = after.recommendations
    assert (told["by"], told["verdict"], told["reason"]) == ("reviewer", "approve", "SKILL.md:6 is right now.")
    with pytest.raises(NotPermitted, match="is an agent"):
        approve(scope, REVIEWER, proposal.id, guard=guard)
    with pytest.raises(NotPermitted):
        recommend(scope, BUILDER, proposal.id, "approve", reason="Mine is good.")
    for verdict, reason in (("maybe", "x"), ("approve", " ")):
        with pytest.raises(InvalidArgument):
            recommend(scope, REVIEWER, proposal.id, verdict, reason=reason)  # type: ignore[arg-type]
    assert is_unchanged(proposal)
    assert len(records(scope, "proposal.recommended")) == 1
    assert len(records(scope, "proposal.refused")) == 2


@pytest.mark.parametrize(
    ("layer", "rule", "is_let"),
    [
        ("enterprise", LETS_REVIEWER, True),
        ("personal", LETS_REVIEWER, True),
        # Whoever writes a repository decides nothing, and a rule that names no agent lets none.
        ("project", LETS_REVIEWER, False),
        ("enterprise", "rules: [{id: R9, point: apply, effect: allow}]", False),
        ("enterprise", "rules: [{id: R9, agent: reviewer, effect: allow}]", False),
        ("enterprise", "rules: [{id: R9, point: apply, agent: other, effect: allow}]", False),
        ("enterprise", "rules: [{id: R9, point: apply, agent: reviewer, skill: 'pdf', effect: allow}]", False),
        ("enterprise", "rules: [{id: R9, point: apply, agent: reviewer, skill: 'deploy@*', effect: allow}]", True),
        (
            "enterprise",
            "rules: [{id: R9, point: apply, agent: reviewer, when: {capability: scripts}, effect: allow}]",
            False,
        ),
        ("enterprise", f"{LETS_REVIEWER[:-1]}, {{id: R1, point: apply, agent: reviewer, effect: deny}}]", False),
    ],
)
def test_a_reviewer_agent_decides_only_where_policy_lets_it(
    proposal: Proposal, scope: TenantScope, guarded: Guarded, layer: str, rule: str, is_let: bool
) -> None:
    guard = guarded((layer, rule))
    if is_let:
        assert approve(scope, REVIEWER, proposal.id, guard=guard).status == "applied"
        (record,) = records(scope, "proposal.approved")
        assert record["agent"] == "reviewer"
    else:
        with pytest.raises((NotPermitted, Refused)):
            approve(scope, REVIEWER, proposal.id, guard=guard)
        assert is_unchanged(proposal)


def test_policy_can_forbid_to_apply_by_what_the_new_content_can_do(
    library: Library, proposal: Proposal, scope: TenantScope, guarded: Guarded
) -> None:
    guard = guarded(("enterprise", "rules: [{id: R5, point: apply, when: {capability: scripts}, effect: deny}]"))
    scripted = propose_update(library, scope, "deploy", ADDS_SCRIPT, "Why.", author=BUILDER, guard=guard)
    with pytest.raises(Refused, match="R5"):
        approve(scope, ADA, scripted.id, guard=guard)
    assert is_unchanged(scripted)
    assert approve(scope, ADA, proposal.id, guard=guard).status == "applied"


def test_a_reviewer_agent_is_nobody_to_ask(proposal: Proposal, scope: TenantScope, guarded: Guarded) -> None:
    guard = guarded(("enterprise", f"{LETS_REVIEWER[:-1]}, {{id: R1, point: apply, effect: ask}}]"))
    with pytest.raises(Refused, match="R1"):
        approve(scope, REVIEWER, proposal.id, guard=guard)
    assert is_unchanged(proposal)
    assert approve(scope, BOB, proposal.id, guard=guard).status == "applied"


@pytest.mark.parametrize("only", ["tenant: acme", "environment: prod", "tenant: acme, environment: prod"])
def test_rules_for_a_tenant_or_an_environment_count_when_a_proposal_is_applied(
    library: Library, store: Store, guarded: Guarded, only: str
) -> None:
    guard = guarded(("enterprise", f"rules: [{{id: R5, point: apply, {only}, effect: deny}}]"))
    acme = store.of("acme")
    made = propose_update(library, acme, "deploy", DIFF, "Why.", author=BUILDER, guard=guard)
    with pytest.raises(Refused, match="R5"):
        approve(acme, BOB, made.id, environment="prod", guard=guard)
    assert is_unchanged(made)
    (record,) = records(acme, "proposal.refused")
    assert (record["tenant"], record["environment"], record["decision"]) == ("acme", "prod", "deny")
    other = store.of("other")
    made = propose_update(library, other, "deploy", DIFF, "Why.", author=BUILDER, guard=guard)
    assert approve(other, BOB, made.id, environment="dev", guard=guard).status == "applied"
    (given,) = other.approvals.of(made.proposed_digest)
    assert (given.environment, given.layer) == ("dev", "project")


@pytest.mark.parametrize("layer", ["personal", "plugin"])
def test_what_is_applied_is_approved_in_the_layer_that_a_library_has_it_in(
    skill: Path, scope: TenantScope, guard: Guard, layer: Layer
) -> None:
    library = Library([Place(layer=layer, source=FolderSource(skill.parent, name="own"))], cache=False)
    made = propose_update(library, scope, "deploy", DIFF, "Why.", author=BUILDER, guard=guard)
    assert approve(scope, BOB, made.id, library=library, guard=guard).status == "applied"
    (given,) = scope.approvals.of(made.proposed_digest)
    assert (given.layer, given.location) == (layer, made.location)


def test_a_rule_lets_a_reviewer_agent_decide_for_its_tenant_and_environment(
    library: Library, store: Store, guarded: Guarded
) -> None:
    lets = "rules: [{id: R9, point: apply, agent: reviewer, tenant: acme, environment: dev, effect: allow}]"
    guard = guarded(("enterprise", lets))
    acme, other = store.of("acme"), store.of("other")
    for scope, environment in ((acme, "prod"), (acme, ""), (other, "dev")):
        made = propose_update(library, scope, "deploy", DIFF, "Why.", author=BUILDER, guard=guard)
        with pytest.raises(NotPermitted):
            approve(scope, REVIEWER, made.id, environment=environment, guard=guard)
    (made,) = acme.proposals.all("open")
    assert approve(acme, REVIEWER, made.id, environment="dev", guard=guard).status == "applied"


def test_what_a_tenant_has_in_quarantine_is_not_applied_there(library: Library, store: Store, guard: Guard) -> None:
    acme = store.of("acme")
    made = propose_update(library, acme, "deploy", DIFF, "Why.", author=BUILDER, guard=guard)
    acme.blocks.add("name", "deploy", reason="It is bad.", by="ada")
    with pytest.raises(Refused, match="quarantine"):
        approve(acme, BOB, made.id, guard=guard)
    assert is_unchanged(made)


def test_what_is_in_quarantine_is_not_applied(proposal: Proposal, scope: TenantScope, guard: Guard) -> None:
    scope.blocks.add("digest", proposal.proposed_digest, reason="It is bad.", by="ada")
    with pytest.raises(Refused):
        approve(scope, BOB, proposal.id, guard=guard)
    assert is_unchanged(proposal)


def test_only_the_author_withdraws(proposal: Proposal, scope: TenantScope, guard: Guard) -> None:
    for who in (ADA, REVIEWER, Person(name="builder", kind="user", roles=frozenset({"admin"}))):
        with pytest.raises(NotPermitted):
            withdraw(scope, who, proposal.id)
    assert withdraw(scope, BUILDER, proposal.id, comment="Better idea.").status == "withdrawn"
    assert is_unchanged(proposal)
    with pytest.raises(ProposalStale, match="withdrawn"):
        approve(scope, ADA, proposal.id, guard=guard)
    with pytest.raises(ProposalStale):
        recommend(scope, REVIEWER, proposal.id, "approve", reason="Good.")


@pytest.mark.covers("Y-35")
@pytest.mark.each("id", ["p-nothing0", "", "x" * 5_000, "p-'; DROP TABLE proposals; --", "\0\ud800"])
def test_a_proposal_that_does_not_exist_is_an_error(scope: TenantScope, guard: Guard, id: str) -> None:  # noqa: A002
    decisions: list[Callable[[], Proposal]] = [
        lambda: approve(scope, ADA, id, guard=guard),
        lambda: reject(scope, ADA, id, comment="", guard=guard),
        lambda: withdraw(scope, ADA, id),
        lambda: recommend(scope, ADA, id, "approve", reason="Good."),
    ]
    for decide in decisions:
        with pytest.raises(ProposalNotFound) as caught:
            decide()
        assert caught.value.hint


def test_tenants_do_not_decide_about_the_proposals_of_others(proposal: Proposal, store: Store, guard: Guard) -> None:
    acme = store.of("acme")
    with pytest.raises(ProposalNotFound):
        approve(acme, ADA, proposal.id, guard=guard)
    with pytest.raises(ProposalNotFound):
        withdraw(acme, BUILDER, proposal.id)


def test_of_several_who_decide_at_once_one_does(proposal: Proposal, scope: TenantScope, guard: Guard) -> None:
    came: list[str] = []
    begun = threading.Barrier(4)

    def decide(number: int) -> None:
        person = Person(name=f"person-{number}", roles=frozenset({"reviewer"}))
        begun.wait(30)
        try:
            if number % 2:
                came.append(approve(scope, person, proposal.id, guard=guard).status)
            else:
                came.append(reject(scope, person, proposal.id, comment="No.", guard=guard).status)
        except ProposalStale:
            came.append("late")
        except BaseException as failure:
            came.append(repr(failure))

    threads = [threading.Thread(target=decide, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    decided = scope.proposals.get(proposal.id)
    assert decided is not None
    assert sorted(came) == sorted(["late"] * 3 + [decided.status])
    assert is_unchanged(proposal) is (decided.status == "rejected")
    assert len(scope.versions.of(proposal.location)) == (0 if decided.status == "rejected" else 2)


def test_a_comment_is_bounded(proposal: Proposal, scope: TenantScope, guard: Guard) -> None:
    with pytest.raises(MetierError):
        reject(scope, ADA, proposal.id, comment="x" * 1_000_000, guard=guard)


def test_what_was_agreed_to_can_be_applied_later(
    proposal: Proposal, scope: TenantScope, guard: Guard, skill: Path, library: Library
) -> None:
    after = approve(scope, BOB, proposal.id, comment="Later.", apply=False, guard=guard)
    assert (after.status, after.reviewer) == ("approved", "bob")
    assert is_unchanged(proposal)
    assert approve(scope, ADA, proposal.id, library=library, guard=guard).status == "applied"
    assert "Two and a half." in (skill / "SKILL.md").read_text()
    other = propose_update(library, scope, "deploy", diff_of("Three.", "3.", 7), "Why.", author=BUILDER, guard=guard)
    approve(scope, BOB, other.id, apply=False, guard=guard)
    assert reject(scope, ADA, other.id, comment="After all, no.", guard=guard).status == "rejected"


DENIES_OWN = "skill-policy: {approval: {self-approval: deny}}"


@pytest.fixture
def of_bob(library: Library, scope: TenantScope, guard: Guard) -> Proposal:
    """What an agent proposed in a session of Bob's."""
    actor = Actor(agent="builder", user="bob", session="s1")
    return propose_update(library, scope, "deploy", DIFF, "Why.", author=BUILDER, actor=actor, guard=guard)


@pytest.mark.covers("A-15")
@pytest.mark.parametrize("name", ["bob", "Bob"])
def test_nobody_approves_what_their_own_agent_proposed_where_policy_says_so(
    of_bob: Proposal, scope: TenantScope, guarded: Guarded, name: str
) -> None:
    assert (of_bob.author_kind, of_bob.author, of_bob.on_behalf_of) == ("agent", "builder", "bob")
    guard = guarded(("enterprise", DENIES_OWN))
    bob = Person(name=name, roles=frozenset({"admin"}))
    for apply in (True, False):
        with pytest.raises(NotPermitted, match="their own request"):
            approve(scope, bob, of_bob.id, apply=apply, guard=guard)
    assert is_unchanged(of_bob)
    (record, _) = records(scope, "proposal.refused")
    assert (record["user"], record["proposal"], record["decision"]) == (name, of_bob.id, "deny")
    assert approve(scope, ADA, of_bob.id, guard=guard).status == "applied"


def test_whoever_sits_alone_approves_what_their_agent_proposed(
    of_bob: Proposal, scope: TenantScope, guard: Guard
) -> None:
    assert approve(scope, BOB, of_bob.id, guard=guard).status == "applied"


def test_an_agent_that_is_called_like_a_user_is_another(of_bob: Proposal, scope: TenantScope, guarded: Guarded) -> None:
    lets = "rules: [{id: R9, point: apply, agent: bob, effect: allow}]"
    guard = guarded(("enterprise", f"{DENIES_OWN}\n{lets}"))
    assert approve(scope, Person(name="bob", kind="agent"), of_bob.id, guard=guard).status == "applied"


def test_what_an_agent_proposed_for_somebody_they_may_reject_and_withdraw(
    of_bob: Proposal, scope: TenantScope, guarded: Guarded, library: Library
) -> None:
    guard = guarded(("enterprise", DENIES_OWN))
    assert reject(scope, BOB, of_bob.id, comment="No.", guard=guard).status == "rejected"
    actor = Actor(agent="builder", user="eve")
    made = propose_update(library, scope, "deploy", DIFF, "Why.", author=BUILDER, actor=actor, guard=guard)
    with pytest.raises(NotPermitted):
        withdraw(scope, BOB, made.id)
    assert withdraw(scope, EVE, made.id).status == "withdrawn"


def test_what_an_agent_proposes_for_two_people_are_two_proposals(
    of_bob: Proposal, scope: TenantScope, guard: Guard, library: Library
) -> None:
    made = [
        propose_update(
            library, scope, "deploy", DIFF, "Why.", author=BUILDER, actor=Actor(agent="builder", user=user), guard=guard
        )
        for user in ("bob", "eve")
    ]
    assert made[0].id == of_bob.id != made[1].id
    assert made[1].on_behalf_of == "eve"
