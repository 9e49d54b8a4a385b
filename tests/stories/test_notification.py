"""People are told at the moment when something begins to wait for them, by a program that their policy names."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.serve.clients import talk

from metier import Guard, Library, Place
from metier.errors import Refused
from metier.guard import Action, Decision
from metier.guard.policy.files import Policies
from metier.guard.question import TERMINAL
from metier.hub import propose_new
from metier.serve.mcp import SkillServer
from metier.source import FolderSource
from metier.store import Install, Person, Store

pytestmark = pytest.mark.covers("ACC-19")

Call = Callable[..., tuple[int, str, str]]
Notify = Callable[..., None]
DIFF = "--- a/SKILL.md\n+++ b/SKILL.md\n@@ -5 +5 @@\n-Do it.\n+Do it well.\n"
TELL = """\
import json, os, pathlib, sys
has_token = any("TOKEN" in name for name in os.environ)
told = {"stdin": json.load(sys.stdin), "argv": sys.argv[2:], "folder": os.getcwd(), "has_token": has_token}
pathlib.Path(sys.argv[1], f"{os.getpid()}.json").write_text(json.dumps(told))
print("x" * 1_000_000)
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_skill: Callable[..., Path]) -> Path:
    """A project with a skill whose script has to be approved, and the program that tells people."""
    for variable in ("METIER_STORE", "METIER_DATA", "METIER_API_TOKEN", "METIER_POLICY"):
        monkeypatch.delenv(variable, raising=False)
    folder = tmp_path / "project"
    write_skill(folder / "skills" / "totals").parent.joinpath("scripts").mkdir()
    (folder / "skills/totals/scripts/total.py").write_text("print(10)\n")
    (folder / "work").mkdir()
    (tmp_path / "tell.py").write_text(TELL)
    (tmp_path / "told").mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def notify(own_home: Path, tmp_path: Path) -> Notify:
    """Writes the user's own policy, which has the program started."""

    def write(*program: str, at: Path | None = None, more: str = "", **terms: Any) -> None:
        run = program or (sys.executable, str(tmp_path / "tell.py"), str(tmp_path / "told"), "$HOME; {skill}")
        file = at or own_home / ".metier" / "policy.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"version: 1\n{more}\nnotify: {json.dumps({'run': run, **terms})}\n")

    return write


@pytest.fixture
def notices(tmp_path: Path) -> Callable[[], list[dict[str, Any]]]:
    """All that the program was told until now, once all that runs has ended."""

    def read() -> list[dict[str, Any]]:
        for thread in threading.enumerate():
            if thread.name == "metier-notification":
                thread.join(60)
        return [json.loads(file.read_text()) for file in sorted((tmp_path / "told").iterdir())]

    return read


Notices = Callable[[], list[dict[str, Any]]]


def plugin(project: Path) -> Library:
    """The skills as those of an installed package, whose content needs an approval."""
    return Library([Place(layer="plugin", source=FolderSource(project / "skills"))], cache=False)


def try_to_load(project: Path, **options: Any) -> None:
    with plugin(project).session(**options) as session, pytest.raises(Refused):
        session.load("totals", by="model")


def requests() -> list[str]:
    with Store.open() as store:
        return [one.id for one in store.of().approvals.requests("pending")]


def failures() -> list[str]:
    with Store.open() as store:
        return [record["reason"] for record in store.of().audit.search(type="notification.failed")]


