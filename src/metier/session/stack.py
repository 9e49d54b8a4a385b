"""Skills that are activated inside one another: which, how deep, and in what order they end."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeAlias

from metier.errors import ActivationFailed
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

MAX_NESTING = 5

Frame: TypeAlias = tuple[str, bool]
"""The name of a skill, and whether it was loaded already when it was activated."""


class Stack:
    """The activations of one session, the innermost last. Safe to use from several threads.

    >>> stack = Stack()
    >>> frame = stack.push("deploy", was_loaded=False)
    >>> stack.names
    ('deploy',)
    """

    def __init__(self, frames: Iterable[Frame] = ()) -> None:
        self.frames: tuple[Frame, ...] = tuple(frames)
        self._changing = threading.Lock()

    @property
    def names(self) -> tuple[str, ...]:
        """The skills, the innermost last."""
        return tuple(name for name, _ in self.frames)

    def push(self, name: str, *, was_loaded: bool) -> Frame:
        """Go one deeper; raises `ActivationFailed` for a cycle and where it is too deep."""
        with self._changing:
            chain = " -> ".join((*self.names, name))
            if name in self.names:
                raise ActivationFailed(
                    f"Skill {name!r} is active already: {chain} is a cycle.",
                    hint="Finish it before it is used again.",
                    name=name,
                )
            if len(self.frames) >= MAX_NESTING:
                raise ActivationFailed(
                    f"Skill {name!r} would be activated more than {MAX_NESTING} deep: {chain}.",
                    hint=f"At most {MAX_NESTING} may be inside one another.",
                    name=name,
                )
            frame = (name, was_loaded)
            self.frames = (*self.frames, frame)
            return frame

    def drop(self, frame: Frame) -> None:
        """Take back an activation that came to nothing."""
        with self._changing:
            self.frames = tuple(other for other in self.frames if other is not frame)

    def pop(self, name: str) -> Frame:
        """End the innermost activation, which must be this skill's."""
        with self._changing:
            if name not in self.names:
                raise ActivationFailed(f"Skill {shown(name)!r} is not activated.", hint="Activate it first.", name=name)
            innermost = self.frames[-1]
            if innermost[0] != name:
                raise ActivationFailed(
                    f"Skill {name!r} is not at top of stack: {' -> '.join(self.names)}.",
                    hint=f"Deactivate {innermost[0]} first.",
                    name=name,
                )
            self.frames = self.frames[:-1]
            return innermost

    def end(self, names: AbstractSet[str]) -> None:
        """End the activations of skills that are gone, wherever they stand."""
        with self._changing:
            self.frames = tuple(frame for frame in self.frames if frame[0] not in names)

    def clear(self) -> None:
        """End all of them."""
        with self._changing:
            self.frames = ()
