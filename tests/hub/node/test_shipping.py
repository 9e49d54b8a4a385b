"""Shipping of the audit log, judged by the ledger of the server."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.serve.api.conftest import Api, api, settings
from tests.serve.api.node_client import NODES, NodeClient, listening

from metier.errors import IntegrityFailed, ServerRefused, ServerUnreachable
from metier.guard.audit.keys import known_keys
from metier.guard.audit.verification import ChainVerification, verify_store
from metier.guard.node.connection import ServerAnswer, ServerConnection
from metier.hub.node import shipping as shipping_module
from metier.hub.node.shipping import Shipping
from metier.store import Store
from metier.store.node_records import NodeChain

__all__ = ["api", "settings"]


class Faulty(ServerConnection):
    """A connection on which requests are lost, come twice, or answers are lost."""

    def __init__(self, url: str, token: str) -> None:
        super().__init__(url, token)
        self.faults: list[str] = []
        self.asked: list[tuple[str, str]] = []

    def request(self, method: str, path: str, *given: Any, **more: Any) -> ServerAnswer:
        """Ask, and fail as it is planned."""
        self.asked.append((method, path))
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "lost":
            raise ServerUnreachable("It is lost.")
        answer = super().request(method, path, *given, **more)
        if fault == "twice":
            answer = super().request(method, path, *given, **more)
        if fault == "unanswered":
            raise ServerUnreachable("The answer is lost.")
        return answer


class Laptop:
    """A node with a log of its own, which ships to a server that listens."""

    def __init__(self, folder: Path, api: Api, url: str) -> None:
        self.folder, self._api = folder, api
        self.store = Store.open(f"sqlite:///{folder}/metier.db")
        self.node = NodeClient(api, self.store)
        self.connection = Faulty(url, self.node.enrolled["token"])
        self.shipping = self.begin()

    def begin(self) -> Shipping:
        """Ship as a process that has just begun does."""
        self.shipping = Shipping(self.connection, self.store, str(self.folder))
        return self.shipping

    @property
    def path(self) -> Path:
        """The file of its database."""
        return self.folder / "metier.db"

    def rewrite(self, sql: str, *values: object) -> None:
        """Change its log behind the back of everybody."""
        with sqlite3.connect(self.path) as database:
            for trigger in ("no_update", "no_delete", "in_order"):
                database.execute(f"DROP TRIGGER IF EXISTS audit_log_{trigger}")
            database.execute(sql, values)
        self.store.heads.clear()

    @property
    def ledger(self) -> list[str]:
        """The hashes that the server has, in order."""
        node = self._api.scope.nodes.get(self.node.id)
        assert node is not None
        chain = NodeChain(node=node.id, chain="", epoch=node.epoch)
        return [one.hash for one in self._api.scope.node_records.walk(chain)]

    @property
    def own(self) -> list[str]:
        """The hashes that it has itself."""
        return [one.hash for one in self.node.audit.walk()]


@pytest.fixture
def laptop(tmp_path: Path, api: Api) -> Iterator[Laptop]:
    """A laptop of an organisation."""
    (tmp_path / "laptop").mkdir()
    with listening(api) as url:
        yield Laptop(tmp_path / "laptop", api, url)


def verified(api: Api, tmp_path: Path) -> list[ChainVerification]:
    """What `audit verify` says of the logs of nodes, once that of the server is found to be intact."""
    report = verify_store(known_keys(tmp_path / "no.key"), api.store.url, key_file=tmp_path / "no.key")
    assert all(chain.is_ok for chain in report.chains if not chain.node)
    return [chain for chain in report.chains if chain.node]


def test_all_records_are_shipped_in_order_and_proved(laptop: Laptop, api: Api, tmp_path: Path) -> None:
    laptop.node.note(1_203)
    assert laptop.shipping.ship() == 1_203
    laptop.node.note(2)
    assert laptop.shipping.ship() == 2
    assert laptop.ledger == laptop.own
    (chain,) = verified(api, tmp_path)
    assert (chain.node, chain.records, chain.checkpoints, chain.is_ok) == ("laptop", 1_205, 4, True)


def test_the_records_of_every_tenant_of_a_machine_are_shipped(laptop: Laptop, api: Api, tmp_path: Path) -> None:
    laptop.node.note(2)
    laptop.store.of("acme").audit.append({"type": "skill.activated", "skill": "pdf"})
    assert laptop.shipping.ship() == 3
    assert [chain.node for chain in verified(api, tmp_path)] == ["laptop", "laptop, log of acme"]


@pytest.mark.parametrize("fault", ["lost", "twice", "unanswered"])
def test_a_fault_of_the_network_loses_and_doubles_nothing(laptop: Laptop, fault: str, api: Api, tmp_path: Path) -> None:
    laptop.node.note(1_100)
    laptop.connection.faults = ["", fault, fault]
    for _ in range(3):
        try:
            laptop.shipping.ship()
        except ServerUnreachable:
            continue
    assert laptop.ledger == laptop.own
    assert all(chain.is_ok for chain in verified(api, tmp_path))


def test_a_process_that_begins_anew_goes_on_where_the_server_is(laptop: Laptop) -> None:
    laptop.node.note(3)
    laptop.shipping.ship()
    laptop.node.note(2)
    assert laptop.begin().ship() == 2


def test_a_server_that_was_brought_back_from_a_backup_gets_what_it_lacks(laptop: Laptop, api: Api) -> None:
    laptop.node.note(4)
    laptop.shipping.ship()
    with sqlite3.connect(api.store.url.removeprefix("sqlite:///")) as database:
        database.execute("DELETE FROM node_records WHERE seq > 1")
    laptop.node.note(1)
    laptop.shipping.ship()
    assert laptop.ledger == laptop.own


def test_long_records_go_in_several_requests(laptop: Laptop) -> None:
    for _ in range(30):
        laptop.node.audit.append({"type": "skill.activated", "reason": "é" * 100_000})
    assert laptop.shipping.ship() == 30
    assert len([one for one in laptop.connection.asked if one[0] == "POST"]) > 4


def test_a_record_that_was_changed_after_it_was_sent_is_named(
    laptop: Laptop, api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping_module, "_MAX_HASHES", 50)
    laptop.node.note(300)
    laptop.shipping.ship()
    laptop.shipping.verify()
    laptop.rewrite("UPDATE audit_log SET data_json = replace(data_json, 'pdf', 'xls') WHERE seq = 123")
    with pytest.raises(IntegrityFailed) as caught:
        laptop.begin().verify(whole=True)
    assert caught.value.context["seq"] == 123
    (chain,) = verified(api, tmp_path)
    assert chain.fault is not None
    assert (chain.node, chain.fault.kind, chain.fault.seq) == ("laptop", "tampered", 123)


def test_a_log_that_was_cut_or_removed_is_named(laptop: Laptop, api: Api) -> None:
    laptop.node.note(5)
    laptop.shipping.ship()
    laptop.shipping.verify()
    laptop.rewrite("DELETE FROM audit_log WHERE seq > 3")
    with pytest.raises(IntegrityFailed):
        laptop.begin().verify()
    assert api.scope.nodes.get(laptop.node.id).fault_at == 4  # type: ignore[union-attr]


def test_a_store_that_was_removed_is_named(laptop: Laptop, api: Api) -> None:
    laptop.node.note(2)
    laptop.shipping.ship()
    laptop.shipping.verify()
    with pytest.raises(IntegrityFailed):
        Shipping(laptop.connection, None, str(laptop.folder)).verify()


def test_a_log_that_was_changed_before_it_was_sent_is_named(laptop: Laptop) -> None:
    laptop.node.note(4)
    laptop.rewrite("UPDATE audit_log SET data_json = replace(data_json, 'pdf', 'xls') WHERE seq = 3")
    with pytest.raises(IntegrityFailed) as caught:
        laptop.shipping.ship()
    assert caught.value.context["seq"] == 3


def test_a_record_that_was_removed_before_it_was_sent_is_named(laptop: Laptop) -> None:
    laptop.node.note(4)
    laptop.rewrite("DELETE FROM audit_log WHERE seq = 2")
    with pytest.raises(IntegrityFailed) as caught:
        laptop.shipping.ship()
    assert caught.value.context["seq"] == 2


def test_a_log_that_begins_anew_is_sent_as_a_whole(laptop: Laptop, api: Api, tmp_path: Path) -> None:
    laptop.node.note(4)
    laptop.shipping.ship()
    laptop.rewrite("DELETE FROM audit_log WHERE seq > 2")
    with pytest.raises(IntegrityFailed):
        laptop.shipping.verify(whole=True)
    answer = api.as_("admin").post(f"{NODES}/{laptop.node.id}/reset", json={"reason": "A new disk."})
    assert answer.status_code == 200
    laptop.node.note(1)
    laptop.begin().verify()
    assert laptop.shipping.ship() == 3
    assert laptop.ledger == laptop.own
    assert all(chain.is_ok for chain in verified(api, tmp_path))


def test_records_that_are_written_while_a_log_is_compared_are_no_cut(
    laptop: Laptop, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop.node.note(3)
    laptop.shipping.ship()
    ask = laptop.shipping._first_difference

    def meanwhile(*given: Any) -> int | None:
        laptop.node.note(2)
        Shipping(laptop.connection, laptop.store, str(laptop.folder)).ship()
        return ask(*given)

    monkeypatch.setattr(laptop.shipping, "_first_difference", meanwhile)
    laptop.shipping.verify()
    assert laptop.ledger == laptop.own
    assert len(laptop.own) == 5


def test_a_later_connection_compares_the_end_alone(laptop: Laptop) -> None:
    laptop.node.note(5)
    laptop.shipping.ship()
    laptop.shipping.verify()
    laptop.rewrite("UPDATE audit_log SET data_json = replace(data_json, 'pdf', 'xls') WHERE seq = 2")
    laptop.begin().verify()
    with pytest.raises(IntegrityFailed):
        laptop.begin().verify(whole=True)


class TestTheLedger:
    """The copy of the server, which an administrator of its database may change."""

    @pytest.mark.parametrize(
        "sql, kind",
        [
            ("UPDATE node_records SET data_json = replace(data_json, 'pdf', 'xls') WHERE seq = 2", "edited"),
            ("DELETE FROM node_records WHERE seq = 2", "deleted"),
            ("DELETE FROM node_records WHERE seq > 2", "truncated"),
            ("DELETE FROM node_records", "gone"),
            ("UPDATE node_records SET skill_ref = 'other' WHERE seq = 3", "edited"),
        ],
    )
    def test_a_change_of_it_is_found(self, laptop: Laptop, api: Api, tmp_path: Path, sql: str, kind: str) -> None:
        laptop.node.note(4)
        laptop.shipping.ship()
        with sqlite3.connect(api.store.url.removeprefix("sqlite:///")) as database:
            database.execute(sql)
        (chain,) = verified(api, tmp_path)
        assert chain.fault is not None
        assert chain.fault.kind == kind


def test_another_node_cannot_add_to_a_log(laptop: Laptop, api: Api) -> None:
    laptop.node.note(2)
    laptop.shipping.ship()
    other = NodeClient(api, laptop.store, by="author")
    laptop.node.note(1)
    assert other.send(laptop.node.records(3)).status_code == 409
    assert len(laptop.ledger) == 2


def test_a_revoked_node_ships_no_more(laptop: Laptop, api: Api) -> None:
    laptop.node.note(2)
    assert api.as_("admin").delete(f"{NODES}/{laptop.node.id}").status_code == 204
    with pytest.raises(ServerRefused):
        laptop.shipping.ship()
