"""The parser of a command line, the options that commands share, and the library that those options name."""

from __future__ import annotations

import argparse
import functools
import importlib
import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from metier._version import __version__
from metier.cli.commands import COMMANDS, closest, suggestion
from metier.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from metier import Library

DEFAULT_BUDGET = 5_120
"""The default of a session, which is not imported for it."""
DIALECTS = ("runtime", "registry", "tool", "sandbox")


def _help_width() -> int:
    """The columns of help, found as `argparse` does."""
    try:
        columns = int(os.environ.get("COLUMNS", ""))
    except ValueError:
        columns = 0
    if columns <= 0:
        try:
            columns = os.get_terminal_size(sys.__stdout__.fileno()).columns  # type: ignore[union-attr]
        except (AttributeError, ValueError, OSError):
            columns = 0
    return (columns or 80) - 2


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Help with room for long options, and examples as they are written."""

    def __init__(self, prog: str) -> None:
        # `argparse` makes a formatter for each option that is added, and asks `shutil` for the width each time.
        super().__init__(prog, max_help_position=28, width=_help_width())

    def _split_lines(self, text: str, width: int) -> list[str]:
        from metier.cli.layout import wrap

        return list(wrap(" ".join(text.split()), width))

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Lay out sentences, and commands with their summary beside them, or below where a command is long."""
        from metier.cli.layout import Column, row_lines, wrap_line

        lines = [(line, *line.rpartition("   ")[::2]) for line in text.splitlines()]
        start = min((line.index(about) for line, command, about in lines if command.strip()), default=0)
        columns = [Column(0, width), Column(start, width - start)]
        laid_out = [
            row_lines((command.rstrip(), about), columns, width) if command.strip() else wrap_line(line, width)
            for line, command, about in lines
        ]
        return "\n".join(line for one in laid_out for line in one)


