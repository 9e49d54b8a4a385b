"""What runs for a session gets what policy grants, and is decided about as what it will be."""

from __future__ import annotations

import http.server
import json
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from metier import Guard, Library, Policy, Session
from metier.errors import IsolationMissing, Refused
from metier.guard import Action, Decision, MemoryLog
from metier.run import AutoRunner, Job, Limits, NativeRunner, Outcome, PlainRunner, RunnerCapabilities
from metier.run.job import JobPath, OutputLine
from metier.run.virtual import VirtualRunner

Begin = Callable[..., Session]
Files = Callable[..., dict[str, str]]
Write = Callable[..., Path]

ALL = RunnerCapabilities(
    isolates_files=True,
    isolates_network=True,
    filters_hosts=True,
    kills_descendants=True,
    limits_memory=True,
    limits_processes=True,
    limits_disk=True,
    filters_calls=True,
)


def run_and_wait(session: Session, **options: Any) -> Outcome:
    return session.run_blocking("scripts/x.sh", **options)


def run_in_a_loop(session: Session, **options: Any) -> Outcome:
    return anyio.run(lambda: session.run("scripts/x.sh", **options))


BOTH_WAYS = (run_and_wait, run_in_a_loop)


class Recorder:
    """A runner that keeps the jobs that it is given."""

    name = "recorder"

    def __init__(self, enforced: RunnerCapabilities = ALL) -> None:
        self.jobs: list[Job] = []
        self._enforced = enforced

    def capabilities(self) -> RunnerCapabilities:
        return self._enforced

    def run_blocking(self, job: Job, **_: Any) -> Outcome:
        self.jobs.append(job)
        return Outcome(exit_code=0, stdout="done\n", runner=self.name)

    async def run(self, job: Job, **_: Any) -> Outcome:
        return self.run_blocking(job)


@pytest.fixture
def recorder() -> Recorder:
    """Enforces all there is."""
    return Recorder()


def asking(**execution: object) -> str:
    return f"execution: {json.dumps({key.replace('_', '-'): value for key, value in execution.items()})}\n"


def job_of(begin: Begin, recorder: Recorder, files: dict[str, str], policy: Policy) -> tuple[Job, Outcome]:
    session = begin(files, skills=["a"], policy=policy, runner=recorder)
    outcome = session.run_blocking("scripts/x.sh")
    return recorder.jobs[-1], outcome


def scripted(skill: Files, more: str = "") -> dict[str, str]:
    return skill("a", more=more, **{"scripts/x.sh": "echo done"})


# --- with or without a sandbox ----------------------------------------------------------------------------------------


@pytest.mark.each(
    ("more", "enforced", "policy", "sandbox"),
    [
        ("", ALL, Policy(), True),
        ("", ALL, Policy(unsandboxed="allow"), True),
        (asking(sandbox=False), ALL, Policy(), True),
        (asking(sandbox=False), ALL, Policy(unsandboxed="ask"), True),
        (asking(sandbox=False), ALL, Policy(unsandboxed="allow"), False),
        (asking(sandbox=True), ALL, Policy(unsandboxed="allow"), True),
        ("", RunnerCapabilities(), Policy(unsandboxed="allow"), False),
        (asking(sandbox=True), RunnerCapabilities(), Policy(unsandboxed="allow"), False),
    ],
)
def test_a_job_is_without_a_sandbox_only_where_policy_lets_it(
    begin: Begin, skill: Files, more: str, enforced: RunnerCapabilities, policy: Policy, sandbox: bool
) -> None:
    job, _ = job_of(begin, Recorder(enforced), scripted(skill, more), policy)
    assert (job.sandbox, job.network) == (sandbox, "none" if sandbox else "host")


