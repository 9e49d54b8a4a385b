"""The paths that a command of a client may write, of all that it names.

A place that is named only in a message, as the content of a file, as left out, or by parts of the command that read and
print is not written by it. Without that, half of the commands of an ordinary day name some protected place.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from metier.guard.shell.lexer import UnreadableCommand
from metier.guard.shell.parser import MAX_COMMAND, parse_script
from metier.serve.client_hooks.commands import INTERPRETERS, CommandReading, only_reads, redirects

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from metier.guard.shell.command import Script
    from metier.guard.shell.lexer import ShellWord

_TEXT = re.compile(
    r"\"[^\"$`\\]*\"|'[^']*'|\"\$\(cat <<'(?P<end>\w+)'\n(?:(?!\s*(?P=end)\b)[^\n]*\n)*\s*(?P=end)\n\s*\)\""
)
"""A quoted text, also as Claude Code writes the messages of commits."""
_SAYING = {
    "git": frozenset({"commit", "merge", "notes", "stash", "tag"}),
    "gh": frozenset({"issue", "pr", "release"}),
}
"""The subcommands that take messages."""
_MESSAGE = re.compile(r"-[a-z]*m|--message|--title|--body")
_EXCLUDING = frozenset({"diff", "du", "egrep", "fgrep", "grep", "rsync", "tar", "zip"})
_EXCLUDE = re.compile(r"--exclude(-dir)?(=.*)?")
_CONTENT = re.compile(
    r"(?P<cat>(?:^|\n|(?<!\\)[;&])[ \t]*cat\b[^\n;&|()$`\"'\\]*<<[ \t]*'(?P<end>\w+)'[^\n;&|()$`\"'\\]*\n)"
    r"(?:(?!(?P=end)\n)[^\n]*\n)*?(?=(?P=end)(?:\n|\Z))"
)
"""The text between `cat > file <<'EOF'` and its end."""
_LAST_WORD = re.compile(r"\$\{?_(?!\w)")
_RUNS_FILES = frozenset({".", "chmod", "eval", "source", "xargs"})


def written_paths(reading: CommandReading) -> Sequence[str]:
    """The paths that a command may write, absolute and with links followed."""
    if len(reading.text) > MAX_COMMAND:
        return reading.paths
    text = _without_said(reading.text)
    without_content = _CONTENT.sub(r"\g<cat>", text)
    try:
        script = parse_script(without_content)
    except UnreadableCommand:
        script = None
    # What a substitution reads may be the names of files.
    if script and not (script.refusal or _LAST_WORD.search(text) or _runs_what_it_writes(script)):
        text = without_content
        for word in sorted(_read_words(script), key=lambda word: word.start, reverse=True):
            text = f"{text[: word.start]} {text[word.end :]}"
    return CommandReading(text, reading.folder).paths


def _without_said(text: str) -> str:
    """A command line without messages, revisions and what is left out, as far as it can be read."""
    try:
        # Words between backticks do not say where in the whole text they stand.
        commands = () if "`" in text else parse_script(text).commands
    except UnreadableCommand:
        return text
    said = {word for command in commands for word in _said_words(command.words, text)}
    for word in sorted(said, key=lambda word: word.start, reverse=True):
        text = f"{text[: word.start]} {text[word.end :]}"
    return text


def _said_words(words: Sequence[ShellWord], text: str) -> Iterator[ShellWord]:
    """The words of a command that name no file."""
    texts = [word.text for word in words]
    saying = len(texts) > 1 and texts[1] in _SAYING.get(texts[0], ())
    for before, word in pairwise(words):
        written = text[word.start : word.end]
        is_message = saying and _MESSAGE.fullmatch(before.text) and _TEXT.fullmatch(written)
        is_revision = texts[0] == "git" and written == "HEAD" and "mv" not in texts
        given = word.text if "=" in word.text else before.text
        is_left_out = texts[0] in _EXCLUDING and "--" not in texts and _EXCLUDE.fullmatch(given)
        if is_message or is_revision or (is_left_out and ("=" in given) == (given is word.text)):
            yield word


def _runs_what_it_writes(script: Script) -> bool:
    """Whether a file that it writes may be the program, or the names, of a later command."""
    names = [command.words[0].text for command in script.commands]
    runs = any("/" in name or name in _RUNS_FILES or INTERPRETERS.fullmatch(name) for name in names)
    return runs and ("tee" in names or redirects(script))


def _read_words(script: Script) -> Iterator[ShellWord]:
    """The words after the programs that only read and print, where nothing takes what they print for names."""
    if any(command is None for pipeline in script.pipelines for command in pipeline):
        return
    readers = [command for command in script.commands if only_reads(command.words)]
    for command in readers:
        joined = {one for pipeline in script.pipelines if command in pipeline for one in pipeline}
        is_content = all(one in readers or one is None or one.words[0].text == "tee" for one in joined)
        if is_content and command.words[0].text != "cd":
            yield from command.words[1:]
