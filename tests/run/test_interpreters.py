"""The extension of a script decides what runs it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from metier.errors import ScriptUnsupported
from metier.run import INTERPRETERS, command_for


@pytest.mark.covers("G-44")
@pytest.mark.each(
    ("path", "program"),
    [
        ("scripts/a.py", "python"),
        ("scripts/a.sh", "bash"),
        ("scripts/a.bash", "bash"),
        ("scripts/a.js", "node"),
        ("scripts/a.mjs", "node"),
        ("scripts/A.PY", "python"),
        ("scripts/a.tar.Sh ", "bash"),
    ],
)
def test_common_extensions_have_a_program(path: str, program: str) -> None:
    command = command_for(path)
    assert os.path.basename(command[0]).startswith(program)
    assert command[1:] == (path,)


@pytest.mark.covers("G-44", "O-69")
@pytest.mark.each("path", ["a.rb", "a.exe", "a", ".py", "a.py/b", "", "a.p y"])
def test_an_unknown_extension_is_refused_with_what_is_known(path: str) -> None:
    with pytest.raises(ScriptUnsupported, match="Unsupported script type") as caught:
        command_for(path)
    for extension in INTERPRETERS:
        assert extension in caught.value.hint


@pytest.mark.covers("G-37")
def test_more_languages_are_a_larger_table() -> None:
    table = {**INTERPRETERS, ".xx": ("no-such-xx", "-w"), "": ("no-such-rest",)}
    assert command_for("a.XX", table) == ("no-such-xx", "-w", "a.XX")
    assert command_for("a", table) == ("no-such-rest", "a")


def test_without_a_python_on_the_path_this_one_serves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    folder, name = os.path.split(sys.executable)
    assert command_for("a.py") == (os.path.join(os.path.realpath(folder), name), "a.py")
    assert command_for("a.sh") == ("bash", "a.sh")


@pytest.mark.skipif(os.name == "nt", reason="`python3` is not looked for there")
@pytest.mark.parametrize("link", ["venv", "venv/bin"])
def test_an_interpreter_is_named_by_its_real_folder_and_stays_that_of_its_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, link: str
) -> None:
    real = tmp_path.resolve() / "real"
    (real / "bin").mkdir(parents=True)
    (real / "bin" / "python3").symlink_to(sys.executable)
    (tmp_path / link).parent.mkdir(exist_ok=True)
    (tmp_path / link).symlink_to(real if link == "venv" else real / "bin")
    monkeypatch.setenv("PATH", str(tmp_path / "venv" / "bin"))
    assert command_for("a.py") == (str(real / "bin" / "python3"), "a.py")
