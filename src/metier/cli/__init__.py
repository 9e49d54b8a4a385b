"""The `metier` command: it translates command lines into calls of the other rooms, and results into text or JSON.

Nothing imports this room. A command is a row of the table in `metier.cli.commands` and a module, imported when it is
called, with `add(parser)` for its options and `run(options)` for its work. `run` returns an exit code where it is not
always 0; an error of `metier.errors` is printed with its hint, and as JSON with `--json`.
"""

from metier.cli.main import main

__all__ = ["main"]
