"""What policy grants, and how a skill can only narrow it."""

from __future__ import annotations

from typing import Any

import pytest

from metier import Policy
from metier.errors import InvalidArgument
from metier.run import Limits
from metier.session.resource_grants import limits_under, network_grant
from metier.skill import Execution

OPEN: dict[str, Any] = {"network": "host"}
LISTED: dict[str, Any] = {"network": "restricted", "hosts": ["*.example.com", "pypi.org"]}
BOTH: dict[str, Any] = {"network": "host", "hosts": ["*.example.com"]}


@pytest.mark.each(
    ("policy", "declared", "network", "hosts"),
    [
        ({}, {}, "none", ()),
        ({}, {"network": "host"}, "none", ()),
        ({}, {"network": "restricted", "hosts": ("pypi.org",)}, "none", ()),
        (OPEN, {}, "host", ()),
        (OPEN, {"network": "none"}, "none", ()),
        (OPEN, {"network": "host"}, "host", ()),
        (OPEN, {"network": "restricted"}, "none", ()),
        (OPEN, {"network": "restricted", "hosts": ("pypi.org",)}, "restricted", ("pypi.org",)),
        (OPEN, {"hosts": ("pypi.org",)}, "restricted", ("pypi.org",)),
        (OPEN, {"network": "host", "hosts": ("pypi.org",)}, "restricted", ("pypi.org",)),
        (OPEN, {"hosts": ()}, "none", ()),
        (LISTED, {}, "restricted", ("*.example.com", "pypi.org")),
        (LISTED, {"network": "host"}, "restricted", ("*.example.com", "pypi.org")),
        (LISTED, {"network": "restricted"}, "restricted", ("*.example.com", "pypi.org")),
        (LISTED, {"network": "none", "hosts": ("pypi.org",)}, "none", ()),
        (LISTED, {"hosts": ("api.example.com", "PyPI.org")}, "restricted", ("api.example.com", "pypi.org")),
        (LISTED, {"hosts": ("*.org",)}, "restricted", ("pypi.org",)),
        (LISTED, {"hosts": ("*.api.example.com",)}, "restricted", ("*.api.example.com",)),
        (LISTED, {"hosts": ("example.com",)}, "none", ()),
        (LISTED, {"hosts": ("notexample.com", "pypi.org.evil.test")}, "none", ()),
        (LISTED, {"hosts": ("pypi.org:443",)}, "restricted", ("pypi.org:443",)),
        (LISTED, {"hosts": ("pypi.org:22",)}, "none", ()),
        (LISTED, {"hosts": ("https://pypi.org", "*", "")}, "none", ()),
        ({"network": "restricted"}, {}, "none", ()),
        ({**LISTED, "hosts": ["pypi.org:443"]}, {"hosts": ("pypi.org",)}, "restricted", ("pypi.org:443",)),
        (BOTH, {}, "host", ()),
        (BOTH, {"network": "restricted"}, "restricted", ("*.example.com",)),
        (BOTH, {"hosts": ("a.example.com", "pypi.org")}, "restricted", ("a.example.com",)),
    ],
)  # fmt: skip
def test_the_smaller_of_both_counts(
    policy: dict[str, Any], declared: dict[str, Any], network: str, hosts: tuple[str, ...]
) -> None:
    reach = network_grant(Policy(**policy), [Execution(**declared) if declared else None])
    assert (reach.network, reach.hosts) == (network, hosts)


@pytest.mark.each(
    ("policy", "declared", "said"),
    [
        ({}, {"network": "host"}, "It asked for the network (host) and got none."),
        (LISTED, {"hosts": ("evil.test", "pypi.org")}, "It may not reach evil.test."),
        (LISTED, {"hosts": ("ht\x1btp://x", "pypi.org")}, "It may not reach ht\\x1btp://x."),
        (OPEN, {"network": "restricted"}, "It may reach no host, as none is on its list."),
    ],
)
def test_what_is_not_granted_is_said(policy: dict[str, Any], declared: dict[str, Any], said: str) -> None:
    assert said in network_grant(Policy(**policy), [Execution(**declared)]).notes


def test_nothing_is_said_where_all_is_granted() -> None:
    assert network_grant(Policy(**LISTED), [Execution(network="restricted", hosts=("pypi.org",))]).notes == ()


def test_several_skills_leave_what_each_of_them_leaves() -> None:
    policy = Policy(**LISTED)
    one, other = Execution(hosts=("api.example.com", "pypi.org")), Execution(hosts=("pypi.org",))
    assert network_grant(policy, [one, None, other]).hosts == ("pypi.org",)
    assert network_grant(policy, [one, Execution(network="none")]).network == "none"
    assert network_grant(Policy(network="host"), [one, other]).hosts == ("pypi.org",)


def test_a_host_in_a_policy_that_is_none_lets_nothing_run() -> None:
    with pytest.raises(InvalidArgument):
        network_grant(Policy(network="restricted", hosts=["exa_mple..com"]), [])


def test_policy_bounds_the_time_and_sets_the_rest() -> None:
    policy = Policy(limits={"seconds": 10, "memory_bytes": 2**30})
    assert limits_under(policy, Limits(seconds=30.0)) == Limits(seconds=10.0, memory_bytes=2**30)
    assert limits_under(policy, Limits(seconds=5.0)).seconds == 5.0
    assert limits_under(Policy(), Limits(seconds=5.0)) == Limits(seconds=5.0)
