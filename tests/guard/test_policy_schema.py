"""The keys of policy files, and the page that lists them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from metier.guard.policy.effective import DEFAULT
from metier.guard.policy.reader import parse_policy
from metier.guard.policy.rules import CAPABILITY_NAMES
from metier.guard.policy.schema import KEYS, SECTIONS, names_below
from metier.scan.capabilities import CAPABILITIES

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "policy-file.md"


def test_the_page_has_every_key_with_what_it_says() -> None:
    rows = re.findall(r"^\| `([a-z.-]+)` \| [^|]+ \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert dict(rows) == {key.name: key.about for key in KEYS.values()}


def test_the_example_of_the_page_is_sound_and_has_an_opinion_on_nearly_every_key() -> None:
    text = PAGE.read_text(encoding="utf-8")
    example = text.partition("```yaml file=policy.yaml\n")[2].partition("```")[0]
    file = parse_policy(example, "policy.yaml", "enterprise")
    assert [str(problem) for problem in file.problems] == []
    assert KEYS.keys() - file.settings.keys() == {"strict", "skills.allow", "tools.allow"}


@pytest.mark.each("name", sorted(KEYS))
def test_a_key_sets_a_field_that_the_effective_policy_declares(name: str) -> None:
    found: Any = DEFAULT
    for one in KEYS[name].path:
        missing = f"declare `{'.'.join(KEYS[name].path)}` in EffectivePolicy, or give the row of `{name}` its field"
        assert hasattr(found, one), missing
        found = getattr(found, one)


def test_every_capability_can_be_named() -> None:
    assert sorted(CAPABILITY_NAMES) == sorted(CAPABILITIES)


@pytest.mark.each("section", ["", *sorted(SECTIONS)])
def test_a_section_has_names(section: str) -> None:
    assert names_below(section)
