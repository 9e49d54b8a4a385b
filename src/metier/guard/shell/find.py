"""What `find` and `fd` start, and the files that `find` writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.guard.shell.scanner import UNKNOWN, Word
from metier.guard.shell.script import Redirection
from metier.guard.shell.starting import Inner, Problem, Started, Unclear, Used, beginnings, is_option, may_be

if TYPE_CHECKING:
    from collections.abc import Sequence

ANYTHING = Word(UNKNOWN, splits=True, breaks=True, free=True)
"""Words that are only known when the command runs."""

_EXECUTING = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_WRITING = frozenset({"-fls", "-fprint", "-fprint0", "-fprintf"})


def read_find(words: Sequence[Word]) -> Started:
    """What `find` starts for the files that it finds."""
    inner: list[Inner] = []
    problems: list[Problem] = []
    files: list[Used] = []
    i = 1
    while i < len(words):
        word = words[i]
        i += 1
        if not word.is_known:
            if may_be(word, _EXECUTING | _WRITING):
                problems.append(_problem(words, i - 1))
        elif word.text in _EXECUTING:
            start = i
            while i < len(words) and words[i].text != ";" and not (words[i].text == "+" and words[i - 1].text == "{}"):
                i += 1
            if any(each.text in _EXECUTING for each in words[start:i]):
                # The first may be the value of a test (`-name -exec`), and then the second is what starts something.
                raise Unclear("what `find` starts cannot be read with certainty", len(words) - 1)
            inner.append(_started(words, start, i)._replace(moves=word.text.endswith("dir")))
        elif word.text in _WRITING and i < len(words):
            files.append(Used(i, Redirection(target=words[i], writes=True, reads=False)))
    return Started(tuple(inner), tuple(problems), tuple(files))


def read_fd(words: Sequence[Word]) -> Started:
    """What `fd` starts for the files that it finds."""
    problems: list[Problem] = []
    for i, word in enumerate(words[1:], 1):
        if word.is_known and word.text in ("-x", "-X", "--exec", "--exec-batch"):
            end = next((at for at in range(i + 1, len(words)) if words[at].text == ";"), len(words))
            if end + 1 < len(words):
                problems.append(_problem(words, len(words) - 1))
            return Started((_started(words, i + 1, end),), tuple(problems))
        if any(is_option(each, word, "xX", ("--exec", "--exec-batch")) for each in beginnings(word)):
            problems.append(_problem(words, len(words) - 1))
    return Started(problems=tuple(problems))


def _problem(words: Sequence[Word], index: int) -> Problem:
    return Problem(f"the options of `{words[0].text}` cannot be read with certainty", index)


def _started(words: Sequence[Word], start: int, end: int) -> Inner:
    """What is started for each file, whose name stands for the braces."""
    inner = tuple(word if "{" not in word.text else ANYTHING for word in words[start:end])
    # A word that may be anything may also be the semicolon after which other arguments follow.
    if not inner or not inner[0].is_known or any(word.free or word.splits for word in words[start:end]):
        raise Unclear(f"what `{words[0].text}` starts cannot be read with certainty", len(words) - 1)
    return Inner(start, inner)
