"""Programs that the shell hands over, run for real by the plain runner and, where there is one, by a sandbox."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from metier.run import PlainRunner, Runner
from metier.run.virtual import ShellLimits, VirtualShell
from metier.run.virtual.native_bridge import checked_files, checked_request

pytestmark = pytest.mark.skipif(os.name != "posix", reason="programs are started as POSIX does")

SKILL = {
    "SKILL.md": b"a skill\n",
    "scripts/tool.py": b"#!/usr/bin/env python3\nimport sys\nprint('tool', sys.argv[1:])\n",
    "scripts/read.py": b"import os\nprint(open(os.path.dirname(__file__) + '/../SKILL.md').read(), end='')\n",
}


def runners() -> list[Runner]:
    found: list[Runner] = [PlainRunner()]
    try:
        from metier.run.native import NativeRunner
    except ImportError:
        return found
    native = NativeRunner()
    return [*found, native] if native.capabilities().isolates_files else found


@pytest.fixture(scope="module", params=runners(), ids=lambda runner: str(runner.name))
def _outside(request: pytest.FixtureRequest) -> Iterator[tuple[VirtualShell, bytes]]:
    with VirtualShell(folder="/workspace", native=request.param) as shell:
        shell.mount("demo", SKILL)
        yield shell, shell.snapshot()


@pytest.fixture
def outside(_outside: tuple[VirtualShell, bytes]) -> VirtualShell:
    """A shell that has programs."""
    shell, beginning = _outside
    shell.restore(beginning)
    return shell


def test_without_a_runner_there_are_no_programs(shell: VirtualShell) -> None:
    for name in ("python3", "python", "node", "/usr/bin/python3", "env python3"):
        outcome = shell.execute(f"{name} -c 1; echo $?")
        assert outcome.stdout == "126\n"
        assert "no sandbox to run it in" in outcome.stderr


def test_a_program_reads_and_writes_the_workspace(outside: VirtualShell) -> None:
    outside.execute("echo old > changed; echo x > removed; mkdir d; echo same > d/same")
    outcome = outside.execute(
        "python3 - <<'E'\n"
        "import os\n"
        "print(open('changed').read(), end='')\n"
        "open('changed', 'w').write('new')\n"
        "os.remove('removed')\n"
        "os.makedirs('d/e')\n"
        "open('d/e/made', 'wb').write(bytes(range(256)))\n"
        "os.symlink('changed', 'link')\n"
        "E"
    )
    assert (outcome.stdout, outcome.stderr, outcome.exit_code) == ("old\n", "", 0)
    assert outside.execute(
        "find . | sort; cat link"
    ).stdout == "./changed\n./d\n./d/e\n./d/e/made\n./d/same\n./link\nnew".replace("./changed", ".\n./changed")
    assert outside.read("/workspace/d/e/made") == bytes(range(256))


def test_input_output_and_code_pass_through(outside: VirtualShell) -> None:
    outcome = outside.execute(
        "echo in | python3 -c 'import sys; print(sys.stdin.read().upper(), sys.argv[1:]); sys.exit(7)' 'a b' | cat; "
        "echo ${PIPESTATUS[1]}"
    )
    assert outcome.stdout == "IN\n ['a b']\n7\n"


def test_scripts_of_skills_are_run_by_what_they_are_written_for(outside: VirtualShell) -> None:
    assert outside.execute("/.sandbox/skills/demo/scripts/tool.py a 'b c'").stdout == "tool ['a', 'b c']\n"
    assert outside.execute("cd /.sandbox/skills/demo/scripts; ./tool.py x").stdout == "tool ['x']\n"
    assert outside.execute("python3 /.sandbox/skills/demo/scripts/read.py").stdout == "a skill\n"
    assert outside.execute("cd /.sandbox/skills/demo/scripts; ./read.py").stdout == "a skill\n"
    outside.write("/workspace/own", "#!/usr/bin/python3\nprint('own')\n")
    assert outside.execute("cd /workspace; chmod +x own; ./own").stdout == "own\n"
    assert outside.execute("chmod -x own; ./own").exit_code == 126


def test_paths_of_the_shell_are_known_to_programs_as_arguments(outside: VirtualShell) -> None:
    outside.execute("echo data > f; echo top > /g; echo temporary > /tmp/t")
    program = "import sys; print([open(path).read().strip() for path in sys.argv[1:]])"
    outcome = outside.execute(f"python3 -c '{program}' /workspace/f /g /tmp/t f")
    assert outcome.stdout == "['data', 'top', 'temporary', 'data']\n"


def test_a_program_at_the_root_of_the_shell_works_there(outside: VirtualShell) -> None:
    assert (
        outside.execute("cd /; echo a > f; python3 -c \"open('g', 'w').write(open('f').read())\"; cat /g").stdout
        == "a\n"
    )


def test_programs_have_the_variables_of_the_shell_and_none_of_the_host(
    outside: VirtualShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOST_SECRET", "canary")
    outcome = outside.execute(
        "export MINE=1 LD_PRELOAD=/x PYTHONPATH=/y; unexported=2; "
        "python3 -c 'import os; print(sorted(os.environ.items()))'"
    )
    assert "('MINE', '1')" in outcome.stdout
    for word in ("canary", "HOST_SECRET", "LD_PRELOAD", "PYTHONPATH", "unexported"):
        assert word not in outcome.stdout


def test_a_program_that_takes_too_long_is_ended(outside: VirtualShell) -> None:
    outside.execute("v=kept")
    program = (
        'import sys; open("f", "w").write("made"); print(1, flush=True); print(2, file=sys.stderr, flush=True)\n'
        "while True: pass"
    )
    outcome = outside.execute(f"echo a; python3 -c '{program}'; echo never", seconds=0.5)
    assert (outcome.exit_code, outcome.timed_out, outcome.killed_by) == (124, True, "timeout")
    assert outcome.stdout == "a\n1\n", "what was written before is kept, and nothing runs after it"
    assert outcome.stderr.startswith("2\n")
    assert "exceeds its limit of 0.5 seconds" in outcome.stderr
    assert outcome.duration_ms < 10_000
    assert outside.execute("echo $v; cat f").stdout == "kept\nmade", "so are its files"


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("for _ in range(1100): os.mkdir('d'); os.chdir('d')", "100 folders inside one another"),
        ("for _ in range(60): os.mkdir('d' * 100); os.chdir('d' * 100)", "a path that exceeds the limit of 4096 bytes"),
    ],
    ids=["deep", "long"],
)
def test_folders_too_deep_for_the_shell_are_dropped_and_removed(
    outside: VirtualShell, quick_folder: Path, monkeypatch: pytest.MonkeyPatch, program: str, words: str
) -> None:
    quick_folder.chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(quick_folder))
    outside.execute("echo old > f")
    outcome = outside.execute(f"python3 -c \"import os; open('f', 'w').write('new')\n{program}\"")
    assert outcome.exit_code == 1
    assert "What it wrote is dropped" in outcome.stderr
    assert words in outcome.stderr
    assert outside.read("/workspace/f") == b"old\n"
    assert list(quick_folder.iterdir()) == []


def test_folders_that_nobody_may_enter_are_removed_too(
    outside: VirtualShell, quick_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick_folder.chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(quick_folder))
    program = "import os; os.makedirs('a/b/c'); open('a/b/c/f', 'w'); os.chmod('a/b/c', 0); os.chmod('a', 0)"
    outcome = outside.execute(f'python3 -c "{program}"')
    assert outcome.exit_code == 0, outcome.stderr
    assert list(quick_folder.iterdir()) == []


def test_what_a_program_writes_too_much_is_dropped() -> None:
    with VirtualShell(limits=ShellLimits(file_bytes=1_000, total_bytes=3_500), native=PlainRunner()) as shell:
        shell.write("/f", b"old")
        outcome = shell.execute(
            "cd /; python3 -c \"open('f','w').write('x'*500); open('g','w').write('y'*999)\"; ls /g"
        )
        assert outcome.exit_code == 0
        for number in range(3):
            program = f"open('h{number}','w').write('x'*999); open('f','w').write('new')"
            outcome = shell.execute(f'python3 -c "{program}"')
        assert outcome.exit_code != 0
        assert "exceeds the limit of 3500 bytes" in outcome.stderr
        assert shell.read("/f") == b"new"
        assert not shell.exists("/h2")


def test_nothing_is_left_of_the_copy(outside: VirtualShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    outside.execute("echo x > f; python3 -c 'print(1)'")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("metier-")] == []


@pytest.mark.each(
    "more",
    [
        {"argv": ["sh", "-c", "x"]}, {"argv": []}, {"argv": "python3"}, {"argv": ["python3", 1]},
        {"argv": ["python3", "a\0b"]}, {"argv": ["python3"] * 5_000}, {"env": {"A": 1}}, {"env": [1]},
        {"env": {"A": "\ud800"}}, {"folder": "/../x"}, {"folder": 1}, {"files": [["/a", "f", 420]]}, {"files": {}},
    ],
)  # fmt: skip
def test_a_request_that_no_shell_would_make_is_refused(more: dict[str, object]) -> None:
    head = {"argv": ["python3"], "env": {}, "folder": "/", "files": [], **more}
    with pytest.raises(ValueError, match=r"."):
        checked_request(head, [b""])


@pytest.mark.each(
    "record",
    [["/a/../b", "f", 1], ["a", "f", 1], ["/", "d", 1], ["/a", "x", 1], ["/a", "f", -1], ["/a", "f", True], [1, 2, 3]],
)
def test_a_record_that_is_none_is_refused(record: list[object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        checked_files([[*record, b""]])
