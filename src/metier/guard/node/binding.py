"""The binding of this machine to a server: the server's address and key, and the token of the node."""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING

from metier._json_object import parse_object
from metier._lazy import asdict, dataclass, fields
from metier._paths import open_own, write_file
from metier.errors import NodeInvalid
from metier.hints import for_people
from metier.library.places import node_folder

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

BINDING, TOKEN = "binding.json", "token"
_FILES = (BINDING, TOKEN, "state.json", "lease.json", "arriving.json", "status.json")
_MAX_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """The server that this machine is a node of, as it was when the node was made."""

    url: str
    """The address of the server, without a slash at its end."""
    node: str
    """The id of the node."""
    name: str
    tenant: str = ""
    key_id: str
    public_key: str
    """The key that the server signs with, in PEM."""

    def key(self) -> Ed25519PublicKey:
        """The key that the server signs with; raises `NodeInvalid` where it is none."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        try:
            found = load_pem_public_key(self.public_key.encode())
        except ValueError:
            found = None
        if not isinstance(found, Ed25519PublicKey):
            raise _unusable("its key is no Ed25519 key in PEM")
        return found


def read_binding() -> Binding | None:
    """The binding of this machine, None where it is no node; raises `NodeInvalid` where it cannot be read."""
    try:
        with open_own(os.path.join(node_folder(), BINDING)) as file:
            found = parse_object(file.read(_MAX_BYTES + 1), most=_MAX_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(error.strerror or type(error).__name__) from None
    except ValueError as error:
        raise _unusable(str(error)) from None
    names = {one.name for one in fields(Binding)}
    try:
        binding = Binding(**{name: str(value) for name, value in found.items() if name in names})
    except TypeError:
        raise _unusable("something is missing in it") from None
    return binding


def require_binding() -> Binding:
    """The binding of this machine; raises `NodeInvalid` where it is no node."""
    binding = read_binding()
    if binding is None:
        raise NodeInvalid("This machine is no node of a server.", hint=for_people("`metier login URL` makes it one."))
    return binding


def write_binding(binding: Binding, token: str) -> None:
    """Make this machine a node; what an earlier server said is gone first."""
    folder = node_folder()
    os.makedirs(folder, mode=0o700, exist_ok=True)
    remove_binding()
    write_file(os.path.join(folder, TOKEN), token.encode(), exact_mode=0o600, sync=True)
    write_file(os.path.join(folder, BINDING), json.dumps(asdict(binding)).encode(), exact_mode=0o600, sync=True)


def remove_binding() -> None:
    """Let this machine be no node any more."""
    for name in _FILES:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(node_folder(), name))


def read_token() -> str:
    """The token of the node."""
    try:
        with open_own(os.path.join(node_folder(), TOKEN)) as file:
            return file.read(_MAX_BYTES).decode().strip()
    except (OSError, ValueError):
        raise _unusable("the token beside it cannot be read") from None


def _unusable(why: str) -> NodeInvalid:
    return NodeInvalid(
        f"The binding of this machine to its server cannot be used: {why}.",
        hint=for_people("`metier logout` and `metier login URL` make it anew."),
    )
