"""Where data goes: from sources to sinks, through variables, functions, fields, files, and scripts of one skill.

Scripts are gone through as they would run, with what is known of values in place of values. Each function is gone into
where it is called, and once for whoever else may call it; how often, is limited, so that time grows with the size of
scripts and no faster. What fields and files hold is known to what is gone through before in the next round.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from metier._lazy import dataclass
from metier._regex_cache import kept_regex
from metier.scan.flow.catalog import members, places_in, roles_of, sense_of_key
from metier.scan.flow.form import dotted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from metier.scan.flow.form import Expr, FlowFunction, FlowScript

_ROUNDS = 3
_MAX_CALLS = 2_000
"""Calls that are gone into in a round, each function with the same arguments once."""
_MAX_DEPTH = 90
_MAX_MARKS = 12
_MAX_TEXT = 1_500
_MAX_COMMAND = 200
"""Characters of a command that is written as a list, and of the name of a file."""
_LINE = kept_regex(r"(?<![A-Z0-9_])([A-Z][A-Z0-9]{1,30}(?:_[A-Z0-9]{1,30}){1,5})\\?s?\*?\s?=")
"""The name of a setting that a text looks for in a file of settings."""
_URL = kept_regex(r"[a-z]{2,6}://\S*\Z")
_FILE = kept_regex(r"(?:[\w.~$\-{}%]*[\\/])*[\w.\-$]*[\\/.][\w.\-]{2,40}")


class Mark(NamedTuple):
    """What data is of."""

    sense: str
    path: str = ""
    line: int = 0
    shown: str = ""
    where: str = ""
    """The address that it came from."""
    read: bool = True
    """Whether it is what lies at a place, and not the place."""
    signs: bool = False
    """Whether it only says who one is, in a header or as a password."""
    whole: bool = True
    """Whether it is not only a part of a longer text or list."""
    key: str = ""
    """The one setting that was picked from it."""


class Value(NamedTuple):
    """What is known of a value: the text, as far as it is constant, what it carries, and the function that it is."""

    text: str = ""
    marks: frozenset[Mark] = frozenset()
    function: FlowFunction | None = None


class Arrival(NamedTuple):
    """Data that gets to a sink."""

    kind: str
    mark: Mark
    where: str
    """What is told of the address."""
    path: str
    line: int
    language: str


NOTHING = Value()


@dataclass
class _Scope:
    script: FlowScript
    names: dict[str, Value]
    around: _Scope | None = None
    result: Value = NOTHING

    def get(self, name: str) -> Value | None:
        if name in self.names or self.around is None:
            return self.names.get(name)
        return self.around.get(name)

    def owner(self, name: str) -> _Scope:
        """Where a name was given its value first; here for a new one."""
        is_here = name in self.names or self.around is None or self.around.get(name) is None
        return self if is_here or self.around is None else self.around.owner(name)

    def mark(self, sense: str, line: int, shown: str, where: str = "", *, read: bool = True) -> Mark:
        """A mark of this place."""
        return Mark(sense, self.script.path, line, shown, where, read)


class Flow:
    """The scripts of a skill, gone through together."""

    def __init__(self, scripts: Sequence[FlowScript]) -> None:
        self._scripts = scripts
        self._by_stem = {script.path.rpartition("/")[2].rpartition(".")[0]: script for script in scripts}
        self._functions = {id(one): {each.name: each for each in one.functions if each.name} for one in scripts}
        self._results: dict[tuple[FlowFunction, tuple[Value, ...]], Value] = {}
        self._scopes: dict[FlowFunction, _Scope] = {}
        self._kept: dict[tuple[str, str], Value] = {}
        """What fields hold, by file and name; what files hold."""
        self._found: dict[Arrival, None] = {}
        self._depth = 0

    def arrivals(self) -> Sequence[Arrival]:
        """All data that gets from a source to a sink."""
        for _ in range(_ROUNDS):
            before = dict(self._kept)
            self._results.clear()
            for script in self._scripts:
                for function in script.functions:
                    self._applied(function, [])
            if before == self._kept:
                break
        return list(self._found)

    def _applied(self, function: FlowFunction, args: Sequence[Value], named: Iterable[tuple[str, Value]] = ()) -> Value:
        """What a function of the skill gives for arguments; those that are too many are given with the last one."""
        last = len(function.given) - 1
        given = [_all(args[at:] if at == last else args[at : at + 1]) for at in range(last + 1)]
        for at, names in enumerate(function.given):
            given[at] = _all([given[at], *(value for key, value in named if key in names.split())])
        asked = function, tuple(given)
        if asked not in self._results and (len(self._results) < _MAX_CALLS or not args):
            self._results[asked] = NOTHING
            bound = {name: given[at] for at, names in enumerate(function.given) for name in names.split()}
            around = self._scopes.get(function.around) if function.around is not None else None
            scope = self._scopes[function] = _Scope(function.script, bound, around)
            self._values(function.body, scope)
            self._results[asked] = scope.result
        return self._results.get(asked) or _all(args)

    def _value(self, expr: Expr | None, scope: _Scope) -> Value:
        if expr is None or self._depth >= _MAX_DEPTH:
            return NOTHING
        self._depth += 1
        value: Value
        match expr.kind:
            case "text":
                value = self._placed(Value(expr.name), expr.line, scope)
            case "function":
                value = Value(function=expr.function)
            case "block" | "return" | "either":
                values = self._values(expr.parts, scope)
                value = _all(values) if expr.kind == "either" else NOTHING
                scope.result = _all([scope.result, *values]) if expr.kind == "return" else scope.result
            case "joined":
                value = self._together(self._values(expr.parts, scope), "", expr.line, scope)
            case "add":
                value = self._set(expr, scope)
            case kind:
                value = getattr(self, f"_{kind}")(expr, scope)
        self._depth -= 1
        return value

    def _values(self, parts: Iterable[Expr], scope: _Scope) -> list[Value]:
        return [self._value(part, scope) for part in parts]

    def _set(self, expr: Expr, scope: _Scope) -> Value:
        value = self._value(expr.parts[0], scope)
        for name in expr.names:
            # A constant may be what another branch gives.
            to = scope.owner(name) if expr.kind == "add" else scope
            self._give(to, name, value, keeps=expr.kind == "add" or expr.parts[0].kind == "text")
        return value

    def _give(self, scope: _Scope, name: str, value: Value, *, keeps: bool) -> None:
        if name.startswith("self."):
            self._keep(scope.script.path, name, value)
        else:
            scope.names[name] = _both(value, scope.get(name) or NOTHING) if keeps else value

    def _keep(self, path: str, name: str, value: Value) -> None:
        self._kept[path, name] = _both(value, self._kept.get((path, name), NOTHING))

    def _placed(self, value: Value, line: int, scope: _Scope) -> Value:
        """A text with what lies at the places that it names."""
        marks = {scope.mark(sense, line, shown, read=False) for sense, shown in places_in(value.text)}
        filed = self._kept.get(("", value.text.rpartition("@")[2][:_MAX_COMMAND]), NOTHING) if value.text else NOTHING
        return value._replace(marks=_few(value.marks | marks | filed.marks))

    def _name(self, expr: Expr, scope: _Scope) -> Value:
        name, script = expr.name, scope.script
        is_shell = script.language == "shell"
        if name in ("@", "*") and is_shell:
            return _all(scope.get(str(at)) or NOTHING for at in range(1, 10))
        if name.startswith("self."):
            return self._kept.get((script.path, name), NOTHING)
        if (value := scope.get(name)) is not None:
            return value
        if not is_shell and (own := self._own(name, script)) is not None:
            return Value(function=own)  # it is handed on by its name
        sense = sense_of_key(name) if is_shell else ""
        made = frozenset({scope.mark(sense, expr.line, name)}) if sense else frozenset[Mark]()
        return Value("", made) if is_shell else self._object(name, expr.line, scope)

    def _object(self, name: str, line: int, scope: _Scope) -> Value:
        name = scope.script.meant(name)
        senses = (role.removeprefix("objects-from-") for role in roles_of(name) if role.startswith("objects-from-"))
        return Value("", frozenset(scope.mark(sense, line, name) for sense in senses))

    def _field(self, expr: Expr, scope: _Scope) -> Value:
        value, name = self._value(expr.on, scope), dotted(expr)
        if expr.name.lower() in members("fields-that-say-little"):
            return Value("", frozenset(one for one in value.marks if not one.read))
        if not value.marks and not name.startswith("."):
            return self._object(name, expr.line, scope)
        return Value(value.text, _picked(value.marks, expr.name))

    def _pick(self, expr: Expr, scope: _Scope) -> Value:
        by, on = self._value(expr.parts[0], scope), self._value(expr.on, scope)
        return Value(on.text, _one_of(on.marks, by))

    def _together(self, values: Sequence[Value], between: str, line: int, scope: _Scope) -> Value:
        text, marks = between.join(one.text or "{}" for one in values)[:_MAX_TEXT], _marks(values)
        if any(one.text.strip() and not one.marks for one in values):
            marks = _with(marks, whole=False)
        return self._placed(Value(text, marks), line, scope)

    def _named(self, expr: Expr, scope: _Scope) -> Value:
        value, key = self._value(expr.parts[0], scope), expr.name.lower()
        if key in ("host", "hostname", "domain") and "." in value.text:
            return value._replace(text=f"https://{value.text}")
        return value._replace(marks=_with(value.marks, signs=True)) if key in members("signs-in") else value

    def _group(self, expr: Expr, scope: _Scope) -> Value:
        values = self._values(expr.parts, scope)
        text, marks = " ".join(one.text for one in values if one.text).strip()[:_MAX_TEXT], _marks(values)
        begins = not text or text.split()[0] in members("shells") or (values and values[0].marks)
        value = Value(text, marks if begins else _with(marks, whole=False))
        return self._placed(value, expr.line, scope) if len(text) < _MAX_COMMAND else value

    def _call(self, expr: Expr, scope: _Scope) -> Value:
        on, values = self._value(expr.on, scope), self._values(expr.parts, scope)
        held = scope.get(expr.name) or NOTHING
        function = held.function or self._own(expr.name, scope.script)
        if function is not None:
            args = [value for part, value in zip(expr.parts, values, strict=True) if part.kind != "named"]
            named = [(part.name, value) for part, value in zip(expr.parts, values, strict=True) if part.kind == "named"]
            return self._placed(self._applied(function, args, named), expr.line, scope)
        result = self._known(expr, on, values, scope)
        for one in values:
            if one.function is not None:  # it is called back with what comes out
                result = _both(result, self._applied(one.function, [result] * len(one.function.given)))
        return result

    def _own(self, name: str, script: FlowScript) -> FlowFunction | None:
        """A function of the skill by the name that a script calls it with."""
        first, _, last = name.removeprefix("$").rpartition(".")
        own = self._functions[id(script)]
        if last in own and (not first or first == "self" or last not in members("anybodys-methods")):
            return own[last]
        stems = [first.rpartition(".")[2]] if first else sorted(script.imports)
        found = (self._functions[id(self._by_stem[stem])].get(last) for stem in stems if stem in self._by_stem)
        return next((one for one in found if one is not None), None)

    def _known(self, expr: Expr, on: Value, values: list[Value], scope: _Scope) -> Value:
        """What comes out of a function that is not the skill's own, by what the core pack says of it."""
        roles, is_command = roles_of(expr.name), expr.name.startswith("$")
        kinds = [role.removeprefix("to-") for role in roles if role.startswith("to-")]
        if is_command:
            values = [one._replace(marks=_with(one.marks, read=True)) if "@" in one.text else one for one in values]
        marks, texts = _marks([on, *values]), [one.text for one in (on, *values) if one.text]
        where = "\n".join(texts)[:_MAX_TEXT]
        made = self._source(expr, roles, values, where, scope)
        if "cleans" in roles:
            return NOTHING
        if "gets" in roles and values and not kinds and "from-network" not in roles:
            default = values[1] if len(values) > 1 else NOTHING
            return Value(default.text, _few(_one_of(on.marks, values[0]) | made | default.marks))
        if is_command and "reads" in roles:
            marks |= self._placed(Value(" ".join([expr.name[1:], *texts])[:_MAX_COMMAND]), expr.line, scope).marks
        if "reads" in roles:
            marks = _with(marks, read=True)
        if "picks" in roles and (key := next((found[1] for text in texts if (found := _LINE.search(text))), "")):
            marks = frozenset(one if one.key or sense_of_key(key) else one._replace(key=key) for one in marks)
        if "fills" in roles and (held := marks | made):
            self._fill(expr, on, held, texts, scope)
        if on.text and "sends" in roles and any(one.sense == "connection" for one in on.marks):
            kinds.append("network")
        for kind in kinds:
            self._send(kind, expr, on, values, where, scope)
        if not kinds and not is_command and not {"cleans", "joins"} & roles and _is_handed_an_address(values):
            self._send("network", expr, on, values, where, scope)  # whatever the function is called
        if made:
            is_line = any(one.sense == "connection" for one in made)
            return Value(where if is_line else "", _few(made if "network" in kinds else made | marks))
        if "network" in kinds:
            return NOTHING
        if "wraps" in roles and expr.parts:
            marks |= {Mark("into", shown=_root(expr.parts[0]).name)}
        if "opens-a-path" in roles and len(values) > 1 and values[1].text[:1] in ("w", "a", "x"):
            marks |= {Mark("into", shown=_root(expr.parts[0]).name)}
        if "joins" in roles:
            path = self._together([on, *values] if on.text else values, "/", expr.line, scope)
            return Value(path.text, _few(marks | path.marks))
        text = texts[0] if texts else ""
        # An address with something beside it, and not in it, is none any more.
        is_beside = _URL.match(text) and any(not marks.issubset(one.marks) for one in values if one.text == text)
        return Value(f"{text}\n" if is_beside else text, marks)

    def _source(
        self, expr: Expr, roles: frozenset[str], values: Sequence[Value], where: str, scope: _Scope
    ) -> frozenset[Mark]:
        """What a function is a source of."""
        senses = {role.removeprefix("from-") for role in roles if role.startswith("from-")}
        read, shown = senses - members("senses-of-places"), expr.name.lstrip("$.")
        made = frozenset(scope.mark(one, expr.line, shown, where, read=one in read) for one in senses)
        is_one = values and ("gets" in roles or values[0].text) and senses & members("senses-of-settings")
        return _picked(made, values[0].text) if is_one else made

    def _send(self, kind: str, expr: Expr, on: Value, values: list[Value], where: str, scope: _Scope) -> None:
        """Data gets to a sink."""
        if kind in ("command", "code"):
            # Their last argument is the code.
            is_last = expr.name.startswith("$") or expr.name.lower().endswith("function")
            payload = _marks([*values[:1], *(values[-1:] if is_last else ())])
        else:
            payload = _marks(values if kind == "network" or on.text else [on, *values])
        in_address = _marks(one for one in values if _URL.match(one.text))
        sends_files = "sends-files" in roles_of(expr.name)
        for mark in sorted(payload):
            if (mark.read or sends_files) and (mark.whole or kind != "command"):
                here = scope.script.path, expr.line, scope.script.language
                to = "address" if kind == "network" and mark in in_address else kind
                self._found[Arrival(to, mark, where, *here)] = None

    def _fill(self, expr: Expr, on: Value, marks: frozenset[Mark], texts: Sequence[str], scope: _Scope) -> None:
        """Data goes into what a method belongs to, what is among the arguments, and files that are named."""
        holders = expr.parts if expr.on is None or "pipes" in roles_of(expr.name) else [expr.on]
        names = [root.name for root in map(_root_or_path, holders) if root.kind == "name"]
        if "fills-a-path" in roles_of(expr.name) and expr.parts and expr.parts[0].kind == "name":
            names.append(expr.parts[0].name)
        for name in [*names, *(mark.shown for mark in on.marks if mark.sense == "into")]:
            self._give(scope.owner(name), name, Value("", marks), keeps=True)
        for text in texts:
            if len(text) < _MAX_COMMAND and _FILE.fullmatch(text) and not places_in(text):
                self._keep("", text, Value("", _with(marks, read=True)))


