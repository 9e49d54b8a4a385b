"""Attacks that once worked: each is kept here so that it never does again."""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tables import in_part

from metier import Library, Place
from metier.errors import FileRefused, InvalidArgument, MetierError, PackageTooLarge, SkillUnreadable
from metier.library.index_cache import IndexCache
from metier.skill import FolderPackage, MemoryPackage, parse
from metier.skill.frontmatter import frontmatter_name, read_frontmatter, read_name_only
from metier.skill.validate import check
from metier.source import FolderSource

Write = Callable[..., Path]


def cpu(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def test_a_folder_swapped_for_a_link_after_the_scan_is_not_read(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "project" / "skills" / "a")
    write_skill(tmp_path / "outside", name="a")
    (tmp_path / "outside" / "key").write_text("CANARY")
    source = FolderSource(tmp_path / "project" / "skills", contain=tmp_path / "project")
    library = Library([Place(layer="project", source=source, trusted=False)], cache=False)
    (tmp_path / "project" / "skills" / "a").rename(tmp_path / "project" / "moved")
    (tmp_path / "project" / "skills" / "a").symlink_to(tmp_path / "outside")
    for use in (lambda: library.read("a", "key"), lambda: library.files("a"), lambda: library.digest("a")):
        with pytest.raises(FileRefused, match="traversal"):
            use()
    with pytest.raises(SkillUnreadable):
        library.document("a")


@pytest.mark.each(
    "block",
    [
        '"s\\x63ope": {agents: [boss]}',
        "? scope\n: {agents: [boss]}",
        '"scope": {agents: [boss]}',
        "scopes: {agent: boss}",
        "Scope: {agents: [boss]}",
        "metadata: {metier: {scope: {agents: [boss]}}}",
    ],
)
def test_a_scope_holds_however_it_is_spelled(block: str) -> None:
    library = Library.from_files({"SKILL.md": f"---\nname: good\ndescription: d\n{block}\n---\nx"})
    assert [entry.name for entry in library] == []
    assert [entry.name for entry in library.as_caller(agent="boss")] == ["good"]


@pytest.mark.each(
    "data",
    [
        b'---\nname: good\ndescription: d\n"name": evil\n---\nx',
        b"---\nname: good\ndescription: d\n? name\n: evil\n---\nx",
        b'---\nname: good\ndescription: d\ndescription: ""\n---\nBody.',
        b"---\nname: good\ndescription: d\n<<: {name: evil}\n---\nx",
        b"---\nname: " + b"n" * 100_000 + b"\ndescription: d\n---\nBody.",
    ],
)
def test_the_quick_look_never_disagrees_with_the_whole_reading(data: bytes) -> None:
    header, draft = read_name_only(data, "f"), read_frontmatter(data)
    assert header is None or (header.name == frontmatter_name(draft, "f") and not draft.derived)


def test_a_file_with_the_checksum_of_another_is_another_file(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    file = tmp_path / "a" / "SKILL.md"
    good, evil = (b"---\nname: a\ndescription: %b\n---\n" % text for text in (b"Harmless.", b"Evil one."))
    tail = b"\xff\xfe\xfd\xfc"  # no text, as the end of the forged one is none: what it was tells nothing of the edit
    file.write_bytes(good + tail)
    library = Library.from_folder(tmp_path, cache=False)  # read at once, so its time stamps tell nothing yet
    forged = evil + _suffix_for(zlib.crc32(good + tail), evil)
    assert (zlib.crc32(forged), len(forged)) == (zlib.crc32(good + tail), len(good) + 4)
    file.write_bytes(forged)
    library.refresh()
    assert library.get("a").description == "Evil one."


def _suffix_for(wanted: int, prefix: bytes) -> bytes:
    """Four bytes that give a text the checksum that is wanted."""
    table = []
    for i in range(256):
        value = i
        for _ in range(8):
            value = (value >> 1) ^ (0xEDB88320 if value & 1 else 0)
        table.append(value)
    top = {value >> 24: index for index, value in enumerate(table)}
    state, indexes = wanted ^ 0xFFFFFFFF, []
    for _ in range(4):
        index = top[state >> 24]
        indexes.append(index)
        state = ((state ^ table[index]) << 8) & 0xFFFFFFFF
    current, suffix = zlib.crc32(prefix) ^ 0xFFFFFFFF, b""
    for index in reversed(indexes):
        suffix += bytes([(current ^ index) & 0xFF])
        current = (current >> 8) ^ table[index]
    return suffix


HOSTILE = {
    "colons": b"---\nname: a\ndescription: d\n" + b"".join(b"k%d: a: b\n" % i for i in range(120_000)) + b"---\nx",
    "commas": b"---\nname: a\ndescription: d\ntags: x" + b"," * 60_000 + b"\n---\nx",
    "rounds": b"---\nname: q\nx: {"
    + b"a," * 31_000
    + b"}\n"
    + b"".join(b'k%d: "a" b\n' % i for i in range(40))
    + b"# head\n\nzz\n---\nx\n",
    "dashes": b"---\nx:\n  "
    + b"- " * 60
    + b"a"
    + b" " * 60_000
    + b"\n"
    + b"".join(b'  k%d: "a" b\n' % i for i in range(30))
    + b"---\nx",
    "deep json": b'---\nname: a\ndescription: d\nmetadata: \'{"a":' + b"[" * 700 + b"]" * 700 + b"}'\n---\nx",
    "combining": "---\nname: a{}\ndescription: d\n---\nx".format("\u0301\u0316" * 16_000).encode(),
}


@pytest.mark.each("data", HOSTILE.values(), ids=HOSTILE.keys(), every=2)
def test_a_hostile_file_costs_little(data: bytes) -> None:
    package = MemoryPackage({"SKILL.md": data})

    def work() -> None:
        document = parse(data, folder="a")
        assert len(document.skill.diagnostics) < 200
        check(data, package, folder="a", strict=True)
        json.dumps(dict(document.skill.metadata))

    assert cpu(work) < 6  # an order of magnitude above what it takes, two below what it took


def test_numbers_that_json_does_not_know_stay_text() -> None:
    skill = parse(b'---\nname: a\ndescription: d\nmetadata: \'{"a": NaN, "b": 1e999}\'\n---\nx').skill
    assert skill.metadata == {"a": "NaN", "b": "1e999"}


def test_a_large_file_in_memory_hides_no_other() -> None:
    good = "---\nname: good\ndescription: d\n---\nx"
    library = Library.from_files({"SKILL.md": b"x" * (17 << 20)}, {"SKILL.md": good})
    assert {entry.status for entry in library.entries(all=True)} == {"active", "broken"}


@in_part
def test_many_files_in_memory_cost_time_in_proportion(part: float) -> None:
    skill = {"SKILL.md": "---\nname: a\ndescription: d\n---\nx"}
    files = {f"f{number}/x": "" for number in range(int(5_000 * part))}
    assert cpu(lambda: Library.from_files(skill | files)) < 3 * part
    assert cpu(lambda: Library.from_files(*[skill] * int(3_000 * part))) < 3 * part


def test_a_file_that_grows_without_end_has_no_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "SKILL.md").write_bytes(b"x")
    real = os.read
    monkeypatch.setattr(os, "read", lambda descriptor, size: real(descriptor, size) or b"x" * size)
    with pytest.raises(PackageTooLarge):
        FolderPackage(tmp_path).digest()


def test_running_out_of_descriptors_empties_no_library(
    tmp_path: Path, write_skill: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path / "a")
    library = Library.from_folder(tmp_path, cache=False)

    def refuse(path: object) -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", refuse)
        assert not library.refresh()
    assert "a" in library


@pytest.mark.parametrize(("old", "new"), [(b"3, [", b"2, ["), (b"index [3", b"index [4")])
def test_no_number_of_an_index_can_be_changed(tmp_path: Path, write_skill: Write, old: bytes, new: bytes) -> None:
    for name in ("a", "b", "c"):
        write_skill(tmp_path / "skills" / name)
    Library.from_folder(tmp_path / "skills", cache=tmp_path / "cache")
    (file,) = (tmp_path / "cache").iterdir()
    data = file.read_bytes()
    assert data.count(old) == 1
    file.write_bytes(data.replace(old, new))
    assert len(Library.from_folder(tmp_path / "skills", cache=tmp_path / "cache")) == 3


def test_rows_of_an_index_cannot_be_exchanged(tmp_path: Path, write_skill: Write) -> None:
    for name in ("a", "b"):
        write_skill(tmp_path / "skills" / name, description=f"Does {name}.")
    Library.from_folder(tmp_path / "skills", cache=tmp_path / "cache")
    (file,) = (tmp_path / "cache").iterdir()
    *rest, one, two = file.read_bytes().rsplit(b"\n", 2)
    # The first row follows the names directly; only the JSON of both is exchanged, checksums included.
    start = len(one) - len(two)
    file.write_bytes(b"\n".join([*rest, one[:start] + two, one[start:]]))
    library = Library.from_folder(tmp_path / "skills", cache=tmp_path / "cache")
    assert {entry.name: entry.description for entry in library} == {"a": "Does a.", "b": "Does b."}


def test_an_index_of_gigabytes_is_not_read(tmp_path: Path, write_skill: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write_skill(tmp_path / "skills" / "a")
    source = FolderSource(tmp_path / "skills")
    cache = IndexCache(tmp_path / "cache", "1")
    (tmp_path / "cache").mkdir()
    with open(cache.path(source.cache_key()), "wb") as file:
        file.truncate(8 << 30)
    assert cache.load(source.cache_key()) is None


@pytest.mark.each("path", ["\ud800", "\ud800.zip", "a\0b", b"bytes", None, 3])
def test_what_can_be_no_path_is_refused_with_an_error_of_ours(path: object) -> None:
    with pytest.raises(MetierError):
        Library.from_folder(path)  # type: ignore[arg-type]


@pytest.mark.each("content", ["\ud800", None, 3, ["x"]])
def test_what_can_be_no_file_is_refused_with_an_error_of_ours(content: object) -> None:
    with pytest.raises(InvalidArgument):
        Library.from_files({"SKILL.md": content})  # type: ignore[dict-item]
