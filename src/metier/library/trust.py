"""Which project folders the user vouches for.

One small file for each trusted folder, named by a hash of its path: adding and removing are single atomic steps, so
several processes need no lock and none can lose what another wrote.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from metier._paths import write_file
from metier.errors import InvalidArgument, SourceUnavailable
from metier.source.source import absolute

if TYPE_CHECKING:
    from metier.errors import MetierError


def default_config_folder() -> Path:
    """Where what the user decided is kept: `$METIER_CONFIG`, else the user's configuration folder."""
    chosen = os.environ.get("METIER_CONFIG")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or home_folder() or ".") / "metier"
    return Path(os.environ.get("XDG_CONFIG_HOME") or os.path.join(home_folder() or ".", ".config")) / "metier"


def home_folder() -> str | None:
    """The user's home; None for a user who has none, as in some containers."""
    home = os.path.expanduser("~")
    return None if home == "~" else home


class TrustStore:
    """The folders that the user trusts.

    >>> import tempfile
    >>> store, project = TrustStore(tempfile.mkdtemp()), tempfile.mkdtemp()
    >>> store.trust(project)
    >>> store.is_trusted(Path(project) / ".claude" / "skills")
    True
    """

    def __init__(self, folder: Path | str | None = None) -> None:
        self.folder = Path(folder) if folder is not None else default_config_folder() / "trusted"

    def trust(self, path: Path | str) -> None:
        """Trust a folder and what lies below it."""
        real = os.path.realpath(absolute(path))
        if not os.path.isdir(real):
            raise SourceUnavailable(f"{real} is not a folder.", hint="Name the project's folder.", path=real)
        home = Path(os.path.realpath(home_folder() or os.sep))
        if Path(real) in (home, *home.parents) or os.path.dirname(real) == real:
            raise InvalidArgument(
                f"{real} holds more than one project; trusting all of it would trust every repository in it.",
                hint="Trust the folders of projects one by one.",
                path=real,
            )
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_file(self._file(real), os.fsencode(real), mode=0o666)
        except OSError as error:
            raise _not_writable(self.folder, error) from None

    def untrust(self, path: Path | str) -> bool:
        """No longer trust a folder; False when it was not trusted itself."""
        try:
            self._file(os.path.realpath(path)).unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _not_writable(self.folder, error) from None
        return True

    def trusted(self) -> tuple[Path, ...]:
        """All trusted folders, sorted."""
        found: list[Path] = []
        try:
            names = os.listdir(self.folder)
        except OSError:
            return ()
        for name in names:
            with contextlib.suppress(OSError):
                if not (self.folder / name).is_file():
                    continue
                real = os.fsdecode((self.folder / name).read_bytes())
                # A file that does not name what it is filed under was not written here.
                if self._file(real).name == name:
                    found.append(Path(real))
        return tuple(sorted(found))

    def is_trusted(self, path: Path | str) -> bool:
        """Whether a folder, or one that it lies in, is trusted."""
        return self.trusted_through(path) is not None

    def trusted_through(self, path: Path | str) -> Path | None:
        """The trusted folder that a folder is, or lies in."""
        real = Path(os.path.realpath(path))
        return next((folder for folder in (real, *real.parents) if self._holds(str(folder))), None)

    def _holds(self, real: str) -> bool:
        try:
            return self._file(real).is_file() and self._file(real).read_bytes() == os.fsencode(real)
        except OSError:
            return False

    def _file(self, real: str) -> Path:
        return self.folder / hashlib.sha256(os.fsencode(real)).hexdigest()[:32]


def _not_writable(folder: Path, error: OSError) -> MetierError:
    return SourceUnavailable(
        f"{folder} cannot be written: {error.strerror}.",
        hint="Check its permissions, or set METIER_CONFIG to a writable folder.",
        path=str(folder),
    )
