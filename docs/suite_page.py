"""The reference page of test suites, from the JSON Schema and the table of variants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier.proof.linear_regex import MAX_REGEX
from metier.proof.suite_files import MAX_FILE_BYTES, MAX_REGEXES
from metier.proof.suite_format import MAX_CASES, SECTIONS
from metier.proof.suite_reader import MAX_BYTES, MAX_FILES
from metier.proof.suite_schema import schema
from metier.proof.suite_variants import BEGINNINGS, KEYS, TRUTH, TYPE_NAMES

if TYPE_CHECKING:
    from metier.proof.suite_variants import CheckType

TITLES = {
    "routing": "Routing: prompts that should bring the skill up",
    "scripts": "Scripts: runs, and what must come of them",
    "rules": "Rules: tool calls that are allowed or refused",
    "evals": "Behaviour: prompts for an agent",
    "calibration": "Calibration of a judge",
}
ROLES = {
    "prompt": "the prompt; a path such as `prompts/one.md` stands for the text of that file",
    "maybe-prompt": "the prompt, beside another part of a case",
    "prompt-file": "the file with the prompt",
    "turns": "a conversation, whose only message of a user is the prompt",
    "id": "the id",
    "name": "the id, or after a number a part of it",
    "output": "`expected_output`",
    "files": "`files`: paths, contents by path, or a list of both",
    "timeout": "`timeout`, in seconds",
    "max_turns": "`max_turns`",
    "sentences": "assertions: sentences, or mappings with a type",
    "rejected": 'assertions that begin with "Must not occur:"',
    "contains": "`answer: {contains: ...}`",
    "any": "`answer: {regex: ...}`, any of the texts, in any case",
    "excludes": "`answer: {excludes: ...}`",
    "regex": "`answer: {regex: ...}`",
    "called": "`called`",
    "not-called": "`not-called`",
    "artifacts": "`file`; a path with `*` is a sentence",
    "trigger": "`should_trigger`, as true, false or a word",
    "no-trigger": "the opposite of `should_trigger`",
    "routed-to": "`should_trigger`: whether this skill is named",
    "maybe": "`should_trigger` if it is a word for that, else `expected_output`",
    "positive": "a list of prompts that should bring the skill up",
    "negative": "a list of prompts that should not",
    "suite-skill": "`skill`",
    "skip": "nothing: results of earlier runs",
}
"""The meaning of each role of the table, in our own format."""


def suites_page() -> str:
    """The format of suites, and the shapes of other tools."""
    parts = schema()["$defs"]
    return "\n".join(
        [
            "# Test suites\n",
            "<!-- Made from the code by `make docs`; edit the code instead. -->\n",
            "The tests of a skill lie in its folder: `evals/suite.yaml` (or `.yml`, `.json`), or several files",
            "`evals/NAME.suite.yaml`, which are one suite together. [Test skills](../how-to/test-skills.md)",
            "begins one. The format is a superset of `evals.json`: such a file under another name is a suite",
            "as it is. Files of other tools are read, too: see [the shapes](#shapes-of-other-tools) below.\n",
            "A mistake is noted with its line and makes the test of the skill fail; other cases still run. The",
            "[JSON Schema](../../src/metier/proof/suite.schema.json) is for editors.\n",
            "| key | what it is |",
            "|---|---|",
            *_rows(schema()["properties"], parts),
            "",
            *(line for section, name in SECTIONS.items() for line in _section(section, parts[name], parts)),
            "## Assertions\n",
            "An assertion is a sentence in plain words, which no code can check, or a mapping of kinds. A mapping with",
            "several kinds is several assertions.\n",
            "| kind | what holds |",
            "|---|---|",
            *_rows(parts["assertion"]["properties"], parts),
            "",
            "Conditions on a text are a text that it must contain, a list of such texts, or a mapping:\n",
            "| key | condition |",
            "|---|---|",
            *_rows(parts["match"]["properties"], parts),
            "",
            "`file` takes a path, or these conditions with a `path` beside them. `called`, `not-called` and `refused`",
            "take the name of a tool, or `tool` with `arguments`, each with its conditions. Expressions are searched",
            "for in linear time.\n",
            "## Files\n",
            "`files` is a mapping of contents by path in the workspace, `{PATH: {from: FILE}}` for copies, or a list",
            "of files. A file is looked for in the skill, beside the suite, and in its folders `files`, `fixtures` and",
            "`inputs`; in the workspace it has the path that it has there: `evals/files/data/a.csv` is `data/a.csv`. A",
            "folder stands for all of its files. Links out of the skill and paths with `..` are refused.\n",
            "## Mocks\n",
            "| key | what it is |",
            "|---|---|",
            *_rows(parts["mock"]["properties"], parts),
            "",
            "The first mock that fits a call answers it. `mcp` has servers by name, each with `tools` by name, which",
            "take the same keys, or `from`: a file with `tools`.\n",
            "## Limits\n",
            f"At most {MAX_FILES} files with {MAX_CASES:,} cases; {MAX_BYTES:,} bytes of each, and {MAX_FILE_BYTES:,}",
            f"of each file that they name; {MAX_REGEXES} regular expressions of {MAX_REGEX:,} characters.\n",
            "## Shapes of other tools\n",
            "Read are JSON, YAML and JSON Lines in `evals/` and `eval/`, `evals.json` and `trigger-evals.json` in the",
            "skill's own folder and in `tests/`, but no results. A file is a list of cases, a mapping with lists of",
            "cases under any names, at any depth, or one case. Keys are compared in small letters with underscores, so",
            "`shouldTrigger` is `should_trigger`. Whatever is not used is noted, with its place.\n",
            "| in our format | keys |",
            "|---|---|",
            *(f"| {ROLES[role]} | {_words(names)} |" for role, names in KEYS.items()),
            f"| a sentence after the key itself | all others that begin with {_words(' '.join(BEGINNINGS))} |",
            "",
            f"Words for true: {_words(' '.join(word for word, truth in TRUTH.items() if truth))}. For false:",
            f"{_words(' '.join(word for word, truth in TRUTH.items() if not truth))}.\n",
            "An assertion with a type is checked by code where the table has the type, and is a sentence otherwise:\n",
            "| in our format | types |",
            "|---|---|",
            *(f"| {_check(check)} | {_words(names)} |" for check, names in TYPE_NAMES.items()),
            "",
        ]
    )


def _section(section: str, about: dict[str, Any], parts: dict[str, Any]) -> list[str]:
    rows = _rows(about["properties"], parts)
    return [
        f"## {TITLES[section]}\n",
        f"Each case below `{section}`:\n",
        "| key | what it is |",
        "|---|---|",
        *rows,
        "",
    ]


def _rows(properties: dict[str, Any], parts: dict[str, Any]) -> list[str]:
    return [f"| `{key}` | {_description(about, parts)} |" for key, about in properties.items()]


def _description(about: dict[str, Any], parts: dict[str, Any]) -> str:
    text = about.get("description") or parts[about["$ref"].rpartition("/")[2]]["description"]
    return str(text).replace("|", "\\|")


def _words(names: str) -> str:
    return ", ".join(f"`{name}`" for name in names.split())


def _check(check: CheckType) -> str:
    condition = {"icontains": "contains", "any": "regex"}.get(check.condition, check.condition)
    more = {"icontains": ", in any case", "any": ": any of the texts"}.get(check.condition, "")
    return f"`{check.kind}: {{{condition}: ...}}`{more}" if condition else f"`{check.kind}`"
