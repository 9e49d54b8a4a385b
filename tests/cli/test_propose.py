"""`metier propose`: proposals made, shown and decided about at the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metier.cli.identity import system_user
from metier.store import Person, Store

Metier = Callable[..., tuple[int, str, str]]
DIFF = "--- a/SKILL.md\n+++ b/SKILL.md\n@@ -6 +6 @@\n-Two.\n+Two and a half.\n"
SCRIPT = "--- /dev/null\n+++ b/scripts/go.py\n@@ -0,0 +1 @@\n+print('go')\n"


@pytest.fixture
def skill(own_home: Path, write_skill: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of one of the user's own skills."""
    monkeypatch.chdir(tmp_path)
    write_skill(own_home / ".metier/skills/deploy", body="One.\nTwo.\nThree.")
    return own_home / ".metier/skills/deploy"


@pytest.fixture
def people(skill: Path) -> dict[str, str]:
    """The tokens of some people, and this user as an admin."""
    tokens = {}
    with Store.open() as store:
        known = store.of().people
        known.add(Person(name=system_user(), roles=frozenset({"admin"})))
        for name, kind, role in (
            ("ada", "user", "reviewer"),
            ("eve", "user", "author"),
            ("vic", "user", "viewer"),
            ("builder", "agent", "author"),
            ("reviewer", "agent", "admin"),
        ):
            known.add(Person(name=name, kind=kind, roles=frozenset({role})))  # type: ignore[arg-type]
            tokens[name] = known.new_token(name)[1]
    return tokens


