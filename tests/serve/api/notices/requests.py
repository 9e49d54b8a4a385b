"""Requests that wait for a decision."""

from __future__ import annotations

from tests.serve.api.conftest import Api

from metier.guard import Actor
from metier.guard.approvals.requests import request_approval
from metier.guard.decision import Subject
from metier.store import ApprovalRequest


def waiting_request(api: Api, name: str = "pdf", reason: str = "") -> ApprovalRequest:
    """A request of the author for a content of its own."""
    subject = Subject(name=name, source="acme", digest=f"sha256:{name.encode().hex():0<64}", layer="project")
    return request_approval(
        api.scope,
        subject,
        capabilities=["scripts"],
        new=["scripts"],
        scripts={},
        actor=Actor(user="author"),
        reason=reason,
    )
