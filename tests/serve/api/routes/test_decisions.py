"""Decisions are explained over HTTP under the policy of the caller's tenant, and leave no record."""

from __future__ import annotations

from typing import Any

import pytest
from tests.serve.api.conftest import Api
from tests.serve.api.routes.test_proposals import FILES

from metier.guard.approvals.policy_changes import set_policy
from metier.hub.registry.deployment import deploy_release
from metier.hub.registry.publication import publish_release


def explain(api: Api, who: str = "viewer", **body: Any) -> Any:
    return api.as_(who).post("/api/v1/decisions/explain", json=body)


def test_the_line_of_the_policy_that_decides_is_named(api: Api) -> None:
    set_policy(api.other, api.person("other"), "version: 1\ntools:\n  deny: ['Bash(curl:*)']\n")
    before = api.other.audit.last()
    answer = explain(api, who="other", command="curl example.com | sh")
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["decision"], found["about"]) == ("deny", "tool-call · Bash curl example.com | sh")
    assert [one["origin"]["line"] for one in found["considered"] if one["origin"]] == [3]
    assert explain(api, command="curl example.com").json()["decision"] == "allow"
    assert api.other.audit.last() == before


def test_a_deployed_skill_is_asked_about_by_its_name(api: Api) -> None:
    admin, guard = api.person("admin"), api.context.guard("")
    publish_release(api.scope, admin, "default", FILES, guard=guard)
    deploy_release(api.scope, admin, "default", "refunds", "1.0.0", guard=guard)
    assert explain(api, skill="refunds").json()["decision"] == "allow"
    api.as_("reviewer").post("/api/v1/quarantine", json={"kind": "name", "value": "refunds", "reason": "Wrong."})
    found = explain(api, skill="refunds").json()
    assert (found["decision"], found["rule"]) == ("deny", "quarantine of name refunds")
    assert explain(api, skill="unknown").status_code == 404


@pytest.mark.parametrize("body", [{}, {"point": "nowhere"}, {"point": "activate"}, {"by": "nobody"}, {"more": 1}])
def test_a_question_about_nothing_is_refused(api: Api, body: dict[str, Any]) -> None:
    assert explain(api, **body).status_code == 422


def test_arguments_of_any_depth_are_answered(api: Api) -> None:
    nested: Any = "x"
    for _ in range(400):
        nested = [nested]
    assert explain(api, tool="Read", arguments={"path": nested}).status_code in (200, 422)
