"""Many processes that write to one store while some are killed: nothing that was acknowledged is lost.

    python benchmarks/writers.py [--store URL] [--writers 8] [--seconds 20] [--kills N] [--json]

Each writer appends audit records, gives approvals, does both in one transaction, and keeps the content of revisions;
it says so on a pipe after each commit. Every second one of them is killed (SIGKILL) and replaced. In the end the chain
must verify, everything that was acknowledged must be there, and no transaction may be there by half. `--kills` ends the
run after so many kills, one after every few acknowledgements, instead of by the clock.
Without `--store`, on a SQLite file of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import selectors
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NoReturn

from _limits import check
from metier.guard.audit.verification import verify
from metier.skill.package import FileMode, MemoryPackage
from metier.store import Approval, Revision, Store, TenantScope, revision_files

TENANT = "writers"
BETWEEN_KILLS = 20
"""Acknowledgements between two kills, where the clock does not count."""


class Writer:
    """A process that writes, and what it has acknowledged so far."""

    def __init__(self, store: Store, number: int) -> None:
        report, told = os.pipe()
        self.process = os.fork()
        if not self.process:
            os.close(report)
            write(store.of(TENANT), f"w{number}", told)
        os.close(told)
        self.report = report
        self._rest = b""

    def read(self) -> list[str] | None:
        """The names of what was acknowledged since the last time; None when nothing more will come."""
        data = os.read(self.report, 65_536)
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [line.decode() for line in lines] if data else None

    def kill(self) -> list[str]:
        """End it as nothing can be prevented from, and return what it still had acknowledged."""
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        left: list[str] = []
        while (lines := self.read()) is not None:
            left += lines
        os.close(self.report)
        return left


def write(scope: TenantScope, name: str, told: int) -> NoReturn:
    """Write until killed; each line on the pipe names what was committed."""

    def record(what: str) -> None:
        scope.audit.append({"type": "tool.called", "skill": "bench", "correlation_id": what, "reason": "x" * 200})

    def approve(what: str) -> None:
        scope.approvals.add(Approval(digest="sha256:bench", skill="bench@test", decided_by=name, reason=what))

    def both(what: str) -> None:
        with scope.transaction():
            approve(what)
            record(what)

    def keep(what: str) -> None:
        scope.revisions.put(*revision_of(what))

    acts: tuple[tuple[str, Callable[[str], None]], ...] = (
        *(("record", record), ("approval", approve), ("both", both), ("revision", keep)),
    )
    count = 0
    try:
        while True:
            kind, act = acts[count % len(acts)]
            what = f"{kind}:{name}:{count}"
            act(what)
            os.write(told, f"{what}\n".encode())
            count += 1
    except BaseException as error:
        os.write(2, f"writer {name}: {error}\n".encode())
    finally:
        os._exit(1)


def revision_of(what: str) -> tuple[Revision, dict[str, tuple[FileMode, bytes]]]:
    """A revision that no other name has."""
    files: dict[str, tuple[FileMode, bytes]] = {"SKILL.md": ("file", what.encode()), "same.txt": ("file", b"same")}
    digest = MemoryPackage({path: data for path, (_, data) in files.items()}).digest()
    return Revision(digest=digest, skill="bench", files=revision_files(files)), files


class Writers:
    """Several of them at once, and all that they have acknowledged."""

    def __init__(self, store: Store, count: int) -> None:
        self._store = store
        self._running: dict[int, Writer] = {}
        self._selector = selectors.DefaultSelector()
        self._started = 0
        self._chance = random.Random(7)
        self.acknowledged: list[str] = []
        self.kills = 0
        self.failed = 0
        """Writers that ended by themselves, which none should."""
        for _ in range(count):
            self._start()

    def _start(self) -> None:
        writer = Writer(self._store, self._started)
        self._started += 1
        self._running[writer.report] = writer
        self._selector.register(writer.report, selectors.EVENT_READ)

    def listen(self) -> None:
        """Take note of what was acknowledged, for a moment."""
        for key, _ in self._selector.select(timeout=0.1):
            lines = self._running[key.fd].read()
            if lines is None:
                self.failed += 1
                self._end(self._running[key.fd])
            else:
                self.acknowledged += lines

    def replace_one(self) -> None:
        """Kill one of them, and start another."""
        self._end(self._running[self._chance.choice(sorted(self._running))])
        self.kills += 1
        self._start()

    def _end(self, writer: Writer) -> None:
        self._selector.unregister(writer.report)
        del self._running[writer.report]
        self.acknowledged += writer.kill()

    def end(self) -> None:
        """Kill all of them."""
        for writer in list(self._running.values()):
            self._end(writer)
        self._selector.close()


def play(store: Store, options: argparse.Namespace) -> dict[str, object]:
    """Let them write, kill and replace them, and look at what is there in the end."""
    start = time.monotonic()
    writers = Writers(store, options.writers)
    try:
        while not writers.failed:
            writers.listen()
            passed = time.monotonic() - start
            if options.kills is None:
                is_over, is_due = passed >= options.seconds, passed >= writers.kills + 1
            else:
                is_over = writers.kills >= options.kills
                is_due = len(writers.acknowledged) >= BETWEEN_KILLS * (writers.kills + 1)
            if is_over:
                break
            if is_due:
                writers.replace_one()
    finally:
        writers.end()
    seconds = time.monotonic() - start
    faults = faults_of(store.of(TENANT), writers.acknowledged)
    if writers.failed:
        faults.append("a writer ended by itself")
    count = len(writers.acknowledged)
    return {
        "store": store.kind,
        "writers": options.writers,
        "kills": writers.kills,
        "acknowledged": count,
        "records": sum(1 for _ in store.of(TENANT).audit.walk()),
        "per second": round(count / seconds, 1),
        "verdict": "; ".join(faults) or "ok",
    }


def faults_of(scope: TenantScope, acknowledged: list[str]) -> list[str]:
    """What is wrong with what is there, if anything."""
    faults = []
    verdict = verify(TENANT, scope.audit.walk(), (), {})
    if verdict.fault is not None:
        faults.append(f"the chain does not verify: {verdict.fault.message}")
    found = (link.record or {} for link in scope.audit.walk())
    records = Counter(record["correlation_id"] for record in found if "correlation_id" in record)
    approvals = Counter(approval.reason for approval in scope.approvals.all())
    for what in acknowledged:
        if not is_there(what, scope, records, approvals):
            faults.append(f"{what} was acknowledged and is not there")
    for what in records.keys() | approvals.keys():
        if what.startswith("both:") and records[what] != approvals[what]:
            faults.append(f"{what} is there by half")
    if max([*records.values(), *approvals.values()], default=0) > 1:
        faults.append("something is there twice")
    return faults


def is_there(what: str, scope: TenantScope, records: Counter[str], approvals: Counter[str]) -> bool:
    """Whether all that a name stands for is there."""
    kind = what.partition(":")[0]
    if kind == "revision":
        revision, files = revision_of(what)
        return scope.revisions.has(revision.digest) and scope.revisions.files(revision.digest) == files
    return (kind == "approval" or records[what] > 0) and (kind == "record" or approvals[what] > 0)


@contextlib.contextmanager
def opened(url: str | None) -> Iterator[Store]:
    """The store that was asked for, or one in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder, Store.open(url or f"sqlite:///{folder}/metier.db") as store:
        # What every writer needs is imported once, before they are forked.
        store.of(TENANT).revisions.has("")
        yield store


def main() -> int:
    """Play it, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", metavar="URL", help="an empty store, such as postgresql://user@host/database")
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--kills", type=int, help="end after so many, whatever the clock says")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with opened(options.store) as store:
        found = play(store, options)
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        for name, value in found.items():
            print(f"  {name:<14} {value if isinstance(value, str) else f'{value:,}'}")
        check("writers", {"faults": 0 if found["verdict"] == "ok" else 1})
    return 0 if found["verdict"] == "ok" else 1


if __name__ == "__main__":
    sys.exit(main())
