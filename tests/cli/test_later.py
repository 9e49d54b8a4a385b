"""Options of a command that are made when it is named."""

from __future__ import annotations

import argparse

import pytest

from metier.cli.later import Later
from metier.cli.parser import make_parser


def helps(parser: argparse.ArgumentParser) -> list[str]:
    """What `--help` says of a command, and of all that may follow it."""
    found = [parser.format_help()]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                found += helps(one)
    return found


def test_a_command_that_is_named_has_the_options_that_it_has_among_all(capsys: pytest.CaptureFixture[str]) -> None:
    commands = next(one.choices for one in make_parser()._actions if isinstance(one.choices, dict))
    assert len(commands) > 30
    parser = make_parser(lazily=True)
    for name, eager in commands.items():
        with pytest.raises(SystemExit):
            parser.parse_args([name, "--help"])
        assert capsys.readouterr().out == eager.format_help()
    assert helps(parser) == helps(make_parser())


def test_what_is_noted_is_done_in_order_also_to_what_is_returned() -> None:
    later = Later()
    argument = later.add_argument("--depth", type=int)
    argument.help = "how deep"
    later.add_mutually_exclusive_group().add_argument("--all", action="store_true")
    later.set_defaults(depth=3)
    parser = argparse.ArgumentParser(prog="x")
    later.do_to(parser)
    assert parser.parse_args([]) == argparse.Namespace(depth=3, all=False)
    assert "how deep" in parser.format_help()
