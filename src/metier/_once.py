"""A property that is found out once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable

Value = TypeVar("Value")


class once(Generic[Value]):  # noqa: N801  (it is written like `property`)
    """What `functools.cached_property` is, for objects that one thread uses: without its lock, which costs a decision
    a tenth of its time before Python 3.12.

    >>> class Circle:
    ...     @once
    ...     def area(self) -> float:
    ...         print("counting")
    ...         return 3.14
    >>> circle = Circle()
    >>> circle.area, circle.area
    counting
    (3.14, 3.14)
    """

    def __init__(self, find: Callable[[Any], Value]) -> None:
        self._find = find
        self._name = ""
        self.__doc__ = find.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> once[Value]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...

    def __get__(self, instance: object | None, owner: type) -> once[Value] | Value:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._find(instance)
        return value
