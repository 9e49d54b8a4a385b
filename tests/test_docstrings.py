"""The examples in docstrings are run."""

from __future__ import annotations

import doctest
import importlib
import itertools
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
MODULES = [
    ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for file in sorted((SOURCE / "metier").rglob("*.py"))
    if "bundled" not in file.parts and file.name != "__main__.py" and ">>> " in file.read_text("utf-8")
]
"""The modules with examples: to import all others takes seconds, and shows nothing of these."""
ROOMS = {room: list(names) for room, names in itertools.groupby(MODULES, lambda name: ".".join(name.split(".")[:2]))}


@pytest.mark.parametrize("room", ROOMS)
def test_the_examples_of_a_room_hold(room: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ROOMS[room]:
        module = importlib.import_module(name)
        # Only those with an example: each that is run looks at every source file that was ever shown.
        found = [test for test in doctest.DocTestFinder().find(module) if test.examples]
        assert found, name
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        runner = doctest.DocTestRunner()
        for test in found:
            runner.run(test)
        assert runner.summarize().failed == 0, name
