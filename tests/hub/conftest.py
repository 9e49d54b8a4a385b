"""A store, people, and a skill that proposals are about."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from metier import Guard, Library
from metier.cli import main
from metier.guard.governance import Governance
from metier.guard.policy.files import Policies
from metier.store import Person, Store, TenantScope

Write = Callable[..., Path]

BUILDER = Person(name="builder", kind="agent")
ADA = Person(name="ada", roles=frozenset({"admin"}))
BOB = Person(name="bob", roles=frozenset({"reviewer"}))
EVE = Person(name="eve", roles=frozenset({"author"}))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path}/data/metier.db") as store:
        yield store


@pytest.fixture
def scope(store: Store) -> TenantScope:
    return store.of()


@pytest.fixture
def skill(tmp_path: Path, write_skill: Write) -> Path:
    """The folder of a skill."""
    write_skill(tmp_path / "skills/deploy", body="One.\nTwo.\nThree.")
    return tmp_path / "skills/deploy"


@pytest.fixture
def library(skill: Path) -> Library:
    return Library.from_folder(skill.parent, cache=False)


@pytest.fixture
def guarded(store: Store) -> Callable[..., Guard]:
    """Makes a guard with policy files, each a layer and a text."""

    def guard(*policies: tuple[str, str]) -> Guard:
        return Guard(governance=Governance(Policies(texts=policies), store=store.url))  # type: ignore[arg-type]

    return guard


@pytest.fixture
def guard(guarded: Callable[..., Guard]) -> Guard:
    """A guard with no policy file."""
    return guarded()


def call(*arguments: object) -> tuple[int, str, str]:
    """Call the command as a script does."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as leaving:
            code = int(leaving.code or 0)
    return code, out.getvalue(), err.getvalue()


def records(scope: TenantScope, type: str) -> list[dict[str, object]]:  # noqa: A002
    """What the audit log says of one type."""
    return [record for record in scope.audit.tail(1_000) if record["type"] == type]


def diff_of(old: str, new: str, at: int = 6) -> str:
    """A diff that changes one line of the skill's instructions."""
    return f"--- a/SKILL.md\n+++ b/SKILL.md\n@@ -{at} +{at} @@\n-{old}\n+{new}\n"


DIFF = diff_of("Two.", "Two and a half.")
ADDS_SCRIPT = DIFF + "--- /dev/null\n+++ b/scripts/go.py\n@@ -0,0 +1 @@\n+print('go')\n"
