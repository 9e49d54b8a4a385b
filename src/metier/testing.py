"""For tests of skills, and of agents that have them: libraries in a line, a model that follows a script, and a log.

None of it talks to a network or waits for time to pass. `ScriptedModel` needs `metier[agent]`; the rest needs nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metier._suggest import suggestion
from metier.errors import InvalidArgument
from metier.guard.audit.log import MemoryLog

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier import Library
    from metier._scripted import Call, ModelRequest, ScriptedModel, Step
    from metier.guard import AuditRecord
    from metier.library.places import Layer

__all__ = ["AuditProbe", "Call", "FakeClock", "ModelRequest", "ScriptedModel", "Step", "library", "skill"]


def __getattr__(name: str) -> object:
    if name not in ("Call", "ModelRequest", "ScriptedModel", "Step"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from metier import _scripted

    return getattr(_scripted, name)


def skill(
    name: str,
    body: str = "",
    *,
    description: str = "",
    files: Mapping[str, str | bytes] | None = None,
    **fields: Any,
) -> dict[str, str | bytes]:
    """The files of a skill: its SKILL.md with these fields (`allowed_tools` is `allowed-tools`), and others.

    A field that no skill has raises `InvalidArgument`; what is yours goes below `metadata`.

    >>> print(skill("release", "Tag $ARGUMENTS.", allowed_tools="Read")["SKILL.md"].decode())
    ---
    name: release
    description: Does release.
    allowed-tools: Read
    ---
    <BLANKLINE>
    Tag $ARGUMENTS.
    <BLANKLINE>
    """
    from metier.skill.document import write_skill

    described = {"name": name, "description": description or f"Does {name}."}
    written = {_field(key): value for key, value in fields.items()}
    return {"SKILL.md": write_skill(described | written, body or f"Do {name}.")} | dict(files or {})


def _field(key: str) -> str:
    """The name of a field in a SKILL.md; a name that means nothing there would test nothing."""
    from metier.skill.fields import FIELD_NAMES

    known = {name.replace("-", "_"): name for name in FIELD_NAMES}
    if key in known:
        return known[key]
    meant = suggestion(key, known)
    raise InvalidArgument(
        f"A skill has no field {key!r}.{f' Did you mean {meant!r}?' if meant else ''}",
        hint=f"Fields are {', '.join(known)}; put others below metadata.",
    )


def library(*skills: str | Mapping[str, str | bytes], into: Path | str | None = None, **options: Any) -> Library:
    """A library of skills in memory, each a text `name` or `name: description`, or the files that `skill` gives.

    With `into`, they are written to that folder, and the library reads them there: for tests that change files.
    Other options are those of `Library.from_files` or `Library.from_folder`. Each lies in a folder of its own name.

    >>> [(entry.name, entry.description) for entry in library("greet: Says hello.", skill("release"))]
    [('greet', 'Says hello.'), ('release', 'Does release.')]
    """
    from metier import Library

    packages: dict[str, Mapping[str, str | bytes]] = {}
    for number, one in enumerate(skills, start=1):
        files, otherwise = _from_text(one) if isinstance(one, str) else one, f"skill-{number}"
        folder = _folder_of(files, otherwise)
        packages[otherwise if folder in packages else folder] = files
    if into is None:
        return _in_memory(packages, **options)
    os.makedirs(into, exist_ok=True)
    for folder, files in packages.items():
        for path, content in files.items():
            file = Path(into) / folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)
    return Library.from_folder(into, **({"cache": False} | options))


def _in_memory(
    packages: Mapping[str, Mapping[str, str | bytes]], *, layer: Layer = "project", name: str = "memory"
) -> Library:
    from metier import Library
    from metier.library import Place
    from metier.skill import MemoryPackage
    from metier.source.memory import MemorySource

    source = MemorySource({folder: MemoryPackage(files) for folder, files in packages.items()}, name=name)
    return Library([Place(layer=layer, source=source)], cache=False)


def _from_text(text: str) -> dict[str, str | bytes]:
    name, _, description = text.partition(":")
    return skill(name.strip(), description=description.strip())


def _folder_of(files: Mapping[str, str | bytes], otherwise: str) -> str:
    """The name of a skill's folder: the skill's own, where that can be one."""
    from metier.skill import is_valid_name
    from metier.skill.document import parse

    content = files.get("SKILL.md", b"")
    name = parse(content.encode() if isinstance(content, str) else content, folder=otherwise).skill.name
    return name if is_valid_name(name) else otherwise


class FakeClock:
    """A clock that stands still until it is told to go on, for whatever takes a `clock`.

    >>> clock = FakeClock()
    >>> sessions = library("greet").sessions(clock=clock, seconds=60)
    >>> kept = sessions.begin(id="one")
    >>> clock.advance(61)
    >>> len(sessions)
    0
    """

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        if seconds < 0:
            raise InvalidArgument("Time does not go back.", hint="Advance by 0 seconds or more.")
        self.now += seconds


class AuditProbe(MemoryLog):
    """An audit log to look at: what was asked for, in order, and what came of it.

    >>> probe = AuditProbe()
    >>> from metier import Guard
    >>> session = library(skill("greet", allowed_tools="Grep")).session(guard=Guard(audit=probe))
    >>> executor = session.executor(builtin=["Read"])
    >>> _ = executor.execute_blocking("skills_load", {"skills": ["greet"]})
    >>> _ = executor.execute_blocking("Read", {"file_path": "notes.md"})
    >>> probe.summary()
    [('load', 'greet', 'ok'), ('call', 'skills_load', 'ok'), ('call', 'Read', 'tool-not-allowed')]
    >>> probe.refused()[0].rule
    'greet: allowed-tools'
    """

    def summary(self, *events: str) -> list[tuple[str, str, str]]:
        """Return what happened: the event, the tool or skill it was about, and `ok` or the code of what went wrong.

        Records end with what they are about, so a load stands before the call that asked for it. With `events`, only
        those: `summary("load", "unload")`; without, all but those that only tell of the tokens of an answer (`model`).
        """
        return [
            (one.event, one.tool or one.skill, "ok" if one.success else one.code or one.decision)
            for one in self.records
            if (one.event in events if events else one.event != "model")
        ]

    def find(self, **values: object) -> list[AuditRecord]:
        """The records with these values: `find(event="run", skill="forms")`."""
        return [one for one in self.records if all(getattr(one, name) == value for name, value in values.items())]

    def one(self, **values: object) -> AuditRecord:
        """The only record with these values; fails, and shows all records, when there is none or another."""
        found = self.find(**values)
        assert len(found) == 1, f"{len(found)} records have {values}; the records are {self.summary()}"
        return found[0]

    def refused(self) -> list[AuditRecord]:
        """The records of refusals."""
        return [one for one in self.records if one.decision != "allow"]

    def clear(self) -> None:
        """Forget what happened up to now."""
        self.records.clear()
