"""The script that collects commits for release notes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.bundled import in_process

SCRIPT = Path(__file__).parents[2] / "src/metier/bundled/release-notes/scripts/collect_commits.py"
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


class Repository:
    """A git repository that is written to by the tests, apart from the user's own settings."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str, author: str = "Ann") -> str:
        environment = os.environ | {
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            "GIT_AUTHOR_NAME": author,
            "GIT_AUTHOR_EMAIL": "someone@example.org",
            "GIT_COMMITTER_NAME": author,
            "GIT_COMMITTER_EMAIL": "someone@example.org",
        }
        done = subprocess.run(
            ["git", "-C", self.path, *arguments],
            capture_output=True,
            text=True,
            env=environment,
            check=True,
        )
        return done.stdout.strip()

    def commit(self, message: str, author: str = "Ann") -> str:
        self.git("commit", "-q", "--allow-empty", "-m", message, author=author)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path)
    made.commit("Start")
    made.git("tag", "v1.0")
    return made


def run(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return in_process.run(SCRIPT, "--repo", path, *arguments)


def collect(repository: Repository, *arguments: str) -> dict[str, Any]:
    done = run(repository.path, "--json", *arguments)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def subjects(found: dict[str, Any], group: str) -> list[str]:
    return [commit["subject"] for commit in found["groups"].get(group, [])]


def test_the_range_starts_at_the_last_tag(repository: Repository) -> None:
    repository.commit("feat: one")
    found = collect(repository)
    assert (found["since"], found["commits"]) == ("v1.0", 1)


def test_a_tag_on_the_end_itself_is_passed_over(repository: Repository) -> None:
    repository.commit("feat: one")
    repository.git("tag", "v1.1")
    assert collect(repository)["since"] == "v1.0"


def test_without_tags_the_whole_history_is_read(tmp_path: Path) -> None:
    made = Repository(tmp_path)
    made.commit("feat: one")
    made.commit("fix: two")
    found = collect(made)
    assert (found["since"], found["commits"]) == (None, 2)


def test_a_conventional_commit_has_a_type_and_a_scope(repository: Repository) -> None:
    repository.commit("feat(cli): add --json (#12)")
    (commit,) = collect(repository)["groups"]["features"]
    assert (commit["type"], commit["scope"]) == ("feat", "cli")
    assert (commit["subject"], commit["references"]) == ("add --json (#12)", ["#12"])


def test_other_commits_are_grouped_by_their_first_words(repository: Repository) -> None:
    groups = {
        "Add a dark theme": "features",
        "Fix a crash on empty input": "fixes",
        "Speed up the parser": "performance",
        "Remove the old API": "removed",
        "Bump requests from 2.1 to 2.2": "dependencies",
        "Document the config file": "docs",
        "Refactor the loader": "internal",
        "Add tests for the loader": "internal",
        "Security fix for signatures": "security",
        "Hello": "other",
        "note: this is not a known type": "other",
    }
    for subject in groups:
        repository.commit(subject)
    found = collect(repository)
    assert {subject: group for group in found["groups"] for subject in subjects(found, group)} == groups


def test_an_exclamation_mark_is_a_breaking_change(repository: Repository) -> None:
    repository.commit("fix!: refuse empty names")
    assert subjects(collect(repository), "breaking") == ["refuse empty names"]


def test_a_breaking_footer_is_read_over_its_lines(repository: Repository) -> None:
    repository.commit("feat: names\n\nMore.\n\nBREAKING CHANGE: names are\nrequired now.")
    (commit,) = collect(repository)["groups"]["breaking"]
    assert commit["breaking"] == ["names are required now."]


def test_a_commit_and_its_revert_cancel_out(repository: Repository) -> None:
    bad = repository.commit("feat: bad idea")
    repository.commit("feat: good idea")
    repository.commit(f'Revert "feat: bad idea"\n\nThis reverts commit {bad}.')
    found = collect(repository)
    assert subjects(found, "features") == ["good idea"]
    assert found["reverted_and_left_out"] == 2


def test_a_revert_of_an_older_release_is_kept(repository: Repository) -> None:
    old = repository.git("rev-parse", "HEAD")
    repository.commit(f'Revert "Start"\n\nThis reverts commit {old}.')
    assert collect(repository)["commits"] == 1


def test_co_authors_and_first_contributions_are_named(repository: Repository) -> None:
    repository.commit("fix: a", author="Bob")
    repository.commit("fix: b\n\nCo-authored-by: Cy <cy@example.org>")
    found = collect(repository)
    assert {author["name"] for author in found["authors"]} == {"Ann", "Bob", "Cy"}
    assert set(found["new_authors"]) == {"Bob", "Cy"}


def test_no_address_is_printed(repository: Repository) -> None:
    repository.commit("fix: b\n\nCo-authored-by: Cy <cy@example.org>")
    assert "@example.org" not in run(repository.path, "--json").stdout


def test_first_parent_reads_the_title_of_a_merged_pull_request(repository: Repository) -> None:
    repository.git("checkout", "-q", "-b", "side")
    repository.commit("wip")
    repository.git("checkout", "-q", "main")
    message = "Merge pull request #7 from someone/side\n\nAdd a theme"
    repository.git("merge", "-q", "--no-ff", "side", "-m", message)
    assert subjects(collect(repository, "--first-parent"), "features") == ["Add a theme (#7)"]


def test_a_path_narrows_the_commits(repository: Repository) -> None:
    (repository.path / "api").mkdir()
    (repository.path / "api/a.txt").write_text("a", encoding="utf-8")
    repository.git("add", ".")
    repository.commit("feat: in api")
    repository.commit("feat: elsewhere")
    assert subjects(collect(repository, "--path", "api"), "features") == ["in api"]


def test_the_limit_is_reported(repository: Repository) -> None:
    for number in range(3):
        repository.commit(f"fix: {number}")
    found = collect(repository, "--limit", "2")
    assert (found["commits"], found["truncated"]) == (2, True)


def test_text_output_is_markdown(repository: Repository) -> None:
    repository.commit("feat: añadir ☃")
    printed = run(repository.path).stdout
    assert printed.startswith("# v1.0 to HEAD: 1 commits")
    assert "## New\n\n- añadir ☃ (" in printed


def test_no_commits_since_the_tag_exits_with_1(repository: Repository) -> None:
    done = run(repository.path, "--since", "v1.0")
    assert done.returncode == 1
    assert "no commits since v1.0" in done.stderr


def test_a_repository_without_commits_exits_with_1(tmp_path: Path) -> None:
    assert run(Repository(tmp_path).path).returncode == 1


def test_an_unknown_tag_names_the_latest_ones(repository: Repository) -> None:
    done = run(repository.path, "--since", "v9")
    assert done.returncode == 2
    assert "the latest tags are v1.0" in done.stderr


def test_a_revision_cannot_be_an_option_of_git(repository: Repository) -> None:
    assert run(repository.path, "--since=--output=x").returncode == 2
    assert not (repository.path / "x").exists()


def test_a_folder_without_a_repository_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path / "nothing")
    assert done.returncode == 2
    assert "is not a folder" in done.stderr
