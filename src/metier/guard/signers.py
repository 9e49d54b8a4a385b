"""Signers of skills: their names, and those whose signatures count here.

`oms:sha256:HEX` is the holder of the private half of a key; HEX is the sha256 of the public half as PEM text, or
that of a certificate which issues others. In a policy file `oms:keys/acme.pub`, from its folder, is the same.
`sigstore:ada@example.com@https://issuer.example.com` is an identity and the issuer that vouches for it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import TYPE_CHECKING

from metier._lazy import dataclass, logger
from metier.guard.policy.files import system_policy
from metier.library.places import home_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from metier.guard.policy.effective import EffectivePolicy

log = logger("metier.guard")

KEYS_FOLDER = "keys"
TRUST_ROOT, IDENTITIES = "trusted_root.json", "identities.txt"
_MAX_KEY_BYTES = 256 * 1024
_MAX_KEYS = 256
_TRUSTED_LAYERS = ("enterprise", "personal")
"""The layers whose policy names signers that count; that of a project comes with the skills that it would vouch for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedKey:
    """A public key, or a certificate that issues certificates, whose signatures count."""

    fingerprint: str
    pem: bytes
    is_certificate: bool = False

    @property
    def signer(self) -> str:
        """The signer as policies, locks and records name it."""
        return f"oms:sha256:{self.fingerprint}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedSigners:
    """The signers whose signatures count."""

    keys: tuple[TrustedKey, ...] = ()
    identities: tuple[str, ...] = ()
    """`sigstore:IDENTITY@ISSUER`, for signatures that a transparency log has recorded."""
    trust_root: bytes = b""
    """The certificates and logs of a Sigstore instance, as `trusted_root.json` has them."""


def read_key(data: bytes) -> TrustedKey | None:
    """A key or certificate from PEM text; None where it is neither.

    >>> read_key(b"no key") is None
    True
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

    is_certificate = b"-----BEGIN CERTIFICATE-----" in data
    try:
        key = x509.load_pem_x509_certificates(data)[0].public_key() if is_certificate else load_pem_public_key(data)
    except Exception:
        return None
    pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    fingerprint = hashlib.sha256(pem).hexdigest()
    return TrustedKey(fingerprint=fingerprint, pem=data if is_certificate else pem, is_certificate=is_certificate)


def is_signer(signer: str, wanted: Iterable[str]) -> bool:
    """Whether a signer is one of those that a policy names, by fingerprint or by the file of a key.

    >>> is_signer("sigstore:ada@example.com@https://id.example.com", ["oms:sha256:7168"])
    False
    """
    names = set(wanted)
    return bool(signer) and (signer in names or any(signer == key.signer for key in _keys_at(_key_paths(names))))


def trusted_signers(effective: EffectivePolicy) -> TrustedSigners:
    """The signers that policy files of administrators and of the user name, and those in their folders of keys."""
    named = list(_policy_signers(effective))
    paths, identities, trust_root = _key_paths(named), [one for one in named if one.startswith("sigstore:")], b""
    home = home_folder()
    for base in (os.path.dirname(system_policy()), *([os.path.join(home, ".metier")] if home is not None else [])):
        folder = os.path.join(base, KEYS_FOLDER)
        with contextlib.suppress(OSError):
            files = sorted(name for name in os.listdir(folder) if name.endswith((".pub", ".pem")))
            paths += [os.path.join(folder, name) for name in files[:_MAX_KEYS]]
        lines = map(str.strip, _read(os.path.join(folder, IDENTITIES)).decode("utf-8", "replace").splitlines())
        identities += [f"sigstore:{line}" for line in lines if line and not line.startswith("#")]
        trust_root = trust_root or _read(os.path.join(folder, TRUST_ROOT))
    return TrustedSigners(
        keys=tuple(dict.fromkeys(_keys_at(paths))), identities=tuple(dict.fromkeys(identities)), trust_root=trust_root
    )


def _policy_signers(effective: EffectivePolicy) -> Iterator[str]:
    auto, origins = effective.approval.auto, effective.origins.get("skill-policy.approval.auto-approve-when", ())
    if auto is not None and all(origin.layer in _TRUSTED_LAYERS for origin in origins):
        yield from auto.signer
    for signers in effective.sources_signers.values():
        yield from (text for text, origin in signers if origin is None or origin.layer in _TRUSTED_LAYERS)


def _key_paths(signers: Iterable[str]) -> list[str]:
    return [name[4:] for name in signers if name.startswith("oms:") and not name.startswith("oms:sha256:")]


def _keys_at(paths: Iterable[str]) -> Iterator[TrustedKey]:
    for path in paths:
        key = read_key(_read(path))
        if key is not None:
            yield key
        else:
            log.warning("%s is no key or certificate that can be read.", path)


def _read(path: str) -> bytes:
    try:
        # A pipe in place of a file is empty, and nobody waits for its other end.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
            return file.read(_MAX_KEY_BYTES) or b""
    except (OSError, ValueError):
        return b""
