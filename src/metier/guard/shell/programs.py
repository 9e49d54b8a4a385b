"""Tables of common programs: options that make them start other programs, or make readers write files.

Every word is looked at, also behind `--`, which may be the value of the option before it. A word that is not known
before it runs must not be able to become one of these options: `./*` and `src/*.py` are no options, `*` may be one.

A file that an option makes a reader write needs a rule for `Write`, as that of a redirection does. Programs that write
because that is what they are for (`cp`, `tee`, `tar`, `wget`) are none of these readers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from metier.guard.shell.command import Effects, Risk, WrittenFile
from metier.guard.shell.lexer import UNKNOWN
from metier.guard.shell.options import beginnings, is_chosen, is_option, is_unsure, read_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from metier.guard.shell.lexer import ShellWord

_STARTING = read_options("""
ack ag bat batcat: --pager
apt apt-get aptitude: -co --config-file --option
cpio: --rsh-command
diff3 sdiff: --diff-program
dpkg: --post-invoke --pre-invoke
hg: --config
install: --strip-program
man: -PHC --pager --html --config-file
metier: --then
nc ncat netcat: -ec --exec --sh-exec --lua-exec
nmap: --datadir --script --servicedb --versiondb
pandoc: -FL --filter --lua-filter --pdf-engine
rg: --pre --hostname-bin
rsync: -e --rsh --rsync-path
scp: -DFS
sftp: -bDFS
sort: --compress-program
split: --filter
ssh: -EFIP
svn: --config-dir --config-option --diff-cmd --diff3-cmd --editor-cmd
tar: -IF --to-command --checkpoint-action --use-compress-program --rsh-command --rmt-command --info-script
    --new-volume-script
tcpdump: -z
wget: -e --execute --use-askpass --config
zip: --unzip-command
""")
"""The options of each program that start a program, or read options that may."""
_COMPILER = re.compile(r"([\w.-]+-)?(gcc|g\+\+|cc|c\+\+|clang|clang\+\+)(-[0-9.]+)?")
_COMPILING = re.compile(
    r"-wrapper|-fplugin.*|-fpass-plugin.*|-B.*|--prefix.*|--?specs.*|-fuse-ld=.*/.*|--ld-path.*|-Xclang|-load",
    re.DOTALL,
)
_CMAKE = frozenset({
    "capabilities", "cat", "copy", "copy_directory", "copy_if_different", "echo", "make_directory", "remove",
    "remove_directory", "rename", "rm", "touch",
})  # fmt: skip
"""Verbs that `cmake -E` carries out itself."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingOptions:
    """The options by which a program that reads writes files."""

    letters: str = ""
    """Short options whose value is a file to write."""
    options: tuple[str, ...] = ()
    """Long options of the kind, which may be shortened; with one hyphen, names that may not."""
    valued: str = ""
    """Short options with another value, which ends a cluster."""
    others: tuple[str, ...] = ()
    """Long options that only look like shortened ones."""
    unnamed: str = ""
    """Short options that may write a file which they do not name."""
    unnamed_options: tuple[str, ...] = ()
    text: str = ""
    """A text that makes it write a file wherever it stands."""
    operand: int = 0
    """The number of the operand that is a file to write; 0 for none."""
    valued_words: re.Pattern[str] | None = None
    """Options whose value is the next word, where words are counted."""
    is_dash_output: bool = False
    """Whether `-` is the output and no file."""


