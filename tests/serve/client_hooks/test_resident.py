"""The resident process behind the hooks of clients: whom it answers, whom its clients believe, and when it ends."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from metier.serve.client_hooks import fast_client, resident
from metier.serve.client_hooks.event import Output
from metier.serve.client_hooks.fast_client import hook_program
from metier.serve.client_hooks.resident import Resident
from metier.serve.client_hooks.resident_socket import identity_of, socket_path
from metier.store.location import data_folder

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="there is no resident process"),
    pytest.mark.skipif(not any(map(os.path.exists, fast_client._PERLS)), reason="no Perl"),
]

as_root = pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only root can be somebody else")
NOBODY = 65534
ALLOWED = b"metier 0 2 0\n{}"
DIRECT = b"decided by Python\n"


@dataclass
class Hooks:
    """The program of a user's hooks, with something in place of the Python that decides without the process."""

    program: str
    path: str
    """The socket that it asks."""
    asked: list[tuple[str, bytes]] = field(default_factory=list)
    output: Output = field(default_factory=Output)

    def run(
        self, data: bytes = b"{}", client: str = "claude-code", environ: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [self.program, client],
            input=data,
            capture_output=True,
            check=False,
            env={**os.environ, **(environ or {})},
            timeout=60,
        )

    def is_direct(self, data: bytes = b"{}") -> bool:
        """Whether the answer is that of Python, which got the whole input."""
        done = self.run(data)
        assert done.returncode in (0, 7), done
        if done.returncode == 0:
            return False
        assert done.stdout == DIRECT + data
        return True

    def answer(self, client: str, data: bytes) -> Output:
        self.asked.append((client, data))
        return self.output


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A short folder for sockets, whose paths are limited."""
    folder = tempfile.mkdtemp(prefix="m", dir="/tmp")
    monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
    yield Path(folder)
    shutil.rmtree(folder)


@pytest.fixture
def hooks(runtime: Path, tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Hooks:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\n[ "$2" = -c ] && exit 0\necho decided by Python\ncat\nexit 7\n')
    python.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(python))
    (runtime / "metier").mkdir(0o700)
    path = socket_path("", str(python), os.environb)
    assert path.startswith(str(runtime))
    return Hooks(hook_program(), path)


@contextlib.contextmanager
def serving(hooks: Hooks, answer: Callable[[str, bytes], Output] | None = None) -> Iterator[Resident]:
    process = Resident(hooks.path, answer or hooks.answer, idle=60)
    thread = threading.Thread(target=process.serve)
    thread.start()
    try:
        yield process
    finally:
        process._must_end.set()
        thread.join()


@contextlib.contextmanager
def answering(path: str, answer: bytes, prepare: Callable[[str], object] = lambda path: None) -> Iterator[list[bytes]]:
    """Somebody who answers everything with the same bytes; what they were sent."""
    got: list[bytes] = []
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    os.chmod(path, 0o600)
    listener.listen()
    prepare(path)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    got.append(connection.recv(2**16))
                    connection.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield got
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def start(program: str, client: str, data: bytes) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([program, client], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(data)
    process.stdin.close()
    process.stdin = None
    return process


def send(path: str, data: bytes) -> bytes:
    """The answer to bytes on the socket, after which nothing more comes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(30)
        connection.connect(path)
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            return connection.recv(2**16)
        return b""


# --- answers ----------------------------------------------------------------------------------------------------------


def test_the_answer_of_the_process_reaches_the_client_as_it_is(hooks: Hooks) -> None:
    long = json.dumps({"text": "ß\0\r\n" * 2**18}).encode()
    hooks.output = Output(exit_code=2, stdout=long.decode(), stderr="No: ünmöglich.\n")
    with serving(hooks):
        assert stat.S_IMODE(os.lstat(hooks.path).st_mode) == 0o600
        done = hooks.run(long, "codex", {"PERL_UNICODE": "SDA", "PERLIO": ":crlf"})
    assert (done.returncode, done.stdout, done.stderr.decode()) == (2, long, "No: ünmöglich.\n")
    assert hooks.asked == [("codex", long)]


