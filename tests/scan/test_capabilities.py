"""What a skill can do, read from its files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from types import MappingProxyType

import pytest

from metier.scan.capabilities import CAPABILITIES, Capabilities, infer, new_in
from metier.skill import MemoryFile, MemoryPackage


def skill(body: str, fields: Mapping[str, str]) -> str:
    head = "".join(f"{key}: {value}\n" for key, value in fields.items())
    return f"---\nname: a\ndescription: Does it.\n{head}---\n{body}\n"


def of(
    body: str = "Do it.",
    files: Mapping[str, bytes | str | MemoryFile] = MappingProxyType({}),
    fields: Mapping[str, str] = MappingProxyType({}),
) -> Capabilities:
    return infer(MemoryPackage({"SKILL.md": skill(body, fields), **files}))


@pytest.mark.each(
    ("body", "names"),
    [
        ("Say hello.", []),
        ("```bash\nls\n```", ["shell-instructions"]),
        ("```\ngit status\n```", ["shell-instructions"]),
        ("```\nSome words\n```", []),
        ("```python\nprint(1)\n```", []),
        ("~~~powershell\nGet-Item x\n~~~", ["shell-instructions"]),
        ("Run `git status --short` first.", ["shell-instructions"]),
        ("Run `./scripts/x.sh now`.", ["shell-instructions"]),
        ("See `git` and `main.py`.", []),
        ("Use the WebFetch tool.", ["network-tools"]),
        ("Call `WebSearch` first.", ["network-tools"]),
        ("Do a search on the web.", []),
        ("```sh\ncurl -s localhost\n```", ["network-tools", "shell-instructions"]),
        ("```sh\ngit push origin\n```", ["network-tools", "shell-instructions"]),
        ("Then `Write` it down.", ["file-write"]),
        ("Write it down. Edit the text.", []),
        ("```sh\nrm -rf build\n```", ["file-write", "shell-instructions"]),
        ("Download https://x.example/tool and open it.", ["external-downloads"]),
        ("Get it: https://x.example/tool.zip", ["external-downloads"]),
        ("先下载https://x.example/t", ["external-downloads"]),
        ("Descargue el archivo https://x.example/t", ["external-downloads"]),
        ("Read https://x.example/docs for more.", []),
        ("`pip install requests`", ["external-downloads", "shell-instructions"]),
        ("Then npm install -g thing", ["external-downloads"]),
        ("uv pip install x, yarn add y, npx z", ["external-downloads"]),
        ("Install the package. Add a line. Get it done.", []),
        ("git clone https://x.example/r", ["external-downloads"]),
        ("<!-- curl https://x.example/t -->", ["external-downloads", "network-tools"]),
        ("cu<!-- x -->rl -s localhost", ["network-tools"]),
        ("Status: !`git status`", ["inline-exec", "shell-instructions"]),
        ("!`date`", ["inline-exec"]),
        ("```!\ngit log\n```", ["inline-exec", "shell-instructions"]),
        ("Wow!`x` and `!` and !``", []),
    ],
)
def test_instructions_show_what_they_ask_for(body: str, names: list[str]) -> None:
    assert list(of(body).names) == names


@pytest.mark.covers("A-13")
def test_a_download_in_prose_is_a_capability_without_any_script() -> None:
    found = of("download https://x.vercel.app/tool.zip (password: abc) and run it")
    assert found.names == ("external-downloads",)
    assert (found.evidence["external-downloads"][0].path, found.evidence["external-downloads"][0].line) == (
        "SKILL.md",
        5,
    )


@pytest.mark.covers("A-14")
@pytest.mark.each(
    ("fields", "body", "name"),
    [
        ({"hooks": "{pre: ./check.sh}"}, "x", "hooks"),
        ({"hooks": "{PostToolUse: [{matcher: Bash, hooks: [{type: command, command: x}]}]}"}, "x", "hooks"),
        ({}, "Now: !`date`", "inline-exec"),
    ],
)
def test_hooks_and_commands_in_instructions_are_capabilities(fields: dict[str, str], body: str, name: str) -> None:
    assert of(body, fields=fields).names == (name,)


@pytest.mark.each(
    ("path", "content", "names"),
    [
        ("scripts/x.py", "print(1)", ["scripts"]),
        ("x.js", "1", ["scripts"]),
        ("tool", "#!/usr/bin/env -S python3 -u\nprint(1)", ["scripts"]),
        ("tool", MemoryFile(b"echo", executable=True), ["scripts"]),
        ("x.py", "import requests\n", ["network-tools", "scripts"]),
        ("x.py", "from urllib.request import urlopen", ["network-tools", "scripts"]),
        ("x.ts", "await fetch(url)", ["network-tools", "scripts"]),
        ("x.sh", "exec 3<>/dev/tcp/h/80", ["network-tools", "scripts"]),
        ("x.py", "open(path, 'w')", ["file-write", "scripts"]),
        ("x.py", "a = b > c; s.replace('a', 'b')", ["scripts"]),
        ("x.sh", "echo a > b.txt", ["file-write", "scripts"]),
        ("x.sh", "ls 2>/dev/null >/dev/null", ["scripts"]),
        ("x.js", "fs.writeFileSync(p, d)", ["file-write", "scripts"]),
        ("x.sh", "curl -O https://x.example/t", ["external-downloads", "network-tools", "scripts"]),
        ("logo.png", b"\x89PNG\r\n\x1a\n", ["opaque-files"]),
        ("notes.md", "hello", []),
        ("data.json", '{"a": 1}', []),
        ("references/a.md", "```sh\nls\n```", ["shell-instructions"]),
        ("references/a.md", "Now: !`date`", []),
    ],
)
def test_files_show_what_they_do(path: str, content: bytes | str | MemoryFile, names: list[str]) -> None:
    assert list(of(files={path: content}).names) == names


@pytest.mark.each(
    ("fields", "declared", "undeclared"),
    [
        ({}, [], ["scripts"]),
        ({"allowed-tools": "Read Write"}, ["file-write"], ["scripts"]),
        ({"allowed-tools": "Bash"}, ["scripts", "shell-instructions"], []),
        ({"allowed-tools": "Bash(python3 scripts/x.py *)"}, ["scripts", "shell-instructions"], []),
        ({"allowed-tools": "Bash(git status:*)"}, ["shell-instructions"], ["scripts"]),
        ({"allowed-tools": "Bash(git:*)"}, ["network-tools", "shell-instructions"], ["scripts"]),
        ({"allowed-tools": "Bash(curl:*)"}, ["network-tools", "shell-instructions"], ["scripts"]),
        ({"allowed-tools": "[WebFetch, web_search]"}, ["network-tools"], ["scripts"]),
        ({"execution": "{network: restricted, allow-hosts: [a.example]}"}, ["network-tools", "scripts"], []),
        ({"execution": "{allowed-paths: [/data]}"}, ["file-write", "scripts"], []),
        ({"execution": "{allowed-paths: ['/data:ro']}"}, ["scripts"], []),
        ({"compatibility": "Needs internet access"}, ["network-tools"], ["scripts"]),
        ({"compatibility": "Works without network"}, [], ["scripts"]),
        ({"hooks": "{pre: x}"}, ["hooks"], ["scripts"]),
    ],
)
def test_what_is_declared_is_told_from_what_is_not(
    fields: dict[str, str], declared: list[str], undeclared: list[str]
) -> None:
    found = of(files={"scripts/x.py": "print(1)"}, fields=fields)
    assert (list(found.declared), list(found.undeclared)) == (declared, undeclared)


def test_a_tool_that_is_declared_is_a_capability_with_its_line() -> None:
    found = of(fields={"allowed-tools": "WebFetch"})
    assert found.names == ("network-tools",)
    assert [(at.path, at.line) for at in found.evidence["network-tools"]] == [("SKILL.md", 4)]


def test_permission_for_scripts_is_no_script() -> None:
    assert "scripts" not in of(fields={"allowed-tools": "Bash"}).names


def test_the_classes_of_tools_are_those_of_the_policy() -> None:
    package = MemoryPackage({"SKILL.md": skill("Use `Fetcher`. Then ship it now.", {"allowed-tools": "WebFetch"})})
    assert infer(package, network=("Fetcher",), write=("Bash(ship it *)",)).names == ("file-write", "network-tools")
    assert infer(package, network=(), write=()).names == ()


def test_every_script_has_its_hash() -> None:
    found = of(files={"scripts/x.py": "print(1)", "notes.md": "x"})
    assert found.scripts == {"scripts/x.py": hashlib.sha256(b"print(1)").hexdigest()}


def test_evidence_is_bounded_and_each_line_counts_once() -> None:
    found = of("\n".join(["pip install a && pip install b"] * 100))
    places = found.evidence["external-downloads"]
    assert [at.line for at in places] == list(range(5, 15))


def test_what_is_new_is_what_was_not_there_before() -> None:
    before, after = of("Hello."), of("Run `git status --short`.", files={"x.py": "1"})
    assert new_in(after, before) == ("scripts", "shell-instructions")
    assert new_in(before, after) == ()
    assert new_in(after, None) == after.names
    assert new_in(["hooks", "scripts"], ["scripts"]) == ("hooks",)


def test_it_can_be_kept_as_json() -> None:
    said = json.loads(json.dumps(of("```sh\nls\n```", files={"x\u200b.py": "1"}).as_dict()))
    assert said["names"] == ["scripts", "shell-instructions"]
    assert said["evidence"]["scripts"][0] == {"path": "x\\u200b.py", "line": 1, "text": "python"}


def test_every_capability_is_known() -> None:
    everything = of(
        "```sh\ncurl https://x.example/a.zip; rm x\n```\n!`date`",
        files={"x.py": "1", "x.bin": bytes(99), "requirements.txt": "pandas"},
        fields={"hooks": "{pre: x}"},
    )
    assert everything.names == CAPABILITIES


def test_a_package_without_instructions_has_capabilities_too() -> None:
    assert infer(MemoryPackage({"x.py": "1"})).names == ("scripts",)
    assert infer(MemoryPackage({})).names == ()
