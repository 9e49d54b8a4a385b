"""Attacks on whoever reads the output."""

from __future__ import annotations

import os

from tests.run.attacks.inside.tools import attack, begun


@attack
def out_stderr() -> None:
    begun()
    for _ in range(1_600):
        os.write(2, b"x" * 65_536)


@attack
def out_both() -> None:
    begun()
    for _ in range(800):
        os.write(1, b"o" * 65_536)
        os.write(2, b"e" * 65_536)


@attack
def out_bytes() -> None:
    """Bytes that are no text, and text that terminals obey."""
    os.write(1, b"SAFE:\xff\xfe\x80 \xed\xa0\x80 \x00\x1b]0;pwned\x07\x1b[2J\x9b31m \xf0\x9f\x98" * 10_000)


@attack
def out_lines() -> None:
    begun()
    for _ in range(18):
        os.write(1, b"\n" * 65_536)
