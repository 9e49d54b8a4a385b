"""Clients of others install from a running server: `npx skills`, APM, and `metier add`."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.hub.sources.test_http import certificate
from tests.npm_packages import npm_command
from tests.serve.api.registry_client import publish, skill_files
from tests.serve.machine import Machine, Server

__all__ = ["certificate"]
pytestmark = pytest.mark.slow
APM_VERSION = "0.35.0"
APM_YML = """\
name: consumer
version: 1.0.0
target: claude
registries:
  ours:
    url: {url}
  default: ours
dependencies:
  apm:
    - default/pdf-forms#^1.0.0
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server with two versions of a skill."""
    with Machine(tmp_path / "host").server() as server:
        yield server


@pytest.fixture
def admin(server: Server) -> Iterator[httpx.Client]:
    """A client of the server's admin."""
    headers = {"Authorization": f"Bearer {server.token}"}
    with httpx.Client(base_url=server.url, headers=headers, trust_env=False) as client:
        for version in ("1.0.0", "1.1.0"):
            assert publish(client, skill_files(version=version)).status_code == 201
        yield client


def run(home: Path, project: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program with a home of its own."""
    project.mkdir(exist_ok=True)
    env = {name: text for name, text in os.environ.items() if not name.startswith(("XDG_", "CLAUDE", "APM_"))}
    env |= {"HOME": str(home), "DO_NOT_TRACK": "1", "DISABLE_TELEMETRY": "1", "NO_COLOR": "1", **variables}
    return subprocess.run(
        words, cwd=project, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False
    )


def assert_is_release(folder: Path, version: str = "1.1.0") -> None:
    for path, (_, data) in skill_files(version=version).items():
        assert (folder / path).read_bytes() == data


def test_npx_skills_installs_from_a_server(server: Server, admin: httpx.Client, tmp_path: Path) -> None:
    words = [*npm_command("skills"), "add", server.url, "--skill", "pdf-forms", "--agent", "claude-code", "--yes"]
    done = run(tmp_path, tmp_path / "project", *words)
    assert done.returncode == 0, done.stdout
    assert_is_release(tmp_path / "project/.claude/skills/pdf-forms")


def apm() -> list[str]:
    """How to start APM; skips where it cannot be fetched."""
    uv = shutil.which("uv") or shutil.which("uv", path=os.path.dirname(sys.executable))
    if uv is None:
        pytest.skip("uv is not installed")
    words = [uv, "tool", "run", "--from", f"apm-cli=={APM_VERSION}", "apm"]
    try:
        there = subprocess.run([*words, "--version"], capture_output=True, timeout=120, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        there = False
    if not there:
        pytest.skip("the package index cannot be reached, and APM is not in uv's cache")
    return words


def apm_project(project: Path, url: str) -> Path:
    project.mkdir()
    (project / "apm.yml").write_text(APM_YML.format(url=url))
    return project


def test_apm_installs_from_a_server_and_nothing_that_was_yanked(
    server: Server, admin: httpx.Client, tmp_path: Path
) -> None:
    words, home = apm(), tmp_path / "apm-home"
    home.mkdir()
    first = apm_project(tmp_path / "first", server.url)
    enabled = run(home, first, *words, "experimental", "enable", "registries")
    assert enabled.returncode == 0, enabled.stdout + enabled.stderr
    done = run(home, first, *words, "install")
    assert done.returncode == 0, done.stdout + done.stderr
    assert_is_release(first / ".claude/skills/pdf-forms")

    yank = admin.post("/api/v1/packages/default/pdf-forms/1.1.0/yank", json={"reason": "It leaks."})
    assert yank.status_code == 200
    second = apm_project(tmp_path / "second", server.url)
    done = run(home, second, *words, "install")
    assert done.returncode == 0, done.stdout + done.stderr
    assert_is_release(second / ".claude/skills/pdf-forms", "1.0.0")

    shutil.rmtree(first / "apm_modules")
    shutil.rmtree(first / ".claude")
    (first / ".claude").mkdir()
    done = run(home, first, *words, "install")
    assert done.returncode == 0, done.stdout + done.stderr
    assert_is_release(first / ".claude/skills/pdf-forms")  # its lock file names that version


def test_apm_publishes_to_a_server(certificate: Path, tmp_path: Path) -> None:
    words, home, host = apm(), tmp_path / "apm-home", Machine(tmp_path / "host")
    home.mkdir()
    (host.work / "server.yaml").write_text(f"tls_certificate: {certificate}\ntls_key: {certificate}\n")
    with host.server("--config", "server.yaml") as server:
        package = apm_project(tmp_path / "csv", server.url)
        text = (package / "apm.yml").read_text().partition("dependencies:")[0]
        (package / "apm.yml").write_text(text.replace("consumer", "csv").replace("1.0.0", "3.0.0"))
        skill = package / ".apm/skills/csv"
        skill.mkdir(parents=True)
        (skill / "SKILL.md").write_bytes(skill_files("csv", "3.0.0")["SKILL.md"][1])
        assert run(home, package, *words, "experimental", "enable", "registries").returncode == 0
        # It sends a token over TLS alone, and where the user's own settings, not those of a project, name the registry.
        assert run(home, package, *words, "config", "set", "registry.ours.url", server.url).returncode == 0
        trusting = {"REQUESTS_CA_BUNDLE": str(certificate), "APM_REGISTRY_TOKEN_OURS": server.token}
        done = run(home, package, *words, "publish", "--package", "default/csv", **trusting)
        assert done.returncode == 0, done.stdout + done.stderr
        headers = {"Authorization": f"Bearer {server.token}"}
        context = ssl.create_default_context(cafile=str(certificate))
        with httpx.Client(base_url=server.url, headers=headers, verify=context, trust_env=False) as client:
            listed = client.get("/v1/packages/default/csv/versions").json()
    assert [one["version"] for one in listed["versions"]] == ["3.0.0"]


def test_metier_adds_the_newest_and_an_earlier_version(server: Server, admin: httpx.Client, tmp_path: Path) -> None:
    machine = Machine(tmp_path / "laptop")
    folder = machine.folder / "home/.metier/skills/pdf-forms"
    machine.metier("add", server.url, "pdf-forms", "--to", "personal", "--yes")
    assert_is_release(folder)
    machine.metier("remove", "pdf-forms", "--yes")
    machine.metier("add", f"well-known:{server.url}#pdf-forms", "--ref", "1.0.0", "--to", "personal", "--yes")
    assert_is_release(folder, "1.0.0")
