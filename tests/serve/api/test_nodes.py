"""Nodes over HTTP: enrolment, state, leases, records, inventory, and what their users ask for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.serve.api.conftest import Api
from tests.serve.api.node_client import NODES, NodeClient

from metier.guard import Actor
from metier.guard.approvals.requests import supersede_requests
from metier.guard.audit.governance_events import record_event
from metier.guard.policy.file import PolicyFile
from metier.guard.policy.files import Policies
from metier.guard.policy.reader import parse_policy
from metier.skill.package import digest_of_files
from metier.store import Approval, Person, Revision, Store, revision_files
from metier.store.registry import Deployment

SKILL = {"SKILL.md": ("file", b"---\nname: pdf\ndescription: Reads PDF files.\n---\nRead it.\n")}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Store]:
    """The store of a laptop."""
    with Store.open(f"sqlite:///{tmp_path}/laptop/metier.db") as store:
        yield store


@pytest.fixture
def node(api: Api, log: Store) -> NodeClient:
    """A laptop that a viewer enrolled."""
    return NodeClient(api, log)


def _keep(api: Api, files: dict[str, tuple[str, bytes]] = SKILL) -> str:
    digest = digest_of_files(files)  # type: ignore[arg-type]
    kept = Revision(digest=digest, skill="pdf@server", files=revision_files(files))  # type: ignore[arg-type]
    api.scope.revisions.put(kept, files)  # type: ignore[arg-type]
    return digest


def test_an_enrolled_node_is_known_by_a_token_of_its_own(api: Api, node: NodeClient) -> None:
    me = node.client.get("/api/v1/me").json()
    assert (me["name"], me["kind"], me["roles"], me["tenant"]) == (node.id, "node", [], "")
    (listed,) = api.as_("viewer").get(NODES).json()["items"]
    assert (listed["id"], listed["name"], listed["person"], listed["status"]) == (node.id, "laptop", "viewer", "active")


def test_the_token_of_a_node_outlasts_that_of_its_person(api: Api, node: NodeClient) -> None:
    for one in api.scope.people.tokens():
        if one.person == "viewer":
            api.scope.people.revoke_token(one.id)
    assert node.client.get("/api/v1/me").status_code == 200


def test_a_node_enrols_no_other_node(node: NodeClient) -> None:
    assert node.client.post(NODES, json={"name": "x", "platform": ""}).status_code == 403


@pytest.mark.parametrize("name, status", [("admin", 204), ("viewer", 204), ("author", 403), ("other", 404)])
def test_a_node_is_revoked_by_an_admin_or_by_its_person(api: Api, node: NodeClient, name: str, status: int) -> None:
    assert api.as_(name).delete(f"{NODES}/{node.id}").status_code == status
    assert node.client.get("/api/v1/me").status_code == (401 if status == 204 else 200)


def test_the_state_is_signed_and_is_sent_once(api: Api, node: NodeClient) -> None:
    found = node.client.get(f"{NODES}/me/state")
    state = node.open(found.json())
    assert (state["format"], state["node"], state["tenant"]) == (1, node.id, "")
    assert state["server"] == node.enrolled["server"]["key_id"]
    again = node.client.get(f"{NODES}/me/state", headers={"If-None-Match": found.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_the_state_has_policy_decisions_and_deployments(api: Api, node: NodeClient) -> None:
    before = node.state()["number"]
    with api.scope.transaction():
        api.scope.policy_versions.add("version: 1\nskills: {deny: [miner]}\n", by="admin")
    api.scope.blocks.add("name", "coins", reason="It mines.", by="admin")
    digest = _keep(api)
    api.scope.approvals.add(Approval(digest=digest, skill="pdf@server", decided_by="reviewer"))
    api.scope.deployments.put(Deployment(name="pdf", namespace="acme", version="1.0.0", digest=digest))
    state = node.state()
    assert state["number"] > before
    assert [one["text"] for one in state["policies"]] == ["version: 1\nskills: {deny: [miner]}\n"]
    (own,) = state["states"]
    assert own["blocked"] == [["name", "coins", "admin"]]
    assert [(one["digest"], one["decision"]) for one in own["approvals"]] == [(digest, "approved")]
    (skill,) = state["skills"]
    assert (skill["name"], skill["version"], skill["digest"]) == ("pdf", "1.0.0", digest)
    archive = node.client.get(skill["archive"])
    assert archive.headers["Content-Type"] == "application/gzip"


def test_a_node_never_gets_the_address_of_the_store_or_a_program_of_the_server(
    api: Api, node: NodeClient, tmp_path: Path
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("version: 1\nnotify: {run: [mail]}\naudit: {key: /etc/key, checkpoint-every: 50}\n")
    api.context.governance("").policies.places = Policies.of_administrators("", str(file)).places
    api.scope.policy_versions.add("version: 1\n", by="admin")
    text = next(one["text"] for one in node.state()["policies"] if "policy.yaml" in one["name"])
    assert "/etc/key" not in text
    assert "notify" not in text
    assert "checkpoint-every: 50" in text


@pytest.mark.each(
    "text",
    [
        "version: 1\naudit.key: /etc/key\n",
        "audit: {key: /etc/key}\n",
        "version: 1\naudit: {key: /etc/key}\naudit: {checkpoint-every: 50}\n",
        "version: 1\nstore: [/etc/key]\n",
    ],
)
def test_no_way_to_write_a_key_of_the_server_lets_a_node_get_it(
    api: Api, node: NodeClient, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    api.context.governance("").policies.places = Policies.of_administrators("", str(file)).places
    api.scope.policy_versions.add("version: 1\n", by="admin")
    sent = next(one["text"] for one in node.state()["policies"] if "policy.yaml" in one["name"])
    assert "/etc/key" not in sent
    assert read(sent).is_broken == parse_policy(text, "server", "enterprise").is_broken


def test_the_state_has_the_contents_of_which_somebody_took_an_approval_back(api: Api, node: NodeClient) -> None:
    digest = _keep(api)
    given = api.scope.approvals.add(Approval(digest=digest, skill="pdf@server", decided_by="reviewer"))
    assert node.state()["states"][0]["revoked"] == []
    api.scope.approvals.revoke(given.id, "admin", "It sends files away.")
    (own,) = node.state()["states"]
    assert (own["approvals"], own["revoked"]) == ([], [digest])


def test_a_policy_of_a_tenant_that_names_a_program_is_none_on_a_node(api: Api, node: NodeClient) -> None:
    api.scope.policy_versions.add("version: 1\nnotify: {run: [id]}\nmode: audit\n", by="admin")
    (policy,) = node.state()["policies"]
    assert read(policy["text"]).is_torn


def read(text: str) -> PolicyFile:
    return parse_policy(text, "server", "enterprise")


def test_a_lease_names_the_state_that_it_is_for(api: Api, node: NodeClient) -> None:
    payload = node.client.get(f"{NODES}/me/state").json()["payload"]
    lease = node.lease()
    assert lease["state"] == hashlib.sha256(payload.encode()).hexdigest()
    assert lease["seconds"] == api.context.settings.nodes.lease_seconds
    api.scope.blocks.add("name", "coins", reason="It mines.", by="admin")
    assert node.lease()["state"] != lease["state"]


def test_records_are_accepted_once_and_in_order(api: Api, node: NodeClient) -> None:
    node.note(5)
    every = node.records()
    assert node.send(every[:3]).json() == {"chain": "", "seq": 3, "hash": every[2]["hash"], "is_own": False}
    assert node.send(every[:3]).json()["seq"] == 3
    assert node.send(every[1:]).json()["seq"] == 5
    (at,) = {one["through"] for one in api.scope.audit.search(type="node.checkpoint", limit=1)}
    assert at == 5
    assert len(api.scope.audit.search(type="node.checkpoint")) == 2
    assert node.client.get(f"{NODES}/me/records").json()["seq"] == 5


def test_reordered_records_of_a_batch_are_put_in_order(node: NodeClient) -> None:
    node.note(4)
    every = node.records()
    assert node.send([every[2], every[0], every[1], every[0], every[3]]).json()["seq"] == 4


def test_a_gap_is_named_and_nothing_behind_it_is_kept(node: NodeClient) -> None:
    node.note(5)
    every = node.records()
    node.send(every[:2])
    found = node.send(every[3:])
    assert (found.status_code, found.json()["code"], found.json()["expected"]) == (409, "record-gap", 3)
    assert node.client.get(f"{NODES}/me/records").json()["seq"] == 2


def _edited(record: dict[str, object]) -> dict[str, object]:
    return {**record, "text": str(record["text"]).replace("pdf", "xls")}


def _forged(record: dict[str, object]) -> dict[str, object]:
    text = str(record["text"]).replace("pdf", "xls")
    return {**record, "text": text, "hash": hashlib.sha256(f"{record['previous']}\n{text}".encode()).hexdigest()}


@pytest.mark.parametrize("change", [_edited, _forged])
def test_another_record_under_a_known_number_is_named_and_closes_the_log(
    api: Api, node: NodeClient, change: Callable[[dict[str, object]], dict[str, object]]
) -> None:
    node.note(4)
    every = node.records()
    node.send(every[:3])
    changed = change(every[1])
    found = node.send([changed])
    assert (found.status_code, found.json()["code"], found.json()["seq"]) == (409, "record-conflict", 2)
    (event,) = api.scope.audit.search(type="node.tampered")
    assert (event["node"], event["through"]) == (node.id, 2)
    assert api.as_("viewer").get(f"{NODES}/{node.id}").json()["status"] == "tampered"
    assert node.send(every).status_code == 409
    assert len(api.scope.audit.search(type="node.tampered")) == 1


def test_a_record_that_is_not_whole_is_a_conflict(node: NodeClient) -> None:
    node.note(3)
    every = node.records()
    found = node.send([every[0], _edited(every[1]), every[2]])
    assert (found.status_code, found.json()["seq"]) == (409, 2)


def test_an_admin_lets_a_changed_log_begin_anew(api: Api, node: NodeClient) -> None:
    node.note(3)
    every = node.records()
    node.send(every[:2])
    node.send([_forged(every[0])])
    path = f"{NODES}/{node.id}/reset"
    assert api.as_("reviewer").post(path, json={"reason": "no"}).status_code == 403
    assert api.as_("admin").post(path, json={"reason": "A new disk."}).json()["status"] == "active"
    assert node.send(every).json()["seq"] == 3
    assert [(one.chain, one.epoch) for one in api.scope.node_records.chains()] == [("", 0), ("", 1)]


def test_records_of_another_chain_or_node_are_refused(api: Api, node: NodeClient, log: Store) -> None:
    other = NodeClient(api, log, by="author", tenant="acme")
    other.note(2)
    assert node.send(other.records(), chain="").status_code == 409
    assert other.send(other.records()).json()["seq"] == 2


def test_a_comparison_names_the_first_record_that_differs(api: Api, node: NodeClient) -> None:
    node.note(6)
    hashes = [(one["seq"], one["hash"]) for one in node.records()]
    node.send(node.records()[:5])
    assert node.compare(hashes) is None
    assert node.compare([hashes[1], hashes[5]]) is None
    assert node.compare([*hashes[:2], (3, "0" * 64), (5, "0" * 64)]) == 3
    (event,) = api.scope.audit.search(type="node.tampered")
    assert event["through"] == 3


def test_a_log_that_was_cut_differs_behind_its_end(api: Api, node: NodeClient) -> None:
    node.note(6)
    every = node.records()
    node.send(every)
    assert node.compare([(4, every[3]["hash"])]) == 5
    assert node.compare([]) == 1


def test_the_inventory_of_a_node_is_shown_to_viewers(api: Api, node: NodeClient) -> None:
    sent = {"clients": [{"client": "cursor", "skills": [{"name": "pdf", "path": "~/x", "digest": "sha256:1"}]}]}
    assert node.client.put(f"{NODES}/me/inventory", json=sent).status_code == 204
    assert api.as_("viewer").get(f"{NODES}/{node.id}").json()["inventory"] == sent
    assert api.as_("other").get(f"{NODES}/{node.id}").status_code == 404


def test_a_request_is_kept_once_in_the_name_of_the_person_of_the_node(api: Api, node: NodeClient) -> None:
    sent = {
        "id": "r-12345678",
        "digest": _keep(api),
        "skill": "pdf@personal",
        "location": "/home/x",
        "requested_by": "eve",
    }
    assert node.client.post(f"{NODES}/me/requests", json=sent).status_code == 201
    assert node.client.post(f"{NODES}/me/requests", json=sent).json()["id"] == "r-12345678"
    (request,) = api.scope.approvals.requests()
    assert (request.requested_by, request.location, request.status) == ("viewer", f"{node.id}:/home/x", "pending")
    assert node.state()["requests"] == [{"id": request.id, "digest": request.digest, "status": "pending"}]
    (event,) = api.scope.audit.search(type="approval.requested")
    assert event["user"] == "viewer"


@pytest.mark.parametrize("folder", ["/no/such/folder", "C:\\skills\\pdf", "HERE"])
def test_a_request_of_a_node_waits_whatever_is_at_its_place_on_the_server(
    api: Api, node: NodeClient, tmp_path: Path, folder: str
) -> None:
    (tmp_path / "SKILL.md").write_text("---\nname: pdf\ndescription: Another.\n---\nAnother.\n")
    location = folder.replace("HERE", str(tmp_path))
    sent = {"id": "r-12345678", "digest": _keep(api), "skill": "pdf@personal", "location": location}
    assert node.client.post(f"{NODES}/me/requests", json=sent).status_code == 201
    assert supersede_requests(api.scope) == []
    assert node.state()["requests"][0]["status"] == "pending"


def test_a_request_about_a_content_that_was_not_sent_is_refused(node: NodeClient) -> None:
    sent = {"id": "r-12345678", "digest": f"sha256:{'0' * 64}", "skill": "pdf@personal"}
    assert node.client.post(f"{NODES}/me/requests", json=sent).status_code == 404


def test_a_proposal_is_kept_once_with_the_difference_that_the_server_sees(api: Api, node: NodeClient) -> None:
    base = _keep(api)
    changed = _keep(api, {"SKILL.md": ("file", SKILL["SKILL.md"][1] + b"Then say so.\n")})
    sent = {
        "id": "p-12345678",
        "skill": "pdf@server",
        "base_digest": base,
        "proposed_digest": changed,
        "justification": "It said nothing.",
        "author_kind": "agent",
        "author": "helper",
    }
    by_viewer = {**sent, "id": "p-22222222", "author_kind": "user"}
    assert node.client.post(f"{NODES}/me/proposals", json=by_viewer).json()["code"] == "not-permitted"
    assert node.client.post(f"{NODES}/me/proposals", json=sent).status_code == 201
    assert node.client.post(f"{NODES}/me/proposals", json=sent).json() == {"id": "p-12345678", "status": "open"}
    (proposal,) = api.scope.proposals.all()
    assert (proposal.author_kind, proposal.author, proposal.on_behalf_of) == ("agent", "helper", "viewer")
    assert "+Then say so." in proposal.diff
    assert node.state()["proposals"] == [{"id": "p-12345678", "status": "open", "comment": ""}]


def test_a_record_of_the_server_itself_does_not_change_the_state(api: Api, node: NodeClient) -> None:
    payload = node.client.get(f"{NODES}/me/state").json()["payload"]
    with api.scope.transaction():
        record_event(api.scope, "skill.deployed", Actor(user="ada"), "pdf@x")
    assert node.client.get(f"{NODES}/me/state").json()["payload"] == payload


def test_the_nodes_of_a_person_go_with_them(api: Api) -> None:
    api.scope.people.add(Person(name="leaver", roles=frozenset({"viewer"})))
    leaver = {"Authorization": f"Bearer {api.scope.people.new_token('leaver')[1]}"}
    made = api.as_("nobody").post("/api/v1/nodes", json={"name": "laptop"}, headers=leaver).json()
    own = {"Authorization": f"Bearer {made['token']}"}
    assert api.as_("nobody").get("/api/v1/nodes/me/state", headers=own).status_code == 200
    assert api.as_("admin").delete("/api/v1/people/leaver").status_code in (200, 204)
    assert api.as_("nobody").get("/api/v1/nodes/me/state", headers=own).status_code == 401
    assert api.as_("admin").get(f"/api/v1/nodes/{made['id']}").json()["status"] == "revoked"
