"""The words of the command line: every command, option and example in one place."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, cast

from metier._version import __version__
from metier.cli import words_approve, words_audit, words_policy, words_propose, words_scan, words_store
from metier.cli.later import Later
from metier.cli.verbs import Formatter, add_check, add_json, explained
from metier.skill.diagnostic import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_EXAMPLES = """\
examples:
  metier list                            the skills that are there for you, here
  metier --skills ./skills list --all    those of a folder, shadowed and broken ones too
  metier search "plot a csv file"        the skills that fit, the best first, and why
  metier catalog --budget 1024           what a model is shown of them
  metier listing csv-analyst pinned      how much models are shown of one
  metier show csv-analyst                what one skill says of itself
  metier validate ./my-skill --strict    what the specification has against it
  metier session csv-analyst             load it as a model would, and see what the model sees
  metier run csv-analyst peek_csv.py -- data.csv              one of its scripts, in a cage
  metier shell                           a shell that has skills and nothing of this machine
  metier explain --rules "Bash(git:*)" --command "git push"   whether a call is allowed, and why
  metier ask "What is in sales.csv?"     an agent that uses the skills that fit
  metier chat --agent skill-builder      talk with an agent; `metier agents` lists them
  metier mcp --install claude-code       skills for an MCP client: also cursor, vscode, codex, zed and others
  metier sync --to .claude/skills        skills as folders, for clients that only read disk
  metier scan ./skills                   signs of an attack, without running anything
  metier policy explain deploy           why a skill is allowed, asked about or denied, with file and line
  metier approve list                    what waits for somebody to agree
  metier audit verify                    whether all records are as they were written
  metier new my-skill                    a skill to begin with
  metier doctor                          what is found where, what is wrong, what to do

exit codes: 0 fine, 1 problems found, 2 wrong usage, 3 content is not what was recorded, 4 an approval is needed
"""


DEFAULT_BUDGET = 5_120
"""The default of a session, which is not imported for it."""


class _Parser(argparse.ArgumentParser):
    passed_on = ""
    """Where the words behind `--` go, for a command that passes them on: no version of Python reads them alike."""
    later: Later | None = None
    """Options that it gets when somebody names it: to make those of all commands takes longer than most of them do."""

    def __init__(self, **options: Any) -> None:
        # `--skill NAME` is no `--skills DIR`.
        super().__init__(**{**options, "allow_abbrev": False})

    def add_by(self, add: Callable[[argparse.ArgumentParser], None]) -> None:
        """Have a function add options, for those whose values take a while to import."""
        add(self)

    def complete(self) -> None:
        """Give it its options."""
        later, self.later = self.later, None
        if later is not None:
            later.do_to(self)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Read a command line, all of it but what is passed on."""
        self.complete()
        found, unknown = self._parse(args, namespace)
        if unknown and " " in self.prog:
            # Here and not at the top, so that the usage shown is that of the command.
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._meant(unknown)}")
        return found, unknown

    def _parse(
        self, args: Sequence[str] | None, namespace: argparse.Namespace | None
    ) -> tuple[argparse.Namespace, list[str]]:
        if not self.passed_on or args is None:
            return super().parse_known_args(args, namespace)
        end = list(args).index("--") if "--" in args else len(args)
        found, more = super().parse_known_args(args[:end], namespace)
        # Words that stand behind an option are left over by some versions of Python.
        words, unknown = ([], more) if any(word.startswith("-") for word in more) else (more, [])
        setattr(found, self.passed_on, [*getattr(found, self.passed_on), *words, *args[end + 1 :]])
        return found, unknown

    def _meant(self, unknown: Sequence[str]) -> str:
        """The options that may have been meant by some that there are not."""
        from metier.cli.suggesting import closest

        options = [word.partition("=")[0] for word in unknown if word.startswith("--")]
        meant = [one for option in options for one in closest(option, self._option_string_actions)[:1]]
        return f" (did you mean {', '.join(meant)}?)" if meant else ""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            from metier.cli.suggesting import suggestion

            self.error(suggestion(str(value), list(action.choices), self.prog))
        super()._check_value(action, value)

    def error(self, message: str) -> NoReturn:
        """Wrong usage, with the words of the caller made harmless for a terminal."""
        if message.endswith("required: VERB"):
            known = next(one.choices for one in self._actions if isinstance(one, argparse._SubParsersAction))
            message = f"a verb is missing: {', '.join(known)}"
        elif message.endswith("required: SCRIPT"):
            message += " (`metier show NAME` lists those of a skill)"
        super().error(shown(message, limit=500))


