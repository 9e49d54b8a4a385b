"""Places: layers, trust, the default places of machine, user and project, and sync manifests."""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import json
import os
import sys
from typing import TYPE_CHECKING, Literal, TypeAlias

from metier._lazy import dataclass, replace
from metier._paths import is_inside, open_plain, short_digest, upwards, write_file
from metier.errors import InvalidArgument, MetierError, SourceUnavailable
from metier.library import clients
from metier.skill import Diagnostic
from metier.source import FolderSource, SourceDiagnostic
from metier.source.source import absolute, open_source

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from metier.skill import Scope
    from metier.source import Source


def default_config_folder() -> str:
    """The folder of the user's decisions: `$METIER_CONFIG`, else the user's configuration folder."""
    chosen = os.environ.get("METIER_CONFIG")
    if chosen:
        return chosen
    if sys.platform == "win32":
        return os.path.join(os.environ.get("APPDATA") or home_folder() or ".", "metier")
    return os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.join(home_folder() or ".", ".config"), "metier")


def node_folder() -> str:
    """The folder of the server that this machine is a node of; a file `binding.json` in it says that it is one."""
    return os.path.join(default_config_folder(), "node")


def node_skills_folder() -> str:
    """The folder of the skills that the server deploys to this machine, if it is a node."""
    return os.path.join(os.path.realpath(home_folder() or "."), ".metier", "node-skills")


def is_node() -> bool:
    """Whether this machine is a node of a server: one look at the disk."""
    return os.path.exists(os.path.join(node_folder(), "binding.json"))


def home_folder() -> str | None:
    """The user's home; None for a user who has none, as in some containers."""
    home = os.path.expanduser("~")
    return None if home == "~" else home


class TrustStore:
    """The folders that the user trusts.

    >>> import tempfile
    >>> from pathlib import Path
    >>> store, project = TrustStore(tempfile.mkdtemp()), tempfile.mkdtemp()
    >>> store.trust(project)
    >>> store.is_trusted(Path(project) / ".claude" / "skills")
    True
    """

    def __init__(self, folder: Path | str | None = None) -> None:
        self._folder = os.fspath(folder) if folder is not None else os.path.join(default_config_folder(), "trusted")

    @property
    def folder(self) -> Path:
        """The folder of its files."""
        from pathlib import Path

        return Path(self._folder)

    def trust(self, path: Path | str) -> None:
        """Trust a folder and what lies below it."""
        real = os.path.realpath(absolute(path))
        if not os.path.isdir(real):
            raise SourceUnavailable(f"{real} is not a folder.", hint="Name the project's folder.", path=real)
        if real in upwards(os.path.realpath(home_folder() or os.sep)) or os.path.dirname(real) == real:
            raise InvalidArgument(
                f"{real} holds more than one project; trusting all of it would trust every repository in it.",
                hint="Trust the folders of projects one by one.",
                path=real,
            )
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            write_file(self._file(real), os.fsencode(real), mode=0o666)
        except OSError as error:
            raise _not_writable(self._folder, error) from None

    def untrust(self, path: Path | str) -> bool:
        """No longer trust a folder; False when it was not trusted itself."""
        try:
            os.unlink(self._file(os.path.realpath(path)))
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _not_writable(self._folder, error) from None
        return True

    def trusted(self) -> tuple[Path, ...]:
        """All trusted folders, sorted."""
        from pathlib import Path

        found: list[Path] = []
        try:
            names = os.listdir(self._folder)
        except OSError:
            return ()
        for name in names:
            with contextlib.suppress(OSError):
                if not os.path.isfile(os.path.join(self._folder, name)):
                    continue
                with open(os.path.join(self._folder, name), "rb") as file:
                    real = os.fsdecode(file.read())
                # A file that does not name what it is filed under was not written here.
                if os.path.basename(self._file(real)) == name:
                    found.append(Path(real))
        return tuple(sorted(found))

    def is_trusted(self, path: Path | str) -> bool:
        """Whether a folder, or one that it lies in, is trusted."""
        return self._trusted_above(path) is not None

    def trusted_through(self, path: Path | str) -> Path | None:
        """The trusted folder that a folder is, or lies in."""
        from pathlib import Path

        found = self._trusted_above(path)
        return None if found is None else Path(found)

    def trusted_in(self, folder: str) -> frozenset[str]:
        """The names of the folders directly in a folder that are trusted themselves."""
        real = os.path.realpath(folder)
        with contextlib.suppress(OSError):
            # Nearly always there are none, or not even a list of trusted folders.
            if os.listdir(self._folder):
                return frozenset(name for name in os.listdir(real) if self._holds(os.path.join(real, name)))
        return frozenset()

    def _trusted_above(self, path: Path | str) -> str | None:
        return next(filter(self._holds, upwards(os.path.realpath(path))), None)

    def _holds(self, real: str) -> bool:
        file = self._file(real)
        if not os.path.isfile(file):
            return False
        try:
            with open(file, "rb") as opened:
                return opened.read() == os.fsencode(real)
        except OSError:
            return False

    def _file(self, real: str) -> str:
        return os.path.join(self._folder, short_digest(os.fsencode(real), 32))


