"""Which files and folders scripts may use, whatever they ask for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from metier import Guard, Library, Policy
from metier.errors import FileRefused
from metier.guard.policy.program import ClosedPolicy
from metier.hints import for_person
from metier.run.job import JobPath
from metier.session.resource_grants import (
    MOST_ASKED,
    asked_places,
    hidden_paths,
    holds_home,
    kept_folders,
    made_workspace,
    workspace_places,
)

Write = Callable[..., Path]

pytestmark = pytest.mark.skipif(os.name != "posix", reason="paths as POSIX has them")


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Folders outside of any home."""
    root = tmp_path.resolve()
    for name in ("work/out", "data/sets", "project/src", "other", "skills/a"):
        (root / name).mkdir(parents=True)
    return root


def asked(world: Path, *paths: str, policy: Policy, kept: tuple[str, ...] = ()) -> tuple[dict[str, bool], list[str]]:
    """What is granted, by where it is, with whether it may be written; and what was said of the rest."""
    places, notes = asked_places(paths, ClosedPolicy.of(policy), workspace=str(world / "work"), kept=kept)
    return {place.path: place.is_writable for place in places}, list(notes)


@pytest.fixture
def policy(world: Path) -> Policy:
    """One folder to read, one to write."""
    return Policy(paths=[f"{world}/data", f"{world}/project:rw"])


@pytest.mark.each(
    ("path", "is_writable"),
    [
        ("{world}/data", False),
        ("{world}/data:rw", False),
        ("{world}/data/sets", False),
        ("{world}/data/./sets/../sets", False),
        ("{world}/project", True),
        ("{world}/project:rw", True),
        ("{world}/project:ro", False),
        ("{world}/project/src", True),
        ("../project", True),
    ],
)
def test_policy_grants_and_a_skill_narrows(world: Path, policy: Policy, path: str, is_writable: bool) -> None:
    found, notes = asked(world, path.format(world=world), policy=policy)
    assert list(found.values()) == [is_writable]
    assert notes == []


@pytest.mark.each(
    "path",
    [
        "/", "//", "/etc", "/etc/passwd", "{world}", "{world}/other", "{world}/data/../other", "{world}/database", "..",
        "../other", "{world}/data/gone", "/proc/self", "~", "~/x", "~root", "$HOME", "${{HOME}}/x", "a\0b", " ", ":rw",
        "{world}/data\n/etc", "\x1b[2J",
    ],
)  # fmt: skip
def test_what_is_not_granted_is_left_out_and_said(world: Path, policy: Policy, path: str) -> None:
    found, notes = asked(world, path.format(world=world), policy=policy)
    assert found == {}
    assert len(notes) == 1
    assert notes[0].startswith("It may not use ")
    assert notes[0].isprintable()


@pytest.mark.parametrize("path", ["out", "./out", "out/../out", "new", "{world}/work", "{world}/work/out:rw"])
def test_the_workspace_is_there_anyway(world: Path, policy: Policy, path: str) -> None:
    assert asked(world, path.format(world=world), policy=policy) == ({}, [])


def test_a_skill_can_say_that_it_only_reads_a_part_of_the_workspace(world: Path, policy: Policy) -> None:
    assert asked(world, "out:ro", policy=policy) == ({f"{world}/work/out": False}, [])


def test_a_link_is_judged_by_where_it_leads(world: Path, policy: Policy) -> None:
    (world / "data" / "link").symlink_to(world / "other")
    (world / "work" / "link").symlink_to("/etc")
    (world / "other" / "back").symlink_to(world / "data")
    found, notes = asked(world, f"{world}/data/link", "link", policy=policy)
    assert (found, len(notes)) == ({}, 2)
    assert asked(world, f"{world}/other/back", policy=policy) == ({f"{world}/data": False}, [])


def test_a_link_in_a_policy_means_what_it_leads_to(world: Path) -> None:
    (world / "named").symlink_to(world / "data")
    assert asked(world, f"{world}/named", policy=Policy(paths=[f"{world}/named"])) == ({f"{world}/data": False}, [])


def test_the_narrowest_grant_counts(world: Path) -> None:
    policy = Policy(paths=[f"{world}/project:rw", f"{world}/project/src"])
    found, _ = asked(world, f"{world}/project/src", f"{world}/project", policy=policy)
    assert found == {f"{world}/project/src": False, f"{world}/project": True}
    (world / "project" / "src" / "deep").mkdir()
    assert asked(world, f"{world}/project/src/deep", policy=policy)[0] == {f"{world}/project/src/deep": False}


def test_what_is_no_plain_file_or_folder_is_not_given(world: Path, policy: Policy) -> None:
    os.mkfifo(world / "data" / "pipe")
    assert asked(world, f"{world}/data/pipe", policy=policy)[0] == {}


@pytest.mark.parametrize("name", ["", ".ssh", ".ssh/keys", ".aws", ".gnupg", "work/.kube"])
def test_no_home_folder_and_no_keys_whatever_policy_says(own_home: Path, world: Path, name: str) -> None:
    path = own_home / name
    path.mkdir(parents=True, exist_ok=True)
    policy = Policy(paths=[f"{own_home}:rw", f"{own_home.parent}:rw", "/tmp:rw", "/root:rw", "/home:rw"])
    found, notes = asked(world, str(path), policy=policy)
    assert (found, len(notes)) == ({}, 1)


def test_an_ancestor_of_the_home_folder_is_not_given(own_home: Path, world: Path) -> None:
    found, notes = asked(world, str(own_home.parent), policy=Policy(paths=[str(own_home.parent)]))
    assert found == {}
    assert "home folder" in notes[0]


