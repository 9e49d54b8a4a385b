"""Rates of models: the cost of tokens that a record tells of, by the prices of its day."""

from __future__ import annotations

import functools
from typing import Any


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
