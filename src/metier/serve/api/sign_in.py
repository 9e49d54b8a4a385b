"""Sign-in of people whom an OpenID provider knows: their person, role and tenant, and the token that they get."""

from __future__ import annotations

import base64
import json
import secrets
import time
from collections.abc import Mapping
from typing import Any

from metier._json_object import value_at
from metier._lazy import asdict, dataclass
from metier.guard.approvals.people import add_person, make_token, revoke_token
from metier.guard.approvals.status import timestamp
from metier.guard.audit.checkpoints import signing_key_file
from metier.guard.audit.governance_events import actor_of, record_event
from metier.guard.audit.keys import SigningKey
from metier.serve.api.browser_session import SESSION_SECONDS
from metier.serve.api.context import ServerContext
from metier.serve.api.oidc import SKEW_SECONDS, OidcProvider, refused
from metier.serve.api.problems import ProblemError
from metier.serve.api.settings import OidcSettings, RoleMapping
from metier.skill import shown
from metier.store import AccessToken, Person, Store, TenantScope

ATTEMPT_SECONDS = 600
"""The time that a person has at the provider."""
_LABELS = ("browser", "command line")
_METIER = Person(name="metier", kind="service", roles=frozenset({"admin"}))
"""The name in records for the settings of the server, by which people are added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A sign-in that a browser began, as its cookie has it, encrypted."""

    state: str
    nonce: str
    verifier: str
    redirect_uri: str
    return_to: str

    @classmethod
    def begin(cls, redirect_uri: str, return_to: str) -> Attempt:
        """A new attempt, with secrets of its own."""
        state, nonce, verifier = (secrets.token_urlsafe(48) for _ in range(3))
        return cls(state=state, nonce=nonce, verifier=verifier, redirect_uri=redirect_uri, return_to=return_to)

    def seal(self, context: ServerContext) -> str:
        """The value of the cookie."""
        sealed: bytes = _cipher(context).encrypt(json.dumps(asdict(self)).encode())
        return sealed.decode()

    @classmethod
    def unseal(cls, cookie: str, context: ServerContext) -> Attempt | None:
        """The attempt in a cookie; None for one that is not ours, or too old."""
        from cryptography.fernet import InvalidToken

        try:
            return cls(**json.loads(_cipher(context).decrypt(cookie.encode(), ttl=ATTEMPT_SECONDS)))
        except (InvalidToken, ValueError, TypeError):
            return None


def _cipher(context: ServerContext) -> Any:
    """The cipher of cookies: its key follows from the key of the server, which all of its processes have."""
    from cryptography.fernet import Fernet

    key = SigningKey.of(signing_key_file(context.governance("").effective))
    return Fernet(base64.urlsafe_b64encode(key.derive("sign-in cookie")))


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedIn:
    """A person who has signed in, and their new token."""

    scope: TenantScope
    person: Person
    token: AccessToken
    secret: str


def admit(store: Store, provider: OidcProvider, claims: Mapping[str, Any], *, label: str) -> SignedIn:
    """Let a person in whom the provider vouches for, in the role and the tenant that their claims mean now."""
    settings = provider.settings
    name = _name(settings, claims)
    mapping = next((one for one in settings.roles if _fits(one, claims)), None)
    _end_elsewhere(store, settings, name, mapping)
    notes = (f"signed in as {shown(str(claims['sub']), 100)} at {shown(str(claims['iss']), 200)}",)
    if mapping is None:
        raise _recorded(store.of(), f"none of the groups of {shown(name)} has a role here", notes)
    scope = store.of(mapping.tenant)
    # Not one transaction: the record of a refusal has to outlast it.
    person = scope.people.get(name)
    if person is not None and person.kind != "user":
        raise _recorded(scope, f"{shown(name)} is the name of a program", notes)
    if person is None or person.roles != {mapping.role}:
        person = add_person(scope, _METIER, name, [mapping.role], notes=notes)
    token, secret = make_token(scope, _METIER, name, label=label, expires=SESSION_SECONDS)
    return SignedIn(scope=scope, person=person, token=token, secret=secret)


def spend(store: Store, id_token: str, claims: Mapping[str, Any]) -> None:
    """Refuse an ID token that was used before, or that is old.

    Its signature may be written in several ways, what is signed in one.
    """
    now = time.time()
    if claims["iat"] < now - ATTEMPT_SECONDS - SKEW_SECONDS:
        raise refused("that ID token is too old")
    until = timestamp(now + ATTEMPT_SECONDS + 3 * SKEW_SECONDS)
    if not store.of().used_once.take(id_token.rpartition(".")[0], expires_at=until):
        raise refused("that ID token was used already")


def end_session(scope: TenantScope, person: Person) -> None:
    """Revoke the token by which somebody is known."""
    token = scope.people.token_of(person)
    if token is not None and not token.revoked_at:
        revoke_token(scope, person, token.id)


def _recorded(scope: TenantScope, why: str, notes: tuple[str, ...]) -> ProblemError:
    """The problem of somebody whom the provider knows and who may not sign in, once that is on record."""
    record_event(scope, "person.refused", actor_of(_METIER, scope), reason=f"Not signed in: {why}.", notes=notes)
    return refused(why)


def _name(settings: OidcSettings, claims: Mapping[str, Any]) -> str:
    name = claims.get(settings.name_claim)
    if not isinstance(name, str) or not name:
        raise refused(f"the provider gives no claim {settings.name_claim!r}")
    # Whoever can write any address into their account would be anybody.
    if settings.name_claim == "email" and claims.get("email_verified") in (False, "false"):
        raise refused("the provider has not verified your address")
    return name


def _fits(mapping: RoleMapping, claims: Mapping[str, Any]) -> bool:
    """Whether a claim has the value; `realm_access.roles` is also a claim in a claim."""
    found = claims.get(mapping.claim, value_at(claims, *mapping.claim.split(".")))
    return mapping.value in found if isinstance(found, list) else mapping.value == found


def _end_elsewhere(store: Store, settings: OidcSettings, name: str, mapping: RoleMapping | None) -> None:
    """Revoke what a person got by earlier sign-ins in tenants that their claims no longer give them."""
    for tenant in {one.tenant for one in settings.roles} - {mapping.tenant if mapping else None}:
        scope = store.of(tenant)
        for token in scope.people.tokens():
            if token.person == name and token.label in _LABELS and not token.revoked_at:
                revoke_token(scope, _METIER, token.id)
