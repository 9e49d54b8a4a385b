"""Packs by where they come from: the core pack, folders and installed packages; what was made of one is kept.

What is kept is plain JSON by digest, in the cache folder of the user; of the core pack it also comes with the wheel.
Whatever is wrong with it, the pack is read again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from functools import cache, lru_cache
from typing import IO, TYPE_CHECKING, Any

from metier._lazy import dataclass
from metier._paths import default_cache_folder, open_own, open_plain, write_file
from metier.errors import RulesInvalid
from metier.scan.pack import CORE, FORMAT, compiled, digest_of, files_of, signs_of
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from metier.scan.pack import PackFile
    from metier.scan.rule import ScanRule

SHIPPED = CORE.parent / "compiled"
"""What was made of the core pack when the package was built or installed from a clone."""
PACKAGE_FOLDER = "metier_rules"
"""The folder of an installed Python package that is its pack."""
PLACES_OF_SIGNS = ("in-scripts", "in-shell", "in-programs", "in-instructions", "in-prose", "anywhere", "in-code")
"""Where capabilities are looked for: what the lexicons of their signs begin with."""
SIGNS = (
    *(f"{place}-" for place in PLACES_OF_SIGNS), "runs-scripts", "needs-network", "needs-none", "shell-programs"
)  # fmt: skip
"""What the lexicons begin with that capabilities are told by."""
_MAX_KEPT = 32 * 1024 * 1024
_MAKERS = ("pack", "phrase", "prefilter", "words", "condition")
"""The modules that decide what is made of a pack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackRef:
    """A pack that somebody switched on: a folder, or an installed Python package that has one.

    >>> PackRef(folder="/etc/metier/rules").name
    'rules'
    """

    folder: str = ""
    package: str = ""
    digest: str = ""
    """The only content that it may have; any when empty."""

    @property
    def name(self) -> str:
        """What people call it."""
        return self.package or os.path.basename(os.path.normpath(self.folder))

    @property
    def place(self) -> str:
        """The folder that its files lie in."""
        return self.folder or _folder_of(self.package)

    def files(self) -> tuple[PackFile, ...]:
        """Its files; raises `RulesInvalid` where they cannot be read, or are not those that it is pinned to."""
        place = self.place
        if not os.path.isdir(place):
            raise RulesInvalid(f"There is no folder {shown(place, 300)}.", hint="Name the folder of a pack.")
        files = files_of(place)
        if self.digest and (found := digest_of(files)) != self.digest:
            raise RulesInvalid(
                f"The pack {shown(self.name, 60)} is {found}, and not {self.digest}, which it is pinned to.",
                hint=f"Look at what changed in {shown(place, 300)}; then pin the digest that it has now.",
            )
        return files


def _folder_of(package: str) -> str:
    """The folder of an installed package's pack; the package is found without being imported."""
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec(package) if package.isidentifier() else None
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        folder = os.path.join(place, PACKAGE_FOLDER)
        if os.path.isdir(folder):
            return folder
    raise RulesInvalid(
        f"There is no installed Python package {shown(package, 60)!r} with a folder {PACKAGE_FOLDER}.",
        hint=f"Install it for {shown(sys.executable, 300)}, or name a folder.",
    )


def pack_rules(packs: tuple[PackRef, ...], taken: frozenset[str]) -> tuple[ScanRule, ...]:
    """The rules of packs, ready to be applied; raises `RulesInvalid` where one cannot be used, or ids are taken."""
    rules: list[ScanRule] = []
    owners: dict[str, str] = dict.fromkeys(taken, "Métier")
    seen: set[str] = set()
    for pack in packs:
        # A content that is pinned and was read once is the same whatever became of the files.
        files = () if pack.digest and pack.digest in _known else pack.files()
        digest = pack.digest or digest_of(files)
        _known.setdefault(digest, files)
        if digest in seen:
            continue
        seen.add(digest)
        for rule in _rules_of(pack.name, digest):
            if rule.id in owners:
                raise RulesInvalid(
                    f"The pack {shown(pack.name, 60)} has a rule {rule.id}, and so has {shown(owners[rule.id], 60)}.",
                    hint="Give it a name of its own.",
                )
            owners[rule.id] = pack.name
            rules.append(rule)
    return tuple(rules)


