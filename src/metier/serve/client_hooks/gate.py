"""The gate that hooks of clients ask: each event of a conversation is answered, whatever it holds."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Literal

from metier._cache import BoundedCache
from metier._json_object import parse_object
from metier._lazy import logger
from metier.errors import MetierError, StoreUnavailable
from metier.serve.client_hooks.event import HookAnswer, Output
from metier.serve.client_hooks.protocols import PROTOCOLS, UnknownInput, blocked
from metier.serve.client_hooks.resident_socket import MAX_INPUT

if TYPE_CHECKING:
    from metier.serve.client_hooks.conversation import ClientConversation
    from metier.serve.client_hooks.event import HookEvent

log = logger("metier.serve")

_MAX_CONVERSATIONS = 64


def failure_mode(folder: str | None = None) -> Literal["open", "closed"]:
    """The mode for calls that nothing can be decided about: `protect.fail` of the policy, or else its default."""
    from metier.guard.governance import Governance

    try:
        effective = Governance.default(folder).effective
    except (OSError, MetierError):
        return "closed"
    if effective.protect_fail is not None:
        return effective.protect_fail
    is_administered = bool(effective.errors) or any(file.layer == "enterprise" for file in effective.files)
    return "closed" if is_administered else "open"


def _undecided(error: Exception) -> HookAnswer:
    log.error("nothing could be decided", exc_info=error)
    reason = f"Métier could not decide about it: {type(error).__name__}. It did not happen; tell the user."
    return HookAnswer(permission="deny", reason=reason)


class HookGate:
    """Answers the hooks of all clients of one user. Safe to use from several threads."""

    def __init__(self) -> None:
        self._conversations: BoundedCache[tuple[str, str], tuple[ClientConversation, threading.Lock]] = BoundedCache(
            _MAX_CONVERSATIONS
        )
        self._opening = threading.Lock()

    def answer(self, client: str, data: bytes) -> Output:
        """The answer to what a client wrote. An input that is not understood is refused: it might be any call."""
        protocol = PROTOCOLS.get(client)
        if protocol is None:
            return blocked(f"Métier knows no hooks of a client {client[:80]!r}.")
        try:
            event = protocol.read(client, parse_object(data, most=MAX_INPUT))
        except ValueError as error:
            return blocked(f"Métier cannot read the input of this hook: {error}.")
        except UnknownInput as error:
            return blocked(f"Métier does not understand the input of this hook, which {error}.")
        if event is None:
            return Output()
        try:
            conversation, turn = self._conversation(event)
        except (OSError, StoreUnavailable) as error:
            # The machine fails, whatever the call is: then policy says what becomes of it.
            return Output() if failure_mode(event.folder) == "open" else protocol.write(event, _undecided(error))
        except Exception as error:
            return protocol.write(event, _undecided(error))
        try:
            with turn:
                return protocol.write(event, conversation.answer(event))
        except Exception as error:
            return protocol.write(event, _undecided(error))

    def _conversation(self, event: HookEvent) -> tuple[ClientConversation, threading.Lock]:
        from metier.serve.client_hooks.conversation import ClientConversation

        if not os.path.isabs(event.folder):
            raise ValueError("the folder of a conversation is no absolute path")
        key = (event.client, event.conversation)
        with self._opening:
            found = self._conversations.get(key)
            if found is None:
                found = (ClientConversation(event.client, event.conversation, event.folder), threading.Lock())
                self._conversations[key] = found
            return found
