"""The state of a tenant as its nodes get it: policy, decisions and deployed skills, signed for each node."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import yaml

from metier._cache import BoundedCache
from metier._lazy import asdict, dataclass, field, replace
from metier.guard import Actor
from metier.guard.audit.checkpoints import signing_key_file
from metier.guard.audit.keys import SigningKey
from metier.guard.governance import InForce
from metier.guard.policy.file import PolicyFile
from metier.guard.policy.schema import KEYS
from metier.serve.api.context import ServerContext
from metier.store import GovernanceState, TenantScope

FORMAT = 1
_MAX_TENANTS = 1_000
_MAX_WAITING = 2_000
_DECIDED_DAYS = 30
_OF_THE_SERVER = tuple(name for name, key in KEYS.items() if key.is_of_machine)
"""Keys of a policy about the server's own machine: an address there may have a password, and a program is its own."""
_TORN = "["
"""A text that no reader takes for a policy, in place of one that the server itself cannot read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantState:
    """The state of a tenant at one moment, before it is signed for a node."""

    number: int
    common: str
    """The payload as canonical JSON, without the node."""
    lease_seconds: int
    credentials: tuple[Mapping[str, str], Mapping[str, str]]
    """The people and the tokens that count: a node whose own is not among them is served no longer."""
    digests: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    """The digests of the payloads by node, as far as they were asked for: a lease every few seconds needs one."""

    def payload(self, node: str) -> str:
        """The payload for a node."""
        head = f'{{"format":{FORMAT},'
        return f'{head}"node":{json.dumps(node)},{self.common.removeprefix(head)}'

    def digest(self, node: str) -> str:
        """The sha256 of the payload for a node."""
        found = self.digests.get(node)
        if found is None:
            found = self.digests[node] = hashlib.sha256(self.payload(node).encode()).hexdigest()
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedPayload:
    """A text, and the signature of the server over its bytes."""

    payload: str
    key_id: str
    signature: str


class NodeStates:
    """The states of all tenants, each made anew where something of it changed."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._made: BoundedCache[str, tuple[tuple[object, ...], TenantState]] = BoundedCache(_MAX_TENANTS)
        self._decisions: BoundedCache[str, tuple[GovernanceState, str]] = BoundedCache(_MAX_TENANTS)
        self._key: SigningKey | None = None

    @property
    def key(self) -> SigningKey:
        """The key that signs: that of the audit log."""
        if self._key is None:
            self._key = SigningKey.of(signing_key_file(self._context.governance("").effective))
        return self._key

    def version(self, tenant: str) -> tuple[object, ...]:
        """A version that differs whenever the state of a tenant may be another."""
        scopes = _scopes(self._context, tenant)
        # The policy is equal to itself alone; with every day, requests that were decided long ago are left out.
        effective = self._context.governance(tenant).effective
        return (_today(), effective, *(scope.version() for scope in scopes))

    def current(self, tenant: str) -> TenantState:
        """The state of a tenant now."""
        version = self.version(tenant)
        kept = self._made.get(tenant)
        if kept is None or kept[0] != version:
            made = self._build(tenant)
            # Most records change nothing of it.
            if kept is not None and kept[1].common == made.common:
                made = replace(made, digests=kept[1].digests)
            kept = self._made[tenant] = (version, made)
        return kept[1]

    def _build(self, tenant: str) -> TenantState:
        scopes = _scopes(self._context, tenant)
        number = max(scope.version()[0] or 0 for scope in scopes)  # first: what is newer gets a higher number
        in_force = self._context.governance(tenant).in_force(Actor(tenant=tenant or None))
        recorded = scopes[-1].recorded_decisions()
        own, since = scopes[-1], f"{_today() - timedelta(days=_DECIDED_DAYS)}"
        requests, proposals = own.approvals.request_statuses(since), own.proposals.statuses(since)
        named = zip(scopes, in_force.states, strict=True)
        parts = {
            "format": f"{FORMAT}",
            "number": f"{number}",
            "policies": _canonical([_policy(file) for file in in_force.effective.files]),
            "proposals": _rows_of(("id", "status", "comment"), proposals),
            "requests": _rows_of(("id", "digest", "status"), requests),
            "server": _canonical(self.key.id),
            "skills": _canonical(_skills(scopes)),
            "states": f"[{','.join(self._decisions_text(scope.tenant, state) for scope, state in named)}]",
            "tenant": _canonical(tenant),
        }
        return TenantState(
            number=number,
            common=f"{{{','.join(f'{json.dumps(name)}:{text}' for name, text in parts.items())}}}",
            lease_seconds=self._lease(in_force),
            credentials=(recorded.people, recorded.tokens),
        )

    def _decisions_text(self, tenant: str, state: GovernanceState) -> str:
        kept = self._decisions.get(tenant)
        if kept is None or kept[0] is not state:
            kept = self._decisions[tenant] = (state, _canonical(_decisions(state)))
        return kept[1]

    def _lease(self, in_force: InForce) -> int:
        by_policy = getattr(in_force.effective, "nodes_lease", None)
        seconds = self._context.settings.nodes.lease_seconds
        return seconds if by_policy is None else min(seconds, int(by_policy))

    def sign(self, text: str) -> SignedPayload:
        """A text with the server's signature."""
        return SignedPayload(payload=text, key_id=self.key.id, signature=self.key.sign(text.encode()))

    def lease(self, tenant: str, node: str) -> SignedPayload:
        """A lease of the present state for a node."""
        state = self.current(tenant)
        content = {
            "format": FORMAT,
            "issued_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "node": node,
            "number": state.number,
            "seconds": state.lease_seconds,
            "server": self.key.id,
            "state": state.digest(node),
        }
        return self.sign(_canonical(content))


