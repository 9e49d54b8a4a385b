"""What `metier store restore` does not bring back, because it was forbidden or taken away since: named and recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.cli.output import Style
from metier.guard.approvals._deciding import record_fields
from metier.guard.audit.deeds import actor_of, keep
from metier.store.restoring import TAKEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.store import Person, Scope, Store
    from metier.store.forbidden import KeptDecision
    from metier.store.restoring import Restored
    from metier.store.withheld import KeptPerson


def record_kept(store: Store, restored: Restored, person: Person) -> None:
    """Record each in the trail of its tenant: the records of it are not in the backup either.

    Who stays, and who stays removed, is on record already.
    """
    for one in restored.kept_decisions:
        _record_decision(store.of(one.tenant), one, person)
    for block in restored.kept_blocks:
        about = {"skill" if block.kind == "name" else block.kind: block.value}
        notes = (f"{block.kind} {block.value}",)
        reason = f"It was in quarantine before a backup was brought back. {block.reason}".strip()
        scope = store.of(block.tenant)
        keep(scope, "skill.quarantined", actor_of(person, scope), **about, notes=notes, reason=reason)
    for token in restored.kept_tokens:
        scope, said = store.of(token.tenant), f"{token.id} of {token.person}"
        keep(scope, "token.revoked", actor_of(person, scope), reason=said, notes=(TAKEN,))


def kept_lines(restored: Restored) -> Iterator[str]:
    """A line for each."""
    for block in restored.kept_blocks:
        what = f"{block.kind} {_shown(block.value)}{_whose(block.tenant)}"
        yield f"The {what} is not blocked in the backup, and stays in quarantine."
    for one in restored.kept_decisions:
        what = f"{_shown(one.id)} of {_shown(one.skill)}{_whose(one.tenant)}"
        if one.decision == "revoked":
            yield f"The approval {what} counts in the backup, and stays revoked."
        else:
            yield f"The refusal {what} is not in the backup, and stays."
    yield from map(_line, restored.kept_people)
    for token in restored.kept_tokens:
        what = f"{_shown(token.id)} of {_shown(token.person)}{_whose(token.tenant)}"
        yield f"The token {what} counts in the backup, and stays revoked."


def _line(person: KeptPerson) -> str:
    who = f"{_shown(person.kind)} {_shown(person.name)}{_whose(person.tenant)}"
    if person.state == "removed":
        return f"The {who} is in the backup, and stays removed."
    if person.state == "admin":
        return f"The backup leaves nobody who is an admin: the {who} stays one."
    return f"The {who} may do more in the backup, and stays {', '.join(person.roles) or 'without a role'}."


def _record_decision(scope: Scope, kept: KeptDecision, person: Person) -> None:
    found = scope.approvals.get(kept.id)
    was = "revoked" if kept.decision == "revoked" else "refused"
    reason = f"It was {was} before a backup was brought back. {kept.reason}".strip()
    about = record_fields(found) if found is not None else {"approval": kept.id, "digest": kept.digest}
    keep(scope, f"approval.{kept.decision}", actor_of(person, scope), **about, reason=reason)


def _whose(tenant: str) -> str:
    return f" (tenant {_shown(tenant)})" if tenant else ""


def _shown(text: str) -> str:
    return Style.text(text, 4_096)
