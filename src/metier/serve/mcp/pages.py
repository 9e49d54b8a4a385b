"""Long lists in pages: a cursor says behind which name the next page begins."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, TypeVar

from metier.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")

PAGE = 100
_MARK = b"after:"


def place_of(cursor: str | None) -> str:
    """The name that a page comes after; raises for a cursor that was not given out.

    >>> place_of(cursor_after("pdf-forms"))
    'pdf-forms'
    """
    if cursor is None:
        return ""
    try:
        read = base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True)
        if not read.startswith(_MARK):
            raise ValueError
        return read.removeprefix(_MARK).decode()
    except (ValueError, binascii.Error):
        raise InvalidArgument(
            "That is no cursor of this list.", hint="Begin without one, and pass on the nextCursor of each page."
        ) from None


def cursor_after(name: str) -> str:
    """The cursor for what comes after a name."""
    return base64.urlsafe_b64encode(_MARK + name.encode()).decode()


def page_of(
    items: Iterable[tuple[str, T]], size: int = PAGE, *, weight: Callable[[T], int] = lambda item: 1
) -> tuple[list[T], str | None]:
    """The first items, which come by name, and the cursor for the rest where there is any.

    A page holds items of `size` in all, and at least one.

    >>> page_of([("a", 1), ("b", 2)], 2)
    ([1, 2], None)
    """
    found: list[T] = []
    last = ""
    for name, item in items:
        size -= weight(item)
        if found and size < 0:
            return found, cursor_after(last)
        found.append(item)
        last = name
    return found, None