@pytest.mark.each(
    "answer",
    [
        b"", b"metier", b"metier 0 0 0", b"metier 0 2 0\n", b"metier 0 2 0\n{", b"metier 0 2 0\n{}}",
        b"metier 0 -1 0\n",
        b"metier 256 0 0\n", b"metier 0 0\n", b"{}", b"\nmetier 0 0 0\n", b"metier 0 999999999999 0\n", b"OK 0 0 0\n",
    ],
)  # fmt: skip
def test_an_answer_that_is_not_whole_is_none(hooks: Hooks, answer: bytes) -> None:
    with answering(hooks.path, answer) as got:
        assert hooks.is_direct()
    assert len(got) == 1


def test_without_the_process_python_decides_about_the_whole_input(hooks: Hooks) -> None:
    assert hooks.is_direct(b"x" * 300_000)


def test_an_input_that_is_too_large_is_cut_one_byte_above_the_limit(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_client, "MAX_INPUT", 1000)
    hook_program()
    with serving(hooks):
        hooks.run(b"x" * 5000)
        hooks.run(b"x" * 1000)
    assert [len(data) for _, data in hooks.asked] == [1001, 1000]


@pytest.mark.each("client", ["", "../x", "Codex", "a b", "-m", "x\n", "a" * 40])
def test_a_name_that_no_client_has_is_refused(hooks: Hooks, client: str) -> None:
    with serving(hooks):
        assert hooks.run(client=client).returncode == 3
    assert not hooks.asked


def test_two_clients_are_answered_at_once(hooks: Hooks) -> None:
    both = threading.Barrier(2, timeout=30)

    def answer(client: str, data: bytes) -> Output:
        both.wait()
        return Output(stdout=f"{client} {data.decode()}")

    with serving(hooks, answer):
        started = [start(hooks.program, client, client.encode()) for client in ("codex", "gemini-cli")]
        found = [process.communicate()[0] for process in started]
    assert found == [b"codex codex", b"gemini-cli gemini-cli"]


# --- trust ------------------------------------------------------------------------------------------------------------


def _make_link(path: str) -> None:
    folder = os.path.dirname(path)
    os.rename(folder, folder + "-real")
    os.symlink(folder + "-real", folder)


def _link_socket(path: str) -> None:
    os.rename(path, path + "-real")
    os.symlink(path + "-real", path)


PREPARATIONS: dict[str, Callable[[str], object]] = {
    "a folder that is a link": _make_link,
    "a folder that others may enter": lambda path: os.chmod(os.path.dirname(path), 0o711),
    "a folder that others may write to": lambda path: os.chmod(os.path.dirname(path), 0o777),
    "a socket that others may write to": lambda path: os.chmod(path, 0o666),
    "a socket that is a link": _link_socket,
}


@pytest.mark.each("name", list(PREPARATIONS))
def test_a_process_is_not_asked_at(hooks: Hooks, name: str) -> None:
    folder = Path(hooks.path).parent
    with answering(hooks.path, ALLOWED, PREPARATIONS[name]) as got:
        assert hooks.is_direct()
    assert not got
    if folder.is_symlink():
        folder.unlink()
        os.rename(f"{folder}-real", folder)
    folder.chmod(0o700)
    for file in folder.iterdir():
        file.unlink()
    with answering(hooks.path, ALLOWED) as got:
        assert not hooks.is_direct()
    assert len(got) == 1


@as_root
@pytest.mark.each("place", ["socket", "folder", "runtime"])
def test_what_belongs_to_another_user_is_not_asked(hooks: Hooks, place: str) -> None:
    folder = os.path.dirname(hooks.path)
    owned = {"socket": hooks.path, "folder": folder, "runtime": os.path.dirname(folder)}[place]
    with answering(hooks.path, ALLOWED, lambda path: os.chown(owned, NOBODY, NOBODY)) as got:
        assert hooks.is_direct()
    assert not got
    os.chown(owned, 0, 0) if place != "socket" else None


