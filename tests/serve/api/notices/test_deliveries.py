"""Deliveries: nothing is lost, no two processes send one at once, and a receiver that fails harms nobody else."""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import threading

import pytest
from tests.serve.api.notices.conftest import Notices
from tests.serve.api.notices.receiver import receiving

from metier.serve.api.notices.transport import post
from metier.store.rows import now


def test_a_quarantine_reaches_its_receiver_with_a_signature_that_holds(notices: Notices) -> None:
    webhook = notices.add("quarantine")
    notices.quarantine()
    notices.worker.run_once()
    (received,) = notices.receiver.received
    assert received.json["type"] == "quarantine"
    assert received.json["data"]["id"] == "name:miner"
    headers = received.headers
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + received.body
    key = base64.b64decode(webhook["secret"].removeprefix("whsec_"))
    expected = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert [(one["status"], one["response"]) for one in notices.log(webhook)] == [("delivered", "200")]


def test_records_from_before_a_webhook_and_other_events_are_not_sent(notices: Notices) -> None:
    notices.quarantine()
    notices.add("node.tampered")
    notices.quarantine()
    notices.worker.run_once()
    assert notices.receiver.received == []


def test_a_receiver_that_fails_is_asked_again_with_the_same_id_until_it_answers(notices: Notices) -> None:
    webhook = notices.add("quarantine")
    notices.receiver.status = 500
    notices.quarantine()
    notices.worker.run_once()
    notices.after(1)
    assert len(notices.receiver.received) == 1  # it is too early
    notices.after(5)
    notices.receiver.status = 204
    notices.after(31)
    assert len({one.headers["webhook-id"] for one in notices.receiver.received}) == 1
    (entry,) = notices.log(webhook)
    assert (entry["status"], entry["attempts"], entry["response"]) == ("delivered", 3, "204")


def test_a_delivery_is_given_up_after_a_day_and_sent_again_when_somebody_asks(notices: Notices) -> None:
    webhook = notices.add("quarantine")
    notices.receiver.status = 503
    notices.quarantine()
    for _ in range(40):
        notices.after(3_600)
    (entry,) = notices.log(webhook)
    assert (entry["status"], entry["response"]) == ("failed", "503")
    assert len(notices.receiver.received) == entry["attempts"] > 20
    record = notices.api.scope.audit.search(type="notification.failed")[0]
    assert record["reason"] == f"webhook {webhook['id']}: 503"
    notices.receiver.status = 200
    notices.seconds = 0
    path = f"/api/v1/webhooks/{webhook['id']}/deliveries/{entry['id']}/replay"
    assert notices.api.as_("admin").post(path).json()["status"] == "pending"
    notices.worker.run_once()
    assert notices.log(webhook)[0]["status"] == "delivered"
    assert notices.receiver.received[-1].headers["webhook-id"] == entry["id"]


def test_while_a_receiver_fails_its_other_deliveries_wait_as_long(notices: Notices) -> None:
    notices.add("quarantine")
    notices.receiver.status = 500
    for name in ("one", "two", "three"):
        notices.quarantine(name)
    notices.worker.run_once()
    notices.after(1)
    assert len(notices.receiver.received) == 1
    notices.receiver.status = 200
    notices.after(6)
    assert len(notices.receiver.received) == 4


def test_a_receiver_that_is_gone_is_asked_no_more(notices: Notices) -> None:
    webhook = notices.add("quarantine")
    notices.receiver.status = 410
    notices.quarantine()
    notices.worker.run_once()
    notices.quarantine("other")
    notices.after(7_200)
    assert len(notices.receiver.received) == 1
    answer = notices.api.as_("admin").get(f"/api/v1/webhooks/{webhook['id']}")
    assert answer.json()["status"] == "gone"


def test_a_webhook_that_is_paused_loses_nothing(notices: Notices) -> None:
    webhook = notices.add("quarantine")
    body = {"url": webhook["url"], "events": webhook["events"]}
    path = f"/api/v1/webhooks/{webhook['id']}"
    notices.api.as_("admin").put(path, json={**body, "status": "paused"})
    notices.quarantine()
    notices.worker.run_once()
    assert notices.receiver.received == []
    notices.api.as_("admin").put(path, json={**body, "status": "active"})
    notices.worker.run_once()
    assert len(notices.receiver.received) == 1


