"""Roles, and whom a policy means."""

from __future__ import annotations

import pytest

from metier.errors import InvalidArgument, NotPermitted
from metier.guard.approvals.roles import has_role, is_approver, parse_role, require_role
from metier.store import Person
from metier.store.people import ROLES


def person(role: str = "", *, name: str = "ada", kind: str = "user") -> Person:
    return Person(name=name, kind=kind, roles=frozenset({role} if role else ()))  # type: ignore[arg-type]


def test_each_role_includes_the_ones_before_it() -> None:
    for own in range(len(ROLES)):
        for asked in range(len(ROLES)):
            assert has_role(person(ROLES[own]), ROLES[asked]) is (own >= asked)


def test_a_role_that_nobody_knows_is_held_by_nobody() -> None:
    assert not has_role(person("admin"), "emperor")
    assert not has_role(Person(name="ada", roles=frozenset({"emperor"})), "viewer")
    assert not has_role(person(), "viewer")


def test_a_skill_admin_is_an_admin() -> None:
    assert parse_role("skill-admin") == "admin"
    assert has_role(person("admin"), "skill-admin")
    assert not has_role(person("reviewer"), "skill-admin")


def test_an_unknown_role_is_said_with_those_there_are() -> None:
    with pytest.raises(InvalidArgument, match="is no role") as caught:
        parse_role("evil\x1b")
    assert "\x1b" not in caught.value.message
    assert "viewer, author, reviewer, admin" in caught.value.hint


def test_who_has_not_the_role_is_told_which_one_it_takes() -> None:
    require_role(person("admin"), "reviewer", "quarantine a skill")
    with pytest.raises(NotPermitted, match="'ada' may not quarantine a skill: that takes the role reviewer"):
        require_role(person("author"), "reviewer", "quarantine a skill")


@pytest.mark.each(
    ("names", "who", "is_meant"),
    [
        (["role:reviewer"], person("reviewer"), True),
        (["role:reviewer"], person("admin"), True),
        (["role:skill-admin"], person("reviewer"), False),
        (["role:skill-admin"], person("admin"), True),
        (["role:reviewer"], person("admin", kind="service"), True),
        (["user:ada"], person(), True),
        (["user:ada"], person(name="Ada"), False),
        (["user:ada"], person("admin", name="bob"), False),
        (["user:ci"], person(name="ci", kind="service"), True),
        (["role:viewer", "user:robot"], person("admin", name="robot", kind="agent"), False),
        (["agent:robot"], person(name="robot", kind="agent"), True),
        (["agent:robot"], person("admin", name="robot"), False),
        (["admin", "role:", "", ":", "role"], person("admin"), False),
        ([], person("admin"), False),
    ],
)
def test_a_policy_means_people_by_role_or_name_and_agents_by_name_alone(
    names: list[str], who: Person, is_meant: bool
) -> None:
    assert is_approver(who, names) is is_meant
