"""Intersects a program's policy with the effective policy of the files."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from metier._lazy import replace
from metier.guard.policy.program import LEFT_OPEN, ClosedPolicy, Policy
from metier.guard.policy.schema import KEYS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.guard.policy.effective import RunSettings

_OUTCOMES = ("untrusted", "scripts", "unsandboxed", "hooks", "unchecked", "injection", "script_reads")
_DEFAULT_LIMITS: Mapping[str, float] = MappingProxyType(
    {
        "output_bytes": 256 * 1024,
        "memory_bytes": 512 * 1024 * 1024,
        "processes": 100,
        "file_bytes": 64 * 1024 * 1024,
        "disk_bytes": 256 * 1024 * 1024,
        "open_files": 256,
    }
)
"""The limits of a job where no policy sets them; only the strongest file may raise them."""


def intersect(policy: Policy | None, most: RunSettings, granted: RunSettings) -> ClosedPolicy:
    """A program's policy within the most that files allow; without one, the grants of the strongest file."""
    if policy is None:
        base = Policy()
        names: tuple[str, ...] = (*_OUTCOMES, "paths", "secrets", "require", "limits")
    else:
        # The strongest file grants what a program leaves open.
        base = policy
        names = tuple(name for name in (*LEFT_OPEN, "paths", "secrets") if getattr(policy, name) is None)
    grants = {name: value for name in names if (value := getattr(granted, name)) is not None}
    base = replace(base, **grants) if grants else base
    changes = _reach(base, most, granted)
    closed = ClosedPolicy.of(base)
    for name in (*_OUTCOMES, "paths", "secrets"):
        if (limit := getattr(most, name)) is not None:
            changes[name] = _tighten(name, getattr(closed, name), limit)
    if most.require is not None:
        changes["require"] = tuple(dict.fromkeys((*closed.require, *most.require)))
    if most.limits is not None:
        changes["limits"] = _limits(closed.limits, most.limits, granted.limits or {})
    return replace(closed, **changes)


def _tighten(name: str, own: Any, limit: Any) -> Any:
    return KEYS[f"run.{name.replace('_', '-')}"].type.tighten(own, limit)[0]


def _reach(base: Policy, most: RunSettings, granted: RunSettings) -> dict[str, Any]:
    """The network and the hosts."""
    network: str | None = base.network
    hosts, is_open = tuple(base.hosts), base.network == "host" and not base.hosts
    if network is None:
        # Hosts that are granted are a network that is.
        network = granted.network or ("restricted" if granted.hosts else "none")
        hosts, is_open = granted.hosts or (), network == "host" and granted.hosts is None
    ceiling = most.network or ("restricted" if most.hosts is not None else None)
    if ceiling is not None:
        network = _tighten("network", network, ceiling)
    if most.hosts is not None:
        if network == "host":
            network = "restricted"
        hosts = most.hosts if is_open else _tighten("hosts", hosts, most.hosts)
    return {"network": network, "hosts": hosts}


def _limits(own: Mapping[str, float], most: Mapping[str, float], granted: Mapping[str, float]) -> dict[str, float]:
    merged = dict(own)
    for name, limit in most.items():
        default = limit if name in granted else _DEFAULT_LIMITS.get(name, limit)
        merged[name] = min(limit, own.get(name, default))
    return merged