def test_two_processes_do_not_send_a_delivery_twice(notices: Notices) -> None:
    webhook = notices.add("quarantine")
    notices.receiver.may_answer.clear()
    for number in range(5):
        notices.quarantine(f"skill-{number}")
    other = notices.new_worker()
    threads = [threading.Thread(target=one.run_once) for one in (notices.worker, other)]
    for thread in threads:
        thread.start()
    notices.receiver.arrived.acquire(timeout=30)
    notices.receiver.may_answer.set()
    for thread in threads:
        thread.join()
    other.stop()
    ids = [one.headers["webhook-id"] for one in notices.receiver.received]
    assert sorted(ids) == sorted({entry["id"] for entry in notices.log(webhook)})
    assert len(ids) == 5


def test_a_delivery_whose_process_died_is_sent_by_another_one(notices: Notices) -> None:
    webhook = notices.add("quarantine")
    notices.quarantine()
    notices.worker.queue()
    due = notices.api.scope.webhooks.next_due(webhook["id"], now())
    assert due is not None
    assert notices.api.scope.webhooks.claim(due, now()) is not None
    notices.after(1)
    assert [one.headers["webhook-id"] for one in notices.receiver.received] == [due.id]


def test_a_slow_receiver_does_not_hold_up_another_one(notices: Notices, monkeypatch: pytest.MonkeyPatch) -> None:
    # However slow the machine of the test is, the receiver is not left before.
    monkeypatch.setattr("metier.serve.api.notices.deliveries.post", functools.partial(post, seconds=50))
    notices.add("quarantine")
    notices.receiver.may_answer.clear()
    with receiving() as fast:
        notices.add("quarantine", url=fast.url)
        # The one that is slow does not answer, and the other one is told of all.
        for name in ("one", "other"):
            notices.quarantine(name)
            notices.worker.queue()
            for _ in range(200):
                notices.worker.send()
                if fast.arrived.acquire(timeout=0.1):
                    break
        assert notices.receiver.arrived.acquire(timeout=30)
        assert len(fast.received) == 2
        assert len(notices.receiver.received) == 1
        notices.receiver.may_answer.set()
        notices.worker.stop()


def test_a_server_that_runs_delivers_by_itself(notices: Notices) -> None:
    notices.add("quarantine")
    with notices.api.as_("admin"):
        notices.quarantine()
        assert notices.receiver.arrived.acquire(timeout=30)


def test_one_tenant_is_not_told_of_another_one(notices: Notices) -> None:
    answer = notices.api.as_("other").post(
        "/api/v1/webhooks", json={"url": notices.receiver.url, "events": ["quarantine"]}
    )
    assert answer.status_code == 201
    notices.quarantine()
    notices.worker.run_once()
    assert notices.receiver.received == []


@pytest.mark.parametrize("form", ["jsonl", "cloudevents", "otlp", "ocsf"])
def test_an_audit_stream_has_each_record_once_and_in_order(notices: Notices, form: str) -> None:
    notices.add("audit", form=form)
    start = notices.api.scope.audit.last()
    assert start is not None
    notices.receiver.status = 500
    notices.quarantine("one")
    notices.worker.run_once()
    notices.quarantine("two")
    notices.after(1)
    notices.receiver.status = 200
    # A day later, it still goes on where it stopped.
    for _ in range(30):
        notices.after(3_600)
    bodies = [one.body for one in notices.receiver.received]
    assert bodies[0] == bodies[1]
    text = b"".join(bodies[1:]).decode()
    assert text.count("name one") == text.count("name two") == 1
    assert text.index("name one") < text.index("name two")


def test_a_batch_of_an_audit_stream_can_be_verified(notices: Notices) -> None:
    notices.add("audit", form="jsonl")
    last = notices.api.scope.audit.last()
    assert last is not None
    for number in range(3):
        notices.quarantine(f"skill-{number}")
    notices.worker.run_once()
    (received,) = notices.receiver.received
    hashes = [line.split('"hash":"')[1][:64] for line in received.body.decode().splitlines()]
    # It begins with the record of the webhook itself.
    assert hashes == [one.hash for one in notices.api.scope.audit.walk(start=last.seq)]
