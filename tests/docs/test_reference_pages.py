"""The reference pages that people write name everything that the code has."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, get_args

import pytest

import metier
from metier.cli.commands import COMMANDS
from metier.cli.parser import parser_of
from metier.guard import AuditRecord
from metier.guard.audit.checkpoints import Checkpoint
from metier.guard.audit.verification import FaultKind
from metier.hub.request_view import RequestView
from metier.scan.finding import Finding
from metier.scan.scanner import ScanReport
from metier.store import AccessToken, Approval, ApprovalRequest, Block, Person, Proposal, Version

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
JSON = (REFERENCE / "json.md").read_text(encoding="utf-8")
ENVIRONMENT = (REFERENCE / "environment.md").read_text(encoding="utf-8")
INTERNAL = {"METIER_JOB", "METIER_HOOK_PATH", "METIER_CLIENT_"}
"""What only our own processes say to each other, and the beginning of names."""

REQUEST = asdict(ApprovalRequest(digest="", skill=""))
APPROVAL = asdict(Approval(digest="", skill="", decided_by=""))
PROPOSAL = asdict(Proposal(kind="new", skill="", location="", proposed_digest=""))
FINDING = Finding(rule="", ast="", category="", severity="low", path="", line=1, message="", hint="", text="")


def section(heading: str) -> str:
    """What stands below a heading."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", JSON, re.MULTILINE | re.DOTALL)
    assert found is not None, f"there is no heading {heading}"
    return found[1]


def example(heading: str, number: int = 0) -> Any:
    return json.loads(re.findall(r"^```json\n(.*?)^```$", section(heading), re.MULTILINE | re.DOTALL)[number])


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Everything that can be called."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        yield parser
    for action in below:
        for one in action.choices.values():
            yield from commands(one)


@pytest.mark.each(
    ("shown", "made"),
    [
        (example("`metier approve --json`")["requests"][0], REQUEST),
        (example("`metier approve --json`")["approvals"][0], {**APPROVAL, "state": ""}),
        (example("`metier propose --json`")["proposal"], PROPOSAL),
        (
            example("`metier scan --json`")["skills"][0],
            {"path": "", **ScanReport(name="", digest="").as_dict(), "kept": []},
        ),
        (example("`metier scan --json`")["skills"][0]["findings"][0], FINDING.as_dict()),
    ],
)
def test_an_example_has_the_keys_that_the_command_prints(shown: dict[str, Any], made: dict[str, Any]) -> None:
    assert list(shown) == list(made)


@pytest.mark.each(
    ("heading", "kind"),
    [
        ("The audit log", AuditRecord),
        ("`metier approve --json`", RequestView),
        ("`metier audit --json`", Checkpoint),
        ("`metier quarantine` and `user` with `--json`", Block),
        ("`metier quarantine` and `user` with `--json`", Person),
        ("`metier quarantine` and `user` with `--json`", AccessToken),
        ("`metier history`, `rollback` and `deploy` with `--json`", Version),
    ],
)
def test_the_page_names_every_field(heading: str, kind: Any) -> None:
    named = set(re.findall(r'[`"](\w+)[`"]', section(heading)))
    printed = {"changes": "diff"} if kind is RequestView else {}
    # What tells no two apart is about the moment, and is not printed.
    assert {printed.get(field.name, field.name) for field in fields(kind) if field.compare} <= named


def test_the_page_names_every_way_in_which_a_trail_can_be_wrong() -> None:
    named = section("`metier audit --json`")
    kinds = [kind for choice in get_args(FaultKind) for kind in get_args(choice)]
    assert [kind for kind in kinds if f"`{kind}`" not in named] == []
    assert len(kinds) > 5


def test_the_page_names_every_command_that_prints_json() -> None:
    headings = " ".join(re.findall(r"^## (.*)$", JSON, re.MULTILINE))
    missing = []
    for command in (one for name in COMMANDS for one in commands(parser_of(name))):
        if "--json" in command._option_string_actions:
            word, *verb = command.prog.split()[1:]
            # A verb stands alone in the section of its command, or behind it in a table.
            named = not verb or f"`{verb[0]}`" in JSON or f"`{word} {verb[0]}`" in JSON
            if word not in headings or not named:
                missing.append(command.prog)
    assert missing == []


def test_the_page_names_every_variable() -> None:
    source = Path(metier.__file__).parent
    used = {
        name for file in source.rglob("*.py") for name in re.findall(r"\bMETIER_[A-Z_]+\b", file.read_text("utf-8"))
    }
    assert {name for name in used - INTERNAL if f"`{name}`" not in ENVIRONMENT} == set()
