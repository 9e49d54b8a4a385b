"""A store with decisions of every kind, for attacks on it, and what can be done with it from outside."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from pathlib import Path

import pytest

from metier import Library, Session
from metier.cli import main
from metier.errors import MetierError
from metier.guard import governance, open_stores
from metier.guard.guard import current_user
from metier.store import Store

BARRED = ("evil", "revoked", "denied", "blocked")
SKILLS = ("totals", "second", *BARRED)
USER = current_user() or ""


def command(*words: str, token: str = "") -> tuple[int, str]:
    """The exit code of a command, and what it wrote."""
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        if token:
            patch.setenv("METIER_API_TOKEN", token)
        try:
            code = main([*words])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
    return code or 0, out.getvalue()


@dataclass(frozen=True, kw_only=True)
class Governed:
    """A store, the folder that work is done in, and tokens of an admin, of a viewer and of somebody who was removed."""

    url: str
    folder: Path
    root: Path
    admin: str
    viewer: str
    removed: str


def governed(root: Path, url: str) -> Governed:
    """A store with decisions of every kind, a signed checkpoint, and some records behind it."""
    for name in SKILLS:
        (root / "skills" / name / "scripts").mkdir(parents=True)
        (root / "skills" / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Does it.\n---\nDo it.\n")
        (root / "skills" / name / "scripts" / "go.sh").write_text(f"echo {name}\n")
    (root / ".metier").mkdir()
    (root / ".metier" / "policy.yaml").write_text("version: 1\nskill-policy: {require-approval-for: [scripts]}\n")
    with pytest.MonkeyPatch.context() as patch:
        settle(patch, root, url)
        admin = command("user", "add", USER, "--role", "admin", "--token")[1].split()[-1]
        viewer, removed = (
            command("user", "add", name, "--role", role, "--token", token=admin)[1].split()[-1]
            for name, role in (("vic", "viewer"), ("gone", "admin"))
        )
        assert command("user", "remove", "gone", token=admin)[0] == 0
        assert loaded(*SKILLS) == []
        with Store.open(url) as store:
            requests = {one.skill.partition("@")[0]: str(one.id) for one in store.of().approvals.requests()}
            folder = store.folder
        for name in ("totals", "second", "revoked", "blocked"):
            assert command("approve", "grant", requests[name], "--reason", "Read.", token=admin)[0] == 0
        with Store.open(url) as store:
            ids = {one.skill.partition("@")[0]: one.id for one in store.of().approvals.all()}
        assert command("approve", "deny", requests["denied"], "--reason", "No.", token=admin)[0] == 0
        made = Governed(url=url, folder=folder, root=root, admin=admin, viewer=viewer, removed=removed)
        assert command("approve", "revoke", ids["revoked"], "--reason", "No.", token=admin)[0] == 0
        assert command("quarantine", "add", "blocked", "--reason", "Taken over.", token=admin)[0] == 0
        assert command("audit", "checkpoint", token=admin)[0] == 0
        assert loaded(*SKILLS) == ["totals", "second"]
        assert (command("audit", "verify", token=admin)[0], command("store", "check", token=admin)[0]) == (0, 0)
    let_go(url)
    return made


def settle(patch: pytest.MonkeyPatch, root: Path, url: str) -> None:
    patch.chdir(root)
    patch.setenv("METIER_CONFIG", str(root / "config"))
    patch.setenv("METIER_DATA", str(root / "data"))
    patch.setenv("METIER_STORE", url)


def let_go(url: str) -> None:
    """As if the process had been killed that used a store."""
    for key in [key for key in governance._logs.items if key[0] == url]:
        del governance._logs.items[key]
    kept = open_stores.OPEN.items.pop(url, None)
    if kept is not None:
        kept.close()


def loaded(*names: str) -> list[str]:
    """The skills, of these, that can be used now."""
    with Library.from_folder("skills").session() as session:
        return [name for name in names if can_load(session, name)]


def can_load(session: Session, name: str) -> bool:
    try:
        session.load(name)
    except MetierError:
        return False
    return True
