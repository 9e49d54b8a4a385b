"""Keys and certificates for tests that sign skills."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from metier.guard.signatures import SIGNATURE_FILE
from metier.hub.signatures import sign
from metier.skill import FolderPackage
from metier.skill.package import content_of

START = datetime(2026, 1, 1, tzinfo=UTC)


def new_key(folder: Path, name: str = "acme") -> Path:
    """Write `name.key` and `name.pub`; the path of the private one."""
    key = ec.generate_private_key(ec.SECP256R1())
    folder.mkdir(parents=True, exist_ok=True)
    private = folder / f"{name}.key"
    private.write_bytes(private_pem(key))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / f"{name}.pub").write_bytes(public)
    return private


def sign_folder(folder: Path, private: Path) -> str:
    """Sign the skill in a folder, again; its signer."""
    (folder / SIGNATURE_FILE).unlink(missing_ok=True)
    package = FolderPackage(str(folder))
    files = {entry.path: (entry.mode, content_of(package, entry)) for entry in package.contents()}
    (folder / SIGNATURE_FILE).write_bytes(sign(files, str(private)))
    return f"oms:sha256:{sha256(private.with_suffix('.pub').read_bytes()).hexdigest()}"


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def new_certificate(
    key: ec.EllipticCurvePrivateKey,
    name: str,
    issuer: x509.Certificate | None = None,
    issuer_key: ec.EllipticCurvePrivateKey | None = None,
    *extensions: x509.ExtensionType,
    serial: int = 0,
) -> x509.Certificate:
    """A certificate for `key`: one that issues others, unless it has an issuer."""
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    is_root = issuer is None
    usage = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only"), False
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(serial or x509.random_serial_number())
        .not_valid_before(START)
        .not_valid_after(START + timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=is_root, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=not is_root, key_cert_sign=is_root, crl_sign=is_root, decipher_only=False, **usage
            ),
            critical=True,
        )
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(issuer_key or key, hashes.SHA256())
