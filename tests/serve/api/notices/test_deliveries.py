"""Deliveries: nothing is lost, nothing is sent by two processes at once, and a receiver that fails harms nobody else."""

from __future__ import annotations

import base64
import hashlib
import hmac

from tests.serve.api.notices.conftest import Notices


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
