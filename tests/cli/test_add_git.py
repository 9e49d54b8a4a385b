"""`metier add` out of git repositories."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.hub.sources.git_repositories import SKILL, File, commit, make_repository
from tests.npm_packages import npm_command

Metier = Callable[..., tuple[int, str, str]]

PDF: dict[str, File] = {
    "skills/pdf/SKILL.md": SKILL % b"pdf",
    "skills/pdf/scripts/fill.py": ("100755", b"print('filled')\n"),
    "skills/pdf/references/Fields.md": b"# Fields\n",
    "skills/pdf/references/api.md": b"# API\n",
    "skills/csv/SKILL.md": SKILL % b"csv",
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repo.git")


@pytest.mark.covers("A-34")
def test_a_skill_of_a_repository_is_installed_and_locked_to_its_commit(
    metier: Metier, project: Path, repository: Path
) -> None:
    head = commit(repository, PDF, tag="v1")
    code, out, err = metier("add", f"git+file://{repository}@v1", "pdf", "--to", "project", "--yes", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["revision"] == head

    [locked] = tomllib.loads((project / "metier.lock").read_text())["skill"]
    assert (locked["source"], locked["ref"], locked["revision"]) == (f"git+file://{repository}", "v1", head)
    assert (project / ".metier/skills/pdf/scripts/fill.py").stat().st_mode & 0o111
    assert metier("run", "pdf", "fill.py")[:2] == (0, "filled\n")
    assert not (project / ".metier/skills/csv").exists()


@pytest.mark.covers("A-34")
def test_a_tag_that_moved_changes_nothing_until_somebody_updates(
    metier: Metier, project: Path, repository: Path
) -> None:
    old = commit(repository, PDF, tag="v1")
    words = ("add", f"git+file://{repository}@v1", "pdf", "--to", "project", "--yes", "--json")
    assert metier(*words)[0] == 0
    new = commit(repository, PDF | {"skills/pdf/SKILL.md": (SKILL % b"pdf") + b"Run anything.\n"}, tag="v1")

    assert metier("lock", "--check")[0] == 0
    outdated = metier("outdated", "--json")[1]
    assert "pdf" in outdated
    assert new in outdated
    assert old in (project / "metier.lock").read_text()
    code, out, _ = metier(*words)
    shape = json.loads(out)
    assert (code, shape["revision"], shape["skills"][0]["changed"]) == (0, new, True)


@pytest.mark.each(
    "files",
    [
        {"skills/pdf/link": ("120000", b"../../../../etc/passwd")},
        {"skills/pdf/link": ("120000", b"/etc/passwd")},
        {"skills/pdf/scripts/api.md": ("120000", b"../../csv/SKILL.md")},
        {"skills/pdf/README.md": b"1", "skills/pdf/readme.md": b"2"},
        {"skills/pdf/model.bin": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"},
        {"skills/pdf/SKILL.md": ("120000", b"../csv/SKILL.md")},
        {"skills/pdf/SKILL.md": b"---\nname: pdf\n---\n"},
        {"skills/pdf/SKILL.md": b"\0\0\0"},
        {"skills/pdf/" + "d/" * 40 + "deep.md": b""},
    ],
    every=4,
)
def test_a_hostile_repository_installs_nothing(
    tmp_path_factory: pytest.TempPathFactory, metier: Metier, files: dict[str, File]
) -> None:
    folder = tmp_path_factory.mktemp("hostile")
    repository = make_repository(folder / "repo.git")
    commit(repository, PDF | files)
    home = sorted(Path.home().rglob("*"))
    code, out, err = metier("add", f"git+file://{repository}", "pdf", "--to", "personal", "--yes")
    assert code != 0, out
    assert "Traceback" not in err
    assert "error" in err
    skills = Path.home() / ".metier/skills"
    assert not list(skills.glob("*"))
    assert not [path for path in sorted(Path.home().rglob("*")) if path not in home and path.name in ("link", "evil")]


@pytest.mark.slow
@pytest.mark.covers("A-32")
def test_npx_skills_installs_the_same_and_writes_the_same_hash(
    metier: Metier, project: Path, repository: Path, tmp_path: Path
) -> None:
    commit(repository, PDF)
    other = tmp_path / "other"
    other.mkdir()
    words = ["add", f"file://{repository}", "--skill", "pdf", "-a", "claude-code", "-y"]
    subprocess.run(
        [*npm_command("skills"), *words], cwd=other, check=True, capture_output=True, stdin=subprocess.DEVNULL
    )
    assert metier("add", f"git+file://{repository}", "pdf", "--to", "project", "--yes")[0] == 0

    theirs, ours = (json.loads((each / "skills-lock.json").read_text())["skills"]["pdf"] for each in (other, project))
    assert ours["computedHash"] == theirs["computedHash"]
    assert ours == theirs
    for path in PDF:
        if path.startswith("skills/pdf/"):
            name = path.removeprefix("skills/pdf/")
            installed = (project / ".metier/skills/pdf" / name).read_bytes()
            assert installed == (other / ".claude/skills/pdf" / name).read_bytes()
