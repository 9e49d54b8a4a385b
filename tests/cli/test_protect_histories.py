"""Histories of protecting a client, undoing that and editing its file by hand: what a person wrote remains."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metier.cli.client_protection import protect_client
from metier.cli.hook_files import HOOK_FILES
from metier.cli.json_text import json_data
from metier.cli.undo_record import UndoRecord

STEPS = ("protect", "remove", "comment first", "comment last", "key", "item", "hook", "beside", "format", "policy")
POLICIES = ("", "tools: {deny: ['Bash(git push:*)', WebSearch], ask: ['Bash(npm:*)']}\nprotect: {scripts: sandbox}\n")
STARTS = (None, "", "{}", "{\n}\n", '{"theme": "dark"}', '// top\n{\r\n\t"hooks": {}, // none\r\n}\r\n')


class Author:
    """A person who edits a file, and knows what they wrote."""

    def __init__(self, client: str, file: Path, start: str | None) -> None:
        self.row, self.file = HOOK_FILES[client], file
        shutil.rmtree(file.parent, ignore_errors=True)
        if start is not None:
            file.parent.mkdir()
            file.write_bytes(start.encode())
        self.data: Any = json_data(start or "") if not self.row.plugin else {}
        self.comments: list[str] = []
        self.count = 0

    @property
    def text(self) -> str:
        return self.file.read_bytes().decode() if self.file.exists() else ""

    def edit(self, step: str) -> None:
        self.count += 1
        mark = f"note {self.count}"
        text = self.text
        if step.startswith("comment"):
            self.comments.append(mark)
            gap = "" if text.endswith("\n") or not text else "\n"
            text = f"// {mark}\n{text}" if step.endswith("first") else f"{text}{gap}// {mark}\n"
        elif self.row.plugin:
            return
        elif step == "key":
            self.data[mark] = self.count
            text = self._with_first_member(text, f'"{mark}": {self.count}')
        else:
            data = json_data(text)
            self._change(step, mark, data)
            self._change(step, mark, self.data)
            text = json.dumps(data, indent=self.count % 3 or None)
            self.comments.clear()
        self.file.parent.mkdir(exist_ok=True, parents=True)
        self.file.write_bytes(text.encode())

    def _change(self, step: str, mark: str, data: dict[str, Any]) -> None:
        """An edit by a program that knows nothing of comments and layout."""
        own = {"command": f"./{mark}.sh"}
        event = self.row.deciding[0]
        if step == "item":
            data.setdefault("list", []).append(mark)
        elif step == "hook":
            entry = own if self.row.matcher is None else {"matcher": "Bash", "hooks": [own]}
            data.setdefault("hooks", {}).setdefault(event, []).insert(0, entry)
        elif step == "beside":
            data.setdefault("hooks", {}).setdefault("Custom", []).append(own)

    @staticmethod
    def _with_first_member(text: str, member: str) -> str:
        plain = text if "{" in text else f"{text}{{}}\n"
        lines = plain.splitlines(keepends=True)
        at = next(index for index, line in enumerate(lines) if not line.startswith("//"))
        head, _, rest = "".join(lines[at:]).partition("{")
        comma = "" if json_data("".join(lines)) == {} else ","
        return f"{''.join(lines[:at])}{head}{{{member}{comma}{rest}"


def play(client: str, start: str | None, steps: list[str], root: Path) -> None:
    row = HOOK_FILES[client]
    file = root / row.project
    shutil.rmtree(root / row.project.split("/")[0], ignore_errors=True)
    record = UndoRecord.load(str(file))
    if record is not None:
        record.delete()
    if start is not None:
        file.parent.mkdir(parents=True)
    author = Author(client, file, None if row.plugin else start)
    before: str | None = author.text if file.exists() else None
    is_protected = is_edited = False
    for step in (*steps, "remove"):
        if step == "protect":
            if not is_protected:
                before, is_edited = author.text if file.exists() else None, False
            protect_client(client, is_user=False)
            assert all(one.is_none for one in protect_client(client, is_user=False)), "it is not the same twice"
            is_protected = True
        elif step == "remove":
            protect_client(client, is_user=False, remove=True)
            if is_protected and not is_edited:
                assert (author.text if file.exists() else None) == before
            is_protected = False
        elif step == "policy":
            # What was written by the one policy goes with the next; nobody edited anything.
            change_policy()
        else:
            author.edit(step)
            is_edited = True
        if step == "remove":
            if row.plugin:
                assert [line for line in author.text.splitlines() if line.strip()] == _ordered(author)
            else:
                assert json_data(author.text) == author.data
            assert all(f"// {comment}\n" in author.text for comment in author.comments)
            rest = [path for path in file.parents[0].rglob("*") if path.is_file() and path != file]
            assert rest == [], "files of our own are gone"


def change_policy() -> None:
    file = Path.home() / ".metier/policy.yaml"
    file.parent.mkdir(exist_ok=True)
    text = POLICIES[0] if file.exists() and file.read_text() == POLICIES[1] else POLICIES[1]
    (file.parent / "new").write_text(text)
    (file.parent / "new").replace(file)


def _ordered(author: Author) -> list[str]:
    lines = [f"// {comment}" for comment in author.comments]
    return sorted(lines, key=author.text.splitlines().index)


@pytest.mark.parametrize("client", HOOK_FILES)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=st.sampled_from(STARTS), steps=st.lists(st.sampled_from(STEPS), max_size=8))
def test_what_a_person_wrote_is_what_remains(client: str, start: str | None, steps: list[str], project: Path) -> None:
    play(client, start, steps, project)


@pytest.mark.slow
@pytest.mark.parametrize("client", HOOK_FILES)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=st.sampled_from(STARTS), steps=st.lists(st.sampled_from(STEPS), max_size=14))
def test_what_a_person_wrote_is_what_remains_of_long_histories(
    client: str, start: str | None, steps: list[str], project: Path
) -> None:
    play(client, start, steps, project)
