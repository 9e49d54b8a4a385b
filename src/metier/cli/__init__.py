"""The `metier` command: a door. It translates words into calls of the other rooms and results into text.

Nothing imports this room. Each command is one module, imported when it runs, so that `metier list` pays for nothing
but the list.
"""

from metier.cli.main import main

__all__ = ["main"]
