"""Signatures of skills that travel: made before they are published, and checked before anything is installed."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Any, cast

from metier._extras import optional
from metier.errors import InvalidArgument, SignerChanged
from metier.guard.signatures import SIGNATURE_FILE, hashing_of, verify
from metier.guard.signers import trusted_signers
from metier.skill import shown

if TYPE_CHECKING:
    from metier.guard.policy.effective import EffectivePolicy
    from metier.guard.signatures import Signature
    from metier.skill.package import Files


def signature_of(files: Files, effective: EffectivePolicy, *, beside: bytes = b"") -> Signature:
    """The signature of files that are about to be installed; raises where they are not what somebody signed.

    Where policy wants a signature, the check at the point `install` says so: it also knows exceptions.
    """
    return verify(files, trusted_signers(effective), beside=beside)


def check_signer(previous: str, signature: Signature, *, is_accepted: bool = False) -> None:
    """Raise `SignerChanged` where content before had a signer, and this has another or none.

    `is_accepted` is the word of a person who was told of it, which is recorded with the installation.
    """
    if not previous or previous == signature.signer or is_accepted:
        return
    now = shown(signature.signer) if signature.signer else "nobody whose signature counts here"
    raise SignerChanged(
        f"The signer changed: it was {shown(previous)}, and is {now}.",
        hint="Ask its author whether that is so; a person at a terminal may accept it.",
        previous=previous,
        signer=signature.signer,
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

    with tempfile.TemporaryDirectory(prefix="metier-") as folder:
        path = os.path.join(folder, SIGNATURE_FILE)
        config: Any = cast("Any", signing).Config().set_hashing_config(hashing_of(files, name))
        try:
            config.use_elliptic_key_signer(private_key=key)
        except (OSError, ValueError, TypeError, AttributeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no elliptic key without a password, as PEM"
            raise InvalidArgument(
                f"The key {shown(key, 300)} cannot be used: {why}.",
                hint="`openssl ecparam -name prime256v1 -genkey -noout -out KEY` makes one.",
            ) from None
        config.sign(folder, path)
        with open(path, "rb") as file:
            return file.read()
