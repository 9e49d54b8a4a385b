"""Skill files found in the wild that a strict reader trips over, and two that attack the reader."""

from __future__ import annotations

from dataclasses import dataclass

MARK = "Body of the skill under test."
DESCRIPTION = "Reads tables. Use for reports"
COLON = "Reads tables. Use when: the user asks for reports"


def skill_file(name: str, *, description: str = DESCRIPTION, extra: str = "") -> bytes:
    return f"---\nname: {name}\ndescription: {description}\n{extra}---\n\n{MARK}\n".encode()


def bomb(leaf: str, branch: str) -> bytes:
    """Seven levels of ten: 10 million leaves if expanded, in a file under 1 KB."""
    lines = [f"  a: &a {leaf}"]
    for above, level in zip("abcdef", "bcdefg", strict=True):
        lines.append(f"  {level}: &{level} {branch.format(', '.join([f'*{above}'] * 10))}")
    return skill_file("bomb", extra="metadata:\n" + "\n".join(lines) + "\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Odd:
    """A folder with something odd in it, and the skill that must load all the same."""

    column: str
    files: dict[str, bytes]
    loads: str = "odd"
    description: str = DESCRIPTION


PLAIN = {"plain/SKILL.md": skill_file("plain")}
ODD = (
    Odd(column="BOM", files={"odd/SKILL.md": b"\xef\xbb\xbf" + skill_file("odd")}),
    Odd(column="CRLF", files={"odd/SKILL.md": skill_file("odd").replace(b"\n", b"\r\n")}),
    Odd(
        column="colon",
        files={"odd/SKILL.md": skill_file("odd", description=COLON)},
        description=COLON,
    ),
    Odd(column="skill.md", files={"odd/skill.md": skill_file("odd")}),
    Odd(
        column="tools list",
        files={"odd/SKILL.md": skill_file("odd", extra="allowed-tools:\n  - Read\n  - Bash\n")},
    ),
    Odd(
        column="bad YAML apart",
        files=PLAIN | {"bad/SKILL.md": skill_file("bad", description="[unclosed")},
        loads="plain",
    ),
    Odd(
        column="bad UTF-8 apart",
        files=PLAIN | {"bad/SKILL.md": skill_file("bad").replace(b"tables", b"caf\xe9s")},
        loads="plain",
    ),
)
BOMBS = {
    "alias bomb": bomb("[" + ", ".join(["x"] * 10) + "]", "[{}]"),
    "merge bomb": bomb("{" + ", ".join(f"k{i}: x" for i in range(10)) + "}", "{{<<: [{}]}}"),
}
