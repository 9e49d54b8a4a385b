"""`metier` as a process of its own that need not import all over again, which is most of what a short one takes.

One process imports what commands need, and forks for each call of a small program that hands over its arguments, its
environment and its streams, passes signals on, and ends as the command does. Where the start itself is in question,
tests use the installed command.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import io
import marshal
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

ALL_NEED = (
    *("metier.cli.list", "metier._session", "metier._library", "metier.library.places", "metier.library.snapshot"),
    *("metier.library.index", "metier.library.index_cache", "metier.library.index_rows", "metier.skill.openai_yaml"),
    *("yaml", "argcomplete.finders"),
)
_STORE = (
    "metier.store.sqlite",
    "metier.store.schema",
    "metier.store.audit_log",
    "metier.store.store",
    "metier.store.state",
)
_SEARCHING = (
    *("metier.find.search_engine", "metier.find.index_maintenance", "metier.find.index_writer", "metier.find.vectors"),
    *("metier.find.word_vectors", "metier.find.build_catalog", "Stemmer"),
)
_DECIDING = (
    "metier.guard.audit.store_log",
    "metier.guard.checks",
    "metier.guard.approvals.decisions",
    "metier.guard.governance",
    *_STORE,
)
_LOOKING = ("metier.guard.policy.merge", "metier.scan.capabilities", *_DECIDING)
_SCANNING = ("metier.scan.rules", "metier.scan.scanner", *_LOOKING)
_RUNNING = (
    *("metier.run.native.runner", "metier.run.native.bubblewrap", "metier.run.native.seccomp", "metier.run.plain"),
    *("metier.session.loader", "metier.session.runs", "metier.session.job_sandbox", "metier.session.copies"),
    *("metier.session.injection", "metier.session.substitution", "metier.session.load_transaction"),
    *("metier.guard.audited_action", "metier.guard.audit.keys"),
    *("anyio._backends._asyncio", "jsonschema_rs", *_LOOKING),
)
_AGENT = (
    *("metier.agent.agent", "metier.agent.agents", "metier.agent.prompt", "metier.dialect.runtime"),
    *("pydantic_ai.models.test", "genai_prices.data", "jinja2.sandbox", *_SEARCHING),
)
_SERVER = ("metier.serve.mcp", "metier.serve.mcp.http", "uvicorn.protocols.http.auto")
NEEDS = {
    "search": ("metier.cli.search", *_SEARCHING),
    "catalog": ("metier.cli.catalog", *_SEARCHING, *_STORE),
    "run": ("metier.cli.run", *_RUNNING),
    "session": ("metier.cli.session", "metier.tools.builtin.bash", *_RUNNING),
    "mcp": ("metier.cli.mcp", *_SERVER, *_RUNNING),
    "shell": ("metier.cli.shell", "metier.run.virtual", "metier.run.virtual.shell", "tree_sitter_bash", *_RUNNING),
    "ask": ("metier.cli.ask", *_AGENT, *_RUNNING),
    "chat": ("metier.cli.chat", *_AGENT, *_RUNNING),
    "demo": ("metier.cli.demo", *_AGENT, *_SERVER, *_RUNNING),
    "policy": ("metier.cli.policy", "metier.cli.policy_cases", *_SCANNING),
    "scan": ("metier.cli.scan", *_SCANNING),
    "approve": ("metier.cli.approve", *_SCANNING),
    "propose": ("metier.cli.propose", *_SCANNING),
    "deploy": ("metier.cli.deploy", *_SCANNING),
    "history": ("metier.cli.history", *_LOOKING),
    "rollback": ("metier.cli.history", *_LOOKING),
    "user": ("metier.cli.user", *_DECIDING),
    "quarantine": ("metier.cli.quarantine", *_DECIDING),
    "audit": ("metier.cli.audit", "metier.guard.audit.verification", "metier.guard.audit.keys", *_DECIDING),
    "store": ("metier.cli.store", *_STORE),
}
"""What is imported before the first call of a command, for all that follow."""

PROGRAM = """\
#!/bin/sh
'''exec' "{python}" -IS "$0" "$@"
'''
import _signal, _socket, marshal, os, sys
signals = _signal.SIGINT, _signal.SIGTERM
_signal.pthread_sigmask(_signal.SIG_BLOCK, signals)  # until it is known to whom they are passed on
connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
connection.connect({path!r})
request = marshal.dumps((sys.argv, dict(os.environb), os.getcwd()))
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
connection.sendmsg([len(request).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
while request:
    request = request[connection.send(request):]
child = int.from_bytes(connection.recv(4), "big")
for number in signals:
    _signal.signal(number, lambda number, frame: os.kill(child, number))
_signal.pthread_sigmask(_signal.SIG_UNBLOCK, signals)
for number in (0, 1, 2):
    os.close(number)
code = int.from_bytes(connection.recv(4) or bytes(4), "big", signed=True)
if code < 0:
    _signal.signal(-code, _signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""


@contextlib.contextmanager
def forking() -> Iterator[Path]:
    """The folder with a program `metier` in it that works as the installed one does."""
    with tempfile.TemporaryDirectory(prefix="metier-") as folder:
        path = os.path.join(folder, "socket")
        program = Path(folder, "bin", "metier")
        program.parent.mkdir()
        program.write_text(PROGRAM.format(python=sys.executable, path=path))
        program.chmod(0o755)
        pipe = subprocess.PIPE
        command = [sys.executable, "-P", __file__, path]
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True) as server:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            yield program.parent
            server.communicate(timeout=60)


class Calls:
    """The calls that are answered, each by a process."""

    def __init__(self, path: str) -> None:
        self._callers: dict[int, socket.socket] = {}
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen()
        self._ended, self._has_ended = socket.socketpair()
        for end in (self._ended, self._has_ended):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(self._has_ended.fileno())
        self._ready = selectors.DefaultSelector()
        for source in (self._listener, self._ended, sys.stdin):
            self._ready.register(source, selectors.EVENT_READ)

    def answer(self) -> list[str]:
        """Answer them until standard input ends; what is returned are the words of a call, in the process for it."""
        while True:
            for key, _ in self._ready.select():
                if key.fileobj is self._listener:
                    words = self._begin()
                    if words is not None:
                        return words
                elif key.fileobj is self._ended:
                    self._ended.recv(65_536)
                    self._reap()
                elif key.fileobj is sys.stdin:
                    self._leave()
                else:
                    self._abandon(key.data)

    def _begin(self) -> list[str] | None:
        caller, _ = self._listener.accept()
        size, streams, _, _ = socket.recv_fds(caller, 4, 3)
        with caller.makefile("rb") as request:
            asked = request.read(int.from_bytes(size, "big"))
        if not streams or len(asked) < int.from_bytes(size, "big"):  # killed before it could say what it wants
            caller.close()
            return None
        words, environ, folder = marshal.loads(asked)
        for module in (module for word in words for module in NEEDS.get(word, ())):
            with contextlib.suppress(ImportError):  # which the command itself has something to say about
                importlib.import_module(module)
        gc.freeze()
        child = os.fork()
        if child:
            self._callers[child] = caller
            self._ready.register(caller, selectors.EVENT_READ, child)
            with contextlib.suppress(OSError):  # it was killed, which is read from it next
                caller.sendall(child.to_bytes(4, "big"))
            for stream in streams:
                os.close(stream)
            return None
        caller.close()
        self._forget()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.environ.clear()
        os.environb.update(environ)
        os.chdir(folder)
        return list(words)

    def _forget(self) -> None:
        """Everything that only the parent needs, in the process for a call."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._ready.close()
        for one in (self._listener, self._ended, self._has_ended, *self._callers.values()):
            one.close()

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):  # there is none left
            while True:
                child, status = os.waitpid(-1, os.WNOHANG)
                if not child:
                    return
                if child in self._callers:
                    caller = self._let_go(child)
                    with contextlib.suppress(OSError):
                        caller.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))
                    caller.close()

    def _abandon(self, child: int) -> None:
        """Whoever called was killed, and so is what it called."""
        if child in self._callers:
            self._let_go(child).close()
            os.kill(child, signal.SIGKILL)

    def _let_go(self, child: int) -> socket.socket:
        caller = self._callers.pop(child)
        self._ready.unregister(caller)
        return caller

    def _leave(self) -> NoReturn:
        for child in self._callers:
            os.kill(child, signal.SIGKILL)
        sys.exit()


def streams_anew() -> None:
    """Streams as an interpreter makes them when it starts."""
    buffering = 0 if os.environ.get("PYTHONUNBUFFERED") else -1
    sys.stdin = io.TextIOWrapper(open(0, "rb", closefd=False), "utf-8")  # noqa: SIM115
    out, err = (open(number, "wb", buffering, closefd=False) for number in (1, 2))  # noqa: SIM115
    sys.stdout = io.TextIOWrapper(out, "utf-8", line_buffering=os.isatty(1), write_through=not buffering)
    sys.stderr = io.TextIOWrapper(err, "utf-8", "backslashreplace", line_buffering=True, write_through=not buffering)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]


def end(code: object) -> NoReturn:
    """End with what an interpreter does for programs, and without taking apart all that was imported."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def prepare() -> None:
    """All that is the same for every call: modules, and that nobody waits for the disk."""
    for needed in ALL_NEED:
        importlib.import_module(needed)
    importlib.import_module("metier.cli.main")
    sys.path.append(str(Path(__file__).parents[1]))
    importlib.import_module("tests.disk").hurry(setattr)
    sys.path.pop()


if __name__ == "__main__":
    calls = Calls(sys.argv[1])
    print("ready", flush=True)  # who calls now waits, and nobody else does
    prepare()
    sys.argv = calls.answer()
    streams_anew()
    code: object = 1
    try:
        code = importlib.import_module("metier.cli").main()
    except SystemExit as leaving:
        code = leaving.code
    except BaseException:
        traceback.print_exc()
    end(code)
