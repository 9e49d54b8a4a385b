"""Running the scripts of loaded skills, with a real runner."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from metier import Library, Place, Policy, Session
from metier.errors import FileMissing, FileRefused, InvalidArgument, MetierError, Refused, SkillNotActive
from metier.guard import Guard, MemoryLog
from metier.run import PlainRunner
from metier.session.context import By
from metier.source import MemorySource

Files = Callable[..., dict[str, str]]
Begin = Callable[..., Session]
Write = Callable[..., Path]

FREE = Policy(unsandboxed="allow")
SHOW = """
import json, os, sys
print(json.dumps({"args": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ)}))
"""


@pytest.fixture
def session(begin: Begin, skill: Files) -> Session:
    """A skill with scripts, and a policy that lets them run."""
    scripts = {
        "scripts/show.py": SHOW,
        "scripts/fail.sh": "echo out; echo err >&2; exit 3\n",
        "scripts/slow.sh": "sleep 60\n",
        "scripts/x.rb": "puts 1",
        "tools/other.py": "print(1)",
        "root.py": "print(1)",
    }
    return begin(skill("a", **scripts), skill("b"), skills=["b", "a"], policy=FREE)


@pytest.mark.covers("G-26", "O-105")
def test_arguments_environment_and_folder_are_passed_as_they_are(session: Session, log: MemoryLog) -> None:
    (Path(session.context.workspace) / "sub").mkdir(parents=True)
    outcome = session.run_blocking("scripts/show.py", ["--x", "a b; $(c)"], env={"LIMIT": '"; rm -rf /"'}, folder="sub")
    found = json.loads(outcome.stdout)
    assert found["args"] == ["--x", "a b; $(c)"]
    assert found["cwd"] == str(Path(session.context.workspace, "sub").resolve())
    assert found["env"]["LIMIT"] == '"; rm -rf /"'
    assert found["env"]["SESSION_ID"] == session.id
    record = log.records[-1]
    assert (record.event, record.skill, record.path, record.exit_code) == ("run", "a", "scripts/show.py", 0)
    assert (record.command, record.success) == ("scripts/show.py --x a b; $(c)", True)
    assert record.duration_ms > 0


@pytest.mark.covers("O-105")
def test_a_script_that_fails_is_recorded_with_its_exit_code(session: Session, log: MemoryLog) -> None:
    told: list[Any] = []
    session.listen(told.append)
    outcome = anyio.run(lambda: session.run("scripts/fail.sh", (), "a"))
    assert (outcome.exit_code, outcome.stdout, outcome.stderr) == (3, "out\n", "err\n")
    assert (log.records[-1].event, log.records[-1].exit_code, log.records[-1].success) == ("run", 3, False)
    assert [(event.kind, event.data["exit_code"]) for event in told] == [("ran", 3)]


def test_a_script_that_takes_too_long_is_ended(session: Session, log: MemoryLog) -> None:
    outcome = session.run_blocking("scripts/slow.sh", seconds=0.2)
    assert (outcome.timed_out, outcome.exit_code, log.records[-1].exit_code) == (True, 124, 124)


def test_secrets_among_arguments_are_not_recorded(session: Session, log: MemoryLog) -> None:
    session.run_blocking("scripts/show.py", ["--token=hunter2hunter2", "password=hunter2"])
    assert "hunter2" not in log.records[-1].as_line().decode()


@pytest.mark.covers("G-26")
@pytest.mark.each(
    ("script", "args", "options", "error"),
    [
        ("", (), {}, InvalidArgument),
        (None, (), {}, InvalidArgument),
        ("scripts/gone.py", (), {}, FileMissing),
        ("root.py", (), {}, FileRefused),
        ("tools/other.py", (), {}, FileRefused),
        ("../a/scripts/show.py", (), {}, FileRefused),
        ("/bin/sh", (), {}, FileRefused),
        ("scripts/x.rb", (), {}, MetierError),
        ("scripts/show.py", "text", {}, InvalidArgument),
        ("scripts/show.py", [1], {}, InvalidArgument),
        ("scripts/show.py", ["a\0"], {}, InvalidArgument),
        ("scripts/show.py", ["x" * 100_000], {}, InvalidArgument),
        ("scripts/show.py", ["x"] * 1_000, {}, InvalidArgument),
        ("scripts/show.py", (), {"env": "A=1"}, InvalidArgument),
        ("scripts/show.py", (), {"env": {"LD_PRELOAD": "x"}}, InvalidArgument),
        ("scripts/show.py", (), {"env": {"": "x"}}, InvalidArgument),
        ("scripts/show.py", (), {"folder": "/etc"}, InvalidArgument),
        ("scripts/show.py", (), {"folder": ".."}, InvalidArgument),
        ("scripts/show.py", (), {"folder": "gone"}, FileMissing),
        ("scripts/show.py", (), {"folder": 5}, InvalidArgument),
        ("scripts/show.py", (), {"seconds": 0}, InvalidArgument),
        ("scripts/show.py", (), {"seconds": 100_000}, InvalidArgument),
        ("scripts/show.py", (), {"seconds": float("nan")}, InvalidArgument),
        ("scripts/show.py", (), {"seconds": "5"}, InvalidArgument),
    ],
)
def test_what_cannot_be_run_is_an_error_with_a_hint(
    session: Session, script: Any, args: Any, options: dict[str, Any], error: type[MetierError]
) -> None:
    with pytest.raises(error) as caught:
        session.run_blocking(script, args, **options)
    assert caught.value.hint


def test_folders_of_scripts_can_be_chosen(begin: Begin, skill: Files) -> None:
    session = begin(
        skill("a", **{"tools/x.py": "print(7)"}), skills=["a"], policy=FREE, script_folders=["tools", "scripts"]
    )
    assert session.run_blocking("tools/x.py").stdout == "7\n"


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        (Policy(), "isolation-missing"),
        (Policy(unsandboxed="ask"), "approval-needed"),
        (Policy(unsandboxed="allow", scripts="deny"), "scripts-denied"),
        (Policy(unsandboxed="allow", scripts="ask"), "approval-needed"),
    ],
)
def test_policy_decides_whether_scripts_run(
    begin: Begin, skill: Files, log: MemoryLog, tmp_path: Path, policy: Policy, code: str
) -> None:
    mark = tmp_path / "ran"
    files = skill("a", **{"scripts/x.sh": f"touch {mark}"})
    session = begin(files, skills=["a"], policy=policy, runner=PlainRunner())
    with pytest.raises(Refused) as caught:
        session.run_blocking("scripts/x.sh")
    assert caught.value.code == code
    assert (log.records[-1].event, log.records[-1].success, log.records[-1].code) == ("run", False, code)
    assert not mark.exists()


def test_scripts_of_untrusted_skills_are_asked_about(skill: Files, tmp_path: Path) -> None:
    source = MemorySource({}).add(skill("a", **{"scripts/x.sh": "echo 1"}))
    library = Library([Place(layer="project", source=source, trusted=False)], cache=False)
    session = library.session(guard=Guard(FREE, audit=MemoryLog()), workspace=tmp_path)
    session.load("a")
    with pytest.raises(Refused) as caught:
        session.run_blocking("scripts/x.sh")
    assert caught.value.code == "approval-needed"


def test_blocking_stops_the_next_run(session: Session) -> None:
    session.guard.block("a")
    with pytest.raises(SkillNotActive):
        session.run_blocking("scripts/show.py", (), "a")


def test_a_script_that_changes_its_skill_makes_it_stale(begin_in: Begin, write_skill: Write, tmp_path: Path) -> None:
    folder = write_skill(tmp_path / "s" / "a").parent
    (folder / "scripts").mkdir()
    (folder / "scripts" / "x.sh").write_text('echo more >> "$1"\n')
    session = begin_in(tmp_path / "s", skills=["a"], policy=FREE, runner=PlainRunner())
    session.run_blocking("scripts/x.sh", [str(folder / "SKILL.md")])
    assert session.loaded.one().is_stale


@pytest.mark.parametrize("name", ["TAR_OPTIONS", "ZIPOPT", "OTHER_KEY"])
def test_a_model_cannot_set_variables_that_the_skill_does_not_ask_for(
    begin: Begin, skill: Files, log: MemoryLog, name: str
) -> None:
    asking = skill("a", more="requires: {env: [API_KEY]}\n", **{"scripts/show.py": SHOW})
    session = begin(asking, skills=["a"], policy=FREE)
    with pytest.raises(InvalidArgument, match=f"{name} may not be set"):
        session.run_blocking("scripts/show.py", env={name: "--checkpoint-action=exec=sh"}, by="model")
    assert (log.records[-1].event, log.records[-1].success) == ("run", False)
    given = {"API_KEY": "k", "INPUT_LIMIT": "3"}
    env = json.loads(session.run_blocking("scripts/show.py", env=given, by="model").stdout)["env"]
    assert given.items() <= env.items()


@pytest.mark.parametrize("by", ["host", "user"])
def test_people_and_programs_set_what_does_not_steer(session: Session, by: By) -> None:
    outcome = session.run_blocking("scripts/show.py", env={"OTHER_KEY": "k"}, by=by)
    assert json.loads(outcome.stdout)["env"]["OTHER_KEY"] == "k"
    with pytest.raises(InvalidArgument):
        session.run_blocking("scripts/show.py", env={"LD_PRELOAD": "x"}, by=by)


def test_a_run_that_is_cancelled_is_recorded_as_such(session: Session, log: MemoryLog) -> None:
    async def main() -> None:
        with anyio.move_on_after(0.3):
            await session.run("scripts/slow.sh")

    anyio.run(main)
    assert (log.records[-1].event, log.records[-1].success, log.records[-1].code) == ("run", False, "cancelled")


def test_a_command_line_runs_in_the_workspace(session: Session, log: MemoryLog) -> None:
    outcome = anyio.run(lambda: session.runs.command("pwd; exit 4"))
    assert (outcome.stdout.strip(), outcome.exit_code) == (str(Path(session.context.workspace).resolve()), 4)
    assert (log.records[-1].command, log.records[-1].exit_code) == ("pwd; exit 4", 4)


@pytest.mark.each("command", ["", "  ", None, "a\0", "x" * 100_000])
def test_a_command_line_that_is_none_is_refused(session: Session, command: Any) -> None:
    with pytest.raises(InvalidArgument):
        anyio.run(lambda: session.runs.command(command))
