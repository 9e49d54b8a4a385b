"""Backups of the store, signed with the key of the audit log and restored only where that key is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier.errors import AuditUnavailable, IntegrityFailed, StoreUnavailable
from metier.guard.audit.checkpoints import LastCheckpoint, default_key_file, last_checkpoints
from metier.guard.audit.keys import SigningKey, is_signed, keep_public, known_keys
from metier.guard.open_stores import was_there
from metier.store import Store, default_store
from metier.store.backup import back_up as write_backup
from metier.store.restore import restore as restore_store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from metier.store.restore import RestoreReport

_DOMAIN = b"metier store backup 1\n"
"""The beginning of every signed text, so that no other signature can be taken for one of these."""


def back_up(store: Store, path: Path | str, *, key_file: Path | str | None = None) -> dict[str, Any]:
    """Write everything that a store holds into a new file, signed; returns what its manifest says.

    `key_file` is the key that signs, by default the user's own.
    """
    key = SigningKey.of(key_file or default_key_file())
    return write_backup(store, path, lambda text: {"key_id": key.id, "signature": key.sign(_DOMAIN + text)})


def restore(
    url: str | None,
    path: Path | str,
    *,
    force: bool = False,
    untrusted: bool = False,
    accept_loss: bool = False,
    key_file: Path | str | None = None,
    keys: Sequence[Path | str] = (),
    by: Mapping[str, Any] | None = None,
) -> RestoreReport:
    """Put what a backup holds in place of what the store at an address holds.

    It must be signed by the key that signs here, by one before it, or by one whose public half `keys` names, which is
    known here from then on: the records in the backup are signed by it too. With
    `untrusted` any other is brought back too, without all that loosens: approvals, people, tokens, scans, and what
    vouches for the content of folders. `force` replaces a store that is in use, `by` are fields for records of it.

    What the store forbids stays forbidden. Where that cannot be read any more, the backup is refused unless
    `accept_loss` says that it may be lost.
    """
    signing = key_file or default_key_file()
    known = known_keys(signing, *keys)
    if not accept_loss:
        _require_evidence(url or default_store(), signing)

    def check(manifest: bytes, signature: object) -> str:
        if not isinstance(signature, dict):
            return "it is not signed"
        key = known.get(str(signature.get("key_id")))
        if key is None:
            return f"it is signed by the key {signature.get('key_id')!r:.40}, which is not known here"
        made = signature.get("signature")
        if not isinstance(made, str) or not is_signed(_DOMAIN + manifest, made, key):
            return "its signature is wrong"
        signed_by.append(key)
        return ""

    signed_by: list[Ed25519PublicKey] = []
    restored = restore_store(url, path, check, force=force, untrusted=untrusted, by=by)
    for key in signed_by:
        keep_public(signing, key)
    return restored


def _require_evidence(url: str, key_file: Path | str) -> None:
    """Raise `IntegrityFailed` where a store was, and can no longer say what was forbidden since some backup."""
    why = ""
    try:
        store = Store.peek(url)
        if store is None:
            why = "is gone" if was_there(url) else ""
        else:
            with store:
                for mark in last_checkpoints(key_file, str(store))[0]:
                    LastCheckpoint(key_file, str(store), mark.tenant).require_in(store.of(mark.tenant))
    except AuditUnavailable:
        why = "has lost records that were signed"
    except StoreUnavailable as error:
        if not error.context.get("is_damaged"):
            raise
        why = "is damaged"
    if why:
        raise IntegrityFailed(
            f"The store {why}: what was put in quarantine, revoked, refused or removed since the backup was made "
            "cannot be told, and would be allowed again.",
            hint="Keep a copy of what is left of it, and look for a newer backup. --accept-loss brings this one back "
            "all the same; then do again what was decided since.",
        )
