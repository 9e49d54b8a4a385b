"""Shells by their ids."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from metier.errors import InvalidArgument, ShellRefused
from metier.run.virtual import ShellLimits, VirtualShells


@pytest.fixture
def shells() -> Iterator[VirtualShells]:
    with VirtualShells(limits=ShellLimits(file_bytes=1_000), folder="/workspace", most=3) as shells:
        yield shells


@pytest.mark.covers("S-15")
def test_a_shell_is_found_by_the_id_that_it_was_given(shells: VirtualShells) -> None:
    made = shells.create("notes")
    assert shells.get("notes") is made
    assert shells.get("other") is None
    assert shells.get_or_create("notes") is made
    assert shells.get_or_create("new") is not made
    assert shells.list() == ["new", "notes"]


@pytest.mark.covers("S-15")
def test_an_id_is_made_up_if_none_is_given(shells: VirtualShells) -> None:
    first, second = shells.create(), shells.create()
    assert len(set(shells.list())) == 2
    assert {shells.get(shell_id) for shell_id in shells.list()} == {first, second}


@pytest.mark.covers("S-15")
def test_two_shells_cannot_have_one_id(shells: VirtualShells) -> None:
    shells.create("a")
    with pytest.raises(ShellRefused) as caught:
        shells.create("a")
    assert caught.value.code == "shell-exists"


@pytest.mark.covers("S-15")
def test_a_shell_that_is_destroyed_is_gone(shells: VirtualShells) -> None:
    shell = shells.create("a")
    assert shells.destroy("a") is True
    assert shells.destroy("a") is False
    assert shells.list() == []
    with pytest.raises(ShellRefused) as caught:
        shell.execute("true")
    assert caught.value.code == "shell-closed"


@pytest.mark.covers("S-15")
def test_each_shell_has_files_of_its_own_and_the_limits_of_all(shells: VirtualShells) -> None:
    first, second = shells.create("a"), shells.create("b")
    first.execute("echo mine > f; v=1")
    assert second.execute("ls; echo [$v]").stdout == "[]\n"
    assert "exceeds" in first.execute("seq 1000 > f").stderr
    assert first.execute("cat f").stdout == "mine\n"
    kept = first.snapshot()
    second.restore(kept)
    assert second.execute("cat f; echo $v").stdout == "mine\n1\n"


def test_there_are_no_more_shells_than_may_be(shells: VirtualShells) -> None:
    for _ in range(3):
        shells.create()
    with pytest.raises(ShellRefused) as caught:
        shells.create()
    assert caught.value.code == "shell-limit"
    assert "exceeds" in caught.value.message
    with pytest.raises(InvalidArgument):
        VirtualShells(most=0)


@pytest.mark.parametrize("shell_id", ["", "../x", "a b", "a\0", "x" * 200, 1])
def test_an_id_is_a_name(shells: VirtualShells, shell_id: str) -> None:
    with pytest.raises(InvalidArgument):
        shells.create(shell_id)
