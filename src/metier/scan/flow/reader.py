"""Scripts in the common form: one walk over the syntax tree, by a table of the kinds of nodes of each language.

Commands of a shell are calls, what is piped into them is an argument: `cat x | curl -d @- y` is a call of `$curl` with
a call of `$cat` in it. A kind of node that is not in the table is gone through, and has no value of its own.
"""

from __future__ import annotations

import re
import textwrap
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from metier._regex_cache import kept_regex
from metier.scan.flow.catalog import members
from metier.scan.flow.form import Expr, FlowFunction, FlowScript, Unreadable, dotted
from metier.scan.view import once_a_skill

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from metier.scan.flow.form import ExprKind
    from metier.scan.view import SkillView, ViewFile

_MAX_BYTES = 400_000
_MAX_NODES = 15_000
_JOINS = frozenset({"+", "/", "%", "Add", "Div", "Mod"})
_LANGUAGES = ("python", "javascript", "shell")
"""Languages of scripts that a command may hold."""
_ENDING = kept_regex(r"\.[cm]?[jt]sx?$")
_NAME = kept_regex(r"[A-Za-z_][\w./-]*")


def read_scripts(view: SkillView, wanted: Collection[tuple[str, str]]) -> list[FlowScript]:
    """The scripts of some files and languages: files, and the fences of a page, those of one language as one."""
    files = [file for file in view.files if any(file.path == path for path, _ in wanted)]
    return [
        script
        for file in files
        for one in texts_of(file)
        if one[:2] in wanted
        for script in _scripts(view, *one[:2], tuple(one[2]))
    ]


@once_a_skill
def _scripts(view: SkillView, path: str, language: str, texts: tuple[tuple[int, str], ...]) -> tuple[FlowScript, ...]:
    return tuple(_read(path, language, list(texts)))


def texts_of(file: ViewFile) -> Iterator[tuple[str, str, list[tuple[int, str]]]]:
    """Path, language, and texts with the lines that they begin on."""
    if file.role == "script":
        yield file.path, file.language, [(1, file.text)]
        return
    fences: dict[str, list[tuple[int, str]]] = {}
    for part in file.parts:
        if part.kind == "code":
            fences.setdefault(part.language or "shell", []).append((part.line, textwrap.dedent(part.text)))
    for language, texts in fences.items():
        yield file.path, language, texts


def _read(path: str, language: str, texts: list[tuple[int, str]], depth: int = 0) -> Iterator[FlowScript]:
    lines: list[str] = []
    before = texts[0][0] - 1
    for line, text in texts:
        lines += [""] * (line - 1 - before - len(lines)) + text.splitlines()
    script = FlowScript(path, language, "\n".join(lines), before)
    try:
        if len(script.text) > _MAX_BYTES:
            raise Unreadable
        _READERS[language](script)
    except (Unreadable, SyntaxError, ValueError, RecursionError, MemoryError):
        for one in texts if len(texts) > 1 else ():
            yield from _read(path, language, [one], depth)
        return
    yield script
    for inner, line, text in script.inner if depth < 2 else ():
        yield from _read(path, inner, [(line, text)], depth + 1)


@cache
def _forms(language: str) -> dict[str, list[str]]:
    """What each kind of node is in the common form."""
    name = "script" if language.endswith("script") else language
    return {kind: form.split(":") for kind, _, form in (one.partition("=") for one in members(f"nodes-{name}"))}


@cache
def _parser(language: str) -> Callable[[bytes], Any]:
    import tree_sitter

    grammar = import_module(f"tree_sitter_{'bash' if language == 'shell' else language}")
    made = grammar.language_typescript() if language == "typescript" else grammar.language()
    return tree_sitter.Parser(tree_sitter.Language(made)).parse