@as_root
def test_a_process_of_another_user_is_not_believed_behind_a_socket_of_ours(hooks: Hooks) -> None:
    with answering(hooks.path, ALLOWED) as got:
        assert not hooks.is_direct()
        assert len(got) == 1
    code = f"""
import os, socket, sys
listener = socket.socket(socket.AF_UNIX); listener.bind({hooks.path!r}); os.chmod({hooks.path!r}, 0o600)
os.setuid({NOBODY}); listener.listen(); print(flush=True)
connection, _ = listener.accept(); connection.sendall({ALLOWED!r})
"""
    other = subprocess.Popen([sys._base_executable, "-c", code], stdout=subprocess.PIPE)  # type: ignore[attr-defined]
    try:
        assert other.stdout is not None
        other.stdout.readline()
        assert hooks.is_direct()
    finally:
        other.kill()
        other.communicate()


@as_root
def test_the_process_answers_no_other_user(hooks: Hooks) -> None:
    request = b"codex %d 2\n%s{}" % (len(found := identity_of(sys.executable, os.environb)), found)
    with serving(hooks):
        for path in (hooks.path, os.path.dirname(hooks.path), os.path.dirname(os.path.dirname(hooks.path))):
            os.chmod(path, 0o777)
        os.seteuid(NOBODY)
        try:
            assert send(hooks.path, request) == b""
        finally:
            os.seteuid(0)
        assert not hooks.asked


def test_nothing_in_the_environment_or_on_the_path_takes_the_place_of_the_program(
    hooks: Hooks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil, mark = tmp_path / "evil", tmp_path / "mark"
    evil.mkdir()
    for name in ("perl", "python", "python3", "metier", "sh", "cat", "test"):
        (evil / name).write_text(f"#!/bin/sh\n: > {mark}\nexit 0\n")
        (evil / name).chmod(0o755)
    for name in ("Evil.pm", "strict.pm", "warnings.pm", "sitecustomize.pl"):
        (evil / name).write_text(f"BEGIN {{ open my $f, '>', '{mark}'; exit 0 }} 1;")
    for name in ("sitecustomize.py", "usercustomize.py", "metier.py", "json.py", "socket.py", "startup.py"):
        (evil / name).write_text(f"open({str(mark)!r}, 'w'); import os; os._exit(0)")
    path = f"{evil}:{os.environ['PATH']}"
    environ = {
        "PATH": path,
        "PERL5OPT": "-MEvil",
        "PERL5LIB": str(evil),
        "PERLLIB": str(evil),
        "PERL5DB": "BEGIN{exit 0}",
    }
    environ |= {"PYTHONPATH": str(evil), "PYTHONSTARTUP": str(evil / "startup.py"), "PYTHONHOME": str(evil)}
    environ |= {
        "PYTHONINSPECT": "1",
        "BASH_ENV": str(evil / "sh"),
        "ENV": str(evil / "sh"),
        "IFS": "/",
        "CDPATH": str(evil),
    }
    monkeypatch.undo()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("METIER_CACHE", "off")  # and so without a process that would be started
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    monkeypatch.chdir(evil)
    (tmp_path / "home").mkdir(exist_ok=True)
    hooks.program = hook_program()
    done = hooks.run(b"{", environ=environ)
    assert done.returncode == 2
    assert "cannot read the input" in done.stderr.decode()
    assert not mark.exists()


# --- hostile requests -------------------------------------------------------------------------------------------------


@pytest.mark.each(
    "data",
    [
        b"", b"\n", b"codex", b"codex 1 1", b"codex 0 0\nx", b"codex 2 2\nx", b"Codex 0 0\n", b"codex -1 0\n",
        b"codex 0 x\n",
        b"codex 0 99999999\n", b"codex 999999 0\n", b"x" * 100_000, b"codex 0 0\r\n", b"GET / HTTP/1.1\r\n\r\n",
        b"codex 3 2\nabc{}", b"codex 0 2\n{}",
    ],
)  # fmt: skip
def test_a_request_that_is_none_of_ours_gets_no_answer(hooks: Hooks, data: bytes) -> None:
    hooks.asked.clear()
    with serving(hooks):
        assert send(hooks.path, data) == b""
        assert not hooks.asked
        assert not hooks.is_direct()
    assert len(hooks.asked) == 1


def test_senders_that_stop_half_way_keep_nobody_else_from_an_answer(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident, "_SENDING", 0.2)
    with serving(hooks), contextlib.ExitStack() as stack:
        half = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2 * resident._THREADS)]
        for connection in half:
            connection.connect(hooks.path)
            connection.sendall(b"codex 0 100\n{")
        assert not hooks.is_direct()
    assert len(hooks.asked) == 1


