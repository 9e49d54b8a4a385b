"""The packs of rules that a command line names or a policy switches on, and their rules as they are written."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import metier.source
from metier._lazy import replace
from metier.cli.output import print_warning
from metier.scan.finding import rank
from metier.scan.pack import CORE, digest_of, entries_of, files_of
from metier.scan.pack_store import PackRef, pack_rules
from metier.scan.ruleset import all_rules, usable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from metier.cli.parser import Parser
    from metier.scan.pack import PackFile
    from metier.scan.rule import ScanRule


class ListedRule(NamedTuple):
    """A rule, with where it comes from and its entry in a file."""

    rule: ScanRule
    pack: str
    """The name of its pack; `core` for our own."""
    file: str = ""
    line: int = 0
    entry: dict[str, Any] = {}  # noqa: RUF012  (nobody writes into it)
    """As its pack says."""

    def as_json(self) -> dict[str, Any]:
        rule = self.rule
        return {
            "id": rule.id,
            "title": rule.title,
            "severity": rule.severity,
            "pack": self.pack,
            "category": rule.category,
            "ast": rule.ast,
            "message": rule.message,
            "hint": rule.hint,
            "harmless": rule.harmless,
            "file": self.file,
            "line": self.line,
        }


def add_option(parser: Parser) -> None:
    """Add `--rules`."""
    about = "also apply the rules of this folder, or of this installed package; may be given again"
    parser.option("--rules", "DIR", about, action="append", default=[], dest="packs")


def named_pack(name: str) -> PackRef:
    """The pack of a folder, or of an installed package, held to the content that it has now; raises `RulesInvalid`."""
    pack = PackRef(package=name)
    if not name.isidentifier() or os.path.isdir(name):
        pack = PackRef(folder=os.path.abspath(metier.source.expanded(name)))
    return replace(pack, digest=digest_of(pack.files()))


def named_packs(names: Sequence[str]) -> tuple[PackRef, ...]:
    """The packs of `--rules`; raises `RulesInvalid` where one cannot be used."""
    packs = tuple(named_pack(name) for name in names)
    all_rules(packs)
    return packs


def policy_packs() -> tuple[PackRef, ...]:
    """The packs that policy switches on here."""
    from metier.guard.policy.files import Policies

    return Policies.discover().current().scan.packs


def chosen_packs(names: Sequence[str]) -> tuple[PackRef, ...]:
    """The packs of policy and of `--rules`; who tries a changed copy of a pack of policy has the copy stand in for it.

    That is for the one command: policy decides with the pack that it names.
    """
    named = named_packs(names)
    ids = _ids_of(*named)
    chosen = []
    for pack in policy_packs():
        if pack not in named and not ids.isdisjoint(_ids_of(*usable((pack,))[0])):
            print_warning(f"{pack.place} is left out here: --rules names a pack with the same rules.")
        else:
            chosen.append(pack)
    return (*chosen, *named)


def _ids_of(*packs: PackRef) -> set[str]:
    return {rule.id for rule in pack_rules(packs, frozenset())}


def known_packs(names: Sequence[str]) -> tuple[PackRef, ...]:
    """Those of the same packs that can be read; of others it is told why not."""
    good, problems = usable(chosen_packs(names))
    for problem in problems:
        print_warning(problem)
    return good


def policy_problem() -> str:
    """The reason why nobody knows which packs policy switches on; empty where that is known."""
    from metier.guard.policy.files import Policies

    errors = Policies.discover().current().errors
    told = f"A policy file cannot be used, so the packs that it names were not applied: {errors[0]}" if errors else ""
    return f"{told} `metier policy check` says more." if told else ""


def listed_rules(packs: Iterable[PackRef]) -> list[ListedRule]:
    """Our own rules and those of packs, the gravest first; raises `RulesInvalid` where a pack cannot be used."""
    found = list(_of("core", os.fspath(CORE), files_of(CORE), all_rules()))
    all_rules(tuple(packs))
    for pack in dict.fromkeys(packs):
        found += _of(pack.name, pack.place, pack.files(), pack_rules((pack,), frozenset()))
    unique = {(one.rule.id, one.rule.source): one for one in found}
    return sorted(unique.values(), key=lambda one: (-rank(one.rule.severity), one.rule.id))


def _of(pack: str, folder: str, files: tuple[PackFile, ...], rules: Iterable[ScanRule]) -> Iterator[ListedRule]:
    entries = entries_of(files, is_core=pack == "core").rules
    for rule in rules:
        entry = entries.get(rule.id, {})
        file = os.path.join(folder, *entry["file"].split("/")) if entry else ""
        yield ListedRule(rule, pack, file, entry.get("line", 0), entry)
