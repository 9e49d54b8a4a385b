"""Many clients at once, each with a skill and a conversation of its own; `benchmarks/mcp_load.py` has a hundred."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = 12


@pytest.mark.slow
def test_many_clients_at_once_have_no_error_and_see_nothing_of_each_other(surroundings: dict[str, str]) -> None:
    command = [sys.executable, "benchmarks/mcp_load.py", "--clients", str(CLIENTS), "--seconds", "0", "--json"]
    done = subprocess.run(command, cwd=ROOT, env=surroundings, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["problems"] == []
    assert found["calls"] == dict.fromkeys(("load", "read", "refusal", "unload"), CLIENTS)
