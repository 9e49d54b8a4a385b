"""Programs that start the command behind their options: `env`, `sudo`, `xargs`, `find -exec`, `bash -c`."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from metier.guard.shell.builtins import SAFE_LETTERS, SAFE_MODES
from metier.guard.shell.command import Effects, Risk, StartedCommand, UnclearEffects, WrittenFile
from metier.guard.shell.grammar import KEYWORDS
from metier.guard.shell.lexer import ANY_WORDS, ShellWord
from metier.guard.shell.options import beginnings, is_option, may_be, read_table
from metier.guard.shell.paths import may_be_repository_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_ANY_ASSIGNMENT = re.compile(r"[^=]+=")
"""Variables may have any name to a program that is no shell."""
_OTHER_FOLDER = re.compile(r"-[^-]*[CDR]|--ch(dir|root)")


_TABLE = """
builtin busybox catchsegv i386 linux32 linux64 nohup toybox x86_64:
caffeinate: -dimsu -tw=
chroot: 1 needs-command --skip-chdir --userspec= --groups=
chrt: 1 -abfiorRv -TPD=
command: -pvV
doas: -n -uC=
env: assigns - -i0v -uC= --ignore-environment --null --debug --unset= --chdir=
envdir s6-setuidgid setuidgid: 1
exec: -cl
flock: 1 -nsxueoF -wE= --nonblock --shared --exclusive --unlock --close --no-fork --verbose --timeout=
    --conflict-exit-code=
ionice: -t -cn= --ignore --class= --classdata=
nice: -0123456789 -n= --adjustment=
setsid: -cfw --ctty --fork --wait
stdbuf: -ioe= --input= --output= --error=
strace: -cCdfFiknqrtTvVwxyYzZ -abeIOpPsSuX=
sudo: assigns -AbBEHnNPS -ugpCcDRrtThU= --non-interactive --preserve-env --set-home --stdin --background --user=
    --group= --chdir= --prompt=
taskset: 1 -ac --all-tasks --cpu-list
time: assigns -p
timeout: 1 -fpv -ks= --foreground --preserve-status --verbose --kill-after= --signal=
unshare: needs-command -muinpUCTfrc --mount --uts --ipc --net --pid --user --fork --map-root-user
watch: -bcdegtprwC -nqs= --beep --color --differences --errexit --chgexit --no-title --precise --interval=
xargs: -0rtpox -adEILnPsJRS= --null --no-run-if-empty --verbose --interactive --exit --open-tty --arg-file=
    --delimiter= --eof= --max-lines= --max-args= --max-procs= --max-chars=
