"""A job sees and writes what it was given, and nothing else of this machine."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.run.native.conftest import in_one_sandbox

from metier.errors import IsolationMissing
from metier.run import CANNOT_START, Job, JobPath, Outcome
from metier.run.environment import environment_python, own_python, programs_behind
from metier.run.native import filesystem_view, kernel

Run = Callable[..., Outcome]
IS_ROOT = not hasattr(os, "geteuid") or os.geteuid() == 0
TIERS_WITH_A_VIEW = ["namespaces"] if IS_ROOT else ["namespaces", "bubblewrap"]
has_view = pytest.mark.parametrize("tier", TIERS_WITH_A_VIEW, indirect=True)
"""What needs a view of the job's own."""


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    """A folder beside the workspace."""
    folder = tmp_path.resolve() / "skill"
    (folder / "scripts").mkdir(parents=True)
    (folder / "scripts" / "run.sh").write_text("echo ran in $PWD\n")
    return folder


def test_the_workspace_can_be_written(sh: Run, workspace: Path) -> None:
    (workspace / "old").write_text("old")
    outcome = sh("cat old; echo new > made; mkdir folder; mv old folder/; rm -r folder; ln -s made link; cat link")
    assert outcome.stdout == "oldnew\n"
    assert sorted(os.listdir(workspace)) == ["link", "made"]


def test_a_place_is_only_read_unless_it_may_be_written(sh: Run, workspace: Path, skill: Path) -> None:
    script = (
        f"cd {skill}; echo x > new; echo x > scripts/run.sh; rm scripts/run.sh; mkdir d; mv scripts s; cat scripts/*"
    )
    outcome = sh(script, places=(JobPath(str(workspace), is_writable=True), JobPath(str(skill))))
    assert outcome.stdout == "echo ran in $PWD\n"
    assert [str(path.relative_to(skill)) for path in sorted(skill.rglob("*"))] == ["scripts", "scripts/run.sh"]


def test_a_read_only_workspace_is_that(sh: Run, workspace: Path) -> None:
    (workspace / "old").write_text("old")
    outcome = sh("cat old; touch new", places=(JobPath(str(workspace)),))
    assert (outcome.stdout, outcome.exit_code) == ("old", 1)
    assert outcome.stderr
    assert os.listdir(workspace) == ["old"]


