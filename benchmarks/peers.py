"""Compare Métier with its peers: the same skills, one process per peer, CPU time only.

    python benchmarks/peers.py [--skills 1000] [--only PEER] [--json]

Peers that are not installed in the running interpreter are listed and skipped. Times are CPU time
of the peer's own process, best of three; "of bare" is discovery as a multiple of a loop that only
lists the folders and reads the first 4 KB of each SKILL.md, in the same process.
"""

from __future__ import annotations

import argparse
import asyncio
import html
import importlib.metadata
import inspect
import json
import math
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from _peers.adapters import PEERS, Peer, Shelf
from _peers.odd import BOMBS, MARK, ODD, Odd
from _table import aligned
from _workload import make_skills

ROUNDS = 3
TIME_LIMIT_S = 60
BODIES = 101
BOMB_CPU_S = 1.0
BOMB_MEMORY_MB = 64

# Run in an interpreter that has loaded nothing else, or a peer is not charged for what we share.
TIME_IMPORT = """
import sys, time
module, name = sys.argv[1].split(":")
started = time.process_time()
getattr(__import__(module, fromlist=[name]), name)
print((time.process_time() - started) * 1000)
"""


def write_workload(base: Path, count: int) -> None:
    (base / "many").mkdir()
    make_skills(base / "many", count, plain=True)
    odd = {f"{case.column}/{path}": data for case in ODD for path, data in case.files.items()}
    bombs = {f"{column}/bomb/SKILL.md": data for column, data in BOMBS.items()}
    for path, data in (odd | bombs).items():
        (base / path).parent.mkdir(parents=True, exist_ok=True)
        (base / path).write_bytes(data)


async def settle(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def best_ms(*jobs: Callable[[], Any]) -> list[float]:
    """Times jobs in turns, so that a slow moment of the machine does not fall on one of them."""
    best = [math.inf] * len(jobs)
    for _ in range(ROUNDS):
        for index, job in enumerate(jobs):
            started = time.process_time()
            await settle(job())
            best[index] = min(best[index], (time.process_time() - started) * 1000)
    return best


def bare_scan(root: Path) -> None:
    """The least any discovery must do, as the unit of its cost."""
    for folder in os.scandir(root):
        with open(os.path.join(folder.path, "SKILL.md"), "rb", buffering=0) as file:
            file.read(4096)


async def body_us(shelf: Shelf, root: Path) -> float:
    times = []
    for name in sorted(os.listdir(root))[:BODIES]:
        started = time.process_time_ns()
        await settle(shelf.body(name))
        times.append(time.process_time_ns() - started)
    return statistics.median(times) / 1000


async def catalog_text(shelf: Shelf, root: Path) -> str | None:
    if shelf.catalog is None:
        return None
    # A fixed stand-in for the folder, so that sizes do not depend on where it was made.
    return str(await settle(shelf.catalog())).replace(str(root), "/skills")


async def loads(peer: Peer, case: Odd, root: Path) -> bool:
    """Whether the body loads and, where the peer has a catalog, the description is in it whole."""
    try:
        shelf = await settle(peer.discover(root))
        text = await catalog_text(shelf, root)
        described = text is None or case.description in html.unescape(text)
        return described and MARK in await settle(shelf.body(case.loads))
    except Exception:
        return False


async def measure(peer: Peer, base: Path) -> dict[str, Any]:
    root = base / "many"

    def discover() -> Any:
        return peer.discover(root)

    shelf: Shelf = await settle(discover())
    jobs = discover, lambda: bare_scan(root), shelf.rescan or discover
    discover_ms, bare_ms, rescan_ms = await best_ms(*jobs)
    text = await catalog_text(shelf, root)
    return {
        "discover_ms": discover_ms,
        "bare_ms": bare_ms,
        "rescan_ms": rescan_ms,
        "catalog_bytes": None if text is None else len(text.encode()),
        "body_us": await body_us(shelf, root),
        "resident": peer.resident,
        "found": shelf.count,
        "odd": {case.column: await loads(peer, case, base / case.column) for case in ODD},
    }


def peak_mb() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


async def survives(peer: Peer, plain: Path, root: Path) -> bool:
    """Whether the peer refuses the bomb, or reads it, at a bounded cost."""
    await settle(peer.discover(plain))  # Whatever is imported late is not the bomb's doing.
    started, before = time.process_time(), peak_mb()
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(started + 5 * BOMB_CPU_S), hard))
    try:
        await catalog_text(await settle(peer.discover(root)), root)
    except (MemoryError, RecursionError):
        return False
    except Exception:
        pass  # Refusing the file by an error is an answer; what it cost is judged below.
    return time.process_time() - started < BOMB_CPU_S and peak_mb() - before < BOMB_MEMORY_MB


