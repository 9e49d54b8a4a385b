"""Usage of skills, added up from the audit log record by record, a batch at a time."""

from __future__ import annotations

import functools
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from metier._json_object import object_of
from metier.dialect.dialects import CONTROL_TOOLS
from metier.proof.model_price import cost_of
from metier.skill import shown
from metier.store.node_records import CHECKPOINT
from metier.store.usage import COUNTERS, UsageCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from metier.guard.policy.effective import EffectivePolicy
    from metier.store import TenantScope

UsageRecord: TypeAlias = tuple[int, str, str, str, str]
"""Number, time, type, skill and text of an audit record."""
BATCH = 5_000
"""The records that are read, added up and written at once."""
_COUNTED = {
    "skill.activated": "loads",
    "skill.failed": "failures",
    "tool.called": "calls",
    "script.run": "runs",
    "resource.read": "",
    "model.answered": "",
    "feedback.helped": "helped",
    "feedback.not-helped": "not_helped",
    **{
        f"{subject}.{refused}": "refusals"
        for subject in ("skill", "tool", "script", "resource", "hook", "inject")
        for refused in ("denied", "asked")
    },
}
"""The types of records that count, each with its counter."""
_FAILING = frozenset({"tool.called", "script.run", "resource.read"})
"""The types of records of what may have been allowed and have failed."""
_PLACES = {name: place for place, name in enumerate(COUNTERS)}
_DAY = re.compile(r"\d{4}-\d\d-\d\d(?=T)", re.ASCII)
_MAX_NAME = 120
_MAX_QUERY = 200
_MAX_BESIDE = 10
"""The skills beside which a load counts, the last ones."""
_MOST = 2**40
"""The largest number of a record that counts: the sum of many must fit into a column."""


def roll_up(
    scope: TenantScope,
    *,
    keeps_queries: bool = False,
    keep_from: str = "",
    batch: int = BATCH,
    on_batch: Callable[[int], None] = lambda seq: None,
) -> int:
    """Add up all records that are not counted yet; returns how many this process has counted.

    It may be interrupted at any moment, and done by several at once: each batch is written with the number of its last
    record, and only where nobody else has written it. The days before `keep_from` become a row of their months.
    """
    usage, counted = scope.usage, 0
    while True:
        after = usage.cursor()
        records = usage.records(after, batch)
        if not records:
            break
        until = records[-1][0]
        counts = count_records(_with_shipped(scope, records), keeps_queries=keeps_queries)
        if usage.add(counts, after=after, until=until):
            counted += len(records)
        on_batch(until)
    if keep_from:
        usage.fold(keep_from)
    return counted


def _with_shipped(scope: TenantScope, records: Iterable[UsageRecord]) -> Iterator[UsageRecord]:
    """Yield records, and behind the checkpoint of a node those that it has shipped with it."""
    for record in records:
        yield record
        if record[2] == CHECKPOINT:
            for shipped in scope.audit_search.shipped_with(object_of(record[4]) or {}):
                columns = shipped.columns or {}
                yield 0, columns["ts"], columns["event_type"], columns["skill_ref"], shipped.text


def catch_up(scope: TenantScope, policy: EffectivePolicy, *, on_batch: Callable[[int], None] = lambda seq: None) -> int:
    """Add up all records as a policy has it: how long days are kept, and whether the texts of searches are."""
    keep_from = datetime.now(UTC).date() - timedelta(days=policy.usage_keep_days)
    return roll_up(
        scope,
        keeps_queries=policy.usage_queries == "text",
        keep_from=keep_from.isoformat(),
        on_batch=on_batch,
    )


def count_records(records: Iterable[UsageRecord], *, keeps_queries: bool = False) -> UsageCounts:
    """Return the counters of records, as `UsageTable.records` gives them.

    >>> record = '{"skill":"pdf","source":"acme","layer":"project","agent":"clerk"}'
    >>> counts = count_records([(1, "2026-01-31T10:00:00Z", "skill.activated", "pdf@acme", record)])
    >>> list(counts.days)
    [('2026-01-31', 'pdf@acme', 'clerk', '')]
    """
    counts = UsageCounts()
    for _, moment, kind, ref, text in records:
        counter = _COUNTED.get(kind)
        day = _DAY.match(moment) if counter is not None else None
        record = object_of(text) if day is not None else None
        if record is not None and day is not None:
            _count(counts, day[0], kind, ref, record, keeps_queries=keeps_queries)
    return counts


def _count(
    counts: UsageCounts, day: str, kind: str, ref: str, record: Mapping[str, Any], *, keeps_queries: bool
) -> None:
    active = _active(record)
    skill = _bounded(ref) if record.get("layer") else active[-1] if active and "skill" not in record else ""
    model = _bounded(record.get("model"))
    key = day, skill, _bounded(record.get("agent")), model
    row = counts.days.get(key)
    if row is None:
        row = counts.days[key] = [0] * len(COUNTERS)
    for counter, number in _numbers(kind, record, day, model):
        row[_PLACES[counter]] += number
    if kind == "skill.activated" and skill in active:
        for other in active[: active.index(skill)][-_MAX_BESIDE:]:
            pair = (day[:7], *sorted((skill, other)))
            counts.pairs[pair] = [counts.pairs.get(pair, [0])[0] + 1]
    if keeps_queries and record.get("found") == 0:
        query = day, _query(record)
        counts.searches[query] = [counts.searches.get(query, [0])[0] + 1]


def _numbers(kind: str, record: Mapping[str, Any], day: str, model: str) -> Iterable[tuple[str, int]]:
    """Yield what a record adds to which counters."""
    counter = _COUNTED[kind]
    found = record.get("found")
    # A tool that loads, reads or runs leaves a record of that besides; a run without a skill is a call of Bash.
    is_told_elsewhere = record.get("tool") in CONTROL_TOOLS if kind == "tool.called" else not record.get("skill")
    if counter and not (kind in _FAILING and is_told_elsewhere):
        yield counter, 1
        if kind in _FAILING:
            yield "duration", round(_number(record.get("duration_ms")) * 1_000)
    if kind in _FAILING and record.get("success") is False and not is_told_elsewhere:
        yield "failures", 1
    if type(found) is int:
        yield "searches", 1
        yield "empty_searches", int(found == 0)
    tokens_in, tokens_out = (int(_number(record.get(name))) for name in ("tokens_in", "tokens_out"))
    if tokens_in or tokens_out:
        cost = cost_of(model, day, tokens_in, tokens_out)
        yield "tokens_in", tokens_in
        yield "tokens_out", tokens_out
        yield ("unpriced", tokens_in + tokens_out) if cost is None else ("cost", cost)


def _active(record: Mapping[str, Any]) -> tuple[str, ...]:
    """The active skills as `name@source`, the last loaded at the end."""
    labels = record.get("skills")
    return tuple([_bounded(one, True) for one in labels]) if isinstance(labels, list) else ()


def _bounded(value: Any, is_label: bool = False) -> str:
    return _shortened(value, is_label) if isinstance(value, str) and value else ""


@functools.lru_cache(4_096)
def _shortened(text: str, is_label: bool) -> str:
    """A name so short that an index holds it, of a label without the digest; records repeat much."""
    return shown(text.partition("#")[0] if is_label else text, _MAX_NAME)


def _number(value: Any) -> float:
    return value if type(value) in (int, float) and 0 < value < _MOST else 0


def _query(record: Mapping[str, Any]) -> str:
    """The text of a search, which its record has among the arguments of the call."""
    arguments = object_of(str(record.get("arguments"))) or {}
    return shown(str(arguments.get("query") or arguments.get("skill_name") or ""), _MAX_QUERY)
