"""A skill that uses every field of the format: checked, deployed for everybody, and used by an agent."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from metier import Library, Policy

Metier = Callable[..., tuple[int, str, str]]

FORMAT = Path(__file__).parents[2] / "docs/reference/format.md"
FIELDS = {
    "name": "billing",
    "description": "Writes invoices. Use when somebody is to be billed.",
    "license": "MIT",
    "compatibility": "Needs nothing but a shell.",
    "metadata": "{owner: finance, metier: {display: Billing}}",
    "allowed-tools": "[Read, skills_run]",
    "disallowed-tools": "[WebFetch]",
    "version": "1.10",
    "model": "any-model",
    "agent": "clerk",
    "when_to_use": "Somebody asks for an invoice.",
    "tags": "[money, office]",
    "triggers": "[invoice]",
    "requires": "[]",
    "context": "inherit",
    "priority": "7",
    "scope": "{agents: [clerk], environments: [production]}",
    "execution": "{sandbox: true, network: none}",
    "hooks": "{PostToolUse: [{matcher: Nothing, hooks: [{command: scripts/bill.sh}]}]}",
    "arguments": "[customer]",
    "argument-hint": "CUSTOMER",
    "user-invocable": "true",
    "disable-model-invocation": "false",
    "insert": "instructions",
    "execution-mode": "sequential",
    "max-iterations": "3",
    "max-retries-per-tool": "2",
    "timeout-per-iteration": "30s",
    "early-termination": "true",
    "legacy-large-file": "false",
    "of-our-own": "kept",
}


def documented_fields() -> list[str]:
    """The first column of the table of fields."""
    table = FORMAT.read_text().partition("## Fields")[2].partition("\n\nFields outside")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def write(folder: Path, fields: dict[str, str]) -> Path:
    (folder / "scripts").mkdir(parents=True, exist_ok=True)
    (folder / "scripts/bill.sh").write_text('#!/bin/sh\necho "invoice for $1"\n')
    head = "".join(f"{name}: {value}\n" for name, value in fields.items())
    (folder / "SKILL.md").write_text(f"---\n{head}---\nRun scripts/bill.sh for $customer.\n")
    return folder


@pytest.fixture
def company(own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "company"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("METIER_ENTERPRISE", str(folder))
    return folder


@pytest.mark.covers("ACC-9")
def test_a_skill_with_every_documented_field_is_deployed_and_used(
    metier: Metier, company: Path, tmp_path: Path
) -> None:
    assert {name for name in documented_fields() if name in FIELDS} == set(documented_fields())
    made = write(tmp_path / "billing", FIELDS)
    code, out, _ = metier("validate", made)
    assert code == 0 and "not-deployable" not in out and "warning" not in out, out
    code, _, err = metier("deploy", made, "--reason", "For the office.")
    assert code == 0, err

    # It is there for the agent and the environment that its scope names, and for nobody else.
    library = Library.discover(cache=False)
    assert "billing" not in library
    clerk = library.as_caller(agent="clerk", environment="production")
    entry = clerk.get("billing")
    assert (entry.layer, entry.priority, entry.skill.model, entry.skill.version) == (
        *("enterprise", 7, "any-model", "1.10"),
    )
    assert entry.skill.extra["of-our-own"] == "kept"
    policy = Policy(unsandboxed="allow", scripts="allow")
    with clerk.session(policy=policy) as session:
        session.load(["billing"], args="Ada")
        assert session.active[0].body == "Run scripts/bill.sh for Ada."
        outcome = anyio.run(session.run, "scripts/bill.sh", ["Ada"])
        assert (outcome.exit_code, outcome.stdout) == (0, "invoice for Ada\n")


@pytest.mark.covers("ACC-9")
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_what_validate_says_of_each_field_is_what_deploy_does(
    metier: Metier, company: Path, tmp_path: Path, every: int
) -> None:
    """Each field alone, and what has to be forgiven: the two commands never differ."""
    start = {"name": "one", "description": "Does one thing."}
    good = [{**start, name: value} for name, value in FIELDS.items() if name not in start][::every]
    bad = [
        {"name": "one"},
        {"name": "One Thing", "description": "Does it."},
        {**start, "description": "Use when: it is time."},
        {**start, "compatibility": "x" * 501},
        {**start, "tags": "[open"},
    ]
    for number, fields in enumerate([*good, *bad]):
        made = write(tmp_path / str(number) / "one", fields)
        _, out, _ = metier("validate", made, "--json")
        (said,) = json.loads(out)["skills"]
        is_sound = said["ok"] and "not-deployable" not in [found["code"] for found in said["diagnostics"]]
        code, _, err = metier("deploy", made, "--dry-run")
        assert (code == 0) == is_sound, (fields, out, err)
        assert is_sound == (number < len(good)), (fields, out)


@pytest.mark.covers("ACC-9", "O-110")
@pytest.mark.parametrize("scope", ["enterprise", "personal", "project"])
def test_a_skill_is_deployed_by_its_name_for_everybody_for_oneself_or_for_a_project(
    metier: Metier, company: Path, own_home: Path, tmp_path: Path, scope: str
) -> None:
    (tmp_path / ".git").mkdir()
    write(tmp_path / "drafts/one", {"name": "one", "description": "Does one thing."})
    code, out, err = metier("--skills", "drafts", "deploy", "one", "--scope", scope, "--json")
    assert code == 0, err
    done = json.loads(out)
    where = {"enterprise": company, "personal": own_home / ".metier/skills", "project": tmp_path / ".metier/skills"}
    assert (done["layer"], Path(done["location"])) == (scope, where[scope] / "one")
    assert Library.discover(cache=False).get("one").layer == scope
    assert metier("deploy", "one", "--scope", "galaxy")[0] == 2
    assert metier("deploy", "nothing-of-that-name")[0] == 1
