"""The version before of skills under test: a folder, an archive, or a state of a git repository on this machine."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from metier import Library
from metier._paths import safe_rmtree
from metier.errors import InvalidArgument, MetierError
from metier.hub.sources.address import parse_address
from metier.hub.sources.fetch import fetch, resolve
from metier.proof.subject import write_files
from metier.skill import shown
from metier.skill.names import is_valid_name

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCAL = ("dir:", "archive:/", "git+file://")


@contextlib.contextmanager
def base_library(source: str) -> Iterator[Library]:
    """The skills of a source of this machine, as a library that is gone at the end: `./older`, `.@main`.

    Raises `InvalidArgument` for a source that would have to be fetched over a network.
    """
    address = parse_address(source)
    if not address.name.startswith(_LOCAL):
        raise InvalidArgument(
            f"{shown(source, 200)} is not on this machine.",
            hint="Name a report, a folder, or a state of a repository here: .@main.",
        )
    root = Path(tempfile.mkdtemp(prefix="metier-base-"))
    try:
        with fetch(resolve(address)) as fetched:
            for one in fetched.candidates:
                # One that cannot be read was no better before.
                with contextlib.suppress(MetierError):
                    name = one.folder if is_valid_name(one.folder) else f"skill-{len(os.listdir(root))}"
                    write_files(root / name, one.files())
        yield Library.from_folder(root, cache=False)
    finally:
        safe_rmtree(os.fspath(root))
