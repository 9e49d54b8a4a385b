"""`metier mcp`: the MCP server of skills, and the token of its HTTP transport."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import secrets
import signal
import stat
import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

import anyio

import metier
from metier._otel_setup import configure_from_environment
from metier.cli.identity import user_name
from metier.cli.output import Style
from metier.cli.parser import DIALECTS, Parser, library_of
from metier.errors import InvalidArgument, MetierError, SourceUnavailable
from metier.skill.untrusted_text import shown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from metier.serve.mcp import SkillServer


_MAX = 1_000
_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_IS_POSIX = os.name == "posix"


def token_file() -> Path:
    """Return the file of the token."""
    from pathlib import Path

    from metier.library.places import default_config_folder

    return Path(default_config_folder(), "mcp-token")


def kept_token(file: Path) -> str:
    """Read the token of a file, which is made where there is none; raises where others may have read or written it."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            return _read(file)
        except FileNotFoundError:
            _make(file)
            return _read(file)
    except OSError as error:
        raise _unusable(file, f"cannot be used: {error.strerror}") from None


def _read(file: Path) -> str:
    descriptor = os.open(file, os.O_RDONLY | _FLAGS)
    with os.fdopen(descriptor, "rb") as opened:
        found = os.fstat(descriptor)
        if found.st_nlink > 1:
            _remove_parts(file)
            found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _unusable(file, "is no file")
        if _IS_POSIX and (found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077 or found.st_nlink != 1):
            raise _unusable(file, "is not yours alone")
        token = opened.read(_MAX).decode("ascii", "replace").strip()
    if len(token) < 32 or not token.isascii() or not token.isprintable():
        raise _unusable(file, "holds no token")
    return token


def _make(file: Path) -> None:
    """Make the file whole or not at all: another server that starts now finds all of it, or makes it itself."""
    beside = file.with_name(f"{_part(file)}{secrets.token_hex(8)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(f"{secrets.token_urlsafe(32)}\n".encode())
        with contextlib.suppress(FileExistsError):
            os.link(beside, file)  # unlike a rename, it takes the place of nothing
    finally:
        beside.unlink(missing_ok=True)


def _remove_parts(file: Path) -> None:
    """Remove the second name of the file: of a server that makes it at this moment, or was killed as it did."""
    for beside in file.parent.glob(f"{_part(file)}*"):
        with contextlib.suppress(OSError):
            if beside.samefile(file):
                beside.unlink()


def _part(file: Path) -> str:
    return f".{file.name}-"


def _unusable(file: Path, why: str) -> SourceUnavailable:
    return SourceUnavailable(
        f"The file of the token {file} {why}.",
        hint="Remove it, and another is made; or set METIER_TOKEN.",
        path=os.fspath(file),
    )


TOKEN = "METIER_TOKEN"
_MAX_PORT = 65_535
_MAX_LINE = 10_000


def add(parser: Parser) -> None:
    from metier.library.clients import CLIENTS

    parser.example("metier mcp --install claude-code")
    parser.set_defaults(is_exact=True)
    parser.library()
    parser.option(
        "--http",
        "HOST:PORT",
        "serve Streamable HTTP instead of stdio (default: 127.0.0.1:8321)",
        nargs="?",
        const="127.0.0.1:8321",
    )
    parser.option(
        "--token",
        "TEXT",
        "what clients must send as bearer token; better in METIER_TOKEN, where no `ps` sees it (default: one of "
        "your own, in a file whose path is said)",
    )
    parser.flag("--no-token", "let every user of this machine in over HTTP")
    parser.option("--dialect", None, "(default: runtime)", choices=DIALECTS, default="runtime")
    parser.option("--workspace", "DIR", "where scripts work (default: here)")
    parser.catalog_budget()
    parser.option("--ask", "RULES", "tool calls to ask the user about, as a policy has them", default="")
    parser.option("--deny", "RULES", "tool calls to refuse, as a policy has them", default="")
    effects = ("allow", "ask", "deny")
    parser.option("--scripts", None, "whether scripts run (default: allow)", choices=effects, default="allow")
    parser.flag("--proposals", "let models propose changes to skills")
    parser.flag("--feedback", "let models say whether a skill helped")
    clients = [client.name for client in CLIENTS.values() if client.servers is not None]
    change = parser.add_mutually_exclusive_group()
    change.add_argument(
        "--install",
        metavar="CLIENT",
        choices=clients,
        help=f"write this server into the configuration of a client: {', '.join(clients[:-1])} or {clients[-1]}",
    )
    change.add_argument(
        "--remove", metavar="CLIENT", choices=clients, help="take the server that --install wrote out again"
    )
    parser.flag("--user", "with --install or --remove: for all your projects, not for this one")
    parser.option("--name", "NAME", "with --install or --remove: what the client calls the server", default="metier")
    parser.flag("--dry-run", "with --install or --remove: only print what would change")


def run(options: Namespace) -> None:
    if options.install is not None or options.remove is not None:
        from metier.cli.mcp_clients import install

        install(options)
        return
    _refuse_what_belongs_to_install(options)
    host, port = address(options.http) if options.http is not None else ("", 0)
    if options.http is None and (options.token is not None or options.no_token):
        raise InvalidArgument("A token is for HTTP.", hint="Add --http, or leave it out.")
    log_to_stderr()
    configure_from_environment()
    server = _server(options)
    try:
        if options.http is None:
            _say_who_is_awaited()
            serve_until_signal(server.run_stdio)
            return
        token, whose = _token(options, host)
        serve_until_signal(
            lambda: server.run_http(host=host, port=port, token=token, on_ready=lambda url: _say_where(url, whose))
        )
    finally:
        server.close()


def address(text: str) -> tuple[str, int]:
    """The host and port of `HOST:PORT`, of a host alone, or of a port alone.

    >>> address("127.0.0.1:8321"), address("[::1]:80"), address("9000"), address("localhost")
    (('127.0.0.1', 8321), ('::1', 80), ('127.0.0.1', 9000), ('localhost', 8321))
    """
    host, colon, port = text.rpartition(":")
    if text and (not colon or text.endswith("]")):
        host, port = ("", text) if text.isdecimal() else (text, "8321")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not (port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) <= _MAX_PORT):
        raise InvalidArgument(f"{text!r} has no port to listen on.", hint="Write HOST:PORT, such as 127.0.0.1:8321.")
    # One word that is neither an address nor a port is a slip more often than a machine of that name.
    is_slip = not colon and not text.isdecimal() and not ({".", ":"} & {*host}) and host != "localhost"
    if is_slip or not host.isprintable() or any(c in host for c in "/@ ") or len(host) > 255:
        raise InvalidArgument(f"{text!r} has no host to listen on.", hint="Write HOST:PORT, such as 127.0.0.1:8321.")
    return host, int(port)


