"""Options of programs: tables of them, and the options that a partly unknown word can become when it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from metier.guard.shell.command import WrittenFile
from metier.guard.shell.lexer import UNKNOWN
from metier.skill.names import glob_matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from metier.guard.shell.lexer import ShellWord


def read_table(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """The rows of a table: names before a colon, tokens behind it; an indented line goes on with the row before.

    >>> list(read_table("apt apt-get: -c"))
    [(['apt', 'apt-get'], ['-c'])]
    """
    for line in text.replace("\n   ", "").strip().splitlines():
        names, _, tokens = line.partition(":")
        yield names.split(), tokens.split()


class OptionNames(NamedTuple):
    """Options of one kind."""

    letters: str = ""
    """Of short options, which may stand in one word."""
    names: tuple[str, ...] = ()
    """Long options, which may be shortened; with one hyphen, names that may not."""


class OptionRow:
    """The effects of a program's options, as a row of a table lists them.

    `-ab` and `--name` start a program, or read options that may. `-o>` names a file to write, `-i*` may write a file
    that it does not name, `-s~` names a program, and `-k=` takes another value, which ends a cluster of letters; a long
    option is only listed so if it looks like another one that is shortened.

    Tokens without a hyphen are marks. With `names`, a hyphen is followed by a name and not by letters; with `stdout`,
    the file `-` is the output; `%x` writes a file wherever it stands in a word. Others are for the owner of the table.
    """

    __slots__ = ("_unnamed", "_written", "any", "marks", "programs", "starting", "valued")

    def __init__(self, tokens: Sequence[str]) -> None:
        self.marks = frozenset(token for token in tokens if not token.startswith("-"))
        options = [token for token in tokens if token.startswith("-")]
        self._written, self._unnamed, self.programs, self.valued = (
            self._options(token[:-1] for token in options if token.endswith(sign)) for sign in ">*~="
        )
        self.starting = self._options(token for token in options if not token.endswith((">", "*", "~", "=")))
        self.any = self._options(token.rstrip(">*~") for token in options if not token.endswith("="))
        """All that have an effect."""

    def _options(self, tokens: Iterable[str]) -> OptionNames:
        letters, names = "", []
        for token in tokens:
            if token.startswith("--") or "names" in self.marks:
                names.append(token)
            else:
                letters += token[1:]
        return OptionNames(letters, tuple(names))

    def may_start(self, beginning: str, word: ShellWord) -> bool:
        """Whether a word that begins so may start a program, or write a file where it is not known as a whole."""
        return is_option(beginning, word, *(self.any if is_unsure(beginning, word) else self.starting))

    def files(self, words: Sequence[tuple[int, ShellWord]]) -> Iterator[WrittenFile]:
        """The files that options make the program write, of words with their indexes."""
        for i, (at, word) in enumerate(words):
            is_text = any(mark in word.text for mark in self.marks if mark.startswith("%"))
            if is_text or self.value(word.text, self._unnamed) is not None:
                yield WrittenFile(at, word._replace(text=UNKNOWN, variables=("",)))
            elif (value := self.value(word.text, self._written)) is not None:
                is_own = value or word.text.endswith("=")
                targets = [(at, word._replace(text=value))] if is_own else words[i + 1 : i + 2]
                for index, target in targets:
                    if target.text != "-" or "stdout" not in self.marks:
                        yield WrittenFile(index, target)

    def value(self, text: str, options: OptionNames) -> str | None:
        """The value of one of some options, "" if the next word may be it; None if the text is none of them."""
        option, _, value = text.partition("=")
        if option.startswith("--"):
            is_one = text != "--" and any(name.startswith(option) for name in options.names)
            return value if is_one and option not in self.valued.names else None
        if option in options.names:
            return value
        for at, letter in enumerate(text[1:] if text.startswith("-") else "", 2):
            if letter in options.letters:
                return text[at:]
            if letter in self.valued.letters + self._written.letters:
                break
        return None


def read_options(text: str, common: Sequence[str] = ()) -> dict[str, OptionRow]:
    """The rows of a table by name, each with the tokens that all have.

    >>> read_options("apt apt-get: -co --option")["apt"].starting
    OptionNames(letters='co', names=('--option',))
    """
    return {name: OptionRow([*tokens, *common]) for names, tokens in read_table(text) for name in names}


def beginnings(word: ShellWord) -> list[str]:
    """The beginnings of the words that a word may become, with `UNKNOWN` for each part that is not known.

    Values from the environment are left out, as the command does not choose them. A variable may be unset, though, and
    may fall apart, and then the word begins with the text behind it.
    """
    text = word.text
    if word.is_known:
        return [text]
    if word.free:
        return [UNKNOWN] if word.breaks else [] if word.firm else [text]
    found: list[str] = []
    is_open, at = True, 0
    for i, piece in enumerate(text.split(UNKNOWN)):
        if piece and is_open:
            found.append(text[at:])
            is_open = False
        at += len(piece)
        if at >= len(text):
            break
        if word.variables[i]:
            is_open |= word.breaks
        elif is_open and not (at == 0 and word.firm):
            # Files may have any name.
            found.append(text[at:])
            is_open = False
        else:
            is_open = False
        at += 1
    return found


def may_be(word: ShellWord, texts: Iterable[str]) -> bool:
    """Whether a word, or one that it becomes, can be one of these."""
    for beginning in beginnings(word):
        known, unknown, _ = beginning.partition(UNKNOWN)
        for text in texts:
            if word.breaks and unknown:
                if text.startswith(known):
                    return True
            elif glob_matches(beginning.replace(UNKNOWN, "*"), text) if unknown else text == known:
                return True
    return False


def is_unsure(beginning: str, word: ShellWord) -> bool:
    """Whether a beginning is an option of which not even the name is known, or only a part of a word."""
    return beginning != word.text or UNKNOWN in beginning.partition("=")[0]


def is_option(beginning: str, word: ShellWord, letters: str, options: Iterable[str] = ()) -> bool:
    """Whether a word that begins so may be one of these options, by a letter in a cluster or by a shortened name."""
    # Variables may be unset, and then another hyphen can follow the first.
    if beginning.startswith((UNKNOWN, f"-{UNKNOWN}")):
        return True
    if beginning.startswith("--"):
        name, unknown, _ = beginning.partition("=")[0].partition(UNKNOWN)
        return (len(name) > 2 or bool(unknown)) and any(option.startswith(name) for option in options)
    if not beginning.startswith("-"):
        return False
    return any(letter in beginning for letter in letters) or bool(letters and is_chosen(word) and UNKNOWN in beginning)


def is_chosen(word: ShellWord) -> bool:
    """Whether the command or the names of files choose an unknown part of a word."""
    return word.free or "" in word.variables
