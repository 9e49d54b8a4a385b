"""The first hour of everybody who comes to Métier: what they would type, and what they would see."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic_ai import Agent as PydanticAgent

from metier import Library, Policy
from metier.cli.identity import system_user
from metier.dialect.pydantic_ai import Skills
from metier.testing import AuditProbe, ScriptedModel

Metier = Callable[..., tuple[int, str, str]]


def write(folder: Path, files: dict[str, str]) -> None:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)


def ask(agent: PydanticAgent[None, str], text: str) -> str:
    return str(anyio.run(agent.run, text).output)


def test_a_developer_has_a_skill_in_an_agent_after_five_minutes(
    tmp_path: Path, metier: Metier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = metier("new", "invoice-check", "--into", "skills", "--description", "Checks invoices. Use for them.")
    assert code == 0, err
    file = tmp_path / "skills/invoice-check/SKILL.md"
    good = file.read_text()
    file.write_text(good.replace("name: invoice-check", "name: Invoice Check"))
    code, out, _ = metier("validate", "skills", "--strict")
    assert code == 1 and "Invoice Check" in out, "what is wrong is said at once"
    file.write_text(good + "\nAlways ask for the order number.\n")
    assert metier("validate", "skills", "--strict")[0] == 0

    model = ScriptedModel(
        [
            ("skills_load", {"skills": ["invoice-check"]}),
            "Which order?",
            ("skills_load", {"skills": ["invoice-check"]}),
            "Which customer?",
        ]
    )
    agent = PydanticAgent(model, capabilities=[Skills("skills")])
    assert ask(agent, "Check this invoice.") == "Which order?"
    assert "Always ask for the order number." in model.requests[1].text
    file.write_text(good + "\nAlways ask for the customer.\n")  # saved in an editor: the running agent has it
    assert ask(agent, "Check another invoice.") == "Which customer?"
    assert "Always ask for the customer." in model.requests[3].text


PACK = {
    "query/SKILL.md": "---\nname: db-query\ndescription: Answers questions from a database. Use for reports.\n"
    "allowed-tools: Read\n---\nWrite a query, then read the result.\n",
    "migrate/SKILL.md": "---\nname: db-migrate\ndescription: Changes the schema of a database.\n"
    "requires: [db-query]\n---\nRun scripts/plan.py first.\n",
    "migrate/scripts/plan.py": "print('1 table')\n",
}


def test_a_curator_packs_skills_tests_them_and_others_install_them(
    tmp_path: Path, metier: Metier, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "site-packages"
    write(packages / "database_operations/skills", PACK)
    skills = packages / "database_operations/skills"
    assert metier("validate", skills)[0] == 0
    assert metier("scan", skills)[0] == 0

    # Tested alone, before anybody has it.
    session = Library.from_folder(skills).session(workspace=tmp_path / "work", policy=Policy())
    session.load(["db-migrate"])
    assert session.run_blocking("scripts/plan.py").stdout == "1 table\n"
    session.load(["db-query"])
    assert (
        session.executor(builtin=["Write"]).execute_blocking("Write", {"file_path": "x", "content": ""}).code
        == "tool-not-allowed"
    )

    # As pip puts it there.
    write(
        packages,
        {
            "database_operations/__init__.py": "",
            "database_operations-2.1.0.dist-info/METADATA": "Name: database-operations\nVersion: 2.1.0\n",
            "database_operations-2.1.0.dist-info/entry_points.txt": "[metier.skills]\n"
            "db = database_operations:skills\n",
        },
    )
    monkeypatch.syspath_prepend(str(packages))
    monkeypatch.setenv("METIER_PLUGINS", "database-operations")
    code, out, err = metier("list", "--json")
    assert code == 0, err
    listed = {one["name"]: one for one in json.loads(out)}
    assert listed["db-migrate"]["layer"] == "plugin"
    agent = Library.discover().session(workspace=tmp_path / "work")
    result = agent.executor().execute_blocking("skills_load", {"skills": ["db-migrate"]})
    assert not result.success and result.code == "approval-needed", "scripts of a plugin want an approval"
    code, out, err = metier("approve", "grant", "db-migrate", "--reason", "Read it.")
    assert code == 0, out + err
    assert agent.executor().execute_blocking("skills_load", {"skills": ["db-migrate"]}).success
    assert agent.run_blocking("scripts/plan.py", skill="db-migrate").stdout == "1 table\n"


POLICY = """\
version: 1
skill-policy:
  require-approval-for: [scripts, network-tools]
  approval: {approvers: ["role:admin"]}