def _token(options: Namespace, host: str) -> tuple[str | None, str]:
    """The token that clients must have, and a name for its holders: the one given, or one in a file of this user."""
    from metier._hosts import is_loopback

    given = options.token if options.token is not None else os.environ.get(TOKEN)
    if given == "":
        # Somebody wanted one, and whatever was to make it did not.
        raise InvalidArgument("The token is empty.", hint=f"Give --token or {TOKEN} a value, or unset {TOKEN}.")
    if options.no_token:
        if given is not None:
            raise InvalidArgument("There is a token.", hint=f"Leave --no-token out, or --token, and unset {TOKEN}.")
        return None, "everybody on this machine, as there is no token"
    if given is not None or not is_loopback(host):
        return given, "whoever has the token"
    file = token_file()
    return kept_token(file), f"whoever has the token in {Style.text(str(file), 4_096)}"


def _refuse_what_belongs_to_install(options: Namespace) -> None:
    for name, is_given in {"--user": options.user, "--dry-run": options.dry_run}.items():
        if is_given:
            raise InvalidArgument(
                f"{name} goes with --install and --remove.", hint=f"Add --install CLIENT, or leave {name} out."
            )


def log_to_stderr() -> None:
    """Send log lines to standard error: standard output is the protocol's alone."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Plain("%(levelname)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


class _Plain(logging.Formatter):
    """Formats log lines so that no text of a client acts on a terminal, or looks like another line."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return shown(super().formatMessage(record), _MAX_LINE)

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return "\n".join(shown(line, _MAX_LINE) for line in super().formatException(ei).splitlines())


def _server(options: Namespace) -> SkillServer:
    # What is imported and read until it serves stays to the end. To look through all that for garbage, at the start, at
    # every full collection and when the process ends, takes a fifth of the CPU of a start and finds nothing.
    gc.disable()
    try:
        return _make_server(options)
    finally:
        gc.freeze()
        gc.enable()


def _make_server(options: Namespace) -> SkillServer:
    from metier.serve.mcp import SkillServer

    if options.workspace is not None and not os.path.isdir(options.workspace):
        raise InvalidArgument(f"{options.workspace} is no folder.", hint="A workspace is a folder that exists.")
    return SkillServer(
        library_of(options, start=options.workspace),
        dialect=options.dialect,
        policy=metier.Policy(ask=options.ask, deny=options.deny, scripts=options.scripts),
        workspace=options.workspace,
        budget=options.budget,
        user=user_name(),
        proposals=options.proposals,
        feedback=options.feedback,
    )


def _say_who_is_awaited() -> None:
    if sys.stdin.isatty():
        print(
            "This waits for an MCP client on standard input, and Ctrl-C ends it. `metier mcp --install CLIENT` has a "
            "client start it.",
            file=sys.stderr,
        )


def _say_where(url: str, whose: str) -> None:
    print(f"Skills are served at {Style.text(url)}; for {whose}. Ctrl-C ends it.", file=sys.stderr, flush=True)


def serve_until_signal(serve: Callable[[], Awaitable[None]]) -> None:
    """Serve until the client is gone, or a signal ends it; either is a good end."""

    async def main() -> None:
        async with anyio.create_task_group() as tasks:

            async def listen() -> None:
                with (
                    contextlib.suppress(NotImplementedError),  # where signals cannot be waited for
                    anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals,
                ):
                    async for _ in signals:
                        tasks.cancel_scope.cancel()

            tasks.start_soon(listen)
            await serve()
            tasks.cancel_scope.cancel()

    try:
        anyio.run(main)
    except BaseExceptionGroup as group:
        problem = _first(group)
        if not isinstance(problem, MetierError | OSError | KeyboardInterrupt):
            raise
        raise problem from None


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
