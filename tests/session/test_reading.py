"""Reading the files of loaded skills."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.tables import crossed

from metier import Policy, Session
from metier.errors import FileMissing, FileRefused, InvalidArgument, MetierError, Refused, SkillNotActive, SkillNotFound
from metier.guard import MemoryLog
from metier.hints import for_model, for_person
from metier.session import RUNTIME
from metier.session.files import Encoding

Files = Callable[..., dict[str, str]]
Begin = Callable[..., Session]
Write = Callable[..., Path]


@pytest.fixture
def session(begin: Begin, skill: Files) -> Session:
    """A skill with files, and one that was loaded after it."""
    beside = {"references/x.md": "one\ntwo\nthree\n", "scripts/r.py": "print('hi')", "data.bin": "a\0b"}
    return begin(skill("a", **beside), skill("b", **{"note.txt": "of b"}), skills=["a", "b"])


@pytest.mark.covers("G-38")
def test_without_a_name_the_skill_that_was_loaded_last_is_meant(session: Session) -> None:
    assert session.read("note.txt").content == "of b"
    assert session.read("note.txt", "").skill == "b"
    assert session.read("references/x.md", "A").skill == "a"


@pytest.mark.covers("G-38")
def test_with_nothing_loaded_one_is_told_to_load_first(begin: Begin, skill: Files) -> None:
    session = begin(skill("a", **{"scripts/r.py": ""}))
    for use in (lambda: session.read("SKILL.md"), lambda: session.run_blocking("scripts/r.py"), session.loaded.one):
        with pytest.raises(SkillNotActive) as caught:
            use()
        assert for_person(caught.value.hint) == "Load one first."


@pytest.mark.covers("G-26")
def test_what_is_unknown_and_what_is_not_loaded_are_told_apart(begin: Begin, skill: Files) -> None:
    session = begin(skill("a"), skill("b"), skills=["a"])
    with pytest.raises(SkillNotFound):
        session.read("SKILL.md", "zz")
    with pytest.raises(SkillNotActive, match="'b' is not loaded"):
        session.read("SKILL.md", "b")


@pytest.mark.covers("G-26")
@pytest.mark.each(
    ("options", "content", "encoding"),
    [
        ({}, "one\ntwo\nthree\n", "text"),
        ({"start": 2}, "two\nthree\n", "text"),
        ({"start": 2, "end": 3}, "two\n", "text"),
        ({"end": 2}, "one\n", "text"),
        ({"start": 99}, "", "text"),
        ({"encoding": "base64"}, base64.b64encode(b"one\ntwo\nthree\n").decode(), "base64"),
    ],
)
def test_a_file_is_read_whole_or_in_part(
    session: Session, options: dict[str, Any], content: str, encoding: str
) -> None:
    resource = session.read("references/x.md", "a", **options)
    assert (resource.content, resource.encoding, resource.truncated) == (content, encoding, False)
    assert resource.size == 14


def test_what_is_no_text_comes_as_base64_and_says_so(session: Session) -> None:
    resource = session.read("data.bin", "a")
    assert (resource.encoding, base64.b64decode(resource.content)) == ("base64", b"a\0b")


@pytest.mark.parametrize("encoding", ["text", "base64"])
@pytest.mark.parametrize("limit", [1, 4, 5, 13])
def test_what_is_cut_says_so(session: Session, encoding: Encoding, limit: int) -> None:
    resource = session.read("references/x.md", "a", encoding=encoding, limit=limit)
    assert resource.truncated
    assert resource.as_dict()["truncated"] is True
    kept = resource.content.encode() if encoding == "text" else base64.b64decode(resource.content)
    assert b"one\ntwo\nthree\n".startswith(kept)


@pytest.mark.covers("O-107", "Y-22", "G-26")
@crossed(
    (
        ("path", "options", "error"),
        [
            ("references/gone.md", {}, FileMissing),
            ("references", {}, FileRefused),
            ("../b/SKILL.md", {}, FileRefused),
            ("/etc/passwd", {}, FileRefused),
            ("a/../../..", {}, FileRefused),
            ("", {}, FileRefused),
            (None, {}, FileRefused),
            (5, {}, FileRefused),
            ("a\0b", {}, FileRefused),
            ("x" * 100_000, {}, FileRefused),
            ("references/x.md", {"encoding": "rot13"}, InvalidArgument),
            ("references/x.md", {"start": 0}, InvalidArgument),
            ("references/x.md", {"end": "3"}, InvalidArgument),
            ("references/x.md", {"start": True}, InvalidArgument),
            ("references/x.md", {"limit": 0}, InvalidArgument),
        ],
    ),
    ("by", ["host", "model"]),
    one_in=2,
)
def test_what_cannot_be_read_is_an_error_with_a_hint_and_a_short_record(
    session: Session, log: MemoryLog, path: Any, options: dict[str, Any], error: type[MetierError], by: Any
) -> None:
    with pytest.raises(error) as caught:
        session.read(path, "a", by=by, **options)
    assert caught.value.hint
    record = log.records[-1]
    assert (record.event, record.success, record.code) == ("read", False, caught.value.code)
    assert len(record.as_line()) < 10_000


@pytest.mark.covers("Y-22")
def test_a_link_out_of_the_skill_is_not_followed(begin_in: Begin, write_skill: Write, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret")
    folder = write_skill(tmp_path / "s" / "a").parent
    os.symlink(tmp_path / "secret", folder / "link.txt")
    session = begin_in(tmp_path / "s", skills=["a"])
    with pytest.raises(MetierError):
        session.read("link.txt")


@pytest.mark.covers("O-36")
@pytest.mark.parametrize("path", ["scripts/r.py", "./scripts/r.py", "scripts//r.py", "scripts\\r.py", "scripts/./r.py"])
def test_a_model_is_told_to_run_a_script_instead_of_reading_it(session: Session, log: MemoryLog, path: str) -> None:
    with pytest.raises(Refused) as caught:
        session.read(path, "a", by="model")
    assert caught.value.code == "script-read"
    assert "skills_run" in for_model(caught.value.hint, RUNTIME.tools)
    assert (log.records[-1].decision, log.records[-1].code) == ("deny", "script-read")
    assert session.read(path, "a", by="host").content == "print('hi')"


@pytest.fixture
def on_disk(begin_in: Begin, write_skill: Write, tmp_path: Path) -> Session:
    """Two skills in a folder, one named as the other begins, with a file beside them that is nobody's."""
    for name in ("forms", "forms-old"):
        folder = write_skill(tmp_path / "s" / name, body="Read references/api.md for the fields.").parent
        for path in ("references/api.md", "scripts/r.py"):
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(f"{path} of {name}")
    (tmp_path / "s" / "secret.md").write_text("s3cret")
    return begin_in(tmp_path / "s", skills=["forms", "forms-old"])


