"""Questions that a client puts to the person who uses it, and the answers."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.clients.documented import Conversation
from tests.clients.story import ASKED, DONE, STORIES, TASK, fixtures, protected, run, write_all
from tests.npm_packages import client_command
from tests.wire.server import recorded_model

from metier.cli import main

SECONDS = 60
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b\][^\x07]*\x07")
QUESTION = "Métier: Policy says to ask"


def decisions(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str]]:
    """The decisions about calls, each with the rule that made it."""
    capsys.readouterr()
    assert main(["audit", "export"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [(one["decision"], one["rule"].partition(" ")[0]) for one in records if one["event"] in ("call", "answer")]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
@pytest.mark.parametrize(("key", "is_yes"), [(b"\r", True), (b"\x1b", False)], ids=["yes", "no"])
def test_gemini_puts_our_question_in_its_own_window_even_where_it_asks_nothing_itself(
    key: bytes, is_yes: bool, project: Path, tmp_path: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story = STORIES["gemini"]
    protected("gemini", project, own_home, tmp_path)
    command = [*client_command("gemini"), "-m", "gemini-2.5-pro", "-i", TASK, "--yolo"]
    with recorded_model([*fixtures([story.shell(f"{ASKED} > made")])], tmp_path / "model") as model:
        write_all(own_home, story.home(model.url, project))
        env = {**os.environ, "TERM": "xterm-256color", "PWD": str(project), "METIER_HOOK_IDLE": "5"}
        shown = _at_terminal(command, {**env, **story.env(model.url, own_home)}, key, DONE if is_yes else "cancelled")
    assert QUESTION in shown
    assert (project / "made").exists() is is_yes
    found = decisions(capsys)
    assert found == [("ask", "tools:"), ("allow", "answer")][: 1 + is_yes], "the result tells that somebody said yes"


def _at_terminal(command: list[str], env: dict[str, str], key: bytes, last: str) -> str:
    """What a program shows at a terminal until it shows some last words; a key is pressed at the question."""
    import fcntl
    import pty
    import struct
    import termios

    process, terminal = pty.fork()
    if not process:
        os.execvpe(command[0], command, env)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    data, pressed, end = b"", 0.0, time.monotonic() + SECONDS
    try:
        while time.monotonic() < end:
            if select.select([terminal], [], [], 0.2)[0]:
                data += os.read(terminal, 65536)
            shown = _CONTROL.sub("", data.decode(errors="replace"))
            if pressed and last in shown:
                return shown
            if "Allow execution" in shown and time.monotonic() > pressed + 5:
                # It takes no keys while it draws the window; on a slow machine that is more than a moment.
                time.sleep(1)
                os.write(terminal, key)
                pressed = time.monotonic()
        return shown
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(terminal)


@pytest.mark.slow
@pytest.mark.parametrize("is_yes", [True, False])
def test_a_call_that_a_person_agrees_to_in_vs_code_is_made_and_told_of(
    is_yes: bool, project: Path, tmp_path: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    protected("vscode", project, own_home, tmp_path)
    conversation = Conversation("vscode", project, {"METIER_HOOK_IDLE": "5"}, agrees=is_yes)
    conversation.begin(TASK)
    conversation.call(*STORIES["vscode"].shell(f"{ASKED} > made"))
    assert (project / "made").exists() is is_yes
    assert decisions(capsys) == [("ask", "tools:"), ("allow", "answer")][: 1 + is_yes]


@pytest.mark.slow
def test_a_command_of_opencode_for_a_blocked_skill_reaches_no_model(
    project: Path, tmp_path: Path, own_home: Path
) -> None:
    protected("opencode", project, own_home, tmp_path)
    story = replace(STORIES["opencode"], arguments=("run", "--command", "totals", TASK))
    with recorded_model([*fixtures([])], tmp_path / "model") as model:
        assert DONE in run(story, project, own_home, model), "the command gives the instructions"
        assert any(b"Add up every line." in request.body for request in model.requests)
        model.begin()
        assert main(["quarantine", "add", "totals", "--reason", "hostile"]) == 0
        assert DONE not in run(story, project, own_home, model, code=1)
        assert not model.requests
