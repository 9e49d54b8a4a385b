"""Effects of a simple command beside those of its program: commands it starts, files it writes, words that may do more.

A rule that names `env`, `xargs`, `find` or `bash` must not allow whatever they are asked to start, and a rule that
forbids `curl` must see it behind them.

The line is drawn at programs whose purpose is to start others, at options of common programs (`git -c`,
`tar --to-command`, `rsync -e`) that start others, and at builtins that evaluate text or change what later commands
mean. Interpreters, build tools and programs that take commands from people (`python`, `node`, `perl`, `awk`, `sed`,
`make`, `npm`, `npx`, `docker`, `vim`, `less`, `gdb`, `sftp`) are programs of their own: a rule that names one allows
what it can do, which is nearly everything, and a rule that forbids another program sees it among their words
(`launchers`) but not in the text they run. So are programs that write files because that is what they are for (`cp`,
`tee`, `tar -x`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from metier.guard.shell.builtins import builtin_risks
from metier.guard.shell.command import Effects, Risk, UnclearEffects
from metier.guard.shell.git import git_effects
from metier.guard.shell.launchers import is_python, launched_commands, python_commands
from metier.guard.shell.programs import program_effects
from metier.guard.shell.wrappers import fd_effects, find_effects, is_wrapper, wrapped_commands

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metier.guard.shell.lexer import ShellWord

FOLDER_BUILTINS = frozenset({"cd", "popd", "pushd"})
"""Builtins that change the folder of later commands."""
_SAME_SHELL = frozenset({"builtin", "command", "eval", "time", "trap"})
_MENTION = re.compile(r"\b(cd|popd|pushd)\b")
_OPAQUE = frozenset({
    "bwrap", "capsh", "cgexec", "chronic", "cpulimit", "csh", "dbus-run-session", "eatmydata", "entr", "expect",
    "faketime", "fakeroot", "firejail", "fish", "gosu", "ifne", "ltrace", "nsenter", "numactl", "parallel", "pee",
    "pkexec", "prlimit", "proot", "proxychains", "proxychains4", "run-parts", "runuser", "script", "setarch", "setpriv",
    "at", "batch", "chpst", "choom", "daemonize", "dbus-launch", "direnv", "dumb-init", "hyperfine", "machinectl",
    "newgrp", "rlwrap", "runcon", "screen", "sg", "softlimit", "ssh-agent", "sshpass", "tmux", "trickle", "tsocks",
    "concurrently", "start-server-and-test", "when-changed",
    "dzdo", "execlineb", "perf", "run0", "sem", "systemd-inhibit", "tsp", "valgrind", "xterm",
    "start-stop-daemon", "su", "su-exec", "systemd-run", "tcsh", "tini", "torify", "torsocks", "unbuffer", "xvfb-run",
    "alias", "bind", "compgen", "complete", "enable", "fc", "hash",
})  # fmt: skip
"""Programs that start others, and builtins that change what a name starts, in ways that are not read here."""
_LOADER = re.compile(r"ld[\w-]*(\.[\w-]+)*\.so(\.[0-9]+)*|libc\.musl-[\w.-]+")
_SAME_PROGRAM = {
    f"g{name}": name for name in ("env", "find", "nice", "nohup", "sort", "split", "stdbuf", "tar", "timeout", "xargs")
} | {"bsdtar": "tar"}
"""Names that some systems have for the same programs."""
_READERS = {"fd": fd_effects, "fdfind": fd_effects, "find": find_effects, "git": git_effects}


@lru_cache(maxsize=256)  # as every active skill asks about the same command
def effects_of(words: tuple[ShellWord, ...]) -> Effects:
    """The effects of a simple command beside those of its program.

    >>> from metier.guard.shell.parser import parse_script
    >>> [inner.words[0].text for inner in effects_of(parse_script("sudo -n git status").commands[0].words).started]
    ['git']
    >>> [inner.script for inner in effects_of(parse_script("bash -c 'git status'").commands[0].words).started]
    ['git status']
    """
    name = program_name(words[0].text)
    name = _SAME_PROGRAM.get(name, name)
    words = (words[0]._replace(text=name), *words[1:])
    try:
        return _effects(name, words)
    except UnclearEffects as error:
        return Effects(risks=(Risk(str(error), error.index),))


def _effects(name: str, words: tuple[ShellWord, ...]) -> Effects:
    if name in _OPAQUE or _LOADER.fullmatch(name):
        raise UnclearEffects(f"`{name}` starts other programs in ways that cannot be read", max(1, len(words) - 1))
    if name in _READERS:
        return _READERS[name](words)
    if is_wrapper(name):
        return Effects(tuple(wrapped_commands(words)))
    if is_python(name):
        return Effects(tuple(python_commands(words)))
    if risks := tuple(builtin_risks(words)):
        return Effects(risks=risks)
    if name in FOLDER_BUILTINS:
        return Effects(folders=tuple(range(1, len(words))))
    return program_effects(words)._replace(started=tuple(launched_commands(words)))


def starts_others(word: str) -> bool:
    """Whether the purpose of a program is to start others.

    >>> starts_others("/usr/bin/env"), starts_others("cat")
    (True, False)
    """
    name = program_name(word)
    return name in _READERS or name in _OPAQUE or is_wrapper(name)


def program_name(word: str) -> str:
    """The name of a program that may be given by a path.

    >>> program_name("/usr/bin/env"), program_name("git"), program_name("/")
    ('env', 'git', '/')
    """
    return word.rpartition("/")[2] or word


def changes_folder(words: Sequence[ShellWord]) -> bool:
    """Whether a simple command changes the folder of those after it, be it through another builtin.

    >>> from metier.guard.shell.lexer import ShellWord
    >>> [changes_folder([ShellWord(word) for word in text.split()]) for text in ("command cd x", "ls cd")]
    [True, False]
    """
    name = words[0].text
    return name in FOLDER_BUILTINS or (name in _SAME_SHELL and any(_MENTION.search(word.text) for word in words[1:]))


def entered_folders(words: Sequence[ShellWord]) -> Sequence[ShellWord]:
    """The words of a simple command that may name the folder it changes to; empty for other commands."""
    return words[1:] if words[0].text in FOLDER_BUILTINS else ()
