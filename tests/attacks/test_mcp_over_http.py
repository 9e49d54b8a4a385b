"""Attacks on MCP over HTTP: what docs/how-to/mcp.md promises, tried from outside.

- Whoever has the token uses the server as its user, and nobody else does.
- A request is answered if it is for a host that is allowed, and from no page of another.
- No connection is held by a request, or an answer, of which only a part is taken, nor by one that never gets an answer.
- A session belongs to whoever knows its id, which nobody can guess.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import mcp
import pytest
from mcp_types import ElicitResult
from tests.serve.clients import NO, talk, text_of
from tests.serve.test_http import DISCOVER, opened, post

from metier.errors import SourceUnavailable
from metier.guard import Policy
from metier.serve.mcp import SkillServer
from metier.serve.mcp.http import MAX_BODY

TOKEN = "s3cret-token"
SECRET = b"io.modelcontextprotocol/skills"
"""Stands in what the server says to whoever is let in."""
BODY = json.dumps(DISCOVER).encode()
USUAL = {
    "Host": "127.0.0.1",
    "Authorization": f"Bearer {TOKEN}",
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "MCP-Method": "server/discover",
}


class Attempt(NamedTuple):
    """A request that differs in something from one that is answered, and the statuses that may come of it."""

    statuses: tuple[int, ...]
    headers: dict[str, str | None] = {}  # noqa: RUF012
    """Headers in place of the usual ones; None leaves one out."""
    more: tuple[str, ...] = ()
    """Lines beside them."""
    method: str = "POST"
    target: str = "/mcp"
    body: bytes = BODY
    version: str = "1.1"

    def raw(self) -> bytes:
        headers = {name: value for name, value in (USUAL | self.headers).items() if value is not None}
        headers.setdefault("Content-Length", str(len(self.body)))
        lines = [f"{self.method} {self.target} HTTP/{self.version}", *(f"{k}: {v}" for k, v in headers.items())]
        return "\r\n".join([*lines, *self.more, "Connection: close", "", ""]).encode("latin-1") + self.body


def host(name: str | None) -> Attempt:
    return Attempt((400, 421), {"Host": name})


def origin(page: str) -> Attempt:
    return Attempt((403,), {"Origin": page})


def bearer(given: str | None) -> Attempt:
    return Attempt((401,), {"Authorization": given})


def session(id_: str) -> Attempt:
    return Attempt((400, 404), {"Mcp-Session-Id": id_, "MCP-Protocol-Version": "2025-06-18"})


ATTEMPTS: dict[str, Attempt] = {
    # Names that resolve to this machine for a browser that was led here.
    "host evil port": host("localhost:evil"),
    "host empty port": host("localhost:"),
    "host port beyond": host("localhost:99999"),
    "host port zero": host("localhost:0"),
    "host negative port": host("localhost:-1"),
    "host two ports": host("localhost:80:80"),
    "host userinfo": host("user@localhost"),
    "host as userinfo": host("localhost:80@evil.example"),
    "host below another": host("localhost.evil.example"),
    "host address below another": host("127.0.0.1.evil.example"),
    "host other": host("evil.example"),
    "host six below another": host("[::1].evil.example"),
    "host six and letters": host("[::1]evil"),
    "host six bare": host("::1"),
    "host six zone": host("[::1%25lo]"),
    "host six mapped": host("[::ffff:127.0.0.1]"),
    "host short address": host("127.1"),
    "host decimal address": host("2130706433"),
    "host hexadecimal address": host("0x7f.0.0.1"),
    "host any": host("0.0.0.0"),
    "host two dots": host("localhost.."),
    "host leading dot": host(".localhost"),
    "host slash": host("localhost/evil"),
    "host list": host("localhost, evil.example"),
    "host other alphabet": host("l\xf6calhost"),
    "host port with a sign": host("127.0.0.1:+80"),
    "host port with a blank": host("127.0.0.1: 80"),
    "host port with a line": host("127.0.0.1:8_0"),
    "host port of other digits": host("127.0.0.1:\xb2"),
    "host fragment": host("127.0.0.1#evil.example"),
    "host half of six": host("[::1"),
    "host other of this machine": host("127.0.0.2"),
    "host forwarded": Attempt((421,), {"Host": "evil.example", "X-Forwarded-Host": "localhost"}),
    "host of old": Attempt((421,), {"Host": "evil.example"}, version="1.0"),
    "host empty": host(""),
    "host missing": host(None),
    "host missing in 1.0": Attempt((421,), {"Host": None}, version="1.0"),
    "host twice": Attempt((400,), more=("Host: evil.example",)),
    # Pages of others.
    "origin other": origin("http://evil.example"),
    "origin null": origin("null"),
    "origin empty": origin(""),
    "origin userinfo": origin("http://localhost:80@evil.example"),
    "origin user": origin("http://localhost@evil.example"),
    "origin below another": origin("http://localhost.evil.example"),
    "origin evil port": origin("http://localhost:evil"),
    "origin port beyond": origin("http://localhost:65536"),
    "origin path": origin("http://localhost/evil.example"),
    "origin fragment": origin("http://localhost#@evil.example"),
    "origin backslash": origin("http://localhost\\@evil.example"),
    "origin other scheme": origin("ftp://localhost"),
    "origin extension": origin("chrome-extension://abcdef"),
    "origin file": origin("file://"),
    "origin no host": origin("http://"),
    "origin six below another": origin("http://[::1].evil.example"),
    "origin list": origin("http://localhost http://evil.example"),
    "origin user here": origin("http://user@localhost"),
    "origin script": origin("javascript://localhost"),
    "origin data": origin("data:"),
    "origin blob": origin("blob:http://localhost"),
    "origin no scheme": origin("//localhost"),
    "origin host alone": origin("localhost"),
    "origin port and name": origin("http://127.0.0.1:80.evil.example"),
    "origin query": origin("http://localhost?x"),
    "origin any": origin("http://0.0.0.0"),
    "origin comma": origin("http://localhost,http://evil.example"),
    "origin twice": Attempt((400,), {"Origin": "http://localhost"}, more=("Origin: http://evil.example",)),
    # Ways to have no token.
    "token missing": bearer(None),
    "token empty": bearer("Bearer "),
    "token scheme alone": bearer("Bearer"),
    "token other": bearer("Bearer other"),
    "token beginning": bearer(f"Bearer {TOKEN[:-1]}"),
    "token longer": bearer(f"Bearer {TOKEN}x"),
    "token in upper case": bearer(f"Bearer {TOKEN.upper()}"),
    "token other scheme": bearer(f"Basic {TOKEN}"),
    "token without scheme": bearer(TOKEN),
    "token list": bearer(f"Bearer x, Bearer {TOKEN}"),
    "token other alphabet": bearer("Bearer \xe9"),
    "token twice": Attempt((400,), more=(f"Authorization: Bearer {TOKEN}",)),
    "token in the address": Attempt((401,), {"Authorization": None}, target=f"/mcp?token={TOKEN}"),
    "token as access_token": Attempt((401,), {"Authorization": None}, target=f"/mcp?access_token={TOKEN}"),
    "token in the address as well": Attempt((400,), target=f"/mcp?access_token={TOKEN}"),
    "token in the address by any name": Attempt((400,), target=f"/mcp?x={TOKEN}"),
    "token in the address escaped": Attempt((400,), target=f"/mcp?x=%73{TOKEN[1:]}"),
    "token in the address escaped twice": Attempt((400,), target=f"/mcp?next=%252Fmcp%253Fx%253D%2573{TOKEN[1:]}"),
    "token in the address as a name": Attempt((400,), target=f"/mcp?{TOKEN}"),
    "token in the address with its scheme": Attempt((400,), target=f"/mcp?h=Bearer+{TOKEN}&x=1"),
    "token in the address alone by any name": Attempt((401,), {"Authorization": None}, target=f"/mcp?x={TOKEN}"),
    "token of another scheme of the same letters": bearer(f"\xa2earer {TOKEN}"),
    "token behind a tab": bearer(f"Bearer\t{TOKEN}"),
    "token on the next line": Attempt((400, 401), {"Authorization": "Bearer"}, more=(f" x{TOKEN}",)),
    "token with a comma": bearer(f"Bearer {TOKEN}, x"),
    "token with a zero": Attempt((400,), {"Authorization": f"Bearer {TOKEN}\0"}),
    "token in a header alike": Attempt((401,), {"Authorization": None, "X-Authorization": f"Bearer {TOKEN}"}),
    "token of nobody to listen": Attempt((401,), {"Authorization": None}, method="GET"),
    "token of nobody to end a session": Attempt((401,), {"Authorization": None}, method="DELETE"),
    "token of nobody for a health check": Attempt((401,), {"Authorization": None}, method="GET", target="/health"),
    "token of nobody for what is well known": Attempt(
        (401,), {"Authorization": None}, method="GET", target="/.well-known/oauth-protected-resource"
    ),
    "token of nobody for another protocol": Attempt(
        (401,), {"Authorization": None}, more=("Upgrade: websocket", "Sec-WebSocket-Key: eA==")
    ),
    "token in a cookie": Attempt((401,), {"Authorization": None, "Cookie": f"token={TOKEN}"}),
    "token in another header": Attempt((401,), {"Authorization": None, "X-Api-Key": TOKEN}),
    "token by a proxy": Attempt((401,), {"Authorization": None, "Proxy-Authorization": f"Bearer {TOKEN}"}),
    "token for a preflight": Attempt((401,), {"Authorization": None, "Origin": "http://localhost"}, method="OPTIONS"),
    # Other places and methods.
    "target absolute": Attempt((400,), target="http://evil.example/mcp"),
    "target absolute here": Attempt((400,), target="http://127.0.0.1/mcp"),
    "target slash": Attempt((404,), target="/mcp/"),
    "target two slashes": Attempt((404,), target="//mcp"),
    "target parent": Attempt((404,), target="/mcp/.."),
    "target and back": Attempt((404,), target="/mcp/../mcp"),
    "target upper case": Attempt((404,), target="/MCP"),
    "target zero": Attempt((404,), target="/mcp%00"),
    "target star": Attempt((400,), target="*", method="OPTIONS"),
    "target without slash": Attempt((400,), target="mcp"),
    "method head": Attempt((405,), method="HEAD"),
    "method options": Attempt((405,), method="OPTIONS"),
    "method preflight": Attempt(
        (403,), {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}, method="OPTIONS"
    ),
    "method trace": Attempt((405,), method="TRACE"),
    "method put": Attempt((405,), method="PUT"),
    "method connect": Attempt((400,), method="CONNECT", target="evil.example:443"),
    "method in lower case": Attempt((405,), method="post"),
    # Bodies that are not what they seem.
    "type missing": Attempt((400,), {"Content-Type": None}),
    "type text": Attempt((400,), {"Content-Type": "text/plain"}),
    "type form": Attempt((400,), {"Content-Type": "application/x-www-form-urlencoded"}),
    "type longer": Attempt((400,), {"Content-Type": "application/jsonp"}),
    "type list": Attempt((400,), {"Content-Type": "application/json, text/plain"}),
    "type twice": Attempt((400,), more=("Content-Type: text/plain",)),
    "body compressed": Attempt((415,), {"Content-Encoding": "gzip"}, body=gzip.compress(BODY)),
    "body deflated": Attempt((415,), {"Content-Encoding": "deflate"}),
    "body batch": Attempt((400,), body=b"[" + BODY + b"]"),
    "body nested": Attempt((400,), body=b'{"a":' * 100_000),
    "body number": Attempt((400,), body=b'{"jsonrpc": "2.0", "id": 1e999, "method": "server/discover"}'),
    "body too large": Attempt((413,), body=b" " * (MAX_BODY + 1)),
    "body two lengths": Attempt((400,), more=(f"Content-Length: {len(BODY) + 1}",)),
    "body length and chunks": Attempt((400,), {"Transfer-Encoding": "chunked"}),
    "body negative length": Attempt((400,), {"Content-Length": "-1"}),
    "body chunk of no size": Attempt((400,), {"Transfer-Encoding": "chunked", "Content-Length": None}, body=b"zz\r\n"),
    "head too long": Attempt((400, 431), {"X-Long": "x" * 100_000}),
    "head with a zero": Attempt((400,), {"X-Zero": "a\0b"}),
    "head with a space in a name": Attempt((400,), more=("Host : evil.example",)),
    "head with a bare line end": Attempt((400,), {"X-Line": "a\rHost: evil.example"}),
    # Sessions and answers of others.
    "session guessed": session("0" * 32),
    "session of no form": session("../../x"),
    "session empty": session(""),
    "session pattern": session("*"),
    "session list": session(f"{'0' * 32},{'1' * 32}"),
    "session escaped": session("%00"),
    "session to listen": session("0" * 32)._replace(method="GET", more=("Last-Event-ID: 1",)),
    "session twice": Attempt((400,), {"Mcp-Session-Id": "0" * 32}, more=("Mcp-Session-Id: 1",)),
    "version unknown": Attempt((400,), {"MCP-Protocol-Version": "9999-01-01"}),
    "version twice": Attempt((400,), more=("MCP-Protocol-Version: 2025-06-18",)),
    "answer to nobody": Attempt(
        (400,),
        {"MCP-Protocol-Version": "2025-06-18"},
        body=b'{"jsonrpc": "2.0", "id": 1, "result": {"action": "accept", "content": {"approve": true}}}',
    ),
}
LET_IN: dict[str, Attempt] = {
    "as usual": Attempt((200,)),
    "upper case": Attempt((200,), {"Host": "LOCALHOST"}),
    "trailing dot": Attempt((200,), {"Host": "localhost."}),
    "with a port": Attempt((200,), {"Host": "localhost:1"}),
    "six": Attempt((200,), {"Host": "[::1]:80"}),
    "six in full": Attempt((200,), {"Host": "[0:0:0:0:0:0:0:1]"}),
    "own page": Attempt((200,), {"Origin": "HTTP://LocalHost:5"}),
    "own page over TLS": Attempt((200,), {"Origin": "https://127.0.0.1"}),
    "scheme in lower case": Attempt((200,), {"Authorization": f"bearer {TOKEN}"}),
    "type with a parameter": Attempt((200,), {"Content-Type": "application/json; charset=utf-8"}),
}


def answer_to(url: str, attempt: Attempt) -> tuple[int, bytes]:
    """The status and all of what comes back."""
    place = urlsplit(url)
    with socket.create_connection((place.hostname or "", place.port or 0), timeout=15) as line:
        with contextlib.suppress(OSError):  # it may be refused before all of it was sent
            line.sendall(attempt.raw())
        received = b""
        try:
            while piece := line.recv(65_536):
                received += piece
        except TimeoutError:
            return 0, received
        except ConnectionError:
            pass  # what it had not read was left
    status = received.split(b" ", 2)[1] if received.startswith(b"HTTP/") else b"0"
    return int(status), received


@pytest.mark.covers("SEC-20")
def test_no_attempt_gets_in(serve: Callable[..., SkillServer], http: Callable[..., str]) -> None:
    assert len(ATTEMPTS) >= 40
    url = http(serve(), token=TOKEN)
    wrong: dict[str, Any] = {}
    for name, attempt in ATTEMPTS.items():
        status, received = answer_to(url, attempt)
        if status not in attempt.statuses or SECRET in received or b"Traceback" in received:
            wrong[name] = (status, received[-300:])
    assert wrong == {}


RAW = {
    "another protocol": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a secret line": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    "nothing but line ends": b"\r\n" * 1_000,
    "a second request for another host": Attempt((200,)).raw().replace(b"Connection: close\r\n", b"")
    + host("evil.example").raw(),
    "a second request without the token": Attempt((200,)).raw().replace(b"Connection: close\r\n", b"")
    + bearer(None).raw(),
    "a request in the body of another": bearer(None).raw() + Attempt((200,)).raw(),
}


@pytest.mark.covers("SEC-20")
def test_a_connection_has_no_more_rights_than_each_request_on_it(
    serve: Callable[..., SkillServer], http: Callable[..., str]
) -> None:
    place = urlsplit(http(serve(), token=TOKEN))
    for name, data in RAW.items():
        with socket.create_connection((place.hostname or "", place.port or 0), timeout=15) as line:
            line.sendall(data)
            received = b""
            with contextlib.suppress(ConnectionError):
                while piece := line.recv(65_536):
                    received += piece
        assert received.count(SECRET) == received.count(b"HTTP/1.1 200 ") == name.startswith("a second"), name


LONG_ENOUGH = "x" * 43


def written(file: Path, content: str = LONG_ENOUGH, mode: int = 0o600) -> None:
    file.write_text(content, encoding="utf-8")
    file.chmod(mode)


def linked(file: Path) -> None:
    written(file.parent / "elsewhere")
    file.symlink_to("elsewhere")


def linked_to_nothing(file: Path) -> None:
    file.symlink_to("nothing")


def linked_hard(file: Path) -> None:
    written(file.parent / "elsewhere")
    os.link(file.parent / "elsewhere", file)


def pipe(file: Path) -> None:
    os.mkfifo(file, 0o600)


MODES = (0o644, 0o640, 0o660, 0o604, 0o602, 0o620, 0o622, 0o666, 0o777, 0o610, 0o601)
CONTENTS = ("", " ", "\n", "\0" * 43, "short", f"{'x' * 20}\n{'y' * 20}", "\xe9" * 43, f"\ufeff{LONG_ENOUGH}")
NO_TOKENS: list[Callable[[Path], object]] = [
    *(linked, linked_to_nothing, linked_hard, pipe, Path.mkdir),
    *(functools.partial(written, mode=mode) for mode in MODES),
    *(functools.partial(written, content=content) for content in CONTENTS),
]


@pytest.mark.skipif(os.name != "posix", reason="files as POSIX has them")
@pytest.mark.covers("SEC-20")
@pytest.mark.parametrize("prepare", NO_TOKENS)
def test_a_file_that_others_could_have_made_or_read_holds_no_token(
    tmp_path: Path, prepare: Callable[[Path], object]
) -> None:
    from metier.cli.mcp import kept_token

    prepare(tmp_path / "mcp-token")
    with pytest.raises(SourceUnavailable) as refused:
        kept_token(tmp_path / "mcp-token")
    assert "Remove it" in refused.value.hint


@pytest.mark.covers("SEC-20")
def test_what_is_meant_to_get_in_does(serve: Callable[..., SkillServer], http: Callable[..., str]) -> None:
    url = http(serve(), token=TOKEN)
    found = {name: answer_to(url, attempt) for name, attempt in LET_IN.items()}
    assert {name: status for name, (status, _) in found.items()} == dict.fromkeys(LET_IN, 200)
    assert all(SECRET in received for _, received in found.values())


@pytest.mark.covers("SEC-20")
def test_no_answer_allows_pages_of_others_to_read_it(
    serve: Callable[..., SkillServer], http: Callable[..., str]
) -> None:
    url = http(serve(), token=TOKEN)
    for attempt in (*ATTEMPTS.values(), *LET_IN.values()):
        assert b"access-control-" not in answer_to(url, attempt)[1].lower()


@pytest.mark.covers("SEC-17", "SEC-20")
def test_nobody_answers_a_question_that_another_session_was_asked(
    serve: Callable[..., SkillServer], http: Callable[..., str]
) -> None:
    url = http(serve(Policy(unsandboxed="allow", scripts="ask")))
    yes = {"action": "accept", "content": {"approve": True}}
    theirs = opened(url)

    async def answer(context: Any, params: Any) -> ElicitResult:
        for id_ in (context.request_id, *range(6), *map(str, range(6))):
            post(url, {"jsonrpc": "2.0", "id": id_, "result": yes}, **theirs)
        return NO

    async def use(client: mcp.Client) -> str:
        await client.call_tool("skills_load", {"skills": ["forms"]})
        return text_of(await client.call_tool("skills_run", {"script": "scripts/echo.py"}))

    assert talk(url, use, "legacy", elicitation_callback=answer).startswith("Error [approval-denied]")


def called(url: str, of: dict[str, str], id_: object, tool: str, **arguments: Any) -> tuple[int, str]:
    """The answer to the call of a tool in a session."""
    body = {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    return post(url, body, **of)


@pytest.mark.covers("SEC-19")
def test_no_request_waits_for_an_answer_that_goes_to_another_of_the_same_id(
    serve: Callable[..., SkillServer], http: Callable[..., str], tmp_path: Path
) -> None:
    url = http(serve())
    of, other = opened(url), opened(url)
    for session_ in (of, other):
        assert called(url, session_, 1, "skills_load", skills=["forms"])[0] == 200
    answers: list[tuple[int, str]] = []
    first = threading.Thread(
        target=lambda: answers.append(called(url, of, 7, "skills_run", script="scripts/wait.py")), daemon=True
    )
    first.start()
    while not (tmp_path / "work" / "begun").exists() and first.is_alive():
        first.join(0.01)
    for id_ in (7, 7, "7", "7", "_GET_stream", "_GET_stream"):
        status, text = called(url, of, id_, "skills_load", skills=["letters"])
        assert (status, "being answered already" in text) == (400, True)
    assert called(url, of, 8, "skills_load", skills=["letters"])[0] == 200
    assert called(url, other, 7, "skills_load", skills=["letters"])[0] == 200
    (tmp_path / "work" / "go on").touch()
    first.join(60)
    assert [(status, "begun" in text) for status, text in answers] == [(200, True)]
    assert called(url, of, 7, "skills_load", skills=["letters"])[0] == 200


@contextlib.contextmanager
def streams(url: str, how: str) -> Iterator[Callable[[], socket.socket]]:
    """Opens streams on which a client listens."""
    place = urlsplit(url)
    with contextlib.ExitStack() as lines:

        def stream() -> socket.socket:
            if how == "GET":
                of = opened(url, Authorization=f"Bearer {TOKEN}")
                headers = {name.replace("_", "-"): value for name, value in of.items()}
                request = Attempt((), {**headers, "Last-Event-ID": "1"}, method="GET", body=b"")
            else:
                body: dict[str, Any] = json.loads(BODY) | {"method": "subscriptions/listen"}
                body["params"]["notifications"] = {"toolsListChanged": True}
                request = Attempt((), {"MCP-Method": "subscriptions/listen"}, body=json.dumps(body).encode())
            line = lines.enter_context(socket.create_connection((place.hostname or "", place.port or 0), 15))
            line.sendall(request.raw())
            assert line.recv(12) == b"HTTP/1.1 200"
            return line

        yield stream


@pytest.mark.covers("SEC-19")
@pytest.mark.parametrize("how", ["GET", "listen"])
def test_streams_on_which_clients_listen_keep_nobody_out(
    serve: Callable[..., SkillServer], http: Callable[..., str], how: str
) -> None:
    from metier.serve.mcp.http_limits import HttpLimits

    url = http(serve(), token=TOKEN, limits=HttpLimits(connections=6, by_address=6))
    with streams(url, how) as stream:
        first, *_ = [stream() for _ in range(5)]
        for _ in range(8):
            last = stream()
            assert post(url, DISCOVER, Authorization=f"Bearer {TOKEN}")[0] == 200
        with contextlib.suppress(ConnectionError):
            while first.recv(65_536):
                pass
        last.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            assert last.recv(65_536) != b"", "the newest stream stays"


LITTLE = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (160, 160))
runpy.run_module("metier", run_name="__main__", alter_sys=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="limits as POSIX has them")
@pytest.mark.covers("SEC-19")
@pytest.mark.slow
def test_half_requests_without_a_token_keep_nobody_out_where_descriptors_are_few(skills: Path) -> None:
    words = ("mcp", "--skills", str(skills), "--http", "127.0.0.1:0", "--token", TOKEN)
    with (
        subprocess.Popen([sys.executable, "-c", LITTLE, *words], stderr=subprocess.PIPE, text=True) as server,
        contextlib.ExitStack() as lines,
    ):
        lines.callback(server.terminate)
        assert server.stderr is not None
        said = server.stderr.readline()
        url = next(word for word in said.replace(";", " ").split() if word.startswith("http://"))
        place = urlsplit(url)
        for _ in range(200):
            line = lines.enter_context(socket.create_connection((place.hostname or "", place.port or 0), 15))
            line.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n")
        try:
            status, _ = post(url, DISCOVER, Authorization=f"Bearer {TOKEN}")
        except OSError as error:
            pytest.fail(f"nobody else is served: {error!r}")
        assert status == 200
