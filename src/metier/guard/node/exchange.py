"""The exchange of a node with its server: what the server says now, and the lease by which it holds."""

from __future__ import annotations

import contextlib
import json
import os
import time
from http import HTTPStatus
from typing import TYPE_CHECKING

from metier._json_object import object_of
from metier._lazy import logger
from metier._paths import locked_folder, write_file
from metier.errors import MetierError, NodeInvalid, ServerRefused
from metier.guard.node.arriving import announce
from metier.guard.node.binding import read_binding, read_token
from metier.guard.node.connection import ServerConnection
from metier.guard.node.lease import Lease, end_lease
from metier.guard.node.state import Envelope, NodeState, file_version, read_state
from metier.hints import for_people
from metier.library.places import node_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.guard.node.binding import Binding

log = logger("metier.guard")

_CONFIRM_SECONDS = 2.0
_STATE, _LEASE, _EVENTS = "/api/v1/nodes/me/state", "/api/v1/nodes/me/lease", "/api/v1/nodes/me/events"


class NodeExchange:
    """One node and its server. What it receives is verified, written down, and counts from the next decision on."""

    def __init__(self, binding: Binding, token: str) -> None:
        self.binding = binding
        self.connection = ServerConnection(binding.url, token)
        self.state: NodeState | None = None
        """The state that this machine has, whichever process wrote it."""
        self._folder = node_folder()
        self._path = os.path.join(self._folder, "state.json")
        self._version: object = None
        self._read()

    @classmethod
    def here(cls) -> NodeExchange | None:
        """The node that this machine is; None where it is none."""
        binding = read_binding()
        return None if binding is None else cls(binding, read_token())

    def renew(self, *, seconds: float = 10.0) -> None:
        """Ask for a lease, and for the state where that is another one now."""
        with self._ending_when_unknown():
            answer = self.connection.request("POST", _LEASE, {}, seconds=seconds)
        self.take(Envelope.of(answer.json), seconds=seconds)

    def leases(self) -> Iterator[Envelope]:
        """The leases that the server sends, at once, now and then, and whenever something changes."""
        with self._ending_when_unknown():
            for name, data in self.connection.events(_EVENTS):
                if name == "lease":
                    yield Envelope.of(object_of(data))

    def take(self, envelope: Envelope, *, seconds: float = 10.0) -> None:
        """Let a lease count that was just received, with the state that it is about."""
        received = time.time()
        lease = Lease.of(envelope, self.binding, received=received)
        self._read()
        if self.state is None or lease.state != self.state.digest:
            self._pull(seconds)
        if self.state is not None and lease.number <= self.state.number:
            lease.write(self._folder)

    def _pull(self, seconds: float) -> None:
        with self._ending_when_unknown():
            envelope = Envelope.of(self.connection.request("GET", _STATE, seconds=seconds).json)
        state = NodeState.of(envelope, self.binding)
        try:
            with locked_folder(self._folder):
                self._read()
                self._write(envelope, state)
        except OSError:
            end_lease(self._folder)  # what the server says now cannot be kept, and what it said before holds no more
            raise

    def _write(self, envelope: Envelope, state: NodeState) -> None:
        if self.state is not None and state.number < self.state.number:
            raise NodeInvalid(
                "The server sent an earlier state than before.",
                hint=for_people("Where it was restored from a backup, `metier logout` and `metier login` begin anew."),
            )
        # Decisions count at once; the contents follow, and until then what was there before may stay.
        announce(self.state.skills if self.state is not None else (), state.skills)
        text = json.dumps(envelope.as_json()).encode()
        write_file(self._path, text, exact_mode=0o600, sync=True)
        self.state, self._version = state, file_version(self._path)

    def _read(self) -> None:
        """Read the state that is on the disk, where it is another than before."""
        version = file_version(self._path)
        if version is not None and version == self._version:
            return
        try:
            self.state, self._version = read_state(self._folder, self.binding), version
        except MetierError as error:
            self.state = self._version = None
            log.info("the node has no state yet: %s", error)

    @contextlib.contextmanager
    def _ending_when_unknown(self) -> Iterator[None]:
        """End the lease where the server does not know this node any more."""
        try:
            yield
        except ServerRefused as error:
            if error.context.get("status") == HTTPStatus.UNAUTHORIZED:
                end_lease(self._folder)
            raise


def confirm(binding: Binding) -> bool:
    """Whether the server says right now that what this node has of it still holds, or gave it what does."""
    try:
        NodeExchange(binding, read_token()).renew(seconds=_CONFIRM_SECONDS)
    except (MetierError, OSError) as error:
        log.warning("the server of this node was not reached: %s", error)
        return False
    return True
