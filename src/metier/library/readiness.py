"""Readiness: whether the requirements of a skill are met."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from metier._lazy import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from metier.skill import Requirements

_SYSTEM = {"win32": "windows", "cygwin": "windows"}.get(sys.platform, sys.platform)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The machine and the agent: programs, variables and the system here, and the tools of an agent.

    >>> Machine(tools={"browser"}).tools
    {'browser'}
    """

    environment: Mapping[str, str] = field(default_factory=partial(getattr, os, "environ"), repr=False)
    """Variables, and the `PATH` on which programs are looked for. Never shown: there are secrets in it."""
    system: str = _SYSTEM
    tools: Collection[str] | None = None
    """The agent's tools; None when nobody knows, and then no skill is unready for want of one."""
    tool_name: Callable[[str], str] = str.casefold
    """The one form by which names of tools are compared."""
    mcp: Collection[str] | None = None
    """The MCP servers that the agent is connected to; None when nobody knows."""
    _programs: dict[str, bool] = field(default_factory=dict, repr=False, compare=False)

    def has_program(self, name: str) -> bool:
        """Whether a program can be started by its name."""
        if name not in self._programs:
            import shutil

            self._programs[name] = shutil.which(name, path=self.environment.get("PATH", "")) is not None
        return self._programs[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """The readiness of a machine for a skill: nothing, or the requirements that are missing. Nothing is ever installed.

    >>> from metier import Library
    >>> text = "---\\nname: a\\ndescription: A.\\nrequires: {bins: [no-such-program]}\\n---\\nDo."
    >>> print(Library.from_files({"SKILL.md": text}).get("a").readiness())
    missing bins: no-such-program
    """

    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Kind of requirement (bins, any-bins, env, os, tools, mcp) to what is missing of it."""
    unknown: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Requirements that only the agent can tell: its tools and MCP servers."""

    @property
    def is_ready(self) -> bool:
        """Whether nothing is known to be missing."""
        return not self.missing

    def __bool__(self) -> bool:
        return self.is_ready

    def __str__(self) -> str:
        if self.is_ready:
            return "ready"
        return "missing " + "; ".join(f"{kind}: {', '.join(names)}" for kind, names in self.missing.items())


READY = Readiness()


def readiness(requirements: Requirements, machine: Machine) -> Readiness:
    """The requirements that are not met."""
    if not requirements:
        return READY
    missing: dict[str, tuple[str, ...]] = {
        "bins": tuple(name for name in requirements.bins if not machine.has_program(name)),
        "any-bins": () if any(map(machine.has_program, requirements.any_bins)) else requirements.any_bins,
        "env": tuple(name for name in requirements.env if not machine.environment.get(name)),
        "os": () if not requirements.os or machine.system in requirements.os else requirements.os,
    }
    unknown: dict[str, tuple[str, ...]] = {}
    for kind, wanted, there, same in (
        ("tools", requirements.tools, machine.tools, machine.tool_name),
        ("mcp", requirements.mcp, machine.mcp, str.casefold),
    ):
        if there is None:
            unknown[kind] = wanted
        else:
            have = set(map(same, there))
            missing[kind] = tuple(name for name in wanted if same(name) not in have)
    return Readiness(
        missing={kind: names for kind, names in missing.items() if names},
        unknown={kind: names for kind, names in unknown.items() if names},
    )
