"""Putting policy files together: a weaker one only tightens, for every key there is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.guard.policy_probes import SUBJECTS, answers, looser

from metier.guard.policy.effective import DEFAULT, EffectivePolicy
from metier.guard.policy.file import PolicyFile
from metier.guard.policy.merge import merge
from metier.guard.policy.program import enforcement_of
from metier.guard.policy.reader import parse_policy
from metier.guard.policy.rules import CAPABILITY_NAMES
from metier.guard.policy.schema import KEYS
from metier.library.places import Place
from metier.source import MemorySource

ENTERPRISE, PERSONAL, PROJECT = "/etc/metier/policy.yaml", "/home/ada/.metier/policy.yaml", "/repo/.metier/policy.yaml"
A, B = "sha256:" + "0" * 64, "sha256:" + "b" * 64


def file(text: str, path: str = ENTERPRISE) -> PolicyFile:
    layer = {ENTERPRISE: "enterprise", PERSONAL: "personal"}.get(path, "project")
    return parse_policy(text, path, layer)  # type: ignore[arg-type]


def written(key: str, value: str, path: str = ENTERPRISE) -> PolicyFile:
    names = key.split(".")
    return file("".join(f"{'  ' * depth}{name}:\n" for depth, name in enumerate(names))[:-1] + f" {value}\n", path)


def outcome(effective: EffectivePolicy, question: str) -> int:
    return answers(effective)[question]


# Key -> what an administrator writes, what would loosen that, what tightens it.
CASES = {
    "mode": ("audit", "off", "enforce"),
    "on-error": ("ask", "allow", "deny"),
    "skill-policy.require-approval-for": ("[hooks]", "[]", "[scripts]"),
    "skill-policy.approval.approvers": ('["role:reviewer"]', '["role:viewer", "user:eve"]', '["role:admin"]'),
    "skill-policy.approval.self-approval": ("deny", "allow", "deny"),
    "skill-policy.approval.quorum": ("2", "1", "3"),
    "skill-policy.approval.expires": ("30d", "60d", "7d"),
    "skill-policy.approval.auto-approve-when": ("{scan-max: low}", "{scan-max: critical}", "{scan-max: none}"),
    "sources.allow": ('["dir:*"]', '["git+https://github.com/acme/*"]', "[]"),
    "sources.deny": ('["*:*.vercel.app"]', "[]", '["git+https://github.com/*"]'),
    "sources.require.digest": ("true", "false", "true"),
    "sources.require.pinned": ("true", "false", "true"),
    "sources.require.signature": ("[oms, sigstore]", "[none]", "[oms]"),
    "sources.signers": (
        "{'dir:*': ['oms:/a.pub', 'sigstore:a@b@https://c']}",
        "{'dir:*': ['oms:/a.pub', 'oms:/other.pub']}",
        "{'dir:*': ['oms:/a.pub'], 'git+*': ['oms:/a.pub']}",
    ),
    "skills.allow": ("[pdf, deploy]", '["*"]', "[pdf]"),
    "skills.deny": ('["crypto-*"]', "[]", "[pdf]"),
    "skills.listing": ("{pdf: manual}", "{pdf: name-only}", "{deploy: off}"),
    "skills.pins": (f'{{pdf: "{A}"}}', f'{{pdf: "{A}"}}', f'{{pdf: "{B}"}}'),
    "skills.reserved": ("[pdf]", "[]", "[data-handling]"),
    "skills.enterprise-names": ("reserve", "allow", "reserve"),
    "skills.require-score": ("60", "40", "80"),
    "skills.require-tests": ("[form]", "[]", "[rules]"),
    "proposals.no-test-worse": ("true", "false", "true"),
    "tools.network": ("[WebFetch]", "[]", "[WebSearch]"),
    "tools.write": ("[Write]", "[]", "[Edit]"),
    "tools.allow": ("[Bash, Write]", '["*"]', "[Bash]"),
    "tools.ask": ("[Bash]", "[]", "[Write]"),
    "tools.deny": ("[WebFetch]", "[]", "[Write]"),
    "rules": (
        '[{id: R1, point: activate, when: {scan: ">=high"}, effect: ask}]',
        "[{id: R2, effect: allow}]",
        "[{id: R3, skill: pdf, effect: deny}]",
    ),
    "scan.engines": ('[core, {sarif: "cmd: a {dir}"}]', "[]", "[core]"),
    "scan.packs": (f'[{{folder: ours, digest: "{A}"}}]', "[]", f'[{{folder: theirs, digest: "{B}"}}]'),
    "scan.rescan-after": ("7d", "30d", "1d"),
    "scan.together": ("medium", "off", "medium"),
    "scan.suppressions": ("ours.yaml", "theirs.yaml", "ours.yaml"),
    "audit.max-output": ("100", "1000", "10"),
    "audit.max-arguments": ("100", "1000", "10"),
    "audit.checkpoint-every": ("100", "1000", "10"),
    "audit.key": ("ours", "theirs", "ours"),
    "notify": ("{run: [ours]}", "{run: [theirs]}", "{run: [ours]}"),
    "usage.queries": ("text", "text", "none"),
    "usage.keep-days": ("100", "1000", "10"),
    "nodes.lease": ("12h", "7d", "1h"),
    "nodes.offline": ("read-only", "read-only", "deny"),
    "nodes.online": ("optional", "optional", "required"),
    "protect.fail": ("open", "open", "closed"),
    "protect.scripts": ("sandbox", "allow", "refuse"),
    "protect.skills": ("conversation", "prompt", "conversation"),
    **{
        f"run.{name}": ("ask", "allow", "deny")
        for name in ("untrusted", "scripts", "unsandboxed", "hooks", "injection", "script-reads")
    },
    "run.unchecked": ("deny", "allow", "deny"),
    "run.network": ("restricted", "host", "none"),
    "run.hosts": ('["*.acme.com"]', '["evil.test"]', '["api.acme.com"]'),
    "run.paths": ('["/data"]', '["/data:rw", "/other"]', "[]"),
    "run.secrets": ("{pdf: [TOKEN]}", "{pdf: [TOKEN, ROOT], deploy: [ROOT]}", "{pdf: []}"),
    "run.require": ("[files]", "[]", "[network]"),
    "run.limits": ("{seconds: 60}", "{seconds: 600, memory-bytes: 99999999999999}", "{seconds: 10}"),
    "tools.allowed-tools": (
        "{plugin: advisory, project: advisory, x: enforced}",
        "{personal: advisory, x: advisory}",
        "{project: enforced}",
    ),
}


WEAKER = [
    (key, path)
    for number, key in enumerate(CASES)
    for path in ((PERSONAL, PROJECT) if number % 2 else (PROJECT, PERSONAL))
]
"""Each key in both weaker layers; the quick tests have it in one of them."""


def test_every_key_that_can_be_loosened_is_tried() -> None:
    neither = {"version", "strict", "store", "machine.environment", "skill-policy.approval.bind", "audit.redact"}
    assert CASES.keys() | neither == KEYS.keys()


@pytest.mark.covers("A-3")
@pytest.mark.each(("key", "path"), WEAKER, every=2)
def test_a_weaker_layer_cannot_loosen_what_an_administrator_says(key: str, path: str) -> None:
    ours, loosening, _ = CASES[key]
    alone, both = merge([written(key, ours)]), merge([written(key, ours), written(key, loosening, path)])
    assert looser(both, alone) == {}


@pytest.mark.each(("key", "path"), WEAKER, every=2)
def test_a_weaker_layer_can_tighten_what_an_administrator_says(key: str, path: str) -> None:
    ours, _, tightening = CASES[key]
    alone, both = merge([written(key, ours)]), merge([written(key, ours), written(key, tightening, path)])
    assert looser(both, alone) == {}
    assert looser(both, merge([written(key, tightening)])) == {}
    assert both.ignored == () or key in ("scan.suppressions", "audit.key")


@pytest.mark.each(("key", "path"), WEAKER, every=2)
def test_a_weaker_layer_cannot_loosen_the_defaults_where_an_administrator_has_no_opinion(key: str, path: str) -> None:
    silent = file("version: 1")
    alone = merge([silent])
    for value in CASES[key]:
        assert looser(merge([silent, written(key, value, path)]), alone) == {}, value


@pytest.mark.each("key", list(CASES), every=2)
def test_a_project_cannot_loosen_the_defaults(key: str) -> None:
    for value in CASES[key]:
        assert looser(merge([written(key, value, PROJECT)]), merge([])) == {}, value


@pytest.mark.each("key", list(CASES))
def test_several_files_of_administrators_only_tighten_each_other(key: str) -> None:
    ours, loosening, _ = CASES[key]
    second = parse_policy(written(key, loosening).text, "/opt/policy.yaml", "enterprise")
    assert looser(merge([written(key, ours), second]), merge([written(key, ours)])) == {}


@pytest.mark.covers("SEC-7")
@pytest.mark.each("path", [PERSONAL, PROJECT])
def test_only_administrators_give_up_the_names_of_their_skills(path: str) -> None:
    theirs = written("skills.enterprise-names", "allow", path)
    assert merge([theirs]).enterprise_names == "reserve"
    assert [problem.key for problem in merge([theirs]).ignored] == ["skills.enterprise-names"]
    assert merge([file("version: 1"), theirs]).enterprise_names == "reserve"
    ours = written("skills.enterprise-names", "allow")
    assert merge([ours]).enterprise_names == "allow"
    assert merge([ours, written("skills.enterprise-names", "reserve", path)]).enterprise_names == "reserve"


@pytest.mark.covers("SEC-13")
@pytest.mark.each("path", [PERSONAL, PROJECT])
def test_only_administrators_say_what_environment_the_machine_is_in(path: str) -> None:
    theirs = written("machine.environment", "staging", path)
    assert merge([theirs]).environment is None
    assert [problem.key for problem in merge([theirs]).ignored] == ["machine.environment"]
    ours, second = written("machine.environment", "production"), parse_policy(theirs.text, "/opt/p.yaml", "enterprise")
    assert merge([ours, second, theirs]).environment == "production"
    assert merge([file("version: 1"), second]).environment == "staging"
    assert str(merge([ours]).origin("machine.environment")) == f"{ENTERPRISE}:2 (enterprise)"


@pytest.mark.covers("SEC-13")
def test_the_environment_counts_also_in_a_file_that_is_broken() -> None:
    assert merge([file("on-error: allow\nmachine: {environment: production}\nmoode: x\n")]).environment == "production"


TOLD = [
    "mode", "on-error", "skill-policy.require-approval-for", "skill-policy.approval.approvers",
    "skill-policy.approval.self-approval", "skill-policy.approval.quorum", "skill-policy.approval.expires",
    "sources.allow", "sources.deny", "sources.require.digest", "sources.require.signature", "sources.signers",
    "skills.allow",
    "skills.deny", "skills.listing", "rules", "scan.rescan-after", "scan.suppressions", "audit.key",
    "run.scripts", "run.network", "run.hosts", "run.paths", "run.secrets", "run.limits", "tools.allowed-tools",
]  # fmt: skip


@pytest.mark.covers("A-3")
@pytest.mark.each("key", TOLD)
def test_what_is_ignored_is_told_with_file_key_and_the_layer_that_wins(key: str) -> None:
    ours, loosening, _ = CASES[key]
    effective = merge([written(key, ours), written(key, loosening, PROJECT)])
    [warning] = effective.ignored
    assert (warning.path, warning.key, warning.severity) == (PROJECT, key, "warning")
    assert warning.line == written(key, loosening).lines[key]
    assert "the layer enterprise wins" in warning.message
    assert ENTERPRISE in warning.hint


# --- behaviours by their ids ------------------------------------------------------------------------------------------


@pytest.mark.covers("A-2")
def test_reserved_names_of_all_layers_add_up_and_each_knows_its_line() -> None:
    effective = merge(
        [file("skills:\n  reserved:\n    - data-handling\n"), file("skills: {reserved: [deploy]}", PROJECT)]
    )
    assert {name: str(origin) for name, origin in effective.reserved.items()} == {
        "data-handling": f"{ENTERPRISE}:3 (enterprise)",
        "deploy": f"{PROJECT}:1 (project)",
    }


@pytest.mark.covers("A-3")
def test_a_source_must_be_on_the_list_of_every_layer_and_each_list_knows_its_line() -> None:
    ours = file("version: 1\nsources:\n  allow: ['dir:*']\n")
    theirs = file("sources: {allow: ['dir:*', 'git+https://github.com/acme/*']}", PROJECT)
    effective = merge([ours, theirs])
    assert outcome(effective, "install git+https://github.com/acme/skills") == 2
    assert outcome(effective, "install dir:/srv/skills") == 0
    assert [str(origin) for _, origin in effective.sources_allow] == [
        f"{ENTERPRISE}:3 (enterprise)",
        f"{PROJECT}:1 (project)",
    ]


@pytest.mark.covers("A-4")
def test_without_a_list_of_sources_all_are_allowed_and_with_an_empty_one_none_is() -> None:
    source = "install git+https://github.com/acme/skills"
    assert outcome(merge([file("version: 1")]), source) == 0
    assert outcome(merge([file("sources: {allow: []}")]), source) == 2


@pytest.mark.covers("A-6")
def test_a_broken_file_denies_what_begins_with_the_place_of_its_error() -> None:
    effective = merge([file("mode: enforce\non-error: deny\ntools: [\n")])
    assert (effective.mode, effective.on_error) == ("enforce", "deny")
    assert str(effective.errors[0]).startswith(f"{ENTERPRISE}:3: The YAML cannot be read")


@pytest.mark.covers("A-6")
def test_a_broken_file_that_only_watches_only_watches() -> None:
    effective = merge([file("mode: audit\ntools: [\n")])
    assert (effective.mode, effective.on_error, bool(effective.errors)) == ("audit", "deny", True)


# --- defaults ---------------------------------------------------------------------------------------------------------


def test_without_a_file_plugins_need_approval_and_nothing_else_does() -> None:
    effective = merge([])
    assert (effective.mode, effective.on_error, effective.files) == ("enforce", "deny", ())
    assert effective.needs_approval("plugin") == dict.fromkeys(CAPABILITY_NAMES)
    assert effective.needs_approval("project") == effective.needs_approval("enterprise") == {}
    assert effective.approval.approvers == ("role:reviewer",)
    plugin, untrusted, own = SUBJECTS[0], SUBJECTS[2], SUBJECTS[3]
    for subject, asks in ((plugin, 1), (untrusted, 1), (own, 0)):
        assert outcome(effective, f"activate {subject.name}@{subject.source} ('high',)") == asks


def test_no_files_together_say_what_holds_without_any() -> None:
    assert answers(merge([])) == answers(DEFAULT)
    assert vars(replace(merge([]), values={})) == vars(replace(DEFAULT, values={}))


def test_the_strongest_file_may_loosen_the_defaults() -> None:
    for path in (ENTERPRISE, PERSONAL):
        effective = merge([file("mode: audit\nskill-policy: {require-approval-for: []}\nrun: {hooks: allow}", path)])
        assert effective.mode == "audit"
        assert effective.needs_approval("plugin") == {}
        assert effective.narrow(None).hooks == "allow"


def test_a_broken_file_may_not() -> None:
    text = "skill-policy: {require-approval-for: []}\nrun: {hooks: allow, network: host}\nskills: 5"
    assert looser(merge([file(text)]), merge([])) == {}


def test_rules_about_other_things_leave_the_default_rules_about_scans() -> None:
    def ids(text: str, path: str = ENTERPRISE) -> list[str]:
        return [rule.id for rule in merge([file(text, path)]).rules]

    defaults = ["default: scan of plugins", "default: scan of untrusted skills"]
    assert ids("rules: [{id: R1, effect: ask}]") == [*defaults, "R1"]
    assert ids('rules: [{id: R1, when: {scan: ">=low"}, effect: deny}]') == ["R1"]
    assert ids('rules: [{id: R1, when: {scan: ">=low"}, effect: deny}]', PROJECT) == ["R1", *defaults]


def test_rules_that_deny_come_before_those_that_ask_and_of_each_the_stronger_layer_first() -> None:
    ours = file("rules: [{id: A, effect: allow}, {id: B, effect: ask}, {id: C, when: {scan: '>=low'}, effect: deny}]")
    theirs = file("rules: [{id: D, effect: deny}, {id: E, effect: ask}]", PROJECT)
    assert [rule.id for rule in merge([ours, theirs]).rules] == ["C", "D", "B", "E", "A"]


def test_only_the_strongest_file_has_rules_that_allow() -> None:
    theirs = file("rules: [{id: A, point: apply, agent: bot, effect: allow}]", PROJECT)
    assert all(rule.effect != "allow" for rule in merge([theirs]).rules)
    assert all(rule.effect != "allow" for rule in merge([file("version: 1"), theirs]).rules)


def test_a_project_adds_no_command_that_would_be_run() -> None:
    text = 'scan: {engines: [core, {sarif: "cmd: ./evil.sh {dir}"}]}'
    theirs = merge([file(text, PROJECT)])
    assert ([one.name for one in theirs.scan.engines], theirs.scan.commands) == (["core"], {})
    assert "adds no scanner" in theirs.problems[0].message
    assert dict(merge([file(text)]).scan.commands) == {"evil.sh": "./evil.sh {dir}"}


def test_a_project_adds_rules_by_a_folder_of_its_own_alone() -> None:
    entries = (
        f'{{folder: rules, digest: "{A}"}}, {{folder: ../../rules, digest: "{A}"}}, {{package: rules, digest: "{A}"}}'
    )
    theirs = merge([file(f"scan: {{packs: [{entries}]}}", PROJECT)])
    assert [one.name for one in theirs.scan.packs] == ["rules"]
    assert [one.severity for one in theirs.problems] == ["warning", "warning"]
    assert len(merge([file(f"scan: {{packs: [{entries}]}}")]).scan.packs) == 3


def test_the_packs_of_all_files_count_also_where_they_disagree() -> None:
    ours, theirs = (f'scan: {{packs: [{{folder: /srv/rules, digest: "{one}"}}]}}' for one in (A, B))
    assert [one.digest for one in merge([file(ours), file(theirs, PERSONAL)]).scan.packs] == [A, B]


def test_nobody_but_administrators_frees_the_skills_of_administrators_from_their_own_rules() -> None:
    place = Place(layer="enterprise", source=MemorySource({}))
    for pattern in ("enterprise", '"*"'):
        text = f"tools: {{allowed-tools: {{{pattern}: advisory}}}}"
        assert not enforcement_of(place, merge([file(text, PERSONAL)]), {"enterprise": "advisory"}).is_advisory
        assert enforcement_of(place, merge([file(text)]), {}).is_advisory


@pytest.mark.each("path", [PERSONAL, PROJECT])
def test_no_weaker_layer_says_which_key_signs_and_which_findings_do_not_count(path: str) -> None:
    text = "audit: {key: theirs}\nscan: {suppressions: theirs.yaml}"
    for ours in ("version: 1", "audit: {key: ours}\nscan: {suppressions: ours.yaml}"):
        both, alone = merge([file(ours), file(text, path)]), merge([file(ours)])
        assert (both.audit.key, both.scan.suppressions) == (alone.audit.key, alone.scan.suppressions)
    assert merge([file(text, PROJECT)]).audit.key is None


def test_a_path_in_a_file_starts_from_the_folder_of_the_file() -> None:
    effective = merge([file("audit: {key: keys/audit}\nscan: {suppressions: /srv/known.yaml}")])
    assert (effective.audit.key, effective.scan.suppressions) == ("/etc/metier/keys/audit", "/srv/known.yaml")


def test_pins_of_two_layers_that_differ_leave_a_skill_nothing_to_be() -> None:
    effective = merge(
        [file(f'skills: {{pins: {{pdf: "{A}"}}}}'), file(f'skills: {{pins: {{"pdf@*": "{B}"}}}}', PROJECT)]
    )
    assert {digest for digest, _ in effective.pins_of("pdf", "acme")} == {A, B}
    assert effective.pins_of("other", "acme") == ()


def test_a_key_knows_the_line_that_set_it() -> None:
    effective = merge([file("version: 1\nmode: audit\nsources: {deny: ['a:*']}"), file("mode: enforce\n", PROJECT)])
    assert str(effective.origin("mode")) == f"{PROJECT}:1 (project)"
    assert str(effective.origin("sources.deny")) == f"{ENTERPRISE}:3 (enterprise)"
    assert effective.origin("on-error") is None


def test_the_digest_is_that_of_all_files() -> None:
    digests = {
        merge(files).digest
        for files in (
            [],
            [file("version: 1")],
            [file("version: 1 ")],
            [file("version: 1"), file("version: 1", PROJECT)],
        )
    }
    assert len(digests) == 4


def test_tool_rules_of_a_file_know_their_lines() -> None:
    [layer] = merge([file("tools:\n  deny:\n    - WebFetch\n    - Bash(curl *)\n  allow: [Read]\n")]).tool_layers
    assert layer.lines[("deny", layer.deny[1].text)] == 4
    assert (layer.lines[("deny", "")], layer.lines[("allow", "")]) == (2, 5)


def test_only_the_strongest_file_says_where_the_store_is() -> None:
    ours = parse_policy("store: sqlite:////srv/metier.db", "/etc/metier/policy.yaml", "enterprise")
    theirs = parse_policy("store: sqlite:////tmp/mine.db", ".metier/policy.yaml", "project")
    assert merge([ours, theirs]).store == "sqlite:////srv/metier.db"
    assert merge([theirs]).store is None
