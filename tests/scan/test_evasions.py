"""Every way to hide an attack that we know is found, or is known not to be, with the reason, which people can read."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.scan.evasions import EVASIONS, Evasion

from metier.scan import scan
from metier.scan.finding import rank
from metier.skill import MemoryPackage

HIGH = rank("high")
FOUND = [one for one in EVASIONS if not one.known]
KNOWN = [one for one in EVASIONS if one.known]
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "scan.md"


def found_in(one: Evasion) -> set[str]:
    """The rules that find it, at `high` or worse."""
    report = scan(MemoryPackage(dict(one.files)))
    assert report.status == "ok", (one.name, report.error)
    return {found.rule for found in report.findings if rank(found.severity) >= HIGH}


@pytest.mark.each("one", FOUND, every=4)
def test_an_attack_is_found_however_it_is_hidden(one: Evasion) -> None:
    assert one.rules, one.name
    assert set(one.rules) <= found_in(one), (one.name, one.deed)


@pytest.mark.each("one", KNOWN, every=2)
def test_what_is_known_not_to_be_found_is_still_not_found(one: Evasion) -> None:
    assert found_in(one) == set(), f"{one.name} is found now: take it from the list and from {PAGE.name}."


def test_people_can_read_what_is_not_found() -> None:
    text = " ".join(PAGE.read_text().split())
    assert [one.known for one in EVASIONS if one.known and one.known not in text] == []


def test_no_two_evasions_have_one_name() -> None:
    assert len({one.name for one in EVASIONS}) == len(EVASIONS) >= 70
