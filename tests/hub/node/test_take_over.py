"""Several processes of one node: one of them keeps it current, and when that is killed, another one does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.node_server import NodeServer
from tests.serve.machine import until

from metier.guard.node.exchange import NodeExchange
from metier.library.places import node_skills_folder

Start = Callable[[], subprocess.Popen[bytes]]
_PROGRAM = """\
import sys, time
from metier.hub.node.sync import keep_current
keep_current()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts processes that keep the node current."""
    running: list[subprocess.Popen[bytes]] = []

    def process() -> subprocess.Popen[bytes]:
        one = subprocess.Popen([sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        running.append(one)
        assert one.stdout is not None
        assert one.stdout.readline() == b"ready\n"
        return one

    yield process
    for one in running:
        one.kill()
        one.communicate()


@pytest.mark.slow
def test_the_next_process_takes_over_from_one_that_was_killed(
    server: NodeServer, exchange: NodeExchange, start: Start
) -> None:
    first, second = start(), start()
    assert [path for _, path, _ in server.received].count("/api/v1/nodes/me/lease") == 1
    server.deploy("one")
    until(lambda: (Path(node_skills_folder()) / "one" / "SKILL.md").exists())
    os.kill(first.pid, signal.SIGKILL)
    server.deploy("two")
    until(lambda: (Path(node_skills_folder()) / "two" / "SKILL.md").exists())
    assert second.poll() is None