def test_what_is_not_given_is_not_there(sh: Run, tmp_path: Path, workspace: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("s3cret")
    (workspace / "link").symlink_to(secret)
    (workspace / "up").symlink_to("..")
    os.link(secret, tmp_path / "other")
    outcome = sh(f"cat {secret} ../secret.txt link up/secret.txt /proc/self/cwd/../secret.txt; echo x > link; ls ..")
    assert "s3cret" not in outcome.stdout
    assert secret.read_text() == "s3cret"


TELLING = (
    "/etc/shadow", "/etc/fstab", "/etc/machine-id", "/var/lib/dpkg/status", "/var/log/dpkg.log", "/root/.bashrc",
    "/sys/kernel/uevent_seqnum", "/proc/1/environ", "/proc/kcore",
)  # fmt: skip


@pytest.mark.parametrize("path", [path for path in TELLING if os.path.exists(path)])
def test_what_tells_about_the_machine_cannot_be_read(run: Run, path: str) -> None:
    outcome = run("cat", path)
    assert outcome.stdout == ""


def test_nothing_of_the_system_can_be_written(sh: Run) -> None:
    outcome = sh("for at in / /usr /usr/bin /etc /lib /dev /opt /proc /proc/sys/kernel; do"
                 " (echo x > $at/made-by-a-job) 2>&- && echo $at; done; true")  # fmt: skip
    assert outcome.stdout == ""
    assert not os.path.exists("/usr/bin/made-by-a-job")


def refused(go: Callable[[], Outcome]) -> str:
    """What a runner says that does not run a job; empty if it does."""
    try:
        outcome = go()
    except IsolationMissing as error:
        return f"{error.message} {error.hint}"
    return outcome.stderr if outcome.exit_code == CANNOT_START and not outcome.stdout else ""


def test_what_is_read_only_inside_what_is_writable_stays_so(sh: Run, workspace: Path) -> None:
    inner = workspace / "docs" / "kept"
    inner.mkdir(parents=True)
    (inner / "file").write_text("kept")
    places = (JobPath(str(workspace), is_writable=True), JobPath(str(inner)))
    script = "echo x > docs/kept/file; echo x > docs/kept/new; rm -rf docs/kept; echo w > docs/new"
    said = refused(lambda: sh(script, places=places))
    assert (inner / "file").read_text() == "kept"
    assert os.listdir(inner) == ["file"]
    assert said or (workspace / "docs" / "new").read_text() == "w\n"


@has_view
def test_what_is_read_only_inside_what_is_writable_cannot_be_moved_away(sh: Run, workspace: Path) -> None:
    inner = workspace / "kept"
    inner.mkdir()
    outcome = sh("mv kept other; mkdir -p kept; echo x > kept/new",
                 places=(JobPath(str(inner)), JobPath(str(workspace), is_writable=True)))  # fmt: skip
    assert not outcome.is_success
    assert (os.listdir(workspace), os.listdir(inner)) == (["kept"], [])


def test_what_is_writable_inside_what_is_read_only_can_be_written(sh: Run, workspace: Path) -> None:
    (workspace / "out" / "deep").mkdir(parents=True)
    places = (JobPath(str(workspace)), JobPath(str(workspace / "out" / "deep"), is_writable=True))
    outcome = sh("echo x > out/deep/made; touch out/not || touch not || echo refused", places=places)
    assert outcome.stdout == "refused\n"
    assert sorted(path.name for path in workspace.rglob("*")) == ["deep", "made", "out"]


@has_view
def test_a_place_is_seen_where_it_is_said_to_be(sh: Run, workspace: Path, skill: Path) -> None:
    places = (JobPath(str(workspace), is_writable=True, at="/workspace"), JobPath(str(skill), at="/.sandbox/skills/x"))
    script = (
        f"pwd; echo $HOME; bash /.sandbox/skills/x/scripts/run.sh; echo x > made; ls / /.sandbox; ls {workspace.parent}"
    )
    outcome = sh(script, places=places, folder="/workspace")
    assert outcome.stdout.startswith("/workspace\n/workspace\nran in /workspace\n/:\n")
    assert "workspace\n" in outcome.stdout
    assert outcome.stdout.endswith("/.sandbox:\nskills\n")
    assert (workspace / "made").read_text() == "x\n"


@pytest.mark.parametrize("at", ["/workspace", "/.sandbox/skills/x"])
def test_a_sandbox_without_a_view_refuses_to_show_a_place_elsewhere(
    sh: Run, tier: str, workspace: Path, skill: Path, at: str
) -> None:
    places = (JobPath(str(workspace), is_writable=True), JobPath(str(skill), at=at))
    assert bool(refused(lambda: sh("true", places=places))) == (tier == "landlock")


@has_view
@pytest.mark.parametrize("folder", ["", "/sub"])
def test_a_job_works_below_a_place_that_is_shown_elsewhere(sh: Run, workspace: Path, folder: str) -> None:
    (workspace / "sub").mkdir()
    places = (JobPath(str(workspace), is_writable=True, at="/work/space"),)
    assert sh("pwd", places=places, folder="/work/space" + folder).stdout == f"/work/space{folder}\n"


@has_view
@pytest.mark.parametrize("at", ["/tmp/skill", "/dev/shm/skill", "/etc/skill", "/opt/a/b/c", "/home/x/y"])
def test_a_place_can_be_shown_almost_anywhere(sh: Run, workspace: Path, skill: Path, at: str) -> None:
    outcome = sh(f"cat {at}/scripts/run.sh; touch {at}/x || echo refused",
                 places=(JobPath(str(workspace), is_writable=True), JobPath(str(skill), at=at)))  # fmt: skip
    assert outcome.stdout == "echo ran in $PWD\nrefused\n", outcome


@has_view
@pytest.mark.parametrize(
    "at", ["/", "/usr", "/etc", "/proc", "/dev", "/usr/local/no/such", "/proc/nothing", "x/y", "/a\0b"]
)
def test_a_place_that_can_be_shown_nowhere_is_named(sh: Run, workspace: Path, skill: Path, at: str) -> None:
    said = refused(lambda: sh("true", places=(JobPath(str(workspace), is_writable=True), JobPath(str(skill), at=at))))
    assert repr(at).strip("'") in said


@has_view
def test_a_place_inside_another_is_shown_there(sh: Run, workspace: Path, skill: Path) -> None:
    (workspace / "tools").mkdir()
    places = (JobPath(str(skill), at=str(workspace / "tools")), JobPath(str(workspace), is_writable=True))
    assert sh("bash tools/scripts/run.sh", places=places).stdout == f"ran in {workspace}\n"
    assert os.listdir(workspace / "tools") == []


@pytest.mark.parametrize("is_writable", [False, True])
def test_a_single_file_can_be_a_place(sh: Run, tmp_path: Path, workspace: Path, is_writable: bool) -> None:
    data = tmp_path.resolve() / "data"
    data.mkdir()
    (data / "given").write_text("given\n")
    (data / "other").write_text("other\n")
    places = (JobPath(str(workspace), is_writable=True), JobPath(str(data / "given"), is_writable=is_writable))
    outcome = sh(f"cat {data}/given {data}/other; echo more >> {data}/given", places=places)
    assert outcome.stdout == "given\n"
    assert (data / "given").read_text() == ("given\nmore\n" if is_writable else "given\n")


@pytest.mark.parametrize("path", ["gone", "gone/deeper"])
def test_a_place_that_is_not_there_is_named(sh: Run, workspace: Path, tmp_path: Path, path: str) -> None:
    outcome = sh("true", places=(JobPath(str(workspace), is_writable=True), JobPath(str(tmp_path / path))))
    assert outcome.exit_code == CANNOT_START
    assert path in outcome.stderr
    assert "does not exist" in outcome.stderr


@in_one_sandbox
@pytest.mark.parametrize("path", ["relative", "", "./x", "/a\0b"])
def test_a_place_that_is_no_path_is_refused(sh: Run, workspace: Path, path: str) -> None:
    outcome = sh("true", places=(JobPath(str(workspace), is_writable=True), JobPath(path)))
    assert (outcome.exit_code, "no absolute path" in outcome.stderr) == (CANNOT_START, True)


def test_a_place_may_be_named_by_a_link(sh: Run, tmp_path: Path, workspace: Path, skill: Path) -> None:
    for name, target in (("to-workspace", workspace), ("to-skill", skill)):
        (tmp_path / name).symlink_to(target)
    outcome = sh(f"pwd -L; bash {tmp_path}/to-skill/scripts/run.sh; touch made {tmp_path}/to-skill/not",
                 folder=tmp_path / "to-workspace", places=(JobPath(str(tmp_path / "to-skill")),))  # fmt: skip
    assert outcome.stdout.count("to-workspace") == 2 or outcome.stdout.count(str(workspace)) == 2
    assert os.listdir(workspace) == ["made"]
    assert os.listdir(skill) == ["scripts"]


NAMES = ["a b", "a\nb\t", "ünï ✓", "-rf", "'q'\"", "a,b:c=d%s", "\\x41 \\040", "\udcff\udc80", "x" * 200, "$HOME *"]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: repr(name)[:20])
@in_one_sandbox
def test_any_name_of_a_folder_will_do(sh: Run, tmp_path: Path, name: str) -> None:
    folder = tmp_path.resolve() / name
    folder.mkdir()
    (folder / "in").write_text("in")
    outcome = sh('cat "$PWD/in"; echo out > "$PWD/out"', folder=folder)
    assert (outcome.stdout, outcome.exit_code) == ("in", 0)
    assert (folder / "out").read_text() == "out\n"


