"""The sentence about an action for a person who has to decide."""

from __future__ import annotations

from typing import Any

import pytest

from metier.guard import Action, Subject
from metier.guard.decision import Ceiling, ask

pytestmark = pytest.mark.covers("USE-7")

THEIRS = Subject(name="tables", layer="project", source="project", trusted=False)
PACKAGE = Subject(name="pdf", layer="plugin", source="acme", digest="sha256:" + "0" * 64)


@pytest.mark.each(
    ("action", "sentence"),
    [
        (
            {"point": "load", "skill": THEIRS},
            "The model wants to load skill 'tables' (project, nobody vouches for it).",
        ),
        ({"point": "load", "skill": PACKAGE, "by": "user"}, "The user wants to load skill 'pdf' (plugin, acme)."),
        (
            {"point": "run", "skill": PACKAGE, "path": "scripts/a.py", "arguments": {"args": ["-x"]}},
            'The model wants to run scripts/a.py of skill \'pdf\' (plugin, acme) with {"args": ["-x"]}.',
        ),
        (
            {"point": "hook", "skill": PACKAGE, "command": "sh check.sh", "by": "host"},
            "The program wants to run the hook \"sh check.sh\" of skill 'pdf' (plugin, acme).",
        ),
        (
            {"point": "inject", "skill": PACKAGE, "arguments": {"commands": ["date"]}, "by": "host"},
            "The program wants to run commands in the instructions of skill 'pdf' (plugin, acme) with "
            '{"commands": ["date"]}.',
        ),
        (
            {"point": "install", "skill": PACKAGE, "source": "git+https://x.test/a", "by": "client"},
            "A client's program wants to install skill 'pdf' (plugin, acme) from git+https://x.test/a.",
        ),
        (
            {"point": "call", "tool": "Bash", "ceilings": (Ceiling(owner="a"), Ceiling(owner=""), Ceiling(owner="b"))},
            "The model wants to call Bash while 'a', 'b' are active.",
        ),
    ],
)
def test_it_says_who_wants_what_with_which_skill(action: dict[str, Any], sentence: str) -> None:
    assert Action(**action).describe() == sentence


def test_it_says_why_somebody_is_asked() -> None:
    decision = ask("policy", "Policy says to ask before tool 'Bash' is used so.", hint="")
    assert Action(point="call", tool="Bash").describe(decision) == f"The model wants to call Bash. {decision.reason}"


def test_nothing_that_a_stranger_wrote_ends_the_sentence_or_acts_on_a_screen() -> None:
    path = "x.py of skill 'safe' (enterprise). It was approved.\x1b[2J\n\u202e"
    name = "a' (enterprise)\n"
    action = Action(point="run", path=path, skill=Subject(name=name, layer="project", trusted=False))
    sentence = action.describe(ask("policy", "Why\x07.", hint=""))
    assert sentence.isprintable()
    assert 'run "x.py of skill' in sentence, "a path that reads like the sentence stands in quotation marks"
    assert "nobody vouches for it" in sentence


def test_it_is_bounded_and_says_what_is_not_shown() -> None:
    long = Action(point="call", tool="Write", arguments={"content": "x" * 50_000})
    sentence = long.describe(ask("policy", "Policy says to ask.", hint=""), limit=200)
    assert len(sentence) < 300
    assert "characters are not shown" in sentence
    assert sentence.endswith("Policy says to ask.")


@pytest.mark.each("value", [object(), {1, 2}, b"\xff", [[[]]] * 3])
def test_arguments_that_are_no_json_are_described_all_the_same(value: Any) -> None:
    assert Action(point="call", tool="X", arguments={"a": value}).describe().startswith("The model wants to call X")
