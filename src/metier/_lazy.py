"""Names, patterns, loggers and methods of dataclasses that come into being when they are first used.

A short command uses few of all that the package has, and making the rest would take longer than the command itself.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # true for type checkers; importing `typing` for it would double the cost of `import metier`
if TYPE_CHECKING:
    import re
    from collections.abc import Callable
    from dataclasses import InitVar as InitVar
    from dataclasses import asdict as asdict
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import fields as fields
    from dataclasses import replace as replace
    from logging import Logger
    from typing import Any

    pattern = re.compile

    def logger(name: str) -> Logger:
        """The logger of a room by its name: `logger("metier.guard")`."""

else:

    class pattern:  # noqa: N801  (it is called like `re.compile`)
        """A regular expression that is compiled when it is first used; most commands use few of all there are."""

        def __init__(self, *arguments: Any) -> None:
            self._arguments = arguments

        def __getattr__(self, name: str) -> Any:
            import re

            compiled = re.compile(*self._arguments)
            for method in ("findall", "finditer", "fullmatch", "match", "search", "split", "sub"):
                setattr(self, method, getattr(compiled, method))
            return getattr(compiled, name)

    class InitVar:
        """`dataclasses.InitVar`, which somebody asks for who evaluates annotations."""

        def __class_getitem__(cls, kind: type) -> Any:
            from dataclasses import InitVar

            return InitVar[kind]

    class logger(str):  # noqa: N801  (it is called like `logging.getLogger`)
        """The logger of a room by its name; nothing hears it in a program that has not imported `logging`.

        A short command has not, and need not: that takes longer than opening the library.
        """

        __slots__ = ()

        def __getattr__(self, name: str) -> Any:
            return getattr(_logger(self), name) if "logging" in sys.modules else _ignore


def _logger(name: str) -> Logger:
    import logging

    above = logging.getLogger("metier")
    if not above.handlers:
        # Without a handler of its own, Python would print warnings of a library to standard error.
        above.addHandler(logging.NullHandler())
    return logging.getLogger(name)


def _ignore(*_: object, **__: object) -> None:
    pass


def lazy_names(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` for the names that a package imports below `if TYPE_CHECKING:`.

    That block lists each name once, for type checkers and for this function. It never runs, so that `import metier`
    loads none of it, but its code object still has every module of the block followed by the names taken from it.
    """
    homes: dict[str, str] = {}
    module = ""
    for name in sys._getframe(1).f_code.co_names:
        if "." in name:
            module = name if name.startswith("metier.") and name != __name__ else ""
        elif name == "lazy_names" or name == "__name__":
            module = ""
        elif module:
            homes[name] = module

    def get(name: str) -> object:
        module = homes.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        __import__(module)
        value = getattr(sys.modules[module], name)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted({*homes, *vars(sys.modules[package])}), sorted(homes)


# --- dataclasses -----------------------------------------------------------------------------------------------------

# `dataclasses.dataclass` compiles up to six methods of each class while a module is imported, and imports `inspect`.
# These classes are the same for every other purpose: `dataclasses.fields`, `asdict`, `replace` and `is_dataclass` take
# them, they are copied and pickled alike, and a class of `dataclasses` may inherit from one.


class _Absent:
    def __repr__(self) -> str:
        return "<factory>"


_ABSENT = _Absent()


class _Field:
    """A field, as `dataclasses.Field` has it."""

    __slots__ = ("compare", "default", "factory", "init", "is_stored", "kw_only", "name", "repr", "type")

    def __init__(
        self,
        *,
        default: Any = _ABSENT,
        default_factory: Any = _ABSENT,
        init: bool = True,
        repr: bool = True,  # noqa: A002
        compare: bool = True,
    ) -> None:
        self.default, self.factory, self.init, self.repr, self.compare = default, default_factory, init, repr, compare
        self.kw_only, self.name, self.type, self.is_stored = False, "", "", True