def test_the_home_of_somebody_else_is_not_given_either(world: Path) -> None:
    (world / "data" / ".ssh").mkdir()
    found, notes = asked(world, f"{world}/data", policy=Policy(paths=[f"{world}/data"]))
    assert found == {}
    assert "keys" in notes[0]


def test_a_folder_of_the_home_is_given_where_policy_says_so(own_home: Path, world: Path) -> None:
    (own_home / "notes").mkdir()
    real = str((own_home / "notes").resolve())
    assert asked(world, str(own_home / "notes"), policy=Policy(paths=[f"{own_home}/notes"]))[0] == {real: False}


@pytest.mark.parametrize("path", ["{world}", "{world}/skills", "{world}/skills/a"])
def test_what_decides_about_skills_is_not_given(world: Path, path: str) -> None:
    policy = Policy(paths=[f"{world}:rw"])
    found, notes = asked(world, path.format(world=world), policy=policy, kept=(f"{world}/skills",))
    assert found == {}
    assert "decides about skills" in notes[0]


def test_what_decides_about_skills_is_known(tmp_path: Path, write_skill: Write, own_home: Path) -> None:
    write_skill(tmp_path / "s" / "a")
    guard = Guard(audit=str(tmp_path / "audit.jsonl"))
    kept = kept_folders(Library.from_folder(tmp_path / "s", cache=False).index, guard)
    wanted = [tmp_path / "s", tmp_path / "audit.jsonl", own_home / "metier-config", own_home / "metier-cache"]
    assert {str(path.resolve()) for path in wanted} <= set(kept)


def test_skills_inside_the_workspace_stay_as_they_are(world: Path) -> None:
    workspace = f"{world}/work"
    (world / "work" / ".claude" / "skills").mkdir(parents=True)
    kept = (f"{workspace}/.claude/skills", f"{workspace}/gone", f"{world}/skills", workspace, str(world))
    assert workspace_places(workspace, kept) == (
        JobPath(workspace, is_writable=True),
        JobPath(f"{workspace}/.claude/skills", is_precaution=True),
    )


def test_what_lies_in_what_is_kept_is_kept_with_it(world: Path) -> None:
    workspace = f"{world}/work"
    kept = (f"{workspace}/out/deep", f"{workspace}/out", f"{workspace}/out/deep/er")
    (world / "work" / "out" / "deep" / "er").mkdir(parents=True)
    assert workspace_places(workspace, kept)[1:] == (JobPath(f"{workspace}/out", is_precaution=True),)


def test_a_record_of_what_happened_is_more_than_a_precaution(world: Path) -> None:
    (world / "work" / "audit.jsonl").write_text("")
    assert workspace_places(f"{world}/work", [f"{world}/work/audit.jsonl"])[1] == JobPath(f"{world}/work/audit.jsonl")


def test_a_home_with_a_skill_in_it_is_not_shown_as_one(own_home: Path, world: Path) -> None:
    folders = [f"{world}/skills/a", str(own_home), str(own_home.parent), "/", "memory:a", f"{world}/gone"]
    assert [folder for folder in folders if not holds_home(folder)] == [folders[0], *folders[-2:]]


@pytest.mark.covers("SEC-9")
def test_a_workspace_with_a_home_in_it_is_refused_unless_policy_grants_it(own_home: Path, world: Path) -> None:
    (own_home / "project").mkdir(exist_ok=True)
    assert workspace_places(str(own_home / "project"), ())
    for workspace in (own_home, own_home.parent, Path("/")):
        with pytest.raises(FileRefused) as caught:
            workspace_places(str(workspace), ())
        assert (f"{workspace}:rw" in for_person(caught.value.hint)) == (workspace != Path("/"))
    granted = [f"{own_home}:rw"]
    assert workspace_places(str(own_home), (), granted=granted)[0] == JobPath(str(own_home), is_writable=True)


@pytest.mark.covers("SEC-9")
def test_keys_and_the_store_are_hidden_in_a_home_that_is_the_workspace(own_home: Path) -> None:
    for name in ("metier-config", ".ssh", ".aws", "metier-store"):
        (own_home / name).mkdir()
    hidden = hidden_paths(Guard(), str(own_home))
    places = workspace_places(str(own_home), (), hidden, [f"{own_home}:rw"])
    found = {os.path.basename(place.path) for place in places if place.is_hidden}
    assert found >= {"metier-config", ".ssh", ".aws"}


def test_only_so_many_paths_are_looked_at(world: Path, policy: Policy) -> None:
    asked_for = [f"{world}/data/{number}" for number in range(MOST_ASKED)] + [f"{world}/data"]
    found, notes = asked(world, *asked_for, policy=policy)
    assert (found, len(notes)) == ({}, MOST_ASKED + 1)
    assert "65 paths" in notes[0]


def test_a_workspace_that_is_reached_by_a_link_keeps_its_name(world: Path) -> None:
    (world / "link").symlink_to(world / "work")
    assert workspace_places(f"{world}/link", [f"{world}/work/out"])[1] == JobPath(
        f"{world}/link/out", is_precaution=True
    )


@pytest.mark.parametrize("workspace", ["{world}/file", "{world}/file/below", "/proc/no-such-folder"])
def test_a_workspace_that_cannot_be_made_is_refused_with_a_hint(world: Path, workspace: str) -> None:
    (world / "file").write_text("")
    with pytest.raises(FileRefused) as caught:
        made_workspace(workspace.format(world=world))
    assert caught.value.hint


def test_a_workspace_that_cannot_be_written_is_refused(world: Path, unprivileged: None) -> None:
    (world / "work").chmod(0o555)
    with pytest.raises(FileRefused, match="cannot be written"):
        made_workspace(f"{world}/work")
