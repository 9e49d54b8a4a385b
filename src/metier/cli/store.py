"""`metier store`: migration, backup, restoring and checks."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

import metier.store
from metier._lazy import asdict, replace
from metier.cli.audit import key_file, verified
from metier.cli.exit_codes import FINE, INTEGRITY
from metier.cli.identity import acting, peek_store, store_url, system_user
from metier.cli.output import Style, plural, print_done, print_json, print_result
from metier.cli.parser import Parser
from metier.errors import NotPermitted, StoreUnavailable
from metier.hints import for_person
from metier.skill.untrusted_text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from metier.store import Person, Store, TenantScope
    from metier.store.checks import StoreProblem
    from metier.store.restore import RestoreReport
    from metier.store.restore_policy import KeptDecision, KeptPerson


def add(parser: Parser) -> None:
    parser.example("metier store backup metier-backup.zip")
    migrate = parser.verb("migrate", "make the store, or bring its tables up to date", "metier store migrate", _migrate)
    # Whoever has all tenants' must be an admin of all of them.
    backup = parser.verb(
        "backup",
        "write everything in it into one file, while others go on (admins)",
        "metier store backup metier-backup.zip",
        _backup,
        tenant="",
    )
    backup.option("file", "FILE", "a file that is not there yet")
    restored = parser.verb(
        "restore",
        "bring a backup back, into either kind of database (admins)",
        "metier store restore metier-backup.zip --force",
        _restore,
        tenant="",
    )
    restored.option("file", "FILE", "a file that `backup` wrote")
    restored.flag("--force", "also in place of what the store holds now")
    restored.option("--key", "FILE", "the public half of a key that signs elsewhere", action="append", default=[])
    restored.flag("--untrusted", "also one that no known key signed, without all that loosens")
    restored.flag("--accept-loss", "also where the store is damaged or gone, and cannot say what was forbidden since")
    check = parser.verb(
        "check", "say whether all of it is there and as it was; exit 3 if not", "metier store check", _check
    )
    for verb in (migrate, backup, restored, check):
        verb.json()


def run(options: Namespace) -> int:
    return options.do(options) or FINE


def _migrate(options: Namespace) -> None:
    from metier.store.location import parse_address

    before, after = metier.store.Store.migrate(store_url())
    where = str(parse_address(store_url()))
    what = "was made, at" if not before else "is up to date, at" if before == after else "was brought to"
    shape = {"store": where, "before": before, "version": after}
    print_result(options, shape, f"The store {_escape(where)} {what} version {after}.")


def _backup(options: Namespace) -> None:
    from metier.guard.approvals.roles import recording_refusals, require_role
    from metier.guard.backups import back_up

    with acting(options, create=False) as (scope, person):
        with recording_refusals(scope, person, "store", notes=("metier store backup",)):
            require_role(person, "admin", "take a backup of what all tenants have")
        store = scope.store
        manifest = back_up(store, options.file, key_file=key_file())
    rows = sum(table["rows"] for table in manifest["tables"].values())
    blobs = manifest["blobs"]
    print_result(
        options,
        {"store": str(store), "file": options.file, "rows": rows, "blobs": blobs},
        f"{_escape(options.file)} has {plural(rows, 'row')} and {plural(blobs, 'content')}.\n"
        "It is signed, and holds everything but the keys that sign; keep it where only you can read it.",
    )


def _restore(options: Namespace) -> int:
    from metier.guard.audit.checkpoints import restart_checkpoints
    from metier.guard.audit.governance_events import actor_of, record_event
    from metier.guard.backups import restore
    from metier.store.checks import check_store

    url = store_url()
    person = _who_restores(options, url)
    restored = restore(
        url,
        options.file,
        force=options.force,
        untrusted=options.untrusted,
        accept_loss=options.accept_loss,
        key_file=key_file(),
        keys=options.key,
        by={"agent" if person.kind == "agent" else "user": person.name},
    )
    with metier.store.Store.open(url, create=False) as store:
        scope = store.of()
        record_event(
            scope,
            "store.restored",
            actor_of(person, scope),
            reason=f"the backup of {restored.made_at} was brought back",
            path=options.file,
            notes=(
                f"of the store {restored.origin}",
                *((f"without what loosens: {restored.distrusted}",) if restored.distrusted else ()),
                *(("what was forbidden since may be lost",) if options.accept_loss else ()),
                *(f"set aside: {path}" for path in restored.set_aside),
            ),
        )
        record_withheld(store, restored, person)
        restored = replace(restored, set_aside=(*restored.set_aside, *restart_checkpoints(store, key_file())))
        problems = [*check_store(store), *_faults(url)]
    if options.json:
        print_json({"store": str(store), **asdict(restored), "problems": problems})
    else:
        _print_restored(str(store), restored)
        _print(problems)
    return INTEGRITY if any(problem.severity == "error" for problem in problems) else FINE


def _print_restored(store: str, restored: RestoreReport) -> None:
    what = f"{plural(restored.rows, 'row')} and {plural(restored.blobs, 'content')} of {_escape(restored.made_at)}"
    print_done(f"The store {_escape(store)} holds {what}.")
    if restored.distrusted:
        print(f"Nothing in it that loosens was brought back: {_escape(restored.distrusted)}.")
    for line in withheld_lines(restored):
        print(line)
    for path in restored.set_aside:
        print(f"What was there before is now {_escape(path)}.")


def _faults(url: str) -> list[StoreProblem]:
    """List the faults of the audit log, as `metier audit verify` names them."""
    from metier.store.checks import StoreProblem

    keys = os.path.dirname(key_file())
    return [
        StoreProblem(
            severity="warning",  # another machine has another key
            part="tables",
            message=f"Not all of the audit log can be checked. {fault.message}",
            hint=f"Put audit-ID.pub of the machine that signed it into the folder {shown(keys, 300)}.",
        )
        if fault.kind == "unknown-key"
        else StoreProblem(
            severity="error",
            part="tables",
            message=f"The audit log is not as it was written. {fault.message}",
            hint="`metier audit verify` says more; bring a backup back if nobody can tell why.",
        )
        for fault in (chain.fault for chain in verified(url).chains)
        if fault is not None
    ]


def _who_restores(options: Namespace, url: str) -> Person:
    """Return the person who restores: an admin, or the owner of the folder where the store cannot say who is one."""
    from metier.guard.approvals.roles import recording_refusals, require_role
    from metier.guard.open_stores import was_there

    try:
        store = metier.store.Store.peek(url)
        if store is not None:
            store.close()
            with acting(options, decides=True, create=False) as (scope, person):
                with recording_refusals(scope, person, "store", notes=("metier store restore",)):
                    require_role(person, "admin", "put a backup in place of what all tenants have")
                return person
        why = "is gone" if was_there(url) else ""
    except StoreUnavailable as error:
        if not error.context.get("is_damaged"):
            raise
        why = "is damaged"
    name = system_user()
    if why:
        _require_owner(url)
        said = f"The store {why} and cannot say who is an admin: {name}, who owns its folder, decides."
        print(Style.text(said, 1_000), file=sys.stderr)
    return metier.store.Person(name=name, roles=frozenset({"admin"}))


def _require_owner(url: str) -> None:
    from metier.store.location import parse_address

    address = parse_address(url)
    folder = address.folder if os.path.exists(address.folder) else os.path.dirname(address.target)
    if hasattr(os, "geteuid") and os.geteuid() not in (0, os.stat(folder).st_uid):
        raise NotPermitted(
            f"{shown(system_user())!r} does not own {folder}, and the store cannot say who is an admin.",
            hint="Ask the owner of the folder to bring the backup back.",
        )


def _check(options: Namespace) -> int:
    from metier.guard.open_stores import was_there
    from metier.store.checks import StoreProblem, check_store
    from metier.store.location import parse_address

    url = store_url()
    where = str(parse_address(url))
    exists, problems = True, list[StoreProblem]()
    try:
        store = peek_store()
        exists = store is not None
        if store is not None:
            with store:
                problems = [*check_store(store), *_faults(url)]
    except StoreUnavailable as error:
        if not error.context.get("is_damaged") and not was_there(url):
            raise
        problems = [StoreProblem(severity="error", part="database", message=error.message, hint=error.hint)]
    errors = [problem for problem in problems if problem.severity == "error"]
    if options.json:
        print_json({"store": where, "exists": exists, "problems": problems})
        return INTEGRITY if errors else FINE
    if not exists:
        print(f"There is no store at {_escape(where)} yet; the first record or approval makes it.")
        return FINE
    _print(problems)
    if not problems:
        print_done(f"The store {_escape(where)} is as it should be, and so is its audit log.")
    elif not errors:
        print(f"The store {_escape(where)} can be used; {plural(len(problems), 'warning')}.")
    return INTEGRITY if errors else FINE


def _print(problems: Sequence[StoreProblem]) -> None:
    style = Style(sys.stdout)
    for problem in problems:
        print(f"{style.severity(problem.severity)} {style.dim(problem.part)} {Style.text(problem.message, 1_000)}")
        print(f"  {style.dim('→ ' + Style.text(for_person(problem.hint), 1_000))}")


def _escape(text: str) -> str:
    return Style.text(text, 4_096)


def record_withheld(store: Store, restored: RestoreReport, person: Person) -> None:
    """Record in the audit log of each tenant what stays forbidden: the backup has no records of it.

    Who stays, and who stays removed, is on record already.
    """
    from metier.guard.audit.governance_events import actor_of, record_event
    from metier.store.restore import TAKEN

    for one in restored.kept_decisions:
        _record_decision(store.of(one.tenant), one, person)
    for block in restored.kept_blocks:
        about = {"skill" if block.kind == "name" else block.kind: block.value}
        notes = (f"{block.kind} {block.value}",)
        reason = f"It was in quarantine before a backup was brought back. {block.reason}".strip()
        scope = store.of(block.tenant)
        record_event(scope, "skill.quarantined", actor_of(person, scope), **about, notes=notes, reason=reason)
    for token in restored.kept_tokens:
        scope, said = store.of(token.tenant), f"{token.id} of {token.person}"
        record_event(scope, "token.revoked", actor_of(person, scope), reason=said, notes=(TAKEN,))


def withheld_lines(restored: RestoreReport) -> Iterator[str]:
    """Format a line for each item that a backup does not bring back."""
    for block in restored.kept_blocks:
        what = f"{block.kind} {_escape(block.value)}{_whose(block.tenant)}"
        yield f"The {what} is not blocked in the backup, and stays in quarantine."
    for one in restored.kept_decisions:
        what = f"{_escape(one.id)} of {_escape(one.skill)}{_whose(one.tenant)}"
        if one.decision == "revoked":
            yield f"The approval {what} counts in the backup, and stays revoked."
        else:
            yield f"The refusal {what} is not in the backup, and stays."
    yield from map(_line, restored.kept_people)
    for token in restored.kept_tokens:
        what = f"{_escape(token.id)} of {_escape(token.person)}{_whose(token.tenant)}"
        yield f"The token {what} counts in the backup, and stays revoked."


def _line(person: KeptPerson) -> str:
    who = f"{_escape(person.kind)} {_escape(person.name)}{_whose(person.tenant)}"
    if person.state == "removed":
        return f"The {who} is in the backup, and stays removed."
    if person.state == "admin":
        return f"The backup leaves nobody who is an admin: the {who} stays one."
    return f"The {who} may do more in the backup, and stays {', '.join(person.roles) or 'without a role'}."


def _record_decision(scope: TenantScope, kept: KeptDecision, person: Person) -> None:
    from metier.guard.approvals.requests import record_fields
    from metier.guard.audit.governance_events import actor_of, record_event

    found = scope.approvals.get(kept.id)
    was = "revoked" if kept.decision == "revoked" else "refused"
    reason = f"It was {was} before a backup was brought back. {kept.reason}".strip()
    about = record_fields(found) if found is not None else {"approval": kept.id, "digest": kept.digest}
    record_event(scope, f"approval.{kept.decision}", actor_of(person, scope), **about, reason=reason)


def _whose(tenant: str) -> str:
    return f" (tenant {_escape(tenant)})" if tenant else ""
