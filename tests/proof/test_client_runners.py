"""Trials in real client programs, with a scripted model on the wire; and what a program does to look like a client."""

from __future__ import annotations

import json
import os
import shlex
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from tests.clients.story import Call, write_all
from tests.npm_packages import client_command as npm_client
from tests.wire.server import Recorder, recorded_model

from metier import Library
from metier.errors import InvalidArgument, PartMissing
from metier.library.clients import CLIENTS
from metier.proof.agent_runner import ModelRunner
from metier.proof.behaviour import BehaviourSettings
from metier.proof.budget import TrialBudget
from metier.proof.client_runner import ClientRunner
from metier.proof.clients import CLIENT_PROGRAMS, client_command, installed_clients
from metier.proof.graders import grade
from metier.proof.runner import TestSettings, test_skills
from metier.proof.suite import Assertion, BehaviourCase, Environment, Mock, TextMatch
from metier.proof.trial import Transcript, Trial, TrialRunner

SKILL = """\
---
name: totals
description: Adds up what was sold.
allowed-tools: Bash(echo:*) Bash(python3:*) Bash(cat:*) Write mcp__shop__price
---
Add up every line with `scripts/add.py`, and write the sum to total.txt.
"""
ADD = "import sys\nprint('the sum is', sum(map(int, sys.argv[1:])))\n"
SUITE = """\
version: 1
evals:
  - id: sum
    prompt: Add up what was sold.
    files: {sales.csv: "4\\n8\\n"}
    max_turns: 12
    assertions:
      - answer: {contains: "12"}
      - file: {path: total.txt, equals: "12"}
      - changed-only: [total.txt]
      - unchanged: sales.csv
      - called: {tool: Bash, arguments: {command: {contains: total.txt}}}
      - called: {tool: skills_run, arguments: {script: {equals: scripts/add.py}}}
      - not-called: WebFetch
      - refused: {tool: Bash, arguments: {command: {contains: forbidden}}}
      - no-file: forbidden
      - skill-read: true
    steps:
      - calls: [{tool: skills_load, arguments: {skills: [totals]}}]
      - calls: [{tool: skills_run, arguments: {script: scripts/add.py, args: ["4", "8"]}}]
      - calls: [{tool: Bash, arguments: {command: "echo 12 > total.txt"}}]
      - calls: [{tool: Bash, arguments: {command: "touch forbidden"}}]
      - say: The sum is 12.
"""
FAILURES = {12: [], 13: [("answer", ""), ("file", "total.txt"), ("refused", "Bash")]}
"""The assertions that fail, by the sum that the model comes to."""
CASE = BehaviourCase(id="sum", prompt="Add up what was sold.", environment=Environment(), max_turns=12)
_INPUT, _OUTPUT = (
    ("input_tokens", "prompt_tokens", "promptTokenCount"),
    (
        "output_tokens",
        "completion_tokens",
        "candidatesTokenCount",
    ),
)
USAGE = dict.fromkeys(_INPUT, 100) | dict.fromkeys(_OUTPUT, 7)
PROGRAMS = {"claude-code": "claude", "codex": "codex", "gemini": "gemini", "opencode": "opencode"}
MODELS = {"claude-code": "claude-sonnet-4-6", "codex": "gpt-5", "gemini": "gemini-2.5-pro", "opencode": "openai/gpt-5"}
SHELL: Mapping[str, Callable[[str], Call]] = {
    "claude-code": lambda command: ("Bash", {"command": command}),
    "codex": lambda command: ("exec_command", {"cmd": command}),
    "gemini": lambda command: ("run_shell_command", {"command": command, "description": "Add up."}),
    "opencode": lambda command: ("bash", {"command": command, "description": "Add up."}),
}
FOLDER = {
    "claude-code": "~/.claude/skills/totals",
    "codex": "~/.agents/skills/totals",
    "gemini": "~/.gemini/skills/totals",
    "opencode": "~/.config/opencode/skills/totals",
}
LOAD: Mapping[str, Call] = {
    "claude-code": ("Skill", {"skill": "totals"}),
    "codex": SHELL["codex"](f"cat {FOLDER['codex']}/SKILL.md"),
    "gemini": ("activate_skill", {"name": "totals"}),
    "opencode": ("skill", {"name": "totals"}),
}


