"""Listing skills by what they are called and where they are, without ranking them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from metier._lazy import dataclass
from metier.errors import InvalidArgument
from metier.library import LAYERS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from metier.library import Entry, Layer


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The criteria of a list of skills. A criterion that is None or empty restricts nothing.

    >>> from metier import Library
    >>> library = Library.from_files({"SKILL.md": "---\\nname: devops\\ndescription: Ships.\\n---\\nShip it."})
    >>> [entry.name for entry in library.select(contains="DEV")]
    ['devops']
    """

    contains: str = ""
    """Text that the name or a tag contains, in any case."""
    name_prefix: str = ""
    location_prefix: str = ""
    names: Collection[str] | None = None
    """An allow-list; an empty one allows nothing."""
    layers: Collection[Layer] = ()
    sources: Collection[str] = ()
    inserts: Collection[Literal["instructions", "user-message"]] = ()
    activity: Literal["any", "active", "inactive"] = "any"
    active: Collection[str] | None = None
    """Names that a session has loaded; None when there is no session."""

    def __post_init__(self) -> None:
        if self.activity not in ("any", "active", "inactive"):
            raise InvalidArgument(
                f"{self.activity!r} is no activity.", hint="Skills are listed as any, active or inactive."
            )
        if self.activity == "active" and self.active is None:
            raise InvalidArgument("Active skills are those of a session.", hint="Say which names a session has loaded.")
        unknown = [layer for layer in self.layers if layer not in LAYERS]
        if unknown:
            raise InvalidArgument(f"There is no layer {unknown[0]!r}.", hint=f"Layers are {', '.join(LAYERS)}.")

    def of(self, entries: Iterable[Entry]) -> tuple[Entry, ...]:
        """The selected entries, by name and then location."""
        chosen = [entry for entry in entries if self._admits(entry)]
        return tuple(sorted(chosen, key=lambda entry: (entry.name, entry.location)))

    def _admits(self, entry: Entry) -> bool:
        name = entry.name
        if self.names is not None and name not in self.names:
            return False
        if not name.startswith(self.name_prefix):
            return False
        if self.activity != "any" and (name in (self.active or ())) != (self.activity == "active"):
            return False
        if self.layers and entry.layer not in self.layers:
            return False
        if self.sources and entry.source not in self.sources:
            return False
        if self.location_prefix and not entry.location.startswith(self.location_prefix):
            return False
        if self.contains and not self._has_part(entry):
            return False
        return not self.inserts or entry.skill.insert in self.inserts

    def _has_part(self, entry: Entry) -> bool:
        part = self.contains.casefold()
        return part in entry.name.casefold() or any(part in tag.casefold() for tag in entry.skill.tags)
