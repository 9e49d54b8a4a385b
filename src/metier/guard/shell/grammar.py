"""Grammar of shell commands: tokens become simple commands, pipelines, redirections and assignments."""

from __future__ import annotations

import re
from typing import TypeAlias

from metier._lazy import dataclass, field
from metier.guard.shell.command import Redirection, SimpleCommand
from metier.guard.shell.lexer import UNKNOWN, Lexer, ShellToken, ShellWord, UnreadableCommand
from metier.guard.shell.variables import is_read_by_programs

MAX_DEPTH = 12
"""Levels of commands that are nested in each other."""

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[[^]]*\])?\+?=")
_OTHER_FILE_NUMBER = re.compile(r"[0-9]+-?")
_REDIRECTIONS = frozenset({"<", ">", ">>", ">|", "<>", "<&", ">&", "&>", "&>>", "<<<", "<<", "<<-", "<&-", ">&-"})
KEYWORDS = frozenset({
    "!", "{", "}", "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "in",
    "[[", "]]", "function", "select", "coproc",
})  # fmt: skip
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CASE_ENDS = frozenset({";;", ";&", ";;&"})


_NUMBERED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)?\[[0-9]+\]\+?=")
_EVALUATING = frozenset({"-R", "-v"})
_ARITHMETIC = frozenset({"-eq", "-ge", "-gt", "-le", "-lt", "-ne"})


def _is_number(word: ShellWord) -> bool:
    return word.text.isdecimal() or (word.text == UNKNOWN and word.variables[0] in ("#", "?"))


def _assignment(word: ShellWord, written: str) -> ShellWord:
    """The assignment of a value to a variable; only a number in brackets may stand behind its name."""
    found = _NUMBERED.match(written)
    return ShellWord(f"{found[1]}={UNKNOWN}") if found else word


Mark: TypeAlias = tuple[str, int, int]
"""The kind, start and end of a word, an operator or a name."""


@dataclass(slots=True)
class Syntax:
    """The parts of a command line, with those of the substitutions in it."""

    commands: list[SimpleCommand] = field(default_factory=list)
    pipelines: list[tuple[SimpleCommand | None, ...]] = field(default_factory=list)
    redirections: list[Redirection] = field(default_factory=list)
    assignments: list[ShellWord] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    assigned: set[str] = field(default_factory=set)
    """The variables that may have any value."""
    loops: list[tuple[str, list[ShellWord]]] = field(default_factory=list)
    """The variable of each loop and its values."""