def calls_of(client: str, total: int) -> list[Call]:
    """The calls by which a model does the case, or does it wrong: with another sum, and nothing that is refused."""
    commands = [f"python3 {FOLDER[client]}/scripts/add.py 4 8", f"echo {total} > total.txt"]
    return [LOAD[client], *map(SHELL[client], [*commands, "touch forbidden"] if total == 12 else commands)]


def fixtures(calls: Sequence[Call], answer: str) -> list[dict[str, Any]]:
    """A model that makes calls, one after the other, and then answers."""
    made = [{"toolCalls": [{"name": tool, "arguments": json.dumps(given)}]} for tool, given in calls]
    said: list[dict[str, Any]] = [*made, {"content": answer}]
    return [{"match": {"turnIndex": turn}, "response": {**one, "usage": USAGE}} for turn, one in enumerate(said)]


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    folder = tmp_path / "skills/totals"
    write_all(folder, {"SKILL.md": SKILL, "scripts/add.py": ADD, "evals/suite.yaml": SUITE})
    return folder


def trial_of(skill: Path, tmp_path: Path, case: BehaviourCase = CASE, **more: Any) -> Trial:
    """A trial in a new workspace."""
    workspace = tmp_path / f"work-{len(list(tmp_path.glob('work-*')))}"
    workspace.mkdir()
    terms: dict[str, Any] = {"case": case, "arm": "with", "skill": "totals", "folder": skill, "workspace": workspace}
    return Trial(**terms | more)


