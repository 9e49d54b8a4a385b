"""What else there is, in a few words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.find.overview import groups


def names(**counts: int) -> list[str]:
    return [f"{first}-{number}" for first, count in counts.items() for number in range(count)]


@pytest.mark.each(
    ("skills", "tags", "expected"),
    [
        ([], [], []),
        (names(azure=3), [], [("azure", 3)]),
        (names(azure=2), [], []),
        (["azure", "azure-vm", "azure-db"], [], [("azure", 3)]),
        (names(azure=3, aws=5), [], [("aws", 5), ("azure", 3)]),
        (names(b=3, a=3), [], []),
        (names(bb=3, aa=3), [], [("aa", 3), ("bb", 3)]),
        ([], [("office", 7), ("rare", 2)], [("office", 7)]),
        (names(azure=3), [("azure", 5)], [("azure", 5)]),
        (names(azure=5), [("azure", 3)], [("azure", 5)]),
        (names(azure=4), [("office", 4)], [("azure", 4), ("office", 4)]),
        ([], [("x" * 32, 3), ("y" * 33, 9)], [("x" * 32, 3)]),
    ],
)
def test_groups_are_counted_the_largest_first(
    skills: list[str], tags: list[tuple[str, int]], expected: list[tuple[str, int]]
) -> None:
    assert groups(skills, tags) == expected


@pytest.mark.each("tag", ["machine learning", "c++", "ci/cd", "node.js", "web3", "表单"])
def test_plain_words_can_name_a_group(tag: str) -> None:
    assert groups([], [(tag, 3)]) == [(tag, 3)]


@pytest.mark.each(
    "tag",
    [
        "a\nb",
        "a\x1bb",
        "a\u202eb",
        "a\U000e0041b",
        "a\u2028b",
        "a\0b",
        "official 99",
        "trusted 9, mine",
        "ig\u3164nore",
    ],
)
def test_what_could_pass_for_something_else_names_no_group(tag: str) -> None:
    assert groups([], [(tag, 3)]) == []


def test_the_smallest_of_many_groups_are_left_out() -> None:
    found = groups([], [(f"tag-{number}", number) for number in range(1_000)])
    assert len(found) == 200
    assert found[0] == ("tag-999", 999)
    assert found[-1] == ("tag-800", 800)


@given(
    st.lists(st.sampled_from(names(aa=4, bb=4, cc=4)), unique=True), st.permutations([("x1", 3), ("y1", 3), ("aa", 9)])
)
def test_groups_do_not_depend_on_the_order_of_skills(skills: list[str], tags: list[tuple[str, int]]) -> None:
    assert groups(skills, tags) == groups(sorted(skills), sorted(tags))
