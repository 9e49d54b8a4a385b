"""The scanner's own rules, a module for each family of threats.

They are written from the threats, not from samples: a rule looks at what is done (something is fetched and run, a
secret is read and sent), where it leads, and how it is said, as something to do or as something to look out for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.scan.rules import (
    abroad,
    agentfiles,
    archives,
    backdoor,
    bounds,
    concealment,
    consent,
    covert,
    defences,
    delivery,
    destruction,
    disclosure,
    encoding,
    entrusted,
    exfiltration,
    favours,
    fetched,
    followers,
    gathered,
    handover,
    hoards,
    injection,
    integrity,
    lettering,
    obeyed,
    orders,
    papers,
    payloads,
    persistence,
    prerequisites,
    recorded,
    relayed,
    remote,
    sinks,
    skimming,
    spying,
    squatting,
    strangers,
    supply,
    trading,
    tunnels,
    unseen,
    watchdogs,
)
from metier.scan.rules.together import with_sum

if TYPE_CHECKING:
    from metier.scan.rule import ScanRule

_FAMILIES = (
    delivery, prerequisites, archives, encoding, payloads, exfiltration, handover, abroad, relayed, hoards, fetched,
    sinks, disclosure, entrusted, gathered, papers, recorded, injection, consent, concealment, covert, unseen,
    agentfiles, bounds, remote, obeyed, orders, persistence, backdoor, tunnels, spying, defences, watchdogs, supply,
    squatting, integrity, favours, trading, skimming, followers, destruction, lettering, strangers,
)  # fmt: skip

ALL_RULES: tuple[ScanRule, ...] = with_sum(tuple(rule for family in _FAMILIES for rule in family.RULES))
"""Every rule about what a skill says, in the order in which they are applied."""

__all__ = ["ALL_RULES"]
