"""`metier agents`, and the agent and the saved conversations that `metier ask` and `chat` work with."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import metier.agent
from metier._otel_setup import configure_from_environment
from metier._paths import write_file
from metier._suggest import suggestion
from metier.cli.identity import user_name
from metier.cli.json_shapes import error_shape
from metier.cli.output import Style, plural, print_json, table
from metier.cli.parser import Parser, library_of
from metier.errors import AgentInvalid, InvalidArgument, MetierError, SessionNotFound
from metier.hints import for_person

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.agent import Agent, AgentFailure, Agents, Manifest
    from metier.guard.question import Approve


_SHOWN = ("id", "name", "description", "model", "uses_skills", "uses_tools", "integration_mode", "folder")
"""The fields of a manifest that `metier agents --json` prints."""
DEFAULT = "orchestrator"
"""The agent that is asked where none is named."""


def add(parser: Parser) -> None:
    parser.example("metier agents --json")
    parser.library()
    parser.json()


def add_agent_options(parser: Parser) -> None:
    """Add the options that `agent_of` reads: which agent works, on which model, and where."""
    parser.library(caller=False)
    parser.option("--agent", "ID", "the agent (default: orchestrator)", complete="agents")
    parser.option(
        "--model",
        "MODEL",
        "such as openai:gpt-5 (default: the agent's own, else METIER_MODEL); `test` shows the wiring without one",
    )
    parser.option("--workspace", "DIR", "where it works (default: here)")
    for name in ("tenant", "environment"):
        parser.option(f"--{name}", "NAME", f"as this {name} sees the skills")


def run(options: Namespace) -> int:
    agents = metier.agent.Agents.discover(library_of(options))
    problems = problems_of(agents)
    code = int(bool(agents.failures or agents_in_need(agents, problems)))
    if options.json:
        agents_shape = [
            {name: getattr(one, name) for name in _SHOWN} | {"problem": _shape(problems.get(one.id))} for one in agents
        ]
        failures = [
            {"id": one.id, "message": one.message, "hint": for_person(one.hint), "folder": one.folder}
            for one in agents.failures.values()
        ]
        print_json({"agents": agents_shape, "failures": failures})
        return code
    style = Style(sys.stdout)
    rows = [(one.id, one.model or "", ", ".join(one.uses_skills), one.description) for one in agents]
    print(table(style, ("ID", "MODEL", "SKILLS", "DESCRIPTION"), rows, paint={0: style.strong}, most_lines=3))
    print(f"{plural(len(agents), 'agent')}. `metier ask --agent ID TASK` asks one.")
    wrongs: list[AgentFailure | MetierError] = [*agents.failures.values(), *problems.values()]
    for wrong in wrongs:
        mark = style.warn("!") if isinstance(wrong, _HostTool) else style.bad("✗")
        print(f"{mark} {Style.text(wrong.message, 1_000)}")
        print(f"  {style.dim('→ ' + Style.text(for_person(wrong.hint), 1_000))}")
    return code


class _HostTool(AgentInvalid):
    """The error for a tool that a program may have, and this command does not."""


def agents_in_need(agents: Agents, problems: Mapping[str, MetierError] | None = None) -> set[str]:
    """List the ids of agents that are declared well, and still can work nowhere."""
    found = problems_of(agents) if problems is None else problems
    return {name for name, error in found.items() if not isinstance(error, _HostTool)}


def problems_of(agents: Agents) -> dict[str, MetierError]:
    """Collect the problems of agents that are declared well, by id: a missing skill or tool, a wrong prompt."""
    found: dict[str, MetierError] = {}
    for manifest in agents:
        try:
            _check(agents, manifest)
        except MetierError as error:
            found[manifest.id] = error
    return found


def _check(agents: Agents, manifest: Manifest) -> None:
    from metier.agent.manifest import BUILDING, BUILT_IN

    agents.instructions(manifest, workspace=os.getcwd())
    known = (*BUILT_IN, *BUILDING)
    missing = [name for name in agents.tools_for(manifest) if name not in known]
    if missing:
        meant = suggestion(missing[0], [*known, *(one.id for one in agents)], cutoff=0.7)
        guess = f" Did you mean {meant!r}?" if meant else ""
        raise _HostTool(
            f"Agent {manifest.id!r} uses tool {Style.text(missing[0])!r}, which is not here.{guess}",
            hint="A program gives it with `Agent(..., tools=[...])`; `metier ask` and `metier chat` cannot run it.",
        )


def _shape(error: MetierError | None) -> Any:
    return None if error is None else error_shape(error)["error"]


def require_engine() -> None:
    """Raise `PartMissing` where the engine of agents is not installed, or too old."""
    from metier._extras import optional

    with optional("Agents", "pydantic-ai-slim", extra="agent"):
        import pydantic_ai

        import metier.agent.agent  # noqa: F401
    # What a person sees here is what the agent says: pydantic-ai tells nothing of itself.
    pydantic_ai.BANNER_ENABLED = False


def agent_of(options: Namespace, approve: Approve | None) -> Agent:
    """Make the agent of the options, on the model of the options; raises `ModelMissing` before it does anything.

    An action that `approve` does not agree to suspends it, and so does one that nobody can be asked about.
    """
    require_engine()
    configure_from_environment()
    agents = metier.agent.Agents.discover(library_of(options))
    agent = metier.agent.Agent(
        agents.get(DEFAULT if options.agent is None else options.agent),
        agents,
        model=options.model,
        approve=approve,
        suspend=True,
        user=user_name(),
        **({} if options.workspace is None else {"workspace": options.workspace}),
    )
    agent.model  # noqa: B018  # found out now, and not after the person has typed
    return agent


MAX_KEPT = 200
MAX_BYTES = 64 * 1024 * 1024
LAST = "last"
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def default_folder() -> Path:
    """Return the folder of saved conversations, below the user's state folder."""
    home = os.path.expanduser("~")
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home) / "metier" / "chats"
    if sys.platform == "darwin":
        return Path(home) / "Library" / "Application Support" / "metier" / "chats"
    return Path(os.environ.get("XDG_STATE_HOME") or os.path.join(home, ".local", "state")) / "metier" / "chats"


