"""What policy says to the scripts of a skill, it says to whoever runs them: also to Bash and to commands."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from tests.governance.conftest import Begin, Put, Typed
from tests.tables import crossed

from metier import Policy
from metier.errors import Refused
from metier.guard import Action, Decision, MemoryLog
from metier.run import Job, Outcome, PlainRunner, RunnerCapabilities

Write = Callable[[str], Path]

NO_SCRIPTS = (
    "version: 1\nrun: {unsandboxed: allow}\nrules:\n  - {id: R1, point: script-run, layer: plugin, effect: deny}\n"
)
SCRIPT = {"scripts/x.sh": "echo it ran\n"}


class Recorder:
    """A runner that keeps the jobs that it is given, and says that it isolates them."""

    name = "recorder"

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def capabilities(self) -> RunnerCapabilities:
        return RunnerCapabilities(isolates_files=True, isolates_network=True, filters_hosts=True, hides_files=True)

    def run_blocking(self, job: Job, **_: object) -> Outcome:
        self.jobs.append(job)
        return Outcome(exit_code=0, runner=self.name)

    async def run(self, job: Job, **options: object) -> Outcome:
        return self.run_blocking(job, **options)


def commands(folder: Path, workspace: str) -> list[str]:
    return [
        f"bash {folder}/scripts/x.sh",
        f"cd {folder} && bash scripts/x.sh",
        f"cd {folder.parent} && bash {folder.name}/scripts/x.sh",
        f"bash {str(folder)[:-2]}'{str(folder)[-2:]}'/scripts/x.sh",
        f"X={folder}; bash $X/scripts/x.sh",
        f"bash {os.path.relpath(folder, workspace)}/scripts/x.sh",
    ]


@crossed(("number", range(6)), ("at", ["root", "folder"]), one_in=2)
def test_bash_runs_no_script_of_a_skill_whose_scripts_may_not_run(
    put: Put, begin: Begin, enterprise: Write, log: MemoryLog, number: int, at: str
) -> None:
    enterprise(NO_SCRIPTS)
    put("plugin", "peek", **SCRIPT)
    session = begin(Policy(unsandboxed="allow"), runner=PlainRunner(), approve=Typed())
    session.load("peek")
    command = commands(Path(getattr(session.loaded.one(), at)), session.context.workspace)[number]
    result = session.executor(builtin=["Bash"]).execute_blocking("Bash", {"command": command})
    assert (result.success, result.code) == (False, "rule-denied")
    assert "rule R1" in str(result.error)
    denied = [record for record in log.records if record.type == "script.denied"]
    assert [(record.skill, record.source) for record in denied] == [("peek", "plugin")]


def test_other_commands_still_run(put: Put, begin: Begin, enterprise: Write) -> None:
    enterprise(NO_SCRIPTS)
    put("plugin", "peek", **SCRIPT)
    session = begin(Policy(unsandboxed="allow"), runner=PlainRunner(), approve=Typed())
    session.load("peek")
    result = session.executor(builtin=["Bash"]).execute_blocking("Bash", {"command": "echo fine"})
    assert (result.success, result.result) == (True, "fine")


def test_execute_is_a_run_of_the_skill_that_it_names(put: Put, begin: Begin, enterprise: Write, log: MemoryLog) -> None:
    enterprise(NO_SCRIPTS)
    put("plugin", "peek", **SCRIPT)
    put("personal", "mine", **SCRIPT)
    session = begin(Policy(unsandboxed="allow"), runner=PlainRunner(), approve=Typed())
    session.load(["peek", "mine"])
    folder, other = (session.loaded.one(name).root for name in ("peek", "mine"))
    assert (
        anyio.run(lambda: session.runs.command(f"bash {other}/scripts/x.sh > /dev/null; echo done")).stdout == "done\n"
    )
    assert (log.records[-1].type, log.records[-1].skill) == ("script.run", "mine")
    for command in (f"bash {folder}/scripts/x.sh", f"bash {other}/scripts/x.sh; bash {folder}/scripts/x.sh"):
        with pytest.raises(Refused, match="rule R1"):
            anyio.run(lambda line: session.runs.command(line), command)
        assert (log.records[-1].type, log.records[-1].skill) == ("script.denied", "peek")


def test_who_agrees_to_a_command_agrees_to_one_skill_alone(put: Put, begin: Begin, enterprise: Write) -> None:
    enterprise("version: 1\nrun: {unsandboxed: allow}\nrules:\n  - {id: R1, point: script-run, effect: ask}\n")
    for name in ("one", "two"):
        put("personal", name, **SCRIPT)
    asked: list[str] = []

    def approve(action: Action, _: Decision) -> bool:
        asked.append(action.skill.name if action.skill else "")
        return True

    session = begin(Policy(unsandboxed="allow"), runner=PlainRunner(), approve=Typed(approve))
    session.load(["one", "two"])
    folders = [session.loaded.one(name).root for name in ("one", "two")]
    assert anyio.run(session.runs.command, f"bash {folders[0]}/scripts/x.sh").stdout == "it ran\n"
    with pytest.raises(Refused, match="rule R1"):
        anyio.run(session.runs.command, f"bash {folders[0]}/scripts/x.sh; bash {folders[1]}/scripts/x.sh")
    assert asked[0] == "one"


def test_a_sandbox_does_not_show_commands_a_skill_whose_scripts_may_not_run(
    put: Put, begin: Begin, enterprise: Write
) -> None:
    enterprise(NO_SCRIPTS)
    peek = put("plugin", "peek", **SCRIPT)
    put("personal", "mine", **SCRIPT)
    runner = Recorder()
    session = begin(runner=runner, approve=Typed())
    session.load(["peek", "mine"])
    # Whatever it comes to, no word of it names the skill.
    anyio.run(session.runs.command, "cd /*/*/sk*ls/pl*/pe*; bash sc*/*")
    session.executor(builtin=["Bash"]).execute_blocking("Bash", {"command": "ls"})
    for job in runner.jobs:
        seen = {place.path for place in job.places}
        assert session.loaded.one("mine").root in seen
        assert not {str(peek), session.loaded.one("peek").root} & seen
    assert len(runner.jobs) == 2


def test_commands_reach_the_network_only_where_each_active_skill_may(put: Put, begin: Begin, enterprise: Write) -> None:
    enterprise("version: 1\nskill-policy: {require-approval-for: [network-tools]}\nrun: {network: host}\n")
    put("personal", "plain")
    runner = Recorder()
    session = begin(runner=runner)
    anyio.run(session.runs.command, "ls")
    session.load("plain")
    anyio.run(session.runs.command, "ls")
    session.executor(builtin=["Bash"]).execute_blocking("Bash", {"command": "ls"})
    assert [job.network for job in runner.jobs] == ["host", "none", "none"]


@pytest.mark.skipif(importlib.util.find_spec("bashkit") is None, reason="there is no virtual shell here")
def test_the_virtual_shell_and_what_it_hands_over_run_no_such_script_either(
    put: Put, begin: Begin, enterprise: Write
) -> None:
    enterprise(NO_SCRIPTS)
    put("plugin", "peek", **{"scripts/x.py": "print('it ran')\n"})
    session = begin(Policy(unsandboxed="allow"), approve=Typed())
    session.load("peek")
    mount = session.prompt.root_of(session.loaded.one("peek"))
    with pytest.raises(Refused, match="rule R1"):
        anyio.run(lambda: session.runs.command(f"python3 {mount}/scripts/x.py", virtual=True))
    hidden = anyio.run(lambda: session.runs.command("for f in /.s*/sk*/p*/sc*/x.py; do python3 $f; done", virtual=True))
    assert "it ran" not in hidden.stdout
    assert "rule R1" in hidden.stderr
