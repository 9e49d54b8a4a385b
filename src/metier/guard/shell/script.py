"""What a shell command consists of, once it has been read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from metier.guard.shell.scanner import Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirection:
    """A file that a command reads or writes by redirection; text and other descriptors need none."""

    target: Word
    writes: bool
    reads: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One simple command: a program and its arguments."""

    text: str
    """As written."""
    words: tuple[Word, ...]
    variants: tuple[tuple[Word, ...], ...] = ()
    """The same words with the values of loops put in, once for each; nothing where there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """All that a command line would run."""

    commands: tuple[Command, ...]
    pipelines: tuple[tuple[Command | None, ...], ...]
    """Commands that are joined by pipes; None for a group or another compound."""
    redirections: tuple[Redirection, ...]
    """Of every part."""
    assignments: tuple[Word, ...] = ()
    """What gives variables values before or without a command, and the variables of loops."""
    refusal: str = ""
    """What keeps rules from being held against it."""
