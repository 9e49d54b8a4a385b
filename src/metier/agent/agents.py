"""All agents that are declared in a place, with the library whose skills they use."""

from __future__ import annotations

import datetime
import itertools
import os
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from metier._lazy import logger
from metier._suggest import suggestion
from metier.agent.dependencies import AgentFailure, start_order
from metier.agent.manifest import ALL_AGENTS, MANIFEST_FILE, MANIFEST_FILES, PROMPT_FILE, read_manifest
from metier.errors import AgentInvalid, AgentNotFound, InvalidArgument, MetierError, SkillNotFound, SourceUnavailable
from metier.guard.guard import current_user
from metier.hints import ASK_TO_TRUST, for_people
from metier.library.places import TrustStore, home_folder, project_folders
from metier.session import bound_instructions
from metier.skill import shown
from metier.source.source import absolute, expanded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Self

    from metier import Entry, Library
    from metier.agent.dependencies import FailureReason
    from metier.agent.manifest import Manifest
    from metier.library.places import Layer

    Declared: TypeAlias = Manifest | AgentFailure

log = logger("metier.agent")

AGENT_FOLDERS = ("agents", ".metier/agents")
"""The folders of agents in a project; a home folder has only the second."""
SHIPPED = Path(__file__).parent / "shipped"
"""The agents that come with Métier."""
_MOST_ENTRIES = 1_000
_MISNAMED = "agent.yml"


