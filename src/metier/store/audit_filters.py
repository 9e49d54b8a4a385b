"""Filters of audit records: what the database answers by its columns, and the rest by the records themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier._lazy import asdict, dataclass
from metier.store.canonical_json import canonical_text, escape_surrogates

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.store.connection_pool import Value
    from metier.store.location import Kind

_CONDITIONS = {
    **{name: f"{name} = ?" for name in ("outcome", "session", "digest")},
    "since": "ts >= ?",
    "until": "ts < ?",
}
"""The filters that the database answers by a column."""
_CONTAINS = {"sqlite": "instr(data_json, ?) > 0", "postgresql": "strpos(data_json, ?) > 0"}
_ROUGH = ("user", "agent", "skill", "text")
"""The filters that the database answers only roughly, or not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilters:
    """The records that are wanted: those that fit all that is given.

    >>> AuditFilters(user="ada", type="approval").fits({"user": "ada"}), AuditFilters(skill="pdf").fits({"skill": "x"})
    (True, False)
    """

    skill: str | None = None
    """`name` or `name@source`; found where it was active too."""
    type: str | None = None
    """All of a type, or its first word."""
    outcome: str | None = None
    session: str | None = None
    user: str | None = None
    agent: str | None = None
    digest: str | None = None
    since: str | None = None
    """A time as records have it."""
    until: str | None = None
    text: str | None = None
    """A text that may stand in any value, in any case."""

    def given(self) -> dict[str, str]:
        """Return the filters that are given, as records have their values."""
        return {name: escape_surrogates(value) for name, value in asdict(self).items() if value is not None}

    @property
    def is_rough(self) -> bool:
        """Whether the database finds more than fits."""
        return not self.given().keys().isdisjoint(_ROUGH)

    def condition(self, kind: Kind) -> tuple[str, list[Value]]:
        """Return what the database can tell, as the rest of a WHERE with its values."""
        wanted, contains = self.given(), _CONTAINS[kind]
        conditions: list[tuple[str, tuple[Value, ...]]] = [
            (condition, (wanted[name],)) for name, condition in _CONDITIONS.items() if name in wanted
        ]
        if "type" in wanted:
            family = wanted["type"]
            exact, prefix = ("event_type = ?", (family,)), (f"{family}.", f"{family}/")
            conditions.append(exact if "." in family else ("event_type >= ? AND event_type < ?", prefix))
        conditions += [
            (contains, (f'"{name}":{canonical_text(wanted[name])}',)) for name in ("user", "agent") if name in wanted
        ]
        if "skill" in wanted:
            conditions.append((contains, (canonical_text(wanted["skill"].partition("@")[0])[1:-1],)))
        if self.text is not None and self.text.isascii():
            # The databases do not know the lower case of other letters.
            lowered = canonical_text(self.text.lower())[1:-1]
            conditions.append((contains.replace("data_json", "lower(data_json)"), (lowered,)))
        where = "".join(f" AND {condition}" for condition, _ in conditions)
        return where, [value for _, values in conditions for value in values]

    def fits(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record that the database found fits what that cannot tell."""
        wanted = self.given()
        if any(record.get(name) != wanted[name] for name in ("user", "agent") if name in wanted):
            return False
        if "skill" in wanted and not _is_about(record, wanted["skill"]):
            return False
        return "text" not in wanted or _holds(record, wanted["text"].casefold())

    def selects(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record fits all filters, without a database."""
        wanted, moment = self.given(), text_column(record.get("timestamp"))
        fields = {"outcome": "decision", "session": "session", "digest": "digest"}
        if any(text_column(record.get(fields[name])) != wanted[name] for name in fields if name in wanted):
            return False
        if not wanted.get("since", "") <= moment or ("until" in wanted and moment >= wanted["until"]):
            return False
        kind, family = text_column(record.get("type")), wanted.get("type", "")
        is_of_type = not family or kind == family or ("." not in family and kind.startswith(f"{family}."))
        return is_of_type and self.fits(record)


def _is_about(record: Mapping[str, Any], skill: str) -> bool:
    active = record.get("active")
    names = [skill_ref(record), *(active if isinstance(active, list) else [])]
    if "@" in skill:
        return skill in names
    return any(isinstance(name, str) and name.partition("@")[0] == skill for name in names)


def _holds(value: Any, text: str) -> bool:
    if isinstance(value, dict | list):
        return any(_holds(inner, text) for inner in (value.values() if isinstance(value, dict) else value))
    return text in str(value).casefold()


def skill_ref(record: Mapping[str, Any]) -> str:
    """Return the skill that a record is about, as `name@source`; for a tool call the last loaded one.

    >>> skill_ref({"skill": "pdf", "source": "acme"}), skill_ref({"active": ["notes", "pdf"]})
    ('pdf@acme', 'pdf')
    """
    skill, source, active = text_column(record.get("skill")), text_column(record.get("source")), record.get("active")
    if skill:
        return f"{skill}@{source}" if source and "@" not in skill else skill
    return text_column(active[-1]) if isinstance(active, list | tuple) and active else ""


def text_column(value: Any) -> str:
    """Return a value as a column holds it: a text, or nothing."""
    return value if isinstance(value, str) else ""
