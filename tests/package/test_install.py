"""Each way to install it, in an empty home from an index on loopback, up to the first useful output."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.package.conftest import ROOT, program

# The output that each way ends with is checked by the benchmark, which also has the limits on the clock.
WAYS = ["uvx metier", "pipx install metier", "pip install 'metier[mcp]'", "make demo"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="environments have their programs where those of a Unix do")
@pytest.mark.parametrize("way", WAYS)
def test_it_installs_from_an_index_and_works(way: str) -> None:
    program("uvx"), program("pipx")
    command = [sys.executable, "benchmarks/install.py", "--only", way, "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    rows = {row["what"]: row for row in json.loads(done.stdout)}
    assert rows[f"{way}: clock"]["holds"] is not None, "it has no limit"
    assert 20 < rows[f"{way}: disk"]["figure"] < 150