tools:
  deny: ["Bash(curl:*)"]
"""


def test_an_administrator_knows_approves_and_stops(
    tmp_path: Path, metier: Metier, monkeypatch: pytest.MonkeyPatch, typed: None
) -> None:
    write(tmp_path, {"policy.yaml": POLICY})
    monkeypatch.setenv("METIER_POLICY", str(tmp_path / "policy.yaml"))
    monkeypatch.chdir(tmp_path)
    assert metier("policy", "check")[0] == 0
    assert metier("user", "add", system_user(), "--role", "admin")[0] == 0
    write(
        Path.home() / ".metier/skills/weather",
        {
            "SKILL.md": "---\nname: weather\ndescription: Tells the weather.\nallowed-tools: WebFetch\n---\n"
            "Run scripts/now.py.\n",
            "scripts/now.py": "print('sunny')\n",
        },
    )
    session = Library.discover().session(workspace=tmp_path / "work")
    executor = session.executor()
    assert executor.execute_blocking("skills_load", {"skills": ["weather"]}).code == "approval-needed"

    code, out, err = metier("waiting", "--json")  # what a monitor would poll
    assert code != 0 and "weather" in out, err
    code, out, err = metier("approve", "show", "weather")
    assert code == 0 and "scripts" in out, err
    assert metier("approve", "grant", "weather", "--reason", "Harmless.")[0] == 0
    assert executor.execute_blocking("skills_load", {"skills": ["weather"]}).success
    assert metier("waiting")[0] == 0

    code, out, _ = metier("policy", "explain", "--command", "curl example.com", "--check")
    assert code == 1 and "curl" in out, "what is forbidden can be asked about before"
    assert metier("quarantine", "add", "weather", "--reason", "Its author's account was stolen")[0] == 0
    assert not executor.execute_blocking("skills_run", {"script": "scripts/now.py"}).success
    assert not executor.execute_blocking("skills_load", {"skills": ["weather"]}).success
    code, out, err = metier("audit", "export", "--format", "text")
    assert code == 0 and "weather" in out and system_user() in out, err
    assert metier("audit", "verify")[0] == 0


def test_a_user_gets_the_same_good_work_every_time_and_never_hears_of_skills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(
        Path.home() / ".metier/skills/legal-documents",
        {
            "SKILL.md": "---\nname: legal-documents\ndescription: Formats contracts and other legal documents.\n---\n"
            "Number every clause. End with: Signed in Bern.\n"
        },
    )

    def follow(request: Any) -> str:
        return "1. Rent\nSigned in Bern." if "Number every clause" in request.text else "Rent."

    model = ScriptedModel([("skills_load", {"skills": ["legal-documents"]}), follow] * 2)
    agent = PydanticAgent(model, capabilities=[Skills()])
    for request in ("Write a contract for the flat.", "And one for the garage, please."):
        answer = ask(agent, request)
        assert answer == "1. Rent\nSigned in Bern." and "skill" not in answer
    assert "Formats contracts" in model.requests[0].instructions, "the model finds it by itself"


CASES = """\
- {skill: release, tool: Bash, args: {command: git tag v1}, expect: allow}
- {skill: release, tool: Bash, args: {command: rm -rf dist}, expect: deny}
- {skill: release, tool: Write, args: {file_path: x}, expect: deny}
"""


def test_a_tester_checks_discovery_restrictions_and_disclosure(
    tmp_path: Path, metier: Metier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    release = (
        "---\nname: release\ndescription: Tags a release and writes its notes.\nallowed-tools: Bash(git:*), Read\n---\n"
    )
    write(tmp_path / "skills/release", {"SKILL.md": f"{release}Tag it.\n", "references/steps.md": "Secret step.\n"})
    for number in range(40):
        write(
            tmp_path / f"skills/other-{number}",
            {"SKILL.md": f"---\nname: other-{number}\ndescription: Paints house number {number}.\n---\nPaint.\n"},
        )
    code, out, _ = metier("--skills", "skills", "search", "ship a new version with release notes", "--json")
    assert code == 0 and json.loads(out)[0]["name"] == "release"
    write(tmp_path, {"cases.yaml": CASES})
    code, out, err = metier("policy", "test", "cases.yaml", "--skills", "skills")
    assert code == 0, out + err
    code, out, _ = metier("--skills", "skills", "catalog", "--budget", "1024", "--query", "release notes")
    assert code == 0 and len(out.encode()) <= 1024 + 1 and "release" in out

    audit = AuditProbe()
    model = ScriptedModel([("skills_load", {"skills": ["release"]}), ("wipe", {}), "Done."])

    def wipe() -> str:
        """Delete everything."""
        raise AssertionError("a forbidden tool was called")

    agent = PydanticAgent(model, tools=[wipe], capabilities=[Skills("skills", audit=audit)])
    ask(agent, "Release it.")
    assert audit.summary("call")[-1] == ("call", "wipe", "tool-not-allowed")
    assert not any("Secret step." in request.text for request in model.requests)


def test_a_contributor_learns_what_is_wanted_and_gets_feedback(
    tmp_path: Path, metier: Metier, monkeypatch: pytest.MonkeyPatch, typed: None
) -> None:
    monkeypatch.chdir(tmp_path)
    body = "Collect changes. See notes/style.md.\n"
    write(tmp_path / "theirs/changelog", {"SKILL.md": f"---\nname: changelog\n---\n{body}"})
    code, out, _ = metier("validate", "theirs/changelog", "--strict")
    assert code == 1 and "description" in out and "notes/style.md" in out, "the standard names each gap"
    write(
        tmp_path / "theirs/changelog",
        {
            "SKILL.md": "---\nname: changelog\ndescription: Writes a changelog. Use when a version is released.\n---\n"
            f"{body}",
            "notes/style.md": "Short lines.\n",
        },
    )
    assert metier("validate", "theirs/changelog", "--strict")[0] == 0
    assert metier("user", "add", system_user(), "--role", "admin")[0] == 0
    assert metier("user", "add", "eve", "--role", "author")[0] == 0
    token = json.loads(metier("user", "token", "eve", "--json")[1])["secret"]

    def as_eve(*arguments: str) -> tuple[int, str, str]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("METIER_API_TOKEN", token)
            return metier(*arguments)

    propose = ("propose", "new", "changelog", "--from", "theirs/changelog", "--why", "Releases need it.", "--json")
    code, out, err = as_eve(*propose)
    assert code == 0, err
    first = json.loads(out)["proposal"]["id"]
    assert as_eve("propose", "approve", first)[0] != 0, "nobody agrees to their own"
    code, out, err = metier("propose", "reject", first, "--reason", "Say which sections a changelog has.")
    assert code == 0, out + err
    code, out, _ = as_eve("propose", "show", first)
    assert code == 0 and "Say which sections" in out
    assert "changelog" not in Library.discover()
    with (tmp_path / "theirs/changelog/SKILL.md").open("a") as file:
        file.write("Sections: Added, Changed, Removed.\n")
    code, out, err = as_eve(*propose)
    assert code == 0, err
    assert metier("propose", "approve", json.loads(out)["proposal"]["id"], "--reason", "Good.")[0] == 0
    assert "changelog" in Library.discover()
