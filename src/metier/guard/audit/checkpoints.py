"""Signed checkpoints: what the audit trail was at some moment, kept outside of the database that holds it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metier._paths import write_file
from metier.errors import AuditUnavailable
from metier.guard.audit.keys import SigningKey, default_key_file, is_signed
from metier.hints import for_people
from metier.store.canonical_json import canonical_or_none

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from metier.store import Store, TenantScope

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_MAX_TENANT = 200
_DOMAIN = "metier audit checkpoint 1\n"
"""What is signed begins with it, so that no signature of something else can be taken for one of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A record of the trail and its hash, signed: whatever stood up to there cannot be changed unnoticed."""

    tenant: str
    seq: int
    hash: str
    signed_at: str
    key_id: str
    signature: str = ""

    @classmethod
    def of(cls, value: Any) -> Checkpoint | None:
        """A checkpoint that was read as JSON; None for what is not one."""
        if not isinstance(value, dict) or value.keys() != _KINDS.keys():
            return None
        if any(type(value[name]) is not kind for name, kind in _KINDS.items()) or len(value["tenant"]) > _MAX_TENANT:
            return None
        made = cls(**value)
        return made if made._signed_bytes() is not None else None

    def as_dict(self) -> dict[str, Any]:
        """The checkpoint as JSON holds it."""
        return asdict(self)

    def signed_with(self, key: SigningKey) -> Checkpoint:
        """The same, with a signature."""
        # Nothing is never taken for signed, so there is no harm in signing it.
        return Checkpoint(**{**self.as_dict(), "signature": key.sign(self._signed_bytes() or b"")})

    def is_signed_by(self, key: Ed25519PublicKey) -> bool:
        """Whether the owner of the key signed it."""
        said = self._signed_bytes()
        return said is not None and is_signed(said, self.signature, key)

    def _signed_bytes(self) -> bytes | None:
        """What is signed; None for what nobody could have."""
        text = canonical_or_none({name: value for name, value in self.as_dict().items() if name != "signature"})
        return None if text is None else f"{_DOMAIN}{text}".encode()


_KINDS = {field.name: int if field.name == "seq" else str for field in fields(Checkpoint)}


class CheckpointFile:
    """The checkpoints of a store, a line of JSON each, in a file beside its database."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @classmethod
    def beside(cls, folder: Path) -> CheckpointFile:
        """The file in the folder of a store."""
        return cls(folder / "audit" / "checkpoints.jsonl")

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Of all processes of this machine, one signs at a time: what a crash left undone can then be told."""
        try:
            import fcntl
        except ImportError:  # Windows: two that sign at the same moment sign the same
            yield
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder = os.open(self.path.parent, os.O_RDONLY)
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def append(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint at the end, so that it is there whatever happens next."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = os.open(self.path, _FLAGS, 0o600)
            try:
                if not self._ends_a_line():
                    # A crash cut it short; what it was to say is written again by whoever signs next.
                    os.ftruncate(file, self.path.read_bytes().rfind(b"\n") + 1)
                line = _line(checkpoint)
                if os.write(file, line) < len(line):
                    raise OSError(28, os.strerror(28))
                os.fsync(file)
            finally:
                os.close(file)
        except OSError as error:
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> AuditUnavailable:
        return AuditUnavailable(
            f"The checkpoints {self.path} cannot be written: {error.strerror}.",
            hint="Check the disk and the permissions.",
            path=str(self.path),
        )

    def _ends_a_line(self) -> bool:
        with open(self.path, "rb") as file:
            if not file.seek(0, os.SEEK_END):
                return True
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"

    def read(self) -> tuple[list[Checkpoint], list[int]]:
        """The checkpoints, and the numbers of the lines that hold none."""
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return [], []
        except OSError as error:
            raise AuditUnavailable(
                f"The checkpoints {self.path} cannot be read: {error.strerror}.",
                hint="Check its permissions.",
                path=str(self.path),
            ) from None
        found, wrong = [], []
        for number, line in enumerate(lines, 1):
            checkpoint = _read_line(line) if line else None
            if checkpoint is not None:
                found.append(checkpoint)
            elif line and number < len(lines):  # the last one may be on its way
                wrong.append(number)
        return found, wrong


class LastCheckpoint:
    """The last checkpoint of a trail once more, beside the key: whoever has the store alone cannot cut the trail back.

    It is written first, so that of all checkpoints only this one can be missing elsewhere after a crash.
    """

    def __init__(self, key_file: Path | str, store: str, tenant: str) -> None:
        self.path = _folder_of_marks(key_file) / f"{_begin_of_marks(key_file, store)}{_short(tenant)}.last"

    def read(self) -> Checkpoint | None:
        """The checkpoint; None while there is none. Raises `AuditUnavailable` for a file that holds something else."""
        try:
            found = _read_line(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from None
        if found is None:
            raise self._unusable("it holds no checkpoint")
        return found

    def write(self, checkpoint: Checkpoint) -> None:
        """Put a checkpoint in place of the one before."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_file(self.path, _line(checkpoint), sync=True)
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from None

    def require_in(self, scope: TenantScope) -> Checkpoint | None:
        """The checkpoint; raises `AuditUnavailable` where the trail is no longer the one that it stands for."""
        kept = self.read()
        if kept is None:
            return None
        link = next(scope.audit.walk(start=kept.seq, batch=1), None)
        if link is None or (link.seq, link.hash) != (kept.seq, kept.hash):
            raise AuditUnavailable(
                f"The audit trail is not the one of which record {kept.seq:,} was signed.",
                hint=for_people(
                    "`metier audit verify` says what is wrong with it. To begin anew, move {path} to where you keep "
                    "evidence.",
                    path=self.path,
                ),
                path=str(self.path),
            )
        return kept

    def _unusable(self, reason: str) -> AuditUnavailable:
        return AuditUnavailable(
            f"The mark {self.path} of what was signed cannot be used: {reason}.",
            hint=for_people("Check the disk and the permissions; `metier audit verify` says what is wrong."),
            path=str(self.path),
        )


