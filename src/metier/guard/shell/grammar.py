"""The grammar of shell commands: what follows what, and which simple commands that gives."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from metier.guard.shell.scanner import UNKNOWN, Scanner, Token, Unreadable, Word
from metier.guard.shell.script import Command, Redirection, Script
from metier.guard.shell.variables import Variables, is_read_by_programs

MAX_DEPTH = 12
"""How deep commands may be nested in each other."""

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[[^]]*\])?\+?=")
_OTHER_FILE_NUMBER = re.compile(r"[0-9]+-?")
_REDIRECTIONS = frozenset({"<", ">", ">>", ">|", "<>", "<&", ">&", "&>", "&>>", "<<<", "<<", "<<-", "<&-", ">&-"})
_KEYWORDS = frozenset({
    "!", "{", "}", "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "in",
    "[[", "]]", "function", "select", "coproc",
})  # fmt: skip
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CASE_ENDS = frozenset({";;", ";&", ";;&"})


_NUMBERED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)?\[[0-9]+\]\+?=")
_EVALUATING = frozenset({"-R", "-v"})
_ARITHMETIC = frozenset({"-eq", "-ge", "-gt", "-le", "-lt", "-ne"})


def _is_number(word: Word) -> bool:
    return word.text.isdecimal() or (word.text == UNKNOWN and word.variables[0] in ("#", "?"))


def _assigned(word: Word, written: str) -> Word:
    """What gives a variable a value; a number in brackets is all that may stand behind its name."""
    found = _NUMBERED.match(written)
    return Word(f"{found[1]}={UNKNOWN}") if found else word


@dataclass(slots=True)
class _Found:
    """What a grammar and those nested in it have found."""

    commands: list[Command] = field(default_factory=list)
    pipelines: list[tuple[Command | None, ...]] = field(default_factory=list)
    redirections: list[Redirection] = field(default_factory=list)
    assignments: list[Word] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    variables: Variables = field(default_factory=Variables)


class Grammar:
    """Reads one command line, token by token."""

    __slots__ = ("_depth", "_found", "_is_inner", "_past_end", "_scanner", "_token")

    def __init__(
        self, text: str, *, is_inner: bool, start: int = 0, depth: int = 0, found: _Found | None = None
    ) -> None:
        self._scanner = Scanner(text, start, self._nested)
        self._is_inner = is_inner
        self._depth = depth
        self._found = found or _Found()
        self._token = Token("end", "", 0, 0)
        self._past_end = 0

    @property
    def marks(self) -> set[tuple[str, int, int]]:
        """Which words, operators and names were found where."""
        return self._scanner.marks

    @property
    def joins(self) -> list[int]:
        """The positions at which a line goes on in the next one."""
        return self._scanner.joins

    def script(self) -> Script:
        """Read all of it."""
        self._advance()
        self._list(())
        if self._token.kind != "end":
            raise self._misplaced()
        found = self._found
        refusals = [*self._scanner.refusals, *found.refusals]
        if not found.commands and not refusals:
            refusals.append("no command")
        for command in found.commands:
            found.variables.note_command(command.words)
        settled = {id(command): self._settled(command) for command in found.commands}
        return Script(
            commands=tuple(settled[id(command)] for command in found.commands),
            pipelines=tuple(
                tuple(settled[id(command)] if command else None for command in pipeline) for pipeline in found.pipelines
            ),
            redirections=tuple(found.redirections),
            assignments=tuple(map(self._settled_assignment, found.assignments)),
            refusal=refusals[0] if refusals else "",
        )

    def _settled(self, command: Command) -> Command:
        """The command, with those words marked whose values it chooses itself."""
        # The shell around an inner one may have given its variables any value.
        words, variants = self._found.variables.settle(command.words, are_chosen=self._is_inner)
        return Command(text=command.text, words=words, variants=variants)

    def _settled_assignment(self, word: Word) -> Word:
        """The assignment, marked if it is made of values that the command chooses itself."""
        (settled,), variants = self._found.variables.settle((word,), are_chosen=self._is_inner)
        return settled._replace(free=settled.free or bool(variants))

    def _nested(self, text: str, start: int | None) -> int:
        """Read a substitution: in the same text up to its parenthesis, or all of a text of its own."""
        # Reading the first word may already lead deeper.
        inner = Grammar(text, is_inner=True, start=start or 0, depth=self._deeper_by_one(), found=self._found)
        inner._advance()
        inner._list(() if start is None else (")",))
        if inner._token.text != ("" if start is None else ")"):
            raise Unreadable("a substitution is not closed")
        if inner._scanner.is_waiting:
            raise Unreadable("a substitution ends before its here-document")
        self._found.refusals += inner._scanner.refusals
        return inner._token.end

    def _advance(self) -> Token:
        past, self._token = self._token, self._scanner.next()
        self._past_end = past.end
        return past

    def _misplaced(self) -> Unreadable:
        return Unreadable(f"`{self._token.text}` is out of place" if self._token.text else "it ends too early")

    def _is_at(self, *operators: str) -> bool:
        return self._token.kind == "operator" and self._token.text in operators

    def _keyword(self) -> str:
        """The keyword that stands here, if one does."""
        word = self._token.word
        if self._token.text == "[[":
            return "[["  # as a word it would be about files
        if word is None or word.text not in _KEYWORDS:
            return ""
        if not word.bare and "\n" in self._token.text:
            raise Unreadable("a keyword is broken over two lines")
        return word.text if word.bare else ""

    def _mark(self, mark: str) -> None:
        """Say that the word that stands here is more than a word."""
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
            raise Unreadable("it is nested too deep")
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
            self._found.pipelines.append(tuple(parts))

    def _command(self) -> Command | None:
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
            self._case()
        elif keyword == "[[":
            self._test()
        elif keyword:
            raise Unreadable(f"`{keyword}` is out of place or not supported")
        else:
            return self._simple()
        while self._is_redirection():
            self._redirection()
        return None

    def _subshell(self) -> None:
        opening = self._advance()
        if self._is_at("(") and self._token.start == opening.end:
            raise Unreadable("it has an arithmetic command")
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
            self._found.refusals.append(f"a loop over the variable {name.text}, which programs may read")
            self._found.assignments.append(Word(f"{name.text}={UNKNOWN}"))
        self._mark("variable")
        self._advance()
        self._skip_newlines()
        if self._keyword() == "in":
            self._expect("in")
            self._found.variables.note_loop(name.text, self._words())
        else:
            self._found.variables.note_choice(name.text)
        if self._is_at(";"):
            self._advance()
        self._skip_newlines()
        self._group("do", "done")

    def _words(self) -> list[Word]:
        found: list[Word] = []
        while self._token.word is not None:
            found.append(self._token.word)
            self._advance()
        if not self._is_at(";") and self._token.kind != "newline":
            raise self._misplaced()
        return found

    def _case(self) -> None:
        self._expect("case")
        self._pattern()
        self._skip_newlines()
        self._expect("in")
        self._skip_newlines()
        while self._keyword() != "esac":
            if self._is_at("("):
                self._advance()
            self._pattern()
            while self._is_at("|"):
                self._advance()
                self._pattern()
            self._expect(")")
            self._deeper((*_CASE_ENDS, "esac"))
            if self._is_at(*_CASE_ENDS):
                self._advance()
                self._skip_newlines()
            elif self._keyword() != "esac":
                raise self._misplaced()
        self._expect("esac")

    def _test(self) -> None:
        """A `[[` test: nothing in it runs but what is substituted, and what arithmetic may evaluate."""
        self._found.refusals.append("a `[[` test")
        self._expect("[[")
        words: list[Word] = []
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
                raise Unreadable("shells disagree about a `[[` test")
        self._expect("]]")
        for i, word in enumerate(words):
            beside = words[max(0, i - 1) : i] + words[i + 1 : i + 2]
            if word.text in _EVALUATING or (word.text in _ARITHMETIC and not all(map(_is_number, beside))):
                raise Unreadable(f"a test with `{word.text}` may run commands")

    def _pattern(self) -> None:
        if self._token.word is None:
            raise self._misplaced()
        self._advance()

    def _is_redirection(self) -> bool:
        return self._token.kind == "operator" and self._token.text in _REDIRECTIONS

    def _redirection(self) -> None:
        operator = self._advance().text
        if operator in ("<<", "<<-", "<&-", ">&-"):
            return
        target = self._token.word
        if target is None:
            raise self._misplaced()
        self._advance()
        is_number = operator in ("<&", ">&") and target.bare and _OTHER_FILE_NUMBER.fullmatch(target.text)
        if operator == "<<<" or is_number:
            return
        if operator == "<&":
            raise Unreadable("it reads from a descriptor that is no number")
        if operator in ("&>", "&>>") and self._token.kind == "word":
            raise Unreadable(f"shells disagree about words after `{operator}`")
        reads, writes = operator.startswith("<"), operator != "<"
        self._found.redirections.append(Redirection(target=target, reads=reads, writes=writes))

    def _simple(self) -> Command | None:
        start = self._token.start
        words: list[Word] = []
        has_assignments = has_redirections = False
        while True:
            word = self._token.word
            if word is not None:
                if not words and _ASSIGNMENT.match(self._token.text.replace("\\\n", "")):
                    has_assignments = True
                    self._found.refusals.append("an assignment")
                    self._found.assignments.append(_assigned(word, self._token.text))
                    if name := _NAME.match(word.text):
                        self._found.variables.note_choice(name[0])
                    self._advance()
                    if self._is_at("(") and self._token.start == word.end:
                        self._array()
                    continue
                if not words:
                    self._mark("name")
                words.append(word)
                self._advance()
            elif self._is_redirection():
                has_redirections = True
                self._redirection()
            elif self._is_at("(") and len(words) == 1 and not has_assignments and not has_redirections:
                self._function()
                return None
            else:
                break
        if words:
            command = Command(text=self._scanner.text[start : self._past_end], words=tuple(words))
            self._found.commands.append(command)
            return command
        if has_redirections:
            self._found.refusals.append("redirections without a command")
        elif not has_assignments:
            raise self._misplaced()
        return None

    def _array(self) -> None:
        self._advance()
        self._skip_newlines()
        while self._token.word is not None:
            if self._token.text.startswith("[") and not _NUMBERED.match(self._token.text):
                raise Unreadable("a subscript may run commands")
            self._advance()
            self._skip_newlines()
        self._expect(")")

    def _function(self) -> None:
        self._found.refusals.append("a function definition")
        self._expect("(")
        self._expect(")")
        self._skip_newlines()
        self._depth = self._deeper_by_one()
        if not self._is_at("(") and self._keyword() not in ("{", "if", "for", "while", "until", "case"):
            raise self._misplaced()
        self._command()
        self._depth -= 1
