"""Programs that read, and the options and words that make them write a file: one row for each.

Such a file needs a rule for `Write`, as that of a redirection does. Programs that write because that is what they are
for (`cp`, `tee`, `tar`, `wget`) are none of these.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from metier.guard.shell.scanner import UNKNOWN
from metier.guard.shell.script import Redirection
from metier.guard.shell.starting import Problem, Started, Used

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from metier.guard.shell.scanner import Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
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
    """What does the same wherever it stands."""
    operand: int = 0
    """Which of the words that are no options is written; 0 for none."""
    valued_words: re.Pattern[str] | None = None
    """Options whose value is the next word, where words are counted."""
    is_dash_output: bool = False
    """Whether `-` is the output and no file."""


_LESS = Writer(letters="oO", options=("--log-file", "--LOG-FILE"), valued="bDhjkpPtTxyz")
_HTTPIE = Writer(
    letters="o",
    options=("--output", "--session"),
    unnamed="d",
    unnamed_options=("--download",),
    valued="apAs",
    others=("--session-read-only",),
)
_OUTPUT = Writer(letters="o", options=("--output",))
WRITERS: Mapping[str, Writer] = {
    "base64": Writer(letters="o", options=("--output",), valued="wbi"),
    "cloc": Writer(options=("--out", "--report-file", "--sql", "--write-lang-def")),
    "curl": Writer(
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
    "file": Writer(unnamed="C", unnamed_options=("--compile",), valued="efFmP"),
    "gpg": Writer(letters="o", options=("--output",), valued="rRuNz"),
    "http": _HTTPIE,
    "https": _HTTPIE,
    "iconv": Writer(letters="o", options=("--output",), valued="ft"),
    "journalctl": Writer(options=("--cursor-file",)),
    "less": _LESS,
    "nmap": Writer(options=("-oA", "-oG", "-oN", "-oS", "-oX"), is_dash_output=True),
    "openssl": Writer(options=("-keyout", "-out", "-writerand")),
    "sdiff": _OUTPUT,
    "shuf": Writer(letters="o", options=("--output",), valued="in"),
    "sort": Writer(letters="o", options=("--output",), valued="kStT"),
    "tcpdump": Writer(letters="w", valued="BcCDEFGijmMrsTVyzZ", is_dash_output=True),
    "tree": Writer(letters="o", unnamed="R", valued="LPIHT"),
    "uniq": Writer(operand=2, valued_words=re.compile(r"-[A-Za-z]*[fsw]|--(skip-[a-z]+|check-chars)")),
    "xmllint": Writer(letters="o", options=("--output",)),
    "xsltproc": Writer(letters="o", options=("--output",)),
    "xxd": Writer(
        operand=2, valued_words=re.compile(r"-(c(ols)?|g(roupsize)?|l(en)?|n(ame)?|o(ff(set)?)?|s(eek|kip)?|R)")
    ),
    "yq": Writer(unnamed="is", unnamed_options=("--in-place", "--inplace", "--split-exp"), valued="op"),
}


def read_writer(words: Sequence[Word], writer: Writer) -> Started:
    """The files that a program which reads is made to write."""
    problems: list[Problem] = []
    files: list[Used] = []
    for i, word in enumerate(words[1:], 1):
        if _writes_unnamed(word.text, writer):
            files.append(_used(i, word._replace(text=UNKNOWN, variables=("",))))
        elif (found := _written(word.text, writer)) is not None:
            target = word._replace(text=found) if found else words[i + 1] if i + 1 < len(words) else None
            if target is not None and not (writer.is_dash_output and target.text == "-"):
                files.append(_used(i + (not found), target))
    if writer.operand:
        operands = list(_operands(words, writer))
        name = words[0].text
        problems += (Problem(f"`{name}` may write its second file", i) for i in operands if words[i].splits)
        files += (_used(i, words[i]) for i in operands[writer.operand - 1 : writer.operand])
    return Started(problems=tuple(problems), files=tuple(files))


def _used(at: int, target: Word) -> Used:
    return Used(at, Redirection(target=target, writes=True, reads=False))


def _written(text: str, writer: Writer) -> str | None:
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


def _writes_unnamed(text: str, writer: Writer) -> bool:
    """Whether an option may make a program write a file that it does not name."""
    if writer.text and writer.text in text:
        return True
    if text.startswith("--"):
        return len(text) > 2 and any(each.startswith(text.partition("=")[0]) for each in writer.unnamed_options)
    return _behind_letter(text, writer, writer.unnamed) is not None


def _behind_letter(text: str, writer: Writer, letters: str) -> str | None:
    """The text behind one of the letters in a cluster; None where none of them is in it."""
    if not text.startswith("-"):
        return None
    for at, letter in enumerate(text[1:], 2):
        if letter in letters:
            return text[at:]
        if letter in writer.valued + writer.letters:
            return None
    return None


def _operands(words: Sequence[Word], writer: Writer) -> Iterator[int]:
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
