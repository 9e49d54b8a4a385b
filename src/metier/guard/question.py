"""Asking somebody: a callback of the program, which may be async, and must say True or False.

Where nobody can be asked while a call is made, `Answers` keeps the questions, and the call is made again with answers.
Every answer has a source. Only a line that was typed at a terminal of ours is the answer of a person; whatever else
says yes is a program, which may have asked nobody, and its yes counts once, for the action that it was asked about.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

from metier._lazy import dataclass, logger, replace
from metier.guard.decision import allow, amend, refuse, sentence_of, written
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Mapping

    from metier.guard.decision import Action, Decision

log = logger("metier.guard")

P = ParamSpec("P")
T = TypeVar("T")

Approve: TypeAlias = Callable[["Action", "Decision"], "bool | Awaitable[bool]"]

TERMINAL = "terminal"
"""The source of answers that were typed at a terminal: a person's, which may become approvals that are kept."""
PROGRAM = "program"
"""The source of the answers of callbacks and of whoever resumes a run, which say nothing else about themselves."""

ASKING: ContextVar[Approve | None] = ContextVar("metier_asking", default=None)
"""The callback that `consent_from` named, which a guard without one of its own asks."""
MAX_QUESTION = 8_000
"""Characters of what would happen; a call with more than that is refused where it would have to be asked."""


class TooLong(Exception):
    """Raised where nobody could see all of what they would agree to."""


class AnswerPending(Exception):
    """Raised by a callback that has asked and has no answer yet; the action does not happen now."""


class AnswerMissing(Exception):
    """Raised where a question ended without an answer, such as one that was withdrawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question to a person or program whether an action may happen."""

    id: str
    """The same for the same action on the same content under the same rule, and for no other."""
    text: str
    """The action and the reason to ask, for a person."""
    lasts: bool = False
    """Whether a yes is kept as an approval of a content, until that changes; else it is for this one time."""
    request: str = ""
    """The request for an approval that waits meanwhile; an approver may answer that, wherever they are."""

    @classmethod
    def about(cls, action: Action, decision: Decision, *, source: str = PROGRAM) -> Question:
        """The question whether an action may happen; raises `TooLong` where it cannot be shown whole.

        Nothing in it is cut or redacted: whoever agrees must have seen what they agree to. `source` is where the answer
        will come from, which says whether a yes would be kept.
        """
        subject = action.skill
        about = [action.point, action.tool, action.path, action.command, decision.rule, written(action.arguments)]
        about += [] if subject is None else [subject.name, subject.digest, subject.layer, subject.source]
        id_ = hashlib.sha256(json.dumps(about).encode()).hexdigest()
        told = sentence_of(action)
        if len(told) > MAX_QUESTION:
            raise TooLong
        # Long enough for every character to be shown by its escape.
        text = f"{shown(told, 12 * MAX_QUESTION)} {shown(decision.reason, MAX_QUESTION)}"
        lasts = decision.needs_grant and source == TERMINAL
        if decision.needs_grant and subject is not None:
            digest = shown(subject.digest)
            text += (
                f" A yes approves of this content and is kept until it changes: {digest}."
                if lasts
                else f" A yes counts this one time; `metier approve grant {digest}` at a terminal approves of this "
                "content until it changes."
            )
        return cls(id=id_, text=text, lasts=lasts)


class Answers:
    """Answers that come later: a question without one is kept, and its action waits until the call is made again.

    >>> from metier.guard import Action, Guard, MemoryLog, Policy
    >>> guard = Guard(Policy(ask="Bash"), audit=MemoryLog())
    >>> action = Action(point="call", tool="Bash", arguments={"command": "make"})
    >>> first = Answers()
    >>> with consent_from(first):
    ...     guard.settle(action).code
    'approval-pending'
    >>> with consent_from(Answers({first.open[0].id: True})):
    ...     guard.settle(action).outcome
    'allow'
    """

    def __init__(self, given: Mapping[str, bool] | None = None, *, source: str = PROGRAM) -> None:
        self._given = dict(given or {})
        self.source = source
        """The source of the answers, for the record."""
        self.open: list[Question] = []
        """The questions without an answer."""
        self.waiting: list[Question] = []
        """The questions that only an approver may answer, by the request that is named."""

    def __call__(self, action: Action, decision: Decision) -> bool:
        """The answer that was given; raises `AnswerPending` where there is none."""
        question = Question.about(action, decision, source=self.source)
        answer = self._given.get(question.id)
        if answer is None:
            if all(one.id != question.id for one in self.open):
                self.open.append(question)
            raise AnswerPending
        return answer

    def wait_for(self, action: Action, decision: Decision, request: str) -> None:
        """Note the request for an approval that would settle a question, whoever was asked that."""
        try:
            question = replace(Question.about(action, decision, source=self.source), request=request)
        except TooLong:
            return
        for noted in (self.open, self.waiting):
            for place, one in enumerate(noted):
                if one.id == question.id:
                    noted[place] = question
                    return
        self.waiting.append(question)


