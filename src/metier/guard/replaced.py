"""Replacing what is on record: said before it is done, so that whoever is killed meanwhile is not taken for a tamperer.

The files of a skill and the store cannot change in one step. Before the files do, the trail says which content takes
the place of which. Where the record of what belongs there was not written any more, that is what vouches for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metier.store import Install, Scope

REPLACING = "skill.replacing"
"""The type of the records that say so: allowed when it begins, denied when it came to nothing."""
_MOST = 50


def announced(scope: Scope, install: Install, digest: str) -> dict[str, Any] | None:
    """The record that says of a content that it takes the place of the one that belongs there, if that still holds."""
    for record in scope.audit.search(type=REPLACING, digest=install.digest, limit=_MOST):
        if record.get("path") == install.location:
            holds = record.get("decision") == "allow" and since(install) in record.get("notes", ())
            return record if holds and record.get("new_digest") == digest else None
    return None


def since(install: Install) -> str:
    """A note that ties a record to this one time that a content was put in a place: it may be there again later."""
    return f"in place since {install.at}"
