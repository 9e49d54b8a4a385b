"""The tables of a store, and the statements that make them."""

from __future__ import annotations

from pathlib import Path

import pytest

from metier.store.location import Kind
from metier.store.rows import creation


@pytest.mark.each("kind", ["sqlite", "postgresql"])
def test_a_new_store_has_the_tables_of_all_stores_of_its_version(kind: Kind) -> None:
    # SQLite keeps the text of a statement, and `metier store check` compares it: a change of these is a new version.
    released = Path(__file__).with_name(f"version-4-{kind}.sql").read_text(encoding="utf-8")
    assert "".join(f"{statement};\n\n" for statement in creation(kind)) == released
