"""Programs from npm that some tests talk to. `npm install` in `tests/npm` brings them; without them, tests skip."""

from __future__ import annotations

from pathlib import Path

import pytest

BIN = Path(__file__).parent / "npm" / "node_modules" / ".bin"


def npm_command(name: str) -> list[str]:
    """How to start a program, under the Node that comes with it."""
    node, program = BIN / "node", BIN / name
    if not node.exists() or not program.exists():
        pytest.skip("the packages of tests/npm are not installed")
    return [str(node), str(program.resolve())]


def client_command(name: str) -> list[str]:
    """How to start a client, which is a program of its own or one for Node."""
    program = BIN / name
    if not program.exists():
        pytest.skip("the packages of tests/npm are not installed")
    with open(program, "rb") as file:
        is_script = file.read(2) == b"#!"
    # The Node of this machine may be too old for it.
    return npm_command(name) if is_script else [str(program)]
