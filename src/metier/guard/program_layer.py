"""The layer of the program itself: its policy, the skills that it blocks, and its rules for tool calls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING

from metier._cache import cached_property
from metier._lazy import dataclass, fields

if TYPE_CHECKING:
    from metier.guard.policy.program import Policy
    from metier.guard.tool_rules.calls import CallRules


@dataclass(frozen=True, eq=False, kw_only=True)
class ProgramLayer:
    """The policy of a program, and what it blocks.

    >>> ProgramLayer.of(ProgramLayer(blocks=frozenset({"miner"})).text).blocked
    frozenset({'miner'})
    """

    policy: Policy | None = None
    blocks: frozenset[str] = frozenset()
    """Names and digests that the program blocked beside those of its policy."""

    @cached_property
    def blocked(self) -> frozenset[str]:
        """All names and digests that the program blocks."""
        return self.blocks | frozenset(self.policy.blocked if self.policy is not None else ())

    @cached_property
    def call_rules(self) -> CallRules:
        """The rules for tool calls of its policy."""
        from metier.guard.policy.program import Policy
        from metier.guard.tool_rules.calls import CallRules

        return CallRules.of(self.policy or Policy())

    @cached_property
    def text(self) -> str:
        """The layer as JSON, from which `of` makes it again; empty where the program says nothing."""
        if self.policy is None and not self.blocks:
            return ""
        policy = self.policy and {one.name: getattr(self.policy, one.name) for one in fields(self.policy)}
        return json.dumps({"policy": policy, "blocks": sorted(self.blocks)}, default=_as_json, sort_keys=True)

    @cached_property
    def digest(self) -> str:
        """The digest of `text`, by which records name it; empty where the program says nothing."""
        import hashlib  # only for a program that has a policy

        return f"sha256:{hashlib.sha256(self.text.encode()).hexdigest()}" if self.text else ""

    @classmethod
    def of(cls, text: str) -> ProgramLayer:
        """The layer that a text is of."""
        from metier.guard.policy.program import Policy

        if not text:
            return NO_PROGRAM
        found = json.loads(text)
        policy = found["policy"]
        return cls(policy=None if policy is None else Policy(**policy), blocks=frozenset(found["blocks"]))


def _as_json(value: object) -> object:
    """A collection of a policy as JSON has it."""
    return dict(value) if isinstance(value, Mapping) else sorted(value) if isinstance(value, Set) else str(value)


NO_PROGRAM = ProgramLayer()