_LESS = WritingOptions(letters="oO", options=("--log-file", "--LOG-FILE"), valued="bDhjkpPtTxyz")
_HTTPIE = WritingOptions(
    letters="o",
    options=("--output", "--session"),
    unnamed="d",
    unnamed_options=("--download",),
    valued="apAs",
    others=("--session-read-only",),
)
_OUTPUT = WritingOptions(letters="o", options=("--output",))
_WRITERS: Mapping[str, WritingOptions] = {
    "base64": WritingOptions(letters="o", options=("--output",), valued="wbi"),
    "cloc": WritingOptions(options=("--out", "--report-file", "--sql", "--write-lang-def")),
    "curl": WritingOptions(
        letters="cDo",
        options=(
            *("--alt-svc", "--cookie-jar", "--dump-header", "--etag-save", "--hsts", "--libcurl", "--output"),
            *("--output-dir", "--stderr", "--trace", "--trace-ascii"),
        ),
        valued="AbCdeEFhHmPQrtTuUwxXyYz",
        others=("--cookie",),
        unnamed="JKO",
        unnamed_options=("--config", "--remote-header-name", "--remote-name", "--remote-name-all"),
        text="%output{",
        is_dash_output=True,
    ),
    "file": WritingOptions(unnamed="C", unnamed_options=("--compile",), valued="efFmP"),
    "gpg": WritingOptions(letters="o", options=("--output",), valued="rRuNz"),
    "http": _HTTPIE,
    "https": _HTTPIE,
    "iconv": WritingOptions(letters="o", options=("--output",), valued="ft"),
    "journalctl": WritingOptions(options=("--cursor-file",)),
    "less": _LESS,
    "nmap": WritingOptions(options=("-oA", "-oG", "-oN", "-oS", "-oX"), is_dash_output=True),
    "openssl": WritingOptions(options=("-keyout", "-out", "-writerand")),
    "sdiff": _OUTPUT,
    "shuf": WritingOptions(letters="o", options=("--output",), valued="in"),
    "sort": WritingOptions(letters="o", options=("--output",), valued="kStT"),
    "tcpdump": WritingOptions(letters="w", valued="BcCDEFGijmMrsTVyzZ", is_dash_output=True),
    "tree": WritingOptions(letters="o", unnamed="R", valued="LPIHT"),
    "uniq": WritingOptions(operand=2, valued_words=re.compile(r"-[A-Za-z]*[fsw]|--(skip-[a-z]+|check-chars)")),
    "xmllint": WritingOptions(letters="o", options=("--output",)),
    "xsltproc": WritingOptions(letters="o", options=("--output",)),
    "xxd": WritingOptions(
        operand=2, valued_words=re.compile(r"-(c(ols)?|g(roupsize)?|l(en)?|n(ame)?|o(ff(set)?)?|s(eek|kip)?|R)")
    ),
    "yq": WritingOptions(unnamed="is", unnamed_options=("--in-place", "--inplace", "--split-exp"), valued="op"),
}


def program_effects(words: Sequence[ShellWord]) -> Effects:
    """The programs and files that the options of a common program make it start or write."""
    name = words[0].text
    if name in _SSH_VALUES:
        return Effects(risks=tuple(_ssh_risks(words)))
    if name == "socat":
        return Effects(risks=tuple(_socat_risks(words)))
    if _COMPILER.fullmatch(name):
        return Effects(risks=tuple(_compiler_risks(words)))
    if name == "cmake":
        return Effects(risks=tuple(_cmake_risks(words)))
    writer = _WRITERS.get(name)
    if name not in _STARTING and writer is None:
        return Effects()
    risks = tuple(_option_risks(words, *_STARTING.get(name, ("", ())), writer))
    if writer is None:
        return Effects(risks=risks)
    written = _write_effects(words, writer)
    return written._replace(risks=(*risks, *written.risks))


def _compiler_risks(words: Sequence[ShellWord]) -> Iterator[Risk]:
    for i, word in enumerate(words[1:], 1):
        for beginning in beginnings(word):
            is_loose = is_unsure(beginning, word) and beginning.startswith((UNKNOWN, "-"))
            if is_loose or _COMPILING.fullmatch(beginning):
                yield _option_risk(words, i)


def _cmake_risks(words: Sequence[ShellWord]) -> Iterator[Risk]:
    for i, word in enumerate(words[1:], 1):
        verb = words[i + 1].text if i + 1 < len(words) else ""
        if word.text.startswith("-E") and (word.text != "-E" or verb not in _CMAKE):
            yield _option_risk(words, min(i + 1, len(words) - 1))


def _option_risk(words: Sequence[ShellWord], index: int) -> Risk:
    return Risk(f"`{words[0].text}` can start other programs by its options", index)


def _option_risks(
    words: Sequence[ShellWord], letters: str, options: tuple[str, ...], writer: WritingOptions | None
) -> Iterator[Risk]:
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
                yield _option_risk(words, i)
            if name == "tar" and _REMOTE.match(beginning):
                yield Risk("an archive on another machine makes `tar` start a program", i)
        # The letters of `tar cf` take their values from the words that follow.
        if word.text == "--" and name != "tar":
            are_operands |= i == 1 or (words[i - 1].is_known and not words[i - 1].text.startswith("-"))


