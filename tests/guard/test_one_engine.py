"""Only the guard constructs decisions: by type, at run time, and in the source of all rooms."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

import pytest
from tests.syntax import modules_outside

from metier.guard.decision import Decision, refuse

FOR_OTHERS = {"refuse", "unguarded", "sentence_of", "written", "declared_ceiling"}
"""The names in lower or upper case of `metier.guard.decision` that other rooms may import, beside its classes."""


MAY_BE_WRONG = re.compile(
    r"\bDecision\(|\boutcome=|from metier\.guard\.decision import|"
    r"from metier\.guard import (?:\([^)]*|[^\n]*)\bdecision\b"
)
"""One of these stands in the text of every module with something to find: no other needs to be parsed."""


def wrongs(text: str) -> list[str]:
    """The constructions of decisions in a module, and the imports of functions that construct them."""
    found = []
    for node in ast.walk(ast.parse(text)) if MAY_BE_WRONG.search(text) else ():
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name == "Decision":
                found.append(f"line {node.lineno}: Decision(...)")
            for word in node.keywords:
                value = word.value.value if isinstance(word.value, ast.Constant) else None
                if word.arg == "outcome" and value in ("allow", "ask", "deny"):
                    found.append(f"line {node.lineno}: outcome={value!r}")
        elif isinstance(node, ast.ImportFrom) and node.module == "metier.guard.decision":
            names = [alias.name for alias in node.names]
            found += [f"line {node.lineno}: {one}" for one in names if not one[0].isupper() and one not in FOR_OTHERS]
            found += [f"line {node.lineno}: {one}" for one in names if one.startswith("_")]
        elif isinstance(node, ast.ImportFrom) and node.module == "metier.guard":
            found += [f"line {node.lineno}: {alias.name}" for alias in node.names if alias.name == "decision"]
    return found


def test_no_other_room_constructs_a_decision() -> None:
    paths = modules_outside("bundled", "guard")
    assert {path.as_posix(): wrong for path in paths if (wrong := wrongs(path.read_text("utf-8")))} == {}


@pytest.mark.each(
    "text",
    [
        "Decision(outcome=x)",
        "guard.Decision()",
        "make(outcome='deny')",
        "replace(one, outcome='allow')",
        "from metier.guard.decision import allow",
        "from metier.guard.decision import amend, refuse",
        "from metier.guard.decision import _SEAL",
        "from metier.guard import decision",
    ],
)
def test_a_construction_is_seen(text: str) -> None:
    assert wrongs(text)


def test_a_decision_cannot_be_constructed_without_the_seal_of_the_guard() -> None:
    # The checker refuses each of these too: `warn_unused_ignores` would report a comment that it does not need.
    with pytest.raises(TypeError, match="seal"):
        Decision(outcome="allow", reason="I say so.")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Only the guard"):
        Decision(seal=object(), outcome="allow", reason="I say so.")  # type: ignore[arg-type]
    with pytest.raises((TypeError, ValueError), match="seal"):  # another one since Python 3.13
        replace(refuse("rule", "No."), outcome="allow")  # type: ignore[call-arg]


def test_other_rooms_can_refuse_and_never_allow() -> None:
    refusal = refuse("rule", "No.", code="no", hint="Do without.")
    assert (refusal.outcome, refusal.rule, refusal.is_allowed) == ("deny", "rule", False)
    with pytest.raises(TypeError):
        refuse("rule", "Yes.", outcome="allow")
    assert refusal.with_hint("Ask.").outcome == "deny"
    assert refusal.as_error().code == "no"
