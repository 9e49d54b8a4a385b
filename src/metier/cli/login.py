"""`metier login` and `metier logout`: make this machine a node of a server, or no node any more."""

from __future__ import annotations

import contextlib
import getpass
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from metier.cli.identity import TOKEN, person_token
from metier.cli.output import Style, plural, print_done, print_json
from metier.cli.parser import Parser
from metier.errors import MetierError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.hub.node.device_sign_in import DeviceCode


def add(parser: Parser) -> None:
    if parser.command == "login":
        parser.example("metier login https://skills.example.com")
        parser.option("url", "URL", "the address of the server")
        parser.option("--name", "NAME", "the name of this machine in the server's lists (default: its host name)")
    else:
        parser.example("metier logout")
    parser.json()


def run(options: Namespace) -> None:
    (_log_in if options.command == "login" else _log_out)(options)


def _log_in(options: Namespace) -> None:
    from metier.guard.node.connection import checked_url
    from metier.hub.node.content import bring_skills
    from metier.hub.node.enrolment import enrol

    url = checked_url(options.url)
    with _person_at(url) as secret:
        exchange = enrol(url, secret, options.name or "")
    binding, state = exchange.binding, exchange.state
    problems = bring_skills(exchange, again=True)
    if options.json:
        print_json({"server": binding.url, "node": binding.node, "name": binding.name, "tenant": binding.tenant})
        return
    deployed = plural(len(state.skills) if state is not None else 0, "skill")
    print_done(f"This machine is now the node {Style.text(binding.name)} of {Style.text(binding.url)}.")
    print(f"  Policy, approvals and quarantines come from there, and {deployed}. What happens here is recorded there.")
    for problem in problems:
        print(Style(sys.stdout).warn(f"  {Style.text(problem)}"))


@contextlib.contextmanager
def _person_at(url: str) -> Iterator[str]:
    """Get the token of a person at a server: given, typed, or by signing in, and then given back."""
    from metier.guard.node.connection import ServerConnection

    secret = person_token(url, may_type=True)
    if secret or "oidc" not in ServerConnection(url).request("GET", "/api/v1/sign-in").json.get("methods", ()):
        yield secret or getpass.getpass("Token of the server: ").strip()
        return
    from metier.hub.node.device_sign_in import sign_in, sign_out

    secret = sign_in(url, _show_code)
    try:
        yield secret
    finally:
        sign_out(url, secret)


def _show_code(code: DeviceCode) -> None:
    print(f"Open {Style.text(code.complete_url or code.url)} and confirm the code {Style.text(code.user_code)}.")


def _log_out(options: Namespace) -> None:
    from metier.guard.node.binding import require_binding
    from metier.hub.node.enrolment import leave

    url = "its server"
    try:
        url = require_binding().url
    except MetierError as error:
        if error.message.startswith("This machine is no node"):
            raise
    is_told = leave(person_token(url, may_type=True))
    if options.json:
        print_json({"server": url, "revoked": is_told})
        return
    print_done(f"This machine is no node of {Style.text(url)} any more.")
    if not is_told:
        print(f"  The server still lists it: an admin revokes it there, or `metier logout` with {TOKEN} does.")
