"""Webhooks in both databases: deliveries are made once, and an attempt belongs to one process."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from metier._lazy import replace
from metier.store import Delivery, Store, TenantScope, Webhook
from metier.store.all_tenants import due_webhooks, tenants_of_webhook, tenants_with_webhooks

LATER = "2999-01-01T00:00:00.000+00:00"


def added(scope: TenantScope) -> Webhook:
    wanted = Webhook(url="https://example.com/", form="json", events=("quarantine",), secret="s", people={"U1": "ada"})
    return scope.webhooks.add(wanted, {"type": "webhook.added", "notes": ["to example.com"]})


def queued(scope: TenantScope, webhook: Webhook) -> Delivery:
    return scope.webhooks.add_delivery(Delivery(webhook=webhook.id, event="quarantine", payload="{}"))


def at_once(*works: Callable[[], object]) -> list[object]:
    """The results of some work that several threads begin at the same moment."""
    together, found = threading.Barrier(len(works)), list[object]()

    def run(work: Callable[[], object]) -> None:
        together.wait()
        found.append(work())

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_a_webhook_is_kept_as_it_is_and_belongs_to_its_tenant(store: Store, scope: TenantScope) -> None:
    webhook = added(scope)
    assert scope.webhooks.all() == [webhook]
    assert scope.webhooks.get(webhook.id) == webhook
    assert store.of("other").webhooks.get(webhook.id) is None
    assert tenants_with_webhooks(store.pool) == tenants_of_webhook(store.pool, webhook.id) == ["acme"]


@pytest.mark.parametrize(
    "statement",
    [
        'UPDATE webhooks SET people = \'{"U9": "ada"}\'',
        "UPDATE webhooks SET credential = 'known-to-me'",
        "UPDATE webhooks SET url = 'https://evil.test/'",
        "UPDATE webhooks SET id = 'w-00000000'",
    ],
)
def test_a_row_that_nobody_recorded_is_no_webhook(scope: TenantScope, statement: str) -> None:
    added(scope)
    with scope.transaction():
        scope.store.pool.change(statement)
    assert scope.webhooks.all() == []


def test_a_webhook_that_was_removed_does_not_come_back_with_its_row(scope: TenantScope) -> None:
    webhook = added(scope)
    copy = "INSERT INTO webhooks SELECT * FROM kept"
    pool = scope.store.pool
    with scope.transaction():
        pool.change("CREATE TABLE kept AS SELECT * FROM webhooks")
    scope.webhooks.remove(webhook, {"type": "webhook.removed"})
    with scope.transaction():
        pool.change(copy)
    assert scope.webhooks.get(webhook.id) is None
    with scope.transaction():
        pool.change("DROP TABLE kept")


def test_of_many_processes_one_makes_the_deliveries_of_a_record(scope: TenantScope) -> None:
    webhook = added(scope)
    one = Delivery(webhook=webhook.id, event="quarantine", payload="{}")
    results = at_once(*[lambda: scope.webhooks.advance(webhook, 7, [one])] * 5)
    assert sorted(map(bool, results)) == [False] * 4 + [True]
    assert len(scope.webhooks.deliveries(webhook.id, limit=10)) == 1


def test_of_many_processes_one_begins_an_attempt(scope: TenantScope) -> None:
    webhook = added(scope)
    delivery = queued(scope, webhook)
    results = at_once(*[lambda: scope.webhooks.claim(delivery, LATER)] * 5)
    assert [one for one in results if one is not None] != []
    assert results.count(None) == 4


def test_an_attempt_that_counts_as_lost_ends_nothing(scope: TenantScope) -> None:
    webhook = added(scope)
    delivery = queued(scope, webhook)
    first = scope.webhooks.claim(delivery, "2000-01-01T00:00:00.000+00:00")
    assert first is not None
    second = scope.webhooks.claim(first, LATER)
    assert second is not None
    assert not scope.webhooks.finish(first, status="pending", response="500", next_at=LATER)
    assert scope.webhooks.finish(second, status="delivered", response="200")
    assert not scope.webhooks.finish(second, status="failed", response="500")


def test_what_is_due_is_found_over_all_tenants_unless_the_webhook_is_paused(store: Store, scope: TenantScope) -> None:
    webhook, other = added(scope), added(store.of("other"))
    queued(scope, webhook)
    queued(store.of("other"), other)
    assert sorted(due_webhooks(store.pool, LATER, 10)) == [("acme", webhook.id), ("other", other.id)]
    assert due_webhooks(store.pool, "2000-01-01T00:00:00.000+00:00", 10) == []
    scope.webhooks.change(replace(webhook, status="paused"), {"type": "webhook.changed"})
    assert due_webhooks(store.pool, LATER, 10) == [("other", other.id)]


def test_deliveries_wait_with_the_one_that_failed(scope: TenantScope) -> None:
    webhook = added(scope)
    first, _ = queued(scope, webhook), queued(scope, webhook)
    scope.webhooks.postpone(first, LATER)
    assert scope.webhooks.next_due(webhook.id, "2900-01-01T00:00:00.000+00:00") == first


def test_deliveries_come_page_by_page_the_newest_first(scope: TenantScope) -> None:
    webhook = added(scope)
    made = {queued(scope, webhook).id for _ in range(5)}
    found: list[Delivery] = []
    while page := scope.webhooks.deliveries(
        webhook.id, before=(found[-1].at, found[-1].id) if found else None, limit=2
    ):
        found += page
    assert {one.id for one in found} == made
    assert [one.at for one in found] == sorted((one.at for one in found), reverse=True)


def test_deliveries_that_ended_are_forgotten_in_time_and_all_with_their_webhook(scope: TenantScope) -> None:
    webhook = added(scope)
    first, second = queued(scope, webhook), queued(scope, webhook)
    claimed = scope.webhooks.claim(first, LATER)
    assert claimed is not None
    scope.webhooks.finish(claimed, status="delivered", response="200")
    scope.webhooks.prune(LATER)
    assert scope.webhooks.deliveries(webhook.id, limit=10) == [second]
    assert scope.webhooks.remove(webhook, {"type": "webhook.removed"})
    assert scope.webhooks.deliveries(webhook.id, limit=10) == []
