"""Clients that are protected: each call is decided by our rules, in the real programs, and leaves one record."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.clients.story import (
    ASKED,
    DONE,
    FORBIDDEN,
    RESULT,
    SKILL,
    STORIES,
    SUM,
    fixtures,
    played,
    protected,
    run,
    texts_of,
    told_by,
)
from tests.wire.server import recorded_model

from metier.cli import main


@pytest.mark.slow
@pytest.mark.parametrize("client", STORIES)
def test_a_protected_client_keeps_to_the_rules_of_a_skill_until_that_is_blocked(
    client: str, project: Path, tmp_path: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story = STORIES[client]
    told = played(client, project, own_home, tmp_path)
    assert DONE in told.output
    assert any(RESULT in text for text in told.texts), "an allowed call runs"
    assert not (project / "forbidden").exists()
    assert any(SUM in text for text in told.texts) is story.can_rewrite
    assert not (own_home / "outside").exists(), "its script ran in a sandbox, or not at all"
    forbidden, *scripts, blocked = told.refusals
    assert "totals" in forbidden
    if not story.ends_when_asked:
        assert story.asked in scripts.pop(0)
    assert len(scripts) == (1 if story.can_rewrite else 2)
    assert all("run totals scripts/add.py" in one for one in scripts)
    assert "blocked" in blocked

    calls = [one for one in records(capsys) if one["event"] == "call"]
    asked = [] if story.ends_when_asked else ["ask"]
    decisions = ["allow", "allow", "deny", *asked, "allow" if story.can_rewrite else "deny", "deny", "deny"]
    assert [one["decision"] for one in calls] == decisions
    assert all(one["skills"][0].startswith("totals@") and "#" in one["skills"][0] for one in calls)
    assert told.hooks_of_user == len(calls), "a hook that was there before still runs"

    assert main(["protect", client, "--project", "--remove"]) == 0
    for name, text in story.before.items():
        assert (project / name).read_text() == text.replace("HOOK", f"echo ran >> {tmp_path}/hook-of-user")


@pytest.mark.slow
@pytest.mark.parametrize("client", [name for name, story in STORIES.items() if story.resumed])
def test_rules_hold_when_a_conversation_is_gone_on_with(
    client: str, project: Path, tmp_path: Path, own_home: Path
) -> None:
    story, skill = STORIES[client], protected(client, project, own_home, tmp_path)
    # What the model said before counts, so it has one script for both.
    script = [*fixtures([story.load(skill)]), *fixtures([story.shell(FORBIDDEN)], said=2)]
    with recorded_model(script, tmp_path / "model") as model:
        begun = run(story, project, own_home, model)
        (conversation,) = set(texts_named(begun, story.conversation))
        assert DONE in run(story, project, own_home, model, "Now the other one.", conversation)
        told = "\n".join(texts_of(model.requests[-1].json))
    assert "Métier: Skill 'totals' cannot use" in told
    assert not (project / "forbidden").exists()


@pytest.mark.slow
@pytest.mark.parametrize("client", [name for name, story in STORIES.items() if story.mention])
def test_a_message_that_names_a_blocked_skill_does_not_reach_the_model(
    client: str, project: Path, tmp_path: Path, own_home: Path
) -> None:
    story = STORIES[client]
    protected(client, project, own_home, tmp_path)
    assert main(["quarantine", "add", "totals", "--reason", "hostile"]) == 0
    with recorded_model([*fixtures([])], tmp_path / "model") as model:
        output = run(story, project, own_home, model, story.mention)
        assert not any(b"Add up every line." in request.body for request in model.requests)
        assert DONE not in output


@pytest.mark.slow
@pytest.mark.parametrize("client", STORIES)
def test_no_call_is_made_without_the_program_that_decides(
    client: str, project: Path, tmp_path: Path, own_home: Path
) -> None:
    story = STORIES[client]
    protected(client, project, own_home, tmp_path)
    (own_home / ".metier/hook").unlink()
    _, told = told_by(client, project, own_home, tmp_path, [story.shell(FORBIDDEN)])
    assert not (project / "forbidden").exists()
    assert f"metier protect {client}" in "\n".join(told)


@pytest.mark.slow
def test_gemini_makes_no_call_that_nobody_is_there_to_agree_to(
    project: Path, tmp_path: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    protected("gemini", project, own_home, tmp_path)
    calls = [STORIES["gemini"].shell(f"{ASKED} > made")]
    output, _ = told_by("gemini", project, own_home, tmp_path, calls)
    assert DONE not in output, "it ends there"
    assert not (project / "made").exists()
    assert [one["decision"] for one in records(capsys) if one["event"] == "call"] == ["ask"]


@pytest.mark.slow
def test_a_call_that_somebody_agrees_to_in_claude_code_is_made_and_their_yes_is_recorded(
    project: Path, tmp_path: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story = STORIES["claude-code"]
    protected("claude-code", project, own_home, tmp_path)
    desk = {"command": sys.executable, "args": [str(Path(__file__).with_name("agreeing.py"))]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"desk": desk}}))
    asking = ("--mcp-config", str(tmp_path / "mcp.json"), "--permission-prompt-tool", "mcp__desk__agree")
    with recorded_model([*fixtures([story.shell(f"{ASKED} | tr p P")])], tmp_path / "model") as model:
        run(replace(story, arguments=(*story.arguments, *asking)), project, own_home, model)
        assert "Please" in [*texts_of(model.requests[-1].json)]
    asked, agreed = (one for one in records(capsys) if one["event"] in ("call", "answer"))
    assert (asked["decision"], agreed["decision"], agreed["rule"]) == ("ask", "allow", "answer")
    assert "Claude Code" in agreed["reason"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("client", "arguments"),
    [
        ("claude-code", ("--permission-mode", "acceptEdits")),
        ("claude-code", ("--permission-mode", "auto")),
        ("claude-code", ("--permission-mode", "dontAsk")),
        ("claude-code", ("--dangerously-skip-permissions",)),
        ("codex", ("--dangerously-bypass-approvals-and-sandbox",)),
    ],
)
def test_no_mode_of_a_client_lets_its_model_out_of_the_rules(
    client: str, arguments: tuple[str, ...], project: Path, tmp_path: Path, own_home: Path
) -> None:
    story, skill = STORIES[client], protected(client, project, own_home, tmp_path)
    (settings,) = story.before
    written, hook = (project / settings).read_bytes(), (own_home / ".metier/hook").read_bytes()
    tried = [f"echo > {settings}", "echo > ~/.metier/hook", f"metier protect {client} --remove", FORBIDDEN]
    given = [one for one in story.arguments if one not in ("-s", "danger-full-access")]
    # Root has to say that it means it.
    others = replace(
        story, arguments=(*given, *arguments), env=lambda url, home: {**story.env(url, home), "IS_SANDBOX": "1"}
    )
    calls = [story.load(skill), *map(story.shell, tried)]
    with recorded_model([*fixtures(calls)], tmp_path / "model") as model:
        run(others, project, own_home, model)
        told = [text for text in texts_of(model.requests[-1].json) if "Métier:" in text]
    assert len(told) == len(tried), told
    assert ((project / settings).read_bytes(), (own_home / ".metier/hook").read_bytes()) == (written, hook)
    assert not (project / "forbidden").exists()


@pytest.mark.slow
def test_two_clients_at_once_have_conversations_of_their_own(
    project: Path, tmp_path: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clients = ("claude-code", "codex")
    for client in clients:
        (tmp_path / client).mkdir()
        skill = protected(client, project, own_home, tmp_path / client)
    loading, free = STORIES["claude-code"], STORIES["codex"]
    made = {"claude-code": [loading.load(skill), loading.shell(FORBIDDEN)], "codex": [free.shell("touch free")]}

    def talk(client: str) -> None:
        folder = tmp_path / client / "model"
        with recorded_model([*fixtures(made[client])], folder) as model:
            run(STORIES[client], project, own_home, model)

    with ThreadPoolExecutor() as pool:
        list(pool.map(talk, clients))
    assert (project / "free").exists()
    assert not (project / "forbidden").exists()
    calls = [one for one in records(capsys) if one["event"] == "call"]
    found = {(one["session"].partition(":")[0], one["decision"], bool(one.get("skills"))) for one in calls}
    assert found == {("claude-code", "allow", True), ("claude-code", "deny", True), ("codex", "allow", False)}


@pytest.mark.slow
def test_codex_leaves_hooks_out_until_a_person_trusts_them_and_that_is_said(
    project: Path, tmp_path: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story, skill = STORIES["codex"], protected("codex", project, own_home, tmp_path)
    cautious = replace(story, arguments=[one for one in story.arguments if one != "--dangerously-bypass-hook-trust"])
    calls = [story.load(skill), story.shell(FORBIDDEN)]

    def state() -> object:
        capsys.readouterr()
        assert main(["protect", "--json"]) == 0
        clients = json.loads(capsys.readouterr().out)["clients"]
        return next(one["state"] for one in clients if (one["client"], one["scope"]) == ("codex", "project"))

    with recorded_model([*fixtures(calls)], tmp_path / "model") as model:
        run(cautious, project, own_home, model)
        assert (project / "forbidden").exists()
        assert state() == "inactive"
        (project / "forbidden").unlink()
        trusted = replace(cautious, home=lambda url, folder: with_trust(story.home(url, folder), folder))
        run(trusted, project, own_home, model)
        assert not (project / "forbidden").exists()
        assert state() == "on"


def with_trust(files: Mapping[str, str], project: Path) -> dict[str, str]:
    """Its configuration, after a person looked at the hooks of a project that decide, and trusted them."""
    file, found = project / ".codex/hooks.json", []
    for at, group in enumerate(json.loads(file.read_text())["hooks"]["PreToolUse"]):
        (hook,) = group["hooks"]
        identity = {**group, "event_name": "pre_tool_use", "hooks": [{"async": False, "timeout": 600, **hook}]}
        text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        digest = hashlib.sha256(text.encode()).hexdigest()
        found.append(f'[hooks.state."{file}:pre_tool_use:{at}:0"]\ntrusted_hash = "sha256:{digest}"\n')
    return {name: text + "".join(found) for name, text in files.items()}


def records(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """All that was recorded."""
    capsys.readouterr()
    assert main(["audit", "export"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def texts_named(output: str, name: str) -> list[str]:
    """The values of a name in lines of JSON."""
    lines = (json.loads(line) for line in output.splitlines() if line.startswith("{"))
    return [line[name] for line in lines if name in line]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("client", "delegate"),
    [
        ("claude-code", ("Agent", {"description": "It", "prompt": "Touch it.", "run_in_background": False})),
        ("gemini", ("invoke_agent", {"agent_name": "generalist", "prompt": "Touch it."})),
        ("opencode", ("task", {"description": "It", "prompt": "Touch it.", "subagent_type": "general"})),
    ],
)
def test_a_subagent_is_held_to_the_rules_of_the_conversation(
    client: str,
    delegate: tuple[str, dict[str, Any]],
    project: Path,
    tmp_path: Path,
    own_home: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    story, skill = STORIES[client], protected(client, project, own_home, tmp_path)
    (skill / "SKILL.md").write_text(SKILL.replace("allowed-tools:", "allowed-tools: Task"))
    tool, arguments = story.shell(FORBIDDEN)
    call = {"name": tool, "arguments": json.dumps(arguments)}
    subagent = [
        {"match": {"userMessage": "Touch it.", "hasToolResult": False}, "response": {"toolCalls": [call]}},
        {"match": {"userMessage": "Touch it.", "hasToolResult": True}, "response": {"content": DONE}},
    ]
    with recorded_model([*subagent, *fixtures([story.load(skill), delegate])], tmp_path / "model") as model:
        run(story, project, own_home, model)
    assert not (project / "forbidden").exists()
    capsys.readouterr()
    assert main(["audit", "export"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    calls = [(one["tool"], one["decision"]) for one in records if one["event"] == "call"]
    assert (tool, "deny") in calls
