"""How well prompts are routed, which warnings of collisions come true, and what better descriptions are worth.

Three tables over real skills and the queries that their authors wrote as trigger tests. Routing: the queries as cases.
Warnings: what the collision map says from names, descriptions and bodies alone, against the queries, on two halves of
the skills, on the first of which the bound of the warning was chosen. Descriptions: skills that are warned of, with
descriptions that were written with the half of their queries that is routed better as tests; the other was not read.

    python benchmarks/routing.py
    python benchmarks/routing.py --only warnings
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from _limits import NOTHING_TO_MEASURE
from _table import aligned
from metier.find import Finder
from metier.proof.collisions import LIGHT, SkillCollisions, collision_map
from metier.proof.routing import run_routing
from metier.proof.subject import subject_of
from metier.proof.suite import RoutingCase, Suite
from retrieval import DATA, Collection, library_of, read

REWRITTEN = Path(__file__).resolve().parents[1] / "tests" / "proof" / "rewritten_descriptions.json"
Pairs = set[tuple[str, str]]
SPLITS = 100


class Judged:
    """A library and the prompts of the skills whose prompts are known."""

    def __init__(self, data: Collection) -> None:
        self.library = library_of(data)
        self.prompts: dict[str, list[str]] = {}
        self.right = dict(zip(data.queries, data.right, strict=True))
        for query, right in zip(data.queries, data.right, strict=True):
            for name in sorted(right):
                self.prompts.setdefault(name, []).append(query)
        finder = Finder(self.library.index)
        self.found = {query: [one.name for one in finder.explain(query, 10)] for query in self.right}

    def lost(self, name: str, prompts: Sequence[str] | None = None) -> float:
        """The share of the prompts of a skill that bring up another first."""
        asked = self.prompts[name] if prompts is None else prompts
        return sum(not self.right[one].intersection(self.found[one][:1]) for one in asked) / len(asked)

    def above(self, name: str, prompts: Sequence[str]) -> Pairs:
        """The pairs of a skill and another that stands above it for one of these prompts, among the first ten."""
        found = set()
        for prompt in prompts:
            names = self.found[prompt]
            until = names.index(name) if name in names else len(names)
            found |= {(name, other) for other in names[:until] if other not in self.right[prompt]}
        return found


def routing_table(judged: Judged) -> list[list[str]]:
    ranks: list[int | None] = []
    passed = 0
    for name, prompts in judged.prompts.items():
        suite = Suite(routing=tuple(RoutingCase(prompt=prompt, should_trigger=True) for prompt in prompts))
        with subject_of(judged.library.get(name), suite) as subject:
            result = run_routing(judged.library, subject)
        passed += result.verdict == "passed"
        ranks += [case.data["rank"] for case in result.cases]
    shares = [f"{sum(rank is not None and rank <= k for rank in ranks) / len(ranks):.3f}" for k in (1, 3, 5, 10)]
    return [[f"{len(judged.prompts)}", f"{len(ranks)}", *shares, f"{passed / len(judged.prompts):.3f}"]]


# --- warnings --------------------------------------------------------------------------------------------------------


def is_held_out(name: str) -> bool:
    return zlib.crc32(name.encode()) % 2 == 1


def score(what: str, half: str, warned: set[object], true: set[object], of: int) -> list[str]:
    hits = len(warned & true)
    precision, recall = hits / max(1, len(warned)), hits / max(1, len(true))
    return [what, half, f"{of:,}", f"{len(true) / of:.2f}", f"{len(warned)}", f"{precision:.2f}", f"{recall:.2f}"]


def warning_table(judged: Judged) -> list[list[str]]:
    standings = {
        one.skill: one for one in collision_map(judged.library, [judged.library.get(name) for name in judged.prompts])
    }
    several = [name for name in judged.prompts if len(judged.prompts[name]) >= 3]
    truths: list[tuple[str, Iterable[str], Callable[[str], bool]]] = [
        ("skills of 3 queries or more: a third are lost", several, lambda name: judged.lost(name) >= 1 / 3),
        ("skills of 3 queries or more: one is lost", several, lambda name: judged.lost(name) > 0),
        ("all skills: one query is lost", judged.prompts, lambda name: judged.lost(name) > 0),
    ]
    table = []
    for what, names, holds in truths:
        for half, held_out in (("tuned on", False), ("held out", True)):
            mine = [name for name in names if is_held_out(name) is held_out]
            warned = {name for name in mine if standings[name].warning}
            table.append(score(what, half, set(warned), {name for name in mine if holds(name)}, len(mine)))
    what, names, holds = truths[0]
    lost = {name: holds(name) for name in names}
    weights = {name: standings[name].weight if standings[name].collisions else NOWHERE for name in names}
    table.insert(2, [what, f"of {SPLITS} halves", *_by_random_halves(weights, lost)])
    return [*table, *_by_prompts(judged), *_pairs(judged, standings)]


def _by_random_halves(weights: Mapping[str, float], lost: Mapping[str, bool]) -> list[str]:
    """The mean on halves that are held out, each with the bound that is best on the other half."""

    def hold(bound: float, names: Sequence[str]) -> tuple[float, float]:
        warned = [name for name in names if weights[name] < bound]
        hits = sum(lost[name] for name in warned)
        return hits / max(1, len(warned)), hits / max(1, sum(lost[name] for name in names))

    held = []
    for seed in range(SPLITS):
        names = random.Random(seed).sample(sorted(weights), len(weights))
        tuned, rest = names[: len(names) // 2], names[len(names) // 2 :]
        held.append(hold(max((step / 10 for step in range(30, 80)), key=lambda one: min(hold(one, tuned))), rest))
    means = (sum(one[index] for one in held) / SPLITS for index in (0, 1))
    return [f"{len(weights) // 2}", f"{sum(lost.values()) / len(lost):.2f}", "", *(f"{mean:.2f}" for mean in means)]


def _by_prompts(judged: Judged) -> list[list[str]]:
    """The warning of a skill whose suite has half of its queries, against the other half."""
    halves = {name: (prompts[::2], prompts[1::2]) for name, prompts in judged.prompts.items() if len(prompts) >= 4}
    warned = {name for name, (given, _) in halves.items() if judged.lost(name, given) > 0}
    lost = {name for name, (_, rest) in halves.items() if judged.lost(name, rest) > 0}
    pairs, true = (
        {pair for name, half in halves.items() for pair in judged.above(name, half[number])} for number in (0, 1)
    )
    possible = len(halves) * len(judged.library)
    return [
        score("skills with half of their queries in the suite", "the rest", set(warned), set(lost), len(halves)),
        score("pairs by half of the queries: B above A", "the rest", set(pairs), set(true), possible),
    ]


def _pairs(judged: Judged, standings: Mapping[str, SkillCollisions]) -> list[list[str]]:
    true = {pair for name, prompts in judged.prompts.items() for pair in judged.above(name, prompts)}
    met = {(name, other) for name, prompts in judged.prompts.items() for one in prompts for other in judged.found[one]}
    possible = len(judged.prompts) * len(judged.library)
    often = {(one.skill, other.other) for one in standings.values() for other in one.collisions if other.share >= 0.5}
    return [
        score("pairs by texts: B above A for a query", "all", set(often), set(true), possible),
        score("pairs by texts: B in the first ten of a query", "all", set(often), set(met), possible),
    ]


# --- descriptions ----------------------------------------------------------------------------------------------------


def description_table(data: Collection, judged: Judged) -> list[list[str]]:
    rewritten: dict[str, str] = json.loads(REWRITTEN.read_text(encoding="utf-8"))
    rows = [row | {"description": rewritten.get(row["id"], row["description"])} for row in data.rows]
    after = Judged(replace(data, rows=rows))
    names = [name for row, name in zip(data.rows, data.names, strict=True) if row["id"] in rewritten]
    table, raised = [], 0
    for name in names:
        prompts = judged.prompts[name]
        halves = sorted((prompts[1::2], prompts[::2]), key=lambda half: reciprocal(name, half, judged))
        before, now = (reciprocal(name, halves[0], one) for one in (judged, after))
        raised += now > before
        table.append([name, *(ranks_of(name, half, one) for half in halves for one in (judged, after)),
                      f"{before:.2f}", f"{now:.2f}"])  # fmt: skip
    others = [name for name in judged.prompts if name not in names]
    lost = [sum(one.lost(name) * len(one.prompts[name]) for name in others) for one in (judged, after)]
    print(f"\n{raised} of {len(names)} raised on queries that were not read; "
          f"queries of others that are lost: {lost[0]:.0f} before, {lost[1]:.0f} after.")  # fmt: skip
    return table


def reciprocal(name: str, prompts: Sequence[str], judged: Judged) -> float:
    """The mean of one by the rank of a skill, 0 beyond the first ten."""
    return sum(1 / rank_of(name, judged.found[prompt]) for prompt in prompts) / len(prompts)


def ranks_of(name: str, prompts: Sequence[str], judged: Judged) -> str:
    ranks = (rank_of(name, judged.found[prompt]) for prompt in prompts)
    return " ".join(f"{rank:.0f}" if rank < NOWHERE else "-" for rank in ranks)


NOWHERE = float("inf")


def rank_of(name: str, found: Sequence[str]) -> float:
    return found.index(name) + 1 if name in found else NOWHERE


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder with corpus.jsonl.gz")
    parser.add_argument("--only", choices=("routing", "warnings", "descriptions"), help="just one table")
    options = parser.parse_args()
    if not (options.data / "corpus.jsonl.gz").exists():
        print(f"There is no collection in {options.data}; name one with --data.", file=sys.stderr)
        return NOTHING_TO_MEASURE
    data = read(options.data, options.data / "dev-queries.jsonl", options.data / "dev-qrels.tsv")
    judged = Judged(data)
    tables: dict[str, tuple[Sequence[str], Callable[[], list[list[str]]]]] = {
        "routing": (
            ("skills", "queries", "first", "top 3", "top 5", "top 10", "skills that pass"),
            lambda: routing_table(judged),
        ),
        "warnings": (
            (f"warning (a name below {LIGHT})", "half", "of", "true", "warned", "precision", "recall"),
            lambda: warning_table(judged),
        ),
        "descriptions": (
            ("skill", "unread: before", "after", "read: before", "after", "MRR of unread", "after"),
            lambda: description_table(data, judged),
        ),
    }
    for name, (head, make) in tables.items():
        if options.only in (None, name):
            print(f"\n{name}\n{aligned([head, *make()])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
