"""`metier api`: one request to the API of a server, as the person whose token is set."""

from __future__ import annotations

import json
import sys
from argparse import Namespace

from metier.cli.identity import person_token
from metier.cli.output import print_json
from metier.cli.parser import Parser
from metier.errors import InvalidArgument

_MAX_BODY = 4 * 1024 * 1024
_METHODS = ("GET", "POST", "PUT", "DELETE")


def add(parser: Parser) -> None:
    parser.example('metier api POST requests/r-7f3k2m9q/grant --data \'{"reason": "Read it"}\'')
    parser.add_argument("method", choices=_METHODS, metavar="METHOD", help="GET, POST, PUT or DELETE")
    parser.add_argument("path", metavar="PATH", help="below /api/v1, such as `audit?limit=10`; or from / on")
    parser.option("--data", "JSON", "the body; `-` reads it from standard input")
    parser.option("--server", "URL", "the server (default: the one that this machine is a node of)")


def run(options: Namespace) -> None:
    from metier.guard.node.binding import require_binding
    from metier.guard.node.connection import ServerConnection

    url = options.server or require_binding().url
    path = options.path if options.path.startswith("/") else f"/api/v1/{options.path}"
    # A second line of a path would be a header, or another request.
    if not path.isascii() or not path.isprintable() or " " in path:
        raise InvalidArgument("The path has characters that no address has.", hint="Escape them: %20 is a space.")
    answer = ServerConnection(url, person_token(url)).request(options.method, path, _body(options.data))
    try:
        print_json(json.loads(answer.body)) if answer.body else None
    except ValueError:
        sys.stdout.write(answer.body.decode("utf-8", "replace"))


def _body(text: str | None) -> object:
    if text is None:
        return None
    if text == "-":
        text = sys.stdin.read(_MAX_BODY)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"The body is no JSON: {error}.", hint='Write it as \'{"reason": "Read it"}\'.') from None
