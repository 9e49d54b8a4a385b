"""The catalog: what a model is shown of a library, within a budget of bytes that is never exceeded.

A ladder: every skill in full; every skill with a shortened description; else the pinned ones and the most relevant to
the prompt, with the names of all others where those have room, or else what there is by group, the number of skills
that are not listed, and the tool that finds them.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from metier._lazy import dataclass, field
from metier.errors import InvalidArgument
from metier.find.catalog_format import one_line, renderer, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from metier.find.catalog_format import Format, Groups, Renderer
    from metier.find.visibility import Visibility
    from metier.library import Entry

Rung: TypeAlias = Literal["none", "full", "shortened", "chosen"]

MAX_DESCRIPTION = 1_536
"""Letters of a description and of when to use it, together."""
LEAST_DESCRIPTION = 40
"""Bytes of description below which a list of all skills says too little of each."""
GOOD_DESCRIPTION = 90
"""Bytes of description that chosen skills should have before one more is chosen."""
MOST_CHOSEN = 40
_GROUPS_SHARE = 5
"""One part in this many of a budget goes to what else there is."""
_NAMES_SHARE = 2
"""One part in this many of a budget may go to the names of all skills that are not described."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """The text that a model is shown, and the cuts that made it fit.

    >>> from metier import Library
    >>> library = Library.from_files({"SKILL.md": "---\\nname: pdf-forms\\ndescription: Fill forms.\\n---\\nOpen it."})
    >>> print(library.catalog(budget=1024, format="markdown"))
    ## Available skills
    <BLANKLINE>
    - `pdf-forms`: Fill forms.
    """

    text: str
    """The text itself; empty when there is no skill to show."""
    budget: int
    rung: Rung
    shown: tuple[str, ...] = ()
    """Names in the order in which they appear."""
    shortened: tuple[str, ...] = ()
    """Names of those whose descriptions were cut."""
    named: tuple[str, ...] = ()
    """Names that appear without a description: because of their listing mode, or for want of room."""
    left_out: int = 0
    """The number of skills that do not appear, for want of room."""
    withheld: Mapping[str, str] = field(default_factory=dict)
    """Names of skills that are not for models or cannot work here, with the reason."""
    unplaced_pins: Mapping[str, str] = field(default_factory=dict)
    """Pinned names that do not appear, with the reason."""

    def __str__(self) -> str:
        return self.text

    def __bool__(self) -> bool:
        return bool(self.text)

    @property
    def size(self) -> int:
        """Bytes of the text."""
        return len(self.text.encode())


class CatalogWriter:
    """Lines within a budget, for one format."""

    def __init__(
        self,
        format: Format,  # noqa: A002
        budget: int,
        tool: str | None,
        *,
        mount: str = "",
    ) -> None:
        if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
            raise InvalidArgument(f"A budget of {budget!r} bytes cannot be.", hint="Give a number of bytes.")
        self._renderer: Renderer = renderer(format)
        self.budget = budget
        self.tool = one_line(tool or "")
        self._mount = mount
        self._bare = len(self._renderer.record("", "").encode())

    def whole(self, lines: Iterable[str]) -> str:
        """The text of all lines."""
        return self._renderer.whole(lines)

    @property
    def most_cards(self) -> int:
        """More skills than there can be room for, or than anybody would read."""
        return min(MOST_CHOSEN, 2 + self.budget // GOOD_DESCRIPTION)

    def fits(self, lines: Sequence[str]) -> bool:
        """Whether lines are within the budget."""
        return len(self.whole(lines).encode()) <= self.budget

    def size(self, line: str) -> int:
        """The bytes of a line with its end."""
        return len(line.encode()) + 1

    def record(self, card: CatalogItem, most: int | None = None) -> str:
        """The line of a skill, with at most so many bytes of description."""
        description = card.description
        if most is not None:
            size = self._description_size
            description = shortened(description, most, size)
            if card.short and size(card.description) > most:
                brief = shortened(card.short, most, size)
                description = brief if size(card.short) <= most or not description else description
        # Never the place of its files on this machine: whoever reads the catalog may be kept from that.
        return self._renderer.record(card.name, description, f"{self._mount}/{card.name}" if self._mount else "")

    def rest(self, total: int, groups: Groups, most: int) -> str:
        """The line on what else there is, with as many groups as fit into so many bytes."""
        line = self._renderer.rest(total, ())
        for number in range(1, len(groups) + 1):
            longer = self._renderer.rest(total, groups[:number])
            if self.size(longer) > most:
                break
            line = longer
        return line

    def names(self, names: Sequence[str]) -> list[str]:
        """The line of skills by their names alone; none where there are none."""
        return [self._renderer.names(names, self.tool)] if names else []

    def name_size(self, name: str) -> int:
        """The cost of one more name in that line."""
        return self.size(self._renderer.names(("", name), "")) - self.size(self._renderer.names(("",), ""))

    @property
    def names_room(self) -> int:
        """The most that the names of all skills may cost."""
        return self.budget // _NAMES_SHARE

    def more(self, count: int) -> str:
        """The last line: the number of skills that are not listed."""
        return self._renderer.more(count, self.tool)

    def _description_size(self, description: str) -> int:
        return len(self._renderer.record("", description).encode()) - self._bare


@dataclass(frozen=True, slots=True)
class CatalogItem:
    """One skill as a catalog shows it."""

    name: str
    description: str
    short: str = ""
    is_cut: bool = False
    """Whether the description is longer than any catalog shows."""

    @classmethod
    def of(cls, entry: Entry) -> CatalogItem:
        """The card of a skill."""
        skill = entry.skill
        text = one_line(entry.description)
        if skill.when_to_use and skill.when_to_use not in entry.description:
            text = f"{text} {one_line(skill.when_to_use)}"
        short = skill.metadata.get("short-description")
        if not isinstance(short, str):
            short = entry.openai_metadata.short_description
        return cls(
            entry.name,
            shortened(text, MAX_DESCRIPTION, len),
            one_line(short),
            is_cut=len(text) > MAX_DESCRIPTION,
        )


Fitted: TypeAlias = tuple[CatalogItem, int | None]
"""A card with the most bytes that its description may have; None for all."""


def everything(entries: Iterable[Entry], listed: Visibility, writer: CatalogWriter, least: int) -> Catalog | None:
    """All skills, in full or shortened; None when they do not fit. Stops looking as soon as that is certain."""
    cards: list[CatalogItem] = []
    named: list[str] = []
    smallest = len(writer.whole([]).encode())
    for entry in entries:
        if not listed(entry):
            continue
        if listed.mode(entry) == "name-only":
            named.append(entry.name)
            smallest += writer.name_size(entry.name)
        else:
            card = CatalogItem.of(entry)
            cards.append(card)
            smallest += writer.size(writer.record(card, least))
        if smallest > writer.budget + 1:
            return None
    if not cards and not named:
        return Catalog(text="", budget=writer.budget, rung="none", withheld=dict(listed.withheld))
    tail = writer.names(named)

    def lines(most: int | None) -> list[str]:
        return [*(writer.record(card, most) for card in cards), *tail]

    rung: Rung = "full"
    most: int | None = None
    if not writer.fits(lines(None)):
        rung, most = "shortened", widest(lambda width: writer.fits(lines(width)), least)
        if most is None:
            return None
    return _catalog(
        writer,
        [(card, most) for card in cards],
        lines(most),
        rung=rung,
        named=tuple(named),
        withheld=dict(listed.withheld),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenCatalog:
    """Composes the catalog of a library whose skills do not all fit: pins, and those most relevant to the prompt."""

    writer: CatalogWriter
    pins: Sequence[CatalogItem]
    relevant: Sequence[CatalogItem]
    withheld: Mapping[str, str]
    unplaced: Mapping[str, str]
    """Pinned names that cannot be shown, with the reason."""

    def with_all_names(self, names: Sequence[str]) -> Catalog | None:
        """Pins and the most relevant with descriptions, and all others by their names; None where that does not fit.

        A name costs a tenth of a description, and what a model has never seen the name of it does not look for.
        """
        writer = self.writer
        if not writer.fits(writer.names(names)):
            return None
        stable = _as_many_as_fit(writer, [], self.pins, writer.names(names), writer.name_size)
        before = [writer.record(card, most) for card, most in stable]
        described = {card.name for card, _ in stable}
        rest = writer.names([name for name in names if name not in described])
        picked = _as_many_as_fit(writer, before, self._beside(stable), rest, writer.name_size)
        described |= {card.name for card, _ in picked}
        named = tuple(name for name in names if name not in described)
        return self._composed(stable, before, picked, writer.names(named), named)

    def with_groups(self, named: Sequence[str], total: int, groups: Groups) -> Catalog:
        """Pins, what else there is, and the most relevant: what does not depend on the prompt comes first."""
        writer = self.writer
        rest = writer.rest(total, groups, writer.budget // _GROUPS_SHARE)
        tail = writer.more(total)
        if not writer.fits([rest, tail]):
            rest = writer.rest(total, (), 0)
            if not writer.fits([rest, tail]):
                needed = len(writer.whole([rest, tail]).encode())
                skills = "skill" if total == 1 else "skills"
                raise InvalidArgument(
                    f"A catalog of {total:,} {skills} does not fit into {writer.budget:,} bytes.",
                    hint=f"Give it at least {needed:,}; a few hundred more make it useful.",
                )
        stable = _as_many_as_fit(writer, [], self.pins, [rest, tail])
        before = [*(writer.record(card, most) for card, most in stable), rest]
        # What people want to be seen by name has its line where that leaves most of the budget to descriptions.
        line = writer.names(named)
        if line and (writer.size(line[0]) > writer.budget // _GROUPS_SHARE or not writer.fits([*before, *line, tail])):
            named, line = (), []
        picked = _as_many_as_fit(writer, before, self._beside(stable), [*line, tail])
        left_out = max(0, total - len(stable) - len(picked) - len(named))
        after = [*line, *([writer.more(left_out)] if left_out else [])]
        return self._composed(stable, before, picked, after, tuple(named), left_out)

    def _beside(self, stable: Sequence[Fitted]) -> list[CatalogItem]:
        """The cards that may stand beside the pinned ones; none while a pin has no room."""
        if len(stable) < len(self.pins):
            return []
        names = {card.name for card in self.pins}
        return [card for card in self.relevant if card.name not in names][: self.writer.most_cards]

    def _composed(
        self,
        stable: Sequence[Fitted],
        before: Sequence[str],
        picked: Sequence[Fitted],
        after: Sequence[str],
        named: tuple[str, ...],
        left_out: int = 0,
    ) -> Catalog:
        cards = [*stable, *picked]
        described = {card.name for card, _ in cards}
        no_room = {card.name: "no room" for card in self.pins if card.name not in described}
        return _catalog(
            self.writer,
            cards,
            [*before, *(self.writer.record(card, most) for card, most in picked), *after],
            rung="chosen",
            named=named,
            left_out=left_out,
            withheld=dict(self.withheld),
            unplaced_pins={**self.unplaced, **no_room},
        )


def _catalog(writer: CatalogWriter, cards: Sequence[Fitted], lines: Sequence[str], **facts: Any) -> Catalog:
    """The catalog of lines that were chosen, with what was cut for it."""
    return Catalog(
        text=writer.whole(lines),
        budget=writer.budget,
        shown=tuple(card.name for card, _ in cards),
        shortened=tuple(
            card.name for card, most in cards if card.is_cut or writer.record(card) != writer.record(card, most)
        ),
        **facts,
    )


def _as_many_as_fit(
    writer: CatalogWriter,
    before: list[str],
    cards: Sequence[CatalogItem],
    after: list[str],
    spared: Callable[[str], int] = lambda _: 0,
) -> list[Fitted]:
    """The first cards with descriptions as wide as the budget allows: more of them rather than wider ones.

    `spared` is what a name cost in what comes after, where it need not stand any more.
    """
    room = writer.budget - len(writer.whole([*before, *after]).encode())

    def sizes(count: int, width: int) -> list[int]:
        return [writer.size(writer.record(card, width)) - spared(card.name) for card in cards[:count]]

    count = _first_that_fit(sizes(len(cards), GOOD_DESCRIPTION), room)
    if not count:
        count = _first_that_fit(sizes(len(cards), 0), room)
    most = widest(lambda width: sum(sizes(count, width)) <= room, least=0) or 0
    return [(card, most) for card in cards[:count]]


def _first_that_fit(sizes: Sequence[int], room: int) -> int:
    """The number of the first sizes that fit into the room together."""
    for number, size in enumerate(sizes):
        room -= size
        if room < 0:
            return number
    return len(sizes)


def widest(fits: Callable[[int], bool], least: int) -> int | None:
    """The widest description that fits, or None when not even the least does."""
    widths = range(least, 4 * MAX_DESCRIPTION + 1)
    fitting = bisect.bisect(widths, False, key=lambda width: not fits(width))
    return widths[fitting - 1] if fitting else None


def pinned(
    names: Iterable[str], find: Callable[[str], Entry | None], listed: Visibility
) -> tuple[list[CatalogItem], dict[str, str]]:
    """The cards of pinned skills in their order, and why the others have none."""
    cards: dict[str, CatalogItem] = {}
    unplaced: dict[str, str] = {}
    for name in dict.fromkeys(names):
        entry = find(name)
        if entry is None:
            unplaced[name] = "not found"
        elif not listed(entry):
            unplaced[name] = listed.withheld.get(entry.name, "not among those to show")
        elif listed.mode(entry) == "name-only":
            unplaced[name] = "name-only"
        else:
            cards[entry.name] = CatalogItem.of(entry)
    return list(cards.values()), unplaced
