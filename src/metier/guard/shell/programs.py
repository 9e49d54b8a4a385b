"""Common programs: options that make them start other programs, or make readers write files.

Every word is looked at, also behind `--`, which may be the value of the option before it. A word that is not known
before it runs must not be able to become one of these options: `./*` and `src/*.py` are no options, `*` may be one.

A file that an option makes a reader write needs a rule for `Write`, as that of a redirection does. Programs that write
because that is what they are for (`cp`, `tee`, `tar`, `wget`) are none of these readers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.guard.shell.command import Effects, Risk, WrittenFile
from metier.guard.shell.lexer import UNKNOWN
from metier.guard.shell.options import beginnings, is_chosen, is_option, is_unsure, read_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from metier.guard.shell.lexer import ShellWord
    from metier.guard.shell.options import OptionRow

_OPTIONS = read_options("""
ack ag bat batcat: --pager
apt apt-get aptitude: -co --config-file --option
base64: -o> --output> -wbi=
cloc: --out> --report-file> --sql> --write-lang-def>
cpio: --rsh-command
curl: -cDo> --alt-svc> --cookie-jar> --dump-header> --etag-save> --hsts> --libcurl> --output> --output-dir> --stderr>
    --trace> --trace-ascii> -JKO* --config* --remote-header-name* --remote-name* --remote-name-all* %output{ stdout
    -AbCdeEFhHmPQrtTuUwxXyYz= --cookie=
diff3: --diff-program
dpkg: --post-invoke --pre-invoke
file: -C* --compile* -efFmP=
gpg: -o> --output> -rRuNz=
hg: --config
http https: -o> --output> --session> -d* --download* -apAs= --session-read-only=
iconv: -o> --output> -ft=
install: --strip-program
journalctl: --cursor-file>
less: -oO> --log-file> --LOG-FILE> -bDhjkpPtTxyz=
man: -PHC --pager --html --config-file
metier: --then
nc ncat netcat: -ec --exec --sh-exec --lua-exec
nmap: names --datadir --script --servicedb --versiondb -oA> -oG> -oN> -oS> -oX> stdout
openssl: names -keyout> -out> -writerand>
pandoc: -FL --filter --lua-filter --pdf-engine
rg: --pre --hostname-bin
rsync: -e --rsh --rsync-path
scp: -DFS -DFJMPSXcilo=
sdiff: --diff-program -o> --output>
sftp: -bDFS -BDFJPRSXbcilos=
shuf: -o> --output> -in=
sort: --compress-program -o> --output> -kStT=
split: --filter
ssh: -EFIP -BDEFIJLOPQRSWbceilmopw=
svn: --config-dir --config-option --diff-cmd --diff3-cmd --editor-cmd
tar: -IF --to-command --checkpoint-action --use-compress-program --rsh-command --rmt-command --info-script
    --new-volume-script
tcpdump: -z -w> -BcCDEFGijmMrsTVyzZ= stdout
tree: -o> -R* -LPIHT=
uniq xxd:
wget: -e --execute --use-askpass --config
xmllint xsltproc: -o> --output>
yq: -is* --in-place* --inplace* --split-exp* -op=
zip: --unzip-command
""")
_SECOND_WRITTEN = {
    "uniq": re.compile(r"-[A-Za-z]*[fsw]|--(skip-[a-z]+|check-chars)"),
    "xxd": re.compile(r"-(c(ols)?|g(roupsize)?|l(en)?|n(ame)?|o(ff(set)?)?|s(eek|kip)?|R)"),
}
"""Programs that write their second operand, each with the options whose value is the next word."""
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
_SAFE_SSH = re.compile(
    r"(addressfamily|batchmode|connectionattempts|connecttimeout|identitiesonly|identityfile|loglevel|port|"
    r"preferredauthentications|serveralivecountmax|serveraliveinterval|stricthostkeychecking|user)[ =][^\n]*|"
    r"userknownhostsfile[ =]/dev/null",
    re.IGNORECASE,
)
_SAFE_JUMP = re.compile(r"[\w.@:,\[\]-]+")
_REMOTE = re.compile(r"(?!--)[^/\x01]+:|--f[ile]*=[^/\x01]+:")
_SOCAT = re.compile(r"exec|system|shell", re.IGNORECASE)


def program_effects(words: Sequence[ShellWord]) -> Effects:
    """The programs and files that the options of a common program make it start or write."""
    name = words[0].text
    if reader := _compiler_risks if _COMPILER.fullmatch(name) else _READERS.get(name):
        return Effects(risks=tuple(reader(words)))
    row = _OPTIONS.get(name)
    if row is None:
        return Effects()
    risks, files = list(_option_risks(words, row)), list(row.files(list(enumerate(words))[1:]))
    if valued := _SECOND_WRITTEN.get(name):
        operands = list(_operands(words, valued))
        risks += (Risk(f"`{name}` may write its second file", i) for i in operands if words[i].splits)
        files += (WrittenFile(i, words[i]) for i in operands[1:2])
    return Effects(risks=tuple(risks), files=tuple(files))


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


def _option_risks(words: Sequence[ShellWord], row: OptionRow) -> Iterator[Risk]:
    name = words[0].text
    are_operands = False
    for i, word in enumerate(words[1:], 1):
        for beginning in beginnings(word):
            if are_operands and beginning.startswith(UNKNOWN):
                continue
            is_old_cluster = name == "tar" and i == 1 and not beginning.startswith("-")
            starts = row.may_start("-" * is_old_cluster + beginning, word)
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
    row = _OPTIONS[name]
    operands = i = 0
    while i < len(words) - 1:
        i += 1
        word = words[i]
        if any(is_option(beginning, word, "o") for beginning in beginnings(word) if is_unsure(beginning, word)):
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
            if letter in row.starting.letters:
                yield _option_risk(words, i)
            if letter not in row.valued.letters:
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


def _operands(words: Sequence[ShellWord], valued: re.Pattern[str]) -> Iterator[int]:
    """The words that are no options and no values of options."""
    are_operands = False
    for i, word in enumerate(words[1:], 1):
        if word.text == "--" and not are_operands:
            are_operands = True
            continue
        is_option = word.text.startswith("-") and word.text != "-"
        if are_operands or not (is_option or valued.fullmatch(words[i - 1].text)):
            yield i


_READERS = {
    "cmake": _cmake_risks,
    "scp": _ssh_risks,
    "sftp": _ssh_risks,
    "socat": _socat_risks,
    "ssh": _ssh_risks,
}
