"""A small server on loopback that speaks to nodes as ours does, with real signatures and no store."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from metier.guard.audit.keys import SigningKey
from metier.guard.node.binding import Binding
from metier.hub.publish.pack import pack
from metier.skill.package import digest_of_files

TOKEN, PERSON = "mtr_node", "mtr_person"
NODE = "n-1"


class NodeServer:
    """The state that a node gets, and what it sent; changes count at once, and are told to streams."""

    def __init__(self, folder: Path) -> None:
        self.signer = SigningKey.of(folder / "server.ed25519")
        self.changed = threading.Condition()
        self.state: dict[str, Any] = {
            "format": 1,
            "server": self.signer.id,
            "node": NODE,
            "tenant": "",
            "number": 1,
            "policies": [],
            "states": [{"blocked": [], "approvals": [], "tested": {}, "compared": {}}],
            "skills": [],
            "requests": [],
            "proposals": [],
        }
        self.seconds = 3600
        self.contents: dict[str, bytes] = {}
        self.received: list[tuple[str, str, Any]] = []
        self.is_stopping = self.is_silent = False
        self.unknown = False
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pem(self) -> str:
        """The public key that its signatures are verified by."""
        public = self.signer._private.public_key()
        return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    def binding(self, **other: str) -> Binding:
        """The binding of the one node that it knows."""
        fields = {"url": self.url, "node": NODE, "name": "laptop", "key_id": self.signer.id, "public_key": self.pem}
        return Binding(**{**fields, **other})

    def change(self, **parts: Any) -> None:
        """Change parts of the state; the number grows."""
        with self.changed:
            self.state = {**self.state, "number": self.state["number"] + 1, **parts}
            self.changed.notify_all()

    def decide(self, **parts: Any) -> None:
        """Change the blocks or approvals of the installation."""
        self.change(states=[{**self.state["states"][0], **parts}])

    def deploy(self, name: str, body: str = "Do it.", **files: str) -> str:
        """Deploy a skill, in place of the one of its name; returns its digest."""
        texts = {"SKILL.md": f"---\nname: {name}\ndescription: Does {name}.\n---\n{body}\n"} | files
        content = {path: ("file", text.encode()) for path, text in texts.items()}
        digest = digest_of_files(content)  # type: ignore[arg-type]
        self.contents[f"/api/v1/contents/{digest}"] = pack(content, "tar.gz")  # type: ignore[arg-type]
        one = {"name": name, "namespace": "acme", "version": "1.0.0", "digest": digest}
        others = [each for each in self.state["skills"] if each["name"] != name]
        self.change(skills=[*others, {**one, "archive": f"/api/v1/contents/{digest}"}])
        return digest

    def sign(self, content: Mapping[str, Any]) -> dict[str, str]:
        """An envelope around some content."""
        text = json.dumps(content, sort_keys=True)
        return {"payload": text, "key_id": self.signer.id, "signature": self.signer.sign(text.encode())}

    def lease(self) -> dict[str, str]:
        """A lease of the present state."""
        digest = hashlib.sha256(json.dumps(self.state, sort_keys=True).encode()).hexdigest()
        content = {"format": 1, "server": self.signer.id, "node": NODE, "state": digest, "seconds": self.seconds}
        return self.sign({**content, "number": self.state["number"], "issued_at": datetime.now(UTC).isoformat()})

    def close(self) -> None:
        """Stop, as a server that is gone: connections end."""
        with self.changed:
            self.is_stopping = True
            self.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(server: NodeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

        def do_GET(self) -> None:
            if self.path == "/api/v1/nodes/me/events" and self._is_known():
                self._stream()
            else:
                self._answer()

        def do_POST(self) -> None:
            self._answer()

        def do_PUT(self) -> None:
            self._answer()

        def do_DELETE(self) -> None:
            self._answer()

        def _is_known(self) -> bool:
            tokens = (f"Bearer {TOKEN}",) if "/nodes/me/" in self.path else (f"Bearer {TOKEN}", f"Bearer {PERSON}")
            return not server.unknown and self.headers["Authorization"] in tokens

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            is_json = self.headers.get("Content-Type") == "application/json"
            server.received.append((self.command, self.path, json.loads(body) if is_json else body))
            if server.is_silent:
                with server.changed:
                    server.changed.wait_for(lambda: server.is_stopping)
                return
            status, found = self._found()
            data = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _found(self) -> tuple[int, object]:
            if self.command == "POST" and self.path == "/api/v1/nodes":
                identity = {"url": None, "key_id": server.signer.id, "public_key": server.pem}
                return 201, {"id": NODE, "name": "laptop", "tenant": "", "token": TOKEN, "server": identity}
            if not self._is_known():
                return 401, {"code": "unauthorized", "detail": "No valid credential came with the request."}
            match self.command, self.path:
                case "GET", "/api/v1/nodes/me/state":
                    return 200, server.sign(server.state)
                case "POST", "/api/v1/nodes/me/lease":
                    return 200, server.lease()
                case "GET", path if path in server.contents:
                    return 200, server.contents[path]
                case "PUT" | "POST" | "DELETE", _:
                    return 200, {}
            return 404, {"code": "not-found", "detail": "There is nothing."}

        def _stream(self) -> None:
            self.send_response(200)
            self.end_headers()
            told = None
            with server.changed:
                while not server.is_stopping:
                    if told != server.state:
                        told = server.state
                        self.wfile.write(f"event: lease\ndata: {json.dumps(server.lease())}\n\n".encode())
                        self.wfile.flush()
                    server.changed.wait()

    return Handler
