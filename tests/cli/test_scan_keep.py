"""`metier scan --keep`: the scanners that policy names look at skills, and what they say counts in decisions."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.tables import thinned

from metier import Guard, Library
from metier.cli.identity import system_user
from metier.errors import Refused
from metier.guard import MemoryLog
from metier.store import Person, ScanRow, Store, TenantScope

Command = Callable[..., tuple[int, str, str]]
Policy = Callable[..., None]

# Finds a word, and says what else it is told to by the skill itself.
SCANNER = """\
import json, pathlib, sys
text = pathlib.Path(sys.argv[1], "SKILL.md").read_text()
if "crash" in text:
    sys.exit("Traceback ...")
count = 300 if "very dangerous" in text else 1 if "danger" in text else 0
place = {"artifactLocation": {"uri": f"file://{sys.argv[1]}/SKILL.md"}, "region": {"startLine": 5}}
at = [{"physicalLocation": place}]
results = [
    {"ruleId": "DANGER", "level": "error", "message": {"text": f"It is danger {number}."}, "locations": at}
    for number in range(count)
]
run = {"tool": {"driver": {"name": "calls itself core"}}, "results": results}
if "give up" in text:
    run["invocations"] = [{"executionSuccessful": False}]
print(json.dumps({"version": "2.1.0", "runs": [run]}))
"""
BOTH = 'rules: [{id: R2, point: activate, when: {scan: ">=high", engines: ">=2"}, effect: deny}]\n'


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def command(work: Path) -> str:
    """The command of a little scanner, as a policy file has it."""
    (work / "little.py").write_text(SCANNER)
    return shlex.join([sys.executable, "-IS", str(work / "little.py"), "{dir}"])


@pytest.fixture
def policy(work: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> Policy:
    """Writes a policy of administrators that names the little scanner, or another command by the same name."""

    def write(more: str = "", *, scan: str = "", run: str = command) -> None:
        engines = json.dumps(["core", {"name": "little", "sarif": f"cmd: {run}"}])
        (work / "policy.yaml").write_text(f"version: 1\n{more}scan:\n  engines: {engines}\n{scan}")
        monkeypatch.setenv("METIER_POLICY", str(work / "policy.yaml"))

    return write


@pytest.fixture
def skill(work: Path, write_skill: Callable[..., Path]) -> Callable[..., Path]:
    """Writes the skill, and returns its folder; in a `sitecustomize.py`, our own scanner finds something high."""

    def write(body: str = "Say hello.", *, is_bad: bool = False) -> Path:
        folder = write_skill(work / "skills" / "greet", body=body).parent
        if is_bad:
            (folder / "sitecustomize.py").write_text("x = 1\n")
        return folder

    return write


@pytest.fixture
def scope() -> Iterator[TenantScope]:
    with Store.open() as store:
        yield store.of()


def outcome(work: Path, tenant: str | None = None) -> str:
    """Loads the skill as a model does; the code of the refusal, with the reason, if it is refused."""
    library = Library.from_folder(work / "skills", cache=False).as_caller(tenant=tenant)
    session = library.session(guard=Guard(audit=MemoryLog()), workspace=work / "workspace", user="ada")
    try:
        session.load("greet")
    except Refused as error:
        return f"{error.code}: {error.message}"
    return "loaded"


def kept(scope: TenantScope, out: str) -> dict[str, ScanRow]:
    """What the store has of the only skill that was scanned."""
    (said,) = json.loads(out)["skills"]
    return {row.engine: row for row in scope.scans.latest(said["digest"])}


@pytest.mark.covers("A-30")
def test_a_skill_is_refused_until_the_scanner_of_the_policy_has_looked_at_it(
    metier: Command, work: Path, policy: Policy, skill: Callable[..., Path], scope: TenantScope
) -> None:
    policy()
    folder = skill()
    assert outcome(work).startswith("not-examined: ")
    assert "The scanner little has not looked at it." in outcome(work)
    assert metier("scan", folder)[0] == 0
    assert outcome(work).startswith("not-examined: "), "what is not kept does not count"
    code, out, err = metier("scan", folder, "--keep")
    assert (code, err) == (0, "")
    assert out.splitlines()[-2:] == ["Kept what core says of 1 skill.", "Kept what little says of 1 skill."]
    assert outcome(work) == "loaded"
    skill("Say good bye.")
    assert outcome(work).startswith("not-examined: "), "another content was never looked at"


def test_what_is_kept_is_recorded_and_listed(
    metier: Command, policy: Policy, skill: Callable[..., Path], scope: TenantScope
) -> None:
    policy()
    folder = skill("It is dangerous.", is_bad=True)
    code, out, _ = metier("scan", folder, "--keep", "--json")
    (said,) = json.loads(out)["skills"]
    rows = kept(scope, out)
    assert code == 1
    assert {name: (row.status, row.max_severity) for name, row in rows.items()} == {
        "core": ("ok", "high"),
        "little": ("ok", "high"),
    }
    assert [(one["rule"], one["path"], one["line"], one["engine"]) for one in rows["little"].findings] == [
        ("DANGER", "SKILL.md", 5, "little")
    ]
    assert [(one["engine"], one["at"]) for one in said["kept"]] == [(row.engine, row.at) for row in rows.values()]
    assert {one["engine"] for one in said["findings"]} == {"core", "little"}
    records = scope.audit.search(type="scan.finished")
    assert [(one["skill"], one["digest"], one["user"], one["success"], one["reason"]) for one in records] == [
        ("greet", said["digest"], system_user(), True, "little found 1, the worst high."),
        ("greet", said["digest"], system_user(), True, "core found 1, the worst high."),
    ]
    assert all(one["policy"].startswith("sha256:") and one["path"] == f"{folder}/SKILL.md" for one in records)


def test_a_skill_can_be_named_as_the_library_has_it(
    metier: Command, work: Path, policy: Policy, skill: Callable[..., Path]
) -> None:
    policy()
    skill()
    code, out, _ = metier("--skills", "skills", "scan", "greet", "--keep", "--json")
    assert (code, [one["name"] for one in json.loads(out)["skills"]]) == (0, ["greet"])
    assert outcome(work) == "loaded"
    code, _, err = metier("--skills", "skills", "scan", "gret")
    assert code == 2
    assert "metier list" in err


@pytest.mark.parametrize(
    ("is_bad", "body", "expected"),
    [(True, "Say hello.", "loaded"), (False, "It is dangerous.", "loaded"), (True, "It is dangerous.", "rule-denied")],
    ids=["only ours", "only the other", "both"],
)
def test_a_rule_about_two_scanners_denies_when_both_say_so(
    metier: Command, work: Path, policy: Policy, skill: Callable[..., Path], is_bad: bool, body: str, expected: str
) -> None:
    policy(BOTH)
    assert metier("scan", skill(body, is_bad=is_bad), "--keep")[0] == 1
    assert outcome(work).partition(":")[0] == expected


@pytest.mark.covers("A-30")
def test_a_scanner_that_is_given_no_folder_makes_a_policy_that_nothing_begins_under(
    metier: Command, work: Path, policy: Policy, skill: Callable[..., Path]
) -> None:
    policy(run="scanner-without-a-folder")
    skill()
    assert outcome(work).startswith("policy-unreadable: ")
    code, out, _ = metier("policy", "check")
    assert code == 1
    assert f"{work / 'policy.yaml'}:3: error: `scan.engines`: 'scanner-without-a-folder' is no command" in out
    assert "Write {dir} where the folder belongs" in out


@pytest.mark.covers("A-30")
@thinned(("body", "run"), [("crash", None), ("give up", None), ("x", "no-such-scanner {dir}")], one_in=2)
def test_a_scanner_that_fails_is_kept_as_failed_and_leaves_a_skill_refused(
    metier: Command,
    work: Path,
    policy: Policy,
    command: str,
    skill: Callable[..., Path],
    scope: TenantScope,
    body: str,
    run: str | None,
) -> None:
    policy(BOTH, run=run or command)
    code, out, _ = metier("scan", skill(body, is_bad=True), "--keep", "--json", "--fail-on", "critical")
    assert code == 1
    row = kept(scope, out)["little"]
    assert (row.status, [one["rule"] for one in row.findings]) == ("error", ["SCAN_FAILED"])
    assert json.loads(out)["skills"][0]["status"] == "error"
    assert outcome(work).startswith("not-examined: The scanner little failed."), "that it failed is no finding"
    (record,) = [one for one in scope.audit.search(type="scan.finished") if "little" in one["reason"]]
    assert (record["success"], record["reason"].startswith("little failed. ")) == (False, True)
    _, out, _ = metier("scan", work / "skills", "--keep")
    assert "Kept what little says of 1 skill; it failed for 1." in out


def test_a_scanner_that_failed_and_works_again_counts(
    metier: Command, work: Path, policy: Policy, skill: Callable[..., Path]
) -> None:
    policy(run="no-such-scanner {dir}")
    metier("scan", skill(), "--keep")
    policy()
    assert outcome(work).startswith("not-examined: The scanner little failed.")
    assert metier("scan", "skills", "--keep")[0] == 0
    assert outcome(work) == "loaded"


def test_a_result_counts_for_as_long_as_policy_says(
    metier: Command, work: Path, policy: Policy, skill: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy(scan="  rescan-after: 7d\n")
    metier("scan", skill(), "--keep")
    now = time.time()
    for days, expected in ((6.9, "loaded"), (7.1, "not-examined: The scanner little looked at it too long ago.")):
        monkeypatch.setattr(time, "time", lambda days=days: now + days * 86_400)
        assert outcome(work).startswith(expected)
    policy()
    assert outcome(work) == "loaded", "without a limit it counts for ever"
    policy(scan="  rescan-after: 999999w\n")
    assert outcome(work) == "loaded"


def test_a_skill_that_is_scanned_again_in_time_can_be_used(
    metier: Command, work: Path, policy: Policy, skill: Callable[..., Path], scope: TenantScope
) -> None:
    policy(scan="  rescan-after: 7d\n")
    folder = skill()
    digest = Library.from_folder(work / "skills", cache=False).digest("greet")
    scope.scans.put(ScanRow(digest=digest, engine="little", max_severity="none", at="2020-01-01T00:00:00.000+00:00"))
    assert "too long ago" in outcome(work)
    metier("scan", folder, "--keep")
    assert outcome(work) == "loaded"


def test_the_results_of_one_tenant_are_none_of_another(
    metier: Command, work: Path, policy: Policy, skill: Callable[..., Path]
) -> None:
    policy()
    assert metier("scan", skill(), "--keep", "--tenant", "acme")[0] == 0
    assert outcome(work, tenant="acme") == "loaded"
    assert outcome(work, tenant="other").startswith("not-examined: ")
    assert outcome(work).startswith("not-examined: ")


def test_only_authors_keep_results(
    metier: Command,
    work: Path,
    policy: Policy,
    skill: Callable[..., Path],
    scope: TenantScope,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy()
    folder = skill()
    scope.people.add(Person(name="grace", roles=frozenset({"admin"})))
    scope.people.add(Person(name=system_user(), roles=frozenset({"viewer"})))
    scope.people.add(Person(name="ada", roles=frozenset({"author"})))
    code, out, err = metier("scan", folder, "--keep")
    assert (code, out) == (1, "")
    assert "[not-permitted]" in err
    assert [one["decision"] for one in scope.audit.search(type="scan.refused")] == ["deny"]
    assert metier("scan", folder)[0] == 0, "to look is anybody's"
    monkeypatch.setenv("METIER_API_TOKEN", scope.people.new_token("ada")[1])
    assert metier("scan", folder, "--keep")[0] == 0
    assert outcome(work) == "loaded"


def test_without_a_policy_our_own_scanner_is_kept(
    metier: Command, skill: Callable[..., Path], scope: TenantScope
) -> None:
    code, out, _ = metier("scan", skill(), "--keep", "--json")
    assert (code, [*kept(scope, out)]) == (0, ["core"])


def test_whoever_scans_does_not_choose_the_scanner(metier: Command, command: str, skill: Callable[..., Path]) -> None:
    code, _, err = metier("scan", skill(), "--keep", "--with", command)
    assert code == 2
    assert "scan.engines" in err


def test_what_cannot_be_read_is_not_kept(
    metier: Command, work: Path, skill: Callable[..., Path], scope: TenantScope
) -> None:
    (work / "x.zip").write_bytes(b"PK\x03\x04 broken")
    code, out, _ = metier("scan", "x.zip", skill(), "--keep", "--json")
    assert (code, [len(one["kept"]) for one in json.loads(out)["skills"]]) == (1, [1, 0])


# --- what others found ------------------------------------------------------------------------------------------------


def sarif(driver: str, *uris: str, level: str = "error") -> str:
    results = [
        {
            "ruleId": "OTHER",
            "level": level,
            "message": {"text": "bad"},
            "locations": [{"physicalLocation": {"artifactLocation": {"uri": uri}}}],
        }
        for uri in uris
    ]
    return json.dumps({"version": "2.1.0", "runs": [{"tool": {"driver": {"name": driver}}, "results": results}]})


def test_imported_findings_count_beside_the_others(
    metier: Command, work: Path, policy: Policy, skill: Callable[..., Path], scope: TenantScope
) -> None:
    policy(BOTH)
    folder = skill(is_bad=True)
    metier("scan", folder, "--keep")
    assert outcome(work) == "loaded"
    (work / "other.sarif").write_text(sarif("other", "skills/greet/SKILL.md"))
    _, out, _ = metier("scan", folder, "--keep", "--import", "other.sarif", "--json")
    assert {name: row.max_severity for name, row in kept(scope, out).items()} == {
        "core": "high",
        "little": "none",
        "other (imported)": "high",
    }
    assert outcome(work).startswith("rule-denied: ")


@thinned("driver", ["little", "metier", "core"], one_in=3)
def test_imported_findings_of_a_scanner_that_ran_are_added_to_what_it_says(
    metier: Command, policy: Policy, skill: Callable[..., Path], work: Path, scope: TenantScope, driver: str
) -> None:
    policy()
    (work / "other.sarif").write_text(sarif(driver, "SKILL.md"))
    _, out, _ = metier("scan", skill(), "--keep", "--import", "other.sarif", "--json")
    rows = kept(scope, out)
    own = "little" if driver == "little" else "core"
    assert {name: row.max_severity for name, row in rows.items()} == {"core": "none", "little": "none", own: "high"}


def test_an_import_is_no_look_of_a_scanner(
    metier: Command, work: Path, policy: Policy, skill: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = skill()
    (work / "other.sarif").write_text(sarif("little", "SKILL.md", level="note"))
    metier("scan", folder, "--keep", "--import", "other.sarif")  # where no policy names the scanner
    policy()
    assert "The scanner little has not looked at it." in outcome(work)


# --- what somebody answers for ----------------------------------------------------------------------------------------


def suppression(year: int) -> str:
    return f"- {{rule: DANGER, path: SKILL.md, reason: Ours., by: dana, expires: {year}-12-31}}\n"


@pytest.mark.covers("A-31")
def test_findings_of_other_scanners_do_not_count_while_somebody_answers_for_them(
    metier: Command, work: Path, policy: Policy, skill: Callable[..., Path]
) -> None:
    policy(BOTH, scan="  suppressions: ok.yaml\n")
    metier("scan", skill("It is dangerous.", is_bad=True), "--keep")
    assert outcome(work).startswith("rule-denied: ")
    (work / "ok.yaml").write_text(suppression(2999))
    assert outcome(work) == "loaded"
    (work / "ok.yaml").write_text(suppression(2020))
    assert outcome(work).startswith("rule-denied: ")


@pytest.mark.covers("A-31")
def test_whoever_scans_does_not_answer_for_findings_in_decisions(
    metier: Command, work: Path, policy: Policy, skill: Callable[..., Path], scope: TenantScope
) -> None:
    policy(BOTH)
    (work / "mine.yaml").write_text(suppression(2999) + suppression(2999).replace("DANGER", "AUTORUN_FILE"))
    folder = skill("It is dangerous.", is_bad=True)
    code, out, _ = metier("scan", folder, "--keep", "--suppressions", "mine.yaml", "--json")
    assert code == 1, "only one of two is in SKILL.md"
    assert outcome(work).startswith("rule-denied: ")
    assert all(not one["suppressed_by"] for row in kept(scope, out).values() for one in row.findings)


def test_nobody_answers_for_more_findings_than_are_kept(
    metier: Command, work: Path, policy: Policy, skill: Callable[..., Path], scope: TenantScope
) -> None:
    policy(BOTH, scan="  suppressions: ok.yaml\n")
    (work / "ok.yaml").write_text(suppression(2999))
    _, out, _ = metier("scan", skill("It is very dangerous.", is_bad=True), "--keep", "--json")
    assert len(kept(scope, out)["little"].findings) == 200
    assert len(json.loads(out)["skills"][0]["findings"]) == 301
    assert outcome(work).startswith("rule-denied: ")
