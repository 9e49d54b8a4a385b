"""Layers and places: who put a skill there, and what that means for it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from metier.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metier.skill import Scope
    from metier.source import Source

Layer: TypeAlias = Literal["enterprise", "personal", "project", "plugin"]
OnMissingDescription: TypeAlias = Literal["derive", "hide", "skip"]

LAYERS: tuple[Layer, ...] = ("enterprise", "personal", "project", "plugin")
"""From the strongest to the weakest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A source in a layer: where skills are, who put them there, and whether anybody vouches for them."""

    layer: Layer
    source: Source
    trusted: bool = True
    name: str = ""
    """What `skill@NAME` selects it by: the source's name, with a number when a library has two of one name."""
    on_missing_description: OnMissingDescription = "derive"
    """For a skill without a description: derive one, derive one but hide the skill from models, or leave it out."""
    client: str = ""
    """The other client whose folder it is, where skills are written for that client's rules; empty for any other."""
    copies: frozenset[str] = frozenset()
    """Folders of skills in it that are copies of others: where nobody vouches for them, every other one is stronger."""

    def __post_init__(self) -> None:
        if self.layer not in LAYERS:
            raise InvalidArgument(f"There is no layer {self.layer!r}.", hint=f"Layers are {', '.join(LAYERS)}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """On whose behalf the library is asked. A skill with a scope is there only for the callers it names."""

    agent: str | None = None
    tenant: str | None = None
    environment: str | None = None


def named_apart(places: Iterable[Place]) -> tuple[Place, ...]:
    """The places, each with a name of its own."""
    taken: set[str] = set()
    named = []
    for place in places:
        base = place.name or place.source.name
        candidates = itertools.chain([base], (f"{base}-{number}" for number in itertools.count(2)))
        name = next(candidate for candidate in candidates if candidate not in taken)
        taken.add(name)
        named.append(replace(place, name=name))
    return tuple(named)


def admits(scope: Scope | None, caller: Caller) -> bool:
    """Whether a scope lets a caller see the skill."""
    if scope is None:
        return True
    pairs = (
        (scope.agents, caller.agent),
        (scope.tenants, caller.tenant),
        (scope.environments, caller.environment),
    )
    return all(allowed is None or value in allowed for allowed, value in pairs)


def checked_order(order: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """An order of layers that may be used: each once, enterprise first."""
    if sorted(order) != sorted(LAYERS) or order[0] != "enterprise":
        raise InvalidArgument(
            f"The layer order {', '.join(order)} cannot be used.",
            hint=f"Name each of {', '.join(LAYERS)} once, enterprise first.",
        )
    return order
