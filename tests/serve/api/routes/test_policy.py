"""The policy of a tenant over HTTP: whoever changes it has seen it, and nothing of it runs on the server."""

from __future__ import annotations

from typing import Any

import pytest
from tests.serve.api.conftest import Api

from metier.guard import Action, Actor

DENY = "version: 1\ntools:\n  deny: [WebFetch]\n"
TEXT = "/api/v1/policy/text"
CALL = Action(point="call", tool="WebFetch")


def put(api: Api, text: str, tag: str | None = '"0"', who: str = "admin") -> Any:
    headers = {} if tag is None else {"If-Match": tag}
    return api.as_(who).put(TEXT, json={"text": text, "reason": "We agreed."}, headers=headers)


def change(api: Api, statement: str) -> None:
    """Change a row past us, and something else, so that the state is read anew."""
    with api.scope.transaction():
        api.scope.store.pool.change(statement)
        api.scope.blocks.add("name", "anything", reason="Whatever.", by="admin")


def outcome(api: Api, tenant: str = "") -> str:
    return api.context.guard(tenant).decide(CALL, Actor(tenant=tenant or None)).outcome


def test_a_policy_counts_from_the_next_decision_on_and_is_recorded(api: Api) -> None:
    assert outcome(api) == "allow"
    empty = api.as_("viewer").get(TEXT)
    assert (empty.json()["number"], empty.headers["ETag"]) == (0, '"0"')
    changed = put(api, DENY)
    assert (changed.status_code, changed.headers["ETag"]) == (200, '"1"'), changed.text
    assert outcome(api) == "deny"
    record = api.scope.audit.tail(1)[0]
    assert (record["type"], record["user"], record["reason"]) == ("policy.changed", "admin", "We agreed.")
    found = api.as_("viewer").get("/api/v1/policy").json()
    assert found["values"]["tools.deny"] == {"value": [["WebFetch"]], "set_by": ["<policy 1>:3 (enterprise)"]}


def test_a_change_of_an_earlier_version_is_refused(api: Api) -> None:
    assert put(api, DENY).status_code == 200
    assert put(api, "version: 1\n").status_code == 412
    assert put(api, "version: 1\n", None).status_code == 428
    assert put(api, "version: 1\n", '"7", "1"').json()["number"] == 2
    assert put(api, DENY, "*").json()["number"] == 3
    late = api.as_("admin").put(TEXT, json={"text": DENY, "version": 1})
    assert late.status_code == 412
    assert api.as_("admin").put(TEXT, json={"text": DENY, "version": 3}).json()["number"] == 4
    listed = api.as_("viewer").get("/api/v1/policy/versions", params={"limit": 2}).json()
    assert [one["number"] for one in listed["items"]] == [4, 3]
    assert api.as_("viewer").get("/api/v1/policy/versions/1").json()["text"] == DENY
    assert api.as_("viewer").get("/api/v1/policy/versions/5").status_code == 404
    kept = api.as_("viewer").get(TEXT, headers={"If-None-Match": '"4"'})
    assert (kept.status_code, kept.content) == (304, b"")


@pytest.mark.parametrize("who", ["viewer", "author", "reviewer", "node"])
def test_only_an_admin_changes_it(api: Api, who: str) -> None:
    assert put(api, DENY, who=who).status_code == 403
    assert outcome(api) == "allow"


def test_an_agent_changes_no_policy_whatever_its_role(api: Api) -> None:
    api.as_("admin").put("/api/v1/people/robot", json={"roles": ["admin"], "kind": "agent"})
    secret = api.as_("admin").post("/api/v1/tokens", json={"person": "robot"}).json()["secret"]
    headers = {"Authorization": f"Bearer {secret}", "If-Match": '"0"'}
    answer = api.as_("admin").put(TEXT, json={"text": DENY}, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (403, "not-permitted")
    assert api.scope.audit.tail(1)[0]["type"] == "policy.refused"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "line 1: The file says nothing."),
        ("mod: audit", "line 1: There is no key 'mod'."),
        ("notify: {run: [sh, -c, id]}", "line 1: `notify` is a matter of one machine"),
        ("store: sqlite:////tmp/other.db", "line 1: `store` is a matter of one machine"),
        ('scan: {engines: [{sarif: "cmd: id {dir}"}]}', "line 1: `scan.engines` is a matter of one machine"),
        ("scan: {suppressions: /etc/passwd}", "line 1: `scan.suppressions` is a matter of one machine"),
        ("audit: {key: /etc/key}", "line 1: `audit.key` is a matter of one machine"),
        ("machine: {environment: production}", "line 1: `machine.environment` is a matter of one machine"),
    ],
)
def test_a_text_with_errors_or_things_of_one_machine_is_no_policy(api: Api, text: str, wrong: str) -> None:
    answer = put(api, text)
    assert (answer.status_code, answer.json()["code"]) == (422, "policy-invalid")
    assert answer.json()["errors"][0].startswith(wrong)
    checked = api.as_("viewer").post("/api/v1/policy/check", json={"text": text}).json()
    assert not checked["is_sound"]
    assert api.scope.policy_versions.last() is None


def test_a_tenant_tightens_for_itself_alone(api: Api) -> None:
    assert put(api, DENY, who="other").status_code == 200
    assert (outcome(api), outcome(api, "other")) == ("allow", "deny")
    assert api.as_("admin").get(TEXT).json()["number"] == 0
    put(api, "version: 1\ntools:\n  deny: [WebSearch]\n")
    found: dict[str, Any] = api.as_("other").get("/api/v1/policy").json()["values"]["tools.deny"]
    assert sorted(found["value"]) == [["WebFetch"], ["WebSearch"]]


def test_a_policy_does_not_loosen_what_the_installation_says(api: Api) -> None:
    put(api, "version: 1\nrun: {scripts: deny}\n")
    put(api, "version: 1\nrun: {scripts: allow}\n", who="other")
    assert api.as_("other").get("/api/v1/policy").json()["values"]["run.scripts"]["value"] == "deny"


def test_a_row_that_no_record_vouches_for_is_nothing(api: Api) -> None:
    put(api, DENY)
    change(
        api,
        "INSERT INTO policy_versions (tenant, number, text, digest, by, reason, at) "
        "VALUES ('', 2, 'version: 1', 'x', 'eve', '', '2026')",
    )
    assert outcome(api) == "deny"
    assert api.as_("viewer").get(TEXT).json()["number"] == 1
    assert put(api, "version: 1\n", '"1"').json()["number"] == 3


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM policy_versions WHERE number = 2",
        "UPDATE policy_versions SET text = 'version: 1' WHERE number = 2",
        "UPDATE policy_versions SET number = 3 WHERE number = 2",
    ],
)
def test_a_policy_that_is_not_there_as_it_was_written_is_not_replaced_by_an_earlier_one(
    api: Api, statement: str
) -> None:
    put(api, "version: 1\n")
    put(api, DENY, '"1"')
    change(api, statement)
    found = api.as_("viewer").get("/api/v1/policy").json()
    assert found["files"][0]["is_broken"] and found["values"]["on-error"]["value"] == "deny"
    assert api.as_("viewer").get(TEXT).json()["is_intact"] is False
    repaired = put(api, DENY, '"2"')
    assert repaired.status_code == 200
    assert outcome(api) == "deny"


def test_callers_are_not_told_of_files_and_databases_of_the_server(api: Api) -> None:
    found = api.as_("viewer").get("/api/v1/policy").json()["values"]
    assert "mode" in found
    assert not {"store", "notify", "audit.key", "scan.suppressions", "machine.environment"} & set(found)
