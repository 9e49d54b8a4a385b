"""`metier ask` and `metier agents`: an agent at work, told to a person or to a program."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Call = Callable[..., tuple[int, str, str]]
Write = Callable[..., Path]


@pytest.fixture
def skills(write_skill: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "skills"
    write_skill(root / "tables", description="Reads tables and spreadsheets.", body="Look at the header first.")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.delenv("METIER_MODEL", raising=False)
    return root


def test_the_answer_is_on_standard_output_and_what_is_loaded_beside_it(metier: Call, skills: Path) -> None:
    code, out, err = metier("ask", "Which spreadsheets and tables?", "--model", "test", "--skills", skills)
    assert code == 0
    assert "It loaded 'tables'" in out
    assert "Look at the header first." in out
    assert err.splitlines() == ["↳ Loaded tables.", "↰ Unloaded tables."]


def test_without_a_model_it_says_the_three_ways_to_have_one(metier: Call, skills: Path) -> None:
    code, out, err = metier("ask", "Hello", "--skills", skills)
    assert (code, out) == (2, "")
    assert "[model-missing]" in err
    for way in ("--model", "METIER_MODEL=", "agent.yaml", "--model test"):
        assert way in err


def test_a_model_that_cannot_be_used_is_wrong_usage_with_what_to_set(
    metier: Call, skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    code, _, err = metier("ask", "Hello", "--skills", skills, "--model", "openai:gpt-5")
    assert code == 2
    assert "OPENAI_API_KEY" in err
    assert "Traceback" not in err


def test_the_model_can_come_from_the_environment(metier: Call, skills: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METIER_MODEL", "test")
    assert metier("ask", "Hello", "--skills", skills)[0] == 0


def test_a_program_gets_one_object(metier: Call, skills: Path) -> None:
    code, out, err = metier("ask", "Which spreadsheets?", "--model", "test", "--skills", skills, "--json")
    found = json.loads(out)
    assert (code, err, found["agent"]) == (0, "", "orchestrator")
    assert "tables" in found["answer"]
    kinds = [event["kind"] for event in found["events"]]
    assert "loaded" in kinds
    assert "text" not in kinds


def test_a_program_gets_what_went_wrong_as_an_object(metier: Call, skills: Path) -> None:
    code, out, _ = metier("ask", "Hello", "--agent", "nobody", "--model", "test", "--skills", skills, "--json")
    assert (code, json.loads(out)["error"]["code"]) == (1, "agent-not-found")


def test_the_task_can_come_through_a_pipe(metier: Call, skills: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("Which spreadsheets?"))
    assert "tables" in metier("ask", "-", "--model", "test", "--skills", skills)[1]


@pytest.mark.each("task", ["", "  ", "\n"])
def test_nothing_asked_is_wrong_usage(metier: Call, skills: Path, task: str) -> None:
    assert metier("ask", task, "--model", "test", "--skills", skills)[0] == 2


def test_a_task_that_is_no_text_is_wrong_usage(metier: Call, skills: Path) -> None:
    for words, given in (("-", b"caf\xe9"), ("caf\udce9", None)):
        code, out, err = metier("ask", words, "--model", "test", "--skills", skills, given=given)
        assert (code, out) == (2, "")
        assert "is not UTF-8 text" in err


@pytest.mark.parametrize("command", ["ask", "chat"])
def test_an_empty_agent_is_none(metier: Call, skills: Path, command: str) -> None:
    task = ["Hello"] if command == "ask" else []
    code, out, err = metier(command, *task, "--agent", "", "--model", "test", "--skills", skills, given="Hello")
    assert (code, out) == (2, "")
    assert "The id of the agent is empty." in err


@pytest.fixture
def project(skills: Path, write_skill: Write) -> Path:
    """A repository with a skill in it that nobody vouches for."""
    work = Path.cwd()
    (work / ".git").mkdir()
    write_skill(work / ".agents" / "skills" / "tables", description="Reads tables and spreadsheets.")
    return work


def test_where_nobody_can_be_asked_it_waits_and_nobody_is_said_to_have_been_asked(
    forked: list[str], project: Path
) -> None:
    done = subprocess.run(
        [*forked, "ask", "Which spreadsheets and tables?", "--model", "test"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        start_new_session=True,
    )
    assert done.returncode == 4, done.stderr
    assert "waits: The model wants to load skill 'tables'" in done.stderr
    assert "did not agree" not in done.stderr
    assert "`metier ask --resume " in done.stderr
    assert "Loaded tables" not in done.stderr


@pytest.fixture
def waiting(skills: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A skill that an approver has to agree to, and nobody at a terminal."""
    monkeypatch.setattr("metier.cli.ask.at_terminal", lambda: None)
    monkeypatch.setattr("metier.cli.chat.at_terminal", lambda: None)
    (skills / "tables" / "scripts").mkdir()
    (skills / "tables" / "scripts" / "x.py").write_text("print('hello')\n")
    policy = Path.cwd() / ".metier" / "policy.yaml"
    policy.parent.mkdir()
    policy.write_text("version: 1\nskill-policy:\n  require-approval-for: [scripts]\n")
    return skills


