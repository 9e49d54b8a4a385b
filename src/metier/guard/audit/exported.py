"""An export of the audit trail as JSON lines, read again to verify it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from metier.errors import InvalidArgument
from metier.guard.audit.checkpoints import Checkpoint
from metier.hints import for_people
from metier.store.canonical_json import canonical_or_none, parse_strict
from metier.store.link import ChainedRecord

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MAX_LINE = 4 * 1024 * 1024
"""Several times what a record can have."""


def links_in(path: Path) -> Iterator[ChainedRecord]:
    """The records of an export, in the order of its lines; a line that holds none is one that cannot be read."""
    for line in _lines(path):
        record = parse_strict(line) or {}
        previous, made = (_text(record.pop(name, "")) for name in ("prev_hash", "hash"))
        record.pop("checkpoint", None)
        text = canonical_or_none(record)
        if not record or text is None:
            yield ChainedRecord(tenant="", seq=0, record=None, text=line, previous="", hash="")
            continue
        seq = record.get("seq")
        yield ChainedRecord(
            tenant=_text(record.get("tenant")),
            seq=seq if type(seq) is int else 0,
            record=record,
            text=text,
            previous=previous,
            hash=made,
        )


def checkpoints_in(path: Path) -> list[Checkpoint]:
    """The checkpoints that came with the records of an export."""
    found = []
    for line in _lines(path):
        if '"checkpoint"' in line:
            checkpoint = Checkpoint.of((parse_strict(line) or {}).get("checkpoint"))
            if checkpoint is not None:
                found.append(checkpoint)
    return found


def _lines(path: Path) -> Iterator[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            while line := file.readline(_MAX_LINE):
                if line.strip():
                    yield line
    except OSError as error:
        raise InvalidArgument(
            f"{os.fspath(path)} cannot be read: {error.strerror}.",
            hint=for_people("Name a file that `metier audit export` has written."),
        ) from None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
