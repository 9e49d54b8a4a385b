"""Which project folders the user vouches for."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from metier.errors import InvalidArgument, SourceUnavailable
from metier.library.places import TrustStore, default_config_folder


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "config" / "trusted")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".claude" / "skills").mkdir(parents=True)
    return folder


def test_nothing_is_trusted_at_first(store: TrustStore, project: Path) -> None:
    assert not store.is_trusted(project)
    assert store.trusted() == ()


def test_a_trusted_folder_is_trusted_with_all_below_it_and_nothing_else(store: TrustStore, project: Path) -> None:
    store.trust(project)
    assert store.is_trusted(project)
    assert store.is_trusted(project / ".claude" / "skills")
    assert not store.is_trusted(project.parent)
    assert not store.is_trusted(project.with_name("project-two"))
    assert store.trusted() == (project,)


def test_trust_lasts_between_processes(store: TrustStore, project: Path) -> None:
    store.trust(project)
    assert TrustStore(store.folder).is_trusted(project)


def test_trust_is_taken_back(store: TrustStore, project: Path) -> None:
    store.trust(project)
    assert store.untrust(project) is True
    assert not store.is_trusted(project)
    assert store.untrust(project) is False


def test_a_folder_below_a_trusted_one_is_not_itself_listed(store: TrustStore, project: Path) -> None:
    store.trust(project)
    assert store.untrust(project / ".claude") is False
    assert store.is_trusted(project / ".claude")


def test_a_link_to_a_trusted_folder_is_that_folder(store: TrustStore, project: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(project)
    store.trust(tmp_path / "link")
    assert store.trusted() == (project,)
    assert store.is_trusted(tmp_path / "link")


def test_another_folder_moved_to_a_trusted_path_of_a_link_is_not_trusted(
    store: TrustStore, project: Path, tmp_path: Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(project)
    store.trust(link)
    link.unlink()
    (tmp_path / "evil").mkdir()
    link.symlink_to(tmp_path / "evil")
    assert not store.is_trusted(link)


@pytest.mark.parametrize("kind", ["missing", "file"])
def test_only_a_folder_can_be_trusted(store: TrustStore, tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    if kind == "file":
        path.write_text("x")
    with pytest.raises(SourceUnavailable, match="not a folder"):
        store.trust(path)


def test_the_home_folder_and_the_root_hold_too_much_to_be_trusted(store: TrustStore, own_home: Path) -> None:
    for folder in (own_home, Path("/")):
        with pytest.raises(InvalidArgument, match="more than one project"):
            store.trust(folder)


def test_a_folder_that_holds_the_home_folder_is_not_trusted_either(store: TrustStore, own_home: Path) -> None:
    with pytest.raises(InvalidArgument):
        store.trust(own_home.parent)


def test_a_file_that_was_not_written_here_grants_nothing(store: TrustStore, project: Path) -> None:
    store.folder.mkdir(parents=True)
    (store.folder / "anything").write_bytes(os.fsencode(project))
    assert not store.is_trusted(project)
    assert store.trusted() == ()


def test_a_damaged_entry_grants_nothing_and_hides_no_other(store: TrustStore, project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    store.trust(project)
    (entry,) = store.folder.iterdir()
    entry.write_bytes(b"\0garbage")
    store.trust(other)
    assert not store.is_trusted(project)
    assert store.trusted() == (other,)


def test_a_stray_folder_among_the_entries_hides_none_of_them(store: TrustStore, project: Path) -> None:
    store.trust(project)
    (store.folder / "stray").mkdir()
    assert store.trusted() == (project,)


def test_paths_with_line_feeds_and_odd_bytes_are_trusted_as_they_are(store: TrustStore, tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/line\nfeed \xff"))
    odd.mkdir()
    store.trust(odd)
    assert store.is_trusted(odd)
    assert store.trusted() == (odd,)


def test_a_store_that_cannot_be_written_says_so(project: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SourceUnavailable, match="cannot be written"):
        TrustStore(tmp_path / "file" / "trusted").trust(project)


def test_many_at_once_lose_nothing(store: TrustStore, tmp_path: Path) -> None:
    folders = [tmp_path / f"p{number:02d}" for number in range(40)]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(store.trust, folders))
    assert store.trusted() == tuple(folders)
    assert len(list(store.folder.iterdir())) == 40


def test_the_users_choices_are_kept_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, own_home: Path) -> None:
    assert Path(default_config_folder()) == own_home / "metier-config"
    monkeypatch.delenv("METIER_CONFIG")
    assert Path(default_config_folder()) == own_home / "config" / "metier"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert Path(default_config_folder()) == own_home / ".config" / "metier"