@pytest.mark.each(
    ("name", "value", "is_answered"),
    [
        ("TERM", "vt100", True), ("CLAUDE_PROJECT_DIR", "/x", True), ("METIER_HOOK_IDLE", "5", True),
        ("METIER_POLICY", "/x", False), ("METIER_DATA", "/x", False), ("HOME", "/x", False), ("PATH", "/x", False),
        ("XDG_CONFIG_HOME", "/x", False), ("CODEX_HOME", "/x", False), ("LD_PRELOAD", "", False),
        ("GIT_CONFIG_GLOBAL", "/x", False), ("METIER_NEW", "", False),
    ],
)  # fmt: skip
def test_only_who_has_the_same_variables_shares_a_process(
    hooks: Hooks, name: str, value: str, is_answered: bool
) -> None:
    before = len(hooks.asked)
    with serving(hooks):
        assert hooks.run(environ={name: value}).returncode == (0 if is_answered else 7)
    assert len(hooks.asked) - before == is_answered


# --- its end ----------------------------------------------------------------------------------------------------------


def test_it_ends_when_it_was_idle_and_takes_its_socket_along(hooks: Hooks) -> None:
    Resident(hooks.path, hooks.answer, idle=0.01).serve()
    assert not os.path.lexists(hooks.path)


def test_it_ends_instead_of_answering_after_an_upgrade(hooks: Hooks, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(hooks) as process:
        assert not hooks.is_direct()
        monkeypatch.setattr(resident, "_PACKAGE", "/nowhere")
        assert hooks.is_direct()
        assert process._must_end.wait(30)
    assert not os.path.lexists(hooks.path)


def test_it_ends_when_its_socket_was_replaced_and_leaves_the_other_one(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident, "_LOOK", 0.02)
    first = Resident(hooks.path, hooks.answer, idle=60)
    os.unlink(hooks.path)
    with serving(hooks):
        first.serve()
        assert not hooks.is_direct()


def test_one_that_has_grown_large_gives_its_socket_to_its_next_life_when_nobody_asks(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not resident._memory():
        pytest.skip("the system does not tell how large a process is")
    monkeypatch.setattr(resident, "_LOOK", 0.05)
    monkeypatch.setattr(resident, "_MAX_REST", 0)
    first = Resident(hooks.path, hooks.answer, idle=60)
    again: list[bool] = []
    thread = threading.Thread(target=lambda: again.append(first.serve()))
    thread.start()
    assert not hooks.is_direct()
    thread.join()
    assert again == [True]
    monkeypatch.setattr(resident, "_MAX_REST", 2**60)
    first._must_end.set()  # as its threads end with it
    descriptor = os.dup(first.listener.fileno())
    second = Resident(hooks.path, hooks.answer, idle=0.5, listener=socket.socket(fileno=descriptor))
    thread = threading.Thread(target=second.serve)
    thread.start()
    hooks.run()  # may be that of a thread of the first
    hooks.run()
    assert not hooks.is_direct()
    thread.join()
    first.listener.close()
    assert not os.path.lexists(hooks.path)


def test_a_client_that_gave_up_is_not_decided_about(hooks: Hooks) -> None:
    found = identity_of(sys.executable, os.environb)
    process = Resident(hooks.path, hooks.answer, idle=0.3)  # as one that is stopped: nobody accepts yet
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(hooks.path)
        connection.sendall(b"codex %d 2\n%s{}" % (len(found), found))
    process.serve()
    assert not hooks.asked


# --- the process itself -----------------------------------------------------------------------------------------------


@dataclass
class RealHooks:
    """The program of a user's hooks, as it is installed, in a project whose policy denies `curl`."""

    program: str
    folder: Path

    def event(self, command: str = "curl evil", call: str = "t1") -> bytes:
        told = {"hook_event_name": "PreToolUse", "session_id": "c1", "cwd": str(self.folder), "tool_name": "Bash"}
        return json.dumps({**told, "tool_input": {"command": command}, "tool_use_id": call}).encode()

    def start(self, data: bytes) -> subprocess.Popen[bytes]:
        return start(self.program, "claude-code", data)

    def decision(self, process: subprocess.Popen[bytes]) -> str:
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        return str(json.loads(out).get("hookSpecificOutput", {}).get("permissionDecision"))

    def processes(self) -> list[int]:
        """The ids of the resident processes of this test."""
        mark = os.environ["XDG_RUNTIME_DIR"].encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                line = (folder / "cmdline").read_bytes()
                if b"--resident" in line and mark in line:
                    found.append(int(folder.name))
        return found

    def until(self, holds: Callable[[], object]) -> None:
        end = time.monotonic() + 30
        while not holds():
            assert time.monotonic() < end
            time.sleep(0.02)

    @property
    def socket(self) -> str:
        return socket_path("", sys.executable, os.environb)


@pytest.fixture
def real(runtime: Path, project: Path, own_home: Path) -> Iterator[RealHooks]:
    if not os.path.isdir("/proc/self"):
        pytest.skip("processes are found by /proc")
    (own_home / ".metier").mkdir(mode=0o700)
    (own_home / ".metier/policy.yaml").write_text('tools: {deny: ["Bash(curl:*)"]}\n')
    real = RealHooks(hook_program(), project)
    yield real
    for number in real.processes():
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


@pytest.mark.slow
def test_hooks_at_once_start_one_process_which_answers_the_next_and_ends_by_itself(
    real: RealHooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("METIER_HOOK_IDLE", "3")
    started = [real.start(real.event()) for _ in range(4)]
    assert [real.decision(process) for process in started] == ["deny"] * 4
    real.until(lambda: os.path.exists(real.socket))
    [number] = real.processes()
    assert stat.S_IMODE(os.lstat(real.socket).st_mode) == 0o600
    before = os.times().children_user
    assert [real.decision(real.start(real.event(command))) for command in ("curl x", "ls")] == ["deny", "None"]
    assert os.times().children_user - before < 0.1, "Python was started"
    assert real.processes() == [number]
    real.until(lambda: not real.processes())
    assert not os.path.lexists(real.socket)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_process_that_dies_or_stops_in_the_middle_of_a_call_allows_nothing_and_loses_no_record(
    real: RealHooks, number: signal.Signals
) -> None:
    real.decision(real.start(real.event("ls", "t0")))
    real.until(lambda: os.path.exists(real.socket))
    assert real.decision(real.start(real.event("ls", "t0"))) == "None"
    [process] = real.processes()
    with contextlib.closing(sqlite3.connect(data_folder() / "metier.db", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")  # so that the process waits, with its decision made and not recorded
        hook = real.start(real.event("curl evil", "t1"))
        time.sleep(0.3)
        os.kill(process, number)
        time.sleep(0.1)
        assert hook.poll() is None
        connection.execute("ROLLBACK")
    assert real.decision(hook) == "deny"
    if number == signal.SIGSTOP:
        # Another has taken its place, and it ends when it goes on.
        real.until(lambda: len(real.processes()) == 2)
        os.kill(process, signal.SIGCONT)
    told = subprocess.run([sys.executable, "-m", "metier", "audit", "tail", "--json"], capture_output=True, check=True)
    denied = [one for one in json.loads(told.stdout)["records"] if "curl evil" in one.get("arguments", "")]
    # One that was stopped records what it had decided when it goes on.
    assert [one["decision"] for one in denied] in (["deny"], ["deny", "deny"][number == signal.SIGKILL :])
    real.until(lambda: os.path.exists(real.socket))
    assert real.decision(real.start(real.event("curl evil", "t2"))) == "deny"