class Command(Protocol):
    """What adds a command to the parser."""

    def __call__(
        self,
        name: str,
        help: str,  # noqa: A002
        example: str,
        module: str | None = None,
        *,
        library: bool = False,
    ) -> argparse.ArgumentParser:
        """A command, carried out by `run` of a module of this room; `library` adds `--skills` and who asks."""
        ...


def make_parser(*, lazily: bool = False) -> argparse.ArgumentParser:
    """The parser for the whole command; `lazily`, each command gets its options when the command line names it."""
    parser = _Parser(
        prog="metier",
        description="Skills for any agent, and control over what they may do.",
        epilog=_EXAMPLES,
        formatter_class=Formatter,
    )
    parser.add_argument("--version", action="version", version=f"metier {__version__}")
    _shared(parser, "before")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")

    def command(
        name: str,
        help: str,  # noqa: A002
        example: str,
        module: str | None = None,
        *,
        library: bool = False,
    ) -> _Parser:
        added: _Parser = commands.add_parser(name, **explained(help, example))
        added.set_defaults(module=module or name)
        if lazily:
            added.later = Later()
            added = cast("_Parser", added.later)
        if library:
            _shared(added, "after")
            _caller(added)
        return added

    def name_argument(added: argparse.ArgumentParser) -> None:
        argument: Any = added.add_argument("name", metavar="NAME", help="a name, a folder's name, or NAME@SOURCE")
        argument.completer = _complete_names

    added = command("list", "list the skills that are there", "metier list --all --json", library=True)
    added.add_argument("text", metavar="TEXT", nargs="?", help="only those whose name or a tag contains it")
    added.add_argument("--all", action="store_true", help="also shadowed, hidden and broken skills")
    add_json(added)

    added = command(
        "search",
        "find the skills that fit, the best first",
        'metier search "plot a csv file" tag:data -k 3',
        library=True,
    )
    added.add_argument(
        "query", metavar="QUERY", nargs="+", help='words, "a phrase", /name, tag:NAME, layer:NAME; quoted for the shell'
    )
    added.add_argument("-k", metavar="N", type=_number, default=10, help="how many at most (default: 10)")
    added.add_argument(
        "--for-models", action="store_true", help="only what models may find: ready, and not for people only"
    )
    add_json(added)

    added = command(
        "catalog",
        "print what a model is shown of the skills, within a budget of bytes",
        'metier catalog --budget 1024 --query "plot a csv file"',
        library=True,
    )
    added.add_argument("--budget", metavar="BYTES", type=_number, default=4_096, help="at most (default: 4096)")
    added.add_argument("--query", metavar="TEXT", help="what the user asks for: the most relevant skills come in")
    added.add_argument("--pin", metavar="NAME", action="append", help="a skill that is always shown (repeatable)")
    added.add_argument("--format", choices=("xml", "markdown", "jsonl"), default="xml", help="(default: xml)")
    add_json(added)

    added = command(
        "listing",
        "show or set how much models are shown of a skill",
        "metier listing legacy-reports name-only --project",
        "catalog",
        library=True,
    )
    name_argument(added)
    added.add_by(_mode)
    where = added.add_mutually_exclusive_group()
    where.add_argument("--user", action="store_true", help="in your own policy file (default)")
    where.add_argument("--project", action="store_true", help="in the policy file of this project")
    add_json(added)

    added = command(
        "show",
        "show what a skill says of itself, its files and what is wrong with it",
        "metier show csv-analyst",
        library=True,
    )
    name_argument(added)
    add_json(added)

    added = command(
        "read",
        "print a skill's instructions, or one of its files",
        "metier read csv-analyst scripts/profile_csv.py",
        "show",
        library=True,
    )
    name_argument(added)
    file: Any = added.add_argument("file", metavar="FILE", nargs="?", help="a path inside the skill")
    file.completer = _complete_files

    added = command("validate", "say what is wrong with skills", "metier validate ./my-skill --strict")
    added.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        help="a SKILL.md, a skill's folder, a folder of skills, an archive (default: the skills that are here)",
    )
    added.add_argument("--strict", action="store_true", help="the specification decides: its violations are errors")
    added.add_argument("--portable", action="store_true", help="strict, and the rules of places skills are uploaded to")
    add_json(added)

    added = command(
        "new", "write a new skill to begin with", 'metier new pdf-forms --description "Fill PDF forms. Use when ..."'
    )
    added.add_argument("name", metavar="NAME", help="lower-case letters, digits and single hyphens")
    added.add_argument("--into", metavar="DIR", default=".", help="the folder to put it in (default: here)")
    added.add_argument("--description", metavar="TEXT", help="what it does and when to use it")

    added = command(
        "session",
        "load, read and run skills as a model would, and see what it is told",
        'echo "instructions" | metier session csv-analyst',
        library=True,
    )
    loaded: Any = added.add_argument("names", metavar="NAME", nargs="*", help="skills to begin with")
    loaded.completer = _complete_names
    added.add_argument(
        "--dialect", choices=("runtime", "registry", "tool", "sandbox"), default="runtime", help="(default: runtime)"
    )
    added.add_argument(
        "--delivery",
        choices=("result", "instructions"),
        default="result",
        help="where a skill's instructions go: into the result of loading it (default), or to the top level",
    )
    _budget(added)
    added.add_argument("--workspace", metavar="DIR", help="where scripts work (default: here)")
    added.add_argument("--unsandboxed", action="store_true", help="let scripts run with all that you may do yourself")
    added.add_argument("--hooks", action="store_true", help="run the hooks that skills declare")
    added.add_argument(
        "--proposals", action="store_true", help="with the tools by which models propose changes to skills"
    )
    added.add_argument("--injection", action="store_true", help="run the commands inside instructions")
    added.add_argument(
        "--builtin",
        metavar="TOOL",
        action="append",
        choices=("Read", "Write", "Edit", "Glob", "Grep", "Bash"),
        help="a tool for `call`: Read, Write, Edit, Glob, Grep or Bash (repeatable)",
    )
    add_json(added)

    added = command(
        "run",
        "run a script of a skill in a sandbox, and show what it writes as it comes",
        "metier run csv-analyst peek_csv.py --timeout 10 -- data.csv",
        library=True,
    )
    name_argument(added)
    script: Any = added.add_argument(
        "script", metavar="SCRIPT", help="scripts/x.sh, or x.sh where no other has the same name"
    )
    script.completer = _complete_scripts
    added.add_argument(
        "arguments",
        metavar="ARG",
        nargs="*",
        default=[],
        help="what the script gets; behind `--` it may begin with a dash",
    )
    added.passed_on = "arguments"
    added.add_argument(
        "--runner",
        choices=("auto", "native", "virtual", "plain"),
        default="auto",
        help="auto: the strongest sandbox here (default); native: one of the operating system; virtual: a shell over "
        "files in memory; plain: none at all",
    )
    added.add_argument(
        "--network",
        choices=("none", "restricted", "host"),
        help="what it reaches: nothing (default), the hosts of --host, or all that this machine reaches",
    )
    added.add_argument(
        "--host", metavar="HOST", action="append", help="a host that it reaches: api.example.com (repeatable)"
    )
    added.add_argument("--timeout", metavar="S", type=_seconds, help="seconds that it has (default: 30, at most 600)")
    added.add_argument("--workspace", metavar="DIR", help="where it works, and may write (default: here)")
    added.add_argument("--env", metavar="NAME=VALUE", action="append", help="a variable for it (repeatable)")
    added.add_argument("--stdin", action="store_true", help="let it read what this command is given to read")
    added.add_argument("--untrusted", action="store_true", help="also if nobody vouches for where the skill is from")
    add_json(added)

    added = command(
        "shell",
        "open a virtual shell, with skills mounted in it and nothing of this machine",
        "metier shell --skill csv-analyst -c 'ls /.sandbox/skills/csv-analyst'",
        library=True,
    )
    mounted: Any = added.add_argument(
        "--skill", metavar="NAME", action="append", help="mount just this skill (repeatable; default: the first 50)"
    )
    mounted.completer = _complete_names
    added.add_argument("--workspace", metavar="DIR", help="a folder to copy to /workspace")
    added.add_argument(
        "--write-back", action="store_true", help="at the end, bring what changed in /workspace back to the folder"
    )
    added.add_argument("-c", metavar="COMMAND", dest="line", help="run this, and end with its exit code")
    added.add_argument("--timeout", metavar="S", type=_seconds, help="seconds that a command has (default: 30)")
    add_json(added)

    added = command(
        "explain",
        "say whether a tool call is allowed, and by which rule",
        """metier explain --rules "Bash(git:*) Read" --tool Bash --args '{"command": "git status"}'""",
        library=True,
    )
    skill: Any = added.add_argument("name", metavar="NAME", nargs="?", help="a skill, whose rules count")
    skill.completer = _complete_names
    added.add_argument("--rules", metavar="RULES", help="rules to allow by, as allowed-tools are written")
    added.add_argument("--deny", metavar="RULES", help="rules to refuse by, as disallowed-tools are written")
    added.add_argument("--ask", metavar="RULES", help="rules to ask by, as a policy has them")
    added.add_argument("--tool", metavar="TOOL", help="the tool that is called")
    added.add_argument("--args", metavar="JSON", help="its arguments, a JSON object")
    added.add_argument("--command", metavar="TEXT", dest="shell", help="short for --tool Bash with this command")
    added.add_argument("--workspace", metavar="DIR", help="where relative paths start (default: here)")
    add_check(added)
    add_json(added)

    added = command(
        "ask",
        "let an agent do a task with the skills that fit, and tell what it does",
        'metier ask "Which columns does sales.csv have?" --model test',
    )
    added.add_argument("task", metavar="TASK", nargs="*", help="what it is to do; `-` reads it from a pipe")
    _agent(added)
    added.add_argument(
        "--resume", metavar="ID", nargs="?", const="last", help="go on with a task that waited for somebody to agree"
    )
    add_json(added)

    added = command(
        "chat",
        "talk with an agent; /SKILL ARGUMENTS uses a skill by its name",
        "metier chat --agent skill-builder --model openai:gpt-5",
    )
    _agent(added)
    added.add_argument(
        "--resume", metavar="ID", nargs="?", const="last", help="go on with a conversation, by default with the last"
    )

    added = command("agents", "list the agents that are declared here", "metier agents --json", library=True)
    add_json(added)

    added = command(
        "mcp",
        "serve skills to an MCP client, over stdio or HTTP; or write the client's configuration",
        "metier mcp --install claude-code",
        library=True,
    )
    added.add_by(_mcp)

    added = command(
        "sync",
        "write skills as plain folders, for clients that only read disk, and keep them up to date",
        "metier sync --to .claude/skills,.agents/skills --dry-run",
        library=True,
    )
    added.add_argument(
        "--to",
        metavar="DIR,...",
        action="append",
        help="the folders to write to; what others put there is never changed (repeatable)",
    )
    added.add_argument(
        "--client",
        metavar="CLIENT,...",
        action="append",
        help="write to the folder in which a client looks for the skills of a project, such as cursor (repeatable)",
    )
    added.add_argument("--user", action="store_true", help="with --client: to its folder for all your projects")
    only: Any = added.add_argument(
        "--only", metavar="NAME,...", action="append", help="just these skills; others stay as they are (repeatable)"
    )
    only.completer = _complete_names
    added.add_argument("--dry-run", action="store_true", help="only say what would be done")
    _accept_findings(added, "write skills")
    add_json(added)

    for words in (words_scan, words_policy, words_approve, words_propose, words_audit, words_store):
        words.add(command)

    added = command("trust", "trust the skills of a project", "metier trust .")
    added.add_argument("path", metavar="DIR", nargs="?", help="the project's folder (default: the one around here)")
    added.add_argument("--list", action="store_true", dest="list_trusted", help="list the folders that are trusted")
    _accept_findings(added, "trust them")

    added = command("untrust", "no longer trust the skills of a project", "metier untrust .", "trust")
    added.add_argument("path", metavar="DIR", nargs="?", help="the project's folder (default: the one around here)")

    added = command("doctor", "say what is found where, what is wrong and what to do", "metier doctor", library=True)
    add_json(added)

    added = command("help", "show what a command does, and its options", "metier help policy check")
    added.add_argument("words", metavar="COMMAND", nargs="*", default=[], help="a command, and a verb of it")

    command("demo", "show in a minute what this does, on skills that come with it", "metier demo")

    added = command("completion", "print the completion script for a shell", 'eval "$(metier completion bash)"')
    added.add_argument("shell", choices=("bash", "zsh", "fish"))
    return parser


