"""The program that clients run for each tool call, and the line of their configuration that runs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from metier import MetierError
from metier.serve.client_hooks import fast_client
from metier.serve.client_hooks.fast_client import hook_command, hook_path, hook_program, is_written

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a command of a POSIX shell")

SHELLS = [shell for shell in ("sh", "bash", "zsh", "fish") if shutil.which(shell)]


def run(command: str, shell: str = "sh") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([shell, "-c", command], input=b"{}", capture_output=True, check=False)


def write_hook(text: str) -> None:
    Path(hook_path()).parent.mkdir(exist_ok=True)
    Path(hook_path()).write_text(text)
    os.chmod(hook_path(), 0o700)


def test_the_program_is_written_for_its_user_alone_and_once() -> None:
    path = hook_program()
    assert path == hook_path()
    assert os.stat(path).st_mode & 0o777 == 0o700
    before = os.stat(path)
    assert hook_program() == path
    assert os.stat(path).st_ino == before.st_ino
    os.chmod(path, 0o755)
    assert not is_written()
    hook_program()
    assert is_written()
    Path(path).write_bytes(b"#!/bin/sh\n")
    hook_program()
    assert is_written()


def test_a_link_in_its_place_is_replaced_and_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("kept")
    Path(hook_path()).parent.mkdir()
    os.symlink(other, hook_path())
    hook_program()
    assert other.read_text() == "kept"
    assert not os.path.islink(hook_path())


def test_it_is_not_written_into_a_folder_that_others_write_to() -> None:
    folder = Path(hook_path()).parent
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(MetierError, match="others may write"):
        hook_program()
    assert not os.listdir(folder)


@pytest.mark.each(
    ("text", "fail", "code"),
    [
        (None, "closed", 2),
        (None, "open", 0),
        ("#!/bin/sh\nexit 0\n", "closed", 0),
        ("#!/bin/sh\nexit 2\n", "closed", 2),
        ("#!/bin/sh\nexit 2\n", "open", 2),
        ("#!/bin/sh\nexit 1\n", "closed", 2),
        ("#!/bin/sh\nkill -9 $$\n", "closed", 2),
        ("#!/nowhere/perl\n", "closed", 2),
        ("#!/nowhere/perl\n", "open", 126),
    ],
)
def test_the_line_ends_as_the_program_does_and_blocks_where_that_fails(text: str | None, fail: str, code: int) -> None:
    if text is not None:
        write_hook(text)
    elif os.path.exists(hook_path()):
        os.remove(hook_path())
    for shell in SHELLS:
        for is_user in (True, False):
            done = run(hook_command("claude-code", fail=fail, is_user=is_user), shell)  # type: ignore[arg-type]
            assert done.returncode in ({126, 127} if code == 126 else {code}), shell
            if code == 2 and fail == "closed":
                assert b"metier protect claude-code" in done.stderr, "some clients take a silent refusal for none"


def test_the_line_finds_the_program_in_a_home_with_a_quote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / 'it\'s "$HOME" `x`'
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    write_hook('#!/bin/sh\ncat >/dev/null; echo "$1"\n')
    for is_user in (True, False):
        assert run(hook_command("codex", is_user=is_user)).stdout == b"codex\n"


def test_no_hook_relies_on_a_cache(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", f"{own_home}/.cache/uv/archive-v0/x1")
    with pytest.raises(MetierError, match="uvx") as told:
        hook_program()
    assert "uv tool install" in told.value.hint
    assert not os.path.exists(hook_path())


def test_without_a_perl_of_the_system_python_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_client, "_PERLS", ("/nowhere/perl",))
    text = Path(hook_program()).read_text()
    assert text.startswith("#!/bin/sh\n")
    assert f"{sys.executable} -I -m metier.serve.client_hooks" in text


@pytest.mark.skipif(not os.path.exists("/usr/bin/perl"), reason="no Perl")
def test_the_program_is_strict_perl() -> None:
    done = subprocess.run(["/usr/bin/perl", "-T", "-Mstrict", "-c", hook_program()], capture_output=True, check=False)
    assert done.stderr.endswith(b"syntax OK\n")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no alarms")
def test_a_decision_that_takes_too_long_is_a_refusal() -> None:
    code = "from metier.serve.client_hooks import direct; direct._SECONDS = 1; direct.run_hook('codex')"
    with subprocess.Popen(
        [sys.executable, "-I", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as hook:
        assert hook.wait(20) == 2
        assert hook.stdout is not None and hook.stderr is not None
        assert hook.stdout.read() == b""
        assert b"in time" in hook.stderr.read(), "some clients take a silent refusal for none"