class Grammar:
    """A predictive parser of one command line."""

    __slots__ = ("_depth", "_lexer", "_past_end", "_syntax", "_token")

    def __init__(self, text: str, *, start: int = 0, depth: int = 0, syntax: Syntax | None = None) -> None:
        self._lexer = Lexer(text, start, self._nested)
        self._depth = depth
        self._syntax = syntax or Syntax()
        self._token = ShellToken("end", "", 0, 0)
        self._past_end = 0

    @property
    def marks(self) -> set[Mark]:
        """The words, operators and names that were found."""
        return self._lexer.marks

    @property
    def joins(self) -> list[int]:
        """The positions at which a line goes on in the next one."""
        return self._lexer.joins

    def parse(self) -> Syntax:
        """Parse the whole command line."""
        self._advance()
        self._list(())
        if self._token.kind != "end":
            raise self._misplaced()
        syntax = self._syntax
        syntax.refusals[:0] = self._lexer.refusals
        if not syntax.commands and not syntax.refusals:
            syntax.refusals.append("no command")
        return syntax

    def _nested(self, text: str, start: int | None) -> int:
        """Read a substitution: in the same text up to its parenthesis, or all of a text of its own."""
        # Reading the first word may already lead deeper.
        inner = Grammar(text, start=start or 0, depth=self._deeper_by_one(), syntax=self._syntax)
        inner._advance()
        inner._list(() if start is None else (")",))
        if inner._token.text != ("" if start is None else ")"):
            raise UnreadableCommand("a substitution is not closed")
        if inner._lexer.is_waiting:
            raise UnreadableCommand("a substitution ends before its here-document")
        self._syntax.refusals += inner._lexer.refusals
        return inner._token.end

    def _advance(self) -> ShellToken:
        past, self._token = self._token, self._lexer.next()
        self._past_end = past.end
        return past

    def _misplaced(self) -> UnreadableCommand:
        return UnreadableCommand(f"`{self._token.text}` is out of place" if self._token.text else "it ends too early")

    def _is_at(self, *operators: str) -> bool:
        return self._token.kind == "operator" and self._token.text in operators

    def _keyword(self) -> str:
        """The keyword here; "" without one."""
        word = self._token.word
        if self._token.text == "[[":
            return "[["  # as a word it would be about files
        if word is None or word.text not in KEYWORDS:
            return ""
        if not word.bare and "\n" in self._token.text:
            raise UnreadableCommand("a keyword is broken over two lines")
        return word.text if word.bare else ""

    def _mark(self, mark: str) -> None:
        """Note that the word here is more than a word."""
        self.marks.discard(("word", self._token.start, self._token.end))
        self.marks.add((mark, self._token.start, self._token.end))

    def _expect(self, *texts: str) -> None:
        keyword = self._keyword()
        if keyword in texts:
            self._mark(keyword)
        elif not self._is_at(*texts):
            raise self._misplaced()
        self._advance()

    def _skip_newlines(self) -> None:
        while self._token.kind == "newline":
            self._advance()

    def _deeper_by_one(self) -> int:
        if self._depth >= MAX_DEPTH:
            raise UnreadableCommand("it is nested too deep")
        return self._depth + 1

    def _deeper(self, until: tuple[str, ...]) -> None:
        self._depth = self._deeper_by_one()
        self._list(until)
        self._depth -= 1

    def _list(self, until: tuple[str, ...]) -> None:
        """Commands up to one of the keywords or operators, which is left to be read."""
        self._skip_newlines()
        while self._token.kind != "end" and not self._is_at(*until) and not (until and self._keyword() in until):
            self._pipeline()
            while self._is_at("&&", "||"):
                self._advance()
                self._skip_newlines()
                self._pipeline()
            if self._is_at(";", "&"):
                self._advance()
            elif self._token.kind not in ("newline", "end") and not self._is_at(*until):
                raise self._misplaced()
            self._skip_newlines()

    def _pipeline(self) -> None:
        while self._keyword() == "!":
            self._expect("!")
        parts = [self._command()]
        while self._is_at("|", "|&"):
            self._advance()
            self._skip_newlines()
            parts.append(self._command())
        if len(parts) > 1:
            self._syntax.pipelines.append(tuple(parts))

    def _command(self) -> SimpleCommand | None:
        keyword = self._keyword()
        if self._is_at("("):
            self._subshell()
        elif keyword == "{":
            self._group("{", "}")
        elif keyword == "if":
            self._if()
        elif keyword in ("while", "until"):
            self._expect(keyword)
            self._deeper(("do",))
            self._group("do", "done")
        elif keyword == "for":
            self._for()
        elif keyword == "case":
            self._case_statement()
        elif keyword == "[[":
            self._test()
        elif keyword:
            raise UnreadableCommand(f"`{keyword}` is out of place or not supported")
        else:
            return self._simple()
        while self._is_at(*_REDIRECTIONS):
            self._redirection()
        return None

    def _subshell(self) -> None:
        opening = self._advance()
        if self._is_at("(") and self._token.start == opening.end:
            raise UnreadableCommand("it has an arithmetic command")
        self._deeper((")",))
        self._expect(")")

    def _group(self, opening: str, closing: str) -> None:
        self._expect(opening)
        self._deeper((closing,))
        self._expect(closing)

    def _if(self) -> None:
        branch = "if"
        while branch in ("if", "elif"):
            self._expect(branch)
            self._deeper(("then",))
            self._expect("then")
            self._deeper(("elif", "else", "fi"))
            branch = self._keyword()
        if branch == "else":
            self._expect("else")
            self._deeper(("fi",))
        self._expect("fi")

    def _for(self) -> None:
        self._expect("for")
        name = self._token.word
        if name is None or not name.bare or name.text != self._token.text:
            raise self._misplaced()
        if is_read_by_programs(name.text):
            self._syntax.refusals.append(f"a loop over the variable {name.text}, which programs may read")
            self._syntax.assignments.append(ShellWord(f"{name.text}={UNKNOWN}"))
        self._mark("variable")
        self._advance()
        self._skip_newlines()
        if self._keyword() == "in":
            self._expect("in")
            self._syntax.loops.append((name.text, self._words()))
        else:
            self._syntax.assigned.add(name.text)
        if self._is_at(";"):
            self._advance()
        self._skip_newlines()
        self._group("do", "done")

    def _words(self) -> list[ShellWord]:
        found: list[ShellWord] = []
        while self._token.word is not None:
            found.append(self._take_word())
        if not self._is_at(";") and self._token.kind != "newline":
            raise self._misplaced()
        return found

    def _case_statement(self) -> None:
        self._expect("case")
        self._take_word()
        self._skip_newlines()
        self._expect("in")
        self._skip_newlines()
        while self._keyword() != "esac":
            if self._is_at("("):
                self._advance()
            self._take_word()
            while self._is_at("|"):
                self._advance()
                self._take_word()
            self._expect(")")
            self._deeper((*_CASE_ENDS, "esac"))
            if self._is_at(*_CASE_ENDS):
                self._advance()
                self._skip_newlines()
            elif self._keyword() != "esac":
                raise self._misplaced()
        self._expect("esac")

    def _test(self) -> None:
        """A `[[` test: only substitutions and evaluated arithmetic run in it."""
        self._syntax.refusals.append("a `[[` test")
        self._expect("[[")
        words: list[ShellWord] = []
        while self._keyword() != "]]":
            word = self._token.word
            if word is not None:
                words.append(word)
                self._advance()
                continue
            if not self._is_at("&&", "||"):
                raise self._misplaced()
            self._advance()
            # To a shell without such tests, a command follows.
            if self._token.word is None or not self._token.word.text.startswith(("-", "!")):
                raise UnreadableCommand("shells disagree about a `[[` test")
        self._expect("]]")
        for i, word in enumerate(words):
            beside = words[max(0, i - 1) : i] + words[i + 1 : i + 2]
            if word.text in _EVALUATING or (word.text in _ARITHMETIC and not all(map(_is_number, beside))):
                raise UnreadableCommand(f"a test with `{word.text}` may run commands")

    def _take_word(self) -> ShellWord:
        word = self._token.word
        if word is None:
            raise self._misplaced()
        self._advance()
        return word

    def _redirection(self) -> None:
        operator = self._advance().text
        if operator in ("<<", "<<-", "<&-", ">&-"):
            return
        target = self._take_word()
        is_number = operator in ("<&", ">&") and target.bare and _OTHER_FILE_NUMBER.fullmatch(target.text)
        if operator == "<<<" or is_number:
            return
        if operator == "<&":
            raise UnreadableCommand("it reads from a descriptor that is no number")
        if operator in ("&>", "&>>") and self._token.kind == "word":
            raise UnreadableCommand(f"shells disagree about words after `{operator}`")
        reads, writes = operator.startswith("<"), operator != "<"
        self._syntax.redirections.append(Redirection(target=target, reads=reads, writes=writes))

    def _simple(self) -> SimpleCommand | None:
        start = self._token.start
        words: list[ShellWord] = []
        has_assignments = has_redirections = False
        while True:
            word = self._token.word
            if word is not None:
                if not words and _ASSIGNMENT.match(self._token.text.replace("\\\n", "")):
                    has_assignments = True
                    self._syntax.refusals.append("an assignment")
                    self._syntax.assignments.append(_assignment(word, self._token.text))
                    if name := _NAME.match(word.text):
                        self._syntax.assigned.add(name[0])
                    self._advance()
                    if self._is_at("(") and self._token.start == word.end:
                        self._array()
                    continue
                if not words:
                    self._mark("name")
                words.append(word)
                self._advance()
            elif self._is_at(*_REDIRECTIONS):
                has_redirections = True
                self._redirection()
            elif self._is_at("(") and len(words) == 1 and not has_assignments and not has_redirections:
                self._function()
                return None
            else:
                break
        if words:
            command = SimpleCommand(text=self._lexer.text[start : self._past_end], words=tuple(words))
            self._syntax.commands.append(command)
            return command
        if has_redirections:
            self._syntax.refusals.append("redirections without a command")
        elif not has_assignments:
            raise self._misplaced()
        return None

    def _array(self) -> None:
        self._advance()
        self._skip_newlines()
        while self._token.word is not None:
            if self._token.text.startswith("[") and not _NUMBERED.match(self._token.text):
                raise UnreadableCommand("a subscript may run commands")
            self._advance()
            self._skip_newlines()
        self._expect(")")

    def _function(self) -> None:
        self._syntax.refusals.append("a function definition")
        self._expect("(")
        self._expect(")")
        self._skip_newlines()
        self._depth = self._deeper_by_one()
        if not self._is_at("(") and self._keyword() not in ("{", "if", "for", "while", "until", "case"):
            raise self._misplaced()
        self._command()
        self._depth -= 1
