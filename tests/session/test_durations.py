"""Durations as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from metier.session.autonomy import milliseconds


@pytest.mark.covers("O-76")
@pytest.mark.each(
    ("text", "expected"),
    [
        ("30s", 30_000),
        ("1m", 60_000),
        ("500ms", 500),
        ("0.5s", 500),
        ("1.5s", 1_500),
        ("2.3s", 2_300),
        ("30 s", 30_000),
        (" 1m ", 60_000),
        ("30S", 30_000),
        ("10M", 600_000),
        ("500.5ms", 500),
        ("0s", 0),
        ("999999999m", 59_999_999_940_000),
    ],
)
def test_a_duration_is_read(text: str, expected: int) -> None:
    assert milliseconds(text) == expected


@pytest.mark.covers("O-76")
@pytest.mark.each(
    "text",
    [
        "30",
        "s30",
        "30h",
        "invalid",
        "",
        " ",
        "-1s",
        "1.s",
        ".5s",
        "1e3s",
        "1_0s",
        "٣s",
        "1s1s",
        "9" * 100_000 + "s",
        None,
        30,
        1.5,
        [],
    ],
)
def test_what_is_no_duration_is_none(text: Any) -> None:
    assert milliseconds(text) is None
