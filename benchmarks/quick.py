"""Watch the hot paths: has one of them become twice as slow?

    python benchmarks/quick.py [--only ROW ...] [--json] [--renew]

Each row is the time of one hot path as a ratio to the least that anybody must do instead, measured by turns in the same
run: processor and waiting, without the turns of other programs. What is normal stands in limits.toml; a row fails at
1.6 times of it. A row that fails is measured again a few times, and the least counts, so that a noisy moment fails
nothing. No path may wait more often than is normal: for the disk, or by `time.sleep`. `--renew` writes the ratios of
this run, the median of three, into limits.toml.
"""

from __future__ import annotations

import argparse
import asyncio
import atexit
import contextlib
import functools
import hashlib
import itertools
import json
import os
import re
import resource
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from _effort import Case, Effort, measure, process_ns, waits_of
from _limits import TABLE, tables
from _table import add_options, mark, report
from _workload import make_skills

TOO_MUCH = 1.6
"""So many times what is normal fails: a path that takes twice as long surely does, noise and other machines do not."""
ROUNDS, SECONDS = 200, 0.6
"""How often a row is measured, and for how long at most."""
AGAIN = 4
COUNTED = str(Path(__file__).with_name("_effort.py"))
SKILLS = 60

Make = Callable[[Path], contextlib.AbstractContextManager[Case]]
ROWS: dict[str, Make] = {}


class NotHere(Exception):
    """This machine does not have what a row measures."""


def row(name: str) -> Callable[[Callable[[Path], Iterator[Case]]], Make]:
    """Make a row of a function that prepares a case in a folder."""

    def add(make: Callable[[Path], Iterator[Case]]) -> Make:
        ROWS[name] = contextlib.contextmanager(make)
        return ROWS[name]

    return add


# --- baselines -------------------------------------------------------------------------------------------------------

TEXT = json.dumps({"words": ["agent", "folder", "check", "report"] * 25, "numbers": list(range(50))})


def compute() -> None:
    """Plain Python, as a path is that only computes: parse, hash, look up, and join."""
    value = json.loads(TEXT)
    counts: dict[str, int] = {}
    for word in value["words"]:
        counts[word] = counts.get(word, 0) + 1
    hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def read_files(root: Path, limit: int | None = None) -> None:
    """List the folders and read each SKILL.md."""
    with os.scandir(root) as entries:
        for entry in itertools.islice(entries, limit):
            descriptor = os.open(f"{entry.path}/SKILL.md", os.O_RDONLY)
            os.read(descriptor, 65_536)
            os.close(descriptor)


def stat_files(root: Path) -> None:
    """List the folders and `stat` each SKILL.md."""
    with os.scandir(root) as entries:
        for entry in entries:
            os.stat(f"{entry.path}/SKILL.md")


