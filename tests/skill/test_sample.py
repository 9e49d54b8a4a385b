"""Real skills: almost all of them load, and what they say of themselves is kept."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from metier.skill import Document, Requirements, parse, read_frontmatter, requirements_of
from metier.skill.fast_yaml import read_fast_yaml
from metier.skill.frontmatter import decode, frontmatter_of, split
from metier.skill.validate import check_strictly

Real = tuple[dict[str, Any], bytes, Document]
SAMPLE = Path(__file__).parents[2].parent / "shared" / "data" / "skills-sample.jsonl.gz"
VERDICTS = Path(__file__).with_name("reference_verdicts.json")
"""What the reference said of skills of the sample, each by the hash of its name and content.

`python tests/skill/test_sample.py` asks it about all of them, and writes the file anew.
"""
pytestmark = pytest.mark.skipif(not SAMPLE.exists(), reason=f"the sample of real skills is not at {SAMPLE}")


@cache
def sample() -> list[dict[str, Any]]:
    with gzip.open(SAMPLE, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def data_of(record: dict[str, Any]) -> bytes:
    if "text" in record:
        return str(record["text"]).encode("utf-8", errors="surrogateescape")
    return base64.b64decode(record["base64"])


@cache
def documents(step: int = 1) -> list[Real]:
    return [
        (record, data_of(record), parse(data_of(record), folder=record["folder"], file=record["file"]))
        for record in sample()[::step]
    ]


@pytest.fixture(params=[6, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"])
def step(request: pytest.FixtureRequest) -> int:
    """Every sixth skill, and all of them in `make test-slow`."""
    return int(request.param)


@pytest.fixture
def real(step: int) -> list[Real]:
    return documents(step)


def test_at_least_999_of_1000_load_and_the_others_say_why(real: list[Real]) -> None:
    refused = [
        (record["id"], errors)
        for record, _, document in real
        if (errors := [note for note in document.skill.diagnostics if note.severity == "error"])
    ]
    assert len(refused) <= max(1, len(real) * 0.001)
    assert all(note.line for _, errors in refused for note in errors)


def test_every_loaded_skill_has_a_name_and_a_description(real: list[Real]) -> None:
    for record, _, document in real:
        if not any(note.severity == "error" for note in document.skill.diagnostics):
            assert document.skill.name, record["id"]
            assert document.skill.description, record["id"]


def blocks(real: list[Real]) -> list[tuple[str, str, int]]:
    found = []
    for record, data, _ in real:
        cut = split(decode(data)[0])
        if cut.block:
            found.append((record["id"], cut.block, cut.block_line))
    return found


def test_the_fast_path_reads_what_yaml_reads(real: list[Real]) -> None:
    fast = 0
    for identifier, block, line in blocks(real):
        reading = read_fast_yaml(block, line)
        if reading is None:
            continue
        fast += 1
        if reading.notes:
            with pytest.raises(yaml.YAMLError):
                yaml.load(block, yaml.CBaseLoader)
        else:
            assert reading.mapping == yaml.load(block, yaml.CBaseLoader), identifier
    assert fast > len(blocks(real)) / 2


def test_what_valid_yaml_says_of_itself_is_kept(real: list[Real]) -> None:
    for record, data, document in real:
        cut = split(decode(data)[0])
        if not cut.block:
            continue
        try:
            mapping = yaml.load(cut.block, yaml.CBaseLoader)
        except yaml.YAMLError:
            continue
        if not isinstance(mapping, dict):
            continue
        name, description = mapping.get("name"), mapping.get("description")
        if isinstance(name, str) and name.strip():
            assert document.skill.declared_name == name.strip(), record["id"]
        if isinstance(description, str) and description.strip():
            assert document.skill.description == description.strip(), record["id"]
            assert document.skill.description_source == "own"


def test_every_diagnostic_stands_on_a_line_of_its_file(real: list[Real]) -> None:
    for record, data, document in real:
        lines = decode(data)[0].count("\n") + 1
        for note in document.skill.diagnostics:
            assert note.line is None or 1 <= note.line <= lines, (record["id"], note)
            assert note.message.isprintable()


def test_the_quick_draft_is_the_draft(real: list[Real]) -> None:
    for record, data, _ in real:
        assert read_frontmatter(data) == frontmatter_of(*decode(data))[0], record["id"]


def test_real_skills_declare_programs_and_nothing_that_cannot_be_one(real: list[Real], step: int) -> None:
    with_bins = 0
    for record, _, document in real:
        found = requirements_of(document.skill)
        names = (*found.bins, *found.any_bins, *found.env, *found.os, *found.tools, *found.mcp)
        assert all(name.isprintable() for name in names), record["id"]
        assert not any("/" in name or name.startswith("-") for name in (*found.bins, *found.any_bins)), record["id"]
        assert Requirements.from_text(found.as_text()) == found, record["id"]
        with_bins += bool(found.bins)
    assert with_bins >= 150 // step


def comparable(real: list[Real]) -> Iterator[tuple[str, dict[str, Any], bytes]]:
    """Skills that the reference can be asked about, each with the hash of its name and content."""
    for record, data, _ in real:
        folder, file = record["folder"], record["file"]
        if file not in ("SKILL.md", "skill.md") or not folder or "/" in folder or is_known_defect(data):
            continue
        yield sha256(f"{folder}/{file}\0".encode() + data).hexdigest()[:12], record, data


def ask_the_reference(record: dict[str, Any], data: bytes, place: Path) -> str:
    validator = pytest.importorskip(
        "skills_ref.validator", reason="the reference validator skills-ref is not installed"
    )
    folder = place / record["id"] / record["folder"]
    folder.mkdir(parents=True)
    (folder / record["file"]).write_bytes(data)
    try:
        notes = validator.validate(folder)
    except AttributeError:
        return "unreadable"  # strictyaml stumbles over control characters
    if any("Invalid YAML" in note for note in notes):
        return "unreadable"  # strictyaml refuses flow collections, anchors, tags and more
    return "invalid" if notes else "valid"


def test_strict_verdicts_are_those_of_the_reference(tmp_path: Path, real: list[Real], step: int) -> None:
    """The reference takes its time: it is asked again about some, and about all that it was never asked about."""
    known = json.loads(VERDICTS.read_text(encoding="utf-8"))
    differing: list[tuple[str, list[str], str]] = []
    compared = 0
    for number, (key, record, data) in enumerate(comparable(real)):
        theirs = known.get(key)
        if theirs is None or number % 50 == 0:
            asked = ask_the_reference(record, data, tmp_path)
            assert theirs in (None, asked), f"the reference says {asked} of {record['id']}"
            theirs = asked
        if theirs == "unreadable":
            continue
        ours = check_strictly(data, folder=record["folder"], file=record["file"])
        compared += 1
        if bool(ours) != (theirs == "invalid"):
            differing.append((record["id"], [note.message for note in ours], theirs))
    assert compared > 1_000 // step
    assert differing == []


def is_known_defect(data: bytes) -> bool:
    """Where the reference is known to be wrong: a BOM, bytes that are not UTF-8, `---` inside a line."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return True
    if text.startswith("\ufeff"):
        return True
    block = split(text.replace("\r\n", "\n")).block
    return block is None or "---" in block or text.split("\n")[0].rstrip("\r") != "---"


if __name__ == "__main__":
    with TemporaryDirectory() as name:
        said = {key: ask_the_reference(record, data, Path(name)) for key, record, data in comparable(documents())}
    VERDICTS.write_text(json.dumps(said, indent=0, sort_keys=True) + "\n", encoding="utf-8")
