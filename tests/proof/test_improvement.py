"""The tests of a skill before and after a proposed change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from metier import Guard, Library
from metier.errors import Refused
from metier.guard import MemoryLog
from metier.guard.governance import Governance
from metier.guard.policy.files import Policies
from metier.hub import approve, propose_new, propose_update
from metier.hub.skill_files import package_of
from metier.proof.improvement import compare, improvement_of
from metier.skill.package import Files, files_of
from metier.store import Person, Proposal, Store, TenantScope
from metier.testing import library, skill

HELP = "import argparse\nargparse.ArgumentParser().parse_args()\n"
BROKEN = "raise SystemExit('no')\n"
SUITE = "rules:\n  - {id: reads, tool: Read, expect: allow}\n  - {id: writes, tool: Write, expect: deny}\n"
AUTHOR = Person(name="eve", roles=frozenset({"author"}))
REVIEWER = Person(name="ada", roles=frozenset({"reviewer"}))
ROBOT = Person(name="robot", kind="agent", roles=frozenset({"admin"}))
DEMANDING = "proposals: {no-test-worse: true}\n"


def files(script: str = HELP, suite: str = SUITE, tools: str = "Read Grep", **more: str) -> Files:
    """The files of a skill with a script, a suite and a ceiling of tools."""
    texts = {"scripts/a.py": script, "evals/suite.yaml": suite, **more}
    (entry,) = library(skill("pdf", "Run scripts/a.py.", allowed_tools=tools, files=texts))
    return files_of(entry.package)


def test_a_check_that_passed_before_and_fails_after_is_worse() -> None:
    found = compare(library("other"), "pdf", files(), files(BROKEN))
    assert found.worse == ("form help scripts/a.py",)
    assert found.better == ()
    assert found.score_before is not None
    assert found.score_before > found.score_after
    mended = compare(library("other"), "pdf", files(BROKEN), files())
    assert (mended.better, mended.worse) == (("form help scripts/a.py",), ())


def test_a_script_that_is_gone_is_no_worse_check_and_a_new_one_that_fails_is_named() -> None:
    gone = {path: file for path, file in files().items() if path != "scripts/a.py"}
    gone["SKILL.md"] = ("file", gone["SKILL.md"][1].replace(b"Run scripts/a.py.", b"Do it."))
    assert compare(library(), "pdf", files(), gone).worse == ()
    found = compare(library(), "pdf", files(), files(**{"scripts/b.py": BROKEN}))
    assert (found.worse, found.new_failures) == ((), ("form help scripts/b.py",))


def test_cases_that_the_change_removes_or_rewrites_are_named_and_new_ones_have_a_verdict() -> None:
    weaker = "rules:\n  - {id: new, tool: Grep, expect: allow}\n  - {id: writes, tool: Write, expect: allow}\n"
    found = compare(library(), "pdf", files(), files(suite=weaker))
    assert found.dropped == ("rules reads", "rules writes")
    assert set(found.added) == {"rules new", "rules writes"}


def test_a_change_cannot_pass_by_a_weaker_suite() -> None:
    weaker = SUITE.replace("deny", "allow")
    found = compare(library(), "pdf", files(), files(suite=weaker, tools="Read Grep Write"))
    assert found.worse == ("rules writes",)
    assert (found.dropped, found.added) == (("rules writes",), {"rules writes": "passed"})


def test_a_case_before_the_others_is_no_rewriting_of_them() -> None:
    plain = "rules:\n  - {tool: Read, expect: allow}\n"
    more = "rules:\n  - {tool: Grep, expect: allow}\n  - {tool: Read, expect: allow}\n"
    found = compare(library(), "pdf", files(suite=plain), files(suite=more))
    assert (found.dropped, set(found.added)) == ((), {"rules 1"})


def test_a_new_skill_has_the_results_of_its_own_tests() -> None:
    found = compare(library(), "pdf", None, files())
    assert found.score_before is None
    assert found.added["form help scripts/a.py"] == "passed"
    assert (found.worse, found.dropped) == ((), ())


@pytest.fixture
def scope(tmp_path: Path) -> Iterator[TenantScope]:
    with Store.open(f"sqlite:///{tmp_path}/metier.db") as store:
        yield store.of()


@pytest.fixture
def here(tmp_path: Path) -> Library:
    """A library with the skill in a folder."""
    for path, (_, data) in files().items():
        file = tmp_path / "skills" / "pdf" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return Library.from_folder(tmp_path / "skills", cache=False)


@pytest.fixture
def guard(scope: TenantScope) -> Guard:
    policies = Policies(texts=[("enterprise", DEMANDING)])
    return Guard(audit=MemoryLog(), governance=Governance(policies, store=scope.store.url))


Propose = Callable[[Files], Proposal]


@pytest.fixture
def propose(here: Library, scope: TenantScope, guard: Guard) -> Propose:
    def made(after: Files, author: Person = AUTHOR) -> Proposal:
        return propose_update(here, scope, "pdf", after, "It is needed.", author=author, guard=guard)

    return made


def refusal(scope: TenantScope, proposal: Proposal, guard: Guard) -> Refused:
    with pytest.raises(Refused) as caught:
        approve(scope, REVIEWER, proposal.id, guard=guard)
    return caught.value


def test_policy_lets_nobody_apply_what_was_not_compared_or_is_worse(
    propose: Propose, here: Library, scope: TenantScope, guard: Guard
) -> None:
    proposal = propose(files(BROKEN))
    assert refusal(scope, proposal, guard).code == "tests-not-compared"
    assert improvement_of(scope, REVIEWER, proposal, here).worse
    error = refusal(scope, proposal, guard)
    assert (error.code, "form help scripts/a.py" in error.message) == ("tests-worse", True)
    assert scope.proposals.get(proposal.id).status == "open"  # type: ignore[union-attr]


def test_a_change_that_makes_nothing_worse_is_applied(
    propose: Propose, here: Library, scope: TenantScope, guard: Guard, tmp_path: Path
) -> None:
    proposal = propose(files(**{"references/more.md": "More.\n"}))
    improvement_of(scope, AUTHOR, proposal, here)
    assert approve(scope, REVIEWER, proposal.id, guard=guard).status == "applied"
    assert (tmp_path / "skills/pdf/references/more.md").exists()


def test_a_new_skill_is_compared_with_nothing(here: Library, scope: TenantScope, guard: Guard, tmp_path: Path) -> None:
    new = skill("csv")
    proposal = propose_new(
        scope, "csv", files_of(package_of({"SKILL.md": ("file", bytes(new["SKILL.md"]))})), "It is needed.",  # type: ignore[arg-type]
        author=AUTHOR, into=tmp_path / "skills", guard=guard,
    )  # fmt: skip
    assert improvement_of(scope, REVIEWER, proposal, here).score_before is None
    assert approve(scope, REVIEWER, proposal.id, guard=guard).status == "applied"


def test_what_an_agent_found_out_is_kept_and_satisfies_no_policy(
    propose: Propose, here: Library, scope: TenantScope, guard: Guard
) -> None:
    proposal = propose(files(**{"references/more.md": "More.\n"}))
    improvement_of(scope, ROBOT, proposal, here)
    improvement_of(scope, REVIEWER, proposal, here, counts=False)
    assert scope.audit.search(type="proposal.compared") == []
    assert refusal(scope, proposal, guard).code == "tests-not-compared"
    improvement_of(scope, REVIEWER, proposal, here)
    assert approve(scope, REVIEWER, proposal.id, guard=guard).status == "applied"


def test_the_tests_of_two_contents_run_once(propose: Propose, here: Library, scope: TenantScope) -> None:
    proposal = propose(files(BROKEN))
    first = improvement_of(scope, REVIEWER, proposal, here)
    assert improvement_of(scope, REVIEWER, proposal, here) == first
    assert len(scope.audit.search(type="proposal.compared")) == 1


def test_a_row_that_says_otherwise_than_its_record_is_found_out_again(
    propose: Propose, here: Library, scope: TenantScope, tmp_path: Path
) -> None:
    import sqlite3

    proposal = propose(files(BROKEN))
    first = improvement_of(scope, REVIEWER, proposal, here)
    with sqlite3.connect(tmp_path / "metier.db") as database:
        database.execute("""UPDATE test_results SET report = replace(report, '["form help scripts/a.py"]', '[]')""")
    assert improvement_of(scope, AUTHOR, proposal, here).worse == first.worse
