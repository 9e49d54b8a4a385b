"""`metier.Session`: a session, with the tools that a dialect makes of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from metier.errors import InvalidArgument
from metier.session import session as room

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from metier._library import Library
    from metier.dialect import Dialect, DialectName, SkillTool, Spawn
    from metier.tools import Executor, Tool


class Session(room.Session):
    """What one conversation has loaded, and the tools by which a model uses it.

    >>> from metier import Library
    >>> library = Library.from_files({"SKILL.md": "---\\nname: greet\\ndescription: Greets.\\n---\\nSay hello."})
    >>> session = library.session()
    >>> [tool.name for tool in session.tools()]
    ['skills_load', 'skills_unload', 'skills_read', 'skills_run', 'skills_search']
    """

    if TYPE_CHECKING:
        library: Library

    def tools(self, dialect: DialectName | Dialect = "runtime", *, spawn: Spawn | None = None) -> list[SkillTool]:
        """The tools by which a model uses skills: name, description, JSON schema and async call.

        `spawn` starts an agent for a skill that asks for one of its own (`context: fork`). Where the session has the
        option `proposals`, there are those too by which a model proposes changes to skills.
        """
        found = _dialect(dialect).tools(self, spawn)
        if self.options.proposals:
            from metier.dialect.skill_proposals import proposal_tools

            found = [*found, *proposal_tools(self)]
        return found

    def executor(
        self,
        tools: Iterable[Tool] = (),
        *,
        dialect: DialectName | Dialect = "runtime",
        builtin: Sequence[str] = (),
        spawn: Spawn | None = None,
        is_all: bool = True,
    ) -> Executor:
        """What calls tools under this session's rules: those of the dialect, an agent's own, and built-in ones.

        `builtin` names those of Read, Write, Edit, Glob, Grep, Bash and WebFetch that the agent is to have. They work
        in the session's workspace; WebFetch reaches the hosts that policy grants. Skills that require other tools are
        not shown, unless `is_all=False` says that the agent has more than these.
        """
        from metier.tools import Executor, ToolRegistry

        given = [*self.tools(dialect, spawn=spawn), *tools, *self._built_in(builtin)]
        if is_all:
            self.set_tools(tool.name for tool in given)
        return Executor(ToolRegistry(given), self, words=_dialect(dialect).words.tools)

    def _built_in(self, names: Sequence[str]) -> list[Tool]:
        from metier.tools import Workspace, builtin_tools

        if isinstance(names, str):
            raise InvalidArgument("builtin is a list of names.", hint=f"Write builtin=[{names!r}].")
        if not names:
            return []
        # The files of loaded skills can be read too, wherever they lie; they cannot be written.
        os.makedirs(self.workspace, exist_ok=True)
        workspace = Workspace(
            self.workspace,
            # At the root of one whose copy is gone, and cannot be made again, is nothing to be read.
            readable=lambda: [one.root for one, _ in self.copies.verified(self.active)],
            allows=lambda tool, path: self.may_call(tool, {"file_path": path}),
            access=self.file_access,
        )
        runner = self.cage.runner_for_commands() if "Bash" in names else None
        hosts = self.cage.reachable_hosts if "WebFetch" in names else None
        made = builtin_tools(workspace, runner, unsearched=self._unread_scripts, hosts=hosts)
        known = {tool.name: tool for tool in made}
        unknown = [name for name in names if name not in known]
        if unknown:
            every = ", ".join(dict.fromkeys((*known, "Bash", "WebFetch")))
            raise InvalidArgument(f"There is no built-in tool {unknown[0]!r}.", hint=f"They are {every}.")
        return [known[name] for name in names]

    def _unread_scripts(self) -> frozenset[str]:
        """The scripts of active skills, where policy has them run and not read."""
        if self.guard.policy.script_reads == "allow":
            return frozenset()
        return frozenset(os.path.realpath(path) for one in self.active for path in one.ceiling.scripts)

    def instructions(self, prompt: str | None = None, *, dialect: DialectName | Dialect = "runtime") -> str:
        """The top-level text for the next model call; empty when there is nothing to say.

        `prompt` is what the user asks for: where the library is larger than the catalog, what fits it comes in.
        """
        return _dialect(dialect).instructions(self, prompt)


def _dialect(chosen: DialectName | Dialect) -> Dialect:
    from metier.dialect import dialect

    return dialect(chosen) if isinstance(chosen, str) else chosen
