"""A Sigstore instance of its own: an authority, a log of certificates and a log of signatures, each with its key."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from datetime import timedelta
from pathlib import Path
from typing import Any

import rfc8785
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID
from tests.signing import START, new_certificate, private_pem

from metier.hub.signatures import sign

_NOW = START + timedelta(days=1)
_ISSUER = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
_TIMESTAMPS = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


class SigstoreInstance:
    """Signs skills in the name of identities, as the services of Sigstore do together."""

    def __init__(self) -> None:
        self._root_key, self._certificate_log, self._log = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
        ski = x509.SubjectKeyIdentifier.from_public_key(self._root_key.public_key())
        self._root = new_certificate(self._root_key, "authority", None, None, ski)

    def trusted_root(self) -> bytes:
        """The file by which others know this instance."""
        valid = {"start": START.strftime("%Y-%m-%dT%H:%M:%SZ")}

        def log(key: ec.EllipticCurvePrivateKey) -> dict[str, Any]:
            details = {"rawBytes": _text(_spki(key)), "keyDetails": "PKIX_ECDSA_P256_SHA_256", "validFor": valid}
            return {
                "baseUrl": "https://log.example.com",
                "hashAlgorithm": "SHA2_256",
                "publicKey": details,
                "logId": {"keyId": _text(_key_id(key))},
            }

        authority = {
            "subject": {"organization": "example.com", "commonName": "authority"},
            "uri": "https://authority.example.com",
            "certChain": {"certificates": [{"rawBytes": _text(self._root.public_bytes(Encoding.DER))}]},
            "validFor": valid,
        }
        found = {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [log(self._log)],
            "ctlogs": [log(self._certificate_log)],
            "certificateAuthorities": [authority],
            "timestampAuthorities": [],
        }
        return json.dumps(found).encode()

    def sign(self, files: dict[str, Any], identity: str, issuer: str, folder: Path) -> bytes:
        """The signature of files by an identity."""
        key = ec.generate_private_key(ec.SECP256R1())
        (folder / "leaf.key").write_bytes(private_pem(key))
        bundle = json.loads(sign(files, str(folder / "leaf.key")))
        certificate = self._certificate(key, identity, issuer)
        entry = self._entry(bundle["dsseEnvelope"], certificate)
        bundle["verificationMaterial"] = {
            "certificate": {"rawBytes": _text(certificate.public_bytes(Encoding.DER))},
            "tlogEntries": [entry],
        }
        return json.dumps(bundle).encode()

    def _certificate(self, key: ec.EllipticCurvePrivateKey, identity: str, issuer: str) -> x509.Certificate:
        extensions = (
            x509.SubjectAlternativeName([x509.RFC822Name(identity)]),
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]),
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._root_key.public_key()),
            x509.UnrecognizedExtension(_ISSUER, issuer.encode()),
        )
        serial = x509.random_serial_number()
        plain = new_certificate(key, "leaf", self._root, self._root_key, *extensions, serial=serial)
        tbs, at = plain.tbs_certificate_bytes, int(_NOW.timestamp() * 1000)
        entry = hashlib.sha256(_spki(self._root_key)).digest() + struct.pack("!I", len(tbs))[1:] + tbs
        proof = _signed(self._certificate_log, struct.pack("!BBQH", 0, 0, at, 1) + entry + b"\0\0")
        timestamp = b"\0" + _key_id(self._certificate_log) + struct.pack("!QHBBH", at, 0, 4, 3, len(proof)) + proof
        listed = struct.pack("!HH", len(timestamp) + 2, len(timestamp)) + timestamp
        length = bytes([len(listed)]) if len(listed) < 128 else bytes([0x81, len(listed)])
        timestamps = x509.UnrecognizedExtension(_TIMESTAMPS, b"\x04" + length + listed)
        return new_certificate(key, "leaf", self._root, self._root_key, *extensions, timestamps, serial=serial)

    def _entry(self, envelope: dict[str, Any], certificate: x509.Certificate) -> dict[str, Any]:
        """The entry of a signature in a log that has no other."""
        payload = base64.b64decode(envelope["payload"])
        verifier = _text(certificate.public_bytes(Encoding.PEM))
        spec: dict[str, Any] = {
            "envelopeHash": {"algorithm": "sha256", "value": hashlib.sha256(b"").hexdigest()},
            "payloadHash": {"algorithm": "sha256", "value": hashlib.sha256(payload).hexdigest()},
            "signatures": [{"signature": envelope["signatures"][0]["sig"], "verifier": verifier}],
        }
        body = rfc8785.dumps({"apiVersion": "0.0.1", "kind": "dsse", "spec": spec})
        root = hashlib.sha256(b"\0" + body).digest()
        note = f"log.example.com\n1\n{_text(root)}\n"
        proof = _text(_key_id(self._log)[:4] + _signed(self._log, note.encode()))
        at = int(_NOW.timestamp())
        promise: dict[str, Any] = {
            "body": _text(body),
            "integratedTime": at,
            "logID": _key_id(self._log).hex(),
            "logIndex": 0,
        }
        return {
            "logIndex": "0",
            "logId": {"keyId": _text(_key_id(self._log))},
            "kindVersion": {"kind": "dsse", "version": "0.0.1"},
            "integratedTime": str(at),
            "inclusionPromise": {"signedEntryTimestamp": _text(_signed(self._log, rfc8785.dumps(promise)))},
            "inclusionProof": {
                "logIndex": "0",
                "rootHash": _text(root),
                "treeSize": "1",
                "hashes": [],
                "checkpoint": {"envelope": f"{note}\n\u2014 log.example.com {proof}\n"},
            },
            "canonicalizedBody": _text(body),
        }


def _spki(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _key_id(key: ec.EllipticCurvePrivateKey) -> bytes:
    return hashlib.sha256(_spki(key)).digest()


def _signed(key: ec.EllipticCurvePrivateKey, data: bytes) -> bytes:
    return key.sign(data, ec.ECDSA(hashes.SHA256()))
