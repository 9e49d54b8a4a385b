"""Reading the suite of a skill from the files that it has for that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier._lazy import pattern, replace
from metier.proof.suite import BehaviourCase, CalibrationCase, Note, RoutingCase, RuleCase, ScriptCase, Suite
from metier.proof.suite_files import SuiteFiles, SuiteProblem, SuiteSource
from metier.proof.suite_format import read_own_format

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metier.proof.suite_format import AnyCase
    from metier.skill import Package

MAX_FILES = 50
MAX_BYTES = 2 * 1024 * 1024
"""Of one file with cases."""
MAX_CASES = 2_000
_OWN = pattern(r"evals/(?:[^/]+\.)?suite\.(?:ya?ml|json)")


def read_suite(package: Package) -> Suite:
    """The suite of a skill, from all files of its own and of other tools; parts that cannot be used are notes."""
    files = SuiteFiles(package=package)
    settings: dict[str, Any] = {}
    cases: list[AnyCase] = []
    notes: list[Note] = []
    for path in sorted(one for one in files.paths() if _OWN.fullmatch(one))[:MAX_FILES]:
        source = SuiteSource(path=path, data=b"", files=files)
        try:
            source.data = files.read(path, MAX_BYTES)
            files.names[path] = None
            more, found = read_own_format(source, source.value())
            settings = {**more, **settings}
            cases += found
        except SuiteProblem as problem:
            source.note(str(problem))
        notes += source.notes
    if len(cases) > MAX_CASES:
        notes.append(Note(message=f"There are more than {MAX_CASES:,} cases: the others are left out.", is_error=True))
    return _merge(settings, cases[:MAX_CASES], notes, files)


def _merge(settings: dict[str, Any], cases: list[AnyCase], notes: Iterable[Note], files: SuiteFiles) -> Suite:
    return Suite(
        skill=settings.get("skill", settings.get("skill_name", "")),
        max_tokens=settings.get("max_tokens", Suite().max_tokens),
        routing=_with_ids(one for one in cases if isinstance(one, RoutingCase)),
        scripts=_with_ids(one for one in cases if isinstance(one, ScriptCase)),
        rules=_with_ids(one for one in cases if isinstance(one, RuleCase)),
        behaviour=_with_ids(one for one in cases if isinstance(one, BehaviourCase)),
        calibration=tuple(one for one in cases if isinstance(one, CalibrationCase)),
        files=tuple(files.names),
        notes=tuple(notes),
    )


def _with_ids(cases: Iterable[Any]) -> tuple[Any, ...]:
    """Cases with an id each that no other one of their tier has: by default, their number."""
    taken: set[str] = set()
    result = []
    for number, case in enumerate(cases, start=1):
        name = base = case.id or str(number)
        count = 1
        while name in taken:
            count += 1
            name = f"{base} ({count})"
        taken.add(name)
        result.append(replace(case, id=name))
    return tuple(result)
