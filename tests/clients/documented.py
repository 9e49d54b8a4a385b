"""Cursor and VS Code as far as their documentation says what they do with hooks: these programs are not to be had here.

A conversation reads the files of hooks, starts their commands with the documented input, and obeys the answers. A model
without a mind of its own makes the calls.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Call = tuple[str, dict[str, Any]]
Verdict = Literal["allow", "ask", "deny"]
_STRICTEST: tuple[Verdict, ...] = ("deny", "ask", "allow")


@dataclass(frozen=True, slots=True)
class Answer:
    """What one hook said to a call."""

    verdict: Verdict = "allow"
    reason: str = ""
    arguments: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Documented:
    """The documented ways of a client."""

    files: str
    """The files of hooks in a project."""
    events: Mapping[str, str]
    """Its names for the start, a prompt, a call and a result."""
    input: Callable[[Path], dict[str, Any]]
    """The fields that every event has."""
    answer: Callable[[dict[str, Any], subprocess.CompletedProcess[str]], Answer]
    """What it makes of a hook, by its entry in the file and by how its command ended."""
    result: Callable[[str], dict[str, Any]]
    """The fields of a result."""
    env: Callable[[Path], Mapping[str, str]] = lambda _project: {}


def _cursor_answer(entry: dict[str, Any], done: subprocess.CompletedProcess[str]) -> Answer:
    """A refusal is exit code 2 or a `deny`; a hook that fails or says nothing blocks only with `failClosed`."""
    if done.returncode == 2:
        return Answer("deny", done.stdout or done.stderr)
    try:
        said = json.loads(done.stdout) if done.returncode == 0 else None
    except ValueError:
        said = None
    if not isinstance(said, dict) or said.get("permission") not in ("allow", "deny", "ask"):
        return Answer("deny", "Tool blocked because this hook fails closed.") if entry.get("failClosed") else Answer()
    # The documentation: `ask` is accepted here, and not enforced.
    verdict: Verdict = "deny" if said["permission"] == "deny" else "allow"
    return Answer(verdict, said.get("user_message", ""), said.get("updated_input"))


def _vscode_answer(_entry: dict[str, Any], done: subprocess.CompletedProcess[str]) -> Answer:
    """Exit code 2 blocks with the error stream as the reason; any other failure is a warning."""
    if done.returncode == 2:
        return Answer("deny", done.stderr)
    try:
        said = json.loads(done.stdout) if done.returncode == 0 and done.stdout.strip() else {}
    except ValueError:
        said = {}
    found = said.get("hookSpecificOutput", {})
    verdict = found.get("permissionDecision", "allow")
    return Answer(verdict, found.get("permissionDecisionReason", ""), found.get("updatedInput"))


DOCUMENTED = {
    "cursor": Documented(
        files=".cursor/hooks.json",
        events={
            "start": "sessionStart",
            "prompt": "beforeSubmitPrompt",
            "call": "preToolUse",
            "result": "postToolUse",
        },
        input=lambda project: {
            "conversation_id": "74676b03",
            "session_id": "74676b03",
            "generation_id": "f7746f6e",
            "model": "default",
            "cursor_version": "3.9.16",
            "workspace_roots": [str(project)],
            "user_email": None,
            "transcript_path": None,
            "cwd": "",
        },
        answer=_cursor_answer,
        result=lambda text: {"tool_output": json.dumps({"output": text}), "duration": 7.5},
        env=lambda project: {"CURSOR_PROJECT_DIR": str(project), "CURSOR_VERSION": "3.9.16"},
    ),
    "vscode": Documented(
        files=".github/hooks/*.json",
        events={
            "start": "SessionStart",
            "prompt": "UserPromptSubmit",
            "call": "PreToolUse",
            "result": "PostToolUse",
        },
        input=lambda project: {
            "timestamp": "2026-06-26T18:18:13.407Z",
            "session_id": "f46082a6",
            "transcript_path": "/nowhere.jsonl",
            "cwd": str(project),
        },
        answer=_vscode_answer,
        result=lambda text: {"tool_response": text},
    ),
}


@dataclass(slots=True)
class Conversation:
    """A conversation in a client that is documented."""

    client: str
    project: Path
    env: Mapping[str, str]
    texts: list[str] = field(default_factory=list)
    """What its model got to read."""
    agrees: bool = False
    """Whether somebody is there, who agrees to what they are asked."""

    @property
    def _ways(self) -> Documented:
        return DOCUMENTED[self.client]

    def _hooks(self, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for path in sorted(self.project.glob(self._ways.files)):
            data = json.loads(path.read_text())
            assert data.get("version", 1) == 1
            found += data["hooks"].get(self._ways.events[kind], [])
        return found

    def _tell(self, kind: str, **fields: Any) -> list[Answer]:
        """Start every hook of an event, and take their answers."""
        data = {**self._ways.input(self.project), "hook_event_name": self._ways.events[kind], **fields}
        answers = []
        for entry in self._hooks(kind):
            done = subprocess.run(
                entry["command"],
                shell=True,
                cwd=self.project,
                env={**os.environ, **self._ways.env(self.project), **self.env},
                input=json.dumps(data),
                capture_output=True,
                text=True,
                timeout=entry.get("timeout", 60),
                check=False,
            )
            answers.append(self._ways.answer(entry, done))
        return answers

    def begin(self, prompt: str) -> None:
        """A person begins it."""
        self._tell("start", source="new")
        self._tell("prompt", prompt=prompt, attachments=[])

    def call(self, tool: str, arguments: dict[str, Any]) -> None:
        """The model calls a tool."""
        about = {"tool_name": tool, "tool_use_id": f"call_{len(self.texts)}"}
        answers = self._tell("call", tool_input=arguments, **about)
        strictest = min((one.verdict for one in answers), key=_STRICTEST.index, default="allow")
        if strictest != "allow" and not (strictest == "ask" and self.agrees):
            self.texts += [one.reason for one in answers if one.verdict == strictest]
            return
        given = next((one.arguments for one in answers if one.arguments is not None), arguments)
        text = self._do(given)
        self.texts.append(text)
        self._tell("result", tool_input=given, **about, **self._ways.result(text))

    def _do(self, arguments: dict[str, Any]) -> str:
        """A shell command, or a file that is read."""
        if "command" not in arguments:
            return Path(arguments.get("file_path") or arguments["filePath"]).read_text()
        done = subprocess.run(
            arguments["command"], shell=True, cwd=self.project, capture_output=True, text=True, check=False
        )
        return done.stdout + done.stderr


def converse(
    client: str, project: Path, prompt: str, calls: Sequence[Call], then: Mapping[str, Callable[[], Any]]
) -> list[str]:
    """The texts that the model of a client got; what is to be done once it has read one of `then` is done."""
    conversation = Conversation(client, project, {"METIER_HOOK_IDLE": "5"})
    conversation.begin(prompt)
    waiting = dict(then)
    for tool, arguments in calls:
        conversation.call(tool, arguments)
        for text in [text for text in waiting if text in conversation.texts[-1]]:
            waiting.pop(text)()
    return conversation.texts
