"""Skills that are published to an OCI registry, and installed from it again."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.docker_registry import docker_registry

from metier.errors import SkillExists, SourceUnavailable
from metier.hub.publish.oci import push_skill
from metier.hub.publish.release import read_release
from metier.hub.sources.address import parse_address
from metier.hub.sources.fetch import Transfer, fetch, resolve

TEXT = b"---\nname: pdf\ndescription: PDFs.\nversion: 1.2.0\nlicense: MIT\n---\nDo.\n"
FILES: dict[str, Any] = {"SKILL.md": ("file", TEXT), "scripts/run.sh": ("exec", b"#!/bin/sh\n")}
QUICK = Transfer(seconds=10)
__all__ = ("docker_registry",)


def push(files: dict[str, Any], target: str) -> str:
    return push_skill(read_release(files), parse_address(target), QUICK)


@contextlib.contextmanager
def registry(**lies: Any) -> Iterator[tuple[str, dict[str, bytes]]]:
    """A registry in memory: its host, and what it holds by path; `lies` are answers by method."""
    held: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            return

        def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
            self.send_response(lies.get(self.command, status))
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def do_GET(self) -> None:
            found = held.get(self.path)
            self._answer(404 if found is None else 200, found or b"")

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_POST(self) -> None:
            self._answer(202, Location=lies.get("location", f"{self.path}id"))

        def do_PUT(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            path, _, query = self.path.partition("?")
            if query:
                digest = query.removeprefix("digest=").replace("%3A", ":")
                assert digest == f"sha256:{sha256(data).hexdigest()}"
                held[f"{path.partition('/uploads/')[0]}/{digest}"] = data
            else:
                held[path] = lies.get("stores", data)
                held[f"{path.rpartition('/')[0]}/sha256:{sha256(data).hexdigest()}"] = data
            self._answer(201)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}", held
        finally:
            server.shutdown()
            thread.join()


def pulled(text: str) -> dict[str, Any]:
    with fetch(resolve(parse_address(text), QUICK), QUICK) as fetched:
        return dict(fetched.candidates[0].files())


def test_what_is_published_is_installed_again_with_the_same_digest() -> None:
    with registry() as (host, held):
        target = f"oci:{host}/acme/pdf"
        digest = push(FILES, target)
        assert resolve(parse_address(f"oci:{host}/acme/pdf:1.2.0"), QUICK).revision == digest
        assert pulled(f"oci:{host}/acme/pdf:1.2.0") == FILES
        manifest = json.loads(held["/v2/acme/pdf/manifests/1.2.0"])
        config = json.loads(held[f"/v2/acme/pdf/blobs/{manifest['config']['digest']}"])
    assert manifest["artifactType"] == "application/vnd.agentskills.skill.v1"
    assert [layer["mediaType"] for layer in manifest["layers"]] == [
        "application/vnd.agentskills.skill.content.v1.tar+gzip"
    ]
    assert manifest["annotations"]["io.agentskills.skill.name"] == "pdf"
    assert config == {
        "schemaVersion": "1",
        "name": "pdf",
        "version": "1.2.0",
        "description": "PDFs.",
        "license": "MIT",
    }


@pytest.mark.covers("A-37")
def test_a_tag_keeps_its_content_and_the_same_again_is_nothing_new() -> None:
    with registry() as (host, held):
        target = f"oci:{host}/acme/pdf"
        digest = push(FILES, target)
        before = dict(held)
        assert push(dict(reversed(FILES.items())), target) == digest
        with pytest.raises(SkillExists, match="is there already, with other content"):
            push({**FILES, "more.md": ("file", b"")}, target)
        assert held == before
        other = f"oci:{host}/acme/pdf:next"
        push({**FILES, "more.md": ("file", b"")}, other)
        assert "more.md" in pulled(f"oci:{host}/acme/pdf:next")


@pytest.mark.each(
    "lies",
    [
        {"PUT": 403},
        {"POST": 401},
        {"location": "http://203.0.113.1/upload"},
        {"location": "file:///etc/passwd"},
        {"stores": b"{}"},
    ],
)
def test_a_registry_that_does_not_keep_it_is_an_error(lies: dict[str, Any]) -> None:
    with registry(**lies) as (host, _), pytest.raises(SourceUnavailable) as caught:
        push(FILES, f"oci:{host}/acme/pdf")
    assert caught.value.hint


@pytest.mark.slow
@pytest.mark.covers("A-37")
def test_a_skill_goes_round_through_a_real_registry(docker_registry: str) -> None:
    target = f"oci:{docker_registry}/acme/skills/pdf"
    digest = push(FILES, target)
    resolved = resolve(parse_address(f"oci:{docker_registry}/acme/skills/pdf:1.2.0"), QUICK)
    assert resolved.revision == digest
    assert pulled(f"oci:{docker_registry}/acme/skills/pdf@{digest}") == FILES
    assert push(FILES, target) == digest
    with pytest.raises(SkillExists):
        push({"SKILL.md": ("file", TEXT)}, target)
    # Another client's tag of the same manifest, with the library's own way to read it.
    import oras.client

    client = oras.client.OrasClient(hostname=docker_registry, insecure=True)
    manifest = client.get_manifest(f"{docker_registry}/acme/skills/pdf:1.2.0")
    assert manifest["artifactType"] == "application/vnd.agentskills.skill.v1"
    assert client.get_tags(f"{docker_registry}/acme/skills/pdf") == ["1.2.0"]
