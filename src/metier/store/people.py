"""People and programs that may decide: their roles, and the tokens by which they are known."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from metier.errors import PersonNotFound
from metier.store.codec import as_json, checked_choice, checked_key, new_id, now, unpacked

if TYPE_CHECKING:
    from metier.store.rows import Rows

PersonKind: TypeAlias = Literal["user", "agent", "service"]
_KINDS = ("user", "agent", "service")
ROLES = ("viewer", "author", "reviewer", "admin")
PREFIX = "mtr_"
"""What every token begins with, so that one that leaked is found by those who look for secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody who is known, and what they may do."""

    name: str
    kind: PersonKind = "user"
    roles: frozenset[str] = field(default_factory=frozenset)
    """Of `viewer`, `author`, `reviewer` and `admin`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token of somebody, without the secret: that is shown once, and only its hash is kept."""

    id: str
    person: str
    label: str = ""
    created_at: str = ""
    expires_at: str = ""
    """"" for never."""
    revoked_at: str = ""


class People:
    """The people of a tenant."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def add(self, person: Person) -> Person:
        """Add somebody, or give somebody who is there other roles."""
        checked_key("name", person.name)
        checked_choice("kind of person", person.kind, _KINDS)
        for role in person.roles:
            checked_choice("role", role, ROLES)
        row = {"name": person.name, "kind": person.kind, "roles": as_json(person.roles), "added_at": now()}
        self._rows.insert("people", row, "replace")
        return person

    def get(self, name: str) -> Person | None:
        """Somebody by their name."""
        found = self._rows.select("people", {"name": name})
        return unpacked(Person, found[0], {"roles": frozenset}) if found else None

    def all(self) -> list[Person]:
        """Everybody, by name."""
        return [unpacked(Person, row, {"roles": frozenset}) for row in self._rows.select("people", order=("name",))]

    def remove(self, name: str) -> bool:
        """Remove somebody and all of their tokens; False when nobody has that name."""
        with self._rows.transaction():
            self._rows.delete("tokens", {"person": name})
            return self._rows.delete("people", {"name": name}) > 0

    @property
    def is_empty(self) -> bool:
        """Whether nobody was added yet."""
        return not self._rows.statement("SELECT name FROM people WHERE tenant = ? LIMIT 1")

    def new_token(self, name: str, *, label: str = "", expires_at: str = "") -> tuple[Token, str]:
        """A token for somebody, and its secret, which nobody can show again."""
        secret = PREFIX + secrets.token_urlsafe(32)
        token = Token(id=new_id("t"), person=name, label=label, created_at=now(), expires_at=expires_at)
        with self._rows.transaction():
            if self.get(name) is None:
                raise PersonNotFound(f"Nobody is called {name!r} here.", hint="`metier user list` shows who is known.")
            values = {name: getattr(token, name) for name in Token.__dataclass_fields__}
            self._rows.insert("tokens", {**values, "secret_hash": secret_hash(secret)})
        return token, secret

    def by_token(self, secret: str) -> Person | None:
        """Whose secret it is; None for one that is unknown, has expired or was revoked."""
        hashed = secret_hash(secret)
        found = self._rows.select("tokens", {"secret_hash": hashed})
        if not found or not hmac.compare_digest(found[0]["secret_hash"], hashed):
            return None
        token = unpacked(Token, found[0], {})
        if token.revoked_at or (token.expires_at and token.expires_at <= now()):
            return None
        return self.get(token.person)

    def tokens(self) -> list[Token]:
        """All tokens, the oldest first."""
        return [unpacked(Token, row, {}) for row in self._rows.select("tokens", order=("created_at", "id"))]

    def revoke_token(self, id: str) -> bool:  # noqa: A002
        """Accept a token no longer; False when there is none of this id that counts."""
        return self._rows.update("tokens", {"revoked_at": now()}, {"id": id, "revoked_at": ""}) > 0


def secret_hash(secret: str) -> str:
    """What is kept of a secret: as random as it is long, it needs no slower hash."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()
