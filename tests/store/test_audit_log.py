"""The audit log in a store: kept in order whatever is in it, found again, and never changed."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import threading
from typing import Any

import pytest
import rfc8785
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metier.errors import StoreUnavailable
from metier.store import Store, TenantScope, audit_log
from metier.store.audit_log import AuditTable, canonical
from metier.store.canonical_json import parse_strict


def record(**values: Any) -> dict[str, Any]:
    return {"timestamp": "2026-01-01T10:00:00.000+00:00", "type": "skill.activated", "decision": "allow", **values}


def test_each_record_is_tied_to_the_one_before(scope: TenantScope) -> None:
    stamps = [scope.audit.append(record(skill=name)) for name in ("a", "b", "c")]
    assert [stamp.seq for stamp in stamps] == [1, 2, 3]
    previous = "0" * 64
    for stamp, link in zip(stamps, scope.audit.walk(), strict=True):
        assert link.previous == previous
        assert link.hash == hashlib.sha256(f"{previous}\n{link.text}".encode()).hexdigest() == stamp.hash
        previous = link.hash
    assert scope.audit.last() == stamps[-1]


def test_a_record_is_kept_as_canonical_json_with_its_place_and_its_tenant(scope: TenantScope) -> None:
    scope.audit.append(record(skill="ä", duration_ms=1.0, success=True))
    (link,) = scope.audit.walk()
    assert link.text == (
        '{"decision":"allow","duration_ms":1,"seq":1,"skill":"ä","success":true,"tenant":"acme",'
        '"timestamp":"2026-01-01T10:00:00.000+00:00","type":"skill.activated"}'
    )


def test_a_record_cannot_say_where_it_stands_or_whose_it_is(scope: TenantScope) -> None:
    scope.audit.append(record(seq=7, tenant="other", hash="x", prev_hash="y", checkpoint={}))
    (link,) = scope.audit.walk()
    assert link.record == record(seq=1, tenant="acme")


def test_every_tenant_has_a_chain_of_its_own(store: Store) -> None:
    for tenant in ("acme", "other", "acme"):
        store.of(tenant).audit.append(record(skill=tenant))
    assert [one["seq"] for one in store.of("acme").audit.tail(10)] == [1, 2]
    assert [one["skill"] for one in store.of("other").audit.tail(10)] == ["other"]
    assert store.of("third").audit.last() is None


NESTED: dict[str, Any] = {}
NESTED["self"] = NESTED


MANY: Any = "laugh"
for _ in range(12):
    MANY = [MANY] * 10


WIDE: Any = [[0] * 100_000] * 100_000


class Odd:
    def __repr__(self) -> str:
        raise RuntimeError("never asked")


@pytest.mark.each(
    "value",
    [
        "\0\x1b[2J\r\n\u2028\u202e",
        "\ud800 alone",
        "\ufdd0d800",
        float("nan"),
        float("-inf"),
        2**53,
        -(10**6_000),
        1e22,
        5e-324,
        "x" * 1_000_000,
        list(range(60_000)),
        {1: 2, "1": 3, None: 4},
        {"\ud800": 1, "\\ud800": 2},
        b"bytes",
        {3, 4},
        Odd(),
        NESTED,
        MANY,
        WIDE,
        {"a": [{"b": [[[]]]}]},
    ],
    every=2,
)
def test_whatever_is_in_it_a_record_is_kept(scope: TenantScope, value: Any) -> None:
    stamp = scope.audit.append(record(skill=value, session=value, reason=value))
    assert scope.audit.append(record(skill="next")).seq == stamp.seq + 1
    link = next(scope.audit.walk(start=stamp.seq))
    assert link.record is not None
    assert link.record["type"] == "skill.activated"
    assert "reason" in link.record
    assert len(link.text) < 300_000


TEXT = st.text(alphabet=st.characters(), max_size=20)
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(TEXT, VALUE, max_size=8))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_the_canonical_form_of_anything_can_be_told_from_its_json(value: dict[str, Any]) -> None:
    text = canonical(value)
    found = parse_strict(json.dumps(json.loads(text)))
    assert found is not None
    assert canonical(found) == text


@given(st.dictionaries(TEXT | st.sampled_from(["a", "b\n", '"', "\x7f"]), VALUE | st.lists(TEXT), max_size=6))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_it_is_the_canonical_form_of_rfc_8785_wherever_that_has_one(value: dict[str, Any]) -> None:
    try:
        expected = rfc8785.dumps(value).decode()
    except ValueError:
        return
    for _ in range(2):  # the second time from the forms of texts that are kept
        assert canonical(value) == expected


def test_a_name_that_is_no_text_makes_no_record_fail() -> None:
    assert canonical({1: "a", "b": 2}) == '{"(int)":"a","b":2}'  # type: ignore[dict-item]


@given(st.floats())
def test_numbers_are_written_as_rfc_8785_has_them(number: float) -> None:
    if math.isfinite(number):
        assert canonical({"a": number}) == f'{{"a":{rfc8785.dumps(number).decode()}}}'


def test_what_is_odd_in_a_text_is_written_out_and_the_rest_stays(scope: TenantScope) -> None:
    scope.audit.append(record(reason="a\ud800b\0c", exit_code=2**60, duration_ms=float("nan")))
    (found,) = scope.audit.tail(1)
    assert (found["reason"], found["exit_code"], found["duration_ms"]) == ("a\\ud800b\0c", str(2**60), "nan")


def test_what_is_far_too_long_is_cut_and_says_so(scope: TenantScope) -> None:
    scope.audit.append(record(reason="x" * 1_000_000, code="kept"))
    (found,) = scope.audit.tail(1)
    assert found["reason"].endswith("… (1,000,000 characters)")
    assert found["code"] == "kept"


def test_what_is_nested_far_too_deep_is_cut_and_can_be_searched(scope: TenantScope) -> None:
    deep: list[Any] = ["found"]
    for _ in range(400):
        deep = [deep]
    scope.audit.append(record(notes=deep, reason="nested"))
    assert [one["reason"] for one in scope.audit.search(text="NESTED")] == ["nested"]
    assert scope.audit.search(text="found") == []


def test_a_transaction_that_fails_takes_its_records_with_it(scope: TenantScope) -> None:
    scope.audit.append(record(skill="before"))
    with pytest.raises(ZeroDivisionError), scope.transaction():
        scope.audit.append(record(skill="lost"))
        raise ZeroDivisionError
    scope.audit.append(record(skill="after"))
    assert [(one["seq"], one["skill"]) for one in scope.audit.tail(10)] == [(1, "before"), (2, "after")]


def test_many_threads_make_one_chain(scope: TenantScope) -> None:
    start = threading.Barrier(4)

    def work(number: int) -> None:
        start.wait()
        for step in range(10):
            scope.audit.append(record(skill=f"{number}-{step}"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    links = list(scope.audit.walk())
    assert [link.seq for link in links] == list(range(1, 41))
    assert all(after.previous == before.hash for before, after in itertools.pairwise(links))


@pytest.mark.covers("A-46")
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_log SET outcome = 'deny'",
        "UPDATE audit_log SET seq = seq + 1",
        "DELETE FROM audit_log",
        "DELETE FROM audit_log WHERE seq = 1",
    ],
)
def test_the_apps_own_connection_cannot_change_or_remove_a_record(
    store: Store, scope: TenantScope, statement: str
) -> None:
    scope.audit.append(record(skill="a"))
    before = list(scope.audit.walk())
    with pytest.raises(StoreUnavailable, match="only be added to"), store.pool.transaction():
        store.pool.change(statement)
    assert list(scope.audit.walk()) == before


@pytest.fixture
def filled(scope: TenantScope) -> AuditTable:
    trail = scope.audit
    trail.append(record(skill="pdf", source="acme", user="sam", session="s1", digest="sha256:1"))
    trail.append(record(type="tool.called", active=["notes", "pdf"], tool="Bash", agent="clerk", session="s1"))
    trail.append(record(type="tool.denied", decision="deny", active=["notes"], tool="Bash", agent="clerk's"))
    trail.append(record(type="approval.granted", skill="pdf@other", user="Sam", reason='She said "Änderung".'))
    trail.append(record(type="approvals", skill="pdf-forms", timestamp="2026-02-01T10:00:00.000+00:00"))
    return trail


@pytest.mark.each(
    ("filters", "found"),
    [
        ({}, [5, 4, 3, 2, 1]),
        ({"limit": 2}, [5, 4]),
        ({"skill": "pdf"}, [4, 2, 1]),
        ({"skill": "pdf@acme"}, [1]),
        ({"skill": "pdf@other"}, [4]),
        ({"skill": "notes"}, [3, 2]),
        ({"skill": "pd"}, []),
        ({"type": "tool.denied"}, [3]),
        ({"type": "tool"}, [3, 2]),
        ({"type": "approval"}, [4]),
        ({"outcome": "deny"}, [3]),
        ({"session": "s1"}, [2, 1]),
        ({"user": "sam"}, [1]),
        ({"agent": "clerk"}, [2]),
        ({"agent": "clerk's"}, [3]),
        ({"digest": "sha256:1"}, [1]),
        ({"since": "2026-01-15"}, [5]),
        ({"until": "2026-01-15"}, [4, 3, 2, 1]),
        ({"text": 'said "änd'}, [4]),
        ({"text": "PDF-"}, [5]),
        ({"text": "reason"}, []),
        ({"skill": "pdf", "session": "s1", "type": "tool"}, [2]),
        ({"skill": "\ud800%_'\0"}, []),
        ({"session": "\0"}, []),
    ],
)
def test_records_are_found_by_all_that_is_asked_for(
    filled: AuditTable, filters: dict[str, Any], found: list[int]
) -> None:
    assert [one["seq"] for one in filled.search(**filters)] == found


def test_a_search_goes_as_far_back_as_it_must(scope: TenantScope, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "_BATCH", 10)
    scope.audit.append(record(skill="old", user="sam"))
    with scope.transaction():
        for _ in range(22):
            scope.audit.append(record(skill="new", user="sam"))
    assert [one["seq"] for one in scope.audit.search(text="old")] == [1]
    assert [one["seq"] for one in scope.audit.search(user="sam", limit=30)] == list(range(23, 0, -1))
    assert [one["seq"] for one in scope.audit.tail(2)] == [22, 23]
    assert [link.seq for link in scope.audit.walk(start=3, batch=5)] == list(range(3, 24))


def test_checkpoints_are_kept_beside_the_records_once_each(store: Store) -> None:
    trail = store.of("acme").audit
    kept = {"seq": 5, "hash": "h", "signed_at": "t", "key_id": "k", "signature": "s"}
    for _ in range(2):
        trail.keep_checkpoint(kept)
    assert trail.checkpoints() == [{"tenant": "acme", **kept}]
    assert store.of("other").audit.checkpoints() == []
