"""The parts of a case in our own format: its surroundings and its assertions, as plain data."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from metier.proof.suite import Assertion, Environment, Mock, TextMatch
from metier.proof.suite_files import SuiteProblem, fits, input_path, relative_path
from metier.proof.suite_schema import explain_flaw, schema_validator
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from metier.proof.suite import AssertionKind
    from metier.proof.suite_files import SuiteSource


class PartReader:
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
            arguments=self._matches(value),
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
        flaw = next(schema_validator("server").iter_errors(value), None)
        if flaw is not None or "from" in value:
            raise SuiteProblem(f"{shown(path, 200)} is no file of `tools`{f': {explain_flaw(flaw)}' if flaw else '.'}")
        return cast("dict[str, Any]", value)

    def _match(self, value: Any) -> TextMatch:
        """Conditions on a text; raises `SuiteProblem` for an expression that cannot be searched for."""
        if not isinstance(value, dict):
            return TextMatch(contains=as_texts(value))
        regexes = as_texts(value.get("regex", []))
        for regex in regexes:
            if problem := self._source.files.regex_problem(regex):
                raise SuiteProblem(f"The expression {shown(regex, 80)!r} {problem}.")
        return TextMatch(
            contains=as_texts(value.get("contains", [])),
            excludes=as_texts(value.get("excludes", [])),
            regex=regexes,
            equals=str(value["equals"]) if "equals" in value else None,
            json=value.get("json"),
        )

    def _matches(self, value: Mapping[str, Any]) -> dict[str, TextMatch]:
        return {name: self._match(one) for name, one in value.get("arguments", {}).items()}

    def assertions(self, value: Mapping[str, Any]) -> tuple[Assertion, ...]:
        """The assertions of a case: a sentence is one, and a mapping is one for each of its keys."""
        return tuple(
            self._assertion(cast("AssertionKind", kind), one)
            for item in (*value.get("assertions", ()), *value.get("expectations", ()))
            for kind, one in ({"text": item} if isinstance(item, str) else item).items()
        )

    def _assertion(self, kind: AssertionKind, value: Any) -> Assertion:
        if kind in ("answer", "stdout", "stderr"):
            return Assertion(kind=kind, match=self._match(value))
        if kind in ("called", "not-called", "refused"):
            call = {"tool": value} if isinstance(value, str) else value
            return Assertion(kind=kind, target=call["tool"], arguments=self._matches(call))
        if kind in ("exit", "tokens", "seconds"):
            return Assertion(kind=kind, value=value)
        if kind == "changed-only":
            return Assertion(kind=kind, paths=tuple(relative_path(path) for path in as_texts(value)))
        if kind == "file" and isinstance(value, dict):
            match = self._match({key: one for key, one in value.items() if key != "path"})
            return Assertion(kind=kind, target=relative_path(value["path"]), match=match)
        if kind in ("file", "no-file", "unchanged"):
            return Assertion(kind=kind, target=relative_path(value))
        if kind == "judge" and isinstance(value, dict):
            files = tuple(relative_path(path) for path in value.get("files", ()))
            return Assertion(kind=kind, target=value["sentence"], paths=files)
        return Assertion(kind=kind, target="" if kind == "skill-read" else value)


def _result_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _moment(text: str) -> str:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise SuiteProblem(f"{shown(text, 60)!r} is no moment such as 2026-01-31T12:00:00Z.") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()


def as_texts(value: Any) -> tuple[str, ...]:
    return tuple(str(one) for one in (value if isinstance(value, list) else [value]))
