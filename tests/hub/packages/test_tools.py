"""The indexes of packages are those that a person configured for uv, pip and npm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from metier.hub.packages.tools import npm_registry, python_indexes


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a person's settings, with nothing in the environment."""
    for name in [name for name in os.environ if name.lower().startswith(("uv_", "pip_", "npm_config_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("NPM_CONFIG_USERCONFIG", str(tmp_path / ".npmrc"))
    return tmp_path


def test_every_index_that_is_configured_counts_and_its_host_is_reached(
    settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (settings / "pip.conf").write_text("[global]\nindex-url = https://pip.example/simple\n")
    assert python_indexes().hosts == ("pip.example",)
    (settings / "uv").mkdir()
    (settings / "uv/uv.toml").write_text(
        f"extra-index-url = ['https://b.example/simple']\nfind-links = ['{settings}']\n"
        "[[index]]\nname = 'c'\nurl = 'https://ada:word@C.example:8443/simple'\n"
        "[[index]]\nurl = 'https://a.example/simple'\ndefault = true\n"
    )
    monkeypatch.setenv("UV_INDEX", "d=https://d.example/simple")
    found = python_indexes()
    assert found.hosts == ("a.example", "d.example", "c.example:8443", "b.example")
    assert found.variables["UV_DEFAULT_INDEX"] == "https://a.example/simple"
    assert [place.path for place in found.places] == [os.path.realpath(settings)]


def test_npm_is_told_who_the_person_is_in_the_registry_and_nowhere_else(settings: Path) -> None:
    lines = ("registry=https://npm.example/", "//npm.example/:_authToken=one", "//other.example/:_authToken=two")
    (settings / ".npmrc").write_text("\n".join(lines))
    found = npm_registry()
    assert (found.hosts, found.login) == (("npm.example",), "//npm.example/:_authToken=one\n")
