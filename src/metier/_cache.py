"""Caches: a property that is computed once, and a mapping of bounded size."""

from __future__ import annotations

import contextlib
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable

Key = TypeVar("Key")
Value = TypeVar("Value")


class cached_property(Generic[Value]):  # noqa: N801  (it is written like `property`)
    """A `functools.cached_property` for objects that one thread uses: without its lock, which costs a decision a tenth
    of its time before Python 3.12.

    >>> class Circle:
    ...     @cached_property
    ...     def area(self) -> float:
    ...         print("computing")
    ...         return 3.14
    >>> circle = Circle()
    >>> circle.area, circle.area
    computing
    (3.14, 3.14)
    """

    def __init__(self, find: Callable[[Any], Value]) -> None:
        self._find = find
        self._name = ""
        self.__doc__ = find.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> cached_property[Value]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...

    def __get__(self, instance: object | None, owner: type) -> cached_property[Value] | Value:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._find(instance)
        return value


class BoundedCache(dict[Key, Value]):
    """A dictionary that drops its oldest entries when it has more than so many.

    Threads share it without a lock: reading is that of a dictionary, and each step of a change is atomic.

    >>> cache: BoundedCache[int, str] = BoundedCache(2)
    >>> for number in range(3):
    ...     cache[number] = str(number)
    >>> list(cache)
    [1, 2]
    """

    __slots__ = ("_size",)

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        if len(self) > self._size:
            with contextlib.suppress(RuntimeError):  # another thread has just dropped some
                # Several at once: each look for the oldest entry passes over the gaps that earlier ones have left.
                for oldest in list(islice(self, max(1, self._size // 8))):
                    self.pop(oldest, None)