class _Generated:
    """A member of a class that takes its place in it when it is first asked for."""

    __slots__ = ("generate", "member", "name")

    def __init__(self, name: str, generate: Callable[[type], Any]) -> None:
        self.name, self.generate = name, generate

    def __get__(self, instance: object, owner: type) -> Any:
        home = self.home(owner)
        if home is None and isinstance(instance, type):
            # `inspect.signature` of Python 3.14 asks for the `__init__` of a class as if it were one of its type.
            home = self.home(instance)
        if home is not None:
            self.member = self.generate(home)
            setattr(home, self.name, self.member)
        member = self.member
        return member.__get__(instance, owner) if instance is not None and callable(member) else member

    def home(self, owner: type) -> type | None:
        """The class that this is a member of; None where another thread was quicker to put one in its place."""
        return next((one for one in owner.__mro__ if vars(one).get(self.name) is self), None)


class _GeneratedInit(_Generated):
    """`__init__`, which is compiled when more than a few objects have been made: until then that takes longer."""

    __slots__ = ("left",)

    def __init__(self, name: str, generate: Callable[[type], Any]) -> None:
        super().__init__(name, generate)
        self.left = _FEW_OBJECTS

    def __get__(self, instance: object, owner: type) -> Any:
        home = self.home(owner)
        if home is None or instance is None or self.left <= 0:
            return super().__get__(instance, owner)
        self.left -= 1
        return lambda *args, **kwargs: _initialize(home, instance, args, kwargs)


_FEW_OBJECTS = 20


