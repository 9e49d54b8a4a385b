"""`metier session`: a small shell in which a person does what a model would."""

from __future__ import annotations

import json
import shlex
import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

import metier
import metier.dialect
import metier.run
import metier.skill
from metier.cli.exit_codes import FINE, exit_code_for
from metier.cli.identity import user_name
from metier.cli.json_shapes import outcome_shape
from metier.cli.output import Style, print_error, table
from metier.cli.parser import DIALECTS, Parser, library_of
from metier.cli.search import update_index
from metier.cli.terminal import at_terminal, complete_lines, typed_lines
from metier.errors import MetierError
from metier.hints import for_person

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from metier import Event, Session

_HELP = """\
  load NAME...        load skills instead of the loaded ones     add NAME...         beside them
  unload NAME...      unload some; `unload` alone unloads all    active              what is loaded
  read PATH [SKILL]   a file of a loaded skill                   files [SKILL]       its files
  run SCRIPT [ARG...] a script of the last loaded skill          search WORDS        skills that fit
  instructions [ASK]  the top-level text for a model             tools               what a model can call
  call TOOL [JSON]    a tool call, as a model makes it           /NAME [ARGS]        a skill as a person invokes it
  save                the session as JSON                        help, quit"""


def add(parser: Parser) -> None:
    parser.example('echo "instructions" | metier session csv-analyst')
    parser.set_defaults(is_exact=True)
    parser.library()
    parser.option("names", "NAME", "skills to begin with", nargs="*", complete="names")
    parser.option("--dialect", None, "(default: runtime)", choices=DIALECTS, default="runtime")
    parser.option(
        "--delivery",
        None,
        "where a skill's instructions go: into the result of loading it (default), or to the top level",
        choices=("result", "instructions"),
        default="result",
    )
    parser.catalog_budget()
    parser.option("--workspace", "DIR", "where scripts work (default: here)")
    parser.flag("--unsandboxed", "let scripts run with all that you may do yourself")
    parser.flag("--hooks", "run the hooks that skills declare")
    parser.flag("--proposals", "with the tools by which models propose changes to skills")
    parser.flag("--injection", "run the commands inside instructions")
    parser.option(
        "--builtin",
        "TOOL",
        "a tool for `call`: Read, Write, Edit, Glob, Grep or Bash (repeatable)",
        action="append",
        choices=("Read", "Write", "Edit", "Glob", "Grep", "Bash"),
    )
    parser.json()


def run(options: Namespace) -> int:
    library = library_of(options)
    policy = metier.Policy(
        unsandboxed="allow" if options.unsandboxed else "deny",
        # Where nobody says anything, the policy files do.
        hooks="allow" if options.hooks else None,
        injection="allow" if options.injection else None,
    )
    session = library.session(
        guard=metier.Guard(policy, approve=at_terminal()),
        user=user_name(),
        proposals=options.proposals,
        runner=metier.run.PlainRunner() if options.unsandboxed else None,
        delivery=options.delivery,
        budget=options.budget,
        workspace=options.workspace,
    )
    shell = SessionPrompt(session, options.dialect, options.builtin or (), options.json)
    with session:
        if options.names:
            shell.do(shlex.join(["load", *options.names]))
        shell.talk()
    return FINE if shell.is_interactive else shell.exit_code


def _print(value: object) -> None:
    """A line of JSON for each command, so that a program can read them as they come."""
    print(json.dumps(value), flush=True)


