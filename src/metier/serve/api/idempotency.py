"""Idempotency keys over HTTP: a request that is sent again under its key gets its answer again, and is done once.

An answer may have a token in it, which is kept nowhere else: so it is sealed by the credential of its sender, of which
the store has only a hash.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import anyio
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response

from metier._lazy import dataclass, logger
from metier.errors import MetierError
from metier.serve.api.browser_session import COOKIE, read_cookie, require_own_page
from metier.serve.api.credentials import ApiCaller, bearer_of
from metier.serve.api.problems import ProblemError, problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from metier.serve.api.settings import ServerSettings
    from metier.store import Store
    from metier.store.idempotency import IdempotencyKeys, KeyedRequest

log = logger("metier.serve")

HEADER = "Idempotency-Key"
KEY = r"^[!-~]{1,200}$"
UNSAFE = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_MAX_ANSWER = 256 * 1024
_PATIENCE_SECONDS = 5.0
"""The longest wait for the answer to the same request that is under way."""
_LOOK_SECONDS = 0.05
_LONGEST = timedelta(minutes=2)
"""A request without an answer for longer has none any more: whatever did it has ended."""
_NONCE = 12


class Idempotency:
    """Answers a request that came before under the same key as it was answered then."""

    def __init__(self, app: ASGIApp, *, store: Store, settings: ServerSettings) -> None:
        self._app = app
        self._store = store
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, once for its key if it has one."""
        key = Headers(scope=scope).get(HEADER) if scope["type"] == "http" and scope["method"] in UNSAFE else None
        if key is None:
            await self._app(scope, receive, send)
            return
        if not re.match(KEY, key):
            text = f"The header {HEADER} has 1 to 200 visible characters."
            await problem(422, "invalid-request", text)(scope, receive, send)
            return
        request = Request(scope)
        bearer = bearer_of(request)
        secret = bearer or read_cookie(request, self._settings, COOKIE)
        found = await anyio.to_thread.run_sync(self._store.by_token, secret) if secret else None
        if found is None:
            await self._app(scope, receive, send)  # which refuses it, or asks for no credential
            return
        if not bearer:
            try:
                require_own_page(request, self._settings, secret)
            except ProblemError as refusal:
                await refusal.answer()(scope, receive, send)
                return
        tenant, person = found
        scope.setdefault("state", {})["caller"] = ApiCaller(scope=tenant, person=person, by_cookie=not bearer)
        keyed = _Keyed(keys=tenant.idempotency, person=person.name, key=key, secret=secret)
        earlier = await keyed.begin()
        body = _HashedBody(scope, receive)
        if earlier is None:
            await self._answer(keyed, body, scope, send)
        else:
            await body.read()
            await keyed.answer_again(earlier, body.digest)(scope, receive, send)

    async def _answer(self, keyed: _Keyed, body: _HashedBody, scope: Scope, send: Send) -> None:
        kept = _KeptAnswer(send)
        # One that fails, or whose process ends, keeps its key: nobody can tell whether it has changed something.
        await self._app(scope, body, kept)
        if kept.status < 400:
            await body.read()
        try:
            await keyed.end(body.digest, kept)
        except MetierError as error:
            log.warning("the answer to a request is not kept: %s", error.message)
        await kept.pass_on()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Keyed:
    """A request under its key."""

    keys: IdempotencyKeys
    person: str
    key: str
    secret: str

    async def begin(self) -> KeyedRequest | None:
        """Claim the key; returns the earlier request under it, once that is answered or cannot be waited for."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while True:
            found = await anyio.to_thread.run_sync(self.keys.claim, self.person, self.key)
            if found is None or found.status or found.age > _LONGEST or time.monotonic() > until:
                return found
            await anyio.sleep(_LOOK_SECONDS)

    async def end(self, digest: str, answer: _KeptAnswer) -> None:
        """Keep the answer to a request that may have changed something."""
        if answer.status >= 400:
            await anyio.to_thread.run_sync(self.keys.release, self.person, self.key)
            return
        content = answer.content
        sealed = "" if content is None else _seal(content, self.secret, digest)
        await anyio.to_thread.run_sync(
            lambda: self.keys.finish(self.person, self.key, request=digest, status=answer.status, answer=sealed)
        )

    def answer_again(self, earlier: KeyedRequest, digest: str) -> Response:
        """The answer to a request whose key was used before."""
        if not earlier.status:
            return _unanswered(is_over=earlier.age > _LONGEST)
        if not hmac.compare_digest(earlier.request, digest):
            return problem(
                422,
                "idempotency-key-reused",
                f"Another request came under this {HEADER} before.",
                hint="Make a new key for each request, and keep it when you send that request again.",
            )
        content = _unseal(earlier.answer, self.secret, digest) if earlier.answer else None
        if content is None:
            return problem(
                409,
                "answer-not-kept",
                "This request was done before; its answer is kept only for the credential that sent it.",
                hint="Look at what it has changed.",
            )
        answer = Response(base64.b64decode(content["body"]), earlier.status)
        answer.raw_headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in content["headers"]]
        MutableHeaders(raw=answer.raw_headers)["Idempotency-Replayed"] = "true"
        return answer


def _unanswered(*, is_over: bool) -> Response:
    if is_over:
        return problem(
            409,
            "outcome-unknown",
            "The server was stopped by something while it did this request.",
            hint="Look whether it was done; if not, send it under a new key.",
        )
    return problem(
        409,
        "request-in-progress",
        "The same request is under way.",
        hint="Send it again in a moment, under the same key.",
        headers={"Retry-After": "1"},
    )


class _HashedBody:
    """The body of a request, with the digest of all of the request that was read so far."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._receive = receive
        self._is_read = False
        head = (scope["method"], scope["path"], scope["query_string"].decode("latin-1"))
        self._hash = hashlib.sha256(json.dumps([*head, Headers(scope=scope).get("content-type")]).encode())

    async def __call__(self) -> Message:
        """Receive the next part of it."""
        message = await self._receive()
        if message["type"] == "http.request":
            self._hash.update(message.get("body", b""))
        self._is_read = not message.get("more_body", False)
        return message

    async def read(self) -> None:
        """Read the rest of it."""
        while not self._is_read:
            await self()

    @property
    def digest(self) -> str:
        """The digest of the request."""
        return self._hash.hexdigest()


