"""Something that is made only when it is needed: what is to be done to it is noted until then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Later:
    """Stands for an object that is not there yet, and for all that its methods will return.

    >>> words = Later()
    >>> words.append("a")  # doctest: +ELLIPSIS
    <metier.cli.later.Later object at ...>
    >>> made = []
    >>> words.do_to(made)
    >>> made
    ['a']
    """

    __slots__ = ("_noted",)
    _noted: list[tuple[str, tuple[Any, ...], dict[str, Any], Later]]

    def __init__(self) -> None:
        object.__setattr__(self, "_noted", [])

    def __getattr__(self, name: str) -> Callable[..., Later]:
        def note(*arguments: Any, **options: Any) -> Later:
            returned = Later()
            self._noted.append((name, arguments, options, returned))
            return returned

        return note

    def __setattr__(self, name: str, value: Any) -> None:
        self._noted.append(("__setattr__", (name, value), {}, Later()))

    def do_to(self, made: Any) -> None:
        """Do all that was noted, now that the object is there."""
        for name, arguments, options, returned in self._noted:
            returned.do_to(getattr(made, name)(*arguments, **options))
