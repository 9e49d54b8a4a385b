"""The JSON shapes that programs may rely on; `docs/reference/json.md` describes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier.errors import MetierError
from metier.hints import for_person

if TYPE_CHECKING:
    from metier.cli.policy_view import PolicyStatus
    from metier.library import Entry, Machine, Readiness
    from metier.run import Outcome
    from metier.session import Event
    from metier.skill.listing import ListingRule


def entry_shape(
    entry: Entry,
    machine: Machine,
    listing: ListingRule,
    *,
    is_hidden: bool = False,
    status: PolicyStatus | None = None,
    score: int | None = None,
) -> dict[str, Any]:
    """Shape a skill as `list --json` prints it, with its listing mode, its policy status and its recorded score."""
    is_denied = status is not None and status.status == "denied" and entry.status == "active"
    shape = {
        "name": entry.name,
        "description": entry.description,
        "display_name": entry.skill.display_name,
        "layer": entry.layer,
        "source": entry.source,
        "reference": entry.reference,
        "location": entry.location,
        "digest": digest_of(entry),
        "status": "hidden" if is_hidden else "denied" if is_denied else entry.status,
        "trusted": entry.trusted,
        "stale": entry.is_stale,
        "hidden_from_models": not entry.is_broken
        and (entry.is_hidden_from_models or (status is not None and status.is_kept_from_models)),
        "listing": listing_shape(listing),
        "readiness": readiness_shape(entry.readiness(machine)),
        "version": entry.skill.version,
        "tags": list(entry.skill.tags),
        "score": score,
        "shadowed_by": entry.shadowed_by.location if entry.shadowed_by is not None else None,
        "diagnostics": [found.as_json() for found in entry.diagnostics],
    }
    return shape if status is None else shape | {"policy": status.as_json()}


def listing_shape(rule: ListingRule) -> dict[str, str | None]:
    """Shape the listing mode of a skill, with the file that sets it."""
    return {"mode": rule.mode, "set_by": None if rule.origin is None else str(rule.origin)}


def readiness_shape(state: Readiness) -> dict[str, Any]:
    """Shape the readiness of a skill, with the requirements that are missing."""
    return {
        "ready": state.is_ready,
        "missing": {kind: list(names) for kind, names in state.missing.items()},
        "unknown": {kind: list(names) for kind, names in state.unknown.items()},
    }


def digest_of(entry: Entry) -> str | None:
    """Return the package's digest; None for a package that cannot be read as a whole."""
    try:
        return entry.package.digest()
    except (MetierError, OSError):
        return None


def outcome_shape(outcome: Outcome) -> dict[str, Any]:
    """Shape the outcome of a script or a command, as `run --json` prints it."""
    return {
        "exit_code": outcome.exit_code,
        "stdout": outcome.stdout,
        "stderr": outcome.stderr,
        "truncated": outcome.is_truncated,
        "timed_out": outcome.timed_out,
        "killed_by": outcome.killed_by,
        "runner": outcome.runner,
        "duration_ms": round(outcome.duration_ms, 3),
        "usage": {"cpu_ms": round(outcome.usage.cpu_ms, 3), "memory_bytes": outcome.usage.memory_bytes},
        "notes": list(outcome.notes),
    }


def event_shape(event: Event) -> dict[str, Any]:
    """Shape an event of an agent's run, as `ask --json` prints it."""
    told = {"skill": event.skill, "tool": event.tool, "code": event.code, "data": dict(event.data)}
    return {"kind": event.kind, "at": event.at, "message": event.message} | {k: v for k, v in told.items() if v}


def error_shape(error: MetierError) -> dict[str, Any]:
    """Shape an error for a program."""
    return {"error": {"code": error.code, "message": error.message, "hint": for_person(error.hint)}}
