"""The environment of a job is an allow-list, and a model cannot steer programs through it."""

from __future__ import annotations

import os
from typing import Any

import pytest

from metier.errors import InvalidArgument
from metier.run import job_environment, skill_variables
from metier.run.environment import MAX_VALUE_BYTES, MAX_VARIABLES, find_program


@pytest.mark.covers("O-71")
def test_nothing_is_inherited_but_a_few_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_KEY", "s3cret")
    env = job_environment(workspace="/project")
    assert "s3cret" not in "".join(env.values())
    few = {
        "PATH",
        "HOME",
        "LANG",
        "LC_ALL",
        "TZ",
        "TMPDIR",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONNOUSERSITE",
        "WORKSPACE",
        "CLAUDE_PROJECT_DIR",
    }
    assert env.keys() >= few
    if os.name == "posix":
        assert env.keys() == few


def test_home_is_the_workspace() -> None:
    assert job_environment(workspace="/project")["HOME"] == "/project"


def test_a_skill_knows_where_it_is_under_every_name_in_use() -> None:
    env = job_environment(workspace="/project", skill_dir="/skills/x", session_id="s-1")
    for name in ("SKILL_DIR", "SKILL_ROOT", "CLAUDE_SKILL_DIR", "HERMES_SKILL_DIR", "CLAUDE_PLUGIN_ROOT"):
        assert env[name] == "/skills/x"
    assert (env["SESSION_ID"], env["CLAUDE_SESSION_ID"], env["WORKSPACE"]) == ("s-1", "s-1", "/project")


def test_a_plugin_and_a_project_can_be_elsewhere() -> None:
    values = skill_variables(workspace="/project", skill_dir="/p/skills/x", plugin_root="/p", project_dir="/repo")
    assert (values["CLAUDE_PLUGIN_ROOT"], values["CLAUDE_PROJECT_DIR"]) == ("/p", "/repo")


@pytest.mark.skipif(os.name != "posix", reason="other separators")
@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/a:.::bin:/b", "/a:/b"),
        (".", "/usr/local/bin:/usr/bin:/bin"),
        ("", "/usr/local/bin:/usr/bin:/bin"),
    ],
)
def test_programs_are_not_looked_for_in_the_working_folder(
    monkeypatch: pytest.MonkeyPatch, path: str, kept: str
) -> None:
    monkeypatch.setenv("PATH", path)
    assert job_environment(workspace="/project")["PATH"] == kept


@pytest.mark.covers("O-74")
@pytest.mark.each("value", ['"; rm -rf /"', "", "a=b", "é", "x" * MAX_VALUE_BYTES])
def test_a_value_is_passed_as_it_is(value: str) -> None:
    assert job_environment({"VALUE": value}, workspace="/project")["VALUE"] == value


@pytest.mark.each(
    "name",
    [
        "LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "PYTHONPATH", "PYTHONSTARTUP", "NODE_OPTIONS",
        "BASH_ENV", "ENV", "GIT_SSH_COMMAND", "IFS", "PATH", "HOME", "PERL5OPT", "RUBYOPT", "SHELLOPTS", "PS4",
        "HTTPS_PROXY", "https_proxy", "Path", "ld_preload", "SSL_CERT_FILE", "SKILL_DIR", "CLAUDE_SKILL_DIR",
        "METIER_JOB", "TMPDIR", "JAVA_TOOL_OPTIONS", "NPM_CONFIG_REGISTRY", "npm_config_registry", "PIP_INDEX_URL",
        "TAR_OPTIONS", "RSYNC_RSH",
    ],
)  # fmt: skip
def test_a_name_that_steers_programs_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="may not be set") as caught:
        job_environment({name: "x"}, workspace="/project")
    assert caught.value.hint


@pytest.mark.each("name", ["API_KEY", "INPUT_X", "ARG_1", "PARAM_LIMIT", "SKILL_MODE"])
def test_a_model_sets_what_is_declared_and_what_begins_like_an_input(name: str) -> None:
    assert job_environment({name: "v"}, names=["API_KEY"], workspace="/project")[name] == "v"


@pytest.mark.each("name", ["ZIPOPT", "LIMIT", "api_key", "API_KEY_2", "input_x", "INPUTRC", "XINPUT_X"])
def test_a_model_sets_nothing_else_and_is_told_what_it_can_set(name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"{name} may not be set") as caught:
        job_environment({name: "v"}, names=["API_KEY", "LD_PRELOAD"], workspace="/project")
    assert caught.value.hint == (
        "What can be set is API_KEY, and names that begin with ARG_, INPUT_, PARAM_ or SKILL_."
    )
    with pytest.raises(InvalidArgument, match="may not be set") as caught:
        job_environment({name: "v"}, names=(), workspace="/project")
    assert caught.value.hint == "Only names that begin with ARG_, INPUT_, PARAM_ or SKILL_ can be set."


@pytest.mark.each("name", ["LD_PRELOAD", "PATH", "SKILL_DIR", "SKILL_ROOT"])
def test_declaring_a_name_that_steers_programs_does_not_help(name: str) -> None:
    with pytest.raises(InvalidArgument, match="may not be set"):
        job_environment({name: "x"}, names=[name], workspace="/project")


@pytest.mark.each("name", ["", "1A", "A B", "A=B", "A-B", "BASH_FUNC_x%%", "A\n", "é", "A" * 200, 3, None])
def test_a_name_that_is_none_is_refused(name: Any) -> None:
    with pytest.raises(InvalidArgument):
        job_environment({name: "x"}, workspace="/project")


@pytest.mark.each("value", ["a\0b", "\ud800", 3, None, "x" * (MAX_VALUE_BYTES + 1), "é" * MAX_VALUE_BYTES])
def test_a_value_that_cannot_be_passed_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgument, match="VALUE cannot be passed"):
        job_environment({"VALUE": value}, workspace="/project")


def test_too_many_variables_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="too many"):
        job_environment({f"V{at}": "" for at in range(MAX_VARIABLES + 1)}, workspace="/project")


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_a_name_that_no_file_can_have_is_that_of_no_program(name: str) -> None:
    assert find_program(name) == name