class SessionPrompt:
    """Reads lines, does what they say, and shows what comes of it."""

    def __init__(self, session: Session, dialect_name: str, builtin: Sequence[str], as_json: bool) -> None:
        self._session = session
        self._dialect = metier.dialect.dialect(dialect_name)
        self._builtin = builtin
        self._json = as_json
        self._style = Style(sys.stdout)
        self.is_interactive = sys.stdin.isatty() and sys.stdout.isatty()
        self.exit_code = FINE
        if not as_json:
            session.listen(self._print_event)

    def talk(self) -> None:
        """Until the input ends or somebody says quit."""
        if self.is_interactive:
            names = [entry.name for entry in self._session.library]
            words = sorted({*_VERBS, *names, *(f"/{name}" for name in names)})
            complete_lines(lambda text: (word for word in words if word.startswith(text)), " ")
            print(f"{len(self._session.library):,} skills. `help` shows what you can do.")
        for typed in typed_lines(lambda: "metier> ", is_interactive=self.is_interactive):
            line = (typed or "").strip()
            if line in ("quit", "exit"):
                return
            if line and not line.startswith("#"):
                self.do(line)

    def do(self, line: str) -> None:
        """One line; what goes wrong is said, and the next line is read."""
        try:
            if line.startswith("/"):
                self._invoke(line)
                return
            verb, _, rest = line.partition(" ")
            doing: Callable[[str], None] | None = getattr(self, f"_{verb}", None) if verb in _VERBS else None
            if doing is None:
                self._fail("unknown-command", f"There is no command {verb!r}.", "`help` shows them.")
            else:
                doing(rest.strip())
        except MetierError as error:
            self._fail(error.code, str(error), for_person(error.hint))
        except ValueError as error:
            self._fail("invalid-argument", f"That cannot be read: {error}.", "Check the quotes.")

    # --- the commands -------------------------------------------------------------------------------------------

    def _help(self, _: str) -> None:
        print(_HELP)

    def _load(self, rest: str) -> None:
        self._loaded(shlex.split(rest), "replace")

    def _add(self, rest: str) -> None:
        self._loaded(shlex.split(rest), "add")

    def _loaded(self, names: list[str], mode: Any) -> None:
        receipt = self._session.load(names, mode)
        words = self._dialect.words
        texts = {name: self._session.prompt.content(name, words=words) for name in receipt.changed}
        if self._json:
            _print({**receipt.as_dict(), "content": texts})
            return
        for text in texts.values():
            self._text(text)

    def _unload(self, rest: str) -> None:
        names = shlex.split(rest)
        shape = self._session.unload(names, all=not names).as_dict()
        if self._json:
            _print(shape)
        else:
            print(f"Loaded: {', '.join(item['name'] for item in shape['active']) or 'nothing'}.")

    def _active(self, _: str) -> None:
        active = self._session.active
        rows = [(one.name, one.digest[:19], "stale" if one.is_stale else "", one.folder) for one in active]
        shape = self._session.parts.loader.receipt().as_dict()
        self._table(shape, ("NAME", "DIGEST", "STATE", "FOLDER"), rows, "No skill is loaded.")

    def _files(self, rest: str) -> None:
        files = self._session.loaded.one(rest or None).listing.files
        shape = [{"path": file.path, "size": file.size, "kind": file.kind} for file in files]
        self._table(shape, ("PATH", "KIND", "BYTES"), [(file.path, file.kind, f"{file.size:,}") for file in files], "")

    def _read(self, rest: str) -> None:
        path, *skill = shlex.split(rest) or [""]
        resource = self._session.read(path, skill[0] if skill else None)
        if self._json:
            _print(resource.as_dict())
            return
        self._text(resource.content)
        if resource.truncated:
            print(self._style.warn(f"truncated: the file has {resource.size:,} bytes"))

    def _run(self, rest: str) -> None:
        script, *arguments = shlex.split(rest) or [""]
        outcome = self._session.run_blocking(script, arguments)
        if self._json:
            _print(outcome_shape(outcome))
            return
        for text in (outcome.stdout, outcome.stderr):
            if text:
                self._lines_of(text)
        for note in outcome.notes:
            print(self._style.warn(Style.text(note, 1_000)))
        self._ended(outcome.is_success)

    def _search(self, rest: str) -> None:
        update_index(self._session.library)
        found = self._session.prompt.search(rest)
        shape = [{"name": result.name, "score": result.score} for result in found]
        rows = [(result.name, f"{result.score:.2f}", " ".join(result.description.split())) for result in found]
        self._table(shape, ("NAME", "SCORE", "DESCRIPTION"), rows, "Nothing fits.")

    def _instructions(self, rest: str) -> None:
        self._text(self._session.instructions(rest or None, dialect=self._dialect), key="instructions")

    def _tools(self, _: str) -> None:
        tools = self._session.tools(self._dialect)
        rows = []
        for tool in tools:
            written = json.dumps(metier.dialect.definitions([tool], "openai"))
            tokens = metier.skill.estimate_tokens(written)
            rows.append((tool.name, f"{len(written):,}", f"{tokens:,}", tool.description))
        shape = metier.dialect.definitions(tools, "mcp")
        self._table(shape, ("TOOL", "BYTES", "TOKENS", "DESCRIPTION"), rows, "No tools.")

    def _call(self, rest: str) -> None:
        name, _, arguments = rest.partition(" ")
        executor = self._session.executor(dialect=self._dialect, builtin=self._builtin)
        result = executor.execute_blocking(name, arguments or None)
        self._ended(result.success, result.code or "")
        if self._json:
            shape = {"success": result.success, "result": result.result, "error": result.error, "code": result.code}
            _print({**shape, "hint": result.hint, "duration_ms": result.duration_ms})
            return
        self._text(metier.dialect.as_text(result))

    def _save(self, _: str) -> None:
        _print(self._session.save())

    def _invoke(self, line: str) -> None:
        found = self._session.invoke(line, words=self._dialect.words, make_room=True)
        if found is None:
            self._fail("invalid-argument", "That is no /name.", "`search WORDS` finds skills.")
        elif self._json:
            _print({"name": found.name, "text": found.text, "is_user_message": found.is_user_message})
        else:
            self._text(found.text)

    # --- showing ------------------------------------------------------------------------------------------------

    def _table(self, shape: object, head: Sequence[str], rows: Sequence[Sequence[str]], nothing: str) -> None:
        if self._json:
            _print(shape)
        else:
            print(table(self._style, head, rows) if rows else nothing)

    def _text(self, text: str, key: str = "text") -> None:
        size, tokens = len(text.encode(errors="replace")), metier.skill.estimate_tokens(text)
        if self._json:
            _print({key: text, "bytes": size, "tokens": tokens})
            return
        self._lines_of(text)
        print(self._style.dim(f"({size:,} bytes, about {tokens:,} tokens)"))

    def _lines_of(self, text: str) -> None:
        for line in text.splitlines():
            print("\t".join(Style.text(part, 100_000) for part in line.split("\t")))

    def _print_event(self, event: Event) -> None:
        paint = self._style.bad if event.kind == "refused" else self._style.dim
        # What somebody should know says more than that it happened.
        says = event.kind == "noted" or event.data.get("rule", "default") != "default"
        more = f": {Style.text(event.message, 300)}" if says else ""
        print(paint(f"· {event.kind} {Style.text(event.skill or event.tool)}{more}"), file=sys.stderr)

    def _ended(self, success: bool, code: str = "") -> None:
        """Remember the worst that came of a line: whoever has to approve comes before any other problem."""
        if not success:
            self.exit_code = max(self.exit_code, exit_code_for(code))

    def _fail(self, code: str, message: str, hint: str) -> None:
        self._ended(False, code)
        if self._json:
            _print({"error": {"code": code, "message": message, "hint": hint}})
            return
        print_error(code, message, hint)


_VERBS = frozenset(
    [
        *("help", "load", "add", "unload", "active", "files", "read", "run", "search"),
        *("instructions", "tools", "call", "save"),
    ]
)
