"""Every diagnostic reads as a sentence and is safe to print."""

from __future__ import annotations

import ast
import re
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import metier
from metier.skill import DIAGNOSTIC_KINDS, Diagnostic, shown

SOURCE = Path(metier.__file__).parent


def fields_of(template: str) -> set[int]:
    return {int(name) for _, name, _, _ in string.Formatter().parse(template) if name is not None}


@pytest.mark.each("code", sorted(DIAGNOSTIC_KINDS))
def test_every_kind_reads_as_a_sentence_with_a_way_out(code: str) -> None:
    kind = DIAGNOSTIC_KINDS[code]
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code)
    assert kind.severity in ("info", "warning", "error")
    used = fields_of(kind.message) | fields_of(kind.hint)
    assert used == set(range(len(used)))
    found = Diagnostic(code, 3, tuple(f"value{i}" for i in used))
    assert found.severity == kind.severity
    assert found.message
    assert found.hint
    assert "{" not in found.message + found.hint
    assert found.message[-1] in ".%`0"
    assert found.hint.endswith(".")
    assert set(found.as_json()) == {"code", "severity", "line", "message", "hint"}


def made_in_source() -> list[tuple[str, str, int]]:
    """Each `Diagnostic("code", line, (values))` of the source with literal code and values: place, code, count."""
    found: list[tuple[str, str, int]] = []
    for file in sorted(SOURCE.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "Diagnostic(" in text else ():
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Diagnostic"):
                continue
            code, values = node.args[:1], node.args[2:3]
            if code and isinstance(code[0], ast.Constant) and (not values or isinstance(values[0], ast.Tuple)):
                count = len(values[0].elts) if values and isinstance(values[0], ast.Tuple) else 0
                found.append((f"{file.name}:{node.lineno}", str(code[0].value), count))
    return found


@pytest.mark.each(("place", "code", "count"), made_in_source())
def test_every_diagnostic_of_the_source_has_the_values_of_its_sentence(place: str, code: str, count: int) -> None:
    kind = DIAGNOSTIC_KINDS[code]
    assert count >= len(fields_of(kind.message) | fields_of(kind.hint)), place


@pytest.mark.each(
    ("text", "safe"),
    [
        ("plain", "plain"),
        ("évil 技能 😀", "évil 技能 😀"),
        ("evil\x1b[2J\nname", "evil\\x1b[2J\\nname"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u200bb", "a\\u200bb"),
        ("\U000e0041", "\\U000e0041"),
        ("\x9b2J", "\\x9b2J"),
        ("a\xa0b", "a b"),
        ("\udcff", "\\udcff"),
        ("a\tb\r", "a\\tb\\r"),
    ],
)
def test_shown_makes_hidden_characters_visible(text: str, safe: str) -> None:
    assert shown(text) == safe


@given(st.text(max_size=300))
def test_what_is_shown_is_printable_and_bounded(text: str) -> None:
    safe = shown(text)
    assert safe.isprintable()
    assert len(safe) <= 1_200
    safe.encode()


def test_values_are_made_safe_in_message_and_hint() -> None:
    found = Diagnostic("name-invalid", 2, ("\x1b[31mred\x1b[0m {0} {x}", "red"))
    assert "\x1b" not in found.message
    assert "\\x1b[31mred" in found.message
    assert "{x}" in found.message


def test_a_long_value_is_cut() -> None:
    assert len(Diagnostic("unknown-fields", None, ("x" * 5_000,)).message) < 300
