"""How long it takes from nothing to the first useful output, and how much disk, by each way to install Métier.

    python benchmarks/install.py [--only WORD] [--python PYTHON] [--wheels] [--json] [--check]

Each way has a home of its own and empty caches. The package is built from this clone and comes from an index on
loopback; what it needs comes from the index that pip and uv are configured for, so that the network counts. The last
step of each way prints something that a person wanted to see, and ends the clock. Disk is all that is there afterwards:
environments, and what installers keep. `--wheels` also tells the size of the wheels of the core and of extras.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import getpass
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from _limits import NOTHING_TO_MEASURE, limit
from _table import add_options, mark, report

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[1]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
BIN = Path(sys.executable).parent
CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "install", "version": "1"}}
HELLO = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": CLIENT}) + "\n"
EXTRAS = ("", "[mcp]", "[agent]", "[all]")


class Row(NamedTuple):
    """One figure, with its limit."""

    what: str
    figure: float
    unit: str

    @property
    def limit(self) -> float | None:
        found = limit("install", self.what)
        return found.value if found else None

    @property
    def holds(self) -> bool | None:
        return None if self.limit is None else self.figure <= self.limit


class Step(NamedTuple):
    """A command, what it is given on standard input, and what it must print."""

    command: Sequence[str | Path]
    given: str = ""
    prints: str = ""
    folder: Path | None = None


def cells(row: Row) -> tuple[str, ...]:
    """A row as it is printed.

    >>> cells(Row("uvx metier: disk", 71.52, "MB"))[:3]
    ('uvx metier: disk', '71.5 MB', 'limit 150')
    """
    return row.what, f"{row.figure:.1f} {row.unit}", "" if row.limit is None else f"limit {row.limit:g}", mark(row)


def build(folder: Path) -> Path:
    """Build the wheel of this clone; where it is."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@contextlib.contextmanager
def serve_index(folder: Path, wheel: Path) -> Iterator[str]:
    """Serve an index with one package on loopback, and give its address."""
    page = folder / "simple" / "metier"
    page.mkdir(parents=True)
    shutil.copy(wheel, page)
    link = f"{wheel.name}#sha256={sha256(wheel.read_bytes()).hexdigest()}"
    (page / "index.html").write_text(f'<!DOCTYPE html><a href="{link}">{wheel.name}</a>\n')

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/simple"
        finally:
            server.shutdown()
            thread.join()


