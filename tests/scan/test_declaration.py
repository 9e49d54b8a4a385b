"""What a skill declares beside what its files do."""

from __future__ import annotations

import pytest

from metier.scan import scan
from metier.scan.declaration import declaration_diagnostics, undeclared
from metier.scan.reading import view_of
from metier.scan.view import SkillView
from metier.skill import MemoryPackage

ONLINE = "import requests\n"


def view(fields: str, *, body: str = "Do it.", **files: str) -> SkillView:
    text = f"---\nname: a\ndescription: Does it.\n{fields}---\n{body}\n"
    return view_of(MemoryPackage({"SKILL.md": text, **{f"scripts/{path}.py": text for path, text in files.items()}}))


def test_what_a_script_does_beyond_the_tools_of_a_skill_is_a_finding_with_its_place() -> None:
    fields = "allowed-tools: Read Bash(python3 *)\n"
    text = f"---\nname: a\ndescription: Does it.\n{fields}---\nRun it.\n"
    report = scan(MemoryPackage({"SKILL.md": text, "scripts/x.py": "x = 1\nimport requests\n"}))
    (found,) = (one for one in report.findings if one.rule == "UNDECLARED_CAPABILITY")
    assert (found.severity, found.path, found.line, found.text) == ("low", "scripts/x.py", 2, "import requests")
    assert "reaches the network" in found.message
    assert "`compatibility: needs network access`" in found.message
    assert (report.declared, report.undeclared) == (("scripts", "shell-instructions"), ("network-tools",))


@pytest.mark.each(
    ("fields", "body", "severities"),
    [
        ("allowed-tools: Read\n", "Do it.", ["low", "low"]),
        ("compatibility: Works on Linux with git\n", "Do it.", []),
        ("compatibility: Needs internet access\n", "Do it.", ["info"]),
        ("allowed-tools: Bash\n", "Do it.", []),
        ("allowed-tools: Bash\n", "Use `WebFetch`.", []),
        ("", "Do it.", []),
    ],
)
def test_only_a_skill_that_declares_something_can_do_more_than_that(
    fields: str, body: str, severities: list[str]
) -> None:
    text = f"---\nname: a\ndescription: Does it.\n{fields}---\n{body}\n"
    report = scan(MemoryPackage({"SKILL.md": text, "scripts/x.py": ONLINE}))
    assert [one.severity for one in report.findings if one.rule == "UNDECLARED_CAPABILITY"] == severities


@pytest.mark.each(
    ("fields", "body", "script", "words"),
    [
        ("allowed-tools: Read\n", "Do it.", "1", "allowed-tools: Read Bash(python3 scripts/x.py *)"),
        ("allowed-tools: Bash(python3 *)\n", "Do it.", ONLINE, "compatibility: needs network access"),
        (
            "allowed-tools: Bash(python3 *)\ncompatibility: Linux.\n",
            "Do it.",
            ONLINE,
            "compatibility: Linux; needs network access",
        ),
        ("allowed-tools: [Bash(python3 *)]\n", "Ask `WebSearch`.", "1", "allowed-tools: Bash(python3 *) WebSearch"),
        ("allowed-tools: Bash(python3 *)\n", "Do it.", "open(p, 'w')", "allowed-tools: Bash(python3 *) Write"),
        ("execution: {network: none}\n", "Run `git log -1`.", "1", "allowed-tools: Bash(git *)"),
    ],
)
def test_the_words_to_add_are_those_that_declare_it(fields: str, body: str, script: str, words: str) -> None:
    (found,) = undeclared(view(fields, body=body, x=script))
    assert found.words == words
    field = words.partition(":")[0]
    kept = "".join(line for line in fields.splitlines(keepends=True) if not line.startswith(field))
    assert [*undeclared(view(f"{kept}{words}\n", body=body, x=script))] == []


def test_a_diagnostic_names_the_line_of_the_field_and_is_never_an_error() -> None:
    found = declaration_diagnostics(view("allowed-tools: Bash(python3 *)\n", body="Run `git log -1`.", x=ONLINE))
    assert [(one.code, one.severity, one.line) for one in found] == [("tools-exceeded", "warning", 2)]
    assert "scripts/x.py:1" in found[0].message
    noted = declaration_diagnostics(view("compatibility: Needs internet access\n", x="1"))
    assert [(one.code, one.severity) for one in noted] == [("capability-undeclared", "info")]
    assert declaration_diagnostics(view("", x=ONLINE)) == []
