"""Several processes that write while some of them are killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_nothing_that_was_acknowledged_is_lost_when_writers_are_killed(store_url: str) -> None:
    command = [
        sys.executable,
        "benchmarks/writers.py",
        "--store",
        store_url,
        "--writers",
        "3",
        "--kills",
        "4",
        "--json",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert (found["kills"], found["verdict"]) == (4, "ok")
    assert found["acknowledged"] >= 80
