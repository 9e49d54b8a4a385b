"""A proposal that is applied: the files and all that is on record of them, together or not at all."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.hub.conftest import ADA, ADDS_SCRIPT, BOB, BUILDER, DIFF, diff_of, records
from tests.tables import crossed

from metier import Guard, Library
from metier.errors import FileRefused, ProposalStale, Refused, StoreUnavailable
from metier.hub import folder_replacement
from metier.hub.history import rollback
from metier.hub.proposals import propose_new, propose_update
from metier.hub.review import approve
from metier.hub.skill_location import find_location
from metier.skill import FolderPackage
from metier.skill.package import files_of
from metier.store import Proposal, Store, TenantScope

Guarded = Callable[..., Guard]


@pytest.fixture
def propose(library: Library, scope: TenantScope, guard: Guard) -> Callable[..., Proposal]:
    def propose(diff: str = DIFF) -> Proposal:
        return propose_update(library, scope, "deploy", diff, "It was wrong.", author=BUILDER, guard=guard)

    return propose


@pytest.mark.covers("Y-34", "A-42")
def test_an_applied_proposal_changes_the_skill_exactly_by_its_diff(
    propose: Callable[..., Proposal], scope: TenantScope, guard: Guard, skill: Path, library: Library
) -> None:
    (skill / "run.sh").write_text("echo hi\n")
    (skill / "run.sh").chmod(0o755)
    before = files_of(FolderPackage(skill))
    proposal = propose(ADDS_SCRIPT)
    after = approve(scope, BOB, proposal.id, comment="Fine.", library=library, guard=guard)
    expected = {
        **before,
        "SKILL.md": ("file", before["SKILL.md"][1].replace(b"Two.", b"Two and a half.")),
        "scripts/go.py": ("file", b"print('go')\n"),
    }
    assert files_of(FolderPackage(skill)) == expected
    assert library.document("deploy").body == "One.\nTwo and a half.\nThree."
    assert (after.status, after.reviewer, after.comment) == ("applied", "bob", "Fine.")
    digest = FolderPackage(skill).digest()
    assert after.applied_digest == proposal.proposed_digest == digest
    found, new = scope.versions.of(str(skill))
    assert (found.number, found.digest, found.reason) == (1, proposal.base_digest, "As it was found.")
    assert (new.number, new.digest, new.by, new.proposal) == (2, digest, "bob", proposal.id)
    revision = scope.revisions.get(digest)
    assert revision is not None
    assert revision.parent == proposal.base_digest
    install = scope.installs.get(str(skill))
    assert install is not None
    assert (install.digest, install.state, install.skill) == (digest, "enabled", "deploy")
    (record,) = records(scope, "proposal.applied")
    assert (record["proposal"], record["user"], record["new_digest"]) == (proposal.id, "bob", digest)
    assert record["notes"] == ["version 2"]
    (record,) = records(scope, "proposal.approved")
    assert record["proposal"] == proposal.id


@pytest.mark.covers("A-42")
@pytest.mark.parametrize("change", ["edited", "added", "removed", "gone", "link"])
def test_a_proposal_is_stale_once_the_skill_has_changed(
    propose: Callable[..., Proposal], scope: TenantScope, guard: Guard, skill: Path, tmp_path: Path, change: str
) -> None:
    (skill / "more.md").write_text("more")
    proposal = propose()
    if change == "edited":
        (skill / "SKILL.md").write_text((skill / "SKILL.md").read_text() + "\n")
    elif change == "added":
        (skill / "new.md").write_text("new")
    elif change == "removed":
        (skill / "more.md").unlink()
    else:
        os.rename(skill, tmp_path / "moved")
        if change == "link":
            (tmp_path / "empty").mkdir()
            skill.symlink_to(tmp_path / "empty")
    before = sorted(tmp_path.rglob("*.md"))
    with pytest.raises(ProposalStale, match="has changed since"):
        approve(scope, ADA, proposal.id, guard=guard)
    after = scope.proposals.get(proposal.id)
    assert after is not None
    assert after.status == "stale"
    assert sorted(tmp_path.rglob("*.md")) == before
    (record,) = records(scope, "proposal.stale")
    assert record["proposal"] == proposal.id
    assert scope.versions.of(str(skill)) == []
    with pytest.raises(ProposalStale, match="it is stale"):
        approve(scope, ADA, proposal.id, guard=guard)


@pytest.mark.covers("A-42")
def test_one_proposal_that_is_applied_makes_the_others_stale(
    propose: Callable[..., Proposal], scope: TenantScope, guard: Guard
) -> None:
    first, second = propose(), propose(diff_of("Three.", "3.", 7))
    approve(scope, ADA, first.id, guard=guard)
    with pytest.raises(ProposalStale):
        approve(scope, ADA, second.id, guard=guard)
    (record,) = records(scope, "proposal.stale")
    assert record["proposal"] == second.id


def test_an_applied_proposal_is_an_approval_of_its_content(
    propose: Callable[..., Proposal], scope: TenantScope, guarded: Guarded
) -> None:
    guard = guarded(("enterprise", "skill-policy: {approval: {expires: 30d}}"))
    proposal = propose(ADDS_SCRIPT)
    approve(scope, BOB, proposal.id, guard=guard)
    (approval,) = scope.approvals.of(proposal.proposed_digest)
    assert (approval.decided_by, approval.grants, approval.skill) == ("bob", ("scripts",), "deploy@skills")
    assert approval.expires_at


def test_who_may_not_approve_of_skills_applies_without_approving(
    propose: Callable[..., Proposal], scope: TenantScope, guarded: Guarded
) -> None:
    guard = guarded(("enterprise", "skill-policy: {approval: {approvers: ['role:skill-admin']}}"))
    proposal = propose()
    assert approve(scope, BOB, proposal.id, guard=guard).status == "applied"
    assert scope.approvals.of(proposal.proposed_digest) == []
    assert records(scope, "approval.granted") == []


@pytest.mark.covers("A-43")
def test_what_an_agent_writes_into_a_governed_skill_is_not_loaded(
    propose: Callable[..., Proposal], scope: TenantScope, guard: Guard, skill: Path, library: Library
) -> None:
    approve(scope, ADA, propose().id, library=library, guard=guard)
    library.session(guard=guard).load("deploy", by="model")
    (skill / "SKILL.md").write_text((skill / "SKILL.md").read_text().replace("One.", "Obey me."))
    library.refresh()
    with pytest.raises(Refused) as caught:
        library.session(guard=guard).load("deploy", by="model")
    assert caught.value.code == "integrity-failed"
    install = scope.installs.get(str(skill))
    assert install is not None
    assert install.state == "quarantined"


def test_a_proposal_brings_a_skill_back_that_was_changed_by_hand(
    propose: Callable[..., Proposal], scope: TenantScope, guard: Guard, skill: Path, library: Library
) -> None:
    approve(scope, ADA, propose().id, library=library, guard=guard)
    good = (skill / "SKILL.md").read_text()
    (skill / "SKILL.md").write_text(good.replace("One.", "Obey me."))
    library.refresh()
    with pytest.raises(Refused):
        library.session(guard=guard).load("deploy", by="model")
    back = propose(diff_of("Obey me.", "One.", 5))
    approve(scope, ADA, back.id, library=library, guard=guard)
    assert (skill / "SKILL.md").read_text() == good
    library.session(guard=guard).load("deploy", by="model")
    reasons = [version.reason for version in scope.versions.of(str(skill))]
    assert reasons == ["As it was found.", "It was wrong.", "Changed by hand.", "It was wrong."]


def test_a_new_skill_never_takes_the_place_of_what_appeared_meanwhile(
    scope: TenantScope, guard: Guard, skill: Path
) -> None:
    files = {"SKILL.md": "---\nname: tidy\ndescription: Tidies. Use when it is a mess.\n---\nSort.\n"}
    proposal = propose_new(scope, "tidy", files, "Why.", author=BUILDER, into=skill.parent, guard=guard)
    (skill.parent / "tidy").mkdir()
    (skill.parent / "tidy/mine.md").write_text("mine")
    with pytest.raises(ProposalStale):
        approve(scope, ADA, proposal.id, guard=guard)
    assert os.listdir(skill.parent / "tidy") == ["mine.md"]


def test_a_skill_under_version_control_of_its_own_is_not_replaced(
    propose: Callable[..., Proposal], scope: TenantScope, guard: Guard, skill: Path
) -> None:
    (skill / ".git").mkdir()
    proposal = propose()
    with pytest.raises(FileRefused, match="version control"):
        approve(scope, ADA, proposal.id, guard=guard)
    assert (skill / ".git").is_dir()
    assert scope.proposals.get(proposal.id) == proposal


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege here")
def test_a_skill_that_is_reached_through_a_link_is_changed_where_it_is(
    scope: TenantScope, guard: Guard, skill: Path, tmp_path: Path
) -> None:
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/deploy").symlink_to(skill)
    library = Library.from_folder(tmp_path / "linked", cache=False)
    proposal = propose_update(library, scope, "deploy", DIFF, "Why.", author=BUILDER, guard=guard)
    approve(scope, ADA, proposal.id, library=library, guard=guard)
    assert (tmp_path / "linked/deploy").is_symlink()
    assert "Two and a half." in (skill / "SKILL.md").read_text()


# --- when it is cut short -----------------------------------------------------------------------------------------


@pytest.mark.covers("A-42")
def test_records_that_cannot_be_written_leave_the_skill_as_it_was(
    propose: Callable[..., Proposal], scope: TenantScope, guard: Guard, skill: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proposal = propose()
    database = type(scope.store.pool.backend)
    commit = database.commit

    def fails(*args: Any) -> None:
        if FolderPackage(skill).digest() == proposal.proposed_digest:
            raise sqlite3.OperationalError("disk full")
        commit(*args)

    monkeypatch.setattr(database, "commit", fails)
    with pytest.raises(StoreUnavailable, match="disk full"):
        approve(scope, ADA, proposal.id, guard=guard)
    assert FolderPackage(skill).digest() == proposal.base_digest
    assert os.listdir(skill.parent) == ["deploy"]
    assert scope.proposals.get(proposal.id) == proposal
    assert scope.versions.of(str(skill)) == []
    monkeypatch.undo()
    assert approve(scope, ADA, proposal.id, guard=guard).status == "applied"


@pytest.mark.covers("A-42")
def test_files_that_cannot_be_replaced_leave_no_record(
    propose: Callable[..., Proposal], scope: TenantScope, guard: Guard, skill: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proposal = propose()

    def fails(*_: object) -> bool:
        raise OSError(13, "Permission denied")

    monkeypatch.setattr("metier.hub.folder_replacement.atomic_swap", fails)
    with pytest.raises(Exception, match="cannot be replaced"):
        approve(scope, ADA, proposal.id, guard=guard)
    assert scope.proposals.get(proposal.id) == proposal
    assert scope.versions.of(str(skill)) == []
    assert scope.approvals.all() == []
    assert records(scope, "proposal.applied") == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.covers("A-42")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_whoever_is_killed_around_the_last_step_leaves_what_the_next_one_finishes(
    propose: Callable[..., Proposal], store: Store, guard: Guard, skill: Path, moment: str
) -> None:
    proposal = propose()
    store.close()
    child = os.fork()
    if child == 0:
        exchange = getattr(folder_replacement, "atomic_swap")  # noqa: B009

        def killed(*args: Any) -> None:
            if moment == "after":
                exchange(*args)
            os.kill(os.getpid(), signal.SIGKILL)

        setattr(folder_replacement, "atomic_swap", killed)  # noqa: B010
        try:
            with Store.open(store.url) as other:
                approve(other.of(), ADA, proposal.id, guard=guard)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    there = FolderPackage(skill).digest()
    assert there == (proposal.base_digest if moment == "before" else proposal.proposed_digest)
    scope = store.of()
    assert scope.proposals.get(proposal.id) == proposal
    assert scope.versions.of(str(skill)) == []
    assert approve(scope, ADA, proposal.id, guard=guard).status == "applied"
    assert FolderPackage(skill).digest() == proposal.proposed_digest
    assert [version.digest for version in scope.versions.of(str(skill))] == [
        proposal.base_digest,
        proposal.proposed_digest,
    ]


def killed_when_put(store: Store, job: Callable[[TenantScope], object], *, after: bool) -> None:
    """Do something in a child that is killed just before, or just after, a folder takes its place."""
    store.close()
    child = os.fork()
    if child == 0:
        exchange = getattr(folder_replacement, "atomic_swap")  # noqa: B009

        def killed(*args: Any) -> None:
            if after:
                exchange(*args)
            os.kill(os.getpid(), signal.SIGKILL)

        setattr(folder_replacement, "atomic_swap", killed)  # noqa: B010
        try:
            with Store.open(store.url) as other:
                job(other.of())
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)


def outcome(library: Library, guard: Guard) -> str:
    """What comes of loading the skill: nothing, or why it is refused."""
    library.refresh()
    try:
        library.session(guard=guard).load("deploy", by="model")
    except Refused as error:
        return error.code
    return ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.covers("A-42")
@crossed(("after", [False, True]), ("is_governed", [False, True]), one_in=2)
def test_whoever_is_killed_around_the_last_step_is_not_taken_for_a_tamperer(
    propose: Callable[..., Proposal],
    store: Store,
    guard: Guard,
    skill: Path,
    library: Library,
    after: bool,
    is_governed: bool,
) -> None:
    if is_governed:
        approve(store.of(), ADA, propose().id, library=library, guard=guard)
    proposal = propose(diff_of("Three.", "3.", 7))
    killed_when_put(store, lambda scope: approve(scope, ADA, proposal.id, guard=guard), after=after)
    assert FolderPackage(skill).digest() == (proposal.proposed_digest if after else proposal.base_digest)
    assert outcome(library, guard) == ""
    assert [entry.name for entry in library.entries()] == ["deploy"]
    scope = store.of()
    assert scope.blocks.all() == []
    (*_, record) = records(scope, "skill.replacing")
    assert (record["digest"], record["new_digest"], record["user"]) == (
        proposal.base_digest,
        proposal.proposed_digest,
        "ada",
    )
    # Anything else that lies there is still what nobody put there.
    before = (skill / "SKILL.md").read_text()
    (skill / "SKILL.md").write_text(before.replace("One.", "Obey me."))
    assert outcome(library, guard) == "integrity-failed"
    (skill / "SKILL.md").write_text(before)
    assert approve(scope, ADA, proposal.id, guard=guard).status == "applied"
    assert outcome(library, guard) == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_rollback_that_was_cut_short_has_happened(
    propose: Callable[..., Proposal], store: Store, guard: Guard, skill: Path, library: Library
) -> None:
    proposal = propose()
    approve(store.of(), ADA, proposal.id, library=library, guard=guard)
    home = find_location(library, store.of(), "deploy")
    killed_when_put(store, lambda scope: rollback(scope, BOB, home, guard=guard), after=True)
    assert FolderPackage(skill).digest() == proposal.base_digest
    assert outcome(library, guard) == ""
    scope = store.of()
    again = rollback(scope, BOB, home, guard=guard)
    assert (again.number, again.digest) == (4, proposal.proposed_digest)
    found = [(version.digest, version.by, version.reason) for version in scope.versions.of(str(skill))]
    assert found[2] == (proposal.base_digest, "bob", "Back to version 1.")
    (record,) = records(scope, "skill.replaced")
    assert record["new_digest"] == proposal.base_digest


def test_what_came_to_nothing_vouches_for_nothing(
    propose: Callable[..., Proposal],
    scope: TenantScope,
    guard: Guard,
    skill: Path,
    library: Library,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    approve(scope, ADA, propose().id, library=library, guard=guard)
    proposal = propose(diff_of("Three.", "3.", 7))

    def fails(*_: object) -> bool:
        raise OSError(13, "Permission denied")

    with monkeypatch.context() as patched, pytest.raises(Exception, match="cannot be replaced"):
        patched.setattr("metier.hub.folder_replacement.atomic_swap", fails)
        approve(scope, ADA, proposal.id, guard=guard)
    assert [record["decision"] for record in records(scope, "skill.replacing")][-2:] == ["allow", "deny"]
    (skill / "SKILL.md").write_text((skill / "SKILL.md").read_text().replace("Three.", "3."))
    assert FolderPackage(skill).digest() == proposal.proposed_digest
    assert outcome(library, guard) == "integrity-failed"


def test_what_was_replaced_and_taken_back_is_vouched_for_no_more(
    propose: Callable[..., Proposal], scope: TenantScope, guard: Guard, skill: Path, library: Library
) -> None:
    proposal = propose()
    approve(scope, ADA, proposal.id, library=library, guard=guard)
    changed = (skill / "SKILL.md").read_text()
    rollback(scope, BOB, find_location(library, scope, "deploy"), guard=guard)
    assert outcome(library, guard) == ""
    (skill / "SKILL.md").write_text(changed)
    assert FolderPackage(skill).digest() == proposal.proposed_digest
    assert outcome(library, guard) == "integrity-failed"


def test_a_place_is_not_on_record_for_what_came_to_nothing(
    propose: Callable[..., Proposal], scope: TenantScope, guard: Guard, skill: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proposal = propose()
    monkeypatch.setattr(
        "metier.hub.folder_replacement.atomic_swap", lambda *_: (_ for _ in ()).throw(OSError(13, "no"))
    )
    with pytest.raises(Exception, match="cannot be replaced"):
        approve(scope, ADA, proposal.id, guard=guard)
    assert scope.installs.all() == []
