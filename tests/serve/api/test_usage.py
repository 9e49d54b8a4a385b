"""Usage, runs and metrics over HTTP."""

from __future__ import annotations

from typing import Any

from tests.serve.api.conftest import Api
from tests.serve.api.test_audit import add, record, ship


def used(kind: str, **more: Any) -> dict[str, Any]:
    about = {"skill": "deploy", "source": "acme", "layer": "enterprise", "skills": ["deploy@acme#1"]}
    return record(1, kind, **about, **more)


def test_usage_is_that_of_the_tenant(api: Api) -> None:
    add(api.scope, used("skill.activated", agent="clerk"), used("script.run", success=False, duration_ms=1_500))
    query = {"since": "2026-01-01", "until": "2026-01-31"}
    answer = api.as_("viewer").get("/api/v1/usage", params=query).json()
    assert [(row["name"], row["loads"], row["runs"], row["failures"]) for row in answer["rows"]] == [
        ("deploy@acme", 1, 1, 1)
    ]
    assert answer["total"]["duration"] == 1.5
    by_agent = api.as_("viewer").get("/api/v1/usage", params={**query, "by": "agent"}).json()
    assert sorted(row["name"] for row in by_agent["rows"]) == ["", "clerk"]
    assert api.as_("other").get("/api/v1/usage", params=query).json()["rows"] == []


def test_usage_counts_what_nodes_have_shipped_once(api: Api) -> None:
    query = {"since": "2026-01-01", "until": "2026-01-31", "by": "agent"}
    for number, agent in enumerate(("clerk", "scribe", "clerk"), 1):
        ship(api.scope, "n-1", used("skill.activated", agent=agent))
        rows = api.as_("viewer").get("/api/v1/usage", params=query).json()["rows"]
        assert sum(row["loads"] for row in rows) == number
    assert {row["name"]: row["loads"] for row in rows} == {"clerk": 2, "scribe": 1}


RUNS = [
    record(1, "script.run", path="a.py", skill="deploy", source="acme", exit_code=0, success=True, duration_ms=12.5),
    record(2, "skill.activated", agent="clerk", session="s-1"),
    record(3, "script.run", path="b.py", agent="clerk", session="s-1", exit_code=1, success=False),
    record(4, "tool.called", agent="clerk", session="s-1", tokens_in=5, tokens_out=7),
    record(5, "script.denied", path="c.py", decision="deny"),
    record(6, "script.run", path="d.py", exit_code=124, success=False),
]


def listed(api: Api, who: str = "viewer", **query: Any) -> list[dict[str, Any]]:
    answer = api.as_(who).get("/api/v1/runs", params=query)
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


def test_runs_of_scripts_and_of_agents_are_one_list(api: Api) -> None:
    add(api.scope, *RUNS)
    assert [(run["kind"], run["name"], run["outcome"], run["exit_code"]) for run in listed(api)] == [
        ("script", "d.py", "timed-out", 124),
        ("script", "c.py", "denied", None),
        ("agent", "clerk", "succeeded", None),
        ("script", "b.py", "failed", 1),
        ("script", "a.py", "succeeded", 0),
    ]
    (agent,) = listed(api, kind="agent")
    assert (agent["duration_ms"], agent["calls"], agent["failures"]) == (120_000, 1, 1)
    assert (agent["tokens_in"], agent["tokens_out"]) == (5, 7)
    assert [run["name"] for run in listed(api, outcome="failed")] == ["b.py"]
    assert [run["name"] for run in listed(api, skill="deploy")] == ["a.py"]
    assert listed(api, "other") == []


def test_pages_of_runs_have_every_run_once(api: Api) -> None:
    add(api.scope, *RUNS)
    more = {"agent": "clerk", "session": "s-1"}
    ship(api.scope, "n-1", record(2, **more), record(3, "script.run", path="e.py", exit_code=0, **more))
    names, cursor = [], None
    while True:
        query: dict[str, Any] = {"limit": 1} | ({"cursor": cursor} if cursor else {})
        page = api.as_("viewer").get("/api/v1/runs", params=query).json()
        names += [(run["kind"], run["name"], run["node"]) for run in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert len(names) == len(set(names)) == 7
    assert ("agent", "clerk", "n-1") in names
