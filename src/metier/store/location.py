"""The location of a store: its address, the data folder, and the folder for the files beside it."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from typing import TYPE_CHECKING, Literal, TypeAlias

from metier._lazy import dataclass, pattern
from metier._paths import short_digest
from metier.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Kind: TypeAlias = Literal["sqlite", "postgresql"]

_FILE = "metier.db"
_SQLITE = "sqlite:///"
_POSTGRESQL = ("postgresql://", "postgres://")
_PASSWORD = pattern(r"(?<=://)([^:/?#@]*):[^/?#]*@|(?<=[?&])((?:ssl)?password)=[^&#]*", re.IGNORECASE)
_HINT = "Write sqlite:////folder/metier.db or postgresql://user@host/database, in METIER_STORE or as the argument."


def data_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder for lasting data: `$METIER_DATA`, else the user's folder for data of programs.

    >>> data_folder({"METIER_DATA": "/srv/metier"}).as_posix()
    '/srv/metier'
    """
    from pathlib import Path

    return Path(_data_folder(environ))


def _data_folder(environ: Mapping[str, str]) -> str:
    chosen = environ.get("METIER_DATA")
    if chosen:
        return os.path.abspath(chosen)
    home = os.path.expanduser("~")
    home = os.path.abspath("." if home == "~" else home)
    if sys.platform == "win32":
        return os.path.join(environ.get("LOCALAPPDATA") or home, "metier")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Application Support", "metier")
    return os.path.join(environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share"), "metier")


def default_store(environ: Mapping[str, str] = os.environ) -> str:
    """Return the address of the default store: `$METIER_STORE`, else a file in the data folder.

    >>> default_store({"METIER_DATA": "/srv/metier"})
    'sqlite:////srv/metier/metier.db'
    """
    return environ.get("METIER_STORE") or f"{_SQLITE}{os.path.join(_data_folder(environ), _FILE).replace(os.sep, '/')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAddress:
    """The parsed address of a store."""

    kind: Kind
    target: str
    """The path of the file, or the address that a PostgreSQL driver takes, with its password."""
    folder: str
    """For blobs, checkpoints and proposals."""

    def __str__(self) -> str:
        return f"{_SQLITE}{self.target}" if self.kind == "sqlite" else hide_password(self.target)

    def __repr__(self) -> str:
        return f"StoreAddress({str(self)!r})"


def hide_password(text: str) -> str:
    """Return an address without its password, for people to see.

    >>> hide_password("postgresql://app:secret@db.example/metier")
    'postgresql://app:***@db.example/metier'
    """
    return _PASSWORD.sub(lambda found: f"{found[2]}=***" if found[2] else f"{found[1]}:***@", text)


def parse_address(url: str | None = None) -> StoreAddress:
    """Parse an address; raises `InvalidArgument` for one that names no store."""
    text = default_store() if url is None else url
    if not isinstance(text, str) or "\0" in text or len(text) > 4_096:
        raise InvalidArgument("The address of a store is a text of at most 4096 characters.", hint=_HINT)
    if text.startswith(_POSTGRESQL):
        # Each database has a folder of its own on this machine: its checkpoints must not pass for those of another.
        short = short_digest(hide_password(text).encode(errors="surrogatepass"), 12)
        return StoreAddress(
            kind="postgresql", target=text, folder=os.path.join(_data_folder(os.environ), f"postgresql-{short}")
        )
    path = text.removeprefix(_SQLITE)
    if not text.startswith(_SQLITE) or path in ("", ":memory:") or path.endswith(("/", os.sep)):
        is_path = text and "://" not in text and text != ":memory:"
        hint = f"For the file at that path, write {_SQLITE}{os.path.abspath(text)}" if is_path else _HINT
        raise InvalidArgument(f"{hide_password(text)!r} is not the address of a store.", hint=hint)
    return _file_address(os.path.abspath(path))


@functools.lru_cache(64)
def _file_address(path: str) -> StoreAddress:
    """Return the address of a file, cached: every decision asks for it where there is no store yet."""
    folder, name = os.path.split(path)
    return StoreAddress(kind="sqlite", target=path, folder=folder if name == _FILE else f"{path}.files")


def make_folder(path: str) -> None:
    """Make a folder and its missing parents for their owner alone, and wait until they are on the disk."""
    if not os.path.isdir(path):
        make_folder(os.path.dirname(path))
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
        sync_folder(os.path.dirname(path))


def sync_folder(folder: str) -> None:
    """Wait until the names in a folder are on the disk."""
    if os.name == "nt":  # folders cannot be opened there; the system writes names by itself
        return
    file = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        os.fsync(file)
    finally:
        os.close(file)
