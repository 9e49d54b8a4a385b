"""Shell commands of a client, which runs them itself with nothing between them and this machine.

What a command writes cannot be told from its text alone. So one that names a place that decides about skills, or that
other programs act on, and does more than read, is refused; a program that hides such a name is for the client's own
sandbox to stop.
"""

from __future__ import annotations

import os
import re
import shlex
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import islice
from typing import TYPE_CHECKING, Any

from metier._cache import cached_property
from metier._paths import is_inside, real_path
from metier.errors import MetierError
from metier.guard.shell.effects import effects_of, program_name
from metier.guard.shell.lexer import UNKNOWN, UnreadableCommand
from metier.guard.shell.parser import parse_script
from metier.guard.shell.variables import is_command, is_evaluated
from metier.guard.tool_rules.arguments import COMMAND_ARGUMENTS, FOLDER_ARGUMENTS
from metier.skill.tool_rules import canonical_tool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from metier.guard.files.file_access import FileAccess
    from metier.guard.shell.command import Script, SimpleCommand
    from metier.guard.shell.lexer import ShellWord

_READERS = frozenset({
    "bat", "basename", "cat", "cd", "cksum", "cmp", "column", "comm", "cut", "date", "diff", "dirname", "du",
    "echo", "egrep", "false", "fgrep", "file", "find", "grep", "head", "hexdump", "jq", "less", "ls", "md5sum",
    "more", "nl", "od", "printf", "pwd", "readlink", "realpath", "rg", "sha256sum", "shasum", "sort", "stat",
    "strings", "tac", "tail", "test", "tree", "true", "uniq", "wc", "which", "whereis", "xxd", "yq",
})  # fmt: skip
"""Programs that write nothing but what they print, unless an option or a second file says so."""
_SYSTEM_FOLDERS = ("", "/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")
_SED_OPTIONS = re.compile(r"-[nErsuz]*e?|--(quiet|silent|regexp-extended|separate|unbuffered|null-data|debug|posix)")
_ADDRESS = r"(?:\d+|\$|/[^/\\\n\[]*/)"
_SED_COMMAND = rf"(?:{_ADDRESS}(?:,[+~]?{_ADDRESS})?\s*!?)?\s*(?:[pdq=]|s/[^/\\\n\[]*/[^/\\\n]*/[gpI\d]*)"
_SED_SCRIPT = re.compile(rf"{_SED_COMMAND}(?:\s*;\s*{_SED_COMMAND})*\s*")
"""A script that prints, leaves out and replaces, and has no command that writes or starts anything."""
_GIT_READS = frozenset({"add", "annotate", "blame", "commit", "diff", "grep", "log", "ls-files", "show", "status"})
INTERPRETERS = re.compile(
    r"(ba|da|z|k)?sh|python[\d.]*|pypy[\d.]*|node|nodejs|ruby|perl|php|deno|bun|tsx|ts-node|pwsh|Rscript|lua[\d.]*"
)
_LAUNCHED = frozenset(
    {"uv", "poetry", "pipenv", "npx", "pnpm", "yarn", "bunx", "env", "time", "nohup", "timeout", "nice"}
)
_CODE_OPTIONS = frozenset({"-c", "-e", "-m", "-p", "--eval", "--print", "--version", "-V", "-v", "--help", "-h"})
_SEPARATORS = re.compile(r"[\s;|&()<>{},`]+")
_BLANKS = re.compile(r"[\s;|&()<>`]+")
_BRACES = re.compile(r"\{([^{},]*,[^{}]*)\}")
_QUOTES = re.compile(r"\\\n|[\"'\\]")
_INNER_PATH = re.compile(r"(?:^-\w|[@:=])(~?/[^:]*)")
"""A path behind the letter of an option, or in a word that says more, as `-v/src:/dst` and `@/file` do."""
_SED_FILE = re.compile(r"(?<![\w.-])w([.~/].*)")
_ENTERED = re.compile(r"(?:\bcd|\bpushd|-C)(?:\s+-\w)*\s+([^\s;|&()<>`]+)")
_MOST_TEXT = 500_000
"""Characters of a command; a system takes less in one word."""
_MOST_WORDS = 1_000
_MOST_PATHS = 5_000
_MOST_FOLDERS = 8
_MOST_ENTERED = 32
_MOST_FOUND = 200
_LONGEST = 4_096


