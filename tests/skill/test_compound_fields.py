"""A field that restricts and is given more than once: nothing that stands later takes back what stood first."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.skill import Skill, read_frontmatter
from metier.skill.document import parse
from metier.skill.fields import interpret

pytestmark = pytest.mark.covers("SEC-22")


def read(frontmatter: str) -> Skill:
    data = f"---\nname: a\ndescription: Does it.\n{frontmatter}\n---\nDo it.\n".encode()
    skill = parse(data, folder="a").skill
    assert interpret(read_frontmatter(data), "a") == skill
    return skill


def codes(skill: Skill) -> list[str]:
    return [note.code for note in skill.diagnostics]


KEYS = [
    "allowed-tools", '"allowed-tools"', "'allowed-tools'", "!!str allowed-tools", "? allowed-tools\n", "allowed_tools",
    "allowedTools", "Allowed-Tools", "ALLOWED_TOOLS", '"allowed\\x2dtools"', "!mine allowed-tools",
]  # fmt: skip


@pytest.mark.each(("one", "other"), list(itertools.product(KEYS, KEYS)))
def test_of_two_lists_of_tools_only_what_both_allow_counts(one: str, other: str) -> None:
    for first, second in (("Read, Bash", "Bash, Write"), ("[Read, Bash]", "\n  - Bash\n  - Write")):
        skill = read(f"{one}: {first}\n{other}: {second}")
        assert skill.allowed_tools == ("Bash",), (one, other)
        assert "field-restricts-twice" in codes(skill)


@pytest.mark.each(
    ("first", "second", "both"),
    [
        ("Read", "Bash", ()),
        ("Read", "''", ()),
        ("Read", "[]", ()),
        ("Read", "Read", ("Read",)),
        ("Bash", "Bash(git:*)", ("Bash(git:*)",)),
        ("Bash(git:*), Read", "Bash, Write", ("Bash(git:*)",)),
        ("Bash(git:*)", "Bash(git status)", ()),
        ("'*'", "Read Write", ("Read", "Write")),
    ],
)
def test_what_both_allow_is_never_more_than_either(first: str, second: str, both: tuple[str, ...]) -> None:
    for one, other in ((first, second), (second, first)):
        assert read(f"allowed-tools: {one}\nallowed-tools: {other}").allowed_tools == both


@pytest.mark.each(
    "frontmatter",
    [
        "<<: {allowed-tools: Read}\nallowed-tools: Read, Bash",
        "base: &base {allowed-tools: Read}\nallowed-tools: Read, Bash\n<<: *base",
        "<<: [{allowed-tools: Read}, {allowedTools: 'Read, Write'}]",
        "allowed-tools: &tools Read, Bash\nallowed_tools: Read\nallowedTools: *tools",
        "allowed-tools: Read\nallowed-tools: Bash, Read\nbroken: [a\n  b: 'c",
        "allowed-tools: Read\nallowed-tools: Bash, Read\nother: this: breaks",
        "tools: Read\ntools: Bash, Read",
    ],
)
def test_no_way_to_give_them_again_takes_back_what_stood_first(frontmatter: str) -> None:
    assert read(frontmatter).allowed_tools == ("Read",)


def test_tools_that_are_not_allowed_add_up() -> None:
    for other in ("disallowed-tools", "disallowedTools"):
        skill = read(f"disallowed-tools: Bash\n{other}: Write\nmetadata: {{metier: {{disallowed-tools: Edit}}}}")
        assert skill.disallowed_tools == ("Bash", "Write", "Edit")


@pytest.mark.each(
    "frontmatter",
    [
        "scope: {agents: [a, b], tenants: [t]}\nscope: {agents: [b, c], environments: [e]}",
        "scope: {agents: [a, b], agents: [b, c], tenants: t, environments: e}",
        "scope: {agents: [a, b], agent: b, tenants: t, env: e}",
        "scope: {agents: [b], tenants: [t], environments: [e]}\nscope: everybody",
        "scope:\n  agents: [b]\n  tenants: t\nmetadata: {metier: {scope: {environments: e}}}",
        "metadata: {metier: {scope: {agents: b, tenants: t}, scope: {environments: e}}}",
    ],
)
def test_of_two_scopes_who_is_in_both_counts(frontmatter: str) -> None:
    scope = read(frontmatter).scope
    assert scope is not None
    assert (scope.agents, scope.tenants, scope.environments) == (("b",), ("t",), ("e",))


@pytest.mark.each(
    "frontmatter",
    [
        "execution: {network: restricted, allow-hosts: [a, b]}\n"
        "execution: {network: host, allow-hosts: [b], sandbox: false}",
        "execution: {network: host, network: restricted, allowed-hosts: 'b', allow-hosts: 'a, b', sandbox: false}",
        'execution: {"network": "host", "network": "restricted", "allow-hosts": ["b"], "sandbox": false}',
    ],
)
def test_of_two_ways_to_run_the_stricter_counts(frontmatter: str) -> None:
    execution = read(frontmatter).execution
    assert execution is not None
    assert (execution.network, execution.hosts, execution.sandbox) == ("restricted", ("b",), False)
    assert read("execution: {sandbox: false}\nexecution: {sandbox: true}").execution.sandbox is True  # type: ignore[union-attr]
    assert read("execution: {network: none}\nexecution: {network: host}").execution.network == "none"  # type: ignore[union-attr]


def test_who_may_use_it_is_not_widened_by_a_second_word() -> None:
    assert read("disable-model-invocation: true\ndisable-model-invocation: false").disable_model_invocation
    assert read("disable-model-invocation: true\ndisableModelInvocation: false").disable_model_invocation
    assert not read("user-invocable: false\nuser-invocable: true").user_invocable


def test_a_check_is_not_taken_back_by_other_hooks() -> None:
    hooks = read("hooks: {pre: scripts/check.sh}\nhooks: {post: scripts/tidy.sh}").hooks
    assert hooks is not None
    assert (hooks.pre, hooks.post) == ("scripts/check.sh", "scripts/tidy.sh")


def test_of_every_other_field_the_last_counts() -> None:
    skill = read("version: 1\nversion: 2\nrequires: [x]\nrequires: [y]")
    assert (skill.version, skill.requires) == ("2", ("y",))
    assert codes(skill).count("yaml-duplicate-key") == 2
    assert "field-restricts-twice" not in codes(skill)


tools = st.lists(st.sampled_from(["Read", "Write", "Bash", "Bash(git:*)", "mcp__a__b"]), max_size=4, unique=True)


@given(st.lists(st.tuples(st.sampled_from(KEYS), tools), min_size=1, max_size=4), st.booleans())
def test_however_often_and_in_whatever_order_no_list_is_widened(given: list[tuple[str, list[str]]], torn: bool) -> None:
    """By the fast path, by YAML, and entry by entry where the block cannot be read as a whole."""
    lines = [f"{key}: {json.dumps(names)}" for key, names in given]
    skill = read("\n".join([*lines, *(["other: [", "  x: 'y"] if torn else [])]))
    for order in (lines, lines[::-1]):
        assert set(read("\n".join(order)).allowed_tools or ()) == set(read("\n".join(lines)).allowed_tools or ())
    if torn and any(key[0] in "!?&" for key, _ in given):
        return  # such a key is none to whoever reads line by line
    assert skill.allowed_tools is not None
    for rule in skill.allowed_tools:
        for _, names in given:
            assert rule in names or rule.partition("(")[0] in names