def work(peer: Peer, task: str, base: Path) -> Any:
    """The part that runs in the peer's own process."""
    if task == "measure":
        return asyncio.run(measure(peer, base))
    return asyncio.run(survives(peer, base / "CRLF", base / task))


@dataclass(slots=True, kw_only=True)
class Row:
    """What became of one peer: figures, or why there are none."""

    package: str
    version: str | None = None
    trouble: str | None = None
    figures: dict[str, Any] = field(default_factory=dict)


class PeerFailed(Exception):
    """A peer's process crashed or ran over its time limit."""


def run(task: str, *arguments: str) -> Any:
    try:
        done = subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            check=False,
            text=True,
            timeout=TIME_LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        raise PeerFailed(f"{task}: over {TIME_LIMIT_S} s") from None
    if done.returncode < 0:
        raise PeerFailed(f"{task}: killed by {signal.Signals(-done.returncode).name}")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise PeerFailed(f"{task}: {last[:120]}")
    return json.loads(done.stdout.splitlines()[-1])


def run_peer(peer: Peer, task: str, base: Path) -> Any:
    return run(task, __file__, "--only", peer.package, "--task", task, "--base", str(base))


def survives_apart(peer: Peer, column: str, base: Path) -> bool:
    try:
        return run_peer(peer, column, base) is True
    except PeerFailed:
        return False


def compare(peer: Peer, base: Path) -> Row:
    try:
        row = Row(package=peer.package, version=importlib.metadata.version(peer.package))
    except importlib.metadata.PackageNotFoundError:
        return Row(package=peer.package, trouble=f"not installed: pip install {peer.package}")
    try:
        imports = [run("import", "-c", TIME_IMPORT, peer.entry) for _ in range(ROUNDS)]
        row.figures = {"import_ms": min(imports), **run_peer(peer, "measure", base)}
    except PeerFailed as failure:
        row.trouble = f"crashed in {failure}"
        return row
    row.figures["odd"] |= {column: survives_apart(peer, column, base) for column in BOMBS}
    return row


def cells(row: Row, count: int) -> list[str]:
    shown = row.figures
    catalog = shown["catalog_bytes"]
    return [
        f"{row.package} {row.version}",
        f"{shown['import_ms']:.0f}",
        f"{shown['discover_ms']:.0f}",
        f"{shown['discover_ms'] / shown['bare_ms']:.1f}x",
        f"{shown['rescan_ms']:.1f}",
        "-" if catalog is None else str(catalog),
        f"{shown['body_us']:.1f}" + "*" * shown["resident"],
        f"{shown['found']}/{count}",
        *("yes" if answer else "no" for answer in shown["odd"].values()),
    ]


def table(rows: list[Row], count: int) -> str:
    head = ["peer", "import ms", "discover ms", "of bare", "re-scan ms", "catalog B", "body us"]
    head += ["found", *(case.column for case in ODD), *BOMBS]
    body = [cells(row, count) if row.trouble is None else (row.package, row.trouble) for row in rows]
    return f"{aligned([head, *body])}\n\n* already in memory since discovery"


def main() -> None:
    as_written = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_written)
    parser.add_argument("--skills", type=int, default=1000, help="how many skills to discover")
    parser.add_argument("--json", action="store_true", help="print figures instead of a table")
    parser.add_argument("--only", choices=[peer.package for peer in PEERS], help="run one peer")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    parser.add_argument("--base", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    peers = [peer for peer in PEERS if options.only in (None, peer.package)]
    if options.task:
        print(json.dumps(work(peers[0], options.task, options.base)))
        return
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder).resolve()
        write_workload(base, options.skills)
        rows = [compare(peer, base) for peer in peers]
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        print(table(rows, options.skills))


if __name__ == "__main__":
    main()
