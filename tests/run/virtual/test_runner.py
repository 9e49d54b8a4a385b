"""Jobs that need nothing but a shell."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from metier.run import Job, Limits, PlainRunner
from metier.run.job import JobPath, OutputLine
from metier.run.virtual import VirtualRunner, worker_process
from metier.run.virtual.worker_process import PlainWorker, Worker, start_worker

pytestmark = pytest.mark.skipif(os.name != "posix", reason="paths and links as POSIX has them")


@pytest.fixture(scope="module")
def runner() -> Iterator[VirtualRunner]:
    with VirtualRunner() as runner:
        yield runner


@pytest.fixture(scope="module")
def handing() -> Iterator[VirtualRunner]:
    """A runner that hands programs over."""
    with VirtualRunner(native=PlainRunner()) as runner:
        yield runner


@pytest.fixture
def skill(tmp_path: Path, write_skill: Callable[..., Path]) -> Path:
    folder = write_skill(tmp_path / "skills/demo").parent
    (folder / "scripts").mkdir()
    (folder / "scripts/run.sh").write_text(
        'echo "$0 $# $1 $PWD"\ncat "$SKILL_DIR/SKILL.md" | head -1\nfalse\necho end\n'
    )
    return folder


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def bash(text: str, folder: Path | str = "/", **more: object) -> Job:
    return Job(argv=("bash", "-c", text), folder=str(folder), **more)  # type: ignore[arg-type]


def test_a_script_of_a_skill_runs_as_in_bash(runner: VirtualRunner, skill: Path, work: Path) -> None:
    job = Job(
        argv=("/bin/bash", str(skill / "scripts/run.sh"), str(work / "x")),
        folder=str(work),
        env={"SKILL_DIR": str(skill)},
        places=(JobPath(str(skill)),),
    )
    outcome = runner.run_blocking(job)
    assert outcome.stdout == f"/.sandbox/skills/demo/scripts/run.sh 1 {work}/x {work}\n---\nend\n"
    assert (outcome.exit_code, outcome.runner, outcome.killed_by) == (0, "virtual", None)


def test_a_script_that_sh_runs_stops_on_an_error(runner: VirtualRunner, skill: Path, work: Path) -> None:
    job = Job(
        argv=("sh", str(skill / "scripts/run.sh")),
        folder=str(work),
        env={"SKILL_DIR": str(skill)},
        places=(JobPath(str(skill)),),
    )
    outcome = runner.run_blocking(job)
    assert outcome.exit_code == 1
    assert "end" not in outcome.stdout


def test_what_a_job_changes_in_its_folder_is_copied_out(runner: VirtualRunner, work: Path) -> None:
    (work / "changed").write_text("old")
    (work / "removed").write_text("x")
    (work / "same").write_text("same")
    (work / "gone").mkdir()
    (work / "gone/f").write_text("x")
    before = (work / "same").stat().st_ino
    outcome = runner.run_blocking(
        bash(
            "cat changed; echo new > changed; rm -r removed gone; mkdir -p d/e; echo x > d/e/made; chmod +x changed",
            work,
        )
    )
    assert (outcome.stdout, outcome.stderr, outcome.exit_code) == ("old", "", 0)
    assert sorted(path.relative_to(work).as_posix() for path in work.rglob("*")) == [
        "changed",
        "d",
        "d/e",
        "d/e/made",
        "same",
    ]
    assert (work / "changed").read_text() == "new\n"
    assert os.access(work / "changed", os.X_OK)
    assert (work / "same").stat().st_ino == before, "what is the same is not touched"


def test_a_folder_takes_the_place_of_a_file_and_a_file_that_of_a_folder(runner: VirtualRunner, work: Path) -> None:
    for name in ("folder", "full"):
        (work / name).mkdir()
        (work / name / "in").write_text("x")
    (work / "file").write_text("x")
    places = (JobPath(str(work), is_writable=True), JobPath(str(work / "full/in"), is_hidden=True))
    script = "rm -r file folder full; mkdir file; echo a | tee file/in > folder; echo b > full"
    outcome = runner.run_blocking(bash(script, work, places=places))
    assert [(work / name).read_text() for name in ("file/in", "folder")] == ["a\n", "a\n"]
    assert (work / "full/in").read_text() == "x", "what is hidden in it is not removed with it"
    assert (outcome.exit_code, outcome.stderr) == (1, "Not changed: /full: Directory not empty\n")


def test_only_writable_places_change(runner: VirtualRunner, skill: Path, work: Path, tmp_path: Path) -> None:
    data, inner = tmp_path / "data", tmp_path / "data/out"
    inner.mkdir(parents=True)
    (data / "f").write_text("read me")
    places = (JobPath(str(skill)), JobPath(str(data)), JobPath(str(inner), is_writable=True))
    script = f"cat {data}/f; echo x > {data}/f; echo x > {data}/g; echo x > {inner}/h; echo x >> {skill}/SKILL.md"
    outcome = runner.run_blocking(bash(script, work, places=places))
    assert outcome.stdout == "read me"
    assert (data / "f").read_text() == "read me"
    assert sorted(path.name for path in data.iterdir()) == ["f", "out"]
    assert (inner / "h").read_text() == "x\n"
    assert "x" not in (skill / "SKILL.md").read_text().split("\n")


CLOSED: dict[str, tuple[dict[str, bool], str, str]] = {
    # Places in the workspace, each with whether it is hidden; what the job does; and what it must not see.
    "a hidden file": ({"keys": True}, "cat keys; echo evil > keys", "SECRET"),
    "a hidden file that is removed": ({"keys": True}, "rm -f keys; mkdir keys; echo evil > keys/x", "SECRET"),
    "a hidden file behind a link": ({"keys": True}, "ln -s keys alias; echo evil > alias; cat alias", "SECRET"),
    "a hidden folder": ({"state": True}, "ls state; mkdir -p state; echo evil > state/db", "SECRET"),
    "a folder of a hidden one": ({"state": True}, "mkdir -p state/new; echo evil > state/new/x", "SECRET"),
    "a hidden folder in the place of which a link is put": ({"state": True}, "ln -s . state", "SECRET"),
    "a hidden file that is a place besides": ({"keys": True, "./keys": False}, "cat keys; echo evil > keys", "SECRET"),
    "a hidden skill": ({"skill": True}, "cat skill/SKILL.md; echo evil > skill/SKILL.md", "Do it."),
    "a hidden file of a skill": ({"skill": False, "skill/keys": True}, "cat {work}/skill/keys", "SECRET"),
    "a file to read": ({"file": False}, "cat file; echo evil > file", ""),
    "a file to read that is removed": ({"file": False}, "rm file", ""),
    "a file to read whose mode changes": ({"file": False}, "chmod +x file", ""),
    "a folder to read with another in it": ({"read": False, "read/in": False}, "echo evil > read/f", ""),
    "a new file in a folder to read": ({"read": False, "read/in": False}, "echo evil > read/new", ""),
    "a folder to read with a hidden one in it": ({"read": False, "read/in": True}, "cat read/in/x; rm read/f", "INNER"),
    "a skill to read": ({"skill": False}, "cat skill/SKILL.md; echo evil >> skill/SKILL.md; echo evil > skill/x", ""),
    "a link to a folder to read": ({"link": False}, "rm -rf link; echo evil > link", ""),
    "a hidden link": ({"link": True}, "rm -rf link; echo evil > link", ""),
}


@pytest.mark.parametrize("case", CLOSED)
def test_nothing_closed_in_a_writable_place_is_written_back(
    runner: VirtualRunner, work: Path, write_skill: Callable[..., Path], case: str
) -> None:
    for folder in ("state", "read/in"):
        (work / folder).mkdir(parents=True)
    write_skill(work / "skill", body="Do it.")
    for name, text in {"keys": "SECRET", "state/db": "SECRET", "skill/keys": "SECRET", "read/in/x": "INNER"}.items():
        (work / name).write_text(text)
    for name in ("file", "read/f"):
        (work / name).write_text("as it was")
    (work / "link").symlink_to("read")
    places, script, secret = CLOSED[case]
    closed = [JobPath(os.path.normpath(work / name), is_hidden=is_hidden) for name, is_hidden in places.items()]
    before = _content_of(work, closed)
    outcome = runner.run_blocking(
        bash(
            f"{script.format(work=work)}; echo ok > fine", work, places=(JobPath(str(work), is_writable=True), *closed)
        )
    )
    assert _content_of(work, closed) == before
    assert (work / "fine").read_text() == "ok\n"
    assert not secret or secret not in outcome.stdout
    if "evil" in script:
        assert outcome.stderr, "and that is said"


def _content_of(work: Path, places: list[JobPath]) -> dict[str, object]:
    paths = [path for place in places for path in (Path(place.path), *Path(place.path).rglob("*"))]
    return {
        str(path.relative_to(work)): (path.lstat().st_mode, path.read_text() if path.is_file() else "")
        for path in paths
    }


def test_a_place_can_be_seen_elsewhere(runner: VirtualRunner, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    places = (JobPath(str(tmp_path), is_writable=True, at="/project"),)
    job = Job(argv=("bash", "-c", "pwd; cat /project/f; echo y > g"), folder="/project", places=places)
    assert runner.run_blocking(job).stdout == "/project\nx"
    assert (tmp_path / "g").read_text() == "y\n"


def test_words_and_variables_are_rewritten_where_folders_are_seen_elsewhere(
    runner: VirtualRunner, skill: Path, work: Path
) -> None:
    job = Job(
        argv=("bash", "-c", 'echo "$1 $2 $A $B"', "x", f"{skill}/a b", f"{skill}x"),
        folder=str(work),
        env={"A": str(skill), "B": f"not {skill}"},
        places=(JobPath(str(skill)),),
    )
    at = "/.sandbox/skills/demo"
    assert runner.run_blocking(job).stdout == f"{at}/a b {skill}x {at} not {skill}\n"


def test_files_that_run_outside_later_are_not_changed(runner: VirtualRunner, work: Path) -> None:
    (work / ".git/hooks").mkdir(parents=True)
    (work / ".bashrc").write_text("old")
    outcome = runner.run_blocking(
        bash(
            "echo evil > .git/hooks/pre-commit; echo evil > .bashrc; echo evil > .envrc; rm .bashrc; echo ok > fine",
            work,
        )
    )
    assert outcome.exit_code == 1
    assert "it is protected" in outcome.stderr
    assert (work / ".bashrc").read_text() == "old"
    assert list((work / ".git/hooks").iterdir()) == []
    assert not (work / ".envrc").exists()
    assert (work / "fine").read_text() == "ok\n"


@pytest.mark.covers("SEC-1", "SEC-3", "SEC-4")
def test_no_name_that_leads_to_a_protected_place_is_written_back(runner: VirtualRunner, work: Path) -> None:
    for folder in ("sub/.git/hooks", "bare/objects", "bare/refs", "vs", "real", "docs"):
        (work / folder).mkdir(parents=True)
    (work / "bare/HEAD").write_text("ref: refs/heads/main\n")
    (work / "bare/config").write_text("")
    (work / ".vscode").symlink_to("vs")
    (work / ".envrc").symlink_to("env/envrc")
    (work / "middle").symlink_to("real")
    (work / ".husky").symlink_to("middle")
    before = {path: path.read_text() for path in work.rglob("*") if path.is_file()}
    outcome = runner.run_blocking(
        bash(
            "echo evil > sub/.git/hooks/pre-commit; echo evil > sub/.git/config; echo evil > bare/config;"
            "echo evil > vs/tasks.json; mkdir env; echo evil > env/envrc; echo evil > docs/AGENTS.md;"
            "echo evil > .GIT; echo evil > new; mv new CLAUDE.md; echo evil | tee deep.md > /dev/null;"
            "mkdir .claude other; cp deep.md .claude/settings.json; rm middle; ln -s other middle;"
            "echo evil > real/pre-commit; echo evil > HEAD; rm bare/HEAD",
            work,
        )
    )
    assert outcome.exit_code == 1
    assert {path: path.read_text() for path in before} == before
    assert {path.name for path in work.rglob("*") if path.is_file() and path.read_text() == "evil\n"} == {"deep.md"}
    assert os.readlink(work / "middle") == "real"


@pytest.mark.covers("SEC-1")
def test_a_name_that_is_granted_is_written_back(runner: VirtualRunner, work: Path) -> None:
    (work / ".git/refs").mkdir(parents=True)
    command = "echo 1 > .git/index; echo 1 > AGENTS.md; echo evil > .git/config; echo evil > .envrc"
    outcome = runner.run_blocking(replace(bash(command, work), grants=(".git", "AGENTS.md")))
    assert outcome.exit_code == 1
    assert ((work / ".git/index").read_text(), (work / "AGENTS.md").read_text()) == ("1\n", "1\n")
    assert not (work / ".git/config").exists()
    assert not (work / ".envrc").exists()


def test_links_lead_neither_in_nor_out(runner: VirtualRunner, work: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("canary")
    (work / "leak").symlink_to(tmp_path / "secret")
    (work / "folder").symlink_to(tmp_path)
    outcome = runner.run_blocking(
        bash(
            "cat leak folder/secret; echo evil > leak; ln -s /etc/passwd out; ln -s ../secret up; "
            "ln -s f in; echo f > f",
            work,
        )
    )
    assert "canary" not in outcome.stdout
    assert (tmp_path / "secret").read_text() == "canary"
    assert not (work / "out").is_symlink()
    assert not (work / "up").is_symlink()
    assert (work / "in").read_text() == "f\n"


@pytest.mark.parametrize("target", ["/home/x", "../x", "missing", "/", "x" * 500, b"\xff\xfe"])
@pytest.mark.parametrize("script", ["true", "ls -l; echo x > made", "python3 -c \"open('made', 'w').write('x')\""])
def test_a_link_that_was_there_and_is_not_touched_does_not_matter(
    handing: VirtualRunner, work: Path, target: str | bytes, script: str
) -> None:
    os.symlink(os.fsencode(target), os.fsencode(work / "link"))
    outcome = handing.run_blocking(bash(script, work))
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    assert os.readlink(os.fsencode(work / "link")) == os.fsencode(target)
    assert (work / "made").exists() == ("made" in script)


@pytest.mark.parametrize(
    "script",
    [
        "rm link; ln -s /etc/passwd link; ln -s ../x up; echo kept > f",
        "python3 -c \"import os; os.remove('link'); os.symlink('/etc/passwd', 'link'); os.symlink('../x', 'up'); "
        "open('f', 'w').write('kept\\n')\"",
    ],
    ids=["shell", "program"],
)
def test_a_link_that_is_made_to_lead_out_is_refused_with_a_note(
    handing: VirtualRunner, work: Path, script: str
) -> None:
    (work / "link").symlink_to("/home/x")
    outcome = handing.run_blocking(bash(script, work))
    assert outcome.exit_code == 0, "nothing that was written is lost"
    assert outcome.stderr == (
        "Not made: /link: a link that leads elsewhere\nNot made: /up: a link that leads elsewhere\n"
    )
    assert os.readlink(work / "link") == "/home/x"
    assert not (work / "up").is_symlink()
    assert (work / "f").read_text() == "kept\n"


def test_nothing_of_a_job_is_there_for_the_next(runner: VirtualRunner) -> None:
    runner.run_blocking(
        bash(
            "echo secret > /tmp/f; echo secret > /home/user/f; export LEAK=1; leak() { :; }; alias leak2=x; cd /tmp; "
            "set -e; shopt -s nullglob; trap 'echo trapped' EXIT; umask 077; exec 5> /tmp/g; leak3=(1 2); "
            "readonly R=1; hash; pushd /home; IFS=,; unset PATH",
            env={"JOB_SECRET": "canary"},
        )
    )
    look = bash(
        'ls -A /tmp /home/user; echo "[$LEAK$leak3$R$JOB_SECRET]"; type leak; alias; pwd; echo $-; shopt nullglob; '
        'trap; umask; dirs; env | sort; printf %q "$IFS"; echo $PATH; false; echo on; R=2; echo $R >&5'
    )
    outcome = runner.run_blocking(look)
    assert "canary" not in outcome.stdout + outcome.stderr
    assert "secret" not in outcome.stdout
    assert "trapped" not in outcome.stdout
    with VirtualRunner() as fresh:
        first = fresh.run_blocking(look)
    assert (outcome.stdout, outcome.stderr, outcome.exit_code) == (first.stdout, first.stderr, first.exit_code)


def test_folders_of_a_job_are_not_there_for_the_next(runner: VirtualRunner, skill: Path, work: Path) -> None:
    places = (JobPath(str(skill)),)
    (work / "mine").write_text("x")
    assert runner.run_blocking(bash(f"ls {work} /.sandbox/skills", work, places=places)).exit_code == 0
    outcome = runner.run_blocking(bash(f"ls -d {work} /.sandbox/skills /.sandbox/skills/demo"))
    assert outcome.stdout == ""


def test_a_skill_that_changed_is_seen_changed(runner: VirtualRunner, skill: Path, work: Path) -> None:
    job = bash("cat /.sandbox/skills/demo/data", work, places=(JobPath(str(skill)),))
    for text in ("one", "two", "one"):
        (skill / "data").write_text(text)
        assert runner.run_blocking(job).stdout == text


def test_more_folders_than_a_worker_keeps_are_still_right(runner: VirtualRunner, work: Path, tmp_path: Path) -> None:
    for turn in range(2):
        for number in range(35):
            folder = tmp_path / f"d{number}"
            folder.mkdir(exist_ok=True)
            if not turn:
                (folder / "f").write_text(f"{number}")
            outcome = runner.run_blocking(bash(f"cat {folder}/f", work, places=(JobPath(str(folder)),)))
            assert outcome.stdout == f"{number}", outcome


def test_input_output_and_code(runner: VirtualRunner) -> None:
    outcome = runner.run_blocking(bash("cat; echo err >&2; exit 3", stdin=b"in\n"))
    assert (outcome.stdout, outcome.stderr, outcome.exit_code) == ("in\n", "err\n", 3)
    cut = runner.run_blocking(bash("seq 1000", limits=Limits(output_bytes=10)))
    assert (cut.stdout, cut.stdout_truncated) == ("1\n2\n3\n4\n5\n", True)


def test_output_is_told_as_it_comes(runner: VirtualRunner) -> None:
    lines: list[OutputLine] = []
    runner.run_blocking(bash("echo a; echo b >&2; echo c"), on_output=lines.append)
    assert [(line.stream, line.text) for line in lines] == [("stdout", "a\n"), ("stderr", "b\n"), ("stdout", "c\n")]


def test_a_job_that_takes_too_long_is_ended_and_changes_nothing(runner: VirtualRunner, work: Path) -> None:
    (work / "f").write_text("old")
    outcome = runner.run_blocking(bash("echo begun; diff <(yes) <(sleep 100)", work, limits=Limits(seconds=0.3)))
    assert (outcome.exit_code, outcome.timed_out, outcome.killed_by) == (124, True, "timeout")
    assert outcome.duration_ms < 5_000
    assert (work / "f").read_text() == "old"
    assert runner.run_blocking(bash("echo alive")).stdout == "alive\n"


def test_the_time_of_a_job_holds_however_many_files_it_makes(runner: VirtualRunner, work: Path) -> None:
    runner.run_blocking(bash("true"))
    began, used = time.monotonic(), time.process_time()
    outcome = runner.run_blocking(
        bash("i=0; while :; do echo x > f$i; i=$((i+1)); done", work, limits=Limits(seconds=0.3))
    )
    # What it costs to copy them out, however busy the machine; and a bound that no healthy machine reaches.
    assert time.process_time() - used < 2.0
    assert time.monotonic() - began < 20
    assert (outcome.exit_code, outcome.killed_by) == (124, "timeout")
    assert runner.run_blocking(bash("echo alive")).stdout == "alive\n"


def test_a_job_that_crashes_the_interpreter_is_an_outcome(
    runner: VirtualRunner, work: Path, hostile: Callable[[str], str]
) -> None:
    (work / "f").write_text("old")
    outcome = runner.run_blocking(bash(f"echo new > f; {hostile('crash')}", work))
    assert (outcome.killed_by, outcome.exit_code) == ("crash", 139)
    assert "No file was changed." in outcome.stderr
    assert (work / "f").read_text() == "old"
    assert runner.run_blocking(bash("echo alive")).stdout == "alive\n"


def test_a_job_is_cancelled(runner: VirtualRunner) -> None:
    stop = threading.Event()
    outcome = runner.run_blocking(bash("echo a; sleep 60"), should_stop=stop.is_set, on_output=lambda line: stop.set())
    assert (outcome.killed_by, outcome.stdout) == ("cancel", "a\n")

    async def cancelled() -> None:
        with anyio.move_on_after(0.2):
            await runner.run(bash("sleep 60"))

    began = time.monotonic()
    anyio.run(cancelled)
    assert time.monotonic() - began < 20


def test_jobs_run_at_the_same_time(runner: VirtualRunner) -> None:
    with ThreadPoolExecutor(6) as pool:
        outcomes = list(pool.map(lambda n: runner.run_blocking(bash(f"sleep 0.05; echo {n}")), range(12)))
    assert [outcome.stdout for outcome in outcomes] == [f"{n}\n" for n in range(12)]


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (Job(argv=("python3", "x.py"), folder="/"), "cannot run 'python3'"),
        (Job(argv=(), folder="/"), "cannot run"),
        (Job(argv=("bash", "-c", "a\0b"), folder="/"), "NUL"),
        (Job(argv=("bash", "-c", "true"), folder="/", env={"A B": "c"}), "variable"),
        (Job(argv=("bash", "-c", "true"), folder="/missing/folder"), "cannot be read"),
        (Job(argv=("bash", "-c", "true"), folder="/", places=(JobPath("/usr"),)), "cannot be given"),
        (Job(argv=("bash", "-c", "true"), folder="/", limits=Limits(seconds=0)), "seconds"),
    ],
)
def test_a_job_that_cannot_be_run_says_why(runner: VirtualRunner, job: Job, words: str) -> None:
    outcome = runner.run_blocking(job)
    assert outcome.exit_code == 127
    assert words in outcome.stderr


def test_a_script_that_is_missing_is_127(runner: VirtualRunner, work: Path) -> None:
    outcome = runner.run_blocking(Job(argv=("bash", str(work / "missing.sh")), folder=str(work)))
    assert outcome.exit_code == 127
    assert "No such file" in outcome.stderr


def test_it_says_what_it_keeps_jobs_from(runner: VirtualRunner) -> None:
    able = runner.capabilities()
    assert able.isolates_files
    assert able.hides_files
    assert able.isolates_network
    assert able.kills_descendants
    assert able.limits_disk
    assert not able.filters_hosts, "it reaches nobody, so there is no list to keep"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("echo hi | grep h > out.txt", True),
        ('if [ -f x ]; then cat x; fi; f() { sort "$1"; }; f y', True),
        ("for f in *.md; do wc -l \"$f\"; done | awk '{print $1}'", True),
        ("python3 x.py", False),
        ("node x.js", False),
        ("git status", False),
        ("echo a; ./other.sh", False),
        ('eval "$1"', False),
        ('"$1" x', False),
        ("source lib.sh", False),
        ("if then", False),
    ],
)
def test_it_tells_which_jobs_need_nothing_else(runner: VirtualRunner, work: Path, text: str, wanted: bool) -> None:
    assert runner.runs(bash(text, work)) is wanted


def test_it_looks_into_the_script_of_a_skill(runner: VirtualRunner, skill: Path, work: Path) -> None:
    def job(name: str) -> Job:
        return Job(argv=("bash", str(skill / "scripts" / name)), folder=str(work), places=(JobPath(str(skill)),))

    (skill / "scripts/py.sh").write_text("python3 x.py\n")
    (skill / "scripts/link.sh").symlink_to("/etc/hostname")
    assert runner.runs(job("run.sh"))
    assert not runner.runs(job("py.sh"))
    assert not runner.runs(job("missing.sh"))
    assert not runner.runs(job("link.sh"))
    assert not runner.runs(Job(argv=("python3", "x.py"), folder=str(work)))
    assert not runner.runs(bash("curl -s https://example.com", work, network="restricted", hosts=("example.com",)))


def test_a_program_in_the_middle_is_handed_over(handing: VirtualRunner, work: Path) -> None:
    (work / "in").write_text("data")
    outcome = handing.run_blocking(bash("python3 -c \"open('out', 'w').write(open('in').read() * 2)\"; cat out", work))
    assert outcome.stdout == "datadata"
    assert (work / "out").read_text() == "datadata"


@pytest.mark.skipif(sys.platform != "linux", reason="this is how Linux shows processes and descriptors")
def test_many_jobs_leave_nothing_behind(work: Path) -> None:
    def state() -> tuple[int, int]:
        children = subprocess.run(["ps", "--no-headers", "--ppid", str(os.getpid())], capture_output=True, check=False)
        return len(os.listdir("/proc/self/fd")), len(children.stdout.splitlines())

    with VirtualRunner() as runner:
        runner.run_blocking(bash("echo hi", work))
        before = state()
        for _ in range(60):
            assert runner.run_blocking(bash("echo hi", work)).stdout == "hi\n"
        assert state() == before
    assert list(work.iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="this is how Linux shows descriptors")
def test_a_worker_does_not_run_out_of_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each job below has limits or folders of its own, and so an interpreter that is made for it alone."""
    for number in range(20):
        (tmp_path / f"{number}").mkdir()

    def run(number: int) -> str:
        outcome = many.run_blocking(
            bash(
                "echo hi | cat",
                tmp_path / "0",
                limits=Limits(seconds=5 + number / 100),
                places=(JobPath(str(tmp_path / f"{number % 20}"), at="/place"),),
            )
        )
        return outcome.stdout + outcome.stderr

    monkeypatch.setattr(worker_process, "sandbox_tier", lambda: None)
    with VirtualRunner() as many:
        open_files = []
        for number in range(100):
            assert run(number) == "hi\n"
            worker = many._idle[-1].connection.worker
            assert isinstance(worker, PlainWorker)
            open_files.append(len(os.listdir(f"/proc/{worker.pid}/fd")))
        assert max(open_files) < 60
        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(run, range(24))) == {"hi\n"}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="this is how Linux tells the time of another process")
