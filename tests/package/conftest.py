"""The wheel and the source distribution of this clone, built once, and the programs that look at them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


def build(source: Path, target: Path, *options: str) -> dict[str, bytes]:
    """Build a source tree with the backend that pyproject.toml names; the files by name."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(target), *options]
    env = {**os.environ, "SOURCE_DATE_EPOCH": "1767225600"}
    subprocess.run(command, cwd=source, env=env, check=True, capture_output=True)
    return {file.name: file.read_bytes() for file in sorted(target.iterdir())}


def program(name: str) -> str:
    """A program of the environment of developers or of that of releases (`make dist`); skips where it is not there."""
    found = shutil.which(name, path=os.pathsep.join([str(BIN), str(ROOT / ".venv-release" / "bin")]))
    return found or pytest.skip(f"{name} is not installed")


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    build(ROOT, folder)
    return folder