def command_line(tool: str, arguments: Mapping[str, Any]) -> str | None:
    """The command line of a call; None for a call of anything but a shell, be it one of an MCP server.

    >>> command_line("Bash", {"command": "git status"}), command_line("shell", {"command": ["git", "status"]})
    ('git status', 'git status')
    """
    if canonical_tool(tool.rpartition("__")[2]) != "bash":
        return None
    given = [value for name in COMMAND_ARGUMENTS if (value := arguments.get(name)) is not None]
    texts = [shlex.join(map(str, one)) if isinstance(one, list) else one for one in given]
    return "\n".join(text for text in texts if isinstance(text, str))


def command_folder(arguments: Mapping[str, Any], folder: str) -> str:
    """The folder that a command is started in.

    >>> command_folder({"command": "make", "workdir": "/src"}, "/shop"), command_folder({"command": "make"}, "/shop")
    ('/src', '/shop')
    """
    given = (arguments.get(name) for name in FOLDER_ARGUMENTS)
    named = next((one for one in given if isinstance(one, str) and one and "\0" not in one), None)
    return folder if named is None else os.path.join(folder, named)


class CommandReading:
    """A command line, as far as its text tells what it names, reads and starts."""

    def __init__(self, text: str, folder: str) -> None:
        is_short = len(text) <= _MOST_TEXT
        self.text = text = text[:_MOST_TEXT]
        self.folder = folder
        self.plain = _QUOTES.sub("", text).replace("${HOME}", "~").replace("$HOME", "~")
        """The text without quotes."""
        words = dict.fromkeys((*_SEPARATORS.split(self.plain), *_brace_words(self.plain)))
        paths = [word for word in words if "/" in word or word.startswith(("~", "."))]
        self._words = [*paths, *islice((word for word in words if word), _MOST_WORDS)]
        self._entered = _ENTERED.findall(self.plain)
        self.is_cut = not is_short or len(paths) > _MOST_PATHS or len(self._entered) > _MOST_ENTERED
        """Whether it has more words than are looked at."""

    @cached_property
    def _script(self) -> Script | None:
        """The commands of it; None where it cannot be read with certainty."""
        try:
            return parse_script(self.text)
        except UnreadableCommand:
            return None

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The paths that it may name, absolute and with links followed."""
        return tuple(dict.fromkeys(self._possible_paths()))

    def _possible_paths(self) -> Iterator[str]:
        folders = [self.folder]
        for most, words in ((_MOST_ENTERED, self._entered), (_MOST_ENTERED + _MOST_FOLDERS, self._words)):
            for part in dict.fromkeys(part for word in words for part in _parts(word)):
                for within in tuple(folders):
                    written = os.path.join(within, os.path.expanduser(part))
                    full = os.path.normpath(written)
                    yield real_path(full)
                    if ".." in part:  # which a system takes away after links, and some programs before
                        yield real_path(written)
                    if _has_pattern(part):
                        yield from map(real_path, _matching_paths(full))
                    if len(folders) < most and full not in folders and os.path.isdir(full):
                        folders.append(full)

    @cached_property
    def is_reading(self) -> bool:
        """Whether it only reads and prints."""
        script = self._script
        if script is None or script.refusal:
            return False
        names = [word.text.partition("=")[0] for word in script.assignments]
        changes = any(name == "PATH" or is_command(name) or is_evaluated(name) for name in names)
        return not redirects(script) and not changes and all(only_reads(command.words) for command in script.commands)

    @cached_property
    def is_interactive(self) -> bool:
        """Whether it may leave an interpreter running that waits for what is typed."""
        script = self._script
        if script is None or "<" in self.text:  # it has its input already, in whatever way
            return False
        first = (pipeline[0] for pipeline in script.pipelines) if script.pipelines else script.commands
        return any(command is not None and _waits_for_input(command) for command in first)

    @cached_property
    def started(self) -> tuple[tuple[str, tuple[str, ...] | None], ...]:
        """The files that it starts, by real paths, each with its arguments; None where it does more than that."""
        script, found = self._script, []
        for command in script.commands if script is not None else ():
            words = [self._with_home(word) for word in command.words]
            at = _script_index(words)
            if script is None or at is None:
                continue
            is_alone = len(script.commands) == 1 and not (script.redirections or script.assignments or script.refusal)
            is_whole = (
                is_alone
                and all(UNKNOWN not in word for word in words)
                and not any(word.splits for word in command.words[at + 1 :])
            )
            full = os.path.join(self.folder, words[at])
            found.append((real_path(full), tuple(words[at + 1 :]) if is_whole else None))
        return tuple(found)

    def _with_home(self, word: ShellWord) -> str:
        """The text of a word, with the home folder where it is written in front."""
        is_home = self.text[word.start : word.end].lstrip('"').startswith(("~/", "$HOME/", "${HOME}/"))
        return word.text.replace(UNKNOWN, os.path.expanduser("~"), 1) if is_home else word.text


def _parts(word: str) -> Iterator[str]:
    """The paths that a word may be or hold."""
    inner = (*_INNER_PATH.findall(word), *_SED_FILE.findall(word))
    for part in dict.fromkeys((word, word.partition(":")[0], word.partition("=")[2], *inner)):
        if part and len(part) <= _LONGEST and "\0" not in part and not part.startswith("-"):
            yield part


def _brace_words(text: str) -> Iterator[str]:
    """The words that those with braces stand for.

    >>> list(_brace_words("cat src/{a,b}.md c"))
    ['src/b.md', 'src/a.md']
    """
    for word in _BLANKS.split(text):
        waiting = [word] if "{" in word and "," in word and len(word) <= _LONGEST else []
        for _ in range(_MOST_FOUND if waiting else 0):
            one = waiting.pop()
            braces = _BRACES.search(one)
            if braces is None:
                yield one
            else:
                waiting += [one[: braces.start()] + each + one[braces.end() :] for each in braces[1].split(",")]
            if not waiting:
                break


def _has_pattern(text: str) -> bool:
    return any(sign in text for sign in "*?[")


def _matching_paths(path: str) -> list[str]:
    """The paths that a path with patterns finds, as far as they are looked for; what follows need not be there."""
    found = ["/"]
    for part in path.split("/"):
        if not part:
            continue
        if not _has_pattern(part):
            found = [os.path.join(folder, part) for folder in found]
            continue
        matches = (each for folder in found for each in _names_in(folder, part))
        found = list(islice(matches, _MOST_FOUND))
    return found


def _names_in(folder: str, part: str) -> Iterator[str]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in islice(entries, _MOST_PATHS):
            if entry.name.startswith(".") == part.startswith((".", "[")) and fnmatchcase(entry.name, part):
                yield entry.path


def redirects(script: Script) -> bool:
    """Whether it writes files by redirection."""
    return any(one.writes and one.target.text != "/dev/null" for one in script.redirections)


def only_reads(command: Sequence[ShellWord]) -> bool:
    """Whether the words of a simple command make one that only reads and prints."""
    words = [word.text for word in command]
    folder, _, name = words[0].rpartition("/")
    if folder not in _SYSTEM_FOLDERS or "-delete" in words:
        return False
    effects = effects_of(tuple(command))
    if effects.risks or effects.files:
        return False
    if effects.started:
        return name in ("find", "xargs") and all(
            one.script is None and not one.sets_variables and only_reads(one.words) for one in effects.started
        )
    if name == "git":
        return len(words) > 1 and words[1] in _GIT_READS
    return _is_printing_sed(words) if name == "sed" else name in _READERS


def _is_printing_sed(words: list[str]) -> bool:
    options = [word for word in words[1:] if word.startswith("-")]
    after = [words[at + 1] for at, word in enumerate(words[:-1]) if word in options and word.endswith("e")]
    scripts = after or [word for word in words[1:] if word not in options][:1]
    if any(UNKNOWN in word for word in words):  # which may be an option
        return False
    return bool(scripts) and all(map(_SED_OPTIONS.fullmatch, options)) and all(map(_SED_SCRIPT.fullmatch, scripts))


def _waits_for_input(command: SimpleCommand) -> bool:
    words = [word.text for word in command.words if program_name(word.text) not in _LAUNCHED]
    if not words or not INTERPRETERS.fullmatch(program_name(words[0])):
        return False
    return "-i" in words or all(word.startswith("-") and word not in _CODE_OPTIONS for word in words[1:])


def _script_index(words: list[str]) -> int | None:
    """The index of the word that names the file which a command starts: its program, or an interpreter's script."""
    for at, word in enumerate(words):
        name = program_name(word)
        if "/" in word and not INTERPRETERS.fullmatch(name):
            return at
        if INTERPRETERS.fullmatch(name):
            return next((at + n for n, one in enumerate(words[at + 1 :], 1) if not one.startswith("-")), None)
        if name not in _LAUNCHED and at == 0:
            return None
    return None


def closed_path(paths: Iterable[str], access: FileAccess) -> tuple[str, str] | None:
    """A path that is closed to writing, of those that a command names, with the place that closes it."""
    named = [path for path in paths if not is_inside(access.workspace, path)]
    try:
        places = list(access.closing_places([(path, True) for path in named]))
    except MetierError:
        return (named[0], named[0]) if named else None
    return next(((path, place) for path, place in zip(named, places, strict=True) if place), None)
