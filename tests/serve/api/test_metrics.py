"""Metrics over HTTP."""

from __future__ import annotations

import pytest
from tests.serve.api.conftest import Api
from tests.serve.api.test_audit import add
from tests.serve.api.test_usage import used

from metier.serve.api.settings import ServerSettings


def lines(api: Api, who: str) -> list[str]:
    answer = api.as_(who).get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    return answer.text.splitlines()


def test_metrics_count_requests_by_route_and_usage_by_skill(api: Api) -> None:
    add(api.scope, used("skill.activated"))
    for name in ("a", "b"):
        api.as_("viewer").get(f"/api/v1/skills/default/{name}")
    api.as_("viewer").get("/nothing/here")
    found = lines(api, "viewer")
    route = 'route="/api/v1/skills/{namespace}/{name}"'
    assert f'metier_http_requests_total{{method="GET",{route},status="404"}} 2' in found
    assert 'metier_http_requests_total{method="GET",route="other",status="404"} 1' in found
    assert f"metier_http_request_seconds_count{{{route}}} 2" in found
    assert 'metier_skill_loads_total{gen_ai_skill_name="deploy@acme"} 1' in found
    assert 'metier_waiting{kind="requests"} 0' in found
    assert found[-1] == "# EOF"


def test_metrics_parse_as_openmetrics(api: Api) -> None:
    api.as_("viewer").get("/api/v1/me")
    seen: set[str] = set()
    for line in lines(api, "viewer"):
        if line.startswith("# TYPE "):
            name = line.split()[2]
            assert name not in seen, "each family is there once"
            seen.add(name)
        elif not line.startswith("#"):
            value = line.rpartition(" ")[2]
            assert float(value) >= 0
            assert any(line.startswith(name) for name in seen)


def test_each_tenant_has_its_own_usage(api: Api) -> None:
    add(api.scope, used("skill.activated"))
    assert not [line for line in lines(api, "other") if "deploy@acme" in line]


class TestBeyondThisMachine:
    @pytest.fixture
    def settings(self) -> ServerSettings:
        return ServerSettings(allowed_hosts=("skills.example.com",))

    def test_metrics_take_a_credential(self, api: Api) -> None:
        assert api.as_("nobody").get("/metrics").status_code == 401
        assert api.as_("node").get("/metrics").status_code == 200


def test_on_this_machine_alone_anybody_reads_metrics(api: Api) -> None:
    assert "metier_deployed_skills 0" in lines(api, "nobody")
