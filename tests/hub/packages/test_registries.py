"""Skills whose scripts import packages of the real registries, from a clean cache to a run in the sandbox."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.hub.packages.package_index import skill_files, write_files

from metier.skill.package import Files

pytestmark = pytest.mark.slow

PANDAS = skill_files(
    "import io, pandas\nprint(pandas.read_csv(io.StringIO('a,b\\n1,2\\n3,4\\n')).b.sum())\n",
    requirements_txt="pandas>=2\n",
)
PYPDF = skill_files(
    "# /// script\n# dependencies = ['pypdf>=5']\n# ///\nimport io, pypdf\nw = pypdf.PdfWriter()\n"
    "w.add_blank_page(72, 72)\nf = io.BytesIO()\nw.write(f)\nprint(len(pypdf.PdfReader(f).pages))\n"
)
NPM_SCRIPTS = {
    "scripts/esm.mjs": "import {marked} from 'marked';\nconsole.log(marked.parse('# hi').trim());\n",
    "scripts/common.js": "const ms = require('ms');\nconsole.log(ms('2 days'));\n",
}


def npm_skill(folder: Path) -> Files:
    """A skill with a lock that npm itself wrote; its package.json has an install script."""
    marker = folder / "evil"
    manifest = {
        "name": "peek",
        "version": "1.0.0",
        "dependencies": {"marked": "^15", "ms": "^2.1.3"},
    }
    folder.mkdir()
    (folder / "package.json").write_text(json.dumps(manifest))
    subprocess.run(
        ["npm", "install", "--package-lock-only", "--ignore-scripts"], cwd=folder, check=True, capture_output=True
    )
    scripts = dict.fromkeys(("preinstall", "install", "postinstall", "prepare"), f"touch {marker}")
    texts = {
        "package.json": json.dumps({**manifest, "scripts": scripts}),
        "package-lock.json": (folder / "package-lock.json").read_text(),
        **NPM_SCRIPTS,
    }
    more: Files = {path: ("file", text.encode()) for path, text in texts.items()}
    return {**skill_files("print(1)\n"), **more}


Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(tmp_path: Path, request: pytest.FixtureRequest, command: list[str]) -> Call:
    """Calls the command as a process of its own in a project, with a home that has nothing in it."""
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)

    def call(*arguments: str | Path, **env: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [*command, *map(str, arguments)],
            cwd=project,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=600,
        )
        return done.returncode, done.stdout, done.stderr

    return call


@pytest.fixture(scope="session")
def command() -> list[str]:
    import sys

    return [str(Path(sys.executable).with_name("metier"))]


def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("UV_INDEX", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("name", "runs"),
    [
        ("pandas", [("peek.py", "6\n")]),
        ("pypdf", [("peek.py", "1\n")]),
        ("npm", [("esm.mjs", "<h1>hi</h1>\n"), ("common.js", "172800000\n")]),
    ],
)
def test_a_skill_with_real_packages_runs_once_it_was_approved(
    name: str, runs: list[tuple[str, str]], call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _clean(monkeypatch)
    if name == "npm" and shutil.which("npm") is None:
        pytest.skip("there is no npm")
    files = {"pandas": PANDAS, "pypdf": PYPDF}.get(name) or npm_skill(tmp_path / "author")
    source = write_files(tmp_path / "source/peek", files)
    # Built, and not approved: nothing runs.
    skills = source.parent
    assert call("--skills", skills, "packages", "peek")[0] == 0
    code, _, err = call("--skills", skills, "run", "peek", runs[0][0])
    assert (code, "[approval-needed]" in err) == (4, True)
    shutil.rmtree(os.environ["METIER_CACHE"])
    code, out, err = call("add", source, "--to", "project", "--yes")
    assert code == 0, out + err
    assert not (tmp_path / "author/evil").exists()
    offline = {"UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple", "npm_config_registry": "http://127.0.0.1:9/"}
    for script, expected in runs:
        assert call("run", "peek", script, "--timeout", "120", **offline)[:2] == (0, expected)
