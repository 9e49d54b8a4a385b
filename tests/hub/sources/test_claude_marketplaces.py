"""Marketplaces that Claude Code accepts and installs from, read by us."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.hub.sources.git_repositories import commit, make_repository
from tests.hub.sources.loopback import skill_text
from tests.hub.sources.test_marketplace import plugins_of
from tests.hub.test_peers import Peer
from tests.npm_packages import BIN

pytestmark = pytest.mark.slow


def write(folder: Path, *skills: str) -> None:
    for skill in skills:
        (folder / skill).mkdir(parents=True)
        (folder / skill / "SKILL.md").write_bytes(skill_text(skill.rpartition("/")[2]))


def test_we_find_the_skills_of_each_plugin_that_claude_code_installs(tmp_path: Path) -> None:
    market = tmp_path / "market"
    write(market, "plugins/near/skills/a", "plugins/near/extra/b", "more/c", "more/d")
    manifest = market / "plugins/near/.claude-plugin/plugin.json"
    manifest.parent.mkdir()
    manifest.write_text(json.dumps({"name": "near", "version": "2.1.0", "skills": ["./extra/b"]}))
    far = make_repository(tmp_path / "far.git")
    first = commit(far, {"skills/e/SKILL.md": skill_text("e"), "sub/skills/f/SKILL.md": skill_text("f")})
    commit(far, {"skills/later/SKILL.md": skill_text("later")})
    url = f"file://{far}"
    plugins: list[dict[str, Any]] = [
        {"name": "near", "source": "./plugins/near"},
        {"name": "bundle", "source": "./", "strict": False, "skills": ["./more/c"], "version": "0.1.0"},
        {"name": "pinned", "source": {"source": "url", "url": url, "sha": first}},
        {"name": "part", "source": {"source": "git-subdir", "url": url, "path": "sub", "sha": first}},
    ]
    ours: dict[str, list[str]] = {}
    with plugins_of(market, *plugins) as found:
        for one in found:
            if one.package:
                ours.setdefault(one.package, []).append(one.folder)
    assert ours == {"near": ["a", "b"], "bundle": ["c"], "pinned": ["e"], "part": ["f"]}
    claude = Peer([str(BIN / "claude")], tmp_path / "home", tmp_path / "project")
    assert claude("plugin", "validate", str(market)).returncode == 0
    assert claude("plugin", "marketplace", "add", str(market)).returncode == 0
    for plugin, skills in ours.items():
        done = claude("plugin", "install", f"{plugin}@m")
        assert done.returncode == 0, done.stdout + done.stderr
        told = claude("plugin", "details", f"{plugin}@m")
        assert f"Skills ({len(skills)})" in told.stdout, told.stdout
        assert all(skill in told.stdout for skill in skills)
