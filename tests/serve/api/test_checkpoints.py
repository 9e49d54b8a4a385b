"""The audit log of a server is signed while it serves."""

from __future__ import annotations

from pathlib import Path

from metier.guard.audit.checkpoints import checkpoints_of
from metier.serve.api.app import create_app
from metier.serve.api.checkpoints import CheckpointWorker
from metier.store import Store


def test_what_people_decide_is_signed_once_the_server_stops(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path}/store/metier.db") as store:
        worker = CheckpointWorker(create_app(store).state.context)
        worker.start()
        for tenant in ("", "france"):
            for number in range(3):
                store.of(tenant).audit.append({"type": "person.added", "reason": f"user u{number}:"})
        worker.stop()
        assert [checkpoints_of(store.of(tenant))[-1].seq for tenant in ("", "france")] == [3, 3]
