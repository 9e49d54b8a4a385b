"""Rules about shells, matched against the commands that a shell is given."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from metier._paths import is_inside
from metier.guard.shell.command import Redirection, SimpleCommand, UnclearEffects
from metier.guard.shell.effects import changes_folder, effects_of, entered_folders
from metier.guard.shell.expansion import MAX_WRAPPING, ExpandedCommands
from metier.guard.shell.lexer import ShellWord, UnreadableCommand
from metier.guard.shell.parser import MAX_COMMAND, parse_script, unsafe_character
from metier.guard.shell.paths import found_paths, is_relative, is_repository_file, possible_paths, reachable_folders
from metier.guard.tool_rules.arguments import (
    CHANGING_ARGUMENTS,
    COMMAND_ARGUMENTS,
    FOLDER_ARGUMENTS,
    VARIABLES_ARGUMENTS,
)
from metier.guard.tool_rules.path_patterns import forbidding_rule, permitting_rule
from metier.guard.tool_rules.patterns import Match, list_rules, word_patterns
from metier.guard.tool_rules.tasks import task_problem, task_spellings, without_options
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metier.guard.shell.command import Script
    from metier.guard.tool_rules.patterns import WordPattern
    from metier.skill.tool_rules import ToolRule

_WORDS_ARGUMENTS = ("cmd", "command")
"""Arguments in which a list is the words of one program; elsewhere it would be several commands."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_FILES = frozenset({"/dev/null", "/dev/stderr", "/dev/stdout"})


_BLANKS = " \t\n"

_Fit: TypeAlias = "tuple[ToolRule, WordPattern]"


class _Refused(Exception):
    """A part of a command is not inside the rules."""


def permits_command(rules: Sequence[ToolRule], arguments: Mapping[str, Any], *, workspace: str = "") -> Match:
    """The match for a command: allowed if every part of it is inside the rules, none of which allows all commands."""
    ceiling = _Ceiling(rules, workspace)
    try:
        for name in CHANGING_ARGUMENTS:
            if arguments.get(name):
                raise _Refused(f"The argument {name!r} changes what the command does; leave it out.")
        return ceiling.permit(_command_of(arguments), _folder(arguments, workspace))
    except _Refused as error:
        return Match(allowed=False, reason=str(error))
    except UnreadableCommand as error:
        return Match(allowed=False, reason=f"The command cannot be held against the rules: {_reason(error)}.")


def forbids_command(rules: Sequence[ToolRule], arguments: Mapping[str, Any], *, workspace: str = "") -> Match | None:
    """The rule that touches a part of a command or may touch it, or None."""
    about = [rule for rule in rules if rule.names("bash")]
    paths = [rule for rule in rules if rule.tool in ("edit", "read", "write")]
    if not about and not paths:
        return None
    parts = ExpandedCommands(workspace or os.getcwd())
    problem = ""
    try:
        parts = ExpandedCommands(_folder(arguments, workspace))
        given = _command_of(arguments)
        if isinstance(given, str):
            for rule in about:
                if rule.pattern == given.strip(_BLANKS):
                    return _forbidden(rule, given)
            parts.add_script(parse_script(given))
        else:
            parts.add(SimpleCommand(text=" ".join(given), words=tuple(map(ShellWord, given))))
        if more := _assignments(arguments):
            parts.add_script(parse_script(more))
    except (UnreadableCommand, _Refused) as error:
        problem = f"The command cannot be read with certainty ({_reason(error)})"
    except UnclearEffects as error:
        problem = f"What the command starts cannot be read ({_reason(error)})"
    if problem and about:
        return _unsure(about[0], problem)
    for rule in about:
        for patterns in map(word_patterns, _forms(rule.pattern or "")):
            for candidates in parts.sequences(len(patterns)):
                if text := _touches(patterns, candidates):
                    return _forbidden(rule, text)
    return _forbidden_file(paths, parts, workspace)


def _assignments(arguments: Mapping[str, Any]) -> str:
    """The variables that a call sets beside its command, as the command itself would set them."""
    lines: list[str] = []
    for name in CHANGING_ARGUMENTS:
        given = arguments.get(name)
        if not given:
            continue
        if name not in VARIABLES_ARGUMENTS or not isinstance(given, Mapping):
            raise _Refused(f"the argument {name!r} changes what it does")
        for variable, value in given.items():
            if not isinstance(variable, str) or not _VARIABLE.fullmatch(variable) or not isinstance(value, str):
                raise _Refused(f"a variable in {name!r} is none of a shell")
            lines.append(f"{variable}={shlex.quote(value)}")
    return "\n".join(lines)


def _reason(error: Exception | str) -> str:
    return shown(str(error).rstrip("."), 200)


