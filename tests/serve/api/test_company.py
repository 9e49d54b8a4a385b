"""One story of three machines: an administrator deploys, a laptop obeys, and the server can prove what happened."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from tests.serve.machine import Machine, until
from tests.store.postgres import new_postgres_url

SKILL = """\
---
name: refunds
description: Decides about refunds.
metadata:
  version: {version}
---

Pay it back within {days} days.
"""


def write_skill(machine: Machine, version: str, days: int) -> str:
    folder = machine.work / f"refunds-{version}" / "refunds"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL.format(version=version, days=days))
    return str(folder)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> dict[str, str]:
    """The variables of a machine whose store is of a kind."""
    return {} if request.param == "sqlite" else {"METIER_STORE": new_postgres_url()}


@pytest.mark.slow
def test_a_laptop_is_bound_offline_and_the_server_proves_its_trail(database: dict[str, str], tmp_path: Path) -> None:
    host, admin, laptop = (
        Machine(tmp_path / name, **(database if name == "host" else {})) for name in ("host", "admin", "laptop")
    )
    if database:
        host.metier("store", "migrate")
    with host.server() as server:
        for machine in (admin, laptop):
            machine.environ["METIER_API_TOKEN"] = server.token
            machine.metier("login", server.url, "--name", machine.folder.name)
        del laptop.environ["METIER_API_TOKEN"]
        with laptop.agent() as agent:
            assert agent("load", "refunds")["error"] == "skill-not-found"

            # An administrator deploys; the running session of the laptop has it.
            admin.metier("deploy", write_skill(admin, "1.0.0", 14), "--reason", "For support")
            assert until(lambda: agent("load", "refunds") == {"changed": ["refunds"]}, 3)

            # A quarantine stops the running session.
            block = {"kind": "name", "value": "refunds", "reason": "Wrong law"}
            admin.metier("api", "POST", "quarantine", "--data", json.dumps(block))
            assert until(lambda: agent("decide", "refunds").get("error") == "skill-quarantined", 3)
            assert agent("read", "refunds")["error"] in ("skill-quarantined", "skill-not-active")

            # Offline, the laptop stays bound.
            server.stop()
            assert agent("decide", "refunds")["error"] == "skill-quarantined"
            assert laptop.metier("session", "refunds", "--json", code=None)["error"]["code"] == "skill-quarantined"

            # Back online, it ships its audit, of which nothing is missing.
            server.start(server.port)
            local = laptop.metier("audit", "tail", "--json", "-n", "1000")["records"]
            node = laptop.metier("node", "status", "--json")["node"]
            assert until(lambda: len(records_of(admin, node)) >= len(local))
            released = {**block, "reason": "Checked"}
            admin.metier("api", "POST", "quarantine/release", "--data", json.dumps(released))
            assert until(lambda: agent("decide", "refunds") == {"changed": ["refunds"]})
        assert host.metier("audit", "verify", "--json")["ok"] is True

        # Who rewrites what was sent is named.
        with sqlite3.connect(laptop.folder / "data" / "metier.db") as local_log:
            local_log.execute("DROP TRIGGER audit_log_no_update")
            local_log.execute("UPDATE audit_log SET data_json = replace(data_json, 'refunds', 'nothing') WHERE seq = 1")
        laptop.metier("node", "sync", code=3)
        fault = until(lambda: [one for one in admin.metier("node", "list", "--json")["nodes"] if one["fault"]])
        assert [(one["name"], one["status"]) for one in fault] == [("laptop", "tampered")]


def records_of(admin: Machine, node: str) -> list[object]:
    found: list[object] = admin.metier("api", "GET", f"audit?node={node}&limit=200")["items"]
    return found
