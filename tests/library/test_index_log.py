"""The log has what is wrong with skills when they are indexed: once, on one line, for each listener."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from metier import Library


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "SKILL.md").write_text(text)
    return folder / name / "SKILL.md"


def sound(name: str, body: str = "Do.") -> str:
    return f"---\nname: {name}\ndescription: Does {name}.\n---\n{body}\n"


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [one.getMessage() for one in caplog.records if one.name.startswith("metier") and one.levelno >= 30]
    caplog.clear()
    return found


@pytest.mark.covers("ACC-16")
def test_broken_long_and_shadowed_skills_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path / "a", "long", sound("long", "Do it well. " * 9_000))
    write(tmp_path / "a", "broken", "")
    write(tmp_path / "a", "twin", sound("twin"))
    write(tmp_path / "b", "twin", sound("twin"))
    Library.from_folder(tmp_path / "a", tmp_path / "b")
    logged = "\n".join(warnings(caplog))
    assert "[body-many-tokens]" in logged and "8,000" in logged
    assert "[file-empty]" in logged
    assert "[shadowed]" in logged


@pytest.mark.covers("ACC-16")
def test_a_warning_is_logged_once_for_each_content(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = write(tmp_path, "bad", "---\nname: bad\n---\nDo.\n")
    library = Library.from_folder(tmp_path)
    assert any("[description-missing]" in one for one in warnings(caplog))
    library.refresh()
    os.utime(file, (1_700_000_000, 1_700_000_000))
    library.refresh()
    assert warnings(caplog) == []
    file.write_text("")
    write(tmp_path, "other", "---\nname: other\n---\nDo.\n")
    library.refresh()
    again = warnings(caplog)
    assert any("other" in one for one in again)
    assert not any("bad" in one and "[description-missing]" in one for one in again)


@pytest.mark.covers("ACC-16")
def test_no_name_begins_a_line_of_its_own(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, "x", '---\nname: "evil\\nCRITICAL root: \\x1b[2Jall is well"\ndescription: ""\n---\nDo.\n')
    Library.from_folder(tmp_path)
    logged = warnings(caplog)
    assert logged
    assert all(one.isprintable() for one in logged)


def test_nothing_is_printed_where_nobody_listens(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import subprocess
    import sys

    write(tmp_path, "broken", "")
    done = subprocess.run(
        [sys.executable, "-c", f"from metier import Library; Library.from_folder({str(tmp_path)!r})"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_a_logger_that_is_switched_off_stays_silent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, "broken", "")
    caplog.set_level(logging.CRITICAL, "metier.library")
    Library.from_folder(tmp_path)
    assert warnings(caplog) == []


@pytest.mark.covers("ACC-18")
@pytest.mark.parametrize(("count", "is_told"), [(50, False), (51, True)])
def test_more_skills_than_models_cope_with_are_told_with_what_to_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, count: int, is_told: bool
) -> None:
    for number in range(count):
        write(tmp_path, f"skill-{number}", sound(f"skill-{number}"))
    library = Library.from_folder(tmp_path)
    logged = [one for one in warnings(caplog) if "[many-skills]" in one]
    assert bool(logged) is is_told
    if is_told:
        assert "51 skills" in logged[0]
        assert all(word in logged[0] for word in ("scope", "listing", "budget", "search", str(tmp_path)))
        write(tmp_path, "one-more", sound("one-more"))
        library.refresh()
        assert not any("[many-skills]" in one for one in warnings(caplog))