def bare_append(folder: Path) -> Callable[[], None]:
    """A line at the end of a file."""
    file = os.open(folder / "bare.jsonl", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    line = b"x" * 800 + b"\n"

    def append() -> None:
        os.fstat(file)
        os.write(file, line)

    return append


def bare_insert(folder: Path) -> Callable[[], None]:
    """A row in a table of SQLite, on the disk."""
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    for statement in ("journal_mode = WAL", "synchronous = FULL"):
        connection.execute(f"PRAGMA {statement}")
    connection.execute("CREATE TABLE t (data TEXT)")

    def insert() -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("SELECT rowid FROM t ORDER BY rowid DESC LIMIT 1").fetchone()
        connection.execute("INSERT INTO t VALUES (?)", ("x" * 1_200,))
        connection.execute("COMMIT")

    return insert


# --- commands --------------------------------------------------------------------------------------------------------


def command(folder: Path, *words: str) -> Iterator[Case]:
    skills = folder / "skills"
    make_skills(skills, 5, plain=True)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env |= {"METIER_CACHE": str(folder / "cache"), "HOME": str(folder), "METIER_DATA": str(folder)}
    ours = [sys.executable, "-m", "metier", *(str(skills) if word == "SKILLS" else word for word in words)]
    process_ns(ours, env)  # leaves the bytecode and the index
    bare = [sys.executable, "-c", "pass"]

    def waits() -> float:
        process_ns([sys.executable, COUNTED, str(folder / "waits"), *ours[3:]], env)
        return float((folder / "waits").read_text())

    yield Case(work=lambda: process_ns(ours, env), baseline=lambda: process_ns(bare, env), is_timed=True, waits=waits)


@row("command: --version")
def _(folder: Path) -> Iterator[Case]:
    yield from command(folder, "--version")


@row("command: list")
def _(folder: Path) -> Iterator[Case]:
    yield from command(folder, "--skills", "SKILLS", "list")


@row("command: validate")
def _(folder: Path) -> Iterator[Case]:
    yield from command(folder, "validate", "SKILLS")


# --- the library and its search --------------------------------------------------------------------------------------


@row("cold index")
def _(folder: Path) -> Iterator[Case]:
    from metier import Library

    make_skills(folder, SKILLS, plain=True)
    yield Case(work=lambda: Library.from_folder(folder, cache=False), baseline=lambda: read_files(folder))


@row("list from the cache")
def _(folder: Path) -> Iterator[Case]:
    from metier import Library

    make_skills(folder / "skills", SKILLS, plain=True)
    time.sleep(0.1)  # so that the files count as settled
    Library.from_folder(folder / "skills", cache=folder / "cache")
    yield Case(
        work=lambda: list(Library.from_folder(folder / "skills", cache=folder / "cache")),
        baseline=lambda: stat_files(folder / "skills"),
    )


@row("load a body")
def _(folder: Path) -> Iterator[Case]:
    from metier import Library

    make_skills(folder, SKILLS, plain=True)
    names = sorted(os.listdir(folder))
    library = Library.from_folder(folder, cache=False)

    def prepare() -> None:
        nonlocal library
        library = Library.from_folder(folder, cache=False)

    def load() -> None:
        for name in names:
            library.document(name)

    yield Case(work=load, baseline=lambda: read_files(folder), prepare=prepare)


def searched_skills() -> list[dict[str, bytes | str]]:
    with tempfile.TemporaryDirectory() as folder:
        make_skills(Path(folder), SKILLS, plain=True)
        return [{"SKILL.md": (Path(folder) / name / "SKILL.md").read_text()} for name in sorted(os.listdir(folder))]


def full_text() -> sqlite3.Connection:
    database = sqlite3.connect(":memory:", isolation_level=None)
    database.execute("CREATE VIRTUAL TABLE skill USING fts5(body, tokenize='porter unicode61')")
    return database


@row("build the search index")
def _(folder: Path) -> Iterator[Case]:
    from metier import Library

    skills = searched_skills()
    library = Library.from_files(*skills)

    def prepare() -> None:
        nonlocal library
        library = Library.from_files(*skills)
        library.embed_with(None)

    def bare() -> None:
        full_text().executemany("INSERT INTO skill VALUES (?)", [(skill["SKILL.md"],) for skill in skills])

    yield Case(work=lambda: library.update_index(), baseline=bare, prepare=prepare)


@row("search")
def _(folder: Path) -> Iterator[Case]:
    from metier import Library

    skills = searched_skills()
    library = Library.from_files(*skills)
    library.embed_with(None)
    library.update_index()
    plain = full_text()
    plain.executemany("INSERT INTO skill VALUES (?)", [(skill["SKILL.md"],) for skill in skills])
    match = "SELECT rowid FROM skill WHERE skill MATCH ? ORDER BY bm25(skill) LIMIT 10"
    words = itertools.cycle(itertools.permutations(("deploy", "release", "branch", "table", "schema", "prompt"), 3))
    yield Case(
        work=lambda: library.search(" ".join(next(words)), 10),
        baseline=lambda: plain.execute(match, (" OR ".join(next(words)),)).fetchall(),
    )


# --- decisions and records -------------------------------------------------------------------------------------------


@row("decision")
def _(folder: Path) -> Iterator[Case]:
    from metier import Guard
    from metier.guard import Action, Actor, MemoryLog
    from metier.guard.governance import Governance
    from metier.guard.policy.files import Policies

    guard = Guard(audit=MemoryLog(), governance=Governance(Policies(), store=None))
    actor, number = Actor(user="ada", session="benchmark"), itertools.count()

    def decide() -> None:
        arguments = {"command": f"git log -n {next(number)} | cat"}
        guard.decide(Action(point="call", tool="Bash", arguments=arguments), actor)

    yield Case(work=decide, baseline=compute)


@row("decision under policy")
def _(folder: Path) -> Iterator[Case]:
    from governance import POLICY
    from metier import Guard
    from metier.guard import Action, Actor, MemoryLog
    from metier.guard.governance import Governance
    from metier.guard.policy.files import Policies

    (folder / "policy.yaml").write_text(POLICY)
    time.sleep(0.2)  # until a change of the file would have another time stamp
    governance = Governance(Policies([("enterprise", folder / "policy.yaml")]), store=f"sqlite:///{folder}/metier.db")
    guard = Guard(audit=MemoryLog(), governance=governance)
    action, actor = Action(point="call", tool="Bash", arguments={"command": "git status"}), Actor(user="ada")
    yield Case(work=lambda: guard.decide(action, actor), baseline=compute)


def recorded_call(folder: Path, log: Any) -> tuple[Callable[[], None], Callable[[], None]]:
    """A tool call in a session that is decided and recorded in this log, and what closes it."""
    from metier import Guard, Library, Policy
    from metier.tools import Executor, FunctionTool, ToolRegistry
    from session import echo_back, make_active

    names = make_active(folder / "active")
    library = Library.from_folder(folder / "active", cache=False)
    guard = Guard(Policy(deny="Bash(curl:*), WebFetch"), audit=log)
    session = library.session(skills=names, guard=guard, max_active=len(names), workspace=folder)
    executor = Executor(ToolRegistry([FunctionTool(echo_back, name="Bash")]), session.calls)
    loop = asyncio.Runner()

    async def call() -> None:
        result = await executor.execute("Bash", {"command": "git status"})
        assert result.success, result.error

    def close() -> None:
        loop.close()
        session.close()
        log.close()

    return lambda: loop.run(call()), close


@row("call, recorded in a file")
def _(folder: Path) -> Iterator[Case]:
    from metier.guard import FileLog

    work, close = recorded_call(folder, FileLog(folder / "audit.jsonl"))
    yield Case(work=work, baseline=compute)
    close()


@row("call, recorded in the store")
def _(folder: Path) -> Iterator[Case]:
    from metier.guard.audit.store_log import StoreLog

    work, close = recorded_call(folder, StoreLog(f"sqlite:///{folder}/metier.db", key=folder / "key", every=1_000_000))
    yield Case(work=work, baseline=bare_insert(folder))
    close()


def appended(folder: Path, log: Any, baseline: Callable[[], None]) -> Iterator[Case]:
    from audit import records

    made = records("acme")
    yield Case(work=lambda: log.append(made()), baseline=baseline)
    log.close()


@row("audit append, file")
def _(folder: Path) -> Iterator[Case]:
    from metier.guard import FileLog

    yield from appended(folder, FileLog(folder / "audit.jsonl"), bare_append(folder))


@row("audit append, store")
def _(folder: Path) -> Iterator[Case]:
    from metier.guard.audit.store_log import StoreLog

    log = StoreLog(f"sqlite:///{folder}/metier.db", key=folder / "key", every=1_000_000)
    yield from appended(folder, log, bare_insert(folder))


@row("audit verify")
def _(folder: Path) -> Iterator[Case]:
    from audit import records
    from metier.guard.audit.store_log import StoreLog
    from metier.guard.audit.verification import verify

    log, made = StoreLog(f"sqlite:///{folder}/metier.db", key=folder / "key", every=1_000_000), records("acme")
    for _ in range(100):
        log.append(made())
    scope = log.store.of("acme")
    texts = [link.text for link in scope.audit.walk()]

    def bare() -> None:
        for text in texts:
            hashlib.sha256(json.dumps(json.loads(text), sort_keys=True).encode()).hexdigest()

    yield Case(work=lambda: verify("acme", scope.audit.walk(), (), {}), baseline=bare)
    log.close()


# --- skills ----------------------------------------------------------------------------------------------------------


@row("scan a skill")
def _(folder: Path) -> Iterator[Case]:
    from metier.scan.scanner import scan
    from metier.skill import FolderPackage

    make_skills(folder, 1, plain=True)
    (skill,) = folder.iterdir()
    text, word = (skill / "SKILL.md").read_text(), re.compile(r"\w+")
    yield Case(work=lambda: scan(FolderPackage(skill), folder=skill.name), baseline=lambda: word.findall(text))


@row("validate a skill")
def _(folder: Path) -> Iterator[Case]:
    from metier.skill import FolderPackage
    from metier.skill.validate import check

    make_skills(folder, 1, plain=True)
    (skill,) = folder.iterdir()
    data = (skill / "SKILL.md").read_bytes()
    yield Case(work=lambda: check(data, FolderPackage(skill), folder=skill.name, strict=True), baseline=compute)


@row("load and unload in a session")
def _(folder: Path) -> Iterator[Case]:
    from metier import Guard, Library
    from metier.guard import FileLog

    make_skills(folder / "skills", 8, plain=True)
    library = Library.from_folder(folder / "skills", cache=False)
    session = library.session(guard=Guard(audit=FileLog(folder / "audit.jsonl")), workspace=folder)
    names = itertools.cycle(sorted(os.listdir(folder / "skills")))

    def load() -> None:
        name = next(names)
        session.load([name], "add")
        session.unload([name])
        session.instructions()

    yield Case(work=load, baseline=lambda: read_files(folder / "skills"))
    session.close()


# --- scripts ---------------------------------------------------------------------------------------------------------


def job(folder: Path, way: str) -> Iterator[Case]:
    import run

    try:
        start, close = run.starter(way, str(folder))
    except run.NotHere as error:
        raise NotHere(str(error)) from None
    bare, _ = run.starter(run.BARE, str(folder))

    def some() -> None:
        for _ in range(4):
            bare()

    if way.startswith("virtual"):
        yield Case(work=start, baseline=compute)
    else:
        yield Case(work=start, baseline=some, processes=(None, None))
    close()


for _way in ("plain", "native:namespaces", "virtual:job", "virtual:shell"):
    row(f"run a script, {_way}")(functools.partial(job, way=_way))


# --- the MCP server --------------------------------------------------------------------------------------------------


class Served:
    """Our server and a bare one, for all rows that ask them; both end with this program."""

    def __init__(self) -> None:
        from mcp_server import Connection, servers

        self._stack = contextlib.ExitStack()
        atexit.register(self._stack.close)
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="metier-bench-"))).resolve()
        make_skills(folder / "skills", 20, plain=True)
        self._names = itertools.cycle(sorted(os.listdir(folder / "skills")))
        env = {**os.environ, "METIER_AUDIT": f"{folder}/audit.jsonl", "METIER_CACHE": f"{folder}/cache"}
        env |= {"HOME": str(folder), "METIER_DATA": str(folder)}
        both = list(itertools.islice(servers(folder / "skills", sys.executable), 2))
        self._tools = [server.tool for server in both]
        self.connections = [Connection(server.command, env) for server in both]
        for connection in self.connections:
            self._stack.callback(connection.end)
        counted = Connection([sys.executable, COUNTED, str(folder / "waits"), *both[1].command[3:]], env)
        for method in ("tools/call", "resources/read"):
            self.ask(1, method, counted)
        counted.end()
        self.waits = float((folder / "waits").read_text())
        """How often our server waits for the disk from its start on, for one request of each kind."""

    def ask(self, number: int, method: str, connection: Any = None) -> None:
        name = next(self._names)
        asked = self._tools[number](name) if method == "tools/call" else {"uri": f"skill://{name}/SKILL.md"}
        (connection or self.connections[number]).request(method, asked)


