"""A job begins with exactly what it was given, or says why it cannot begin."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.run.native.conftest import in_one_sandbox

from metier.run import CANNOT_START, NativeRunner, Outcome, command_for

Run = Callable[..., Outcome]

ECHO = """
import json, os, sys
print(json.dumps([[os.fsencode(word).hex() for word in sys.argv[1:]], dict(os.environ)]))
"""


def test_what_a_job_writes_and_how_it_ends_is_told(sh: Run) -> None:
    outcome = sh("echo out; echo err >&2; exit 3")
    assert (outcome.stdout, outcome.stderr, outcome.exit_code) == ("out\n", "err\n", 3)
    assert (outcome.is_truncated, outcome.killed_by, outcome.is_success) == (False, None, False)
    assert (outcome.runner, outcome.duration_ms > 0) == ("native", True)


@in_one_sandbox
@pytest.mark.parametrize("code", [0, 1, 7, 124, 126, 127, 255])
def test_the_code_that_a_job_ends_with_is_its_own(sh: Run, code: int) -> None:
    outcome = sh(f"exit {code}")
    assert (outcome.exit_code, outcome.killed_by, outcome.timed_out) == (code, None, False)


@pytest.mark.parametrize(("signal", "code"), [("KILL", 137), ("TERM", 143), ("SEGV", 139)])
def test_a_job_that_dies_of_a_signal_says_so(sh: Run, tier: str, signal: str, code: int) -> None:
    outcome = sh(f"echo before; kill -{signal} $$")
    assert (outcome.exit_code, outcome.stdout, outcome.is_success) == (code, "before\n", False)
    # Bubblewrap tells the code alone, which a job could also have ended with.
    assert outcome.killed_by == "signal" or tier == "bubblewrap"


@in_one_sandbox
def test_what_a_job_used_is_told(python: Run) -> None:
    usage = python("data = bytearray(60_000_000); sum(range(2_000_000))").usage
    assert usage.cpu_ms > 10
    assert 60_000_000 < usage.memory_bytes < 200_000_000


@in_one_sandbox
@pytest.mark.parametrize("data", [b"", b"hello", b"\x00\xff" * 5_000_000], ids=["empty", "short", "10 MB"])
def test_a_job_reads_its_input_to_the_end(python: Run, data: bytes) -> None:
    outcome = python("import sys, zlib; data = sys.stdin.buffer.read(); print(len(data), zlib.crc32(data))", stdin=data)
    import zlib

    assert outcome.stdout == f"{len(data)} {zlib.crc32(data)}\n"


def test_a_job_that_does_not_read_its_input_ends_all_the_same(run: Run) -> None:
    assert run("true", stdin=b"x" * 10_000_000).is_success


@pytest.mark.covers("O-71", "G-35")
def test_nothing_of_the_hosts_environment_is_visible(
    run: Run, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_SECRET_KEY", "API_TOKEN", "DATABASE_PASSWORD", "LD_PRELOAD_X", "VIRTUAL_ENV", "SSH_AUTH_SOCK"):
        monkeypatch.setenv(name, "s3cret-of-the-host")
    outcome = run("env", "-0", env={"GIVEN": "yes", "EMPTY": ""})
    found = dict(entry.partition("=")[::2] for entry in outcome.stdout.split("\0") if entry)
    assert "s3cret-of-the-host" not in outcome.stdout
    assert (found["GIVEN"], found["EMPTY"], found["HOME"]) == ("yes", "", str(workspace))
    known = {
        "PATH",
        "HOME",
        "LANG",
        "LC_ALL",
        "TZ",
        "TMPDIR",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONNOUSERSITE",
        "GIVEN",
        "EMPTY",
    }
    # What lets git work in a folder of another user, without the settings of this machine.
    assert known <= set(found) <= known | {"GIT_CONFIG_SYSTEM"}


def test_the_environment_of_other_processes_cannot_be_read(sh: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_KEY", "s3cret-of-the-host")
    outcome = sh(f"cat /proc/{os.getpid()}/environ /proc/1/environ /proc/$PPID/environ /proc/[0-9]*/environ")
    assert "s3cret-of-the-host" not in outcome.stdout


WORDS = ["", " ", "a b", "'", '"', "\n", "a\nb\n", "$(touch x)", "`touch x`", "; rm -rf /", "-n", "--", "*", "\\",
         "ünï ✓", "\udcff\udc80", "\x01\x7f", "x" * 100_000]  # fmt: skip


@pytest.mark.covers("O-74")
def test_arguments_and_values_arrive_as_they_are(python: Run, workspace: Path) -> None:
    outcome = python(ECHO, *WORDS, env={f"V{at}": word for at, word in enumerate(WORDS)}, output_bytes=1_000_000)
    words, env = json.loads(outcome.stdout)
    assert words == [os.fsencode(word).hex() for word in WORDS]
    assert [env[f"V{at}"] for at in range(len(WORDS))] == WORDS
    assert list(workspace.iterdir()) == []


text = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=40)


@given(words=st.lists(text, max_size=8), values=st.lists(text, max_size=4))
@settings(max_examples=int(os.environ.get("METIER_EXAMPLES", "5")), suppress_health_check=list(HealthCheck))
@in_one_sandbox
def test_any_text_arrives_as_it_is(run: Run, words: list[str], values: list[str]) -> None:
    env = {f"V{at}": value for at, value in enumerate(values)}
    names = [f"V{at}" for at in range(len(values))]
    outcome = run("bash", "-c", 'printf "%s\\0" "$@"; for n in $N; do printf "%s\\0" "${!n}"; done', "bash", *words,
                  env={**env, "N": " ".join(names)})  # fmt: skip
    # Without words, `printf` still writes its format once.
    assert outcome.stdout.split("\0")[:-1] == [*(words or [""]), *values]


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (("no-such-program",), "No such file"),
        (("./no-such-script",), "No such file"),
        (("./no-such-\udcff",), "No such file"),
        (("/no/such/program",), "No such file"),
        (("/",), "Permission denied"),
        (("/etc/passwd",), "Permission denied"),
        (("./plain",), "Permission denied"),
        (("echo", "a\0b"), "NUL"),
        (("a\0b",), "NUL"),
        (("echo", "\ud800"), "surrogates not allowed"),
        (("echo", "x" * 2_000_000), "Argument list too long"),
        (("x" * 2_000_000,), "File name too long"),
        ((), "needs a program"),
        (("",), "needs a program"),
        (("echo", 1), "arguments that are text"),
    ],
    ids=lambda value: repr(value)[:40],
)
@in_one_sandbox
def test_a_job_that_cannot_start_says_why(run: Run, workspace: Path, argv: tuple[Any, ...], reason: str) -> None:
    (workspace / "plain").write_text("not executable")
    outcome = run(*argv)
    assert (outcome.exit_code, outcome.killed_by) == (CANNOT_START, None)
    assert reason in outcome.stderr
    assert len(outcome.stderr) < 1_000
    assert outcome.stdout == ""


@in_one_sandbox
@pytest.mark.parametrize(
    ("env", "reason"),
    [
        ({"A=B": "x"}, "environment variable"),
        ({"": "x"}, "environment variable"),
        ({"A": "x\0y"}, "NUL"),
        ({"A\0": "x"}, "NUL"),
        ({"A": "\ud800"}, "surrogates not allowed"),
        ({"A": 1}, "text"),
        ({1: "x"}, "text"),
        ({b"A": "x"}, "text"),
        ({"A": "x" * 3_000_000}, "Argument list too long"),
        ({f"A{at}": "x" * 60_000 for at in range(200)}, "Argument list too long"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_an_environment_that_cannot_be_passed_is_an_answer(run: Run, env: Any, reason: str) -> None:
    outcome = run("true", env=env)
    assert outcome.exit_code == CANNOT_START
    assert reason in outcome.stderr
    assert len(outcome.stderr) < 1_000


@in_one_sandbox
@pytest.mark.parametrize("name", ["gone", "gone/deeper", "file", "relative", ""])
def test_a_working_folder_that_is_none_is_named(run: Run, workspace: Path, name: str) -> None:
    (workspace / "file").write_text("")
    outcome = run("true", folder=name if name in ("relative", "") else workspace / name)
    assert outcome.exit_code == CANNOT_START
    assert (name or "''") in outcome.stderr


def test_a_program_is_found_relative_to_the_working_folder(run: Run, workspace: Path) -> None:
    script = workspace / "bin" / "tool"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\necho ran $0 $1\n")
    script.chmod(0o755)
    assert run("./bin/tool", "x").stdout == "ran ./bin/tool x\n"
    assert run("bin/tool", "x").stdout == "ran bin/tool x\n"


def test_a_program_beside_a_script_is_not_found_by_its_name_alone(run: Run, workspace: Path) -> None:
    script = workspace / "ls"
    script.write_text("#!/bin/sh\necho an impostor\n")
    script.chmod(0o755)
    assert run("ls").stdout == "ls\n"


STRANGE: list[dict[str, int]] = [
    {"memory_bytes": 0}, {"memory_bytes": -1}, {"memory_bytes": 1}, {"memory_bytes": 1 << 70}, {"processes": 0},
    {"processes": -5}, {"processes": 1 << 40}, {"open_files": 0}, {"open_files": 3}, {"open_files": 1 << 40},
    {"disk_bytes": 0}, {"disk_bytes": -1}, {"disk_bytes": 1 << 60}, {"file_bytes": 0}, {"file_bytes": -1},
    {"file_bytes": 1 << 62}, {"output_bytes": -1}, {"output_bytes": 0},
]  # fmt: skip


@in_one_sandbox
def test_limits_that_are_no_sizes_are_kept_or_refused_and_no_exception(run: Run) -> None:
    for limits in STRANGE:
        outcome = run("true", **limits)
        is_refused = outcome.exit_code == CANNOT_START and outcome.stderr
        assert outcome.is_success or is_refused or outcome.killed_by, (limits, outcome)
    # And the next job is none the worse for it.
    assert run("true").is_success


def test_one_process_is_enough_for_a_program(run: Run) -> None:
    assert run("true", processes=1).is_success


def test_what_is_enforced_is_told(runner: NativeRunner, tier: str) -> None:
    found = runner.capabilities()
    assert found.isolates_files
    assert found.isolates_network
    assert found.kills_descendants
    assert found.filters_calls
    assert found.hides_files == (tier != "landlock")
    assert found.filters_hosts == (tier != "landlock")
    assert "seccomp" in found.how
    assert (runner.name, runner.tier) == ("native", tier)


@pytest.mark.skipif(not pytest.__file__.startswith(sys.prefix), reason="its packages are found by a variable")
def test_the_interpreter_of_this_process_runs_with_its_packages(run: Run) -> None:
    outcome = run(sys.executable, "-c", "import pytest; print(pytest.__version__)")
    assert outcome.stdout == f"{pytest.__version__}\n"


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder that is not among temporary files, which are others for a job."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder).resolve()


@pytest.mark.parametrize("link", ["venv", "venv/bin"])
def test_a_script_starts_in_an_environment_whose_folder_is_reached_by_a_link(
    run: Run, workspace: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch, link: str
) -> None:
    real = elsewhere / "real"
    (real / "bin").mkdir(parents=True)
    base = os.path.realpath(sys.executable)
    (real / "bin" / "python3").symlink_to(base)
    (real / "pyvenv.cfg").write_text(f"home = {os.path.dirname(base)}\n")
    (elsewhere / link).parent.mkdir(exist_ok=True)
    (elsewhere / link).symlink_to(real if link == "venv" else real / "bin")
    monkeypatch.setenv("PATH", f"{elsewhere / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}")
    (workspace / "a.py").write_text("import sys; print(sys.prefix)\n")
    outcome = run(*command_for(str(workspace / "a.py")))
    assert (outcome.stdout.strip(), outcome.exit_code) == (str(real), 0), outcome