def _canonical(content: object) -> str:
    # In ASCII, so that no text of a policy can be one that has no bytes.
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_as_json)


def _as_json(value: Any) -> Any:
    return dict(value) if hasattr(value, "keys") else sorted(value) if isinstance(value, frozenset) else list(value)


def _scopes(context: ServerContext, tenant: str) -> list[TenantScope]:
    return [context.store.of(one) for one in dict.fromkeys(("", tenant))]


def _policy(file: PolicyFile) -> dict[str, str]:
    return {"name": f"server:{file.path.strip('<>')}", "text": _without_own_keys(file)}


def _without_own_keys(file: PolicyFile) -> str:
    if file.is_torn:
        return _TORN
    found = (*file.settings, *(one.origin.key for one in file.problems))
    own = [name for name in _OF_THE_SERVER if any(f"{key}.".startswith(f"{name}.") for key in found)]
    if not own:
        return file.text
    try:
        content = {} if file.is_broken else yaml.safe_load(file.text)
    except yaml.YAMLError:
        content = {}
    if not content:
        return _TORN
    for name in own:
        section, _, last = name.rpartition(".")
        content.pop(name, None)
        if isinstance(inner := content.get(section), dict):
            inner.pop(last, None)
    # Without any key it would be a file that is being written.
    return yaml.safe_dump({"version": 1, **content}, sort_keys=False)


def _decisions(state: GovernanceState) -> dict[str, Any]:
    blocked = sorted([kind, value, state.blocked_by.get((kind, value), "")] for kind, value in state.blocked)
    approvals = [asdict(one) for digest in sorted(state.approvals) for one in state.approvals[digest]]
    return {
        "approvals": approvals,
        "blocked": blocked,
        "compared": state.compared,
        "revoked": sorted(state.revoked),
        "tested": state.tested,
    }


def _skills(scopes: list[TenantScope]) -> list[dict[str, str]]:
    """The deployed skills by name; those of the tenant itself before those of the installation."""
    found = {one.name: one for scope in scopes for one in scope.deployments.all()}
    return [
        {
            "name": one.name,
            "namespace": one.namespace,
            "version": one.version,
            "digest": one.digest,
            "archive": f"/api/v1/contents/{one.digest}",
        }
        for _, one in sorted(found.items())
    ]


def _today() -> date:
    return datetime.now(UTC).date()


def _rows_of(names: tuple[str, ...], rows: list[tuple[str, str, str]]) -> str:
    return _canonical([dict(zip(names, values, strict=True)) for values in rows[-_MAX_WAITING:]])