class Agents:
    """The agents that are declared here, each after those it depends on.

    An agent that cannot be used is in `failures` with the reason, and hides no other.

    >>> from metier import Library
    >>> agents = Agents.discover(Library.from_files())
    >>> [agent.id for agent in agents]
    ['orchestrator', 'reviewer', 'skill-builder']
    """

    def __init__(self, declared: Iterable[Declared], library: Library) -> None:
        """Agents of manifests, the strongest of an id first, and what is known to be wrong with others."""
        self.library = library
        usable: dict[str, Manifest] = {}
        shadowed: list[Manifest] = []
        bad: list[AgentFailure] = []
        for one in declared:
            if isinstance(one, AgentFailure):
                bad.append(one)
            elif (winner := usable.setdefault(one.id, one)) is not one:
                if one.folder and _place(winner) == _place(one):
                    bad.append(_second(one, winner))
                else:
                    shadowed.append(one)
        self.shadowed = tuple(shadowed)
        """Agents whose id one of a stronger place answers to."""
        failures: dict[str, AgentFailure] = {}
        for failure in bad:
            # One that is broken where another answers to its id is told apart by its folder.
            taken = failure.id in usable or failure.id in failures
            failures[failure.folder if taken else failure.id] = failure
        self._order, cannot_start = start_order(usable.values(), failures)
        self._by_id = {manifest.id: manifest for manifest in self._order}
        self.failures: Mapping[str, AgentFailure] = MappingProxyType({**failures, **cannot_start})
        """Agents that are not there, by id, or by folder where another agent answers to the id."""

    @classmethod
    def discover(cls, library: Library | None = None, start: Path | str | None = None) -> Self:
        """The agents of this user, of the project around `start`, and those that come with Métier.

        Agents of a project that the user does not trust are in `failures`.
        """
        from metier import Library

        library = Library.discover(start) if library is None else library
        return cls(_discover(Path(absolute(start if start is not None else "."))), library)

    @classmethod
    def from_folder(cls, *folders: Path | str, library: Library | None = None) -> Self:
        """The agents of just these folders, in the order of their strength; a folder may also be an agent itself.

        A folder that somebody names in a program is trusted.
        """
        from metier import Library

        if not folders or not all(str(folder).strip() for folder in folders):
            raise InvalidArgument("No folder was named.", hint="Name one, or use Agents.discover().")
        paths = [absolute(expanded(folder)) for folder in folders]
        for path in paths:
            if not os.path.isdir(path):
                raise SourceUnavailable(f"There is no folder {shown(path, 300)}.", hint="Check the path.", path=path)
        found = (
            # A folder may be an agent itself.
            (list(_declared_by(path, "project")) if _has_manifest(path) else []) or _in_folder(path, "project")
            for path in dict.fromkeys(paths)
        )
        return cls(itertools.chain.from_iterable(found), Library.discover() if library is None else library)

    def __iter__(self) -> Iterator[Manifest]:
        return iter(self._order)

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, id: object) -> bool:  # noqa: A002
        return id in self._by_id

    def __repr__(self) -> str:
        return f"<Agents {', '.join(self._by_id) or 'none'}>"

    def get(self, id: str) -> Manifest:  # noqa: A002
        """The agent of an id; raises `AgentNotFound`, or `AgentInvalid` for one that is there but cannot be used."""
        if not isinstance(id, str):
            raise InvalidArgument(f"The id of an agent is text, not {type(id).__name__}.", hint='Write get("name").')
        if not id.strip():
            raise InvalidArgument("The id of the agent is empty.", hint=f"Agents are {self._id_list()}.")
        wanted = id.strip().lower()
        if wanted in self._by_id:
            return self._by_id[wanted]
        failure = self.failures.get(wanted)
        if failure is not None:
            raise AgentInvalid(failure.message, hint=failure.hint, id=failure.id, reason=failure.reason)
        meant = suggestion(wanted, self._by_id)
        guess = f" Did you mean {meant!r}?" if meant else ""
        raise AgentNotFound(
            f"Agent {shown(id)!r} was not found.{guess}",
            hint=f"Agents are {self._id_list()}.",
            id=id,
            suggestion=meant,
        )

    def _id_list(self) -> str:
        return ", ".join(sorted(self._by_id)[:20]) or "not declared here; write agents/NAME/agent.yaml"

    def library_for(self, manifest: Manifest) -> Library:
        """The library as an agent sees it: skills whose scope leaves it out are as good as absent."""
        caller = self.library.caller
        return self.library.as_caller(agent=manifest.id, tenant=caller.tenant, environment=caller.environment)

    def skills_for(self, manifest: Manifest, *, lenient: bool = False) -> tuple[str, ...]:
        """The skills that an agent uses, as it names them.

        One that is unknown, or that comes from a folder nobody trusts, is an error that names agent and skill; with
        `lenient` it is a warning, and is left out.
        """
        return tuple(self._skills(manifest, lenient))

    def _skills(self, manifest: Manifest, lenient: bool) -> dict[str, Entry]:
        """The skills that an agent uses, by what it calls them."""
        library = self.library_for(manifest)
        found: dict[str, Entry] = {}
        for name in manifest.uses_skills:
            try:
                found[name] = _vouched_for(manifest, name, library)
            except MetierError as error:
                if not lenient:
                    raise
                log.warning("%s", error.message)
        return found

    def names_for(self, manifest: Manifest, *, lenient: bool = False) -> frozenset[str] | None:
        """The only skills that a session of an agent may know of, for its option `names`; None for all of them."""
        if manifest.catalog == "all":
            return None
        return frozenset(entry.name for entry in self._skills(manifest, lenient).values())

    def delegates(self, manifest: Manifest) -> tuple[Manifest, ...]:
        """The agents that an agent has as tools: those that its `uses_tools` names, or with `agents` all that offer."""
        named = set(manifest.uses_tools)
        return tuple(
            other
            for other in self
            if other.id != manifest.id
            and (other.id in named or (ALL_AGENTS in named and other.integration_mode == "tool"))
        )

    def tools_for(self, manifest: Manifest) -> tuple[str, ...]:
        """The names in `uses_tools` that are no agents: built-in tools, and those that the host has."""
        return tuple(name for name in manifest.uses_tools if name != ALL_AGENTS and name not in self._by_id)

    def instructions(self, manifest: Manifest, /, *, lenient: bool = False, **variables: Any) -> str:
        """The instructions of an agent: its prompt file, the bodies of the skills it uses, its inline instructions.

        The prompt knows `agent`, `date`, `user`, `workspace` and `skills`, and what is given here over these.
        """
        skills = self.skills_for(manifest, lenient=lenient)
        return bound_instructions(
            self.library_for(manifest),
            skills,
            agent=manifest.id,
            prompt=_prompt(manifest, skills, variables),
            instructions=manifest.instructions,
            lenient=lenient,
        )


def _prompt(manifest: Manifest, skills: tuple[str, ...], variables: Mapping[str, Any]) -> str:
    if not manifest.prompt.strip():
        return ""
    from metier.agent.prompt import render_prompt

    known = {
        "agent": {"id": manifest.id, "name": manifest.name},
        "date": datetime.date.today().isoformat(),
        "user": current_user() or "",
        "workspace": "",
        "skills": skills,
    }
    return render_prompt(manifest.prompt, {**known, **variables}, file=os.path.join(manifest.folder, PROMPT_FILE))


