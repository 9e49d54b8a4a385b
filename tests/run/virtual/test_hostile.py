"""Commands that want out, or want all: each is an outcome, and the shell goes on."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable

import pytest

from metier.errors import ShellRefused
from metier.run.virtual import VirtualShell

linux = pytest.mark.skipif(sys.platform != "linux", reason="limits on memory are those of Linux")


def test_a_crash_of_the_interpreter_is_an_outcome(shell: VirtualShell, hostile: Callable[[str], str]) -> None:
    shell.mount("demo", {"SKILL.md": b"still there"})
    shell.execute("v=kept; cd /tmp; echo file > f; g() { echo $v; }")
    outcome = shell.execute(f"echo said; echo new > f; {hostile('crash')}")
    assert (outcome.killed_by, outcome.exit_code, outcome.runner) == ("crash", 139, "virtual")
    assert "it crashed" in outcome.stderr
    assert "as they were before this command" in outcome.stderr
    assert shell.execute("pwd; cat f; g; cat /.sandbox/skills/demo/SKILL.md").stdout == "/tmp\nfile\nkept\nstill there"


@linux
@pytest.mark.usefixtures("little_memory")
def test_running_out_of_memory_is_an_outcome(hostile: Callable[[str], str]) -> None:
    with VirtualShell() as fresh:
        fresh.execute("v=kept")
        outcome = fresh.execute(hostile("memory"))
        assert (outcome.killed_by, outcome.exit_code) == ("memory", 137)
        assert "out of memory" in outcome.stderr
        assert fresh.execute("echo $v").stdout == "kept\n"


def test_what_a_file_operation_wrote_is_there_after_a_crash(shell: VirtualShell, hostile: Callable[[str], str]) -> None:
    shell.write("/f", b"by hand")
    assert shell.execute(hostile("crash")).killed_by == "crash"
    assert shell.read("/f") == b"by hand"


def test_a_crash_in_the_very_first_command_is_an_outcome(hostile: Callable[[str], str]) -> None:
    with VirtualShell() as fresh:
        assert fresh.execute(hostile("crash")).killed_by == "crash"
        assert fresh.execute("echo alive").stdout == "alive\n"


@pytest.mark.parametrize(
    "command",
    [
        """e='eval "$e"'; eval "$e\"""",
        "while :; do :; done",
        ":(){ :|:& };:",
        "a=(); while :; do a+=(xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx); done",
        "sleep 100 & wait",
        "cat < <(while :; do echo x; done) > /dev/null",
        "until false; do echo x > /f; done",
    ],
)
def test_what_never_ends_is_ended(shell: VirtualShell, command: str) -> None:
    outcome = shell.execute(command, seconds=0.1)
    assert outcome.exit_code in (1, 124, 139)
    assert outcome.duration_ms < 5_000
    assert outcome.stderr
    assert shell.execute("echo alive").stdout == "alive\n"


@pytest.mark.parametrize(
    "command",
    [
        "x=a; while :; do x=$x$x; done",
        "yes",
        "yes | head -c 100000000 | wc -c",
        "echo a > f; while cat f f > g && cp g f; do :; done",
        "awk 'BEGIN{s=\"x\"; while(1) s=s s}'",
        "jq -n '[range(1000000000)]'",
        "echo {1..100000000}",
        "printf '%1000000000d' 1 | wc -c",
        "seq 1 1000000000 | tail -1",
        "f() { f; }; f",
        "ln -s a b; ln -s b a; cat a",
        "mkdir d; ln -s .. d/up; ls -R d/up/d/up/d | head -3",
        "head -c 99999999999 /dev/zero | wc -c",
        "$(printf '$(%.0s' $(seq 500))",
    ],
)
def test_what_would_take_all_meets_a_limit(shell: VirtualShell, command: str) -> None:
    outcome = shell.execute(command, seconds=20)
    assert outcome.killed_by is None
    assert len(outcome.stdout) <= shell.limits.output_bytes
    assert shell.execute("echo alive").stdout == "alive\n"


def test_nothing_of_the_host_is_visible(shell: VirtualShell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST_SECRET", "canary-4711")
    with VirtualShell() as fresh:
        seen = fresh.execute(
            "env; set; export -p; cat /proc/self/environ /proc/1/environ /proc/self/cmdline /etc/passwd /etc/hostname; "
            "ls -R /proc /home /root /tmp; jq -n env; awk 'BEGIN{for(k in ENVIRON) print k, ENVIRON[k]}'; echo $PPID; "
            "id; hostname; uname -a; cat /etc/shadow /work/* ~/.ssh/*"
        )
    assert "canary-4711" not in seen.stdout + seen.stderr
    host = os.uname().nodename if hasattr(os, "uname") else "nowhere"
    assert host not in seen.stdout
    # A Python of the system lies where every shell has something.
    assert sys.prefix in ("/usr", "/usr/local") or sys.prefix not in seen.stdout + seen.stderr


@pytest.mark.parametrize(
    "tool", ["curl -s http://127.0.0.1:{}", "wget -qO- http://127.0.0.1:{}", "cat < /dev/tcp/127.0.0.1/{}"]
)
def test_nobody_is_reached(shell: VirtualShell, tool: str) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        outcome = shell.execute(tool.format(server.getsockname()[1]), seconds=5)
        assert outcome.exit_code != 0
        with pytest.raises(TimeoutError):
            server.accept()


@pytest.mark.parametrize("name", ["ünïcode 漢字", "-rf", "$(echo x)", "`x`", "a;b", "'q'", "*", "x" * 255])
def test_odd_names_are_only_names(shell: VirtualShell, name: str) -> None:
    shell.write(f"/workspace/d/{name}", b"content")
    assert shell.execute('for f in d/*; do cat "$f"; done').stdout == "content"
    assert [entry.name for entry in shell.list("/workspace/d")] == [name]
    shell.remove(f"/workspace/d/{name}")
    assert shell.list("/workspace/d") == []


@pytest.mark.parametrize("name", ["a\u202eb", "new\nline", "zero\u200bwidth", "\ufeffmark", "bell\a", "\U000e0041tag"])
def test_names_that_look_like_others_are_refused(shell: VirtualShell, name: str) -> None:
    with pytest.raises(ShellRefused) as caught:
        shell.write(f"/workspace/{name}", b"x")
    assert "cannot be seen" in caught.value.message
    assert shell.execute(f"printf %s {shlex.quote(name)} | od -c | head -1; touch {shlex.quote(name)}").exit_code != 0
    assert shell.list("/workspace") == []


def test_what_is_no_utf_8_is_shown_as_replacement_characters(shell: VirtualShell) -> None:
    shell.write("/b", b"a\xff\xfeb\n")
    assert shell.execute("cat /b").stdout == "a\ufffd\ufffdb\n"
    assert shell.read("/b") == b"a\xff\xfeb\n"


def test_more_commands_than_an_interpreter_takes_are_taken() -> None:
    with VirtualShell() as fresh:
        for _ in range(1_050):
            fresh.execute("true")
        assert fresh.execute("echo alive").stdout == "alive\n"
