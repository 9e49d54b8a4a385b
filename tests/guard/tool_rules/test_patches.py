"""The files of `apply_patch` held against rules."""

from __future__ import annotations

import json
from typing import Any

import pytest

from metier import Guard, Policy
from metier.guard import Action, MemoryLog
from metier.guard.tool_rules.matching import forbids, permits
from metier.guard.tool_rules.patches import MAX_FILES
from metier.skill.tool_rules import parse_rules


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


CHANGE = ("*** Update File: docs/a.md", "@@ def a():", "-one", "+two", " three", "", "*** End of File")
MOVE = ("*** Update File: docs/a.md", "*** Move to: hooks/a", "@@", "-one", "+two")
ADD = ("*** Add File: docs/new.md", "+*** Add File: /etc/passwd", "+\ttext")


def allowed(rules: str, text: str) -> bool:
    return permits(parse_rules(rules), "apply_patch", {"input": text}, workspace="/nowhere").allowed


def forbidden(rules: str, text: str) -> bool:
    return forbids(parse_rules(rules), "apply_patch", {"input": text}, workspace="/nowhere") is not None


@pytest.mark.each("tool", ["apply_patch", "Apply_Patch", "text_editor"])
def test_tools_for_patches_are_tools_for_editing(tool: str) -> None:
    guard = Guard(Policy(deny="Edit"), audit=MemoryLog())
    assert guard.decide(Action(point="call", tool=tool, arguments={"input": patch(*ADD)})).outcome == "deny"


@pytest.mark.each(
    ("rules", "lines", "is_allowed"),
    [
        ("Edit(docs/**)", CHANGE, True),
        ("Edit", CHANGE, True),
        ("*", CHANGE, True),
        ("Write", CHANGE, False),
        ("Edit(src/**)", CHANGE, False),
        ("Edit(docs/**)", ("*** Update File: docs/../a.md", "@@", "+x"), False),
        ("Edit(docs/**)", (*CHANGE, "*** Update File: src/b", "@@", "+x"), False),
        ("Edit(docs/**) Edit(src/*)", (*CHANGE, "*** Update File: src/b", "@@", "+x"), True),
        ("Edit", ADD, False),
        ("Write(docs/**)", ADD, True),
        ("Edit", ("*** Delete File: docs/a.md",), False),
        ("Write(docs/**)", ("*** Delete File: docs/a.md",), True),
        ("Edit(docs/**) Write(docs/**)", MOVE, False),
        ("Edit(docs/**) Write(hooks/*)", MOVE, True),
        # In a line that some programs take for a header.
        ("Edit(docs/**)", (*CHANGE, " *** Update File: src/b"), False),
    ],
)
def test_each_file_of_a_patch_has_to_be_allowed(rules: str, lines: tuple[str, ...], is_allowed: bool) -> None:
    assert allowed(rules, patch(*lines)) is is_allowed
    assert allowed(rules, patch(*lines).replace("\n", "\r\n") + "\r\n") is is_allowed


@pytest.mark.each(
    ("rules", "lines", "is_forbidden"),
    [
        ("Edit(docs/**)", CHANGE, True),
        ("Edit(src/**) Write", CHANGE, False),
        ("Write(docs/**)", ADD, True),
        ("Edit(docs/**)", ADD, True),
        ("Write(/etc/**) Edit(/etc/**)", ADD, False),
        ("Write(hooks/**)", MOVE, True),
        ("Write(docs/**)", ("*** Delete File: docs/a.md",), True),
        ("Read Bash", CHANGE, False),
        ("Edit(docs/**", CHANGE, True),
    ],
)
def test_one_file_that_is_forbidden_is_enough(rules: str, lines: tuple[str, ...], is_forbidden: bool) -> None:
    assert forbidden(rules, patch(*lines)) is is_forbidden


