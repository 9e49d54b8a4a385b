"""Prices of models: of a request before and after it is made, and of the tokens that a record tells of."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

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
            return None if self.input or self.output else 0.0
        return (usage.input_tokens * self.input + usage.output_tokens * self.output) / 1_000_000


FREE = ModelPrice(input=0.0, output=0.0)


def price_of(model: Model, usage: RequestUsage, own: ModelPrice | None = None) -> float | None:
    """The price of a request to a model, by a price of one's own or by genai-prices; None where nobody knows it."""
    if own is not None or not usage.total_tokens:
        return None if own is None else own.of(usage)
    from genai_prices import calc_price

    try:
        return float(calc_price(usage, model.model_name, provider_id=model.system).total_price)
    except LookupError:
        return None


def worst_price(model: Model, size: int, output: int, own: ModelPrice | None = None) -> float | None:
    """The most that a request of so many bytes and its answer can cost: no token is less than a byte."""
    from pydantic_ai.usage import RequestUsage

    return price_of(model, RequestUsage(input_tokens=size + MARGIN, output_tokens=output), own)


def cost_of(model: str, day: str, tokens_in: int, tokens_out: int) -> int | None:
    """The cost of one answer in millionths of a dollar; None where nobody knows the price.

    Tokens that the provider had in its cache count like others: records do not tell them apart.
    """
    prices = _prices_of(model, day)
    if prices is None:
        return None
    # A dollar for a million tokens is a millionth of a dollar for one.
    rate_in, rate_out = (_rate(price, tokens_in) for price in prices)
    cost: int = round(rate_in * tokens_in + rate_out * tokens_out)
    return cost


@functools.lru_cache(1_024)
def _prices_of(model: str, day: str) -> tuple[Any, Any] | None:
    """The prices of tokens in and out by genai-prices, which comes with pydantic-ai and takes a while to import.

    Its own sum takes 0.2 ms for each answer: more than all the rest of a record.
    """
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return None
    from datetime import datetime

    try:
        moment = datetime.fromisoformat(f"{day}T00:00:00+00:00")
        name = model.rpartition(":")[2].rpartition("/")[2]
        found = calc_price(Usage(input_tokens=1), name, genai_request_timestamp=moment).model_price
    except (LookupError, ValueError):
        return None
    return found.input_mtok, found.output_mtok


def _rate(price: Any, tokens_in: int) -> Any:
    """The price of one token; that of all may be another one where an answer has read many."""
    tiers = reversed(getattr(price, "tiers", ()))
    return next((tier.price for tier in tiers if tokens_in > tier.start), getattr(price, "base", price) or 0)