served = functools.cache(Served)


def asked(method: str) -> Iterator[Case]:
    both = served()
    yield Case(
        work=lambda: both.ask(1, method),
        baseline=lambda: both.ask(0, method),
        processes=(both.connections[1].process, both.connections[0].process),
        waits=lambda: both.waits,
    )


@row("MCP tool call")
def _(folder: Path) -> Iterator[Case]:
    yield from asked("tools/call")


@row("MCP resource read")
def _(folder: Path) -> Iterator[Case]:
    yield from asked("resources/read")


# --- judging ---------------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """What was measured of one hot path."""

    what: str
    us: float
    ratio: float
    normal: float | None
    waits: float
    normal_waits: float | None
    tries: int

    @property
    def factor(self) -> float:
        """How many times as slow as is normal."""
        return self.ratio / self.normal if self.normal else 1.0

    @property
    def is_quick(self) -> bool:
        times: float = tables()["quick"].get(self.what, {}).get("times", TOO_MUCH)
        return self.factor <= times

    @property
    def holds(self) -> bool:
        return self.is_quick and (self.normal_waits is None or self.waits <= self.normal_waits)


def cells(row: Row) -> tuple[str, ...]:
    """A row as it is printed."""
    waits = f"{row.waits:g} of {row.normal_waits or 0:g}"
    return (
        row.what, f"{row.us:,.0f}", f"{row.ratio:,.2f}x", f"{row.normal or 0:,.2f}x", f"{row.factor:.2f}", waits,
        str(row.tries), mark(row),
    )  # fmt: skip


