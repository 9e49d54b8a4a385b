"""A server on loopback whose answers are given byte for byte, so that it can lie about all of them."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import socket
import socketserver
import ssl
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any

Answer = bytes | Callable[[socket.socket], None]


def skill_text(name: str = "pdf", body: str = "Do it.") -> bytes:
    return f"---\nname: {name}\ndescription: Reads things.\n---\n{body}\n".encode()


def answer(
    body: bytes = b"", kind: str = "application/octet-stream", status: str = "200 OK", **headers: object
) -> bytes:
    """An answer that tells the truth, but for the headers that say otherwise; None leaves one out."""
    all_headers = {"Content-Type": kind, "Content-Length": len(body), "Connection": "close"}
    all_headers |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in all_headers.items() if value is not None)
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body


def as_json(value: object) -> bytes:
    return answer(json.dumps(value).encode(), "application/json")


def zipped(files: Mapping[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return file.getvalue()


def tarred(*members: tarfile.TarInfo | tuple[str, bytes]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member, io.BytesIO(b"x" * member.size))
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                archive.addfile(info, io.BytesIO(member[1]))
    return gzip.compress(file.getvalue(), mtime=0)


def digest(data: bytes) -> str:
    return f"sha256:{sha256(data).hexdigest()}"


class Site:
    """Answers by path; all requests that came, with their headers."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: dict[str, Answer] = {}
        self.requests: list[tuple[str, str]] = []
        self.closing = threading.Event()

    def index(self, *entries: object, **fields: object) -> None:
        """Announce skills by an index of v0.2.0."""
        schema = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
        self.answers["/.well-known/agent-skills/index.json"] = as_json({"$schema": schema, "skills": entries, **fields})

    def entry(self, name: str, data: bytes, kind: str = "archive", **fields: object) -> dict[str, Any]:
        """Serve an artifact; returns its entry in an index."""
        path = f"/.well-known/agent-skills/{name}.{'md' if kind == 'skill-md' else 'zip'}"
        self.answers[path] = answer(data, "text/markdown" if kind == "skill-md" else "application/zip")
        entry = {"name": name, "type": kind, "description": "Reads.", "url": path.rpartition("/")[2]}
        return entry | {"digest": digest(data)} | fields

    def paths(self) -> list[str]:
        return [path for path, _ in self.requests]


@contextlib.contextmanager
def serving(host: str = "127.0.0.1", context: ssl.SSLContext | None = None) -> Iterator[Site]:
    """A site on its own port, until the end of the block."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            connection: socket.socket = self.request
            connection.settimeout(10)
            with contextlib.suppress(OSError):
                if context is None:
                    self.talk(connection)
                else:
                    with context.wrap_socket(connection, server_side=True) as secure:
                        self.talk(secure)

        def talk(self, connection: socket.socket) -> None:
            head = b""
            while b"\r\n\r\n" not in head and (piece := connection.recv(65_536)):
                head += piece
            path = head.split(b" ")[1].decode() if head.count(b" ") > 1 else ""
            site.requests.append((path, head.decode("latin-1")))
            plain = path.partition("?")[0]  # a site of files passes over a query that it does not know
            given = site.answers.get(path) or site.answers.get(plain, answer(b"", status="404 Not Found"))
            if callable(given):
                given(connection)
            else:
                connection.sendall(given)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True
        request_queue_size = 64

    with Server((host, 0), Handler) as server:
        site = Site(f"{'https' if context else 'http'}://{host}:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield site
        finally:
            site.closing.set()
            server.shutdown()
            thread.join()
