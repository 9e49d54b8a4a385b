"""The registry of a tenant in a store."""

from __future__ import annotations

import pytest

from metier._lazy import replace
from metier.errors import InvalidArgument
from metier.store import Deployment, RegistryNamespace, RegistryRelease, TenantScope

RELEASE = RegistryRelease(namespace="acme", name="pdf", version="1.0.0", digest="sha256:1", facts={"license": "MIT"})


def test_a_namespace_has_owners_and_criteria(scope: TenantScope) -> None:
    put = scope.namespaces.put(RegistryNamespace(name="acme", owners=("user:ada",), criteria=("It has tests.",)))
    assert scope.namespaces.get("acme") == put
    changed = scope.namespaces.put(replace(put, owners=("user:ada", "user:sam")))
    assert scope.namespaces.all() == [changed]
    assert scope.namespaces.get("other") is None


def test_a_release_comes_back_with_its_facts(scope: TenantScope) -> None:
    put = scope.releases.put(RELEASE)
    assert put.number == 1
    assert scope.releases.get("acme", "pdf", "1.0.0") == put
    assert scope.releases.get("acme", "pdf", "1.0") is None
    assert dict(put.facts) == {"license": "MIT"}


def test_every_change_has_the_next_number(scope: TenantScope) -> None:
    first = scope.releases.put(RELEASE)
    second = scope.releases.put(replace(RELEASE, version="1.1.0"))
    assert [one.version for one in scope.releases.changed_since(first.number)] == [second.version]
    yanked = scope.releases.put(replace(first, status="yanked", reason="It leaks."))
    assert scope.releases.last_change() == yanked.number == 3
    (changed,) = scope.releases.changed_since(second.number)
    assert (changed.version, changed.status, changed.reason) == ("1.0.0", "yanked", "It leaks.")
    assert scope.releases.all(status="yanked") == [yanked]
    assert scope.releases.all(name="pdf") == [second, yanked]


def test_an_empty_registry_has_no_change(scope: TenantScope) -> None:
    assert (scope.releases.last_change(), scope.releases.changed_since(0), scope.releases.all()) == (0, [], [])


def test_a_deployment_takes_the_place_of_the_one_before(scope: TenantScope) -> None:
    scope.deployments.put(Deployment(name="pdf", namespace="acme", version="1.0.0", digest="sha256:1"))
    second = scope.deployments.put(Deployment(name="pdf", namespace="acme", version="1.1.0", digest="sha256:2"))
    assert scope.deployments.get("pdf") == second
    assert scope.deployments.all() == [second]
    assert scope.deployments.remove("pdf")
    assert not scope.deployments.remove("pdf")


@pytest.mark.each(
    "release",
    [
        replace(RELEASE, name=""),
        replace(RELEASE, version="x" * 3_000),
        replace(RELEASE, status="gone"),  # type: ignore[arg-type]
    ],
)
def test_a_release_without_a_name_or_a_status_is_refused(scope: TenantScope, release: RegistryRelease) -> None:
    with pytest.raises(InvalidArgument):
        scope.releases.put(release)
