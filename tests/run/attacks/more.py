"""More attacks, run inside a sandbox: `python3 more.py NAME JSON`, told the same as those of the benchmark.

Each prints `BREACH:` when it worked and `SAFE:` when it was stopped, or `BEGUN` when only somebody outside can tell.
All are bounded, and touch nothing but what was planted for them.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module

from tests.run.attacks.inside.tools import ATTACKS, A

KINDS = {
    "fs": "files",
    "mem": "storage",
    "disk": "storage",
    "proc": "processes",
    "net": "network",
    "ker": "kernel",
    "out": "output",
}
"""What the names of attacks begin with, after `m_`, and the module that they are in."""


def main() -> None:
    name = sys.argv[1]
    wanted = KINDS.values() if name == "list" else [KINDS[name.split("_")[1]]]
    for module in dict.fromkeys(wanted):
        import_module(f"tests.run.attacks.inside.{module}")
    if name == "list":
        print(json.dumps(list(ATTACKS)))
        return
    A.update(json.loads(sys.argv[2]))
    ATTACKS[name]()


if __name__ == "__main__":
    main()
