"""The lease of a node: how long the state that it has holds without its server."""

from __future__ import annotations

import json
import os
import time
from datetime import datetime
from typing import TYPE_CHECKING

from metier._json_object import parse_object, value_at
from metier._lazy import dataclass, replace
from metier._paths import open_own, write_file
from metier.errors import NodeInvalid
from metier.guard.node.connection import SYNC
from metier.guard.node.state import Envelope

if TYPE_CHECKING:
    from metier.guard.node.binding import Binding

LEASE = "lease.json"
_MAX_BYTES = 64 * 1024
_SKEW = 2 * 3_600.0
"""Seconds by which the clocks of a node and its server may differ; beyond them the time of the server counts."""
CLOCK_SLACK = 60.0
"""Seconds by which a clock is corrected now and then; one that was set back further ends a lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The word of the server that a state holds for a time from now."""

    envelope: Envelope
    state: str
    """The sha256 of the state that it is about."""
    number: int
    """The number of that state."""
    seconds: int
    issued: float
    """The time at the server when it signed it."""
    received: float
    """The time on this machine when it came."""
    seen: float
    """The latest time on this machine that anybody saw since."""

    @classmethod
    def of(cls, envelope: Envelope, binding: Binding, *, received: float, seen: float = 0) -> Lease:
        """The lease that a server signed for a node; raises `NodeInvalid`."""
        found = envelope.open(binding)
        state, seconds, issued = found.get("state"), found.get("seconds"), _moment(found.get("issued_at"))
        if not isinstance(state, str) or type(seconds) is not int or issued is None:
            raise NodeInvalid("What the server sent is no lease.", hint="Its administrators can see why in its log.")
        return cls(
            envelope=envelope,
            state=state.removeprefix("sha256:"),
            number=found["number"],
            seconds=max(0, seconds),
            issued=issued,
            received=received,
            seen=max(received, seen),
        )

    def is_over(self, now: float, *, seen: float = 0, most: int | None = None) -> bool:
        """Whether it is over at a time; it never lasts for more than `most` seconds, where policy says so.

        `seen` is the latest time that the caller saw. A clock that was set back tells nothing any more, and the time of
        receipt, which is written here, nothing beyond what the server signed.
        """
        seconds = self.seconds if most is None else min(self.seconds, most)
        ends = min(self.received, self.issued + _SKEW) + seconds
        return now < max(self.seen, seen) - CLOCK_SLACK or now > ends

    def write(self, folder: str) -> None:
        """Let it be the lease of this machine."""
        data = {**self.envelope.as_json(), "received": self.received, "seen": self.seen}
        write_file(os.path.join(folder, LEASE), json.dumps(data).encode(), exact_mode=0o600)


def _moment(text: object) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp() if isinstance(text, str) else None
    except ValueError:
        return None


def read_lease(folder: str, binding: Binding) -> Lease:
    """The lease that was received last; raises `NodeInvalid` where there is none that can be used."""
    try:
        with open_own(os.path.join(folder, LEASE)) as file:
            found = parse_object(file.read(_MAX_BYTES + 1), most=_MAX_BYTES)
    except (OSError, ValueError) as error:
        raise NodeInvalid(f"There is no lease that can be used: {error}.", hint=SYNC) from None
    received, seen = value_at(found, "received"), value_at(found, "seen")
    if not isinstance(received, int | float) or not isinstance(seen, int | float):
        raise NodeInvalid("There is no lease that can be used: it has no time.", hint=SYNC)
    return Lease.of(Envelope.of(found), binding, received=received, seen=seen)


def end_lease(folder: str) -> None:
    """End the lease at once: the server does not know this node any more."""
    with open(os.path.join(folder, LEASE), "wb"):
        pass


def advance_lease(folder: str, binding: Binding) -> None:
    """Note the time, so that a clock that is set back while nothing runs is noticed."""
    try:
        lease = read_lease(folder, binding)
    except NodeInvalid:
        return
    now = time.time()
    if now > lease.seen:
        replace(lease, seen=now).write(folder)
