"""Programs that run other programs: what a command runs beside itself.

A rule that names `env`, `xargs`, `find` or `bash` must not allow whatever they are asked to start, and a rule that
forbids `curl` must see it behind them. `what_starts` gives what is started, the words that may start more, and the
files that options make a program write.

The line is drawn at programs whose purpose is to start others, at options of common programs (`git -c`,
`tar --to-command`, `rsync -e`) that start others, and at builtins that evaluate text or change what later commands
mean. Interpreters, build tools and programs that take commands from people (`python`, `node`, `perl`, `awk`, `sed`,
`make`, `npm`, `npx`, `docker`, `vim`, `less`, `gdb`, `sftp`) are programs of their own: a rule that names one allows
what it can do, which is nearly everything, and a rule that forbids another program sees it among their words
(`starters`) but not in the text they run. So are programs that write files because that is what they are for (`cp`,
`tee`, `tar -x`).
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NoReturn

from metier.guard.shell.builtins import SAFE_LETTERS, SAFE_MODES, builtin_problems
from metier.guard.shell.find import ANYTHING, read_fd, read_find
from metier.guard.shell.git import read_git
from metier.guard.shell.options import read_options
from metier.guard.shell.places import FOLDER_BUILTINS, may_be_own
from metier.guard.shell.python import is_python, read_python
from metier.guard.shell.scanner import Word
from metier.guard.shell.starters import read_starter, starts_the_rest
from metier.guard.shell.starting import Inner, Problem, Started, Unclear

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_ANY_ASSIGNMENT = re.compile(r"[^=]+=")
"""Variables may have any name to a program that is no shell."""
_OTHER_FOLDER = re.compile(r"-[^-]*[CDR]|--ch(dir|root)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """The options of a program that come before the command it starts."""

    flags: str = ""
    valued: str = ""
    long_flags: tuple[str, ...] = ()
    long_valued: tuple[str, ...] = ()
    operands: int = 0
    """Words between the options and the command."""
    assigns: bool = False
    """Whether variables may be set before the command."""
    needs_command: bool = False
    """Whether it starts a shell when no command is given."""


_SHAPES: dict[str, _Shape] = {
    "builtin": _Shape(),
    "busybox": _Shape(),
    "caffeinate": _Shape(flags="dimsu", valued="tw"),
    "catchsegv": _Shape(),
    "chroot": _Shape(
        operands=1, long_flags=("--skip-chdir",), long_valued=("--userspec", "--groups"), needs_command=True
    ),
    "chrt": _Shape(flags="abfiorRv", valued="TPD", operands=1),
    "command": _Shape(flags="pvV"),
    "doas": _Shape(flags="n", valued="uC"),
    "env": _Shape(
        flags="i0v-",
        valued="uC",
        long_flags=("--ignore-environment", "--null", "--debug"),
        long_valued=("--unset", "--chdir"),
        assigns=True,
    ),
    "envdir": _Shape(operands=1),
    # Not `-a`: programs do other things under other names.
    "exec": _Shape(flags="cl"),
    "flock": _Shape(
        flags="nsxueoF",
        valued="wE",
        long_flags=("--nonblock", "--shared", "--exclusive", "--unlock", "--close", "--no-fork", "--verbose"),
        long_valued=("--timeout", "--conflict-exit-code"),
        operands=1,
    ),
    "i386": _Shape(),
    "ionice": _Shape(flags="t", valued="cn", long_valued=("--class", "--classdata"), long_flags=("--ignore",)),
    "linux32": _Shape(),
    "linux64": _Shape(),
    "nice": _Shape(flags="0123456789", valued="n", long_valued=("--adjustment",)),
    "nohup": _Shape(),
    "s6-setuidgid": _Shape(operands=1),
    "setsid": _Shape(flags="cfw", long_flags=("--ctty", "--fork", "--wait")),
    "setuidgid": _Shape(operands=1),
    "stdbuf": _Shape(valued="ioe", long_valued=("--input", "--output", "--error")),
    "strace": _Shape(flags="cCdfFiknqrtTvVwxyYzZ", valued="abeIOpPsSuX"),
    "sudo": _Shape(
        flags="AbBEHnNPS",
        valued="ugpCcDRrtThU",
        long_flags=("--non-interactive", "--preserve-env", "--set-home", "--stdin", "--background"),
        long_valued=("--user", "--group", "--chdir", "--prompt"),
        assigns=True,
    ),
    "taskset": _Shape(flags="ac", operands=1, long_flags=("--all-tasks", "--cpu-list")),
    "time": _Shape(flags="p", assigns=True),
    "timeout": _Shape(
        flags="fpv",
        valued="ks",
        long_flags=("--foreground", "--preserve-status", "--verbose"),
        long_valued=("--kill-after", "--signal"),
        operands=1,
    ),
    "toybox": _Shape(),
    "unshare": _Shape(
        flags="muinpUCTfrc",
        long_flags=("--mount", "--uts", "--ipc", "--net", "--pid", "--user", "--fork", "--map-root-user"),
        needs_command=True,
    ),
    "x86_64": _Shape(),
}

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

_SHELLS = frozenset(
    {"ash", "bash", "bash-static", "dash", "ksh", "ksh93", "lksh", "mksh", "posh", "rbash", "sh", "yash", "zsh"}
)
_LOADER = re.compile(r"ld[\w-]*(\.[\w-]+)*\.so(\.[0-9]+)*|libc\.musl-[\w.-]+")
_ALSO = {
    f"g{name}": name for name in ("env", "find", "nice", "nohup", "sort", "split", "stdbuf", "tar", "timeout", "xargs")
} | {"bsdtar": "tar"}
"""Names that some systems have for the same programs."""
_KEYWORDS = frozenset({
    "!", "{", "}", "(", "[[", "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac",
    "select", "function", "coproc", "time",
})  # fmt: skip
_INPUTS = re.compile(r"-|(.*/)?(dev/(stdin|fd|tcp|udp)(/.*)?|proc(/.*)?|stdin|fd/[0-9]+)")
"""Script files that are really the input of the command, from whatever folder."""


def what_starts(words: Sequence[Word]) -> Started:
    """What a simple command does beside what its program does.

    >>> from metier.guard.shell.reading import read_shell
    >>> [inner.words[0].text for inner in what_starts(read_shell("sudo -n git status").commands[0].words).inner]
    ['git']
    >>> [inner.script for inner in what_starts(read_shell("bash -c 'git status'").commands[0].words).inner]
    ['git status']
    """
    return _what_starts(tuple(words))


@lru_cache(maxsize=256)
def _what_starts(words: tuple[Word, ...]) -> Started:
    # Kept, because every active skill asks about the same command.
    name = program_name(words[0].text)
    name = _ALSO.get(name, name)
    words = (words[0]._replace(text=name), *words[1:])
    try:
        return _started(name, words)
    except Unclear as error:
        return Started(problems=(Problem(str(error), error.index),))


def _started(name: str, words: Sequence[Word]) -> Started:
    if name in _OPAQUE or _LOADER.fullmatch(name):
        raise Unclear(f"`{name}` starts other programs in ways that cannot be read", max(1, len(words) - 1))
    if name in _WHOLE_READERS:
        return _WHOLE_READERS[name](words)
    if name in _READERS:
        return Started(tuple(_READERS[name](words)))
    if name in _SHELLS:
        return Started(tuple(_shell(words)))
    if is_python(name):
        return Started(tuple(read_python(words)))
    if name in _SHAPES:
        return Started(tuple(_inner_words(words, _after_options(words, _SHAPES[name]))))
    if problems := tuple(builtin_problems(words)):
        return Started(problems=problems)
    if name in FOLDER_BUILTINS:
        return Started(places=tuple(range(1, len(words))))
    started = read_options(words)
    return started._replace(inner=tuple(read_starter(words))) if starts_the_rest(name) else started


def is_shell(name: str) -> bool:
    """Whether a program is a shell.

    >>> is_shell("dash"), is_shell("git")
    (True, False)
    """
    return name in _SHELLS


def starts_others(word: str) -> bool:
    """Whether it is what a program is for to start others.

    >>> starts_others("/usr/bin/env"), starts_others("cat")
    (True, False)
    """
    name = program_name(word)
    return name in _SHAPES or name in _READERS or name in _WHOLE_READERS or name in _OPAQUE or name in _SHELLS


def program_name(word: str) -> str:
    """The name of a program that may be given by a path.

    >>> program_name("/usr/bin/env"), program_name("git"), program_name("/")
    ('env', 'git', '/')
    """
    return word.rpartition("/")[2] or word


def _unclear(words: Sequence[Word]) -> NoReturn:
    # Whoever wants to allow this must spell out all of it.
    raise Unclear(f"the options of `{words[0].text}` cannot be read with certainty", len(words) - 1)


def _after_options(words: Sequence[Word], shape: _Shape) -> int:
    """Where the command begins that a program starts."""
    i = 1
    while i < len(words):
        text = words[i].text
        if not words[i].is_known:
            _unclear(words)
        if text == "--":
            i += 1
            break
        if not text.startswith("-") or (text == "-" and "-" not in shape.flags):
            break
        i = _after_option(words, i, shape)
    while i < len(words) and _assigns(words[0].text, words[i].text):
        if words[i].splits:
            _unclear(words)
        i += 1
    for _ in range(shape.operands):
        if i < len(words) and (words[i].splits or words[i].free):
            _unclear(words)
        i += 1
    if i >= len(words) and shape.needs_command:
        raise Unclear(f"`{words[0].text}` starts a shell", len(words))
    return i


def _assigns(name: str, text: str) -> bool:
    """Whether a word before the command of a program gives a variable a value."""
    form = _ASSIGNMENT if name == "time" else _ANY_ASSIGNMENT
    return name in _SHAPES and _SHAPES[name].assigns and form.match(text) is not None


def _after_option(words: Sequence[Word], i: int, shape: _Shape) -> int:
    text = words[i].text
    takes_next = False
    if text.startswith("--"):
        name, equals, _ = text.partition("=")
        if name in shape.long_valued:
            takes_next = not equals
        elif name not in shape.long_flags:
            _unclear(words)
    else:
        for at, letter in enumerate(text[1:], 2):
            if letter in shape.valued:
                takes_next = at == len(text)
                break
            if letter not in shape.flags:
                _unclear(words)
    if takes_next and (i + 1 >= len(words) or words[i + 1].splits):
        _unclear(words)
    return i + 1 + takes_next


def _inner_words(words: Sequence[Word], index: int) -> list[Inner]:
    if index >= len(words):
        return []
    if not words[index].is_known or (words[index].text in _KEYWORDS and words[0].text == "time"):
        _unclear(words)
    name = words[0].text
    sets_variables = index > 1 and _assigns(name, words[index - 1].text)
    moves = name == "chroot" or any(_OTHER_FOLDER.match(word.text) for word in words[1:index])
    if moves and any(map(may_be_own, words[1:index])):
        raise Unclear(f"`{name}` leads into a repository's own files", index - 1)
    return [Inner(index, tuple(words[index:]), sets_variables=sets_variables, moves=moves)]


def _known_text(words: Sequence[Word], index: int) -> str:
    if index >= len(words) or not words[index].is_known:
        _unclear(words)
    return words[index].text


def _script(words: Sequence[Word], index: int) -> list[Inner]:
    return [Inner(index, script=_known_text(words, index))]


def _command(words: Sequence[Word]) -> list[Inner]:
    index = _after_options(words, _SHAPES["command"])
    is_look_up = any(word.text.startswith("-") and "v" in word.text.lower() for word in words[1:index])
    return [] if is_look_up else _inner_words(words, index)


def _eval(words: Sequence[Word]) -> list[Inner]:
    texts = [_known_text(words, i) for i in range(1, len(words))]
    return [Inner(1, script=" ".join(texts))] if texts else []


def _file(words: Sequence[Word], index: int) -> list[Inner]:
    """A file with commands in it, which are not read; but it must be a file."""
    text = _known_text(words, index)
    if _INPUTS.fullmatch(posixpath.normpath(text)):
        raise Unclear(f"`{words[0].text}` runs what it is given as input", index)
    if "/" not in text and "." not in text:
        raise Unclear(f"`{text}` may be a program and no file here; write `./{text}`", index)
    return []


def _source(words: Sequence[Word]) -> list[Inner]:
    return _file(words, 1)


def _trap(words: Sequence[Word]) -> list[Inner]:
    index = 2 if len(words) > 1 and words[1].text == "--" else 1
    if len(words) <= index or _known_text(words, index) in ("-", "-l", "-p"):
        return []
    return _script(words, index)


def _flock(words: Sequence[Word]) -> list[Inner]:
    index = _after_options(words, _SHAPES["flock"])
    if index < len(words) and words[index].text in ("-c", "--command"):
        return _script(words, index + 1)
    return _inner_words(words, index)


_WATCH = _Shape(
    flags="bcdegtprwC",
    valued="nqs",
    long_flags=("--beep", "--color", "--differences", "--errexit", "--chgexit", "--no-title", "--precise"),
    long_valued=("--interval",),
)


def _watch(words: Sequence[Word]) -> list[Inner]:
    index = _after_options(words, _WATCH)
    if index >= len(words):
        return []
    return [Inner(index, script=" ".join(_known_text(words, i) for i in range(index, len(words))))]


_XARGS = _Shape(
    flags="0rtpox",
    valued="adEILnPsJRS",
    long_flags=("--null", "--no-run-if-empty", "--verbose", "--interactive", "--exit", "--open-tty"),
    long_valued=("--arg-file", "--delimiter", "--eof", "--max-lines", "--max-args", "--max-procs", "--max-chars"),
)


def _xargs(words: Sequence[Word]) -> list[Inner]:
    index = _after_options(words, _XARGS)
    if index >= len(words):
        return [Inner(len(words), (Word("echo"), ANYTHING))]
    replaced = {"{}"}
    for i in range(1, index):
        if option := re.fullmatch(r"-[^-IJ]*[IJ](.*)", words[i].text, re.DOTALL):
            replaced.add(option[1] or _known_text(words, i + 1))
    inner = tuple(ANYTHING if any(part in word.text for part in replaced) else word for word in words[index:])
    if not inner[0].is_known:
        _unclear(words)
    return [Inner(index, (*inner, ANYTHING))]


_SHELL_FLAGS = SAFE_LETTERS | frozenset("bhlmnprtBEPTc")
_SHELL_LONG = frozenset({"--login", "--noprofile", "--norc", "--posix", "--noediting", "--verbose", "--restricted"})


def _shell(words: Sequence[Word]) -> list[Inner]:
    """A shell: the text after `-c`, or a file. One that reads its input could be told anything."""
    i, has_text = 1, False
    while i < len(words):
        text = _known_text(words, i)
        if text in ("--version", "--help") and len(words) == 2:
            return []
        if text in ("--", "-"):
            i += 1
            break
        if not text.startswith(("-", "+")):
            break
        if text.startswith("--"):
            if text not in _SHELL_LONG:
                _unclear(words)
        else:
            takes_next = text.endswith("o")
            letters = text[1:-1] if takes_next else text[1:]
            i += takes_next
            if not _SHELL_FLAGS.issuperset(letters) or (takes_next and _known_text(words, i) not in SAFE_MODES):
                _unclear(words)
            has_text |= "c" in letters and text.startswith("-")
        i += 1
    if i >= len(words):
        raise Unclear(f"`{words[0].text}` runs what it is given as input", len(words))
    return _script(words, i) if has_text else _file(words, i)


_READERS: dict[str, Callable[[Sequence[Word]], list[Inner]]] = {
    ".": _source,
    "command": _command,
    "eval": _eval,
    "flock": _flock,
    "source": _source,
    "trap": _trap,
    "watch": _watch,
    "xargs": _xargs,
}
_WHOLE_READERS: dict[str, Callable[[Sequence[Word]], Started]] = {
    "fd": read_fd,
    "fdfind": read_fd,
    "find": read_find,
    "git": read_git,
}
