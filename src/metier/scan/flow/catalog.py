"""What sources and sinks are called: lists and lexicons of the core pack, by the beginning of their names.

| entry | meaning |
|---|---|
| list `calls-from-SENSE` | functions and commands (`$curl`) that give something of a sense |
| list `objects-from-SENSE` | objects that are something of a sense as a whole |
| lexicon `places-SENSE` | texts that say where something of a sense lies; who reads there has it |
| lexicon `keys-SENSE` | names of settings that are of a sense |
| list `calls-to-KIND` | functions and commands that are a sink of a kind |
| list `calls-ROLE` | `reads`, `fills`, `cleans`, `opens`, `joins`: what else functions do with data |
"""

from __future__ import annotations

from functools import cache, lru_cache

from metier.scan.name_lists import sense
from metier.scan.pack_store import core_pack

_MAX_TEXT = 1_000
"""Characters of a text that is looked through for places; a longer one is something to read."""


@cache
def _roles() -> dict[str, set[str]]:
    roles: dict[str, set[str]] = {}
    for name, words in core_pack()["lists"].items():
        for word in words.split() if name.startswith(("calls-", "objects-")) else ():
            roles.setdefault(word, set()).add(name.removeprefix("calls-"))
    return roles


@lru_cache(maxsize=8_192)
def roles_of(name: str) -> frozenset[str]:
    """What a function or command does with data, by its name with dots; an entry `.post` is anybody's method.

    >>> "to-network" in roles_of("session.post"), "to-network" in roles_of("post")
    (True, False)
    """
    low, roles = name.lower(), _roles()
    found = set(roles.get(low, ()))
    while "." in low:
        low = low.partition(".")[2]
        found.update(roles.get(f".{low}", ()), roles.get(low, ()) if "." in low else ())
    return frozenset(found)


@cache
def members(name: str) -> frozenset[str]:
    """The words of a list."""
    return frozenset(core_pack()["lists"][name].split())


@cache
def _senses(prefix: str) -> list[str]:
    return [name for name in core_pack()["senses"] if name.startswith(prefix)]


@lru_cache(maxsize=8_192)
def places_in(text: str) -> tuple[tuple[str, str], ...]:
    """What lies at the places that a text names: the sense, and the place as it is written."""
    if len(text) < 3 or len(text) > _MAX_TEXT:
        return ()
    found = ((name, sense(name).search(text.lower())) for name in _senses("places-"))
    return tuple((name.removeprefix("places-"), text[slice(*one.span())]) for name, one in found if one is not None)


@lru_cache(maxsize=8_192)
def sense_of_key(key: str) -> str:
    """The sense of a setting by its name; empty without one."""
    found = (name for name in _senses("keys-") if sense(name).search(key.lower()) is not None)
    return next(found, "").removeprefix("keys-")
