"""Expansion of a command line: every command that it may run, also through others, as rules that forbid see it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from metier.guard.shell.builtins import DECLARING
from metier.guard.shell.command import Redirection, SimpleCommand, UnclearEffects
from metier.guard.shell.effects import FOLDER_BUILTINS, effects_of, program_name, starts_others
from metier.guard.shell.git import subcommand_index, subcommand_name
from metier.guard.shell.lexer import ANY_WORDS, UNKNOWN, ShellWord, UnreadableCommand
from metier.guard.shell.parser import parse_script
from metier.guard.shell.paths import MAX_MOVES, link_names, reachable_folders
from metier.guard.shell.variables import is_command, is_evaluated, is_tame
from metier.guard.shell.wrappers import is_shell

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from metier.guard.shell.command import Script

MAX_WRAPPING = 6
"""Commands that may start each other."""
_MAX_PARTS = 2_000


class ExpandedCommands:
    """The commands of a line, and those that they start."""

    def __init__(self, folder: str) -> None:
        """`folder` is the folder that the line runs in."""
        self._folder = folder
        self._each: list[list[SimpleCommand]] = []
        self._pipelines: list[list[list[SimpleCommand] | None]] = []
        self.redirections: list[Redirection] = []
        self._entered: list[ShellWord] = []
        self._is_folder_unknown = False

    def add_script(self, script: Script, depth: int = 0) -> None:
        """Add all commands of a script, and those that they start."""
        self.redirections += script.redirections
        for word in script.assignments:
            self._add_assignment(word, depth)
        seen = {id(command): self.add(command, depth) for command in script.commands}
        for pipeline in script.pipelines:
            self._pipelines.append([seen[id(command)] if command else None for command in pipeline])

    def add(self, command: SimpleCommand, depth: int = 0) -> list[SimpleCommand]:
        """Add one command; returns its spellings and the commands that it starts."""
        if depth > MAX_WRAPPING or len(self._each) > _MAX_PARTS:
            raise UnreadableCommand("too many commands start each other")
        words = command.words
        if not words[0].is_known:
            raise UnreadableCommand("the program is not known before it runs")
        if words[0].text in FOLDER_BUILTINS:
            is_plain = len(words) == 2 and words[1].is_known and not words[1].text.startswith("-")
            self._entered += words[1:2]
            self._is_folder_unknown |= not is_plain or len(self._entered) > MAX_MOVES
        names = dict.fromkeys(name for each in self._names(words[0].text) for name in (_without_suffix(each), each))
        seen = [command, *(SimpleCommand(text=command.text, words=(ShellWord(name), *words[1:])) for name in names)]
        self._each.append(seen)
        for name in dict.fromkeys(map(_without_suffix, names)):
            for variant in (words, *command.variants):
                self._add_started(command, (ShellWord(name), *variant[1:]), seen, depth)
        return seen

    def _names(self, word: str) -> Iterator[str]:
        """The name of a program, and where it is given by a path the names of what links lead to."""
        yield program_name(word)
        if "/" in word:
            for folder in reachable_folders(self._entered, [self._folder]):
                yield from link_names(os.path.join(folder, word))

    def _add_assignment(self, word: ShellWord, depth: int) -> None:
        """Add the commands that the value of a variable makes programs start later."""
        name, _, value = word.text.partition("=")
        # A subscript, which was read with the word, or a plus sign may follow the name.
        plain = name.partition("[")[0].rstrip("+")
        if UNKNOWN in plain or (is_evaluated(plain) and not is_tame(word.text)):
            raise UnclearEffects(f"the value of {plain.replace(UNKNOWN, '*')} can start programs", 0)
        if not value or not is_command(plain):
            return
        program = value.split()[0].rpartition("/")[2] if value.strip() else ""
        if plain == "SHELL" and is_shell(program):
            return
        if word.free or "" in word.variables or UNKNOWN in program or name.endswith("+"):
            raise UnclearEffects(f"what {plain} starts is not known before it runs", 0)
        # A value from the environment was not chosen by the command.
        script = parse_script(value.replace(UNKNOWN, "x"), depth=depth + 1)
        self.add_script(script, depth + 1)
        for command in script.commands:
            if starts_others(command.words[0].text):
                # It is given more words than are seen here.
                self.add(SimpleCommand(text=command.text, words=(*command.words, ANY_WORDS)), depth + 1)

    def _add_started(
        self, command: SimpleCommand, words: tuple[ShellWord, ...], seen: list[SimpleCommand], depth: int
    ) -> None:
        if words[0].text.startswith("git-"):
            words = (ShellWord("git"), ShellWord(words[0].text.removeprefix("git-")), *words[1:])
        effects = effects_of(words)
        if risk := next((each for each in effects.risks if not each.is_setting), None):
            raise UnclearEffects(risk.reason, risk.at)
        if words[0].text == "git":
            # `git -C x push` is a `git push`.
            rest = words[subcommand_index(words) :]
            seen.append(SimpleCommand(text=command.text, words=(words[0], *rest)))
            also = tuple(word._replace(text=subcommand_name(word.text)) for word in rest[:1])
            seen.append(SimpleCommand(text=command.text, words=(words[0], *also, *rest[1:])))
        if words[0].text in DECLARING:
            for word in words[1:]:
                if "=" in word.text or not word.is_known:
                    self._add_assignment(word, depth)
        self.redirections += (Redirection(target=used.target) for used in effects.files)
        for inner in effects.started:
            if inner.sets_variables:
                for word in words[1 : inner.at]:
                    if "=" in word.text and not word.text.startswith("-"):
                        self._add_assignment(word, depth)
            if inner.script is not None:
                try:
                    self.add_script(parse_script(inner.script, depth=depth + 1), depth + 1)
                except UnclearEffects:
                    if not inner.is_guess:
                        raise
                continue
            text = " ".join(word.text for word in inner.words if word.is_known)
            inside = SimpleCommand(text=text, words=inner.words)
            try:
                seen += self.add(inside, depth + 1)
            except (UnclearEffects, UnreadableCommand):
                if not inner.is_guess:
                    raise
                seen.append(inside)

    def folders(self) -> list[str] | None:
        """Every folder that the commands may run in; None when that is not known."""
        return None if self._is_folder_unknown else reachable_folders(self._entered, [self._folder])

    def sequences(self, size: int) -> Iterator[Sequence[list[SimpleCommand] | None]]:
        """Every command alone, or those that follow each other in a pipeline."""
        if size == 1:
            yield from ([each] for each in self._each)
        else:
            for pipeline in self._pipelines:
                yield from (pipeline[i : i + size] for i in range(len(pipeline) - size + 1))


def _without_suffix(name: str) -> str:
    return name.lower().removesuffix(".exe")
