"""Scripts of skills as they run by default: in the strongest sandbox of this machine, or where it has none without."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tables import thinned

from metier import Policy, Session
from metier.errors import FileRefused
from metier.run.environment import MAX_VARIABLES

Begin = Callable[..., Session]
Files = Callable[..., dict[str, str]]

FREE = Policy(unsandboxed="allow")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="shell scripts as POSIX has them")


@pytest.mark.covers("O-68")
def test_the_workspace_is_made(begin: Begin, skill: Files, tmp_path: Path) -> None:
    assert not (tmp_path / "workspace").exists()
    session = begin(skill("a", **{"scripts/x.sh": "echo here > made"}), skills=["a"], policy=FREE)
    assert session.run_blocking("scripts/x.sh").is_success
    assert (tmp_path / "workspace" / "made").read_text() == "here\n"


@pytest.mark.covers("O-69", "G-36", "G-37")
@pytest.mark.each(
    ("name", "text", "exit_code", "output"),
    [
        ("scripts/x.py", "print('hello')", 0, "hello\n"),
        ("scripts/x.sh", "echo hello", 0, "hello\n"),
        ("scripts/x.bash", "echo hello", 0, "hello\n"),
        ("scripts/X.PY", "print('hello')", 0, "hello\n"),
        ("scripts/deep/er/x.sh", "echo hello", 0, "hello\n"),
        ("scripts/x.sh", "echo before; exit 1", 1, "before\n"),
        ("scripts/x.py", "print('before', flush=True)\nraise SystemExit(1)", 1, "before\n"),
    ],
)
def test_a_script_runs_by_its_extension_and_its_output_is_kept(
    begin: Begin, skill: Files, name: str, text: str, exit_code: int, output: str
) -> None:
    outcome = begin(skill("a", **{name: text}), skills=["a"], policy=FREE).run_blocking(name)
    assert (outcome.exit_code, outcome.stdout, outcome.is_success) == (exit_code, output, exit_code == 0)
    assert outcome.duration_ms > 0


@pytest.mark.covers("O-69", "O-74")
@thinned("value", ['"; rm -rf /"', "$(touch PWNED)", "`touch PWNED`", "a\nb", "'", "ä€😀"], one_in=3)
def test_a_variable_arrives_literally(begin: Begin, skill: Files, tmp_path: Path, value: str) -> None:
    session = begin(skill("a", **{"scripts/x.sh": 'printf %s "$INPUT_X"'}), skills=["a"], policy=FREE)
    assert session.run_blocking("scripts/x.sh", env={"INPUT_X": value}).stdout == value
    assert not (tmp_path / "workspace" / "PWNED").exists()


@pytest.mark.covers("O-71")
@pytest.mark.parametrize("script", ["env", "cat /proc/*/environ /proc/$PPID/environ 2>/dev/null; true"])
def test_secrets_of_the_host_are_not_visible(
    begin: Begin, skill: Files, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    for name in ("AWS_SECRET_KEY", "API_TOKEN", "DATABASE_PASSWORD"):
        monkeypatch.setenv(name, "hush-hush")
    session = begin(skill("a", **{"scripts/x.sh": script}), skills=["a"], policy=FREE)
    if script != "env" and not session.parts.sandbox.isolates():
        pytest.skip("a plain process sees others of its user")
    outcome = session.run_blocking("scripts/x.sh")
    assert outcome.is_success
    assert "hush-hush" not in outcome.stdout + outcome.stderr


GRANDCHILD = """\
import os, signal, subprocess, sys, time
if len(sys.argv) > 1:
    if os.fork() or os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    open("mark", "w").write("alive")
    time.sleep(300)
