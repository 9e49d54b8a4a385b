"""Policy files that nobody would write: never a traceback, and never looser than what can be read of them."""

from __future__ import annotations

import random
import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.guard.policy_probes import CALLS, RANK, SOURCES, SUBJECTS, answers, looser
from tests.tables import in_part

from metier.guard import Action, Guard, MemoryLog
from metier.guard.governance import Governance
from metier.guard.policy.file import PolicyFile
from metier.guard.policy.files import Policies
from metier.guard.policy.merge import merge
from metier.guard.policy.reader import MAX_BYTES, parse_policy
from metier.guard.policy.schema import KEYS

PARTS = (
    "version: 1\n",
    "mode: enforce\n",
    """\
skill-policy:
  require-approval-for: [scripts, hooks]
  approval:
    approvers: ["role:skill-admin"]
    self-approval: deny
    quorum: 2
    expires: 180d
    auto-approve-when:
      scan-max: low
      no-new-capabilities: true
""",
    """\
sources:
  allow: ["dir:*", "git+https://github.com/acme/*"]
  deny:  ["*:*.vercel.app"]
  require: {digest: true, pinned: true, signature: [oms]}
""",
    f"""\
skills:
  deny:  ["crypto-*@*"]
  allow: [pdf, "data-*"]
  listing: {{deploy: manual, old-skill: off}}
  pins:
    pdf@acme: "sha256:{"a" * 64}"
  reserved: [data-handling]
""",
    """\
tools:
  network: [WebFetch, "Bash(curl *)"]
  deny:    ["Bash(* | bash)", "Bash(* | sh)"]
  ask: [WebFetch]
  allow: [Bash, WebFetch, Read]
""",
    """\
rules:
  - {id: R1, point: script-run, layer: plugin, effect: ask}
  - id: R2
    point: activate
    when: {scan: ">=high", engines: ">=2"}
    effect: deny
  - {id: R4, point: install, when: {name-collides-with: enterprise}, effect: deny}
""",
    "scan:\n  engines: [core]\n  rescan-after: 7d\n",
    "audit: {redact: true, checkpoint-every: 10}\n",
    """\
run:
  untrusted: deny
  scripts: ask
  hooks: ask
  network: restricted
  hosts: [api.acme.com]
  paths: ["/data"]
  secrets: {pdf: [TOKEN]}
  require: [files]
  limits: {seconds: 60, memory-bytes: 1000000}
""",
)
NOISE = "[]{}:,\"'#&*!|>-?% \n\tabR10\\\x00\x07é\u2028=@`"


def read(text: str | bytes, layer: str = "enterprise") -> PolicyFile:
    return parse_policy(text, "policy.yaml", layer)  # type: ignore[arg-type]


def spoiled(text: str, chance: random.Random) -> str:
    """A text with a few characters lost, put in, or replaced."""
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        at = chance.randrange(len(text) + 1)
        end = min(len(text), at + chance.choice((0, 0, 1, 1, 3, 20)))
        text = text[:at] + "".join(chance.choices(NOISE, k=chance.choice((0, 1, 1, 2)))) + text[end:]
    return text


@pytest.mark.parametrize("on_error", ["deny", "allow"])
@given(chance=st.randoms(use_true_random=False))
def test_a_spoiled_file_is_never_looser_than_its_valid_part(on_error: str, chance: random.Random) -> None:
    # Where `on-error` allows, nothing but what can still be read of the file is in the way of anything.
    parts = [*PARTS, f"on-error: {on_error}\n"]
    which = chance.randrange(len(PARTS))
    part = spoiled(parts[which][:-1], chance) + "\n"
    file = read("".join(part if number == which else one for number, one in enumerate(parts)))
    rest = read("".join(one for number, one in enumerate(parts) if number != which))
    assert not rest.is_broken
    if file.is_broken:
        assert looser(merge([file]), merge([rest])) == {}, part


ACTIONS = [
    *(Action(point="discover", skill=subject) for subject in SUBJECTS),
    *(Action(point="load", skill=subject) for subject in SUBJECTS),
    *(Action(point="install", skill=SUBJECTS[0], source=source) for source in SOURCES),
    *(Action(point="call", tool=tool, arguments=arguments) for tool, arguments in CALLS),
]


