"""Lexer of shell commands: characters become words and operators, by the quoting rules that POSIX and bash share.

A construct that shells read differently is not guessed at: it raises `UnreadableCommand`. A construct that can be read,
but has no place in a command that rules with patterns allow (a substitution, an arithmetic), is noted as a refusal, so
that rules which forbid can still look inside.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from metier._lazy import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

UNKNOWN = "\x01"
"""Stands in the text of a word for a part that is only known when the command runs. No command may contain it."""

Kind: TypeAlias = Literal["word", "operator", "newline", "end"]

_BLANKS = " \t"
_ENDS_WORD = frozenset(" \t\n;&|<>()")
_OPERATORS = (
    "<<<", "<<-", "&>>", ";;&", "<&-", ">&-",
    "&&", "&>", "||", "|&", ";;", ";&", "<<", "<&", "<>", ">>", ">&", ">|",
    "&", "|", ";", "<", ">", "(", ")",
)  # fmt: skip
_PLAIN = re.compile(r"[^\s;&|<>()\\'\"$`*?\[{},~=:!\x01]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACED = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-])\}")
# The forms that only choose or cut a value; `${x@P}`, `${!x}` and subscripts can run commands.
_BRACED_MORE = re.compile(
    r"\{(?:#?(?:[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*])"
    r"(?:(?::?[-+?]|##?|%%?|//?)[A-Za-z0-9_./:, *-]*|:[0-9]+(?::[0-9]+)?|\^\^?|,,?)?|"
    r"[#!]?[A-Za-z_][A-Za-z0-9_]*\[(?:[@*]|[0-9]+)\])\}"
)
_NUMBERS = re.compile(r"\(\([0-9 +*/%-]+\)\)")
_PLAIN_VARIABLES = re.compile(
    r"(?:[^$`\\]|\\[^\n]|\$[A-Za-z_0-9@*#?]|\$\{[A-Za-z_][A-Za-z0-9_]*(?::?[-+][A-Za-z0-9_./ -]*)?\}|\$(?=\s|\Z))*"
)
_DELIMITER = re.compile(r"""([A-Za-z_][A-Za-z0-9_]*)|'([A-Za-z_][A-Za-z0-9_]*)'|"([A-Za-z_][A-Za-z0-9_]*)\"""")
_FILE_NUMBER = re.compile(r"[0-9]+(?=[<>])")


class UnreadableCommand(Exception):
    """The command cannot be parsed with certainty."""


class ShellWord(NamedTuple):
    """One word of a command, with its quotes removed."""

    text: str
    start: int = 0
    end: int = 0
    splits: bool = False
    """Whether it may become several words, or none."""
    breaks: bool = False
    """Whether it may fall apart at an unknown part, so that the text behind that part begins a word."""
    free: bool = False
    """Whether the command itself chooses the unknown part, by a loop, by braces or by its input."""
    variables: tuple[str, ...] = ()
    """The variable that each unknown part is the value of, or a sign for an expansion; "" where files or choices
    decide."""
    firm: bool = False
    """Whether it begins with no hyphen although its beginning is unknown: it is a folder."""
    braces: str = ""
    """The word as written, if it has braces that give several words."""
    bare: bool = True
    """Whether no part of it is quoted; only then can it be a keyword."""

    @property
    def is_known(self) -> bool:
        """Whether the text is the whole word when the command runs."""
        return UNKNOWN not in self.text and not self.splits


ANY_WORDS = ShellWord(UNKNOWN, splits=True, breaks=True, free=True)
"""Words that are only known when the command runs."""


class ShellToken(NamedTuple):
    """A word, an operator or a line end."""

    kind: Kind
    text: str
    start: int
    end: int
    word: ShellWord | None = None


