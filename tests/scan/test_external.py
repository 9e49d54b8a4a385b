"""Other scanners see a copy and nothing else, and whatever goes wrong with them is an error."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from metier.errors import InvalidArgument, MetierError
from metier.scan.external import Ended, scanner_of
from metier.skill import FolderPackage, MemoryFile, MemoryPackage

SCANNER = scanner_of("skill-scanner scan {dir} --out=sarif")
FILES: dict[str, MemoryFile | bytes | str] = {
    "SKILL.md": b"Do it.",
    "scripts/x.sh": MemoryFile(b"echo", executable=True),
}
CLEAN = json.dumps({"version": "2.1.0", "runs": []})


def log(uri: str) -> str:
    location = {"physicalLocation": {"artifactLocation": {"uri": uri}}}
    result = {"ruleId": "X", "level": "error", "message": {"text": "bad"}, "locations": [location]}
    return json.dumps({"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "other"}}, "results": [result]}]})


def test_a_scanner_gets_a_copy_that_is_gone_afterwards() -> None:
    seen: dict[str, object] = {}

    def start(argv: tuple[str, ...], folder: str) -> Ended:
        copy = Path(argv[2])
        seen.update(
            argv=argv,
            files={str(file.relative_to(copy)): file.read_bytes() for file in copy.rglob("*") if file.is_file()},
            executable=os.access(copy / "scripts" / "x.sh", os.X_OK),
            is_inside=copy.parent == Path(folder),
            folder=folder,
        )
        return Ended(0, CLEAN)

    assert SCANNER.scan(MemoryPackage(FILES), start, folder="greeter") == ()
    assert seen["files"] == {"SKILL.md": b"Do it.", os.path.join("scripts", "x.sh"): b"echo"}
    assert (seen["executable"], seen["is_inside"]) == (False, True)
    assert seen["argv"] == ("skill-scanner", "scan", os.path.join(str(seen["folder"]), "greeter"), "--out=sarif")
    assert not os.path.exists(str(seen["folder"]))


def test_what_it_finds_has_paths_in_the_skill() -> None:
    found = SCANNER.scan(MemoryPackage(FILES), lambda argv, _: Ended(1, log(f"file://{argv[2]}/scripts/x.sh")))
    assert [(one.engine, one.rule, one.path) for one in found] == [("other", "X", "scripts/x.sh")]


def test_no_link_is_in_the_copy(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_text("Do it.")
    (tmp_path / "link").symlink_to("/etc/hostname")
    names: list[str] = []

    def start(argv: tuple[str, ...], _folder: str) -> Ended:
        names.extend(os.listdir(argv[2]))
        return Ended(0, CLEAN)

    SCANNER.scan(FolderPackage(tmp_path), start)
    assert names == ["SKILL.md"]


@pytest.mark.covers("A-30")
@pytest.mark.each(
    "ended",
    [
        Ended(0, ""),
        Ended(0, "all is well"),
        Ended(2, "usage: ..."),
        Ended(0, '{"version": "2.1.0"}'),
        Ended(0, CLEAN, "it took longer than 120 s"),
        Ended(127, "", "not found"),
    ],
)
def test_a_scanner_without_a_result_is_an_error(ended: Ended) -> None:
    with pytest.raises(MetierError, match="skill-scanner gave no result") as caught:
        SCANNER.scan(MemoryPackage(FILES), lambda *_: ended)
    assert caught.value.hint


@pytest.mark.each(
    "command", ["", "   ", "skill-scanner scan", "{dir}", "{dir}/tool x", "skill-scanner 'never closed {dir}"]
)
def test_a_command_without_a_program_or_a_folder_is_refused(command: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        scanner_of(command)
    assert "{dir}" in caught.value.hint


def test_words_stay_words() -> None:
    assert scanner_of("cmd: scan '{dir}; rm -rf /' $HOME | sh").argv == ("scan", "{dir}; rm -rf /", "$HOME", "|", "sh")
