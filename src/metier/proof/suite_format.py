"""Our own format of test suites: each case checked against the JSON Schema, and made into plain data."""

from __future__ import annotations

import functools
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from metier._suggest import did_you_mean
from metier.proof.linear_regex import regex_problem
from metier.proof.suite import (
    Assertion,
    BehaviourCase,
    CalibrationCase,
    Environment,
    Mock,
    ModelStep,
    RoutingCase,
    RuleCase,
    ScriptCase,
    TextMatch,
)
from metier.proof.suite_files import SuiteProblem, fits, input_path, relative_path
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from metier.proof.suite import AssertionKind
    from metier.proof.suite_files import SuiteSource

SCHEMA = Path(__file__).parent / "suite.schema.json"
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
    for flaw in _validator("").iter_errors(settings):
        place = [*flaw.instance_path] or [*flaw.kind.value[:1]]
        source.note(_explain(flaw), *place)
        settings.pop(str(place[0]), None)
    cases = []
    for section, items in ((key, value[key]) for key in SECTIONS if key in value):
        if not isinstance(items, list):
            source.note(f"`{section}` is a list of cases.", section)
            continue
        for number, item in enumerate(items):
            cases.append(build_case(source, section, item, section, number))
    return settings, [case for case in cases if case is not None]


def build_case(source: SuiteSource, section: str, value: Any, *at: object) -> AnyCase | None:
    """A case of our own format; None, with a note, for one that cannot be used."""
    if isinstance(value, dict) and "query" in value and "prompt" not in value and section == "routing":
        value = {"prompt" if key == "query" else key: one for key, one in value.items()}
    flaws = list(_validator(SECTIONS[section]).iter_errors(value))
    if flaws:
        # A key that is misspelt is missing, too: the misspelling says more.
        flaw = min(flaws, key=lambda one: one.kind.name != "additionalProperties")
        unknown = flaw.kind.value[:1] if flaw.kind.name == "additionalProperties" else ()
        source.note(_explain(flaw), *at, *flaw.instance_path, *unknown)
        return None
    try:
        return _BUILDERS[section](value, str(value.get("id", value.get("name", ""))), _PartReader(source, at))
    except SuiteProblem as problem:
        source.note(str(problem), *at)
        return None


@functools.cache
def schema() -> dict[str, Any]:
    """The JSON Schema of a suite."""
    return cast("dict[str, Any]", json.loads(SCHEMA.read_text(encoding="utf-8")))


@functools.cache
def _validator(definition: str) -> Any:
    """A validator of one kind of case; without a name, of the settings around them."""
    import jsonschema_rs

    part = {"$ref": f"#/$defs/{definition}"} if definition else {**schema()}
    return jsonschema_rs.validator_for({**part, "$defs": schema()["$defs"]})


def _explain(flaw: Any) -> str:
    """A problem that the schema finds, in a sentence."""
    match flaw.kind.name:
        case "additionalProperties":
            name = str(flaw.kind.value[0])
            known = _at_path(flaw.schema_path[:-1]).get("properties", {})
            listed = f"There are {', '.join(f'`{one}`' for one in known)}." if len(known) < 12 else ""
            return f"There is no key {shown(name, 60)!r} here. {did_you_mean(name, known) or listed}".strip()
        case "required" | "anyOf":
            return f"`{flaw.kind.value if flaw.kind.name == 'required' else 'prompt'}` is missing."
        case "type":
            return f"It must be {_type_names(flaw.kind.types)}, not {shown(json.dumps(flaw.instance), 60)}."
        case "enum":
            return f"It cannot be {shown(json.dumps(flaw.instance), 60)}: write one of {', '.join(flaw.kind.options)}."
        case _:
            return f"It cannot be like that: {shown(flaw.message, 200)}."


def _type_names(types: Iterable[str]) -> str:
    words = {"object": "a mapping", "array": "a list", "string": "a text", "boolean": "true or false"}
    return " or ".join(words.get(one, f"a {one}") for one in types)