@pytest.fixture
def repository(workspace: Path) -> Path:
    """A workspace that is a repository of git, with a file that is not in it yet."""
    for command in (["init", "-q"], ["config", "user.name", "n"], ["config", "user.email", "n@example.com"]):
        subprocess.run(["git", *command], cwd=workspace, check=True)
    (workspace / ".git" / "hooks").mkdir(exist_ok=True)
    (workspace / "file").write_text("x")
    return workspace


@has_view
@pytest.mark.covers("SEC-15")
def test_git_works_in_a_workspace_that_is_granted(sh: Run, repository: Path) -> None:
    script = """set -e
    git add file; git commit -qm one; git log --format=%s; git status --short; git branch other; git switch -q other
    echo y > file; git stash -q; git stash pop -q; git diff --stat | tail -1; git commit -qam two; git tag v1
    git clone -q . copy; git -C copy log --format=%s"""
    outcome = sh(script, grants=(".git",))
    assert outcome.stderr == ""
    assert outcome.stdout == "one\n 1 file changed, 1 insertion(+), 1 deletion(-)\ntwo\none\n"
    # Outside, it is still a repository that belongs to whom it did.
    done = subprocess.run(["git", "log", "--format=%s"], cwd=repository, capture_output=True, text=True, check=True)
    assert done.stdout == "two\none\n"


