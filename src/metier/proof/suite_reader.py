"""Reading the suite of a skill from the files that it has for that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.proof.suite import Suite

if TYPE_CHECKING:
    from metier.skill import Package


def read_suite(package: Package) -> Suite:
    """The suite of a skill, from all files of its own and of other tools; parts that cannot be used are notes."""
    return Suite()
