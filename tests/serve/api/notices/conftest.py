"""A server that may tell receivers on this machine, and its worker at a time of choice."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.serve.api.conftest import Api
from tests.serve.api.notices.receiver import Receiver, receiving
from tests.store.postgres import postgres_url

from metier.guard import Actor
from metier.guard.audit.governance_events import record_event
from metier.serve.api.notices.deliveries import DeliveryWorker
from metier.serve.api.settings import ServerSettings, WebhookSettings

__all__ = ["postgres_url"]


class Notices:
    """The webhooks of a server, and a worker whose clock moves as a test wants."""

    def __init__(self, api: Api, receiver: Receiver) -> None:
        self.api = api
        self.receiver = receiver
        self.seconds = 1.0
        self.worker = self.new_worker()

    def new_worker(self) -> DeliveryWorker:
        """A worker as another process would have one."""
        return DeliveryWorker(self.api.context, clock=lambda: time.time() + self.seconds)

    def add(self, *events: str, **more: Any) -> dict[str, Any]:
        """A webhook to the receiver, as the API answers it."""
        body = {"url": self.receiver.url, "events": list(events) or ["quarantine"], **more}
        answer = self.api.as_("admin").post("/api/v1/webhooks", json=body)
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def quarantine(self, name: str = "miner") -> None:
        """A record of a skill that is taken out of use."""
        record_event(
            self.api.scope, "skill.quarantined", Actor(user="reviewer"), notes=(f"name {name}",), reason="It mines."
        )

    def log(self, webhook: dict[str, Any]) -> list[dict[str, Any]]:
        """The deliveries to a webhook, the newest first."""
        answer = self.api.as_("admin").get(f"/api/v1/webhooks/{webhook['id']}/deliveries")
        found: list[dict[str, Any]] = answer.json()["items"]
        return found

    def after(self, seconds: float) -> None:
        """Let some time pass, and deliver what is due."""
        self.seconds += seconds
        self.worker.run_once()


@pytest.fixture
def settings() -> ServerSettings:
    """Settings by which receivers may be on this machine."""
    return ServerSettings(webhooks=WebhookSettings(allow_private=True))


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver on loopback."""
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def notices(api: Api, receiver: Receiver) -> Iterator[Notices]:
    """The webhooks of a server with one receiver."""
    notices = Notices(api, receiver)
    yield notices
    notices.worker.stop()
