"""Which rules there are, and a name for all that they look for, which tells whether an earlier report still holds."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from typing import TYPE_CHECKING, Any

from metier._version import __version__
from metier.errors import MetierError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from metier.scan.pack_store import PackRef
    from metier.scan.rule import ScanRule


def all_rules(packs: Sequence[PackRef] = ()) -> tuple[ScanRule, ...]:
    """Every rule: our own, and those of packs that are switched on."""
    from metier.scan.rule_book import core_rules

    rules = core_rules()
    if not packs:
        return rules
    from metier.scan.pack_store import pack_rules

    return (*rules, *pack_rules(tuple(dict.fromkeys(packs)), frozenset(rule.id for rule in rules)))


def usable(packs: Sequence[PackRef]) -> tuple[tuple[PackRef, ...], list[str]]:
    """The packs that can be used together, and why each of the others cannot."""
    good: tuple[PackRef, ...] = ()
    problems = []
    for pack in packs:
        try:
            all_rules((*good, pack))
            good = (*good, pack)
        except MetierError as error:
            problems.append(f"A pack of rules cannot be used: {error.message}")
    return good, problems


def ruleset_of(rules: Sequence[ScanRule]) -> str:
    """A digest of the rules and of the code that they and the engine consist of.

    It is the same wherever the same version is installed, and another one as soon as a pattern changes.

    >>> ruleset_of(all_rules()) == ruleset_of(all_rules()[::-1]), ruleset_of(all_rules()) == ruleset_of(())
    (True, False)
    """
    return _named(tuple(rules))


@functools.lru_cache(maxsize=8)
def _named(rules: tuple[ScanRule, ...]) -> str:
    modules = {rule.check.__module__ for rule in rules}
    foreign = sorted(name for name in modules if not name.startswith("metier.scan."))
    code = (f"{name} {digest_of(sys.modules.get(name))}" for name in foreign)
    said = "\n".join((*sorted(f"{rule.id} {rule.severity} {rule.source}" for rule in rules), *engine(), *code))
    return f"sha256:{hashlib.sha256(said.encode()).hexdigest()}"


@functools.cache
def engine() -> tuple[str, ...]:
    """All modules of this room, which decide what is found besides the rules: their names, each with its digest."""
    top = os.path.dirname(__file__)
    loader: Any = __spec__.loader
    if not os.path.isdir(top):  # in an archive, which is the only place that the package is loaded from
        return (hashlib.sha256(loader.get_data(__file__)).hexdigest(), __version__)
    paths = [os.path.join(folder, name) for folder, _, names in os.walk(top) for name in names if name.endswith(".py")]
    digests = {path: hashlib.sha256(loader.get_data(path)).hexdigest() for path in paths}
    modules = {path: path[len(top) + 1 : -3].replace(os.sep, ".") for path in paths}
    return tuple(sorted(f"metier.scan.{modules[path]} {digests[path]}" for path in paths))


@functools.cache
def digest_of(module: ModuleType | None) -> str:
    """The digest of a module's file, which may lie in an archive; empty where there is none."""
    try:
        return hashlib.sha256(module.__loader__.get_data(module.__file__)).hexdigest()  # type: ignore
    except (OSError, AttributeError, TypeError):
        return ""
