"""Listing modes: how much of a skill models are shown, set by patterns of names in policy files and programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from metier._lazy import dataclass
from metier.errors import InvalidArgument
from metier.skill.names import may_name, names_skill

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Self

ListingMode: TypeAlias = Literal["pinned", "listed", "name-only", "manual", "off"]
MODES: tuple[ListingMode, ...] = get_args(ListingMode)
"""From the loosest to the strictest.

`pinned`: always in the catalog with its description. `listed`: as the budget allows. `name-only`: by its name, and
found by search. `manual`: only a person may start it. `off`: as good as absent.
"""
PREFERENCES = ("pinned", "listed")
"""The modes that keep nothing from anybody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingRule:
    """One line of a listing: a pattern of skills, and their mode."""

    pattern: str
    mode: ListingMode
    origin: object = None
    """The place that it stands in: a policy file with its line, or the program."""

    def __str__(self) -> str:
        return self.mode if self.origin is None else f"{self.mode}, set by {self.origin}"

    @property
    def is_strict(self) -> bool:
        """Whether it keeps something from models."""
        return self.mode not in PREFERENCES

    @property
    def is_wide(self) -> bool:
        """Whether it stands for more than one name."""
        return "*" in self.pattern

    @property
    def _precision(self) -> tuple[bool, bool, int]:
        return (not self.is_wide, "@" in self.pattern, len(self.pattern.replace("*", "")))


class Listings:
    """The listing modes of all policy files and of a program, the strongest layer first.

    In one layer the most precise pattern counts, so that `{"*": name-only, pdf: listed}` means what it says. Between
    layers the strictest of name-only, manual and off counts. Pinned and listed are preferences: the more precise
    pattern counts, and of equals the closest layer.

    >>> listings = Listings.of({"*": "name-only", "pdf": "pinned"})
    >>> listings.mode("pdf"), listings.mode("csv")
    ('pinned', 'name-only')
    """

    def __init__(self, layers: Iterable[Sequence[ListingRule]] = ()) -> None:
        self.layers = tuple(tuple(layer) for layer in layers if layer)

    @classmethod
    def of(cls, listing: Mapping[str, ListingMode] | Self | None, origin: object = "listing=") -> Listings:
        """The listings that a program gives; raises `InvalidArgument` for what is no mapping from names to modes."""
        if isinstance(listing, Listings):
            return listing
        if listing is None:
            return Listings()
        hint = f'Write listing={{"pdf-forms": "pinned"}}; modes are {", ".join(MODES)}.'
        if not hasattr(listing, "items"):
            raise InvalidArgument("`listing` is no mapping.", hint=hint)
        for pattern, mode in listing.items():
            if not isinstance(pattern, str) or mode not in MODES:
                raise InvalidArgument(f"`listing` has {pattern!r:.80}: {mode!r:.40}.", hint=hint)
        return cls([[ListingRule(pattern=name, mode=mode, origin=origin) for name, mode in listing.items()]])

    def __bool__(self) -> bool:
        return bool(self.layers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Listings) and self.layers == other.layers

    def __hash__(self) -> int:
        return hash(self.layers)

    def __add__(self, closer: Listings) -> Listings:
        return Listings((*self.layers, *closer.layers)) if closer else self

    def rule_for(self, name: str, source: str = "") -> ListingRule | None:
        """The rule that counts for a skill; None where no layer has an opinion."""
        found = [rule for layer in self.layers if (rule := _counting(layer, name, source)) is not None]
        strict = [rule for rule in found if rule.is_strict]
        if strict:
            return max(strict, key=_strictness)
        return max(reversed(found), key=lambda rule: rule._precision, default=None)

    def mode(self, name: str, source: str = "") -> ListingMode:
        """The mode of a skill."""
        rule = self.rule_for(name, source)
        return "listed" if rule is None else rule.mode

    def pins(self, skills: Iterable[tuple[str, str]]) -> Iterator[str]:
        """The names that patterns pin, those of the closest layer first; some may be restricted all the same.

        `skills` are names with their sources, which are looked at for patterns with a `*` alone.
        """
        pins = [rule for layer in reversed(self.layers) for rule in layer if rule.mode == "pinned"]
        known = list(skills) if any(rule.is_wide for rule in pins) else []
        for rule in pins:
            name, _, source = rule.pattern.partition("@")
            meant = [one for one in known if names_skill(rule.pattern, *one)] if rule.is_wide else [(name, source)]
            for name, source in meant:
                if self.mode(name, source) != "listed":
                    yield name if rule.is_wide else rule.pattern


def _counting(layer: Sequence[ListingRule], name: str, source: str) -> ListingRule | None:
    """The rule of one layer that counts for a skill."""
    named = [rule for rule in layer if names_skill(rule.pattern, name, source)]
    precise = max(named, key=lambda rule: (rule._precision, _strictness(rule)), default=None)
    # A name that imitates another has nothing of what that one is given, and all that is kept from it.
    alike = [rule for rule in layer if rule.is_strict and rule not in named and may_name(rule.pattern, name, source)]
    return max(([precise] if precise is not None else []) + alike, key=_strictness, default=None)


def _strictness(rule: ListingRule) -> int:
    return MODES.index(rule.mode)