def _discover(start: Path) -> Iterator[Declared]:
    """The manifests of the default places, strongest first; a folder is read once, where it is strongest."""
    seen: set[str] = set()

    def once(folder: Path | str, layer: Layer, *, trusted: bool = True) -> Iterator[Declared]:
        real = os.path.realpath(folder)
        if real in seen:
            return
        if trusted:
            # Else not seen: a link that a stranger put there must not take a folder away that is trusted elsewhere.
            seen.add(real)
        yield from _in_folder(os.fspath(folder), layer, trusted=trusted)

    home = home_folder()
    if home is not None:
        yield from once(os.path.join(home, ".metier", "agents"), "personal")
    trust = TrustStore()
    _, folders = project_folders(start)
    for step in dict.fromkeys(path.parent.parent for path in folders):
        for below in AGENT_FOLDERS:
            yield from once(step / below, "project", trusted=trust.is_trusted(step))
    yield from once(SHIPPED, "plugin")


def _in_folder(folder: str, layer: Layer, *, trusted: bool = True) -> Iterator[Declared]:
    """The manifests of the folders in a folder, in the order of their names."""
    try:
        with os.scandir(folder) as entries:
            listed = list(itertools.islice(entries, _MOST_ENTRIES + 1))
            names = sorted(entry.name for entry in listed if entry.is_dir())
    except OSError:
        return
    if len(listed) > _MOST_ENTRIES:
        # A folder called `agents` may hold anything; what of it is read must not depend on chance.
        what = f"{shown(folder, 300)} has more than {_MOST_ENTRIES:,} entries and was not searched for agents."
        yield AgentFailure(id=folder, reason="invalid", message=what, hint="Move the agents.", folder=folder)
        return
    for name in names:
        path = os.path.join(folder, name)
        if trusted:
            yield from _declared_by(path, layer)
        elif _has_manifest(path):
            # That it is there is said, but nothing of it is read.
            yield _failure(
                path,
                f"Agent {shown(name)!r} comes from {shown(path, 300)}, which nobody has trusted.",
                for_people("Read it, then `metier trust` the project.", model=ASK_TO_TRUST),
                reason="untrusted",
            )


def _failure(path: str, message: str, hint: str, *, reason: FailureReason = "invalid") -> AgentFailure:
    return AgentFailure(id=os.path.basename(path), reason=reason, message=message, hint=hint, folder=path)


def _has_manifest(path: str) -> bool:
    return any(os.path.lexists(os.path.join(path, name)) for name in MANIFEST_FILES)


def _declared_by(path: str, layer: Layer) -> Iterator[Declared]:
    try:
        manifest = read_manifest(path, layer=layer)
    except AgentInvalid as error:
        yield _failure(path, error.message, error.hint)
    else:
        if manifest is not None:
            yield manifest
        elif os.path.lexists(misnamed := os.path.join(path, _MISNAMED)):
            message = f"{shown(misnamed, 300)} is not read: the file of an agent is called {MANIFEST_FILE}."
            yield _failure(path, message, f"Rename it to {MANIFEST_FILE}.")


def _place(manifest: Manifest) -> tuple[Layer, str]:
    """The place that declared an agent: all folders for agents of one project are one place."""
    folder = os.path.dirname(manifest.folder)
    for below in sorted(AGENT_FOLDERS, key=len, reverse=True):
        if folder.endswith(ending := os.sep + below.replace("/", os.sep)):
            return manifest.layer, folder.removesuffix(ending)
    return manifest.layer, folder


def _second(manifest: Manifest, winner: Manifest) -> AgentFailure:
    """The failure of an agent whose id another of the same place has."""
    return AgentFailure(
        id=manifest.id,
        reason="invalid",
        message=(
            f"The agent in {shown(manifest.folder, 300)} is not used: "
            f"the one in {shown(winner.folder, 300)} has the id {manifest.id!r} too."
        ),
        hint="Write another `id:` for one of them, or remove one.",
        folder=manifest.folder,
    )


def _vouched_for(manifest: Manifest, name: str, library: Library) -> Entry:
    """A skill that may become part of an agent's own instructions: no text of strangers does."""
    who = f"Agent {manifest.id!r} uses skill {shown(name)!r}"
    about = {"agent": manifest.id, "name": name}
    try:
        entry = library.get(name)
    except SkillNotFound as error:
        raise SkillNotFound(f"{who}, which was not found.", hint=error.hint, **about) from None
    except MetierError as error:
        raise AgentInvalid(f"{who}: {error.message}", hint=error.hint, **about) from None
    if not entry.trusted:
        raise AgentInvalid(
            f"{who} of {shown(entry.location, 300)}, which nobody has trusted.",
            hint=for_people("Read it, then `metier trust` the project.", model=ASK_TO_TRUST),
            **about,
        )
    if entry.skill.insert == "user-message":
        raise AgentInvalid(
            f"{who}, which is a message of the user's and no part of an agent.",
            hint=f"Take it from `uses_skills`; the user types /{entry.name}.",
            **about,
        )
    return entry
