"""Clients that talk to a server, with the official package."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import anyio
import mcp
import pytest
from mcp_types import ElicitRequestParams, ElicitResult, Request
from pydantic import BaseModel

from metier.serve.mcp import SkillServer

T = TypeVar("T")

MODES = ("auto", "legacy")
"""Both generations of the protocol: every request for itself, and after a handshake."""
in_one_mode = pytest.mark.parametrize("mode", [MODES[0], pytest.param(MODES[1], marks=pytest.mark.slow)])
"""For a test of what is the same in both: after a handshake it is slow."""


def talk(
    server: SkillServer | str | mcp.StdioServerParameters,
    use: Callable[[mcp.Client], Awaitable[T]],
    mode: str = "auto",
    **options: Any,
) -> T:
    """What a client gets that uses a server."""

    async def main() -> T:
        with anyio.fail_after(120):
            async with connected(server, mode, **options) as client:
                return await use(client)

    return anyio.run(main)


@contextlib.asynccontextmanager
async def connected(
    server: SkillServer | str | mcp.StdioServerParameters, mode: str = "auto", **options: Any
) -> AsyncIterator[mcp.Client]:
    """A client of a server."""
    target = server.protocol if isinstance(server, SkillServer) else server
    async with mcp.Client(target, mode=mode, **options) as client:
        yield client


class _Any(Request[dict[str, Any] | None, str]):
    """A request that the client has no method for."""

    method: str
    params: dict[str, Any] | None = None


class _Given(BaseModel, extra="allow"):
    """Whatever the server gives."""


async def ask(client: mcp.Client, method: str, **params: Any) -> dict[str, Any]:
    """The result of a request of an extension."""
    return (await client.session.send_request(_Any(method=method, params=params), _Given)).model_dump()


def text_of(result: Any) -> str:
    """What a model reads of a result."""
    return "\n".join(item.text for item in result.content)


def answering(*answers: ElicitResult) -> tuple[list[str], Callable[..., Awaitable[ElicitResult]]]:
    """What a client is asked, and the callback that answers each question by the next answer."""
    asked: list[str] = []
    waiting = list(answers)

    async def answer(context: Any, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return waiting.pop(0)

    return asked, answer


YES = ElicitResult(action="accept", content={"approve": True})
NO = ElicitResult(action="decline")