def _at_path(path: Iterable[object]) -> dict[str, Any]:
    part: Any = schema()
    for step in path:
        part = part[step]
    return cast("dict[str, Any]", part)


class _PartReader:
    """Makes the parts of one case; problems with files are noted, and other ones raise `SuiteProblem`."""

    def __init__(self, source: SuiteSource, at: tuple[object, ...]) -> None:
        self._source = source
        self._at = at

    def environment(self, value: Mapping[str, Any]) -> Environment:
        """The surroundings that a case says."""
        return Environment(
            files=self._files(value.get("files", ())),
            mocks=tuple(self._mock(mock) for mock in value.get("mocks", ())),
            now=_moment(value["now"]) if "now" in value else "",
            env={name: str(one) for name, one in value.get("env", {}).items()},
            mcp={name: self._server(server) for name, server in value.get("mcp", {}).items()},
            network=tuple(value.get("network", ())),
        )

    def _files(self, value: Mapping[str, Any] | Iterable[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        entries = value.items() if isinstance(value, dict) else [(None, {"from": path}) for path in value]
        for target, content in entries:
            try:
                for path, data in self._copies(target, content):
                    if path not in found and not fits(path, found):
                        raise SuiteProblem(f"{shown(path, 100)!r} is a file and a folder at once.")
                    found[path] = data
            except SuiteProblem as problem:
                self._source.note(str(problem), *self._at, "files")
        return found

    def _copies(self, target: str | None, content: str | Mapping[str, str]) -> Iterable[tuple[str, bytes]]:
        if isinstance(content, str):
            yield relative_path(target or ""), content.encode()
            return
        top, origins = self._source.files.locate(content["from"], self._source.folder)
        begin = input_path(top, self._source.folder) if target is None else relative_path(target)
        for origin in origins:
            yield (begin + origin.removeprefix(top)).lstrip("/"), self._source.files.read(origin)

    def _file(self, path: str) -> str:
        return self._source.files.locate(path, self._source.folder)[1][0]

    def _function(self, text: str) -> str:
        path, _, name = text.partition(":")
        return f"{self._file(path)}:{name}" if text else ""

    def _mock(self, value: Mapping[str, Any]) -> Mock:
        return Mock(
            tool=value["tool"],
            arguments=_matches(value),
            result=_result_text(value.get("result", "")),
            error=value.get("error", ""),
            function=self._function(value.get("function", "")),
            description=value.get("description", ""),
            schema=value.get("schema"),
        )

    def _server(self, value: Mapping[str, Any]) -> tuple[Mock, ...]:
        """The tools of an MCP server, from the case or from a file."""
        if "from" in value:
            value = self._server_file(value["from"])
        return tuple(self._mock({**tool, "tool": name}) for name, tool in value["tools"].items())

    def _server_file(self, path: str) -> Mapping[str, Any]:
        found = self._file(path)
        value = type(self._source)(path=found, data=self._source.files.read(found), files=self._source.files).value()
        flaw = next(_validator("server").iter_errors(value), None)
        if flaw is not None or "from" in value:
            raise SuiteProblem(f"{shown(path, 200)} is no file of `tools`{f': {_explain(flaw)}' if flaw else '.'}")
        return cast("dict[str, Any]", value)


def _result_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _moment(text: str) -> str:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise SuiteProblem(f"{shown(text, 60)!r} is no moment such as 2026-01-31T12:00:00Z.") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(one) for one in (value if isinstance(value, list) else [value]))


def text_match(value: Any) -> TextMatch:
    """Conditions on a text; raises `SuiteProblem` for an expression that cannot be searched for.

    >>> text_match("2 columns")
    TextMatch(contains=('2 columns',), excludes=(), regex=(), equals=None, json=None)
    """
    if not isinstance(value, dict):
        return TextMatch(contains=_texts(value))
    regexes = _texts(value.get("regex", []))
    for regex in regexes:
        if problem := regex_problem(regex):
            raise SuiteProblem(f"The expression {shown(regex, 80)!r} {problem}.")
    return TextMatch(
        contains=_texts(value.get("contains", [])),
        excludes=_texts(value.get("excludes", [])),
        regex=regexes,
        equals=str(value["equals"]) if "equals" in value else None,
        json=value.get("json"),
    )


def _matches(value: Mapping[str, Any]) -> dict[str, TextMatch]:
    return {name: text_match(one) for name, one in value.get("arguments", {}).items()}


def _assertions(value: Mapping[str, Any]) -> tuple[Assertion, ...]:
    """The assertions of a case: a sentence is one, and a mapping is one for each of its keys."""
    return tuple(
        _assertion(cast("AssertionKind", kind), one)
        for item in (*value.get("assertions", ()), *value.get("expectations", ()))
        for kind, one in ({"text": item} if isinstance(item, str) else item).items()
    )


def _assertion(kind: AssertionKind, value: Any) -> Assertion:
    if kind in ("answer", "stdout", "stderr"):
        return Assertion(kind=kind, match=text_match(value))
    if kind in ("called", "not-called", "refused"):
        call = {"tool": value} if isinstance(value, str) else value
        return Assertion(kind=kind, target=call["tool"], arguments=_matches(call))
    if kind in ("exit", "tokens", "seconds"):
        return Assertion(kind=kind, value=value)
    if kind == "changed-only":
        return Assertion(kind=kind, paths=tuple(relative_path(path) for path in _texts(value)))
    if kind == "file" and isinstance(value, dict):
        match = text_match({key: one for key, one in value.items() if key != "path"})
        return Assertion(kind=kind, target=relative_path(value["path"]), match=match)
    if kind in ("file", "no-file", "unchanged"):
        return Assertion(kind=kind, target=relative_path(value))
    if kind == "judge" and isinstance(value, dict):
        files = tuple(relative_path(path) for path in value.get("files", ()))
        return Assertion(kind=kind, target=value["sentence"], paths=files)
    return Assertion(kind=kind, target="" if kind == "skill-read" else value)


def _steps(value: Iterable[Mapping[str, Any]]) -> tuple[ModelStep, ...]:
    return tuple(
        ModelStep(
            say=step.get("say", ""),
            calls=tuple((call["tool"], call.get("arguments", {})) for call in step.get("calls", ())),
        )
        for step in value
    )


def _routing(value: Mapping[str, Any], name: str, _: _PartReader) -> RoutingCase:
    return RoutingCase(id=name, prompt=value["prompt"], should_trigger=value["should_trigger"], top=value.get("top", 3))


def _script(value: Mapping[str, Any], name: str, read: _PartReader) -> ScriptCase:
    return ScriptCase(
        id=name,
        script=relative_path(value["script"]),
        args=_texts(value.get("args", [])),
        stdin=value.get("stdin", ""),
        environment=read.environment(value),
        assertions=_assertions(value),
        timeout=value.get("timeout", 30.0),
    )


def _rule(value: Mapping[str, Any], name: str, _: _PartReader) -> RuleCase:
    return RuleCase(
        id=name, tool=value["tool"], arguments=value.get("arguments", {}), expect=value.get("expect", "allow")
    )


def _behaviour(value: Mapping[str, Any], name: str, read: _PartReader) -> BehaviourCase:
    return BehaviourCase(
        id=name,
        prompt=value["prompt"],
        expected_output=value.get("expected_output", ""),
        environment=read.environment(value),
        assertions=_assertions(value),
        steps=_steps(value.get("steps", ())),
        steps_without=_steps(value.get("steps_without", ())),
        max_turns=value.get("max_turns", 30),
        timeout=value.get("timeout", 300.0),
    )


def _calibration(value: Mapping[str, Any], _: str, __: _PartReader) -> CalibrationCase:
    return CalibrationCase(**value)


_BUILDERS: dict[str, Callable[[Mapping[str, Any], str, _PartReader], AnyCase]] = {
    "routing": _routing,
    "scripts": _script,
    "rules": _rule,
    "evals": _behaviour,
    "calibration": _calibration,
}