def _forbidden(rule: ToolRule, text: str) -> Match:
    return Match(allowed=False, reason=f"`{shown(text)}` is forbidden by {shown(rule.text)}.", rule=rule)


def _unsure(rule: ToolRule, what: str) -> Match:
    return Match(allowed=False, reason=f"{what}, so {shown(rule.text)} forbids it.", rule=rule)


def _command_of(arguments: Mapping[str, Any]) -> str | list[str]:
    """The command of a call: a line for a shell, or the words of one program."""
    found = [(name, arguments[name]) for name in COMMAND_ARGUMENTS if arguments.get(name) is not None]
    if len(found) != 1:
        raise _Refused("The call must have exactly one command.")
    name, given = found[0]
    if isinstance(given, str):
        return given
    if name not in _WORDS_ARGUMENTS and isinstance(given, list | tuple):
        raise _Refused(f"Several commands in {name!r} cannot be held against the rules; give them one by one.")
    if not isinstance(given, list | tuple) or not given or not all(isinstance(word, str) for word in given):
        raise _Refused("The command is no text.")
    if sum(map(len, given)) > MAX_COMMAND:
        raise _Refused(f"The command is longer than {MAX_COMMAND} characters.")
    if odd := next(filter(None, map(unsafe_character, given)), ""):
        raise _Refused(f"The command cannot be held against the rules: {odd}.")
    return list(given)


def _folder(arguments: Mapping[str, Any], workspace: str) -> str:
    """The folder that relative paths in a command start from."""
    found = [arguments[name] for name in FOLDER_ARGUMENTS if arguments.get(name)]
    if len(found) > 1 or not all(isinstance(folder, str) and "\0" not in folder for folder in found):
        raise _Refused("The call names no single working folder.")
    folder = os.path.join(workspace or os.getcwd(), *found)
    if any(map(is_repository_file, found)) or (found and _leads_into_own(folder, workspace or os.getcwd())):
        raise _Refused("The working folder is among a repository's own files.")
    return folder


def _real(path: str) -> str:
    """A path after following links; nothing when that is not possible."""
    try:
        return os.path.realpath(path)
    except (OSError, RecursionError, ValueError):
        return ""


def _leads_into_own(path: str, home: str) -> bool:
    """Whether a link on the way makes a path one of a repository's own files."""
    return is_repository_file(_real(path)) and not is_repository_file(_real(home))


class _WorkingFolder(NamedTuple):
    """The folder that a command runs in."""

    folder: str | None
    """None when that is not known."""
    is_workspace: bool
    folders: tuple[str, ...] = ()
    """Every folder that it may be, as far as can be seen."""


_ELSEWHERE = _WorkingFolder(None, is_workspace=False)