@pytest.mark.parametrize(("agrees", "runs"), [(True, True), (False, False)])
def test_somebody_is_asked_about_what_will_really_happen(begin: Begin, skill: Files, agrees: bool, runs: bool) -> None:
    asked: list[bool] = []
    runner = Recorder(RunnerCapabilities())

    def answer(action: Action, _: object) -> bool:
        asked.append(action.isolated)
        return agrees

    session = begin(
        scripted(skill),
        skills=["a"],
        policy=Policy(unsandboxed="ask"),
        runner=runner,
        approve=answer,
    )
    if runs:
        session.run_blocking("scripts/x.sh")
    else:
        with pytest.raises(Refused):
            session.run_blocking("scripts/x.sh")
    assert asked == [False]
    assert [job.sandbox for job in runner.jobs] == [False] * runs


def test_where_nothing_isolates_it_is_refused_with_what_to_install(begin: Begin, skill: Files, log: MemoryLog) -> None:
    session = begin(scripted(skill), skills=["a"], policy=Policy(), runner=PlainRunner())
    with pytest.raises(Refused) as caught:
        session.run_blocking("scripts/x.sh")
    assert caught.value.code == log.records[-1].code == "isolation-missing"
    for word in ("bubblewrap", "pip install 'metier[shell]'", "metier doctor"):
        assert word in caught.value.hint


@pytest.mark.parametrize(
    ("policy", "enforced", "lacking"),
    [
        (Policy(require=["memory", "disk"]), replace(ALL, limits_disk=False), ["disk"]),
        (Policy(require=["memory"]), replace(ALL, limits_memory=False), ["memory"]),
        (Policy(), replace(ALL, isolates_network=False), ["network"]),
        (Policy(network="restricted", hosts=["a.test"]), replace(ALL, filters_hosts=False), ["hosts"]),
        (Policy(unsandboxed="allow", require=["files"]), RunnerCapabilities(), ["files"]),
    ],
)
def test_what_must_be_enforced_and_cannot_be_is_an_error_that_names_it(
    begin: Begin, skill: Files, log: MemoryLog, policy: Policy, enforced: RunnerCapabilities, lacking: list[str]
) -> None:
    runner = Recorder(enforced)
    session = begin(scripted(skill), skills=["a"], policy=policy, runner=runner)
    for run in BOTH_WAYS:
        with pytest.raises(IsolationMissing) as caught:
            run(session)
        assert caught.value.context["missing"] == lacking
        assert "metier doctor" in caught.value.hint
        assert (log.records[-1].code, log.records[-1].success) == ("isolation-missing", False)
    assert runner.jobs == []


def test_without_a_runner_a_session_takes_the_strongest_of_this_machine(begin: Begin) -> None:
    assert isinstance(begin().parts.sandbox.runner, AutoRunner)


# --- what a job gets --------------------------------------------------------------------------------------------------


@pytest.mark.covers("O-66")
def test_by_default_a_script_gets_its_workspace_and_nothing_else(
    begin: Begin, skill: Files, recorder: Recorder, log: MemoryLog, tmp_path: Path
) -> None:
    """The defaults of a run. A share of the processor is not among them, as that takes a cgroup: time bounds it."""
    job, outcome = job_of(begin, recorder, scripted(skill), Policy())
    copy = job.places[-1]
    assert job.places == (JobPath(str(tmp_path / "workspace"), is_writable=True), JobPath(copy.path))
    assert (Path(copy.path).name, copy.is_writable) == ("a", False)
    assert job.argv[-1] == os.path.join(copy.path, "scripts", "x.sh")
    assert (job.network, job.hosts, job.sandbox) == ("none", (), True)
    assert (job.limits.seconds, job.limits.memory_bytes) == (30.0, 512 * 1024 * 1024)
    assert outcome.notes == ()
    record = log.records[-1]
    assert (record.runner, record.network, record.notes) == ("recorder", "none", ())


