"""`metier mcp`: how it begins and ends, and what it writes where."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from metier.cli.mcp import address, kept_token
from metier.errors import InvalidArgument

Call = Callable[..., tuple[int, str, str]]
Write = Callable[..., Path]

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}

needs_signals = pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")


class Client:
    """The other end of a server's standard input and output."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._number = 0

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        self.send({"id": self._number, "method": method, "params": params})
        assert self.process.stdout is not None
        while True:
            answer: dict[str, Any] = json.loads(self.process.stdout.readline())
            if answer.get("id") == self._number:
                return answer

    def call(self, tool: str, **arguments: Any) -> str:
        answer = self.request("tools/call", {"name": tool, "arguments": arguments})
        return str(answer["result"]["content"][0]["text"])

    def end(self) -> tuple[int, str, str]:
        """Go away; the exit code of the server, and what it had written that nobody read yet."""
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out.decode(), err.decode()


@pytest.fixture
def skills(tmp_path: Path, write_skill: Write) -> Path:
    write_skill(tmp_path / "skills" / "deploy", body="Deploy with care.")
    (tmp_path / "skills/deploy/scripts").mkdir()
    return tmp_path / "skills"


@pytest.fixture
def started(forked: list[str], tmp_path: Path) -> Iterator[Callable[..., Client]]:
    """Starts the server over stdio, and has it ended with the test."""
    with contextlib.ExitStack() as ending:

        def start(*arguments: str | Path, greet: bool = True) -> Client:
            pipe = subprocess.PIPE
            process = subprocess.Popen(
                [*forked, *map(str, arguments)], stdin=pipe, stdout=pipe, stderr=pipe, cwd=tmp_path
            )
            ending.enter_context(process)
            ending.callback(process.kill)
            client = Client(process)
            if greet:
                client.request("initialize", HELLO)
                client.send({"method": "notifications/initialized"})
            return client

        yield start


def test_it_ends_well_when_its_client_is_gone(started: Callable[..., Client], skills: Path) -> None:
    client = started("--skills", skills, "mcp")
    assert "Deploy with care." in client.call("skills_load", skills=["deploy"])
    assert client.end() == (0, "", "")


@needs_signals
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_well_when_it_is_told_to(started: Callable[..., Client], skills: Path, number: int) -> None:
    client = started("mcp", "--skills", skills)
    client.process.send_signal(number)
    assert client.process.wait(timeout=30) == 0
    assert client.end() == (0, "", "")


@needs_signals
def test_it_ends_also_while_its_client_reads_nothing(started: Callable[..., Client], skills: Path) -> None:
    client = started("mcp", "--skills", skills)
    client.send({"id": "x" * 1_000_000, "method": "ping", "params": {}})  # the answer has it too
    until(lambda: waiting_bytes(client.process.stdout) > 0)  # there is no room for all of it
    client.process.send_signal(signal.SIGTERM)
    assert client.process.wait(timeout=30) == 0


def waiting_bytes(stream: IO[bytes] | None) -> int:
    """How much was written to a pipe that nobody has read yet."""
    import fcntl
    import termios

    assert stream is not None
    (size,) = struct.unpack("i", fcntl.ioctl(stream, termios.FIONREAD, bytes(4)))
    return int(size)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are listed in /proc")
def test_a_script_that_runs_ends_with_it(started: Callable[..., Client], skills: Path, tmp_path: Path) -> None:
    seconds = f"600.{os.getpid()}"
    (skills / "deploy/scripts/slow.sh").write_text(f"echo yes > started; sleep {seconds}\n")
    client = started("mcp", "--skills", skills)
    client.call("skills_load", skills=["deploy"])
    call = {"name": "skills_run", "arguments": {"script": "scripts/slow.sh"}}
    client.send({"id": 99, "method": "tools/call", "params": call})
    until(lambda: runs(seconds))
    client.process.send_signal(signal.SIGTERM)
    assert client.process.wait(timeout=30) == 0
    until(lambda: not runs(seconds))