def _not_writable(folder: str, error: OSError) -> MetierError:
    return SourceUnavailable(
        f"{folder} cannot be written: {error.strerror}.",
        hint="Check its permissions, or set METIER_CONFIG to a writable folder.",
        path=str(folder),
    )


COPIES_FILE = ".metier-sync.json"
"""The list of what was copied into a folder of skills, beside the copies."""
MAX_LIST_BYTES = 8 * 1024 * 1024


def copied_into(folder: str | os.PathLike[str]) -> frozenset[str]:
    """The names of the folders that are copies; none where nothing readable says so.

    >>> import tempfile
    >>> copied_into(tempfile.mkdtemp())
    frozenset()
    """
    try:
        with open_plain(os.path.join(folder, COPIES_FILE)) as file:
            skills = json.loads(file.read(MAX_LIST_BYTES))["skills"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return frozenset()
    return frozenset(skills) if isinstance(skills, dict) else frozenset()


Layer: TypeAlias = Literal["enterprise", "personal", "project", "plugin"]
OnMissingDescription: TypeAlias = Literal["derive", "hide", "skip"]

LAYERS: tuple[Layer, ...] = ("enterprise", "personal", "project", "plugin")
"""From the strongest to the weakest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A source in a layer: where skills are, who put them there, and whether anybody vouches for them."""

    layer: Layer
    source: Source
    trusted: bool = True
    name: str = ""
    """The name by which `skill@NAME` selects it: the source's name, with a number when two share it."""
    on_missing_description: OnMissingDescription = "derive"
    """For a skill without a description: derive one, derive one but hide the skill from models, or leave it out."""
    client: str = ""
    """The other client whose folder it is, where skills are written for that client's rules; empty for any other."""
    vouched: frozenset[str] = frozenset()
    """Folders of skills in it that the user trusts though not all of it, as they were installed by the user."""
    copies: frozenset[str] = frozenset()
    """Folders of skills in it that are copies of others: where nobody vouches for them, every other one is stronger."""

    def __post_init__(self) -> None:
        if self.layer not in LAYERS:
            raise InvalidArgument(f"There is no layer {self.layer!r}.", hint=f"Layers are {', '.join(LAYERS)}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """On whose behalf the library is asked. A skill with a scope is there only for the callers it names."""

    agent: str | None = None
    tenant: str | None = None
    environment: str | None = None


def named_apart(places: Iterable[Place]) -> tuple[Place, ...]:
    """The places, each with a name of its own."""
    taken: set[str] = set()
    named = []
    for place in places:
        base = place.name or place.source.name
        candidates = itertools.chain([base], (f"{base}-{number}" for number in itertools.count(2)))
        name = next(candidate for candidate in candidates if candidate not in taken)
        taken.add(name)
        named.append(replace(place, name=name))
    return tuple(named)


def admits(scope: Scope | None, caller: Caller) -> bool:
    """Whether a scope lets a caller see the skill."""
    if scope is None:
        return True
    pairs = (
        (scope.agents, caller.agent),
        (scope.tenants, caller.tenant),
        (scope.environments, caller.environment),
    )
    return all(allowed is None or value in allowed for allowed, value in pairs)


def checked_order(order: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """An order of layers that may be used: each once, enterprise first."""
    if sorted(order) != sorted(LAYERS) or order[0] != "enterprise":
        raise InvalidArgument(
            f"The layer order {', '.join(order)} cannot be used.",
            hint=f"Name each of {', '.join(LAYERS)} once, enterprise first.",
        )
    return order


def default_places(start: Path | str | None = None) -> tuple[list[Place], list[SourceDiagnostic]]:
    """The places of this machine, this user and the project around `start`, and what installed packages offer."""
    places: list[Place] = []
    seen: set[str] = set()

    def add(place: Place) -> None:
        # A folder is read once, in the strongest layer it belongs to: `~/.claude/skills` is nobody's project.
        root = "" if place.source.root is None else os.path.realpath(place.source.root)
        if root not in seen:
            places.append(place)
            if root:
                seen.add(root)

    deployed, findings = enterprise_places()
    for place in deployed:
        add(place)
    start = os.path.realpath(absolute(start if start is not None else "."))
    root, folders = _project_root(start), _project_skill_folders(start)
    for personal in personal_folders(project=root):
        source = FolderSource(personal, name="personal", whole_root=False)
        add(Place(layer="personal", source=source, client=_client_of(personal)))
    # What counts is the project it stands in, also when the folder itself is a link to somewhere else.
    is_trusted = functools.cache(TrustStore().is_trusted)
    for path in folders:
        trusted = is_trusted(os.path.dirname(os.path.dirname(path)))
        contain = None if trusted else root
        add(
            Place(
                layer="project",
                source=FolderSource(path, name="project", whole_root=False, contain=contain),
                trusted=trusted,
                client=_client_of(path),
                on_missing_description="derive" if trusted else "hide",
                copies=frozenset() if trusted else copied_into(path),
                vouched=frozenset() if trusted else TrustStore().trusted_in(path),
            )
        )
    from metier.source.distribution import installed_sources

    sources, unusable = installed_sources()
    for source_of_package in sources:
        add(Place(layer="plugin", source=source_of_package))
    return places, [*findings, *unusable]


def enterprise_places() -> tuple[list[Place], list[SourceDiagnostic]]:
    """The places of the administrators of this machine, and what is wrong with those that they name."""
    places = [Place(layer="enterprise", source=FolderSource(system_folder(), name="enterprise", whole_root=False))]
    findings: list[SourceDiagnostic] = []
    if is_node():
        source: Source = FolderSource(node_skills_folder(), name="server", whole_root=False)
        places.append(Place(layer="enterprise", source=source))
    for named in named_enterprise_places():
        # An administrator said so: a place that cannot be used must not pass for an empty one.
        problem = _problem_of(named)
        if problem is not None:
            note = Diagnostic("place-unusable", None, (named, "METIER_ENTERPRISE", problem))
            findings.append(SourceDiagnostic(named, note))
        else:
            source = (
                FolderSource(named, name="enterprise", whole_root=False)
                if os.path.isdir(named)
                else open_source(named, name="enterprise")
            )
            places.append(Place(layer="enterprise", source=source))
    return places, findings


def system_folder() -> str:
    """The folder in which administrators put skills for all users of this machine."""
    if sys.platform == "win32":
        return os.path.join(os.environ.get("PROGRAMDATA", r"C:\ProgramData"), "metier", "skills")
    return "/etc/metier/skills"


def named_enterprise_places() -> list[str]:
    """Further places of administrators: the folders and archives in `$METIER_ENTERPRISE`."""
    return [part for part in os.environ.get("METIER_ENTERPRISE", "").split(os.pathsep) if part]


def _problem_of(path: str) -> str | None:
    if not os.path.isabs(path):
        return "it is relative, so it would mean another folder wherever one stands"
    if not os.path.exists(path):
        return "it does not exist"
    source = open_source(path)
    if source.root is not None:
        return None if os.path.isdir(path) else "it is neither a folder nor an archive"
    try:
        source.find_skills()
    except MetierError as error:
        return error.message.rstrip(".")
    return None


def _client_of(folder: str) -> str:
    """The title of the other client that a default folder belongs to; empty for our own and for shared ones."""
    client = clients.client_of(folder)
    return client.title if client is not None else ""


def personal_folders(*, project: str = "") -> list[str]:
    """The folders of the user's own skills, none of them in `project`; none for a user without a home."""
    home = home_folder()
    return clients.personal_folders(home, project) if home is not None else []


def project_root(start: Path) -> Path:
    """The repository that a folder lies in, or the folder itself."""
    from pathlib import Path

    return Path(_project_root(os.path.realpath(start)))


def project_folders(start: Path) -> tuple[Path, list[Path]]:
    """The project's root, and its folders of skills from `start` up to the root, nearest first."""
    from pathlib import Path

    real = os.path.realpath(start)
    return Path(_project_root(real)), [Path(folder) for folder in _project_skill_folders(real)]


def folders_to_root(start: str) -> list[str]:
    """A folder by its real path, and those around it, up to the root of the project."""
    root = _project_root(start)
    return list(itertools.takewhile(lambda folder: is_inside(folder, root), upwards(start)))


def _project_root(start: str) -> str:
    return next(filter(_is_repository, upwards(start)), start)


def _is_repository(folder: str) -> bool:
    """Whether a folder has a `.git`; an error where nobody can tell, as the policy of the project could be overlooked.

    >>> _is_repository("/nowhere")
    False
    """
    try:
        os.stat(os.path.join(folder, ".git"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EINVAL):  # a link to itself, or no name at all on Windows
            return False
        raise
    return True


def _project_skill_folders(start: str) -> list[str]:
    return [
        os.path.join(step, *folder.split("/")) for step in folders_to_root(start) for folder in clients.PROJECT_FOLDERS
    ]
