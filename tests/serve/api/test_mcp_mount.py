"""The deployed skills of a tenant for MCP clients."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.serve.api.conftest import Api
from tests.serve.api.test_skills import publish, skill

from metier.hub.registry.deployment import deploy_release, undeploy

PATH = "/mcp"
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


class Client:
    """An MCP client of the older protocol, which has a session."""

    def __init__(self, http: TestClient, token: str) -> None:
        self._http = http
        self.headers = {**ACCEPT, "Authorization": f"Bearer {token}"}
        begun = self.post("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=INFO)
        assert begun.status_code == 200, begun.text
        self.headers["Mcp-Session-Id"] = begun.headers["mcp-session-id"]
        self._http.post(PATH, headers=self.headers, json={"jsonrpc": "2.0", "method": "notifications/initialized"})

    def post(self, method: str, **params: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return self._http.post(PATH, headers=self.headers, json=body)

    def call(self, tool: str, **arguments: Any) -> str:
        answer = self.post("tools/call", name=tool, arguments=arguments)
        assert answer.status_code == 200, answer.text
        lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")] or [answer.text]
        return json.dumps(json.loads(lines[-1])["result"])


INFO = {"name": "tests", "version": "1"}


@pytest.fixture
def served(api: Api) -> Api:
    """A server on whose nodes is one skill."""
    publish(api, skill("notes", "1.0.0", "Write release notes.", "Write them well."))
    deploy_release(api.scope, api.person("admin"), "default", "notes", "1.0.0", guard=api.context.guard(""))
    return api


def test_a_deployed_skill_is_loaded_by_a_client_with_its_token(served: Api) -> None:
    with TestClient(served.app, base_url="http://127.0.0.1") as http:
        client = Client(http, served.tokens["viewer"])
        assert "Write them well." in client.call("skills_load", names=["notes"])
        (record,) = served.scope.audit.search(type="skill.activated")
        assert (record["user"], record["skill"], record["source"]) == ("viewer", "notes", "registry:default")
        publish(served, skill("plots", "1.0.0", "Plot a file.", "Plot it."))
        deploy_release(
            served.scope, served.person("admin"), "default", "plots", "1.0.0", guard=served.context.guard("")
        )
        assert "Plot it." in client.call("skills_load", names=["plots"])
        served.scope.blocks.add("name", "plots", reason="Look at it.", by="admin")
        assert "Plot it." not in client.call("skills_load", names=["plots"])
        undeploy(served.scope, served.person("admin"), "notes")
        assert "Write them well." not in client.call("skills_load", names=["notes"])


def test_another_tenant_and_another_person_get_nothing_of_it(served: Api) -> None:
    with TestClient(served.app, base_url="http://127.0.0.1") as http:
        client = Client(http, served.tokens["viewer"])
        for name in ("author", "other"):
            stranger = {**client.headers, "Authorization": f"Bearer {served.tokens[name]}"}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            assert http.post(PATH, headers=stranger, json=body).status_code == 404, "it is nobody else's session"


def test_nobody_and_no_node_is_served(served: Api) -> None:
    with TestClient(served.app, base_url="http://127.0.0.1") as http:
        for name, status in (("nobody", 401), ("node", 403)):
            assert http.post(PATH, headers={**ACCEPT, **served.header(name)}, json={}).status_code == status
        cookie = {**ACCEPT, "Cookie": f"metier_session={served.tokens['viewer']}"}
        assert http.post(PATH, headers=cookie, json={}).status_code == 401


def test_a_server_starts_without_importing_mcp() -> None:
    code = "import sys, metier.serve.api.run; assert not {'mcp', 'mcp_types'} & set(sys.modules), sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
