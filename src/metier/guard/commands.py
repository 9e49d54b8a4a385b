"""Rules about shells, held against the commands that they are given."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from metier.guard._git import subcommand_index
from metier.guard._starting import Unclear
from metier.guard.matching import Match, forbids, listed, permits, shown
from metier.guard.patterns import word_patterns
from metier.guard.scanner import Unreadable, Word
from metier.guard.script import Command
from metier.guard.shell import MAX_COMMAND, odd_character, read_shell
from metier.guard.wrappers import inner_commands, program_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from metier.guard.patterns import WordPattern
    from metier.guard.rules import Rule
    from metier.guard.script import Redirection, Script

MAX_WRAPPING = 6
"""How many commands may start each other."""

_COMMAND_ARGUMENTS = ("cmd", "code", "command", "commands", "script")
_FOLDER_ARGUMENTS = ("cwd", "dir", "directory", "folder", "workdir", "working_dir", "working_directory")
_CHANGING_ARGUMENTS = (
    "args", "arguments", "argv", "env", "env_vars", "environment", "executable", "input", "interpreter", "shell",
    "stdin", "user",
)  # fmt: skip
"""Arguments beside the command that change what it does."""
_CHANGES_FOLDER = frozenset({"cd", "popd", "pushd"})
_NO_FILES = frozenset({"/dev/null", "/dev/stderr", "/dev/stdout"})


class _Refused(Exception):
    """A part of a command is not inside the rules."""


def permits_command(rules: Sequence[Rule], arguments: Mapping[str, Any], *, workspace: str = "") -> Match:
    """Whether every part of a command is inside the rules, none of which allows all commands."""
    ceiling = _Ceiling(rules, workspace)
    try:
        for name in _CHANGING_ARGUMENTS:
            if arguments.get(name):
                raise _Refused(f"The argument {name!r} changes what the command does; leave it out.")
        return ceiling.permit(_given(arguments), _folder(arguments, workspace))
    except _Refused as error:
        return Match(allowed=False, reason=str(error))
    except Unreadable as error:
        return Match(allowed=False, reason=f"The command cannot be held against the rules: {_said(error)}.")


def forbids_command(rules: Sequence[Rule], arguments: Mapping[str, Any], *, workspace: str = "") -> Match | None:
    """The rule that touches a part of a command or may touch it, or None."""
    about = [rule for rule in rules if rule.names("bash")]
    paths = [rule for rule in rules if rule.tool in ("edit", "read", "write")]
    if not about and not paths:
        return None
    parts = _Parts()
    folder, problem = workspace, ""
    try:
        folder = _folder(arguments, workspace)
        given = _given(arguments)
        if isinstance(given, str):
            for rule in about:
                if rule.pattern == given.strip():
                    return _forbidden(rule, given)
            parts.add_script(read_shell(given))
        else:
            parts.add(Command(text=" ".join(given), words=tuple(map(Word, given))))
    except (Unreadable, _Refused) as error:
        problem = f"The command cannot be read with certainty ({_said(error)})"
    except Unclear as error:
        problem = f"What the command starts cannot be read ({_said(error)})"
    if problem and about:
        return _unsure(about[0], problem)
    for rule in about:
        pattern = rule.pattern or ""
        # Whoever forbids `curl` does not mean `curl` without arguments only.
        patterns = word_patterns(pattern if "*" in pattern else f"{pattern}:*")
        for candidates in parts.sequences(len(patterns)):
            if text := _touches(patterns, candidates):
                return _forbidden(rule, text)
    return _forbidden_file(paths, parts.redirections, folder)


def _said(error: Exception) -> str:
    return shown(str(error).rstrip("."), 200)


def _forbidden(rule: Rule, text: str) -> Match:
    return Match(allowed=False, reason=f"`{shown(text)}` is forbidden by {shown(rule.text)}.", rule=rule)


def _unsure(rule: Rule, what: str) -> Match:
    return Match(allowed=False, reason=f"{what}, so {shown(rule.text)} forbids it.", rule=rule)


def _given(arguments: Mapping[str, Any]) -> str | list[str]:
    """The command of a call: a line for a shell, or the words of one program."""
    found = [arguments[name] for name in _COMMAND_ARGUMENTS if arguments.get(name) is not None]
    if len(found) != 1:
        raise _Refused("The call must have exactly one command.")
    given = found[0]
    if isinstance(given, str):
        return given
    if not isinstance(given, list | tuple) or not given or not all(isinstance(word, str) for word in given):
        raise _Refused("The command is no text.")
    if sum(map(len, given)) > MAX_COMMAND:
        raise _Refused(f"The command is longer than {MAX_COMMAND} characters.")
    if odd := next(filter(None, map(odd_character, given)), ""):
        raise _Refused(f"The command cannot be held against the rules: {odd}.")
    return list(given)


def _folder(arguments: Mapping[str, Any], workspace: str) -> str:
    """The folder that relative paths in a command start from."""
    found = [arguments[name] for name in _FOLDER_ARGUMENTS if arguments.get(name)]
    if len(found) > 1 or not all(isinstance(folder, str) and "\0" not in folder for folder in found):
        raise _Refused("The call names no single working folder.")
    return os.path.join(workspace or os.getcwd(), *found)


class _Ceiling:
    """Rules that allow, for one command."""

    def __init__(self, rules: Sequence[Rule], workspace: str) -> None:
        self._rules = rules
        self._workspace = workspace
        self._about = [
            (rule, word_patterns(rule.pattern or "")) for rule in rules if rule.names("bash") and not rule.is_malformed
        ]

    def permit(self, given: str | list[str], folder: str) -> Match:
        """The match for a whole command; `_Refused` says what is not inside."""
        if isinstance(given, str):
            for rule, _ in self._about:
                if rule.pattern == given.strip() and "*" not in given:
                    return Match(allowed=True, reason=f"{shown(rule.text)} allows exactly this.", rule=rule)
            rule = self._permit_script(given, folder, 0)
        else:
            rule = self._permit_words(tuple(map(Word, given)), " ".join(given), 0)
        return Match(allowed=True, reason=f"{shown(rule.text)} allows it.", rule=rule)

    def _permit_script(self, text: str, folder: str, depth: int) -> Rule:
        script = read_shell(text, depth=depth)
        if script.refusal:
            raise _Refused(f"Rules with patterns do not allow {script.refusal}: `{shown(text)}`.")
        piped = self._piped(script)
        decided: Rule | None = None
        for command in script.commands:
            rule = self._permit_words(command.words, command.text, depth, piped.get(id(command)))
            decided = decided or rule
        moves = depth > 0 or any(command.words[0].text in _CHANGES_FOLDER for command in script.commands)
        for redirection in script.redirections:
            self._permit_file(redirection, None if moves else folder)
        if decided is None:
            raise _Refused("There is no command.")
        return decided

    def _piped(self, script: Script) -> dict[int, tuple[Rule, WordPattern]]:
        """The commands that are allowed as part of a whole pipeline."""
        found: dict[int, tuple[Rule, WordPattern]] = {}
        for pipeline in script.pipelines:
            for rule, patterns in self._about:
                if len(patterns) == len(pipeline) > 1:
                    pairs = [(command, pattern) for command, pattern in zip(pipeline, patterns, strict=True) if command]
                    if len(pairs) == len(patterns) and all(pattern.matches(part.words) for part, pattern in pairs):
                        found |= {id(part): (rule, pattern) for part, pattern in pairs}
        return found

    def _permit_words(
        self, words: tuple[Word, ...], text: str, depth: int, piped: tuple[Rule, WordPattern] | None = None
    ) -> Rule:
        if depth > MAX_WRAPPING:
            raise _Refused(f"Too many commands start each other: `{shown(text)}`.")
        if not words[0].is_known or not words[0].text:
            raise _Refused(f"The program is not known before it runs: `{shown(text)}`.")
        fitting = [(rule, parts[0]) for rule, parts in self._about if len(parts) == 1 and parts[0].matches(words)]
        if piped:
            fitting.append(piped)
        if not fitting:
            raise _Refused(f"`{shown(text)}` is not among what is allowed: {listed(self._rules)}.")

        def is_spelled_out(index: int) -> bool:
            return any(pattern.spells_out(words, index) for _, pattern in fitting)

        try:
            inner = inner_commands(words)
        except Unclear as error:
            if not is_spelled_out(error.index):
                raise _Refused(f"`{shown(text)}` is not allowed by a pattern: {_said(error)}.") from None
            return fitting[0][0]
        for started in inner:
            if is_spelled_out(started.at):
                continue
            if started.sets_variables:
                raise _Refused(f"Rules with patterns do not allow an assignment: `{shown(text)}`.")
            if started.script is not None:
                self._permit_script(started.script, self._workspace, depth + 1)
            else:
                said = " ".join(word.text for word in started.words if word.is_known)
                self._permit_words(started.words, said, depth + 1)
        return fitting[0][0]

    def _permit_file(self, redirection: Redirection, folder: str | None) -> None:
        target = redirection.target
        path = target.text
        if not target.is_known or path.startswith(("/dev/tcp/", "/dev/udp/")):
            raise _Refused(f"A redirection must name a plain file, not `{shown(path)}`.")
        if path in _NO_FILES:
            return
        if folder is None and not os.path.isabs(path):
            raise _Refused(f"The folder of the redirection to `{shown(path)}` is not known; give the whole path.")
        full = {"file_path": os.path.join(folder or "/", path)}
        tools = [("read",)] * redirection.reads + [("write", "edit")] * redirection.writes
        for names in tools:
            if not any(permits(self._rules, name, full, workspace=self._workspace).allowed for name in names):
                raise _Refused(
                    f"The redirection to `{shown(path)}` needs {names[0].title()}, and what is allowed is: "
                    f"{listed(self._rules)}."
                )


class _Parts:
    """Every command that a command line may run, as rules that forbid see it."""

    def __init__(self) -> None:
        self._each: list[list[Command]] = []
        self._pipelines: list[list[list[Command] | None]] = []
        self.redirections: list[Redirection] = []

    def add_script(self, script: Script, depth: int = 0) -> None:
        """All parts of a script, and what they start."""
        self.redirections += script.redirections
        seen = {id(command): self.add(command, depth) for command in script.commands}
        for pipeline in script.pipelines:
            self._pipelines.append([seen[id(command)] if command else None for command in pipeline])

    def add(self, command: Command, depth: int = 0) -> list[Command]:
        """One command; gives what it is and all that it starts."""
        if depth > MAX_WRAPPING:
            raise Unreadable("too many commands start each other")
        words = command.words
        if not words[0].is_known:
            raise Unreadable("the program is not known before it runs")
        name = program_name(words[0].text)
        plain = name.lower().removesuffix(".exe")
        seen = [command, *(Command(text=command.text, words=(Word(n), *words[1:])) for n in {name, plain})]
        self._each.append(seen)
        started_words = (Word(plain), *words[1:])
        inner = inner_commands(started_words)
        if plain == "git":
            # `git -C x push` is a `git push`.
            seen.append(Command(text=command.text, words=(Word(plain), *words[subcommand_index(started_words) :])))
        for started in inner:
            if started.script is not None:
                self.add_script(read_shell(started.script, depth=depth + 1), depth + 1)
            else:
                said = " ".join(word.text for word in started.words if word.is_known)
                seen += self.add(Command(text=said, words=started.words), depth + 1)
        return seen

    def sequences(self, size: int) -> Iterator[Sequence[list[Command] | None]]:
        """Every command alone, or those that follow each other in a pipeline."""
        if size == 1:
            yield from ([each] for each in self._each)
        else:
            for pipeline in self._pipelines:
                yield from (pipeline[i : i + size] for i in range(len(pipeline) - size + 1))


def _touches(patterns: Sequence[WordPattern], candidates: Sequence[list[Command] | None]) -> str:
    """The text of what a pattern may be about, if it may."""
    texts: list[str] = []
    for pattern, commands in zip(patterns, candidates, strict=True):
        found = next((command.text for command in commands or () if pattern.may_match(command.words)), None)
        if found is None and commands is not None:
            return ""
        texts.append(found or "...")
    return " | ".join(texts)


def _forbidden_file(rules: Sequence[Rule], redirections: Sequence[Redirection], folder: str) -> Match | None:
    for redirection in redirections:
        target = redirection.target
        if target.is_known and target.text in _NO_FILES:
            continue
        tools = ["read"] * redirection.reads + ["write", "edit"] * redirection.writes
        for rule in rules:
            if rule.tool in tools and not target.is_known:
                return _unsure(rule, "A file of a redirection is not known before it runs")
        for tool in tools:
            found = forbids(rules, tool, {"file_path": os.path.join(folder, target.text)}, workspace=folder)
            if found is not None and found.rule is not None:
                return _forbidden(found.rule, target.text)
    return None