def _is_handed_an_address(values: Sequence[Value]) -> bool:
    """Whether a function is given an address of the network as it is, and data beside it."""
    return len(values) > 1 and values[0].text.startswith(("http://", "https://"))


def _root(expr: Expr) -> Expr:
    while expr.on is not None or expr.kind == "named":
        expr = expr.on or expr.parts[0]
    return expr


def _root_or_path(expr: Expr) -> Expr:
    """The root of an expression; of a file that is opened, the path that it was opened by."""
    root = _root(expr)
    is_opened = root.kind == "call" and root.parts and "opens-a-path" in roles_of(root.name)
    return _root(root.parts[0]) if is_opened else root


def _few(marks: frozenset[Mark]) -> frozenset[Mark]:
    return marks if len(marks) <= _MAX_MARKS else frozenset(sorted(marks)[:_MAX_MARKS])


def _marks(values: Iterable[Value]) -> frozenset[Mark]:
    return _few(frozenset().union(*(one.marks for one in values)))


def _both(new: Value, old: Value) -> Value:
    return Value(new.text or old.text, _few(new.marks | old.marks), new.function or old.function)


def _all(values: Iterable[Value]) -> Value:
    return reduce(_both, values, NOTHING)


def _with(marks: frozenset[Mark], **changes: Any) -> frozenset[Mark]:
    return frozenset(one._replace(**changes) for one in marks)


def _picked(marks: frozenset[Mark], key: str) -> frozenset[Mark]:
    """What is left of marks where one thing is picked by its name: of settings, only one that matters by its name."""
    sense, settings = sense_of_key(key), members("senses-of-settings")
    kept = frozenset(one for one in marks if one.sense not in settings)
    return kept | _with(marks - kept, sense=sense, shown=key) if sense else kept


def _one_of(marks: frozenset[Mark], key: Value) -> frozenset[Mark]:
    """What is left where one thing is picked by a key; whoever goes through the keys of settings has all of them."""
    settings = members("senses-of-settings")
    some = frozenset(one for one in marks if one.sense not in settings or one in key.marks)
    return _picked(marks, key.text) if key.text else some
