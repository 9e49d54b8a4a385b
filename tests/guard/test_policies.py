"""The policy files of this machine, the user and the project, and that a change of one counts at once."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from metier.errors import InvalidArgument
from metier.guard.policy import files as module
from metier.guard.policy.files import Policies

needs_links = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege here")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose administrators have a folder for their policy, with the working folder inside a repository."""
    monkeypatch.setattr(module, "system_policy", lambda: str(tmp_path / "etc" / "policy.yaml"))
    (tmp_path / "etc").mkdir()
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "repo" / "deep")
    return tmp_path


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_without_files_the_defaults_hold(machine: Path) -> None:
    effective = Policies.discover().current()
    assert (effective.files, effective.mode, effective.problems) == ((), "enforce", ())


def test_files_are_looked_for_from_the_machine_to_the_project_up_to_its_root(
    machine: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = write(machine / "more.yaml", "version: 1")
    monkeypatch.setenv("METIER_POLICY", str(named))
    paths = [
        write(machine / "etc" / "policy.yaml", "version: 1"),
        named,
        write(own_home / ".metier" / "policy.yaml", "version: 1"),
        write(machine / "repo" / "deep" / ".metier" / "policy.yaml", "version: 1"),
        write(machine / "repo" / ".metier" / "policy.yaml", "version: 1"),
    ]
    write(machine / ".metier" / "policy.yaml", "mode: nonsense")  # above the repository
    files = Policies.discover().current().files
    assert [file.path for file in files] == list(map(str, paths))
    assert [file.layer for file in files] == ["enterprise", "enterprise", "personal", "project", "project"]


@pytest.mark.skipif(sys.platform == "win32", reason="the working folder cannot be removed here")
def test_where_the_working_folder_was_removed_there_is_no_project(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(machine / "etc" / "policy.yaml", "mode: audit")
    (machine / "gone").mkdir()
    monkeypatch.chdir(machine / "gone")
    (machine / "gone").rmdir()
    policies = Policies.discover()
    assert [place.layer for place in policies.places] == ["enterprise", "personal"]
    assert policies.current().mode == "audit"


def test_the_variable_can_only_add(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(machine / "etc" / "policy.yaml", "tools: {deny: [Bash]}")
    monkeypatch.setenv("METIER_POLICY", str(write(machine / "mine.yaml", "mode: off\nrun: {network: host}")))
    effective = Policies.discover().current()
    assert (effective.mode, len(effective.tool_layers), effective.narrow(None).network) == ("enforce", 1, "none")
    assert {problem.key for problem in effective.ignored} == {"mode", "run.network"}


@pytest.mark.parametrize("kind", ["missing", "relative", "one of two"])
def test_a_file_that_the_variable_names_has_to_be_there(
    machine: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    there = str(write(machine / "there.yaml", "version: 1"))
    (machine / "repo" / "deep" / "here.yaml").write_text("version: 1")
    names = {"missing": str(machine / "gone.yaml"), "relative": "here.yaml"}
    monkeypatch.setenv("METIER_POLICY", os.pathsep.join([there, names.get(kind, str(machine / "gone.yaml"))]))
    effective = Policies.discover().current()
    assert (effective.on_error, len(effective.errors)) == ("deny", 1)
    assert "relative" in effective.errors[0].message or "not there" in effective.errors[0].message


def test_the_users_own_file_is_nobodys_project(machine: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(own_home / ".metier" / "policy.yaml", "mode: audit")
    monkeypatch.chdir(own_home)
    effective = Policies.discover().current()
    assert [file.layer for file in effective.files] == ["personal"]
    assert effective.mode == "audit"


def test_files_that_a_program_names_have_to_be_there(tmp_path: Path) -> None:
    assert Policies(files=[("enterprise", tmp_path / "gone.yaml")]).current().errors
    path = write(tmp_path / "policy.yaml", "mode: audit")
    assert Policies(files=[("enterprise", path)]).current().mode == "audit"


def test_a_layer_that_has_no_policy_is_told() -> None:
    with pytest.raises(InvalidArgument, match="plugin"):
        Policies(texts=[("plugin", "mode: off")])


def test_the_strongest_layer_counts_first_in_whatever_order_they_are_given() -> None:
    policies = Policies(texts=[("project", "mode: off"), ("enterprise", "mode: audit")])
    assert policies.current().mode == "audit"


# --- staying fresh ----------------------------------------------------------------------------------------------------


def test_a_change_counts_from_the_next_look_on(machine: Path) -> None:
    policies = Policies.discover()
    path = machine / "etc" / "policy.yaml"
    seen = [policies.current().mode]
    for text in ("mode: audit", "mode: enfor", "mode: off  "):
        write(path, text)
        seen.append(policies.current().mode)
    path.unlink()
    seen.append(policies.current().mode)
    assert seen == ["enforce", "audit", "enforce", "off", "enforce"]


def test_a_change_that_leaves_size_and_time_as_they_were_counts_too(machine: Path) -> None:
    path = write(machine / "etc" / "policy.yaml", "mode: audit")
    policies = Policies.discover()
    assert policies.current().mode == "audit"
    before = path.stat()
    path.write_text("mode:   off")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert policies.current().mode == "off"


@needs_links
def test_a_link_that_leads_nowhere_is_no_missing_file(machine: Path) -> None:
    policies = Policies.discover()
    assert not policies.current().errors
    path, target = machine / "etc" / "policy.yaml", machine / "target.yaml"
    path.symlink_to(target)
    assert policies.current().errors
    target.write_text("mode: audit")
    assert (policies.current().mode, policies.current().errors) == ("audit", ())
    target.unlink()
    assert policies.current().errors


@needs_links
def test_a_link_is_followed_to_what_it_leads_to_now(machine: Path) -> None:
    one, other = write(machine / "one.yaml", "mode: audit"), write(machine / "two.yaml", "mode: off  ")
    path = machine / "etc" / "policy.yaml"
    path.symlink_to(one)
    policies = Policies.discover()
    assert policies.current().mode == "audit"
    path.unlink()
    path.symlink_to(other)
    assert policies.current().mode == "off"


@needs_links
@pytest.mark.parametrize("is_folder", [False, True])
def test_a_project_shows_no_file_of_the_user(machine: Path, own_home: Path, is_folder: bool) -> None:
    secret = write(own_home / "keys" / "policy.yaml", "token-abc123: x\nmode: off\n")
    path = machine / "repo" / ".metier"
    if is_folder:
        path.symlink_to(secret.parent)
    else:
        path.mkdir()
        (path / "policy.yaml").symlink_to(secret)
    [problem] = Policies.discover().current().problems
    assert "leads out of the project" in problem.message


@pytest.mark.usefixtures("settled")
def test_while_nothing_changes_nothing_is_read_again(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(machine / "etc" / "policy.yaml", "mode: audit")
    policies = Policies.discover()
    first = policies.current()

    def read(*_: object) -> None:
        raise AssertionError("it was read again")

    monkeypatch.setattr("metier.guard.policy.reader.read_policy", read)
    assert policies.current() is first


def test_a_file_that_was_written_again_as_it_was_changes_nothing(machine: Path) -> None:
    path = write(machine / "etc" / "policy.yaml", "mode: audit")
    policies = Policies.discover()
    first = policies.current()
    path.write_text("mode: audit")
    assert policies.current() is first
    path.write_text("mode: off")
    assert (policies.current() is first, policies.current().mode) == (False, "off")


def test_many_threads_see_either_the_old_or_the_new(machine: Path) -> None:
    path = write(machine / "etc" / "policy.yaml", "mode: audit")
    policies = Policies.discover()
    seen: set[str] = set()
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            seen.add(policies.current().mode)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(20):
        beside = write(machine / "beside", "mode: audit" if number % 2 else "mode: off")
        beside.replace(path)
    ended.set()
    for thread in threads:
        thread.join(30)
    assert seen <= {"audit", "off"}


@pytest.mark.usefixtures("settled")
def test_a_look_costs_little_while_nothing_changes(machine: Path, own_home: Path) -> None:
    write(machine / "etc" / "policy.yaml", "mode: audit")
    policies = Policies.discover(machine / "repo")
    policies.current()

    def cost(look: Callable[[], object]) -> float:
        began = time.process_time()
        for _ in range(200):
            look()
        return (time.process_time() - began) / 200

    # 6 to 8 us by itself; other work on the machine may be in the way of some of the rounds.
    assert min(cost(policies.current) for _ in range(10)) < 40e-6