"""
"""For each program the options before the command it starts: `-ab` take no value, `-ab=` take one; a number is that of
the words between the options and the command. Variables may be set before the command of one that `assigns`, and one
that `needs-command` starts a shell without it. Not `exec -a`: programs do other things under other names."""


class _Shape(NamedTuple):
    """The words of a program that come before the command it starts."""

    options: Mapping[str, bool]
    """Whether each option takes a value."""
    operands: int
    marks: frozenset[str]


def _read_shapes() -> Iterator[tuple[str, _Shape]]:
    for names, tokens in read_table(_TABLE):
        options: dict[str, bool] = {}
        for token in tokens:
            name, takes_value = token.removesuffix("="), token.endswith("=")
            if token.startswith("--") or token == "-":
                options[name] = takes_value
            elif token.startswith("-"):
                options |= dict.fromkeys((f"-{letter}" for letter in name[1:]), takes_value)
        operands = next((int(token) for token in tokens if token.isdecimal()), 0)
        yield from ((name, _Shape(options, operands, frozenset(tokens))) for name in names)


_SHAPES = dict(_read_shapes())
_SHELLS = frozenset(
    {"ash", "bash", "bash-static", "dash", "ksh", "ksh93", "lksh", "mksh", "posh", "rbash", "sh", "yash", "zsh"}
)
_INPUTS = re.compile(r"-|(.*/)?(dev/(stdin|fd|tcp|udp)(/.*)?|proc(/.*)?|stdin|fd/[0-9]+)")
"""Script files that are really the input of the command, from whatever folder."""


_EXECUTING = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_WRITING = frozenset({"-fls", "-fprint", "-fprint0", "-fprintf"})


def is_shell(name: str) -> bool:
    """Whether a program is a shell.

    >>> is_shell("dash"), is_shell("git")
    (True, False)
    """
    return name in _SHELLS


def is_wrapper(name: str) -> bool:
    """Whether a program starts the command that its words name."""
    return name in _READERS or name in _SHELLS or name in _SHAPES


def wrapped_commands(words: Sequence[ShellWord]) -> list[StartedCommand]:
    """The commands that a wrapper starts."""
    name = words[0].text
    if reader := _READERS.get(name):
        return reader(words)
    if name in _SHELLS:
        return _shell(words)
    return _inner_words(words, _after_options(words, _SHAPES[name]))


def _unclear(words: Sequence[ShellWord]) -> NoReturn:
    # A rule that allows this must spell out all of it.
    raise UnclearEffects(f"the options of `{words[0].text}` cannot be read with certainty", len(words) - 1)


def _after_options(words: Sequence[ShellWord], shape: _Shape) -> int:
    """The index of the command that a program starts."""
    i = 1
    while i < len(words):
        text = words[i].text
        if not words[i].is_known:
            _unclear(words)
        if text == "--":
            i += 1
            break
        if not text.startswith("-") or (text == "-" and text not in shape.options):
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
    if i >= len(words) and "needs-command" in shape.marks:
        raise UnclearEffects(f"`{words[0].text}` starts a shell", len(words))
    return i


def _assigns(name: str, text: str) -> bool:
    """Whether a word before the command of a program gives a variable a value."""
    form = _ASSIGNMENT if name == "time" else _ANY_ASSIGNMENT
    return name in _SHAPES and "assigns" in _SHAPES[name].marks and form.match(text) is not None


def _after_option(words: Sequence[ShellWord], i: int, shape: _Shape) -> int:
    text = words[i].text
    takes_next = False
    if text.startswith("--"):
        name, equals, _ = text.partition("=")
        if name not in shape.options:
            _unclear(words)
        takes_next = shape.options[name] and not equals
    else:
        for at, letter in enumerate(text[1:], 2):
            if f"-{letter}" not in shape.options:
                _unclear(words)
            if shape.options[f"-{letter}"]:
                takes_next = at == len(text)
                break
    if takes_next and (i + 1 >= len(words) or words[i + 1].splits):
        _unclear(words)
    return i + 1 + takes_next


def _inner_words(words: Sequence[ShellWord], index: int) -> list[StartedCommand]:
    if index >= len(words):
        return []
    if not words[index].is_known or (words[0].text == "time" and words[index].text in {*KEYWORDS, "(", "time"}):
        _unclear(words)
    name = words[0].text
    sets_variables = index > 1 and _assigns(name, words[index - 1].text)
    moves = name == "chroot" or any(_OTHER_FOLDER.match(word.text) for word in words[1:index])
    if moves and any(map(may_be_repository_file, words[1:index])):
        raise UnclearEffects(f"`{name}` leads into a repository's own files", index - 1)
    return [StartedCommand(index, tuple(words[index:]), sets_variables=sets_variables, moves=moves)]


def _known_text(words: Sequence[ShellWord], index: int) -> str:
    if index >= len(words) or not words[index].is_known:
        _unclear(words)
    return words[index].text


def _script(words: Sequence[ShellWord], index: int) -> list[StartedCommand]:
    return [StartedCommand(index, script=_known_text(words, index))]


def _command(words: Sequence[ShellWord]) -> list[StartedCommand]:
    index = _after_options(words, _SHAPES["command"])
    is_look_up = any(word.text.startswith("-") and "v" in word.text.lower() for word in words[1:index])
    return [] if is_look_up else _inner_words(words, index)


def _rest_as_script(words: Sequence[ShellWord], index: int) -> list[StartedCommand]:
    texts = [_known_text(words, i) for i in range(index, len(words))]
    return [StartedCommand(index, script=" ".join(texts))] if texts else []


def _file(words: Sequence[ShellWord], index: int) -> list[StartedCommand]:
    """A file of commands is not read, but it must be a file."""
    text = _known_text(words, index)
    if _INPUTS.fullmatch(posixpath.normpath(text)):
        raise UnclearEffects(f"`{words[0].text}` runs what it is given as input", index)
    if "/" not in text and "." not in text:
        raise UnclearEffects(f"`{text}` may be a program and no file here; write `./{text}`", index)
    return []


def _trap(words: Sequence[ShellWord]) -> list[StartedCommand]:
    index = 2 if len(words) > 1 and words[1].text == "--" else 1
    if len(words) <= index or _known_text(words, index) in ("-", "-l", "-p"):
        return []
    return _script(words, index)


def _flock(words: Sequence[ShellWord]) -> list[StartedCommand]:
    index = _after_options(words, _SHAPES["flock"])
    if index < len(words) and words[index].text in ("-c", "--command"):
        return _script(words, index + 1)
    return _inner_words(words, index)


def _xargs(words: Sequence[ShellWord]) -> list[StartedCommand]:
    index = _after_options(words, _SHAPES["xargs"])
    if index >= len(words):
        return [StartedCommand(len(words), (ShellWord("echo"), ANY_WORDS))]
    replaced = {"{}"}
    for i in range(1, index):
        if option := re.fullmatch(r"-[^-IJ]*[IJ](.*)", words[i].text, re.DOTALL):
            replaced.add(option[1] or _known_text(words, i + 1))
    inner = tuple(ANY_WORDS if any(part in word.text for part in replaced) else word for word in words[index:])
    if not inner[0].is_known:
        _unclear(words)
    return [StartedCommand(index, (*inner, ANY_WORDS))]


_SHELL_FLAGS = SAFE_LETTERS | frozenset("bhlmnprtBEPTc")
_SHELL_LONG = frozenset({"--login", "--noprofile", "--norc", "--posix", "--noediting", "--verbose", "--restricted"})


def _shell(words: Sequence[ShellWord]) -> list[StartedCommand]:
    """A shell runs the text after `-c`, or a file. Commands on its input cannot be read."""
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
        raise UnclearEffects(f"`{words[0].text}` runs what it is given as input", len(words))
    return _script(words, i) if has_text else _file(words, i)


_READERS: dict[str, Callable[[Sequence[ShellWord]], list[StartedCommand]]] = {
    ".": lambda words: _file(words, 1),
    "command": _command,
    "eval": lambda words: _rest_as_script(words, 1),
    "flock": _flock,
    "source": lambda words: _file(words, 1),
    "trap": _trap,
    "watch": lambda words: _rest_as_script(words, _after_options(words, _SHAPES["watch"])),
    "xargs": _xargs,
}


def find_effects(words: Sequence[ShellWord]) -> Effects:
    """The effects of `find`, which starts commands for the files that it finds."""
    started: list[StartedCommand] = []
    risks: list[Risk] = []
    files: list[WrittenFile] = []
    i = 1
    while i < len(words):
        word = words[i]
        i += 1
        if not word.is_known:
            if may_be(word, _EXECUTING | _WRITING):
                risks.append(_unclear_option(words, i - 1))
        elif word.text in _EXECUTING:
            start = i
            while i < len(words) and words[i].text != ";" and not (words[i].text == "+" and words[i - 1].text == "{}"):
                i += 1
            if any(each.text in _EXECUTING for each in words[start:i]):
                # The first may be the value of a test (`-name -exec`), and then the second is what starts something.
                raise UnclearEffects("what `find` starts cannot be read with certainty", len(words) - 1)
            started.append(_started_for_files(words, start, i)._replace(moves=word.text.endswith("dir")))
        elif word.text in _WRITING and i < len(words):
            files.append(WrittenFile(i, words[i]))
    return Effects(tuple(started), tuple(risks), tuple(files))


def fd_effects(words: Sequence[ShellWord]) -> Effects:
    """The effects of `fd`, which starts commands for the files that it finds."""
    risks: list[Risk] = []
    for i, word in enumerate(words[1:], 1):
        if word.is_known and word.text in ("-x", "-X", "--exec", "--exec-batch"):
            end = next((at for at in range(i + 1, len(words)) if words[at].text == ";"), len(words))
            if end + 1 < len(words):
                risks.append(_unclear_option(words, len(words) - 1))
            return Effects((_started_for_files(words, i + 1, end),), tuple(risks))
        if any(is_option(each, word, "xX", ("--exec", "--exec-batch")) for each in beginnings(word)):
            risks.append(_unclear_option(words, len(words) - 1))
    return Effects(risks=tuple(risks))


def _unclear_option(words: Sequence[ShellWord], index: int) -> Risk:
    return Risk(f"the options of `{words[0].text}` cannot be read with certainty", index)


def _started_for_files(words: Sequence[ShellWord], start: int, end: int) -> StartedCommand:
    """The command that is started for each file, whose name stands for the braces."""
    inner = tuple(word if "{" not in word.text else ANY_WORDS for word in words[start:end])
    # A word that may be anything may also be the semicolon after which other arguments follow.
    if not inner or not inner[0].is_known or any(word.free or word.splits for word in words[start:end]):
        raise UnclearEffects(f"what `{words[0].text}` starts cannot be read with certainty", len(words) - 1)
    return StartedCommand(start, inner)
