"""Durations as people write them: `30s`, `1.5 m`, `500ms`."""

from __future__ import annotations

import re

_DURATION = re.compile(r"\s{0,100}([0-9]{1,9})(?:\.([0-9]{1,9}))?\s{0,100}(ms|s|m)\s{0,100}", re.IGNORECASE | re.ASCII)
_MILLISECONDS = {"ms": 1, "s": 1_000, "m": 60_000}


def milliseconds(text: str | None) -> int | None:
    """The milliseconds of a duration, or None when the text is none.

    >>> milliseconds("1.5s"), milliseconds(" 1m "), milliseconds("30")
    (1500, 60000, None)
    """
    found = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return None
    whole, part, unit = found.groups()
    factor = _MILLISECONDS[unit.lower()]
    # In whole numbers: 2.3 seconds are not 2299 milliseconds.
    return int(whole) * factor + int(part or 0) * factor // int("1" + "0" * len(part or ""))