UNREADABLE = [
    "",
    patch(),
    "*** Update File: docs/a.md",
    "\n".join(CHANGE),
    patch(*CHANGE) + "\n*** Add File: x",
    patch("*** Update File: "),
    '{"type": "update_file", "path": ""}',
    patch("*** Update File:  docs/a.md"),
    patch("*** update file: docs/a.md", "@@"),
    patch("*** Rename File: docs/a.md", "@@"),
    patch("*** Update File: docs/a\u2028b", "@@"),
    patch(*CHANGE, "+x\x0c*** Add File: y"),
    patch(*CHANGE, "+x\r*** Add File: y"),
    patch(*CHANGE, "rename to x"),
    patch(*CHANGE, "--- a/x", "+++ b/x", "@@ -1 +1 @@"),
    patch(*CHANGE, " --- a/x", " +++ b/x", "@@ -1 +1 @@"),
    patch(*(f"*** Delete File: docs/{number}" for number in range(MAX_FILES + 1))),
    "--- a/docs/a.md\n+++ b/docs/a.md\n@@ -1 +1 @@\n-a\n+b\n",
    "[]",
    "{",
    "[" * 100_000,
    '{"type": "update_file", "path": "docs/a.md", "new_path": "x"}',
    '{"type": "rename_file", "path": "docs/a.md"}',
    '{"operations": {"type": "update_file"}}',
    '{"operations": "docs/a.md"}',
]


@pytest.mark.each("text", UNREADABLE, ids=range(len(UNREADABLE)))
def test_a_patch_that_cannot_be_read_needs_all_files_and_is_touched_by_every_rule(text: str) -> None:
    assert not allowed("Edit(docs/**) Write(docs/**)", text)
    assert not allowed("Edit Write(docs/**)", text)
    assert allowed("Edit Write", text)
    assert forbidden("Edit(src/**)", text)
    assert forbidden("Write(src/**)", text)
    assert not forbidden("Read(src/**)", text)


OPERATION = {"type": "update_file", "path": "docs/a.md", "diff": "@@\n+x", "move_to": "hooks/a"}


@pytest.mark.each(
    "arguments",
    [
        OPERATION,
        {"operation": OPERATION},
        {"operations": [{"type": "delete_file", "path": "docs/b.md"}, OPERATION]},
        {"input": json.dumps(OPERATION)},
        {"input": json.dumps([OPERATION])},
        {"patch": json.dumps({"operations": [OPERATION]})},
    ],
)
def test_operations_are_read_like_a_patch(arguments: dict[str, Any]) -> None:
    docs = "Edit(docs/**) Write(docs/**)"
    assert not permits(parse_rules(docs), "apply_patch", arguments, workspace="/nowhere").allowed
    assert permits(parse_rules(f"{docs} Write(hooks/*)"), "apply_patch", arguments, workspace="/nowhere").allowed
    assert forbids(parse_rules("Write(hooks/**)"), "apply_patch", arguments, workspace="/nowhere") is not None
    assert forbids(parse_rules("Write(src/**)"), "apply_patch", arguments, workspace="/nowhere") is None


def test_what_was_decided_about_one_patch_is_not_taken_for_another() -> None:
    guard = Guard(Policy(deny="Write"), audit=MemoryLog())

    def decided(*lines: str) -> str:
        return guard.decide(Action(point="call", tool="apply_patch", arguments={"input": patch(*lines)})).outcome

    assert [decided(*CHANGE), decided(*ADD), decided(*CHANGE)] == ["allow", "deny", "allow"]


def test_a_refusal_says_which_file_needs_what() -> None:
    refused = permits(parse_rules("Edit(docs/**)"), "apply_patch", {"input": patch(*MOVE)}, workspace="/nowhere")
    assert refused.reason == "The patch needs Write for `hooks/a`, and what is allowed is: Edit(docs/**)."
    found = forbids(parse_rules("Write(hooks/**)"), "apply_patch", {"input": patch(*MOVE)}, workspace="/nowhere")
    assert found is not None
    assert found.reason == "The patch is about `hooks/a`, forbidden by Write(hooks/**)."
