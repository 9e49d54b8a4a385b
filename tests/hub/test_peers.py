"""Real peers on loopback: `npx skills` and Claude Code install from what we write, and we from what is for them."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.hub.publish.conftest import write_release
from tests.hub.sources.git_repositories import served_by_http
from tests.npm_packages import BIN, npm_command

from metier.cli import main
from metier.hub.publish.site import build_site
from metier.library.skills_lock import computed_hash
from metier.skill import FolderPackage
from metier.skill.package import files_of

pytestmark = pytest.mark.slow


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        return


@contextlib.contextmanager
def served(site: Path) -> Iterator[str]:
    """The address of a folder that Python's own web server serves."""
    handler = functools.partial(_Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


class Peer:
    """A program with a home and a project of its own, which sends nothing anywhere."""

    def __init__(self, command: list[str], home: Path, project: Path) -> None:
        self._command, self.home, self.project = command, home, project
        home.mkdir()
        project.mkdir(exist_ok=True)

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "CLAUDE"))}
        env |= {
            "HOME": str(self.home),
            "CLAUDE_CONFIG_DIR": str(self.home / ".claude"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "DO_NOT_TRACK": "1",
            "NO_COLOR": "1",
        }
        return subprocess.run(
            [*self._command, *words],
            cwd=self.project,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


@pytest.fixture
def npx_skills(tmp_path: Path) -> Peer:
    return Peer(npm_command("skills"), tmp_path / "npx-home", tmp_path / "project")


@pytest.fixture
def claude(tmp_path: Path) -> Peer:
    program = BIN / "claude"
    if not program.exists():
        pytest.skip("the packages of tests/npm are not installed")
    return Peer([str(program)], tmp_path / "claude-home", tmp_path / "project")


def write_many(folder: Path) -> Path:
    """A skill whose files are sorted in several ways by several programs."""
    write_release(folder)
    for name in ("B.md", "a.md", "a-b.md", "a/b.md", "Zebra.md", "ä.md", "10.md", "9.md", "_x.md", "references/Öl.md"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"# {name}\n", encoding="utf-8")
    return folder


def lock_of(project: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((project / "skills-lock.json").read_text())["skills"]
    return found


def our_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project for our own command, which is called in it."""
    project = tmp_path / "ours"
    project.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    monkeypatch.chdir(project)
    return project


@pytest.mark.covers("A-32")
def test_npx_skills_lists_and_installs_from_our_site(
    npx_skills: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pdf = write_many(tmp_path / "acme/pdf")
    write_release(tmp_path / "acme/csv/2.0", "2.0", name="csv")
    build_site(tmp_path / "acme", tmp_path / "site")
    with served(tmp_path / "site") as url:
        listed = npx_skills("add", url, "--list")
        assert listed.returncode == 0, listed.stdout
        assert "pdf" in listed.stdout and "csv" in listed.stdout
        done = npx_skills("add", url, "--skill", "pdf", "--agent", "claude-code", "--yes")
        project = our_project(tmp_path, monkeypatch)
        assert main(["add", url, "pdf", "--to", "project", "--yes"]) == 0
    assert done.returncode == 0, done.stdout
    assert lock_of(project)["pdf"] == lock_of(npx_skills.project)["pdf"]
    installed = npx_skills.project / ".claude/skills/pdf"
    files = files_of(FolderPackage(str(pdf)))
    assert {path: data for path, (_, data) in files_of(FolderPackage(str(installed))).items()} == {
        path: data for path, (_, data) in files.items()
    }
    index = json.loads((tmp_path / "site/.well-known/agent-skills/index.json").read_text())
    ours = next(one["extensions"]["dev.metier"] for one in index["skills"] if one["name"] == "pdf")
    assert lock_of(npx_skills.project)["pdf"]["computedHash"] == computed_hash(files) == ours["computedHash"]


@pytest.mark.covers("A-32")
@pytest.mark.parametrize("others", [0, 1])
def test_npx_skills_refuses_what_has_one_byte_changed(npx_skills: Peer, tmp_path: Path, others: int) -> None:
    write_release(tmp_path / "acme/pdf")
    if others:
        write_release(tmp_path / "acme/csv")
    build_site(tmp_path / "acme", tmp_path / "site")
    archive = tmp_path / "site/.well-known/agent-skills/pdf/pdf-1.0.0.zip"
    data = bytearray(archive.read_bytes())
    data[len(data) // 2] ^= 1
    archive.write_bytes(data)
    with served(tmp_path / "site") as url:
        done = npx_skills("add", url, "--skill", "pdf", "--agent", "claude-code", "--yes")
        mine = main(["add", url, "pdf", "--to", "project", "--yes"])
    assert done.returncode == 1, done.stdout
    assert not (npx_skills.project / ".claude/skills/pdf").exists()
    assert mine != 0


def test_npx_skills_installs_what_is_only_in_the_index_of_before(npx_skills: Peer, tmp_path: Path) -> None:
    """As clients do that know no newer one: they look at no schema, which this client of both needs to be absent."""
    pdf = write_release(tmp_path / "acme/pdf")
    build_site(tmp_path / "acme", tmp_path / "site")
    (tmp_path / "site/.well-known/agent-skills/index.json").unlink()
    index = tmp_path / "site/.well-known/skills/index.json"
    said = json.loads(index.read_text())
    del said["$schema"]
    index.write_text(json.dumps(said))
    with served(tmp_path / "site") as url:
        done = npx_skills("add", url, "--skill", "pdf", "--agent", "claude-code", "--yes")
    assert done.returncode == 0, done.stdout
    files = files_of(FolderPackage(str(pdf)))
    assert lock_of(npx_skills.project)["pdf"]["computedHash"] == computed_hash(files)


def test_both_write_the_same_hash_for_a_repository_laid_out_for_npx_skills(
    npx_skills: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "repository"
    write_many(work / "skills/pdf")
    write_release(work / "skills/csv")
    for words in (
        ["init", "-q", "-b", "main"],
        ["add", "-A"],
        ["-c", "user.name=x", "-c", "user.email=x@x.test", "commit", "-qm", "First"],
    ):
        subprocess.run(["git", *words], cwd=work, check=True)
    done = npx_skills("add", f"file://{work}", "--skill", "pdf", "--agent", "claude-code", "--yes")
    if done.returncode:  # it takes a path where it does not take such an address
        done = npx_skills("add", str(work), "--skill", "pdf", "--agent", "claude-code", "--yes")
    assert done.returncode == 0, done.stdout
    project = our_project(tmp_path, monkeypatch)
    assert main(["add", f"git+file://{work}", "pdf", "--to", "project", "--yes"]) == 0
    ours, theirs = lock_of(project)["pdf"], lock_of(npx_skills.project)["pdf"]
    assert ours["computedHash"] == theirs["computedHash"]


def test_claude_code_installs_from_our_site_as_a_folder(claude: Peer, tmp_path: Path) -> None:
    source = tmp_path / "acme"
    pdf = write_release(source / "pdf")
    write_release(source / "csv/2.0", "2.0", name="csv")
    (source / "registry.json").write_text(json.dumps({"name": "acme-skills", "owner": "Acme"}))
    site = tmp_path / "site"
    build_site(source, site)
    for path in (site, site / "plugins/pdf"):
        checked = claude("plugin", "validate", str(path))
        assert checked.returncode == 0, checked.stdout + checked.stderr
        # It also tells what a catalog on the web would ask of a submission: an icon, a README.
        said = checked.stdout.lower().replace("plugin directory warning", "")
        assert "warning" not in said, checked.stdout
    added = claude("plugin", "marketplace", "add", str(site))
    assert added.returncode == 0, added.stdout + added.stderr
    done = claude("plugin", "install", "pdf@acme-skills")
    assert done.returncode == 0, done.stdout + done.stderr
    (installed,) = (claude.home / ".claude/plugins/cache").rglob("skills/pdf/SKILL.md")
    assert FolderPackage(str(installed.parent)).digest() == FolderPackage(str(pdf)).digest()
    assert "1.0.0" in installed.parts


def test_claude_code_installs_from_our_site_in_a_git_repository(claude: Peer, tmp_path: Path) -> None:
    """By `git http-backend`: this version takes no repository on the disk, and an address of HTTP is one of git."""
    pdf = write_release(tmp_path / "acme/pdf")
    site = tmp_path / "site"
    build_site(tmp_path / "acme", site)
    for words in (
        ["init", "-q", "-b", "main"],
        ["add", "-A"],
        ["-c", "user.name=x", "-c", "user.email=x@x.test", "commit", "-qm", "First"],
        ["clone", "-q", "--bare", ".", str(tmp_path / "served/site.git")],
    ):
        subprocess.run(["git", *words], cwd=site, check=True)
    with served_by_http(tmp_path / "served") as (url, _):
        added = claude("plugin", "marketplace", "add", f"{url}/site.git")
        assert added.returncode == 0, added.stdout + added.stderr
        done = claude("plugin", "install", "pdf@acme")
    assert done.returncode == 0, done.stdout + done.stderr
    (installed,) = (claude.home / ".claude/plugins/cache").rglob("skills/pdf/SKILL.md")
    assert FolderPackage(str(installed.parent)).digest() == FolderPackage(str(pdf)).digest()
