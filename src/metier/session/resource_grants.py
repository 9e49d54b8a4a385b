"""What something that runs gets: what policy grants, narrowed by what the skill says that it needs."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from metier.errors import InvalidArgument
from metier.run.job import Limits
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from metier.guard import Policy
    from metier.run.job import Network
    from metier.skill import Execution

_WIDTH: dict[Network, int] = {"none": 0, "restricted": 1, "host": 2}
_MOST_HOSTS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkGrant:
    """What can be reached over the network, and what was asked for in vain."""

    network: Network = "none"
    hosts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def network_grant(policy: Policy, executions: Iterable[Execution | None]) -> NetworkGrant:
    """What policy lets everything reach, narrowed by each skill that says something about it.

    >>> from metier.guard import Policy
    >>> from metier.skill import Execution
    >>> policy = Policy(network="host", hosts=["*.example.com"])
    >>> network_grant(policy, [Execution(network="restricted", hosts=("api.example.com", "evil.test"))])
    NetworkGrant(network='restricted', hosts=('api.example.com',), notes=('It may not reach evil.test.',))
    """
    # An empty list beside an open network restricts nothing: it is there for skills that want less.
    is_open = policy.network == "host" and not policy.hosts
    network = policy.network or "none"
    reach = NetworkGrant(network=network, hosts=() if network == "none" else _checked(policy.hosts))
    for execution in executions:
        if execution is not None:
            reach = _narrowed(reach, execution, is_open)
            is_open = is_open and execution.hosts is None
    if reach.network == "restricted" and not reach.hosts:
        return replace(reach, network="none", notes=(*reach.notes, "It may reach no host, as none is on its list."))
    return reach if reach.network == "restricted" else replace(reach, hosts=())


def _narrowed(reach: NetworkGrant, execution: Execution, is_open: bool) -> NetworkGrant:
    wanted = execution.network or reach.network
    if execution.hosts is not None and wanted == "host":
        wanted = "restricted"
    network: Network = min(reach.network, wanted, key=lambda one: _WIDTH[one])
    notes = reach.notes
    if execution.network is not None and _WIDTH[execution.network] > _WIDTH[reach.network]:
        notes = (*notes, f"It asked for the network ({execution.network}) and got {reach.network}.")
    hosts = reach.hosts
    if execution.hosts is not None and network != "none":
        from metier._hosts import common_hosts

        asked, wrong = _readable(execution.hosts[:_MOST_HOSTS])
        hosts = asked if is_open else common_hosts(reach.hosts, asked)
        refused = (*wrong, *(host for host in asked if not common_hosts(hosts, [host])))
        notes = (*notes, *(f"It may not reach {shown(host)}." for host in refused))
    return NetworkGrant(network=network, hosts=hosts, notes=notes)


def limits_under(policy: Policy, limits: Limits) -> Limits:
    """The limits of a job under a policy: its time is at most what policy says, and the rest is what policy says.

    >>> from metier.guard import Policy
    >>> limits_under(Policy(limits={"seconds": 60, "processes": 8}), Limits(seconds=30.0)).processes
    8
    """
    names = {field.name for field in fields(Limits)}
    given = {name: value for name, value in policy.limits.items() if name in names}
    seconds = min(limits.seconds, float(given.pop("seconds", limits.seconds)))
    return replace(limits, seconds=seconds, **{name: int(value) for name, value in given.items()})


def _checked(hosts: Sequence[str]) -> tuple[str, ...]:
    if not hosts:
        return ()
    from metier._hosts import checked_hosts

    return checked_hosts(tuple(hosts))


def _readable(hosts: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The hosts that a skill names, as they are compared, and what of it names none."""
    good: list[str] = []
    wrong: list[str] = []
    for host in hosts:
        try:
            good.extend(_checked([host]))
        except InvalidArgument:
            wrong.append(host)
    return tuple(good), tuple(wrong)
