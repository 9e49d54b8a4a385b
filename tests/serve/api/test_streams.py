"""Streams of records, while others write them."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import anyio
import pytest
from fastapi import Request
from starlette.testclient import TestClient
from tests.serve.api.conftest import Api
from tests.serve.api.test_audit import PATH, record

from metier.guard.approvals.people import remove_person
from metier.serve.api import streams


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(streams, "_BEAT_SECONDS", 0.05)


def follow(api: Api, pool: ThreadPoolExecutor) -> Future[Any]:
    """The answer to a viewer who follows the records of Ada from the first one on, once the stream has ended."""
    client = TestClient(api.app, headers=api.header("viewer"))
    return pool.submit(client.get, f"{PATH}/stream", params={"after": 0, "user": "ada"})


def test_a_stream_has_what_others_write_until_the_server_stops(api: Api) -> None:
    with ThreadPoolExecutor(1) as pool:
        answer = follow(api, pool)
        for number in range(1, 40):
            api.scope.audit.append(record(number, user="ada" if number % 2 else "bob"))
        api.context.stop()
        text: str = answer.result(30).text
    assert [line for line in text.splitlines() if '"bob"' in line] == []
    assert text.count("event: record") == 20


def test_a_stream_ends_with_the_credential_that_it_was_begun_with(api: Api) -> None:
    with ThreadPoolExecutor(1) as pool:
        answer = follow(api, pool)
        remove_person(api.scope, api.person("admin"), "viewer")
        found = answer.result(30)
        assert found.status_code in (200, 401), "it was removed while the stream was open, or before"
    assert not api.context.stopping.is_set()


def test_what_is_written_after_a_credential_was_revoked_is_not_in_its_stream(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "_BEAT_SECONDS", 60)
    header = (b"authorization", api.header("viewer")["Authorization"].encode())
    found = iter([["before"], ["after"]])

    def read_on() -> list[str]:
        (one,) = next(found)
        if one == "after":
            remove_person(api.scope, api.person("admin"), "viewer")
        return [one]

    async def main() -> list[str | None]:
        request = Request({"type": "http", "headers": [header]})
        return [one async for one in streams.watch(request, api.context, read_on)]

    assert anyio.run(main) == ["before"]
