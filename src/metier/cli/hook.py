"""`metier hook`: the command of a client's hook where nothing faster is there."""

from __future__ import annotations

from argparse import Namespace

from metier.cli.parser import Parser


def add(parser: Parser) -> None:
    parser.example("metier hook claude-code < event.json")
    parser.add_argument("client", help="the client whose hook it is")


def run(options: Namespace) -> int:
    from metier.serve.client_hooks.direct import run_hook

    return run_hook(options.client)
