"""Where the command begins and ends: arguments in, exit code out, never a traceback for what a user may do."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING

from metier.cli.parser import make_parser
from metier.errors import InvalidArgument, MetierError, SourceUnavailable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

FINE, PROBLEMS, USAGE = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns 0 when all is fine, 1 when problems were found, 2 for wrong usage."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A file name need not be valid in the terminal's encoding.
            stream.reconfigure(errors="backslashreplace")
    parser = make_parser()
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser)
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return FINE
    try:
        return _run(options)
    except MetierError as error:
        _explain(error)
        return USAGE if isinstance(error, InvalidArgument | SourceUnavailable) else PROBLEMS
    except BrokenPipeError:
        # The reader has seen enough (`metier list | head`); Python would complain while closing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130


def _run(options: argparse.Namespace) -> int:
    module = importlib.import_module(f"metier.cli.{options.module}")
    code: int = module.run(options)
    sys.stdout.flush()
    return code


def _explain(error: MetierError) -> None:
    from metier.cli.output import Style

    style = Style(sys.stderr)
    print(f"{style.bad('error')} [{error.code}]: {style.text(str(error), limit=2_000)}", file=sys.stderr)
    if error.hint:
        print(f"{style.dim('hint')}: {style.text(error.hint, limit=2_000)}", file=sys.stderr)
