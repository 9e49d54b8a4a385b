"""Usage that is added up from the audit log: once each record, wherever it is interrupted."""

from __future__ import annotations

import contextlib
import itertools
import json
import multiprocessing
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.store.postgres import store_url

from metier import Library
from metier.guard import Guard
from metier.proof.model_price import cost_of
from metier.proof.usage import roll_up
from metier.proof.usage_report import usage_report
from metier.store import Store, TenantScope
from metier.store.connection_pool import ConnectionPool
from metier.store.usage import COUNTERS

__all__ = ["store_url"]
ALL = ("0001-01-01", "9999-12-31")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

NAMES = st.sampled_from(["a", "b", "c@x"])
NUMBERS = st.sampled_from([0, 1, 7, 2.5, -1, 2**41, None, "many", True])
RECORDS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            [
                *("skill.activated", "skill.failed", "skill.denied", "skill.deactivated", "tool.called", "tool.denied"),
                *("tool.asked", "script.run", "script.denied", "resource.read", "resource.denied", "model.answered"),
                *("feedback.helped", "feedback.not-helped", "approval.granted"),
            ]
        ),
        "timestamp": st.sampled_from(
            ["2026-01-01T00:00:00.000+00:00", "2026-01-02T09:00:00.000+00:00", "2026-02-01T00:00:00+00:00", "", "soon"]
        ),
    },
    optional={
        "skill": NAMES,
        "source": st.just("project"),
        "layer": st.just("project"),
        "skills": st.lists(st.sampled_from(["a@project#1", "b@project#2", "d@project#3"]), max_size=3) | st.just("a"),
        "agent": st.sampled_from(["clerk", "x" * 500, "\0" * 200, 7]),
        "model": st.sampled_from(["gpt-4o", "own", "\ud800"]),
        "tool": st.sampled_from(["Bash", "skills_load", "skills_search"]),
        "success": st.booleans(),
        "found": st.sampled_from([0, 3]),
        "arguments": st.sampled_from(['{"query": "tables"}', "{", "[1]", '{"query": 5}']),
        "tokens_in": NUMBERS,
        "tokens_out": NUMBERS,
        "duration_ms": NUMBERS,
    },
)


def everything(scope: TenantScope) -> tuple[object, ...]:
    """All that is counted of a tenant."""
    usage = scope.usage
    return (
        list(usage.totals(("day", "skill", "agent", "model"), *ALL)),
        usage.pairs(*ALL),
        usage.searches(*ALL, 9),
        usage.cursor(),
    )


def recounted(scope: TenantScope) -> Counter[tuple[str, str]]:
    """Some counters of each day, counted again from all records in the plainest way."""
    found: Counter[tuple[str, str]] = Counter()
    for chained in scope.audit.walk():
        record = chained.record
        assert record is not None
        day, kind, tool = record["timestamp"][:10], record["type"], record.get("tool")
        if "T" not in record["timestamp"]:
            continue
        subject, _, happened = kind.partition(".")
        is_use = kind in ("tool.called", "script.run", "resource.read")
        is_own = tool not in ("skills_load", "skills_search") if kind == "tool.called" else bool(record.get("skill"))
        found[day, "loads"] += kind == "skill.activated"
        found[day, "calls"] += kind == "tool.called" and is_own
        found[day, "runs"] += kind == "script.run" and is_own
        found[day, "refusals"] += happened in ("denied", "asked") and subject != "approval"
        found[day, "failures"] += kind == "skill.failed" or (is_use and is_own and record.get("success") is False)
        found[day, "helped"] += kind == "feedback.helped"
        found[day, "not_helped"] += kind == "feedback.not-helped"
        if kind not in ("skill.deactivated", "approval.granted"):
            found[day, "searches"] += "found" in record
            found[day, "empty_searches"] += record.get("found") == 0
            for name in ("tokens_in", "tokens_out"):
                number: Any = record.get(name)
                if type(number) in (int, float) and 0 < number < 2**40:
                    found[day, name] += int(number)
    return +found


def by_day(scope: TenantScope) -> Counter[tuple[str, str]]:
    totals = scope.usage.totals(("day",), *ALL)
    counted = ("loads", "calls", "runs", "refusals", "failures", "helped", "not_helped", "searches", "empty_searches")
    return +Counter(
        {(day, name): counts[name] for (day,), counts in totals for name in (*counted, "tokens_in", "tokens_out")}
    )


class Crash(Exception):
    """What ends a process that is killed, as far as a test can play it."""


