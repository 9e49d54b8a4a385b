"""Tools made of functions: their schemas, and the values they get."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NewType, NotRequired, TypedDict

import anyio
import pytest

from metier.errors import InvalidArgument
from metier.tools import Executor, FunctionTool, Tool, ToolRegistry
from metier.tools.function import tool

Path = NewType("Path", str)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Shape(enum.Enum):
    ROUND = (1, 2)
    FLAT = (3, 4)


@dataclass(frozen=True)
class Point:
    x: float
    y: float = 0.0
    marks: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Line:
    start: Point
    colour: Colour = Colour.RED


@dataclass
class Loop:
    inner: Loop | None = None


class Options(TypedDict):
    deep: bool
    point: NotRequired[Point]


class Model:
    """Looks like a pydantic model."""

    def __init__(self, value: int) -> None:
        self.value = value

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {"value": {"$ref": "#/$defs/Value"}},
            "required": ["value"],
            "$defs": {"Value": {"type": "integer", "maximum": 9}},
        }

    @classmethod
    def model_validate(cls, given: dict[str, Any]) -> Model:
        return cls(given["value"])


def schema(annotation: Any) -> Any:
    """The schema of a parameter with an annotation."""

    def function(given: Any) -> None: ...

    function.__annotations__["given"] = annotation
    return FunctionTool(function).parameters["properties"]["given"]


POINT = {
    "type": "object",
    "properties": {
        "x": {"type": "number"},
        "y": {"type": "number"},
        "marks": {"type": "array", "items": {"type": "string"}},
    },
    "additionalProperties": False,
    "required": ["x"],
}


@pytest.mark.each(
    ("annotation", "expected"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (Any, {}),
        ("str", {"type": "string"}),
        (list, {"type": "array", "items": {}}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Sequence[str], {"type": "array", "items": {"type": "string"}}),
        (set[str], {"type": "array", "items": {"type": "string"}}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (tuple[int, int], {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}),
        (
            tuple[int, str],
            {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
        ),
        (dict, {"type": "object"}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Mapping[str, Any], {"type": "object"}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a", 1, None], {"type": ["string", "integer", "null"], "enum": ["a", 1, None]}),
        (Colour, {"type": "string", "enum": ["red", "blue"]}),
        (Shape, {"type": "string", "enum": ["ROUND", "FLAT"]}),
        (int | None, {"type": ["integer", "null"]}),
        (int | str | None, {"type": ["integer", "string", "null"]}),
        (list[str] | str, {"type": ["array", "string"], "items": {"type": "string"}}),
        (Literal["a"] | None, {"type": ["string", "null"], "enum": ["a", None]}),
        (Colour | int, {"anyOf": [{"type": "string", "enum": ["red", "blue"]}, {"type": "integer"}]}),
        (list[int] | tuple[str, ...], {"anyOf": [
            {"type": "array", "items": {"type": "integer"}}, {"type": "array", "items": {"type": "string"}},
        ]}),
        (Annotated[int, "How many."], {"type": "integer", "description": "How many."}),
        (list[Annotated[str, 3, "One."]], {"type": "array", "items": {"type": "string", "description": "One."}}),
        (Path, {"type": "string"}),
        (Point, POINT),
        (Options, {"type": "object", "properties": {"deep": {"type": "boolean"}, "point": POINT},
                   "additionalProperties": False, "required": ["deep"]}),
    ],
)  # fmt: skip
def test_annotations_become_schemas(annotation: Any, expected: dict[str, Any]) -> None:
    assert schema(annotation) == expected


@pytest.mark.each(
    "annotation",
    [bytes, object(), Callable[[], int], dict[int, str], Literal[b"x"], Loop, complex, [int], "Missing", range, type],
)
def test_an_annotation_without_a_schema_is_refused_with_the_way_out(annotation: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"given|function") as caught:
        schema(annotation)
    assert "`parameters=`" in caught.value.hint


def test_texts_come_from_the_docstring_and_defaults_are_not_required() -> None:
    def search(
        words: str, limit: int = 5, colour: Colour = Colour.BLUE, where: Point | None = None, odd: Any = print
    ) -> None:
        """Search for words
        everywhere.

        Not this.

        Args:
            words: What to look for.
            limit: How many
                to find.
        """

    made = FunctionTool(search)
    assert made.name == "search"
    assert made.description == "Search for words everywhere."
    assert made.parameters["required"] == ["words"]
    assert made.parameters["additionalProperties"] is False
    properties = made.parameters["properties"]
    assert properties["words"] == {"type": "string", "description": "What to look for."}
    assert properties["limit"] == {"type": "integer", "description": "How many to find.", "default": 5}
    assert properties["colour"] == {"type": "string", "enum": ["red", "blue"], "default": "blue"}
    assert properties["where"]["default"] is None
    assert properties["odd"] == {}


def test_a_note_in_the_annotation_wins_over_the_docstring() -> None:
    def search(words: Annotated[str, "From the annotation."]) -> None:
        """Search.

        :param words: From the docstring.
        """

    assert FunctionTool(search).parameters["properties"]["words"]["description"] == "From the annotation."


def called(function: Callable[..., Any], arguments: Any, **options: Any) -> Any:
    made = FunctionTool(function, **{"name": "it", **options})
    result = Executor(ToolRegistry([made])).execute_blocking("it", arguments)
    return result.result if result.success else (result.code, result.error)


@pytest.mark.each(
    ("annotation", "given", "value"),
    [
        (int, 3.0, 3),
        (float, 3, 3.0),
        (Colour, "blue", Colour.BLUE),
        (Shape, "FLAT", Shape.FLAT),
        (set[int], [1, 1, 2], {1, 2}),
        (frozenset, [1], frozenset({1})),
        (tuple[int, ...], [1, 2], (1, 2)),
        (tuple[int, Colour], [1, "red"], (1, Colour.RED)),
        (list[Colour], ["red"], [Colour.RED]),
        (dict[str, Colour], {"a": "red"}, {"a": Colour.RED}),
        (Colour | None, None, None),
        (Colour | None, "red", Colour.RED),
        (Colour | int, 3, 3),
        (Point, {"x": 1, "marks": ["a"]}, Point(1.0, marks={"a"})),
        (Point | None, {"x": 1}, Point(1.0)),
        (Line, {"start": {"x": 1}, "colour": "blue"}, Line(Point(1.0), Colour.BLUE)),
        (Options, {"deep": True, "point": {"x": 1}}, {"deep": True, "point": Point(1.0)}),
        (Line | Point, {"x": 2}, Point(2.0)),
    ],
)
def test_values_are_what_the_annotation_says(annotation: Any, given: Any, value: Any) -> None:
    seen: list[Any] = []

    def function(given: Any) -> None:
        seen.append(given)

    function.__annotations__["given"] = annotation
    assert called(function, {"given": given}) is None
    assert seen == [value]
    assert type(seen[0]) is type(value)


def test_models_make_their_own_schema_and_values() -> None:
    def function(one: Model, more: list[Model] | None = None) -> int:
        return one.value + sum(model.value for model in more or [])

    assert FunctionTool(function).parameters["$defs"] == {"Value": {"type": "integer", "maximum": 9}}
    assert called(function, {"one": {"value": 3}, "more": [{"value": 4}]}) == 7
    assert called(function, {"one": {"value": 10}})[0] == "invalid-arguments"


def test_real_pydantic_models_work() -> None:
    pydantic = pytest.importorskip("pydantic")
    inner = pydantic.create_model("Inner", value=(int, 1))
    outer = pydantic.create_model("Outer", inner=(inner, ...))

    def function(given: Any) -> int:
        value: int = given.inner.value
        return value

    function.__annotations__["given"] = outer
    assert called(function, {"given": {"inner": {"value": 5}}}) == 5
    assert called(function, {"given": {"inner": {"value": "x"}}})[0] == "invalid-arguments"


def test_a_value_that_its_class_refuses_is_a_bad_argument() -> None:
    @dataclass
    class Even:
        number: int

        def __post_init__(self) -> None:
            if self.number % 2:
                raise ValueError("odd")

    def function(given: Any) -> None: ...

    function.__annotations__["given"] = Even
    code, error = called(function, {"given": {"number": 3}})
    assert code == "invalid-argument"
    assert "'given' does not fit: ValueError: odd" in error


def test_functions_of_every_kind_can_be_tools() -> None:
    class Adder:
        def __call__(self, a: int) -> int:
            return a + 1

        def method(self, a: int) -> int:
            return a + 2

        @classmethod
        def of(cls, a: int) -> int:
            return a + 3

    class Later:
        async def __call__(self, a: int) -> int:
            return a + 4

    async def later(a: int) -> int:
        await anyio.lowlevel.checkpoint()
        return a + 5

    def positional(a: int, b: int = 5, /, *, c: int = 7) -> int:
        return a * 100 + b * 10 + c

    def awaited(a: int) -> Any:
        return later(a)

    cases: list[tuple[Callable[..., Any], int]] = [
        (Adder(), 2),
        (Adder().method, 3),
        (Adder.of, 4),
        (Later(), 5),
        (later, 6),
        (functools.partial(later), 6),
        (awaited, 6),
        (positional, 157),
        (functools.partial(positional, 1), 117),
    ]
    for function, value in cases:
        arguments = {"b": 1} if isinstance(function, functools.partial) and function.args else {"a": 1}
        assert called(function, arguments) == value
    assert called(positional, {"a": 1, "c": 2}) == 152


def test_what_takes_any_arguments_needs_a_schema() -> None:
    def some(*args: int) -> None: ...

    def more(**options: int) -> dict[str, int]:
        return options

    for function in (some, more):
        with pytest.raises(InvalidArgument, match="no schema can name"):
            FunctionTool(function)
    parameters = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert called(more, {"a": 1}, parameters=parameters) == {"a": 1}


@pytest.mark.each(
    "options", [{"name": "a b"}, {"timeout": 0}, {"timeout": -1}, {"timeout": float("nan")}, {"parameters": {}}]
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        FunctionTool(lambda: None, **{"name": "it", **options})


def test_a_function_without_a_name_needs_one() -> None:
    with pytest.raises(InvalidArgument, match="no name for a tool"):
        FunctionTool(lambda: None)
    with pytest.raises(InvalidArgument, match="cannot be called"):
        FunctionTool("no function")  # type: ignore[arg-type]


def test_the_decorator_makes_a_tool_that_can_still_be_called() -> None:
    @tool
    def double(number: int) -> int:
        """Double it."""
        return number * 2

    @tool(name="thrice", timeout=None)
    def triple(number: int) -> int:
        """Triple it."""
        return number * 3

    assert isinstance(double, FunctionTool)
    assert isinstance(double, Tool)
    assert (double.name, double.description, double(4)) == ("double", "Double it.", 8)
    assert (triple.name, triple.timeout, triple(4)) == ("thrice", None, 12)


def test_a_function_that_ends_the_program_ends_only_itself() -> None:
    def leave() -> None:
        raise SystemExit(3)

    code, error = called(leave, {})
    assert code == "tool-failed"
    assert "ended itself with 3" in error
