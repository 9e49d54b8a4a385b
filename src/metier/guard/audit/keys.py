"""Ed25519 keys: the key that signs checkpoints and backups, and the public keys that verify them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from typing import TYPE_CHECKING

from metier._paths import write_file
from metier.errors import AuditUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_MAX_BYTES = 16 * 1024


class SigningKey:
    """An Ed25519 key that signs; its public half is written beside it, for verification.

    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "audit.ed25519"
    >>> key = SigningKey.of(path)
    >>> is_signed(b"text", key.sign(b"text"), known_keys(path)[key.id])
    True
    """

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.id = _key_id(private.public_key())

    @classmethod
    def of(cls, path: Path | str) -> SigningKey:
        """Return the key in a file, which is made if there is none."""
        from pathlib import Path

        file = Path(path)
        try:
            if not os.path.lexists(file):
                _make_key_file(file)
            key = cls(_load_private(file))
            keep_public(file, key._private.public_key())
        except OSError as error:
            raise _unusable(file, error.strerror or str(error)) from None
        return key

    @property
    def public_pem(self) -> str:
        """The public half, for whoever verifies."""
        return _pem_of(self._private.public_key()).decode()

    def sign(self, data: bytes) -> str:
        """Return the signature of some bytes, in Base64."""
        import base64

        return base64.b64encode(self._private.sign(data)).decode()

    def derive(self, purpose: str) -> bytes:
        """Return 32 secret bytes for one purpose: the same wherever this key is, and of no use for any other."""
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=f"metier {purpose}".encode())
        return derived.derive(self._private.private_bytes_raw())


def known_keys(key_file: Path | str, *more: Path | str) -> Mapping[str, Ed25519PublicKey]:
    """Return the public keys by id: of the key that signs here, of earlier ones, and of every other file named."""
    from pathlib import Path

    file = Path(key_file)
    found = {}
    if os.path.lexists(file):
        public = _load_private(file).public_key()
        found[_key_id(public)] = public
    published = sorted(file.parent.glob(f"{file.stem}-*.pub")) if file.parent.is_dir() else []
    for path in [*published, *map(Path, more)]:
        public = _load_public(path)
        found[_key_id(public)] = public
    return found


def keep_public(key_file: Path | str, public: Ed25519PublicKey) -> None:
    """Write a public key beside the one that signs here, where `known_keys` finds it."""
    from pathlib import Path

    file = Path(key_file)
    published = file.with_name(f"{file.stem}-{_key_id(public)}.pub")
    if not published.exists():
        with contextlib.suppress(OSError):  # the folder of a key that somebody brought may be read-only
            published.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            published.write_bytes(_pem_of(public))


def is_signed(data: bytes, signature: str, key: Ed25519PublicKey) -> bool:
    """Whether the owner of a key signed these bytes."""
    import base64

    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(base64.b64decode(signature, validate=True), data)
    except (InvalidSignature, ValueError):
        return False
    return True


def _pem_of(public: Ed25519PublicKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _key_id(public: Ed25519PublicKey) -> str:
    return hashlib.sha256(public.public_bytes_raw()).hexdigest()[:16]


def _make_key_file(file: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    text = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    beside = file.with_name(f".{file.name}-{os.urandom(6).hex()}")
    write_file(beside, text, sync=True)
    try:
        # Of two processes that start at the same moment, the second uses the key of the first.
        with contextlib.suppress(FileExistsError):
            os.link(beside, file)
    finally:
        beside.unlink()


def _load_private(file: Path) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    found = _parse(file, lambda data: load_pem_private_key(data, password=None))
    if not isinstance(found, Ed25519PrivateKey):
        raise _unusable(file, "it is not an Ed25519 key in PEM without a password")
    return found


def _load_public(file: Path) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    found = _parse(file, load_pem_public_key)
    if not isinstance(found, Ed25519PublicKey):
        raise _unusable(file, "it is not the public half of an Ed25519 key in PEM")
    return found


def _parse(file: Path, load: Callable[[bytes], object]) -> object:
    """Return the key in a file, of whatever kind; None where there is none in it."""
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        # A pipe would be waited for without end.
        if not stat.S_ISREG(file.stat().st_mode):
            raise _unusable(file, "it is not a plain file")
        with open(file, "rb") as opened:
            return load(opened.read(_MAX_BYTES))
    except OSError as error:
        raise _unusable(file, error.strerror or str(error)) from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None


def _unusable(file: Path, reason: str) -> AuditUnavailable:
    return AuditUnavailable(
        f"The key {file} cannot be used: {reason}.",
        hint="Name a key that can be read, or take the file away: a new one is then made.",
        path=str(file),
    )