def connect(client: str, model: Recorder, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Have a client run whose model is on the wire."""
    for name in ("ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.setenv(name, model.url)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{model.url}/v1")
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "none")
    # OpenCode lists the files of a skill by this program, and would fetch it.
    write_all(folder, {"bin/rg": "#!/bin/sh\nexec find . -type f\n"})
    (folder / "bin/rg").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")
    variable = f"METIER_CLIENT_{client.upper().replace('-', '_')}"
    monkeypatch.setenv(variable, shlex.join(npm_client(PROGRAMS[client])))


def play(client: str, model: Recorder, trial: Trial, monkeypatch: pytest.MonkeyPatch, folder: Path) -> Transcript:
    """Run a trial in a client whose model is on the wire."""
    connect(client, model, monkeypatch, folder)
    runner = ClientRunner(client, model=MODELS[client])
    assert runner.refusal(trial.case, trial.arm, 0) == ""
    return anyio.run(runner.run, trial)


# --- the programs themselves ------------------------------------------------------------------------------------------


def failures_with(runner: TrialRunner | str, skill: Path, *, record: bool = False) -> list[tuple[str, str]]:
    """The assertions of the suite that fail with an executor, as the whole command has them."""
    library = Library.from_folder(skill.parent, cache=False)
    behaviour = BehaviourSettings(runners=(runner,), arms=("with",), record=record)
    report = test_skills(library, library, TestSettings(tiers=("behaviour",), behaviour=behaviour))
    (case,) = [one for one in report.skills[0].tiers[0].cases if "trials" in one.data]
    (trial,) = case.data["trials"]
    assert (case.verdict == "passed") is all(one["passed"] for one in trial["grades"]), case.reason
    assert len(trial["grades"]) == SUITE.split("assertions:")[1].split("steps:")[0].count("- ")
    return [(one["kind"], one["target"]) for one in trial["grades"] if not one["passed"]]


@pytest.mark.slow
@pytest.mark.parametrize("total", [12, 13])
@pytest.mark.parametrize("client", PROGRAMS)
def test_a_suite_has_the_same_verdicts_in_every_client(
    client: str, total: int, skill: Path, tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    with recorded_model(fixtures(calls_of(client, total), f"The sum is {total}."), tmp_path / "model") as model:
        connect(client, model, monkeypatch, tmp_path)
        assert failures_with(f"{client}:{MODELS[client]}", skill) == FAILURES[total]


@pytest.mark.slow
@pytest.mark.parametrize("total", [12, 13])
def test_the_same_suite_has_these_verdicts_with_our_agent_on_the_wire_scripted_and_replayed(
    total: int, skill: Path, tmp_path: Path, own_home: Path
) -> None:
    steps: list[Call] = [
        ("skills_load", {"skills": ["totals"]}),
        ("skills_run", {"script": "scripts/add.py", "args": ["4", "8"]}),
    ]
    commands = [f"echo {total} > total.txt", "touch forbidden"][: 2 if total == 12 else 1]
    calls: list[Call] = [*steps, *(("Bash", {"command": command}) for command in commands)]
    (tmp_path / "model").mkdir()
    with recorded_model(fixtures(calls, f"The sum is {total}."), tmp_path / "model") as model:
        provider = OpenAIProvider(base_url=f"{model.url}/v1", api_key="none")
        on_wire = ModelRunner(OpenAIChatModel("gpt-5", provider=provider))
        assert failures_with(on_wire, skill, record=True) == FAILURES[total]
    assert failures_with("recorded", skill) == FAILURES[total]
    assert failures_with("scripted", skill) == FAILURES[12]


@pytest.mark.slow
@pytest.mark.parametrize("client", PROGRAMS)
def test_a_client_is_counted(
    client: str, skill: Path, tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell, folder = SHELL[client], FOLDER[client]
    calls = [LOAD[client], *map(shell, [f"cat {folder}/fields.md", "touch forbidden"])]
    (tmp_path / "model").mkdir()
    with recorded_model(fixtures(calls, "Done."), tmp_path / "model") as model:
        found = play(client, model, trial_of(skill, tmp_path), monkeypatch, tmp_path)
    assert (found.error, found.answer, found.skill_read) == ("", "Done.", True)
    assert found.digest == Library.from_folder(skill.parent, cache=False).get("totals").package.digest()
    assert (found.input_tokens, found.output_tokens, found.violations) == (400, 28, 1)
    assert (found.cost is not None) is (client in ("claude-code", "opencode"))
    # To Codex, reading a SKILL.md is what loading is to others.
    assert (found.paths, found.path_errors, found.script_reads) == (2 if client == "codex" else 1, 1, 0)


@pytest.mark.slow
def test_without_the_skill_a_client_has_only_its_neighbours(
    skill: Path, tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_all(
        tmp_path / "others/letters", {"SKILL.md": "---\nname: letters\ndescription: Writes letters.\n---\nWrite.\n"}
    )
    (tmp_path / "model").mkdir()
    trial = trial_of(skill, tmp_path, arm="without", folder=None, neighbours=tmp_path / "others")
    call = SHELL["claude-code"]("ls ~/.claude/skills > seen")
    with recorded_model(fixtures([call], "No idea."), tmp_path / "model") as model:
        found = play("claude-code", model, trial, monkeypatch, tmp_path)
        assert not any(b"Adds up what was sold" in request.body for request in model.requests)
    assert (found.answer, found.skill_read, found.digest) == ("No idea.", False, "")
    assert found.after["seen"] == b"letters\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("client", "tool"),
    [("claude-code", "mcp__shop__price"), ("gemini", "mcp_shop_price"), ("opencode", "shop_price"), ("codex", "")],
)
def test_a_server_of_the_suite_answers_a_client(
    client: str, tool: str, skill: Path, tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    price = Mock(tool="mcp__shop__price", arguments={"article": TextMatch(equals="tea")}, result="4.29 EUR")
    case = BehaviourCase(id="price", prompt="Add up.", environment=Environment(mocks=(price,)), max_turns=12)
    calls = [(tool, {"article": "tea"})] if tool else []
    (tmp_path / "model").mkdir()
    with recorded_model(fixtures([LOAD[client], *calls], "It costs 4.29."), tmp_path / "model") as model:
        found = play(client, model, trial_of(skill, tmp_path, case), monkeypatch, tmp_path)
        if not tool:
            # The model on the wire cannot call a tool by its namespace, as Codex wants it; so it is only offered.
            tools = {one.get("name"): one for one in model.requests[-1].json["tools"]}
            assert [one["name"] for one in tools["mcp__shop"]["tools"]] == ["price"]
            assert not any(one["type"] == "web_search" for one in tools.values())
            return
        assert b"4.29 EUR" in model.requests[-1].body
    called = Assertion(kind="called", target="mcp__shop__price", arguments={"article": TextMatch(equals="tea")})
    assert (found.error, grade(called, found).passed) == ("", True)


@pytest.mark.slow
@pytest.mark.parametrize("client", PROGRAMS)
def test_a_client_sends_nothing_to_anybody_but_the_model(
    client: str, skill: Path, tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Proxy(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            asked.append(self.path)
            self.send_error(502)

        do_GET = do_POST = do_CONNECT  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Say nothing."""

    (tmp_path / "model").mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.02}).start()
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.server_port}")
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.server_port}")
        monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
        with recorded_model(fixtures([LOAD[client]], "Done."), tmp_path / "model") as model:
            found = play(client, model, trial_of(skill, tmp_path), monkeypatch, tmp_path)
        proxy.shutdown()
    assert (found.error, asked) == ("", [])


