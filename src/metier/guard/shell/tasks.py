"""Rules that name a task (`npm run test`, `cargo test`): whether what a command says beside it stays inside the task.

The words of a command are read as its program reads them, option by option. Whatever the rule spells out is covered;
anything else must be in the row of the task, see `task_options`. A rule that names nothing but a program (`npm`) is
about all that the program can do, and programs without a row are read by `options` and `git` alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from metier.guard.shell.python import is_python, python_target
from metier.guard.shell.scanner import UNKNOWN
from metier.guard.shell.starting import beginnings
from metier.guard.shell.task_options import PASSED, ROWS, Row, options_of, parsed, program_of
from metier.guard.shell.wrappers import program_name
from metier.guard.tool_rules.patterns import steps_up

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from metier.guard.shell.scanner import Word
    from metier.guard.tool_rules.patterns import WordPattern

_NUMBER = re.compile(r"[0-9][\w.%]*")
_PLAIN = re.compile(r"[\w,+-]*")
_OUTPUT = re.compile(r"json|yaml|wide|name|(jsonpath|jsonpath-as-json|go-template|custom-columns)=.*", re.DOTALL)
_ASSIGNMENT = re.compile(rf"[\w.{UNKNOWN}-]+[:+?!]*=")
_PATTERN = re.compile(rf"[*?\[{UNKNOWN}]")
_PACKAGE = re.compile(r"(@\w[\w.~-]*/)?\w[\w.~-]*(@[\w^~<>=*|][\w.^~<>=*|+ -]*)?")
"""The name of a package in a registry, with a version: no path, no address and no file."""
_ARCHIVE = (".tgz", ".tar.gz", ".tar")
_REMOTE = re.compile(r"[^/]*[@:]|[\w-]+\.(com|org|net|io|dev)/")
"""How a folder begins that docker fetches from elsewhere."""
_SCOPED = ("-w", "--workspace")
"""Options of which a value begins with `@`, and names no file of arguments."""
_PASSED = Row()


def task_problem(
    words: Sequence[Word],
    pattern: WordPattern,
    *,
    is_inside: Callable[[str], bool],
    found: Callable[[Word], list[str] | None],
    is_workspace: bool,
) -> str:
    """Why a command that fits a pattern is not the task that the pattern names; nothing when it is.

    `is_inside` says whether a path leads into the workspace, `found` what a word with a pattern may become (None when
    that cannot be told), and `is_workspace` whether the command runs there.
    """
    if pattern.is_whole_program:
        return ""
    reading = _Reading(words, pattern, is_inside, found)
    reason = reading.problem(0)
    if not reason and reading.is_local and not is_workspace:
        return f"what `{reading.key}` does is another matter in another folder"
    return reason


class _Value(NamedTuple):
    """The value of an option that is in a row."""

    kind: str
    text: str | None = None
    """The value, where it is a part of the word."""


class _Reading:
    """The words of one command, held against one pattern."""

    def __init__(
        self,
        words: Sequence[Word],
        pattern: WordPattern,
        is_inside: Callable[[str], bool],
        found: Callable[[Word], list[str] | None],
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
        self._row = _PASSED
        self._options: Mapping[str, str] = {}
        self._settled: set[str] = set()
        """The first letters of options whose values the rule spells out; they must not be given again."""

    def problem(self, start: int, program: str = "") -> str:
        """Why the words from the program at `start` on are not covered."""
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
                elif behind in PASSED:
                    self._pass_on(behind)
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
                    self._pass_on(self._row.rest)
            i += 1
        return ""

    def _enter(self, key: str) -> None:
        self.key, self._row, self._options = key, ROWS[key], options_of(key)
        self.is_local = self._row.is_local

    def _pass_on(self, name: str) -> None:
        """Go on with the options of the program that the task starts."""
        self._row, self._options = _PASSED, parsed(PASSED[name])

    def _may_be_option(self, word: Word) -> bool:
        """Whether a word that is not known may become an option, or any other word where one is looked at."""
        if word.is_known:
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
        """How many words an option and its value are; none when it is not covered."""
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
        options = self._options
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
        if kind.endswith("/"):
            return self._is_inside(text)
        form = {"#": _NUMBER, "%": _OUTPUT, "~": _PLAIN}.get(kind[-1:])
        return form is None or form.fullmatch(text) is not None

    def _word_problem(self, word: Word) -> str:
        """Why a word that is no option leads out of the task."""
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
        if _ASSIGNMENT.match(text):
            return f"`{_shown(word)}` may change what the task does"
        if policy == "local" and _REMOTE.match(text.replace(UNKNOWN, "")):
            return f"`{_shown(word)}` may be fetched from elsewhere"
        return "" if self._stays(word) else f"`{_shown(word)}` leads out of the workspace"

    def _stays(self, word: Word) -> bool:
        """Whether a path stays in the workspace, whatever a pattern in it finds, and so does a path behind `=`."""
        path, equals, value = word.text.partition("=")
        if word.is_known and not all(map(self._is_inside, (word.text, path, *([value] if equals else [])))):
            return False
        if not word.is_known and (steps_up(word.text) or word.text.startswith("/") or equals):
            return False  # what is found by a pattern may go up too
        if word.is_known and not _PATTERN.search(word.text.partition("::")[0]):
            return True
        found = self._found(word)
        return found is not None and all(map(self._is_inside, found))


def _shown(word: Word) -> str:
    return word.text.replace(UNKNOWN, "*")
