"""Sets of statements as numbers: bit N stands for statement N of a skill, so that sets are joined at no cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_FEW = 512
_LEAST = 64
"""Places of the first piece of a mask."""


def mask_of(places: Collection[int], size: int) -> int:
    """A number whose bits at these places are set; `size` is how many places there are.

    >>> bin(mask_of([0, 3], 8))
    '0b1001'
    """
    if size <= _FEW:
        mask = 0
        for at in places:
            mask |= 1 << at
        return mask
    bits = bytearray(size // 8 + 1)
    for at in places:
        bits[at >> 3] |= 1 << (at & 7)
    return int.from_bytes(bits, "little")


def places_in(mask: int) -> Iterator[int]:
    """The places whose bits are set, in order.

    >>> list(places_in(0b1001))
    [0, 3]
    """
    first = (mask & -mask).bit_length() - 1
    bits = bin(mask >> first)[:1:-1] if mask else ""
    at = bits.find("1")
    while at >= 0:
        yield first + at
        at = bits.find("1", at + 1)


def pieces(mask: int) -> Iterator[int]:
    """A mask in pieces, each of which has twice as many places as the one before, for who needs only some of them.

    >>> [piece.bit_length() for piece in pieces((1 << 200) - 1)]
    [64, 192, 200]
    >>> list(pieces(0))
    []
    """
    start, size = (mask & -mask).bit_length() - 1, _LEAST
    while mask and mask >> start:
        yield mask & ((1 << size) - 1) << start
        start, size = start + size, size * 2


def spread(mask: int, back: int, ahead: int) -> int:
    """The places that are set, and as many before and behind each of them; some may lie beyond the last place.

    >>> bin(spread(0b00100, 1, 2))
    '0b11110'
    """
    for reach, is_back in ((back, True), (ahead, False)):
        done = 1
        while done <= reach:
            step = min(done, reach + 1 - done)
            mask |= mask >> step if is_back else mask << step
            done += step
    return mask
