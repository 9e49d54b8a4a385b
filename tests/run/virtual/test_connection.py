"""Workers that were taken over: whatever they send, nothing but an outcome or an error comes of it."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.errors import ShellRefused
from metier.run import Job
from metier.run.virtual import VirtualRunner, VirtualShell, checkpoint, runner
from metier.run.virtual.channel import Channel, ChannelBroken, ChannelClosed
from metier.run.virtual.connection import Connection
from metier.run.virtual.worker_process import WorkerLost


class Puppet:
    """A worker that says what it is told to say."""

    def __init__(self, says: Callable[[socket.socket], None]) -> None:
        self.channel, self._theirs = socket.socketpair()
        self.was_killed = False
        self._thread = threading.Thread(target=self._talk, args=(says,), daemon=True)
        self._thread.start()

    def _talk(self, says: Callable[[socket.socket], None]) -> None:
        with self._theirs:
            try:
                says(self._theirs)
            except OSError:
                return

    def kill(self) -> None:
        self.was_killed = True
        self._theirs.close()

    def wait(self) -> WorkerLost:
        return WorkerLost(139, "crash", "it crashed")


def frame(head: object, body: bytes = b"") -> bytes:
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    return struct.pack(">II", len(text), len(body)) + text + body


NONSENSE = {
    "no frame": b"\xff" * 64,
    "a huge frame": struct.pack(">II", 2**32 - 1, 2**32 - 1),
    "no json": frame(b"{nope"),
    "no object": frame([1, 2]),
    "deep": frame(b"[" * 100_000 + b"]" * 100_000),
    "a number without end": frame(b'{"code":' + b"9" * 100_000 + b"}"),
    "sizes that are no numbers": frame({"sizes": ["a"]}),
    "sizes below nothing": frame({"sizes": [-1, 1]}),
    "sizes that do not add up": frame({"sizes": [5]}, b"abc"),
    "sizes that are true": frame({"sizes": [True]}, b"a"),
    "no such event": frame({"event": "exec", "argv": ["sh"]}),
    "an event of a list": frame({"event": ["output"]}),
    "output without streams": frame({"event": "output", "sizes": []}),
    "a program although there is no runner": frame({"event": "native", "argv": ["python3"], "sizes": [0]}),
    "a checkpoint of nothing": frame({"event": "checkpoint"}),
    "a checkpoint with a path": frame({"event": "checkpoint", "commit": "../../x", "objects": []}),
    "an empty reply": frame({}),
    "a code that is text": frame({"code": "0", "failure": "", "is_flooded": False, "cpu_ms": 1, "sizes": [0, 0]}),
    "a failure that is a list": frame({"code": 0, "failure": ["x"], "is_flooded": False, "cpu_ms": 1, "sizes": [0, 0]}),
    "a time that is none": frame(b'{"code":0,"failure":"","is_flooded":false,"cpu_ms":NaN,"sizes":[0,0]}'),
    "half a frame": frame({"code": 0})[:-3],
    "nothing": b"",
    "no streams": frame({"code": 0, "failure": "", "is_flooded": False, "cpu_ms": 1}),
    "half a character": frame(b'{"code":0,"failure":"\\ud800","is_flooded":false,"cpu_ms":1,"sizes":[0,0]}'),
}


def saying(data: bytes, *, greetings: int = 1) -> Callable[[socket.socket], None]:
    """Answers as many requests as it takes to begin, and then says something else."""

    def says(line: socket.socket) -> None:
        channel = Channel(line)
        for _ in range(greetings):
            channel.receive()
            channel.send({})
        channel.receive()
        line.sendall(data)

    return says


@pytest.mark.parametrize("name", NONSENSE)
def test_a_worker_that_talks_nonsense_is_ended(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    puppets: list[Puppet] = []

    def begin() -> Connection:
        puppets.append(Puppet(saying(NONSENSE[name])))
        return Connection(puppets[-1])

    monkeypatch.setattr(checkpoint, "Connection", begin)
    with VirtualShell() as shell:
        outcome = shell.execute("true", seconds=1)
        assert outcome.killed_by == "crash"
        assert outcome.exit_code == 139
        shell.execute("true", seconds=1)
        assert len(puppets) == 2, "it is not asked again"


@pytest.mark.parametrize("name", NONSENSE)
def test_files_of_such_a_worker_are_an_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "Connection", lambda: Connection(Puppet(saying(NONSENSE[name]))))
    with VirtualShell() as shell:
        for act in (shell.list, lambda: shell.stat("/f"), shell.usage, lambda: shell.folder):
            with pytest.raises(ShellRefused) as caught:
                act()
            assert caught.value.hint


def test_a_file_without_its_bytes_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "Connection", lambda: Connection(Puppet(saying(NONSENSE["no streams"]))))
    with VirtualShell() as shell, pytest.raises(ShellRefused) as caught:
        shell.read("/f")
    assert caught.value.code == "shell-lost"


@pytest.mark.parametrize("name", NONSENSE)
def test_jobs_of_such_a_worker_change_no_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "Connection", lambda: Connection(Puppet(saying(NONSENSE[name], greetings=0))))
    with VirtualRunner() as virtual:
        outcome = virtual.run_blocking(Job(argv=("bash", "-c", "true"), folder="/"))
        assert (outcome.killed_by, outcome.exit_code) == ("crash", 139)


@pytest.mark.parametrize("path", ["/../x", "/w/../../x", "relative", "/w/./x", "/w//x", "/w/a\0b", "/", "", 7, None])
def test_files_that_a_worker_invents_are_not_written(
    path: object, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = tmp_path_factory.mktemp("top")
    work = top / "w"
    work.mkdir()
    reply = {"code": 0, "failure": "", "is_flooded": False, "cpu_ms": 1, "gone": [], "files": [[path, "f", 420]]}
    data = frame({**reply, "sizes": [0, 0, 4]}, b"evil")
    monkeypatch.setattr(runner, "Connection", lambda: Connection(Puppet(saying(data, greetings=0))))
    with VirtualRunner() as virtual:
        virtual.run_blocking(Job(argv=("bash", "-c", "true"), folder=str(work)))
    assert list(top.rglob("*")) == [work]


def test_a_worker_that_says_nothing_is_ended_in_time() -> None:
    def listens(line: socket.socket) -> None:
        while line.recv(1_000):
            pass

    puppet = Puppet(listens)
    with pytest.raises(WorkerLost) as caught:
        Connection(puppet).ask({"op": "usage"}, seconds=0.05)
    assert caught.value.killed_by == "timeout"
    assert puppet.was_killed


def test_a_worker_that_never_stops_talking_is_ended_in_time() -> None:
    def babbles(line: socket.socket) -> None:
        while True:
            line.sendall(frame({"event": "output", "sizes": [1, 0]}, b"x"))

    connection = Connection(Puppet(babbles))
    with pytest.raises(WorkerLost) as caught:
        connection.ask({"op": "run"}, seconds=0.2, on_event=lambda event, blobs: None)
    assert caught.value.killed_by == "timeout"


@pytest.mark.parametrize("should_stop", [None, lambda: False])
def test_a_worker_that_talks_a_byte_at_a_time_is_ended_in_time(should_stop: Callable[[], bool] | None) -> None:
    begun = threading.Event()

    def drips(line: socket.socket) -> None:
        line.sendall(struct.pack(">II", 1_000_000, 0))
        while not begun.wait(0.01):
            line.sendall(b"x")

    connection = Connection(Puppet(drips))
    with pytest.raises(WorkerLost) as caught:
        connection.ask({"op": "run"}, seconds=0.2, should_stop=should_stop)
    assert caught.value.killed_by == "timeout"
    begun.set()


@given(st.binary(max_size=200))
def test_bytes_at_random_are_a_frame_or_an_error(data: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        channel = Channel(ours, most_head=1_000, most_body=1_000)
        try:
            while True:
                head, blobs = channel.receive(timeout=1)
                assert isinstance(head, dict)
                assert all(isinstance(blob, bytes) for blob in blobs)
        except (ChannelBroken, ChannelClosed):
            return


@given(
    st.dictionaries(
        st.text(max_size=5).filter(lambda name: name not in ("sizes", "files")), st.integers() | st.text(max_size=20)
    ),
    st.lists(st.binary(max_size=50), max_size=5),
)
def test_what_is_sent_is_received(head: dict[str, object], blobs: list[bytes]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        Channel(ours).send(head, blobs)
        assert Channel(theirs).receive(timeout=1) == (head, blobs)


def test_a_frame_larger_than_any_buffer_arrives_whole() -> None:
    ours, theirs = socket.socketpair()
    blobs = [bytes([number]) * 700_000 for number in range(5)]
    with ours, theirs:
        sender = threading.Thread(target=lambda: Channel(ours).send({"a": 1}, blobs))
        sender.start()
        assert Channel(theirs).receive(timeout=10) == ({"a": 1}, blobs)
        sender.join()
