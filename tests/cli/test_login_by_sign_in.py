"""`metier login` of a person who signs in, with a certified provider and a server that listens."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.serve.api.listening import listening
from tests.serve.api.oidc_provider import running

from metier.cli import identity, login
from metier.store import Person, Store


@pytest.mark.slow
def test_who_signs_in_makes_a_machine_a_node_and_leaves_no_token_of_theirs(
    tmp_path: Path, own_home: Path, metier: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "is_at_terminal", lambda: True)
    with running() as provider, Store.open(f"sqlite:///{tmp_path}/company/metier.db") as store:
        provider.has("ada", groups=["reviewers"])
        monkeypatch.setattr(login, "_show_code", lambda code: provider.confirm_device(code.complete_url, "ada"))
        store.of().people.add(Person(name="root", roles=frozenset({"admin"})))
        roles = [{"value": "reviewers", "role": "reviewer"}]
        with listening(store, oidc={"issuer": provider.issuer, "client_id": "metier-cli", "roles": roles}) as url:
            code, out, err = metier("login", url, "--name", "laptop", "--json")
            assert code == 0, err
            assert json.loads(out)["name"] == "laptop"
        tokens = [one for one in store.of().people.tokens() if one.person == "ada@example.com"]
        assert [bool(one.revoked_at) for one in tokens] == [True]
