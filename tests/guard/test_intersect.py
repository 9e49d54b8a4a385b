"""A program's policy, narrowed by what policy files say to what runs."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from metier.guard.policy import intersect
from metier.guard.policy.merge import merge
from metier.guard.policy.program import ClosedPolicy, Policy
from metier.guard.policy.reader import parse_policy
from metier.run.job import Limits


def narrow(policy: Policy | None, *texts: tuple[str, str]) -> Policy:
    files = [parse_policy(f"run: {{{text}}}", f"{layer}.yaml", layer) for layer, text in texts]  # type: ignore[arg-type]
    assert not any(file.is_broken for file in files), [str(one) for file in files for one in file.problems]
    return merge(files).narrow(policy)


def test_without_files_a_policy_stays_as_it_is() -> None:
    policy = Policy(hooks="allow", network="host", paths=["/data"], secrets={}, limits={"seconds": 5})
    assert narrow(policy) == ClosedPolicy.of(replace(policy, hosts=(), unchecked="deny", injection="deny"))


@pytest.mark.each(
    ("own", "file", "expected"),
    [
        ({"hooks": "allow"}, "hooks: ask", {"hooks": "ask"}),
        ({"hooks": "deny"}, "hooks: allow", {"hooks": "deny"}),
        ({"script_reads": "allow"}, "script-reads: deny", {"script_reads": "deny"}),
        ({"network": "host"}, "network: restricted, hosts: [a.test]", {"network": "restricted", "hosts": ("a.test",)}),
        ({"network": "host"}, "hosts: [a.test]", {"network": "restricted", "hosts": ("a.test",)}),
        ({"network": "none"}, "network: host", {"network": "none"}),
        (
            {"network": "restricted", "hosts": ["x.a.test", "b.test"]},
            'hosts: ["*.a.test"]',
            {"network": "restricted", "hosts": ("x.a.test",)},
        ),
        (
            {"network": "restricted", "hosts": ["*.a.test"]},
            "hosts: [x.a.test, b.test]",
            {"hosts": ("x.a.test",)},
        ),
        ({"network": "restricted", "hosts": ["a.test:8443"]}, "hosts: [a.test]", {"hosts": ()}),
        ({"paths": ["/data/in:rw", "/other"]}, 'paths: ["/data"]', {"paths": ()}),
        ({"paths": ["/data/in", "/other"]}, 'paths: ["/data"]', {"paths": ("/data/in",)}),
        ({"paths": ["/data"]}, 'paths: ["/data/in:rw"]', {"paths": ()}),
        ({"paths": ["/data:rw"]}, 'paths: ["/data/in:rw", "/database"]', {"paths": ("/data/in:rw",)}),
        ({"paths": []}, 'paths: ["/data"]', {"paths": ()}),
        ({"secrets": {"a": ["X", "Y"], "b": ["X"]}}, "secrets: {a: [Y, Z]}", {"secrets": {"a": ("Y",)}}),
        ({"require": ["files"]}, "require: [network]", {"require": ("files", "network")}),
        ({"limits": {"seconds": 5}}, "limits: {seconds: 60, processes: 8}", {"limits": {"seconds": 5, "processes": 8}}),
        ({"limits": {"processes": 50}}, "limits: {processes: 8}", {"limits": {"processes": 8}}),
    ],
)
def test_a_file_narrows_what_a_program_allows(own: dict[str, Any], file: str, expected: dict[str, Any]) -> None:
    for layer in ("enterprise", "project"):
        policy = narrow(Policy(**own), (layer, file))
        assert {name: getattr(policy, name) for name in expected} == expected, layer


def test_a_program_without_a_policy_gets_what_the_strongest_file_grants() -> None:
    granted = "paths: ['/data'], secrets: {a: [X]}, limits: {processes: 500}"
    policy = narrow(None, ("personal", f"hooks: allow, network: restricted, hosts: [a.test], {granted}"))
    assert (policy.hooks, policy.network, tuple(policy.hosts)) == ("allow", "restricted", ("a.test",))
    assert (policy.paths, policy.secrets, policy.limits) == (("/data",), {"a": ("X",)}, {"processes": 500})


def test_what_is_granted_is_narrowed_by_weaker_files() -> None:
    policy = narrow(None, ("enterprise", "hooks: allow, network: host"), ("project", "hooks: ask, hosts: [a.test]"))
    assert (policy.hooks, policy.network, tuple(policy.hosts)) == ("ask", "restricted", ("a.test",))


def test_a_project_grants_nothing() -> None:
    text = "hooks: allow, network: host, paths: ['/data'], secrets: {a: [X]}"
    policy = narrow(None, ("project", text))
    assert policy == narrow(None)


def test_a_program_that_leaves_the_network_open_gets_what_files_grant() -> None:
    own = Policy(deny="WebFetch")
    assert narrow(own, ("enterprise", "network: host")).network == "host"
    assert narrow(own, ("enterprise", "hosts: [a.test]")).network == "restricted"
    assert narrow(own, ("project", "network: host")).network == "none"
    assert narrow(own).network == "none"


def test_a_program_that_names_no_paths_and_secrets_gets_those_that_files_grant() -> None:
    granted = "paths: ['/data', '.git:rw'], secrets: {a: [X]}"
    policy = narrow(Policy(deny="WebFetch"), ("personal", granted))
    assert (policy.paths, policy.secrets) == (("/data", ".git:rw"), {"a": ("X",)})
    policy = narrow(Policy(deny="WebFetch"), ("enterprise", granted), ("project", "paths: ['/data'], secrets: {}"))
    assert (policy.paths, policy.secrets) == (("/data",), {})
    policy = narrow(Policy(paths=(), secrets={}), ("personal", granted))
    assert (policy.paths, policy.secrets) == ((), {}), "none is none"
    assert narrow(Policy(deny="WebFetch"), ("project", granted)).paths == (), "a project grants nothing"


@pytest.mark.covers("SEC-11")
@pytest.mark.each("name", ["hooks", "unchecked", "injection"])
def test_a_program_that_leaves_something_open_gets_what_files_grant(name: str) -> None:
    own = Policy(deny="WebFetch")
    for policy in (None, own):
        assert getattr(narrow(policy, ("personal", f"{name}: allow")), name) == "allow", "the same for both"
        assert getattr(narrow(policy, ("enterprise", f"{name}: allow"), ("project", f"{name}: deny")), name) == "deny"
        assert getattr(narrow(policy, ("enterprise", f"{name}: deny"), ("personal", f"{name}: allow")), name) == "deny"
        assert getattr(narrow(policy, ("project", f"{name}: allow")), name) == "deny", "a project grants nothing"
        assert getattr(narrow(policy), name) == "deny"
    closed: dict[str, Any] = {name: "deny"}
    assert getattr(narrow(replace(own, **closed), ("personal", f"{name}: allow")), name) == "deny"


def test_a_project_cannot_raise_a_limit_above_what_holds_without_it() -> None:
    policy = narrow(Policy(), ("project", "limits: {memory-bytes: 99999999999, processes: 5}"))
    assert policy.limits == {"memory_bytes": Limits().memory_bytes, "processes": 5}
    assert narrow(Policy(), ("enterprise", "limits: {memory-bytes: 99999999999}")).limits == {
        "memory_bytes": 99999999999
    }


def test_what_holds_without_a_limit_is_what_jobs_have() -> None:
    usual = {field.name: getattr(Limits(), field.name) for field in fields(Limits) if field.name != "seconds"}
    assert dict(intersect._DEFAULT_LIMITS) == usual