class Parser(argparse.ArgumentParser):
    """The options of a command or of one of its verbs; its methods add those that several commands have."""

    command = ""
    """The name of the command, for a module that has two."""
    passed_on = ""
    """The argument that gets the words behind `--`: no two versions of Python read them alike."""
    is_for_program = False
    """Whether the command line that is being read asks for JSON, so that its errors are JSON too."""

    def __init__(self, **options: Any) -> None:
        # `--skill NAME` is no `--skills DIR`.
        super().__init__(**{"formatter_class": HelpFormatter, **options, "allow_abbrev": False})

    def example(self, line: str) -> None:
        """Set the command line that `--help` shows as an example."""
        self.epilog = f"example:\n  {line}"

    def flag(self, name: str, help: str, *, short: str = "", **more: Any) -> None:  # noqa: A002
        """Add an option without a value."""
        self.add_argument(*filter(None, (short, name)), action="store_true", help=help, **more)

    def option(self, name: str, metavar: Any, help: str, *, complete: str = "", **more: Any) -> None:  # noqa: A002
        """Add an option with a value, or an argument; `complete` names the completer of its values."""
        if more.get("nargs") == "*":
            more.setdefault("default", [])  # without one, argparse calls it required
        added: Any = self.add_argument(name, metavar=metavar, help=help, **more)
        if complete:
            added.completer = functools.partial(_complete, complete)

    def verb(self, name: str, summary: str, example: str, do: Callable[..., int | None], **defaults: Any) -> Parser:
        """Add a verb of the command; `options.do` is the function that carries it out."""
        if self._subparsers is None:
            self.add_subparsers(
                dest="verb", metavar="VERB", title="verbs", required=True, description=argparse.SUPPRESS
            )
        verbs = next(one for one in self._actions if isinstance(one, argparse._SubParsersAction))
        added: Parser = verbs.add_parser(name, help=summary, description=_sentence(summary))
        added.command = self.command
        added.set_defaults(do=do, **defaults)
        added.example(example)
        return added

    def json(self) -> None:
        """Add `--json`."""
        self.flag("--json", "print JSON for a program")

    def check(self) -> None:
        """Add `--check`, by which a script learns a decision from the exit code."""
        self.flag("--check", "exit with 1 where it is denied, with 4 where it is asked")

    def library(self, *, caller: bool = True) -> None:
        """Add the options that `library_of` reads: which folders, whether cached, and on behalf of whom."""
        self._skill_folders("skills", "no_cache")
        for name in ("agent", "tenant", "environment") if caller else ():
            # A skill whose scope leaves a caller out is not there for them.
            self.option(f"--{name}", "NAME", f"as this {name} sees it")

    def _skill_folders(self, folders: str, no_cache: str) -> None:
        self.option("--skills", "DIR", "use just this folder or archive (repeatable)", action="append", dest=folders)
        self.flag("--no-cache", "read every file again", dest=no_cache)

    def skill(self, help: str = "a name, a folder's name, or NAME@SOURCE", **more: Any) -> None:  # noqa: A002
        """Add NAME, the skill that the command is about."""
        self.option("name", "NAME", help, complete="names", **more)

    def tenant(self) -> None:
        """Add `--tenant`."""
        self.option("--tenant", "NAME", "of this tenant (default: yours)")

    def reason(self, *, required: bool = False) -> None:
        """Add `--reason`."""
        default = None if required else ""
        self.option("--reason", "TEXT", "why; it is recorded and shown", required=required, default=default)

    def accept_findings(self, action: str) -> None:
        """Add `--accept-findings`, for a command that refuses skills with grave findings."""
        self.option(
            "--accept-findings",
            "REASON",
            f"{action} although the scanner found something of severity high, and why",
            default="",
        )

    def sign(self) -> None:
        """Add `--sign`, for a command that gives a skill to others."""
        self.option("--sign", "KEY", "sign it (skill.oms.sig) with a private elliptic key, a PEM file", default="")

    def installs(self, verb: str) -> None:
        """Add the options that all commands have which install skills: consent, exceptions, `--tenant`, `--json`."""
        self.flag("--yes", f"{verb} without asking, and approve of it", short="-y")
        self.accept_findings(f"{verb} it")
        unsigned = "install it without the signature that policy wants, and why; only for those who approve of skills"
        self.option("--allow-unsigned", "REASON", unsigned, default="")
        signer = "install it although it was signed by another before, and why; only for those who approve of skills"
        self.option("--accept-signer", "REASON", signer, default="")
        self.tenant()
        self.json()

    def catalog_budget(self) -> None:
        """Add `--budget`."""
        self.option(
            "--budget",
            "BYTES",
            f"of the catalog with its rules, at least 512 (default: {DEFAULT_BUDGET})",
            type=positive,
            default=DEFAULT_BUDGET,
        )

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Read a command line, all of it but the words that are passed on."""
        found, unknown = self._parse(args, namespace)
        if unknown:
            # Here and not in the parser above, so that the usage shown is that of the command.
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._suggest_options(unknown)}")
        return found, unknown

    def _parse(
        self, args: Sequence[str] | None, namespace: argparse.Namespace | None
    ) -> tuple[argparse.Namespace, list[str]]:
        if args and args[0] == "--" and self._subparsers is not None:
            self.error("required: VERB")  # rules about commands name the verb right behind the command
        if not self.passed_on or args is None:
            return super().parse_known_args(args, namespace)
        end = list(args).index("--") if "--" in args else len(args)
        found, more = super().parse_known_args(args[:end], namespace)
        # Words that stand behind an option are left over by some versions of Python.
        words, unknown = ([], more) if any(word.startswith("-") for word in more) else (more, [])
        setattr(found, self.passed_on, [*getattr(found, self.passed_on), *words, *args[end + 1 :]])
        return found, unknown

    def _suggest_options(self, unknown: Sequence[str]) -> str:
        options = [word.partition("=")[0] for word in unknown if word.startswith("--")]
        meant = [one for option in options for one in closest(option, self._option_string_actions)[:1]]
        return f" (did you mean {', '.join(meant)}?)" if meant else ""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            self.error(suggestion(str(value), list(action.choices), self.prog))
        super()._check_value(action, value)

    def error(self, message: str) -> NoReturn:
        """End with wrong usage, or raise it for a program; the words of the caller cannot act on a terminal."""
        from metier.skill.untrusted_text import shown

        if message.endswith("required: VERB"):
            known = next(one.choices for one in self._actions if isinstance(one, argparse._SubParsersAction))
            message = f"a verb is missing: {', '.join(known)}"
        elif message.endswith("required: SCRIPT"):
            message += " (`metier show NAME` lists those of a skill)"
        if Parser.is_for_program:
            raise InvalidArgument(shown(message, limit=500), hint=f"`{self.prog} --help` shows what there is.")
        super().error(shown(message, limit=500))


class TopParser(Parser):
    """The options that stand before the command; its help is made from the table of commands."""

    describes_all = False

    def __init__(self) -> None:
        super().__init__(prog="metier", usage="metier [-h] [--version] [--skills DIR] [--no-cache] COMMAND ...")
        self.add_argument("--version", action="version", version=f"metier {__version__}")
        self._skill_folders("skills_before", "no_cache_before")

    def format_help(self) -> str:
        """Format the groups of commands, options, examples and exit codes."""
        from metier.cli.help import examples, overview

        self.description = overview(describes_all=self.describes_all)
        self.epilog = examples(describes_all=self.describes_all)
        return super().format_help()


def parser_of(name: str) -> Parser:
    """Make the parser of a command; only its own module is imported."""
    command = COMMANDS[name]
    parser = Parser(prog=f"metier {name}", description=_sentence(command.summary))
    parser.command = name
    importlib.import_module(f"metier.cli.{command.module or name}").add(parser)
    return parser


def split_command(words: Sequence[str]) -> tuple[list[str], str | None, list[str]]:
    """Split a command line into the options before the command, the command, and the rest.

    >>> split_command(["--skills", "a", "list", "--all"])
    (['--skills', 'a'], 'list', ['--all'])
    >>> split_command(["scan", "rules", "list"]), split_command(["scan", "./rules"])
    (([], 'scan rules', ['list']), ([], 'scan', ['./rules']))
    """
    end = 0
    while end < len(words) and words[end].startswith("-"):
        end += 2 if words[end] == "--skills" else 1
    name = words[end] if end < len(words) else None
    both = " ".join(words[end : end + 2])
    if both != name and both in COMMANDS:
        return list(words[:end]), both, list(words[end + 2 :])
    return list(words[:end]), name, list(words[end + 1 :])


def parse(words: Sequence[str], options: argparse.Namespace) -> None:
    """Read a command line into `options`; `options.command` is None where no command is named."""
    before, options.command, after = split_command(words)
    # `argparse` looks on the disk for translations of its words each time it says one: as long as it takes to parse.
    # A program that calls `main` may have translations for its own parsers, so this ends with the parsing.
    everywhere = vars(argparse)
    translate, everywhere["_"] = everywhere["_"], str
    if "--json" in after and "--" not in after[: after.index("--json")]:
        options.json = Parser.is_for_program = True
    try:
        top = TopParser()
        top.parse_args(before, options)
        if options.command is None:
            top.print_help()
        elif options.command not in COMMANDS:
            top.error(suggestion(options.command, COMMANDS, "metier"))
        else:
            parser_of(options.command).parse_args(after, options)
    finally:
        everywhere["_"], Parser.is_for_program = translate, False


def _sentence(summary: str) -> str:
    return f"{summary[0].upper()}{summary[1:]}."


def positive(text: str) -> int:
    """Read a whole number above 0."""
    try:
        number = int(text) if len(text) <= 12 else -1
    except ValueError:
        number = -1
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return number


def seconds(text: str) -> float:
    """Read a number of seconds, at most 600."""
    try:
        number = float(text) if len(text) <= 12 else 0.0
    except ValueError:
        number = 0.0
    if not 0 < number <= 600:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0 and at most 600")
    return number


def _complete(completer: str, prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    from metier.cli import completion

    found: list[str] = getattr(completion, completer)(prefix, parsed_args)
    return found


def library_of(options: argparse.Namespace, *, start: str | None = None) -> Library:
    """Open the folders named with `--skills`, else the places of this machine, user and project, for the caller.

    The project is the one around `start`, by default around here.
    """
    from metier import Library

    folders = skill_folders(options)
    cache = not (options.no_cache_before or getattr(options, "no_cache", False))
    library = Library.from_folder(*folders, cache=cache) if folders else Library.discover(start, cache=cache)
    caller = {key: getattr(options, key, None) for key in ("agent", "tenant", "environment")}
    if caller["tenant"] is None and "METIER_API_TOKEN" in os.environ:
        from metier.cli.identity import token_tenant

        caller["tenant"] = token_tenant()
    return library.as_caller(**caller)


def skill_folders(options: argparse.Namespace) -> list[str]:
    """List the folders that `--skills` names, before the command and behind it."""
    return [*(options.skills_before or ()), *(getattr(options, "skills", None) or ())]