def test_a_warm_job_costs_no_more_than_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound with room, as other programs disturb such measurements; benchmarks have the number."""
    import resource

    def used(pid: int) -> float:
        own = resource.getrusage(resource.RUSAGE_SELF)
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return own.ru_utime + own.ru_stime + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def processes() -> float:
        total = 0.0
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
            usage = resource.getrusage(who)
            total += usage.ru_utime + usage.ru_stime
        return total

    job = bash("echo hi")
    monkeypatch.setattr(worker_process, "sandbox_tier", lambda: None)
    with VirtualRunner() as runner:
        runner.run_blocking(job)
        worker = runner._idle[-1].connection.worker
        assert isinstance(worker, PlainWorker)
        began = used(worker.pid)
        for _ in range(150):
            runner.run_blocking(job)
        ours = used(worker.pid) - began
    began = processes()
    for _ in range(150):
        subprocess.run(["true"], check=True)
    theirs = processes() - began
    assert ours <= 2.5 * theirs


def test_scripts_are_looked_at_as_often_as_one_likes(runner: VirtualRunner, work: Path) -> None:
    """The interpreter has a cap on calls, which looking at scripts must not run into."""
    job = bash("; ".join(f"nosuch{number} x" for number in range(600)), work)
    assert not runner.runs(job)
    assert not runner.runs(bash("; ".join(f"other{number} x" for number in range(600)), work))
    assert runner.runs(bash("tsort x", work))


def test_a_job_has_all_its_time_however_long_its_worker_takes_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly() -> Worker:
        time.sleep(1)
        return start_worker()

    monkeypatch.setattr("metier.run.virtual.connection.start_worker", slowly)
    with VirtualRunner() as runner:
        outcome = runner.run_blocking(bash("echo done", tmp_path))
    assert outcome.stdout == "done\n"
    assert outcome.duration_ms < 1_000
