"""Rules that name a task (`npm run test`, `cargo test`): whether what a command says beside it stays inside the task.

The words of a command are read as its program reads them, option by option. Whatever the rule spells out is covered;
anything else must be in the row of the task, see `task_table`. A rule that names nothing but a program (`npm`) is
about all that the program can do, and programs without a row are read by `options` and `git` alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from metier.guard.shell.effects import program_name
from metier.guard.shell.launchers import is_python, python_target
from metier.guard.shell.lexer import UNKNOWN
from metier.guard.shell.options import beginnings
from metier.guard.tool_rules.patterns import WordPattern, steps_up
from metier.guard.tool_rules.task_table import LISTS, MERE_NAMES, ROWS, TaskRow, list_of, program_of, row_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from metier.guard.shell.lexer import ShellWord

_NUMBER = re.compile(r"[0-9][\w.%]*")
_PLAIN = re.compile(r"[\w,+-]*")
_OUTPUT = re.compile(r"json|yaml|wide|name|(jsonpath|jsonpath-as-json|go-template|custom-columns)=.*", re.DOTALL)
_ASSIGNMENT = re.compile(rf"[\w.{UNKNOWN}-]+[:+?!]*=")
_PATTERN = re.compile(rf"[*?\[{UNKNOWN}]")
_PACKAGE = re.compile(r"(@\w[\w.~-]*/)?\w[\w.~-]*(\[[\w,.-]+\])?((@|[~!]=|===?|[<>]=?)[\w^~<>=*|][\w.^~<>=*|+ ,!-]*)?")
"""The name of a package in a registry, with a version: no path, no address and no file."""
_ARCHIVE = (".tgz", ".tar.gz", ".tar", ".whl", ".zip")
_REMOTE = re.compile(r"[^/]*[@:]|[\w-]+\.(com|org|net|io|dev)/")
"""The beginning of a folder that docker fetches from elsewhere."""
_ADDRESS = re.compile(r"(https?|ssh|git)://|[\w.-]+@[\w.-]+:")
"""The beginning of the address of a repository on another machine."""
_SCOPED = ("-w", "--workspace")
"""Options of which a value begins with `@`, and names no file of arguments."""
_GUESSED = ("bun", "pnpm", "yarn")
"""Programs of which the rows have options of what their scripts start: before the script they may take no value."""


def task_problem(
    words: Sequence[ShellWord],
    pattern: WordPattern,
    *,
    is_inside: Callable[[str], bool],
    found: Callable[[ShellWord], list[str] | None],
    is_workspace: bool,
) -> str:
    """The reason why a command that fits a pattern is not the task that the pattern names; "" when it is.

    `is_inside` says whether a path leads into the workspace, `found` what a word with a pattern may become (None when
    that cannot be told), and `is_workspace` whether the command runs there.
    """
    reading = _TaskReader(words, pattern, is_inside, found)
    reason = reading.problem(0)
    if not reason and reading.is_local and not is_workspace:
        return f"what `{reading.key}` does is another matter in another folder"
    return reason


def without_options(words: Sequence[ShellWord], *, is_inside: Callable[[str], bool]) -> tuple[ShellWord, ...] | None:
    """A command without the options that stand before the last word of its task, if all of them stay inside of it.

    None where there are none, or where one of them may lead out: `make -j4 test` is a `make test`, and `make -C x test`
    is not.
    """
    return _TaskReader(words, WordPattern((), ()), is_inside, lambda _: None).bare_words()


def task_spellings(words: tuple[ShellWord, ...], count: int) -> Iterator[tuple[ShellWord, ...]]:
    """A command without the options among its first words, as a rule of so many words would name it.

    Whether an option takes a value is not known here: it may, and it may not. Of programs that do several tasks at once
    (`mvn clean deploy`), each is one that a rule may name.
    """
    if len(words) > 2 and words[1].text in ("container", "image") and program_of(words[0].text) == "docker":
        words = (words[0], *words[2:])
        yield words
    seen: set[tuple[int, int]] = set()
    key = program_of(program_name(words[0].text))
    if count > 1 and key in ROWS and row_of(key).words == "tasks":
        for i in range(2, len(words)):
            yield (words[0], *words[i:])
    # Which options of git take a value is known, and its subcommand is found already.
    waiting = [(words, 1 + (key == "git"))]
    while waiting:
        given, at = waiting.pop()
        if at >= count or at >= len(given) or (at, len(given)) in seen:
            continue
        seen.add((at, len(given)))
        text = given[at].text
        if not text.startswith("-"):
            waiting.append((given, at + 1))
            continue
        for skipped in (1,) if "=" in text else (1, 2):
            shorter = (*given[:at], *given[at + skipped :])
            waiting.append((shorter, at))
            yield shorter


class _Value(NamedTuple):
    """The value of an option that is in a row."""

    kind: str
    text: str | None = None
    """The value, where it is a part of the word."""


class _TaskReader:
    """The words of one command, held against one pattern."""

    def __init__(
        self,
        words: Sequence[ShellWord],
        pattern: WordPattern,
        is_inside: Callable[[str], bool],
        found: Callable[[ShellWord], list[str] | None],
    ) -> None:
        self.is_local = False
        self.key = ""
        self._words = words
        self._is_inside = is_inside
        self._found = found
        self._named = pattern.named(words)
        self._spelled = min(self._named, len(pattern.literal))
        self._closing = pattern.closing(words)
        self._has_task = any(own != "*" and not own.startswith("-") for own in pattern.words[max(self._named, 1) :])
        self._row = TaskRow()
        self._settled: set[str] = set()
        """The first letters of options whose values the rule spells out; they must not be given again."""

    def problem(self, start: int, program: str = "") -> str:
        """The reason why the words from the program at `start` on are not covered; "" when they are."""
        words = self._words
        self.key = program_of(program_name(program or words[start].text))
        if is_python(self.key):
            target = python_target(words[start:])
            is_named = target is not None and start + target.at < self._named
            return self.problem(start + target.at, target.name) if target is not None and is_named else ""
        if self.key not in ROWS:
            return ""
        self._enter(self.key)
        are_tasks, are_words, i = True, False, start + 1
        while i < len(words):
            text = words[i].text
            is_spelled = i < self._spelled or i >= self._closing
            if not is_spelled and self._may_be_option(words[i]):
                return f"`{_shown(words[i])}` is not known before it runs, and may lead out of the task"
            if text == "--" and not are_words:
                behind, are_tasks = self._row.behind, False
                if behind == "any":
                    return ""
                if behind == "words":
                    are_words = True
                elif behind in LISTS:
                    self._row = list_of(behind)
                elif behind != "program" and not is_spelled:
                    return f"no rule for `{self.key}` covers what stands behind `--`"
            elif text.startswith("-") and not are_words:
                count = self._option_words(i, is_spelled=is_spelled)
                if not count:
                    return f"the option `{_shown(words[i])}` is not among those that are known to stay inside the task"
                i += count - 1
            elif are_tasks and f"{self.key} {text}" in ROWS:
                self._has_task |= i < self._named
                self._enter(f"{self.key} {text}")
            elif self._row.rest == "program":
                return self.problem(i) if i < self._named else ""
            else:
                are_tasks = False
                self._has_task |= i < self._named
                if i >= self._named and not is_spelled and (reason := self._word_problem(words[i])):
                    return reason
                if self._row.rest == "any":
                    return ""
                if self._row.rest:
                    self._row = list_of(self._row.rest)
            i += 1
        return ""

    def bare_words(self) -> tuple[ShellWord, ...] | None:
        """The words without the options before the last word of the task; see `without_options`."""
        words, key = self._words, program_of(program_name(self._words[0].text))
        if key not in ROWS:
            return None
        self._enter(key)
        bare, end, i = [words[0]], 1, 1
        while i < len(words) and words[i].is_known and words[i].text != "--":
            text = words[i].text
            if text.startswith("-"):
                count = self._option_words(i, is_spelled=False)
                if not count or (count > 1 and self.key.partition(" ")[0] in _GUESSED):
                    break
                i += count
                continue
            i += 1
            bare, end = [*bare, words[i - 1]], i
            if f"{self.key} {text}" in ROWS:
                self._enter(f"{self.key} {text}")
            elif self._row.rest == "program" and program_of(program_name(text)) in ROWS:
                self._enter(program_of(program_name(text)))
            else:
                break
        return (*bare, *words[end:]) if len(bare) < end else None

    def _enter(self, key: str) -> None:
        self.key, self._row = key, row_of(key)
        self.is_local = self._row.is_local

    def _may_be_option(self, word: ShellWord) -> bool:
        """Whether a word that is not known may become an option, or any other word where one is looked at."""
        if word.is_known or self.key in MERE_NAMES:
            return False
        if word.braces and (".." in word.braces or self._row.words in ("none", "tasks")):
            return True
        if word.free and not word.braces and self._row.words != "any":
            return True
        if self._row.rest and word.splits:
            return True  # it may be no word at all, and then the options go on
        starts = beginnings(word) if self._row.words == "any" else [word.text, *beginnings(word)]
        return any(
            start.startswith(UNKNOWN) or (start.startswith("-") and UNKNOWN in start.partition("=")[0])
            for start in starts
        )

    def _option_words(self, at: int, *, is_spelled: bool) -> int:
        """The number of words of an option and its value; 0 when it is not covered."""
        text = self._words[at].text
        following = self._words[at + 1] if at + 1 < len(self._words) else None
        argument = following.text if following and following.is_known and following.text[:1] != "-" else None
        value = self._value(text)
        takes_value = value is not None and value.kind.startswith("=")
        letter = text.lstrip("-")[:1].lower()
        if is_spelled:
            self._settled.add(letter)
            if value is None and argument is not None and "=" not in text and at + 1 <= self._spelled:
                # The rule knows an option that the row does not: what follows is its value, unless it is a task.
                return 1 + (f"{self.key} {argument}" not in ROWS)
        elif value is None or (takes_value and letter in self._settled):
            return 0
        if value == ("=", None) and self.key.startswith("git ") and following and not following.is_known:
            return 1 if following.splits else 2  # whatever it becomes, git takes it for the value
        if not is_spelled and takes_value and value is not None and value.text is None and following is not None:
            if following.text.startswith("@") and text not in _SCOPED:
                return 0
            if not following.is_known and value.kind[-1:] in "/%":
                return 0
        if value is None or value.text is not None or not takes_value or argument is None:
            return int(is_spelled or value is None or value.text is None or self._fits(value.text, value.kind))
        is_value = self._fits(argument, value.kind)
        return 1 + is_value if is_value or is_spelled else 0

    def _value(self, text: str) -> _Value | None:
        """The value of an option, as the row has it; None where the row has no such option."""
        options = self._row.options
        if self._row.style == "flags" and text.startswith("--"):
            text = text[1:]
        name, equals, rest = text.partition("=")
        if name in options:
            kind = options[name].replace("+", "")
            if not equals:
                return _Value(kind)
            return _Value(kind, rest) if kind or rest in ("false", "true") else None
        if text.startswith("--") or text == "-":
            return None
        if self._row.style != "letters":
            kind = options.get(text[:2], "")
            return _Value(kind.replace("+", ""), text[2:]) if "+" in kind else None
        for at in range(1, len(text)):
            if f"-{text[at]}" not in options:
                return None
            if kind := options[f"-{text[at]}"]:
                return _Value(kind, text[at + 1 :] or None)
        return _Value("")

    def _fits(self, text: str, kind: str) -> bool:
        """Whether a value is of the kind that an option takes."""
        if "|" in kind:
            return text in kind[1:].split("|")
        if kind.endswith("/"):
            return self._is_inside(text)
        form = {"#": _NUMBER, "%": _OUTPUT, "~": _PLAIN}.get(kind[-1:])
        return form is None or form.fullmatch(text) is not None

    def _word_problem(self, word: ShellWord) -> str:
        """The reason why a word that is no option leads out of the task; "" when it does not."""
        policy = self._row.words
        if policy == "any":
            return ""
        if policy in ("none", "tasks"):
            if policy == "none" or self._has_task or "=" in word.text:
                return f"`{_shown(word)}` is another task, or changes what the task does"
            return ""
        text = word.text
        if policy == "packages":
            is_package = word.is_known and _PACKAGE.fullmatch(text) and not text.lower().endswith(_ARCHIVE)
            return "" if is_package else f"`{_shown(word)}` is no plain name of a package"
        if policy == "remotes" and word.is_known and _ADDRESS.match(text):
            return ""
        if policy in ("names", "remotes") and text.startswith("@"):
            return ""
        if policy not in ("names", "remotes") and _ASSIGNMENT.match(text):
            return f"`{_shown(word)}` may change what the task does"
        if policy == "local" and _REMOTE.match(text.replace(UNKNOWN, "")):
            return f"`{_shown(word)}` may be fetched from elsewhere"
        return "" if self._stays(word) else f"`{_shown(word)}` leads out of the workspace"

    def _stays(self, word: ShellWord) -> bool:
        """Whether a path stays in the workspace, whatever a pattern in it finds, and so does a path behind `=`."""
        path, equals, value = word.text.partition("=")
        if word.is_known and not all(map(self._is_inside, {word.text, path, *([value] if equals else [])})):
            return False
        if not word.is_known and (steps_up(word.text) or word.text.startswith("/") or equals):
            return False  # what is found by a pattern may go up too
        if word.is_known and not _PATTERN.search(word.text.partition("::")[0]):
            return True
        found = self._found(word)
        return found is not None and all(map(self._is_inside, found))


def _shown(word: ShellWord) -> str:
    return word.text.replace(UNKNOWN, "*")
