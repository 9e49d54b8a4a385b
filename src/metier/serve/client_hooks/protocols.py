"""The hook protocols of clients: how each tells of an event, and how each is answered."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass
from metier.serve.client_hooks.event import NO_OBJECTION, HookEvent, Output

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from metier.serve.client_hooks.event import HookAnswer, Kind


class UnknownInput(Exception):
    """The input of a hook is not what the client is documented to send; the text continues "the input ..."."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """The protocol of one client."""

    events: Mapping[str, tuple[Kind, bool | None]]
    """The client's names of events, each with its kind and, of a result, whether the call succeeded."""
    write: Callable[[HookEvent, HookAnswer], Output]
    """The output for an answer."""
    can_rewrite: bool = True
    """Whether a hook can change the arguments of a call."""
    can_ask: bool = True
    """Whether a hook can have the person at the client asked. A client that cannot might run a call that it was told
    to ask about."""
    types_unseen: bool = False
    """Whether the client types into running programs without a hook."""
    event_field: str = "hook_event_name"
    conversation_field: str = "session_id"
    folder_field: str = "cwd"
    tool_field: str = "tool_name"
    arguments_field: str = "tool_input"
    call_field: str = "tool_use_id"

    def read(self, client: str, data: Mapping[str, Any]) -> HookEvent | None:
        """The event that a client tells of; None for one that nothing depends on. Raises `UnknownInput`."""
        name = _text(data, self.event_field)
        if name not in self.events:
            return None
        kind, succeeded = self.events[name]
        arguments = data.get(self.arguments_field)
        is_about_call = kind in ("call", "result")
        if kind == "call" and not isinstance(arguments, dict):
            raise UnknownInput(f"has no object {self.arguments_field}")
        return HookEvent(
            client=client,
            kind=kind,
            conversation=_text(data, self.conversation_field),
            folder=_text(data, self.folder_field),
            tool=_text(data, self.tool_field) if is_about_call else "",
            arguments=arguments if isinstance(arguments, dict) else {},
            call=_optional(data, self.call_field),
            prompt=_optional(data, "prompt"),
            succeeded=succeeded,
        )


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    if not isinstance(value, str) or not value:
        raise UnknownInput(f"has no text {name}")
    return value


def _optional(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    return value if isinstance(value, str) else ""


def _claude_output(event: HookEvent, answer: HookAnswer) -> Output:
    """An answer as Claude Code reads it; other clients have taken the same form over."""
    if event.kind == "prompt":
        return Output() if answer.outcome == "none" else _json({"decision": "block", "reason": answer.reason})
    if event.kind != "call" or answer == NO_OBJECTION:
        return Output()
    found: dict[str, Any] = {"hookEventName": "PreToolUse"}
    if answer.outcome != "none":
        found |= {"permissionDecision": answer.outcome, "permissionDecisionReason": answer.reason}
    if answer.arguments is not None:
        found["updatedInput"] = dict(answer.arguments)
    return _json({"hookSpecificOutput": found})


def _codex_output(event: HookEvent, answer: HookAnswer) -> Output:
    """An answer as Codex reads it.

    It runs a call whose answer has a field that it does not know, or refuses without a reason: so a refusal is told by
    the exit code, and other arguments with the word that it takes them by, which keeps its own questions as they are.
    """
    if answer.outcome != "none":
        return blocked(answer.reason or "Métier refused it.")
    if event.kind != "call" or answer.arguments is None:
        return Output()
    given = {"permissionDecision": "allow", "updatedInput": dict(answer.arguments)}
    return _json({"hookSpecificOutput": {"hookEventName": "PreToolUse", **given}})


def _json(value: Mapping[str, Any]) -> Output:
    return Output(stdout=json.dumps(value))


def blocked(reason: str) -> Output:
    """The output that every client takes for a refusal: exit code 2, and the reason on the error stream."""
    return Output(exit_code=2, stdout="", stderr=reason)


PROTOCOLS: Mapping[str, Protocol] = {
    "claude-code": Protocol(
        events={
            "SessionStart": ("start", None),
            "UserPromptSubmit": ("prompt", None),
            "PreToolUse": ("call", None),
            "PostToolUse": ("result", True),
            "PostToolUseFailure": ("result", False),
            "SessionEnd": ("end", None),
        },
        write=_claude_output,
    ),
    "codex": Protocol(
        events={
            "SessionStart": ("start", None),
            "UserPromptSubmit": ("prompt", None),
            "PreToolUse": ("call", None),
            # It comes after a command that failed, too, and does not say so.
            "PostToolUse": ("result", None),
            "SessionEnd": ("end", None),
        },
        write=_codex_output,
        can_ask=False,
        types_unseen=True,
    ),
}
"""The protocols by the names of their clients, as `metier.library.clients` has them."""
