"""Bare repositories with any content, made by one process, and servers of git on loopback."""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
import subprocess
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

File = bytes | tuple[str, bytes]
"""The content of a file, or its mode and its content; of a submodule, its commit."""

SKILL = b"---\nname: %s\ndescription: Fills forms. Use when there is a form.\n---\nDo it.\n"


def git(*words: str | Path, given: bytes = b"") -> str:
    """The output of git, without the configuration of whoever runs the tests."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(["git", *map(str, words)], input=given, capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip()


def make_repository(folder: Path, *, object_format: str = "sha1") -> Path:
    """An empty bare repository whose branch is `main`."""
    git("init", "-q", "--bare", "-b", "main", f"--object-format={object_format}", folder)
    return folder


def commit(repository: Path, files: Mapping[str, File], *, branch: str = "main", tag: str = "", light: str = "") -> str:
    """A commit with exactly these files as the new head of a branch; `tag` is annotated, `light` is not."""
    lines = [f"commit refs/heads/{branch}\ncommitter A <a@example.com> 0 +0000\ndata 1\nx\ndeleteall\n".encode()]
    for path, file in files.items():
        mode, data = file if isinstance(file, tuple) else ("100644", file)
        if mode == "160000":
            lines.append(f"M 160000 {data.decode()} {path}\n".encode())
        else:
            lines.append(f'M {mode} inline "{path}"\ndata {len(data)}\n'.encode() + data + b"\n")
    if tag:
        lines.append(f"tag {tag}\nfrom refs/heads/{branch}\ntagger A <a@example.com> 0 +0000\ndata 1\nx\n".encode())
    if light:
        lines.append(f"reset refs/tags/{light}\nfrom refs/heads/{branch}\n\n".encode())
    git("-C", repository, "fast-import", "--quiet", "--force", given=b"".join(lines))
    return git("-C", repository, "rev-parse", f"refs/heads/{branch}")


def commit_tree(repository: Path, entries: list[tuple[str, str, str]], *, branch: str = "main") -> str:
    """A commit of one tree whose entries (mode, name, object) nobody checked."""
    raw = b"".join(f"{mode} {name}".encode() + b"\0" + bytes.fromhex(at) for mode, name, at in entries)
    made = git("-C", repository, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", given=raw)
    text = f"tree {made}\nauthor A <a@example.com> 0 +0000\ncommitter A <a@example.com> 0 +0000\n\nx\n"
    head = git("-C", repository, "hash-object", "-t", "commit", "-w", "--stdin", given=text.encode())
    git("-C", repository, "update-ref", f"refs/heads/{branch}", head)
    return head


def blob(repository: Path, data: bytes) -> str:
    """The id of a blob that is written."""
    return git("-C", repository, "hash-object", "-w", "--stdin", given=data)


def tree(repository: Path, listing: str) -> str:
    """The id of a tree, from lines such as `git ls-tree` prints."""
    return git("-C", repository, "mktree", given=listing.encode())


def delta_bomb(repository: Path, size: int) -> str:
    """The id of a blob that is a few bytes in the repository: a delta which copies the same 64 KiB again and again."""
    piece = bytes(65_536)
    base = hashlib.sha1(b"blob 65536\0" + piece).digest()
    number = b""
    for value in (len(piece), size):
        while value > 127:
            number += bytes([value & 127 | 128])
            value >>= 7
        number += bytes([value])
    copies = number + b"\x80" * (size // len(piece))  # without any size or offset: all of the base
    objects = b""
    for kind, start, data in ((3, b"", piece), (7, base, copies)):
        length, head = len(data) >> 4, kind << 4 | len(data) & 15
        while length:
            objects += bytes([head | 128])
            head, length = length & 127, length >> 7
        objects += bytes([head]) + start + zlib.compress(data)
    pack = b"PACK" + struct.pack(">LL", 2, 2) + objects
    git("-C", repository, "index-pack", "--stdin", given=pack + hashlib.sha1(pack).digest())
    return hashlib.sha1(f"blob {size}\0".encode() + bytes(size)).hexdigest()


@contextlib.contextmanager
def served_by_daemon(base: Path) -> Iterator[str]:
    """The address of a `git daemon` that serves all repositories of a folder."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    process = subprocess.Popen(
        ["git", "daemon", "--export-all", "--listen=127.0.0.1", f"--port={port}", f"--base-path={base}", "--verbose"],
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert process.stderr is not None
        assert b"Ready" in process.stderr.readline()
        yield f"git://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, 15)
        process.communicate()


@contextlib.contextmanager
def served_by_http(base: Path, *, redirect: str = "", is_old: bool = False) -> Iterator[tuple[str, list[str]]]:
    """The address of `git http-backend` and the requests that came; with `redirect`, `/moved/` leads there.

    One that `is_old` knows the first protocol only.
    """
    import threading
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    requests: list[str] = []

    class Backend(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(f"{self.command} {self.path}")
            if self.path.startswith("/moved/"):
                self.send_response(302)
                self.send_header("Location", redirect + self.path.removeprefix("/moved"))
                self.end_headers()
                return
            path, _, query = self.path.partition("?")
            environment = {
                **os.environ,
                "GIT_PROJECT_ROOT": str(base),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_PROTOCOL": "" if is_old else self.headers.get("Git-Protocol", ""),
                "REQUEST_METHOD": self.command,
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            }
            sent = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            made = subprocess.run(["git", "http-backend"], input=sent, env=environment, capture_output=True, check=True)
            head, _, body = made.stdout.partition(b"\r\n\r\n")
            fields = dict(line.split(": ", 1) for line in head.decode().splitlines())
            self.send_response(int(fields.pop("Status", "200").split()[0]))
            for name, value in fields.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Backend)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
