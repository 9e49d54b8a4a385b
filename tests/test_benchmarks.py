"""The benchmarks run; what they measure is read by people."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data" / "retrieval"


@pytest.mark.skipif(not DATA.exists(), reason="the retrieval collection is not here")
def test_search_can_be_measured_at_any_size() -> None:
    command = [sys.executable, "benchmarks/retrieval.py", "--only", "scale", "--sizes", "40", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=True)
    (row,) = json.loads(done.stdout)["scale"]
    assert row["skills"] == "40"
    assert float(row["search p50 ms"]) > 0


def test_sessions_and_the_guard_can_be_measured() -> None:
    command = [sys.executable, "benchmarks/session.py", "--skills", "20", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=True)
    rows = json.loads(done.stdout)
    assert [row["what"] for row in rows if row["limit"] is not None]
    assert all(row["us"] > 0 for row in rows)


@pytest.mark.skipif(sys.platform == "win32", reason="the program used here is that of a Unix")
def test_starting_jobs_can_be_measured() -> None:
    command = [sys.executable, "benchmarks/run.py", "--runs", "2", "--rounds", "1", "--work", "1000", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=True)
    rows = {row["what"]: row for row in json.loads(done.stdout)}
    assert "start-up, plain, of the baseline" in rows
    assert any(row["what"].startswith("8 jobs at once, plain") for row in rows.values())