@pytest.mark.slow
@pytest.mark.parametrize("client", ["claude-code", "gemini"])
def test_a_client_ends_at_its_limit_of_requests(
    client: str, skill: Path, tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [SHELL[client](f"echo {number}") for number in range(6)]
    short = replace(CASE, max_turns=2)
    (tmp_path / "model").mkdir()
    with recorded_model(fixtures(calls, "Done."), tmp_path / "model") as model:
        found = play(client, model, trial_of(skill, tmp_path, short), monkeypatch, tmp_path)
        assert len(model.requests) == 2
    assert found.error.startswith("turns: "), found.error


@pytest.mark.slow
def test_claude_code_ends_at_its_limit_of_money(
    skill: Path, tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [SHELL["claude-code"](f"echo {number}") for number in range(6)]
    budget = TrialBudget(money=1.0)
    trial = trial_of(skill, tmp_path, max_cost=0.0003, budget=budget)
    (tmp_path / "model").mkdir()
    with recorded_model(fixtures(calls, "Done."), tmp_path / "model") as model:
        found = play("claude-code", model, trial, monkeypatch, tmp_path)
        assert len(model.requests) == 1
    assert found.error.startswith("budget: ")
    assert found.cost is not None
    assert budget.spent == found.cost


# --- a program that looks like a client -------------------------------------------------------------------------------


def end(answer: str = "Done.", **more: Any) -> str:
    """The line by which Claude Code says that it is done."""
    return json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": answer, **more})


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ClientRunner]:
    """A program in the place of Claude Code: its Python."""

    def make(code: str) -> ClientRunner:
        write_all(tmp_path, {"client.py": f"import json, os, subprocess, sys, time\n{code}\n"})
        monkeypatch.setenv("METIER_CLIENT_CLAUDE_CODE", f"{sys.executable} {tmp_path / 'client.py'}")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
        return ClientRunner("claude-code")

    return make


StandIn = Callable[[str], ClientRunner]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("sys.exit('no \\x1b[2J model')", r"model: Claude Code ended with exit code 1: no \x1b[2J model"),
        ("print('PASS')", "model: Claude Code did not say that it is done."),
        (f"print({end('12')!r}); print({end()!r})", "integrity: Claude Code said 2 times that it is done."),
        (f"print({end('Overloaded', is_error=True)!r})", "model: Overloaded"),
        ("os.kill(os.getpid(), 9)", "model: Claude Code ended with exit code 137"),
        ("sys.stdout.write('[' * 70_000_000)", "model: Claude Code printed too much"),
        (f"print('['  * 100_000); print({end()!r}, '\\n7\\n[1]\\n\"x\"'); sys.exit(3)", "ended with exit code 3"),
        (
            "print(json.dumps({'type': 'assistant', 'message': {'content': [{'type': 'tool_use'}]}})); "
            f"print({end()!r})",
            "integrity: Claude Code made calls that our guard was not asked about.",
        ),
    ],
)
def test_a_client_that_does_not_end_as_it_should_never_passes(
    code: str, error: str, stand_in: StandIn, skill: Path, tmp_path: Path, own_home: Path
) -> None:
    transcript = anyio.run(stand_in(code).run, trial_of(skill, tmp_path))
    assert error in transcript.error
    assert not grade(Assertion(kind="answer", match=TextMatch()), transcript).passed


