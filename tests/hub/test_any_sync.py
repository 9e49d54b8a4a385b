"""Whatever happens between runs of sync, no text of a person is lost, and no copy whose skill is still there."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier import Guard, Library
from metier.errors import SourceUnavailable
from metier.guard import MemoryLog
from metier.hub import sync_to
from metier.library.places import COPIES_FILE

pytestmark = [pytest.mark.usefixtures("quiet_files"), pytest.mark.covers("USE-2")]

NAMES = ("a", "b", "c")
PLACES = ("one", "two", "copies", "out")

steps = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *(
                    "write",
                    "remove",
                    "break",
                    "mend",
                    "rename",
                    "unmount",
                    "mount",
                    "edit copy",
                    "remove copy",
                    "add file",
                ),
                *("sync", "sync", "sync", "sync all", "sync only", "sync one place", "sync from copies", "rehearse"),
            ]
        ),
        st.sampled_from(NAMES),
        st.sampled_from(("one", "two")),
        st.integers(0, 3),
    ),
    max_size=14,
)


def skill(name: str, text: str) -> str:
    return f"---\nname: {name}\ndescription: Does {name}.\n---\n{text}\n"


class World:
    """Two folders of skills, one folder that copies are written to and read from, and one that they are written to."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.mine: dict[str, str] = {}
        """The texts that a person wrote or changed, each with a file that it has to be in."""
        self.number = 0
        for place in PLACES:
            (root / place).mkdir()
            # A folder with anything in it is no folder that is not mounted.
            (root / place / "README").write_text("Skills.\n")

    def fresh(self) -> str:
        self.number += 1
        return f"text {self.number}"

    def do(self, step: str, name: str, place: str, which: int) -> None:
        folder = self.root / place / name
        copy = self.root / ("out", "copies")[which % 2] / name
        # Nobody can tell a folder that is not mounted and was written to from one whose other skills are gone.
        if step == "write" and not (self.root / f"{place}-away").exists():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "SKILL.md").write_text(skill(name, self.fresh()))
        elif step == "remove":
            shutil.rmtree(folder, ignore_errors=True)
        elif step == "break" and (folder / "SKILL.md").exists():
            (folder / "SKILL.md").write_bytes(b"")
        elif step == "mend" and folder.exists():
            (folder / "SKILL.md").write_text(skill(name, self.fresh()))
        elif step == "rename" and folder.exists() and not (self.root / place / NAMES[which % 3]).exists():
            folder.rename(self.root / place / NAMES[which % 3])
        elif step == "unmount" and not (self.root / f"{place}-away").exists():
            (self.root / place).rename(self.root / f"{place}-away")
            if which % 2:
                (self.root / place).mkdir()
        elif step == "mount" and (self.root / f"{place}-away").exists():
            shutil.rmtree(self.root / place, ignore_errors=True)
            (self.root / f"{place}-away").rename(self.root / place)
        elif step == "edit copy" and (copy / "SKILL.md").exists():
            self.own(copy / "SKILL.md", skill(name, self.fresh()))
        elif step == "remove copy" and str(copy / "SKILL.md") not in self.mine and str(copy / "notes") not in self.mine:
            shutil.rmtree(copy, ignore_errors=True)
        elif step == "add file" and copy.exists():
            self.own(copy / "notes", self.fresh())
        elif step.startswith("sync") or step == "rehearse":
            self.sync(step, name, place, "copies" if which % 2 else "out")

    def own(self, path: Path, text: str) -> None:
        path.write_text(text)
        self.mine[str(path)] = text

    def sync(self, step: str, name: str, place: str, to: str) -> None:
        places = {"sync one place": [place], "sync from copies": ["copies"], "sync": ["one", "two"]}.get(
            step, ["one", "two", "copies", "out"]
        )
        if any(not (self.root / one).is_dir() for one in places):
            with pytest.raises(SourceUnavailable):
                Library.from_folder(*(self.root / one for one in places), cache=False)
            return
        found = Library.from_folder(*(self.root / one for one in places), cache=False)
        only = [name] if step == "sync only" and name in {entry.name for entry in found.entries(all=True)} else []
        before = self.copies(to)
        done = sync_to(found, self.root / to, only=only, guard=Guard(audit=MemoryLog()), dry_run=step == "rehearse")
        after = self.copies(to)
        if step == "rehearse":
            assert before == after
        said = {one.skill: one for one in done.steps}
        for lost in before - after:
            assert said[lost].done == "removed"
            assert not self.is_anywhere(lost), f"{lost} was removed from {to}, and its skill is there"
        for one in done.steps:
            assert one.reason or one.done in ("added", "updated", "unchanged"), one
        for entry in found.entries(all=True):
            assert only or entry.name in said, f"{entry.name} was dropped without a word"

    def copies(self, folder: str) -> set[str]:
        return {name for name in os.listdir(self.root / folder) if name not in (COPIES_FILE, "README")}

    def is_anywhere(self, name: str) -> bool:
        """Whether a folder of skills, mounted or not, has a skill of a name, in whatever state."""
        places = ("one", "two", "one-away", "two-away")
        files = (file for place in places for file in (self.root / place).glob("*/SKILL.md"))
        return any(file.parent.name == name or f"name: {name}\n" in file.read_text() for file in files)

    def check(self) -> None:
        for path, text in self.mine.items():
            assert Path(path).read_text() == text, f"{path} was lost"


@given(steps=steps)
def test_no_sequence_loses_what_a_person_wrote_or_a_copy_whose_skill_is_there(
    steps: list[tuple[str, str, str, int]],
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        root = Path(os.path.realpath(folder))
        patched.setenv("METIER_CONFIG", str(root / "config"))
        world = World(root)
        for step in (("write", "a", "one", 0), ("write", "b", "two", 0), ("sync", "a", "one", 0), *steps):
            world.do(*step)
            world.check()
