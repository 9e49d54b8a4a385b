"""Which rules there are, and a name for all that they look for, which tells whether an earlier report still holds."""

from __future__ import annotations

import functools
import hashlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from metier.scan.rule import ScanRule

_RULES = "metier.scan.rules"
ENGINE = (
    "metier.scan.autorun",
    "metier.scan.decoding",
    "metier.scan.finding",
    "metier.scan.magic",
    "metier.scan.parts",
    "metier.scan.reading",
    "metier.scan.rule",
    "metier.scan.scanner",
    "metier.scan.structure",
    "metier.scan.view",
)
"""What decides, besides the rules' own modules, what is found in a skill."""


def all_rules() -> tuple[ScanRule, ...]:
    """Every rule: those about text and those about the structure of a package."""
    from metier.scan.rules import ALL_RULES
    from metier.scan.structure import RULES

    return (*RULES, *ALL_RULES)


def ruleset_of(rules: Sequence[ScanRule]) -> str:
    """A digest of the rules and of the code that they and the engine consist of.

    It is the same wherever the same version is installed, and another one as soon as a pattern changes.

    >>> ruleset_of(all_rules()) == ruleset_of(all_rules()[::-1]), ruleset_of(all_rules()) == ruleset_of(())
    (True, False)
    """
    return _named(tuple(rules))


@functools.lru_cache(maxsize=8)
def _named(rules: tuple[ScanRule, ...]) -> str:
    modules = {*ENGINE, *(rule.check.__module__ for rule in rules)}
    if any(name.startswith(_RULES) for name in modules):
        # Rules share what they are made of: whichever of them is asked for, all of it counts.
        modules.update(name for name in tuple(sys.modules) if name.startswith(_RULES))
    code = (f"{name} {digest_of(sys.modules.get(name))}" for name in sorted(modules))
    said = "\n".join((*sorted(f"{rule.id} {rule.severity}" for rule in rules), *code))
    return f"sha256:{hashlib.sha256(said.encode()).hexdigest()}"


@functools.cache
def digest_of(module: ModuleType | None) -> str:
    """The digest of a module's file, which may lie in an archive; empty where there is none."""
    read = getattr(getattr(module, "__loader__", None), "get_data", None)
    path = getattr(module, "__file__", None)
    if read is None or path is None:
        return ""
    try:
        return hashlib.sha256(read(path)).hexdigest()
    except OSError:
        return ""