@pytest.mark.slow
def test_a_client_is_ended_at_the_limit_of_time_with_all_that_it_started(
    stand_in: StandIn, skill: Path, tmp_path: Path, own_home: Path
) -> None:
    left = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)"
    code = f"child = {left}; open('pids', 'w').write(f'{{os.getpid()}} {{child.pid}}'); time.sleep(600)"
    transcript = anyio.run(stand_in(code).run, trial_of(skill, tmp_path, max_seconds=3.0))
    assert transcript.error == "timeout: Claude Code came to no end in 3 seconds."
    for pid in transcript.after["pids"].split() if sys.platform == "linux" else ():
        # One that is dead, and not yet collected, has no command.
        command = Path("/proc", pid.decode(), "cmdline")
        assert not command.exists() or command.read_bytes() == b""


@pytest.mark.slow
def test_a_program_that_a_client_leaves_behind_holds_nothing_up(
    stand_in: StandIn, skill: Path, tmp_path: Path, own_home: Path
) -> None:
    left = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)"
    transcript = anyio.run(stand_in(f"{left}; print({end('12')!r})").run, trial_of(skill, tmp_path))
    assert (transcript.error, transcript.answer) == ("", "12")


@pytest.mark.slow
def test_a_client_finds_nothing_of_its_user(
    stand_in: StandIn, skill: Path, tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_all(own_home, {".claude/settings.json": "{}", ".claude/CLAUDE.md": "mine"})
    for name in ("OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "CLAUDE_CONFIG_DIR", "METIER_STORE", "METIER_AUDIT"):
        monkeypatch.setenv(name, "of the user")
    report = "json.dump([dict(os.environ), os.getcwd(), sys.stdin.read(), sys.argv[1:]], open('seen', 'w'))"
    trial = trial_of(skill, tmp_path, max_cost=0.25)
    transcript = anyio.run(stand_in(f"{report}; print({end()!r})").run, trial)
    environ, folder, prompt, arguments = json.loads(transcript.after["seen"])
    assert "of the user" not in environ.values()
    assert environ["ANTHROPIC_API_KEY"] == "none"
    assert str(own_home) not in environ["HOME"]
    assert not Path(environ["HOME"]).exists()
    assert (folder, prompt) == (str(trial.workspace), CASE.prompt)
    assert arguments[arguments.index("--max-turns") + 1] == "12"
    assert float(arguments[arguments.index("--max-budget-usd") + 1]) == 0.25


@pytest.mark.slow
def test_what_the_policy_of_the_user_denies_stays_denied(
    skill: Path, tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_all(own_home, {".metier/policy.yaml": "version: 1\ntools: {deny: ['Bash(echo:*)']}\n"})
    (tmp_path / "model").mkdir()
    calls = [SHELL["claude-code"]("echo 12 > total.txt"), SHELL["claude-code"]("curl http://127.0.0.1")]
    with recorded_model(fixtures(calls, "Done."), tmp_path / "model") as model:
        found = play("claude-code", model, trial_of(skill, tmp_path), monkeypatch, tmp_path)
    assert [(one.tool, one.outcome) for one in found.calls] == [("Bash", "refused")] * 2
    assert "total.txt" not in found.after


@pytest.mark.slow
def test_records_that_were_changed_are_an_error(stand_in: StandIn, skill: Path, tmp_path: Path, own_home: Path) -> None:
    event = {"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash", "tool_input": {"command": "ls"}}
    ask = f"subprocess.run([os.path.expanduser('~/.metier/hook'), 'claude-code'], input=json.dumps({event!r} | "
    ask += "{'cwd': os.getcwd()}), text=True, check=True, stdout=subprocess.DEVNULL)"
    change = "import sqlite3; db = sqlite3.connect(os.path.expanduser('~/store/metier.db')); "
    change += (
        "[db.execute(f'DROP TRIGGER {name}') for name, in db.execute(\"SELECT name FROM sqlite_master WHERE type = "
    )
    change += "'trigger'\").fetchall()]; db.execute('DELETE FROM audit WHERE seq > 1'); db.commit()"
    honest = anyio.run(stand_in(f"{ask}; print({end()!r})").run, trial_of(skill, tmp_path))
    assert (honest.error, [one.tool for one in honest.calls]) == ("", ["Bash"])
    changed = anyio.run(stand_in(f"{ask}; {change}; print({end()!r})").run, trial_of(skill, tmp_path))
    assert changed.error == "integrity: The audit log of the trial was changed."


# --- before anything is started ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        (Environment(now="2026-01-31T12:00:00Z"), "a clock"),
        (Environment(env={"REGION": "AT"}), "variables for scripts"),
        (Environment(mocks=(Mock(tool="Bash", result="12"),)), "mocks of its own tools"),
    ],
)
def test_a_case_that_a_client_cannot_be_given_is_refused(
    environment: Environment, reason: str, stand_in: StandIn
) -> None:
    runner = stand_in("")
    assert runner.refusal(CASE, "with", 0) == ""
    refusal = runner.refusal(replace(CASE, environment=environment), "with", 0)
    assert refusal == f"Claude Code cannot be given {reason}: use a model through our own agent."


def test_a_client_that_is_not_there_or_has_no_key_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in CLIENT_PROGRAMS["codex"].keys:
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(PartMissing, match="Codex is not installed") as missing:
        client_command("codex")
    assert "npm install -g @openai/codex" in str(missing.value.hint)
    assert "npm install -g @openai/codex" in ClientRunner("codex").refusal(CASE, "with", 0)
    assert installed_clients() == ()
    monkeypatch.setenv("METIER_CLIENT_CODEX", f"{sys.executable} 'my codex.py'")
    assert client_command("codex") == [sys.executable, "my codex.py"]
    assert installed_clients() == ("codex",)
    assert ClientRunner("codex").refusal(CASE, "with", 0) == "Codex has no key: set OPENAI_API_KEY."


def test_only_clients_with_hooks_run_trials() -> None:
    assert set(CLIENT_PROGRAMS) < set(CLIENTS)
    with pytest.raises(InvalidArgument, match="'cursor' is no client that can run trials"):
        ClientRunner("cursor")
    assert ClientRunner("gemini", model="gemini-2.5-pro").name == "gemini:gemini-2.5-pro"


def test_a_client_that_knows_no_limit_of_money_is_refused_where_money_is_limited(
    skill: Path, tmp_path: Path, own_home: Path
) -> None:
    budget = TrialBudget(money=5.0)
    transcript = anyio.run(ClientRunner("codex").run, trial_of(skill, tmp_path, budget=budget))
    assert transcript.error.startswith("budget: The price is not known")
    assert budget.spent == 0
