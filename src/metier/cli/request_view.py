"""The view of an approval request on a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar

from metier.cli.output import Style, plural, shortened
from metier.cli.terminal import harmless
from metier.scan.finding import rank

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from metier.hub.request_view import RequestView

_Item = TypeVar("_Item")
_FEW = 10
_FEW_PLACES = 3
_FEW_LINES = 40
_LONG = 400
"""Characters of a line that are shown of each, unless all is asked for."""


def print_request_view(found: RequestView, *, full: bool) -> None:
    """Print the view, the most important first; without `full`, as much as fits on a screen."""
    _Page(found, full=full).show()


class _Page:
    def __init__(self, found: RequestView, *, full: bool) -> None:
        self._view = found
        self._full = full
        self._style = Style(sys.stdout)

    def show(self) -> None:
        style, asked = self._style, self._view.request
        where = ", ".join(part for part in (asked.layer, asked.environment or "any environment") if part)
        name = f"{style.strong(Style.text(asked.skill))}  {style.dim(Style.text(where))}  {asked.status}"
        print(f"{asked.id}  {name}" if asked.id else name)
        print(style.dim(asked.digest))
        if asked.requested_by or asked.reason:
            by = Style.text(asked.requested_by) or "nobody"
            print(f"Asked for by {by} {style.at(asked.created_at)}. {Style.text(asked.reason, 1_000)}".rstrip())
        self._capabilities()
        self._scripts()
        self._findings()
        self._changes()

    def _capabilities(self) -> None:
        asked = self._view.request
        new = asked.new if self._view.before is not None else ()
        if new:
            self._head("NEW CAPABILITIES", self._style.bad)
            for name in new:
                self._capability(name, self._style.bad)
        rest = [name for name in asked.capabilities if name not in new]
        if rest or not asked.capabilities:
            self._head("CAPABILITIES")
        for name in rest:
            self._capability(name, self._style.warn)
        if not asked.capabilities:
            print("  none")
        if self._view.declared:
            self._head("DECLARED")
            self._say(f"  {', '.join(self._view.declared)}")

    def _capability(self, name: str, paint: Callable[[str], str]) -> None:
        mark = self._style.dim("  not declared") if name in self._view.undeclared else ""
        print(f"  {paint(Style.text(name))}{mark}")
        for place in self._first(self._view.evidence.get(name, ()), _FEW_PLACES, "place", indent="    "):
            self._say(f"    {place.get('path')}:{place.get('line')}  {place.get('text')}", self._style.dim)

    def _scripts(self) -> None:
        scripts = list(self._view.request.scripts.items())
        if scripts:
            self._head("SCRIPTS")
        for path, digest in self._first(scripts, _FEW, "script"):
            self._say(f"  {digest}  {path}")

    def _findings(self) -> None:
        found = self._view
        self._head("FINDINGS")
        if found.scan_problem:
            self._say(f"  {found.scan_problem}", self._style.bad)
        elif not found.findings:
            print("  none")
        for one in self._first(found.findings, _FEW, "finding"):
            is_bad = rank(str(one.get("severity", ""))) >= rank("high")
            paint = self._style.bad if is_bad else self._style.warn
            place = f"{one.get('path')}:{one.get('line')}"
            self._say(f"  {one.get('severity')}  {one.get('rule')}  {place}  {one.get('message')}", paint)
            if one.get("text"):
                self._say(f"    │ {one['text']}", self._style.dim)

    def _changes(self) -> None:
        found = self._view
        if found.changes is None:
            self._head("CONTENT")
            self._say("  It was not kept: whoever decides has to look at it where it lies.", self._style.bad)
            return
        if not found.base and not self._full:
            self._head("FILES")
            for file in self._first(found.files, _FEW, "file"):
                self._say(f"  {file.path}  {file.size:,} bytes, {file.kind}")
            never = found.before is None
            why = "Nothing of this skill was approved before" if never else "What was approved before is gone"
            print(self._style.dim(f"  {why}; --full shows all of it."))
            return
        if found.before is None or not found.base:
            self._head("CONTENT")
        else:
            by, at = Style.text(found.before.decided_by), self._style.at(found.before.decided_at)
            self._head(f"CHANGES since {found.base}, approved by {by} {at}")
        for how, path in self._first(found.changed, _FEW, "file"):
            self._say(f"  {how}  {path}")
        paints = {"+": self._style.good, "-": self._style.bad, "@": self._style.dim}
        for line in self._first(found.changes.split("\n")[:-1], _FEW_LINES, "line"):
            self._say(f"  {line}", paints.get(line[:1], str))

    def _head(self, text: str, paint: Callable[[str], str] | None = None) -> None:
        print(f"\n{(paint or self._style.strong)(text)}")

    def _say(self, text: str, paint: Callable[[str], str] = str) -> None:
        """A line with words of strangers in it, which stays one line."""
        whole = harmless(text.replace("\n", "\\n"))
        print(paint(whole if self._full else shortened(whole, _LONG)))

    def _first(self, items: Sequence[_Item], few: int, noun: str, indent: str = "  ") -> Iterator[_Item]:
        """The first of some items, or all with `full`; behind them a line that counts the others."""
        shown = items if self._full else items[:few]
        yield from shown
        if more := len(items) - len(shown):
            print(self._style.dim(f"{indent}and {plural(more, noun)} more; --full shows all"))
