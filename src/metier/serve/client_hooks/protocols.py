"""The hook protocols of clients: how each tells of an event, and how each is answered."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from metier._json_object import text_at
from metier._lazy import dataclass, pattern
from metier.serve.client_hooks.event import NO_OBJECTION, HookEvent, Output

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from metier.serve.client_hooks.event import HookAnswer, Kind


_HUMP = pattern(r"(?<=[a-z0-9])[A-Z]")
_SCORE = pattern(r"_([a-z])")
_NO_NAME = pattern(r"[^A-Za-z0-9_-]")


class UnknownInput(Exception):
    """The input of a hook is not what the client is documented to send; the text continues "the input ..."."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """The protocol of one client. A name of a field may be several: the first one that the client fills counts."""

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
    is_camel: bool = False
    """Whether arguments have names like `filePath`, which are `file_path` to the rest."""
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
        given = data.get(self.arguments_field)
        if kind == "call" and not isinstance(given, dict):
            raise UnknownInput(f"has no object {self.arguments_field}")
        arguments = given if isinstance(given, dict) else {}
        tool = _server_tool(data) or _text(data, self.tool_field) if kind in ("call", "result") else ""
        return HookEvent(
            client=client,
            kind=kind,
            conversation=_text(data, self.conversation_field),
            folder=_text(data, self.folder_field),
            tool=tool,
            arguments=_snake_names(arguments) if self.is_camel else arguments,
            call=text_at(data, self.call_field),
            prompt="\n@".join([text_at(data, "prompt"), *_attached(data)]),
            # A program that ends in the background is told of by a prompt, too.
            is_from_user="agent_id" not in data and not text_at(data, "prompt").startswith("<task-notification>"),
            succeeded=succeeded,
        )


def _text(data: Mapping[str, Any], names: str) -> str:
    """The text of a field, or the first one of a list of texts."""
    for name in names.split():
        value = data.get(name)
        first = value[0] if isinstance(value, list) and value else value
        if isinstance(first, str) and first:
            return first
    raise UnknownInput(f"has no text {names.split()[0]}")


def _attached(data: Mapping[str, Any]) -> list[str]:
    """The files that a person gives with a message, where a client lists them."""
    given = data.get("attachments")
    listed = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
    return [path for one in listed if (path := text_at(one, "file_path"))]


def _server_tool(data: Mapping[str, Any]) -> str:
    """The tool of an MCP server as rules name it, where a client says which server and tool it is."""
    context = data.get("mcp_context")
    named = [text_at(context, name) for name in ("server_name", "tool_name")] if isinstance(context, dict) else [""]
    # A rule has no blanks or brackets in a name.
    return "__".join(["mcp", *(_NO_NAME.sub("_", name) for name in named)]) if all(named) else ""


def _snake_names(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by names as most clients have them; raises `UnknownInput` where two would have the same.

    >>> _snake_names({"filePath": "a", "oldString": "c"})
    {'file_path': 'a', 'old_string': 'c'}
    """
    found = {_HUMP.sub(lambda hump: f"_{hump[0].lower()}", name): value for name, value in arguments.items()}
    if len(found) < len(arguments):
        # Rules would be about one of them, and the client might take the other.
        raise UnknownInput("has two arguments of one name")
    return found


