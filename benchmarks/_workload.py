"""Skills to measure with: frontmatter from real skills where the sample is at hand, else as varied as real ones."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

SAMPLE = Path(__file__).resolve().parents[2] / "shared" / "data" / "skills-sample.jsonl.gz"

_WORDS = [
    "agent",
    "folder",
    "check",
    "report",
    "deploy",
    "token",
    "release",
    "branch",
    "value",
    "field",
    "table",
    "draft",
    "review",
    "schema",
    "client",
    "server",
    "build",
    "result",
    "error",
    "output",
    "input",
    "query",
    "index",
    "page",
    "order",
    "layer",
    "model",
    "prompt",
    "skill",
    "script",
    "reference",
]


def make_skills(root: Path, count: int, *, seed: int = 7, plain: bool = False) -> None:
    """Write `count` skills below `root`: a 4 KB body and three resources each, frontmatter drawn with a fixed seed.

    With `plain` every skill is valid and named after its folder, as strict clients want it.
    """
    blocks = _plain_blocks() if plain else frontmatter_blocks()
    chance = random.Random(seed)
    body = _body(chance)
    for number in range(count):
        folder = root / f"skill-{number:06d}"
        for below in ("references", "scripts"):
            (folder / below).mkdir(parents=True, exist_ok=True)
        block = chance.choice(blocks)
        block = block.replace("made-up", folder.name) if plain else _renamed(block, number)
        (folder / "SKILL.md").write_text(f"---\n{block}---\n{body}", encoding="utf-8", newline="")
        (folder / "references" / "guide.md").write_text("# Guide\n" + body[:700], encoding="utf-8")
        (folder / "references" / "api.md").write_text("# API\n" + body[:900], encoding="utf-8")
        (folder / "scripts" / "run.py").write_text("print('done')\n", encoding="utf-8")


def frontmatter_blocks() -> list[str]:
    """The YAML blocks to draw from, real ones when the sample is there."""
    if not SAMPLE.exists():
        return _made_up_blocks()
    blocks: list[str] = []
    with gzip.open(SAMPLE, "rt", encoding="utf-8") as lines:
        for line in lines:
            text = json.loads(line).get("text", "").replace("\r\n", "\n").removeprefix("\ufeff")
            if text.startswith("---\n") and (end := text.find("\n---\n", 3)) >= 0:
                blocks.append(text[4 : end + 1])
    return blocks


def _renamed(block: str, number: int) -> str:
    """The block with a number in its name, as a thousand copies of one name would measure shadowing."""
    lines = block.split("\n")
    for i, line in enumerate(lines):
        if line.startswith("name: ") and line[6:].strip().replace("-", "").isalnum():
            lines[i] = f"{line.rstrip()}-{number}"
    return "\n".join(lines)


def _body(chance: random.Random) -> str:
    lines = ["# What to do", ""]
    while sum(map(len, lines)) + len(lines) < 4_096:
        lines.append(" ".join(chance.choice(_WORDS) for _ in range(14)).capitalize() + ".")
        if chance.random() < 0.2:
            lines.extend(["", f"## {chance.choice(_WORDS).capitalize()}", ""])
    return "\n".join(lines)[:4_096]


def _plain_blocks() -> list[str]:
    text = "Works on the files that the user names, and checks the result. Use when the user asks for it"
    return [f"name: made-up\ndescription: {text}, variant {i}.\nlicense: MIT\n" for i in range(12)]


def _made_up_blocks() -> list[str]:
    """In the proportions of real skills: two thirds flat fields, the rest nested, folded, quoted or broken."""
    long = "Works on the files that the user names, and checks the result. Use when the user asks for it by name"
    flat = [f"name: made-up\ndescription: {long} ({i}).\nversion: 1.{i}.0\nlicense: MIT\n" for i in range(12)]
    quoted = [f'name: made-up\ndescription: "{long}: number {i}."\ntags: [one, two, three]\n' for i in range(4)]
    folded = [
        f"name: made-up\ndescription: >-\n  {long},\n  variant {i}.\nallowed-tools: Read, Bash(git:*)\n"
        for i in range(2)
    ]
    tools = "  openclaw:\n    requires:\n      bins:\n        - jq\n"
    nested = [f"name: made-up\ndescription: Short one.\nmetadata:\n  author: somebody\n{tools}"]
    broken = [f"name: made-up\ndescription: Use when: {long}\n"]
    return [*flat, *quoted, *folded, *nested, *broken]
