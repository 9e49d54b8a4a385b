"""Requests that nobody has to answer any more."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from metier import Guard, Library
from metier.errors import Refused, RequestNotFound
from metier.guard import Actor, Subject
from metier.guard.approvals.decisions import grant
from metier.guard.approvals.requests import expire_requests, request_approval, supersede_requests
from metier.guard.governance import Governance
from metier.guard.policy.files import Policies
from metier.skill import FolderPackage
from metier.store import ApprovalRequest, Person, Store, TenantScope

DAY = 86_400.0
ADA = Person(name="ada", roles=frozenset({"admin"}))
POLICY = "skill-policy: {require-approval-for: [scripts], approval: {expires: 30d}}"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path}/metier.db") as store:
        yield store


@pytest.fixture
def scope(store: Store) -> TenantScope:
    return store.of()


@pytest.fixture
def guard(store: Store) -> Guard:
    return Guard(governance=Governance(Policies(texts=[("enterprise", POLICY)]), store=store.url))


@pytest.fixture
def library(tmp_path: Path, write_skill: Callable[..., Path]) -> Library:
    write_skill(tmp_path / "skills/deploy")
    (tmp_path / "skills/deploy/scripts").mkdir()
    (tmp_path / "skills/deploy/scripts/go.py").write_text("print('go')\n")
    return Library.from_folder(tmp_path / "skills", cache=False)


def asked(scope: TenantScope, guard: Guard, library: Library) -> ApprovalRequest:
    """The request that waits once a skill was to be used."""
    library.refresh()
    with pytest.raises(Refused, match="needs an approval"):
        library.session(guard=guard, user="eve").load("deploy")
    (found,) = scope.approvals.requests("pending")
    return found


def statuses(scope: TenantScope) -> list[str]:
    return [one.status for one in scope.approvals.requests()]


def test_a_request_that_waited_longer_than_an_answer_would_count_expires(
    scope: TenantScope, guard: Guard, library: Library
) -> None:
    waits, effective = asked(scope, guard, library), guard.governance.effective
    assert expire_requests(scope, effective, clock=lambda: time.time() + 29 * DAY) == []
    assert [one.id for one in expire_requests(scope, effective, clock=lambda: time.time() + 31 * DAY)] == [waits.id]
    assert statuses(scope) == ["expired"]
    (record,) = scope.audit.search(type="approval.expired")
    assert record["request"] == waits.id
    with pytest.raises(RequestNotFound, match="it is expired"):
        grant(scope, effective, ADA, waits.id)
    assert expire_requests(scope, effective, clock=lambda: time.time() + 31 * DAY) == []


def test_where_approvals_last_for_ever_requests_wait_for_ever(
    scope: TenantScope, guard: Guard, library: Library
) -> None:
    asked(scope, guard, library)
    forever = Governance(Policies(texts=[]), store=scope.store.url).effective
    assert expire_requests(scope, forever, clock=lambda: time.time() + 10_000 * DAY) == []


def test_whoever_needs_it_after_that_asks_anew(
    scope: TenantScope, guard: Guard, library: Library, tmp_path: Path
) -> None:
    folder = tmp_path / "skills/deploy"
    old = request_approval(
        scope,
        Subject(name="deploy", source="skills", layer="project", digest=FolderPackage(folder).digest()),
        capabilities=["scripts"],
        new=[],
        scripts={},
        actor=Actor(user="eve"),
        clock=lambda: time.time() - 40 * DAY,
    )
    new = asked(scope, guard, library)
    assert new.id != old.id
    assert sorted(statuses(scope)) == ["expired", "pending"]


@pytest.mark.parametrize("change", ["edited", "removed", "none"])
def test_a_request_for_content_that_is_not_there_any_more_is_superseded(
    scope: TenantScope, guard: Guard, library: Library, tmp_path: Path, change: str
) -> None:
    waits = asked(scope, guard, library)
    if change == "edited":
        (tmp_path / "skills/deploy/scripts/go.py").write_text("print('went')\n")
    elif change == "removed":
        shutil.rmtree(tmp_path / "skills/deploy")
    gone = [] if change == "none" else [waits.id]
    assert [one.id for one in supersede_requests(scope)] == gone
    assert statuses(scope) == ["superseded" if gone else "pending"]


@pytest.mark.parametrize("location", ["", "memory", "archive.zip/deploy", "there-is-no-drive:/x"])
def test_what_cannot_be_looked_at_may_still_be_there(scope: TenantScope, tmp_path: Path, location: str) -> None:
    (tmp_path / "archive.zip").write_bytes(b"PK")
    place = str(tmp_path / location) if location.startswith("archive") else location
    scope.approvals.request(ApprovalRequest(digest="sha256:" + "a" * 64, skill="deploy@x", location=place))
    assert supersede_requests(scope) == []
