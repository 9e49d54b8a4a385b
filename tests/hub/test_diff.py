"""The difference between two states of a skill."""

from __future__ import annotations

import random
import time

import pytest

from metier.hub.diff import difference
from metier.skill.package import Files


def one(data: bytes) -> Files:
    return {"SKILL.md": ("file", data)}


def test_instructions_come_first_and_the_rest_by_path() -> None:
    after: Files = {"z.md": ("file", b"z\n"), "SKILL.md": ("file", b"x\n"), "a/b.sh": ("exec", b"b\n")}
    headers = [line for line in difference({}, after).splitlines() if line.startswith(("diff", "new"))]
    assert headers == [
        "diff --git a/SKILL.md b/SKILL.md",
        "new file mode 100644",
        "diff --git a/a/b.sh b/a/b.sh",
        "new file mode 100755",
        "diff --git a/z.md b/z.md",
        "new file mode 100644",
    ]


def test_what_is_no_text_is_only_said_to_differ() -> None:
    text = difference({"x.bin": ("file", b"\0")}, {"x.bin": ("file", b"\xff\xff")})
    assert "Binary files a/x.bin (1 bytes) and b/x.bin (2 bytes) differ" in text


def test_two_small_changes_far_apart_stay_small() -> None:
    lines = [f"line {number}\n" for number in range(20_000)]
    before = "".join(lines).encode()
    lines[10], lines[19_000] = "changed\n", "changed too\n"
    text = difference(one(before), one("".join(lines).encode()))
    assert text.count("\n-") == text.count("\n+line") + 3 == 3
    assert len(text.splitlines()) < 30


@pytest.mark.each("kinds", [2, 50, 100_000], every=3)
def test_hostile_files_are_compared_in_bounded_time(kinds: int) -> None:
    some = random.Random(7)
    before, after = (b"".join(b"%d\n" % some.randrange(kinds) for _ in range(60_000)) for _ in range(2))
    begun = time.process_time()
    assert difference(one(before), one(after))
    assert time.process_time() - begun < 10
