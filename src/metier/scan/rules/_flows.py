"""Where a value goes in a piece of code: from the line that takes it, by the names that it is given, to others.

This follows names, not meanings: a name that is given something of a carried value carries it, too, unless what is
done on the way leaves nothing of it to steal (a signature, a digest, a public address, a length). It goes into
functions and comes back from them: one that returns something carried carries it, and one that sends what it is
given is a place where things are sent.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rules._functions import is_called, scopes_of
from metier.scan.rules._handling import RETURNS, comes_out, is_signed, is_spent, written_into
from metier.scan.rules._names import (
    MAX_SPAN,
    balance,
    given_by,
    kept_in,
    named_in,
    names_in,
    setting_in,
    span,
    used_in,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from metier.scan.rules._functions import Function, FunctionScope
    from metier.scan.rules._statements import Statement

_MAX_NAMES = 60
_ROUNDS = 3
"""How many functions deep a value is followed."""
_FILE = re.compile(
    r"(?:/tmp|/var/tmp|\$TMPDIR|\$\{TMPDIR\}|\$env:TEMP|%TEMP%|~/\.cache|/dev/shm)[\\/][\w.$\-{}]{1,60}"
    r"|\b[\w-]{1,40}\.(?:zip|tgz|tar\.gz|tar|b64|enc|gpg|7z)\b"
)
_SIZE = re.compile(r"\b(?:len|bool|sizeof|count)\([\w.\[\]\"']{1,80}\)|\b[\w.]{1,80}\.(?:length|size)\b")
"""How much there is of it."""
_SAYS = re.compile(r"\b(\w{1,60})\.(?:write|end|send|sendall|sendto|emit|sendmail|send_message|request)\(")
"""What is said on a line that was opened before."""
_HANDED_IN = re.compile(r"\$(?:[@*1-9]|\{[@*1-9])|\$args\b|\barguments\b")
"""What a function of a shell is given."""
_PICKED = re.compile(
    r"\b(?P<of>[A-Za-z_]\w{0,60})(?:\[\s*[\"'](?P<key>[\w.-]{1,60})[\"']\s*\]|\.get\(\s*[\"'](?P<key2>[\w.-]{1,60})"
    r"|\.(?P<key3>[A-Z][A-Z0-9_]{2,60})\b)"
)
"""One thing that is picked, by its name, from many."""


def carried(
    code: Sequence[Statement],
    takes: Callable[[Statement], bool],
    ends: Callable[[Statement], bool],
    spares: Callable[[Statement, str], bool] = lambda _, __: False,
) -> Iterator[tuple[Statement, list[Statement]]]:
    """Every call that something taken arrives at: the line that takes it, and the lines of the call.

    `spares` says whether one thing by its name, picked from what a line took, is no longer what one looks for.
    """
    arrives = {id(one) for one in code if ends(one)}
    taken = {id(one): one for one in code if takes(one)} if arrives else {}
    if taken:
        yield from _Flow(code, taken, arrives, spares).arrivals()


class _Flow:
    """The names of one piece of code, and what they carry."""

    def __init__(
        self,
        code: Sequence[Statement],
        taken: dict[int, Statement],
        ends: set[int],
        spares: Callable[[Statement, str], bool],
    ) -> None:
        self._code = code
        self._taken = taken
        self._ends = ends
        self._spares = spares
        self._fields: dict[str, Statement] = {}
        """What fields of objects carry, wherever they are used."""
        self._returned: dict[str, Statement] = {}
        """What functions return."""
        self._files: dict[str, Statement] = {}
        self._sending: dict[str, list[Statement]] = {}
        """Functions that send what they are given, with the lines that do."""
        self._lines: dict[str, Statement] = {}
        """Names of connections, with the lines that open them."""
        self._scopes = scopes_of(code)

    def arrivals(self) -> Iterator[tuple[Statement, list[Statement]]]:
        for _ in range(_ROUNDS if len(self._scopes) > 1 else 0):
            before = len(self._returned), len(self._fields), len(self._sending)
            for scope in self._scopes:
                for _ in self._walked(scope, self._taken):
                    pass
                if scope.function is not None and scope.function.name not in self._sending:
                    self._try_out(scope, scope.function)
            if before == (len(self._returned), len(self._fields), len(self._sending)):
                break
        for scope in self._scopes:
            yield from self._walked(scope, self._taken)

    def _try_out(self, scope: FunctionScope, function: Function) -> None:
        """Find out whether a function sends what it is given."""
        if not self._sending and not any(id(self._code[at]) in self._ends for at in scope.lines):
            return
        head = self._code[function.begin]
        given = dict.fromkeys(function.given, head)
        # What a shell hands in has no names but numbers.
        numbered = {
            id(self._code[at]): head for at in scope.lines if not given and _HANDED_IN.search(self._code[at].text)
        }
        if given or numbered:
            kept = self._fields, self._returned, self._files
            self._fields, self._returned, self._files = {}, {}, {}
            arrived = next(self._walked(scope, numbered, given), None)
            self._fields, self._returned, self._files = kept
            if arrived is not None:
                self._sending[function.name] = arrived[1]

    def _walked(
        self, scope: FunctionScope, taken: dict[int, Statement], given: dict[str, Statement] | None = None
    ) -> Iterator[tuple[Statement, list[Statement]]]:
        """The calls of a scope that something arrives at; `given` is what a function is tried out with."""
        function = scope.function
        names = dict(given) if given is not None else dict(scope.around.names) if scope.around is not None else {}
        if function is not None and given is None:
            for name in function.given:
                names.pop(name, None)
        inside: dict[str, str] = {}
        waiting: list[str] = []
        depth = last = returning = 0
        for place, at in enumerate(scope.lines):
            one = self._code[at]
            here = taken.get(id(one))
            source = here or self._source(one.text, names)
            heads = function is not None and at == function.begin and len(scope.lines) > 1
            goes_on = one.text.rstrip().endswith(("(", "[", "{", ","))
            named = named_in(one.text) if not heads and (goes_on or source is not None or names) else None
            if (writes := written_into(one.text)) is not None:
                by, whole = (writes[key] or writes[f"{key}2"] or writes[f"{key}3"] for key in ("by", "into"))
                inside[by] = whole
            if (
                source is not None
                and not heads
                and not is_signed(one.text)
                and (here or not (is_spent(one.text) or self._finds_one(source, one.text)))
            ):
                self._carry(one, source, names, waiting)
                names.update((whole, source) for by, whole in inside.items() if by in names)
                returns = returning > 0 or comes_out(one, named is not None, len(scope.lines))
                if function is not None and given is None and returns:
                    self._returned.setdefault(function.name, source)
            elif named is not None and names and "+=" not in one.text[: named.start("value")]:
                # Given something else, a name carries nothing any more.
                for name in given_by(named):
                    names.pop(name, None)
            if returning > 0 or RETURNS.match(one.text):
                # What is returned goes on until its brackets are closed.
                returning = max(0, returning + balance(one.text))
            if depth > 0:
                depth += balance(one.text)
                waiting = waiting if depth > 0 and place < last else []
            elif named is not None and (depth := balance(one.text)) > 0:
                waiting, last = given_by(named), place + MAX_SPAN
            call = self._call(scope, place, one) if not heads else None
            if call is not None:
                arrived = (taken.get(id(other)) or self._source(used_in(other.text), names) for other in call[0])
                if (first := next((other for other in arrived if other is not None), None)) is not None:
                    yield first, [*call[0], *call[1]]
        if given is None:
            scope.names = names

    def _call(self, scope: FunctionScope, place: int, one: Statement) -> tuple[list[Statement], list[Statement]] | None:
        """The lines of a call that sends something, and those where what it calls does, if the line begins one."""
        sends: list[Statement] | None = None
        if id(one) in self._ends:
            sends = []
            if (named := named_in(one.text)) is not None:
                self._lines.update(dict.fromkeys(given_by(named), one))
        elif self._sending and (called := names_in(one.text) & self._sending.keys()):
            sends = next((self._sending[name] for name in sorted(called) if is_called(name, one.text)), None)
        if sends is None and self._lines and (said := _SAYS.search(one.text)) is not None and said[1] in self._lines:
            sends = [self._lines[said[1]]]
        if sends is None:
            return None
        return span([self._code[at] for at in scope.lines[place : place + MAX_SPAN]], 0), sends

    def _carry(self, one: Statement, source: Statement, names: dict[str, Statement], others: Sequence[str]) -> None:
        """Let the names that a line gives something carry it."""
        if len(names) + len(self._files) > _MAX_NAMES:
            return
        for name in (*kept_in(one.text), *others):
            names[name] = source
            if name.startswith("."):
                self._fields[name] = source
        for found in _FILE.finditer(one.text):
            self._files[found[0]] = source

    def _source(self, text: str, names: dict[str, Statement]) -> Statement | None:
        """The line that took something which a text makes use of."""
        if names or self._fields or self._returned:
            used = names_in(_SIZE.sub("", text) if "len" in text or "size" in text or "bool" in text else text)
            found = [names[name] for name in used & names.keys() if not self._picks(name, names[name], text)]
            found += [self._fields[name] for name in used & self._fields.keys()]
            found += [self._returned[name] for name in used & self._returned.keys() if is_called(name, text)]
            if found:
                return min(found, key=lambda one: one.line)
        if self._files:
            return next((self._files[found[0]] for found in _FILE.finditer(text) if found[0] in self._files), None)
        return None

    def _finds_one(self, source: Statement, text: str) -> bool:
        """Whether a line looks one thing up by its name that may be known, in the text that there is of all."""
        key = setting_in(text)
        return bool(key) and self._spares(source, key)

    def _picks(self, name: str, source: Statement, text: str) -> bool:
        """Whether all that a text makes use of is one thing by its name that may be known there."""
        picked = [found for found in _PICKED.finditer(text) if found["of"] == name]
        if not picked or len(picked) != len(re.findall(rf"\b{name}\b", text)):
            return False
        return all(self._spares(source, found["key"] or found["key2"] or found["key3"]) for found in picked)
