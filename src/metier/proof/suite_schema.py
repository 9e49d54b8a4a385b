"""The JSON Schema of test suites, and its complaints in words."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from metier._suggest import did_you_mean
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

SCHEMA = Path(__file__).parent / "suite.schema.json"


@functools.cache
def schema() -> dict[str, Any]:
    """The JSON Schema of a suite."""
    return cast("dict[str, Any]", json.loads(SCHEMA.read_text(encoding="utf-8")))


@functools.cache
def schema_validator(definition: str) -> Any:
    """A validator of one kind of case; without a name, of the settings around them."""
    import jsonschema_rs

    part = {"$ref": f"#/$defs/{definition}"} if definition else {**schema()}
    return jsonschema_rs.validator_for({**part, "$defs": schema()["$defs"]})


def explain_flaw(flaw: Any) -> str:
    """A problem that the schema finds, in a sentence."""
    match flaw.kind.name:
        case "additionalProperties":
            name = str(flaw.kind.value[0])
            known = _schema_part(flaw.schema_path[:-1]).get("properties", {})
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


def _schema_part(path: Iterable[object]) -> dict[str, Any]:
    part: Any = schema()
    for step in path:
        part = part[step]
    return cast("dict[str, Any]", part)
