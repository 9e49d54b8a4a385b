"""Reading the suite of a skill from the files that it has for that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier._lazy import pattern, replace
from metier.proof.suite import BehaviourCase, CalibrationCase, Note, RoutingCase, RuleCase, ScriptCase, Suite
from metier.proof.suite_files import SuiteFiles, SuiteProblem, SuiteSource
from metier.proof.suite_format import MAX_CASES, build_case, read_own_format
from metier.proof.suite_translation import SuiteTranslator
from metier.skill import read_frontmatter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metier.proof.suite_format import AnyCase
    from metier.skill import Package

MAX_FILES = 50
MAX_BYTES = 2 * 1024 * 1024
"""Of one file with cases."""
_OWN = pattern(r"evals/(?:[^/]+\.)?suite\.(?:ya?ml|json)")
_FOREIGN = (
    pattern(r"evals?/[^/]+\.(?:ya?ml|jsonl?)"),
    pattern(r"evals?/[^/]+/[^/]*(?:eval|case|trigger|scenario|task|quer)[^/]*\.(?:ya?ml|jsonl?)"),
    pattern(r"(?:tests?/)?(?:evals/)?(?:evals?|trigger[-_]\w+)[^/]*\.(?:ya?ml|jsonl?)"),
)
# A file with another name and no case in it is something else, such as input.
_SAYS_TESTS = pattern(r"eval|trigger|routing|route|case|scenario|quer|test|prompt|task|suite|benchmark")
_NO_SUITE = pattern(
    r"(?:^|[/_.-])(?:results?|reports?|baselines?|schema|grading|timing|judg\w*|summary|history|config|feedback"
    r"|package|tsconfig|answers?|metadata|manifest|benchmark\.sample|settings|lock|workspace)(?=[/_.-]|$)"
)


def read_suite(package: Package) -> Suite:
    """The suite of a skill, from all files of its own and of other tools; parts that cannot be used are notes."""
    files = SuiteFiles(package=package)
    settings: dict[str, Any] = {}
    cases: list[AnyCase] = []
    notes: list[Note] = []
    paths = sorted((_OWN.fullmatch(path) is None, path) for path in files.paths() if is_suite(path))
    for _, path in paths[:MAX_FILES]:
        if path in files.names:
            continue  # a file that another suite uses
        source = SuiteSource(path=path, data=b"", files=files)
        found: list[AnyCase] = []
        try:
            source.data = files.read(path, MAX_BYTES)
            more, found = _read_file(source)
            settings = {**more, **settings}
            cases += found
        except SuiteProblem as problem:
            source.note(str(problem))
        if found or _SAYS_TESTS.search(path.rpartition("/")[2]):
            files.names[path] = None
            notes += source.notes
    if len(paths) > MAX_FILES:
        notes.append(
            Note(message=f"There are more than {MAX_FILES} files of tests: the others are left out.", is_error=True)
        )
    if len(cases) > MAX_CASES:
        notes.append(Note(message=f"There are more than {MAX_CASES:,} cases: the others are left out.", is_error=True))
    return _merge(settings, cases[:MAX_CASES], notes, files)


def is_suite(path: str) -> bool:
    """Whether a file of a skill has tests in it, by its name.

    >>> [is_suite(path) for path in ("evals/suite.yaml", "evals/trigger-evals.json", "evals/results.json")]
    [True, True, False]
    """
    if _OWN.fullmatch(path):
        return True
    return any(one.fullmatch(path) for one in _FOREIGN) and not _NO_SUITE.search(path)


def _read_file(source: SuiteSource) -> tuple[dict[str, Any], list[AnyCase]]:
    value = source.value()
    if _OWN.fullmatch(source.path):
        return read_own_format(source, value)
    translator = SuiteTranslator(source=source, skill=_skill_name(source.files))
    translator.translate(value)
    cases = [build_case(source, one.section, one.value, *one.at) for one in translator.cases[: MAX_CASES + 1]]
    if not translator.cases:
        source.note("There is no case in it that can be read.", is_error=False)
    return {"skill": translator.suite_skill} if translator.suite_skill else {}, [
        one for one in cases if one is not None
    ]


def _skill_name(files: SuiteFiles) -> str:
    try:
        name = read_frontmatter(files.read("SKILL.md")).mapping.get("name")
    except SuiteProblem:
        return ""
    return name if isinstance(name, str) else ""


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


_LONGEST_ID = 80
"""Characters of a prompt that names a case."""


def _with_ids(cases: Iterable[Any]) -> tuple[Any, ...]:
    """Cases with an id each that no other of their tier has: by default the prompt to be routed, else their number."""
    taken: set[str] = set()
    result = []
    for number, case in enumerate(cases, start=1):
        prompt = case.prompt if isinstance(case, RoutingCase) else ""
        # A number would change with each case that is added before it.
        name = base = case.id or " ".join(prompt.split())[:_LONGEST_ID] or str(number)
        count = 1
        while name in taken:
            count += 1
            name = f"{base} ({count})"
        taken.add(name)
        result.append(replace(case, id=name))
    return tuple(result)
