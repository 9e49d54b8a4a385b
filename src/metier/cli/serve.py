"""`metier serve`: the server of a company."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
from argparse import Namespace
from typing import TYPE_CHECKING

from metier._extras import optional
from metier._otel_setup import configure_from_environment
from metier.cli.identity import first_administrator, open_store, system_user
from metier.cli.mcp import log_to_stderr, serve_until_signal
from metier.cli.output import Style, print_json
from metier.cli.parser import Parser

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from metier.serve.api.demo_data import DemoPerson
    from metier.store import Store


def add(parser: Parser) -> None:
    parser.example("metier serve --port 8400")
    parser.option("--port", "N", "the port to listen on; 0 is any that is free (default: 8400)", type=int)
    parser.option("--host", "ADDRESS", "the address to listen on (default: 127.0.0.1)")
    parser.option("--config", "FILE", "settings in YAML: sign-in, limits, the public address")
    parser.flag("--demo", "serve a store of its own with people, skills and records to look at, which ends with it")
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
    with _open_demo() if options.demo else open_store() as store:
        people = _fill(store) if options.demo else []
        secret = "" if store.has_people else _introduce(store)
        public = str(settings.public_url or "").rstrip("/")
        serve_until_signal(
            lambda: serve(store, settings, on_ready=lambda url: _print_ready(options, public or url, secret, people))
        )


@contextlib.contextmanager
def _open_demo() -> Iterator[Store]:
    """Open a store in a folder of its own, which also has its keys, and is removed afterwards."""
    from metier.store import Store

    with tempfile.TemporaryDirectory(prefix="metier-demo-") as folder:
        own = {"METIER_DATA": folder, "METIER_CONFIG": os.path.join(folder, "config"), "METIER_AUDIT": None}
        before = {name: os.environ.get(name) for name in own}
        _set_variables(own)
        try:
            with Store.open(f"sqlite:///{folder}/metier.db") as store:
                yield store
        finally:
            _set_variables(before)


def _set_variables(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _fill(store: Store) -> list[DemoPerson]:
    from metier.serve.api.demo_data import fill

    return fill(store, system_user())


def _introduce(store: Store) -> str:
    """Make the user the admin of a store that knows nobody; returns their token."""
    from metier.guard.approvals.people import add_person, make_token

    scope, person = store.of(), first_administrator(store)
    admin = add_person(scope, person, person.name, ["admin"])
    return make_token(scope, admin, admin.name, label="first admin")[1]


def _print_ready(options: Namespace, url: str, secret: str, people: Sequence[DemoPerson]) -> None:
    if options.json:
        demo = [{"name": one.name, "role": one.role, "token": one.token} for one in people]
        print_json({"url": url, "token": secret or None} | ({"people": demo} if people else {}))
        sys.stdout.flush()
        return
    style = Style(sys.stdout)
    print(f"{style.good('✓')} Métier serves {url}")
    if secret:
        print(f"Your token as its first admin, shown this once: {secret}")
    for one in people:
        print(f"  {one.role:<8}  {one.name:<5}  {one.token}")
    if people:
        print(style.dim(f'Try: curl -H "Authorization: Bearer TOKEN" {url}/api/v1/skills'))
        print(style.dim("All of it is gone when this ends. Ctrl-C stops it."))
    else:
        print(style.dim(f"`metier login {url}` makes a machine one of its nodes. Ctrl-C stops it."))
    sys.stdout.flush()
