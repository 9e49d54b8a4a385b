"""Nodes under faults, judged by the ledger of the server: nothing is lost, doubled or looser than before."""

from __future__ import annotations

import random
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.hub.node.test_shipping import Laptop
from tests.serve.api.conftest import Api
from tests.serve.api.node_client import listening
from tests.serve.machine import Machine, Server, until

from metier.errors import ServerUnreachable

SKILL = "---\nname: refunds\ndescription: Decides about refunds.\n---\nPay it back.\n"
_BUSY = """\
import sys
from metier import Library, MetierError

library = Library.discover()
session = library.session()
print("ready", flush=True)
refused = 0
for number in range(int(sys.argv[1])):
    session.unload(all=True)
    try:
        session.load("refunds")
    except MetierError as error:
        refused += 1
        print(error.code, flush=True)
"""


class Company:
    """A server, and a laptop that is its node and has a skill of its own."""

    def __init__(self, folder: Path) -> None:
        self.host, self.laptop = Machine(folder / "host"), Machine(folder / "laptop")
        self.server: Server = Server(self.host)
        self.server.start()
        self.token: dict[str, Any] = {"METIER_API_TOKEN": self.server.token}
        self.laptop.metier("login", self.server.url, "--name", "laptop", **self.token)
        own = self.laptop.folder / "home" / ".metier" / "skills" / "refunds"
        own.mkdir(parents=True)
        (own / "SKILL.md").write_text(SKILL)

    def busy(self, times: int, **more: Any) -> subprocess.Popen[str]:
        """A program on the laptop that loads its skill so many times, once it has begun."""
        running = subprocess.Popen(
            [sys.executable, "-c", _BUSY, str(times)],
            cwd=self.laptop.work,
            env=self.laptop.environ,
            stdout=subprocess.PIPE,
            text=True,
            **more,
        )
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        return running

    def loads(self) -> list[str]:
        """What comes of loading the skill once: nothing, or the code of the refusal."""
        running = self.busy(1)
        return running.communicate(timeout=60)[0].split()

    @property
    def own(self) -> list[tuple[int, str]]:
        """The log of the laptop."""
        return _rows(self.laptop.folder / "data" / "metier.db", "SELECT seq, hash FROM audit_log ORDER BY seq")

    @property
    def ledger(self) -> list[tuple[int, str]]:
        """The log of the laptop as the server has it."""
        return _rows(self.host.folder / "data" / "metier.db", "SELECT seq, hash FROM node_records ORDER BY seq")

    def settle(self) -> None:
        """Exchange everything; fails where the ledger is another one then, or the server cannot prove it."""
        self.laptop.metier("node", "sync")
        # The command leaves a record of its own at most, which the next one sends.
        assert until(lambda: self.ledger == self.own[: len(self.ledger)] and len(self.own) - len(self.ledger) < 3)
        assert len(self.ledger) > 1
        assert self.host.metier("audit", "verify", "--json")["ok"] is True


def _rows(path: Path, sql: str) -> list[tuple[int, str]]:
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
        return database.execute(sql).fetchall()


@pytest.fixture
def company(tmp_path: Path) -> Iterator[Company]:
    """A company of two machines."""
    company = Company(tmp_path)
    yield company
    company.server.stop()


