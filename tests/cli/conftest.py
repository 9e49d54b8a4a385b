"""Three ways to call the command: in this process, as a process of its own, and in a terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from metier.cli import main


@pytest.fixture(autouse=True)
def plain_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """No preference of the person who runs the tests reaches the command."""
    for variable in (
        *("NO_COLOR", "FORCE_COLOR", "COLUMNS", "_ARGCOMPLETE"),
        *("PYTHONIOENCODING", "PYTHONUNBUFFERED", "PYTHONUTF8", "PYTHONWARNINGS"),
    ):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.fixture
def metier(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Calls the command in this process; returns its exit code and what it wrote to either stream."""

    def call(*arguments: str | Path) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as leaving:
            assert isinstance(leaving.code, int)
            code = leaving.code
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture(scope="session")
def command() -> list[str]:
    """The installed command, or the module when there is none."""
    script = Path(sys.executable).with_name("metier")
    return [str(script)] if script.exists() else [sys.executable, "-m", "metier"]


@pytest.fixture
def process(command: list[str]) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """Runs the command as a process of its own."""

    def run(
        *arguments: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*command, *map(str, arguments)],
            env={**os.environ, **(env or {})},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
        )

    return run


@pytest.fixture
def terminal(command: list[str]) -> Callable[..., tuple[int, str]]:
    """Runs the command in a real terminal of some width; returns its exit code and what the terminal received."""
    if sys.platform == "win32":
        pytest.skip("there are no pseudo-terminals here")
    import fcntl
    import pty
    import struct
    import termios

    def run(*arguments: str | Path, columns: int = 80, env: Mapping[str, str] | None = None) -> tuple[int, str]:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        child = subprocess.Popen(
            [*command, *map(str, arguments)],
            env={**os.environ, **(env or {})},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        received = b""
        while True:
            try:
                chunk = os.read(ours, 65_536)
            except OSError:  # Linux says so when the other end is closed
                break
            if not chunk:
                break
            received += chunk
        os.close(ours)
        return child.wait(timeout=60), received.decode(errors="surrogateescape")

    return run
