"""Names that a skill gives to places: where "the almanac" is a file of keys, a sentence on it is one on the keys."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier._regex_cache import kept_regex
from metier.scan.name_lists import sense

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metier.scan.statement import Statement

_MOST = 12
_MAX_LENGTH = 400
_MARKS = kept_regex(r"://|~/|\$home/|\.(?:env|aws|ssh)\b")


def put_in(statements: Iterable[Statement]) -> None:
    """Write the place after each name that the prose of a skill gives to one, in sentences that say only the name."""
    prose = [one for one in statements if one.kind in ("prose", "row") and len(one.text) <= _MAX_LENGTH]
    lows = [one.low for one in prose]
    defining = [low for low in lows if ("/" in low or ".env" in low) and _MARKS.search(low) is not None]
    found = [pair for low in defining for pair in sense("definitions-by-name").findall(low)]
    found += [(name, place) for low in defining for place, name in sense("definitions-by-place").findall(low)]
    places: dict[str, str] = {}
    for name, place in found[:_MOST]:
        places.setdefault(name, place.rstrip(".,;:"))
    if not places:
        return
    named = re.compile(rf"\bthe ({'|'.join(sorted(map(re.escape, places), key=len, reverse=True))})\b")
    for one in prose:
        said = named.search(one.low)
        if said is not None and (place := places[said[1]]) not in one.low:
            one.text = f"{one.text[: said.end()]} ({place}){one.text[said.end() :]}"
            one.low = one.text.lower()
