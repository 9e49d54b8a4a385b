"""Whether what a skill requires is here: what is missing is named, what nobody knows is not held against it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier import Entry, Library, Machine, Readiness


def skill_with(fields: str, **files: str) -> Entry:
    text = f"---\nname: a\ndescription: Does it.\n{fields}\n---\nDo it.\n"
    return Library.from_files({"SKILL.md": text, **files}).get("a")


def put_program(folder: Path, name: str, script: str = "exit 0") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (f"{name}.bat" if os.name == "nt" else name)
    path.write_text(script if os.name == "nt" else f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A Linux with one program, one variable, a tool and a server."""
    put_program(tmp_path / "bin", "jq")
    return Machine(
        environment={"PATH": str(tmp_path / "bin"), "A_KEY": "secret", "EMPTY": ""},
        system="linux",
        tools={"Browser"},
        mcp=["github"],
    )


@pytest.mark.each(
    ("fields", "missing"),
    [
        ("", {}),
        ("requires: {bins: [jq]}", {}),
        ("requires: {bins: [jq, no-such, nor-this]}", {"bins": ("no-such", "nor-this")}),
        ("requires: {anyBins: [no-such, jq]}", {}),
        ("requires: {anyBins: [no-such, nor-this]}", {"any-bins": ("no-such", "nor-this")}),
        ("requires: {env: [A_KEY]}", {}),
        ("requires: {env: [A_KEY, B_KEY]}", {"env": ("B_KEY",)}),
        ("requires: {env: [EMPTY]}", {"env": ("EMPTY",)}),
        ("requires: {env: [a_key]}", {"env": ("a_key",)}),
        ("platforms: [linux]", {}),
        ("platforms: [macos, linux]", {}),
        ("platforms: [macos, windows]", {"os": ("darwin", "windows")}),
        ("requires: {tools: [browser]}", {}),
        ("requires: {tools: [browser, terminal]}", {"tools": ("terminal",)}),
        ("requires: {mcp: [GitHub]}", {}),
        ("requires: {mcp: [github, rube]}", {"mcp": ("rube",)}),
        (
            "requires: {bins: [no-such], env: [B_KEY], mcp: [rube], tools: [t]}\nos: darwin",
            {"bins": ("no-such",), "env": ("B_KEY",), "os": ("darwin",), "tools": ("t",), "mcp": ("rube",)},
        ),
    ],
)
def test_what_is_missing_is_named(machine: Machine, fields: str, missing: dict[str, tuple[str, ...]]) -> None:
    found = skill_with(fields).readiness(machine)
    assert found == Readiness(missing=missing)
    assert found.is_ready == (not missing)


def test_readiness_says_in_one_line_what_is_missing(machine: Machine) -> None:
    assert str(skill_with("requires: {bins: [jq]}").readiness(machine)) == "ready"
    unready = skill_with("requires: {bins: [x, y], env: [B_KEY]}").readiness(machine)
    assert str(unready) == "missing bins: x, y; env: B_KEY"


def test_tools_and_servers_that_nobody_knows_of_are_not_missing() -> None:
    found = skill_with("requires: {tools: [terminal], mcp: [rube]}").readiness(Machine(environment={"PATH": ""}))
    assert found.is_ready
    assert found == Readiness(unknown={"tools": ("terminal",), "mcp": ("rube",)})


@pytest.mark.each(
    ("tools", "mcp", "expected"),
    [
        ((), None, Readiness(missing={"tools": ("terminal",)}, unknown={"mcp": ("rube",)})),
        (None, (), Readiness(missing={"mcp": ("rube",)}, unknown={"tools": ("terminal",)})),
        (["terminal"], None, Readiness(unknown={"mcp": ("rube",)})),
        ((), (), Readiness(missing={"tools": ("terminal",), "mcp": ("rube",)})),
    ],
)
def test_an_agent_that_has_none_is_not_one_that_does_not_say(
    tools: list[str] | None, mcp: list[str] | None, expected: Readiness
) -> None:
    entry = skill_with("requires: {tools: [terminal], mcp: [rube]}")
    assert entry.readiness(Machine(environment={"PATH": ""}, tools=tools, mcp=mcp)) == expected


def test_a_file_that_cannot_be_started_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes").write_text("not a program")
    (tmp_path / "notes").chmod(0o644)
    machine = Machine(environment={"PATH": str(tmp_path)})
    assert not machine.has_program("folder")
    assert not machine.has_program("notes")


def test_programs_are_looked_for_in_every_folder_of_the_path(tmp_path: Path) -> None:
    put_program(tmp_path / "second", "jq")
    path = os.pathsep.join([str(tmp_path / "gone"), str(tmp_path), str(tmp_path / "second")])
    assert Machine(environment={"PATH": path}).has_program("jq")
    assert not Machine(environment={"PATH": str(tmp_path)}).has_program("jq")


def test_the_programs_of_this_machine_are_those_on_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_program(tmp_path, "here-only")
    entry = skill_with("requires: {bins: [here-only], env: [HERE_ONLY]}")
    assert entry.readiness().missing == {"bins": ("here-only",), "env": ("HERE_ONLY",)}
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HERE_ONLY", "1")
    assert entry.readiness().is_ready


def test_a_machine_without_a_path_has_no_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_program(tmp_path, "here-only")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not Machine(environment={}).has_program("here-only")


