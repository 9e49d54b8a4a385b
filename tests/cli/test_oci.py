"""Skills that are published to an OCI registry and added from it, by the command."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.docker_registry import docker_registry
from tests.signing import new_key

Metier = Callable[..., tuple[int, str, str]]
__all__ = ("docker_registry",)


@pytest.mark.slow
@pytest.mark.covers("A-37")
def test_a_signed_skill_is_published_added_locked_and_brought_back(
    metier: Metier, typed: None, docker_registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, skill = tmp_path / "project", tmp_path / "hello"
    (project / ".git").mkdir(parents=True)
    skill.mkdir()
    text = "---\nname: hello\ndescription: Says hello. Use when greeting.\nversion: 1.0.0\n---\nSay hello.\n"
    (skill / "SKILL.md").write_text(text)
    key = new_key(tmp_path / "keys")
    trusted = Path("~/.metier/keys").expanduser()
    trusted.mkdir(parents=True)
    shutil.copy(key.with_suffix(".pub"), trusted)
    monkeypatch.chdir(project)
    target = f"oci:{docker_registry}/acme/hello"
    code, out, err = metier("publish", str(skill), "--to", target, "--sign", str(key), "--json")
    assert code == 0, err
    revision = json.loads(out)["revision"]
    code, out, err = metier("add", f"{target}:1.0.0", "--to", "project", "--yes", "--json")
    assert code == 0, err
    shape = json.loads(out)
    assert (shape["revision"], shape["skills"][0]["signature"]["status"]) == (revision, "valid")
    assert revision in (project / "metier.lock").read_text()
    shutil.rmtree(project / ".metier/skills/hello")
    code, out, err = metier("install", "--frozen", "--json")
    assert (code, json.loads(out)["installed"]) == (0, ["hello"]), err
    (skill / "SKILL.md").write_text(text + "More.\n")
    code, out, err = metier("publish", str(skill), "--to", target, "--json")
    assert (code != 0, "skill-exists" in out + err) == (True, True), out + err
