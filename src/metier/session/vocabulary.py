"""What the tools of a dialect are called, so that a text never names a tool that is not there."""

from __future__ import annotations

from dataclasses import dataclass

from metier.hints import USES


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

    @property
    def tools(self) -> dict[str, str]:
        """The tools that there are, by what they do, as hints are worded with them."""
        named = {use: getattr(self, use) for use in USES}
        return {use: tool for use, tool in named.items() if tool is not None}


RUNTIME = Vocabulary(
    load="skills_load", unload="skills_unload", read="skills_read", run="skills_run", search="skills_search"
)
"""The names that sessions use unless a dialect has others."""
