"""Commands that have verbs, such as `metier policy check`: how each verb is added, with what its `--help` says."""

from __future__ import annotations

import argparse
from typing import Any, Protocol


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Help with room for long options, and examples as they are written."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28)

    def _split_lines(self, text: str, width: int) -> list[str]:
        from metier.cli.layout import wrap

        return list(wrap(" ".join(text.split()), width))

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Sentences, and examples with what they do beside them, or below where a command is long."""
        from metier.cli.layout import Column, row_lines, wrap_line

        lines = [(line, *line.rpartition("   ")[::2]) for line in text.splitlines()]
        start = min((line.index(about) for line, command, about in lines if command.strip()), default=0)
        columns = [Column(0, width), Column(start, width - start)]
        laid = [
            row_lines((command.rstrip(), about), columns, width) if command.strip() else wrap_line(line, width)
            for line, command, about in lines
        ]
        return "\n".join(line for one in laid for line in one)


class Verb(Protocol):
    """What adds a verb to a command."""

    def __call__(self, name: str, help: str, example: str) -> argparse.ArgumentParser:  # noqa: A002
        """A verb, what it does, and a command line that does it."""
        ...


def explained(help: str, example: str) -> dict[str, Any]:  # noqa: A002
    """What `--help` says of a command or a verb, beside its options.

    >>> explained("say who is known", "metier user list")["description"]
    'Say who is known.'
    """
    return {
        "help": help,
        "description": f"{help[0].upper()}{help[1:]}.",
        "epilog": f"example:\n  {example}",
        "formatter_class": Formatter,
    }


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option by which a program reads what a command says."""
    parser.add_argument("--json", action="store_true", help="print JSON for a program")


def add_check(parser: argparse.ArgumentParser) -> None:
    """Add the option by which a script learns a decision from the exit code."""
    parser.add_argument("--check", action="store_true", help="exit with 1 where it is denied, with 4 where it is asked")


def verbs(parser: argparse.ArgumentParser) -> Verb:
    """What adds the words that may follow a command, such as `check` and `show` behind `policy`."""
    words = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs", required=True)

    def verb(name: str, help: str, example: str) -> argparse.ArgumentParser:  # noqa: A002
        added: argparse.ArgumentParser = words.add_parser(name, **explained(help, example))
        return added

    return verb