@has_view
@pytest.mark.parametrize(
    "attempt",
    [
        "echo x > .git/hooks/pre-commit",
        "echo x >> .git/config",
        "git config core.pager x",
        "git config core.hooksPath x",
        "mv .git/hooks .git/away",
        "mv .git away",
        "rm -rf .git/hooks .git/config",
        "mkdir h; touch h/pre-commit; rmdir .git/hooks; mv h .git/hooks",
        "echo x > c; mv c .git/config",
        "echo x > c; ln -f c .git/config",
        "ln -sf /tmp/x .git/config",
        "chmod 777 .git/config",
        "touch -d 2001-01-01 .git/config",
        "truncate -s 0 .git/config",
        "exec 3<.git/config; echo x > /proc/self/fd/3",
    ],
)
def test_what_runs_outside_later_cannot_be_changed(sh: Run, repository: Path, attempt: str) -> None:
    config = repository / ".git" / "config"
    before = (config.read_text(), config.stat().st_mtime_ns, config.stat().st_mode, sorted(os.listdir(config.parent)))
    hooks = sorted(os.listdir(repository / ".git" / "hooks"))
    outcome = sh(attempt)
    assert not outcome.is_success
    after = (config.read_text(), config.stat().st_mtime_ns, config.stat().st_mode, sorted(os.listdir(config.parent)))
    assert (after, sorted(os.listdir(repository / ".git" / "hooks"))) == (before, hooks)


@has_view
@pytest.mark.parametrize("name", [".bashrc", ".vscode/tasks.json", ".github/workflows/ci.yml", ".claude/settings.json"])
def test_settings_in_a_workspace_cannot_be_changed(sh: Run, workspace: Path, name: str) -> None:
    path = workspace / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("before")
    top = name.split("/")[0]
    sh(f"echo x > {name}; rm -f {name}; rm -rf {top}; mv {top} away; mkdir -p $(dirname {name}); echo x > {name}")
    assert path.read_text() == "before"
    assert os.listdir(workspace) == [top]


@pytest.mark.parametrize(
    "attempt",
    [
        "cp /bin/true t; chmod u+s t",
        "cp /bin/true t; chmod 2755 t",
        "install -m 4755 /bin/true t",
        "cp /bin/true t; python3 -c 'import os; os.fchmod(os.open(\"t\", 0), 0o4755)'",
        "python3 -c 'import os; os.open(\"t\", os.O_CREAT | os.O_WRONLY, 0o4755)'",
        "mknod t b 8 0",
    ],
)
def test_no_file_that_gives_rights_can_be_made(sh: Run, workspace: Path, attempt: str) -> None:
    assert not sh(attempt).is_success
    assert not any(path.stat().st_mode & 0o6000 for path in workspace.iterdir())


def test_what_a_job_makes_belongs_to_the_owner_of_the_folder(sh: Run, workspace: Path, tmp_path: Path) -> None:
    owner = (12_345, 12_346) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    inner = workspace / "read-only" / "inner"
    inner.mkdir(parents=True)
    (workspace / "old").write_text("")
    for path in (workspace, workspace / "old", workspace / "read-only", inner):
        os.chown(path, *owner)
    script = """mkdir -p a/b/c; echo x > a/b/c/f; ln -s /etc/passwd a/link; mkfifo a/pipe; echo x > old
    echo y > read-only/inner/f; chmod -R go-rwx a"""
    assert sh(script).is_success
    found = {(path.lstat().st_uid, path.lstat().st_gid) for path in workspace.rglob("*")}
    assert found == {owner}
    assert (os.stat("/etc/passwd").st_uid, (workspace / "a" / "b" / "c" / "f").read_text()) == (0, "x\n")


def test_what_a_job_makes_can_be_used_by_the_next(sh: Run) -> None:
    assert sh("mkdir d; echo one > d/f; chmod 700 d; chmod 600 d/f").is_success
    assert sh("echo two >> d/f; cat d/f; rm -r d").stdout == "one\ntwo\n"


def test_temporary_files_are_the_jobs_own_and_gone_with_it(sh: Run, tmp_path: Path) -> None:
    # In folders for temporary files of this machine, as anybody may leave them.
    canary = Path("/tmp") / f"metier-canary-{os.getpid()}"
    canary.write_text("s3cret")
    try:
        script = (
            'cat /tmp/metier-canary-*; ls "$TMPDIR" | grep canary; cd "$TMPDIR"; echo x > mine; cat mine; mktemp -d'
        )
        outcome = sh(script)
        assert outcome.stdout.startswith("x\n")
        assert "s3cret" not in outcome.stdout
        made = outcome.stdout.splitlines()[1]
        assert not os.path.exists(made)
        assert sh('cat "$TMPDIR/mine"').exit_code == 1
        assert canary.read_text() == "s3cret"
    finally:
        canary.unlink()