def environment(home: Path, index: str) -> dict[str, str]:
    """The environment of a user with an empty home, for whom installers also ask an index of ours."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("METIER_", "XDG_", "PYTHON"))}
    for name in ("PIP_CACHE_DIR", "PIP_NO_CACHE_DIR", "UV_CACHE_DIR", "UV_NO_CACHE", "PIPX_HOME", "VIRTUAL_ENV"):
        kept.pop(name, None)
    # Which index there is, and how it is reached, is the configuration of this user, whatever HOME is.
    for name, file in (("PIP_CONFIG_FILE", "pip/pip.conf"), ("UV_CONFIG_FILE", "uv/uv.toml")):
        if (own := Path(f"~{getpass.getuser()}/.config/{file}").expanduser()).is_file():
            kept.setdefault(name, str(own))
    ours = {"PIP_EXTRA_INDEX_URL": index, "PIP_TRUSTED_HOST": "127.0.0.1", "UV_INDEX": index}
    rest = {"HOME": str(home), "USERPROFILE": str(home), "UV_PYTHON_DOWNLOADS": "never", "PYTHONNOUSERSITE": "1"}
    return {**kept, **ours, **rest, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def ways(home: Path, python: str) -> Mapping[str, list[Step]]:
    """The steps of each way to install it, in an empty home."""
    bin_folder, clone = home / "env" / "bin", home / "clone"
    command = bin_folder / "metier"
    pip: list[str | Path] = [bin_folder / "python", "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
    venv = Step([python, "-m", "venv", home / "env"])
    listed = "csv-analyst"
    return {
        "uvx metier": [Step([BIN / "uvx", "--python", python, "metier", "list"], prints=listed)],
        "pipx install metier": [
            Step([BIN / "pipx", "install", "--quiet", "--python", python, "metier"]),
            Step([home / ".local" / "bin" / "metier", "list"], prints=listed),
        ],
        "pip install metier": [venv, Step([*pip, "metier"]), Step([command, "list"], prints=listed)],
        "pip install 'metier[mcp]'": [
            venv,
            Step([*pip, "metier[mcp]"]),
            Step([command, "mcp"], given=HELLO, prints='"serverInfo"'),
        ],
        "pip install 'metier[agent]'": [
            venv,
            Step([*pip, "metier[agent]"]),
            Step([command, "ask", "Which columns does sales.csv have?", "--model", "test"], prints="test model"),
        ],
        "make demo": [
            Step(["git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", clone]),
            Step(["make", "demo", f"PYTHON={python}"], prints="A thousand skills", folder=clone),
        ],
    }


def take(steps: Sequence[Step], home: Path, index: str) -> float:
    """Go one way; the seconds that it took by the clock. It must have printed what it should."""
    own = environment(home, index)
    start = time.monotonic()
    for step in steps:
        done = subprocess.run(
            [str(word) for word in step.command],
            input=step.given,
            capture_output=True,
            text=True,
            encoding="utf-8",
            env=own,
            cwd=step.folder or home,
            check=False,
        )
        if done.returncode or step.prints not in done.stdout:
            command = " ".join(map(str, step.command))
            raise SystemExit(f"{command}: ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return time.monotonic() - start


def megabytes(folder: Path) -> float:
    """The size of all files below a folder, each counted once though it has several names."""
    files = {}
    for root, _, names in os.walk(folder):
        for name in names:
            about = os.lstat(os.path.join(root, name))
            files[about.st_dev, about.st_ino] = about.st_size
    return sum(files.values()) / 1e6


def download(extra: str, folder: Path, index: str) -> dict[str, float]:
    """The megabytes of each wheel that the core or an extra needs, the largest first."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:", "--no-cache-dir"]
    words = [*command, "--dest", str(folder), f"metier{extra}=={VERSION}"]
    subprocess.run(words, check=True, capture_output=True, env=environment(folder, index), cwd=folder)
    sizes = {file.name.partition("-")[0]: file.stat().st_size / 1e6 for file in folder.glob("*.whl")}
    return dict(sorted(sizes.items(), key=lambda each: -each[1]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="WORD", help="the ways whose name has it")
    parser.add_argument("--python", default=os.path.realpath(sys.executable), help="the Python to install it for")
    parser.add_argument("--wheels", action="store_true", help="also tell the size of the wheels of extras")
    add_options(parser)
    options = parser.parse_args()
    if any(shutil.which(BIN / program) is None for program in ("uvx", "pipx")):
        print("uv and pipx are not here: `make test` sets them up.", file=sys.stderr)
        return NOTHING_TO_MEASURE
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="metier-install-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        index = stack.enter_context(serve_index(folder / "index", build(folder / "dist")))
        for way in ways(folder, options.python):
            if options.only not in way:
                continue
            home = folder / "home"
            home.mkdir()
            seconds = take(ways(home, options.python)[way], home, index)
            rows += [Row(f"{way}: clock", seconds, "s"), Row(f"{way}: disk", megabytes(home), "MB")]
            shutil.rmtree(home)
        for extra in EXTRAS if options.wheels else ():
            wheels = folder / f"wheels{extra}"
            wheels.mkdir()
            sizes = download(extra, wheels, index)
            rows.append(Row(f"wheels of metier{extra}", sum(sizes.values()), "MB"))
            if not options.json:
                print(f"metier{extra}:", ", ".join(f"{each} {size:.2f}" for each, size in sizes.items()))
    return report(rows, options, "From nothing to the first useful output, with empty caches.", cells)


if __name__ == "__main__":
    sys.exit(main())