class _Ceiling:
    """Rules that allow, for one command."""

    def __init__(self, rules: Sequence[ToolRule], workspace: str) -> None:
        self._rules = rules
        self._workspace = workspace
        self._home = workspace or os.getcwd()
        self._about = [
            (rule, word_patterns(rule.pattern or "")) for rule in rules if rule.names("bash") and not rule.is_malformed
        ]

    @cached_property
    def _real_home(self) -> str:
        return _real(self._home)

    def permit(self, given: str | list[str], folder: str) -> Match:
        """The match for a whole command; `_Refused` says what is not inside."""
        is_home = folder == self._home or _real(folder) == self._real_home != ""
        place = _WorkingFolder(folder, is_workspace=is_home, folders=(folder,))
        if isinstance(given, str):
            if odd := unsafe_character(given):
                raise UnreadableCommand(odd)
            for rule, _ in self._about:
                if rule.pattern == given.strip(_BLANKS) and "*" not in given and place.is_workspace:
                    return Match(allowed=True, reason=f"{shown(rule.text)} allows exactly this.", rule=rule)
            rule = self._permit_script(given, place, 0)
        else:
            rule = self._permit_command(
                SimpleCommand(text=" ".join(given), words=tuple(map(ShellWord, given))), place, 0
            )
        return Match(allowed=True, reason=f"{shown(rule.text)} allows it.", rule=rule)

    def _permit_script(self, text: str, place: _WorkingFolder, depth: int) -> ToolRule:
        script = parse_script(text, depth=depth)
        if script.refusal:
            raise _Refused(f"Rules with patterns do not allow {script.refusal}: `{shown(text)}`.")
        if any(self._moves(command.words) for command in script.commands):
            ways = [word for command in script.commands for word in entered_folders(command.words)]
            place = _ELSEWHERE._replace(folders=tuple(reachable_folders(ways, place.folders or (self._home,))))
        piped = self._piped(script)
        decided: ToolRule | None = None
        for command in script.commands:
            rule = self._permit_command(command, place, depth, piped.get(id(command)))
            decided = decided or rule
        for redirection in script.redirections:
            self._permit_file(redirection, place)
        if decided is None:
            raise _Refused("There is no command.")
        return decided

    def _moves(self, words: Sequence[ShellWord]) -> bool:
        """Whether a command leaves the folder that it is in, as far as can be seen."""
        if changes_folder(words[:1]) and len(words) == 2 and words[1].is_known and os.path.isabs(words[1].text):
            return _real(words[1].text) != self._real_home
        return changes_folder(words)

    def _piped(self, script: Script) -> dict[int, _Fit]:
        """The commands that are allowed as part of a whole pipeline."""
        found: dict[int, _Fit] = {}
        for pipeline in script.pipelines:
            for rule, patterns in self._about:
                if len(patterns) == len(pipeline) > 1:
                    pairs = [(command, pattern) for command, pattern in zip(pipeline, patterns, strict=True) if command]
                    if len(pairs) == len(patterns) and all(pattern.matches(part.words) for part, pattern in pairs):
                        found |= {id(part): (rule, pattern) for part, pattern in pairs}
        return found

    def _permit_command(
        self, command: SimpleCommand, place: _WorkingFolder, depth: int, piped: _Fit | None = None
    ) -> ToolRule:
        given = [piped] if piped else []
        is_looped = bool(command.variants)
        rule = self._permit_words(command.words, command.text, place, depth, given, is_looped=is_looped)
        for words in command.variants:
            self._permit_words(words, command.text, place, depth, given, listed_by=rule)
        return rule

    def _permit_words(
        self,
        words: tuple[ShellWord, ...],
        text: str,
        place: _WorkingFolder,
        depth: int,
        given: Sequence[_Fit] = (),
        listed_by: ToolRule | None = None,
        *,
        is_looped: bool = False,
    ) -> ToolRule:
        """The rule that allows a simple command with all that it starts.

        `given` are patterns that it fits beside those of the rules. The words of a loop are held against the tasks that
        rules name with its values put in, and not before.
        """
        if depth > MAX_WRAPPING:
            raise _Refused(f"Too many commands start each other: `{shown(text)}`.")
        if not words[0].is_known or not words[0].text:
            raise _Refused(f"The program is not known before it runs: `{shown(text)}`.")
        fitting, task = [*self._fitting(words), *given], words
        if not fitting and any(word.text.startswith("-") for word in words[1:-1]):
            bare = without_options(words, is_inside=lambda path: self._leads_inside(path, place))
            fitting, task = (self._fitting(bare), bare) if bare else (fitting, task)
        if not place.is_workspace:
            if is_relative(words[0].text):
                raise _Refused(f"`{shown(words[0].text)}` is another program in another folder.")
            fitting = [(rule, pattern) for rule, pattern in fitting if not any(map(is_relative, pattern.literal))]
        if not fitting and (
            listed_by is None or any(parts[0].climbs(words) for rule, parts in self._about if rule is listed_by)
        ):
            raise _Refused(f"`{shown(text)}` is not among what is allowed: {list_rules(self._rules)}.")

        def spelling(index: int) -> list[_Fit]:
            return [(rule, pattern.after(index)) for rule, pattern in fitting if pattern.spells_out(words, index)]

        if not is_looped:
            self._permit_task(
                task, fitting or [(rule, parts[0]) for rule, parts in self._about if rule is listed_by], place
            )
        effects = effects_of(words)
        for risk in effects.risks:
            if not spelling(risk.at):
                raise _Refused(f"`{shown(text)}` is not allowed by a pattern: {_reason(risk.reason)}.")
        for at in effects.folders:
            paths = possible_paths(words[at], place.folders or (self._home,))
            if any(_leads_into_own(path, self._home) for path in paths) and not spelling(at):
                raise _Refused(f"`{shown(words[at].text)}` leads into a repository's own files.")
        for used in effects.files:
            if not spelling(used.at):
                around = _ELSEWHERE if used.moves else place
                self._permit_file(Redirection(target=used.target), around, is_option=True)
        for inner in effects.started:
            if inner.is_own_matter:
                continue
            spelled = spelling(inner.at)
            around = _ELSEWHERE if inner.moves else place
            if inner.sets_variables and not spelled:
                raise _Refused(f"Rules with patterns do not allow an assignment: `{shown(text)}`.")
            if inner.script is None:
                said = " ".join(word.text for word in inner.words if word.is_known)
                self._permit_words(inner.words, said, around, depth + 1, spelled)
            elif not spelled:
                self._permit_script(inner.script, around, depth + 1)
        return fitting[0][0] if fitting or listed_by is None else listed_by

    def _fitting(self, words: tuple[ShellWord, ...]) -> list[_Fit]:
        """The rules that a command fits, each with its pattern."""
        return [(rule, parts[0]) for rule, parts in self._about if len(parts) == 1 and parts[0].matches(words)]

    def _permit_task(self, words: tuple[ShellWord, ...], fitting: Sequence[_Fit], place: _WorkingFolder) -> None:
        """Refuse what leads out of the tasks that all fitting rules name."""
        found = ("", "")
        for rule, pattern in fitting:
            if pattern.is_whole_program:
                return
            reason = task_problem(
                words,
                pattern,
                is_inside=lambda path: self._leads_inside(path, place),
                found=lambda word: found_paths(word, place.folder or self._home),
                is_workspace=place.is_workspace,
            )
            if not reason:
                return
            found = (rule.text, reason)
        if found[1]:
            raise _Refused(
                f"{shown(found[0])} names a task, and {shown(found[1], 200)}. A rule that spells it out would allow "
                f"it, and so would one for the whole program: Bash({shown(words[0].text)}:*)."
            )

    def _leads_inside(self, path: str, place: _WorkingFolder) -> bool:
        """Whether a path, with what a test runner puts behind it, leads into the workspace."""
        path = path.partition("::")[0]
        if "://" in path or path.startswith(("@", "~")):
            return False
        return is_inside(_real(os.path.join(place.folder or self._home, path)), self._real_home)

    def _permit_file(self, redirection: Redirection, place: _WorkingFolder, *, is_option: bool = False) -> None:
        target = redirection.target
        path = target.text
        if is_option and not target.is_known and any(rule.tool == "write" and not rule.pattern for rule in self._rules):
            return
        if not target.is_known or path.startswith(("/dev/tcp/", "/dev/udp/")):
            raise _Refused(f"A redirection must name a plain file, not `{shown(path)}`.")
        if path in _NO_FILES:
            return
        if place.folder is None and not os.path.isabs(path):
            raise _Refused(f"The folder of the redirection to `{shown(path)}` is not known; give the whole path.")
        full = os.path.join(place.folder or "/", path)
        if is_option and (is_repository_file(full) or is_repository_file(_real(full))):
            raise _Refused(f"An option must not write into a repository's own files: `{shown(path)}`.")
        for tool in ["read"] * redirection.reads + ["write"] * redirection.writes:
            if permitting_rule(self._rules, tool, full, self._workspace) is None:
                raise _Refused(
                    f"The redirection to `{shown(path)}` needs {tool.title()}, and what is allowed is: "
                    f"{list_rules(self._rules)}."
                )