def runs(argument: str) -> bool:
    """Whether any process was started with an argument."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if argument.encode() in file.read_bytes().split(b"\0"):
                return True
    return False


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_what_is_no_protocol_is_answered_and_does_not_end_it(started: Callable[..., Client], skills: Path) -> None:
    client = started("mcp", "--skills", skills)
    assert client.process.stdin is not None
    client.process.stdin.write(b"\xff\xfe no JSON \n[]\n" + b'{"jsonrpc": "2.0"}\n')
    client.process.stdin.flush()
    assert len(client.request("tools/list", {})["result"]["tools"]) == 5
    assert client.end()[0] == 0


def test_options_reach_the_server(started: Callable[..., Client], skills: Path) -> None:
    client = started("mcp", "--skills", skills, "--dialect", "tool", "--scripts", "deny")
    assert [tool["name"] for tool in client.request("tools/list", {})["result"]["tools"]] == ["skill"]
    assert client.end()[0] == 0


def test_skills_of_the_project_around_the_workspace_are_served(
    started: Callable[..., Client], tmp_path: Path, write_skill: Write
) -> None:
    write_skill(tmp_path / "project/.agents/skills/local")
    (tmp_path / "project" / ".git").mkdir()
    client = started("mcp", "--workspace", tmp_path / "project")
    prompts = [prompt["name"] for prompt in client.request("prompts/list", {})["result"]["prompts"]]
    assert "local" in prompts
    assert client.end()[0] == 0


@pytest.fixture
def served(forked: list[str], skills: Path) -> Iterator[Callable[..., tuple[str, subprocess.Popen[str]]]]:
    """Starts the server on HTTP, and has it ended with the test."""
    with contextlib.ExitStack() as ending:

        def start(*arguments: str, says: str = "", **env: str) -> tuple[str, subprocess.Popen[str]]:
            process = subprocess.Popen(
                [*forked, "mcp", "--skills", str(skills), "--http", *arguments],
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            ending.enter_context(process)
            ending.callback(process.kill)
            assert process.stderr is not None
            said = process.stderr.readline()
            found = re.search(r"http://\S+/mcp", said)
            assert found is not None, said + process.stderr.read()
            assert says in said
            return found[0], process

        yield start


def posted(url: str, **headers: str) -> int:
    """The status that a greeting is answered with."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
    sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers}
    request = urllib.request.Request(url, json.dumps(message).encode(), sent)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@needs_signals
def test_http_asks_for_the_token_and_ends_well(served: Callable[..., tuple[str, subprocess.Popen[str]]]) -> None:
    url, process = served("127.0.0.1:0", METIER_TOKEN="secret")
    assert url.startswith("http://127.0.0.1:")
    assert [posted(url), posted(url, Authorization="Bearer other"), posted(url, Authorization="Bearer secret")] == [
        401,
        401,
        200,
    ]
    process.terminate()
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.skipif(os.name != "posix", reason="files as POSIX has them")
def test_servers_that_start_at_once_have_one_token_and_one_that_was_killed_is_in_nobodys_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, link, tokens = tmp_path / "mcp-token", os.link, list[str]()

    def start_another(there: Any, here: Any) -> None:
        link(there, here)
        tokens.append(kept_token(file))

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", start_another)
        tokens.append(kept_token(file))
    link(file, tmp_path / ".mcp-token-0123456789abcdef")
    assert {*tokens, kept_token(file)} == {file.read_text().strip()}
    assert os.listdir(tmp_path) == [file.name]


@needs_signals
@pytest.mark.covers("SEC-20")
def test_without_a_token_one_is_made_that_this_user_alone_can_read_and_that_stays(
    served: Callable[..., tuple[str, subprocess.Popen[str]]], own_home: Path
) -> None:
    file = own_home / "metier-config" / "mcp-token"
    tokens = set()
    for _ in range(2):
        url, process = served("127.0.0.1:0", says=f"whoever has the token in {file}")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        tokens.add(file.read_text().strip())
        (token,) = tokens
        assert [posted(url), posted(url, Authorization=f"Bearer {token}")] == [401, 200]
        process.terminate()
        out, err = process.communicate(timeout=30)
        assert token not in out + err
    assert os.listdir(file.parent) == [file.name]


