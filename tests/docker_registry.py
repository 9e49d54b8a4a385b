"""The registry that Debian has, for tests that speak with a real one."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def docker_registry(tmp_path: Path) -> Iterator[str]:
    """The registry of Debian, on a port of its own."""
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("docker-registry is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{free.getsockname()[1]}"
    config = {
        "version": "0.1",
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(tmp_path / "registry")}},
        "http": {"addr": host},
    }
    (tmp_path / "registry.yml").write_text(json.dumps(config))
    with (tmp_path / "registry.log").open("wb") as log:
        process = subprocess.Popen([program, "serve", str(tmp_path / "registry.yml")], stdout=log, stderr=log)
    try:
        until = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{host}/v2/", timeout=5):
                break
            assert process.poll() is None and time.monotonic() < until, (tmp_path / "registry.log").read_text()
            threading.Event().wait(0.05)
        yield host
    finally:
        process.terminate()
        process.wait(30)