@given(
    history=st.lists(RECORDS, max_size=30),
    cuts=st.lists(st.tuples(st.integers(1, 7), st.integers(0, 12)), max_size=8),
    keeps_queries=st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_counters_are_those_of_a_full_recount_wherever_it_was_interrupted(
    store_url: str, history: list[dict[str, Any]], cuts: list[tuple[int, int]], keeps_queries: bool
) -> None:
    with Store.open(store_url) as store:
        number = len(store.tenants())
        scope, whole = store.of(f"cut-{number}"), store.of(f"whole-{number}")
        left = list(history)
        for count, crash in cuts:
            added, left = left[:count], left[count:]
            scope.audit.append_all(lambda added=added: added)  # type: ignore[misc]
            with pytest.MonkeyPatch.context() as patch, contextlib.suppress(Crash):
                crash_at(patch, crash)
                roll_up(scope, batch=max(1, count // 2), keeps_queries=keeps_queries)
        for one, rest in ((scope, left), (whole, history)):
            one.audit.append_all(lambda rest=rest: rest)  # type: ignore[misc]
            roll_up(one, keeps_queries=keeps_queries)
        assert everything(scope) == everything(whole)
        assert by_day(scope) == recounted(scope)
        assert roll_up(scope) == 0
        for one in (scope, whole):
            one.usage.fold("2026-01-02")
        assert everything(scope) == everything(whole)


def crash_at(patch: pytest.MonkeyPatch, number: int) -> None:
    """End what is done at the write of this number, before it or after it; nothing of a transaction stays then."""
    writes = itertools.count()
    for name in ("change", "change_all"):
        write = getattr(ConnectionPool, name)

        def crashing(self: ConnectionPool, *given: Any, write: Any = write) -> Any:
            at = next(writes) * 2
            if at == number:
                raise Crash
            done = write(self, *given)
            if at + 1 == number:
                raise Crash
            return done

        patch.setattr(ConnectionPool, name, crashing)


def fill(scope: TenantScope, count: int) -> None:
    records = [
        {
            "type": "tool.called" if number % 3 else "skill.activated",
            "timestamp": f"2026-01-{number % 28 + 1:02}T10:00:00.000+00:00",
            "skill": f"skill-{number % 7}",
            "layer": "project",
            "tool": "Bash",
            "tokens_in": number % 5,
        }
        for number in range(count)
    ]
    scope.audit.append_all(lambda: records)


@needs_fork
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_several_processes_that_count_at_once_count_each_record_once(store_url: str) -> None:
    with Store.open(store_url) as store:
        fill(store.of(), 300)
    children = []
    for _ in range(3):
        child = os.fork()
        if not child:
            code = 1
            try:
                with Store.open(store_url) as store:
                    roll_up(store.of(), batch=10)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0, 0]
    with Store.open(store_url) as store:
        ((_, counts),) = store.of().usage.totals((), *ALL)
        assert (counts["loads"], counts["calls"], store.of().usage.cursor()) == (100, 200, 300)


def _count_slowly(url: str, begun: Any) -> None:
    with Store.open(url) as store:
        roll_up(store.of(), batch=3, on_batch=lambda seq: begun.send(seq))


@pytest.mark.slow
@pytest.mark.parametrize("batches", [1, 5, 20, 60])
def test_a_process_that_is_killed_loses_and_doubles_nothing(tmp_path: Path, batches: int) -> None:
    url = f"sqlite:///{tmp_path}/metier.db"
    with Store.open(url) as store:
        fill(store.of(), 600)
        whole = store.of("whole")
        fill(whole, 600)
        roll_up(whole)
    context = multiprocessing.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_count_slowly, args=(url, sending))
    process.start()
    for _ in range(batches):
        receiving.recv()
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    with Store.open(url) as store:
        before = store.of().usage.cursor()
        assert 3 * batches <= before
        assert roll_up(store.of()) == 600 - before
        assert everything(store.of()) == everything(store.of("whole"))


def test_texts_of_searches_are_kept_only_where_that_is_wanted(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path}/metier.db") as store:
        search = {"type": "tool.called", "timestamp": "2026-01-01T10:00:00Z", "tool": "skills_search", "found": 0}
        for tenant, keeps in (("kept", True), ("not", False)):
            record = {**search, "arguments": json.dumps({"query": "salaries\x1b[2J of " + "x" * 500})}
            store.of(tenant).audit.append(record)
            roll_up(store.of(tenant), keeps_queries=keeps)
        ((query, times),) = store.of("kept").usage.searches(*ALL, 9)
        assert (query[:19], len(query) < 250, times) == ("salaries\\x1b[2J of ", True, 1)
        assert store.of("not").usage.searches(*ALL, 9) == []
        ((_, counts),) = store.of("not").usage.totals((), *ALL)
        assert (counts["searches"], counts["empty_searches"]) == (1, 1)


def test_the_cost_is_that_of_genai_prices_also_where_an_answer_has_read_much() -> None:
    prices = pytest.importorskip("genai_prices")
    from datetime import UTC, datetime

    day = datetime(2026, 1, 1, tzinfo=UTC)
    for model in ("gpt-4o", "claude-sonnet-4-5", "gemini-2.5-pro"):
        for tokens_in, tokens_out in ((0, 1), (1_000, 100), (200_000, 5_000), (200_001, 5_000), (900_000, 1)):
            usage = prices.Usage(input_tokens=tokens_in, output_tokens=tokens_out)
            expected = prices.calc_price(usage, model, genai_request_timestamp=day).total_price
            assert cost_of(model, "2026-01-01", tokens_in, tokens_out) == round(expected * 1_000_000)
    assert cost_of("openai:gpt-4o", "2026-01-01", 1_000, 0) == cost_of("gpt-4o", "2026-01-01", 1_000, 0)
    assert cost_of("nobody-s-own", "2026-01-01", 1_000, 100) is None
    assert cost_of("gpt-4o", "2026-99-99", 1_000, 100) is None


def skill(name: str) -> dict[str, str]:
    return {"SKILL.md": f"---\nname: {name}\ndescription: Does {name}.\n---\nDo it."}


def test_what_sessions_do_is_counted_with_its_tokens(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/metier.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("METIER_STORE", url)
        patch.delenv("METIER_AUDIT", raising=False)
        library = Library.from_files(skill("forms"), skill("tables"), skill("idle"))
        for number in range(3):
            with library.session(guard=Guard()) as session:
                tools = session.executor()
                session.calls.answered_by("gpt-4o", 1_100, output=100)
                anyio.run(tools.execute, "skills_load", {"skills": ["forms", "tables"]})
                anyio.run(tools.execute, "skills_search", {"query": "something quite different"})
                anyio.run(tools.execute, "skills_run", {"script": "none.py"})
                session.calls.answered_by("own", 30, output=10)
                session.feedback("tables", helped=number == 0, comment="It was slow.", by="model")
                session.feedback("tables", helped=False)
    with Store.open(url) as store:
        scope = store.of()
        roll_up(scope)
        report = usage_report([scope], since=ALL[0], until=ALL[1], library=library)
    rows = {row.name: row for row in report.rows}
    forms, tables = rows["forms@memory"].counts, rows["tables@memory"].counts
    assert (forms["loads"], tables["loads"], tables["helped"], tables["not_helped"]) == (3, 3, 1, 5)
    assert (tables["tokens_in"], tables["tokens_out"], tables["unpriced"]) == (60, 30, 90)
    assert (rows["tables@memory"].dollars, rows[""].tokens) == (None, 3_300)
    assert (report.total.counts["searches"], report.total.counts["empty_searches"]) == (3, 3)
    assert report.total.counts["calls"] == 0
    assert report.unused == ("idle@memory",)
    assert [(pair.skills, pair.loads) for pair in report.together] == [(("forms@memory", "tables@memory"), 3)]
    assert [(weak.skill, weak.reason[:9]) for weak in report.underperforming] == [("tables@memory", "It helped")]
    if pytest.importorskip("genai_prices"):
        assert rows[""].dollars == pytest.approx(3 * (1_000 * 2.5 + 100 * 10) / 1_000_000)


def test_a_report_is_about_the_skills_days_and_groups_that_were_asked_for(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path}/metier.db") as store:
        scope = store.of("acme")
        for day, name, agent, decision in (
            ("2026-01-01", "a", "clerk", "activated"),
            ("2026-01-02", "a", "boss", "activated"),
            ("2026-01-02", "b", "clerk", "denied"),
            ("2026-02-01", "b", "clerk", "activated"),
        ):
            scope.audit.append(
                {
                    "type": f"skill.{decision}",
                    "timestamp": f"{day}T10:00:00Z",
                    "skill": name,
                    "source": "x",
                    "layer": "project",
                    "agent": agent,
                }
            )
        roll_up(scope)

        def rows(**given: Any) -> list[tuple[str, int, int]]:
            report = usage_report([scope], **{"since": "2026-01-01", "until": "2026-01-31", **given})
            return [(row.name, row.counts["loads"], row.counts["refusals"]) for row in report.rows]

        assert rows() == [("a@x", 2, 0), ("b@x", 0, 1)]
        assert rows(by="agent") == [("boss", 1, 0), ("clerk", 1, 1)]
        assert rows(by="day") == [("2026-01-01", 1, 0), ("2026-01-02", 1, 1)]
        assert rows(by="day", skills=["a@x"]) == [("2026-01-01", 1, 0), ("2026-01-02", 1, 0)]
        assert rows(by="team", until="2026-12-31") == [("acme", 3, 1)]
        assert rows(skills=["b"], since="2026-02-01", until="2026-02-01") == [("b@x", 1, 0)]
        assert rows(since="2027-01-01", until="2027-01-01") == []


def test_a_row_has_every_counter() -> None:
    assert len(set(COUNTERS)) == len(COUNTERS) == 14
