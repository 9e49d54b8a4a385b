"""The tables of a store, and the statements that make them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from metier.store.connection_pool import creation, creation_file
from metier.store.location import Kind
from metier.store.schema import creation_text, protection, tables_of


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_the_statements_that_are_written_down_make_the_tables_of_today(kind: Kind) -> None:
    path = creation_file(kind)
    assert path.read_text(encoding="utf-8") == creation_text(kind), "write them again: python -m metier.store.schema"


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_every_statement_is_one_of_its_own(kind: Kind) -> None:
    statements = creation(kind)
    begun = [" ".join(statement.split()[:2]) for statement in statements]
    assert begun.count("CREATE TABLE") == len(tables_of(kind))
    assert statements[-1].rstrip("\n") == protection(kind)[-1]
    assert {text.partition(" ")[0] for text in begun} == {"CREATE"}


def test_a_new_store_takes_its_first_record_without_sqlalchemy(tmp_path: Path) -> None:
    program = (
        "import sys; from metier.store import Store\n"
        "with Store.open(sys.argv[1]) as store: print(store.of().audit.append({'type': 'skill.activated'}).seq)\n"
        "print('sqlalchemy' in sys.modules)\n"
    )
    command = [sys.executable, "-c", program, f"sqlite:///{tmp_path}/metier.db"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.split() == ["1", "False"]
