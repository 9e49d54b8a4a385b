"""The hook protocols of clients: what each tells is understood, and the answer means the same in each."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from metier.cli import main
from metier.serve.client_hooks.event import HookAnswer, HookEvent, Output
from metier.serve.client_hooks.gate import HookGate
from metier.serve.client_hooks.protocols import PROTOCOLS, UnknownInput

Write = Callable[..., Path]


@dataclass(frozen=True, kw_only=True)
class Speech:
    """How one client tells of things, in the fields that it really sends or is documented to send."""

    common: dict[str, Any]
    prompt: dict[str, Any]
    call: Callable[[str, dict[str, Any]], dict[str, Any]]
    shell: str
    load: Callable[[Path], tuple[str, dict[str, Any]]]
    """The call that gives the model the instructions of a skill."""
    refusal: Callable[[dict[str, Any]], str | None]
    """The reason in an answer that the client takes for a refusal."""
    none: dict[str, Any] = field(default_factory=dict)
    """The answer that leaves everything to the client."""


def _read_of(tool: str, argument: str) -> Callable[[Path], tuple[str, dict[str, Any]]]:
    return lambda skill: (tool, {argument: str(skill / "SKILL.md")})


SPEECHES = {
    "gemini": Speech(
        common={"session_id": "c679bd12", "transcript_path": "/t.jsonl", "cwd": "{folder}", "timestamp": "2026-11-18"},
        prompt={"hook_event_name": "BeforeAgent", "prompt": "{prompt}"},
        call=lambda tool, given: {"hook_event_name": "BeforeTool", "tool_name": tool, "tool_input": given},
        shell="run_shell_command",
        load=lambda skill: ("activate_skill", {"name": skill.name}),
        refusal=lambda answer: answer["reason"] if answer.get("decision") == "deny" else None,
    ),
    "opencode": Speech(
        common={"directory": "{folder}", "sessionID": "ses_1", "conversation": "ses_1"},
        prompt={"hook": "chat.message", "prompt": "{prompt}"},
        call=lambda tool, given: {"hook": "tool.execute.before", "tool": tool, "callID": "call_1", "args": given},
        shell="bash",
        load=lambda skill: ("skill", {"name": skill.name}),
        refusal=lambda answer: answer["reason"] if answer.get("decision") == "deny" else None,
    ),
    "cursor": Speech(
        common={
            "conversation_id": "74676b03",
            "session_id": "74676b03",
            "generation_id": "f7746f6e",
            "model": "default",
            "cursor_version": "3.9.16",
            "workspace_roots": ["{folder}"],
            "transcript_path": None,
            "cwd": "",
        },
        prompt={"hook_event_name": "beforeSubmitPrompt", "prompt": "{prompt}", "attachments": []},
        call=lambda tool, given: {
            "hook_event_name": "preToolUse",
            "tool_name": tool,
            "tool_input": given,
            "tool_use_id": "09dca0a5",
        },
        shell="Shell",
        load=_read_of("Read", "file_path"),
        refusal=lambda answer: (
            answer["user_message"] if answer.get("permission") == "deny" or answer.get("continue") is False else None
        ),
        none={"permission": "allow"},
    ),
    "vscode": Speech(
        common={"session_id": "f46082a6", "cwd": "{folder}", "timestamp": "2026-06-26T18:18:13.407Z"},
        prompt={"hook_event_name": "UserPromptSubmit", "prompt": "{prompt}"},
        call=lambda tool, given: {
            "hook_event_name": "PreToolUse",
            "tool_name": tool,
            "tool_input": given,
            "tool_use_id": "call_1__vscode-2",
        },
        shell="run_in_terminal",
        load=_read_of("read_file", "filePath"),
        refusal=lambda answer: (
            answer["stopReason"]
            if answer.get("continue") is False
            else (answer.get("hookSpecificOutput") or {}).get("permissionDecisionReason")
        ),
    ),
}


@dataclass
class Client:
    """A client that tells our gate of its events."""

    name: str
    folder: Path
    gate: HookGate = field(default_factory=HookGate)

    @property
    def speech(self) -> Speech:
        return SPEECHES[self.name]

    def tells(self, fields: dict[str, Any]) -> dict[str, Any]:
        said = self.speech.common | fields
        data = json.dumps(said).replace("{folder}", str(self.folder))
        output = self.gate.answer(self.name, data.encode())
        assert output.exit_code == 0, output.stderr
        found = json.loads(output.stdout)
        assert isinstance(found, dict)
        return found

    def calls(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return self.tells(self.speech.call(tool, arguments))

    def runs(self, command: str) -> dict[str, Any]:
        return self.calls(self.speech.shell, {"command": command, "description": "so"})

    def asks(self, prompt: str) -> dict[str, Any]:
        return self.tells({**self.speech.prompt, "prompt": prompt})


@pytest.fixture(params=SPEECHES)
def client(request: pytest.FixtureRequest, project: Path) -> Client:
    return Client(request.param, project)


@pytest.fixture
def release(project: Path, own_home: Path, write_skill: Write) -> Path:
    """The folder of a skill that every client finds."""
    folder = own_home / ".agents/skills/release"
    write_skill(folder, description="Releases.", body="Tag it.", more="allowed-tools: Bash(git:*)\n")
    (folder / "scripts").mkdir()
    (folder / "scripts/tag.sh").write_text("echo tagged\n")
    return folder


def test_each_client_is_held_to_the_rules_of_the_skill_it_loads(
    client: Client, release: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    none, refusal = client.speech.none, client.speech.refusal
    assert client.runs("touch a") == none
    assert client.calls(*client.speech.load(release)) == none
    assert client.runs("git status") == none
    assert "touch b" in (refusal(client.runs("touch b")) or "")
    assert main(["quarantine", "add", "release", "--reason", "hostile"]) == 0
    assert "release" in (refusal(client.runs("git status")) or "")
    assert "release" in (refusal(client.asks("Go on.")) or "")
    capsys.readouterr()
    assert main(["audit", "export"]) == 0
    calls = [one for one in map(json.loads, capsys.readouterr().out.splitlines()) if one["event"] == "call"]
    assert [one["decision"] for one in calls] == ["allow", "allow", "allow", "deny", "deny"]
    assert all(one["skills"][0].startswith("release@") and "#" in one["skills"][0] for one in calls[1:])


def test_a_call_that_somebody_has_to_agree_to_is_asked_about_where_the_client_can(
    client: Client, own_home: Path
) -> None:
    (own_home / ".metier").mkdir(exist_ok=True)
    (own_home / ".metier/policy.yaml").write_text("tools: {ask: ['Bash(make:*)']}\n")
    answer = client.runs("make")
    decisions = {answer.get(key) for key in ("decision", "permission", "permissionDecision")} - {None}
    assert decisions == {"ask" if PROTOCOLS[client.name].can_ask else "deny"}
    assert "to ask before" in json.dumps(answer)


def test_a_script_of_a_skill_is_run_in_the_sandbox_instead(client: Client, release: Path, own_home: Path) -> None:
    (own_home / ".metier").mkdir(exist_ok=True)
    (own_home / ".metier/policy.yaml").write_text("protect: {scripts: sandbox}\n")
    answer = client.runs(f"bash {release}/scripts/tag.sh v1")
    changed = [
        answer.get("args"),
        answer.get("updated_input"),
        answer.get("modifiedArgs"),
        answer.get("hookSpecificOutput", {}).get("tool_input"),
    ]
    given = next(one for one in changed if one)
    assert "-m metier run release scripts/tag.sh -- v1" in given["command"]
    assert given["description"] == "so", "a client that replaces all arguments loses none"


@pytest.mark.parametrize(
    ("client_name", "said", "tool", "arguments", "folder"),
    [
        ("gemini", {"mcp_context": {"server_name": "files", "tool_name": "rm"}}, "mcp__files__rm", None, None),
        ("gemini", {"mcp_context": {"server_name": "a b", "tool_name": "c(d)"}}, "mcp__a_b__c_d_", None, None),
        ("gemini", {"mcp_context": {"server_name": "files"}}, "T", None, None),
        ("vscode", {"tool_input": {"filePath": "/a", "startLine": 1}}, "T", {"file_path": "/a", "start_line": 1}, None),
        ("vscode", {"session_id": None, "sessionId": "old"}, "T", None, None),
        ("cursor", {"cwd": "/elsewhere"}, "T", None, "/elsewhere"),
    ],
)
def test_the_ways_of_one_client_are_read_as_those_of_all(
    client_name: str, said: dict[str, Any], tool: str, arguments: dict[str, Any] | None, folder: str | None
) -> None:
    speech = SPEECHES[client_name]
    data = json.loads(json.dumps(speech.common | speech.call("T", {}) | said).replace("{folder}", "/shop"))
    event = PROTOCOLS[client_name].read(client_name, data)
    assert event is not None
    assert (event.tool, event.arguments, event.folder) == (tool, arguments or {}, folder or "/shop")
    assert event.conversation


@pytest.mark.parametrize("client_name", SPEECHES)
def test_a_call_without_a_field_that_decides_is_not_understood(client_name: str) -> None:
    speech = SPEECHES[client_name]
    whole = speech.common | speech.call("T", {"a": 1})
    for name in whole.keys() & {"tool", "tool_name", "args", "tool_input", "hook", "hook_event_name"}:
        wrong: tuple[Any, ...] = (None, "", 7, [])
        for value in wrong:
            with pytest.raises(UnknownInput):
                PROTOCOLS[client_name].read(client_name, whole | {name: value})


def test_a_question_never_reaches_a_client_that_would_take_it_for_consent() -> None:
    event = HookEvent(client="cursor", kind="call", conversation="c", folder="/shop", tool="Shell")
    asked = HookAnswer(permission="ask", reason="Really?")
    assert PROTOCOLS["cursor"].write(event, asked) == Output(
        stdout=json.dumps({"permission": "deny", "user_message": "Really?", "agent_message": "Really?"})
    )
    assert json.loads(PROTOCOLS["opencode"].write(event, asked).stdout)["decision"] == "deny"


def test_a_file_that_is_attached_in_cursor_is_part_of_the_prompt(project: Path, release: Path) -> None:
    cursor = Client("cursor", project)
    given = [{"type": "file", "file_path": str(release / "SKILL.md")}, {"type": "rule"}, 7]
    assert cursor.tells({**cursor.speech.prompt, "attachments": given}) == {"continue": True}
    assert cursor.runs("touch a")["permission"] == "deny"


@pytest.mark.parametrize(
    ("client_name", "tool", "more"),
    [
        ("gemini", "mcp_files_rm", {"mcp_context": {"server_name": "files", "tool_name": "rm"}}),
        ("opencode", "files_rm", {"mcp_context": {"server_name": "files", "tool_name": "rm"}}),
        ("vscode", "mcp_files_rm", {}),
    ],
)
def test_a_tool_of_a_server_is_forbidden_however_a_client_names_it(
    client_name: str, tool: str, more: dict[str, Any], project: Path, own_home: Path
) -> None:
    (own_home / ".metier").mkdir(exist_ok=True)
    (own_home / ".metier/policy.yaml").write_text("tools: {deny: [mcp__files__rm]}\n")
    client = Client(client_name, project)
    assert client.speech.refusal(client.tells(client.speech.call(tool, {"path": "a"}) | more))
    assert client.calls(tool.replace("rm", "ls"), {"path": "a"}) == client.speech.none


def test_every_skill_that_a_client_may_mean_by_a_name_has_a_say(
    project: Path, release: Path, own_home: Path, write_skill: Write
) -> None:
    write_skill(own_home / ".gemini/skills/release", more="allowed-tools: Bash\n")
    gemini = Client("gemini", project)
    assert gemini.calls("activate_skill", {"name": "RELEASE"}) == {}, "some clients take no heed of upper case"
    assert gemini.runs("git status") == {}
    assert "touch" in gemini.runs("touch a")["reason"]


def test_two_arguments_that_are_one_to_rules_are_not_understood() -> None:
    given = {"filePath": "secret/key", "file_path": "notes.md"}
    data = {"hook": "tool.execute.before", "conversation": "c", "directory": "/src", "tool": "read", "args": given}
    with pytest.raises(UnknownInput, match="two arguments"):
        PROTOCOLS["opencode"].read("opencode", data)
