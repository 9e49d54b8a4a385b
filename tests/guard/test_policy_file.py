"""One policy file: what it says, and what is wrong with it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from metier.guard import Action, Guard, MemoryLog, Subject
from metier.guard.governance import Governance
from metier.guard.policy.file import PolicyFile
from metier.guard.policy.files import Policies
from metier.guard.policy.merge import merge
from metier.guard.policy.reader import MAX_BYTES, parse_policy, read_policy
from metier.guard.policy.schema import KEYS

EXAMPLE = Path(__file__).parents[2] / "docs" / "reference" / "policy-file.md"
DIGEST = "sha256:" + "a" * 64


def parsed(text: str | bytes, layer: str = "enterprise") -> PolicyFile:
    return parse_policy(text, "policy.yaml", layer)  # type: ignore[arg-type]


def sound(text: str) -> PolicyFile:
    file = parsed(text)
    assert [str(problem) for problem in file.problems] == []
    return file


def test_every_key_can_be_written_and_is_found_by_its_line() -> None:
    lines = {
        "version": "1", "strict": "true", "mode": "audit", "on-error": "ask",
        "skill-policy.require-approval-for": "[scripts, new-capability]",
        "skill-policy.approval.bind": "digest",
        "skill-policy.approval.approvers": '["role:skill-admin", "user:ada"]',
        "skill-policy.approval.self-approval": "deny",
        "skill-policy.approval.quorum": "2",
        "skill-policy.approval.expires": "180d",
        "skill-policy.approval.auto-approve-when": "{signer: ['oms:a.pub'], scan-max: low, no-new-capabilities: true}",
        "sources.allow": '["dir:*"]', "sources.deny": '["*:*.vercel.app"]',
        "sources.require.digest": "true", "sources.require.pinned": "yes", "sources.require.signature": "[oms]",
        "sources.signers": "{'dir:*': ['oms:a.pub']}",
        "skills.allow": "[pdf]", "skills.deny": '["crypto-*@*"]', "skills.listing": "{deploy: manual}",
        "skills.pins": f'{{pdf: "{DIGEST}"}}', "skills.reserved": "[data-handling]",
        "skills.require-score": "60", "skills.require-tests": "[form, rules]",
        "skills.enterprise-names": "allow", "machine.environment": "production",
        "proposals.no-test-worse": "true",
        "tools.network": "[WebFetch]", "tools.write": "[Write]", "tools.allow": "[Read]", "tools.ask": "[Bash]",
        "tools.deny": '["Bash(* | sh)"]',
        "tools.allowed-tools": "{plugin: advisory}",
        "rules": "[{id: R1, point: load, effect: deny}]",
        "scan.engines": '[core, {sarif: "cmd: other {dir}"}]', "scan.rescan-after": "7d",
        "scan.suppressions": "suppressions.yaml",
        "scan.together": "medium",
        "scan.packs": f'[{{folder: rules, digest: "{DIGEST}"}}, {{package: acme_rules, digest: "{DIGEST}"}}]',
        "store": "sqlite:////srv/metier.db", "audit.redact": "true", "audit.max-output": "10",
        "audit.max-arguments": "10",
        "audit.checkpoint-every": "10", "audit.key": "keys/audit",
        "notify": "{run: [tell, --all], for: [request], seconds: 5}",
        "usage.queries": "text", "usage.keep-days": "90",
        "nodes.lease": "12h", "nodes.offline": "read-only", "nodes.online": "required",
        "protect.fail": "closed", "protect.scripts": "sandbox", "protect.skills": "prompt",
        "run.untrusted": "deny", "run.scripts": "ask", "run.unsandboxed": "deny", "run.hooks": "ask",
        "run.unchecked": "deny",
        "run.injection": "deny", "run.script-reads": "allow", "run.network": "restricted",
        "run.hosts": "[api.example.com]", "run.paths": '["/data"]', "run.secrets": "{pdf: [TOKEN]}",
        "run.require": "[files]", "run.limits": "{seconds: 1.5, memory-bytes: 100}",
    }  # fmt: skip
    assert lines.keys() == KEYS.keys()
    text: list[str] = []
    where: dict[str, int] = {}
    for key, value in lines.items():
        *above, name = key.split(".")
        for depth, section in enumerate(above):
            header = f"{'  ' * depth}{section}:"
            if ".".join(above[: depth + 1]) not in where:
                text.append(header)
                where[".".join(above[: depth + 1])] = len(text)
        text.append(f"{'  ' * len(above)}{name}: {value}")
        where[key] = len(text)
    file = sound("\n".join(text))
    assert file.settings.keys() == KEYS.keys()
    assert {key: file.lines[key] for key in KEYS} == {key: where[key] for key in KEYS}
    assert file.settings["skill-policy.approval.approvers"] == ("role:admin", "user:ada")
    assert file.settings["run.limits"] == {"seconds": 1.5, "memory_bytes": 100}


WRONG = [
    # text, line, key, a part of the message, a part of the hint
    ("mode: audti", 1, "mode", "cannot be 'audti'", "off, audit, enforce"),
    ("version: 2", 1, "version", "cannot be '2'", "1"),
    ("version: 1\nmood: enforce", 2, "mood", "no key 'mood'", "`mode`"),
    ("tools:\n  denny: [Bash]", 2, "tools.denny", "no key 'tools.denny'", "`deny`"),
    ("require-approval-for: [hooks]", 1, "require-approval-for", "no key", "`skill-policy.require-approval-for`"),
    ("tools: {reserved: [pdf]}", 1, "tools.reserved", "no key", "`skills.reserved`"),
    ("tools: [Bash]", 1, "tools", "is a list", "keys below it"),
    ("tools:\n  deny: Bash", 2, "tools.deny", "is text", "[Bash]"),
    ("notify: tell", 1, "notify", "cannot be 'tell'", "Write a map"),
    ("notify: {for: [request]}", 1, "notify", "names no program", "/usr/local/bin/tell"),
    ("notify: {run: [bin/tell]}", 1, "notify", "names no program", "/usr/local/bin/tell"),
    ("notify: {run: tell --all}", 1, "notify.run", "is text", "[tell --all]"),
    ("notify: {run: [tell], for: [answer]}", 1, "notify.for", "'answer', which is none of", "[request, proposal"),
    ("notify: {run: [tell], seconds: 0}", 1, "notify.seconds", "cannot be '0'", "from 1 to 600"),
    ("notify: {run: [tell], shell: true}", 1, "notify.shell", "no key 'shell'", "run, for, seconds"),
    ("tools:\n  deny:\n  - Bash\n  - 'Bash(git'", 4, "tools.deny", "'Bash(git'", "parenthesis"),
    ("sources:\n  allow: [5, github.com]", 2, "sources.allow", "names no kind of source", "dir:*"),
    ("sources:\n  allow: [[a]]", 2, "sources.allow", "a list where text", "dir:*"),
    ("skill-policy:\n  require-approval-for: [script]", 2, "skill-policy.require-approval-for", "'script'", "scripts"),
    ("skill-policy:\n  approval:\n    expires: soon", 3, "skill-policy.approval.expires", "'soon'", "180d"),
    ("skill-policy:\n  approval:\n    expires: 0d", 3, "skill-policy.approval.expires", "'0d'", "180d"),
    ("skill-policy:\n  approval:\n    quorum: 0", 3, "skill-policy.approval.quorum", "'0'", "from 1 to 100"),
    ("skill-policy:\n  approval:\n    quorum: -1", 3, "skill-policy.approval.quorum", "'-1'", "from 1"),
    ("skill-policy:\n  approval:\n    approvers: ['boss']", 3, "skill-policy.approval.approvers", "'boss'", "role:"),
    ("skill-policy:\n  approval:\n    approvers: ['role:king']", 3, "skill-policy.approval.approvers", "king", "role"),
    (
        "skill-policy:\n  approval:\n    auto-approve-when: {}",
        3, "skill-policy.approval.auto-approve-when", "everything", "scan-max",
    ),
    (
        "skill-policy:\n  approval:\n    auto-approve-when:\n      scan: low",
        4, "skill-policy.approval.auto-approve-when.scan", "no condition 'scan'", "scan-max",
    ),
    ("skills:\n  listing: {pdf: hidden}", 2, "skills.listing.pdf", "'hidden'", "manual"),
    ("skills:\n  pins: {pdf: latest}", 2, "skills.pins.pdf", "'latest'", "sha256:"),
    ("skills:\n  deny: ['']", 2, "skills.deny", "empty", "crypto"),
    ('skills:\n  deny: ["a\\u202eb"]', 2, "skills.deny", "cannot be seen", "crypto"),
    ("scan:\n  engines: [clam]", 2, "scan.engines", "clam", "sarif"),
    ("scan:\n  engines:\n    - core\n    - sarif: 'cmd: other --all'", 4, "scan.engines", "'other --all'", "{dir}"),
    ("scan:\n  engines:\n    - {name: x, sarif: '{dir}/run'}", 3, "scan.engines", "'{dir}/run'", "Write {dir} where"),
    ("scan:\n  engines:\n    - sarif: 'other \"{dir}'", 3, "scan.engines", "other", "Write {dir} where"),
    ("scan:\n  packs: rules", 2, "scan.packs", "is text", "folder"),
    ("scan:\n  packs: [rules]", 2, "scan.packs", "'rules'", "folder"),
    ("scan:\n  packs: [{folder: rules}]", 2, "scan.packs", "without the digest", "metier scan rules test"),
    (f"scan:\n  packs: [{{digest: '{DIGEST}'}}]", 2, "scan.packs", "`folder`", "sha256:"),
    (f"scan:\n  packs: [{{folder: a, url: b, digest: '{DIGEST}'}}]", 2, "scan.packs", "other than a pack", "folder"),
    ("run:\n  hosts: ['https://x.test']", 2, "run.hosts", "https://x.test", "api.example.com"),
    ("run:\n  paths: [data]", 2, "run.paths", "'data'", "/data"),
    ("run:\n  limits: {seconds: -1}", 2, "run.limits.seconds", "'-1'", "above 0"),
    ("run:\n  limits: {second: 1}", 2, "run.limits.second", "no limit 'second'", "seconds"),
    ("run:\n  secrets: {pdf: ['A B']}", 2, "run.secrets.pdf", "'A B'", "API_TOKEN"),
    ("run:\n  network: internet", 2, "run.network", "'internet'", "none"),
    ("audit:\n  redact: false", 2, "audit.redact", "'false'", "one of true"),
    ("mode: audit\nmode: off", 2, "", "given twice", "Keep one"),
    ("tools: &a {deny: [Bash]}\nskills: *a", 2, "skills", "an alias", "no aliases"),
    ("tools:\n  <<: {deny: [Bash]}", 2, "tools.<<", "no key", "deny"),
    ("rules: {id: R1}", 1, "rules", "is a map", "list of rules"),
    ("", 1, "", "says nothing", "version: 1"),
    ("# only a comment\n", 1, "", "says nothing", "version: 1"),
    ("- a\n- b", 1, "", "says nothing", "version: 1"),
    ("version: 1\n---\nmode: off", 2, "", "second document", "key: value"),
    ("mode: enforce\ntools:\n  deny: [\n", 3, "", "YAML cannot be read", "bracket"),
    ("mode: enforce\n\ttools: x", 2, "", "YAML cannot be read", "spaces"),
]  # fmt: skip


@pytest.mark.each(("text", "line", "key", "message", "hint"), WRONG)
def test_what_is_wrong_is_told_with_its_line_and_what_to_write(
    text: str, line: int, key: str, message: str, hint: str
) -> None:
    file = parsed(text)
    found = [problem for problem in file.problems if problem.line == line and problem.key == key]
    told = [(problem.line, problem.key, problem.message, problem.hint) for problem in file.problems]
    assert any(message in problem.message and hint in problem.hint for problem in found), told
    if "<<" not in text:
        assert file.is_broken


STRICT = [
    ("mode: audti", "mode", "enforce"),
    ("on-error: maybe", "on-error", "deny"),
    ("run: {hooks: sometimes}", "run.hooks", "deny"),
    ("run: {network: some}", "run.network", "none"),
    ("audit: {redact: perhaps}", "audit.redact", "true"),
    ("skill-policy: {approval: {self-approval: 1}}", "skill-policy.approval.self-approval", "deny"),
    ("skill-policy: {approval: {quorum: many}}", "skill-policy.approval.quorum", 100),
    ("skill-policy: {approval: {expires: never}}", "skill-policy.approval.expires", 1),
    ("skill-policy: {approval: {approvers: 5}}", "skill-policy.approval.approvers", ()),
    ("run: {limits: {seconds: much}}", "run.limits", {"seconds": 1}),
]


@pytest.mark.each(("text", "key", "value"), STRICT)
def test_a_value_that_cannot_be_read_is_as_strict_as_it_can_be(text: str, key: str, value: object) -> None:
    assert parsed(text).settings[key] == value


def test_a_list_of_what_is_allowed_that_is_none_allows_nothing() -> None:
    for text in ("sources: {allow: {a: b}}", "sources: {allow: [[]]}", "sources: {allow: [5]}"):
        [allowed] = parsed(text).settings["sources.allow"]
        assert allowed.texts == ()


def test_conditions_for_approval_that_cannot_all_be_read_approve_nothing() -> None:
    text = "skill-policy: {approval: {auto-approve-when: {scan-max: low, signer: [nobody]}}}"
    assert "skill-policy.approval.auto-approve-when" not in parsed(text).settings


@pytest.mark.covers("A-4")
def test_no_list_is_no_opinion_and_an_empty_list_is_nothing() -> None:
    assert "sources.allow" not in sound("sources: {deny: ['*:*']}").settings
    assert "sources.allow" not in sound("sources: {allow: null}").settings
    [allowed] = sound("sources: {allow: []}").settings["sources.allow"]
    assert allowed.texts == ()


def test_a_list_without_a_value_is_no_opinion_and_that_is_told() -> None:
    file = parsed("sources:\n  allow:\n")
    assert "sources.allow" not in file.settings
    assert [(problem.severity, problem.line) for problem in file.problems] == [("warning", 2)]


def test_a_key_that_nobody_knows_is_a_warning_and_an_error_in_a_strict_file() -> None:
    assert [problem.severity for problem in parsed("version: 1\nx-owner: ada").problems] == ["warning"]
    assert [problem.severity for problem in parsed("x-owner: ada\nstrict: true").problems] == ["error"]


def test_of_a_key_that_is_given_twice_the_stricter_value_counts() -> None:
    file = parsed("mode: enforce\nmode: off\ntools: {deny: [Bash]}\ntools: {deny: [Read]}")
    assert file.settings["mode"] == "enforce"
    assert [rule.text for one in file.settings["tools.deny"] for rule in one.rules] == ["Bash", "Read"]


BROKEN = """\
mode: audit
skills:
  deny: [miner]
  listing: {x: [
  reserved: [data-handling]
rules:
  - {id: R1, effect: deny}
  - {id: R2, effect: "
  - {id: R3, effect: ask}
tools:
  deny: ["Bash(curl *)"]
"""


@pytest.mark.covers("A-6")
def test_what_can_be_read_of_a_broken_file_counts_and_the_rest_is_told_with_its_line() -> None:
    file = parsed(BROKEN)
    assert file.settings["mode"] == "audit"
    assert [one.text for one in file.settings["skills.deny"]] == ["miner"]
    assert [one.text for one in file.settings["skills.reserved"]] == ["data-handling"]
    assert {"R1", "R3"} <= {rule.id for rule in file.settings["rules"]}
    assert [rule.text for one in file.settings["tools.deny"] for rule in one.rules] == ["Bash(curl *)"]
    assert {problem.line for problem in file.problems} >= {4, 8}


def test_the_mode_of_a_file_that_cannot_be_read_is_enforce_unless_it_says_so_plainly() -> None:
    def mode_of(text: str) -> str | None:
        effective = merge([parsed(text)])
        return effective.mode if effective.origin("mode") is not None else None

    assert mode_of("mode: audit\nrules: [") == "audit"
    assert mode_of("mode: [audit\nrules: [") == "enforce"
    assert mode_of("rules: [") == "enforce"
    assert mode_of("version: 1") is None


def test_lines_are_those_of_the_file_whatever_ends_them() -> None:
    for text in ("\ufeff# x\r\n\r\nmode: nothing\r\n", "# x\r\rmode: nothing\r"):
        assert [problem.line for problem in parsed(text).problems] == [3], repr(text)


@pytest.mark.each("end", ["\x85", "\u2028", "\u2029"])
def test_nothing_hides_behind_a_character_that_ends_a_line_for_yaml_alone(end: str) -> None:
    file = parsed(f"version: 1\n# harmless{end}mode: off\ntools: {{deny: [Bash]}}\n")
    assert "mode" not in file.settings
    assert [problem.line for problem in file.problems] == [2]
    assert "tools.deny" in file.settings


# --- files that are none ----------------------------------------------------------------------------------------------


def test_where_there_is_no_file_there_is_no_policy(tmp_path: Path) -> None:
    assert read_policy(tmp_path / "policy.yaml", "enterprise") is None
    (tmp_path / "file").touch()
    assert read_policy(tmp_path / "file" / "policy.yaml", "enterprise") is None


def test_a_file_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("mode: audit\n")
    file = read_policy(tmp_path / "policy.yaml", "personal")
    assert file is not None
    assert (file.settings["mode"], file.layer, file.path) == ("audit", "personal", str(tmp_path / "policy.yaml"))
    assert str(file.origin("mode")) == f"{tmp_path / 'policy.yaml'}:1 (personal)"


def folder(path: Path) -> None:
    path.mkdir()


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link_to_nothing(path: Path) -> None:
    path.symlink_to(path.with_name("nothing"))


def link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(50 * 1024 * 1024)


def no_text(path: Path) -> None:
    path.write_bytes(b"mode: off\n\xff\xfe\x00")


def binary(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 40)


def wide_characters(path: Path) -> None:
    path.write_bytes("mode: off\n".encode("utf-16"))


def many_aliases(path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    path.write_text("\n".join(["strict: true", *lines]))


def deep(path: Path) -> None:
    path.write_text("rules: " + "[" * 100_000)


def empty(path: Path) -> None:
    path.touch()


def forbidden(path: Path) -> None:
    path.write_text("mode: off\n")
    path.chmod(0)


KINDS = [
    folder, pipe, link_to_nothing, link_to_itself, device, large, no_text, binary, wide_characters, many_aliases, deep,
    empty,
]  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such files here")
@pytest.mark.covers("A-6")
@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
def test_an_enterprise_policy_that_cannot_be_read_is_enforced_and_denies(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "policy.yaml")
    file = read_policy(tmp_path / "policy.yaml", "enterprise")
    assert file is not None and file.is_broken
    effective = merge([file])
    assert effective.on_error == "deny"
    assert effective.mode == ("off" if make is no_text else "enforce")
    assert effective.errors[0].path == str(tmp_path / "policy.yaml")
    assert effective.errors[0].hint
    if make is not no_text:
        guard = Guard(
            governance=Governance(Policies(files=[("enterprise", tmp_path / "policy.yaml")]), store=None),
            audit=MemoryLog(),
        )
        for point in ("load", "run", "hook", "install"):
            decision = guard.decide(Action(point=point, skill=Subject(name="pdf"), by="user"))
            assert decision.outcome == "deny", point
            assert decision.code == ("hooks-denied" if point == "hook" else "policy-unreadable")


@pytest.mark.usefixtures("unprivileged")
def test_a_policy_that_this_user_may_not_read_is_enforced_and_denies(tmp_path: Path) -> None:
    forbidden(tmp_path / "policy.yaml")
    file = read_policy(tmp_path / "policy.yaml", "enterprise")
    assert file is not None
    assert (merge([file]).mode, merge([file]).on_error) == ("enforce", "deny")
    assert "permission denied" in file.problems[0].message


def test_a_text_that_is_too_large_is_not_read() -> None:
    file = parsed("#" + "x" * MAX_BYTES)
    assert file.is_broken and "bytes" in file.problems[0].message


def test_a_path_that_is_none_is_told(tmp_path: Path) -> None:
    for path in (f"{tmp_path}/a\0b", f"{tmp_path}/{'x' * 5_000}"):
        file = read_policy(path, "enterprise")
        assert file is not None and file.is_broken
