"""Grades of assertions by code: from the traces of a trial alone, and failing wherever a trace is not whole.

>>> from metier.proof.suite import Assertion, TextMatch
>>> from metier.proof.trial import Transcript
>>> one = Assertion(kind="stdout", match=TextMatch(equals="4"))
>>> grade(one, Transcript(stdout="4\\n")).passed, grade(one, Transcript(stdout="4", error="timeout: 30 s")).passed
(True, False)
"""

from __future__ import annotations

import json
import posixpath
from typing import TYPE_CHECKING, Any, TypeAlias

from metier._suggest import did_you_mean
from metier.proof.text_match import mismatch, quoted
from metier.proof.trial import Grade
from metier.proof.workspace_files import MORE
from metier.skill import shown
from metier.skill.names import glob_matches
from metier.skill.tool_rules import ToolRule, canonical_tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from metier.proof.judge import Judge
    from metier.proof.report import Verdict
    from metier.proof.suite import Assertion, BehaviourCase, TextMatch
    from metier.proof.trial import TracedCall, Transcript

_Answer: TypeAlias = tuple[bool | None, str]
_MOST_NAMED = 5


def grade(assertion: Assertion, transcript: Transcript) -> Grade:
    """Grade one assertion by code; what only a judge could tell stays open."""
    if transcript.error:
        return Grade(assertion=assertion, passed=False, why=f"It came to no end: {shown(transcript.error, 300)}")
    passed, why = _GRADERS[assertion.kind](assertion, transcript)
    return Grade(assertion=assertion, passed=passed, why="" if passed else why)


async def grade_all(
    assertions: Iterable[Assertion],
    transcript: Transcript,
    judge: Judge | None = None,
    case: BehaviourCase | None = None,
) -> tuple[Grade, ...]:
    """Grade assertions by code, and those for a judge by one that knows the prompt of the case."""
    return tuple(
        [
            await judge.grade(one, transcript, case)
            if one.kind == "judge" and judge is not None and not transcript.error
            else grade(one, transcript)
            for one in assertions
        ]
    )


def verdict_of(grades: Sequence[Grade]) -> Verdict:
    """The verdict of a case: what nobody can check is no objection, and what nobody has checked is no pass."""
    if any(one.passed is False for one in grades):
        return "failed"
    checkable = [one for one in grades if one.assertion.kind != "text"]
    return "passed" if checkable and all(one.passed for one in checkable) else "skipped"


_FEW = 3
"""The assertions whose failures are told one by one."""


def reason_of(grades: Sequence[Grade]) -> str:
    """The reason of a verdict: the first grades that are none, and how many more there are."""
    failed = [one for one in grades if one.passed is False] or [one for one in grades if not one.passed]
    more = len(failed) - _FEW
    told = " ".join(map(_sentence_of, failed[:_FEW]))
    return f"{told} And {more} more failed." if more > 0 else told


def _sentence_of(grade: Grade) -> str:
    target = f" {shown(grade.assertion.target, 80)}" if grade.assertion.target else ""
    return f"{grade.assertion.kind}{target}: {grade.why}"


def grade_rows(grades: Iterable[Grade]) -> list[dict[str, Any]]:
    """Grades as JSON values, for reports."""
    return [
        {"kind": one.assertion.kind, "target": shown(one.assertion.target, 300), "passed": one.passed, "why": one.why}
        for one in grades
    ]


def _text(field: str) -> Callable[[Assertion, Transcript], _Answer]:
    def compare(assertion: Assertion, transcript: Transcript) -> _Answer:
        return _matched(assertion.match, getattr(transcript, field))

    return compare


def _matched(match: TextMatch | None, text: str) -> _Answer:
    why = mismatch(match, text)
    return not why, why


def _exit(assertion: Assertion, transcript: Transcript) -> _Answer:
    wanted = assertion.value or 0
    return transcript.exit_code == wanted, f"The exit code is {transcript.exit_code} and not {wanted:g}."


def _file(assertion: Assertion, transcript: Transcript) -> _Answer:
    path = posixpath.normpath(assertion.target)
    data = transcript.after.get(path)
    if data is not None:
        return _matched(assertion.match, data.decode("utf-8-sig", errors="replace"))
    if _is_left_out(path, transcript):
        return False, "It is no plain file, or there is too much to read it."
    return False, f"There is no such file. {did_you_mean(path, transcript.after)}".strip()


def _no_file(assertion: Assertion, transcript: Transcript) -> _Answer:
    path = posixpath.normpath(assertion.target)
    if _is_left_out(path, transcript):
        return False, "It may be there: not everything in the workspace could be read."
    is_there = path in transcript.after or any(one.startswith(f"{path}/") for one in transcript.after)
    return not is_there, "It is there."


def _unchanged(assertion: Assertion, transcript: Transcript) -> _Answer:
    path = posixpath.normpath(assertion.target)
    before, after = transcript.before.get(path), transcript.after.get(path)
    if before is None:
        return False, "It was not there before."
    if after is None:
        return False, "It is gone, or no plain file any more."
    return before == after, "Its content has changed."


