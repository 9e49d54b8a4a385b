"""The workflows of GitHub grant least, run commands that exist, and test what the package promises."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".github" / "workflows"
FOR_USERS = ROOT / "src" / "metier" / "proof" / "workflows" / "github.yml"
"""The workflow that `metier test --workflow github` prints."""
TEXTS = {file.name: file.read_text(encoding="utf-8") for file in (*sorted(FOLDER.glob("*.yml")), FOR_USERS)}
WORKFLOWS: dict[str, dict[Any, Any]] = {name: yaml.safe_load(text) for name, text in TEXTS.items()}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    for file, workflow in WORKFLOWS.items():
        for name, job in workflow["jobs"].items():
            yield f"{file}:{name}", job


def steps() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, job in jobs():
        for step in job.get("steps", ()):
            yield name, step


def test_only_the_job_that_publishes_may_write_and_only_what_it_needs() -> None:
    for file, workflow in WORKFLOWS.items():
        assert set(workflow["permissions"].values()) <= {"read"}, file
    writing = {
        name: granted
        for name, job in jobs()
        if "write" in (granted := job.get("permissions", {})).values() or not isinstance(granted, dict)
    }
    assert writing == {"release.yml:publish": {"id-token": "write", "attestations": "write"}}


def test_the_job_that_publishes_runs_no_code_of_ours_and_waits_for_the_tests_and_a_maintainer() -> None:
    publish = WORKFLOWS["release.yml"]["jobs"]["publish"]
    build = WORKFLOWS["release.yml"]["jobs"][publish["needs"]]
    assert publish["environment"]["name"] == "pypi"
    assert build["uses"] == "./.github/workflows/ci.yml"
    used = [step["uses"].partition("@")[0] for step in publish["steps"] if "uses" in step]
    assert used == [*["actions/download-artifact"] * 2, *["actions/attest"] * 2, "pypa/gh-action-pypi-publish"]
    assert not any(re.search(r"\b(make|pip|python)\b", step.get("run", "")) for step in publish["steps"])
    ways = WORKFLOWS["release.yml"][True]  # YAML takes `on` for a truth value
    assert ways == {"push": {"tags": ["v[0-9]*"]}}


def test_what_is_published_is_what_was_tried_on_every_system() -> None:
    tests = WORKFLOWS["ci.yml"]["jobs"]
    made = {step["with"]["name"] for step in tests["package"]["steps"] if "upload-artifact" in step.get("uses", "")}
    publish = WORKFLOWS["release.yml"]["jobs"]["publish"]
    taken = {step["with"]["name"] for step in publish["steps"] if "download-artifact" in step.get("uses", "")}
    assert made == taken == {"packages", "sbom"}
    assert tests["install"]["needs"] == "package"
    assert "workflow_call" in WORKFLOWS["ci.yml"][True]


def test_each_action_of_others_is_pinned_to_one_commit_with_its_version_beside_it() -> None:
    pins: dict[str, set[str]] = {}
    for text in TEXTS.values():
        for name, version in re.findall(r"uses: ([^\s./][^\s@]*)@(.*)", text):
            pins.setdefault(name, set()).add(version)
    assert len(pins) >= 6
    for name, versions in pins.items():
        assert len(versions) == 1, (name, versions)
        assert re.fullmatch(r"[0-9a-f]{40} # v\d+\.\d+\.\d+", versions.pop()), name


def test_no_step_keeps_a_credential_uses_a_secret_or_puts_words_of_others_into_a_script() -> None:
    for name, step in steps():
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False, name
        # The title of a pull request or the name of a branch would be a part of the script.
        assert "${{" not in step.get("run", ""), name
    assert not [name for name, text in TEXTS.items() if "secrets." in text or "pull_request_target" in text]


def test_each_command_of_a_workflow_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, flags=re.MULTILINE))
    called = {target for _, step in steps() for target in re.findall(r"\bmake ([a-z-]+)", step.get("run", ""))}
    assert called >= {"lint", "test", "sbom", "workflows"} and called <= targets
    scripts = {word for _, step in steps() for word in re.findall(r"^\.[\w./]+", step.get("run", ""))}
    assert scripts == {".ci/run"} and all((ROOT / script).is_file() for script in scripts)
    locks = {word for _, step in steps() for word in re.findall(r"requirements[\w-]*\.lock", step.get("run", ""))}
    assert locks and all((ROOT / lock).is_file() for lock in locks)


def test_the_matrix_is_what_the_package_says_that_it_runs_on() -> None:
    classifiers = PROJECT["project"]["classifiers"]
    versions = [one.rpartition(" ")[2] for one in classifiers if re.search(r":: 3\.\d+$", one)]
    matrix = WORKFLOWS["ci.yml"]["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == versions
    assert PROJECT["project"]["requires-python"] == f">={versions[0]}"
    systems = {"MacOS": "macos", "Windows": "windows", "Linux": "ubuntu"}
    said = {systems[one.rpartition(" ")[2]] for one in classifiers if one.startswith("Operating System")}
    assert {name.partition("-")[0] for name in matrix["os"]} == said
    tried = WORKFLOWS["ci.yml"]["jobs"]["install"]["strategy"]["matrix"]
    assert tried["os"] == matrix["os"] and tried["python"] == [versions[0], versions[-1]]


def test_the_tools_of_a_release_are_locked_with_hashes() -> None:
    lock = (ROOT / "requirements-release.lock").read_text(encoding="utf-8")
    locked = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", lock, flags=re.MULTILINE))
    wanted = [re.match(r"[\w-]+", one)[0] for one in PROJECT["dependency-groups"]["release"]]  # type: ignore[index]
    assert {*wanted} <= locked.keys()
    assert lock.count("==") <= lock.count("--hash=sha256:")


def test_the_page_about_security_names_the_version_that_is_supported() -> None:
    minor = PROJECT["project"]["version"].rpartition(".")[0]
    assert f"| {minor} | yes |" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_release_is_built_checked_and_described(tmp_path: Path) -> None:
    """In a clone, as nothing is built of what nobody committed; the tools come from the package index."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--shared", ROOT, clone], check=True, timeout=60)
    done = subprocess.run(
        ["make", "--silent", "sbom", "workflows"], cwd=clone, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    version = PROJECT["project"]["version"]
    bom = json.loads((clone / "dist" / f"metier-{version}.cdx.json").read_text(encoding="utf-8"))
    assert (bom["bomFormat"], bom["metadata"]["component"]["name"]) == ("CycloneDX", "metier")
    assert bom["metadata"]["component"]["version"] == version
    names = {re.sub(r"[-_.]+", "-", one["name"]).lower() for one in bom["components"]}
    core = {re.match(r"[\w-]+", one)[0].lower() for one in PROJECT["project"]["dependencies"]}  # type: ignore[index]
    assert core <= names
    assert not names & {"hatchling", "pip", "twine", "pytest", "cyclonedx-bom", "metier"}
    assert all(one["purl"].startswith("pkg:pypi/") and one["version"] for one in bom["components"])
