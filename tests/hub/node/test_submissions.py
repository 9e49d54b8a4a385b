"""What waits for people on a node: it is sent to the server with its contents, and answers come back."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.node_server import NodeServer

from metier.guard.governance import Governance
from metier.guard.node.exchange import NodeExchange
from metier.hub.node.content import bring_skills
from metier.hub.node.submissions import Submissions
from metier.library.places import node_skills_folder
from metier.skill.package import digest_of_files
from metier.source.unpack import unpack
from metier.store import ApprovalRequest, Proposal, Revision, TenantScope, revision_files

FILES = {"SKILL.md": ("file", b"---\nname: pdf\ndescription: Fills forms.\n---\nFill it.\n")}
DIGEST = digest_of_files(FILES)  # type: ignore[arg-type]


@pytest.fixture
def scope(exchange: NodeExchange) -> TenantScope:
    """The store of the node, with one content."""
    scope = Governance.default().scope()
    scope.revisions.put(Revision(digest=DIGEST, skill="pdf@personal", files=revision_files(FILES)), FILES)  # type: ignore[arg-type]
    return scope


def sent(server: NodeServer) -> list[tuple[str, str]]:
    return [(method, path) for method, path, _ in server.received if method in ("PUT", "POST")]


def test_a_waiting_request_is_sent_once_with_its_content(
    server: NodeServer, exchange: NodeExchange, scope: TenantScope
) -> None:
    request = scope.approvals.request(ApprovalRequest(digest=DIGEST, skill="pdf@personal", capabilities=("scripts",)))
    submissions = Submissions(exchange)
    submissions.submit()
    submissions.submit()
    assert sent(server) == [("PUT", f"/api/v1/contents/{DIGEST}"), ("POST", "/api/v1/nodes/me/requests")]
    assert unpack(server.received[0][2])["SKILL.md"].data == FILES["SKILL.md"][1]
    body = server.received[1][2]
    assert (body["id"], body["digest"], body["capabilities"]) == (request.id, DIGEST, ["scripts"])


def test_a_request_that_the_server_answered_waits_here_no_more(
    server: NodeServer, exchange: NodeExchange, scope: TenantScope
) -> None:
    request = scope.approvals.request(ApprovalRequest(digest=DIGEST, skill="pdf@personal"))
    # The server may have had a request for this content under another name.
    server.change(requests=[{"id": "r-other", "digest": DIGEST, "status": "denied"}])
    exchange.renew()
    Submissions(exchange).submit()
    found = scope.approvals.get_request(request.id)
    assert found is not None
    assert found.status == "denied"
    assert sent(server) == [("POST", "/api/v1/nodes/me/lease")]


def test_a_proposal_about_a_deployed_skill_goes_to_the_server_and_others_stay(
    server: NodeServer, exchange: NodeExchange, scope: TenantScope
) -> None:
    server.deploy("greet")
    exchange.renew()
    bring_skills(exchange)
    server.received.clear()
    for name, location in (
        ("greet@server", Path(node_skills_folder()) / "greet"),
        ("pdf@personal", Path("/skills/pdf")),
    ):
        scope.proposals.add(
            Proposal(skill=name, location=str(location), proposed_digest=DIGEST, justification="It is shorter.")
        )
    Submissions(exchange).submit()
    assert sent(server) == [("PUT", f"/api/v1/contents/{DIGEST}"), ("POST", "/api/v1/nodes/me/proposals")]
    proposal = scope.proposals.all("open", skill="greet@server")[0]
    server.change(proposals=[{"id": proposal.id, "status": "rejected", "comment": "Too short."}])
    exchange.renew()
    Submissions(exchange).submit()
    decided = scope.proposals.get(proposal.id)
    assert decided is not None
    assert (decided.status, decided.comment) == ("rejected", "Too short.")
