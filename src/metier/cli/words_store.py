"""The words of `metier store`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.cli.verbs import add_json, verbs

if TYPE_CHECKING:
    from metier.cli.parser import Command


def add(command: Command) -> None:
    """Add them to the parser."""
    store = command(
        "store", "look after what is kept: approvals, history, the audit trail", "metier store backup metier-backup.zip"
    )
    verb = verbs(store)

    migrate = verb("migrate", "make the store, or bring its tables up to date", "metier store migrate")
    backup = verb(
        "backup",
        "write everything in it into one file, while others go on (admins)",
        "metier store backup metier-backup.zip",
    )
    backup.add_argument("file", metavar="FILE", help="a file that is not there yet")
    restore = verb(
        "restore",
        "bring a backup back, into either kind of database (admins)",
        "metier store restore metier-backup.zip --force",
    )
    restore.add_argument("file", metavar="FILE", help="a file that `backup` wrote")
    restore.add_argument("--force", action="store_true", help="also in place of what the store holds now")
    restore.add_argument(
        "--key",
        metavar="FILE",
        action="append",
        default=[],
        help="the public half of a key that signs elsewhere",
    )
    restore.add_argument(
        "--untrusted", action="store_true", help="also one that no known key signed, without all that loosens"
    )
    restore.add_argument(
        "--accept-loss",
        action="store_true",
        help="also where the store is damaged or gone, and cannot say what was forbidden since",
    )
    check = verb("check", "say whether all of it is there and as it was; exit 3 if not", "metier store check")
    for added in (backup, restore):
        added.set_defaults(tenant="")  # whoever has all tenants' must be an admin of all of them
    for added in (migrate, backup, restore, check):
        add_json(added)
