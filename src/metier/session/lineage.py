"""The lineage of an agent: the agents that started one another."""

from __future__ import annotations

import os

from metier._lazy import dataclass, field
from metier.errors import ActivationFailed, InvalidArgument

MAX_DEPTH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The agents that started one another, and the depth that is allowed.

    >>> root = Lineage(max_depth=1)
    >>> child = root.child("research")
    >>> child.depth, child.chain, child.root_id == root.id
    (1, ('research',), True)
    """

    id: str = field(default_factory=lambda: os.urandom(16).hex())
    parent_id: str | None = None
    root_id: str | None = None
    chain: tuple[str, ...] = ()
    """The names of the agents on the way here, the first ancestor's first."""
    depth: int = 0
    max_depth: int = MAX_DEPTH

    def __post_init__(self) -> None:
        if self.depth < 0 or self.max_depth < 0:
            raise InvalidArgument("A depth cannot be negative.", hint="Use 0 to forbid sub-agents.")

    def child(self, name: str) -> Lineage:
        """One level deeper; raises `ActivationFailed` for a cycle and where it is too deep."""
        if name in self.chain:
            raise ActivationFailed(
                f"{name!r} runs already: {' -> '.join((*self.chain, name))} is a cycle.",
                hint="Do this step without a sub-agent.",
                chain=self.chain,
                name=name,
            )
        if self.depth >= self.max_depth:
            raise ActivationFailed(
                f"Maximum sub-agent depth ({self.max_depth}) exceeded: {' -> '.join((*self.chain, name))}.",
                hint="Do this step without a sub-agent: the maximum depth is reached.",
                chain=self.chain,
                name=name,
            )
        return Lineage(
            parent_id=self.id,
            root_id=self.root_id or self.id,
            chain=(*self.chain, name),
            depth=self.depth + 1,
            max_depth=self.max_depth,
        )