def _initialize(home: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Do as the compiled `__init__` of a class does."""
    fields = home.__lazy_fields__
    given = dict(zip([name for name, one in fields.items() if one.init and not one.kw_only], args))  # noqa: B905
    required = {name for name, one in fields.items() if one.init and one.default is one.factory is _ABSENT}
    values = {**given, **kwargs}
    is_fit = len(args) == len(given) and len(values) == len(given) + len(kwargs) and required <= values.keys()
    if not is_fit or not all(name in fields and fields[name].init for name in kwargs):
        home.__init__(instance, *args, **kwargs)  # which says what is wrong
        return
    assign = object.__setattr__ if home.__dataclass_params__.frozen else setattr
    passed = []
    for name, one in fields.items():
        if name in values:
            value = values[name]
        elif one.factory is not _ABSENT:
            value = one.factory()
        elif one.default is _ABSENT or not (one.init or "__slots__" in vars(home)):
            continue
        else:
            value = one.default
        if one.is_stored:
            assign(instance, name, value)
        else:
            passed.append(value)
    if hasattr(home, "__post_init__"):
        instance.__post_init__(*passed)


def _define(home: type, name: str, parameters: str, lines: list[str], names: dict[str, Any]) -> Any:
    """Compile one method."""
    body = "\n  ".join(lines or ["pass"])
    made: dict[str, Any] = {}
    # With the names of its module, in which the annotations of its parameters have their meaning.
    home_names = getattr(sys.modules.get(home.__module__), "__dict__", {})
    exec(f"def make({', '.join(names)}):\n def {name}({parameters}):\n  {body}\n return {name}", home_names, made)
    method = made["make"](**names)
    method.__qualname__ = f"{home.__qualname__}.{name}"
    return method


def _init(home: Any) -> Any:
    names: dict[str, Any] = {"_set": object.__setattr__, "_ABSENT": _ABSENT}
    parameters: dict[bool, list[str]] = {False: [], True: []}
    lines, annotations, passed = [], {}, []
    is_frozen = home.__dataclass_params__.frozen
    for name, one in home.__lazy_fields__.items():
        value = name
        names[f"_of_{name}"] = one.default if one.factory is _ABSENT else one.factory
        if one.factory is not _ABSENT:
            value = f"_of_{name}() if {name} is _ABSENT else {name}" if one.init else f"_of_{name}()"
        elif not one.init:
            if one.default is _ABSENT or "__slots__" not in vars(home):
                continue
            value = f"_of_{name}"
        if one.init:
            annotations[name] = one.type
            default = "_ABSENT" if one.factory is not _ABSENT else f"_of_{name}" if one.default is not _ABSENT else ""
            parameters[one.kw_only].append(f"{name}={default}" if default else name)
        if not one.is_stored:
            passed.append(name)
            continue
        slot: Any = getattr(home, name, None) if is_frozen and home.__dataclass_params__.slots else None
        if hasattr(slot, "__set__"):
            # The slot itself takes the value, which a look for it by its name makes twice as long.
            names[f"_set_{name}"] = slot.__set__
            lines.append(f"_set_{name}(self, {value})")
        else:
            lines.append(f'_set(self, "{name}", {value})' if is_frozen else f"self.{name} = {value}")
    if hasattr(home, "__post_init__"):
        lines.append(f"self.__post_init__({', '.join(passed)})")
    star = ["*"] if parameters[True] else []
    init = _define(home, "__init__", ", ".join(["self", *parameters[False], *star, *parameters[True]]), lines, names)
    init.__annotations__ = {**annotations, "return": None}
    return init


def _stored(of: Any) -> dict[str, _Field]:
    return {name: one for name, one in of.__lazy_fields__.items() if one.is_stored}


def _compared(home: Any, of: str) -> str:
    return "".join(f"{of}.{name}, " for name, one in _stored(home).items() if one.compare)


def _eq(home: type) -> Any:
    ours, theirs = _compared(home, "self"), _compared(home, "other")
    lines = ["if other.__class__ is self.__class__:", f" return ({ours}) == ({theirs})", "return NotImplemented"]
    return _define(home, "__eq__", "self, other", lines, {})


def _hash(home: type) -> Any:
    return _define(home, "__hash__", "self", [f"return hash(({_compared(home, 'self')}))"], {})


def _repr(home: Any) -> Any:
    from reprlib import recursive_repr

    shown = ", ".join(f"{name}={{self.{name}!r}}" for name, one in _stored(home).items() if one.repr)
    line = f"return self.__class__.__qualname__ + f'({shown})'"
    return recursive_repr()(_define(home, "__repr__", "self", [line], {}))


def _setattr(home: Any) -> Any:
    return _refuse(home, "__setattr__", "self, name, value", "assign to")


def _delattr(home: Any) -> Any:
    return _refuse(home, "__delattr__", "self, name", "delete")


def _refuse(home: Any, method: str, parameters: str, verb: str) -> Any:
    from dataclasses import FrozenInstanceError

    names = {"home": home, "fields": frozenset(_stored(home)), "FrozenInstanceError": FrozenInstanceError}
    lines = [
        "if type(self) is home or name in fields:",
        f" raise FrozenInstanceError(f'cannot {verb} field {{name!r}}')",
        f"super(home, self).{method}({parameters.removeprefix('self, ')})",
    ]
    return _define(home, method, parameters, lines, names)


def _fields(home: Any) -> Any:
    """The fields as `dataclasses` has them, taken from a class that it makes."""
    import dataclasses

    # Without a docstring, `dataclasses` would write one.
    members: dict[str, Any] = {"__annotations__": {}, "__doc__": __doc__}
    for name, one in home.__lazy_fields__.items():
        given = {"default": one.default, "default_factory": one.factory}
        members["__annotations__"][name] = one.type if one.is_stored else dataclasses.InitVar[object]
        members[name] = dataclasses.field(
            **{key: value for key, value in given.items() if value is not _ABSENT},
            init=one.init,
            repr=one.repr,
            compare=one.compare,
            kw_only=one.kw_only,
        )
    twin: Any = dataclasses.dataclass(eq=False, repr=False, init=False)(type(home.__name__, (), members))
    return twin.__dataclass_fields__


class _Params:
    """The arguments of the decorator, which a class of `dataclasses` that inherits asks for."""

    def __init__(self, *, frozen: bool, slots: bool, kw_only: bool, eq: bool) -> None:
        self.frozen, self.slots, self.kw_only, self.eq = frozen, slots, kw_only, eq
        self.init = self.repr = self.match_args = True
        self.order = self.unsafe_hash = self.weakref_slot = False


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in _stored(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(_stored(self), state, strict=True):
        object.__setattr__(self, name, value)


def _replaced(self: Any, /, **changes: Any) -> Any:
    kept = {}
    for name, one in self.__lazy_fields__.items():
        if one.init and name not in changes:
            if not one.is_stored and one.default is _ABSENT:
                raise ValueError(f"InitVar {name!r} must be specified with replace()")
            if one.is_stored:
                kept[name] = getattr(self, name)
    return self.__class__(**kept, **changes)


def _as_plain_data(value: Any) -> Any:
    kind = type(value)
    if value is None or kind in (str, int, float, bool):
        return value
    if "__lazy_fields__" in vars(kind):
        return {name: _as_plain_data(getattr(value, name)) for name in _stored(value)}
    if kind in (list, tuple):
        return kind(map(_as_plain_data, value))
    if kind is dict:
        return {_as_plain_data(key): _as_plain_data(one) for key, one in value.items()}
    from dataclasses import asdict, make_dataclass

    # Classes of `dataclasses`, named tuples, kinds of dictionaries, and whatever else is copied.
    return asdict(make_dataclass("Holder", ["value"])(value))["value"]


def _own_fields(cls: type, *, kw_only: bool) -> dict[str, _Field]:
    own = {}
    for name, annotation in cls.__annotations__.items():
        if annotation.startswith(("ClassVar", "typing.ClassVar")):
            continue
        default = vars(cls).get(name, _ABSENT)
        one = default if isinstance(default, _Field) else _Field(default=default)
        one.kw_only, one.name, one.type = kw_only, name, annotation
        one.is_stored = not annotation.startswith(("InitVar", "dataclasses.InitVar"))
        own[name] = one
    return own


def _build(cls: type, params: _Params) -> type:
    own = _own_fields(cls, kw_only=params.kw_only)
    inherited: dict[str, _Field] = {}
    for base in reversed(cls.__mro__[1:]):
        inherited |= vars(base).get("__lazy_fields__", {})
    every = {**inherited, **own}
    members: dict[str, Any] = {"__lazy_fields__": every, "__dataclass_params__": params}
    members["__match_args__"] = tuple(name for name, one in every.items() if one.init and not one.kw_only)
    members["__replace__"] = _replaced
    generated = {"__repr__": _repr, "__dataclass_fields__": _fields}
    if params.eq:
        generated["__eq__"] = _eq
        if params.frozen:
            generated["__hash__"] = _hash
        else:
            members["__hash__"] = None
    if params.frozen:
        generated |= {"__setattr__": _setattr, "__delattr__": _delattr}
    members |= {name: _Generated(name, generate) for name, generate in generated.items()}
    members["__init__"] = _GeneratedInit("__init__", _init)
    if params.slots and params.frozen:
        members |= {"__getstate__": _get_state, "__setstate__": _set_state}
    written = dict(vars(cls))
    if written.get("__hash__", 0) is None and "__eq__" in written:
        del written["__hash__"]  # which Python sets for a class that has `__eq__`
    # A method that the class writes out stays.
    members = {name: member for name, member in members.items() if name not in written}
    defaults = {name: one.default for name, one in own.items()}
    if not params.slots:
        for name, default in defaults.items():
            if default is not _ABSENT:
                setattr(cls, name, default)
            elif name in written:
                delattr(cls, name)
        for name, member in members.items():
            setattr(cls, name, member)
        return cls
    for name in (*(name for name, one in own.items() if one.is_stored), "__dict__", "__weakref__"):
        written.pop(name, None)
    taken = {slot for base in cls.__mro__[1:] for slot in vars(base).get("__slots__", ())}
    slots = tuple(name for name, one in own.items() if one.is_stored and name not in taken)
    made: Any = type(cls)(cls.__name__, cls.__bases__, {**written, **members, "__slots__": slots})
    made.__qualname__ = cls.__qualname__
    return made  # type: ignore[no-any-return]


def _decorate(
    cls: type | None = None, /, *, frozen: bool = False, slots: bool = False, kw_only: bool = False, eq: bool = True
) -> Any:
    params = _Params(frozen=frozen, slots=slots, kw_only=kw_only, eq=eq)
    return (lambda cls: _build(cls, params)) if cls is None else _build(cls, params)


if not TYPE_CHECKING:
    dataclass, field = _decorate, _Field

    def replace(instance: Any, /, **changes: Any) -> Any:
        """A copy with other values of some fields."""
        if "__lazy_fields__" not in vars(type(instance)):
            from dataclasses import replace

            return replace(instance, **changes)
        return _replaced(instance, **changes)

    def fields(of: Any) -> Any:
        """The fields of a dataclass of this module, or of an instance."""
        return tuple(_stored(of).values())

    def asdict(instance: Any) -> Any:
        """A dataclass as a dictionary, and those in it too; everything else is copied."""
        return _as_plain_data(instance)