@has_view
@pytest.mark.covers("ENV-1")
def test_the_folder_for_temporary_files_is_empty_but_for_the_way_to_the_workspace(sh: Run, workspace: Path) -> None:
    outcome = sh("ls -A /tmp /var/tmp /dev/shm 2>&-")
    # The interpreter may lie there too.
    shown = (workspace, *map(Path, (*programs_behind(environment_python()), own_python())))
    on_the_way = sorted({path.parts[2] for path in shown if path.parts[1] == "tmp"})
    assert outcome.stdout.splitlines() == ["/dev/shm:", "", "/tmp:", *on_the_way]


def test_devices_that_programs_use_are_there(sh: Run) -> None:
    script = """set -e
    echo x > /dev/null; head -c 3 /dev/zero | od -An -tx1; head -c 5 /dev/urandom | wc -c; cat /dev/null
    ! echo x > /dev/full"""
    assert sh(script).stdout == " 00 00 00\n5\n"


@has_view
def test_no_other_device_is_there(sh: Run) -> None:
    outcome = sh("find /dev -type b -o -type c | sort")
    devices = {"full", "null", "random", "urandom", "zero", "tty", "console"}
    assert {line.removeprefix("/dev/") for line in outcome.stdout.splitlines() if "/pts/" not in line} <= devices


def test_no_other_process_can_be_seen_or_signalled(sh: Run, tier: str) -> None:
    outcome = sh(f"kill -0 {os.getpid()} && echo reached; ls -d /proc/[0-9]* | wc -l; ls /proc/{os.getpid()}/fd")
    assert "reached" not in outcome.stdout
    assert int(outcome.stdout.splitlines()[0]) <= 6


@has_view
def test_the_folders_above_what_is_read_only_cannot_be_moved_away(sh: Run, workspace: Path) -> None:
    log = workspace / "logs" / "deep" / "audit.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text("true\n")
    script = (
        "mv logs old || mv logs/deep logs/old || rm -rf logs; mkdir -p logs/deep; echo forged > logs/deep/audit.jsonl"
    )
    outcome = sh(script, places=(JobPath(str(workspace), is_writable=True), JobPath(str(log))))
    assert outcome.exit_code != 0
    assert log.read_text() == "true\n"


@has_view
def test_what_this_program_runs_from_is_not_written(sh: Run, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = workspace / "project" / ".venv" / "bin" / "python3"
    program.parent.mkdir(parents=True)
    program.write_text("own")
    monkeypatch.setattr(filesystem_view, "_own_roots", lambda: (str(workspace / "project" / ".venv"),))
    outcome = sh("echo evil > project/.venv/bin/python3; mv project/.venv x; mv project y; echo fine > project/new")
    assert program.read_text() == "own"
    assert (workspace / "project" / "new").read_text() == "fine\n"
    assert "Read-only file system" in outcome.stderr


def test_a_place_that_becomes_a_link_is_not_followed(run: Run, workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "secret").write_text("s3cret")
    (workspace / "data").mkdir()
    job = Job(argv=("cat", "data/secret"), folder=str(workspace), places=(JobPath(str(workspace / "data")),))
    seen = filesystem_view.view_of(job)
    (workspace / "data").rmdir()
    (workspace / "data").symlink_to(tmp_path / "home")
    assert seen.places[-1].path == str(workspace / "data")
    with pytest.raises(OSError):
        kernel.open_exactly(seen.places[-1].path)


class TestOnDisk:
    @pytest.fixture
    def tmp_path(self) -> Iterator[Path]:
        """A folder on a disk, as what is written to one is counted by the system too."""
        with tempfile.TemporaryDirectory(prefix="metier-", dir="/var/tmp") as folder:
            yield Path(folder).resolve()

    @in_one_sandbox
    @pytest.mark.parametrize("how", ["long paths", "no name"])
    def test_what_is_held_by_no_name_that_can_be_found_counts_too(self, run: Run, how: str) -> None:
        body = {
            "long paths": "for _ in range(45): os.mkdir('d' * 100); os.chdir('d' * 100)",
            "no name": "",
        }[how]
        program = f"""
import mmap, os, time
{body}
held = []
for number in range(12):
    with open(f"f{{number}}", "wb+") as file:
        for _ in range(10):
            file.write(os.urandom(1 << 20))
        file.flush()
        if {how == "no name"}:
            held.append(mmap.mmap(file.fileno(), 4096))
            os.unlink(f"f{{number}}")
time.sleep(3)
"""
        outcome = run("/usr/bin/python3", "-c", program, disk_bytes=40 << 20, seconds=8)
        assert outcome.killed_by == "disk"
