"""Where the command begins and ends: arguments in, exit code out, never a traceback for what a user may do."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from typing import TYPE_CHECKING

from metier.cli.exits import FINE, USAGE, exit_code_of
from metier.cli.parser import make_parser
from metier.errors import MetierError, SourceUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code (`metier.cli.exits`)."""
    _prepare_streams()
    try:
        try:
            return _run(arguments)
        finally:
            sys.stdout.flush()
    except MetierError as error:
        _explain(error)
        return exit_code_of(error)
    except BrokenPipeError:
        # The reader has seen enough (`metier list | head`); Python would complain while closing.
        _give_up_stdout()
        return FINE
    except OSError as error:
        _give_up_stdout()
        _explain_system(error)
        return USAGE
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130


def _run(arguments: Sequence[str] | None) -> int:
    is_completing = "_ARGCOMPLETE" in os.environ
    parser = make_parser(lazily=not is_completing)
    if is_completing:
        import argcomplete

        argcomplete.autocomplete(parser)
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return FINE
    module = importlib.import_module(f"metier.cli.{options.module}")
    code: int = module.run(options)
    return code


def _prepare_streams() -> None:
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # closed by whoever started us; it lives as long as we do
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A file name need not be valid in the terminal's encoding.
            stream.reconfigure(errors="backslashreplace")


def _give_up_stdout() -> None:
    """Nothing more can be written; what is still buffered must not raise when the process ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _explain_system(error: OSError) -> None:
    """What the system refused: a full disk, a working folder that was removed."""
    try:
        os.getcwd()
    except OSError:
        _explain(SourceUnavailable("The working folder was removed.", hint="Change into a folder that exists."))
        return
    where = f" ({error.filename})" if error.filename else ""
    reason = f"{error.strerror or error}{where}."
    _explain(SourceUnavailable(reason, hint="Check the disk and the permissions, then try again."))


def _explain(error: MetierError) -> None:
    from metier.cli.output import Style

    style = Style(sys.stderr)
    print(f"{style.bad('error')} [{error.code}]: {style.text(str(error), limit=2_000)}", file=sys.stderr)
    if error.hint:
        print(f"{style.dim('hint')}: {style.text(error.hint, limit=2_000)}", file=sys.stderr)
