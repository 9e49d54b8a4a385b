"""Signed checkpoints of the audit log, and the files outside of its database that keep them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from metier._lazy import asdict, dataclass, fields, replace
from metier._paths import write_file
from metier.errors import AuditUnavailable
from metier.guard.audit.keys import SigningKey, is_signed
from metier.hints import for_people
from metier.library.places import default_config_folder
from metier.store.audit_log import canonical_or_none

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from metier.guard.policy.effective import EffectivePolicy
    from metier.store import Store, TenantScope

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_MAX_TENANT = 200
_DOMAIN = "metier audit checkpoint 1\n"
"""The prefix of the signed bytes, so that no signature of something else passes for a checkpoint."""


def default_key_file() -> Path:
    """Return the file of the key that signs checkpoints: in the user's settings, away from the log itself."""
    from pathlib import Path

    return Path(default_key_path())


def default_key_path() -> str:
    """Return the path of `default_key_file` as a text, which takes less to make."""
    return os.path.join(default_config_folder(), "keys", "audit.ed25519")


def signing_key_file(policy: EffectivePolicy) -> Path:
    """Return the file of the key that a policy names, else the user's own."""
    from pathlib import Path

    return Path(policy.audit.key or default_key_path())


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The number and hash of a record, signed: no record up to there can be changed unnoticed."""

    tenant: str
    seq: int
    hash: str
    signed_at: str
    key_id: str
    signature: str = ""

    @classmethod
    def of(cls, value: Any) -> Checkpoint | None:
        """Return a checkpoint that was read as JSON; None for anything else."""
        if not isinstance(value, dict) or value.keys() != _TYPES.keys():
            return None
        if any(type(value[name]) is not kind for name, kind in _TYPES.items()) or len(value["tenant"]) > _MAX_TENANT:
            return None
        made = cls(**value)
        return made if made._signed_bytes() is not None else None

    def as_dict(self) -> dict[str, Any]:
        """Return the checkpoint as JSON values."""
        return asdict(self)

    def signed_with(self, key: SigningKey) -> Checkpoint:
        """Return the same checkpoint with a signature."""
        # An empty text never counts as signed, so signing it does no harm.
        return replace(self, signature=key.sign(self._signed_bytes() or b""))

    def is_signed_by(self, key: Ed25519PublicKey) -> bool:
        """Whether the owner of the key signed it."""
        signed = self._signed_bytes()
        return signed is not None and is_signed(signed, self.signature, key)

    def _signed_bytes(self) -> bytes | None:
        """Return the bytes that are signed; None for values that no checkpoint can have."""
        text = canonical_or_none({name: value for name, value in self.as_dict().items() if name != "signature"})
        return None if text is None else f"{_DOMAIN}{text}".encode()


_TYPES = {field.name: int if field.name == "seq" else str for field in fields(Checkpoint)}


class CheckpointFile:
    """The checkpoints of a store, a line of JSON each, in a file in its folder."""

    def __init__(self, folder: Path | str) -> None:
        from pathlib import Path

        self.path = Path(folder, "audit", "checkpoints.jsonl")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Let one process of this machine sign at a time: the traces of a crash are then unambiguous."""
        try:
            import fcntl
        except ImportError:  # Windows: two that sign at the same moment sign the same
            yield
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder = os.open(self.path.parent, os.O_RDONLY)
        except OSError as error:
            raise self._unusable("written", error) from None
        try:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def append(self, checkpoint: Checkpoint) -> None:
        """Append a checkpoint, and wait until it is on the disk."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with os.fdopen(os.open(self.path, _FLAGS, 0o600), "r+b") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
                if file.read() not in (b"", b"\n"):
                    # A line that a crash cut short goes; the next one to sign writes it again.
                    file.seek(0)
                    file.truncate(file.read().rfind(b"\n") + 1)
                file.write(_to_line(checkpoint))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise self._unusable("written", error) from None

    def read(self) -> tuple[list[Checkpoint], list[int]]:
        """Return the checkpoints, and the numbers of the lines that hold none."""
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return [], []
        except OSError as error:
            raise self._unusable("read", error) from None
        found, wrong = [], []
        for number, line in enumerate(lines, 1):
            checkpoint = _parse_line(line) if line else None
            if checkpoint is not None:
                found.append(checkpoint)
            elif line and number < len(lines):  # the last one may not be complete yet
                wrong.append(number)
        return found, wrong

    def _unusable(self, use: str, error: OSError) -> AuditUnavailable:
        return AuditUnavailable(
            f"The checkpoints {self.path} cannot be {use}: {error.strerror}.",
            hint="Check the disk and the permissions." if use == "written" else "Check its permissions.",
            path=str(self.path),
        )


class LastCheckpoint:
    """The last checkpoint of a log once more, beside the key: access to the store alone cannot truncate the log.

    It is written first, so that after a crash only this checkpoint can be missing elsewhere.
    """

    def __init__(self, key_file: Path | str, store: str, tenant: str) -> None:
        name = f"{_last_prefix(key_file, store)}{_short_hash(tenant)}.last"
        self.path = os.path.join(_last_folder(key_file), name)

    def read(self) -> Checkpoint | None:
        """Return the checkpoint, None while there is none; raises `AuditUnavailable` for a file of something else."""
        try:
            with open(self.path, "rb") as file:
                found = _parse_line(file.read())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from None
        if found is None:
            raise self._unusable("it holds no checkpoint")
        return found

    def write(self, checkpoint: Checkpoint) -> None:
        """Replace the checkpoint."""
        try:
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            write_file(self.path, _to_line(checkpoint), sync=True)
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from None

    def require_in(self, scope: TenantScope) -> Checkpoint | None:
        """Return the checkpoint; raises `AuditUnavailable` where the log no longer has the record that it signs."""
        kept = self.read()
        if kept is None:
            return None
        found = next(scope.audit.walk(start=kept.seq, batch=1), None)
        if found is None or (found.seq, found.hash) != (kept.seq, kept.hash):
            raise AuditUnavailable(
                f"The audit log is not the one of which record {kept.seq:,} was signed.",
                hint=for_people(
                    "`metier audit verify` says what is wrong with it. To begin anew, move {path} to where you keep "
                    "evidence.",
                    path=self.path,
                ),
                path=self.path,
            )
        return kept

    def _unusable(self, reason: str) -> AuditUnavailable:
        return AuditUnavailable(
            f"The last checkpoint {self.path} cannot be used: {reason}.",
            hint=for_people("Check the disk and the permissions; `metier audit verify` says what is wrong."),
            path=self.path,
        )


def last_checkpoints(key_file: Path | str, store: str) -> tuple[list[Checkpoint], list[Path]]:
    """Return the last checkpoints of all tenants of a store, and the files that should hold one and do not."""
    from pathlib import Path

    found, wrong = [], []
    for path in sorted(Path(_last_folder(key_file)).glob(f"{_last_prefix(key_file, store)}*.last")):
        try:
            last = _parse_line(path.read_bytes())
        except OSError:
            last = None
        if last is not None:
            found.append(last)
        else:
            wrong.append(path)
    return found, wrong


def _last_folder(key_file: Path | str) -> str:
    beside = os.path.dirname(key_file) or "."
    # The folder of a key that somebody brought may be read-only.
    return beside if not os.path.exists(beside) or os.access(beside, os.W_OK) else os.path.dirname(default_key_path())


def _last_prefix(key_file: Path | str, store: str) -> str:
    return f"{os.path.basename(key_file)}-{_short_hash(store)}-"


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def _to_line(checkpoint: Checkpoint) -> bytes:
    return json.dumps(checkpoint.as_dict(), separators=(",", ":")).encode() + b"\n"


def _parse_line(line: bytes) -> Checkpoint | None:
    try:
        return Checkpoint.of(json.loads(line))
    except (ValueError, RecursionError):
        return None


def checkpoints_of(scope: TenantScope) -> list[Checkpoint]:
    """Return the checkpoints that the database itself keeps."""
    return [found for found in map(Checkpoint.of, scope.audit.checkpoints()) if found is not None]


def restart_checkpoints(store: Store, key_file: Path | str) -> list[str]:
    """After a restore: set aside the last checkpoints of records that are gone, and sign the records that are there.

    Returns the new names of the files. The file has all checkpoints of the database from then on.
    """
    aside = []
    file = CheckpointFile(store.folder)
    with file.locked():
        known = set(file.read()[0])
        for tenant in store.tenants():
            for one in checkpoints_of(store.of(tenant)):
                if one not in known:
                    file.append(one)
        lost = []
        for kept in last_checkpoints(key_file, str(store))[0]:
            last = LastCheckpoint(key_file, str(store), kept.tenant)
            try:
                last.require_in(store.of(kept.tenant))
            except AuditUnavailable:
                aside.append(f"{last.path}.before-{time.time_ns() // 1_000_000}")
                os.rename(last.path, aside[-1])
                lost.append(kept.tenant)
    for tenant in lost:
        make_checkpoint(store, tenant, key_file)
    return aside


def make_checkpoint(store: Store, tenant: str, key_file: Path | str) -> Checkpoint | None:
    """Sign the log as it is now, beside the key, in the file and in the database; None where nothing is new.

    Raises `AuditUnavailable` where the log is not the one that was signed before: a new signature would hide that.
    """
    scope = store.of(tenant)
    if scope.audit.last() is None:
        return None
    file, beside_key = CheckpointFile(store.folder), LastCheckpoint(key_file, str(store), scope.audit.tenant)
    with file.locked():
        kept = beside_key.require_in(scope)
        if kept is not None and not scope.audit.has_checkpoint(kept.seq, kept.key_id):
            # The process that signed it ended before it was written everywhere.
            if kept not in file.read()[0]:
                file.append(kept)
            scope.audit.keep_checkpoint(kept.as_dict())
        last = scope.audit.last()
        # By the checkpoint beside the key, not by those of the database, where anybody could write one.
        if last is None or (kept is not None and last.seq <= kept.seq):
            return None
        key = SigningKey.of(key_file)
        made = Checkpoint(
            tenant=scope.audit.tenant,
            seq=last.seq,
            hash=last.hash,
            signed_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            key_id=key.id,
        ).signed_with(key)
        beside_key.write(made)
        file.append(made)
        scope.audit.keep_checkpoint(made.as_dict())
    return made
