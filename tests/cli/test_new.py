"""`metier new`."""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.cli import main
from metier.skill.document import parse

Call = Callable[..., tuple[int, str, str]]


@pytest.mark.each("name", ["a", "my-skill", "3d-print", "build", "null", "1", "true", "2024-01-01", "a" * 64], every=3)
def test_a_new_skill_passes_the_strictest_rules(metier: Call, tmp_path: Path, name: str) -> None:
    code, out, err = metier("new", name, "--into", tmp_path)
    assert (code, err) == (0, "")
    assert str(tmp_path / name / "SKILL.md") in out
    for option in ("--strict", "--portable"):
        code, out, _ = metier("validate", tmp_path / name, option)
        assert code == 0
        assert out.startswith(f"✓ {name} {tmp_path}/{name}/SKILL.md\n  warning description-placeholder ")
        assert out.endswith("1 skill, no errors.\n")


def test_a_new_skill_can_be_used_at_once(metier: Call, tmp_path: Path) -> None:
    metier("new", "my-skill", "--into", tmp_path, "--description", 'Does it: well. It\'s "good", 100% {sure} #1.')
    assert 'Does it: well. It\'s "good", 100% {sure} #1.' in metier("--skills", tmp_path, "list")[1]
    assert metier("--skills", tmp_path, "show", "my-skill", "--instructions")[1].startswith("# My skill\n")


def test_it_is_written_here_when_nobody_says_where(
    metier: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = metier("new", "my-skill")
    assert code == 0
    assert (tmp_path / "my-skill" / "SKILL.md").is_file()
    assert "metier validate my-skill --strict" in out


def test_folders_on_the_way_are_made(metier: Call, tmp_path: Path) -> None:
    assert metier("new", "my-skill", "--into", tmp_path / "a" / "b")[0] == 0
    assert (tmp_path / "a/b/my-skill/SKILL.md").is_file()


@pytest.mark.parametrize("kind", ["skill", "empty folder", "file", "link"])
def test_nothing_that_is_there_is_overwritten(metier: Call, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "my-skill"
    if kind == "file":
        target.write_text("mine")
    elif kind == "link":
        if sys.platform == "win32":
            pytest.skip("links need a privilege here")
        target.symlink_to("nowhere")
    else:
        target.mkdir()
        if kind == "skill":
            (target / "SKILL.md").write_text("mine")
    code, out, err = metier("new", "my-skill", "--into", tmp_path)
    assert (code, out) == (1, "")
    assert "[skill-exists]" in err
    assert "\nhint: " in err
    if kind == "skill":
        assert (target / "SKILL.md").read_text() == "mine"
    if kind == "file":
        assert target.read_text() == "mine"


@pytest.mark.covers("O-03")
@pytest.mark.each(
    ("name", "hint"),
    [
        ("My Skill", "Try 'my-skill'."),
        ("test_skill", "Try 'test-skill'."),
        ("a--b", "Try 'a-b'."),
        ("../evil", "Try 'evil'."),
        ("/etc/evil", "Try 'etc-evil'."),
        ("a\n", "Try 'a'."),
        ("\x1b[2J", "Try '2j'."),
        ("a" * 65, f"Try '{'a' * 64}'."),
        ("技能", "Use a-z, 0-9 and single hyphens"),
        ("..", "Use a-z, 0-9 and single hyphens"),
        ("", "Use a-z, 0-9 and single hyphens"),
        ("\udcff", "Use a-z, 0-9 and single hyphens"),
    ],
)
def test_an_invalid_name_is_wrong_usage_with_a_better_one(metier: Call, tmp_path: Path, name: str, hint: str) -> None:
    code, out, err = metier("new", name, "--into", tmp_path)
    assert (code, out) == (2, "")
    assert f"hint: {hint}" in err
    assert "\x1b" not in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.each("description", [" ", "x" * 1_025, "uses <b>", "bell \x07", "\u202eright to left", "\udcff"])
def test_a_description_that_uploads_refuse_is_wrong_usage(metier: Call, tmp_path: Path, description: str) -> None:
    code, _, err = metier("new", "my-skill", "--into", tmp_path, "--description", description)
    assert code == 2
    assert "1 to 1,024 characters" in err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_wrong_usage(metier: Call, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for into in (tmp_path / "file", tmp_path / ("x" * 300)):
        code, _, err = metier("new", "my-skill", "--into", into)
        assert code == 2
        assert "cannot be written" in err
        assert "--into" in err


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege here")
def test_a_folder_that_is_a_link_to_nothing_is_not_called_an_existing_skill(metier: Call, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    code, _, err = metier("new", "my-skill", "--into", tmp_path / "link")
    assert code == 2
    assert "exists already" not in err


def test_an_escape_sequence_in_the_folder_is_shown_and_not_sent(metier: Call, tmp_path: Path) -> None:
    code, out, _ = metier("new", "my-skill", "--into", tmp_path / "\x1b[2J")
    assert code == 0
    assert "\x1b" not in out


def test_the_next_command_can_be_pasted_when_the_folder_has_a_blank(metier: Call, tmp_path: Path) -> None:
    import shlex

    folder = tmp_path / "my skills"
    _, out, _ = metier("new", "my-skill", "--into", folder)
    command = out.partition("`")[2].partition("`")[0]
    assert shlex.split(command) == ["metier", "validate", str(folder / "my-skill"), "--strict"]


@given(description=st.text(min_size=1, max_size=1_100))
def test_whatever_description_is_accepted_is_valid_and_kept(description: str) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        code = main(["new", "my-skill", f"--into={folder}", f"--description={description}"])
        assert code in (0, 2)
        if code == 0:
            assert main(["validate", folder, "--portable"]) == 0
            data = (Path(folder) / "my-skill" / "SKILL.md").read_bytes()
            assert parse(data, folder="my-skill").skill.description == " ".join(description.split())