def decided(text: str) -> list[int]:
    """How strict a guard is with each of some actions, under one policy file of administrators."""
    guard = Guard(governance=Governance(Policies(texts=[("enterprise", text)]), store=None), audit=MemoryLog())
    return [RANK[guard.decide(action).outcome] for action in ACTIONS]


@given(chance=st.randoms(use_true_random=False))
def test_a_guard_under_a_spoiled_file_is_never_looser_than_under_its_valid_part(chance: random.Random) -> None:
    parts = [*PARTS, "on-error: allow\n"]
    which = chance.randrange(len(PARTS))
    part = spoiled(parts[which][:-1], chance) + "\n"
    text = "".join(part if number == which else one for number, one in enumerate(parts))
    if read(text).is_broken:
        rest = decided("".join(one for number, one in enumerate(parts) if number != which))
        assert all(mine >= theirs for mine, theirs in zip(decided(text), rest, strict=True)), part


@given(chance=st.randoms(use_true_random=False))
def test_a_file_that_ends_too_early_is_never_looser_than_what_is_there(chance: random.Random) -> None:
    whole = "".join(PARTS)
    at = chance.randrange(len(whole))
    there = ""
    for part in PARTS:
        if len(there) + len(part) > at:
            break
        there += part
    file = read(whole[:at])
    if file.is_broken:
        assert looser(merge([file]), merge([read(there)] if there else [])) == {}


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-5, 2**40),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from(
            ["allow", "ask", "deny", "off", "enforce", "none", "host", "*", "dir:*", "scripts", "7d", "Read"]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["effect", "when", "id", "pdf", "é"]), inner, max_size=3),
    ),
    max_leaves=6,
)


@given(values=st.dictionaries(st.sampled_from(sorted(KEYS)), VALUES, max_size=6), unknown=VALUES)
def test_whatever_a_project_says_it_never_loosens(values: dict[str, object], unknown: object) -> None:
    document: dict[str, object] = {"x-unknown": unknown}
    for key, value in values.items():
        *above, name = key.split(".")
        section = document
        for one in above:
            section = section.setdefault(one, {})  # type: ignore[assignment]
        section[name] = value
    file = read(yaml.safe_dump(document), "project")
    ours = read("".join(PARTS))
    assert looser(merge([file]), merge([])) == {}
    assert looser(merge([ours, file]), merge([ours])) == {}


@given(data=st.one_of(st.binary(max_size=200), st.text(max_size=200), st.text(alphabet=NOISE, max_size=80)))
def test_no_bytes_at_all_make_an_exception_or_loosen_the_defaults(data: str | bytes) -> None:
    project, ours = read(data, "project"), read(data)
    assert looser(merge([project]), merge([])) == {}
    if ours.is_broken:
        found = looser(merge([ours]), merge([]))
        assert found.keys() <= {"mode"}, found
    for problem in ours.problems:
        assert problem.hint and problem.message.isprintable() and problem.line >= 1


@in_part
@pytest.mark.each(
    ("before", "unit", "count", "after"),
    [
        ("", "a: [\n", 100_000, ""),
        ("", "- ", 300_000, ""),
        ("", "[", 500_000, ""),
        ("", "{a: ", 200_000, ""),
        ("", "\n".join(" " * (depth % 200) + "a: [b" for depth in range(9_000)), 1, ""),
        ("", "\n".join(" " * depth + "a:" for depth in range(1_300)) + "[", 1, ""),
        ("", "\x01a: b\n", 100_000, ""),
        ("tools: {deny: [", "Bash, ", 20_000, ""),
        ("tools:\n  deny:\n", "    - Bash(curl *)\n", 10_000, ""),
        ("skills:\n  deny: [", "*" * 1_000_000, 1, "]"),
        ("rules:\n", "- {id: R, effect: deny}\n", 10_000, ""),
        ("", "? ", 200_000, ""),
        ("", "&a ", 200_000, ""),
        ("", '"', 500_000, ""),
    ],
    every=3,
)
def test_a_large_and_hostile_file_takes_little_time(
    before: str, unit: str, count: int, after: str, part: float
) -> None:
    text = before + unit * max(1, int(count * part)) + after
    assert len(text) <= MAX_BYTES
    began = time.process_time()
    answers(merge([read(text)]))
    assert time.process_time() - began < 10 * part
