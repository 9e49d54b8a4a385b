"""The program that a policy file names to tell people that something waits for them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from metier.guard.policy.kinds import Kind, Number, texts_of
from metier.skill import shown

if TYPE_CHECKING:
    from metier.guard.policy.reading import At
    from metier.guard.policy.tree import Node

WAITING = ("request", "proposal", "quarantine")
"""The kinds of things that wait for somebody."""
_ARGUMENTS = 64
_RUN = "[/usr/local/bin/tell-the-team, --urgent]"
_SECONDS = Number(1, 600, strict=min)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """A program that is started when something begins to wait."""

    run: tuple[str, ...]
    """The program, by an absolute path or a name on the PATH, and its arguments."""
    kinds: tuple[str, ...] = WAITING
    seconds: int = 10
    """The time after which the program is ended."""


class Notifications(Kind["Notification"]):
    """The notification of the strongest file that has one. A project has none: it would start what it names."""

    adds_up = False
    example = f"{{run: {_RUN}, for: [request], seconds: 10}}"

    def read(self, at: At, node: Node) -> Notification | None:
        """The notification; None where any of it cannot be read, or where this file may have none."""
        if at.reading.layer == "project":
            at.warning(node.line, "A project's policy starts no program", "Add it to your own policy file.")
            return None
        before = len(at.reading.problems)
        run: tuple[str, ...] = ()
        kinds: tuple[str, ...] = WAITING
        seconds = 10
        for name, value in at.pairs(node, self.example):
            inner = at.below(name)
            if name == "run":
                run = tuple(one.text for one in texts_of(inner, value, None, _RUN))
            elif name == "for":
                kinds = tuple(one.text for one in texts_of(inner, value, _wrong_kind, f"[{', '.join(WAITING)}]"))
            elif name == "seconds":
                seconds = _SECONDS.read(inner, value) or seconds
            else:
                inner.error(value.line, f"There is no key {shown(name)!r}", "Keys here are run, for, seconds.")
        if len(at.reading.problems) > before:
            return None
        if not run or len(run) > _ARGUMENTS or not (os.path.isabs(run[0]) or os.path.basename(run[0]) == run[0]):
            what = f"`{at.key}.run` names no program by an absolute path, or by a name that is on the PATH"
            at.error(node.line, what, f"Write such as {_RUN}.")
            return None
        return Notification(run=run, kinds=kinds, seconds=seconds)

    def tighten(self, base: Notification, value: Notification) -> tuple[Notification, str]:
        """The stronger layer's."""
        return base, "one program is told, by the strongest file that names one" if value != base else ""

    def shown(self, value: Notification | None) -> object:
        """The program, and what it is told of."""
        if value is None:
            return None
        return {"run": list(value.run), "for": list(value.kinds), "seconds": value.seconds}


def _wrong_kind(text: str) -> str:
    return "" if text in WAITING else f"{shown(text)!r}, which is none of {', '.join(WAITING)}"
