"""Scripts as skills have them, and what real bash says to each."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from metier.run.virtual import VirtualShell

ROOT = Path(__file__).parents[3]
CASES = ROOT.parent / "shared" / "bench" / "shell-cases.json"
KNOWN = {"file_tests", "date_fmt", "skill_template_render"}
"""Cases that the interpreter gets wrong; docs/explanation/shell.md says how."""
DOCUMENT = ROOT / "docs/explanation/shell.md"


@pytest.mark.skipif(not CASES.is_file(), reason="the scripts with real bash's output are not beside this repository")
def test_scripts_of_skills_say_what_they_say_to_real_bash(shell: VirtualShell) -> None:
    cases = json.loads(CASES.read_text(encoding="utf-8"))
    assert len(cases) == 71
    beginning = shell.snapshot()
    wrong = set()
    for case in cases:
        shell.restore(beginning)
        shell.mount("demo", {path: text.encode() for path, text in case["files"].items()})
        for path, text in case["workspace"].items():
            shell.write(f"/workspace/{path}", text)
        outcome = shell.execute(case["command"])
        if (outcome.stdout, outcome.exit_code) != (case["stdout"], case["exit_code"]):
            wrong.add(case["name"])
    assert wrong == KNOWN


def test_the_known_differences_are_those_that_are_documented() -> None:
    section = DOCUMENT.read_text(encoding="utf-8").partition("## How it differs from bash")[2]
    table = section.partition("\nOther differences")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == KNOWN