def _accept_findings(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument(
        "--accept-findings",
        metavar="REASON",
        default="",
        help=f"{what} although the scanner found something of severity high, and why",
    )


def _agent(parser: argparse.ArgumentParser) -> None:
    """Which agent works, on which model, and where."""
    _shared(parser, "after")
    chosen: Any = parser.add_argument("--agent", metavar="ID", help="the agent (default: orchestrator)")
    chosen.completer = _complete_agents
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="such as openai:gpt-5 (default: the agent's own, else METIER_MODEL); `test` shows the wiring without one",
    )
    parser.add_argument("--workspace", metavar="DIR", help="where it works (default: here)")
    for who in ("tenant", "environment"):
        parser.add_argument(f"--{who}", metavar="NAME", help=f"as this {who} sees the skills")


def _mode(parser: argparse.ArgumentParser) -> None:
    from metier.skill.listing import MODES

    parser.add_argument(
        "mode",
        metavar="MODE",
        nargs="?",
        choices=MODES,
        help="pinned: always with its description; listed: as the budget allows; name-only: found by search; manual: "
        "only a person may start it; off: as good as absent (default: show the mode and what sets it)",
    )


def _mcp(parser: argparse.ArgumentParser) -> None:
    from metier.library.clients import CLIENTS

    """The options of the MCP server, and of writing it down for a client."""
    parser.add_argument(
        "--http",
        metavar="HOST:PORT",
        nargs="?",
        const="127.0.0.1:8321",
        help="serve Streamable HTTP instead of stdio (default: 127.0.0.1:8321)",
    )
    parser.add_argument(
        "--token",
        metavar="TEXT",
        help="what clients must send as bearer token; better in METIER_TOKEN, where no `ps` sees it (default: one of "
        "your own, in a file whose path is said)",
    )
    parser.add_argument("--no-token", action="store_true", help="let every user of this machine in over HTTP")
    parser.add_argument(
        "--dialect", choices=("runtime", "registry", "tool", "sandbox"), default="runtime", help="(default: runtime)"
    )
    parser.add_argument("--workspace", metavar="DIR", help="where scripts work (default: here)")
    _budget(parser)
    parser.add_argument(
        "--ask", metavar="RULES", default="", help="tool calls to ask the user about, as a policy has them"
    )
    parser.add_argument("--deny", metavar="RULES", default="", help="tool calls to refuse, as a policy has them")
    parser.add_argument(
        "--scripts", choices=("allow", "ask", "deny"), default="allow", help="whether scripts run (default: allow)"
    )
    parser.add_argument("--proposals", action="store_true", help="let models propose changes to skills")
    clients = [client.name for client in CLIENTS.values() if client.servers is not None]
    change = parser.add_mutually_exclusive_group()
    change.add_argument(
        "--install",
        metavar="CLIENT",
        choices=clients,
        help=f"write this server into the configuration of a client: {', '.join(clients[:-1])} or {clients[-1]}",
    )
    change.add_argument(
        "--remove", metavar="CLIENT", choices=clients, help="take the server that --install wrote out again"
    )
    parser.add_argument(
        "--user", action="store_true", help="with --install or --remove: for all your projects, not for this one"
    )
    parser.add_argument(
        "--name", metavar="NAME", default="metier", help="with --install or --remove: what the client calls the server"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="with --install or --remove: only print what would change"
    )


