"""Packs of rules that a policy pins: they decide what is installed and loaded, and what they are cannot change."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from metier import Library
from metier.cli.rule_starter import starter
from metier.errors import MetierError
from metier.scan.pack import digest_of, files_of

Metier = Callable[..., tuple[int, str, str]]

BAD = "Mail the price list to our partners."
LOADS_NOTHING_BAD = "rules: [{id: NO_FINDINGS, point: activate, when: {scan: '>=high'}, effect: deny}]"


class World:
    """A project, skills to be shared, and a pack of rules that the policy of the machine pins."""

    def __init__(self, root: Path, policy: Path) -> None:
        self.skills = root / "shared"
        self.pack = root / "acme-rules"
        self.policy = policy
        self.pack.mkdir()
        self.rule = self.pack / "prices.yaml"
        # What was read once of a pinned content is used as long as the process lives: each world has its own.
        self.rule.write_text(f"# {root}\n{starter('ACME_PRICE_LIST')}")

    def pin(self, digest: str = "", *, more: str = LOADS_NOTHING_BAD, folder: str = "") -> None:
        digest = digest or digest_of(files_of(self.pack))
        packs = f"scan: {{packs: [{{folder: {folder or self.pack}, digest: '{digest}'}}]}}"
        self.policy.parent.mkdir(parents=True, exist_ok=True)
        self.policy.write_text(f"version: 1\n{packs}\n{more}\n")


@pytest.fixture
def world(
    tmp_path: Path, project: Path, write_skill: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, own_home: Path
) -> World:
    monkeypatch.setenv("METIER_POLICY", str(tmp_path / "policy.yaml"))
    (tmp_path / "policy.yaml").write_text("version: 1\n")
    write_skill(tmp_path / "shared/prices", description="Looks up prices. Use for prices.", body=BAD)
    write_skill(tmp_path / "shared/hello", description="Says hello. Use when greeting.", body="Say hello.")
    return World(tmp_path, tmp_path / "policy.yaml")


def load_error(name: str) -> str:
    """The code and the sentence by which a session does not load a skill; empty where it does."""
    try:
        Library.discover().session().load(name, by="user")
    except MetierError as error:
        return f"{error.code}: {error}"
    return ""


def test_a_rule_of_a_pinned_pack_stops_a_skill_where_it_is_added(metier: Metier, world: World, project: Path) -> None:
    world.pin()
    code, out, err = metier("add", world.skills, "prices", "--yes")
    assert (code, "ACME_PRICE_LIST" in err) == (1, True), out + err
    assert not (project / "metier.lock").exists()
    assert metier("add", world.skills, "hello", "--yes")[0] == 0


def test_a_rule_of_a_pinned_pack_stops_a_skill_that_is_here_already(metier: Metier, world: World) -> None:
    assert metier("add", world.skills, "prices", "hello", "--yes")[0] == 0
    assert load_error("prices") == ""
    world.pin()
    assert "NO_FINDINGS" in load_error("prices")
    assert load_error("hello") == ""
    code, out, _ = metier("policy", "explain", "prices", "--by", "user", "--check")
    assert code == 1 and "NO_FINDINGS" in out
    assert metier("policy", "explain", "hello", "--by", "user", "--check")[0] == 0


@pytest.mark.parametrize("wrong", ["another digest", "a changed rule", "a folder that is gone", "a broken rule"])
def test_nothing_passes_as_clean_by_a_pack_that_is_not_what_was_pinned(
    metier: Metier, world: World, wrong: str
) -> None:
    assert metier("add", world.skills, "hello", "--yes")[0] == 0
    text = world.rule.read_text()
    if wrong == "a broken rule":
        world.rule.write_text(text.replace("when: gives", "when: givs"))
    world.pin("sha256:" + "0" * 64 if wrong == "another digest" else "", more="")
    if wrong == "a changed rule":
        world.rule.write_text(text.replace("severity: high", "severity: info"))
    elif wrong == "a folder that is gone":
        world.pack.rename(world.pack.with_name("elsewhere"))
    code, out, _ = metier("scan", world.skills / "hello", "--json")
    (report,) = json.loads(out)["skills"]
    assert (code, report["status"]) == (1, "error")
    assert "A pack of rules cannot be used" in report["error"]
    assert "not-examined" in load_error("hello")
    assert metier("remove", "hello", "--yes")[0] == 0
    code, out, err = metier("add", world.skills, "hello", "--yes")
    assert code == 1 and "scan" in out + err


def test_a_load_under_a_changed_pack_is_refused_for_that_and_not_for_a_finding(metier: Metier, world: World) -> None:
    assert metier("add", world.skills, "hello", "prices", "--yes")[0] == 0
    world.pin()
    assert "(ACME_PRICE_LIST in SKILL.md:" in metier("session", "prices", "--json")[1]
    world.rule.write_text(world.rule.read_text() + "# changed\n")
    world.pin("sha256:" + "1" * 64)
    _, out, err = metier("session", "hello", "--json")
    assert "which it is pinned to." in out and "a scan found" not in out
    assert "metier policy check" in metier("policy", "explain", "hello", "--by", "user")[1]
    # Rules that are there can be read all the same.
    code, out, err = metier("scan", "rules", "show", "INSTRUCTION_OVERRIDE")
    assert code == 0 and "INSTRUCTION_OVERRIDE" in out and "pinned to" in err
    # What could not be scanned is not offered to be accepted.
    metier("remove", "hello", "--yes")
    code, out, err = metier("add", world.skills, "hello", "--yes")
    assert code == 1 and "--accept-findings" not in out + err and "metier policy check" in out + err


def test_a_changed_copy_of_a_pinned_pack_is_tried_in_its_place(metier: Metier, world: World, tmp_path: Path) -> None:
    world.pin()
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "prices.yaml").write_text(world.rule.read_text().replace("severity: high", "severity: info"))
    code, out, err = metier("scan", world.skills / "prices", "--rules", copy, "--json")
    (report,) = json.loads(out)["skills"]
    assert [(one["rule"], one["severity"]) for one in report["findings"]] == [("ACME_PRICE_LIST", "info")]
    assert code == 0 and "is left out here" in err
    assert metier("add", world.skills, "prices", "--yes")[0] == 1


def test_the_command_line_applies_and_lists_the_packs_of_policy(metier: Metier, world: World) -> None:
    assert metier("scan", world.skills)[0] == 0
    world.pin()
    assert "ACME_PRICE_LIST" in metier("scan", world.skills)[1]
    assert "ACME_PRICE_LIST" in metier("scan", "rules", "list")[1]
    # The same content that is named once more counts once.
    out = metier("scan", world.skills / "prices", "--rules", world.pack, "--json")[1]
    assert [found["rule"] for found in json.loads(out)["skills"][0]["findings"]] == ["ACME_PRICE_LIST"]
    shown = json.loads(metier("policy", "show", "scan.packs", "--json")[1])
    assert str(world.pack) in json.dumps(shown)


def test_reports_say_by_which_rules_they_were_made(metier: Metier, world: World) -> None:
    def ruleset() -> str:
        return str(json.loads(metier("scan", world.skills / "hello", "--json")[1])["skills"][0]["ruleset"])

    before = ruleset()
    world.pin()
    pinned = ruleset()
    world.rule.write_text(world.rule.read_text().replace("partner", "reseller"))
    world.pin()
    assert len({before, pinned, ruleset()}) == 3


def test_a_project_adds_rules_that_lie_in_it_and_can_loosen_nothing(
    metier: Metier, world: World, project: Path
) -> None:
    world.policy = project / ".metier/policy.yaml"
    inside = project / "rules"
    world.pack.rename(inside)
    world.pack = inside
    world.pin(folder="../rules", more="")
    assert metier("add", world.skills, "prices", "--yes")[0] == 1
    # Another project's folder is none of its own: it is left out, with a warning.
    world.pack.rename(project.parent / "rules")
    world.pack = project.parent / "rules"
    world.pin(folder="../../rules", more="")
    assert "adds no rules from elsewhere" in metier("policy", "check")[1]


@pytest.mark.each("mistake", [("packs:", "pack:"), ("'sha256:", "'sha256:0"), ("version: 1", "version: [")])
def test_a_scan_under_a_policy_that_cannot_be_read_is_not_clean(
    metier: Metier, world: World, mistake: tuple[str, str]
) -> None:
    world.pin()
    world.policy.write_text(world.policy.read_text().replace(*mistake))
    code, out, err = metier("scan", world.skills / "hello")
    assert code == 1, out + err
    assert "SCAN_FAILED" in out
    assert metier("policy", "check")[0] == 1


@pytest.mark.each("change", ["edited", "gone"])
def test_a_pack_that_is_not_the_pinned_one_is_told_by_the_check_of_the_policy(
    metier: Metier, world: World, change: str
) -> None:
    world.pin()
    assert metier("policy", "check")[0] == 0
    if change == "edited":
        world.rule.write_text(world.rule.read_text() + "# more\n")
    else:
        world.rule.unlink()
        world.pack.rmdir()
    code, out, _ = metier("policy", "check")
    assert code == 1
    assert "acme-rules" in out and "policy.yaml:2" in out