@dataclass(slots=True)
class _WordBuilder:
    """A word while it is read."""

    parts: list[str]
    variables: list[str]
    splits: bool = False
    breaks: bool = False
    free: bool = False
    firm: bool = False
    bare: bool = True
    brace_at: int = -1
    """The number of parts before the first unquoted opening brace."""
    has_choice: bool = False
    """Whether a comma or two dots follow that brace."""
    bracket_at: int = -1
    """The number of parts before the first unquoted opening bracket."""

    def add_unknown(self, variable: str = "") -> None:
        """A part that is only known when the command runs."""
        self.parts.append(UNKNOWN)
        self.variables.append(variable)


class Lexer:
    """The tokens of one command, one by one."""

    __slots__ = ("_heredocs", "_nested", "joins", "marks", "position", "refusals", "text")

    def __init__(self, text: str, position: int, nested: Callable[[str, int | None], int]) -> None:
        self.text = text
        self.position = position
        self.refusals: list[str] = []
        self.joins: list[int] = []
        """The positions at which a line goes on in the next one, outside quotes: shells take these characters away."""
        self.marks: set[tuple[str, int, int]] = set()
        """The words, operators and names that were found, to be compared with those of another parser."""
        self._heredocs: list[tuple[str, bool, bool]] = []
        self._nested = nested

    @property
    def is_waiting(self) -> bool:
        """Whether a here-document has been announced that has not been read."""
        return bool(self._heredocs)

    def next(self) -> ShellToken:
        """The next token after blanks, comments and continued lines."""
        text, size = self.text, len(self.text)
        while self.position < size:
            character = text[self.position]
            if character in _BLANKS:
                self.position += 1
            elif text.startswith("\\\n", self.position):
                if self._heredocs:
                    raise UnreadableCommand("a here-document starts on a line that goes on")
                self.joins.append(self.position)
                self.position += 2
            elif character == "#":
                end = text.find("\n", self.position)
                end = size if end < 0 else end
                self.marks.add(("comment", self.position, end))
                self.position = end
            else:
                break
        start = self.position
        if start >= size:
            if self._heredocs:
                raise UnreadableCommand("a here-document has no end")
            return ShellToken("end", "", start, start)
        if text[start] == "\n":
            self.position += 1
            self._read_heredocs()
            return ShellToken("newline", "\n", start, start + 1)
        return self._operator(start) or self._word(start)

    def _operator(self, start: int) -> ShellToken | None:
        text = self.text
        number = _FILE_NUMBER.match(text, start)
        if number and len(number[0]) > 1:
            raise UnreadableCommand("to some shells a descriptor of two digits is a word")
        at = number.end() if number else start
        if text[at] not in ";&|<>()":
            return None
        if text.startswith(("<(", ">("), at):
            if number:
                raise UnreadableCommand("a process substitution follows a number")
            return None
        operator = next(operator for operator in _OPERATORS if text.startswith(operator, at))
        if number:
            self.marks.add(("number", start, at))
        self.marks.add((operator, at, at + len(operator)))
        self.position = at + len(operator)
        if operator in ("<&-", ">&-") and text[self.position : self.position + 1] not in ("", *_ENDS_WORD):
            raise UnreadableCommand("it reads or writes a descriptor that is no number")
        if operator in ("<<", "<<-"):
            self._start_heredoc(strips=operator == "<<-")
        return ShellToken("operator", operator, start, self.position)

    def _start_heredoc(self, *, strips: bool) -> None:
        while self.text.startswith((" ", "\t"), self.position):
            self.position += 1
        found = _DELIMITER.match(self.text, self.position)
        if not found or not (found.end() == len(self.text) or self.text[found.end()] in _ENDS_WORD):
            raise UnreadableCommand("a here-document has an unusual delimiter")
        self.marks.add(("delimiter", found.start(), found.end()))
        self._heredocs.append((found[1] or found[2] or found[3], found[1] is None, strips))
        self.position = found.end()

    def _read_heredocs(self) -> None:
        for i, (delimiter, is_quoted, strips) in enumerate(self._heredocs):
            self.position += i > 0
            start = self.position
            while True:
                if self.position >= len(self.text):
                    raise UnreadableCommand("a here-document has no end")
                end = self.text.find("\n", self.position)
                end = len(self.text) if end < 0 else end
                line = self.text[self.position : end]
                if (line.lstrip("\t") if strips else line) == delimiter:
                    break
                self.position = end + 1
            body = self.text[start : self.position]
            if not is_quoted and any(character in body for character in "$`\\"):
                if not _PLAIN_VARIABLES.fullmatch(body):
                    raise UnreadableCommand("a here-document is not plain text; quote its delimiter")
                self.refusals.append("a variable in a here-document")
            # The line end after the delimiter is left to be read: it ends the command.
            self.marks.add(("body", start, self.position))
            self.position = end
        self._heredocs.clear()

    def _word(self, start: int) -> ShellToken:
        text, size = self.text, len(self.text)
        building = _WordBuilder([], [])
        while self.position < size and (character := text[self.position]) not in _ENDS_WORD:
            if plain := _PLAIN.match(text, self.position):
                building.parts.append(plain[0])
                building.has_choice |= building.brace_at >= 0 and ".." in plain[0]
                self.position = plain.end()
            else:
                self._special(character, building, start)
        if self.position == start:
            self._process_substitution(building)
        if self._heredocs and "\n" in text[start : self.position]:
            raise UnreadableCommand("a here-document starts on a line that goes on")
        if building.brace_at >= 0 and text[start : self.position + 1].endswith(("}<", "}>")):
            raise UnreadableCommand("a redirection names its file by a variable")
        if building.bracket_at >= 0 and not building.has_choice:
            # The end of the brackets has rules of its own: the text behind them is not known either.
            del building.parts[building.bracket_at :]
            del building.variables[building.parts.count(UNKNOWN) :]
            building.add_unknown()
        if building.has_choice:
            del building.parts[building.brace_at :]
            del building.variables[building.parts.count(UNKNOWN) :]
            building.add_unknown()
            building.splits = building.free = True
        end = self.position
        self.marks.add(("word", start, end))
        word = ShellWord(
            text="".join(building.parts),
            start=start,
            end=end,
            splits=building.splits,
            breaks=building.breaks,
            free=building.free,
            variables=tuple(building.variables),
            firm=building.firm,
            braces=text[start:end] if building.has_choice else "",
            bare=building.bare,
        )
        return ShellToken("word", text[start:end], start, end, word)

    def _special(self, character: str, building: _WordBuilder, start: int) -> None:
        """Read one character with a meaning, or the quoted text it opens."""
        text, at = self.text, self.position
        self.position += 1
        if character == "\\":
            building.bare = False
            if at + 1 >= len(text):
                raise UnreadableCommand("it ends in a backslash")
            if text[at + 1] != "\n":
                building.parts.append(text[at + 1])
            else:
                self.joins.append(at)
            self.position += 1
        elif character == "'":
            building.bare = False
            end = text.find("'", at + 1)
            if end < 0:
                raise UnreadableCommand("a quote is not closed")
            building.parts.append(text[at + 1 : end])
            self.position = end + 1
        elif character == '"':
            building.bare = False
            self._double_quoted(building)
        elif character == "$":
            self._dollar(building, is_quoted=False)
        elif character == "`":
            self._backquoted(building, is_quoted=False)
        elif character in "*?[":
            is_test = character == "[" and at == start and (at + 1 == len(text) or text[at + 1] in _ENDS_WORD)
            if is_test:
                building.parts.append(character)
            else:
                if character == "[" and building.bracket_at < 0:
                    building.bracket_at = len(building.parts)
                building.add_unknown()
                building.splits = True
        elif character == "~" and (at == start or text[at - 1] in "=:"):
            building.firm |= at == start
            building.add_unknown()
        else:
            if character == "{" and building.brace_at < 0:
                building.brace_at = len(building.parts)
            elif character == "," and building.brace_at >= 0:
                building.has_choice = True
            elif character == "!" and at == start and at + 1 < len(text) and text[at + 1] not in " \t\n;=(":
                self.refusals.append("a word that starts with `!`, which may stand for an earlier command")
            building.parts.append(character)

    def _double_quoted(self, building: _WordBuilder) -> None:
        text = self.text
        while self.position < len(text):
            character = text[self.position]
            self.position += 1
            if character == '"':
                return
            if character == "\\":
                following = text[self.position : self.position + 1]
                if following and following in '$`"\\\n':
                    building.parts.append(following.strip("\n"))
                    self.position += 1
                else:
                    building.parts.append(character)
            elif character == "$":
                self._dollar(building, is_quoted=True)
            elif character == "`":
                self._backquoted(building, is_quoted=True)
            else:
                building.parts.append(character)
        raise UnreadableCommand("a quote is not closed")

    def _dollar(self, building: _WordBuilder, *, is_quoted: bool) -> None:
        """Read the expansion behind a dollar sign."""
        text, at = self.text, self.position
        following = text[at : at + 1]
        if name := _NAME.match(text, at):
            self._variable(building, name[0], name.end(), is_quoted=is_quoted)
        elif following and following in "0123456789@*#?$!-":
            self._variable(building, following, at + 1, is_quoted=is_quoted)
        elif following == "{":
            if braced := _BRACED.match(text, at):
                self._variable(building, braced[1], braced.end(), is_quoted=is_quoted)
            elif braced := _BRACED_MORE.match(text, at):
                self.refusals.append("a parameter expansion")
                building.free = True
                self._variable(building, "{", braced.end(), is_quoted=is_quoted)
            else:
                raise UnreadableCommand("it has a parameter expansion that may run commands")
        elif following == "(":
            if text.startswith("((", at):
                if not (numbers := _NUMBERS.match(text, at)):
                    raise UnreadableCommand("it has an arithmetic expansion")
                self.refusals.append("an arithmetic expansion")
                building.free = True
                self._variable(building, "{", numbers.end(), is_quoted=is_quoted)
                return
            self.position = self._nested(text, at + 1)
            self._substitution(building, "a command substitution", splits=not is_quoted)
        elif following == "[":
            raise UnreadableCommand("it has an arithmetic expansion")
        elif following == '"' and not is_quoted:
            raise UnreadableCommand("it has a translated string")
        elif following == "'" and not is_quoted:
            end = text.find("'", at + 1)
            if end < 0 or text[end - 1] == "\\":
                raise UnreadableCommand("it has a quoted string that shells read differently")
            building.add_unknown("'")
            building.free, building.bare = True, False
            self.position = end + 1
        elif following == "\\" and text.startswith("\\\n", at):
            raise UnreadableCommand("a line goes on between a dollar sign and what it stands for")
        else:
            building.parts.append("$")

    def _variable(self, building: _WordBuilder, name: str, end: int, *, is_quoted: bool) -> None:
        building.firm |= name == "PWD" and not building.parts
        building.add_unknown(name)
        building.breaks |= not is_quoted or name == "@"
        building.splits |= building.breaks
        self.position = end

    def _substitution(self, building: _WordBuilder, what: str, *, splits: bool) -> None:
        self.refusals.append(what)
        building.add_unknown("`")
        building.breaks |= splits
        building.splits |= splits
        building.free = True

    def _process_substitution(self, building: _WordBuilder) -> None:
        self.position = self._nested(self.text, self.position + 2)
        self._substitution(building, "a process substitution", splits=False)
        if self.position < len(self.text) and self.text[self.position] not in _ENDS_WORD:
            raise UnreadableCommand("a word goes on after a process substitution")

    def _backquoted(self, building: _WordBuilder, *, is_quoted: bool) -> None:
        inner: list[str] = []
        escapable = '`$\\"' if is_quoted else "`$\\"
        while self.position < len(self.text):
            character = self.text[self.position]
            self.position += 1
            if character == "`":
                self._nested("".join(inner), None)
                self._substitution(building, "a command substitution", splits=not is_quoted)
                return
            if character == "\\" and self.text[self.position : self.position + 1] in tuple(escapable):
                character = self.text[self.position]
                self.position += 1
            inner.append(character)
        raise UnreadableCommand("a quote is not closed")