class _Reader:
    """A walk over the tree of a script; what is in the table is a method, or a kind of expression of all in it."""

    unknown: ExprKind = "block"
    """What a kind of node is that the table does not name."""

    def __init__(self, script: FlowScript) -> None:
        self.script = script
        self.forms = _forms(script.language)
        self.count = 0
        self.here = whole = FlowFunction("", script)
        script.functions.append(whole)
        whole.body = (self.expr(self.tree()),)

    def tree(self) -> Any:
        """The root of the tree."""
        root = _parser(self.script.language)(self.script.text.encode(errors="replace")).root_node
        broken = sum(one.end_byte - one.start_byte for one in root.children if one.type == "ERROR")
        if broken > len(self.script.text) / 3 and self.script.language != "shell":
            raise Unreadable
        return root

    def kind(self, node: Any) -> str:
        """The kind of a node."""
        return str(node.type)

    def line(self, node: Any) -> int:
        """The line that a node begins on."""
        return self.script.before + int(node.start_point[0]) + 1

    def nodes(self, node: Any, *fields: str) -> list[Any]:
        """The children of a node, or those in its fields."""
        return [one for name in fields for one in node.children_by_field_name(name)] if fields else node.named_children

    def word(self, node: Any, name: str = "") -> str:
        """The text of a node, or of one of its fields."""
        found = node.child_by_field_name(name) if name else node
        return (found.text or b"").decode(errors="replace") if found is not None else ""

    def expr(self, node: Any) -> Expr:
        """A node in the common form."""
        self.count += 1
        if self.count > _MAX_NODES:
            raise Unreadable
        form, *fields = self.forms.get(self.kind(node)) or [self.unknown]
        own: Callable[..., Expr] | None = getattr(self, f"_{form}", None)
        return own(node, *fields) if own is not None else self.made(form, node, self.exprs(node, *fields))

    def exprs(self, node: Any, *fields: str) -> tuple[Expr, ...]:
        """What is in a node, or in its fields."""
        return tuple(map(self.expr, self.nodes(node, *fields)))

    def first(self, node: Any, *fields: str) -> Expr:
        """The first of them."""
        return next(map(self.expr, self.nodes(node, *fields)[:1]), self.made("block", node))

    def made(self, kind: Any, node: Any, parts: tuple[Expr, ...] = (), name: str = "", on: Expr | None = None) -> Expr:
        """An expression that begins where a node does; blocks in a block are one with it."""
        if kind == "block":
            each = (one.parts if one.kind == "block" else (one,) for one in parts)
            parts = tuple(inner for some in each for inner in some)
        return Expr(kind, self.line(node), name, parts, on)

    _inner = first

    def _nothing(self, node: Any) -> Expr:
        return self.made("block", node)

    def _return(self, node: Any, *fields: str) -> Expr:
        return self.made("return", node, (self.first(node, *fields),))

    def _name(self, node: Any, field: str = "") -> Expr:
        name = self.word(node, field).strip("${}")
        return self.made("name", node, name="self" if name in ("this", "cls") else name)

    def _text(self, node: Any) -> Expr:
        text = self.word(node)
        return self.made("text", node, name=text[1:-1] if node.type in ("string", "regex") else text)

    def _named(self, node: Any, key: str = "", value: str = "") -> Expr:
        some = self.exprs(node, value) if value else ()
        return self.made("named", node, some or (self._name(node, key),), self.word(node, key).strip("\"'`[]"))

    def _field(self, node: Any, of: str, key: str) -> Expr:
        on, name = self.first(node, of), self.word(node, key)
        is_own = on.kind == "name" and on.name == "self"
        return self.made("name", node, name=f"self.{name}") if is_own else self.made("field", node, (), name, on)

    def _pick(self, node: Any, of: str, key: str) -> Expr:
        on, by = self.first(node, of), self.first(node, key)
        return self.made("field", node, (), by.name, on) if by.kind == "text" else self.made("pick", node, (by,), on=on)

    def _binary(self, node: Any, sign: str, *fields: str) -> Expr:
        sign, (left, right) = self.word(node, sign), self.exprs(node, *fields)
        between = (self.made("text", node, name="/"),) if sign in ("/", "Div") else ()
        kind = "joined" if sign in _JOINS else "either" if sign in ("||", "&&", "??") else "block"
        return self.made(kind, node, (left, *between, right))

    def _call(self, node: Any, called: str, *given: str) -> Expr:
        func, nodes = self.first(node, called), self.nodes(node, *given)
        if [self.kind(one) for one in nodes] == ["arguments"]:
            nodes = self.nodes(nodes[0])
        name = "new." * (called == "constructor") + self.script.meant(_module_in(func) or dotted(func))
        on = func.on if func.kind == "field" else None if func.kind == "name" else func
        return self.made("call", node, tuple(map(self.expr, nodes)), name, on)

    def _function(self, node: Any, name: str, body: str, *given: str) -> Expr:
        nodes = [inner for one in self.nodes(node, *given) for inner in (self.nodes(one) or [one])] if given else []
        names = [" ".join(own for _, own in _names(self.expr(one))) for one in nodes] or list("123456789")
        named = self.word(node, name) if name else ""
        function = FlowFunction(named, self.script, tuple(names[names[0] == "self" :]), around=self.here)
        self.script.functions.append(function)
        self.here, around = function, self.here
        function.body = self.exprs(node, body)
        if not given or (not name and [one.kind for one in function.body] != ["block"]):
            function.body = (self.made("return", node, function.body),)
        self.here = around
        return self.made("function", node)._replace(function=function)

    def _set(self, node: Any, value: str, *targets: str) -> Expr:
        return self.given(self.exprs(node, *targets), self.first(node, value))

    def _add(self, node: Any, value: str, *targets: str) -> Expr:
        return self._set(node, value, *targets)._replace(kind="add")

    def _loop(self, node: Any, target: str, value: str, *body: str) -> Expr:
        given = self.given(self.exprs(node, target), self.made("either", node, self.exprs(node, value)))
        parts = self.made("block", node, (given,)), *(self.exprs(node, *body) if body else ())
        return self.made(self.unknown, node, parts)

    def given(self, targets: tuple[Expr, ...], value: Expr) -> Expr:
        """Targets are given a value; a function is called like what it is given to, a module is imported as it."""
        if not targets:
            return value
        names = [one for target in targets for one in _names(target)]
        if value.function is not None and not value.function.name and targets[0].kind in ("name", "field"):
            value.function.name = targets[0].name.rpartition(".")[2]
        elif module := _module_in(value):
            self.script.imports.add(module)
            self.script.aliases.update((name, f"{module}.{key}".rstrip(".")) for key, name in names)
        if targets[0].kind == "field" and targets[0].name == "src":
            # A picture is fetched as soon as it is told where it lies.
            value = Expr("call", value.line, "set.src", (value,))
        is_part = any(one.kind in ("field", "pick") for one in targets)
        own = tuple(name for _, name in names)
        return Expr("add" if is_part else "set", value.line, "", (value,), names=own)

    def _import(self, node: Any, source: str, *_: str) -> Expr:
        value = self.made("call", node, self.exprs(node, source), "import")
        return self.given(tuple(self.expr(one) for one in self.nodes(node) if one.type == "import_clause"), value)


