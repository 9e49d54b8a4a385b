"""`metier new`."""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace

from metier.cli.output import Style
from metier.cli.parser import Parser


def add(parser: Parser) -> None:
    parser.example('metier new pdf-forms --description "Fill PDF forms. Use when ..."')
    parser.option("name", "NAME", "lower-case letters, digits and single hyphens")
    parser.option("--into", "DIR", "the folder to put it in (default: here)", default=".")
    parser.option("--description", "TEXT", "what it does and when to use it")


def run(options: Namespace) -> None:
    from metier.skill.document import new_skill

    file = new_skill(options.name, options.into, description=options.description)
    style = Style(sys.stdout)
    print(f"{style.good('✓')} {Style.text(str(file), 4_096)}")
    print(f"Next: write it, then `metier validate {Style.text(shlex.quote(str(file.parent)), 4_096)} --strict`.")
    print("Agents find it below .agents/skills of a project (once trusted) or of your home folder.")
