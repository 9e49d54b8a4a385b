"""Signatures of skills: the OpenSSF Model Signing format (OMS) and keyless ones of Sigstore, all checked offline.

The file `skill.oms.sig` at the root of a skill is a Sigstore bundle: an in-toto statement with the sha256 of each other
file, signed by a key, by a certificate, or by an identity that a transparency log has recorded. It says nothing of the
modes of files, which the content digest covers.
"""

from __future__ import annotations

import base64
import hashlib
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

from metier._extras import optional
from metier._json_object import parse_object
from metier._lazy import dataclass
from metier.errors import SignatureMismatch, UnsignedFile
from metier.guard.signers import TRUST_ROOT
from metier.skill import shown
from metier.skill.package import EXCLUDED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.guard.signers import TrustedKey, TrustedSigners
    from metier.skill.package import Files

SIGNATURE_FILE = "skill.oms.sig"
SignatureKind: TypeAlias = Literal["oms", "sigstore", "unknown", "none"]
_BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
_PAYLOAD, _STATEMENT = "application/vnd.in-toto+json", "https://in-toto.io/Statement/v1"
_PREDICATE = "https://model_signing/signature/v1.0"
_MATERIALS = {
    "publicKey": (),
    "x509CertificateChain": (),
    "certificate": ("tlogEntries", "timestampVerificationData"),
}
"""The ways to name a signer in a bundle, and the fields that prove it beside that one."""
_MAX_BYTES = 16 * 1024 * 1024
_AGAIN = "Get the skill again from its author; do not use this one."


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The signature of a skill whose every file it covers, or none."""

    kind: SignatureKind = "none"
    """How it was made; `unknown` for one by somebody that nobody here has named."""
    signer: str = ""
    """The signer as policies and locks name it; empty where there is none that counts."""

    @property
    def status(self) -> str:
        """The word for people: `valid`, `unsigned`, or `signer-unknown`."""
        return {"none": "unsigned", "unknown": "signer-unknown"}.get(self.kind, "valid")


def verify(files: Files, trusted: TrustedSigners) -> Signature:
    """The signature of exactly these files; policy decides whether one by these signers is needed.

    Raises `SignatureMismatch` and `UnsignedFile` for content that is not what was signed, whoever signed it.
    """
    _, data = files.get(SIGNATURE_FILE, ("file", b""))
    if not data:
        return Signature()
    bundle = _read_bundle(data)
    _compare(bundle.signed, files)
    is_keyless = "certificate" in bundle.material
    signer = _keyless_signer(bundle, trusted) if is_keyless else _key_signer(bundle, files, trusted)
    return Signature(kind=("sigstore" if is_keyless else "oms") if signer else "unknown", signer=signer)


class _Bundle(NamedTuple):
    """The fields of a signature file that are read here; nothing of it is believed yet."""

    material: dict[str, Any]
    envelope: dict[str, Any]
    signed: dict[str, str]
    """The sha256 of each file that was signed."""

    def as_json(self, **material: Any) -> str:
        """The bundle with these fields and no others, so that no library reads another statement."""
        both = {"verificationMaterial": self.material | material, "dsseEnvelope": self.envelope}
        return json.dumps({"mediaType": _BUNDLE, **both})


def _read_bundle(data: bytes) -> _Bundle:
    """The fields of a signature file; raises `SignatureMismatch` where it cannot be read."""
    try:
        found = parse_object(data, most=_MAX_BYTES)
        if found["mediaType"] != _BUNDLE:
            raise ValueError(f"its media type is {shown(str(found['mediaType']))}")
        material, envelope = found["verificationMaterial"], found["dsseEnvelope"]
        kinds = [name for name in _MATERIALS if material.get(name)]
        if len(kinds) != 1 or not isinstance(material[kinds[0]], dict):
            raise ValueError("it does not name one key or certificate")
        if envelope["payloadType"] != _PAYLOAD:
            raise ValueError(f"it signs a {shown(str(envelope['payloadType']))}")
        proofs = {name: material[name] for name in (*kinds, *_MATERIALS[kinds[0]]) if name in material}
        signatures = [{"sig": str(one["sig"]), "keyid": ""} for one in envelope["signatures"]]
        statement = parse_object(base64.b64decode(envelope["payload"], validate=True), most=_MAX_BYTES)
        return _Bundle(
            material={"tlogEntries": [], **proofs},
            envelope={"payload": envelope["payload"], "payloadType": _PAYLOAD, "signatures": signatures},
            signed=_signed_files(statement),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}" if isinstance(error, KeyError | TypeError) else str(error)
        raise _mismatch(f"{SIGNATURE_FILE} cannot be read: {shown(why, 200)}.") from None


def _signed_files(statement: dict[str, Any]) -> dict[str, str]:
    if (statement["_type"], statement["predicateType"]) != (_STATEMENT, _PREDICATE):
        raise ValueError(f"it states {shown(str(statement['predicateType']))}")
    method = statement["predicate"]["serialization"]
    if method["method"] != "files" or method["hash_type"] != "sha256":
        raise ValueError("it does not name each file by its sha256")
    found: dict[str, str] = {}
    for one in statement["predicate"]["resources"]:
        name, digest = str(one["name"]), str(one["digest"])
        if one["algorithm"] != "sha256" or found.setdefault(name, digest) != digest:
            raise ValueError(f"it does not name {shown(name)!r} by one sha256")
    return found


def _mismatch(problem: str, **context: Any) -> SignatureMismatch:
    return SignatureMismatch(problem, hint=_AGAIN, **context)


def _compare(signed: Mapping[str, str], files: Files) -> None:
    """Raise unless files are those that were signed, all of them and no others."""
    own = {
        path: "" if mode == "link" else hashlib.sha256(data).hexdigest()
        for path, (mode, data) in files.items()
        if path != SIGNATURE_FILE
    }
    changed = sorted(path for path in own if own[path] != signed.get(path, own[path]))
    # Folders that are no part of any skill may have been signed: they are not installed.
    lost = sorted(path for path in signed if path not in own and EXCLUDED.isdisjoint(path.split("/")))
    added = sorted(path for path in own if path not in signed)
    if changed:
        raise _mismatch(f"{_names(changed)} is not what was signed.", paths=changed)
    if lost:
        raise _mismatch(f"{_names(lost)} was signed and is missing.", paths=lost)
    if added:
        raise UnsignedFile(f"{_names(added)} was added to a signed skill.", hint=_AGAIN, paths=added)


def _names(paths: list[str]) -> str:
    more = f" (and {len(paths) - 1:,} more)" if len(paths) > 1 else ""
    return f"{shown(paths[0])!r}{more}"


def _key_signer(bundle: _Bundle, files: Files, trusted: TrustedSigners) -> str:
    """The key that signed; raises `SignatureMismatch` where a known one is named and did not."""
    named = bundle.material.get("publicKey")
    hint = str(named.get("hint") or "") if named is not None else ""
    keys = [one for one in trusted.keys if one.is_certificate != bool(named) and hint in ("", one.fingerprint)]
    signer = next((key.signer for key in keys if _is_signed_by(key, bundle, files)), "")
    if hint and keys and not signer:
        raise _mismatch(f"{SIGNATURE_FILE} was not made by the key that it names.")
    return signer


def _is_signed_by(key: TrustedKey, bundle: _Bundle, files: Files) -> bool:
    with optional("Signatures of skills", "model-signing", extra="sign"):
        from model_signing import verifying

    with tempfile.TemporaryDirectory(prefix="metier-") as folder:
        key_path, bundle_path = Path(folder, "key.pem"), Path(folder, SIGNATURE_FILE)
        key_path.write_bytes(key.pem)
        material = {} if key.is_certificate else {"publicKey": {"hint": key.fingerprint}}
        bundle_path.write_text(bundle.as_json(**material))
        config: Any = cast("Any", verifying).Config().set_hashing_config(hashing_of(files))
        try:
            if key.is_certificate:
                config.use_certificate_verifier(certificate_chain=[key_path])
            else:
                config.use_elliptic_key_verifier(public_key=key_path)
            config.verify(folder, bundle_path)
        except Exception:
            return False
    return True


def hashing_of(files: Files, name: str = "skill") -> Any:
    """The hashes of files that are in memory, in place of those of a folder that the library would read."""
    with optional("Signatures of skills", "model-signing", extra="sign"):
        from model_signing import hashing, manifest
        from model_signing._hashing.hashing import Digest

    method = {"method": "files", "hash_type": "sha256", "allow_symlinks": False, "ignore_paths": [SIGNATURE_FILE]}
    serialization = manifest.SerializationType.from_args(method)
    items = [
        serialization.new_item(path, Digest("sha256", hashlib.sha256(data).digest()))
        for path, (_, data) in sorted(files.items())
        if path != SIGNATURE_FILE
    ]

    class _FilesInMemory(hashing.Config):
        def hash(self, *_: object, **__: object) -> manifest.Manifest:
            return manifest.Manifest(name, items, serialization)

    return cast("Any", _FilesInMemory)()


def _keyless_signer(bundle: _Bundle, trusted: TrustedSigners) -> str:
    """The identity that signed, of those that count; empty where it is another, or no trust root is here."""
    if not trusted.trust_root or not trusted.identities:
        return ""
    with optional("Keyless signatures", "sigstore", extra="sigstore"):
        from cryptography.x509 import ExtensionNotFound
        from sigstore.errors import Error
        from sigstore.models import Bundle, TrustedRoot
        from sigstore.verify import Verifier, policy

    try:
        with tempfile.TemporaryDirectory(prefix="metier-") as folder:
            path = Path(folder, TRUST_ROOT)
            path.write_bytes(trusted.trust_root)
            verifier = Verifier(trusted_root=TrustedRoot.from_file(str(path)))
        read = Bundle.from_json(bundle.as_json())
    except (Error, ValueError, KeyError, TypeError) as error:
        raise _mismatch(f"{SIGNATURE_FILE} or {TRUST_ROOT} cannot be read: {shown(str(error), 200)}.") from None
    for signer in trusted.identities:
        identity, _, issuer = signer.removeprefix("sigstore:").rpartition("@")
        if not identity or not issuer:
            continue  # to the library, no issuer is any
        wanted = policy.Identity(identity=identity, issuer=issuer)
        try:
            wanted.verify(read.signing_certificate)
        except (Error, ValueError, ExtensionNotFound):
            continue
        try:
            verifier.verify_dsse(read, wanted)
        except (Error, ValueError, ExtensionNotFound) as error:
            problem = f"{SIGNATURE_FILE} does not prove that it is by {shown(signer)}: {shown(str(error), 200)}."
            raise _mismatch(problem) from None
        return signer
    return ""
