"""Ways to call the command: in this process, at a terminal or not, and as a process of its own, anew or forked."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from metier.cli import main
from metier.cli.parser import TopParser, parser_of


@pytest.fixture(scope="session", autouse=True)
def one_parser() -> Iterator[None]:
    """Parsers are made once: they are a part of what a call costs, and always the same."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("metier.cli.parser.parser_of", functools.cache(parser_of))
        monkeypatch.setattr("metier.cli.parser.TopParser", functools.cache(TopParser))
        yield


@pytest.fixture(autouse=True)
def plain_surroundings(monkeypatch: pytest.MonkeyPatch, quiet_files: None) -> None:
    """No preference of the person who runs the tests reaches the command, which waits for no file."""
    for variable in (
        *("NO_COLOR", "FORCE_COLOR", "COLUMNS", "_ARGCOMPLETE"),
        *("PYTHONIOENCODING", "PYTHONUNBUFFERED", "PYTHONUTF8", "PYTHONWARNINGS"),
    ):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository to stand in."""
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody types what a test calls: of what people decide, a script decides nothing once there are people."""
    monkeypatch.setattr("metier.cli.identity.is_at_terminal", lambda: True)


@pytest.fixture
def metier(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    """Calls the command in this process, with something to read if it is to; returns its exit code and both outputs."""

    def call(*arguments: str | Path, given: str | bytes | None = None) -> tuple[int, str, str]:
        if given is not None:
            data = given.encode() if isinstance(given, str) else given
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
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


@pytest.fixture(scope="session")
def forked(programs: Path) -> list[str]:
    """The command as processes that need not import everything again, where that is not the point."""
    return [str(programs / "metier")]


@pytest.fixture
def process(command: list[str], forked: list[str]) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """Runs the command as a process of its own: a new interpreter where it is told something by its environment."""

    def run(
        *arguments: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*(forked if env is None else command), *map(str, arguments)],
            env={**os.environ, **(env or {})},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
        )

    return run


@pytest.fixture
def terminal() -> Callable[..., tuple[int, str]]:
    """Calls the command in a real terminal of some width; returns its exit code and what the terminal received."""
    if sys.platform == "win32":
        pytest.skip("there are no pseudo-terminals here")
    import fcntl
    import pty
    import struct
    import termios

    def run(*arguments: str | Path, columns: int = 80, env: Mapping[str, str] | None = None) -> tuple[int, str]:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        received: list[bytes] = []

        def receive() -> None:
            with contextlib.suppress(OSError):  # Linux says so when the other end is closed
                while chunk := os.read(ours, 65_536):
                    received.append(chunk)

        reader = threading.Thread(target=receive)
        reader.start()
        try:
            with (
                pytest.MonkeyPatch.context() as patch,
                open(theirs, encoding="utf-8", closefd=False) as stdin,
                open(theirs, "w", encoding="utf-8", closefd=False) as stdout,
                open(theirs, "w", encoding="utf-8", closefd=False) as stderr,
            ):
                for variable, value in (env or {}).items():
                    patch.setenv(variable, value)
                for name, stream in {"stdin": stdin, "stdout": stdout, "stderr": stderr}.items():
                    patch.setattr(sys, name, stream)
                    patch.setattr(sys, f"__{name}__", stream)
                try:
                    code = main([str(argument) for argument in arguments])
                except SystemExit as leaving:
                    assert isinstance(leaving.code, int)
                    code = leaving.code
        finally:
            os.close(theirs)
            reader.join(60)
            os.close(ours)
        return code, b"".join(received).decode(errors="surrogateescape")

    return run