@contextlib.contextmanager
def consent_from(approve: Approve | None) -> Iterator[None]:
    """Name the callback to ask meanwhile, in this task and its threads, for guards without one of their own.

    With None it is nobody, whoever was to be asked before.
    """
    token = ASKING.set(approve)
    try:
        yield
    finally:
        ASKING.reset(token)


def consent_from_any(answers: Answers | None) -> contextlib.AbstractContextManager[None]:
    """Ask by `answers` meanwhile; where there are none, whoever is asked anyway."""
    return contextlib.nullcontext() if answers is None else consent_from(answers)


async def ask_async(approve: Approve, action: Action, decision: Decision) -> Decision:
    """The decision after asking; every answer but True is a no, and says whether anybody really answered.

    An async callback is awaited in the event loop, any other is called in a thread of its own.
    """
    import anyio.lowlevel

    try:
        if isinstance(approve, Answers) or _is_async(approve):
            answer = approve(action, decision)
        else:
            answer = await in_own_thread(approve, action, decision)
        if inspect.isawaitable(answer):
            answer = await _in_task(answer)
        found = _decision_after(decision, answer, source_of(approve))
    except Exception as error:
        found = _failed(decision, error)
    # A yes that comes once whoever asked was cancelled counts for nothing.
    await anyio.lowlevel.checkpoint_if_cancelled()
    return found


def ask(approve: Approve, action: Action, decision: Decision) -> Decision:
    """The same for whoever waits in a thread."""
    import anyio.from_thread

    try:
        answer = approve(action, decision)
        if inspect.isawaitable(answer):
            answer = _awaited(answer)
        found = _decision_after(decision, answer, source_of(approve))
    except Exception as error:
        found = _failed(decision, error)
    with contextlib.suppress(RuntimeError):  # in a thread that is no event loop's, nobody can have been cancelled
        anyio.from_thread.check_cancelled()
    return found


def source_of(approve: Approve) -> str:
    """The source of the answers of a callback: its `source`, or a program that says nothing about itself.

    This keeps apart what one program does; a program that lies about it could write to the store as well.
    """
    source = getattr(approve, "source", PROGRAM)
    return source if isinstance(source, str) and source else PROGRAM


def _is_async(approve: Approve) -> bool:
    return inspect.iscoroutinefunction(approve) or inspect.iscoroutinefunction(type(approve).__call__)


async def _in_task(answer: Awaitable[Any]) -> Any:
    """The answer, awaited in a task of its own: a question that is withdrawn must not end whoever asked it."""
    import anyio

    found: list[Any] = []
    errors: list[Exception] = []

    async def wait() -> None:
        try:
            found.append(await answer)
        except Exception as error:
            errors.append(error)

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
    finally:
        _leave(answer)
    for error in errors:
        raise error
    if not found:
        raise AnswerMissing
    return found[0]


def _awaited(answer: Awaitable[Any]) -> Any:
    """The answer of an async callback, from a worker thread of an event loop, or where there is none."""
    import anyio
    import anyio.from_thread

    is_begun = False

    async def wait() -> Any:
        nonlocal is_begun
        is_begun = True
        return await answer

    for run in (anyio.from_thread.run, anyio.run):
        try:
            return run(wait)
        except RuntimeError:
            # Whoever raises it before the question was put is not where questions are awaited so.
            if is_begun:
                raise
    _leave(answer)
    raise RuntimeError("An event loop is running in this thread.")


def _leave(answer: Awaitable[Any]) -> None:
    """Say that nobody waits for an answer any more, which may not even have been begun."""
    if inspect.iscoroutine(answer):
        answer.close()


def _decision_after(decision: Decision, answer: object, source: str) -> Decision:
    if answer is True:
        whose = "" if source == TERMINAL else f" The yes is the word of a program ({shown(source)}) and counts once."
        reason = f"Somebody was asked and agreed.{whose}"
        return allow(reason=reason, check=decision.check, origin=decision.origin, answered_by=source)
    if answer is False:
        return _no(decision, "Somebody was asked and did not agree.", "approval-denied")
    return _no(decision, f"The answer was {shown(repr(answer), 40)}, neither True nor False.", "approval-failed")


def _failed(decision: Decision, error: Exception) -> Decision:
    if isinstance(error, TooLong):
        return _no(decision, "It is too long to be shown to whoever would have to agree.", "approval-failed")
    if isinstance(error, AnswerPending):
        return amend(_no(decision, "Somebody is being asked.", "approval-pending"), outcome="ask")
    log.warning("asking failed: %s: %s", type(error).__name__, error)
    return _no(decision, f"Asking failed: {shown(type(error).__name__)}.", "approval-failed")


def _no(decision: Decision, why: str, code: str) -> Decision:
    return refuse(
        reason=f"{decision.reason} {why}",
        check=decision.check,
        origin=decision.origin,
        code=code,
        hint="Do the task another way.",
    )


async def in_own_thread(function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Call what may wait for a person in a thread of its own.

    The threads that all share are few. A question may stand for hours: many of them must neither use those up, nor keep
    one another from being put.
    """
    import functools

    import anyio
    import anyio.to_thread

    return await anyio.to_thread.run_sync(
        functools.partial(function, *args, **options), limiter=anyio.CapacityLimiter(1)
    )
