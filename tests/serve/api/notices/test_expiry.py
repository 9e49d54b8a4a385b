"""Events that only time or a look at the audit log can show, each recorded once."""

from __future__ import annotations

import pytest
from tests.serve.api.notices.conftest import Notices
from tests.serve.api.notices.requests import waiting_request

from metier.guard.approvals.decisions import grant

DAY = 86_400


def approve(notices: Notices, name: str, seconds: float) -> str:
    request = waiting_request(notices.api, name)
    effective = notices.api.context.governance("").effective
    return grant(notices.api.scope, effective, notices.api.person("reviewer"), request.id, expires=seconds).id


def test_an_approval_that_runs_out_soon_is_told_of_once(notices: Notices) -> None:
    notices.add("approval.expiring")
    approval = approve(notices, "pdf", 30 * DAY)
    approve(notices, "csv", 300 * DAY)
    notices.after(26 * DAY)
    assert notices.receiver.received == []
    other = notices.new_worker()
    notices.after(2 * DAY)
    other.run_once()
    notices.after(DAY)
    other.stop()
    assert [one.json["data"]["id"] for one in notices.receiver.received] == [approval]


def test_an_approval_for_an_hour_is_told_of_near_its_end(notices: Notices) -> None:
    notices.add("approval.expiring")
    approve(notices, "pdf", 3_600)
    notices.worker.run_once()
    notices.after(1_800)
    assert notices.receiver.received == []
    notices.after(1_200)
    assert len(notices.receiver.received) == 1


@pytest.mark.parametrize("seq", [1, 3, "(SELECT max(seq) FROM audit_log WHERE tenant = '')"])
def test_an_audit_log_that_was_changed_is_told_of_once(notices: Notices, seq: int | str) -> None:
    notices.add("verification.failed")
    notices.quarantine()
    pool = notices.api.store.pool
    with pool.transaction():
        pool.change("DROP TRIGGER audit_log_no_update")
        pool.change(f"UPDATE audit_log SET data_json = replace(data_json, 'a', 'b') WHERE tenant = '' AND seq = {seq}")
    notices.api.store.decision_reader.forget()  # as a process that begins later
    notices.worker.run_once()
    notices.after(120)
    notices.after(120)
    (received,) = notices.receiver.received
    assert "the audit log is not as it was written" in received.json["data"]["reason"]