@pytest.mark.parametrize("token", ["", " "])
def test_a_token_that_came_out_empty_is_an_error(
    metier: Call, skills: Path, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("METIER_TOKEN", token)
    code, out, err = metier("mcp", "--skills", skills, "--http", "127.0.0.1:0")
    assert (code, out) == (2, "")
    assert "token is empty" in err


@needs_signals
def test_who_may_use_it_is_said_and_what_clients_send_cannot_act_on_the_terminal(
    served: Callable[..., tuple[str, subprocess.Popen[str]]],
) -> None:
    url, process = served("127.0.0.1:0", "--no-token", says="everybody on this machine")
    assert posted(url, Origin="http://e\x1b[2Jvil") == 403
    process.terminate()
    _, err = process.communicate(timeout=30)
    assert "Origin" in err
    assert "\x1b" not in err
    served("127.0.0.1:0", says="whoever has the token", METIER_TOKEN="secret")


@needs_signals
def test_a_call_that_is_under_way_when_it_ends_is_told_so(
    served: Callable[..., tuple[str, subprocess.Popen[str]]], skills: Path, tmp_path: Path
) -> None:
    (skills / "deploy/scripts/slow.sh").write_text(f"echo yes > '{tmp_path}/started'; sleep 60\n")
    url, process = served("127.0.0.1:0", "--no-token", "--workspace", str(tmp_path))
    statuses: list[int] = []
    thread = threading.Thread(target=lambda: statuses.append(called(url, "scripts/slow.sh")))
    thread.start()
    until(lambda: (tmp_path / "started").exists())
    process.terminate()
    _, err = process.communicate(timeout=30)
    thread.join(30)
    assert process.returncode == 0
    assert "Traceback" not in err
    assert statuses in ([200], [503])


def called(url: str, script: str) -> int:
    """The status that a call of a client of 2026-07-28 is answered with."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "skills_run", "arguments": {"skill": "deploy", "script": script}, "_meta": meta}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "MCP-Method": "tools/call",
        "MCP-Name": "skills_run",
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    request = urllib.request.Request(url, json.dumps(message).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@needs_signals
def test_a_person_who_starts_it_by_hand_is_told_what_it_waits_for(forked: list[str], skills: Path) -> None:
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*forked, "--skills", str(skills), "mcp"], stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    os.close(theirs)
    try:
        assert process.stderr is not None
        assert b"--install CLIENT" in process.stderr.readline()
        # It must have got so far as to listen for signals.
        os.write(ours, json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode() + b"\n")
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["id"] == 1
        process.terminate()
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out, err) == (0, b"", b"")
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_a_port_that_is_taken_is_said(metier: Call, skills: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, out, err = metier("mcp", "--skills", skills, "--http", f"127.0.0.1:{taken.getsockname()[1]}")
    assert (code, out) == (2, "")
    assert "listen on 127.0.0.1" in err
    assert "\nhint: " in err


@pytest.mark.each(
    "arguments",
    [
        ("--http", "0.0.0.0:0"),
        ("--http", "127.0.0.1:99999"),
        ("--http", "127.0.0.1:x"),
        ("--http", "http://127.0.0.1:80"),
        ("--http", "127.0.0.1:0", "--token", ""),
        ("--http", "127.0.0.1:0", "--token", "secret", "--no-token"),
        ("--http", "0.0.0.0:0", "--no-token"),
        ("--no-token",),
        ("--token", "secret"),
        ("--workspace", "nowhere"),
        ("--deny", "Bash("),
        ("--dialect", "latin"),
        ("--skills", "nowhere"),
        ("--budget", "0"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_served(
    metier: Call, skills: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("METIER_TOKEN", raising=False)
    code, out, err = metier("mcp", *([] if "--skills" in arguments else ["--skills", str(skills)]), *arguments)
    assert (code, out) == (2, "")
    assert err


@pytest.mark.each("text", ["", "::", "host:", "a b:1", "[::1]:70000", "1.2.3.4:-1", "host:\u0661", "x" * 300])
def test_no_other_text_is_an_address(text: str) -> None:
    with pytest.raises(InvalidArgument):
        address(text)


@pytest.mark.each("text", ["nonsense", "all", "-"])
def test_a_word_that_is_neither_an_address_nor_a_port_is_said_to_be_none(metier: Call, text: str) -> None:
    code, _, err = metier("mcp", f"--http={text}")
    assert (code, f"{text!r} has no host to listen on" in err, "127.0.0.1:8321" in err) == (2, True, True)
