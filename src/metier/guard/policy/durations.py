"""Durations as people write them: `12h`, `7d`, `180d`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from metier.errors import InvalidArgument

_DURATION = re.compile(r"([0-9]{1,6}) ?([smhdw])", re.ASCII).fullmatch
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def seconds_of(text: str) -> int | None:
    """The seconds of a duration such as `12h` or `180d`; None for zero and for anything else.

    >>> seconds_of("90m"), seconds_of("2w"), seconds_of("0d"), seconds_of("soon")
    (5400, 1209600, None, None)
    """
    found = _DURATION(text.strip())
    return int(found[1]) * _SECONDS[found[2]] or None if found else None


def as_duration(seconds: int) -> str:
    """Seconds as a person would write them.

    >>> as_duration(15_552_000), as_duration(5_400)
    ('180d', '90m')
    """
    unit = next(unit for unit in "dhms" if seconds % _SECONDS[unit] == 0)
    return f"{seconds // _SECONDS[unit]}{unit}"


def moment_of(text: str | None) -> str | None:
    """A time, or a time ago, in the form that records have; raises `InvalidArgument` for anything else.

    >>> moment_of("2026-01-31T12:00+01:00")
    '2026-01-31T11:00:00.000+00:00'
    """
    if text is None:
        return None
    seconds = seconds_of(text)
    try:
        moment = datetime.now(UTC) - timedelta(seconds=seconds) if seconds else datetime.fromisoformat(text)
        return moment.astimezone(UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        raise InvalidArgument(
            f"{text!r:.100} is no time.", hint="Write 2026-01-31, 2026-01-31T12:00+00:00, or how long ago: 90m, 2h, 7d."
        ) from None
