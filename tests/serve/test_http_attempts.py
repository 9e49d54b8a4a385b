"""Attempts on the server over HTTP, as a table: what none of them may get, later work must keep from them too."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import mcp
import pytest
from mcp_types import ElicitResult
from tests.serve.clients import NO, talk, text_of
from tests.serve.test_http import DISCOVER, opened, post

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
