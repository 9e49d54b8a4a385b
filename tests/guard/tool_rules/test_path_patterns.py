"""Patterns over paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from metier.guard.tool_rules.path_patterns import path_is_within, path_may_be_within, path_may_hold


@pytest.mark.each(
    ("pattern", "path", "is_within"),
    [
        ("docs/**", "docs/a.md", True),
        ("docs/**", "docs/a/b/c.md", True),
        ("docs/**", "./docs/a.md", True),
        ("docs/**", "docs", False),
        ("docs/**", "docs2/a.md", False),
        ("docs/**", "other/docs/a.md", False),
        ("docs/**", "docs/../a.md", False),
        ("docs/**", "docs/../../etc/passwd", False),
        ("docs/**", "x/../docs/a.md", True),
        ("docs/**", "/etc/docs/a.md", False),
        ("docs/**", "DOCS/a.md", False),
        ("docs/**", "docs//a.md", True),
        ("./docs/**", "docs/a.md", True),
        ("docs/", "docs/a/b", True),
        ("docs/*", "docs/a.md", True),
        ("docs/*", "docs/a/b.md", False),
        ("docs/*.md", "docs/a.md", True),
        ("docs/*.md", "docs/a.txt", False),
        ("docs/**/*.md", "docs/a.md", True),
        ("docs/**/*.md", "docs/a/b/c.md", True),
        ("**/x/*.md", "a/b/x/c.md", True),
        ("*.md", "a.md", True),
        ("*.md", "a/b/c.md", True),
        ("*.md", "/elsewhere/a.md", False),
        ("*.md", "a.mdx", False),
        ("a?.md", "ab.md", True),
        ("a?.md", "a.md", False),
        ("README", "README", True),
        ("README", "README/x", False),
        ("**", "a/b", True),
        ("**", "../a", False),
        ("/etc/hosts", "/etc/hosts", True),
        ("//etc/hosts", "/etc/hosts", True),
        ("/etc/*", "/etc/hosts", True),
        ("/etc/*", "/etc/x/../../root/x", False),
        ("/etc/hosts", "etc/hosts", False),
        ("~/notes/*", "~/notes/a", True),
        ("~/notes/*", "~/other/a", False),
        ("**", "~root/x", False),
        ("**", "", False),
        ("**", "a\0b", False),
        ("**", "a" * 5000, False),
    ],
)
def test_a_path_is_within_a_pattern(tmp_path: Path, pattern: str, path: str, is_within: bool) -> None:
    assert path_is_within(pattern, path, str(tmp_path)) is is_within


def test_a_link_that_leads_out_is_not_within(tmp_path: Path) -> None:
    work, outside = tmp_path / "work", tmp_path / "outside"
    (work / "docs").mkdir(parents=True)
    outside.mkdir()
    (work / "docs" / "way").symlink_to(outside)
    (work / "docs" / "file").symlink_to(outside / "x")
    (work / "link").symlink_to(work / "docs")
    for path in ("docs/way/x", "docs/file", "docs/way/../x", "link/a"):
        assert not path_is_within("docs/**", path, str(work)), path
    assert path_is_within("docs/**", "docs/a", str(work))


def test_links_are_followed_before_and_after_going_up(tmp_path: Path) -> None:
    for folder in ("docs/sub/deep", "secret"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "docs" / "sub" / "x").write_text("plain")
    (tmp_path / "docs" / "link").symlink_to("sub/deep")
    (tmp_path / "docs" / "x").symlink_to("../secret/key")
    assert not path_is_within("docs/**", "docs/link/../x", str(tmp_path))
    assert path_may_be_within("secret/**", "docs/link/../x", str(tmp_path))
    assert path_is_within("docs/**", "docs/link/../sub/x", str(tmp_path))
    assert path_is_within("docs/**", "docs/sub/../sub/x", str(tmp_path))


def test_links_that_never_end_are_not_within(tmp_path: Path) -> None:
    for i in range(1200):
        (tmp_path / f"l{i}").symlink_to(f"l{i + 1}")
    assert not path_is_within("docs/**", "l0", str(tmp_path))


def test_a_workspace_may_itself_be_reached_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert path_is_within("docs/**", "docs/a", str(tmp_path / "link"))
    assert path_is_within("docs/**", str(tmp_path / "link" / "docs" / "a"), str(tmp_path / "link"))


def test_a_workspace_with_stars_in_its_name_is_taken_as_it_is(tmp_path: Path) -> None:
    assert path_is_within("docs/**", "docs/a", str(tmp_path / "a*"))
    assert not path_is_within("docs/**", str(tmp_path / "ab" / "docs" / "a"), str(tmp_path / "a*"))


@pytest.mark.each(
    ("pattern", "path", "may_be"),
    [
        (".env", ".env", True),
        (".env", "a/b/.env", True),
        (".env", "/anywhere/.env", True),
        (".env", ".env.example", False),
        ("*.pem", "~/x.pem", True),
        ("secret", "secret/a/b", True),
        ("secret/**", "secret/a", True),
        ("secret/**", "docs/../secret/a", True),
        ("secret/**", "docs/a", False),
        ("/etc/**", "../../../../../../../../../../etc/passwd", True),
        ("secret/**", "", True),
        ("secret/**", "~root/x", True),
    ],
)
def test_a_path_may_be_within_what_is_forbidden(tmp_path: Path, pattern: str, path: str, may_be: bool) -> None:
    assert path_may_be_within(pattern, path, str(tmp_path)) is may_be


def test_a_link_to_what_is_forbidden_is_seen(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "nice").symlink_to(tmp_path / "secret")
    assert path_may_be_within("secret/**", "nice/a", str(tmp_path))
    assert path_may_hold("secret/**", "nice", str(tmp_path))


@pytest.mark.each(
    ("pattern", "path", "may_hold"),
    [
        ("secret/**", ".", True),
        ("secret/**", "/", True),
        ("secret/**", "secret", True),
        ("secret/**", "docs", False),
        ("a/*/c", "a/b", True),
        ("a/*/c", "a/b/c", False),
        (".env", "docs", True),
        ("/etc/**", "/usr", False),
    ],
)
def test_a_folder_may_hold_what_is_forbidden(tmp_path: Path, pattern: str, path: str, may_hold: bool) -> None:
    assert path_may_hold(pattern, path, str(tmp_path)) is may_hold
