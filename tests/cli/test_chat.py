"""`metier chat`: a conversation that streams, asks, and can go on later."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from metier.cli.agents import SavedChats
from metier.errors import InvalidArgument, SessionNotFound
from metier.testing import ScriptedModel

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def talk(
    metier: Call,
    write_skill: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Call:
    """Says lines to the test model, and gives what came of it."""
    root = tmp_path / "skills"
    write_skill(root / "tables", description="Reads tables and spreadsheets.")
    write_skill(root / "plan", description="Plans.", body="Plan $ARGUMENTS.", more="disable-model-invocation: true\n")
    write_skill(root / "inner", description="Inner.", more="user-invocable: false\n")
    monkeypatch.chdir(tmp_path)

    def say(text: str, *options: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        return metier("chat", "--model", "test", "--skills", root, *options)

    return say


def test_each_line_is_a_turn_and_skills_stay_loaded(talk: Call) -> None:
    code, out, err = talk("Which spreadsheets and tables?\n/skills\n")
    assert code == 0
    assert "It loaded 'tables'" in out
    assert "Loaded: tables." in err


@pytest.mark.covers("O-106")
def test_a_person_uses_a_skill_by_name_that_no_model_may_load(talk: Call) -> None:
    code, _, err = talk("/plan the week\n/skills\n")
    assert code == 0
    assert "↳ Loaded plan." in err
    assert "Loaded: plan." in err


@pytest.mark.covers("O-106")
def test_what_is_not_for_people_is_refused_and_the_conversation_goes_on(talk: Call) -> None:
    code, out, err = talk("/inner\n/nope\nHello\n")
    assert code == 0
    assert "[not-for-people]" in err
    assert "[skill-not-found]" in err
    assert "This is the test model" in out


def test_a_conversation_goes_on_where_it_ended(talk: Call) -> None:
    _, _, err = talk("Which spreadsheets and tables?\n")
    id_ = err.strip().splitlines()[-1].split("--resume ")[1].split("`")[0]
    _, _, err = talk("/skills\n", "--resume", id_)
    assert "Loaded: tables." in err
    _, _, err = talk("/skills\nHello\n", "--resume")
    assert "Loaded: tables." in err


@pytest.mark.parametrize("text", ["", "\n", "/skills\n", "/help\n/exit\n"])
def test_where_nothing_was_asked_nothing_went_wrong(talk: Call, text: str) -> None:
    assert talk(text)[:2] == (0, "")


@pytest.mark.parametrize(("text", "code"), [("/nope\n", 1), ("/nope\n/inner\n", 1), ("/nope\nHello\n", 0)])
def test_where_nothing_was_answered_that_is_the_exit_code(talk: Call, text: str, code: int) -> None:
    assert talk(text)[0] == code


def test_a_skill_that_is_gone_when_a_conversation_goes_on_is_named(talk: Call, tmp_path: Path) -> None:
    talk("Which spreadsheets and tables?\n")
    (tmp_path / "skills" / "tables" / "SKILL.md").unlink()
    _, _, err = talk("/skills\n", "--resume")
    assert err == "not loaded again: tables; gone or refused by now.\nNothing is loaded.\n"


def test_a_line_that_is_no_text_is_said_so_and_the_conversation_goes_on(talk: Call, metier: Call) -> None:
    code, out, err = metier("chat", "--model", "test", given=b"caf\xe9\n/x caf\xe9\nHello\n")
    assert code == 0
    assert out.count("This is the test model") == 1
    assert err.count("error [invalid-argument]: What was asked is not UTF-8 text.") == 2


def test_help_says_what_can_be_typed(talk: Call) -> None:
    assert "/exit" in talk("/help\n/exit\nHello\n")[2]


@pytest.mark.parametrize("id_", ["nope", "../../etc/passwd", "", "a/b", "x" * 100])
def test_a_conversation_that_is_not_kept_is_said_so(talk: Call, id_: str) -> None:
    code, _, err = talk("Hello\n", f"--resume={id_}")
    assert code in (1, 2)
    assert "Traceback" not in err


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": 7}', '{"format": 1, "agent": "orchestrator"}'])
def test_what_was_kept_and_damaged_is_said_so(talk: Call, text: str) -> None:
    chats = SavedChats()
    chats.keep("damaged", {})
    (chats.folder / "damaged.json").write_text(text)
    code, _, err = talk("Hello\n", "--resume", "damaged")
    assert code == 2
    assert "hint:" in err


def test_conversations_are_for_nobody_else_and_not_kept_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metier.cli.agents.MAX_KEPT", 10)
    chats = SavedChats(tmp_path / "chats")
    for number in range(15):
        chats.keep(f"c{number}", {"number": number})
    kept = list(chats.folder.iterdir())
    assert len(kept) == 10
    if sys.platform != "win32":
        assert {path.stat().st_mode & 0o077 for path in kept} == {0}
    assert chats.read("last")["number"] == 14
    assert json.loads(kept[0].read_text())
    with pytest.raises(SessionNotFound):
        SavedChats(tmp_path / "none").read("last")
    with pytest.raises(InvalidArgument):
        chats.keep("../x", {})


def test_whatever_a_model_raises_is_said_and_the_conversation_goes_on(
    talk: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedModel(["One.", ConnectionResetError(104, "reset"), "Three."])
    monkeypatch.setattr("metier.agent.models.trial_model", lambda: model)
    code, out, err = talk("one\ntwo\nthree\n")
    assert (code, out) == (0, "One.\nThree.\n")
    assert "error [agent-failed]: Agent 'orchestrator' came to no answer: ConnectionResetError" in err


def test_a_conversation_that_cannot_be_kept_goes_on(talk: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metier.cli.agents.MAX_BYTES", 100)
    code, out, err = talk("Hello\nHello\n")
    assert code == 0
    assert out.count("This is the test model") == 2
    assert err.count("not kept: The conversation has more than 100 bytes") == 2
