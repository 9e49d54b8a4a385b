"""The inventory of a node."""

from __future__ import annotations

import json
from pathlib import Path

from tests.node_server import NodeServer

from metier.guard.node.exchange import NodeExchange
from metier.hub.node.inventory import InventoryReport, build_inventory
from metier.skill import FolderPackage


def _skill(folder: Path) -> str:
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {folder.name}\ndescription: Reads files.\n---\nSecret words.\n")
    return FolderPackage(folder).digest()


def test_skills_are_listed_by_client_with_their_digests_and_without_bodies(own_home: Path, tmp_path: Path) -> None:
    digest = _skill(own_home / ".cursor" / "skills" / "pdf")
    _skill(own_home / ".metier" / "skills" / "notes")
    found = {one["client"]: one for one in build_inventory(tmp_path)["clients"]}
    assert "notes" in [one["name"] for one in found["metier"]["skills"]]
    path = str(own_home / ".cursor" / "skills" / "pdf")
    assert found["cursor"]["skills"] == [{"name": "pdf", "path": path, "digest": digest, "layer": "personal"}]
    assert "Secret" not in json.dumps(list(found.values()))


def test_a_skill_that_is_shadowed_is_listed_too(own_home: Path, tmp_path: Path) -> None:
    for client in (".cursor", ".claude"):
        _skill(own_home / client / "skills" / "pdf")
    found = build_inventory(tmp_path)["clients"]
    assert {one["client"] for one in found} >= {"claude-code", "cursor"}


def test_plugins_of_claude_code_are_listed_in_both_forms_of_its_file(own_home: Path, tmp_path: Path) -> None:
    folder = own_home / ".claude" / "plugins"
    folder.mkdir(parents=True)
    plugins = {"one@acme": {"version": "1.0.0", "installPath": "/p/one"}, "two@acme": [{"version": "2.0.0"}], "x": 7}
    (folder / "installed_plugins.json").write_text(json.dumps({"version": 2, "plugins": plugins}))
    (claude,) = (one for one in build_inventory(tmp_path)["clients"] if one["client"] == "claude-code")
    assert claude["plugins"][:2] == [
        {"name": "one@acme", "version": "1.0.0", "path": "/p/one"},
        {"name": "two@acme", "version": "2.0.0", "path": ""},
    ]


def test_an_inventory_is_sent_when_it_is_another_one(
    server: NodeServer, exchange: NodeExchange, own_home: Path, tmp_path: Path
) -> None:
    report = InventoryReport(exchange.connection)
    assert (report.send(), report.send()) == (True, False)
    _skill(own_home / ".cursor" / "skills" / "pdf")
    assert report.send()
    assert [path for _, path, _ in server.received if path.endswith("/inventory")] == ["/api/v1/nodes/me/inventory"] * 2
