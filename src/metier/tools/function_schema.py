"""JSON schemas and descriptions of a function's parameters, from its annotations and docstring."""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import functools
import inspect
import re
import types
import typing
from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass, field
from metier.tools.arguments import compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jsonschema_rs import Validator


_SCALARS: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_LISTS = (list, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)
_SETS = {set: set, frozenset: frozenset, collections.abc.Set: frozenset}
_MAPS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_MAX_DEPTH = 12


class UnknownAnnotation(Exception):
    """An annotation that has no JSON schema; its text says which part of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The shape of a value: its JSON schema, and how the value is made of plain JSON."""

    schema: dict[str, Any]
    convert: Callable[[Any], Any] | None = None
    """None: the JSON value is the value."""
    definitions: Mapping[str, Any] = field(default_factory=dict)
    """The definitions that the schema refers to as `#/$defs/...`."""

    def made(self, value: Any) -> Any:
        """The value that an annotation names, from plain JSON that fits the schema."""
        return value if self.convert is None else self.convert(value)


def form_of(annotation: Any, depth: int = 0) -> Form:
    """The form of an annotation; raises `UnknownAnnotation`.

    >>> from typing import Literal, Optional
    >>> form_of(Optional[list[int]]).schema
    {'type': ['array', 'null'], 'items': {'type': 'integer'}}
    >>> form_of(Literal["fast", "slow"]).schema
    {'type': 'string', 'enum': ['fast', 'slow']}
    """
    if depth > _MAX_DEPTH:
        raise UnknownAnnotation("a type that contains itself")
    if annotation in (Any, inspect.Parameter.empty, object):
        return Form(schema={})
    if annotation is None:
        annotation = type(None)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _described(form_of(arguments[0], depth), annotation.__metadata__)
    if origin in (typing.Required, typing.NotRequired) or (
        origin is not None and origin is getattr(typing, "ReadOnly", 0)
    ):
        return form_of(arguments[0], depth)
    if isinstance(annotation, typing.NewType):
        return form_of(annotation.__supertype__, depth)
    if hasattr(annotation, "__value__") and type(annotation).__name__ == "TypeAliasType":
        return form_of(annotation.__value__, depth + 1)
    if origin is typing.Literal:
        return Form(schema=_enumerated(list(arguments), annotation))
    if origin in (typing.Union, types.UnionType):
        return _union([form_of(arm, depth + 1) for arm in arguments])
    if not _is_hashable(annotation):
        raise UnknownAnnotation(repr(annotation)[:200])
    if annotation in _SCALARS:
        converts: dict[Any, Callable[[Any], Any]] = {int: int, float: float}
        # JSON does not tell 3 from 3.0; Python does.
        return Form(schema={"type": _SCALARS[annotation]}, convert=converts.get(annotation))
    return _container(origin or annotation, arguments, depth) or _class_form(annotation, depth)


def _is_hashable(annotation: Any) -> bool:
    try:
        hash(annotation)
    except TypeError:
        return False
    return True


def _described(form: Form, notes: tuple[Any, ...]) -> Form:
    for note in notes:
        said = note if isinstance(note, str) else getattr(note, "description", None)
        if isinstance(said, str) and said:
            return dataclasses.replace(form, schema={**form.schema, "description": said})
    return form


def _enumerated(values: list[Any], annotation: Any) -> dict[str, Any]:
    if not values or not all(type(value) in _SCALARS for value in values):
        raise UnknownAnnotation(f"{annotation!r}, whose values are not all text, numbers, booleans or None")
    kinds = list(dict.fromkeys(_SCALARS[type(value)] for value in values))
    return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": values}


def _union(arms: list[Form]) -> Form:
    convert = _first_that_fits(arms) if any(arm.convert for arm in arms) else None
    return Form(schema=_flat([arm.schema for arm in arms]), convert=convert, definitions=together(arms))


