"""A skill of a company through its life: proposals approved and rejected, and one made after a change by hand."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metier import Library
from metier.cli.identity import system_user
from metier.errors import Refused

Metier = Callable[..., tuple[int, str, str]]

TOTALS = """---
name: totals
description: Adds up the numbers of a file. Use when numbers are to be added up.
---
Add up all lines of the file.
Say the sum.
"""
BETTER = "--- a/SKILL.md\n+++ b/SKILL.md\n@@ -5 +5,2 @@\n Add up all lines of the file.\n+Leave out headers.\n"
WORSE = "--- a/SKILL.md\n+++ b/SKILL.md\n@@ -7 +7 @@\n-Say the sum.\n+Say the sum twice.\n"


class Company:
    """Everybody who has a part, each with the command as they have it, and the agents of the company."""

    def __init__(self, metier: Metier, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self._metier, self._monkeypatch = metier, monkeypatch
        self._tokens: dict[str, str] = {}
        self.skill = folder / "totals" / "SKILL.md"

    def joins(self, name: str, *words: str) -> None:
        code, _, err = self._metier("user", "add", name, *words)
        assert code == 0, err
        self._tokens[name] = self._metier("user", "token", name)[1].strip()

    def says(self, who: str, *words: str | Path, given: str | None = None) -> tuple[int, str, str]:
        with self._monkeypatch.context() as patch:
            if who != "admin":
                patch.setenv("METIER_API_TOKEN", self._tokens[who])
            return self._metier(*words, given=given)

    def proposes(self, who: str, *words: str, given: str | None = None) -> dict[str, Any]:
        code, out, err = self.says(who, "propose", "update", "totals", *words, "--json", given=given)
        assert code == 0, err
        proposal: dict[str, Any] = json.loads(out)["proposal"]
        return proposal

    def agent_reads(self) -> str:
        with Library.discover().session() as session:
            session.load(["totals"])
            return session.active[0].body


@pytest.fixture
def company(metier: Metier, monkeypatch: pytest.MonkeyPatch, own_home: Path, tmp_path: Path, typed: None) -> Company:
    folder = tmp_path / "company"
    folder.mkdir()
    (tmp_path / "totals").mkdir()
    (tmp_path / "totals" / "SKILL.md").write_text(TOTALS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("METIER_ENTERPRISE", str(folder))
    found = Company(metier, monkeypatch, folder)
    found.joins(system_user(), "--role", "admin")
    found.joins("ada", "--role", "reviewer")
    found.joins("scribe", "--kind", "agent", "--role", "author")
    code, _, err = metier("deploy", "totals", "--reason", "For all of us.")
    assert code == 0, err
    return found


@pytest.mark.covers("ACC-6")
def test_proposals_are_approved_and_rejected_and_a_change_by_hand_is_proposed_after_the_fact(company: Company) -> None:
    # An agent proposes, a person approves: the skill is another one, for everybody.
    made = company.proposes("scribe", "--diff", "-", "--why", "A header broke it.", given=BETTER)
    assert "Leave out headers." not in company.agent_reads(), "nothing has changed yet"
    assert company.says("ada", "propose", "approve", made["id"], "--reason", "Right.")[0] == 0
    assert "Leave out headers." in company.agent_reads()

    # Another one is rejected, and the author can see why.
    made = company.proposes("scribe", "--diff", "-", "--why", "Louder.", given=WORSE)
    assert company.says("ada", "propose", "reject", made["id"], "--reason", "Once is enough.")[0] == 0
    shown = company.says("scribe", "propose", "show", made["id"])[1]
    assert "rejected" in shown and "Once is enough." in shown
    assert "twice" not in company.agent_reads()

    # Somebody edits the file by hand. Nobody uses what nobody accepted, and the hint says how to go on.
    company.skill.write_text(company.skill.read_text() + "Round to cents.\n")
    for _ in range(2):
        with pytest.raises(Refused) as refused:
            company.agent_reads()
        assert refused.value.code == "integrity-failed"
    assert "1 in quarantine" in company.says("admin", "list")[1]
    code, out, err = company.says("admin", "quarantine", "release", "totals", "--reason", "It is fine.")
    assert code == 1 and "metier propose update" in out + err, "a release is no acceptance, and says what is one"
    with pytest.raises(Refused, match="not what was recorded"):
        company.agent_reads()
    restore, propose = re.findall(r"`metier ([^`]*)`", str(refused.value.hint))

    # The very command of the hint proposes what is there now; the reviewer sees what differs from what was accepted.
    words = shlex.split(propose.replace("TEXT", "'We bill in cents.'"))
    code, _, err = company.says("admin", *words)
    assert code == 0, err
    (made,) = json.loads(company.says("ada", "propose", "list", "--json")[1])["proposals"]
    shown = company.says("ada", "propose", "show", made["id"])[1]
    assert "+Round to cents." in shown and "Leave out headers.\n+" not in shown
    code, _, err = company.says("admin", "propose", "approve", made["id"])
    assert code == 1 and "nobody decides about their own" in err
    assert company.says("ada", "propose", "approve", made["id"], "--reason", "Right.")[0] == 0
    assert "Round to cents." in company.agent_reads()
    assert company.says("admin", "quarantine", "list")[1].strip() == "Nothing is in quarantine."
    assert company.says("admin", "audit", "verify")[0] == 0

    # The next one is not wanted: the other command of the hint brings back what was accepted.
    company.skill.write_text("---\nname: totals\ndescription: Adds up.\n---\nGuess.\n")
    with pytest.raises(Refused):
        company.agent_reads()
    assert company.says("admin", *shlex.split(restore), "--reason", "No guessing.")[0] == 0
    assert "Round to cents." in company.agent_reads()
    versions = company.says("admin", "history", "totals")[1]
    assert [line.split()[0] for line in versions.splitlines() if re.match(r"\d", line)] == ["1", "2", "3", "4", "5"]
