"""Signatures of skills: the OpenSSF Model Signing format (OMS) and keyless ones of Sigstore, all checked offline.

The file `skill.oms.sig` at the root of a skill is a Sigstore bundle: an in-toto statement with the sha256 of each other
file, signed by a key, by a certificate, or by an identity that a transparency log has recorded. It says nothing of the
modes of files, which the content digest covers.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import tempfile
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from metier._extras import optional
from metier._lazy import dataclass
from metier.errors import SignatureMismatch, SignatureMissing, SignerUnknown, UnsignedFile
from metier.guard.signers import TRUST_ROOT
from metier.skill import shown
from metier.skill.package import EXCLUDED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from metier.guard.signers import TrustedKey, TrustedSigners
    from metier.skill.package import Files

SIGNATURE_FILE = "skill.oms.sig"
SignatureKind: TypeAlias = Literal["oms", "sigstore", "none"]
PREDICATE = "https://model_signing/signature/v1.0"
_BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
_PAYLOAD, _STATEMENT = "application/vnd.in-toto+json", "https://in-toto.io/Statement/v1"
_MAX_BYTES = 16 * 1024 * 1024
_AGAIN = "Get the skill again from its author; do not use this one."


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The signature of a skill whose every file it covers, or none."""

    kind: SignatureKind = "none"
    signer: str = ""
    """The signer as policies and locks name it; empty where there is none that counts."""
    status: Literal["valid", "unsigned", "signer-unknown"] = "unsigned"
    """Whether it counts, there is none, or one by somebody that nobody here has named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bundle:
    """A signature file, with what it says; nothing of it is believed yet."""

    material: Mapping[str, Any]
    envelope: Mapping[str, Any]
    resources: Mapping[str, str]
    """The sha256 of each file that was signed."""

    def as_json(self, material: Mapping[str, Any] | None = None) -> str:
        """The bundle with nothing but the fields that were read here, so that no library reads another statement."""
        return json.dumps(
            {
                "mediaType": _BUNDLE,
                "verificationMaterial": self.material if material is None else material,
                "dsseEnvelope": self.envelope,
            }
        )


def verify(files: Files, trusted: TrustedSigners, *, required: bool = False) -> Signature:
    """The signature of exactly these files.

    Raises `SignatureMismatch` and `UnsignedFile` for content that is not what was signed, whoever signed it. With
    `required` also `SignatureMissing` and `SignerUnknown`; without, such a skill counts as unsigned.
    """
    _, data = files.get(SIGNATURE_FILE, ("file", b""))
    if not data:
        if required:
            raise SignatureMissing(
                f"The skill has no {SIGNATURE_FILE}, and policy wants a signature.",
                hint="Ask its author for a signed one, or an administrator for an exception.",
            )
        return Signature()
    bundle = _read_bundle(data)
    _compare(bundle.resources, files)
    is_keyless = "certificate" in bundle.material
    signer = _keyless_signer(bundle, trusted) if is_keyless else _key_signer(bundle, files, trusted.keys)
    if signer:
        return Signature(kind="sigstore" if is_keyless else "oms", signer=signer, status="valid")
    if required:
        raise SignerUnknown(
            "The skill is signed by somebody whom nobody here has named.",
            hint="Where you know who it is, put their public key into ~/.metier/keys.",
        )
    return Signature(status="signer-unknown")


def _read_bundle(data: bytes) -> _Bundle:
    """The fields of a signature file; raises `SignatureMismatch` where it cannot be read."""
    try:
        if len(data) > _MAX_BYTES:
            raise ValueError("it is too large")
        found = json.loads(data)
        if found["mediaType"] != _BUNDLE:
            raise ValueError(f"its media type is {shown(str(found['mediaType']))}")
        material, envelope = found["verificationMaterial"], found["dsseEnvelope"]
        kinds = [name for name in ("publicKey", "x509CertificateChain", "certificate") if material.get(name)]
        if len(kinds) != 1:
            raise ValueError("it does not name one key or certificate")
        payload = base64.b64decode(envelope["payload"], validate=True)
        if envelope["payloadType"] != _PAYLOAD:
            raise ValueError(f"it signs a {shown(str(envelope['payloadType']))}")
        signatures = [{"sig": str(one["sig"]), "keyid": ""} for one in envelope["signatures"]]
        names = (kinds[0], *(("tlogEntries", "timestampVerificationData") if kinds == ["certificate"] else ()))
        return _Bundle(
            material={"tlogEntries": []} | {name: material[name] for name in names if name in material},
            envelope={"payload": envelope["payload"], "payloadType": _PAYLOAD, "signatures": signatures},
            resources=_resources(json.loads(payload)),
        )
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, binascii.Error) as error:
        why = f"{type(error).__name__}: {error}" if isinstance(error, KeyError | TypeError) else str(error)
        raise SignatureMismatch(f"{SIGNATURE_FILE} cannot be read: {shown(why, 200)}.", hint=_AGAIN) from None


def _resources(statement: Any) -> dict[str, str]:
    if (statement["_type"], statement["predicateType"]) != (_STATEMENT, PREDICATE):
        raise ValueError(f"it states {shown(str(statement['predicateType']))}")
    predicate = statement["predicate"]
    method = predicate["serialization"]
    if method["method"] != "files" or method["hash_type"] != "sha256":
        raise ValueError("it does not name each file by its sha256")
    found: dict[str, str] = {}
    for one in predicate["resources"]:
        name, digest = str(one["name"]), str(one["digest"])
        if one["algorithm"] != "sha256" or found.setdefault(name, digest) != digest:
            raise ValueError(f"it does not name {shown(name)!r} by one sha256")
    return found


def _compare(signed: Mapping[str, str], files: Files) -> None:
    """Raise unless files are those that were signed, all of them and no others."""
    own = {path: one for path, one in files.items() if path != SIGNATURE_FILE}
    # Folders that are no part of any skill may have been signed: they are not installed.
    lost = [path for path in signed if path not in own and EXCLUDED.isdisjoint(path.split("/"))]
    changed = [
        path
        for path, (mode, data) in own.items()
        if path in signed and (mode == "link" or hashlib.sha256(data).hexdigest() != signed[path])
    ]
    for paths, what in ((changed, "is not what was signed"), (lost, "was signed and is missing")):
        if paths:
            raise SignatureMismatch(f"{_names(paths)} {what}.", hint=_AGAIN, paths=sorted(paths))
    extra = [path for path in own if path not in signed]
    if extra:
        raise UnsignedFile(f"{_names(extra)} was added to a signed skill.", hint=_AGAIN, paths=sorted(extra))


def _names(paths: list[str]) -> str:
    more = f" (and {len(paths) - 1:,} more)" if len(paths) > 1 else ""
    return f"{shown(min(paths))!r}{more}"


def _key_signer(bundle: _Bundle, files: Files, keys: Iterable[TrustedKey]) -> str:
    """The key that signed; raises `SignatureMismatch` where a known one is named and did not."""
    material = bundle.material
    named = material.get("publicKey")
    if named is not None and not isinstance(named, dict):
        raise SignatureMismatch(f"{SIGNATURE_FILE} names no key.", hint=_AGAIN)
    hint = str((named or {}).get("hint") or "")
    for key in keys:
        if key.is_certificate == (named is not None) or (hint and hint != key.fingerprint):
            continue
        own = material if named is None else {"publicKey": {"hint": key.fingerprint}, "tlogEntries": []}
        if _is_signed_by(key, bundle.as_json(own), files):
            return key.signer
        if hint:
            raise SignatureMismatch(f"{SIGNATURE_FILE} was not made by the key that it names.", hint=_AGAIN)
    return ""


def _is_signed_by(key: TrustedKey, bundle: str, files: Files) -> bool:
    with optional("Signatures of skills", "model-signing", extra="sign"):
        from model_signing import verifying

    with tempfile.TemporaryDirectory(prefix="metier-") as folder:
        key_path, bundle_path = os.path.join(folder, "key.pem"), os.path.join(folder, SIGNATURE_FILE)
        for path, data in ((key_path, key.pem), (bundle_path, bundle.encode())):
            with open(path, "xb") as file:
                file.write(data)
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

    wanted = {signer: signer.removeprefix("sigstore:").rpartition("@") for signer in trusted.identities}
    policies = {
        signer: policy.Identity(identity=identity, issuer=issuer)
        for signer, (identity, _, issuer) in wanted.items()
        if identity and issuer
    }
    with tempfile.TemporaryDirectory(prefix="metier-") as folder:
        path = os.path.join(folder, "trusted_root.json")
        with open(path, "xb") as file:
            file.write(trusted.trust_root)
        try:
            verifier = Verifier(trusted_root=TrustedRoot.from_file(path))
            read = Bundle.from_json(bundle.as_json())
        except (Error, ValueError, KeyError, TypeError) as error:
            problem = f"{SIGNATURE_FILE} or {TRUST_ROOT} cannot be read: {shown(str(error), 200)}."
            raise SignatureMismatch(problem, hint=_AGAIN) from None
        for signer, identity in policies.items():
            try:
                identity.verify(read.signing_certificate)
            except (Error, ValueError, ExtensionNotFound):
                continue
            try:
                verifier.verify_dsse(read, identity)
            except (Error, ValueError, ExtensionNotFound) as error:
                problem = f"{SIGNATURE_FILE} does not prove that it is by {shown(signer)}: {shown(str(error), 200)}."
                raise SignatureMismatch(problem, hint=_AGAIN) from None
            return signer
    return ""
