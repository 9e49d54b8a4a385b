"""A node for tests: enrolled over HTTP, with an audit log of its own in a store."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import uvicorn
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from starlette.testclient import TestClient
from tests.serve.api.conftest import Api

from metier.store import Store

NODES = "/api/v1/nodes"
_SECONDS = 20.0


class NodeClient:
    """A node, and what it asks of the server."""

    def __init__(self, api: Api, log: Store, by: str = "viewer", tenant: str = "") -> None:
        found = api.as_(by).post(NODES, json={"name": "laptop", "platform": "linux"})
        assert found.status_code == 201, found.text
        self.enrolled: dict[str, Any] = found.json()
        self.id: str = self.enrolled["id"]
        self.client = TestClient(api.app, headers={"Authorization": f"Bearer {self.enrolled['token']}"})
        self.audit = log.of(tenant).audit
        self.chain = tenant

    def note(self, count: int) -> None:
        """Write so many records to its own audit log."""
        for _ in range(count):
            self.audit.append({"timestamp": "2026-11-19T10:00:00.000+00:00", "type": "skill.activated", "skill": "pdf"})

    def records(self, start: int = 1, end: int | None = None) -> list[dict[str, Any]]:
        """The records of its audit log, as it sends them."""
        every = self.audit.walk(start=start)
        return [
            {"seq": one.seq, "text": one.text, "previous": one.previous, "hash": one.hash}
            for one in every
            if end is None or one.seq <= end
        ]

    def send(self, records: list[dict[str, Any]], chain: str | None = None) -> Any:
        """Send records."""
        body = {"chain": self.chain if chain is None else chain, "records": records}
        return self.client.post(f"{NODES}/me/records", json=body)

    def compare(self, hashes: list[tuple[int, str]]) -> Any:
        """The first record that differs."""
        found = self.client.post(f"{NODES}/me/compare", json={"chain": self.chain, "hashes": hashes})
        assert found.status_code == 200, found.text
        return found.json()["differs"]

    def state(self) -> dict[str, Any]:
        """The state, once its signature was checked."""
        return self.open(self.client.get(f"{NODES}/me/state").json())

    def lease(self) -> dict[str, Any]:
        """A lease, once its signature was checked."""
        return self.open(self.client.post(f"{NODES}/me/lease", json={}).json())

    def open(self, envelope: dict[str, str]) -> dict[str, Any]:
        """The content of an envelope; raises for one that the server did not sign."""
        server = self.enrolled["server"]
        key = load_pem_public_key(server["public_key"].encode())
        assert isinstance(key, Ed25519PublicKey)
        assert envelope["key_id"] == server["key_id"]
        key.verify(base64.b64decode(envelope["signature"]), envelope["payload"].encode())
        found: dict[str, Any] = json.loads(envelope["payload"])
        return found


@contextlib.contextmanager
def listening(api: Api) -> Iterator[str]:
    """The address of a server that listens."""
    server = uvicorn.Server(uvicorn.Config(api.app, port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        end = time.monotonic() + _SECONDS
        while not server.started and time.monotonic() < end:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        api.context.stop()
        server.should_exit = True
        thread.join()
