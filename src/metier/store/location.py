"""Where a store is: the address that names it, and the folder for what lies beside it."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from metier.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind: TypeAlias = Literal["sqlite", "postgresql"]

_FILE = "metier.db"
_SQLITE = "sqlite:///"
_POSTGRESQL = ("postgresql://", "postgres://")
_PASSWORD = re.compile(r"(?<=://)([^:/?#@]*):[^/?#]*@|(?<=[?&])((?:ssl)?password)=[^&#]*", re.IGNORECASE)
_HINT = "Write sqlite:////folder/metier.db or postgresql://user@host/database, in METIER_STORE or as the argument."


def data_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where what must last is kept: `$METIER_DATA`, else the user's folder for data of programs.

    >>> data_folder({"METIER_DATA": "/srv/metier"}).as_posix()
    '/srv/metier'
    """
    chosen = environ.get("METIER_DATA")
    if chosen:
        return Path(os.path.abspath(chosen))
    home = os.path.expanduser("~")
    home = os.path.abspath("." if home == "~" else home)
    if sys.platform == "win32":
        return Path(environ.get("LOCALAPPDATA") or home) / "metier"
    if sys.platform == "darwin":
        return Path(home, "Library", "Application Support", "metier")
    return Path(environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")) / "metier"


def default_store(environ: Mapping[str, str] = os.environ) -> str:
    """The address of the store to use when nobody names one: `$METIER_STORE`, else a file in the data folder.

    >>> default_store({"METIER_DATA": "/srv/metier"})
    'sqlite:////srv/metier/metier.db'
    """
    return environ.get("METIER_STORE") or f"{_SQLITE}{(data_folder(environ) / _FILE).as_posix()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAddress:
    """A store's address, taken apart."""

    kind: Kind
    target: str
    """The path of the file, or the address that a PostgreSQL driver takes, with its password."""
    folder: Path
    """For blobs, checkpoints and proposals."""

    def __str__(self) -> str:
        return f"{_SQLITE}{self.target}" if self.kind == "sqlite" else hide_password(self.target)

    def __repr__(self) -> str:
        return f"StoreAddress({str(self)!r})"


def hide_password(text: str) -> str:
    """An address without the password in it, for people to see.

    >>> hide_password("postgresql://app:secret@db.example/metier")
    'postgresql://app:***@db.example/metier'
    """
    return _PASSWORD.sub(lambda found: f"{found[2]}=***" if found[2] else f"{found[1]}:***@", text)


def parse_address(url: str | None = None) -> StoreAddress:
    """Take an address apart; raises `InvalidArgument` for one that names no store."""
    text = default_store() if url is None else url
    if not isinstance(text, str) or "\0" in text or len(text) > 4_096:
        raise InvalidArgument("The address of a store is a text of at most 4096 characters.", hint=_HINT)
    if text.startswith(_POSTGRESQL):
        # Of each database its own, on this machine: checkpoints of one must not pass for those of another.
        mark = hashlib.sha256(hide_password(text).encode(errors="surrogatepass")).hexdigest()[:12]
        return StoreAddress(kind="postgresql", target=text, folder=data_folder() / f"postgresql-{mark}")
    path = text.removeprefix(_SQLITE)
    if not text.startswith(_SQLITE) or path in ("", ":memory:") or path.endswith(("/", os.sep)):
        is_path = text and "://" not in text and text != ":memory:"
        hint = f"For the file at that path, write {_SQLITE}{os.path.abspath(text)}" if is_path else _HINT
        raise InvalidArgument(f"{hide_password(text)!r} is not the address of a store.", hint=hint)
    return _address_of_file(os.path.abspath(path))


@functools.lru_cache(64)
def _address_of_file(path: str) -> StoreAddress:
    """Kept, because every decision where there is no store yet asks for it."""
    folder, name = os.path.split(path)
    return StoreAddress(kind="sqlite", target=path, folder=Path(folder if name == _FILE else f"{path}.files"))