def test_the_system_is_called_as_requirements_call_it() -> None:
    assert Machine().system == {"win32": "windows", "cygwin": "windows"}.get(sys.platform, sys.platform)
    if sys.platform in ("linux", "darwin", "win32"):
        assert skill_with("platforms: [linux, macos, windows]").readiness().is_ready


def test_servers_of_the_side_file_are_required_too(machine: Machine) -> None:
    beside = {"agents/openai.yaml": "dependencies: {tools: [{type: mcp, value: linear}, {type: mcp, value: github}]}\n"}
    entry = skill_with("requires: {mcp: [rube, linear]}", **beside)
    assert entry.requirements.mcp == ("rube", "linear", "github")
    assert entry.readiness(machine).missing == {"mcp": ("rube", "linear")}
    assert skill_with("", **beside).requirements.mcp == ("linear", "github")


def test_skills_that_a_skill_builds_on_do_not_make_it_unready(machine: Machine) -> None:
    entry = skill_with("requires: [other-skill]")
    assert entry.skill.requires == ("other-skill",)
    assert not entry.requirements
    assert entry.readiness(machine) == Readiness()


def test_a_skill_on_disk_is_ready_once_what_it_needs_is_there(tmp_path: Path, write_skill: Callable[..., Path]) -> None:
    write_skill(tmp_path / "skills" / "a", more="requires: {bins: [late]}\n")
    library = Library.from_folder(tmp_path / "skills")
    bins = tmp_path / "bin"
    assert not library.get("a").readiness(Machine(environment={"PATH": str(bins)})).is_ready
    put_program(bins, "late")
    assert library.get("a").readiness(Machine(environment={"PATH": str(bins)})).is_ready


def test_requirements_are_the_same_from_the_kept_index(tmp_path: Path, write_skill: Callable[..., Path]) -> None:
    fields = (
        'requires: {bins: [jq], env: {A: {required: false}, B: \'\'}}\nmetadata: \'{"openclaw": {"os": ["linux"]}}\'\n'
    )
    write_skill(tmp_path / "skills" / "a", more=fields)
    first = Library.from_folder(tmp_path / "skills", cache=tmp_path / "kept").get("a").requirements
    again = Library.from_folder(tmp_path / "skills", cache=tmp_path / "kept").get("a").requirements
    assert first == again
    assert (first.bins, first.env, first.os) == (("jq",), ("B",), ("linux",))


def test_nothing_is_run_or_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "was-run"
    for name in ("jq", "brew", "npm", "sh"):
        put_program(tmp_path / "bin", name, f"echo x > {mark}")

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was run")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    for call in ("system", "posix_spawn", "posix_spawnp", "fork", "execv", "execve", "popen", "startfile"):
        monkeypatch.setattr(os, call, refuse, raising=False)
    fields = """metadata:
  openclaw:
    requires: {bins: [jq, missing], anyBins: [missing-too]}
    install: [{kind: brew, formula: missing}, {kind: node, package: missing}, {kind: download, url: "http://x.invalid"}]
hooks: {pre: jq}"""
    text = f"---\nname: a\ndescription: Does it.\n{fields}\n---\nDo it.\n"
    library = Library.from_files({"SKILL.md": text, "scripts/setup.sh": f"echo x > {mark}"})
    machine = Machine(environment={"PATH": str(tmp_path / "bin")})
    assert library.get("a").readiness(machine).missing == {"bins": ("missing",), "any-bins": ("missing-too",)}
    library.catalog(machine=machine)
    library.search("does it", machine=machine)
    assert not mark.exists()
    assert sorted(path.name for path in (tmp_path / "bin").iterdir()) == sorted(
        f"{name}.bat" if os.name == "nt" else name for name in ("jq", "brew", "npm", "sh")
    )


@given(st.sets(st.sampled_from(["A", "B", "C", "D"])), st.sets(st.sampled_from(["A", "B", "C", "D"]), min_size=1))
def test_exactly_the_variables_without_a_value_are_missing(there: set[str], wanted: set[str]) -> None:
    entry = skill_with(f"requires: {{env: [{', '.join(sorted(wanted))}]}}")
    found = entry.readiness(Machine(environment={"PATH": "", **dict.fromkeys(there, "x")}))
    assert set(found.missing.get("env", ())) == wanted - there


@pytest.mark.each(
    ("fields", "files", "is_hidden"),
    [
        ("", {}, False),
        ("disable-model-invocation: true", {}, True),
        ("user-invocable: false", {}, False),
        ("", {"agents/openai.yaml": "policy: {allow_implicit_invocation: false}\n"}, True),
        ("", {"agents/openai.yaml": "policy: {allow_implicit_invocation: true}\n"}, False),
        ("disable-model-invocation: true", {"agents/openai.yaml": "policy: {allow_implicit_invocation: true}\n"}, True),
    ],
)
def test_a_skill_is_hidden_from_models_when_its_author_says_so(
    fields: str, files: dict[str, str], is_hidden: bool
) -> None:
    assert skill_with(fields, **files).is_hidden_from_models is is_hidden


def test_requirements_are_known_when_the_archive_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/SKILL.md", "---\nname: a\ndescription: Does it.\nrequires: {env: [NO_SUCH]}\n---\nDo it.\n")
    library = Library.from_folder(path, cache=False)
    path.unlink()
    assert library.get("a").requirements.env == ("NO_SUCH",)
    assert library.catalog().withheld == {"a": "missing env: NO_SUCH"}
