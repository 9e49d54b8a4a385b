"""The entry point of the command: arguments in, exit code out, and no traceback for what a user may do."""

from __future__ import annotations

import contextlib
import gc
import os
import sys

from metier._version import __version__
from metier.cli.exit_codes import FINE, USAGE, exit_code_of
from metier.errors import MetierError, SourceUnavailable

TYPE_CHECKING = False  # true for type checkers; `metier --version` imports neither `typing` nor `argparse`
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence
    from typing import Any, TextIO


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code (`metier.cli.exit_codes`)."""
    _prepare_streams()
    if arguments is None and sys.argv[1:2] not in (["chat"], ["mcp"], ["shell"]):
        # A short command ends before there is garbage worth looking for.
        gc.set_threshold(100_000, *gc.get_threshold()[1:])
    words = sys.argv[1:] if arguments is None else arguments
    options: Any = None
    try:
        try:
            with wrapped_streams():
                if list(words) == ["--version"]:
                    print(f"metier {__version__}")
                    raise SystemExit(FINE)
                from argparse import Namespace

                options = Namespace()
                _parse(words, options)
                if not _is_exact(options):
                    return _run(options)
            return _run(options)
        finally:
            if "metier.session.copies" in sys.modules:
                # A program that calls the command may go on for long, and nothing is to be left of it.
                sys.modules["metier.session.copies"].remove_idle()
            sys.stdout.flush()
            if arguments is None:
                # Python would look through all modules for garbage before it ends.
                gc.freeze()
    except MetierError as error:
        _explain(error, options)
        return exit_code_of(error)
    except BrokenPipeError:
        # The reader has seen enough (`metier list | head`); Python would complain while closing.
        _give_up_stdout()
        return FINE
    except OSError as error:
        _explain_system(error, options)
        return USAGE
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130


def _parse(words: Sequence[str], options: Namespace) -> None:
    if "_ARGCOMPLETE" in os.environ:
        from metier.cli.completion import print_completions

        print_completions()
    from metier.cli.parser import parse

    parse(words, options)


def _is_exact(options: Namespace) -> bool:
    """Tell whether a command prints the content of files, the output of a program, or JSON."""
    return any(getattr(options, name, False) for name in ("is_exact", "json", "sarif"))


def _run(options: Namespace) -> int:
    if options.command is None:
        return FINE
    workspace = getattr(options, "workspace", None)
    # A configuration for another program may name one of its variables.
    if workspace is not None and options.command != "mcp" and not os.path.isdir(workspace):
        from metier.skill.untrusted_text import shown

        hint = "A workspace is a folder that exists: correct the path, or make it first."
        raise SourceUnavailable(f"There is no folder {shown(workspace, 300)}.", hint=hint, path=workspace)
    import importlib

    from metier.cli.commands import COMMANDS

    module = importlib.import_module(f"metier.cli.{COMMANDS[options.command].module or options.command}")
    code: int | None = module.run(options)
    return code or FINE


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
    """Discard buffered output, which must not raise when the process ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _explain_system(error: OSError, options: Namespace | None) -> None:
    """Explain an error of the system: a full disk, a working folder that was removed."""
    where = f" ({error.filename})" if error.filename else ""
    reason, hint = f"{error.strerror or error}{where}.", "Check the disk and the permissions, then try again."
    try:
        os.getcwd()
    except OSError:
        reason, hint = "The working folder was removed.", "Change into a folder that exists."
    _explain(SourceUnavailable(reason, hint=hint), options)
    _give_up_stdout()


def _explain(error: MetierError, options: Namespace | None) -> None:
    """Print an error: as JSON on standard output where JSON was asked for, else on standard error."""
    if getattr(options, "json", False):
        import json

        from metier.cli.json_shapes import error_shape

        try:
            # On one line, for those who read an object from each line too.
            print(json.dumps(error_shape(error)), flush=True)
            return
        except OSError:
            _give_up_stdout()
    from metier.cli.output import print_error

    with wrapped_streams():
        print_error(error.code, str(error), error.hint)


@contextlib.contextmanager
def wrapped_streams() -> Iterator[None]:
    """Break long lines between words, on streams that a person looks at."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(_wrap, before)
    wrapped = [stream for stream in (sys.stdout, sys.stderr) if stream not in before]
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for stream in wrapped:
            stream.flush()


def _wrap(stream: TextIO) -> TextIO:
    if not stream.isatty():
        return stream
    from metier.cli.output import Style, WrappingStream

    wrapping: Any = WrappingStream(stream, Style(stream).width)
    return wrapping  # type: ignore[no-any-return]
