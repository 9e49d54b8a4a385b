"""Whether the `allowed-tools` of a skill restrict calls, by the place that the skill comes from.

Other clients read the field as "approved in advance". In their folders it is advisory by default: a call outside of
the list is recorded as such and not refused. Everywhere else it is enforced. In neither case does it grant anything.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from metier.guard.policy.value_types import Kind, Located
from metier.library.places import LAYERS, copied_into
from metier.skill import shown
from metier.skill.patterns import glob_matches
from metier.source import FolderSource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.guard.policy.effective import EffectivePolicy
    from metier.guard.policy.reader import At
    from metier.guard.policy.yaml_tree import Node
    from metier.library import Place

SETTING = "tools.allowed-tools"
"""The key of policy files that decides about it."""
WORDS = ("advisory", "enforced")


@dataclass(frozen=True, slots=True, kw_only=True)
class Enforcement:
    """The effect of the `allowed-tools` of the skills of a place, and its reason."""

    word: Literal["advisory", "enforced"]
    because: str
    """A sentence without its full stop."""

    @property
    def is_advisory(self) -> bool:
        """Whether calls outside of the list are recorded and not refused."""
        return self.word == "advisory"

    def as_dict(self) -> dict[str, str]:
        """It as JSON has it."""
        return {"enforcement": self.word, "because": self.because}

    def __str__(self) -> str:
        return f"{self.word}: {self.because}"


class EnforcementMap(Kind["dict[str, Located]"]):
    """A map from layers, sources or folders to `advisory` or `enforced`; a weaker file only enforces."""

    example = '{plugin: advisory, ".claude/skills": enforced}'

    def read(self, at: At, node: Node) -> dict[str, Located] | None:
        """All of the map; what cannot be read is enforced."""
        found: dict[str, Located] = {}
        for pattern, value in at.pairs(node, self.example):
            inner = at.below(pattern)
            word = value.text if value.kind == "text" else ""
            if word not in WORDS:
                inner.wrong(value, f"Write one of {', '.join(WORDS)}.")
                word = WORDS[-1]
            elif word == "advisory" and pattern == "enterprise" and at.reading.layer != "enterprise":
                message = "Only an enterprise file makes the lists of enterprise skills advisory"
                at.warning(value.line, message, "Take it out.")
                continue
            if pattern not in found or word == "enforced":
                found[pattern] = Located(word, inner.origin(value))
        return found

    def tighten(self, base: dict[str, Located], value: dict[str, Located]) -> tuple[dict[str, Located], str]:
        """All that either enforces; nothing becomes advisory that the stronger layer does not make so."""
        enforced = {pattern: own for pattern, own in value.items() if own.text == "enforced"}
        loosening = [one for one in value if one not in enforced and (one not in base or base[one].text != "advisory")]
        lost = f"it cannot make {shown(loosening[0])!r} advisory" if loosening else ""
        # What is enforced already keeps the line that said so first.
        kept = {pattern: own for pattern, own in base.items() if own.text == "enforced"}
        return base | enforced | kept, lost

    def shown(self, value: dict[str, Located]) -> object:
        """Pattern to word."""
        return {pattern: one.text for pattern, one in value.items()}


def enforcement_of(
    place: Place, effective: EffectivePolicy, program: Mapping[str, str], folder: str = ""
) -> Enforcement:
    """The enforcement in a place, or for the skill of a folder in it: the strictest of all entries that fit the place.

    A copy that `metier sync` made in another client's folder is no skill of that client.
    """
    found: tuple[str, Located] | None = None
    entries = [*effective.allowed_tools.items(), *((pattern, Located(word)) for pattern, word in program.items())]
    for pattern, one in entries:
        if one.text == "advisory":
            # What administrators deploy is restricted unless they say otherwise themselves.
            counts = place.layer != "enterprise" or (one.origin is not None and one.origin.layer == "enterprise")
        else:
            counts = one.origin is None or effective.mode == "enforce"
        is_stricter = found is None or (found[1].text, one.text) == WORDS
        if counts and is_stricter and _fits(pattern, place):
            found = (pattern, one)
    if found is not None:
        pattern, one = found
        where = str(one.origin) if one.origin is not None else "the program's policy"
        because = f"{SETTING} says so for {shown(pattern)!r} ({where})"
        return Enforcement(word="advisory" if one.text == "advisory" else "enforced", because=because)
    if not place.client:
        return Enforcement(word="enforced", because=f"{SETTING} says nothing else")
    if folder and isinstance(place.source, FolderSource) and folder in copied_into(place.source.root):
        return Enforcement(word="enforced", because="it is a copy that `metier sync` made of a skill from elsewhere")
    because = f"its folder belongs to {place.client}, and {SETTING} says nothing else"
    return Enforcement(word="advisory", because=because)


def _fits(pattern: str, place: Place) -> bool:
    """Whether a pattern is about a place: its layer, the name of its source, or a folder where it has a slash."""
    if pattern in LAYERS:
        return place.layer == pattern
    if "/" not in pattern:
        return glob_matches(pattern, place.name or place.source.name)
    if not isinstance(place.source, FolderSource):
        return False
    root = os.path.abspath(place.source.root).replace(os.sep, "/")
    wanted = os.path.expanduser(pattern).replace(os.sep, "/").rstrip("/")
    return glob_matches(wanted if wanted.startswith("/") else f"*/{wanted}", root)
