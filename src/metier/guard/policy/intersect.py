"""A program's policy, narrowed by what policy files say to what runs."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from metier.guard.policy.program import LEFT_OPEN, Policy, closed
from metier.guard.policy.schema import KEYS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.guard.policy.effective import RunSettings

_OUTCOMES = ("untrusted", "scripts", "unsandboxed", "hooks", "unchecked", "injection", "script_reads")
_USUAL_LIMITS: Mapping[str, float] = MappingProxyType(
    {
        "output_bytes": 256 * 1024,
        "memory_bytes": 512 * 1024 * 1024,
        "processes": 100,
        "file_bytes": 64 * 1024 * 1024,
        "disk_bytes": 256 * 1024 * 1024,
        "open_files": 256,
    }
)
"""What a job gets where nobody says more; only the strongest file may."""


def intersect(policy: Policy | None, most: RunSettings, granted: RunSettings) -> Policy:
    """A policy within the most that files allow; without one, what the strongest file grants."""
    base = _of_files(granted) if policy is None else _with_grants(policy, granted)
    changes: dict[str, Any] = {}
    for name in _OUTCOMES:
        own, file = getattr(base, name), getattr(most, name)
        if file is not None:
            changes[name] = _tightened(name, own, file)
    changes |= _reach(base, most, granted)
    if most.paths is not None:
        changes["paths"] = _tightened("paths", tuple(base.paths or ()), most.paths)
    if most.secrets is not None:
        own_secrets = {skill: tuple(names) for skill, names in (base.secrets or {}).items()}
        changes["secrets"] = _tightened("secrets", own_secrets, most.secrets)
    if most.require is not None:
        changes["require"] = tuple(dict.fromkeys((*base.require, *most.require)))
    if most.limits is not None:
        changes["limits"] = _limits(base.limits, most.limits, granted.limits or {})
    return replace(base, **changes) if changes else base


def _of_files(granted: RunSettings) -> Policy:
    said = {name: getattr(granted, name) for name in (*_OUTCOMES, "paths", "secrets", "require", "limits")}
    return closed(replace(Policy(), **{name: value for name, value in said.items() if value is not None}))


def _with_grants(policy: Policy, granted: RunSettings) -> Policy:
    """A program's policy with what files grant of that which it leaves to them."""
    left = [name for name in (*LEFT_OPEN, "paths", "secrets") if getattr(policy, name) is None]
    return closed(replace(policy, **{name: getattr(granted, name) for name in left}))


def _tightened(name: str, own: Any, file: Any) -> Any:
    return KEYS[f"run.{name.replace('_', '-')}"].kind.tighten(own, file)[0]


def _reach(base: Policy, most: RunSettings, granted: RunSettings) -> dict[str, Any]:
    network: str | None = base.network
    hosts, is_open = tuple(base.hosts), base.network == "host" and not base.hosts
    if network is None:
        # Hosts that are granted are a network that is.
        network = granted.network or ("restricted" if granted.hosts else "none")
        hosts, is_open = granted.hosts or (), network == "host" and granted.hosts is None
    ceiling = most.network or ("restricted" if most.hosts is not None else None)
    if ceiling is not None:
        network = _tightened("network", network, ceiling)
    if most.hosts is not None:
        if network == "host":
            network = "restricted"
        hosts = most.hosts if is_open else _tightened("hosts", hosts, most.hosts)
    return {"network": network, "hosts": hosts}


def _limits(own: Mapping[str, float], most: Mapping[str, float], granted: Mapping[str, float]) -> dict[str, float]:
    merged = dict(own)
    for name, limit in most.items():
        usual = limit if name in granted else _USUAL_LIMITS.get(name, limit)
        merged[name] = min(limit, own.get(name, usual))
    return merged
