"""The parser of a command: made by its own module when it is named."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable

import pytest

from metier.cli.commands import COMMANDS
from metier.cli.parser import Parser, parse, parser_of, split_command


def test_a_command_imports_its_own_module_and_no_other() -> None:
    code = "import sys; from metier.cli.parser import parser_of; parser_of('list'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    loaded = {name.removeprefix("metier.cli.") for name in done.stdout.split() if name.startswith("metier.cli.")}
    modules = {command.module or name for name, command in COMMANDS.items()}
    assert loaded & modules == {"list"}


def test_every_command_adds_options_and_runs() -> None:
    assert len(COMMANDS) > 30
    for name in COMMANDS:
        parser = parser_of(name)
        assert parser.prog == f"metier {name}"
        assert "example:\n  " in (parser.epilog or ""), name


def test_help_needs_the_table_alone() -> None:
    code = "import sys\nfrom metier.cli import main\ntry: main(['--help'])\nfinally: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    loaded = {name.removeprefix("metier.cli.") for name in done.stdout.split() if name.startswith("metier.cli.")}
    assert loaded & {command.module or name for name, command in COMMANDS.items()} == {"help"}


@pytest.mark.each(
    ("words", "parts"),
    [
        ([], ([], None, [])),
        (["list"], ([], "list", [])),
        (["--skills", "list", "list", "--all"], (["--skills", "list"], "list", ["--all"])),
        (
            ["--skills=x", "--no-cache", "show", "--skills", "y"],
            (["--skills=x", "--no-cache"], "show", ["--skills", "y"]),
        ),
        (["--skills"], (["--skills"], None, [])),
    ],
)
def test_options_may_stand_before_the_command(words: list[str], parts: tuple[list[str], str | None, list[str]]) -> None:
    assert split_command(words) == parts


def test_the_translations_of_a_program_that_calls_us_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(argparse, "_", lambda text: f"<{text}>", raising=False)
    with pytest.raises(SystemExit):
        parse(["list", "--no-such-option"], argparse.Namespace())
    assert vars(argparse)["_"]("usage: ") == "<usage: >"


def test_nothing_stands_between_a_command_and_its_verb(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parser_of("approve").parse_args(["--", "grant", "r-1"])
    assert ended.value.code == 2
    assert "a verb is missing" in capsys.readouterr().err


def test_a_verb_carries_the_function_that_does_it() -> None:
    def greet(_: argparse.Namespace) -> int:
        return 7

    parser = Parser(prog="metier x")
    verb = parser.verb("greet", "say hello", "metier x greet", greet, is_exact=True)
    verb.json()
    options = parser.parse_args(["greet", "--json"])
    assert (options.verb, options.do(options), options.is_exact, options.json) == ("greet", 7, True, True)


def test_help_lists_verbs_right_below_their_title(metier: Callable[..., tuple[int, str, str]]) -> None:
    assert "verbs:\n  VERB\n" in metier("registry", "--help")[1]
