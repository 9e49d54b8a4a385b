"""The state of a node: policies, approvals, quarantines and skills, as its server signed them."""

from __future__ import annotations

import hashlib
import os
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from metier._json_object import parse_object, text_at
from metier._lazy import dataclass, fields
from metier._paths import open_own
from metier.errors import NodeInvalid
from metier.guard.audit.keys import is_signed
from metier.guard.node.connection import SYNC
from metier.library.places import node_skills_folder
from metier.skill.names import is_valid_name
from metier.store import Approval, GovernanceState, Install

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from metier.guard.node.binding import Binding

MAX_BYTES = 64 * 1024 * 1024
_FIELDS = frozenset(one.name for one in fields(Approval))
_LISTS = ("grants", "tools")


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """A text that the server signed."""

    payload: str
    key_id: str
    signature: str

    @classmethod
    def parse(cls, data: bytes) -> Envelope:
        """Read an envelope; raises `NodeInvalid` for anything else."""
        try:
            return cls.of(parse_object(data, most=MAX_BYTES))
        except ValueError as error:
            raise _invalid(str(error)) from None

    @classmethod
    def of(cls, found: object) -> Envelope:
        """The envelope that a JSON object is."""
        return cls(**{name: text_at(found, name) for name in ("payload", "key_id", "signature")})

    def open(self, binding: Binding) -> dict[str, Any]:
        """The content, once the signature of the node's own server is verified, and that it is meant for this node."""
        data = self.payload.encode()
        if self.key_id != binding.key_id or not is_signed(data, self.signature, binding.key()):
            raise _invalid("its signature is not one of this node's server")
        try:
            found = parse_object(data, most=MAX_BYTES)
        except ValueError as error:
            raise _invalid(str(error)) from None
        if found.get("format") != 1 or found.get("node") != binding.node or type(found.get("number")) is not int:
            raise _invalid("it is meant for another node, or of another format")
        return found

    @property
    def digest(self) -> str:
        """The sha256 of the content."""
        return hashlib.sha256(self.payload.encode()).hexdigest()

    def as_json(self) -> dict[str, str]:
        """The envelope as a JSON object."""
        return {"payload": self.payload, "key_id": self.key_id, "signature": self.signature}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedSkill:
    """A skill that the server deploys to all nodes."""

    name: str
    digest: str
    archive: str
    """The path of its archive on the server."""
    version: str = ""
    namespace: str = ""

    @property
    def location(self) -> str:
        """The folder that it has on this machine."""
        return os.path.join(node_skills_folder(), self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """The last word of a server about everything that counts on a node."""

    number: int
    digest: str
    policies: tuple[tuple[str, str], ...] = ()
    """Names and texts, that of the whole installation first."""
    states: tuple[GovernanceState, ...] = ()
    """For the whole installation and, behind it, for the tenant of the node."""
    skills: tuple[DeployedSkill, ...] = ()
    requests: tuple[Mapping[str, Any], ...] = ()
    """Requests of this node with their `id` and `status`."""
    proposals: tuple[Mapping[str, Any], ...] = ()
    """Proposals of this node with their `id`, `status` and `comment`."""

    @classmethod
    def of(cls, envelope: Envelope, binding: Binding) -> NodeState:
        """The state that a server signed for a node; raises `NodeInvalid`."""
        found = envelope.open(binding)
        try:
            if found["tenant"] != binding.tenant:
                raise _invalid("it is that of another tenant")
            skills = tuple(map(_skill, found["skills"]))
            return cls(
                number=found["number"],
                digest=envelope.digest,
                policies=tuple((str(one["name"]), str(one["text"])) for one in found["policies"]),
                states=_states(found["states"], skills, binding.node),
                skills=skills,
                requests=tuple(found.get("requests", ())),
                proposals=tuple(found.get("proposals", ())),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _invalid(f"it lacks something, or has what it should not have ({error})") from None


def file_version(path: str) -> tuple[int, int, int, int] | None:
    """A version of a file, which is another after each change; None where it is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def read_state(folder: str, binding: Binding) -> NodeState:
    """The state that was received last."""
    try:
        with open_own(os.path.join(folder, "state.json")) as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _invalid(error.strerror or type(error).__name__) from None
    return NodeState.of(Envelope.parse(data), binding)


def _skill(found: Mapping[str, Any]) -> DeployedSkill:
    name = str(found["name"])
    if not is_valid_name(name):
        raise ValueError("the name of a skill")
    texts = {key: str(found.get(key) or "") for key in ("version", "namespace")}
    return DeployedSkill(name=name, digest=str(found["digest"]), archive=str(found["archive"]), **texts)


def _states(found: list[Mapping[str, Any]], skills: Iterable[DeployedSkill], node: str) -> tuple[GovernanceState, ...]:
    """The states, the last of which has the deployed skills; at least one, so that none means nothing."""
    last = len(found) - 1
    if last < 0:
        raise ValueError("no state")
    return tuple(_state(one, skills if number == last else (), node) for number, one in enumerate(found))


def _state(found: Mapping[str, Any], skills: Iterable[DeployedSkill], node: str) -> GovernanceState:
    approvals = [_approval(one) for one in found["approvals"]]
    counting = [one for one in approvals if not one.revoked_at]
    by_digest: dict[str, tuple[Approval, ...]] = {}
    digests: dict[tuple[str, str], dict[str, None]] = {}
    for one in counting:
        by_digest[one.digest] = (*by_digest.get(one.digest, ()), one)
        # What was asked for here is known to the server by this node's name and the folder.
        digests.setdefault((one.skill, one.location.removeprefix(f"{node}:")), {})[one.digest] = None
    installs = [
        Install(location=one.location, skill=f"{one.name}@server", layer="enterprise", digest=one.digest)
        for one in skills
    ]
    return GovernanceState(
        blocked=frozenset((str(kind), str(value)) for kind, value, _ in found["blocked"]),
        blocked_by=MappingProxyType({(str(kind), str(value)): str(by) for kind, value, by in found["blocked"]}),
        approvals=MappingProxyType(by_digest),
        revoked=frozenset(map(str, found.get("revoked", ()))),
        digests=MappingProxyType({skill: tuple(several) for skill, several in digests.items()}),
        has_refusals=any(one.decision == "denied" for one in counting),
        installs=MappingProxyType({one.location: one for one in installs}),
        tested=MappingProxyType(dict(found.get("tested", {}))),
        compared=MappingProxyType(dict(found.get("compared", {}))),
        managed=node_skills_folder(),
    )


def _approval(found: Mapping[str, Any]) -> Approval:
    known: dict[str, Any] = {name: value for name, value in found.items() if name in _FIELDS}
    if not all(isinstance(value, list if name in _LISTS else str) for name, value in known.items()):
        raise TypeError("an approval")
    return Approval(**{**known, **{name: tuple(map(str, known.get(name, ()))) for name in _LISTS}})


def _invalid(why: str) -> NodeInvalid:
    return NodeInvalid(f"The state that the server sent to this node cannot be used: {why}.", hint=SYNC)