HEAD = ("hot path", "us", "of its baseline", "normal", "factor", "waits", "tries", "")


def measured(name: str, tries: int) -> Row:
    """One row, measured again and again while it fails."""
    normal = tables().get("quick", {}).get(name, {})
    effort = Effort()
    with tempfile.TemporaryDirectory(prefix="metier-bench-") as folder, ROWS[name](Path(folder).resolve()) as case:
        waits = case.waits() if case.waits else waits_of(ROWS[name])
        for number in range(1, tries + 1):
            measure(case, effort, ROUNDS, SECONDS * number)
            row = Row(name, effort.ours / 1_000, effort.ratio, normal.get("normal"), waits, normal.get("waits"), number)
            if row.is_quick:
                break
    return row


def renew(rows: dict[str, list[Row]]) -> None:
    """Write the ratios that were measured into limits.toml, in place of those that are there."""
    text = TABLE.read_text(encoding="utf-8")
    for name, tries in rows.items():
        normal = statistics.median(row.ratio for row in tries)
        text = re.sub(rf'(?m)^("{re.escape(name)}" = {{ normal = )[\d.]+', rf"\g<1>{normal:.3g}", text)
        text = re.sub(rf'(?m)^("{re.escape(name)}" = .* waits = )[\d.]+', rf"\g<1>{tries[0].waits:g}", text)
    TABLE.write_text(text, encoding="utf-8")


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="ROW", choices=sorted(ROWS), help="just this row")
    parser.add_argument("--renew", action="store_true", help="write what is measured as what is normal")
    add_options(parser)
    options = parser.parse_args()
    options.check = True
    begun = time.monotonic()
    rows: dict[str, list[Row]] = {}
    for name in options.only or ROWS:
        try:
            for _ in range(3 if options.renew else 1):
                rows.setdefault(name, []).append(measured(name, 1 if options.renew else AGAIN + 1))
        except NotHere as error:
            print(f"not here: {error}", file=sys.stderr)
    if options.renew:
        renew(rows)
        return 0
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(one.ru_utime + one.ru_stime for one in used)
    title = f"Hot paths; {time.monotonic() - begun:.0f} s on the clock, {cpu:.0f} s CPU"
    return report([tries[0] for tries in rows.values()], options, title, cells, HEAD)


if __name__ == "__main__":
    sys.exit(main())
