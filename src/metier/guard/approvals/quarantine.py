"""Quarantine: take skills out of use at once, release them, and find out who used them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass, replace
from metier.errors import InvalidArgument
from metier.guard.approvals.requests import MAX_REASON
from metier.guard.approvals.roles import recording_refusals, require_role
from metier.guard.audit.governance_events import actor_of, record_event
from metier.guard.decision import INTEGRITY
from metier.hints import for_people
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.guard.decision import Actor
    from metier.store import Block, Install, Person, TenantScope
    from metier.store.blocks import BlockKind

CHANGED = "Its content is not what was recorded."

_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{64})", re.IGNORECASE)
_MAX_RECORDS = 100_000
_USES = ("skill.activated", "tool.", "resource.", "script.", "hook.", "inject.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillUsage:
    """The use of a skill by one person or agent, in one session."""

    session: str
    user: str
    agent: str
    first: str
    last: str
    times: int


def quarantine(scope: TenantScope, person: Person, kind: BlockKind, value: str, *, reason: str) -> Block:
    """Take a name, a content or a source out of use everywhere, from the next decision on; takes the role reviewer."""
    reason, value = _checked_reason(reason), known_target(kind, value)
    with recording_refusals(scope, person, "skill", **_record_fields(kind, value)):
        require_role(person, "reviewer", "take skills out of use")
        block = scope.blocks.add(kind, value, reason=reason, by=person.name)
        record_event(scope, "skill.quarantined", actor_of(person, scope), **_record_fields(kind, value), reason=reason)
    return block


def quarantine_changed(scope: TenantScope, actor: Actor, digest: str) -> None:
    """Quarantine content that is not what was recorded, in the transaction that is under way."""
    scope.blocks.add("digest", digest, reason=CHANGED, by=INTEGRITY)
    record_event(
        scope, "skill.quarantined", replace(actor, user=INTEGRITY), **_record_fields("digest", digest), reason=CHANGED
    )


def release_changed(scope: TenantScope, actor: Actor, digest: str, reason: str) -> None:
    """Release content from the quarantine of `quarantine_changed`, in the transaction that is under way."""
    if any((one.kind, one.value, one.by) == ("digest", digest, INTEGRITY) for one in scope.blocks.all()):
        scope.blocks.remove("digest", digest)
        record_event(scope, "skill.released", actor, **_record_fields("digest", digest), reason=reason)


def release(scope: TenantScope, person: Person, kind: BlockKind, value: str, *, reason: str) -> bool:
    """Release a target from quarantine; False where it was not in quarantine. Takes the role admin.

    A folder whose content was not what was recorded is released too: it is checked anew.
    """
    reason, value = _checked_reason(reason), known_target(kind, value)
    with recording_refusals(scope, person, "skill", **_record_fields(kind, value)):
        require_role(person, "admin", "release skills from quarantine")
        was_there = scope.blocks.remove(kind, value)
        for install in scope.installs.all():
            of_it = {"name": install.skill.partition("@")[0], "digest": install.digest, "source": install.source}
            if install.state == "quarantined" and of_it[kind] == value:
                scope.installs.put(replace(install, state="enabled"))
                was_there = True
        if was_there:
            record_event(scope, "skill.released", actor_of(person, scope), **_record_fields(kind, value), reason=reason)
    return was_there


def known_target(kind: BlockKind, value: str) -> str:
    """The value of a quarantine as it is compared; raises `InvalidArgument` for one that would never match.

    >>> known_target("digest", "AB" * 32)[:12]
    'sha256:ababa'
    """
    if kind == "digest":
        found = _DIGEST.fullmatch(value)
        if found is None:
            raise InvalidArgument(
                f"{shown(value)!r} is no digest.",
                hint=for_people("Write sha256: and 64 digits; `metier show NAME` has it."),
            )
        return f"sha256:{found[1].lower()}"
    if not value.strip():
        raise InvalidArgument(
            f"A {kind} has at least one character.", hint=for_people("`metier list --all` shows what is there.")
        )
    if kind == "name" and "@" in value:
        raise InvalidArgument(
            f"{shown(value)!r} is one skill of several.",
            hint="Name it without @, or take out its content with --digest, or all of its source with --source.",
        )
    return value


def usage_of(scope: TenantScope, kind: BlockKind, value: str) -> list[SkillUsage]:
    """The uses of a skill that the audit log has, the last first."""
    wanted: dict[str, Any] = {"name": {"skill": value}, "digest": {"digest": value}, "source": {"text": value}}[kind]
    found: dict[tuple[str, str, str], list[str]] = {}
    for record in scope.audit.search(**wanted, outcome="allow", limit=_MAX_RECORDS):
        is_it = kind != "source" or record.get("source") == value
        if is_it and record.get("type", "").startswith(_USES):
            session, user, agent = (str(record.get(name) or "") for name in ("session", "user", "agent"))
            found.setdefault((session, user, agent), []).append(record.get("timestamp", ""))
    # The newest records come first.
    return [
        SkillUsage(session=session, user=user, agent=agent, first=at[-1], last=at[0], times=len(at))
        for (session, user, agent), at in found.items()
    ]


def _checked_reason(reason: str) -> str:
    if not reason.strip() or len(reason) > MAX_REASON:
        raise InvalidArgument(f"A reason has 1 to {MAX_REASON:,} characters.", hint="Say why: --reason TEXT.")
    return reason.strip()


def _record_fields(kind: BlockKind, value: str) -> dict[str, Any]:
    """The fields of an audit record about a quarantine."""
    return {"skill" if kind == "name" else kind: value, "notes": (f"{kind} {value}",)}


def reference_of(install: Install) -> str:
    """The reference of an installed skill, as commands take it."""
    return f"{install.skill}@{install.source}" if install.source else install.skill


def quarantined_folders(scope: TenantScope) -> list[Install]:
    """The installed skills whose content is not what was recorded, and that nobody restored yet."""
    return [one for one in scope.installs.all() if one.state == "quarantined"]


def taken_out_at(scope: TenantScope, install: Install) -> str:
    """The time of the check that found changed content; "-" where there is no record of it."""
    return str(_last_check(scope, install).get("timestamp", "-"))


def changed_content(scope: TenantScope, install: Install) -> str:
    """The digest of the changed content of an installed skill; empty where there is no record of it."""
    return str(_last_check(scope, install).get("new_digest", ""))


def _last_check(scope: TenantScope, install: Install) -> Mapping[str, Any]:
    return next(iter(scope.audit.search(type="integrity.failed", digest=install.digest, limit=1)), {})
