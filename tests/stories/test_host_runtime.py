"""The story of a host with a runtime of its own: it loads, reads, runs, switches, meets the cap, and goes on after a
restart, with the names of the tools that it always had."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from metier import Guard, Library, Policy, Session
from metier.dialect import as_text
from metier.run import PlainRunner
from metier.tools import ToolResult

Metier = Callable[..., tuple[int, str, str]]

EXTRACT = """\
import os, sys
print("extracted", *sys.argv[1:], "for", os.environ["INPUT_READER"], "in", os.path.basename(os.getcwd()))
"""
LOGO = bytes(range(256))


class Host:
    """A host that was written for another runtime: it makes requests, dispatches calls, and only ever appends."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._executor = session.executor()
        self.messages: list[dict[str, Any]] = []

    def request(self, asked: str = "") -> str:
        """The top-level instructions of the next call of a model."""
        if asked:
            self.messages.append({"role": "user", "content": asked})
        return self.session.instructions(asked or None)

    def dispatch(self, tool: str, **arguments: Any) -> ToolResult:
        """Carry out a call of the model, and append its result."""
        before = json.dumps(self.messages)
        result = anyio.run(self._executor.execute, tool, arguments)
        self.messages.append({"role": "assistant", "call": {"name": tool, "arguments": arguments}})
        self.messages.append({"role": "tool", "content": as_text(result)})
        assert json.dumps(self.messages).startswith(before[:-1]), "what was said stays as it was said"
        return result

    @property
    def active(self) -> list[str]:
        return [one.name for one in self.session.active]


@pytest.fixture
def skills(tmp_path: Path, write_skill: Callable[..., Path]) -> Path:
    """Ten skills, two of which have files."""
    folder = tmp_path / "skills"
    write_skill(
        folder / "pdf-processing",
        description="Extract text and tables from PDF files.",
        body="Extract with scripts/extract.py. Dates are written day first.",
        more="license: MIT\n",
    )
    write_skill(
        folder / "data-analysis",
        description="Summarise tables of numbers.",
        body="Count with scripts/count.sh. Dates are written year first.",
    )
    for number in range(8):
        write_skill(folder / f"chore-{number}", description=f"Do chore {number}.", body=f"Chore {number}.")
    files: dict[str, bytes] = {
        "pdf-processing/scripts/extract.py": EXTRACT.encode(),
        "pdf-processing/references/fields.md": b"# Fields\nName and date.\n",
        "pdf-processing/assets/logo.png": LOGO,
        "data-analysis/scripts/count.sh": b'echo "$# columns: $*"\n',
        "data-analysis/references/units.md": b"Amounts are in cents.\n",
    }
    for path, content in files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


@pytest.fixture
def start(skills: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], Host]:
    """Starts the host, as a process does that has only what is on disk: skills, a state, and the store."""
    monkeypatch.setenv("METIER_STORE", f"sqlite:///{tmp_path / 'store.db'}")
    (tmp_path / "work" / "inbox").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")

    def start(state: str | None = None) -> Host:
        options: dict[str, Any] = {
            "guard": Guard(Policy(unsandboxed="allow")),
            "runner": PlainRunner(),
            "workspace": tmp_path / "work",
            "delivery": "instructions",
        }
        library = Library.from_folder(skills, cache=False)
        return Host(library.session(id="chat-7", **options) if state is None else library.resume(state, **options))

    return start