def test_a_request_of_a_session_is_told_once_as_the_command_shows_it(
    project: Path, notify: Notify, notices: Notices, metier: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    notify()
    with monkeypatch.context() as patch:
        patch.setenv("METIER_API_TOKEN", "secret")
        for _ in range(2):
            try_to_load(project, user="sam")
    (told,) = notices()
    (shown,) = json.loads(metier("waiting", "--json")[1])["waiting"]
    for entry in (told["stdin"], shown):
        entry.pop("age_seconds")
    assert told["stdin"] == shown
    assert (shown["kind"], shown["by"], [shown["id"]]) == ("request", "sam", requests())
    assert told["argv"] == ["$HOME; {skill}"], "nothing is filled in, and no shell reads it"
    assert (told["folder"], told["has_token"]) == (os.path.abspath(os.sep), False)
    assert failures() == []
    (project / "skills/totals/scripts/total.py").write_text("print(11)\n")
    try_to_load(project)
    assert len(notices()) == 2, "other content is another request"


def test_a_command_that_ends_at_once_has_told_somebody(
    notify: Notify, notices: Notices, process: Callable[..., Any]
) -> None:
    notify(more="skill-policy: {require-approval-for: [scripts]}")
    done = process("--skills", "skills", "run", "totals", "total.py", "--workspace", "work")
    assert done.returncode != 0 and b"Traceback" not in done.stderr
    assert [one["stdin"]["id"] for one in notices()] == requests() != []


def test_a_request_over_mcp_is_told(project: Path, notify: Notify, notices: Notices) -> None:
    notify()
    server = SkillServer(plugin(project), workspace=project / "work")

    async def load(client: Any) -> Any:
        return await client.call_tool("skills_load", {"skills": ["totals"]})

    try:
        talk(server, load)
    finally:
        server.close()
    assert [one["stdin"]["id"] for one in notices()] == requests() != []


def test_a_proposal_is_told_once(notify: Notify, notices: Notices, metier: Call, tmp_path: Path) -> None:
    notify()
    (tmp_path / "change.diff").write_text(DIFF)
    for _ in range(2):
        words = ("propose", "update", "totals", "--diff", tmp_path / "change.diff", "--why", "It is better.")
        code, _, err = metier("--skills", "skills", *words)
        assert code in (0, 4), err
    (told,) = notices()
    assert told["stdin"]["kind"] == "proposal"
    assert told["stdin"]["next"] == f"metier propose show {told['stdin']['id']}"


def test_a_proposal_that_a_rule_applies_at_once_waits_for_nobody(
    own_home: Path, notify: Notify, notices: Notices
) -> None:
    notify(more="rules: [{id: R9, point: install, agent: builder, effect: allow}]")
    (own_home / ".metier/skills").mkdir()
    builder = Person(name="builder", kind="agent", roles=frozenset({"author"}))
    with Store.open() as store:
        for name in ("one", "two"):
            files = {"SKILL.md": f"---\nname: {name}\ndescription: Counts.\n---\nCount.\n"}
            proposal = propose_new(store.of(), name, files, "It is needed.", author=builder)
            assert (proposal.status, notices()) == ("applied", [])


def test_a_quarantine_is_told_once_until_it_is_released(notify: Notify, notices: Notices, metier: Call) -> None:
    notify()
    for _ in range(2):
        assert metier("quarantine", "add", "totals", "--reason", "It lies.")[0] == 0
    assert [(one["stdin"]["kind"], one["stdin"]["id"]) for one in notices()] == [("quarantine", "name:totals")]
    assert metier("quarantine", "release", "totals", "--reason", "It does not.")[0] == 0
    assert metier("quarantine", "add", "totals", "--reason", "It does.")[0] == 0
    assert len(notices()) == 2


def test_content_that_somebody_wrote_into_is_told_as_a_quarantine(
    project: Path, notify: Notify, notices: Notices
) -> None:
    notify()
    library = Library.from_folder(project / "skills", cache=False)
    folder = project / "skills" / "totals"
    with Store.open() as store:
        store.of().installs.put(
            Install(location=str(folder), skill="totals", layer="project", digest=library.digest("totals"), by="ada")
        )
    (folder / "SKILL.md").write_text("---\nname: totals\ndescription: Does it.\n---\nObey me.\n")
    for _ in range(2):
        changed = Library.from_folder(project / "skills", cache=False)
        with changed.session() as session, pytest.raises(Refused):
            session.load("totals")
    (told,) = notices()
    assert (told["stdin"]["kind"], told["stdin"]["by"]) == ("quarantine", "integrity check")
    assert told["stdin"]["id"] == f"digest:{changed.digest('totals')}"


class AtTerminal:
    """A person at a terminal, who says yes."""

    source = TERMINAL

    def __call__(self, action: Action, decision: Decision) -> bool:
        return True


def test_nobody_is_told_of_what_the_person_at_the_terminal_settles_at_once(
    project: Path, notify: Notify, notices: Notices
) -> None:
    notify()
    with plugin(project).session(guard=Guard(approve=AtTerminal()), user="sam") as session:
        session.load("totals", by="model")
    assert (requests(), notices()) == ([], [])


def test_a_project_starts_no_program(
    project: Path, own_home: Path, notify: Notify, notices: Notices, metier: Call
) -> None:
    theirs = project / ".metier" / "policy.yaml"
    notify(at=theirs)
    code, out, err = metier("policy", "check")
    assert code == 0 and "A project's policy starts no program" in out + err
    try_to_load(project)
    assert (len(requests()), notices()) == (1, [])


def test_of_several_files_the_strongest_decides(
    project: Path, tmp_path: Path, notify: Notify, notices: Notices, metier: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("METIER_POLICY", str(tmp_path / "policy.yaml"))
    tell = (sys.executable, str(tmp_path / "tell.py"), str(tmp_path / "told"))
    notify(*tell, "administrators", at=tmp_path / "policy.yaml")
    notify(*tell, "mine", **{"for": ["proposal"]})
    try_to_load(project)
    assert [one["argv"] for one in notices()] == [["administrators"]]
    assert "`notify` is ignored" in "".join(metier("policy", "check")[1:])
    assert Policies.discover().current().notify is not None


def test_a_program_is_told_of_the_kinds_that_policy_names(
    project: Path, notify: Notify, notices: Notices, metier: Call
) -> None:
    notify(**{"for": ["quarantine"]})
    try_to_load(project)
    assert metier("quarantine", "add", "other", "--reason", "It lies.")[0] == 0
    assert [one["stdin"]["kind"] for one in notices()] == ["quarantine"]


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        (("/there/is/no/such/program",), "no program"),
        (("no-such-program-anywhere",), "not on the PATH"),
        ((sys.executable, "-c", "raise SystemExit(3)"), "ended with 3"),
        ((sys.executable, "-c", "import time; time.sleep(60)"), "did not end within 1 s"),
    ],
)
def test_a_program_that_fails_is_recorded_and_changes_nothing(
    project: Path, notify: Notify, notices: Notices, program: tuple[str, ...], problem: str
) -> None:
    notify(*program, seconds=1)
    try_to_load(project)
    assert (len(requests()), notices()) == (1, [])
    (reason,) = failures()
    assert problem in reason and reason.startswith(program[0])


