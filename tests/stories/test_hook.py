"""A skill that only works with its hook: found, reviewed, approved, and then it works."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from metier import Library
from metier.errors import Refused

Metier = Callable[..., tuple[int, str, str]]

SKILL = """---
name: ledger
description: Books payments. Use when a payment is to be booked.
hooks:
  pre: hooks/open.sh
---
The ledger is open: run scripts/book.sh with the amount.
"""
POLICY = """version: 1
skill-policy:
  require-approval-for: [hooks, scripts]
run:
  hooks: allow
  unsandboxed: allow
"""


@pytest.mark.covers("ACC-12", "SEC-11")
def test_a_skill_that_needs_its_hook_is_reviewed_approved_and_works(
    metier: Metier, own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = own_home / ".metier/skills/ledger"
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)
    (folder / "scripts/book.sh").write_text('#!/bin/sh\ntest -f "$WORKSPACE/open" || exit 7\necho "booked $1"\n')
    (own_home / ".metier/policy.yaml").write_text(POLICY)

    # Its hook was left out of the folder: the author is told, with the line.
    code, out, _ = metier("validate", folder, "--json")
    found = {one["code"]: one for one in json.loads(out)["skills"][0]["diagnostics"]}
    assert (code, found["hook-missing"]["line"]) == (0, 5)
    assert "hooks/open.sh" in found["hook-missing"]["message"]
    (folder / "hooks").mkdir()
    (folder / "hooks/open.sh").write_text('#!/bin/sh\n: > "$WORKSPACE/open"\n')
    assert "hook-missing" not in metier("validate", folder)[1]

    # It is found, and not used before somebody has agreed to what it runs.
    assert "ledger" in metier("search", "book a payment")[1]
    work = tmp_path / "work"
    work.mkdir()
    with Library.discover().session(workspace=work) as session:
        with pytest.raises(Refused) as refused:
            session.load(["ledger"])
        assert refused.value.code in ("approval-needed", "approval-pending")
    assert not (work / "open").exists(), "nothing of it has run"

    # The reviewer sees the hook, and agrees.
    code, out, _ = metier("approve", "show", "ledger")
    assert code == 0 and "hooks" in out and "hooks/open.sh" in out
    code, _, err = metier("approve", "grant", "ledger", "--reason", "I read it.")
    assert code == 0, err

    # Now it works, because its hook ran first.
    with Library.discover().session(workspace=work) as session:
        session.load(["ledger"])
        assert (work / "open").exists()
        outcome = anyio.run(session.run, "scripts/book.sh", ["12.50"])
        assert (outcome.exit_code, outcome.stdout) == (0, "booked 12.50\n")

    # Another hook is another content: it is not run on the strength of the old approval.
    (work / "open").unlink()
    (folder / "hooks/open.sh").write_text('#!/bin/sh\n: > "$WORKSPACE/open"\n: > "$WORKSPACE/more"\n')
    with Library.discover().session(workspace=work) as session, pytest.raises(Refused):
        session.load(["ledger"])
    assert not list(work.iterdir())