def test_what_a_skill_asks_for_and_does_not_get_is_said_everywhere(
    begin: Begin, skill: Files, recorder: Recorder, log: MemoryLog
) -> None:
    files = scripted(skill, asking(network="host", allowed_paths=["/etc", "out"]))
    session = begin(files, skills=["a"], policy=Policy(), runner=recorder)
    told: list[Any] = []
    session.listen(told.append)
    outcome = session.run_blocking("scripts/x.sh")
    assert outcome.notes == (
        "It may not use /etc: policy does not grant it.",
        "It asked for the network (host) and got none.",
    )
    assert log.records[-1].notes == outcome.notes
    assert told[-1].data["notes"] == list(outcome.notes)
    result = session.executor().execute_blocking("skills_run", {"script": "scripts/x.sh"})
    assert result.data["notes"] == list(outcome.notes)


def test_what_is_said_has_an_end(begin: Begin, skill: Files, recorder: Recorder) -> None:
    files = scripted(skill, asking(allowed_paths=[f"/etc/{number}" for number in range(1_000)]))
    _, outcome = job_of(begin, recorder, files, Policy())
    assert (len(outcome.notes), outcome.notes[-1]) == (17, "There is more of the kind, 49 times.")


def test_what_policy_grants_is_given(begin: Begin, skill: Files, recorder: Recorder, tmp_path: Path) -> None:
    data = (tmp_path / "data").resolve()
    data.mkdir()
    policy = Policy(network="restricted", hosts=["*.example.com"], paths=[f"{data}:rw"], limits={"seconds": 5})
    files = scripted(skill, asking(network="restricted", allow_hosts=["api.example.com"], allowed_paths=[str(data)]))
    job, outcome = job_of(begin, recorder, files, policy)
    assert (job.network, job.hosts, job.limits.seconds) == ("restricted", ("api.example.com",), 5.0)
    assert JobPath(str(data), is_writable=True) in job.places
    assert outcome.notes == ()


@pytest.mark.parametrize("where", [".claude/skills", "tools", "deep/er/skills"])
def test_skills_in_the_workspace_cannot_be_written_by_their_scripts(
    write_skill: Write, log: MemoryLog, recorder: Recorder, tmp_path: Path, where: str
) -> None:
    root = write_skill(tmp_path / where / "a").parent
    (root / "scripts").mkdir()
    (root / "scripts" / "x.sh").write_text("echo done")
    library = Library.from_folder(tmp_path / where, cache=False)
    session = library.session(guard=Guard(audit=log), workspace=tmp_path, runner=recorder, skills=["a"])
    session.run_blocking("scripts/x.sh")
    readable = {place.path for place in recorder.jobs[-1].places if not place.is_writable}
    assert {str(tmp_path / where), str(root)} & readable
    assert [place.path for place in recorder.jobs[-1].places if place.is_writable] == [str(tmp_path)]


def test_an_audit_log_in_the_workspace_cannot_be_written(
    write_skill: Write, recorder: Recorder, tmp_path: Path
) -> None:
    root = write_skill(tmp_path / "s" / "a").parent
    (root / "scripts").mkdir()
    (root / "scripts" / "x.sh").write_text("echo done")
    guard = Guard(audit=str(tmp_path / "w" / "audit.jsonl"))
    session = Library.from_folder(tmp_path / "s", cache=False).session(
        guard=guard, workspace=tmp_path / "w", runner=recorder, skills=["a"]
    )
    session.run_blocking("scripts/x.sh")
    assert JobPath(str(tmp_path / "w" / "audit.jsonl")) in recorder.jobs[-1].places


