"""`metier publish --to https://...` and `metier deploy --server`, against a running server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hub.publish.conftest import write_release
from tests.hub.sources.test_http import certificate
from tests.serve.machine import Machine, Server

__all__ = ["certificate"]


def run(machine: Machine, *words: str) -> str:
    """The output of a command that fails."""
    done = subprocess.run(
        [sys.executable, "-m", "metier", *words],
        cwd=machine.work,
        env=machine.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Machine(tmp_path_factory.mktemp("host") / "host").server() as server:
        yield server


@pytest.fixture
def laptop(tmp_path: Path, server: Server) -> Machine:
    """A machine of the server's admin."""
    return Machine(tmp_path / "laptop", METIER_API_TOKEN=server.token)


def test_a_skill_is_published_and_deployed_at_a_server(server: Server, laptop: Machine) -> None:
    folder = write_release(laptop.work / "pdf")
    done = laptop.metier("publish", str(folder), "--to", server.url, "--json")
    assert (done["name"], done["version"], done["status"], done["namespace"]) == (
        "pdf",
        "1.0.0",
        "published",
        "default",
    )
    done = laptop.metier("deploy", str(folder), "--server", server.url, "--reason", "For all.", "--json")
    assert (done["name"], done["reason"], done["not_approved"]) == ("pdf", "For all.", "")
    assert "is deployed to all nodes" in laptop.metier("deploy", str(folder), "--server", server.url)


def test_a_skill_is_published_over_tls(certificate: Path, tmp_path: Path) -> None:
    host = Machine(tmp_path / "host")
    (host.work / "server.yaml").write_text(f"tls_certificate: {certificate}\ntls_key: {certificate}\n")
    with host.server("--config", "server.yaml") as server:
        laptop = Machine(tmp_path / "laptop", METIER_API_TOKEN=server.token, SSL_CERT_FILE=str(certificate))
        folder = write_release(laptop.work / "pdf")
        assert server.url.startswith("https://")
        assert laptop.metier("deploy", str(folder), "--server", server.url, "--json")["version"] == "1.0.0"


def test_deploying_publishes_what_is_not_published_yet(server: Server, laptop: Machine) -> None:
    folder = write_release(laptop.work / "csv")
    assert laptop.metier("deploy", str(folder), "--server", server.url, "--json")["version"] == "1.0.0"
    (folder / "notes.md").write_text("Changed.\n")
    refused = laptop.metier("deploy", str(folder), "--server", server.url, "--json", code=1)
    assert refused["error"]["code"] == "skill-exists"


def test_a_submission_waits_for_review(server: Server, laptop: Machine) -> None:
    folder = write_release(laptop.work / "xls")
    assert laptop.metier("publish", str(folder), "--to", server.url, "--submit", "--json")["status"] == "submitted"


@pytest.mark.each(
    ("words", "code"),
    [
        (("publish", "pdf", "--to", "{url}", "--dry-run"), "invalid-argument"),
        (("publish", "pdf", "--to", "{url}/../x"), "invalid-argument"),
        (("publish", "pdf", "--to", "{url}/none"), "skill-not-found"),
        (("publish", "pdf", "--to", "folder", "--submit"), "invalid-argument"),
        (("publish", "pdf", "--to", "http://skills.example.com"), "invalid-argument"),
        (("deploy", "pdf", "--server"), "node-invalid"),
        (("publish", "bare", "--to", "{url}"), "skill-invalid"),
    ],
)
def test_what_cannot_be_published_or_deployed_is_refused(
    server: Server, laptop: Machine, words: tuple[str, ...], code: str
) -> None:
    for name, version in (("pdf", "7.0.0"), ("bare", "")):
        if not (laptop.work / name).exists():
            write_release(laptop.work / name, version)
    done = run(laptop, *(word.format(url=server.url) for word in words), "--json")
    assert code in done


def test_a_skill_without_a_version_is_deployed_under_the_next_number(server: Server, laptop: Machine) -> None:
    write_release(laptop.work / "plain", "")

    def deploy() -> str:
        version: str = laptop.metier("deploy", "plain", "--server", server.url, "--json")["version"]
        return version

    assert [deploy(), deploy()] == ["1", "1"]
    with open(laptop.work / "plain" / "SKILL.md", "a", encoding="utf-8") as file:
        file.write("More.\n")
    assert deploy() == "2"


def test_nobody_publishes_without_a_token(server: Server, tmp_path: Path) -> None:
    machine = Machine(tmp_path / "stranger")
    folder = write_release(machine.work / "pdf")
    assert "No token says who you are" in run(machine, "publish", str(folder), "--to", server.url)
