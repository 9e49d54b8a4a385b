"""The cost of a large registry: the index of 10,000 skills with 100,000 versions, from a server's memory.

    python benchmarks/registry_server.py [--skills 10000] [--versions 10] [--json] [--check]

CPU milliseconds of the process for one request, the whole application with its limits and checks included, without the
network: the index from the cache, for a client that takes it compressed, for one that has it already, the list of a
package and an archive; and what a change costs the first that asks afterwards.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import sys
import tempfile
import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

from _limits import most
from _table import add_options, mark, report
from metier._lazy import replace
from metier.guard import Guard
from metier.hub.publish.listing import INDEX
from metier.hub.registry.publication import publish_release
from metier.serve.api.app import create_app
from metier.serve.api.settings import ClientLimits, RegistrySettings, ServerSettings
from metier.store import Person, Store, TenantScope

_SETTINGS = ServerSettings(
    access_log=False,
    limits=ClientLimits(requests_per_minute=10_000_000),
    registry=RegistrySettings(anonymous=True),
)
_TIMES = 30
_ADA = Person(name="ada", roles=frozenset({"admin"}))


class Row(NamedTuple):
    """One line of the table."""

    what: str
    ms: float
    bytes: int = 0

    @property
    def limit(self) -> float | None:
        return most("registry_server", self.what)

    @property
    def holds(self) -> bool | None:
        return None if self.limit is None else self.ms <= self.limit


def cells(row: Row) -> tuple[str, ...]:
    """A row as it is printed."""
    return (
        row.what,
        f"{row.ms:,.2f} ms",
        f"{row.bytes / 1e6:,.2f} MB" if row.bytes else "",
        "" if row.limit is None else f"limit {row.limit:g}",
        mark(row),
    )


def files_of(version: str) -> dict[str, tuple[Any, bytes]]:
    """The files of one real release."""
    text = f"---\nname: real\ndescription: Fills forms.\nversion: {version}\n---\nDo it.\n"
    return {"SKILL.md": ("file", text.encode())}


def fill(scope: TenantScope, skills: int, versions: int) -> None:
    """Write the rows of so many releases, as `publish_release` does."""
    real = publish_release(scope, _ADA, "default", files_of("1.0.0"), guard=Guard())
    with scope.transaction():
        for number in range(skills - 1):
            name = f"skill-{number:05}"
            for minor in range(versions):
                label = f"{name}-1.{minor}.0"
                digest = f"sha256:{hashlib.sha256(label.encode()).hexdigest()}"
                facts = {
                    **real.facts,
                    "url": f"{name}/{label}.zip",
                    "license": "Apache-2.0",
                    "keywords": ["forms", "pdf"],
                }
                row = replace(
                    real, name=name, version=f"1.{minor}.0", digest=digest, archive_digest=digest, facts=facts
                )
                scope.releases.put(
                    replace(row, description=f"Does work number {number}. Use when that has to be done.")
                )


class Client:
    """Requests to an application in this process."""

    def __init__(self, app: Any) -> None:
        self._app, self._loop = app, asyncio.new_event_loop()

    def __call__(self, path: str, **headers: str) -> tuple[int, dict[str, str], int]:
        return self._loop.run_until_complete(self._get(path, headers))

    async def _get(self, path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], int]:
        plain, _, query = path.partition("?")
        raw = [(name.replace("_", "-").lower().encode(), text.encode()) for name, text in headers.items()]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": plain,
            "raw_path": plain.encode(),
            "query_string": query.encode(),
            "headers": [(b"host", b"localhost"), *raw],
            "client": ("127.0.0.1", 5),
            "server": ("127.0.0.1", 8400),
        }
        status, found, size = 0, {}, 0

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            nonlocal status, found, size
            if message["type"] == "http.response.start":
                status = message["status"]
                found = {name.decode().lower(): text.decode() for name, text in message["headers"]}
            else:
                size += len(message.get("body", b""))

        await self._app(scope, receive, send)
        return status, found, size


def cpu_ms(work: Callable[[], object], times: int = _TIMES) -> float:
    """The median CPU milliseconds of the process for a piece of work."""
    spent = []
    for _ in range(times):
        before = time.process_time()
        work()
        spent.append((time.process_time() - before) * 1_000)
    return median(spent)


def measured(skills: int, versions: int) -> list[Row]:
    """All rows."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.open(f"sqlite:///{folder}/metier.db") as store,
    ):
        scope = store.of()
        fill(scope, skills, versions)
        get, path = Client(create_app(store, _SETTINGS)), f"/{INDEX}/index.json"
        rows = [Row("index, the first time", cpu_ms(lambda: get(path), 1))]
        status, headers, size = get(path)
        assert status == 200, status
        rows.append(Row("index", cpu_ms(lambda: get(path)), size))
        packed = get(path, accept_encoding="gzip")[2]
        rows.append(Row("index, compressed", cpu_ms(lambda: get(path, accept_encoding="gzip")), packed))
        known = headers["etag"]
        assert get(path, if_none_match=known)[0] == 304
        rows.append(Row("index, for who has it", cpu_ms(lambda: get(path, if_none_match=known))))
        rows.append(Row("index of one skill", cpu_ms(lambda: get(f"{path}?skill=skill-00007"))))
        rows.append(Row("versions of a package", cpu_ms(lambda: get("/v1/packages/default/skill-00007/versions"))))
        rows.append(Row("archive", cpu_ms(lambda: get(f"/{INDEX}/real/real-1.0.0.zip"))))
        publish_release(scope, _ADA, "default", files_of("1.1.0"), guard=Guard())
        rows.append(Row("index, after a change", cpu_ms(lambda: get(path), 1)))
    return rows


def main() -> int:
    """Measure, print, and say whether all limits hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skills", type=int, default=10_000)
    parser.add_argument("--versions", type=int, default=10)
    add_options(parser)
    options = parser.parse_args()
    rows = measured(options.skills, options.versions)
    title = f"{options.skills:,} skills with {options.versions:,} versions each, in SQLite"
    return report(rows, options, title, cells, ("what", "CPU", "body", "limit", ""))


if __name__ == "__main__":
    sys.exit(main())