def _is_testing(beginning: str, word: ShellWord) -> bool:
    """Whether `zip` may be told by which program to test an archive."""
    is_cluster = beginning.startswith("-") and not beginning.startswith("--")
    return is_cluster and ("TT" in beginning.replace(UNKNOWN, "") or (UNKNOWN in beginning and is_chosen(word)))


def _ssh_risks(words: Sequence[ShellWord]) -> Iterator[Risk]:
    """Options are read as these programs read them: up to the remote command, and also behind the host."""
    name = words[0].text
    operands = i = 0
    while i < len(words) - 1:
        i += 1
        word = words[i]
        if any(is_option(beginning, word, "o", ()) for beginning in beginnings(word) if is_unsure(beginning, word)):
            yield _option_risk(words, i)
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
                yield _option_risk(words, i)
            if letter not in _SSH_VALUES[name]:
                continue
            index = i if at < len(text) else i + 1
            value = text[at:] if index == i else words[index].text if index < len(words) else ""
            is_safe = {"o": _SAFE_SSH, "J": _SAFE_JUMP}.get(letter)
            if (is_safe and not is_safe.fullmatch(value)) or (UNKNOWN in word.text and word.free):
                yield _option_risk(words, min(index, len(words) - 1))
            if index > i and index < len(words) and words[index].splits:
                yield _option_risk(words, index)
            i = index
            break


def _socat_risks(words: Sequence[ShellWord]) -> Iterator[Risk]:
    for i, word in enumerate(words[1:], 1):
        if word.free or _SOCAT.search(word.text.replace(UNKNOWN, "")):
            yield Risk("`socat` can start other programs", i)


def _write_effects(words: Sequence[ShellWord], writer: WritingOptions) -> Effects:
    """The files that a program which reads is made to write."""
    risks: list[Risk] = []
    files: list[WrittenFile] = []
    for i, word in enumerate(words[1:], 1):
        if _writes_unnamed(word.text, writer):
            files.append(WrittenFile.named(i, word._replace(text=UNKNOWN, variables=("",))))
        elif (found := _written_file(word.text, writer)) is not None:
            target = word._replace(text=found) if found else words[i + 1] if i + 1 < len(words) else None
            if target is not None and not (writer.is_dash_output and target.text == "-"):
                files.append(WrittenFile.named(i + (not found), target))
    if writer.operand:
        operands = list(_operands(words, writer))
        name = words[0].text
        risks += (Risk(f"`{name}` may write its second file", i) for i in operands if words[i].splits)
        files += (WrittenFile.named(i, words[i]) for i in operands[writer.operand - 1 : writer.operand])
    return Effects(risks=tuple(risks), files=tuple(files))


def _written_file(text: str, writer: WritingOptions) -> str | None:
    """The file that an option names, nothing where the next word does, and None where none is written."""
    option, equals, value = text.partition("=")
    if option in writer.others:
        return None
    if option.startswith("--"):
        is_option = len(option) > 2 and any(each.startswith(option) for each in writer.options)
        return value if is_option else None
    if option in writer.options:
        return value if equals else ""
    return _behind_letter(text, writer, writer.letters)


def _writes_unnamed(text: str, writer: WritingOptions) -> bool:
    """Whether an option may make a program write a file that it does not name."""
    if writer.text and writer.text in text:
        return True
    if text.startswith("--"):
        return len(text) > 2 and any(each.startswith(text.partition("=")[0]) for each in writer.unnamed_options)
    return _behind_letter(text, writer, writer.unnamed) is not None


def _behind_letter(text: str, writer: WritingOptions, letters: str) -> str | None:
    """The text behind one of the letters in a cluster; None where none of them is in it."""
    if not text.startswith("-"):
        return None
    for at, letter in enumerate(text[1:], 2):
        if letter in letters:
            return text[at:]
        if letter in writer.valued + writer.letters:
            return None
    return None


def _operands(words: Sequence[ShellWord], writer: WritingOptions) -> Iterator[int]:
    """The words that are no options and no values of options."""
    are_operands = False
    for i, word in enumerate(words[1:], 1):
        if word.text == "--" and not are_operands:
            are_operands = True
            continue
        is_option = word.text.startswith("-") and word.text != "-"
        is_value = writer.valued_words is not None and writer.valued_words.fullmatch(words[i - 1].text) is not None
        if are_operands or not (is_option or is_value):
            yield i
