"""The stores that this process has open for its decisions and records, one for each address."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from metier.errors import StoreUnavailable
from metier.hints import for_people
from metier.library.trust import default_config_folder

if TYPE_CHECKING:
    from metier.guard.audit.store_log import StoreLog
    from metier.store import Store
    from metier.store.location import StoreAddress

_KEPT = 8
_BESIDE = ("audit/checkpoints.jsonl", "blobs")
_stores: OrderedDict[str, Store] = OrderedDict()
_remembered: set[str] = set()
_trails: OrderedDict[tuple[str, int, str | None], StoreLog] = OrderedDict()
_opening = threading.Lock()


def _begin_anew() -> None:
    """In a process that was forked: whoever held the lock is not there to let go of it."""
    global _opening
    _opening = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


def open_store(url: str) -> Store:
    """The store at an address, which is made where there never was one; raises `StoreUnavailable`."""
    found = peek_store(url)
    if found is None:
        from metier.store import Store

        require_store(url)
        Store.open(url).close()
        # From then on it is there, and must not be made anew when somebody takes it away.
        found = _keep(url, Store.open(url, create=False))
    return found


def peek_store(url: str) -> Store | None:
    """The store at an address; None where there is none."""
    found = _stores.get(url)
    if found is None:
        from metier.store import Store

        store = Store.peek(url)
        found = _keep(url, store) if store is not None else None
    return found


def was_there(url: str) -> bool:
    """Whether a store was at an address: what lies beside it, and what was noted of it, outlive it."""
    from metier.store.location import parse_address

    address = parse_address(url)
    beside = (os.path.join(address.folder, name) for name in _BESIDE)
    # A miss raises no exception here: where there is no store yet, every decision looks.
    return any(os.access(path, os.F_OK) for path in (*beside, _mark_of(address)))


def require_store(url: str) -> None:
    """Raise `StoreUnavailable` where a store is gone: another would release the skills in quarantine.

    There is none also where a database still is, and its tables are gone.
    """
    if was_there(url):
        from metier.store.location import parse_address

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
    from metier.store.location import parse_address

    _remembered.add(url)
    mark = _mark_of(parse_address(url))
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(mark), mode=0o700, exist_ok=True)
        os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600))


def _mark_of(address: StoreAddress) -> str:
    return os.path.join(default_config_folder(), "stores", _name_of(str(address)))


@functools.lru_cache(64)
def _name_of(url: str) -> str:
    return hashlib.sha256(url.encode(errors="surrogatepass")).hexdigest()[:32]


def keep_ledgers(store: Store) -> Store:
    """Let what was verified of a store's audit trail outlast the process, away from the store."""
    store.ledgers.folder = os.path.join(default_config_folder(), "stores")
    if store.kind != "sqlite":
        remember(store.url)  # nothing of it lies on this machine
    return store


def _keep(url: str, store: Store) -> Store:
    keep_ledgers(store)
    with _opening:
        kept = _stores.setdefault(url, store)
        let_go = [store] if kept is not store else []
        while len(_stores) > _KEPT:
            # A store that was let go opens a connection again where somebody still has it.
            let_go.append(_stores.popitem(last=False)[1])
    for one in let_go:
        one.close()
    return kept


def trail_at(url: str, every: int, key: str | None) -> StoreLog:
    """The audit trail in the store at an address, signed after every so many records."""
    found = _trails.get((url, every, key))
    if found is not None:
        return found
    from metier.guard.audit.store_log import StoreLog

    let_go = []
    with _opening:
        found = _trails.setdefault((url, every, key), StoreLog(url, every=every, key=key))
        while len(_trails) > _KEPT:
            let_go.append(_trails.popitem(last=False)[1])
    for one in let_go:
        # Not before the others may go on: it signs what it has, and opens its store for that.
        one.close()
    return found
