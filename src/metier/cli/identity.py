"""The person who gives a command: the owner of a token, or the user of the operating system."""

from __future__ import annotations

import contextlib
import os
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

import metier.store
from metier.errors import NotPermitted, PersonNotFound
from metier.skill.untrusted_text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.guard import Actor
    from metier.store import Person, Store, TenantScope

TOKEN = "METIER_API_TOKEN"


def store_url() -> str:
    """Return the address of the store: an administrator's policy names it, else variables do."""
    from metier.guard.governance import Governance

    return Governance.default().url or metier.store.default_store()


def open_store(*, create: bool = True) -> Store:
    """Open the store. It is not made anew where one was: that would release skills from quarantine."""
    from metier.guard.open_stores import persist_decisions

    store = peek_store()
    return store if store is not None else persist_decisions(metier.store.Store.open(store_url(), create=create))


def peek_store() -> Store | None:
    """Open the store, or return None where there was none yet."""
    from metier.guard.open_stores import persist_decisions, require_store

    url = store_url()
    store = metier.store.Store.peek(url)
    if store is None:
        require_store(url)
        return None
    return persist_decisions(store)


def has_store() -> bool:
    """Tell whether there is a store: to look at what it may hold is no reason to make one."""
    store = peek_store()
    if store is not None:
        store.close()
    return store is not None


def who(scope: TenantScope, *, introduces: bool = False) -> Person:
    """Return the person who gives a command, with their roles.

    With `METIER_API_TOKEN` it is the owner of the token, never anybody else. Without, the user of the system: until
    somebody is added to the store it is its owner's, who may do everything; from then on, only who was added counts. A
    tenant that has nobody of its own is decided for by those who were added without one. They also `introduce` the
    people of a tenant, none of whom has done anything yet.
    """
    from metier.guard.approvals.people import deciding_scope, introducer, known_person

    secret = _secret()
    installation = scope.store.of().people
    if secret:
        own = deciding_scope(scope).people.by_token(secret)
        return _by_token(own or (introducer(scope, installation.by_token(secret)) if introduces else None))
    name = system_user()
    found = known_person(scope, name) or (introducer(scope, installation.get(name)) if introduces else None)
    if found is None:
        raise NotPermitted(
            f"{shown(name)!r} is not known to this store.",
            hint=f"Set {TOKEN} to a token of yours, or ask an admin for `metier user add {shown(name)} --role viewer`.",
            person=name,
        )
    return found


def user_name() -> str:
    """Return the name of the user for requests and records, known to the store or not."""
    secret = _secret()
    if not secret:
        return system_user()
    return _by_token(_owner_of(secret)[1]).name


def user_actor() -> Actor:
    """Return the user as the actor of records that are no decisions of a person."""
    from metier.guard import Actor

    return Actor(user=user_name(), tenant=token_tenant())


@contextlib.contextmanager
def acting(
    options: Namespace, *, decides: bool = False, create: bool = True, introduces: bool = False
) -> Iterator[tuple[TenantScope, Person]]:
    """Open the store for the tenant of the person who gives a command, and yield both.

    A command that `decides` about skills or people is for people: a user without a token must be at a terminal. The
    store is made where there is none, unless not to `create` it is asked for. One that `introduces` somebody is for
    admins of the installation too, where a tenant's people are known by nothing yet.
    """
    from metier.guard.open_stores import remember

    with open_store(create=create) as store:
        tenant: str | None = options.tenant
        secret = _secret()
        scope = store.of(tenant or "")
        if secret:
            found = store.by_token(secret)
            if found is not None and tenant is None:
                scope = found[0]
            elif found is not None and found[0].tenant not in _tenants_deciding(scope, introduces=introduces):
                raise NotPermitted(
                    f"The token in {TOKEN} is not one of the tenant {shown(str(tenant))!r}.",
                    hint="Leave out --tenant, or use a token of that tenant.",
                )
        person = who(scope, introduces=introduces)
        if decides and not secret and not _is_first_administrator(options, store):
            from metier.guard.approvals.roles import recording_refusals

            with recording_refusals(scope, person, "person", notes=(_command_line(options),)):
                _require_terminal(store, options)
        yield scope, person
        if decides:
            remember(store.url)


@contextlib.contextmanager
def looking(options: Namespace) -> Iterator[tuple[TenantScope, Person]]:
    """Open the store and its user to look only; where there is no store yet, a temporary one stands for it."""
    if has_store():
        with acting(options, create=False) as found:
            yield found
        return
    import tempfile

    with tempfile.TemporaryDirectory() as folder, metier.store.Store.open(f"sqlite:///{folder}/metier.db") as empty:
        scope = empty.of(options.tenant or "")
        yield scope, who(scope)


def _tenants_deciding(scope: TenantScope, *, introduces: bool) -> set[str]:
    """List the tenants whose people may give a command for a tenant; the empty name is the whole installation."""
    from metier.guard.approvals.people import deciding_scope, may_be_introduced

    return {deciding_scope(scope).tenant, *([""] if introduces and may_be_introduced(scope) else [])}