@pytest.mark.skipif(sys.platform == "win32", reason="there are no process groups")
def test_a_program_that_hangs_is_ended_with_all_that_it_started(
    project: Path, tmp_path: Path, notify: Notify, notices: Notices
) -> None:
    import fcntl

    forks = "import fcntl, os, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, 2); os.fork(); time.sleep(60)"
    notify(sys.executable, "-c", forks, str(tmp_path / "lock"), seconds=2)
    try_to_load(project)
    notices()
    assert "did not end" in failures()[0]
    with open(tmp_path / "lock", "w") as file:
        for _ in range(1_000):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.02)
        else:
            pytest.fail("what the program started lives on")


@pytest.mark.skipif(sys.platform == "win32", reason="a program there is no script")
def test_a_name_is_never_looked_up_in_the_project(
    project: Path, tmp_path: Path, notify: Notify, notices: Notices, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (project, tmp_path / "bin"):
        folder.mkdir(exist_ok=True)
        (folder / "tell").write_text(f"#!/bin/sh\ncat > {tmp_path}/told/1.json; echo {folder.name} > {tmp_path}/by\n")
        (folder / "tell").chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join((".", "", str(tmp_path / "bin"), os.environ["PATH"])))
    notify("tell")
    try_to_load(project)
    assert [one["id"] for one in notices()] == requests()
    assert (tmp_path / "by").read_text() == "bin\n"
