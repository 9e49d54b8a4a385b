"""`metier chat` and `metier ask` at a terminal, with a person who is asked and ends what is going on."""

from __future__ import annotations

import io
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests.forked import streams_anew

import metier.agent.models
from metier.cli import main
from metier.cli.terminal import TerminalPrompt
from metier.guard.question import PROGRAM, TERMINAL
from metier.testing import ScriptedModel

pty = pytest.importorskip("pty")
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

_PATIENCE = 60
INTERRUPT = "\x03"


class Terminal:
    """A program at a terminal: what it shows, and what is typed."""

    def __init__(self, program: int, master: int) -> None:
        self._program = program
        self._master = master
        self._shown = b""
        self._code: int | None = None

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def until(self, text: str) -> str:
        """What is shown up to a text; the next looks begin behind it."""
        end = time.monotonic() + _PATIENCE
        while text.encode() not in self._shown:
            assert time.monotonic() < end and self._code is None, f"{text!r} was not shown: {self._shown!r}"
            self._read()
        before, _, self._shown = self._shown.partition(text.encode())
        return before.decode()

    def ended(self) -> int:
        """How it ended, by itself."""
        end = time.monotonic() + _PATIENCE
        while self._code is None:
            assert time.monotonic() < end, f"it goes on: {self._shown!r}"
            self._read()
            self._reap(os.WNOHANG)
        return self._code

    def close(self) -> None:
        """End it, if it goes on."""
        if self._code is None:
            os.kill(self._program, signal.SIGKILL)
            self._reap(0)
        os.close(self._master)

    def _reap(self, options: int) -> None:
        if self._code is None and (status := os.waitpid(self._program, options))[0]:
            self._code = os.waitstatus_to_exitcode(status[1])

    def _read(self) -> None:
        if select.select([self._master], [], [], 0.05)[0]:
            try:
                self._shown += os.read(self._master, 65_536)
            except OSError:  # which some systems say where all others say that it is the end
                time.sleep(0.01)
                self._reap(os.WNOHANG)


Start = Callable[..., Terminal]


@pytest.fixture
def start(tmp_path: Path, write_skill: Callable[..., Path]) -> Iterator[Start]:
    """Starts `metier` at a terminal, in a project that nobody trusts; forked, as imports take seconds."""
    project = tmp_path / "project"
    write_skill(project / ".claude" / "skills" / "evil", description="Evil.")
    (project / ".git").mkdir()
    running = []

    def begin(*arguments: str) -> Terminal:
        program, master = pty.fork()  # the terminal is its own, so that Ctrl-C comes to it
        if program == 0:
            code = 1
            try:
                os.chdir(project)
                home = str(tmp_path)
                os.environ.update(HOME=home, XDG_STATE_HOME=home, METIER_AUDIT=f"{home}/audit.jsonl", NO_COLOR="1")
                os.environ.pop("PYTEST_VERSION", None)
                os.environ.pop("CI", None)
                streams_anew()
                play(arguments)
                code = 0
                sys.stdout.flush()
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)  # without what this process does at its own end
        terminal = Terminal(program, master)
        running.append(terminal)
        return terminal

    yield begin
    for terminal in running:
        terminal.close()


def play(arguments: Sequence[str]) -> None:
    """Call commands one after the other; the model loads a skill that nobody vouches for, so the person is asked."""
    for words in arguments:
        model = ScriptedModel([("skills_load", {"skills": ["evil"]}), *["Fine."] * 5])
        metier.agent.models.trial_model = lambda model=model: model  # type: ignore[misc]
        code = main(words.split())
        print(words, "ended with", code)


def trail(tmp_path: Path) -> set[tuple[str, str]]:
    """What was done and how it ended, but for the answers of the model."""
    lines = (tmp_path / "audit.jsonl").read_text().splitlines()
    records = [record for record in map(json.loads, lines) if record["event"] != "model"]
    return {(record["event"], record.get("code") or "ok") for record in records}


def test_ctrl_c_at_a_question_ends_the_answer_or_the_task_and_what_is_typed_next_is_no_answer_to_it(
    start: Start, tmp_path: Path
) -> None:
    terminal = start("chat --model test", "ask --model test Hello")
    terminal.until("> ")
    terminal.type("Hello\n")
    terminal.until("[y/N]")
    terminal.type(INTERRUPT)
    terminal.until("Stopped.")
    terminal.until("> ")
    terminal.type("y\n")
    terminal.until("Fine.")
    terminal.until("> ")
    terminal.type("/skills\n")
    terminal.until("Nothing is loaded.")
    terminal.until("> ")
    terminal.type("/exit\n")
    terminal.until("ended with 0")
    assert trail(tmp_path) == {("load", "cancelled"), ("call", "cancelled")}
    (tmp_path / "audit.jsonl").unlink()
    assert "pydantic" not in terminal.until("[y/N]").lower()
    terminal.type(INTERRUPT)
    terminal.until("ended with 130")
    assert terminal.ended() == 0
    assert trail(tmp_path) == {("load", "cancelled"), ("call", "cancelled")}


@pytest.mark.covers("SEC-17")
@pytest.mark.parametrize(("is_typed", "source"), [(True, TERMINAL), (False, PROGRAM)])
def test_an_answer_is_a_persons_where_what_the_command_reads_is_typed(
    monkeypatch: pytest.MonkeyPatch, is_typed: bool, source: str
) -> None:
    class Input(io.StringIO):
        def isatty(self) -> bool:
            return is_typed

    monkeypatch.setattr("sys.stdin", Input())
    assert TerminalPrompt().source == source


def test_skills_of_a_source_are_picked_agreed_to_and_offered_to_the_clients_that_are_there(
    start: Start, tmp_path: Path, write_skill: Callable[..., Path]
) -> None:
    for name in ("bye", "hello", "third"):
        write_skill(tmp_path / "shared" / name, description=f"Says {name}. Use when asked.")
    (tmp_path / ".claude").mkdir()
    terminal = start(f"add {tmp_path}/shared", f"add {tmp_path}/shared third")
    listed = terminal.until("Which of them?")
    assert "   2  hello  Says hello. Use when asked." in listed
    terminal.type("1, 4\n")
    terminal.until("There is no number 4; the last one is 3.")
    terminal.until("Which of them?")
    terminal.type("1, helo\n")
    terminal.until("Did you mean 'hello'?")
    terminal.until("Which of them?")
    terminal.type("1, hello\n")
    assert "bye  Says bye." in terminal.until("Install 2 skills, and approve of what they can do? [y/N]")
    terminal.type("y\n")
    terminal.until("Also write it into the folders of Claude Code? [y/N]")
    terminal.type("y\n")
    terminal.until("ended with 0")
    terminal.until("Install third, and approve of what it can do? [y/N]")
    terminal.type("\n")  # no answer is no
    terminal.until("Nothing was changed.")
    assert terminal.ended() == 0
    project = tmp_path / "project"
    for folder in (".metier/skills", ".claude/skills"):
        assert {path.name for path in (project / folder).iterdir() if path.name in ("bye", "hello", "third")} == {
            "bye",
            "hello",
        }
