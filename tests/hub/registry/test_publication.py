"""Releases in a store, by several who publish at once."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.serve.api.registry_client import skill_files
from tests.store.postgres import postgres_url, store_url

from metier.errors import MetierError
from metier.guard import Guard
from metier.hub.registry.deployment import deploy_release, undeploy
from metier.hub.registry.lists import RegistryLists
from metier.hub.registry.namespaces import put_namespace
from metier.hub.registry.publication import find_release, publish_release, submit_release, yank_release
from metier.store import Person, Store

__all__ = ["postgres_url", "store_url"]
ADA = Person(name="ada", roles=frozenset({"admin"}))
SAM = Person(name="sam", roles=frozenset({"author"}))


def at_once(*works: Callable[[], object]) -> list[str]:
    """Do all at the same time; how each came out, sorted."""
    start, found = threading.Barrier(len(works)), []

    def run(work: Callable[[], object]) -> None:
        start.wait()
        try:
            work()
            found.append("done")
        except MetierError as error:
            found.append(error.code)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(found)


@pytest.fixture
def stores(store_url: str) -> Iterator[list[Store]]:
    """The same store, as three processes have it."""
    with Store.open(store_url) as one, Store.open(store_url) as two, Store.open(store_url) as three:
        yield [one, two, three]


def test_of_those_who_publish_a_version_at_once_one_does(stores: list[Store]) -> None:
    found = at_once(
        *(
            lambda store=store, number=number: publish_release(
                store.of(), ADA, "default", skill_files(body=f"By {number}."), guard=Guard()
            )
            for number, store in enumerate(stores)
        )
    )
    assert found == ["done", "skill-exists", "skill-exists"]
    (release,) = stores[0].of().releases.all()
    assert stores[0].of().revisions.files(release.digest)


def test_of_namespaces_that_want_a_name_at_once_one_gets_it(stores: list[Store]) -> None:
    for name in ("one", "two", "three"):
        put_namespace(stores[0].of(), ADA, name, [])
    found = at_once(
        *(
            lambda store=store, name=name: publish_release(store.of(), ADA, name, skill_files(), guard=Guard())
            for name, store in zip(("one", "two", "three"), stores, strict=True)
        )
    )
    assert found == ["done", "skill-exists", "skill-exists"]


def test_what_another_process_published_is_in_the_next_list(stores: list[Store]) -> None:
    here, there = stores[0].of(), stores[1].of()
    lists = RegistryLists("", "http://localhost")
    empty = lists.document(here, "index")
    publish_release(there, ADA, "default", skill_files(), guard=Guard())
    one = lists.document(here, "index")
    assert empty.digest != one.digest
    assert lists.document(here, "index") is one
    yank_release(there, ADA, find_release(there, "default", "pdf-forms", "1.0.0"), reason="It leaks.")
    assert b'"skills":[]' in lists.document(here, "index").data
    assert b"It leaks." in lists.document(here, "index").data


def test_lists_start_anew_where_the_store_was_restored(tmp_path: Path) -> None:
    lists, found = RegistryLists("", "http://localhost"), []
    for versions in (["2.0.0", "2.1.0"], ["1.0.0"]):
        with Store.open(f"sqlite:///{tmp_path}/{len(versions)}/metier.db") as store:
            for version in versions:
                publish_release(store.of(), ADA, "default", skill_files(version=version), guard=Guard())
            found.append(json.loads(lists.document(store.of(), "index").data))
    own = [one["extensions"]["dev.metier"] for one in found]
    assert [list(one["releases"]) for one in own] == [["pdf-forms"], []]
    assert [one["skills"][0]["extensions"]["dev.metier"]["version"] for one in found] == ["2.1.0", "1.0.0"]


@pytest.mark.each("tried", ["publish", "submit", "deploy"])
def test_what_somebody_may_not_do_is_on_record(stores: list[Store], tried: str) -> None:
    scope = stores[0].of()
    viewer = Person(name="eve", roles=frozenset({"viewer"}))
    works: dict[str, Callable[[], object]] = {
        "publish": lambda: publish_release(scope, SAM, "default", skill_files(), guard=Guard()),
        "submit": lambda: submit_release(scope, viewer, "default", skill_files(), guard=Guard()),
        "deploy": lambda: deploy_release(scope, SAM, "default", "pdf-forms", "1.0.0", guard=Guard()),
    }
    with pytest.raises(MetierError):
        works[tried]()
    assert scope.audit.tail(1)[0]["type"] == "skill.refused"


def test_a_deployment_is_approved_and_has_a_history(stores: list[Store]) -> None:
    scope = stores[0].of()
    for version in ("1.0.0", "1.1.0"):
        publish_release(scope, ADA, "default", skill_files(version=version), guard=Guard())
        deploy_release(scope, ADA, "default", "pdf-forms", version, guard=Guard(), reason=f"To {version}.")
    history = scope.versions.of("registry:default/pdf-forms")
    assert [(one.number, one.reason) for one in history] == [(1, "To 1.0.0."), (2, "To 1.1.0.")]
    assert all(scope.approvals.of(one.digest) for one in history)
    undeploy(scope, ADA, "pdf-forms")
    assert scope.deployments.all() == []
    assert scope.audit.tail(1)[0]["type"] == "skill.undeployed"
