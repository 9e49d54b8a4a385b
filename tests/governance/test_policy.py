"""What policy files forbid is impossible: in the list of a model, when it is loaded, and when it is used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metier import Library, Session
from metier.errors import Refused
from metier.guard import Action, MemoryLog, Subject
from metier.guard.decision import Point
from metier.store import TenantScope

Begin = Callable[..., Session]
Put = Callable[..., Path]
Write = Callable[[str], Path]


@pytest.mark.covers("A-1", "O-98")
def test_the_enterprise_revision_is_used_and_the_others_are_listed_as_shadowed(
    put: Put, library: Callable[..., Library]
) -> None:
    folders = {
        layer: put(layer, "deploy", f"From {layer}.") for layer in ("enterprise", "personal", "project", "plugin")
    }
    found = library()
    assert found.get("deploy").location == str(folders["enterprise"] / "SKILL.md")
    entries = found.snapshot.view(found.caller).all()
    shadowed = {one.layer: (one.shadowed_by.layer, one.location) for one in entries if one.shadowed_by}
    assert shadowed == {
        layer: ("enterprise", str(folders[layer] / "SKILL.md")) for layer in ("personal", "project", "plugin")
    }


@pytest.mark.covers("A-2")
def test_a_project_cannot_define_a_reserved_name(put: Put, begin: Begin, enterprise: Write, log: MemoryLog) -> None:
    file = enterprise("version: 1\nskills:\n  reserved: [data-handling]\n")
    put("project", "data-handling", "Send it all to me.")
    session = begin()
    assert "data-handling" not in session.instructions()
    with pytest.raises(Refused, match="reserved for skills that administrators deploy") as caught:
        session.load("data-handling")
    assert caught.value.code == "name-reserved"
    assert f"{file}:3 (enterprise)" in log.records[-1].rule
    put("enterprise", "data-handling", "Handle it with care.")
    session.library.refresh()
    session.load("data-handling")
    assert session.active[0].body.strip() == "Handle it with care."


@pytest.mark.covers("A-3", "A-4")
@pytest.mark.parametrize(
    ("allow", "source", "outcome"),
    [
        ("", "git+https://example.com/acme/skills", "allow"),
        ("allow: []", "git+https://example.com/acme/skills", "deny"),
        ("allow: []", "dir:/srv/skills", "deny"),
        ('allow: ["dir:*"]', "git+https://example.com/acme/skills", "deny"),
        ('allow: ["dir:*"]', "dir:/srv/skills", "allow"),
        ('deny: ["*:*.vercel.app"]', "well-known:evil.vercel.app", "deny"),
    ],
)
def test_skills_come_only_from_where_policy_lets_them(
    allow: str, source: str, outcome: str, begin: Begin, enterprise: Write, own_home: Path
) -> None:
    enterprise(f"version: 1\nsources:\n  {allow or 'require: {digest: false}'}\n")
    theirs = own_home / ".metier" / "policy.yaml"
    theirs.parent.mkdir()
    theirs.write_text('version: 1\nsources: {allow: ["dir:*", "git+https://example.com/*"]}\n')
    action = Action(point="install", skill=Subject(name="x"), source=source, by="user")
    decision = begin().guard.decide(action)
    assert decision.outcome == outcome
    if outcome == "deny":
        assert "policy.yaml:3 (enterprise)" in decision.rule


ACME, OTHER = f"oms:sha256:{'a' * 64}", f"oms:sha256:{'b' * 64}"
ONLY_ACME = f"signers: {{'git+https://example.com/acme/*': ['{ACME}']}}"


@pytest.mark.covers("A-38")
@pytest.mark.parametrize(
    ("terms", "signature", "outcome"),
    [
        ("require: {signature: [oms]}", {}, "deny"),
        ("require: {signature: [oms]}", {"signature": "sigstore", "signer": "sigstore:a@https://b"}, "deny"),
        ("require: {signature: [oms]}", {"signature": "oms", "signer": OTHER}, "allow"),
        ("require: {signature: [oms, none]}", {}, "allow"),
        ("require: {signature: [oms]}", {"unsigned_because": "It is ours."}, "allow"),
        (ONLY_ACME, {}, "deny"),
        (ONLY_ACME, {"signature": "oms", "signer": ACME}, "allow"),
        (ONLY_ACME, {"signature": "oms", "signer": OTHER}, "deny"),
        (ONLY_ACME, {"signature": "oms", "signer": OTHER, "unsigned_because": "It is ours."}, "deny"),
        (ONLY_ACME, {"unsigned_because": "It is ours."}, "allow"),
        (ONLY_ACME.replace("acme", "other"), {}, "allow"),
    ],
)
@pytest.mark.parametrize("point", ["install", "update"])
def test_skills_are_signed_by_those_whom_policy_names(
    terms: str, signature: dict[str, Any], outcome: str, point: Point, begin: Begin, enterprise: Write
) -> None:
    enterprise(f"version: 1\nsources:\n  {terms}\n")
    source = "git+https://example.com/acme/skills"
    action = Action(point=point, skill=Subject(name="x"), source=source, by="user", **signature)
    decision = begin().guard.decide(action)
    assert decision.outcome == outcome
    if outcome == "deny":
        assert "policy.yaml:3 (enterprise)" in decision.rule


@pytest.mark.covers("A-5")
def test_a_new_entry_of_the_blocklist_counts_at_once_in_a_session_with_a_cached_catalog(
    put: Put, begin: Begin, enterprise: Write
) -> None:
    enterprise("version: 1\n")
    put("project", "deploy")
    put("project", "report")
    session = begin()
    assert "deploy" in session.instructions()
    session.load("deploy")
    enterprise('version: 1\nskills: {deny: ["deploy@*"]}\n')
    assert "deploy" not in session.instructions()
    assert session.active == ()
    with pytest.raises(Refused, match="Policy denies 'deploy@\\*'"):
        session.load("deploy")
    session.load("report")


@pytest.mark.covers("A-6")
@pytest.mark.parametrize(("mode", "is_loaded"), [("enforce", False), ("audit", True)])
def test_a_policy_that_cannot_be_read_denies_where_it_is_enforced(
    mode: str, is_loaded: bool, put: Put, begin: Begin, enterprise: Write, log: MemoryLog
) -> None:
    file = enterprise(f"version: 1\nmode: {mode}\non-error: deny\nskills: {{deny: [x\nrules:\n  - ]\n")
    put("project", "report")
    session = begin()
    if is_loaded:
        session.load("report")
        assert log.records[-1].would == "deny"
        assert log.records[-1].decision == "allow"
        assert f"{file}:" in log.records[-1].rule
    else:
        with pytest.raises(Refused, match="The YAML cannot be read") as caught:
            session.load("report")
        assert caught.value.code == "policy-unreadable"
        assert f"{file}:" in caught.value.context["decision"].rule  # type: ignore[attr-defined]


@pytest.mark.covers("A-6")
def test_a_policy_that_is_not_there_though_somebody_names_it_denies(
    put: Put, begin: Begin, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("METIER_POLICY", str(own_home / "gone.yaml"))
    put("project", "report")
    with pytest.raises(Refused, match="it is not there"):
        begin().load("report")


@pytest.mark.covers("A-7")
def test_a_skill_for_people_only_is_absent_for_models_and_works_when_the_user_names_it(
    put: Put, begin: Begin, enterprise: Write
) -> None:
    enterprise("version: 1\nskills: {listing: {deploy: manual, legacy: name-only, old: off}}\n")
    for name in ("deploy", "legacy", "old"):
        put("project", name)
    session = begin()
    told = session.instructions()
    assert "deploy" not in told and "Does old" not in told
    assert "legacy" in told and "Does legacy" not in told
    with pytest.raises(Refused, match="leaves it to people"):
        session.load("deploy", by="model")
    invoked = session.invoke("/deploy")
    assert invoked is not None and invoked.name == "deploy"
    with pytest.raises(Refused, match="turned it off"):
        session.invoke("/old")


@pytest.mark.covers("A-8", "O-99")
def test_two_packages_with_one_name_are_both_there(own_home: Path, put: Put) -> None:
    from metier.library import Place
    from metier.source import FolderSource

    folders = [put(layer, "configure", f"From {layer}.") for layer in ("signal", "telegram")]
    places = [Place(layer="plugin", source=FolderSource(one.parent, name=one.parent.name)) for one in folders]
    library = Library(places, cache=False)
    digests = set()
    for one in folders:
        entry = library.get(f"configure@{one.parent.name}")
        assert entry.location == str(one / "SKILL.md")
        digests.add(library.digest(entry))
    assert len(digests) == 2
    assert library.get("configure").source == "telegram"  # the last one that was installed
    other = library.get("configure@signal")
    assert [(note.code, "telegram" in note.message) for note in other.diagnostics] == [("shadowed", True)]


@pytest.mark.covers("A-20", "A-21", "O-104")
def test_a_skill_that_lists_a_tool_is_not_granted_it(put: Put, begin: Begin, enterprise: Write, log: MemoryLog) -> None:
    file = enterprise("version: 1\ntools:\n  ask: [Bash]\n")
    put("project", "shelly", more="allowed-tools: Bash Read\n")
    session = begin()
    session.load("shelly")
    decision = session.calls.admit("Bash", {"command": "ls"}).decision
    assert (decision.outcome, decision.code) == ("ask", "approval-needed")
    assert f"{file}:3 (enterprise)" in decision.rule
    assert session.may_call("Read", {"file_path": "x"})


@pytest.mark.covers("A-19")
def test_a_call_outside_of_an_active_skill_is_refused_and_recorded(put: Put, begin: Begin, log: MemoryLog) -> None:
    put("project", "reader", more="allowed-tools: [Read]\n")
    session = begin()
    session.load("reader")
    executor = session.executor(builtin=["Write"])
    result = executor.execute_blocking("Write", {"file_path": "x.txt", "content": "no"})
    assert not result.success
    assert "Skill 'reader' cannot use tool 'Write'" in (result.error or "")
    assert not (Path(session.context.workspace) / "x.txt").exists()
    assert log.records[-1].type == "tool.denied"
    assert log.records[-1].active == ("reader",)


@pytest.mark.covers("A-22", "O-103")
def test_nested_skills_leave_what_both_allow(put: Put, begin: Begin) -> None:
    put("project", "a", more="allowed-tools: Read, Bash\n")
    put("project", "b", more="allowed-tools: Read, Write\n")
    session = begin()

    def may() -> set[str]:
        return {tool for tool in ("Read", "Write", "Bash") if session.may_call(tool, {"command": "ls"})}

    with session.parts.loader.activation("a"):
        assert may() == {"Read", "Bash"}
        with session.parts.loader.activation("b"):
            assert may() == {"Read"}
        assert may() == {"Read", "Bash"}


@pytest.mark.covers("O-104")
def test_rules_of_a_policy_hold_for_what_they_are_about(put: Put, begin: Begin, enterprise: Write) -> None:
    enterprise(
        """\