class _Python(_Reader):
    """The same by the syntax tree that Python itself makes of a script."""

    def tree(self) -> Any:
        import ast
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(self.script.text)

    def kind(self, node: Any) -> str:
        return type(node).__name__

    def line(self, node: Any) -> int:
        return self.script.before + int(getattr(node, "lineno", 0))

    def nodes(self, node: Any, *fields: str) -> list[Any]:
        import ast

        if fields == ("items",):
            pairs = zip(node.keys, node.values, strict=True)
            return [ast.keyword(getattr(key, "value", None), one, lineno=one.lineno) for key, one in pairs]
        if self.kind(node) == "arguments":
            fields = "posonlyargs", "args", "kwonlyargs", "vararg", "kwarg"
        values = (getattr(node, name, None) for name in fields or node._fields)
        some = (one for value in values for one in (value if isinstance(value, list) else (value,)))
        return [one for one in some if getattr(one, "_fields", ())]

    def word(self, node: Any, name: str = "") -> str:
        value = getattr(node, name) or ""
        return value if isinstance(value, str) else self.kind(value)

    def _text(self, node: Any) -> Expr:
        value = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
        return self.made("text", node, name=value) if isinstance(value, str) else self._nothing(node)

    def _import(self, node: Any, *_: str) -> Expr:
        of = getattr(node, "module", None) or ""
        self.script.imports.update(one.rpartition(".")[2] for one in (of, *(each.name for each in node.names)))
        for one in node.names:
            if one.asname or hasattr(node, "module"):
                self.script.aliases[one.asname or one.name] = f"{of}.{one.name}".strip(".")
        return self._nothing(node)


