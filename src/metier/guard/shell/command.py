"""Data model of a command line: its simple commands, and the effects of a command beside those of its program."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from metier._lazy import dataclass

if TYPE_CHECKING:
    from metier.guard.shell.lexer import ShellWord


class UnclearEffects(Exception):
    """The effects of a command cannot be read from its words; `index` is the word to blame, or one past the last."""

    def __init__(self, reason: str, index: int) -> None:
        super().__init__(reason)
        self.index = index


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirection:
    """A file that a command reads or writes by redirection; here-strings and other descriptors name none."""

    target: ShellWord
    writes: bool = True
    reads: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleCommand:
    """One simple command: a program and its arguments."""

    text: str
    """As written."""
    words: tuple[ShellWord, ...]
    variants: tuple[tuple[ShellWord, ...], ...] = ()
    """The same words with the values of loops put in, once for each; empty without a loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """All simple commands of a command line."""

    commands: tuple[SimpleCommand, ...]
    pipelines: tuple[tuple[SimpleCommand | None, ...], ...]
    """Commands that are joined by pipes; None for a group or another compound."""
    redirections: tuple[Redirection, ...]
    """Of every part."""
    assignments: tuple[ShellWord, ...] = ()
    """Assignments before or without a command, and the variables of loops."""
    refusal: str = ""
    """The construct that keeps rules with patterns from allowing it; "" without one."""


class Risk(NamedTuple):
    """A word that may make a command do more than its program does; a pattern that spells the word out allows it."""

    reason: str
    at: int
    is_setting: bool = False
    """Whether it changes the shell or its variables, and starts nothing itself."""


class StartedCommand(NamedTuple):
    """A command that another command starts: its words, or the text of a command line."""

    at: int
    """The index of the outer word that it begins with."""
    words: tuple[ShellWord, ...] = ()
    script: str | None = None
    sets_variables: bool = False
    """Whether it is started with variables that the command chooses."""
    moves: bool = False
    """Whether it is started in another folder."""
    is_own_matter: bool = False
    """Whether starting commands is the purpose of the program: a rule that allows the program allows it."""
    is_guess: bool = False
    """Whether it may be the value of an option, and start nothing."""


class WrittenFile(NamedTuple):
    """A file that a command writes because an option says so."""

    at: int
    """The index of the word that names it."""
    target: ShellWord
    moves: bool = False
    """Whether its path may start from another folder."""


class Effects(NamedTuple):
    """The effects of a simple command beside those of its program."""

    started: tuple[StartedCommand, ...] = ()
    risks: tuple[Risk, ...] = ()
    files: tuple[WrittenFile, ...] = ()
    folders: tuple[int, ...] = ()
    """The indexes of the words that name a folder to work in or to put files into."""
