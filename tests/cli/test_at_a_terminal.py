"""`metier chat` and `metier ask` at a terminal, with a person who is asked and ends what is going on."""

from __future__ import annotations

import io
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from metier.cli.terminal import TerminalPrompt
from metier.guard.question import PROGRAM, TERMINAL

pty = pytest.importorskip("pty")

# Commands one after the other, with a model that loads a skill which nobody vouches for, so that the person is asked.
_DRIVER = """
import sys
import metier.agent.models
from metier.testing import ScriptedModel
from metier.cli.main import main
for words in sys.argv[1:]:
    model = ScriptedModel([("skills_load", {"skills": ["evil"]}), *["Fine."] * 5])
    metier.agent.models.trial_model = lambda: model
    code = main(words.split())
    print(words, "ended with", code)
"""
_PATIENCE = 60
INTERRUPT = "\x03"


class Terminal:
    """A program at a terminal: what it shows, and what is typed."""

    def __init__(self, program: subprocess.Popen[bytes], master: int) -> None:
        self.program = program
        self._master = master
        self._shown = b""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def until(self, text: str) -> str:
        """What is shown up to a text; the next looks begin behind it."""
        end = time.monotonic() + _PATIENCE
        while text.encode() not in self._shown:
            assert time.monotonic() < end and self.program.returncode is None, (
                f"{text!r} was not shown: {self._shown!r}"
            )
            self._read()
        before, _, self._shown = self._shown.partition(text.encode())
        return before.decode()

    def ended(self) -> int:
        """How it ended, by itself."""
        end = time.monotonic() + _PATIENCE
        while self.program.poll() is None:
            assert time.monotonic() < end, f"it goes on: {self._shown!r}"
            self._read()
        return self.program.returncode

    def _read(self) -> None:
        if select.select([self._master], [], [], 0.05)[0]:
            try:
                self._shown += os.read(self._master, 65_536)
            except OSError:  # which some systems say where all others say that it is the end
                self.program.wait(_PATIENCE)


Start = Callable[..., Terminal]


@pytest.fixture
def start(tmp_path: Path, write_skill: Callable[..., Path]) -> Iterator[Start]:
    """Starts `metier` at a terminal, in a project that nobody trusts."""
    project = tmp_path / "project"
    write_skill(project / ".claude" / "skills" / "evil", description="Evil.")
    (project / ".git").mkdir()
    running = []

    def begin(*arguments: str) -> Terminal:
        master, slave = pty.openpty()
        home = str(tmp_path)
        env = {**os.environ, "HOME": home, "XDG_STATE_HOME": home, "METIER_AUDIT": str(tmp_path / "audit.jsonl")}
        env.pop("PYTEST_VERSION", None)
        env.pop("CI", None)
        program = subprocess.Popen(
            [sys.executable, "-c", _MINE, sys.executable, "-c", _DRIVER, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=project,
            env=env | {"NO_COLOR": "1"},
            start_new_session=True,
        )
        os.close(slave)
        terminal = Terminal(program, master)
        running.append((program, master))
        return terminal

    yield begin
    for program, master in running:
        program.kill()
        program.wait(_PATIENCE)
        os.close(master)


# Makes the terminal its own, so that Ctrl-C comes to it, and becomes the program.
_MINE = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def trail(tmp_path: Path) -> set[tuple[str, str]]:
    lines = (tmp_path / "audit.jsonl").read_text().splitlines()
    return {(record["event"], record.get("code") or "ok") for record in map(json.loads, lines)}


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
