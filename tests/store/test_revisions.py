"""Revisions and the contents of their files."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metier.errors import FileMissing, IntegrityFailed, InvalidArgument, StoreUnavailable
from metier.skill.package import DigestEntry, digest_of
from metier.store import Revision, Store, TenantScope, revision_files
from metier.store.revisions import REVISION_FILES

Files = dict[str, tuple[Any, bytes]]

FILES: Files = {
    "SKILL.md": ("file", b"---\nname: x\n---\n"),
    "scripts/run.sh": ("exec", b"#!/bin/sh\n"),
    "latest": ("link", b"SKILL.md"),
    "copy": ("file", b"#!/bin/sh\n"),
}


def digest(files: Files) -> str:
    return digest_of([DigestEntry(path, mode, hashlib.sha256(data).digest()) for path, (mode, data) in files.items()])


def revision(files: Files, **more: Any) -> Revision:
    return Revision(digest=digest(files), skill="x", files=revision_files(files), **more)


def test_a_revision_comes_back_with_every_byte(scope: TenantScope) -> None:
    more = {"frontmatter": {"name": "x", "n": [1, None]}, "capabilities": {"scripts": ["a"]}, "declared": ("Read",)}
    kept = revision(FILES, parent="sha256:p", first_seen="2026-01-01T00:00:00.000+00:00", **more)
    scope.revisions.put(kept, FILES)
    assert scope.revisions.get(kept.digest) == kept
    assert scope.revisions.files(kept.digest) == FILES
    assert scope.revisions.has(kept.digest)


def test_what_was_never_kept_is_not_there(scope: TenantScope) -> None:
    assert scope.revisions.get("sha256:0") is None
    assert not scope.revisions.has("sha256:0")
    with pytest.raises(FileMissing):
        scope.revisions.files("sha256:0")


def test_a_revision_may_be_known_before_its_content_is_kept(scope: TenantScope) -> None:
    kept = revision(FILES)
    scope.revisions.put(kept)
    assert not scope.revisions.has(kept.digest)
    with pytest.raises(FileMissing, match="not kept"):
        scope.revisions.files(kept.digest)
    scope.revisions.put(kept, FILES)
    assert scope.revisions.files(kept.digest) == FILES


def test_of_a_revision_that_is_there_already_the_first_word_counts(scope: TenantScope) -> None:
    scope.revisions.put(revision(FILES, parent="first"), FILES)
    scope.revisions.put(revision(FILES, parent="second"), FILES)
    found = scope.revisions.get(digest(FILES))
    assert found is not None
    assert found.parent == "first"


def test_content_of_a_revision_that_was_listed_wrongly_is_kept_as_it_is(scope: TenantScope) -> None:
    scope.revisions.put(Revision(digest=digest(FILES), skill="x"))
    scope.revisions.put(revision(FILES), FILES)
    assert scope.revisions.files(digest(FILES)) == FILES


@pytest.mark.each(
    "changed",
    [
        {**FILES, "SKILL.md": ("file", b"other")},
        {**FILES, "SKILL.md": ("exec", FILES["SKILL.md"][1])},
        {**FILES, "more": ("file", b"")},
        {path: file for path, file in FILES.items() if path != "copy"},
        {},
    ],
)
def test_content_that_does_not_make_the_digest_is_refused(scope: TenantScope, changed: Files) -> None:
    for files in (FILES, changed):
        with pytest.raises(IntegrityFailed):
            scope.revisions.put(Revision(digest=digest(FILES), skill="x", files=revision_files(files)), changed)
    assert scope.revisions.get(digest(FILES)) is None


def test_a_mode_that_no_file_has_is_refused(scope: TenantScope) -> None:
    with pytest.raises(InvalidArgument):
        scope.revisions.put(revision({"a": ("setuid", b"")}), {"a": ("setuid", b"")})  # type: ignore[dict-item]


NAMES = st.text(st.characters(exclude_categories=[]), min_size=1, max_size=60)


@given(st.dictionaries(NAMES, st.tuples(st.sampled_from(["file", "exec", "link"]), st.binary(max_size=200))))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_files_are_called_they_come_back(scope: TenantScope, files: Files) -> None:
    files = {path: file for path, file in files.items() if is_a_name_on_disk(path)}
    scope.revisions.put(revision(files), files)
    assert scope.revisions.files(digest(files)) == files


def is_a_name_on_disk(path: str) -> bool:
    """Names that are no text come as bytes in the range that Python sets aside for them."""
    try:
        path.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


@given(st.lists(st.binary(max_size=5_000), max_size=8))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_content_is_found_by_its_hash_and_by_nothing_else(store: Store, contents: list[bytes]) -> None:
    store.blobs.put(contents)
    for data in contents:
        assert store.blobs.get(hashlib.sha256(data).hexdigest()) == data
    with pytest.raises(FileMissing):
        store.blobs.get("0" * 64)


HOSTILE = ["", ".", "..", "../../etc/passwd", "/etc/passwd", "a" * 63, "A" * 64, "a" * 63 + "\n", "a" * 64 + "\0"]


@pytest.mark.each("name", [*HOSTILE, "\uff41" * 64, None, 7, b"a" * 64])
def test_what_is_no_hash_leads_nowhere(store: Store, name: Any) -> None:
    with pytest.raises(InvalidArgument):
        store.blobs.get(name)


def test_content_that_was_changed_on_disk_is_noticed_and_mended_when_it_is_kept_again(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path}/metier.db") as store:
        scope = store.of()
        scope.revisions.put(revision(FILES), FILES)
        sha256 = hashlib.sha256(FILES["copy"][1]).hexdigest()
        (tmp_path / "blobs" / "sha256" / sha256[:2] / sha256[2:]).write_bytes(b"#!/bin/sh\nrm -rf /\n")
        with pytest.raises(IntegrityFailed, match="not what was stored"):
            scope.revisions.files(digest(FILES))
        scope.revisions.put(revision(FILES), FILES)
        assert scope.revisions.files(digest(FILES)) == FILES


def test_content_that_was_changed_in_the_table_is_noticed_and_mended_when_it_is_kept_again(postgres_url: str) -> None:
    with Store.open(postgres_url) as store:
        scope = store.of()
        scope.revisions.put(revision(FILES), FILES)
        with store.pool.transaction():
            store.pool.change("UPDATE blobs SET data = ?", (b"other",))
        with pytest.raises(IntegrityFailed, match="not what was stored"):
            scope.revisions.files(digest(FILES))
        scope.revisions.put(revision(FILES), FILES)
        assert scope.revisions.files(digest(FILES)) == FILES


def test_rows_that_were_changed_no_longer_make_the_digest(scope: TenantScope) -> None:
    scope.revisions.put(revision(FILES), FILES)
    scope._rows.update(REVISION_FILES, {"path": "SKILL.MD"}, path="SKILL.md")
    with pytest.raises(IntegrityFailed):
        scope.revisions.files(digest(FILES))


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege here")
def test_a_link_in_place_of_a_content_is_not_followed(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path}/metier.db") as store:
        store.blobs.put([b"content"])
        sha256 = hashlib.sha256(b"content").hexdigest()
        path = tmp_path / "blobs" / "sha256" / sha256[:2] / sha256[2:]
        (tmp_path / "elsewhere").write_bytes(b"content")
        path.unlink()
        path.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(StoreUnavailable):
            store.blobs.get(sha256)


def test_a_transaction_that_fails_keeps_no_revision(scope: TenantScope) -> None:
    with pytest.raises(ZeroDivisionError), scope.transaction():
        scope.revisions.put(revision(FILES), FILES)
        raise ZeroDivisionError
    assert scope.revisions.get(digest(FILES)) is None


def test_several_tenants_keep_the_same_content_once(store: Store) -> None:
    for tenant in ("a", "b"):
        store.of(tenant).revisions.put(revision(FILES), FILES)
    assert len(list(store.blobs.names())) == len({data for _, data in FILES.values()})
