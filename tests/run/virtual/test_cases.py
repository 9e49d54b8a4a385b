"""Scripts as skills have them, and what real bash says to each."""

from __future__ import annotations

import json
from pathlib import Path

from metier.run.virtual import VirtualShell

CASES = json.loads(Path(__file__).with_name("shell-cases.json").read_text(encoding="utf-8"))
KNOWN = {"file_tests", "date_fmt", "skill_template_render"}
"""Cases that the interpreter gets wrong; docs/explanation/shell.md says how."""
DOCUMENT = Path(__file__).parents[3] / "docs/explanation/shell.md"


def wrong_in(shell: VirtualShell, beginning: bytes) -> list[str]:
    wrong = []
    for case in CASES:
        shell.restore(beginning)
        shell.mount("demo", {path: text.encode() for path, text in case["files"].items()})
        for path, text in case["workspace"].items():
            shell.write(f"/workspace/{path}", text)
        outcome = shell.execute(case["command"])
        if (outcome.stdout, outcome.exit_code) != (case["stdout"], case["exit_code"]):
            wrong.append(case["name"])
    return wrong


def test_scripts_of_skills_say_what_they_say_to_real_bash(shell: VirtualShell) -> None:
    wrong = wrong_in(shell, shell.snapshot())
    assert set(wrong) <= KNOWN
    assert len(CASES) == 71
    assert len(CASES) - len(wrong) >= 68


def test_every_known_difference_is_documented() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert [name for name in KNOWN if f"`{name}`" not in text] == []
