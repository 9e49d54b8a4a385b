"""`metier user`: people and their tokens."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from metier._lazy import asdict
from metier.cli.approve import seconds
from metier.cli.identity import TOKEN, acting, system_user
from metier.cli.output import Style, print_done, print_json, print_result, table
from metier.cli.parser import Parser
from metier.guard.approvals.people import token_state, visible_tokens
from metier.guard.approvals.status import timestamp
from metier.guard.remedies import tenant_option

if TYPE_CHECKING:
    from metier.store import AccessToken, Person, TenantScope


def add(parser: Parser) -> None:
    parser.example("metier user add ada --role reviewer")
    user = parser.verb(
        "add",
        "add somebody, or give them other roles; the first is you, as admin",
        "metier user add ada --role reviewer",
        _add,
    )
    user.option("name", "NAME", "as they are called on this system, or as their token says")
    user.option("--role", "ROLE", "viewer, author, reviewer or admin (repeatable)", action="append", required=True)
    user.option("--kind", None, "(default: user)", choices=("user", "agent", "service"), default="user")
    user.flag("--token", "make a token for them too, and print its secret alone")
    listed = parser.verb("list", "list who is known, and what they may do", "metier user list", _list)
    removed = parser.verb("remove", "remove somebody, and all of their tokens", "metier user remove ada", _remove)
    removed.add_argument("name", metavar="NAME")

    token = parser.verb(
        "token",
        "make a token, by which somebody is known; its secret is shown once",
        "metier user token ada --label laptop --expires 90d",
        _make_token,
    )
    token.option("name", "NAME", "for whom (default: for you)", nargs="?")
    token.option("--label", "TEXT", "what it is for", default="")
    token.option("--expires", "TIME", "for so long: 12h, 90d (default: until it is revoked)")
    tokens = parser.verb("tokens", "list all tokens, without their secrets", "metier user tokens", _tokens)
    revoked = parser.verb("revoke", "accept a token no longer", "metier user revoke t-3k9w6p2x", _revoke_token)
    revoked.option("id", "ID", "its id: t-...")
    for verb in (user, listed, removed, token, tokens, revoked):
        verb.tenant()
        verb.json()


def run(options: Namespace) -> None:
    decides = options.verb not in ("list", "tokens")
    with acting(options, decides=decides, introduces=options.verb == "token") as (scope, person):
        options.do(options, scope, person)


def _add(options: Namespace, scope: TenantScope, person: Person) -> None:
    from metier.guard.approvals.people import add_person, make_token

    added = add_person(scope, person, options.name, options.role, kind=options.kind)
    secret = make_token(scope, person, added.name)[1] if options.token else ""
    if options.json:
        print_json(_shape(added) | ({"secret": secret} if secret else {}))
        return
    if secret:
        # Alone on standard output: this is how a script that nobody watches sets up a store.
        print(secret)
        return
    print_done(f"{Style.text(added.name)} is {_roles(added)} now.")
    if added.name != system_user():
        command = f"metier user token {Style.text(added.name)}{tenant_option(scope.tenant)}"
        print(Style(sys.stdout).dim(f"`{command}` makes a token that they are known by."))


def _list(options: Namespace, scope: TenantScope, person: Person) -> None:
    from metier.guard.approvals.roles import require_role

    require_role(person, "viewer", "see who is known")
    people = scope.people.all()
    if options.json:
        print_json({"people": [_shape(one) for one in people], "you": _shape(person)})
        return
    if people:
        rows = [(one.name, one.kind, _roles(one)) for one in people]
        print(table(Style(sys.stdout), ("NAME", "KIND", "ROLES"), rows))
    elif scope.store.has_people:
        print("Nobody was added to this tenant: those who were added without one decide for it.")
    else:
        print(f"Nobody was added: the store is its owner's, {Style.text(person.name)}, who may do everything.")


def _remove(options: Namespace, scope: TenantScope, person: Person) -> None:
    from metier.guard.approvals.people import remove_person

    removed = remove_person(scope, person, options.name)
    print_result(options, _shape(removed), f"{Style.text(removed.name)} and their tokens are removed.")


def _make_token(options: Namespace, scope: TenantScope, person: Person) -> None:
    from metier.guard.approvals.people import make_token

    name = person.name if options.name is None else options.name
    token, secret = make_token(scope, person, name, label=options.label, expires=seconds(options.expires))
    if options.json:
        print_json({**_token_shape(token), "secret": secret})
        return
    until = f" until {token.expires_at}" if token.expires_at else ""
    # Alone on standard output: `export METIER_API_TOKEN=$(metier user token)`.
    print(secret)
    style = Style(sys.stderr)
    print(
        f"{style.good('✓')} {token.id} is a token of {Style.text(token.person)}{until}. It is shown this once; whoever "
        f"sets {TOKEN} to it acts as them.",
        file=sys.stderr,
    )


def _tokens(options: Namespace, scope: TenantScope, person: Person) -> None:
    tokens = visible_tokens(scope, person)
    if options.json:
        print_json({"tokens": [_token_shape(one) for one in tokens]})
        return
    if not tokens:
        print("There are no tokens.")
        return
    style = Style(sys.stdout)
    rows = [
        (
            *(one.id, one.person, token_state(one, timestamp(time.time())), style.when(one.created_at)),
            *(style.when(one.expires_at) if one.expires_at else "never", one.label),
        )
        for one in tokens
    ]
    print(table(style, ("TOKEN", "OF", "STATE", "MADE", "UNTIL", "LABEL"), rows, paint={2: style.outcome}))


def _revoke_token(options: Namespace, scope: TenantScope, person: Person) -> None:
    from metier.guard.approvals.people import revoke_token

    revoked, *made_with_it = revoke_token(scope, person, options.id)
    if options.json:
        also = [one.id for one in made_with_it]
        print_json(_token_shape(revoked) | {"state": "revoked", "made_with_it": also})
        return
    for one in (revoked, *made_with_it):
        print_done(f"{one.id} of {Style.text(one.person)} counts no longer.")


def _roles(person: Person) -> str:
    return ", ".join(sorted(person.roles)) or "without a role"


def _shape(person: Person) -> dict[str, Any]:
    return {"name": person.name, "kind": person.kind, "roles": sorted(person.roles)}


def _token_shape(token: AccessToken) -> dict[str, Any]:
    return {**asdict(token), "state": token_state(token, timestamp(time.time()))}