def test_a_task_waits_for_an_approval_and_goes_on_when_it_is_there(metier: Call, waiting: Path) -> None:
    options = ("--model", "test", "--skills", waiting)
    code, out, err = metier("ask", "Which spreadsheets and tables?", *options)
    request = json.loads(metier("approve", "list", "--json")[1])["requests"][0]["id"]
    assert (code, out) == (4, "")
    assert f"`metier approve show {request}`" in err
    assert "asked" not in err
    again = next(line for line in err.splitlines() if "--resume" in line).partition("--resume ")[2].partition("`")[0]
    code, out, err = metier("ask", "--resume", again, "--json", *options)
    told = json.loads(out)
    assert (code, told["answer"], told["resume"]) == (4, None, again)
    assert [question["request"] for question in told["questions"]] == [request]
    assert metier("approve", "grant", request)[0] == 0
    code, out, err = metier("ask", "--resume", *options)
    assert (code, "Look at the header first." in out) == (0, True)
    assert "Loaded tables" in err
    code, out, err = metier("ask", "--resume", again, *options)
    assert (code, "Nothing waits" in err) == (2, True)


def test_a_chat_goes_on_with_what_waited(metier: Call, waiting: Path) -> None:
    options = ("--model", "test", "--skills", waiting)
    code, out, err = metier("chat", *options, given="Which spreadsheets and tables?\nAnd then?\n")
    assert (code, out) == (4, "")
    assert "`metier chat --resume " in err
    request = json.loads(metier("approve", "list", "--json")[1])["requests"][0]["id"]
    metier("approve", "grant", request)
    code, out, err = metier("chat", "--resume", *options, given="")
    assert (code, "Look at the header first." in out) == (0, True)


def test_a_task_that_waited_takes_no_other(metier: Call, skills: Path) -> None:
    assert metier("ask", "--model", "test")[0] == 2
    assert metier("ask", "Another", "--resume", "x", "--model", "test")[0] == 2


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals here")
def test_the_person_at_the_terminal_is_asked(forked: list[str], project: Path) -> None:
    import pty

    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [*forked, "ask", "Which spreadsheets and tables?", "--model", "test"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    os.close(theirs)
    received, is_answered = "", False
    while True:
        try:
            chunk = os.read(ours, 65_536)
        except OSError:
            break
        received += chunk.decode(errors="replace")
        if not is_answered and "[y/N]" in received:
            os.write(ours, b"y\n")
            is_answered = True
    os.close(ours)
    assert child.wait(timeout=60) == 0
    assert is_answered
    assert "nobody vouches" in received
    assert "Loaded tables" in received


def test_the_agents_are_listed(metier: Call, skills: Path) -> None:
    code, out, _ = metier("agents", "--skills", skills)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:4]] == ["orchestrator", "reviewer", "skill-builder"]
    shape = json.loads(metier("agents", "--skills", skills, "--json")[1])
    assert {one["id"] for one in shape["agents"]} == {"orchestrator", "reviewer", "skill-builder"}


def test_an_agent_that_cannot_be_used_is_named_with_what_to_do(metier: Call, skills: Path) -> None:
    home = Path(os.environ["HOME"]) / ".metier" / "agents" / "broken"
    home.mkdir(parents=True)
    (home / "agent.yaml").write_text("limits: many\n")
    code, out, _ = metier("agents", "--skills", skills)
    assert code == 1
    assert "broken" in out
    assert "→" in out
