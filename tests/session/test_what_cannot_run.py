"""Each way in which a script cannot be run is an error with a code and a word about what to do, by every door."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import anyio
import pytest
from tests.tables import thinned

from metier import Guard, Library, Policy, Session
from metier.errors import MetierError
from metier.guard import MemoryLog
from metier.run import Job, Outcome, PlainRunner, RunnerCapabilities

Write = Callable[..., Path]

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links and permissions as POSIX has them")


class Case(NamedTuple):
    """What is asked for, and what must come of it."""

    script: Any = "scripts/x.py"
    args: Any = ()
    options: Mapping[str, Any] = MappingProxyType({})
    policy: Policy = Policy(unsandboxed="allow")
    prepare: Callable[[Path, pytest.MonkeyPatch], None] = lambda folder, patch: None
    runner: Any = None
    workspace: str = "work"
    code: str = ""
    says: str = ""


class Weak:
    """A runner that keeps files apart and cannot bound memory."""

    name = "weak"

    def capabilities(self) -> RunnerCapabilities:
        return RunnerCapabilities(isolates_files=True, isolates_network=True)

    def run_blocking(self, job: Job, **_: Any) -> Outcome:
        raise AssertionError("it must not come to this")

    async def run(self, job: Job, **_: Any) -> Outcome:
        return self.run_blocking(job)


def no_programs(folder: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("PATH", str(folder / "nothing"))


def link_out(folder: Path, patch: pytest.MonkeyPatch) -> None:
    (folder / "outside.py").write_text("print(1)")
    (folder / "s" / "a" / "scripts" / "out.py").symlink_to(folder / "outside.py")


def link_folder_out(folder: Path, patch: pytest.MonkeyPatch) -> None:
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "x.py").write_text("print(1)")
    (folder / "s" / "a" / "scripts" / "more").symlink_to(folder / "elsewhere")


CASES = {
    "missing interpreter": Case(
        script="scripts/x.js", prepare=no_programs, code="script-unsupported", says="needs node, which is not"
    ),
    "unknown kind of script": Case(script="scripts/x.rb", code="script-unsupported", says="Unsupported script type"),
    "missing script": Case(script="scripts/gone.py", code="file-missing", says="Script not found"),
    "script outside scripts/": Case(script="root.py", code="file-refused", says="not in the scripts directory"),
    "path out": Case(script="scripts/../../etc/passwd", code="file-refused", says="path traversal"),
    "absolute path": Case(script="/etc/passwd", code="file-refused"),
    "link out": Case(script="scripts/out.py", prepare=link_out, code="file-refused", says="must be a file in"),
    "folder that leads out": Case(script="scripts/more/x.py", prepare=link_folder_out, code="file-missing"),
    "no script": Case(script="", code="invalid-argument"),
    "arguments that are no list": Case(args="--all", code="invalid-argument", says="are a list"),
    "an argument that is no text": Case(args=[5], code="invalid-argument", says="are texts"),
    "NUL in an argument": Case(args=["a\0b"], code="invalid-argument", says="NUL"),
    "an argument that is too long": Case(args=["x" * 100_000], code="invalid-argument", says="too long"),
    "too many arguments": Case(args=["x"] * 1_000, code="invalid-argument", says="too many"),
    "arguments that are too much together": Case(args=["x" * 60_000] * 30, code="invalid-argument", says="together"),
    "a variable that is too long": Case(options={"env": {"INPUT_A": "x" * 100_000}}, code="invalid-argument"),
    "too many variables": Case(
        options={"env": {f"INPUT_{number}": "x" for number in range(100)}}, code="invalid-argument", says="too many"
    ),
    "variables that are too much together": Case(
        options={"env": {f"INPUT_{number}": "x" * 60_000 for number in range(60)}},
        code="invalid-argument",
        says="together",
    ),
    "a variable without a name": Case(options={"env": {"": "x"}}, code="invalid-argument"),
    "a folder outside": Case(options={"folder": "/etc"}, code="invalid-argument", says="outside allowed roots"),
    "a workspace that is a file": Case(workspace="file", code="file-refused", says="cannot be used"),
    "a workspace that cannot be made": Case(workspace="/proc/no-such", code="file-refused", says="cannot be used"),
    "no isolation": Case(policy=Policy(), runner=PlainRunner(), code="isolation-missing", says="this machine"),
    "a missing feature of the sandbox": Case(
        policy=Policy(require=["memory"]), runner=Weak(), code="isolation-missing", says="more memory than its limit"
    ),
    "a missing filter of hosts": Case(
        policy=Policy(network="restricted", hosts=["a.test"]), runner=Weak(), code="isolation-missing", says="hosts"
    ),
}  # fmt: skip


@pytest.fixture
def session_of(tmp_path: Path, write_skill: Write, monkeypatch: pytest.MonkeyPatch) -> Callable[[Case], Session]:
    """A session that has loaded a skill, where things are as a case has them."""

    def session_of(case: Case) -> Session:
        root = write_skill(tmp_path / "s" / "a").parent
        (root / "scripts").mkdir()
        for name in ("x.py", "x.js", "x.rb"):
            (root / "scripts" / name).write_text("")
        (root / "root.py").write_text("")
        (tmp_path / "file").write_text("")
        case.prepare(tmp_path, monkeypatch)
        library = Library.from_folder(tmp_path / "s", cache=False)
        guard = Guard(case.policy, audit=MemoryLog())
        return library.session(guard=guard, workspace=tmp_path / case.workspace, runner=case.runner, skills=["a"])

    return session_of


@pytest.mark.covers("O-67", "O-68", "O-69", "G-35")
@pytest.mark.parametrize("name", CASES)
def test_by_the_session(session_of: Callable[[Case], Session], name: str) -> None:
    case = CASES[name]
    session = session_of(case)
    for in_a_loop in (False, True):
        with pytest.raises(MetierError) as caught:
            if in_a_loop:
                anyio.run(lambda: session.run(case.script, case.args, **case.options))
            else:
                session.run_blocking(case.script, case.args, **case.options)
        assert caught.value.code == case.code
        assert case.says in str(caught.value)
        assert caught.value.hint.strip()


@pytest.mark.covers("O-67", "O-68", "O-69", "G-35")
@thinned("name", [name for name, case in CASES.items() if isinstance(case.args, list | tuple)], one_in=3)
def test_by_the_tool_of_a_model(session_of: Callable[[Case], Session], name: str) -> None:
    case = CASES[name]
    arguments = {"script": case.script, "args": list(case.args), **case.options}
    result = session_of(case).executor().execute_blocking("skills_run", json.dumps(arguments))
    assert not result.success
    assert result.code == case.code or result.code == "invalid-arguments", "what a schema can tell is told by it"
    assert (result.hint or "").strip()


@pytest.mark.covers("O-67")
def test_a_script_elsewhere_is_told_as_path_traversal_and_recorded(session_of: Callable[[Case], Session]) -> None:
    session = session_of(CASES["link out"])
    events: list[tuple[str, str]] = []
    session.listen(lambda event: events.append((event.kind, event.code)))
    for script in ("root.py", "scripts/out.py", "/etc/passwd", "../../../etc/passwd", "scripts/../../etc/passwd"):
        with pytest.raises(MetierError) as caught:
            session.run_blocking(script, by="model")
        assert caught.value.context["violation"] == "path_traversal"
        assert caught.value.context["path"]
    log = session.guard._recorder._chosen
    assert isinstance(log, MemoryLog)
    runs = [(record.event, record.decision, record.code, record.by) for record in log.records[-5:]]
    assert runs == [("run", "deny", "file-refused", "model")] * 5
    assert events == [("refused", "file-refused")] * 5


def test_a_script_that_cannot_be_read_any_more(
    session_of: Callable[[Case], Session], tmp_path: Path, unprivileged: None
) -> None:
    session = session_of(Case())
    (tmp_path / "s" / "a" / "scripts" / "x.py").chmod(0)
    with pytest.raises(MetierError) as caught:
        session.run_blocking("scripts/x.py")
    assert caught.value.code in ("skill-changed", "skill-unreadable")
    assert "x.py" in str(caught.value)
    assert caught.value.hint


def test_a_script_that_is_something_else_by_now(session_of: Callable[[Case], Session], tmp_path: Path) -> None:
    session = session_of(Case())
    script = tmp_path / "s" / "a" / "scripts" / "x.py"
    shutil.rmtree(session.loaded.one().root)
    script.unlink()
    script.mkdir()
    with pytest.raises(MetierError) as caught:
        session.run_blocking("scripts/x.py")
    assert (caught.value.code, caught.value.hint) == ("skill-changed", "Load it again.")


def test_a_workspace_that_is_read_only(
    session_of: Callable[[Case], Session], tmp_path: Path, unprivileged: None
) -> None:
    (tmp_path / "work").mkdir(mode=0o555)
    with pytest.raises(MetierError) as caught:
        session_of(Case()).run_blocking("scripts/x.py")
    assert (caught.value.code, bool(caught.value.hint)) == ("file-refused", True)
