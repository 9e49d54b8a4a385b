"""`metier quarantine` and `metier quarantine release`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from metier import Library
from metier.cli.identity import system_user
from metier.errors import InvalidArgument, NotPermitted, Refused
from metier.guard.approvals.quarantine import quarantine, release, usage_of
from metier.guard.audit.log import AuditRecord
from metier.store import Install, Person, Store, TenantScope

Call = Callable[..., tuple[int, str, str]]

DIGEST = "sha256:" + "ab" * 32
ADA = Person(name="ada", roles=frozenset({"reviewer"}))
BOB = Person(name="bob", roles=frozenset({"admin"}))


@pytest.fixture(autouse=True)
def nobody_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("METIER_STORE", "METIER_DATA", "METIER_API_TOKEN"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def scope() -> Iterator[TenantScope]:
    with Store.open() as store:
        yield store.of()


@pytest.fixture
def skills(tmp_path: Path, write_skill: Callable[..., Path]) -> Path:
    write_skill(tmp_path / "skills" / "pdf-forms")
    return tmp_path / "skills"


def used(scope: TenantScope, **more: Any) -> None:
    given: dict[str, Any] = {
        "timestamp": "2026-01-01T00:00:00.000+00:00",
        "event": "load",
        "decision": "allow",
        "reason": "",
        "skill": "pdf-forms",
        "source": "acme",
        "digest": DIGEST,
        "user": "cyd",
        "session": "s-1",
    }
    scope.audit.append(AuditRecord(**{**given, **more}).as_dict())


@pytest.mark.covers("A-50")
def test_a_digest_is_out_of_use_from_the_next_decision_on(metier: Call, scope: TenantScope) -> None:
    assert scope.state().blocked == frozenset()
    code, out, err = metier("quarantine", "add", "--digest", DIGEST, "--reason", "It phones home.")
    assert (code, err) == (0, "")
    assert f"The digest {DIGEST} is in quarantine" in out
    assert scope.state().blocked == {("digest", DIGEST)}
    (block,) = scope.blocks.all()
    assert (block.reason, block.by) == ("It phones home.", system_user())
    record = scope.audit.tail(1)[0]
    assert (record["type"], record["digest"], record["reason"]) == ("skill.quarantined", DIGEST, "It phones home.")


@pytest.mark.covers("A-50")
def test_who_used_it_is_listed_with_when(metier: Call, scope: TenantScope) -> None:
    used(scope)
    used(scope, event="run", timestamp="2026-01-02T00:00:00.000+00:00")
    used(scope, session="s-2", user="dan", agent="helper", timestamp="2026-01-03T00:00:00.000+00:00")
    used(scope, session="s-3", user="eve", decision="deny")
    used(scope, session="s-4", user="fay", digest="sha256:" + "0" * 64, skill="other")
    code, out, _ = metier("quarantine", "add", "--digest", DIGEST, "--reason", "x", "--json")
    assert code == 0
    assert json.loads(out)["used"] == [
        {
            "session": "s-2",
            "user": "dan",
            "agent": "helper",
            "first": "2026-01-03T00:00:00.000+00:00",
            "last": "2026-01-03T00:00:00.000+00:00",
            "times": 1,
        },
        {
            "session": "s-1",
            "user": "cyd",
            "agent": "",
            "first": "2026-01-01T00:00:00.000+00:00",
            "last": "2026-01-02T00:00:00.000+00:00",
            "times": 2,
        },
    ]
    _, out, _ = metier("quarantine", "add", "--digest", DIGEST, "--reason", "x")
    assert "2 sessions used it, since 2026-01-01T00:00:00.000+00:00:\n" in out
    assert "2026-01-01T00:00:00.000+00:00  2026-01-02T00:00:00.000+00:00" in out
    assert "s-1" in out
    assert "dan" in out
    assert "eve" not in out


@pytest.mark.covers("A-50")
@pytest.mark.parametrize(
    ("kind", "value", "sessions"), [("name", "pdf-forms", ["s-2", "s-1"]), ("source", "acme", ["s-3", "s-1"])]
)
def test_usage_is_found_by_name_and_by_source_too(
    scope: TenantScope, kind: Any, value: str, sessions: list[str]
) -> None:
    used(scope)
    used(scope, session="s-2", source="other")
    used(scope, session="s-3", skill="notes")
    used(scope, session="s-4", skill="notes", source="other", reason="acme")
    assert [one.session for one in usage_of(scope, kind, value)] == sessions


def test_a_tool_call_while_it_was_loaded_is_usage(scope: TenantScope) -> None:
    used(scope, event="call", tool="Bash", skill="", digest="", source="", active=("pdf-forms",))
    assert [one.times for one in usage_of(scope, "name", "pdf-forms")] == [1]


def test_a_name_is_taken_as_the_skill_here_has_it(metier: Call, scope: TenantScope, skills: Path) -> None:
    code, out, _ = metier("quarantine", "add", "PDF-Forms", "--reason", "x", "--skills", skills)
    assert code == 0
    assert scope.state().blocked == {("name", "pdf-forms")}
    assert "Nothing with that name" not in out


def test_a_name_that_is_not_here_is_blocked_all_the_same_and_that_is_said(
    metier: Call, scope: TenantScope, skills: Path
) -> None:
    code, out, _ = metier("quarantine", "add", "pdf-from", "--reason", "x", "--skills", skills)
    assert code == 0
    assert "Nothing with that name was seen here" in out
    assert scope.state().blocked == {("name", "pdf-from")}


def test_everything_of_a_source_is_taken_out(metier: Call, scope: TenantScope) -> None:
    assert metier("quarantine", "add", "--source", "acme-tools", "--reason", "x")[0] == 0
    assert scope.state().blocked == {("source", "acme-tools")}


@pytest.mark.each(
    "words",
    [
        [],
        ["pdf"],
        ["--reason", "x"],
        ["pdf", "--reason", " "],
        ["pdf", "--reason", "x" * 3_000],
        ["pdf", "--digest", DIGEST, "--reason", "x"],
        ["pdf@acme", "--reason", "x"],
        ["--digest", "sha256:ab", "--reason", "x"],
        ["--digest", "\x1b[2J", "--reason", "x"],
        ["--source", " ", "--reason", "x"],
    ],
)
def test_what_cannot_be_meant_is_refused(metier: Call, scope: TenantScope, words: list[str]) -> None:
    code, out, err = metier("quarantine", "add", *words)
    assert (code, out) == (2, "")
    assert "\x1b" not in err
    assert scope.state().blocked == frozenset()


def test_a_digest_may_be_written_short_and_in_capitals(metier: Call, scope: TenantScope) -> None:
    assert metier("quarantine", "add", "--digest", "AB" * 32, "--reason", "x")[0] == 0
    assert scope.state().blocked == {("digest", DIGEST)}


@pytest.mark.covers("A-50")
def test_what_is_released_may_be_used_again(metier: Call, scope: TenantScope) -> None:
    metier("quarantine", "add", "pdf-forms", "--reason", "x")
    code, out, _ = metier("quarantine", "release", "Pdf-Forms", "--reason", "Looked at it.")
    assert (code, "may be used again" in out) == (0, True)
    assert scope.state().blocked == frozenset()
    record = scope.audit.tail(1)[0]
    assert (record["type"], record["skill"], record["reason"]) == ("skill.released", "pdf-forms", "Looked at it.")
    code, out, err = metier("quarantine", "release", "pdf-forms", "--reason", "x")
    assert (code, out) == (1, "")
    assert "was not in quarantine" in err
    assert metier("quarantine", "release", "pdf-forms")[0] == 2


def test_a_folder_that_was_taken_out_for_its_content_is_released_by_its_name(metier: Call, scope: TenantScope) -> None:
    install = Install(location="/x/pdf", skill="pdf", source="enterprise", digest=DIGEST, state="quarantined")
    scope.installs.put(install)
    assert "/x/pdf" in metier("quarantine", "list")[1]
    assert metier("quarantine", "release", "pdf", "--reason", "It was restored.")[0] == 0
    found = scope.installs.get("/x/pdf")
    assert found is not None
    assert found.state == "enabled"


def test_what_was_taken_out_for_its_content_says_that_a_check_did_it_and_when(
    metier: Call, scope: TenantScope, skills: Path
) -> None:
    entry = Library.from_folder(skills).get("pdf-forms")
    place = str(skills / "pdf-forms")
    scope.installs.put(
        Install(location=place, skill="pdf-forms", digest=DIGEST, by="ada", at="2026-01-01T00:00:00.000+00:00")
    )
    with pytest.raises(Refused, match="not what was recorded"):
        Library.from_folder(skills).session().load("pdf-forms")
    _, out, _ = metier("quarantine", "list")
    rows = [re.split(r"\s{2,}", line) for line in out.splitlines()]
    assert rows[0] == ["KIND", "WHAT", "BY", "AT", "WHY"]
    assert [row[:3] for row in rows[1:3]] == [
        ["digest", entry.package.digest(), "integrity check"],
        ["folder", place, "integrity check"],
    ]
    assert out.splitlines()[3].startswith("`metier rollback pdf-forms` restores")
    # When it was taken out, and not when it was put there.
    assert rows[1][3][:16] == rows[2][3][:16] != "2026-01-01T00:00"


def test_what_is_in_quarantine_is_listed(metier: Call) -> None:
    assert metier("quarantine", "list")[1] == "Nothing is in quarantine.\n"
    metier("quarantine", "add", "--source", "evil\x1b[2J", "--reason", "bad\x1b]0;x\x07\nnews")
    code, out, _ = metier("quarantine", "list")
    assert code == 0
    assert "\x1b" not in out
    assert len(out.splitlines()) == 2
    (block,) = json.loads(metier("quarantine", "list", "--json")[1])["blocks"]
    assert (block["kind"], block["value"]) == ("source", "evil\x1b[2J")


def test_reviewers_take_out_and_admins_release(scope: TenantScope) -> None:
    eve = Person(name="eve", roles=frozenset({"author"}))
    with pytest.raises(NotPermitted, match="'eve' may not take skills out of use"):
        quarantine(scope, eve, "name", "pdf", reason="x")
    assert scope.state().blocked == frozenset()
    quarantine(scope, ADA, "name", "pdf", reason="x")
    with pytest.raises(NotPermitted):
        release(scope, ADA, "name", "pdf", reason="x")
    assert release(scope, BOB, "name", "pdf", reason="x")
    types = [(one["type"], one["user"]) for one in scope.audit.tail(10)]
    assert types == [
        ("skill.refused", "eve"),
        ("skill.quarantined", "ada"),
        ("skill.refused", "ada"),
        ("skill.released", "bob"),
    ]


def test_tenants_are_apart() -> None:
    with Store.open() as store:
        quarantine(store.of("acme"), BOB, "name", "pdf", reason="x")
        used(store.of("acme"))
        assert store.of("other").state().blocked == frozenset()
        assert usage_of(store.of("other"), "name", "pdf-forms") == []
        assert not release(store.of("other"), BOB, "name", "pdf", reason="x")
        with pytest.raises(InvalidArgument):
            release(store.of("other"), BOB, "name", "", reason="x")
