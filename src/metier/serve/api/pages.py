"""Lists in pages, and answers that are not sent again to who has them."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Annotated, Generic, TypeVar

from fastapi import Depends, Query, Request, Response
from pydantic import BaseModel

from metier._lazy import dataclass
from metier.serve.api.problems import ProblemError

Item = TypeVar("Item")
MAX_PAGE = 200
_MAX_CURSOR = 2_000


class ResultPage(BaseModel, Generic[Item]):
    """A part of a list."""

    items: list[Item]
    next: str | None = None
    """The cursor of the next page; null at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paging:
    """The part of a list that a request wants."""

    limit: int
    after: tuple[str | int, ...] | None
    """The key of the last item of the page before; None for the first page."""


def _paging(
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE, description="The most items.")] = 50,
    cursor: Annotated[str | None, Query(max_length=_MAX_CURSOR, description="`next` of the page before.")] = None,
) -> Paging:
    return Paging(limit=limit, after=None if cursor is None else _parse(cursor))


PagingOf = Annotated[Paging, Depends(_paging)]


def page_of(
    items: Iterable[Item], paging: Paging, key: Callable[[Item], tuple[str | int, ...]], *, newest_first: bool = False
) -> tuple[list[Item], str | None]:
    """The items of a page, and the cursor of the next one; `items` are in the order of their keys."""
    found: list[Item] = []
    for item in items:
        if paging.after is not None and not _comes_after(key(item), paging.after, newest_first):
            continue
        if len(found) == paging.limit:
            return found, cursor_of(key(found[-1]))
        found.append(item)
    return found, None


def _comes_after(one: tuple[str | int, ...], last: tuple[str | int, ...], newest_first: bool) -> bool:
    try:
        return one < last if newest_first else one > last
    except TypeError:
        raise bad_cursor() from None


def cursor_of(key: tuple[str | int, ...]) -> str:
    """The cursor behind an item with this key.

    >>> _parse(cursor_of(("a", 1)))
    ('a', 1)
    """
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


def _parse(cursor: str) -> tuple[str | int, ...]:
    try:
        found = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (ValueError, RecursionError):
        raise bad_cursor() from None
    if not isinstance(found, list) or not all(type(one) in (str, int) for one in found):
        raise bad_cursor()
    return tuple(found)


def bad_cursor() -> ProblemError:
    """The problem of a cursor that was not `next` of a page of this list."""
    return ProblemError(422, "invalid-cursor", "That is no cursor.", hint="Take `next` of the page before.")


def etag_of(data: bytes | str) -> str:
    """The entity tag of a content."""
    return f'"{hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()[:32]}"'


def conditional(request: Request, response: Response) -> Response:
    """An answer with its entity tag; 304 without a body to who has that already."""
    if "ETag" not in response.headers:
        response.headers["ETag"] = etag_of(bytes(response.body))
    tag = response.headers["ETag"]
    response.headers.setdefault("Cache-Control", "private, no-cache")
    known = {one.strip().removeprefix("W/") for one in request.headers.get("If-None-Match", "").split(",")}
    if tag not in known and "*" not in known:
        return response
    kept = {name: response.headers[name] for name in ("ETag", "Cache-Control", "Vary") if name in response.headers}
    return Response(status_code=304, headers=kept)
