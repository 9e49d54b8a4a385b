"""The page about installation has each dependency, extra and way, and keeps to the limits that it names."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/installation.md").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LIMITS = tomllib.loads((ROOT / "benchmarks/limits.toml").read_text("utf-8"))["install"]


def rows(heading: str) -> list[list[str]]:
    """The table below a heading, without its head."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def test_each_dependency_of_the_core_has_a_line_for_what_it_buys() -> None:
    found = rows("What each dependency of the core buys")
    assert {name for name, *_ in found} == {Requirement(line).name for line in PROJECT["dependencies"]}
    assert all(len(buys) > 15 for *_, buys in found)
    total = re.search(r"the core is ([\d.]+) MB; on x86-64 ([\d.]+)", PAGE)
    # The package itself and what its dependencies need, too; each line of the table is rounded.
    assert total and abs(sum(float(size) for _, size, _ in found) + 1.8 + 0.4 - float(total[1])) < 0.5
    assert max(float(total[1]), float(total[2])) <= LIMITS["wheels of metier"]["most"]


def test_each_extra_is_on_the_page() -> None:
    named = {name for cell, *_ in rows("Optional parts") for name in re.findall(r"`([\w-]+)`", cell)}
    assert named == PROJECT["optional-dependencies"].keys()


def test_each_way_that_is_measured_has_figures_within_its_limits() -> None:
    found = {cell.strip("`"): (float(seconds), float(disk)) for cell, seconds, disk in rows("Time and disk")}
    assert {name for name, _, kind in (what.rpartition(": ") for what in LIMITS) if kind == "clock"} == found.keys()
    for way, (seconds, disk) in found.items():
        assert seconds <= LIMITS[f"{way}: clock"]["most"]
        assert disk <= LIMITS.get(f"{way}: disk", {"most": 250})["most"]


def test_the_page_names_the_versions_of_python_that_the_package_does() -> None:
    minors = [int(each.rpartition(".")[2]) for each in PROJECT["classifiers"] if " :: Python :: 3." in each]
    assert f"Python 3.{min(minors)} to 3.{max(minors)}, " in PAGE
    assert PROJECT["requires-python"] == f">=3.{min(minors)}"