def _flat(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    """One schema for any of several, as a list of types where that says the same, since many models take no more."""
    kinds: list[str] = []
    merged: dict[str, Any] = {}
    options: list[Any] = []
    for schema in schemas:
        kind = schema.get("type")
        own = [kind] if isinstance(kind, str) else list(kind or ())
        rest = {key: value for key, value in schema.items() if key not in ("type", "enum")}
        if not own or not merged.keys().isdisjoint(rest) or not set(kinds).isdisjoint(own):
            return {"anyOf": schemas}
        kinds += own
        merged |= rest
        options += schema.get("enum", [None] if own == ["null"] else [])
    closed = [schema for schema in schemas if "enum" in schema]
    if not closed:
        return {"type": kinds, **merged}
    if all("enum" in schema or schema == {"type": "null"} for schema in schemas):
        return {"type": kinds, "enum": options, **merged}
    return {"anyOf": schemas}


def _first_that_fits(arms: list[Form]) -> Callable[[Any], Any]:
    @functools.cache
    def validators() -> list[Validator]:
        return [compiled({**arm.schema, "$defs": dict(arm.definitions)}) for arm in arms]

    def convert(value: Any) -> Any:
        fitting = (arm for arm, validator in zip(arms, validators(), strict=True) if validator.is_valid(value))
        arm = next(fitting, None)
        return value if arm is None else arm.made(value)

    return convert


def together(forms: collections.abc.Iterable[Form]) -> dict[str, Any]:
    """The definitions of several forms; raises `UnknownAnnotation` when two of them share a name and differ."""
    definitions: dict[str, Any] = {}
    for form in forms:
        for name, schema in form.definitions.items():
            if definitions.setdefault(name, schema) != schema:
                raise UnknownAnnotation(f"two different types named {name}")
    return definitions


def _container(kind: Any, arguments: tuple[Any, ...], depth: int) -> Form | None:
    if kind is tuple and arguments and arguments[-1] is not Ellipsis:
        return _fixed_tuple([form_of(item, depth + 1) for item in arguments if item != ()])
    if kind in _MAPS:
        key, value = arguments or (str, Any)
        if form_of(key, depth + 1).schema != {"type": "string"}:
            raise UnknownAnnotation("a dictionary whose keys are not text")
        inner = form_of(value, depth + 1)
        schema: dict[str, Any] = {"type": "object"}
        if inner.schema:
            schema["additionalProperties"] = inner.schema
        return Form(
            schema=schema,
            convert=None if inner.convert is None else lambda given: {k: inner.made(v) for k, v in given.items()},
            definitions=inner.definitions,
        )
    if kind not in _LISTS and kind not in _SETS and kind is not tuple:
        return None
    inner = form_of(arguments[0], depth + 1) if arguments else Form(schema={})
    make: Callable[[Any], Any] = list if kind in _LISTS else tuple if kind is tuple else _SETS[kind]
    plain = make is list and inner.convert is None
    return Form(
        schema={"type": "array", "items": inner.schema},
        convert=None if plain else lambda given: make(inner.made(item) for item in given),
        definitions=inner.definitions,
    )


def _fixed_tuple(items: list[Form]) -> Form:
    schemas = [item.schema for item in items]
    alike = all(schema == schemas[0] for schema in schemas)
    schema = {"items": schemas[0] if schemas else {}} if alike else {"prefixItems": schemas}
    return Form(
        schema={"type": "array", **schema, "minItems": len(items), "maxItems": len(items)},
        convert=lambda given: tuple(form.made(value) for form, value in zip(items, given, strict=True)),
        definitions=together(items),
    )


def _class_form(annotation: Any, depth: int) -> Form:
    if isinstance(annotation, type):
        if issubclass(annotation, enum.Enum):
            return _enumeration(annotation)
        if hasattr(annotation, "model_json_schema") and hasattr(annotation, "model_validate"):
            schema = dict(annotation.model_json_schema())
            return Form(schema=schema, definitions=schema.pop("$defs", {}), convert=annotation.model_validate)
        if dataclasses.is_dataclass(annotation):
            hints = _hints(annotation)
            fields = [part for part in dataclasses.fields(annotation) if part.init]
            optional = {
                part.name
                for part in fields
                if part.default is not dataclasses.MISSING or part.default_factory is not dataclasses.MISSING
            }
            forms = {part.name: form_of(hints[part.name], depth + 1) for part in fields}
            return _object(forms, optional, lambda values: annotation(**values))
        if typing.is_typeddict(annotation):
            hints = _hints(annotation)
            required: frozenset[str] = getattr(annotation, "__required_keys__", frozenset())
            # Where annotations are text, Python takes what says NotRequired for required.
            optional = {
                name
                for name, hint in hints.items()
                if typing.get_origin(hint) is typing.NotRequired
                or (name not in required and typing.get_origin(hint) is not typing.Required)
            }
            return _object({name: form_of(hint, depth + 1) for name, hint in hints.items()}, optional, dict)
    raise UnknownAnnotation(repr(annotation))


def _hints(annotation: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(annotation, include_extras=True)
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        raise UnknownAnnotation(f"{annotation!r} ({error})") from None


def _enumeration(kind: type[enum.Enum]) -> Form:
    members = list(kind)
    # Members whose values JSON cannot hold go by their names.
    by_value = all(type(member.value) in _SCALARS for member in members)
    named: dict[Any, enum.Enum] = {member.value if by_value else member.name: member for member in members}
    return Form(schema=_enumerated(list(named), kind), convert=lambda given: named[given])


def _object(forms: dict[str, Form], optional: set[str], make: Callable[[dict[str, Any]], Any]) -> Form:
    def convert(given: Any) -> Any:
        return make({name: forms[name].made(value) for name, value in given.items()})

    return Form(
        schema=object_schema({name: form.schema for name, form in forms.items()}, optional),
        convert=convert,
        definitions=together(forms.values()),
    )


def object_schema(properties: dict[str, Any], optional: collections.abc.Collection[str]) -> dict[str, Any]:
    """The JSON schema of an object with just these properties."""
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    required = [name for name in properties if name not in optional]
    return {**schema, "required": required} if required else schema


_SECTIONS = frozenset({"args", "arguments", "parameters", "params", "keyword args", "keyword arguments"})
_GOOGLE = re.compile(r"\*{0,2}(\w+)\s*(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?\s*:(?:\s+(.*))?$")
_NUMPY = re.compile(r"\*{0,2}(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?$")
_SPHINX = re.compile(r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)$")
_FIELD = re.compile(r":\w+[^:]*:")
_HEADING = re.compile(r"[A-Z][\w ]*:$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Docstring:
    """The parts of a docstring that a model needs."""

    summary: str = ""
    """The first paragraph, in one line."""
    parameters: Mapping[str, str] = field(default_factory=dict)


def parse_docstring(text: str | None) -> Docstring:
    """Read a docstring.

    >>> parse_docstring("Add numbers.\\n\\nArgs:\\n    a: The first.\\n    b (int): The second.\\n").parameters
    {'a': 'The first.', 'b': 'The second.'}
    """
    if not text:
        return Docstring()
    lines = inspect.cleandoc(text).splitlines()
    summary: list[str] = []
    for line in lines:
        if not line.strip() or _FIELD.match(line) or _is_section(line):
            break
        summary.append(line.strip())
    found: dict[str, list[str]] = {}
    for at, line in enumerate(lines):
        if match := _SPHINX.match(line.strip()):
            found[match[1]] = [match[2], *_continued(lines, at + 1, _indent(line))]
        elif _is_section(line):
            following = lines[at + 1] if at + 1 < len(lines) else ""
            if following.strip() and not following.strip().strip("-"):
                _read_numpy(lines, at + 2, found)
            elif line.rstrip().endswith(":"):
                _read_google(lines, at + 1, found)
    described = {name: " ".join(part.strip() for part in parts if part.strip()) for name, parts in found.items()}
    return Docstring(summary=" ".join(summary), parameters={name: said for name, said in described.items() if said})


def _is_section(line: str) -> bool:
    return line.strip().rstrip(":").lower() in _SECTIONS


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _continued(lines: list[str], at: int, indent: int) -> list[str]:
    """The lines that belong to the one before because they stand further in."""
    end = at
    while end < len(lines) and lines[end].strip() and _indent(lines[end]) > indent:
        end += 1
    return lines[at:end]


def _read_google(lines: list[str], at: int, found: dict[str, list[str]]) -> None:
    base: int | None = None
    while at < len(lines):
        line = lines[at]
        at += 1
        if not line.strip():
            continue
        indent = _indent(line)
        if indent == 0 or (base is not None and indent < base) or _HEADING.match(line):
            return
        base = indent if base is None else base
        if indent == base and (match := _GOOGLE.match(line.strip())):
            more = _continued(lines, at, indent)
            found[match[1]] = [match[2] or "", *more]
            at += len(more)


def _read_numpy(lines: list[str], at: int, found: dict[str, list[str]]) -> None:
    while at < len(lines):
        line = lines[at]
        following = lines[at + 1] if at + 1 < len(lines) else ""
        at += 1
        if following.strip() and not following.strip().strip("-="):
            return
        if line.strip() and _indent(line) == 0 and (match := _NUMPY.match(line)):
            more = _continued(lines, at, 0)
            for name in match[1].split(","):
                found[name.strip()] = more
            at += len(more)