class _Shell(_Reader):
    """The same with what commands read and write: what is not in the table gives what the commands in it write."""

    unknown = "either"
    stdin: tuple[Expr, ...] = ()
    """What is piped into what is being read."""

    def _text(self, node: Any) -> Expr:
        text = self.word(node).replace("--post-file=", "--post-file=@").replace('\\"', '"')
        return self.made("text", node, name=text.strip("$'") if "_string" in node.type else text)

    def _assignment(self, node: Any) -> Expr:
        appends = "+=" in self.word(node)[:60].partition("$")[0]
        return self.made("block", node, ((self._add if appends else self._set)(node, "value", "name"),))

    def _pipeline(self, node: Any) -> Expr:
        stdin = self.stdin
        for one in node.named_children:
            value = self.fed(one, stdin)
            stdin = (value,)
        return value

    def fed(self, node: Any, stdin: tuple[Expr, ...]) -> Expr:
        """What a command writes that is given something to read."""
        kept, self.stdin = self.stdin, stdin
        value = self.expr(node)
        self.stdin = kept
        return value

    def _file(self, node: Any) -> Expr:
        return self.made("call", node, self.exprs(node, "destination"), "$cat")

    def _heredoc(self, node: Any) -> Expr:
        return self.made("either", node, self.exprs(node), self.word(node))

    def _redirected(self, node: Any) -> Expr:
        stdin, target = self.stdin, tuple[Expr, ...]()
        outer = self.nodes(node, "redirect")
        for one in (*outer, *(each for some in outer for each in self.nodes(some))):
            if one.type == "file_redirect" and "<" not in self.word(one)[:3]:
                target = target if self.word(one).startswith("2") else self.exprs(one, "destination")
            elif one.type in ("file_redirect", "heredoc_body", "herestring_redirect"):
                stdin = (self.expr(one),)
        bodies = self.nodes(node, "body")
        value = self.fed(bodies[0], stdin) if bodies else self.made("either", node, stdin)
        return self.made("call", node, (*target, value), "$>") if target else value

    def _command(self, node: Any) -> Expr:
        words = [one for one in node.named_children if one.type not in members("nodes-of-no-words")]
        settings = [self.expr(one) for one in node.named_children if one.type == "variable_assignment"]
        texts, name = [self.word(one) for one in words], self.word(node, "name")
        while name in members("commands-before-commands") and any(map(_NAME.fullmatch, texts)):
            at = next(at for at, text in enumerate(texts) if _NAME.fullmatch(text))
            name, words, texts = texts[at], words[at + 1 :], texts[at + 1 :]
        name = name.rpartition("/")[2]
        if name == "read":
            value = self.made("either", node, self.stdin or (self.made("call", node, (), "$read"),))
            own = tuple(text for text in texts if _NAME.fullmatch(text))
            return self.made("block", node, (Expr("set", value.line, "", (value,), names=own),))
        language = next((each for each in _LANGUAGES if name in members(f"programs-of-{each}")), "")
        if language and self.stdin and self.stdin[0].name and self.stdin[0].kind == "either":
            self.script.inner.append((language, self.stdin[0].line, self.stdin[0].name))
        parts = list(self.arguments(language, words))
        held = [one.parts[0] for one in parts if one.kind == "named" and one.name in members("options-with-programs")]
        run = held if language == "shell" else []
        parts = run or [*parts, *(self.made("named", node, (one,), "<") for one in self.stdin)]
        call = self.made("call", node, tuple(parts), "$eval" if run else f"${name}")
        return self.made("either", node, (*settings, call))

    def arguments(self, language: str, words: Iterable[Any]) -> Iterator[Expr]:
        """The arguments of a command; what follows an option is called like it, and may be a program."""
        option = ""
        for one in words:
            text, value = self.word(one), self.expr(one)
            if option and not text.startswith("-"):
                if language and option in members("options-with-programs") and one.type in ("string", "raw_string"):
                    inner = re.sub(r"\\([\"\\$`])", r"\1", text[1:-1]) if one.type == "string" else text[1:-1]
                    self.script.inner.append((language, value.line, inner))
                if option in ("-T", "--upload-file"):
                    value = self.made("joined", one, (self.made("text", one, name="@"), value))
                value, option = self.made("named", one, (value,), option), ""
            else:
                option = text if text.startswith("-") and one.type == "word" and "=" not in text else ""
            yield value


_READERS = {"python": _Python, "javascript": _Reader, "typescript": _Reader, "shell": _Shell}


def _names(target: Expr, key: str = "") -> Iterator[tuple[str, str]]:
    """The names that a target gives something, each with the key of what; that of the whole for a part of it."""
    while target.on is not None:
        target = target.on
    if target.kind == "name":
        yield key, target.name
    for one in target.parts if target.kind in ("group", "named") else ():
        yield from _names(one, target.name)


def _module_in(value: Expr) -> str:
    """The module that a call of `require` or `import` gives, or a part of it; empty for any other expression."""
    if value.kind == "field" and value.on is not None and (module := _module_in(value.on)):
        return f"{module}.{value.name}"
    is_import = value.kind == "call" and value.name in ("require", "import") and value.parts
    name = value.parts[0].name.removeprefix("node:") if is_import and value.parts[0].kind == "text" else ""
    is_file = name.startswith(".")  # which is called like the file, without folder and ending
    return _ENDING.sub("", name.rpartition("/")[2]) if is_file else name.replace("/", ".")
