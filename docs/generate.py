"""Writes the reference pages that are made from the code: diagnostics, the command line, the errors.

python docs/generate.py            write them
python docs/generate.py --check    exit 1 when one is out of date
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import inspect
import itertools
import os
import sys
from pathlib import Path
from typing import Any

import metier
from metier import errors
from metier.cli.parser import make_parser
from metier.skill import KINDS

REFERENCE = Path(__file__).parent / "reference"
NOTICE = "<!-- Made from the code by `make docs`; edit the code instead. -->\n"


def diagnostics_page() -> str:
    """All diagnostic codes."""
    lines = [
        "# Diagnostics\n",
        NOTICE,
        "Every finding has a stable code, a severity, a line where there is one, a message and a hint. `error` means",
        "that the skill is not loaded; codes that begin with `spec-` or `portable-` come from `validate --strict` and",
        "`--portable` only. `{0}`, `{1}` stand for the values of the case at hand.\n",
        "| code | severity | message | what to do |",
        "|---|---|---|---|",
    ]
    for code, kind in KINDS.items():
        cells = (text.replace("|", "\\|") for text in (f"`{code}`", kind.severity, kind.message, kind.hint))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def errors_page() -> str:
    """All errors that a program may catch."""
    found = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.MetierError)]
    lines = [
        "# Errors\n",
        NOTICE,
        "All are in `metier.errors` and derive from `MetierError`. Each has `code`, `message`, `hint` and `context`.\n",
        "| error | code | when |",
        "|---|---|---|",
        *(f"| `{kind.__name__}` | `{kind.code}` | {(kind.__doc__ or '').splitlines()[0]} |" for kind in found),
    ]
    return "\n".join(lines) + "\n"


def command_page() -> str:
    """What `--help` says, for every command."""
    os.environ["COLUMNS"] = "100"
    parser = make_parser()
    commands = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    lines = ["# The `metier` command\n", NOTICE, "```text", parser.format_help().rstrip(), "```\n"]
    for name, command in commands.choices.items():
        lines.extend([f"## `metier {name}`\n", "```text", command.format_help().rstrip(), "```\n"])
    return "\n".join(lines)


def api_page() -> str:
    """What a program may use, from the docstrings."""
    lines = [
        "# The Python API\n",
        NOTICE,
        "All of this is imported from `metier`; errors are in `metier.errors`.\n",
    ]
    for name in sorted(set(metier.__all__) - {"__version__", "MetierError", "SkillNotFound"}):
        kind = getattr(metier, name)
        lines.extend([f"## `{name}`\n", _prose(kind), ""])
        lines.extend(_fields(kind))
        rows = [row for member, value in _members(kind).items() if (row := _member(kind, member, value)) is not None]
        if rows:
            lines.extend(["| | |", "|---|---|", *rows, ""])
    return "\n".join(lines)


def _fields(kind: Any) -> list[str]:
    """What a class is made with: the fields of a dataclass, or the parameters of its constructor."""
    if dataclasses.is_dataclass(kind):
        about_fields = _documented_fields(kind)
        rows = [_field(field, about_fields) for field in dataclasses.fields(kind)]
        return ["| field | default | |", "|---|---|---|", *rows, ""]
    if "__init__" not in vars(kind) or not (about := _prose(kind.__init__)):
        return []
    row = _member(kind, "__call__", kind.__init__, shown_as=kind.__name__)
    return [f"Made by {row.strip('| ').partition(' | ')[0]}. {about}", ""] if row else []


def _field(field: dataclasses.Field[Any], about: dict[str, str]) -> str:
    has_default = field.default is not dataclasses.MISSING and not isinstance(field.default, dataclasses.Field)
    default = f"`{field.default!r}`" if has_default else ""
    return f"| `{field.name}` | {default} | {about.get(field.name, '').replace('|', chr(92) + '|')} |"


def _documented_fields(kind: Any) -> dict[str, str]:
    """The docstrings that stand below the fields of a class."""
    body = ast.parse(inspect.cleandoc("\n" + inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for first, second in itertools.pairwise(body.body):
        if isinstance(first, ast.AnnAssign) and isinstance(first.target, ast.Name) and isinstance(second, ast.Expr):
            text = ast.literal_eval(second.value) if isinstance(second.value, ast.Constant) else ""
            found[first.target.id] = " ".join(str(text).split())
    return found


def _members(kind: type) -> dict[str, object]:
    """What a class offers, with what it has from classes of ours that it builds on."""
    found: dict[str, object] = {}
    for one in reversed(kind.__mro__):
        if one.__module__.startswith("metier"):
            found.update(vars(one))
    return found


def _prose(value: object) -> str:
    """A docstring without its examples."""
    return inspect.cleandoc(getattr(value, "__doc__", "") or "").partition(">>>")[0].strip()


def _member(kind: type, name: str, value: object, shown_as: str = "") -> str | None:
    """One row: a method with its parameters, or a property, and the first line about it."""
    if (not shown_as and name.startswith("_")) or (
        not isinstance(value, property | classmethod | staticmethod) and not callable(value)
    ):
        return None
    function: Any = getattr(value, "__func__", value)
    about = _prose(value.fget if isinstance(value, property) else function).replace("\n", " ").replace("|", "\\|")
    if isinstance(value, property):
        return f"| `{name}` | {about} |"
    parameters = [part for part in inspect.signature(function).parameters.values() if part.name not in ("self", "cls")]
    shown = ", ".join(str(part.replace(annotation=inspect.Parameter.empty)) for part in parameters)
    owner = f"{kind.__name__}." if isinstance(value, classmethod) else ""
    return f"| `{owner}{shown_as or name}({shown})` | {about} |"


PAGES = {"api.md": api_page, "diagnostics.md": diagnostics_page, "errors.md": errors_page, "command.md": command_page}


def main() -> int:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say whether they are up to date")
    check = parser.parse_args().check
    outdated = []
    for name, page in PAGES.items():
        file = REFERENCE / name
        text = page()
        if check and (not file.exists() or file.read_text(encoding="utf-8") != text):
            outdated.append(name)
        elif not check:
            REFERENCE.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
    if outdated:
        print(f"Out of date: {', '.join(outdated)}. Run `make docs`.", file=sys.stderr)
    return 1 if outdated else 0


if __name__ == "__main__":
    raise SystemExit(main())
