"""The statements on tables that have a tenant; each shape is written once, by SQLAlchemy, and kept."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import bindparam, delete, literal_column, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite

from metier.store.schema import METADATA, dialect_of

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement
    from sqlalchemy.sql import ClauseElement

    from metier.store.location import Kind


class SqlStatement(NamedTuple):
    """A statement, and the names of the values that go where its marks are."""

    sql: str
    names: tuple[str, ...]


@functools.cache
def select_of(kind: Kind, table: str, where: tuple[str, ...], order: tuple[str, ...]) -> SqlStatement:
    """Rows by the values of some columns; an order of `-name` is the last first."""
    columns = METADATA.tables[table].c
    ordered = (columns[name.removeprefix("-")].desc() if name.startswith("-") else columns[name] for name in order)
    return _written(kind, select(METADATA.tables[table]).where(*_equal(table, where)).order_by(*ordered))


@functools.cache
def columns_of(table: str) -> tuple[str, ...]:
    """The columns that a row has, in order."""
    return tuple(METADATA.tables[table].c.keys())


@functools.cache
def kinds_of(table: str) -> dict[str, type]:
    """What the values of each column are."""
    return {column.name: column.type.python_type for column in METADATA.tables[table].c}


@functools.cache
def key_of(table: str) -> tuple[str, ...]:
    """The columns that tell its rows apart."""
    return tuple(column.name for column in METADATA.tables[table].primary_key)


@functools.cache
def insert_of(kind: Kind, table: str, names: tuple[str, ...], conflict: str) -> SqlStatement:
    """A new row; where its key is there already, `refuse` it, `ignore` it or `replace` the old one."""
    into = METADATA.tables[table]
    added = (sqlite if kind == "sqlite" else postgresql).insert(into)
    added = added.values({name: bindparam(f"to_{name}") for name in names})
    if conflict == "ignore":
        added = added.on_conflict_do_nothing()
    elif conflict == "replace":
        key = key_of(table)
        added = added.on_conflict_do_update(
            index_elements=key, set_={name: added.excluded[name] for name in names if name not in key}
        )
    return _written(kind, added)


@functools.cache
def update_of(kind: Kind, table: str, names: tuple[str, ...], where: tuple[str, ...]) -> SqlStatement:
    """Other values for the rows that are meant."""
    changed = update(METADATA.tables[table]).values({name: bindparam(f"to_{name}") for name in names})
    return _written(kind, changed.where(*_equal(table, where)))


@functools.cache
def delete_of(kind: Kind, table: str, where: tuple[str, ...]) -> SqlStatement:
    """The rows that are meant are no longer there."""
    return _written(kind, delete(METADATA.tables[table]).where(*_equal(table, where)))


@functools.cache
def page_of(kind: Kind, table: str, is_first: bool) -> SqlStatement:
    """The next rows of a whole table, in the order of its key, after the row whose key is given."""
    into = METADATA.tables[table]
    key = [into.c[column.name] for column in into.primary_key]
    page = select(into).order_by(*key).limit(bindparam("to_limit")).offset(literal_column("0"))
    if not is_first:
        page = page.where(tuple_(*key) > tuple_(*(bindparam(f"is_{column.name}") for column in key)))
    return _written(kind, page)


def _equal(table: str, where: tuple[str, ...]) -> list[ColumnElement[bool]]:
    columns = METADATA.tables[table].c
    return [columns[name] == bindparam(f"is_{name}") for name in where]


def _written(kind: Kind, statement: ClauseElement) -> SqlStatement:
    compiled = statement.compile(dialect=dialect_of(kind))
    return SqlStatement(str(compiled), tuple(compiled.positiontup or ()))  # type: ignore[attr-defined]