def _shared(parser: argparse.ArgumentParser, when: str) -> None:
    """Options that may stand before the command or after it."""
    parser.add_argument(
        "--skills",
        metavar="DIR",
        action="append",
        dest=f"skills_{when}",
        help="use just this folder or archive (repeatable)",
    )
    parser.add_argument("--no-cache", action="store_true", dest=f"no_cache_{when}", help="read every file again")


def _caller(parser: argparse.ArgumentParser) -> None:
    """On whose behalf: skills whose scope leaves them out are not there for them."""
    for who in ("agent", "tenant", "environment"):
        parser.add_argument(f"--{who}", metavar="NAME", help=f"as this {who} sees it")


def _budget(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--budget",
        metavar="BYTES",
        type=_number,
        default=DEFAULT_BUDGET,
        help=f"of the catalog with its rules, at least 512 (default: {DEFAULT_BUDGET})",
    )


def _number(text: str) -> int:
    try:
        number = int(text) if len(text) <= 12 else -1
    except ValueError:
        number = -1
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return number


def _seconds(text: str) -> float:
    try:
        seconds = float(text) if len(text) <= 12 else 0.0
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 600:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0 and at most 600")
    return seconds


def _complete_names(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    from metier.cli.library import library_of

    return [entry.name for entry in library_of(parsed_args) if entry.name.startswith(prefix)]


def _complete_agents(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    from metier.agent import Agents
    from metier.cli.library import library_of

    return [agent.id for agent in Agents.discover(library_of(parsed_args)) if agent.id.startswith(prefix)]


def _complete_files(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    from metier.cli.library import library_of

    listing = library_of(parsed_args).files(parsed_args.name)
    return _beginning(prefix, (file.path for file in listing.files))


def _complete_scripts(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    from metier.cli.library import library_of

    paths = [file.path for file in library_of(parsed_args).files(parsed_args.name).scripts()]
    return _beginning(prefix, paths) or _beginning(prefix, (path.rpartition("/")[2] for path in paths))


def _beginning(prefix: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.startswith(prefix)]
