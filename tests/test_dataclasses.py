"""Our dataclasses are those of the standard library for every purpose but the time at which methods are compiled."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import re
import sys
import threading
import typing
from collections import OrderedDict
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest

from metier import _lazy as ours

MODULES: list[Any] = [ours, dataclasses]


@pytest.fixture(autouse=True, params=[0, 20], ids=["compiled", "few"])
def few_objects(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of objects that are made before `__init__` is compiled."""
    monkeypatch.setattr(ours, "_FEW_OBJECTS", request.param)


def example(module: Any, **options: Any) -> Any:
    """A class with every kind of field, made by one of the two modules."""

    @module.dataclass(**options)
    class Example:
        """An example."""

        first: int
        second: str = "two"
        third: list[int] = module.field(default_factory=list)
        secret: str = module.field(default="s", repr=False)
        noise: int = module.field(default=0, compare=False)
        total: int = module.field(default=7, init=False)
        many: dict[str, int] = module.field(default_factory=dict, init=False)
        kind: ClassVar[str] = "example"

        def double(self) -> int:
            return self.first * 2

    return Example


OPTIONS: list[dict[str, bool]] = [
    {},
    {"frozen": True},
    {"slots": True},
    {"eq": False},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "kw_only": True},
    {"slots": True, "kw_only": True, "eq": False},
]


def behaviour(cls: Any) -> list[Any]:
    """All that a program can see of a class and of its instances."""
    one, same, other = cls(first=1), cls(first=1), cls(first=2, third=[1], noise=3)
    seen: list[Any] = [repr(one), repr(other), one == same, one == other, one == 1, one.double(), cls.kind]
    seen += [cls.__match_args__, cls.__doc__, cls.__name__, hasattr(one, "__dict__")]
    seen += [dataclasses.is_dataclass(cls), hasattr(cls, "second"), cls.__hash__ is None, getattr(cls, "__slots__", 0)]
    for field in dataclasses.fields(cls):
        has_default = (field.default is not dataclasses.MISSING, field.default_factory is not dataclasses.MISSING)
        seen.append((field.name, field.type, *has_default, field.init, field.repr, field.compare, field.kw_only))
    if cls.__eq__ is not object.__eq__:
        seen += [dataclasses.replace(one, second="x") == cls(first=1, second="x"), copy.copy(one) == one]
        seen.append(copy.deepcopy(other) == other)
    seen += [dataclasses.asdict(other), dataclasses.astuple(other), cls(first=1).third is not cls(first=1).third]
    for attempt in (
        lambda: cls(),
        lambda: cls(1),
        lambda: cls(1, "x").second,
        lambda: cls(1, first=1),
        lambda: cls(*range(9)),
        lambda: cls(first=1, total=1),
        lambda: cls(first=1, unknown=1),
        lambda: setattr(one, "first", 3),
        lambda: delattr(one, "second"),
        lambda: isinstance(hash(cls(first=1, third=())), int),
    ):
        try:
            seen.append(repr(attempt()).partition(" object at")[0])
        except (TypeError, AttributeError) as error:
            seen.append((type(error), str(error)))
    return [*seen, str(inspect.signature(cls))]


@pytest.mark.each("options", OPTIONS, ids=str)
def test_a_class_behaves_as_one_of_the_standard_library(options: dict[str, bool]) -> None:
    mine, theirs = (behaviour(example(module, **options)) for module in MODULES)
    assert mine == theirs


def test_a_class_may_inherit_fields_and_check_its_values() -> None:
    def made(module: Any) -> Any:
        @module.dataclass(frozen=True, slots=True)
        class Base:
            first: int
            second: int = 2

        @module.dataclass(frozen=True, slots=True)
        class Below(Base):
            second: int = 3
            third: int = 4

            def __post_init__(self) -> None:
                if self.third < 0:
                    raise ValueError("third")

        return Below

    mine, theirs = map(made, MODULES)
    assert str(inspect.signature(mine)) == str(inspect.signature(theirs))
    assert (repr(mine(1)), mine.__slots__) == (repr(theirs(1)), theirs.__slots__)
    with pytest.raises(ValueError, match="third"):
        mine(1, third=-1)


