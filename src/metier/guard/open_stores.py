"""Registry of the stores that this process has open, one for each address."""

from __future__ import annotations

import contextlib
import functools
import os
from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from metier._paths import short_digest
from metier.errors import StoreUnavailable
from metier.hints import for_people
from metier.library.places import default_config_folder
from metier.store.location import parse_address

if TYPE_CHECKING:
    from metier.store import Store
    from metier.store.location import StoreAddress

K = TypeVar("K")
V = TypeVar("V", bound="Closable")

_KEPT = 8
_BESIDE = ("audit/checkpoints.jsonl", "blobs")
_remembered: set[str] = set()


class Closable(Protocol):
    """An object that is closed when it falls out of a registry."""

    def close(self) -> None:
        """Let go of what it holds."""


class Registry(Generic[K, V]):
    """The things of one kind that this process has open, of which the oldest is closed when there are too many."""

    def __init__(self) -> None:
        # Each step of a change is atomic, so that threads need no lock, which a forked process could find held.
        self.items: OrderedDict[K, V] = OrderedDict()

    def add(self, key: K, value: V) -> V:
        """Add a value, or close it where another thread was faster; returns the one that is there."""
        kept = self.items.setdefault(key, value)
        if kept is not value:
            value.close()
        while len(self.items) > _KEPT:
            self.items.popitem(last=False)[1].close()
        return kept


OPEN: Registry[str, Store] = Registry()
"""The open stores by their addresses. A store that was closed opens a connection again where somebody still has it."""


def open_store(url: str) -> Store:
    """The store at an address, which is made where there never was one; raises `StoreUnavailable`."""
    found = peek_store(url)
    if found is None:
        from metier.store import Store

        require_store(url)
        Store.open(url).close()
        # From then on it is there, and must not be made anew when somebody takes it away.
        found = OPEN.add(url, persist_decisions(Store.open(url, create=False)))
    return found


def peek_store(url: str) -> Store | None:
    """The store at an address; None where there is none."""
    found = OPEN.items.get(url)
    if found is None:
        from metier.store import Store

        store = Store.peek(url)
        found = OPEN.add(url, persist_decisions(store)) if store is not None else None
    return found


def was_there(url: str) -> bool:
    """Whether a store was at an address: what lies beside it, and what was noted of it, outlive it."""
    return any(os.access(path, os.F_OK) for path in _traces(parse_address(url), default_config_folder()))


def store_paths(url: str) -> tuple[str, ...]:
    """The file of a store, and all that outlives it: where none of them is there, nobody ever kept anything."""
    address = parse_address(url)
    return (address.target, *_traces(address, default_config_folder()))


@functools.lru_cache(64)  # under a policy, every decision looks as long as there is no store
def _traces(address: StoreAddress, config: str) -> tuple[str, ...]:
    """The files that tell that there was a store: beside it, and in the user's configuration folder."""
    return (*(os.path.join(address.folder, name) for name in _BESIDE), _mark_of(address, config))


def require_store(url: str) -> None:
    """Raise `StoreUnavailable` where a store is gone: another would release the skills in quarantine.

    There is none also where a database still is, and its tables are gone.
    """
    if was_there(url):
        address = parse_address(url)
        raise StoreUnavailable(
            f"The store {address.target if address.kind == 'sqlite' else 'of the database'} was there, and is gone.",
            hint=for_people("`metier store restore` brings a backup back; `metier store migrate` begins anew."),
        )


def remember(url: str) -> None:
    """Note, away from the store, that it has something that must not be forgotten: what somebody decided.

    Whoever removes the file would otherwise release all of it.
    """
    if url in _remembered:
        return
    _remembered.add(url)
    mark = _mark_of(parse_address(url), default_config_folder())
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(mark), mode=0o700, exist_ok=True)
        os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600))


def _mark_of(address: StoreAddress, config: str) -> str:
    name = short_digest(str(address).encode(errors="surrogatepass"), 32)
    return os.path.join(config, "stores", name)


def persist_decisions(store: Store) -> Store:
    """Let the verified part of a store's audit log outlast the process, away from the store."""
    store.decision_reader.folder = os.path.join(default_config_folder(), "stores")
    if store.kind != "sqlite":
        remember(store.url)  # nothing of it lies on this machine
    return store
