"""The machine that serves is its own node: its log is not sent to itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.serve.machine import Machine


@pytest.mark.slow
def test_the_log_of_the_server_is_not_sent_to_the_server(tmp_path: Path) -> None:
    host = Machine(tmp_path / "host")
    with host.server() as server:
        host.environ["METIER_API_TOKEN"] = server.token
        host.metier("login", server.url)
        del host.environ["METIER_API_TOKEN"]
        before = len(host.metier("audit", "tail", "--json", "-n", "1000")["records"])
        for _ in range(3):
            host.metier("node", "sync")
        records = host.metier("audit", "tail", "--json", "-n", "1000")["records"]
        assert len(records) == before
        assert "node.checkpoint" not in {one["type"] for one in records}
