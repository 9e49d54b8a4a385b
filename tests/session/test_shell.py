"""The virtual shell of a session: one for the whole conversation, with the skills in it and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from metier import Policy, Session
from metier.errors import InvalidArgument, IsolationMissing, SessionNotFound, ShellUnavailable
from metier.guard import MemoryLog
from metier.run import AutoRunner, Job, Outcome, PlainRunner, RunnerCapabilities
from metier.run.job import OutputLine

Begin = Callable[..., Session]
Files = Callable[..., dict[str, str]]
Write = Callable[..., Path]

needs_shell = pytest.mark.skipif(
    __import__("importlib.util").util.find_spec("bashkit") is None, reason="the extra `shell` is not installed"
)


def said(session: Session, command: str) -> str:
    return session.runs.shell.execute(command).stdout


@needs_shell
def test_scripts_of_skills_run_while_these_are_loaded(begin: Begin, skill: Files) -> None:
    one, other = skill("a", **{"scripts/x.sh": "echo from a"}), skill("b")
    with begin(one, other, skills=["a"]) as session:
        shell = session.runs.shell
        assert said(session, "sh /.sandbox/skills/a/scripts/x.sh") == "from a\n"
        session.load("b", "replace")
        assert shell.execute("sh /.sandbox/skills/a/scripts/x.sh").exit_code == 126, "also for who has it already"
        session.load("a", "add")
        assert shell.execute("sh /.sandbox/skills/a/scripts/x.sh").stdout == "from a\n"
        session.guard.block("a", "b")
        assert said(session, "ls /.sandbox/skills") == ""
        assert session.runs.shell is shell


@needs_shell
def test_it_lasts_as_long_as_the_session(begin: Begin) -> None:
    session = begin()
    said(session, "cd /tmp; word=kept; echo text > file")
    assert said(session, 'echo "$word"; cat file') == "kept\ntext\n"
    shell = session.runs.shell
    session.close()
    with pytest.raises(SessionNotFound):
        _ = session.runs.shell
    with pytest.raises(Exception, match="closed"):
        shell.execute("true")


@needs_shell
def test_what_is_mounted_is_what_was_loaded(begin_in: Begin, write_skill: Write, tmp_path: Path) -> None:
    path = write_skill(tmp_path / "s" / "a", body="as it was")
    session = begin_in(tmp_path / "s", skills=["a"])
    assert "as it was" in said(session, "cat /.sandbox/skills/a/SKILL.md")
    path.write_text(path.read_text().replace("as it was", "changed"))
    assert "as it was" in said(session, "cat /.sandbox/skills/a/SKILL.md")
    session.load("a")
    assert "changed" in said(session, "cat /.sandbox/skills/a/SKILL.md")


@needs_shell
def test_a_skill_that_changed_before_it_was_mounted_is_mounted_as_it_was_loaded(
    begin_in: Begin, write_skill: Write, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        write_skill(tmp_path / "s" / name)
    session = begin_in(tmp_path / "s", skills=["a", "b"])
    (tmp_path / "s" / "a" / "new.txt").write_text("x")
    (tmp_path / "s" / "b" / "SKILL.md").unlink()
    assert said(session, "ls /.sandbox/skills") == "a\nb\n"
    assert said(session, "cd /.sandbox/skills; ls a b/SKILL.md") == "b/SKILL.md\n\na:\nSKILL.md\n"


@needs_shell
def test_where_skills_are_mounted_can_be_chosen(begin: Begin, skill: Files) -> None:
    session = begin(skill("a"), skills=["a"], mount="/lib/skills")
    assert said(session, "ls /lib/skills/a") == "SKILL.md\n"
    assert session.prompt.root_of(session.loaded.one()) == "/lib/skills/a"


@pytest.mark.each("mount", ["", "/", "skills", "/a/../b", "/a/", "/a\n", None])
def test_a_mount_that_is_none_is_refused(begin: Begin, mount: object) -> None:
    with pytest.raises(InvalidArgument):
        begin(mount=mount)


@needs_shell
def test_nothing_of_this_machine_is_in_it(begin: Begin, tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "mine").write_text("private")
    session = begin()
    assert not session.runs.shell.execute(f"cat {tmp_path}/workspace/mine").is_success


@needs_shell
def test_a_command_in_it_is_decided_about_and_recorded(begin: Begin, skill: Files, log: MemoryLog) -> None:
    session = begin(skill("a"), skills=["a"], runner=PlainRunner())
    told: list[OutputLine] = []

    async def main() -> Outcome:
        return await session.runs.command("ls /.sandbox/skills", by="model", virtual=True, on_output=told.append)

    assert anyio.run(main).stdout == "a\n"
    assert [line.text for line in told] == ["a\n"]
    record = log.records[-1]
    assert (record.event, record.runner, record.network, record.exit_code) == ("run", "virtual", "none", 0)
    session.guard.policy = Policy(scripts="deny")
    with pytest.raises(Exception, match="Scripts and commands are not allowed"):
        anyio.run(main)


@needs_shell
def test_policy_bounds_its_time_and_what_it_must_enforce(begin: Begin) -> None:
    session = begin(policy=Policy(limits={"seconds": 0.2}))
    outcome = anyio.run(lambda: session.runs.command("while :; do :; done", virtual=True))
    assert (outcome.exit_code, outcome.timed_out) == (124, True)
    session.guard.policy = Policy(require=["hosts"])
    with pytest.raises(IsolationMissing):
        anyio.run(lambda: session.runs.command("true", virtual=True))


class Native:
    """A runner that says what it was asked for."""

    name = "native"

    def __init__(self, enforced: RunnerCapabilities) -> None:
        self.jobs: list[Job] = []
        self._enforced = enforced

    def capabilities(self) -> RunnerCapabilities:
        return self._enforced

    def run_blocking(self, job: Job, **_: object) -> Outcome:
        self.jobs.append(job)
        return Outcome(exit_code=0, stdout="from outside\n", runner=self.name)

    async def run(self, job: Job, **_: object) -> Outcome:
        return self.run_blocking(job)


@needs_shell
def test_programs_are_handed_to_the_sessions_runner_and_see_no_workspace(begin: Begin) -> None:
    runner = Native(RunnerCapabilities(isolates_files=True, hides_files=True, isolates_network=True))
    session = begin(runner=runner, policy=Policy(limits={"memory_bytes": 2**28}))
    assert said(session, "cd /tmp; python3 -c 'print(1)'") == "from outside\n"
    (job,) = runner.jobs
    assert (job.network, job.sandbox, job.limits.memory_bytes) == ("none", True, 2**28)
    assert session.context.workspace not in [place.path for place in job.places]


@needs_shell
def test_programs_are_not_handed_to_a_runner_that_isolates_nothing(begin: Begin) -> None:
    runner = Native(RunnerCapabilities())
    outcome = begin(runner=runner).runs.shell.execute("python3 -c 'print(1)'; echo $?")
    assert outcome.stdout == "126\n"
    assert "nothing here can isolate it" in outcome.stderr
    assert runner.jobs == []


@needs_shell
@pytest.mark.skipif(sys.platform != "linux", reason="programs are run in the sandbox of Linux")
def test_a_python_program_works_on_files_of_the_shell(begin: Begin, skill: Files) -> None:
    files = skill(
        "a", **{"scripts/x.py": "print(open('in.txt').read().upper(), end='')\nopen('out.txt', 'w').write('x')"}
    )
    session = begin(files, skills=["a"], policy=Policy(unsandboxed="allow"))
    said(session, "mkdir -p /data; cd /data; echo text > in.txt")
    assert said(session, "python3 /.sandbox/skills/a/scripts/x.py; cat out.txt") == "TEXT\nx"


@needs_shell
def test_where_there_is_no_other_sandbox_shell_scripts_run_in_it(begin: Begin, skill: Files, log: MemoryLog) -> None:
    runner = AutoRunner()
    runner._native = PlainRunner()
    scripts = {"scripts/x.sh": "echo plain shell > made; cat made", "scripts/y.py": "print(1)"}
    session = begin(skill("a", **scripts), skills=["a"], runner=runner)
    outcome = session.run_blocking("scripts/x.sh")
    assert (outcome.stdout, outcome.runner, log.records[-1].runner) == ("plain shell\n", "virtual", "virtual")
    with pytest.raises(Exception, match="nothing between it and this machine"):
        session.run_blocking("scripts/y.py")


def test_without_the_extra_it_says_what_to_install(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bashkit", None)
    session = begin()
    assert not session.runs.has_shell
    with pytest.raises(ShellUnavailable) as caught:
        _ = session.runs.shell
    assert "metier[shell]" in caught.value.hint