class _KeptAnswer:
    """An answer that waits until it is kept, unless it is too long for that."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._messages: list[Message] = []
        self._size = 0
        self.status = 0

    async def __call__(self, message: Message) -> None:
        """Take a part of it."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        self._messages.append(message)
        self._size += len(message.get("body", b""))
        if self._size > _MAX_ANSWER:
            await self.pass_on()

    async def pass_on(self) -> None:
        """Send what has come so far."""
        messages, self._messages = self._messages, []
        for message in messages:
            await self._send(message)

    @property
    def content(self) -> dict[str, Any] | None:
        """The answer as JSON; None for one that is too long."""
        if self._size > _MAX_ANSWER:
            return None
        headers = self._messages[0].get("headers", [])
        body = b"".join(one.get("body", b"") for one in self._messages)
        return {
            "headers": [[name.decode("latin-1"), value.decode("latin-1")] for name, value in headers],
            "body": base64.b64encode(body).decode(),
        }


def _cipher(secret: str) -> AESGCM:
    return AESGCM(hmac.digest(secret.encode(), b"metier: the answer to a request", "sha256"))


def _seal(content: dict[str, Any], secret: str, digest: str) -> str:
    nonce = os.urandom(_NONCE)
    sealed = _cipher(secret).encrypt(nonce, json.dumps(content).encode(), digest.encode())
    return base64.b64encode(nonce + sealed).decode()


def _unseal(sealed: str, secret: str, digest: str) -> dict[str, Any] | None:
    data = base64.b64decode(sealed)
    try:
        found: dict[str, Any] = json.loads(_cipher(secret).decrypt(data[:_NONCE], data[_NONCE:], digest.encode()))
    except InvalidTag:
        return None
    return found
