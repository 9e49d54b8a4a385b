"""The order in which agents start: each after those it depends on, and a clear word for those that cannot."""

from __future__ import annotations

import heapq
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

from metier._lazy import dataclass
from metier._suggest import suggestion

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from metier.agent.manifest import Manifest

FailureReason: TypeAlias = Literal["invalid", "untrusted", "missing-dependency", "cycle", "failed-dependency"]

_NOBODY: Mapping[str, AgentFailure] = MappingProxyType({})
_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFailure:
    """The reason why a declared agent is missing."""

    id: str
    reason: FailureReason
    message: str
    hint: str
    folder: str = ""
    """The folder that declares it."""
    chain: tuple[str, ...] = ()
    """From it to what failed, each depending on the next."""


def start_order(
    manifests: Iterable[Manifest], failed: Mapping[str, AgentFailure] = _NOBODY
) -> tuple[tuple[Manifest, ...], dict[str, AgentFailure]]:
    """The agents in the order they start, and those that cannot, by id; `failed` are known to be unusable already.

    Those that could start at the same time do so in the order of their ids, so the order never depends on chance.

    >>> from metier.agent.manifest import Manifest
    >>> a, b = Manifest(id="a", name="A", depends_on=("b",)), Manifest(id="b", name="B")
    >>> [manifest.id for manifest in start_order([a, b])[0]]
    ['b', 'a']
    """
    known = {manifest.id: manifest for manifest in manifests}
    waiting = {name: set(manifest.depends_on) for name, manifest in known.items()}
    dependents: dict[str, list[str]] = {}
    for name, needed in waiting.items():
        for dependency in needed:
            dependents.setdefault(dependency, []).append(name)
    ready = [name for name, needed in waiting.items() if not needed]
    heapq.heapify(ready)
    order: list[Manifest] = []
    while ready:
        name = heapq.heappop(ready)
        order.append(known[name])
        del waiting[name]
        for dependent in dependents.get(name, ()):
            waiting[dependent].discard(name)
            if not waiting[dependent]:
                heapq.heappush(ready, dependent)
    return tuple(order), {name: _explained(name, known, waiting, failed) for name in sorted(waiting)}


def _explained(
    name: str, known: Mapping[str, Manifest], waiting: Mapping[str, set[str]], failed: Mapping[str, AgentFailure]
) -> AgentFailure:
    """The reason why an agent cannot start, found by following the first missing dependency of each."""
    chain = [name]
    seen = {name}
    while True:
        last = chain[-1]
        found = next(dependency for dependency in known[last].depends_on if dependency in waiting[last])
        chain.append(found)
        if found in seen or found not in known:
            break
        seen.add(found)
    reason: FailureReason
    if found == name:
        reason, what = "cycle", f"Agent {name!r} depends on itself: {_drawn(chain)}."
        hint = f"Remove one of these from `depends_on`; {known[chain[-2]].folder or chain[-2]} closes the circle."
    elif found in known:
        reason, what = (
            "failed-dependency",
            f"Agent {name!r} depends on agents that depend on themselves: {_drawn(chain)}.",
        )
        hint = f"Mend `depends_on` of {found!r}."
    else:
        reason = "missing-dependency" if len(chain) == 2 and found not in failed else "failed-dependency"
        problem = f"cannot be used: {failed[found].message}" if found in failed else "is not here."
        through = f" ({_drawn(chain)})" if len(chain) > 2 else ""
        what = f"Agent {name!r} depends on {found!r}{through}, which {problem}"
        hint = failed[found].hint if found in failed else _missing_hint(found, known, chain[-2])
    return AgentFailure(id=name, reason=reason, message=what, hint=hint, folder=known[name].folder, chain=tuple(chain))


def _missing_hint(missing: str, known: Mapping[str, Manifest], named_by: str) -> str:
    meant = suggestion(missing, known)
    guess = f"Did you mean {meant!r}? " if meant else ""
    return f"{guess}Add agents/{missing}/agent.yaml, or take it out of `depends_on` of {named_by!r}."


def _drawn(chain: list[str]) -> str:
    if len(chain) > _SHOWN:
        chain = [*chain[: _SHOWN - 2], "...", *chain[-2:]]
    return " -> ".join(chain)