@pytest.mark.slow
class TestTwoMachines:
    """Processes that are killed, stopped and slowed down."""

    def test_a_server_that_is_down_for_a_while_loses_nothing(self, company: Company) -> None:
        port = company.server.port
        company.server.stop()
        assert company.busy(50).communicate(timeout=60)[0] == ""
        assert len(company.own) > 50
        company.server.start(port)
        company.settle()

    def test_a_server_that_is_killed_again_and_again_loses_and_doubles_nothing(self, company: Company) -> None:
        port, running = company.server.port, company.busy(400)
        for pause in (0.1, 0.4, 0.2):
            time.sleep(pause)
            company.server.stop(signal.SIGKILL)
            company.server.start(port)
        running.communicate(timeout=120)
        company.settle()

    def test_a_server_that_hangs_holds_up_nobody_for_long_and_loses_nothing(self, company: Company) -> None:
        running, hanging = company.busy(200), company.server
        hanging.send(signal.SIGSTOP)
        try:
            assert running.communicate(timeout=60)[0] == ""
        finally:
            hanging.send(signal.SIGCONT)
        company.settle()

    def test_a_node_that_is_killed_while_it_works_loses_and_doubles_nothing(self, company: Company) -> None:
        for pause in (0.3, 0.9, 1.4):
            running = company.busy(100_000)
            time.sleep(pause)
            running.kill()
            running.communicate()
        company.settle()

    def test_a_full_disk_of_the_node_stops_work_and_breaks_nothing(self, company: Company) -> None:
        company.loads()
        size = (company.laptop.folder / "data" / "metier.db").stat().st_size
        most = size + 64 * 1024

        def limit() -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

        running = company.busy(300, preexec_fn=limit)
        said = running.communicate(timeout=120)[0].split()
        assert "audit-unavailable" in said
        company.settle()

    def test_a_quarantine_outlasts_every_fault(self, company: Company) -> None:
        assert company.loads() == []
        company.laptop.metier("node", "sync")
        company.host.metier("quarantine", "add", "refunds", "--reason", "Wrong law", **company.token)
        company.laptop.metier("node", "sync")
        assert company.loads() == ["skill-quarantined"]
        port = company.server.port
        company.server.stop(signal.SIGKILL)
        assert company.loads() == ["skill-quarantined"]
        company.server.start(port)
        assert company.loads() == ["skill-quarantined"]
        company.settle()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_any_order_of_faults_loses_and_doubles_nothing(api: Api, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    (tmp_path / "laptop").mkdir()
    with listening(api) as url:
        laptop = Laptop(tmp_path / "laptop", api, url)
        steps: list[Callable[[], object]] = [
            lambda: laptop.node.note(chance.randint(1, 40)),
            lambda: laptop.connection.faults.append(chance.choice(["", "lost", "twice", "unanswered"])),
            laptop.begin,
            lambda: laptop.shipping.verify(whole=chance.random() < 0.5),
            lambda: laptop.shipping.ship(),
        ]
        laptop.node.note(1)
        for _ in range(60):
            try:
                chance.choice(steps)()
            except ServerUnreachable:
                continue
        laptop.connection.faults = []
        laptop.begin().verify(whole=True)
        laptop.shipping.ship()
        assert laptop.ledger == laptop.own


def test_reordered_and_repeated_deliveries_are_put_right(api: Api, tmp_path: Path) -> None:
    chance = random.Random(7)
    (tmp_path / "laptop").mkdir()
    with listening(api) as url:
        laptop = Laptop(tmp_path / "laptop", api, url)
        laptop.node.note(60)
        parts = [laptop.node.records(start, start + 9) for start in range(1, 60, 10)] * 8
        chance.shuffle(parts)
        answers = {laptop.node.send(part).status_code for part in parts}
        assert answers <= {200, 409}
        laptop.shipping.ship()
        assert laptop.ledger == laptop.own
        assert api.scope.nodes.get(laptop.node.id).status == "active"  # type: ignore[union-attr]


def test_two_processes_that_ship_the_same_log_at_once_double_nothing(api: Api, tmp_path: Path) -> None:
    (tmp_path / "laptop").mkdir()
    with listening(api) as url:
        laptop = Laptop(tmp_path / "laptop", api, url)
        laptop.node.note(600)
        threads = [threading.Thread(target=laptop.begin().ship) for _ in range(3)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert laptop.ledger == laptop.own


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_is_wrong_by_an_hour_changes_no_order(api: Api, tmp_path: Path, hours: int) -> None:
    (tmp_path / "laptop").mkdir()
    with listening(api) as url:
        laptop = Laptop(tmp_path / "laptop", api, url)
        laptop.node.note(2)
        laptop.node.audit.append({"timestamp": f"2026-11-19T{10 + hours}:00:00.000+00:00", "type": "skill.activated"})
        laptop.node.note(1)
        laptop.shipping.ship()
        laptop.shipping.verify(whole=True)
        assert laptop.ledger == laptop.own
