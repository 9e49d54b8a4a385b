"""The hot paths that `quick.py` watches, each with the least that anybody must do instead of it."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import hashlib
import itertools
import json
import os
import re
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from _effort import Case, process_ns
from _workload import make_skills
from audit import records
from metier import Guard, Library, Policy
from metier.guard import Action, Actor, FileLog, MemoryLog
from metier.guard.audit.store_log import StoreLog
from metier.guard.audit.verification import verify
from metier.guard.governance import Governance
from metier.guard.policy.files import Policies
from metier.scan.scanner import scan
from metier.skill import FolderPackage
from metier.skill.validate import check
from metier.tools import Executor, FunctionTool, ToolRegistry

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


def read_files(root: Path) -> None:
    """List the folders and read each SKILL.md."""
    with os.scandir(root) as entries:
        for entry in entries:
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


row("command: --version")(lambda folder: command(folder, "--version"))
row("command: list")(lambda folder: command(folder, "--skills", "SKILLS", "list"))
row("command: validate")(lambda folder: command(folder, "validate", "SKILLS"))


# --- the library and its search --------------------------------------------------------------------------------------


@row("cold index")
def _(folder: Path) -> Iterator[Case]:
    make_skills(folder, SKILLS, plain=True)
    yield Case(work=lambda: Library.from_folder(folder, cache=False), baseline=lambda: read_files(folder))


@row("list from the cache")
def _(folder: Path) -> Iterator[Case]:
    make_skills(folder / "skills", SKILLS, plain=True)
    time.sleep(0.1)  # so that the files count as settled
    Library.from_folder(folder / "skills", cache=folder / "cache")
    yield Case(
        work=lambda: list(Library.from_folder(folder / "skills", cache=folder / "cache")),
        baseline=lambda: stat_files(folder / "skills"),
    )


@row("load a body")
def _(folder: Path) -> Iterator[Case]:
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


def searched(folder: Path) -> tuple[Library, list[tuple[str]]]:
    """A library whose index is not built yet, and the texts that it has."""
    if not any(folder.iterdir()):
        make_skills(folder, SKILLS, plain=True)
    texts = [(file.read_text(),) for file in sorted(folder.glob("*/SKILL.md"))]
    library = Library.from_files(*({"SKILL.md": text} for (text,) in texts))
    library.embed_with(None)
    return library, texts


def full_text(texts: list[tuple[str]]) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:", isolation_level=None)
    database.execute("CREATE VIRTUAL TABLE skill USING fts5(body, tokenize='porter unicode61')")
    database.executemany("INSERT INTO skill VALUES (?)", texts)
    return database


@row("build the search index")
def _(folder: Path) -> Iterator[Case]:
    library, texts = searched(folder)

    def prepare() -> None:
        nonlocal library
        library, _ = searched(folder)

    yield Case(work=lambda: library.update_index(), baseline=lambda: full_text(texts), prepare=prepare)


@row("search")
def _(folder: Path) -> Iterator[Case]:
    library, texts = searched(folder)
    library.update_index()
    plain = full_text(texts)
    match = "SELECT rowid FROM skill WHERE skill MATCH ? ORDER BY bm25(skill) LIMIT 10"
    words = itertools.cycle(itertools.permutations(("deploy", "release", "branch", "table", "schema", "prompt"), 3))
    yield Case(
        work=lambda: library.search(" ".join(next(words)), 10),
        baseline=lambda: plain.execute(match, (" OR ".join(next(words)),)).fetchall(),
    )


# --- decisions and records -------------------------------------------------------------------------------------------


@row("decision")
def _(folder: Path) -> Iterator[Case]:
    guard = Guard(audit=MemoryLog(), governance=Governance(Policies(), store=None))
    actor, number = Actor(user="ada", session="benchmark"), itertools.count()

    def decide() -> None:
        arguments = {"command": f"git log -n {next(number)} | cat"}
        guard.decide(Action(point="call", tool="Bash", arguments=arguments), actor)

    yield Case(work=decide, baseline=compute)


@row("decision under policy")
def _(folder: Path) -> Iterator[Case]:
    from governance import POLICY

    (folder / "policy.yaml").write_text(POLICY)
    time.sleep(0.2)  # until a change of the file would have another time stamp
    governance = Governance(Policies([("enterprise", folder / "policy.yaml")]), store=f"sqlite:///{folder}/metier.db")
    guard = Guard(audit=MemoryLog(), governance=governance)
    action, actor = Action(point="call", tool="Bash", arguments={"command": "git status"}), Actor(user="ada")
    yield Case(work=lambda: guard.decide(action, actor), baseline=compute)


def file_log(folder: Path) -> FileLog:
    return FileLog(folder / "audit.jsonl")


def store_log(folder: Path) -> StoreLog:
    return StoreLog(f"sqlite:///{folder}/metier.db", key=folder / "key", every=1_000_000)


def recorded_call(folder: Path, log: Any, baseline: Callable[[], None]) -> Iterator[Case]:
    """A tool call in a session that is decided and recorded."""
    from session import echo_back, make_active

    names, loop = make_active(folder / "active"), asyncio.Runner()
    library = Library.from_folder(folder / "active", cache=False)
    guard = Guard(Policy(deny="Bash(curl:*), WebFetch"), audit=log)
    session = library.session(skills=names, guard=guard, max_active=len(names), workspace=folder)
    executor = Executor(ToolRegistry([FunctionTool(echo_back, name="Bash")]), session.calls)

    async def call() -> None:
        result = await executor.execute("Bash", {"command": "git status"})
        assert result.success, result.error

    yield Case(work=lambda: loop.run(call()), baseline=baseline)
    for used in (loop, session, log):
        used.close()


row("call, recorded in a file")(lambda folder: recorded_call(folder, file_log(folder), compute))
row("call, recorded in the store")(lambda folder: recorded_call(folder, store_log(folder), bare_insert(folder)))


def appended(log: Any, baseline: Callable[[], None]) -> Iterator[Case]:
    record = records("acme")
    yield Case(work=lambda: log.append(record()), baseline=baseline)
    log.close()


row("audit append, file")(lambda folder: appended(file_log(folder), bare_append(folder)))
row("audit append, store")(lambda folder: appended(store_log(folder), bare_insert(folder)))


@row("audit verify")
def _(folder: Path) -> Iterator[Case]:
    log, record = store_log(folder), records("acme")
    for _ in range(100):
        log.append(record())
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
    make_skills(folder, 1, plain=True)
    (skill,) = folder.iterdir()
    text, word = (skill / "SKILL.md").read_text(), re.compile(r"\w+")
    yield Case(work=lambda: scan(FolderPackage(skill), folder=skill.name), baseline=lambda: word.findall(text))


@row("validate a skill")
def _(folder: Path) -> Iterator[Case]:
    make_skills(folder, 1, plain=True)
    (skill,) = folder.iterdir()
    data = (skill / "SKILL.md").read_bytes()
    yield Case(work=lambda: check(data, FolderPackage(skill), folder=skill.name, strict=True), baseline=compute)


@row("load and unload in a session")
def _(folder: Path) -> Iterator[Case]:
    make_skills(folder / "skills", 8, plain=True)
    library = Library.from_folder(folder / "skills", cache=False)
    session = library.session(guard=Guard(audit=file_log(folder)), workspace=folder)
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


row("MCP tool call")(lambda folder: asked("tools/call"))
row("MCP resource read")(lambda folder: asked("resources/read"))
