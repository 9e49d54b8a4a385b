"""Our own format of test suites: each case checked against the JSON Schema, and made into plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from metier.proof.suite import BehaviourCase, CalibrationCase, ModelStep, RoutingCase, RuleCase, ScriptCase
from metier.proof.suite_files import SuiteProblem, relative_path
from metier.proof.suite_parts import PartReader, as_texts
from metier.proof.suite_schema import explain_flaw, schema_validator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from metier.proof.suite_files import SuiteSource

MAX_CASES = 2_000
"""Of one suite; others are left out."""
SECTIONS = {
    "routing": "routing",
    "scripts": "script",
    "rules": "rule",
    "evals": "behaviour",
    "calibration": "calibration",
}
"""The lists of a suite, each with the definition of its items in the schema."""
AnyCase: TypeAlias = RoutingCase | ScriptCase | RuleCase | BehaviourCase | CalibrationCase


def read_own_format(source: SuiteSource, value: Any) -> tuple[dict[str, Any], list[AnyCase]]:
    """The settings and the cases of a file in our own format; what is wrong is noted, and left out."""
    if not isinstance(value, dict):
        source.note("A suite is a mapping, with `routing`, `scripts`, `rules` or `evals` in it.")
        return {}, []
    settings = {key: one for key, one in value.items() if key not in SECTIONS}
    for flaw in schema_validator("").iter_errors(settings):
        place = [*flaw.instance_path] or [*flaw.kind.value[:1]]
        source.note(explain_flaw(flaw), *place)
        settings.pop(str(place[0]), None)
    cases = []
    for section, items in ((key, value[key]) for key in SECTIONS if key in value):
        if not isinstance(items, list):
            source.note(f"`{section}` is a list of cases.", section)
            continue
        for number, item in enumerate(items[: MAX_CASES + 1]):
            cases.append(build_case(source, section, item, section, number))
    return settings, [case for case in cases if case is not None]


def build_case(source: SuiteSource, section: str, value: Any, *at: object) -> AnyCase | None:
    """A case of our own format; None, with a note, for one that cannot be used."""
    if isinstance(value, dict) and "query" in value and "prompt" not in value and section == "routing":
        value = {"prompt" if key == "query" else key: one for key, one in value.items()}
    flaws = list(schema_validator(SECTIONS[section]).iter_errors(value))
    if flaws:
        # A key that is misspelt is missing, too: the misspelling says more.
        flaw = min(flaws, key=lambda one: one.kind.name != "additionalProperties")
        unknown = flaw.kind.value[:1] if flaw.kind.name == "additionalProperties" else ()
        source.note(explain_flaw(flaw), *at, *flaw.instance_path, *unknown)
        return None
    try:
        return _BUILDERS[section](value, str(value.get("id", value.get("name", ""))), PartReader(source, at))
    except SuiteProblem as problem:
        source.note(str(problem), *at)
        return None


def _steps(value: Iterable[Mapping[str, Any]]) -> tuple[ModelStep, ...]:
    return tuple(
        ModelStep(
            say=step.get("say", ""),
            calls=tuple((call["tool"], call.get("arguments", {})) for call in step.get("calls", ())),
        )
        for step in value
    )


def _routing(value: Mapping[str, Any], name: str, _: PartReader) -> RoutingCase:
    return RoutingCase(id=name, prompt=value["prompt"], should_trigger=value["should_trigger"], top=value.get("top", 3))


def _script(value: Mapping[str, Any], name: str, read: PartReader) -> ScriptCase:
    return ScriptCase(
        id=name,
        script=relative_path(value["script"]),
        args=as_texts(value.get("args", [])),
        stdin=value.get("stdin", ""),
        environment=read.environment(value),
        assertions=read.assertions(value),
        timeout=value.get("timeout", 30.0),
    )


def _rule(value: Mapping[str, Any], name: str, _: PartReader) -> RuleCase:
    return RuleCase(
        id=name, tool=value["tool"], arguments=value.get("arguments", {}), expect=value.get("expect", "allow")
    )


def _behaviour(value: Mapping[str, Any], name: str, read: PartReader) -> BehaviourCase:
    return BehaviourCase(
        id=name,
        prompt=value["prompt"],
        expected_output=value.get("expected_output", ""),
        environment=read.environment(value),
        assertions=read.assertions(value),
        steps=_steps(value.get("steps", ())),
        steps_without=_steps(value.get("steps_without", ())),
        max_turns=value.get("max_turns", 30),
        timeout=value.get("timeout", 300.0),
    )


def _calibration(value: Mapping[str, Any], _: str, __: PartReader) -> CalibrationCase:
    return CalibrationCase(**value)


_BUILDERS: dict[str, Callable[[Mapping[str, Any], str, PartReader], AnyCase]] = {
    "routing": _routing,
    "scripts": _script,
    "rules": _rule,
    "evals": _behaviour,
    "calibration": _calibration,
}
