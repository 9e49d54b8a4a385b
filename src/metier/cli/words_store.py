"""The words of `metier store`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from metier.cli.parser import Command


def add(command: Command) -> None:
    """Add them to the parser."""
    from metier.cli.parser import verbs

    store = command(
        "store", "look after what is kept: approvals, history, the audit trail", "metier store backup metier-backup.zip"
    )
    words = verbs(store)

    migrate = words.add_parser("migrate", help="make the store, or bring its tables up to date")
    backup = words.add_parser("backup", help="write everything in it into one file, while others go on (admins)")
    backup.add_argument("file", metavar="FILE", help="a file that is not there yet")
    restore = words.add_parser("restore", help="bring a backup back, into either kind of database (admins)")
    restore.add_argument("file", metavar="FILE", help="a file that `backup` wrote")
    restore.add_argument("--force", action="store_true", help="also in place of what the store holds now")
    check = words.add_parser("check", help="say whether all of it is there and as it was; exit 3 if not")
    for added in (backup, restore):
        added.set_defaults(tenant="")  # whoever has all tenants' must be an admin of all of them
    for added in (migrate, backup, restore, check):
        added.add_argument("--json", action="store_true", help="print JSON for a program")