def _is_first_administrator(options: Namespace, store: Store) -> bool:
    """Tell whether a script sets up a store that knows nobody: its user becomes admin, and gets the token.

    Where an administrator's policy is in force that takes somebody who could write this policy: they decide already
    what has to be approved by whom. A shell that a model has as an ordinary user cannot.
    """
    asks = (options.command, getattr(options, "verb", None)) == ("user", "add") and options.token
    return bool(asks and not options.tenant and options.name == system_user() and _may_be_first_administrator(store))


def first_administrator(store: Store) -> Person:
    """Return the user as the first admin of a store that knows nobody; raises `NotPermitted` where they may not be."""
    from metier.store import Person

    if not _may_be_first_administrator(store):
        raise NotPermitted(
            "This store knows nobody yet, and an administrator's policy is in force here.",
            hint="Let somebody who can write that policy run `metier user add NAME --role admin` first.",
        )
    return Person(name=system_user(), roles=frozenset({"admin"}))


def _may_be_first_administrator(store: Store) -> bool:
    """Tell whether nobody was added yet, and the user of the system may write the policies of administrators."""
    from metier.guard.governance import Governance

    if store.has_people:
        return False
    files = [one.path for one in Governance.default().effective.files if one.layer == "enterprise"]
    return all(os.access(path, os.W_OK) for path in files)


def require_person() -> None:
    """Raise `NotPermitted` unless a person decides, at a terminal or known by a token, where no tenant is concerned."""
    secret = _secret()
    if not secret:
        with peek_store() or contextlib.nullcontext() as store:
            _require_terminal(store)
        return
    person = _by_token(_owner_of(secret)[1])
    if person.kind == "agent":
        raise NotPermitted(
            f"{shown(person.name)!r} is an agent, and this is for people to decide.", hint="Ask the user to do it."
        )


def may_decide(store: Store) -> bool:
    """Tell whether a consent that is given with this command is a person's decision."""
    try:
        if not _secret():
            _require_terminal(store)
    except NotPermitted:
        return False
    return True


def _require_terminal(store: Store | None, options: Namespace | None = None) -> None:
    """Raise `NotPermitted` unless somebody types this: a shell that a model has is no terminal.

    Where nobody was added to the store, and no administrator's policy is in force, scripts of its owner may decide too.
    """
    from metier.guard.governance import Governance

    if is_at_terminal():
        return
    if (store is not None and store.has_people) or Governance.default().insists_on_records:
        hint = f"Do it at a terminal, or set {TOKEN} to a token of yours; `metier user token` makes one there."
        sets_up = options is not None and _command_line(options) == "metier user add"
        if sets_up and store is not None and _may_be_first_administrator(store):
            first = f"{TOKEN}=$(metier user add {shown(system_user())} --role admin --token)"
            hint = f"Do it at a terminal, or set up this store, which knows nobody yet: `{first}`."
        raise NotPermitted("This is for people to decide, and nobody is at a terminal here.", hint=hint)


def person_token(url: str, *, may_type: bool = False) -> str:
    """Return the token of the user at a server; raises `NotPermitted` where none is set, and nobody may type one."""
    secret = os.environ.get(TOKEN, "")
    if secret or (may_type and is_at_terminal()):
        return secret
    nobody = ", and nobody is at a terminal" if may_type else ""
    raise NotPermitted(
        f"No token says who you are at {url}{nobody}.",
        hint=f"Set {TOKEN} to a token of yours there; an admin makes it by `metier user token`.",
    )


def is_at_terminal() -> bool:
    """Tell whether the input is typed. That there is a terminal is not enough: the processes of a model have it too."""
    try:
        return sys.stdin.isatty()
    except (AttributeError, ValueError):
        return False  # it was closed


def _command_line(options: Namespace) -> str:
    return " ".join(filter(None, ("metier", options.command, getattr(options, "verb", None))))


def _secret() -> str | None:
    """Return the token of the user; an empty one is an error, as one was meant to be there."""
    secret = os.environ.get(TOKEN)
    if secret == "":
        raise PersonNotFound(
            f"{TOKEN} is empty.", hint="Whatever was to make the token failed. Unset the variable to act as yourself."
        )
    return secret


def token_tenant() -> str | None:
    """Return the tenant of the user's token; None without a token, or where it has none."""
    secret = _secret()
    return _owner_of(secret)[0] or None if secret else None


def _owner_of(secret: str) -> tuple[str, Person | None]:
    """Return the tenant and the person that a token is for; nobody where there is no store, or none who has it."""
    store = peek_store()
    if store is None:
        return "", None
    with store:
        found = store.by_token(secret)
    return ("", None) if found is None else (found[0].tenant, found[1])


def system_user() -> str:
    """Return the user of the operating system, whatever variables say."""
    from metier.guard.guard import current_user

    return current_user() or "nobody"


def _by_token(person: Person | None) -> Person:
    if person is None:
        raise PersonNotFound(
            f"The token in {TOKEN} is not valid here.",
            hint="It may have run out or been revoked; `metier user token` makes another. Unset it to act as yourself.",
        )
    return person
