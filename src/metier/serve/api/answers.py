"""Bodies and answers: what both have in common, and the texts that several of them have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from metier.guard.approvals.requests import MAX_REASON
from metier.serve.api.pages import Paging, ResultPage, page_of

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


def sorted_page(
    model: type[Item], found: Iterable[Any], paging: Paging, *keys: str, newest_first: bool = False
) -> ResultPage[Item]:
    """A page of answers, in the order of these attributes."""

    def key(one: Any) -> tuple[str | int, ...]:
        return tuple(getattr(one, name) for name in keys)

    items, following = page_of(sorted(found, key=key, reverse=newest_first), paging, key, newest_first=newest_first)
    return ResultPage(items=[model.model_validate(one) for one in items], next=following)