@pytest.mark.covers("ACC-7", "ACC-4", "G-21", "G-38", "G-39", "G-40", "G-41", "G-42")
def test_a_host_keeps_its_names_and_its_session(start: Callable[..., Host], metier: Metier, tmp_path: Path) -> None:
    host = start()

    # Every request says which skills there are, and that they have to be loaded.
    told = host.request("Get the table out of report.pdf and sum it up.")
    assert "<name>pdf-processing</name><description>Extract text and tables from PDF files.</description>" in told
    assert "skills_load" in told
    assert "Extract with scripts/extract.py" not in told
    early = host.dispatch("skills.read", path="references/fields.md")
    assert (early.success, early.code) == (False, "skill-not-active")

    # Two are loaded, with a receipt; from the next request on their bodies are in it, the last one counts.
    loaded = host.dispatch("skills.load", names=["pdf-processing", "data-analysis"], mode="replace")
    pdf, data = loaded.data["receipt"]["active"]
    assert (pdf["name"], data["name"]) == ("pdf-processing", "data-analysis")
    assert pdf["location"] == f"{pdf['root_dir']}/SKILL.md"
    assert pdf["digest"].startswith("sha256:")
    assert pdf["properties"]["license"] == "MIT"
    told = host.request()
    assert told.index("Dates are written day first.") < told.index("Dates are written year first.")
    assert "last" in told.partition("<active_skills>")[0]

    # Text and bytes; without a name those of the skill that was loaded last.
    assert "Amounts are in cents." in as_text(host.dispatch("skills.read", path="references/units.md"))
    fields = host.dispatch("skills.read", skill="pdf-processing", path="references/fields.md")
    assert "Name and date." in as_text(fields)
    logo = host.dispatch("skills.read", skill="pdf-processing", path="assets/logo.png", encoding="base64")
    assert base64.b64decode(logo.data["content"]) == LOGO

    # Scripts, with arguments, variables and a folder, each by the interpreter of its ending.
    ran = host.dispatch(
        "skills.run_script",
        skill="pdf-processing",
        path="scripts/extract.py",
        args=["--in", "report.pdf"],
        env={"INPUT_READER": "Ada"},
        workdir="inbox",
    )
    assert {key: ran.data[key] for key in ("path", "exit_code", "stdout", "stderr")} == {
        "path": "scripts/extract.py",
        "exit_code": 0,
        "stdout": "extracted --in report.pdf for Ada in inbox\n",
        "stderr": "",
    }
    counted = host.dispatch("skills.run_script", path="scripts/count.sh", args=["a b", "c"])
    assert counted.data["stdout"] == "2 columns: a b c\n"

    # The model switches: the old body is gone from the next request, and what was said stays.
    switched = host.dispatch("skills.load", names=["data-analysis", "chore-1"], mode="replace")
    assert switched.data["receipt"]["unloaded"] == ["pdf-processing"]
    assert "No longer active: pdf-processing." in as_text(switched)
    told = host.request("And now the chores.")
    assert "Dates are written day first." not in told
    assert "Chore 1." in told

    # More than eight are an error that says to load fewer, and change nothing.
    many = host.dispatch("skills.load", names=[f"chore-{number}" for number in range(8)], mode="add")
    assert (many.success, many.code) == (False, "invalid-argument")
    assert "fewer" in as_text(many)
    assert host.active == ["data-analysis", "chore-1"]
    assert host.dispatch("skills.load", names=["pdf-processing"], mode="add").success
    assert host.dispatch("skills.unload", names=["chore-1", "chore-2"]).success
    assert host.active == ["data-analysis", "pdf-processing"]

    # The host ends. Meanwhile an administrator takes a skill out of use, in the store that all share.
    (tmp_path / "state.json").write_text(json.dumps(host.session.save()))
    host.session.close()
    code, _, err = metier(
        "--skills", tmp_path / "skills", "quarantine", "add", "pdf-processing", "--reason", "It leaks"
    )
    assert code == 0, err

    # After the restart the conversation goes on, without what must not be used any more.
    again = start((tmp_path / "state.json").read_text())
    assert again.session.id == "chat-7"
    assert again.active == ["data-analysis"]
    told = again.request("Go on.")
    assert "Dates are written year first." in told
    assert "pdf-processing" not in told
    assert again.dispatch("skills.run_script", path="scripts/count.sh", args=["x"]).data["stdout"] == "1 columns: x\n"
    refused = again.dispatch("skills.load", names=["pdf-processing"], mode="add")
    assert (refused.success, refused.code) == (False, "skill-quarantined")
    assert again.dispatch("skills.unload", all=True).success
    assert again.active == []

    # All of it was recorded in the store, under one name for each tool.
    code, out, err = metier("audit", "export", "--format", "jsonl")
    assert code == 0, err
    records = [json.loads(line) for line in out.splitlines()]
    used = {tool for record in records if (tool := _tool_of(record))}
    assert used == {"skills_load", "skills_unload", "skills_read", "skills_run"}


def _tool_of(record: dict[str, Any]) -> str:
    tool = record.get("tool") or record.get("payload", {}).get("tool") or ""
    return str(tool)
