"""Prices of models: what a request came to, and the most that one can come to before it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier._lazy import dataclass

if TYPE_CHECKING:
    from pydantic_ai.models import Model
    from pydantic_ai.usage import RequestUsage

MARGIN = 2_000
"""The tokens that a provider may add to a request beside the bytes that we know of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPrice:
    """A price of one's own, in US dollars for a million tokens.

    >>> from pydantic_ai.usage import RequestUsage
    >>> ModelPrice(input=3, output=15).of(RequestUsage(input_tokens=1_000, output_tokens=100))
    0.0045
    """

    input: float
    output: float

    def of(self, usage: RequestUsage) -> float | None:
        """The price of a request; None where its usage is not known."""
        if not usage.total_tokens:
            return None
        return (usage.input_tokens * self.input + usage.output_tokens * self.output) / 1_000_000


FREE = ModelPrice(input=0.0, output=0.0)


def price_of(model: Model, usage: RequestUsage, own: ModelPrice | None = None) -> float | None:
    """The price of a request to a model, by a price of one's own or by genai-prices; None where nobody knows it."""
    if own is FREE:
        return 0.0
    if own is not None:
        return own.of(usage)
    from genai_prices import calc_price

    try:
        found = calc_price(usage, model.model_name, provider_id=model.system) if usage.total_tokens else None
    except LookupError:
        return None
    return None if found is None else float(found.total_price)


def worst_price(model: Model, size: int, output: int, own: ModelPrice | None = None) -> float | None:
    """The most that a request of so many bytes and its answer can cost: no token is less than a byte."""
    from pydantic_ai.usage import RequestUsage

    return price_of(model, RequestUsage(input_tokens=size + MARGIN, output_tokens=output), own)
