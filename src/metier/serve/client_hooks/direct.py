"""A hook that decides in its own process: slower, and the same."""

from __future__ import annotations

import os
import sys

from metier.serve.client_hooks.resident_socket import MAX_INPUT, MAX_PATH

_SECONDS = 30
"""Less than any client waits for a hook: most take one that is late for consent."""


def run_hook(client: str, *, socket: str = "", is_late: bool = False) -> int:
    """Decide about the event on standard input, print the answer as the client reads it, and return the exit code.

    With the path of a `socket`, it starts the resident process there if there is none, or another if that was late.
    """
    if sys.platform != "win32":
        import signal

        signal.signal(signal.SIGALRM, _refuse_late)
        signal.alarm(_SECONDS)
        os.chdir("/")  # as the resident process: where a client was started decides nothing
    if (path := os.environ.pop("METIER_HOOK_PATH", None)) is not None:
        os.environ["PATH"] = path
    from metier.serve.client_hooks.gate import HookGate

    output = HookGate().answer(client, sys.stdin.buffer.read(MAX_INPUT + 1))
    code = output.exit_code
    try:
        sys.stderr.buffer.write(output.stderr.encode(errors="replace"))
        sys.stdout.buffer.write(output.stdout.encode(errors="replace"))
        sys.stdout.buffer.flush()
    except OSError:
        code = 2  # an answer that did not arrive would be taken for consent
    if socket and len(os.fsencode(socket)) <= MAX_PATH:
        from metier.serve.client_hooks.resident import start_resident

        start_resident(socket, is_late=is_late)
    return code


def _refuse_late(*_: object) -> None:
    """Block a call that takes too long to decide about, also where hooks fail open: a model could make it take long."""
    os.write(2, b"Blocked: metier could not decide about it in time. Tell the user.\n")
    os._exit(2)