def _changed_only(assertion: Assertion, transcript: Transcript) -> _Answer:
    permitted = [posixpath.normpath(path) for path in assertion.paths]
    others = [(p, how) for p, how in _changes(transcript) if not any(glob_matches(one, p) for one in permitted)]
    more = f", and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
    listed = ", ".join(f"{shown(path, 80)} is {how}" for path, how in others[:_MOST_NAMED])
    return not others, f"{listed}{more}."


def _changes(transcript: Transcript) -> Iterator[tuple[str, str]]:
    if MORE in transcript.left_out:
        yield "something", "left out, as there is too much to be listed"
    yield from ((path, "no plain file") for path in transcript.left_out if path != MORE)
    before, after = transcript.before, transcript.after
    yield from ((path, "changed" if path in before else "new") for path in after if before.get(path) != after[path])
    yield from ((path, "gone") for path in before if path not in after and path not in transcript.left_out)


def _is_left_out(path: str, transcript: Transcript) -> bool:
    """Whether something of that name, or a folder around it, was not read."""
    return MORE in transcript.left_out or any(
        path == one or path.startswith(f"{one}/") or one.startswith(f"{path}/") for one in transcript.left_out
    )


def _calls(
    assertion: Assertion,
    transcript: Transcript,
    fits: Callable[[Mapping[str, Any], str, TextMatch], bool],
    *,
    cut_ones: bool = False,
) -> list[TracedCall]:
    """The calls of a tool, under any of its names, whose arguments fit; with `cut_ones`, also those not known whole."""
    rule = ToolRule(tool=canonical_tool(assertion.target))
    return [
        call
        for call in transcript.calls
        if rule.names(canonical_tool(call.tool))
        and (
            (cut_ones and not call.is_whole)
            or all(fits(call.arguments, name, match) for name, match in assertion.arguments.items())
        )
    ]


def argument_fits(arguments: Mapping[str, Any], name: str, match: TextMatch) -> bool:
    """Whether there is an argument of that name, and it is like that."""
    return name in arguments and not mismatch(match, _as_text(arguments[name]))


def _may_fit(arguments: Mapping[str, Any], name: str, match: TextMatch) -> bool:
    """The same, where an argument that is not there may be any of the others, under another name."""
    if name in arguments:
        return argument_fits(arguments, name, match)
    return any(not mismatch(match, _as_text(value)) for value in arguments.values())


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _called(assertion: Assertion, transcript: Transcript) -> _Answer:
    found = _calls(assertion, transcript, argument_fits)
    if any(call.outcome != "refused" for call in found):
        return True, ""
    if found:
        return False, f"It was called and refused: {shown(found[0].code, 100) or 'by a rule'}."
    return False, f"It was not called like that. {_called_tools(transcript)}"


def _not_called(assertion: Assertion, transcript: Transcript) -> _Answer:
    found = _calls(assertion, transcript, _may_fit, cut_ones=True)
    tried = "tried, and refused" if found and found[0].outcome == "refused" else "called"
    return not found, f"It was {tried}: {quoted(_as_text(dict(found[0].arguments)))}." if found else ""


def _refused(assertion: Assertion, transcript: Transcript) -> _Answer:
    found = _calls(assertion, transcript, argument_fits)
    if any(call.outcome == "refused" for call in found):
        return True, ""
    return False, "It was called, and not refused." if found else f"It was not called. {_called_tools(transcript)}"


def _called_tools(transcript: Transcript) -> str:
    tools = list(dict.fromkeys(shown(call.tool, 60) for call in transcript.calls))
    return f"Calls were of {', '.join(tools[:_MOST_NAMED])}." if tools else "There were no calls."


def _skill_read(assertion: Assertion, transcript: Transcript) -> _Answer:
    return transcript.skill_read, "The instructions of the skill did not reach the model."


def _at_most(field: str, unit: str) -> Callable[[Assertion, Transcript], _Answer]:
    def compare(assertion: Assertion, transcript: Transcript) -> _Answer:
        spent, most = getattr(transcript, field), assertion.value
        if most is None:
            return False, "The assertion says no number."
        if not spent:
            return None, f"Nobody counted {unit}."
        return spent <= most, f"It took {spent:,.6g} {unit}, and not at most {most:,.6g}."

    return compare


def _open(why: str) -> Callable[[Assertion, Transcript], _Answer]:
    return lambda assertion, transcript: (None, why)


_GRADERS: dict[str, Callable[[Assertion, Transcript], _Answer]] = {
    "answer": _text("answer"),
    "stdout": _text("stdout"),
    "stderr": _text("stderr"),
    "exit": _exit,
    "file": _file,
    "no-file": _no_file,
    "unchanged": _unchanged,
    "changed-only": _changed_only,
    "called": _called,
    "not-called": _not_called,
    "refused": _refused,
    "skill-read": _skill_read,
    "tokens": _at_most("tokens", "tokens"),
    "seconds": _at_most("seconds", "seconds"),
    "judge": _open("There was no judge."),
    "text": _open("Nothing here can check it."),
}