class SavedChats:
    """Saved conversations by their id, readable for their user alone; the oldest of many are removed.

    >>> import tempfile
    >>> chats = SavedChats(tempfile.mkdtemp())
    >>> chats.keep("one", {"agent": "orchestrator"})
    >>> chats.read("last")
    {'agent': 'orchestrator'}
    """

    def __init__(self, folder: Path | str | None = None) -> None:
        self.folder = Path(folder) if folder is not None else default_folder()

    def keep(self, id: str, state: dict[str, Any]) -> None:  # noqa: A002
        """Save a conversation; the file is whole, or as it was before."""
        path = self._path(id)
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        data = json.dumps(state).encode()
        if len(data) > MAX_BYTES:
            raise InvalidArgument(
                f"The conversation has more than {MAX_BYTES:,} bytes and stays as it was kept before.",
                hint="Begin a new one: `metier chat`.",
            )
        write_file(path, data)
        for old in self._files_by_age()[MAX_KEPT:]:
            with contextlib.suppress(OSError):
                old.unlink()

    def read(self, id: str) -> dict[str, Any]:  # noqa: A002
        """Read a saved conversation, by default the last one."""
        if id == LAST:
            saved = self._files_by_age()
            if not saved:
                raise SessionNotFound("No conversation is kept here.", hint="Begin one: `metier chat`.")
            path = saved[0]
        else:
            path = self._path(id)
        try:
            with open(path, "rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError:
            raise SessionNotFound(
                f"No conversation {id!r:.80} is kept here.", hint="`--resume` alone goes on with the last one.", id=id
            ) from None
        try:
            state = json.loads(data) if len(data) <= MAX_BYTES else None
        except (ValueError, RecursionError):
            state = None
        if not isinstance(state, dict):
            raise InvalidArgument(f"The conversation in {path} cannot be read.", hint="Begin a new one: `metier chat`.")
        return state

    def _path(self, id: str) -> Path:  # noqa: A002
        if not _ID.fullmatch(id):
            raise InvalidArgument(f"{id!r:.80} is no id of a conversation.", hint="The end of a chat says its id.")
        return self.folder / f"{id}.json"

    def _files_by_age(self) -> list[Path]:
        """List the files, the newest first."""
        found = []
        with contextlib.suppress(OSError):
            for entry in os.scandir(self.folder):
                if entry.name.endswith(".json") and entry.is_file(follow_symlinks=False):
                    found.append((entry.stat(follow_symlinks=False).st_mtime_ns, Path(entry.path)))
        return [path for _, path in sorted(found, reverse=True)]
