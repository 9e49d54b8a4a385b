"""People and programs that may decide: their roles and access tokens."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from metier._lazy import dataclass, field, fields, replace
from metier.errors import PersonNotFound
from metier.hints import for_people
from metier.store.audit_log import AuditTable
from metier.store.rows import Table, TenantRows, new_id, now, require_choice, require_key, tenant_of_token, terms_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.store.state import DecisionReader, RecordedDecisions

PersonKind: TypeAlias = Literal["user", "agent", "service", "node"]
_MAX_LINEAGE = 100
"""The longest chain of parents."""
ROLES = ("viewer", "author", "reviewer", "admin")
PREFIX = "mtr_"
"""The prefix of every token, by which scanners for secrets find a leaked one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A known person or program, and its roles."""

    name: str
    kind: PersonKind = "user"
    roles: frozenset[str] = field(default_factory=frozenset)
    """Of `viewer`, `author`, `reviewer` and `admin`."""
    token: str = field(default="", compare=False)
    """The hash of the token that authenticated them; "" for none."""

    @property
    def title(self) -> str:
        """Kind, name and roles as records have them: `user ada: admin`."""
        return f"{self.kind} {self.name}: {', '.join(sorted(self.roles))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessToken:
    """A token of a person, without the secret: that is shown once, and only its hash is kept."""

    id: str
    person: str
    label: str = ""
    parent: str = ""
    """The hash of the token that it was made with: it counts as long as that does; "" for none."""
    created_at: str = ""
    expires_at: str = ""
    """"" for never."""
    revoked_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredToken(AccessToken):
    """A token with the hash of its secret."""

    secret_hash: str

    @property
    def terms(self) -> str:
        """The digest of all that the record of a token vouches for."""
        return terms_of(self.id, self.person, self.label, self.secret_hash, self.parent, self.expires_at)

    @property
    def token(self) -> AccessToken:
        """The token alone."""
        return AccessToken(**{field.name: getattr(self, field.name) for field in fields(AccessToken)})


_PEOPLE = Table(
    name="people", record=Person, order=("name",), only=("name", "kind", "roles"), json={"roles": frozenset}
)
_TOKENS = Table(name="tokens", record=_StoredToken, order=("created_at", "number", "id"))


class People:
    """The people of a tenant: those with a record in the audit log; a row without one is void."""

    def __init__(self, rows: TenantRows, reader: DecisionReader) -> None:
        self._rows = rows
        self._reader = reader
        self._log = AuditTable(rows)

    def add(self, person: Person, record: Mapping[str, Any] | None = None) -> Person:
        """Add a person, or change the roles of one; `record` has further fields of the audit record."""
        require_key("name", person.name)
        require_choice("kind of person", person.kind, get_args(PersonKind))
        for role in person.roles:
            require_choice("role", role, ROLES)
        with self._rows.transaction():
            self._rows.replace(_PEOPLE, person, key=("name",), added_at=now())
            self._log.append(_record("person.added", person.title, record))
        return person

    def get(self, name: str) -> Person | None:
        """Return a person by name."""
        return next(iter(self._confirmed(name=name)), None)

    def all(self) -> list[Person]:
        """Return all people, by name."""
        return self._confirmed()

    def _decisions(self) -> RecordedDecisions:
        return self._reader.read(self._rows)

    def _confirmed(self, **where: str) -> list[Person]:
        with self._rows.snapshot():
            titles = self._decisions().people
            stored = self._rows.select(_PEOPLE, **where)
        return [one for one in stored if titles.get(one.name) == one.title]

    def remove(self, name: str, record: Mapping[str, Any] | None = None) -> bool:
        """Remove a person and all of their tokens; False when nobody has that name."""
        with self._rows.transaction():
            person = self.get(name)
            self._rows.delete(_TOKENS, person=name)
            was_there = self._rows.delete(_PEOPLE, name=name)
            if name in self._decisions().people:
                self._log.append(record_of_removal(name, record, person.kind if person is not None else "user"))
            return was_there

    @property
    def is_empty(self) -> bool:
        """Whether no person was added yet."""
        return (
            not self._rows.statement("SELECT name FROM people WHERE tenant = ? LIMIT 1")
            and not self._decisions().people
        )

    def new_token(
        self,
        name: str,
        *,
        label: str = "",
        expires_at: str = "",
        parent: str = "",
        record: Mapping[str, Any] | None = None,
    ) -> tuple[AccessToken, str]:
        """Return a new token for a person, and its secret, which nobody can show again.

        With a `parent`, the hash of another token, it is valid as long as that one is.
        """
        import secrets

        secret = PREFIX + secrets.token_urlsafe(32)
        with self._rows.transaction():
            if self.get(name) is None:
                raise PersonNotFound(
                    f"Nobody is called {name!r} here.", hint=for_people("`metier user list` shows who is known.")
                )
            if parent:
                ends = self._expiry(parent)
                expires_at = min(filter(None, (expires_at, ends)), default="")
            made = _StoredToken(
                id=new_id("t"),
                person=name,
                label=label,
                parent=parent,
                created_at=now(),
                expires_at=expires_at,
                secret_hash=secret_hash(secret),
            )
            self._rows.append(_TOKENS, made)
            self.record_token(made.id, record)
        return made.token, secret

    def record_token(self, id: str, record: Mapping[str, Any] | None = None) -> None:  # noqa: A002
        """Write the record without which a token is void."""
        (token,) = self._rows.select(_TOKENS, id=id)
        self._log.append({**_record("token.made", f"{id} of {token.person}", record), "terms": token.terms})

    def by_token(self, secret: str) -> Person | None:
        """Return the person of a secret; None for one that is unknown, has expired or was revoked."""
        hashed = secret_hash(secret)
        try:
            self._expiry(hashed)
        except PersonNotFound:
            return None
        token = self._rows.first(_TOKENS, secret_hash=hashed)
        person = self.get(token.person) if token is not None else None
        return replace(person, token=hashed) if person is not None else None

    def _expiry(self, hashed: str) -> str:
        """Return the time when a token or one of its parents expires, "" for never; raises `PersonNotFound` if void.

        The parent of a token may belong to another tenant.
        """
        ends: list[str] = []
        for _ in range(_MAX_LINEAGE):
            tenant = tenant_of_token(self._rows.pool, hashed)
            rows = TenantRows(self._rows.pool, tenant) if tenant is not None else self._rows
            token = rows.first(_TOKENS, secret_hash=hashed)
            if token is None or not hmac.compare_digest(token.secret_hash, hashed):
                break
            is_over = token.revoked_at or (token.expires_at and token.expires_at <= now())
            if is_over or self._reader.read(rows).tokens.get(token.id) != token.terms:
                break
            ends += filter(None, (token.expires_at,))
            if not token.parent:
                return min(ends, default="")
            hashed = token.parent
        raise PersonNotFound(
            "The token counts no longer.", hint=for_people("`metier user tokens` shows those that do.")
        )

    def token_of(self, person: Person) -> AccessToken | None:
        """Return the token that authenticated a person; None where none did."""
        found = self._rows.first(_TOKENS, secret_hash=person.token) if person.token else None
        return found.token if found is not None else None

    def tokens(self) -> list[AccessToken]:
        """Return all tokens, the oldest first."""
        return [one.token for one in self._stored_tokens()]

    def _stored_tokens(self) -> list[_StoredToken]:
        with self._rows.snapshot():
            terms = self._decisions().tokens
            stored = self._rows.select(_TOKENS)
        return [one for one in stored if one.revoked_at or terms.get(one.id) == one.terms]

    def revoke_token(self, id: str, record: Mapping[str, Any] | None = None) -> list[AccessToken]:  # noqa: A002
        """Revoke a token and those that were made with it; returns those that were valid until now."""
        with self._rows.transaction():
            counting = [one for one in self._stored_tokens() if not one.revoked_at]
            found = [one for one in counting if one.id == id]
            for one in found:  # which grows
                found += [other for other in counting if other.parent == one.secret_hash and other not in found]
            for one in found:
                self._rows.update(_TOKENS, {"revoked_at": now()}, id=one.id)
                self._log.append(_record("token.revoked", f"{one.id} of {one.person}", record))
        return [one.token for one in found]


def record_of_removal(name: str, more: Mapping[str, Any] | None, kind: str = "user") -> dict[str, Any]:
    """Return the record of the removal of a person."""
    return _record("person.removed", f"{kind} {name}", more)


def _record(type: str, reason: str, more: Mapping[str, Any] | None) -> dict[str, Any]:  # noqa: A002
    content = {"timestamp": now(), "event": type.partition(".")[0], "type": type, "decision": "allow"}
    return {**content, **(more or {}), "reason": reason}


def secret_hash(secret: str) -> str:
    """Return the hash of a secret: as random as it is long, it needs no slower one."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()