def marks_of(key_file: Path | str, store: str) -> tuple[list[Checkpoint], list[Path]]:
    """The marks of all tenants of a store, and the files that should be one and are not."""
    found, wrong = [], []
    for path in sorted(_folder_of_marks(key_file).glob(f"{_begin_of_marks(key_file, store)}*.last")):
        try:
            mark = _read_line(path.read_bytes())
        except OSError:
            mark = None
        if mark is not None:
            found.append(mark)
        else:
            wrong.append(path)
    return found, wrong


def _folder_of_marks(key_file: Path | str) -> Path:
    beside = Path(key_file).parent
    # Whoever brings a key need not let us write beside it.
    return beside if not beside.exists() or os.access(beside, os.W_OK) else default_key_file().parent


def _begin_of_marks(key_file: Path | str, store: str) -> str:
    return f"{Path(key_file).name}-{_short(store)}-"


def _short(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def _line(checkpoint: Checkpoint) -> bytes:
    return json.dumps(checkpoint.as_dict(), separators=(",", ":")).encode() + b"\n"


def _read_line(line: bytes) -> Checkpoint | None:
    try:
        return Checkpoint.of(json.loads(line))
    except (ValueError, RecursionError):
        return None


def checkpoints_of(scope: TenantScope) -> list[Checkpoint]:
    """The checkpoints that the database itself keeps."""
    return [found for found in map(Checkpoint.of, scope.audit.checkpoints()) if found is not None]


def restart_checkpoints(store: Store, key_file: Path | str) -> list[str]:
    """After a backup was brought back: set aside the marks of what is no longer there, and sign what is instead.

    Returns what the files are called now. The checkpoints that the database has are in the file from then on.
    """
    aside = []
    file = CheckpointFile.beside(store.folder)
    with file.alone():
        known = set(file.read()[0])
        for tenant in store.tenants():
            for one in checkpoints_of(store.of(tenant)):
                if one not in known:
                    file.append(one)
        lost = []
        for kept in marks_of(key_file, str(store))[0]:
            mark = LastCheckpoint(key_file, str(store), kept.tenant)
            try:
                mark.require_in(store.of(kept.tenant))
            except AuditUnavailable:
                aside.append(f"{mark.path}.before-{time.time_ns() // 1_000_000}")
                os.rename(mark.path, aside[-1])
                lost.append(kept.tenant)
    for tenant in lost:
        make_checkpoint(store, tenant, key_file)
    return aside


def make_checkpoint(store: Store, tenant: str, key_file: Path | str) -> Checkpoint | None:
    """Sign what the trail is now, beside the key, in the file and in the database; None where nothing is new.

    Raises `AuditUnavailable` where the trail is not the one that was signed before: that must not be signed away.
    """
    scope = store.of(tenant)
    if scope.audit.last() is None:
        return None
    file, mark = CheckpointFile.beside(store.folder), LastCheckpoint(key_file, str(store), scope.audit.tenant)
    with file.alone():
        kept = mark.require_in(scope)
        if kept is not None and not scope.audit.has_checkpoint(kept.seq, kept.key_id):
            # Whoever was signing did not live to write it everywhere.
            if kept not in file.read()[0]:
                file.append(kept)
            scope.audit.keep_checkpoint(kept.as_dict())
        last = scope.audit.last()
        # By the mark, and not by what the database has: there anybody could write a checkpoint.
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
        mark.write(made)
        file.append(made)
        scope.audit.keep_checkpoint(made.as_dict())
    return made