@pytest.mark.skipif(os.name != "posix", reason="paths and links as POSIX has them")
@pytest.mark.covers("SEC-1")
def test_the_virtual_shell_does_not_replace_the_store_or_keys_in_a_workspace(
    write_skill: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    work = tmp_path / "w"
    database = work / ".state" / "metier.db"
    skill = write_skill(work / "skills" / "a")
    before = skill.read_text()
    database.parent.mkdir()
    monkeypatch.setenv("METIER_STORE", f"sqlite:///{database}")
    for name in (".netrc", ".pypirc"):
        (work / name).write_text("SECRET")
    command = (
        "cat .netrc .state/metier.db; echo evil > .netrc; rm -f .pypirc; mkdir -p .state; echo evil > .state/metier.db;"
        "echo evil > .state/metier.db-wal; echo evil >> skills/a/SKILL.md; echo evil > skills/a/new; echo ok > fine"
    )
    library = Library.from_folder(work / "skills", cache=False)
    with VirtualRunner() as runner:
        session = library.session(guard=Guard(Policy(scripts="allow")), workspace=work, runner=runner, skills=["a"])
        result = session.executor(builtin=["Bash"]).execute_blocking("Bash", {"command": command})
    written = [".netrc", ".pypirc", "fine", "skills/a/SKILL.md"]
    assert [(work / name).read_text() for name in written] == ["SECRET", "SECRET", "ok\n", before]
    assert database.read_bytes().startswith(b"SQLite format 3")
    assert b"evil\n" not in {path.read_bytes() for path in database.parent.iterdir()}
    assert os.listdir(skill.parent) == ["SKILL.md"]
    assert "SECRET" not in str(result)
    assert "it is protected" in str(result)


def test_hooks_commands_and_the_bash_tool_get_the_same(
    begin_in: Begin, write_skill: Write, recorder: Recorder, tmp_path: Path
) -> None:
    more = asking(network="none") + "allowed-tools: Bash\nhooks:\n  pre: 'true'\n"
    folder = tmp_path / "s"
    root = write_skill(folder / "a", more=more, body="!`cat SKILL.md`").parent
    policy = Policy(network="host", hooks="allow", injection="allow", limits={"processes": 7})
    session = begin_in(folder, policy=policy, runner=recorder, skills=["a"])
    hook, injected = recorder.jobs
    for job in (hook, injected):
        copy = job.places[-1].path
        assert (job.network, job.sandbox, job.limits.processes) == ("none", True, 7)
        assert job.env["SKILL_DIR"] == copy != str(root)
    anyio.run(session.runs.command, "echo 1")
    session.executor(builtin=["Bash"]).execute_blocking("Bash", {"command": "echo 1"})
    for job in recorder.jobs[2:]:
        assert (job.network, job.limits.processes) == ("none", 7)
        assert JobPath(session.loaded.one().root) in job.places
        assert job.places[0] == JobPath(session.context.workspace, is_writable=True)
    assert len(recorder.jobs) == 4


def test_a_command_is_made_complete_beside_the_event_loop(
    begin: Begin, skill: Files, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: dict[str, bool] = {}
    decide = Guard.decide

    def noting(guard: Guard, action: Action, *args: Any) -> Decision:
        threads[action.point] = threading.current_thread() is threading.main_thread()
        return decide(guard, action, *args)

    monkeypatch.setattr(Guard, "decide", noting)
    session = begin(skill("a", **{"scripts/x.sh": "echo 1"}), runner=recorder, skills=["a"])
    anyio.run(session.executor(builtin=["Bash"]).execute, "Bash", {"command": "echo 1"})
    assert threads.pop("run") is False
    anyio.run(session.runs.command, "echo 1")
    # The last decision is about the scripts of the skill, which the command could run.
    assert threads.pop("run") is False
    assert len(recorder.jobs) == 2


def test_the_record_of_a_call_of_bash_says_what_ran_it(begin: Begin, recorder: Recorder, log: MemoryLog) -> None:
    begin(runner=recorder).executor(builtin=["Bash"]).execute_blocking("Bash", {"command": "echo 1"})
    assert (log.records[-1].tool, log.records[-1].runner) == ("Bash", "recorder")


def test_the_bash_tool_follows_a_policy_that_changes(begin: Begin, recorder: Recorder) -> None:
    session = begin(policy=Policy(unsandboxed="allow"), runner=Recorder(RunnerCapabilities()))
    executor = session.executor(builtin=["Bash"])
    assert executor.execute_blocking("Bash", {"command": "echo 1"}).success
    session.guard.policy = Policy()
    assert executor.execute_blocking("Bash", {"command": "echo 1"}).code == "isolation-missing"


def test_lines_are_told_as_they_come(begin: Begin, skill: Files) -> None:
    script = "echo one; echo two >&2; echo three"
    session = begin(skill("a", **{"scripts/x.sh": script}), skills=["a"], policy=Policy(unsandboxed="allow"))
    for run in BOTH_WAYS:
        told: list[OutputLine] = []
        run(session, on_output=told.append)
        assert [line.text for line in told if line.stream == "stdout"] == ["one\n", "three\n"]
        assert [line.text for line in told if line.stream == "stderr"] == ["two\n"]


# --- in the sandbox of this machine -----------------------------------------------------------------------------------


needs_sandbox = pytest.mark.skipif(
    sys.platform != "linux" or not NativeRunner().capabilities().isolates_files,
    reason="this machine has no sandbox for programs",
)


@needs_sandbox
@pytest.mark.covers("O-73")
def test_a_script_in_the_sandbox_of_this_machine(begin_in: Begin, write_skill: Write, tmp_path: Path) -> None:
    """What a container would be for: limits, no network, the skill read-only. There is no runner for Docker here, as
    the native one keeps the same promises without it, and says what is missing where it cannot."""
    (tmp_path / "mine.txt").write_text("private")
    root = write_skill(tmp_path / "s" / "a").parent
    (root / "scripts").mkdir()
    (root / "scripts" / "x.py").write_text(
        "import json, os, socket\n"
        "def tried(do):\n"
        "    try:\n"
        "        do()\n"
        "        return True\n"
        "    except OSError:\n"
        "        return False\n"
        f"mine, skill = {str(tmp_path / 'mine.txt')!r}, os.environ['SKILL_DIR']\n"
        "print(json.dumps({\n"
        "    'workspace': tried(lambda: open('out.txt', 'w').write('x')),\n"
        "    'read outside': tried(lambda: open(mine).read()),\n"
        "    'write outside': tried(lambda: open(mine, 'a').write('x')),\n"
        "    'read skill': tried(lambda: open(skill + '/SKILL.md').read()),\n"
        "    'write skill': tried(lambda: open(skill + '/SKILL.md', 'w').write('x')),\n"
        "    'add to skill': tried(lambda: open(skill + '/new', 'w').write('x')),\n"
        f"    'write original': tried(lambda: open({str(root / 'SKILL.md')!r}, 'a').write('x')),\n"
        "    'network': tried(lambda: socket.create_connection(('127.0.0.1', 9), 1)),\n"
        "}))\n"
    )
    session = begin_in(tmp_path / "s", skills=["a"], policy=Policy())
    outcome = session.run_blocking("scripts/x.py")
    found = json.loads(outcome.stdout)
    # It may write where nobody sees it, in a view of its own; what counts is what is there afterwards.
    assert {name for name, happened in found.items() if happened} - {"write outside"} == {"workspace", "read skill"}
    assert outcome.runner == "native"
    assert (tmp_path / "workspace" / "out.txt").read_text() == "x"
    assert (tmp_path / "mine.txt").read_text() == "private"


@needs_sandbox
def test_a_skill_of_the_project_cannot_change_itself_or_others(
    write_skill: Write, log: MemoryLog, tmp_path: Path
) -> None:
    skills = tmp_path / ".claude" / "skills"
    for name in ("a", "b"):
        write_skill(skills / name)
    (skills / "a" / "scripts").mkdir()
    (skills / "a" / "scripts" / "x.sh").write_text(
        "echo x >> .claude/skills/a/SKILL.md; echo x >> .claude/skills/b/SKILL.md; mkdir .claude/skills/c\n"
        "mv .claude moved; rm -rf .claude/skills; echo x > mine\n"
    )
    library = Library.from_folder(skills, cache=False)
    session = library.session(guard=Guard(audit=log), workspace=tmp_path, skills=["a"])
    before = [path.read_text() for path in sorted(skills.rglob("SKILL.md"))]
    session.run_blocking("scripts/x.sh")
    assert [path.read_text() for path in sorted(skills.rglob("SKILL.md"))] == before
    assert sorted(path.name for path in skills.iterdir()) == ["a", "b"]
    assert (tmp_path / "mine").exists()


@needs_sandbox
def test_folders_that_policy_grants_are_there_and_no_others(begin: Begin, skill: Files, tmp_path: Path) -> None:
    for name in ("read", "write", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    paths = [str((tmp_path / name).resolve()) for name in ("read", "write", "other")]
    script = "".join(f"cat {path}/file 2>/dev/null; echo x > {path}/new 2>/dev/null; " for path in paths)
    policy = Policy(paths=[paths[0], f"{paths[1]}:rw"])
    files = skill("a", more=asking(allowed_paths=paths), **{"scripts/x.sh": script + "true"})
    outcome = begin(files, skills=["a"], policy=policy).run_blocking("scripts/x.sh")
    assert outcome.stdout == "readwrite"
    assert [(tmp_path / name / "new").exists() for name in ("read", "write", "other")] == [False, True, False]


@needs_sandbox
def test_a_skill_that_asks_for_no_sandbox_gets_one_unless_policy_says_so(
    begin: Begin, skill: Files, log: MemoryLog
) -> None:
    files = scripted(skill, asking(sandbox=False))
    for policy, runner in ((Policy(), "native"), (Policy(unsandboxed="allow"), "plain")):
        outcome = begin(files, skills=["a"], policy=policy).run_blocking("scripts/x.sh")
        assert outcome.runner == log.records[-1].runner == runner


FETCH = """
import sys, urllib.request
for url in sys.argv[1:]:
    try:
        print(urllib.request.urlopen(url, timeout=5).read().decode())
    except OSError as error:
        print("refused", error)
"""


@needs_sandbox
def test_a_script_reaches_the_hosts_that_policy_and_skill_name_and_no_others(begin: Begin, skill: Files) -> None:
    if not NativeRunner().capabilities().filters_hosts:
        pytest.skip("hosts cannot be told apart here")

    class Hello(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        here = f"127.0.0.1:{server.server_port}"
        policy = Policy(network="restricted", hosts=[here, "127.0.0.1:1"])
        for named, expected in (([here], "hello"), (["127.0.0.1:1"], "refused"), ([], "refused")):
            files = skill("a", more=asking(allow_hosts=named), **{"scripts/x.py": FETCH})
            session = begin(files, skills=["a"], policy=policy)
            assert session.run_blocking("scripts/x.py", [f"http://{here}/"]).stdout.startswith(expected)
        server.shutdown()


@needs_sandbox
@pytest.mark.covers("O-72")
def test_limits_of_policy_hold(begin: Begin, skill: Files) -> None:
    script = "data = bytearray(300 * 1024 * 1024)\nprint(len(data))\n"
    files = skill("a", **{"scripts/x.py": script})
    assert begin(files, skills=["a"], policy=Policy()).run_blocking("scripts/x.py").is_success
    tight = Policy(limits={"memory_bytes": 100 * 1024 * 1024})
    assert not begin(files, skills=["a"], policy=tight).run_blocking("scripts/x.py").is_success


def test_limits_stay_as_they_are_where_policy_says_nothing(begin: Begin, skill: Files, recorder: Recorder) -> None:
    job, _ = job_of(begin, recorder, scripted(skill), Policy())
    assert job.limits == Limits()
