"""Bodies and answers: what both have in common, and the texts that several of them have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, TypeVar

from fastapi import Body, Depends, Request
from pydantic import BaseModel, ConfigDict, Field

from metier.guard.approvals.requests import MAX_REASON
from metier.serve.api.pages import Paging, ResultPage, page_of
from metier.serve.api.problems import ProblemError

Item = TypeVar("Item", bound=BaseModel)


class ApiAnswer(BaseModel):
    """An answer that is made of an object with the same attributes."""

    model_config = ConfigDict(from_attributes=True)


class ApiBody(BaseModel):
    """A body that has nothing but what is described."""

    model_config = ConfigDict(extra="forbid")


class Reason(ApiBody):
    """A body with a reason alone."""

    reason: Annotated[str, Field(min_length=1, max_length=MAX_REASON, pattern=r"\S")]


Duration = Annotated[
    str, Field(max_length=8, pattern=r"^[0-9]{1,6}[smhdw]$", description="So long, such as `12h` or `30d`.")
]

_ARCHIVE_TYPES = ("application/gzip", "application/zip", "application/x-gzip", "application/octet-stream")


def _upload(request: Request, body: Annotated[bytes, Body(media_type="application/gzip")]) -> bytes:
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind not in _ARCHIVE_TYPES:
        raise ProblemError(
            415, "unsupported-media-type", "An upload is an archive.", hint=f"Send one of {', '.join(_ARCHIVE_TYPES)}."
        )
    return body


UploadOf = Annotated[bytes, Depends(_upload)]
"""The archive that a request has as its body."""


def sorted_page(
    model: type[Item], found: Iterable[Any], paging: Paging, *keys: str, newest_first: bool = False
) -> ResultPage[Item]:
    """A page of answers, in the order of these attributes."""

    def key(one: Any) -> tuple[str | int, ...]:
        return tuple(getattr(one, name) for name in keys)

    items, following = page_of(sorted(found, key=key, reverse=newest_first), paging, key, newest_first=newest_first)
    return ResultPage(items=[model.model_validate(one) for one in items], next=following)
