"""Signatures of skills that travel: made before they are published, and checked before anything is installed."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from metier._extras import optional
from metier._lazy import dataclass
from metier.errors import InvalidArgument, SignatureRefused, SignerChanged
from metier.guard.decision import refuse
from metier.guard.policy.source_patterns import denies_source
from metier.guard.signatures import SIGNATURE_FILE, Signature, hashing_of, verify
from metier.guard.signers import TrustedSigners, read_key, trusted_signers
from metier.hints import for_people
from metier.skill import shown

if TYPE_CHECKING:
    from metier.guard import Decision
    from metier.guard.policy.effective import EffectivePolicy
    from metier.guard.signers import TrustedKey
    from metier.skill.package import Files


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSignature:
    """The signature of a skill that is about to be installed, and what follows from it."""

    signature: Signature
    against: Decision | None = None
    """The decision against the skill, where its signature speaks against it."""
    unsigned_because: str = ""
    """The reason of an exception, where policy wants a signature and there is none."""
    exceptions: tuple[str, ...] = ()
    """The exceptions that somebody who may decide about skills has to answer for, in words."""


def judge_signature(
    files: Files,
    effective: EffectivePolicy,
    source: str,
    *,
    previous: str = "",
    allow_unsigned: str = "",
    accept_signer: str = "",
) -> JudgedSignature:
    """Check the signature of files of a source; `previous` is the signer of the content before, the others reasons.

    The decision against another signer than before has the code of `SignerChanged`: a person who is told of it may
    answer with a reason to accept it, which is recorded with the installation.
    """
    try:
        signature = verify(files, trusted_signers(effective) if SIGNATURE_FILE in files else TrustedSigners())
    except SignatureRefused as error:
        refusal = refuse("signature", error.message, code=error.code, hint=error.hint)
        return JudgedSignature(signature=Signature(), against=refusal)
    is_other, accepted = previous not in ("", signature.signer), accept_signer.strip()
    if is_other and not accepted:
        now = shown(signature.signer) if signature.signer else "nobody whose signature counts here"
        refusal = refuse(
            "signature",
            f"The signer changed: it was {shown(previous)}, and is {now}.",
            code=SignerChanged.code,
            hint=for_people("Ask its author whether that is so; `--accept-signer REASON` says why it is."),
        )
        return JudgedSignature(signature=signature, against=refusal)
    is_demanded = "none" not in effective.sources_require.signature or any(
        denies_source(pattern, source) for pattern in effective.sources_signers
    )
    unsigned = allow_unsigned.strip() if is_demanded and not signature.signer else ""
    exceptions = (unsigned and f"Unsigned: {unsigned}", is_other and f"Another signer: {accepted}")
    return JudgedSignature(
        signature=signature, unsigned_because=unsigned, exceptions=tuple(text for text in exceptions if text)
    )


def sign(files: Files, key: str, *, name: str = "skill") -> bytes:
    """The `skill.oms.sig` of files by a private key, an elliptic one in a PEM file; `name` is the skill's."""
    links = [path for path, (mode, _) in files.items() if mode == "link"]
    if links:
        raise InvalidArgument(
            f"{shown(links[0])!r} is a link, which a signature cannot cover.", hint="Put a file in place of it."
        )
    with optional("Signatures of skills", "model-signing", extra="sign"):
        from model_signing import signing

    config: Any = cast("Any", signing).Config().set_hashing_config(hashing_of(files, name))
    try:
        config.use_elliptic_key_signer(private_key=key)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no elliptic key without a password, as PEM"
        raise InvalidArgument(
            f"The key {shown(key, 300)} cannot be used: {why}.",
            hint="`openssl ecparam -name prime256v1 -genkey -noout -out KEY` makes one.",
        ) from None
    with tempfile.TemporaryDirectory(prefix="metier-") as folder:
        path = Path(folder, SIGNATURE_FILE)
        config.sign(folder, path)
        return path.read_bytes()


def sign_files(files: Files, key: str, *, name: str = "skill") -> Files:
    """Files with their signature by a private key; one that they have and that is by this key stays as it is.

    Each signature has other bytes, so that otherwise the same skill would be another content each time.
    """
    public = _public_half(key)
    if public is not None:
        with contextlib.suppress(SignatureRefused):  # it is of other content
            if verify(files, TrustedSigners(keys=(public,))).signer:
                return files
    plain = {path: one for path, one in files.items() if path != SIGNATURE_FILE}
    return {**plain, SIGNATURE_FILE: ("file", sign(plain, key, name=name))}


def _public_half(path: str) -> TrustedKey | None:
    """The public half of a private key; None where there is none, which signing tells about."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

    with contextlib.suppress(OSError, ValueError, TypeError):
        public = load_pem_private_key(Path(path).read_bytes(), None).public_key()
        return read_key(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return None