subprocess.Popen([sys.executable, __file__, "metier-grandchild-of-a-test"])
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(300)
"""


def survivors() -> list[bytes]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            line = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            if b"metier-grandchild-of-a-test" in line:
                found.append(line)
    return found


@pytest.mark.covers("O-70", "G-36")
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing keeps track of a process that hides well")
def test_a_script_that_takes_too_long_is_ended_with_all_that_it_started(begin: Begin, skill: Files) -> None:
    session = begin(skill("a", **{"scripts/x.py": GRANDCHILD}), skills=["a"], policy=FREE)
    assert session.parts.sandbox.isolates() in (
        True,
        False,
    )  # what this machine can do is found out before the clock starts
    started = time.monotonic()
    outcome = session.run_blocking("scripts/x.py", seconds=1)
    assert time.monotonic() - started < 3, "within two seconds of its limit"
    assert (outcome.exit_code, outcome.timed_out, outcome.is_success) == (124, True, False)
    assert Path(session.context.workspace, "mark").read_text() == "alive", "it was there"
    assert survivors() == []


@pytest.mark.covers("O-72")
@pytest.mark.parametrize(
    "name", ["scripts/a;touch PWNED.sh", "scripts/$(touch PWNED).sh", "scripts/grün-名前.sh", "scripts/a b.sh"]
)
def test_the_name_of_a_script_is_a_name(begin: Begin, skill: Files, tmp_path: Path, name: str) -> None:
    outcome = begin(skill("a", **{name: "echo fine"}), skills=["a"], policy=FREE).run_blocking(name)
    assert outcome.stdout == "fine\n"
    assert not list(tmp_path.rglob("PWNED*"))


@pytest.mark.covers("O-72", "G-36")
def test_a_flood_of_output_is_cut(begin: Begin, skill: Files) -> None:
    script = "import sys\nsys.stdout.write('x' * 10_000_000)\n"
    outcome = begin(skill("a", **{"scripts/x.py": script}), skills=["a"], policy=FREE).run_blocking("scripts/x.py")
    assert (len(outcome.stdout), outcome.stdout_truncated) == (256 * 1024, True)
    tight = Policy(unsandboxed="allow", limits={"output_bytes": 1024})
    short = begin(skill("a", **{"scripts/x.py": "print('x' * 3000)"}), skills=["a"], policy=tight)
    outcome = short.run_blocking("scripts/x.py")
    assert (len(outcome.stdout), outcome.is_truncated, outcome.exit_code) == (1024, True, 0)


@pytest.mark.covers("O-72", "G-36")
def test_a_loop_and_a_memory_bomb_end(begin: Begin, skill: Files) -> None:
    scripts = {
        "scripts/loop.py": "while True: pass\n",
        "scripts/bomb.py": "data = []\nwhile True: data.append(bytearray(50_000_000))\n",
    }
    session = begin(skill("a", **scripts), skills=["a"], policy=FREE)
    loop = session.run_blocking("scripts/loop.py", seconds=0.15)
    assert (loop.exit_code, loop.timed_out) == (124, True)
    if sys.platform == "linux":
        assert not session.run_blocking("scripts/bomb.py", seconds=20).is_success


@pytest.mark.covers("G-36")
def test_a_script_needs_no_permission_to_be_executed(
    begin_in: Begin, write_skill: Callable[..., Path], tmp_path: Path
) -> None:
    root = write_skill(tmp_path / "s" / "a").parent
    (root / "scripts").mkdir()
    (root / "scripts" / "x.sh").write_text("echo fine")
    (root / "scripts" / "x.sh").chmod(0o644)
    session = begin_in(tmp_path / "s", skills=["a"], policy=FREE)
    (Path(session.context.workspace) / "sub").mkdir(parents=True)
    outcome = session.run_blocking("scripts/x.sh", folder="sub")
    assert outcome.stdout == "fine\n", "its path is that of the skill, wherever it works"


@pytest.mark.covers("G-35")
def test_as_many_variables_as_may_be_passed_are_passed(begin: Begin, skill: Files) -> None:
    session = begin(skill("a", **{"scripts/x.sh": "env | grep -c ^INPUT_"}), skills=["a"], policy=FREE)
    env = {f"INPUT_{number}": "x" * 100 for number in range(MAX_VARIABLES)}
    assert session.run_blocking("scripts/x.sh", env=env).stdout == f"{MAX_VARIABLES}\n"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="users as POSIX has them")
def test_nothing_of_a_run_stays_behind(
    begin: Begin, skill: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    session = begin(skill("a", **{"scripts/x.sh": 'echo x > "$TMPDIR/left"'}), skills=["a"], policy=FREE)
    assert session.run_blocking("scripts/x.sh").is_success
    session.close()
    if session.parts.sandbox.isolates():
        assert [path for path in scratch.iterdir() if not path.name.startswith("skill-idle-")] == []


def test_a_script_runs_by_the_path_that_the_model_was_told(begin_in: Begin, scripted: Path) -> None:
    session = begin_in(scripted.parent, skills=["a"], policy=FREE)
    assert session.run_blocking(f"{session.loaded.one('a').root}/scripts/x.sh").stdout == "of a\n"


@pytest.mark.parametrize(
    "path", ["{root}/../b/scripts/x.sh", "{root}b/scripts/x.sh", "{root}/scripts/../../b/scripts/x.sh"]
)
def test_a_script_of_another_skill_does_not_run_by_its_path(begin_in: Begin, scripted: Path, path: str) -> None:
    session = begin_in(scripted.parent, skills=["a"], policy=FREE)
    with pytest.raises(FileRefused):
        session.run_blocking(path.format(root=session.loaded.one("a").root), skill="a")


@pytest.fixture
def scripted(tmp_path: Path, write_skill: Callable[..., Path]) -> Path:
    """A skill with a script, beside two others, one of which is named as it begins."""
    for name in ("a", "b", "ab"):
        folder = write_skill(tmp_path / "s" / name).parent
        (folder / "scripts").mkdir()
        (folder / "scripts" / "x.sh").write_text(f"echo of {name}\n")
    return tmp_path / "s" / "a"
