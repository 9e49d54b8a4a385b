"""Questions to the client: it asks the person in front of it, or says that it did, and the action happens after a yes.

A yes is the word of the client's program: it counts once, for the request that it was asked about, is recorded as the
client's, and is no approval. The guard says where it does not even count for that.

A client of the handshake protocols is asked while its request waits. A client of 2026-07-28 is sent the question in
place of a result and makes the request again with an answer. In both, the action is decided about anew when the answer
is there, and an answer counts for the question whose id that decision has, and for no other.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult

from metier._lazy import logger
from metier.errors import MetierError
from metier.guard.question import Answers
from metier.serve.mcp.connection import is_modern
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp_types import InputResponseRequestParams

    from metier.guard.question import Question
    from metier.serve.mcp.connection import Context

log = logger("metier.serve")

T = TypeVar("T")

_SCHEMA = {
    "type": "object",
    "properties": {
        "approve": {
            "type": "boolean",
            "title": "Allow it",
            "description": "Whether this may happen now, this one time.",
        }
    },
    "required": ["approve"],
}
_MAX_NAME = 80
MAX_ROUNDS = 8
"""The number of questions of one request; a call that has more to ask is refused."""
MAX_ANSWERED = 100_000
"""Answers that are remembered, so that none counts twice; with more than that within minutes, no other counts."""
SECONDS = 600.0
_MAX_STATE = 65_536


class _Asked(NamedTuple):
    """Questions that a client was sent, and what was answered in the same request before."""

    id: str
    about: str
    questions: dict[str, str]
    """The ids of the questions, by what the client calls them."""
    given: dict[str, bool]
    until: float


class Questions:
    """The questions to clients. Each may be answered once, and for some minutes.

    A question is not kept here but with the client, sealed: so nobody can have the questions of others
    forgotten by being asked many.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._seal = secrets.token_bytes(32)
        self._answered: OrderedDict[str, float] = OrderedDict()
        self._clock = clock

    async def settle(
        self,
        ctx: Context,
        request: InputResponseRequestParams,
        about: object,
        attempt: Callable[[Answers | None], Awaitable[T]],
    ) -> T | InputRequiredResult:
        """Do what a request asks for, with the client's yes where that has to be asked about.

        `about` is what the request is for: an answer to a question of another request does not count. `attempt` must
        change nothing while it has open questions. Where the client cannot ask anybody, it is told the refusal.
        """
        if not _can_ask(ctx):
            return await attempt(None)
        whole = [ctx.method, about]
        given = self._answers(request, whole)
        for _ in range(MAX_ROUNDS):
            answers = Answers(given, source=_source(ctx))
            try:
                made = await attempt(answers)
            except MetierError:
                if not answers.open:
                    raise
            else:
                if not answers.open:
                    return made
            if is_modern(ctx):
                return self._later(whole, answers.open, given)
            given |= {question.id: await _answer(ctx, question) for question in answers.open}
        return await attempt(None)

    def _later(self, about: object, open_: list[Question], given: Mapping[str, bool]) -> InputRequiredResult:
        questions = {f"approve-{number}": question for number, question in enumerate(open_, 1)}
        asked = _Asked(
            id=secrets.token_urlsafe(24),
            about=_digest(about),
            questions={name: question.id for name, question in questions.items()},
            given=dict(given),
            until=self._clock() + SECONDS,
        )
        requests = {name: ElicitRequest(params=_form(question)) for name, question in questions.items()}
        return InputRequiredResult(input_requests=dict(requests), request_state=self._sealed(asked))

    def _answers(self, request: InputResponseRequestParams, about: object) -> dict[str, bool]:
        """The answers in a request; none where it answers no question that was asked about the same."""
        asked = self._opened(request.request_state or "")
        if asked is None or asked.about != _digest(about) or not self._counts(asked):
            return {}
        responses = request.input_responses or {}
        found = {id_: _is_yes(responses[name]) for name, id_ in asked.questions.items() if name in responses}
        return {**asked.given, **found}

    def _counts(self, asked: _Asked) -> bool:
        """Whether an answer comes in time, and for the first time."""
        now = self._clock()
        while self._answered and next(iter(self._answered.values())) < now:
            self._answered.popitem(last=False)
        if asked.until < now or asked.id in self._answered or len(self._answered) >= MAX_ANSWERED:
            return False
        self._answered[asked.id] = now + SECONDS
        return True

    def _sealed(self, asked: _Asked) -> str:
        body = base64.urlsafe_b64encode(json.dumps(asked).encode())
        return f"{body.decode()}.{self._mark(body)}"

    def _opened(self, state: str) -> _Asked | None:
        """The content of a seal made here; None for anything else."""
        body, _, mark = state.rpartition(".")
        if len(state) > _MAX_STATE or not state.isascii() or not hmac.compare_digest(mark, self._mark(body.encode())):
            return None
        return _Asked(*json.loads(base64.urlsafe_b64decode(body)))

    def _mark(self, body: bytes) -> str:
        return hmac.new(self._seal, body, hashlib.sha256).hexdigest()


def _source(ctx: Context) -> str:
    """The source of an answer: the client by the name that it gives itself, and the way that it was asked."""
    client = ctx.session.client_params
    return f"client:{shown(client.client_info.name, _MAX_NAME) if client is not None else ''} over elicitation"


def _can_ask(ctx: Context) -> bool:
    capabilities = ctx.session.client_capabilities
    elicitation = capabilities.elicitation if capabilities is not None else None
    if elicitation is None or (elicitation.form is None and elicitation.url is not None):
        return False
    return is_modern(ctx) or ctx.session.can_send_request


async def _answer(ctx: Context, question: Question) -> bool:
    try:
        with anyio.move_on_after(SECONDS):
            return _is_yes(await ctx.session.elicit_form(_message(question), _SCHEMA, ctx.request_id))
        return False
    except (MCPError, ValueError) as error:
        log.warning("asking the client failed: %s", type(error).__name__)
        return False


def _is_yes(response: object) -> bool:
    """Whatever is not a plain yes, to what was asked and to nothing else, is a no."""
    if not isinstance(response, ElicitResult) or response.action != "accept":
        return False
    content = response.content or {}
    return set(content) == {"approve"} and content["approve"] is True


def _form(question: Question) -> ElicitRequestFormParams:
    return ElicitRequestFormParams(message=_message(question), requested_schema=_SCHEMA)


def _message(question: Question) -> str:
    return f"Métier asks before this happens: {question.text}"


def _digest(about: object) -> str:
    return hashlib.sha256(json.dumps(about, sort_keys=True, default=repr).encode()).hexdigest()
