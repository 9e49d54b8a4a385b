"""Changes of the policy at the same moment: one of them counts, and nobody's change is lost without a word."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.store.postgres import new_postgres_url

from metier.serve.api.app import create_app
from metier.store import Person, Store


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def test_of_two_servers_that_change_it_at_once_all_but_one_are_told_that_they_are_too_late(
    tmp_path: Path, kind: str
) -> None:
    url = f"sqlite:///{tmp_path}/metier.db" if kind == "sqlite" else new_postgres_url()
    Store.migrate(url)
    with Store.open(url) as first, Store.open(url) as second:
        first.of().people.add(Person(name="ada", roles=frozenset({"admin"})))
        _, secret = first.of().people.new_token("ada")
        headers = {"Authorization": f"Bearer {secret}", "If-Match": '"0"'}
        clients = [TestClient(create_app(store), headers=headers) for store in (first, second)]

        def put(number: int) -> int:
            body = {"text": f"version: 1  # {number}\n"}
            return clients[number % 2].put("/api/v1/policy/text", json=body).status_code

        with ThreadPoolExecutor(4) as pool:
            codes = sorted(pool.map(put, range(4)))
        assert codes == [200, 412, 412, 412]
        assert [one.number for one in second.of().policy_versions.all()] == [1]
