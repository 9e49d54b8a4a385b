"""`metier lock`."""

from __future__ import annotations

import contextlib
import os
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from metier._lazy import asdict
from metier.cli.exit_codes import FINE, INTEGRITY
from metier.cli.identity import peek_store
from metier.cli.output import Style, plural, print_done, print_json, table
from metier.cli.parser import Parser
from metier.errors import FileMissing, MetierError

if TYPE_CHECKING:
    from metier.hub.lock_check import LockDifference
    from metier.library.lock_file import LockedSkill, LockFile


def add(parser: Parser) -> None:
    parser.example("metier lock --check")
    parser.flag("--check", "compare the skills with the lock, file by file; exit 3 if one differs")
    add_place(parser)
    parser.json()


def add_place(parser: Parser) -> None:
    """Add the option that names one of the two lock files."""
    places = ("personal", "project")
    parser.option("--from", "PLACE", "only yours (personal), or those of the project", choices=places)


def locks_of(options: Namespace) -> list[LockFile]:
    """Read the lock files that a command is about: of the project around here, and of the user."""
    from metier.library.lock_file import LockFile, lock_places

    wanted = getattr(options, "from")
    paths = [path for layer, path in lock_places(os.getcwd()).items() if wanted in (None, layer)]
    found = [LockFile.read(path) for path in dict.fromkeys(paths)]
    return [lock for lock in found if lock.skills or os.path.exists(lock.path)]


def required_locks_of(options: Namespace) -> list[LockFile]:
    """The same lock files; raises `FileMissing` where there is none, so that no job passes in the wrong folder."""
    if locks := locks_of(options):
        return locks
    raise FileMissing(
        "There is no metier.lock: nothing was installed by `metier add` here.",
        hint="Go to the project that has one, or add a skill: `metier add owner/repo`.",
    )


def run(options: Namespace) -> int:
    locks = required_locks_of(options)
    return _check(options, locks) if options.check else _show(options, locks)


def _show(options: Namespace, locks: list[LockFile]) -> int:
    if options.json:
        print_json([{"file": lock.path, "skills": [locked_shape(skill) for skill in lock.skills]} for lock in locks])
        return FINE
    style = Style(sys.stdout)
    for lock in locks:
        print(style.strong(Style.text(lock.path, 4_096)))
        rows = [
            (
                f"{skill.name} (pinned)" if skill.pinned else skill.name,
                skill.version or "-",
                Style.text(skill.revision.removeprefix("sha256:"), 12) or "-",
                skill.digest.removeprefix("sha256:")[:12],
                skill.source,
            )
            for skill in lock.skills
        ]
        print(table(style, ("NAME", "VERSION", "REVISION", "CONTENT", "SOURCE"), rows) if rows else "  none")
    return FINE


def locked_shape(skill: LockedSkill) -> dict[str, object]:
    shape = asdict(skill)
    return {**shape.pop("other"), **shape}


def _check(options: Namespace, locks: list[LockFile]) -> int:
    from metier.hub.lock_check import check_lock

    with contextlib.ExitStack() as stack:
        scope = None
        with contextlib.suppress(MetierError):  # the store only knows more of what differs
            store = peek_store()
            scope = stack.enter_context(store).of() if store is not None else None
        found = [one for lock in locks for one in check_lock(lock, scope)]
    count = sum(len(lock.skills) for lock in locks)
    if options.json:
        shapes = [asdict(one) | {"skill": one.skill.name, "expected": one.skill.digest} for one in found]
        files = [lock.path for lock in locks]
        print_json({"ok": not found, "files": files, "checked": count, "differences": shapes})
    elif found:
        for one in found:
            _print_difference(one)
        print(f"{len(found)} of {plural(count, 'skill')} not as locked. `metier install` brings the locked one back.")
    else:
        print_done(f"{plural(count, 'skill')} as locked.")
    return INTEGRITY if found else FINE


def _print_difference(one: LockDifference) -> None:
    style = Style(sys.stdout)
    print(f"{style.bad(one.problem)}  {style.strong(Style.text(one.skill.name))}  {Style.text(one.location, 4_096)}")
    if one.reason:
        print(f"  {Style.text(one.reason, 1_000)}")
    for file in one.files:
        how = "missing" if file.actual is None else "extra" if file.expected is None else "changed"
        print(f"  {Style.text(file.path, 1_000)}: {how}")
        print(f"    expected {_state(file.expected, file.expected_mode)}")
        print(f"    actual   {_state(file.actual, file.actual_mode)}")
    if not one.files:
        print(f"  expected {one.skill.digest}")
        print(f"  actual   {one.actual or 'nothing'}")


def _state(sha256: str | None, mode: str) -> str:
    return "nothing" if sha256 is None else f"sha256:{sha256}{f' ({mode})' if mode != 'file' else ''}"
