"""How well and how fast the right skill is found.

Four tables. Quality: real queries that skill authors wrote as trigger tests for their own skills, against a real
collection. Catalog: whether the right skill is inside a budget. Budget: whether it holds at any number of skills.
Scale: search, build and update at sizes made by resampling that collection. Times are CPU times.

    python benchmarks/retrieval.py                  quality and catalog, scale at 1,000 and 10,000: two minutes
    python benchmarks/retrieval.py --large          also 100,000 and 1,000,000 skills: an hour, 10 GB
    python benchmarks/retrieval.py --sizes 100000   other sizes
    python benchmarks/retrieval.py --queries Q.jsonl --qrels Q.tsv --only quality
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import itertools
import json
import math
import os
import random
import sqlite3
import statistics
import sys
import tempfile
import time
import xml.etree.ElementTree
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from _limits import NOTHING_TO_MEASURE, check
from _table import aligned
from metier import Caller, Library
from metier.find import Query, WordVectors
from metier.find.index_maintenance import BATCH
from metier.find.indexed_text import IndexedText
from metier.find.search_engine import SearchEngine
from metier.find.search_index import SearchIndex
from metier.library.snapshot import Snapshot
from metier.skill import Skill, slug

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "retrieval"
BUDGETS = (1_024, 4_096)
QUERIES_AT_SCALE = 200
QUERIES_OF_BASELINE = 30
UPDATES = 50
QUERIES_LEFT_OUT = 4
POOL = 100_000


@dataclass(frozen=True, kw_only=True)
class Collection:
    """Skills, queries, and which skills are right for which query."""

    rows: list[dict[str, str]]
    names: list[str]
    """A name of its own for each row: two of one name would hide one another in a library."""
    queries: list[str]
    right: list[set[str]]


def read(folder: Path, queries: Path, qrels: Path) -> Collection:
    with gzip.open(folder / "corpus.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    names: list[str] = []
    taken: set[str] = set()
    for row in rows:
        base = slug(row["name"]) or row["id"]
        name, number = base, 1
        while name in taken:
            number += 1
            name = f"{base}-{number}"
        taken.add(name)
        names.append(name)
    name_of = dict(zip((row["id"] for row in rows), names, strict=True))
    asked = [json.loads(line) for line in queries.read_text(encoding="utf-8").splitlines()]
    right: dict[str, set[str]] = {}
    for line in qrels.read_text(encoding="utf-8").splitlines():
        query, skill, grade = line.split("\t")
        if int(grade) > 0:
            right.setdefault(query, set()).add(name_of[skill])
    asked = [one for one in asked if one["id"] in right]
    return Collection(
        rows=rows, names=names, queries=[one["text"] for one in asked], right=[right[one["id"]] for one in asked]
    )


def library_of(data: Collection) -> Library:
    skills = [
        {
            "SKILL.md": f"---\nname: {name}\ndescription: {json.dumps(row['description'], ensure_ascii=False)}\n---\n"
            + row["body"]
        }
        for row, name in zip(data.rows, data.names, strict=True)
    ]
    library = Library.from_files(*skills)
    library.embed_with(None)
    return library


# --- quality ---------------------------------------------------------------------------------------------------------

Search = Callable[[str], Sequence[str]]


def quality(label: str, search: Search, data: Collection) -> list[str]:
    hit = at5 = at10 = gain = reciprocal = 0.0
    times = []
    for query, right in zip(data.queries, data.right, strict=True):
        start = time.process_time()
        found = list(search(query))[:10]
        times.append(time.process_time() - start)
        ranks = [rank for rank, name in enumerate(found) if name in right]
        hit += bool(ranks) and ranks[0] == 0
        at5 += sum(rank < 5 for rank in ranks) / len(right)
        at10 += len(ranks) / len(right)
        ideal = sum(1 / math.log2(rank + 2) for rank in range(min(10, len(right))))
        gain += sum(1 / math.log2(rank + 2) for rank in ranks) / ideal
        reciprocal += 1 / (ranks[0] + 1) if ranks else 0
    count = len(data.queries)
    figures = [f"{value / count:.3f}" for value in (hit, at5, at10, gain, reciprocal)]
    return [label, *figures, f"{percentile(times, 50) * 1e3:.1f}", f"{percentile(times, 99) * 1e3:.1f}"]


class PlainFullText:
    """What SQLite alone does: its stemmer, its BM25, every word of the query."""

    def __init__(self, path: str = ":memory:") -> None:
        self.database = sqlite3.connect(path, isolation_level=None)
        self.database.execute("PRAGMA journal_mode = WAL")
        self.database.execute(
            "CREATE VIRTUAL TABLE skill USING fts5(name, description, body, content='', tokenize='porter unicode61')"
        )

    def add(self, skills: Iterable[tuple[str, str, str]]) -> None:
        self.database.execute("BEGIN")
        self.database.executemany(
            "INSERT INTO skill (name, description, body) VALUES (?, ?, ?)",
            [(name.replace("-", " "), about, body) for name, about, body in skills],
        )
        self.database.execute("COMMIT")

    def search(self, query: str, columns: str = "name description body", weights: str = "4, 2, 1") -> list[int]:
        """The ten best, by the order in which they were added."""
        words = dict.fromkeys("".join(c if c.isalnum() else " " for c in query).split())
        if not words:
            return []
        matched = f"{{{columns}}} : (" + " OR ".join(f'"{word}"' for word in words) + ")"
        statement = f"SELECT rowid FROM skill WHERE skill MATCH ? ORDER BY bm25(skill, {weights}) LIMIT 10"
        return [row[0] - 1 for row in self.database.execute(statement, (matched,))]


def plain_full_text(data: Collection, columns: str, weights: str) -> Search:
    plain = PlainFullText()
    plain.add((name, row["description"], row["body"]) for row, name in zip(data.rows, data.names, strict=True))
    return lambda query: [data.names[at] for at in plain.search(query, columns, weights)]


def vectors_alone(data: Collection) -> Search:
    embedder = WordVectors()
    texts = [f"{name.replace('-', ' ')}. {row['description']}" for row, name in zip(data.rows, data.names, strict=True)]
    rows = embedder.embed(texts)

    def search(query: str) -> list[str]:
        near = rows @ embedder.embed([query])[0]
        return [data.names[at] for at in (-near).argsort(kind="stable")[:10]]

    return search


def quality_table(data: Collection) -> list[list[str]]:
    table = [
        quality("name only, plain FTS5", plain_full_text(data, "name", "1, 0, 0"), data),
        quality("description only, plain FTS5", plain_full_text(data, "description", "0, 1, 0"), data),
        quality("all in one table, plain FTS5", plain_full_text(data, "name description body", "4, 2, 1"), data),
    ]
    library = library_of(data)
    library.update_index()

    def search(query: str) -> list[str]:
        return [result.name for result in library.search(query, 10)]

    table.append(quality("full text (default)", search, data))
    try:
        table.append(quality("vectors alone", vectors_alone(data), data))
        library.embed_with(WordVectors())
        library.update_index()
        table.append(quality("fused (metier[vectors])", search, data))
    except ImportError:
        print("vectors: install `metier[vectors]` to measure them", file=sys.stderr)
    return table


# --- the catalog -----------------------------------------------------------------------------------------------------


def catalog_table(data: Collection, every: int) -> list[list[str]]:
    """Each so many queries."""
    library = library_of(data)
    library.update_index()
    table = []
    for budget in BUDGETS:
        inside = 0
        sizes, shown, times = [], [], []
        for query, right in zip(data.queries[::every], data.right[::every], strict=True):
            start = time.process_time()
            catalog = library.catalog(budget, query=query)
            times.append(time.process_time() - start)
            sizes.append(catalog.size)
            shown.append(len(catalog.shown))
            inside += not right.isdisjoint(catalog.shown)
        table.append(
            [
                f"{budget:,}",
                f"{inside / len(times):.3f}",
                f"{max(sizes):,}",
                f"{statistics.mean(shown):.1f}",
                f"{percentile(times, 50) * 1e3:.1f}",
            ]
        )
    return table


def budget_table(data: Collection, sizes: Sequence[int]) -> list[list[str]]:
    """Whether a catalog of one kilobyte holds at any number of skills, in every format."""
    table = []
    for count in sizes:
        skills = (
            {"SKILL.md": f"---\nname: {text.name}\ndescription: {json.dumps(text.about)}\n---\n{text.body[:500]}"}
            for text in resampled(data, count)
        )
        library = Library.from_files(*skills)
        library.embed_with(None)
        largest, broken, times = 0, 0, []
        for query in (None, *data.queries[:20]):
            for form in ("xml", "markdown", "jsonl"):
                start = time.process_time()
                catalog = library.catalog(BUDGETS[0], query=query, format=cast("Any", form))
                times.append(time.process_time() - start)
                largest = max(largest, catalog.size)
                broken += not is_valid(catalog.text, form) or (
                    catalog.left_out > 0 and "skills_search" not in catalog.text
                )
        table.append([f"{count:,}", f"{largest:,}", str(broken), f"{percentile(times, 50) * 1e3:.1f}"])
    return table


def is_valid(text: str, form: str) -> bool:
    """Whether a catalog is what its format says."""
    try:
        if form == "xml":
            xml.etree.ElementTree.fromstring(text)
        elif form == "jsonl":
            return all(isinstance(json.loads(line), dict) for line in text.splitlines())
    except (xml.etree.ElementTree.ParseError, ValueError):
        return False
    return form != "markdown" or all(line.startswith("- ") for line in text.splitlines()[2:])


# --- scale -----------------------------------------------------------------------------------------------------------

SCALE_HEAD = (
    "skills", "search p50 ms", "p99 ms", "plain FTS5 p50 ms", "ratio", "build s", "ms a skill", "memory MiB", "MiB",
    "one edit ms", "one new ms",
)  # fmt: skip


def resampled(data: Collection, count: int, seed: int = 0) -> Iterator[IndexedText]:
    """Skills of the usual lengths, made of sentences and paragraphs of the real ones."""
    chance = random.Random(seed)
    paragraphs = [part for row in data.rows for part in row["body"].split("\n\n") if part.strip()]
    for number in range(count):
        one, other = chance.choice(data.rows), chance.choice(data.rows)
        sentences = [*one["description"].split(". ")[:2], *other["description"].split(". ")[1:2]]
        parts: list[str] = []
        length, at = 0, chance.randrange(len(paragraphs))
        while length < len(one["body"]):
            if chance.random() < 0.2:
                at = chance.randrange(len(paragraphs))
            part = paragraphs[at % len(paragraphs)]
            at += 1
            parts.append(part)
            length += len(part) + 2
        yield IndexedText(
            key=f"{number}/SKILL.md",
            stamp="1",
            name=f"{slug(one['name'])[:50]}-{number}",
            about=". ".join(sentences),
            body="\n\n".join(parts)[: len(one["body"])],
        )


class _Standing:
    """A snapshot in which every indexed skill is active: what is measured is the search, not the reading of files."""

    def __init__(self) -> None:
        self.places = (self,)
        self.rows = (self,)
        self.active = self

    def view(self, _: Caller) -> _Standing:
        return self

    def get(self, name: str) -> _Entry:
        return _Entry(self, name)

    def items(self) -> list[tuple[str, object]]:
        return []


NOTHING_SAID = Skill(name="", description="")


@dataclass(slots=True)
class _Entry:
    place: _Standing
    name: str
    skill: Skill = NOTHING_SAID

    @property
    def key(self) -> str:
        return f"{self.name.rpartition('-')[2]}/SKILL.md"

    @property
    def location(self) -> str:
        return self.key


def many(data: Collection, count: int, letters: int) -> Iterator[IndexedText]:
    """So many resampled skills; beyond a hundred thousand the same texts come again under other names."""
    if count <= POOL:
        yield from (text._replace(body=text.body[:letters]) for text in resampled(data, count))
        return
    pool = list(many(data, POOL // 2, letters))
    for number in range(count):
        text = pool[number % len(pool)]
        yield text._replace(key=f"{number}/SKILL.md", name=f"{text.name.rpartition('-')[0]}-{number}")


def scale_row(data: Collection, count: int, letters: int) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="metier-bench-") as folder:
        index = SearchIndex(f"{folder}/search.db")
        plain = PlainFullText(f"{folder}/plain") if count <= POOL else None
        spent, base = 0.0, memory(anew=True)
        for batch in batches(many(data, count, letters)):
            start = time.process_time()
            index.update(batch)
            spent += time.process_time() - start
            if plain is not None:
                plain.add((text.name, text.about, text.body) for text in batch)
            if sys.stderr.isatty():
                print(f"\rindexing {count:,}: {batch[-1].key.partition('/')[0]}", end="", file=sys.stderr)
        start = time.process_time()
        index.merge()
        spent += time.process_time() - start
        peak = memory() - base
        edits, additions = updates(data, index)
        size = sum(os.path.getsize(file.path) for file in os.scandir(folder) if file.name.startswith("search"))
        finder = SearchEngine(None)
        standing = _Standing()
        finder.indexes.all[0] = index
        vars(finder.indexes)["update"] = lambda _: True  # it is current: there are no files to look at

        def search(query: str) -> None:
            finder.search(cast("Snapshot", standing), Caller(), Query.read(query), 10, lambda _, __: True)

        times = [cpu(search, query) for query in data.queries[:QUERIES_AT_SCALE]]
        baseline = [cpu(plain.search, query) for query in data.queries[:QUERIES_OF_BASELINE]] if plain else []
        index.database.close()
    return [
        f"{count:,}",
        f"{percentile(times, 50) * 1e3:.1f}",
        f"{percentile(times, 99) * 1e3:.1f}",
        f"{percentile(baseline, 50) * 1e3:.1f}" if baseline else "",
        f"{percentile(baseline, 50) / percentile(times, 50):.1f}x" if baseline else "",
        f"{spent:.1f}",
        f"{spent / count * 1e3:.2f}",
        f"{peak:,.0f}",
        f"{size / 2**20:,.0f}",
        f"{percentile(edits, 50) * 1e3:.1f}",
        f"{percentile(additions, 50) * 1e3:.1f}",
    ]


def memory(*, anew: bool = False) -> float:
    """The most MiB that the process had at once, since it was last asked anew; 0 where the system does not tell."""
    try:
        if anew:
            Path("/proc/self/clear_refs").write_text("5")
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0.0
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def batches(texts: Iterator[IndexedText]) -> Iterator[list[IndexedText]]:
    while batch := list(itertools.islice(texts, BATCH)):
        yield batch


def updates(data: Collection, index: SearchIndex) -> tuple[list[float], list[float]]:
    """What writing one skill costs: one that is there with other words, and one that is new."""
    edits, additions = [], []
    for number, (text, other) in enumerate(zip(resampled(data, UPDATES), resampled(data, UPDATES, 1), strict=True)):
        edited = text._replace(stamp="2", about=other.about, body=f"{text.body}\n\n{other.body[:500]}")
        edits.append(cpu(index.update, [edited]))
        additions.append(cpu(index.update, [other._replace(key=f"new-{number}")]))
    return edits, additions


def cpu(call: Callable[[Any], object], argument: object) -> float:
    start = time.process_time()
    call(argument)
    return time.process_time() - start


# --- printing --------------------------------------------------------------------------------------------------------


def percentile(values: Sequence[float], of_hundred: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * of_hundred // 100)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder with corpus.jsonl.gz")
    parser.add_argument("--queries", type=Path, help="JSON lines with id and text (default: dev-queries.jsonl)")
    parser.add_argument("--qrels", type=Path, help="query, skill and grade in columns (default: dev-qrels.tsv)")
    parser.add_argument("--sizes", help="numbers of skills for the last table (default: 1000,10000)")
    parser.add_argument("--large", action="store_true", help="all sizes up to 1,000,000 skills, and every query")
    parser.add_argument("--letters", type=int, default=1 << 20, help="cut the bodies of the last table to so many")
    parser.add_argument("--catalog-sizes", help="numbers of skills for the third table (default: 10,100,1000)")
    parser.add_argument("--only", choices=("quality", "catalog", "budget", "scale"), help="just one table")
    parser.add_argument("--json", action="store_true", help="print JSON for a program")
    parser.add_argument("--check", action="store_true", help="exit 1 when a limit does not hold")
    options = parser.parse_args()
    sizes = options.sizes or ("1000,10000,100000,1000000" if options.large else "1000,10000")
    catalog_sizes = options.catalog_sizes or ("10,100,1000,10000" if options.large else "10,100,1000")
    if not (options.data / "corpus.jsonl.gz").exists():
        print(f"There is no collection in {options.data}; name one with --data.", file=sys.stderr)
        return NOTHING_TO_MEASURE
    queries, qrels = (
        options.queries or options.data / "dev-queries.jsonl",
        options.qrels or options.data / "dev-qrels.tsv",
    )
    data = read(options.data, queries, qrels)
    tables: dict[str, tuple[str, Sequence[str], Callable[[], list[list[str]]]]] = {
        "quality": (
            f"{len(data.queries):,} queries, {len(data.rows):,} skills",
            ("method", "hit@1", "recall@5", "recall@10", "nDCG@10", "MRR", "CPU p50 ms", "p99 ms"),
            lambda: quality_table(data),
        ),
        "catalog": (
            "catalog with the prompt as query",
            ("budget", "right skill inside", "largest", "skills shown", "CPU p50 ms"),
            lambda: catalog_table(data, 1 if options.large else QUERIES_LEFT_OUT),
        ),
        "budget": (
            f"catalog of {BUDGETS[0]:,} bytes at any size, 21 prompts in 3 formats",
            ("skills", "largest", "broken", "CPU p50 ms"),
            lambda: budget_table(data, [int(size) for size in catalog_sizes.split(",")]),
        ),
        "scale": (
            "scale, by resampling",
            SCALE_HEAD,
            lambda: [scale_row(data, int(size), options.letters) for size in sizes.split(",")],
        ),
    }
    found: dict[str, list[dict[str, str]]] = {}
    for name, (title, head, make) in tables.items():
        if options.only in (None, name):
            rows = make()
            found[name] = [dict(zip(head, row, strict=True)) for row in rows]
            if not options.json:
                print(f"\n{title}\n{aligned([head, *rows])}")
    if options.json:
        print(json.dumps(found, indent=2))
    # Behind JSON for a program, the limits are for the one who started it.
    with contextlib.redirect_stdout(sys.stderr if options.json else sys.stdout):
        return check("retrieval", figures(found)) if options.check else 0


def figures(found: Mapping[str, list[dict[str, str]]]) -> dict[str, float]:
    """The figures that have a limit, the worst of all sizes."""
    quality = [row for row in found.get("quality", ()) if row["method"] == "full text (default)"]
    named = {
        "hit@1, full text": [-float(row["hit@1"]) for row in quality],
        "recall@5, full text": [-float(row["recall@5"]) for row in quality],
        "search p50": [float(row["search p50 ms"]) for row in found.get("scale", ())],
        "build": [float(row["ms a skill"]) for row in found.get("scale", ())],
        "memory of a build": [float(row["memory MiB"].replace(",", "")) for row in found.get("scale", ())],
        "broken catalogs": [float(row["broken"]) for row in found.get("budget", ())],
    }
    return {what: abs(max(values)) for what, values in named.items() if values}


if __name__ == "__main__":
    sys.exit(main())
