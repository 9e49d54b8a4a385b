"""Values that count once, in both databases."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from metier.store import Store, TenantScope

LATER, BEFORE = "2999-01-01T00:00:00.000+00:00", "2000-01-01T00:00:00.000+00:00"


def test_a_value_is_taken_once(scope: TenantScope) -> None:
    assert scope.used_once.take("a proof", expires_at=LATER)
    assert not scope.used_once.take("a proof", expires_at=LATER)
    assert scope.used_once.take("another", expires_at=LATER)


def test_of_several_who_take_it_at_once_one_has_it(scope: TenantScope) -> None:
    with ThreadPoolExecutor(8) as pool:
        taken = [pool.submit(scope.used_once.take, "a proof", expires_at=LATER) for _ in range(8)]
    assert sorted(one.result() for one in taken) == [False] * 7 + [True]


def test_tenants_take_nothing_from_each_other(store: Store) -> None:
    assert all(store.of(tenant).used_once.take("a proof", expires_at=LATER) for tenant in ("", "acme"))


def test_what_no_longer_counts_anyway_is_forgotten_and_no_value_is_kept_as_it_is(scope: TenantScope) -> None:
    scope.used_once.take("a proof", expires_at=BEFORE)
    scope.used_once.take("another", expires_at=LATER)
    rows = scope.store.pool.execute("SELECT digest FROM used_once")
    assert len(rows) == 1 and "another" not in rows[0][0]
