"""The history of skills, and what belongs in which folder."""

from __future__ import annotations

import pytest

from metier.errors import InvalidArgument
from metier.store import Install, TenantScope


def test_versions_are_numbered_in_each_place_by_itself(scope: TenantScope) -> None:
    first = scope.versions.add("x@a", "/one", "d1", by="ada", reason="first")
    second = scope.versions.add("x@a", "/one", "d2", by="bob", reason="better", proposal="p-1")
    elsewhere = scope.versions.add("x@a", "/two", "d1", by="ada", reason="too")
    assert [first.number, second.number, elsewhere.number] == [1, 2, 1]
    assert scope.versions.of("/one") == [first, second]
    assert set(map(str, scope.versions.of("x@a"))) == set(map(str, [first, second, elsewhere]))
    assert scope.versions.of("/three") == []


def test_a_folder_has_one_install(scope: TenantScope) -> None:
    scope.installs.put(Install(location="/x", skill="x", digest="d1", by="ada"))
    second = scope.installs.put(Install(location="/x", skill="x", digest="d2", state="quarantined", by="bob"))
    assert scope.installs.get("/x") == second
    assert scope.installs.all() == [second]
    assert scope.installs.remove("/x")
    assert not scope.installs.remove("/x")
    assert scope.installs.get("/x") is None


@pytest.mark.each(
    "install",
    [
        Install(location="", skill="x", digest="d"),
        Install(location="/" + "x" * 4_000, skill="x", digest="d"),
        Install(location="/x", skill="x", digest="d", state="lost"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_installed_is_refused(scope: TenantScope, install: Install) -> None:
    with pytest.raises(InvalidArgument):
        scope.installs.put(install)
