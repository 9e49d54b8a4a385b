"""Servers that share a store: each notice is sent, whichever of them dies while it sends."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.serve.api.notices.receiver import Receiver
from tests.serve.machine import Machine, Server, until

from metier.guard import Actor
from metier.guard.audit.governance_events import record_event
from metier.serve.api.notices.webhooks import add_webhook, new_secret
from metier.store import Person, Store, Webhook

RECORDS = 30


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_no_notice_is_lost_or_sent_by_two_when_a_server_is_killed(
    request: pytest.FixtureRequest, tmp_path: Path, receiver: Receiver, kind: str
) -> None:
    url = f"sqlite:///{tmp_path}/store/metier.db" if kind == "sqlite" else request.getfixturevalue("postgres_url")
    Store.migrate(url)
    host = Machine(tmp_path / "host", METIER_STORE=url)
    config = tmp_path / "server.yaml"
    config.write_text("access_log: false\nwebhooks: {allow_private: true}\n")
    with (
        Server(host, "--config", str(config)) as first,
        Server(host, "--config", str(config)),
        Store.open(url) as store,
    ):
        scope = store.of()
        admin = Person(name="root", roles=frozenset({"admin"}))
        wanted = Webhook(url=receiver.url, form="json", events=("quarantine",), secret=new_secret())
        add_webhook(scope, admin, wanted, allow_private=True)
        receiver.may_answer.clear()
        for number in range(RECORDS):
            record_event(scope, "skill.quarantined", Actor(user="root"), notes=(f"name skill-{number}",), reason="Bad.")
        assert receiver.arrived.acquire(timeout=60)
        first.stop(signal.SIGKILL)
        receiver.may_answer.set()
        # An attempt of the one that died counts as lost after a minute.
        until(lambda: len({one.json["data"]["id"] for one in receiver.received}) == RECORDS, 120)
        until(lambda: not scope.webhooks.has_pending(scope.webhooks.all()[0].id), 90)
    told = [one.json["data"]["id"] for one in receiver.received]
    assert set(told) == {f"name:skill-{number}" for number in range(RECORDS)}
    assert len(told) <= RECORDS + 1, "only the one that was under way may come again"
