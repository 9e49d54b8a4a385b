"""What a worker is kept in."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from metier.run.virtual import VirtualRunner, VirtualShell, worker_process
from metier.run.virtual.connection import Connection

if TYPE_CHECKING:
    from metier.run.native.request import Tier

linux = pytest.mark.skipif(sys.platform != "linux", reason="sandboxes are made by Linux")


def sandboxes() -> list[str]:
    """The ways to make a sandbox that there are here, for this user."""
    if sys.platform != "linux":
        return []
    from metier.run.native import NativeRunner

    tiers: tuple[Tier, ...] = ("namespaces", "bubblewrap", "landlock")
    return [tier for tier in tiers if NativeRunner(tier=tier).tier is not None]


def test_a_plain_worker_works_where_there_is_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "sandbox_tier", lambda: None)
    with VirtualShell() as shell:
        assert shell.execute("echo hi").stdout == "hi\n"
        connection = shell._checkpoints.connection
        assert connection is not None
        assert isinstance(connection.worker, worker_process.PlainWorker)


@linux
@pytest.mark.parametrize("tier", sandboxes())
def test_a_worker_works_in_every_sandbox_that_can_be_made_here(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "sandbox_tier", lambda: tier)
    with VirtualShell() as shell:
        assert shell.execute("echo hi > /f; cat /f").stdout == "hi\n"
        connection = shell._checkpoints.connection
        assert connection is not None
        assert not isinstance(connection.worker, worker_process.PlainWorker)


@linux
@pytest.mark.parametrize("is_sandboxed", [False, True])
def test_a_worker_that_is_ended_is_gone(is_sandboxed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_sandboxed:
        monkeypatch.setattr(worker_process, "sandbox_tier", lambda: None)
    connection = Connection()
    connection.ask({"op": "analyze"}, [b"echo hi"])
    connection.close()
    connection.close()
    assert not connection.is_alive


@linux
def test_a_plain_worker_has_no_environment_and_no_descriptors_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.setattr(worker_process, "sandbox_tier", lambda: None)
    monkeypatch.setenv("HOST_SECRET", "canary")
    with open(os.devnull) as held, VirtualShell() as shell:
        os.set_inheritable(held.fileno(), True)
        shell.execute("true")
        connection = shell._checkpoints.connection
        assert connection is not None
        assert isinstance(connection.worker, worker_process.PlainWorker)
        pid = connection.worker.pid
        with open(f"/proc/{pid}/environ", "rb") as file:
            assert file.read() == b""
        links = [os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd") if int(name) > 2]
    assert [link for link in links if not link.startswith(("socket:", "anon_inode:"))] == []


@linux
def test_a_plain_worker_that_is_forgotten_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    import gc
    import os

    monkeypatch.setattr(worker_process, "sandbox_tier", lambda: None)
    shell = VirtualShell()
    shell.execute("true")
    connection = shell._checkpoints.connection
    assert connection is not None
    assert isinstance(connection.worker, worker_process.PlainWorker)
    pid = connection.worker.pid
    del connection, shell
    gc.collect()
    assert not os.path.exists(f"/proc/{pid}")


@linux
@pytest.mark.parametrize(("name", "code"), [("crash", 139), pytest.param("memory", 137, marks=pytest.mark.slow)])
def test_crash_and_memory_are_told_apart_outside_of_a_sandbox_too(
    name: str,
    code: int,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    hostile: Callable[[str], str],
) -> None:
    if name == "memory":
        request.getfixturevalue("little_memory")
    monkeypatch.setattr(worker_process, "sandbox_tier", lambda: None)
    with VirtualShell() as shell:
        outcome = shell.execute(hostile(name))
        assert (outcome.killed_by, outcome.exit_code) == (name, code)


@pytest.mark.covers("ENV-2")
def test_a_runner_whose_worker_does_not_start_claims_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "own_python", lambda: "/no/such/python")
    with VirtualRunner() as runner, VirtualShell() as shell:
        for able in (runner.capabilities(), shell.capabilities()):
            assert not able.isolates_files
            assert "start" in able.how, "it says why"
        monkeypatch.undo()
        assert runner.capabilities().isolates_files, "a machine that is mended is asked again"
        assert shell.capabilities().isolates_files