def _camel_names(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {_SCORE.sub(lambda score: score[1].upper(), name): value for name, value in arguments.items()}


def _claude_output(event: HookEvent, answer: HookAnswer) -> Output:
    """An answer as Claude Code reads it; other clients have taken the same form over."""
    if event.kind == "prompt":
        return Output() if answer.permission == "none" else _json({"decision": "block", "reason": answer.reason})
    if event.kind != "call" or answer == NO_OBJECTION:
        return Output()
    found: dict[str, Any] = {"hookEventName": "PreToolUse"}
    if answer.permission != "none":
        found |= {"permissionDecision": answer.permission, "permissionDecisionReason": answer.reason}
    if answer.arguments is not None:
        found["updatedInput"] = dict(answer.arguments)
    return _json({"hookSpecificOutput": found})


def _codex_output(event: HookEvent, answer: HookAnswer) -> Output:
    """An answer as Codex reads it.

    It runs a call whose answer has a field that it does not know, or refuses without a reason: so a refusal is told by
    the exit code, and other arguments with the word that it takes them by, which keeps its own questions as they are.
    """
    if answer.permission != "none":
        return blocked(answer.reason or "Métier refused it.")
    if event.kind != "call" or answer.arguments is None:
        return Output()
    given = {"permissionDecision": "allow", "updatedInput": dict(answer.arguments)}
    return _json({"hookSpecificOutput": {"hookEventName": "PreToolUse", **given}})


def _vscode_output(event: HookEvent, answer: HookAnswer) -> Output:
    """An answer as VS Code reads it, and beside it as Copilot CLI does, which reads the same file of hooks."""
    if event.kind == "prompt":
        return Output() if answer.permission == "none" else _json({"continue": False, "stopReason": answer.reason})
    if event.kind != "call" or answer == NO_OBJECTION:
        return Output()
    found: dict[str, Any] = {}
    if answer.permission != "none":
        found = {"permissionDecision": answer.permission, "permissionDecisionReason": answer.reason}
    changed = {} if answer.arguments is None else _camel_names(answer.arguments)
    nested = {"hookEventName": "PreToolUse", **found, **({"updatedInput": changed} if changed else {})}
    return _json({**found, **({"modifiedArgs": changed} if changed else {}), "hookSpecificOutput": nested})


def _gemini_output(event: HookEvent, answer: HookAnswer) -> Output:
    if event.kind not in ("call", "prompt") or answer == NO_OBJECTION:
        return Output()
    found: dict[str, Any] = {}
    if answer.permission != "none":
        found = {"decision": answer.permission, "reason": answer.reason}
    if answer.permission == "ask":
        # The person sees this with the question.
        found["systemMessage"] = answer.reason
    if answer.arguments is not None:
        found["hookSpecificOutput"] = {"hookEventName": "BeforeTool", "tool_input": dict(answer.arguments)}
    return _json(found)


def _cursor_output(event: HookEvent, answer: HookAnswer) -> Output:
    refused = answer.permission != "none"
    if event.kind == "prompt":
        return _json({"continue": not refused} | ({"user_message": answer.reason} if refused else {}))
    if event.kind != "call":
        return Output()
    if refused:
        return _json({"permission": "deny", "user_message": answer.reason, "agent_message": answer.reason})
    # It takes a hook that says nothing for one that failed, and blocks.
    found: dict[str, Any] = {"permission": "allow"}
    return _json(found if answer.arguments is None else found | {"updated_input": dict(answer.arguments)})


def _opencode_output(event: HookEvent, answer: HookAnswer) -> Output:
    """An answer as our plugin for OpenCode reads it."""
    if answer.permission != "none":
        return _json({"decision": "deny", "reason": answer.reason})
    return Output() if answer.arguments is None else _json({"args": _camel_names(answer.arguments)})


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
    "gemini": Protocol(
        events={
            "SessionStart": ("start", None),
            "BeforeAgent": ("prompt", None),
            "BeforeTool": ("call", None),
            "AfterTool": ("result", None),
            "SessionEnd": ("end", None),
        },
        write=_gemini_output,
    ),
    "cursor": Protocol(
        events={
            "sessionStart": ("start", None),
            "beforeSubmitPrompt": ("prompt", None),
            "preToolUse": ("call", None),
            "postToolUse": ("result", True),
            "sessionEnd": ("end", None),
        },
        write=_cursor_output,
        can_ask=False,
        conversation_field="conversation_id session_id",
        folder_field="cwd workspace_roots",
    ),
    "vscode": Protocol(
        events={
            "SessionStart": ("start", None),
            "UserPromptSubmit": ("prompt", None),
            "PreToolUse": ("call", None),
            "PostToolUse": ("result", True),
        },
        write=_vscode_output,
        is_camel=True,
        event_field="hook_event_name hookEventName",
        conversation_field="session_id sessionId",
    ),
    "opencode": Protocol(
        events={
            "session.created": ("start", None),
            "chat.message": ("prompt", None),
            "command.execute.before": ("prompt", None),
            "tool.execute.before": ("call", None),
            "tool.execute.after": ("result", True),
            "session.deleted": ("end", None),
        },
        write=_opencode_output,
        can_ask=False,
        is_camel=True,
        event_field="hook",
        conversation_field="conversation",
        folder_field="directory",
        tool_field="tool",
        arguments_field="args",
        call_field="callID",
    ),
}
"""The protocols by the names of their clients, as `metier.library.clients` has them."""
