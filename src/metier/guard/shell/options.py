"""Options of common programs that make them start others; `writers` has those that make readers write.

Every word is looked at, also behind `--`, which may be the value of the option before it. A word that is not known
before it runs must not be able to become one of these options: `./*` and `src/*.py` are no options, `*` may be one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.guard.shell.scanner import UNKNOWN
from metier.guard.shell.starting import Problem, Started, beginnings, is_chosen, is_option, is_unsure
from metier.guard.shell.writers import WRITERS, read_writer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from metier.guard.shell.scanner import Word
    from metier.guard.shell.writers import Writer

_APT = ("co", ("--config-file", "--option"))
_CONNECTING = ("ec", ("--exec", "--sh-exec", "--lua-exec"))
# Program -> (letters, long options) that start a program, or read options that may.
_STARTING: dict[str, tuple[str, tuple[str, ...]]] = {
    "ack": ("", ("--pager",)),
    "ag": ("", ("--pager",)),
    "apt": _APT,
    "apt-get": _APT,
    "aptitude": _APT,
    "bat": ("", ("--pager",)),
    "batcat": ("", ("--pager",)),
    "cpio": ("", ("--rsh-command",)),
    "diff3": ("", ("--diff-program",)),
    "dpkg": ("", ("--post-invoke", "--pre-invoke")),
    "hg": ("", ("--config",)),
    "install": ("", ("--strip-program",)),
    "man": ("PHC", ("--pager", "--html", "--config-file")),
    "metier": ("", ("--then",)),
    "nc": _CONNECTING,
    "ncat": _CONNECTING,
    "netcat": _CONNECTING,
    "nmap": ("", ("--datadir", "--script", "--servicedb", "--versiondb")),
    "pandoc": ("FL", ("--filter", "--lua-filter", "--pdf-engine")),
    "rg": ("", ("--pre", "--hostname-bin")),
    "rsync": ("e", ("--rsh", "--rsync-path")),
    "scp": ("DFS", ()),
    "sdiff": ("", ("--diff-program",)),
    "sftp": ("bDFS", ()),
    "sort": ("", ("--compress-program",)),
    "split": ("", ("--filter",)),
    "ssh": ("EFIP", ()),
    "svn": ("", ("--config-dir", "--config-option", "--diff-cmd", "--diff3-cmd", "--editor-cmd")),
    "tar": (
        "IF",
        (
            "--to-command",
            "--checkpoint-action",
            "--use-compress-program",
            "--rsh-command",
            "--rmt-command",
            "--info-script",
            "--new-volume-script",
        ),
    ),
    "tcpdump": ("z", ()),
    "wget": ("e", ("--execute", "--use-askpass", "--config")),
    "zip": ("", ("--unzip-command",)),
}
_COMPILER = re.compile(r"([\w.-]+-)?(gcc|g\+\+|cc|c\+\+|clang|clang\+\+)(-[0-9.]+)?")
_COMPILING = re.compile(
    r"-wrapper|-fplugin.*|-fpass-plugin.*|-B.*|--prefix.*|--?specs.*|-fuse-ld=.*/.*|--ld-path.*|-Xclang|-load",
    re.DOTALL,
)
_CMAKE = frozenset({
    "capabilities", "cat", "copy", "copy_directory", "copy_if_different", "echo", "make_directory", "remove",
    "remove_directory", "rename", "rm", "touch",
})  # fmt: skip
"""What `cmake -E` does itself."""
# Letters of options that take a value, which is the rest of the cluster or the next word.
_SSH_VALUES = {
    "scp": "DFJMPSXcilo",
    "sftp": "BDFJPRSXbcilos",
    "ssh": "BDEFIJLOPQRSWbceilmopw",
}
_SAFE_SSH = re.compile(
    r"(addressfamily|batchmode|connectionattempts|connecttimeout|identitiesonly|identityfile|loglevel|port|"
    r"preferredauthentications|serveralivecountmax|serveraliveinterval|stricthostkeychecking|user)[ =][^\n]*|"
    r"userknownhostsfile[ =]/dev/null",
    re.IGNORECASE,
)
_SAFE_JUMP = re.compile(r"[\w.@:,\[\]-]+")
_REMOTE = re.compile(r"(?!--)[^/\x01]+:|--f[ile]*=[^/\x01]+:")
_SOCAT = re.compile(r"exec|system|shell", re.IGNORECASE)


def read_options(words: Sequence[Word]) -> Started:
    """What the options of a common program make it start or write."""
    name = words[0].text
    if name in _SSH_VALUES:
        return Started(problems=tuple(_ssh_problems(words)))
    if name == "socat":
        return Started(problems=tuple(_socat_problems(words)))
    if _COMPILER.fullmatch(name):
        return Started(problems=tuple(_compiler_problems(words)))
    if name == "cmake":
        return Started(problems=tuple(_cmake_problems(words)))
    writer = WRITERS.get(name)
    if name not in _STARTING and writer is None:
        return Started()
    problems = tuple(_problems(words, *_STARTING.get(name, ("", ())), writer))
    if writer is None:
        return Started(problems=problems)
    written = read_writer(words, writer)
    return written._replace(problems=(*problems, *written.problems))


def _compiler_problems(words: Sequence[Word]) -> Iterator[Problem]:
    for i, word in enumerate(words[1:], 1):
        for beginning in beginnings(word):
            is_loose = is_unsure(beginning, word) and beginning.startswith((UNKNOWN, "-"))
            if is_loose or _COMPILING.fullmatch(beginning):
                yield _problem(words, i)


def _cmake_problems(words: Sequence[Word]) -> Iterator[Problem]:
    for i, word in enumerate(words[1:], 1):
        verb = words[i + 1].text if i + 1 < len(words) else ""
        if word.text.startswith("-E") and (word.text != "-E" or verb not in _CMAKE):
            yield _problem(words, min(i + 1, len(words) - 1))


def _problem(words: Sequence[Word], index: int) -> Problem:
    return Problem(f"`{words[0].text}` can start other programs by its options", index)


def _problems(
    words: Sequence[Word], letters: str, options: tuple[str, ...], writer: Writer | None
) -> Iterator[Problem]:
    name = words[0].text
    written = (writer.letters + writer.unnamed, (*writer.options, *writer.unnamed_options)) if writer else ("", ())
    are_operands = False
    for i, word in enumerate(words[1:], 1):
        for beginning in beginnings(word):
            if are_operands and beginning.startswith(UNKNOWN):
                continue
            is_old_cluster = name == "tar" and i == 1 and not beginning.startswith("-")
            more = written if is_unsure(beginning, word) else ("", ())
            starts = is_option("-" * is_old_cluster + beginning, word, letters + more[0], options + more[1])
            if starts or (name == "zip" and _is_testing(beginning, word)):
                yield _problem(words, i)
            if name == "tar" and _REMOTE.match(beginning):
                yield Problem("an archive on another machine makes `tar` start a program", i)
        # The letters of `tar cf` take their values from the words that follow.
        if word.text == "--" and name != "tar":
            are_operands |= i == 1 or (words[i - 1].is_known and not words[i - 1].text.startswith("-"))


def _is_testing(beginning: str, word: Word) -> bool:
    """Whether `zip` may be told by which program to test an archive."""
    is_cluster = beginning.startswith("-") and not beginning.startswith("--")
    return is_cluster and ("TT" in beginning.replace(UNKNOWN, "") or (UNKNOWN in beginning and is_chosen(word)))


def _ssh_problems(words: Sequence[Word]) -> Iterator[Problem]:
    """Options are read as these programs read them: up to the remote command, and also behind the host."""
    name = words[0].text
    operands = i = 0
    while i < len(words) - 1:
        i += 1
        word = words[i]
        if any(is_option(beginning, word, "o", ()) for beginning in beginnings(word) if is_unsure(beginning, word)):
            yield _problem(words, i)
        text = word.text.replace(UNKNOWN, "")
        if text == "--":
            continue
        if not text.startswith("-"):
            operands += 1
            if name == "ssh" and operands > 1 and word.is_known:
                return
            continue
        for at, letter in enumerate(text[1:], 2):
            if letter in _STARTING[name][0]:
                yield _problem(words, i)
            if letter not in _SSH_VALUES[name]:
                continue
            index = i if at < len(text) else i + 1
            value = text[at:] if index == i else words[index].text if index < len(words) else ""
            is_safe = {"o": _SAFE_SSH, "J": _SAFE_JUMP}.get(letter)
            if (is_safe and not is_safe.fullmatch(value)) or (UNKNOWN in word.text and word.free):
                yield _problem(words, min(index, len(words) - 1))
            if index > i and index < len(words) and words[index].splits:
                yield _problem(words, index)
            i = index
            break


def _socat_problems(words: Sequence[Word]) -> Iterator[Problem]:
    for i, word in enumerate(words[1:], 1):
        if word.free or _SOCAT.search(word.text.replace(UNKNOWN, "")):
            yield Problem("`socat` can start other programs", i)
