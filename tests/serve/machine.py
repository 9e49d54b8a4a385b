"""Machines of a company for tests: processes with homes of their own, of which one serves and others are its nodes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_AGENT = """\
import json, sys
from metier import Library, MetierError

library = Library.discover()
session = library.session()
for line in sys.stdin:
    order, name = json.loads(line)
    answer = {}
    try:
        if order == "load":
            answer = {"changed": list(session.load(name).changed)}
        elif order == "read":
            answer = {"text": session.read("SKILL.md", skill=name).text}
        elif order == "decide":
            answer = {"changed": list(library.session().load(name).changed)}
    except MetierError as error:
        answer = {"error": error.code, "message": error.message}
    print(json.dumps(answer), flush=True)
"""
_READY_SECONDS = 30.0


class Machine:
    """A machine: its own home, settings and data."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir(parents=True)
        (folder / "home").mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("METIER_", "XDG_"))}
        self.environ = {
            **kept,
            "HOME": str(folder / "home"),
            "METIER_DATA": str(folder / "data"),
            "METIER_CONFIG": str(folder / "config"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            **variables,
        }

    def metier(self, *words: str, code: int | None = 0, **variables: str) -> Any:
        """Run a command; returns its JSON where it printed that, else its text."""
        done = subprocess.run(
            [sys.executable, "-m", "metier", *words],
            cwd=self.work,
            env={**self.environ, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert code in (None, done.returncode), f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        try:
            return json.loads(done.stdout)
        except ValueError:
            return done.stdout + done.stderr

    @contextlib.contextmanager
    def server(self, *words: str) -> Iterator[Server]:
        """Serve this machine's store."""
        with Server(self, *words) as server:
            yield server

    @contextlib.contextmanager
    def agent(self) -> Iterator[Callable[[str, str], dict[str, Any]]]:
        """A program with one long session; takes orders."""
        running = subprocess.Popen(
            [sys.executable, "-c", _AGENT],
            cwd=self.work,
            env=self.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert running.stdin is not None
        assert running.stdout is not None

        def order(what: str, name: str = "") -> dict[str, Any]:
            assert running.stdin is not None
            assert running.stdout is not None
            running.stdin.write(json.dumps([what, name]) + "\n")
            running.stdin.flush()
            found: dict[str, Any] = json.loads(running.stdout.readline())
            return found

        try:
            yield order
        finally:
            running.stdin.close()
            try:
                running.wait(20)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()
            running.stdout.close()


class Server:
    """A server that a machine runs."""

    def __init__(self, machine: Machine, *words: str) -> None:
        self.machine, self._words = machine, words
        self.url = self.token = ""
        self._running: subprocess.Popen[str] | None = None

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def port(self) -> str:
        """The port that it listens on."""
        return self.url.rpartition(":")[2]

    def start(self, port: str = "0") -> None:
        """Start it, and wait until it answers."""
        self._running = subprocess.Popen(
            [sys.executable, "-m", "metier", "serve", "--port", port, "--json", *self._words],
            cwd=self.machine.work,
            env=self.machine.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._running.stdout is not None
        text = ""
        for line in self._running.stdout:
            text += line
            with contextlib.suppress(ValueError):
                ready = json.loads(text)
                self.url, self.token = ready["url"], ready["token"] or self.token
                return
        raise AssertionError(f"the server ended: {self._running.wait()}")

    def send(self, order: signal.Signals) -> None:
        """Send it a signal that does not end it."""
        assert self._running is not None
        self._running.send_signal(order)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Stop it; returns its exit code."""
        running, self._running = self._running, None
        if running is None:
            return 0
        running.send_signal(how)
        code = running.wait(30)
        if running.stdout is not None:
            running.stdout.close()
        return code


def until(holds: Callable[[], Any], seconds: float = _READY_SECONDS) -> Any:
    """Wait until something holds, and return it."""
    end = time.monotonic() + seconds
    while True:
        found = holds()
        if found or time.monotonic() > end:
            return found
        time.sleep(0.05)