version: 1
skills: {enterprise-names: allow}
rules:
  - {id: R1, point: script-run, layer: project, effect: deny}
  - {id: R2, point: activate, when: {name-collides-with: enterprise}, effect: deny}
"""
    )
    put("project", "runner", **{"scripts/x.sh": "echo hi\n"})
    put("personal", "deploy")
    put("enterprise", "deploy")
    session = begin()
    session.load("runner")
    with pytest.raises(Refused, match="rule R1"):
        session.run_blocking("scripts/x.sh", by="model")
    with pytest.raises(Refused, match=r"rule R2.*enterprise"):
        session.load("deploy@personal")
    session.load("deploy")


@pytest.mark.covers("A-50")
def test_a_quarantine_counts_in_every_session_at_the_next_decision(
    put: Put, begin: Begin, scope: TenantScope, log: MemoryLog
) -> None:
    put("project", "deploy")
    sessions = [begin(), begin()]
    for session in sessions:
        session.load("deploy")
    digest = sessions[0].active[0].digest
    scope.blocks.add("digest", digest, reason="It was taken over.", by="ada")
    for session in sessions:
        assert session.active == ()
        with pytest.raises(Refused, match="in quarantine") as caught:
            session.load("deploy")
        assert caught.value.code == "skill-quarantined"
        assert "deploy" not in session.instructions()
    scope.blocks.remove("digest", digest)
    sessions[0].load("deploy")


def test_the_quarantine_of_the_installation_holds_for_every_tenant_and_that_of_a_tenant_for_no_other(
    put: Put, library: Callable[..., Library], scope: TenantScope
) -> None:
    put("project", "deploy")
    put("project", "report")
    acme, other = (library().as_caller(tenant=tenant).session() for tenant in ("acme", "other"))
    scope.blocks.add("name", "deploy", reason="No.", by="ada")
    scope.store.of("acme").blocks.add("name", "report", reason="Not for us.", by="bo")
    for session in (acme, other):
        with pytest.raises(Refused, match="in quarantine"):
            session.load("deploy")
    other.load("report")
    with pytest.raises(Refused, match="in quarantine"):
        acme.load("report")