def _forms(pattern: str) -> list[str]:
    """The patterns that a rule forbids: with any arguments where it names none, and by the name of a program."""
    whole = " | ".join(part if "*" in part else f"{part}:*" for part in pattern.split(" | "))
    program, blank, rest = whole.partition(" ")
    name = program.rpartition("/")[2]
    return [whole] if name in (program, "") else [whole, f"{name}{blank}{rest}"]


def _touches(patterns: Sequence[WordPattern], candidates: Sequence[list[SimpleCommand] | None]) -> str:
    """The text of what a pattern may be about, if it may."""
    texts: list[str] = []
    for pattern, commands in zip(patterns, candidates, strict=True):
        found = next((command.text for command in commands or () if _may_name(pattern, command.words)), None)
        if found is None and commands is not None:
            return ""
        texts.append(found or "...")
    return " | ".join(texts)


def _may_name(pattern: WordPattern, words: tuple[ShellWord, ...]) -> bool:
    """Whether a command can be what a pattern names, also with options before its task."""
    if pattern.may_match(words):
        return True
    own = pattern.literal
    return len(own) > 1 and own[0] == words[0].text and any(map(pattern.may_match, task_spellings(words, len(own))))


def _forbidden_file(rules: Sequence[ToolRule], parts: ExpandedCommands, workspace: str) -> Match | None:
    for redirection in parts.redirections:
        target = redirection.target
        if target.is_known and target.text in _NO_FILES:
            continue
        tools = ["read"] * redirection.reads + ["write", "edit"] * redirection.writes
        folders = parts.folders()
        is_sure = target.is_known and (folders is not None or os.path.isabs(target.text))
        for rule in rules:
            if rule.tool in tools and not is_sure:
                return _unsure(rule, "A file of a redirection is not known before it runs")
        for tool in tools:
            for start in folders or [workspace]:
                forbidding = forbidding_rule(rules, tool, os.path.join(start, target.text), workspace)
                if forbidding is not None:
                    return _forbidden(forbidding, target.text)
    return None