_known: dict[str, tuple[PackFile, ...]] = {}
"""The files of packs that were read, by their digest."""


@lru_cache(16)
def _rules_of(name: str, digest: str) -> tuple[ScanRule, ...]:
    from metier.scan.rule_book import pack_book

    try:
        core = core_pack()
        whole = kept(f"{digest} {core_digest()}", lambda: compiled(_known[digest], core))
        return pack_book(name, whole).scan_rules(digest)
    except RulesInvalid:
        _known.pop(digest, None)
        raise


@cache
def core_pack() -> dict[str, Any]:
    """The core pack, compiled."""
    return kept(core_digest(), lambda: compiled(files_of(CORE)))


@cache
def core_signs() -> dict[str, Any]:
    """The lists of the core pack and what capabilities are told by, which many ask for who need no rules."""
    return kept(f"{core_digest()} signs", lambda: signs_of(files_of(CORE), SIGNS))


@cache
def core_digest() -> str:
    """The digest of the core pack."""
    return digest_of(files_of(CORE))


def ship() -> None:
    """Compile the core pack into the package, so that nobody waits for it."""
    SHIPPED.mkdir(exist_ok=True)
    files = files_of(CORE)
    name = digest_of(files)
    makers: dict[str, Callable[[], dict[str, Any]]] = {
        name: lambda: compiled(files),
        f"{name} signs": lambda: signs_of(files, SIGNS),
    }
    for path in SHIPPED.glob("*.json"):
        if path.name not in map(_file_name, makers):
            path.unlink()
    for pack, make in makers.items():
        path = SHIPPED / _file_name(pack)
        # Others may read it at this moment, where the package is built from a clone that is in use.
        if not path.exists() or _checked(path.read_bytes(), pack) is None:
            write_file(str(path), packed(pack, make()), mode=0o644)


def kept(name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What is kept of a pack under a name, with the package or in the cache folder, else what is made and then kept."""
    file_name, cache_folder = _file_name(name), default_cache_folder()
    places: list[tuple[str, Callable[[str], IO[bytes]]]] = [(str(SHIPPED / file_name), open_plain)]
    path = os.path.join(cache_folder or "", "rules", file_name)
    if cache_folder is not None:
        places.append((path, open_own))
    for place, open_file in places:
        with contextlib.suppress(OSError), open_file(place) as file:
            if (found := _checked(file.read(_MAX_KEPT), name)) is not None:
                return found
    made = make()
    if cache_folder is not None:
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            write_file(path, packed(name, made))
    return made


def _file_name(name: str) -> str:
    return f"{hashlib.sha256(f'{name} {_engine()}'.encode()).hexdigest()[:32]}.json"


def packed(name: str, pack: dict[str, Any]) -> bytes:
    """A compiled pack as it is kept: a line about it, and its content."""
    body = json.dumps(pack, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass")
    return json.dumps(_head(name, body)).encode() + b"\n" + body


def _checked(data: bytes, name: str) -> dict[str, Any] | None:
    """The compiled pack, if it is whole, of this name, and made by this engine."""
    head, _, body = data.partition(b"\n")
    try:
        if json.loads(head) != _head(name, body):
            return None
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _head(name: str, body: bytes) -> dict[str, Any]:
    return {"format": FORMAT, "engine": _engine(), "pack": name, "sha256": hashlib.sha256(body).hexdigest()}


@cache
def _engine() -> str:
    """The digest of the code that packs are made ready by."""
    from importlib import import_module

    from metier.scan.ruleset import digest_of as digest_of_module

    said = " ".join(digest_of_module(import_module(f"metier.scan.{name}")) for name in _MAKERS)
    return hashlib.sha256(said.encode()).hexdigest()
