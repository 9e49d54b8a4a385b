"""The keys that sign checkpoints."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from metier.errors import AuditUnavailable
from metier.guard.audit.checkpoints import default_key_file
from metier.guard.audit.keys import SigningKey, is_signed, known_keys


def test_a_key_is_made_when_it_is_first_needed_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "audit.ed25519"
    key = SigningKey.of(path)
    assert SigningKey.of(path).id == key.id
    assert sorted(os.listdir(path.parent)) == [f"audit-{key.id}.pub", "audit.ed25519"]


@pytest.mark.skipif(os.name == "nt", reason="permissions of another kind")
def test_nobody_else_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "audit.ed25519"
    SigningKey.of(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o077 == 0


def test_it_is_not_kept_beside_the_trail(own_home: Path) -> None:
    from metier.store import data_folder

    assert data_folder() not in default_key_file().parents


def test_a_signature_holds_for_what_was_signed_and_nothing_else(tmp_path: Path) -> None:
    key, other = SigningKey.of(tmp_path / "one"), SigningKey.of(tmp_path / "two")
    public = known_keys(tmp_path / "one")[key.id]
    assert is_signed(b"text", key.sign(b"text"), public)
    for data, signature in [
        (b"texT", key.sign(b"text")),
        (b"text", other.sign(b"text")),
        (b"text", "x"),
        (b"text", "é"),
    ]:
        assert not is_signed(data, signature, public)


def test_the_keys_before_it_and_those_that_are_named_are_known_too(tmp_path: Path) -> None:
    first = SigningKey.of(tmp_path / "mine" / "key")
    (tmp_path / "mine" / "key").unlink()
    second = SigningKey.of(tmp_path / "mine" / "key")
    theirs = SigningKey.of(tmp_path / "theirs" / "key")
    (published,) = (tmp_path / "theirs").glob("*.pub")
    assert set(known_keys(tmp_path / "mine" / "key")) == {first.id, second.id}
    assert set(known_keys(tmp_path / "mine" / "key", published)) == {first.id, second.id, theirs.id}
    assert known_keys(tmp_path / "nothing" / "key") == {}


def test_a_key_that_another_program_made_can_be_used(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    # As `openssl genpkey -algorithm ed25519` writes it.
    path.write_text(
        "-----BEGIN PRIVATE KEY-----\n"
        "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n"
        "-----END PRIVATE KEY-----\n"
    )
    assert SigningKey.of(path).id in known_keys(path)


def test_threads_that_begin_at_the_same_moment_use_one_key(tmp_path: Path) -> None:
    start, found = threading.Barrier(8), []

    def work() -> None:
        start.wait()
        found.append(SigningKey.of(tmp_path / "key").id)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert sorted(os.listdir(tmp_path)) == ["key", f"key-{found[0]}.pub"]


@pytest.mark.parametrize("kind", ["text", "folder", "public", "empty", "dangling", "pipe", "below a file"])
def test_what_is_no_key_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "key"
    if kind == "folder":
        path.mkdir()
    elif kind == "public":
        SigningKey.of(tmp_path / "other")
        path.write_bytes(next(tmp_path.glob("*.pub")).read_bytes())
    elif kind == "dangling":
        path.symlink_to(tmp_path / "nowhere")
    elif kind == "pipe":
        if sys.platform == "win32":
            pytest.skip("no such pipes there")
        os.mkfifo(path)
    else:
        path.write_bytes(b"" if kind == "empty" else b"\xff not a key")
    if kind == "below a file":
        path = path / "key"
    with pytest.raises(AuditUnavailable) as caught:
        SigningKey.of(path)
    assert caught.value.hint
    if kind != "public":
        with pytest.raises(AuditUnavailable):
            known_keys(tmp_path / "none", path)


def test_a_secret_for_a_purpose_follows_from_the_key_and_tells_nothing_about_another(tmp_path: Path) -> None:
    key, again, other = (SigningKey.of(tmp_path / name) for name in ("a.ed25519", "a.ed25519", "b.ed25519"))
    assert key.derive("cookies") == again.derive("cookies") and len(key.derive("cookies")) == 32
    assert len({key.derive("cookies"), key.derive("webhooks"), other.derive("cookies")}) == 3