def test_a_path_is_read_as_the_model_was_told_it(on_disk: Session, log: MemoryLog) -> None:
    told = re.search(r"^- (/\S+api\.md|[A-Z]:\S+api\.md)", on_disk.prompt.content("forms"), re.MULTILINE)
    assert told is not None
    read = on_disk.read(told[1], "forms", by="model")
    assert (read.content, read.path) == ("references/api.md of forms", "references/api.md")
    assert log.records[-1].path == "references/api.md"


def test_a_skill_in_memory_has_a_root_as_well(session: Session) -> None:
    assert session.read(f"{session.loaded.one('a').root}/references/x.md", "a").lines == 3


@crossed(
    (
        "path",
        [
            "{root}/../secret.md",
            "{root}/references/../../secret.md",
            "{root}/../forms-old/references/api.md",
            "{root}-old/references/api.md",
            "{root}//references/api.md",
            "{root}{root}/references/api.md",
            "{root}/..\\secret.md",
            "{root}",
            "{root}/",
            "{root}/.",
        ],
    ),
    ("by", ["host", "model"]),
    one_in=2,
)
def test_a_path_that_begins_with_the_root_leaves_it_no_more_than_others(on_disk: Session, path: str, by: Any) -> None:
    with pytest.raises(MetierError) as caught:
        on_disk.read(path.format(root=on_disk.loaded.one("forms").root), "forms", by=by)
    assert caught.value.code in ("file-refused", "file-missing")


def test_a_script_is_not_read_by_its_whole_path_either(on_disk: Session) -> None:
    with pytest.raises(Refused) as caught:
        on_disk.read(f"{on_disk.loaded.one('forms').root}/scripts/r.py", "forms", by="model")
    assert caught.value.code == "script-read"


@pytest.mark.covers("O-36")
def test_policy_may_let_scripts_be_read(begin: Begin, skill: Files) -> None:
    session = begin(skill("a", **{"scripts/r.py": "x"}), skills=["a"], policy=Policy(script_reads="allow"))
    assert session.read("scripts/r.py", by="model").content == "x"


def test_a_blocked_skill_is_not_read_any_more(begin: Begin, skill: Files) -> None:
    session = begin(skill("a"), skills=["a"])
    session.guard.block("a")
    with pytest.raises(SkillNotActive):
        session.read("SKILL.md", "a")
    with pytest.raises(SkillNotActive):
        session.read("SKILL.md")


def test_a_reading_leaves_one_record_and_one_event(session: Session, log: MemoryLog) -> None:
    told: list[str] = []
    session.listen(lambda event: told.append(event.message))
    before = len(log.records)
    session.read("references/x.md", "a")
    (record,) = log.records[before:]
    assert (record.event, record.skill, record.path, record.success) == ("read", "a", "references/x.md", True)
    assert told == ["Read references/x.md of a."]


@pytest.mark.covers("Y-16")
def test_the_files_of_a_loaded_skill_are_listed(session: Session) -> None:
    assert [file.path for file in session.loaded.one("a").listing.files] == [
        "SKILL.md",
        "data.bin",
        "references/x.md",
        "scripts/r.py",
    ]