def test_a_class_of_the_standard_library_may_inherit_from_one_of_ours() -> None:
    base = example(ours, frozen=True, kw_only=True)
    below: Any = dataclasses.dataclass(frozen=True, kw_only=True)(
        type("Below", (base,), {"__annotations__": {"more": "int"}})
    )
    assert ours.asdict(below(first=1, more=2)) == dataclasses.asdict(below(first=1, more=2))
    assert repr(below(first=1, more=2)) == "Below(first=1, second='two', third=[], noise=0, total=7, many={}, more=2)"


def test_methods_that_a_class_writes_out_stay() -> None:
    def made(module: Any) -> Any:
        @module.dataclass(frozen=True, slots=True)
        class Own:
            value: str

            def __eq__(self, other: object) -> bool:
                return isinstance(other, Own) and self.value.lower() == other.value.lower()

            def __hash__(self) -> int:
                return 1

            def __repr__(self) -> str:
                return "own"

        return Own

    for cls in map(made, MODULES):
        assert (cls("A") == cls("a"), hash(cls("A")), repr(cls("A"))) == (True, 1, "own")


@dataclasses.dataclass(frozen=True)
class _Foreign:
    value: int


@ours.dataclass(frozen=True, slots=True, kw_only=True)
class Pickled:
    """A class that can be named, as pickling asks for."""

    value: int
    given: dataclasses.InitVar[int] = 0
    both: int = ours.field(default=0, init=False)

    def __post_init__(self, given: int) -> None:
        object.__setattr__(self, "both", self.value + given)


def test_instances_are_pickled_and_replaced() -> None:
    one = Pickled(value=1, given=2)
    assert one.both == 3
    assert pickle.loads(pickle.dumps(one)) == one
    assert ours.replace(one, value=2, given=5) == Pickled(value=2, given=5)
    assert dataclasses.replace(one, value=2) == Pickled(value=2)
    assert ours.replace(_Foreign(1), value=2) == _Foreign(2)
    assert ours.asdict(one) == {"value": 1, "both": 3}
    if sys.version_info >= (3, 13):
        assert copy.replace(one, value=2, given=5) == Pickled(value=2, given=5)


def test_threads_may_use_a_class_for_the_first_time_together() -> None:
    for _ in range(20):
        cls = example(ours, frozen=True, slots=True)
        start, seen = threading.Barrier(4), list[str]()

        def use(cls: Any = cls, start: threading.Barrier = start, seen: list[str] = seen) -> None:
            start.wait()
            seen.append(repr(cls(first=1)))

        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(seen) == 4


def test_a_thread_that_was_slower_gets_the_method_of_the_class_it_asked() -> None:
    base = example(ours)
    asked = vars(base)["__init__"]
    below = type("Below", (base,), {"__init__": lambda self: asked.__get__(self, type(self))(1)})
    base(first=2)
    assert below().first == 1


def test_a_thread_that_was_slower_makes_its_object_with_the_compiled_method() -> None:
    cls = example(ours)
    asked = vars(cls)["__init__"]
    assert cls.__init__ is not asked
    made = cls.__new__(cls)
    asked.__get__(made, cls)(1)
    assert made.first == 1


def test_types_of_parameters_can_be_found() -> None:
    assert typing.get_type_hints(Pickled.__init__)["value"] is int
    assert typing.get_type_hints(_WithPath.__init__)["where"] is Path


@ours.dataclass
class _WithPath:
    where: Path


class _Named(NamedTuple):
    value: Any


def test_a_dictionary_of_an_instance_is_that_of_the_standard_library() -> None:
    inner = Pickled(value=1)
    values = [
        1,
        "a",
        None,
        inner,
        [inner, (inner,)],
        {"k": inner},
        _Named(inner),
        _Foreign(3),
        {1, 2},
        OrderedDict(a=inner),
    ]
    for value in values:
        one = example(ours)(first=value)
        assert ours.asdict(one) == dataclasses.asdict(one)
        assert type(ours.asdict(one)["first"]) is type(dataclasses.asdict(one)["first"])


def test_the_package_has_no_other_dataclasses() -> None:
    root = Path(ours.__file__).parent
    others = [path for path in root.rglob("*.py") if "bundled" not in path.parts and path.name != "_lazy.py"]
    found = [
        path for path in others if re.search(r"^ *from dataclasses import .*\bdataclass\b", path.read_text(), re.M)
    ]
    assert found == []
