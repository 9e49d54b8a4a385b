"""`agents/openai.yaml`: what it adds, and that it says nothing whenever it cannot be understood."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.skill import FolderPackage, MemoryPackage, OpenAIMetadata, read_openai_yaml
from metier.skill.openai_yaml import NO_OPENAI_METADATA, OPENAI_YAML

HIDING = "policy:\n  allow_implicit_invocation: false\n"


def beside(content: str | bytes) -> OpenAIMetadata:
    return read_openai_yaml(MemoryPackage({"SKILL.md": "Do.", OPENAI_YAML: content}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A skill on disk with a folder for its side file."""
    skill = tmp_path / "skill"
    (skill / "agents").mkdir(parents=True)
    (skill / "SKILL.md").write_text("Do.")
    return skill


def test_it_says_how_a_skill_is_to_be_used() -> None:
    content = """interface:
  display_name: Linear
  short_description: "  Track issues.  "
  icon_small: ./icon.svg
dependencies:
  tools:
    - type: mcp
      value: linear
      transport: streamable_http
      url: https://mcp.example/mcp
    - type: env_var
      value: TOKEN
    - {type: mcp, value: github}
    - {type: mcp, value: linear}
policy:
  allow_implicit_invocation: false
  products: [chat]
"""
    assert beside(content) == OpenAIMetadata(
        is_for_people_only=True, short_description="Track issues.", mcp=("linear", "github")
    )


@pytest.mark.each(
    ("written", "is_for_people_only"),
    [
        ("false", True),
        ("False", True),
        ("'false'", True),
        ("no", True),
        ("off", True),
        ("0", True),
        ("true", False),
        ("yes", False),
        ("", False),
        ("null", False),
        ("maybe", False),
        ("[false]", False),
        ("{a: false}", False),
    ],
)
def test_only_a_clear_no_hides_a_skill(written: str, is_for_people_only: bool) -> None:
    assert beside(f"policy:\n  allow_implicit_invocation: {written}\n").is_for_people_only is is_for_people_only


@pytest.mark.each("content", [f"\ufeff{HIDING}", HIDING.replace("\n", "\r\n"), f"---\n{HIDING}", f"# Ours.\n{HIDING}"])
def test_it_is_read_however_it_was_saved(content: str) -> None:
    assert beside(content).is_for_people_only


@pytest.mark.each("content", [HIDING.rstrip(), "policy: {allow_implicit_invocation: false}"])
def test_its_last_line_need_not_end(content: str) -> None:
    assert beside(content).is_for_people_only


def test_a_skill_without_one_has_nothing_beside() -> None:
    assert read_openai_yaml(MemoryPackage({"SKILL.md": "Do."})) == NO_OPENAI_METADATA == OpenAIMetadata()


@pytest.mark.each(
    "content",
    [
        "",
        "policy\n",
        "- policy\n- interface\n",
        "policy: false\ninterface: text\ndependencies: [a]\n",
        "interface: {short_description: [a, b]}\ndependencies: {tools: linear}\n",
        "dependencies: {tools: {type: mcp, value: linear}}\n",
        "dependencies: {tools: [mcp, [mcp], {type: mcp}, {value: x}, {type: mcp, value: [x]}, {type: a, value: x}]}\n",
        "policy: {allow_implicit_invocation: false\n",
        "policy:\n\t- ]broken[\n",
        "a: &a [*a, *a]\npolicy: *a\n",
        "a: &a [x, x]\nb: &b [*a, *a]\n" + "".join(f"c{n}: &c{n} [*b, *b]\n" for n in range(30)),
        "policy: " + "[" * 5_000 + "\n",
        b"\xff\xfe\x00policy",
        bytes(range(256)),
        b"\x00" * 1_000,
        HIDING.encode() + b"\xff",
        HIDING + "#" * 70_000 + "\n",
        HIDING.encode("utf-16"),
    ],
)
def test_one_that_cannot_be_understood_says_nothing(content: str | bytes) -> None:
    assert beside(content) == NO_OPENAI_METADATA


