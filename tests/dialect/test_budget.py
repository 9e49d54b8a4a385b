"""The budget of a session counts all that a model reads of the catalog: one kilobyte is one kilobyte."""

from __future__ import annotations

import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier import Library
from metier.dialect import DialectName
from metier.guard import Guard, MemoryLog

DIALECTS: tuple[DialectName, ...] = ("runtime", "registry", "tool", "sandbox")
GUARD = Guard(audit=MemoryLog())

words = st.text(alphabet="abcdefghij <&\"'`\u00e9\u4e2d\U0001f600", max_size=300)


@functools.cache
def library_of(descriptions: tuple[str, ...], length: int) -> Library:
    """Skills with names of a length."""

    def skill(number: int, description: str) -> dict[str, str]:
        name = f"s{number}-" + "n" * length
        text = "".join(f"\\U{ord(letter):08x}" for letter in description or "x")
        return {"SKILL.md": f'---\nname: {name}\ndescription: "{text}"\n---\nDo.'}

    return Library.from_files(*(skill(number, one) for number, one in enumerate(descriptions)))


def told(library: Library, dialect: DialectName, budget: int, prompt: str | None, **options: object) -> str:
    """All that carries the catalog in a dialect."""
    with library.session(guard=GUARD, budget=budget, **options) as session:
        if dialect in ("tool", "sandbox"):
            return session.tools(dialect)[0].description
        return session.instructions(prompt, dialect=dialect)


@pytest.mark.covers("ACC-15")
@given(
    st.lists(words, max_size=40).map(tuple),
    st.integers(0, 58),
    st.integers(512, 8_000),
    st.sampled_from(DIALECTS),
    st.none() | words,
    st.sampled_from(["pinned", "listed", "name-only", "manual", "off"]),
)
def test_no_library_and_no_budget_makes_a_text_that_is_larger(
    descriptions: tuple[str, ...], length: int, budget: int, dialect: DialectName, prompt: str | None, mode: str
) -> None:
    text = told(library_of(descriptions, length), dialect, budget, prompt, listing={"s1*": mode})
    assert len(text.encode()) <= budget


@pytest.mark.covers("ACC-15")
@pytest.mark.each("dialect", DIALECTS)
@pytest.mark.each("budget", [512, 1_024, 2_048, 5_120], every=3)
def test_a_large_library_fits_and_says_what_was_left_out_and_how_to_reach_it(dialect: DialectName, budget: int) -> None:
    library = library_of(tuple(f"Polishes widget {number} with great care." for number in range(400)), 8)
    text = told(library, dialect, budget, "polish widget 399")
    assert len(text.encode()) <= budget
    search = {"runtime": "skills_search", "registry": "list_skills", "tool": "action=search", "sandbox": "get_skill"}
    assert search[dialect] in text
    assert "not_listed" in text or "more not listed" in text
    assert "written by others" in text or dialect == "registry"
    if budget >= 1_024:
        assert "Polishes widget" in text
        assert len(text.encode()) > budget // 3


@pytest.mark.covers("ACC-15")
@pytest.mark.each("dialect", DIALECTS)
def test_names_of_a_middling_library_are_all_there_by_default(dialect: DialectName) -> None:
    library = library_of(tuple(f"Polishes widget {number}. " * 9 for number in range(80)), 8)
    with library.session(guard=GUARD) as session:
        text = session.instructions(dialect=dialect) + "".join(one.description for one in session.tools(dialect))
    assert all(f"s{number}-" in text for number in range(80))
