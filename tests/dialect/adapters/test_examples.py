"""The programs in `examples` run without keys, and leave the trail that they show."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"

SHOWN = """\
It has 6 words. I was not allowed to send a mail.
  load   word-count   allow
  call   skills_load  allow
  run    word-count   allow
  call   skills_run   allow
  call   send_mail    deny   tool-not-allowed
"""


# To import what these two use takes longer than all other examples.
SLOW = ("raw_anthropic.py", "raw_gemini.py")


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(program, marks=[pytest.mark.slow] if program.name in SLOW else [])
        for program in sorted(EXAMPLES.glob("*.py"))
    ],
    ids=lambda program: program.name,
)
def test_an_example_runs(
    program: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(program)])
    runpy.run_path(str(program), run_name="__main__")
    shown = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert shown[:6] == SHOWN.splitlines()


def test_every_example_is_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(f"({program.name})" in listed for program in EXAMPLES.glob("*.py"))
    assert SHOWN in listed
