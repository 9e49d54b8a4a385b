"""What the tools of a dialect are called, so that a text never names a tool that is not there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The names of the tools by what they do; None where a dialect has none for it."""

    load: str
    unload: str | None = None
    read: str | None = None
    run: str | None = None
    search: str | None = None
    execute: str | None = None
    """A shell that sees the skills' files."""

    def running(self, skill: str, script: str) -> str:
        """The call that runs a script of a skill."""
        if self.execute is not None:
            return f"{self.execute} with the path of {script}"
        if self.run is None:
            return f"ask the user to run {script}"
        return f"{self.run} with skill {skill!r} and script {script!r}"


RUNTIME = Vocabulary(
    load="skills_load", unload="skills_unload", read="skills_read", run="skills_run", search="skills_search"
)
"""The names that sessions use unless a dialect has others."""