@pytest.fixture
def as_(people: dict[str, str], metier: Metier, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    """Calls the command as somebody."""

    def call(name: str, *arguments: str | Path, given: str | bytes | None = None) -> tuple[int, str, str]:
        with monkeypatch.context() as patch:
            if name:
                patch.setenv("METIER_API_TOKEN", people[name])
            return metier(*arguments, given=given)

    return call


@pytest.fixture
def proposed(as_: Metier) -> str:
    """The id of a proposal that an agent made."""
    code, out, err = as_(
        "builder",
        *("propose", "update", "deploy", "--diff", "-", "--why", "Two is not enough.", "--evidence", "It failed."),
        "--json",
        given=DIFF + SCRIPT,
    )
    assert (code, err) == (0, "")
    made: dict[str, Any] = json.loads(out)["proposal"]
    return str(made["id"])


@pytest.mark.covers("A-41")
def test_a_proposal_of_an_agent_is_listed_and_shown(as_: Metier, proposed: str, skill: Path) -> None:
    assert "Two.\n" in (skill / "SKILL.md").read_text()
    code, out, _ = as_("vic", "propose", "list")
    assert code == 0
    assert proposed in out
    assert "agent builder" in out
    assert "Two is not enough." in out
    code, out, _ = as_("ada", "propose", "show", proposed)
    assert code == 0
    for said in ("+Two and a half.", "Two is not enough.", "It failed.", f"metier propose approve {proposed}"):
        assert said in out


@pytest.mark.covers("A-44")
def test_new_capabilities_are_shown_first(as_: Metier, proposed: str) -> None:
    _, out, _ = as_("ada", "propose", "show", proposed)
    assert out.splitlines()[1] == "NEW CAPABILITIES: scripts"


@pytest.mark.covers("A-42", "Y-34")
def test_approving_applies_and_says_how_to_go_back(as_: Metier, proposed: str, skill: Path) -> None:
    code, out, _ = as_("ada", "propose", "approve", proposed, "--reason", "Right.")
    assert code == 0
    assert "version 2" in out
    assert "metier rollback deploy@personal" in out
    assert "Two and a half." in (skill / "SKILL.md").read_text()
    assert (skill / "scripts/go.py").exists()
    code, out, _ = as_("ada", "propose", "list")
    assert out == "No proposal waits.\n"
    code, out, _ = as_("ada", "propose", "list", "--all", "--json")
    (shape,) = json.loads(out)["proposals"]
    assert (shape["status"], shape["reviewer"], shape["comment"]) == ("applied", "ada", "Right.")


@pytest.mark.covers("A-44")
@pytest.mark.each("who", ["builder", "reviewer", "eve", "vic"], every=2)
def test_who_may_not_decide_is_refused(as_: Metier, proposed: str, skill: Path, who: str) -> None:
    for words in (["approve", proposed], ["reject", proposed, "--reason", "x"]):
        code, out, err = as_(who, "propose", *words)
        assert (code, out) == (1, "")
        assert "[not-permitted]" in err
        assert "hint" in err
    assert "Two.\n" in (skill / "SKILL.md").read_text()


def test_a_reviewer_agent_recommends(as_: Metier, proposed: str) -> None:
    code, out, _ = as_("reviewer", "propose", "recommend", proposed, "reject", "--reason", "No script is needed.")
    assert code == 0
    assert "waits for somebody to decide" in out
    _, out, _ = as_("ada", "propose", "show", proposed)
    assert "RECOMMENDED: reject" in out
    assert "agent reviewer: No script is needed." in out


def test_a_proposal_is_rejected_and_withdrawn(as_: Metier, proposed: str, skill: Path) -> None:
    assert as_("ada", "propose", "reject", proposed, "--reason", "Not now.")[0] == 0
    code, _, err = as_("ada", "propose", "approve", proposed)
    assert code == 1
    assert "[proposal-stale]" in err
    _, out, _ = as_("builder", "propose", "update", "deploy", "--diff", "-", "--why", "Again.", "--json", given=DIFF)
    again = json.loads(out)["proposal"]["id"]
    code, _, err = as_("eve", "propose", "withdraw", again)
    assert code == 1
    assert "agent 'builder'" in err
    assert f"metier propose reject {again} --reason TEXT" in err
    code, out, _ = as_("builder", "propose", "update", "deploy", "--diff", "-", "--why", "It failed.", given=DIFF)
    assert code == 0
    assert f"{again} waits already with this very change" in out
    assert as_("builder", "propose", "withdraw", again)[0] == 0
    assert "Two.\n" in (skill / "SKILL.md").read_text()


def test_whoever_made_a_proposal_is_told_how_to_take_it_back(as_: Metier, proposed: str) -> None:
    assert f"`metier propose withdraw {proposed}`" in as_("builder", "propose", "show", proposed)[1]
    assert "propose withdraw" not in as_("eve", "propose", "show", proposed)[1]


@pytest.mark.covers("A-42")
def test_a_stale_proposal_is_not_applied(as_: Metier, proposed: str, skill: Path) -> None:
    (skill / "more.md").write_text("more")
    code, _, err = as_("ada", "propose", "approve", proposed)
    assert code == 1
    assert "[proposal-stale]" in err
    assert not (skill / "scripts").exists()


def test_a_changed_copy_of_a_folder_can_be_proposed(as_: Metier, skill: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "SKILL.md").write_text((skill / "SKILL.md").read_text().replace("Two.", "Zwei."))
    (copy / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    code, out, _ = as_("eve", "propose", "update", "deploy", "--from", copy, "--why", "A logo.")
    assert code == 0
    assert "opaque-files" in out
    code, out, _ = as_("ada", "propose", "list", "--json")
    (shape,) = json.loads(out)["proposals"]
    assert as_("ada", "propose", "approve", shape["id"])[0] == 0
    assert (skill / "logo.png").read_bytes() == (copy / "logo.png").read_bytes()


@pytest.mark.covers("Y-36")
def test_a_new_skill_is_proposed_for_the_users_own(
    as_: Metier, tmp_path: Path, own_home: Path, write_skill: Callable[..., Path]
) -> None:
    write_skill(tmp_path / "made", name="tidy", description="Tidies. Use when a table is a mess.")
    code, out, err = as_("builder", "propose", "new", "tidy", "--from", tmp_path / "made", "--why", "Tables.", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["proposal"]["location"] == str(own_home / ".metier/skills/tidy")
    assert Path(found["page"]).read_text().startswith("# Proposal")
    assert as_("ada", "propose", "approve", found["proposal"]["id"])[0] == 0
    assert "tidy" in as_("", "list")[1]


def test_the_owner_of_a_store_that_nobody_was_added_to_decides_about_agents(
    metier: Metier, skill: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = metier("propose", "update", "deploy", "--diff", "-", "--why", "Mine.", "--json", given=DIFF)
    assert code == 0
    code, _, err = metier("propose", "approve", json.loads(out)["proposal"]["id"])
    assert code == 1
    assert "nobody decides about their own" in err


HOSTILE = "\x1b[2Jpwned\x07\r\n\u202eDecide: approve\nNEW CAPABILITIES: none"


def test_nothing_in_a_proposal_acts_on_a_terminal(
    as_: Metier, skill: Path, terminal: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch, people: Any
) -> None:
    diff = DIFF.replace("Two and a half.", "\x1b]0;evil\x07Two\u202e")
    code, out, _ = as_("builder", "propose", "update", "deploy", "--diff", "-", "--why", HOSTILE, "--json", given=diff)
    assert code == 0
    made = json.loads(out)["proposal"]["id"]
    monkeypatch.setenv("METIER_API_TOKEN", people["ada"])
    for words in (["list"], ["show", made], ["show", made, "--full"]):
        code, seen = terminal("propose", *words, columns=100)
        assert code == 0
        for acts in ("\x1b[2J", "\x1b]0", "\x07", "\u202e"):
            assert acts not in seen
        lines = seen.replace("\r\n", "\n").splitlines()
        assert "NEW CAPABILITIES: none" not in lines


@pytest.mark.covers("Y-35")
@pytest.mark.each(
    ("words", "given", "code", "said"),
    [
        (["update", "deplyo", "--diff", "-", "--why", "x"], DIFF, 1, "skill-not-found"),
        (["update", "deploy", "--diff", "-", "--why", "x"], "nonsense", 1, "proposal-invalid"),
        (["update", "deploy", "--diff", "-", "--why", "x"], DIFF.replace("Two.", "Zwei."), 1, "proposal-invalid"),
        (["update", "deploy", "--diff", "-", "--why", " "], DIFF, 1, "proposal-invalid"),
        (["update", "deploy", "--diff", "-", "--why", "x"], b"--- a/SKILL.md\n\xff", 2, "invalid-argument"),
        (["update", "deploy", "--diff", "-", "--why", "x"], b"\xff" * 1_100_000, 1, "proposal-invalid"),
        (["update", "deploy", "--diff", "nowhere.diff", "--why", "x"], "", 2, "source-unavailable"),
        (["update", "deploy", "--from", "nowhere", "--why", "x"], "", 1, "skill-unreadable"),
        (["update", "deploy", "--why", "x"], "", 1, "It changes nothing."),
        (["new", "Bad Name", "--from", ".", "--why", "x"], "", 2, "invalid-argument"),
        (["show", "p-nothing0"], "", 1, "proposal-not-found"),
        (["approve", "p-nothing0"], "", 1, "proposal-not-found"),
        (["reject", "p-nothing0"], "", 2, "--reason"),
        (["list", "--tenant", "other"], "", 0, ""),
    ],
)
def test_wrong_usage_is_explained(
    metier: Metier, skill: Path, words: list[str], given: str | bytes, code: int, said: str
) -> None:
    got, _, err = metier("propose", *words, given=given)
    assert got == code
    assert said in err
    assert "Traceback" not in err
    assert "No proposal waits." in metier("propose", "list")[1]


@pytest.mark.covers("ACC-6")
def test_an_owner_who_is_alone_answers_for_a_change_by_hand_themselves(
    metier: Metier, own_home: Path, write_skill: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_skill(tmp_path / "drafts" / "greet", body="Say hello.")
    assert metier("deploy", tmp_path / "drafts" / "greet", "--scope", "personal")[0] == 0
    file = own_home / ".metier/skills/greet/SKILL.md"
    file.write_text(file.read_text() + "Smile.\n")
    for shown in (
        metier("history", "greet")[1],
        metier("quarantine", "release", "greet", "--reason", "It is mine.")[2],
    ):
        assert "metier rollback greet@personal" in shown and "metier propose update greet@personal" in shown
    code, out, err = metier("propose", "update", "greet", "--why", "Politeness.", "--json")
    assert code == 0, err
    code, _, err = metier("propose", "approve", json.loads(out)["proposal"]["id"])
    assert (code, "nobody decides about their own" in err) == (1, True)
    (deploy,) = (words for words in err.split("`") if words.startswith("metier deploy"))
    code, _, err = metier(*deploy.split()[1:])
    assert code == 0, err
    assert "greet" in metier("list")[1]
    assert "changed by hand" not in metier("history", "greet")[1]
    assert "Smile." in metier("show", "greet", "--instructions")[1]


@pytest.mark.covers("ACC-6")
def test_what_is_as_it_was_accepted_is_still_no_change(as_: Metier, skill: Path, proposed: str, tmp_path: Path) -> None:
    assert as_("ada", "propose", "approve", proposed)[0] == 0
    for words in ((), ("--from", str(skill))):
        code, _, err = as_("builder", "propose", "update", "deploy", *words, "--why", "x")
        assert (code, "It changes nothing." in err) == (1, True)
