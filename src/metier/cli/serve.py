"""`metier serve`: the server of a company."""

from __future__ import annotations

import logging
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from metier._extras import optional
from metier._otel_setup import configure_from_environment
from metier.cli.identity import first_administrator, open_store
from metier.cli.mcp import log_to_stderr, serve_until_signal
from metier.cli.output import Style, print_json
from metier.cli.parser import Parser

if TYPE_CHECKING:
    from metier.store import Store


def add(parser: Parser) -> None:
    parser.example("metier serve --port 8400")
    parser.option("--port", "N", "the port to listen on; 0 is any that is free (default: 8400)", type=int)
    parser.option("--host", "ADDRESS", "the address to listen on (default: 127.0.0.1)")
    parser.option("--config", "FILE", "settings in YAML: sign-in, limits, the public address")
    parser.json()


def run(options: Namespace) -> None:
    with optional("Servers for a company", "fastapi", extra="server"):
        from metier.serve.api.run import serve
        from metier.serve.api.settings import read_settings
    settings = read_settings(options.config, port=options.port, host=options.host)
    log_to_stderr()
    if settings.access_log:
        logging.getLogger("metier.serve.access").setLevel(logging.INFO)
    configure_from_environment()
    with open_store() as store:
        secret = "" if store.has_people else _introduce(store)
        public = str(settings.public_url or "").rstrip("/")
        serve_until_signal(
            lambda: serve(store, settings, on_ready=lambda url: _print_ready(options, public or url, secret))
        )


def _introduce(store: Store) -> str:
    """Make the user the admin of a store that knows nobody; returns their token."""
    from metier.guard.approvals.people import add_person, make_token

    scope, person = store.of(), first_administrator(store)
    admin = add_person(scope, person, person.name, ["admin"])
    return make_token(scope, admin, admin.name, label="first admin")[1]


def _print_ready(options: Namespace, url: str, secret: str) -> None:
    if options.json:
        print_json({"url": url, "token": secret or None})
    else:
        style = Style(sys.stdout)
        print(f"{style.good('✓')} Métier serves {url}")
        if secret:
            print(f"Your token as its first admin, shown this once: {secret}")
        print(style.dim(f"`metier login {url}` makes a machine one of its nodes. Ctrl-C stops it."))
    sys.stdout.flush()
