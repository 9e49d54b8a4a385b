"""The audit log over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.serve.api.conftest import Api

from metier.store import TenantScope
from metier.store.audit_log import ChainPosition, chain_hash
from metier.store.canonical_json import serialize
from metier.store.node_records import NodeChain, SentRecord
from metier.store.nodes import ManagedNode

PATH = "/api/v1/audit"
LONG_AGO = {"until": "2026-02-01"}
"""What leaves out the records about the people of the fixture."""


def record(number: int, kind: str = "skill.activated", **more: Any) -> dict[str, Any]:
    moment = f"2026-01-01T10:{number:02}:00.000+00:00"
    return {"type": kind, "timestamp": moment, "event": "load", "decision": "allow", "reason": f"no. {number}", **more}


def add(scope: TenantScope, *records: dict[str, Any]) -> None:
    scope.audit.append_all(lambda: records)


def ship(scope: TenantScope, node: str, *records: dict[str, Any]) -> None:
    """Let a node ship its next records."""
    known = scope.nodes.get(node) or ManagedNode(id=node, name=node, person="viewer")
    if scope.nodes.get(node) is None:
        scope.nodes.add(known)
    last = scope.node_records.last(NodeChain(node=node, chain=""))
    sent = list[SentRecord]()
    for content in records:
        text = serialize({**content, "seq": last.seq + 1, "tenant": ""})
        assert text is not None
        sent.append(SentRecord(seq=last.seq + 1, text=text, previous=last.hash, hash=chain_hash(last.hash, text)))
        last = ChainPosition(seq=last.seq + 1, hash=sent[-1].hash)
    assert scope.node_records.accept(known, "", sent, {"reason": "It was sent."}).last == last


def found(api: Api, who: str = "viewer", **query: Any) -> list[dict[str, Any]]:
    answer = api.as_(who).get(PATH, params=LONG_AGO | query)
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


def test_records_are_found_the_newest_first(api: Api) -> None:
    add(api.scope, *map(record, range(1, 4)))
    assert [one["reason"] for one in found(api)] == ["no. 3", "no. 2", "no. 1"]


FILTERS: list[tuple[dict[str, Any], list[int]]] = [
    ({"skill": "pdf"}, [5]),
    ({"skill": "pdf@acme"}, [5]),
    ({"type": "tool"}, [4]),
    ({"type": "tool.denied"}, [4]),
    ({"outcome": "deny"}, [4]),
    ({"session": "s-1"}, [3]),
    ({"user": "ada"}, [2]),
    ({"agent": "clerk"}, [3]),
    ({"digest": "sha256:1"}, [5]),
    ({"since": "2026-01-01T10:04Z"}, [5, 4]),
    ({"until": "2026-01-01T10:02Z"}, [1]),
    ({"text": "NO. 2"}, [2]),
    ({"user": "ada", "agent": "clerk"}, []),
]


def test_a_filter_finds_what_fits_in_a_search_and_in_a_stream(api: Api) -> None:
    add(
        api.scope,
        record(1),
        record(2, user="ada"),
        record(3, agent="clerk", session="s-1"),
        record(4, "tool.denied", decision="deny"),
        record(5, skill="pdf", source="acme", digest="sha256:1"),
    )
    for query, numbers in FILTERS:
        reasons = [f"no. {number}" for number in numbers]
        assert [one["reason"] for one in found(api, **query)] == reasons, query
        assert [one["reason"] for one in streamed(api, after=0, **query)] == reasons[::-1], query


def test_pages_have_every_record_once_though_others_come(api: Api) -> None:
    add(api.scope, *map(record, range(1, 6)))
    ship(api.scope, "n-1", *(record(number, reason=f"sent {number}") for number in (2, 4, 7)))
    seen, cursor = [], None
    while True:
        query: dict[str, Any] = {"limit": 2, **LONG_AGO} | ({"cursor": cursor} if cursor else {})
        page = api.as_("viewer").get(PATH, params=query).json()
        seen += [one["reason"] for one in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
        add(api.scope, record(50))
    assert seen == ["sent 7", "no. 5", "no. 4", "sent 4", "no. 3", "no. 2", "sent 2", "no. 1"]


def test_records_of_one_node_are_found_alone(api: Api) -> None:
    add(api.scope, record(1))
    ship(api.scope, "n-1", record(2))
    ship(api.scope, "n-2", record(3))
    assert [(one["node"], one["reason"]) for one in found(api, node="n-1")] == [("n-1", "no. 2")]
    assert [one.get("node") for one in found(api)] == ["n-2", "n-1", None]
    assert found(api, node="n-3") == []


def test_a_record_of_a_node_that_was_changed_in_the_database_is_not_found(api: Api) -> None:
    ship(api.scope, "n-1", record(1), record(2))
    with api.scope.transaction():
        api.store.pool.change("UPDATE node_records SET session = 'forged' WHERE seq = 1", [])
    assert [one["reason"] for one in found(api)] == ["no. 2"]


def test_another_tenant_finds_nothing_of_it(api: Api) -> None:
    add(api.scope, record(1))
    ship(api.scope, "n-1", record(2))
    assert found(api, "other") == []
    assert found(api, "other", node="n-1") == []
    assert streamed(api, "other", after=0) == []
    assert "no. 1" not in api.as_("other").get(f"{PATH}/export").text
    assert [one["tenant"] for one in api.as_("other").get(f"{PATH}/verify").json()["chains"]] == ["other"]


@pytest.mark.each("cursor", ["x", "WyJhIl0", "WzFd", "WzEsImEiLCJiIiwiYyIsMCw5OTk5OTk5OTk5OTk5OTk5OTk5OTk5XQ"])
def test_a_cursor_of_something_else_is_a_problem(api: Api, cursor: str) -> None:
    answer = api.as_("viewer").get(PATH, params={"cursor": cursor})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-cursor")


def test_a_time_that_is_none_is_a_problem(api: Api) -> None:
    assert api.as_("viewer").get(PATH, params={"since": "soon"}).status_code == 422


def streamed(api: Api, who: str = "viewer", *, headers: dict[str, str] | None = None, **query: Any) -> list[Any]:
    """The records of a stream that ends at once, because the server is stopping."""
    api.context.stop()
    answer = api.as_(who).get(f"{PATH}/stream", params=LONG_AGO | query, headers=headers)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    return [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]


def test_a_stream_begins_behind_the_last_record_or_where_a_client_left_off(api: Api) -> None:
    add(api.scope, *map(record, range(1, 4)))
    assert streamed(api) == []
    last = found(api)[0]["seq"]
    assert [one["seq"] for one in streamed(api, after=last - 2)] == [last - 1, last]
    assert [one["seq"] for one in streamed(api, after=1, headers={"Last-Event-ID": f"{last - 1}"})] == [last]


def test_a_stream_has_what_nodes_ship_and_nothing_is_lost_by_who_comes_back(api: Api) -> None:
    add(api.scope, record(1))
    ship(api.scope, "n-1", record(2), record(3))
    ship(api.scope, "n-1", record(4))
    ship(api.scope, "n-2", record(5))
    everything = [(one.get("node"), one["reason"]) for one in streamed(api, after=0)]
    assert everything == [(None, "no. 1"), ("n-1", "no. 2"), ("n-1", "no. 3"), ("n-1", "no. 4"), ("n-2", "no. 5")]
    assert [one["reason"] for one in streamed(api, after=0, node="n-2")] == ["no. 5"]
    first = found(api, type="skill")[-1]["seq"]
    assert [one["reason"] for one in streamed(api, after=first)] == ["no. 2", "no. 3", "no. 4", "no. 5"]


def test_a_chain_is_verified_and_its_fault_is_named(api: Api) -> None:
    add(api.scope, *map(record, range(1, 4)))
    last = found(api)[0]["seq"]
    answer = api.as_("viewer").get(f"{PATH}/verify").json()
    assert answer["ok"] is True
    assert [(one["tenant"], one["records"], one["fault"]) for one in answer["chains"]] == [("", last, None)]
    # Whoever opens the database may switch its protection off.
    api.store.pool.execute("DROP TRIGGER audit_log_no_update")
    with api.scope.transaction():
        api.store.pool.change("UPDATE audit_log SET data_json = replace(data_json, 'no. 2', 'no. 9')", [])
    answer = api.as_("viewer").get(f"{PATH}/verify").json()
    assert answer["ok"] is False
    assert answer["chains"][0]["fault"]["seq"] == last - 1
    assert answer["unprotected"]


@pytest.mark.each("form", ["jsonl", "cloudevents", "otlp", "ocsf", "csv"])
def test_an_export_has_all_records(api: Api, form: str) -> None:
    add(api.scope, *map(record, range(1, 4)))
    answer = api.as_("viewer").get(f"{PATH}/export", params={"form": form})
    assert answer.status_code == 200
    assert all(f"no. {number}" in answer.text for number in range(1, 4))
    kind = "text/csv" if form == "csv" else "application/jsonl"
    assert answer.headers["content-type"].startswith(kind)


def test_no_record_is_shown_to_who_has_no_role(api: Api) -> None:
    for path in (PATH, f"{PATH}/stream", f"{PATH}/verify", f"{PATH}/export"):
        assert api.as_("nobody").get(path).status_code == 401
        assert api.as_("node").get(path).status_code == 403