@given(st.one_of(st.binary(max_size=300), st.text(max_size=300).map(str.encode)))
def test_any_content_is_read(content: bytes) -> None:
    found = beside(content)
    assert isinstance(found.short_description, str)
    assert all(isinstance(server, str) for server in found.mcp)


@given(st.text(max_size=100))
def test_any_text_after_a_key_is_read(text: str) -> None:
    for key in ("policy", "interface", "dependencies"):
        assert isinstance(beside(f"{key}:{text}\n"), OpenAIMetadata)
    assert isinstance(beside(f"dependencies:\n  tools:\n    - type: mcp\n      value: {text}\n"), OpenAIMetadata)


def test_at_most_64_servers_are_kept() -> None:
    tools = "".join(f"    - {{type: mcp, value: s{number}}}\n" for number in range(500))
    assert beside(f"dependencies:\n  tools:\n{tools}").mcp == tuple(f"s{number}" for number in range(64))


@pytest.mark.each("value", ['""', '"a\\e[2Jb"', '"a b"', '"a\\nb"', "x" * 129])
def test_what_cannot_be_the_name_of_a_server_is_passed_over(value: str) -> None:
    assert beside(f"dependencies:\n  tools:\n    - {{type: mcp, value: {value}}}\n").mcp == ()


def test_it_is_read_from_a_folder(folder: Path) -> None:
    (folder / OPENAI_YAML).write_text(HIDING)
    assert read_openai_yaml(FolderPackage(folder)).is_for_people_only


def _link_outside(folder: Path) -> None:
    (folder.parent / "outside.yaml").write_text(HIDING)
    (folder / OPENAI_YAML).symlink_to("../../outside.yaml")


def _link_outside_by_folder(folder: Path) -> None:
    (folder.parent / "outside").mkdir()
    (folder.parent / "outside" / "openai.yaml").write_text(HIDING)
    (folder / "agents").rmdir()
    (folder / "agents").symlink_to(folder.parent / "outside", target_is_directory=True)


def _link_to_itself(folder: Path) -> None:
    (folder / OPENAI_YAML).symlink_to("openai.yaml")


def _link_to_nothing(folder: Path) -> None:
    (folder / OPENAI_YAML).symlink_to("gone.yaml")


def _folder_in_its_place(folder: Path) -> None:
    (folder / OPENAI_YAML).mkdir()


def _file_as_its_folder(folder: Path) -> None:
    (folder / "agents").rmdir()
    (folder / "agents").write_text(HIDING)


def _pipe(folder: Path) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("there are no named pipes here")
    os.mkfifo(folder / OPENAI_YAML)


def _huge(folder: Path) -> None:
    with open(folder / OPENAI_YAML, "wb") as file:
        file.write(HIDING.encode())
        file.truncate(1 << 30)


@pytest.mark.parametrize(
    "make",
    [
        _link_outside,
        _link_outside_by_folder,
        _link_to_itself,
        _link_to_nothing,
        _folder_in_its_place,
        _file_as_its_folder,
        _pipe,
        _huge,
    ],
)
def test_whatever_else_is_in_its_place_says_nothing(folder: Path, make: Callable[[Path], None]) -> None:
    try:
        make(folder)
    except OSError as error:
        pytest.skip(f"cannot be made here: {error}")
    assert read_openai_yaml(FolderPackage(folder)) == NO_OPENAI_METADATA


def test_one_that_may_not_be_read_says_nothing(folder: Path, unprivileged: None) -> None:
    (folder / OPENAI_YAML).write_text(HIDING)
    (folder / OPENAI_YAML).chmod(0)
    assert read_openai_yaml(FolderPackage(folder)) == NO_OPENAI_METADATA


def test_a_skill_that_is_gone_has_nothing_beside(tmp_path: Path) -> None:
    assert read_openai_yaml(FolderPackage(tmp_path / "gone")) == NO_OPENAI_METADATA
