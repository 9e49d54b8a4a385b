"""Code that runs together: a script with what it imports, or the commands of a section."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rules._prizes import STORE
from metier.scan.rules._sending import sends_off
from metier.scan.rules._words import word_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.rules._reading import SkillStatements
    from metier.scan.rules._statements import Statement

_NEAR = 40
"""Lines of a page between which commands belong together."""
_MAX_LINES = 4_000
"""Lines of a script with all that it imports beyond which it is looked at alone."""
_IMPORT = re.compile(
    r"^\s*(?:from|import)\s+\.{0,3}(?P<python>\w[\w.]{0,100}|(?=import))(?:\s+import\s+\(?(?P<parts>[\w, ]{1,200}))?"
    r"|(?:\bfrom|\bimport|require\()\s*\(?[\"']\.{1,2}/(?P<javascript>[\w./-]{1,120})[\"']"
    r"|^\s*(?:source|\.)\s+[\"']?[^\s\"']{0,120}?(?P<shell>[\w-]{1,60}\.(?:sh|bash|ps1))\b"
)


def _as_code(one: Statement, read: SkillStatements) -> bool:
    """Whether a line outside of a fence is a command all the same: indented, between backticks, or a hook's."""
    if one.kind not in ("prose", "frontmatter") or one.warned:
        return False
    if one.words.isdisjoint(_TOOLS):
        return False
    return re.search(
        r"\b(?:curl|wget|tar|zip|cat|scp|rclone|rsync|nc|base64|printenv|env|gpg|aws|gcloud)\s+[-~$./@\w]", one.text
    ) is not None and (sends_off(one, read) or STORE.search(one.text) is not None)


_TOOLS = word_set("curl wget tar zip cat scp rclone rsync nc base64 printenv env gpg aws gcloud")


def _is_run(one: Statement) -> bool:
    return one.kind == "code" and _REMARK.match(one.text) is None


def code_together(read: SkillStatements) -> tuple[tuple[Statement, ...], ...]:
    """Code that runs together: a script, or the commands of a section."""
    if False not in read.programs:
        read.programs[False] = tuple(_together(read))
    return read.programs[False]


def _together(read: SkillStatements) -> Iterator[tuple[Statement, ...]]:
    for statements in read.files.values():
        code = [one for one in statements if _is_run(one) or _as_code(one, read)]
        if not code or code[0].script:
            if code:
                yield tuple(code)
            continue
        begun = [code[0]]
        for one in code[1:]:
            if one.heading != begun[-1].heading or one.line - begun[-1].line > _NEAR:
                yield tuple(begun)
                begun = []
            begun.append(one)
        yield tuple(begun)


_REMARK = re.compile(r"\s*(?://|\*\s|#(?![!\w]))")
"""A line that is not run."""


def with_imports(read: SkillStatements) -> tuple[tuple[Statement, ...], ...]:
    """Code that runs together, each script after those of the skill that it imports."""
    if True not in read.programs:
        read.programs[True] = tuple(_joined(read))
    return read.programs[True]


def _joined(read: SkillStatements) -> Iterator[tuple[Statement, ...]]:
    scripts = {path: some for path, some in read.files.items() if some and some[0].script}
    stems = {path.rsplit("/", 1)[-1].rsplit(".", 1)[0]: path for path in scripts}
    for code in code_together(read):
        path = code[0].path
        if not code[0].script or len(scripts) < 2:
            yield code
            continue
        helpers = [one for name in _imported(code) if (one := stems.get(name, path)) != path]
        lines = [one for helper in dict.fromkeys(helpers) for one in scripts[helper] if _is_run(one)]
        yield (*lines, *code) if len(lines) + len(code) <= _MAX_LINES else code


def _imported(code: tuple[Statement, ...]) -> Iterator[str]:
    """What a script imports, by the name of a file without its ending."""
    for one in code:
        if len(one.text) < 400 and any(mark in one.text for mark in ("import", "require(", "source ", ". ")):
            for found in _IMPORT.finditer(one.text):
                whole = found["python"] or found["javascript"] or found["shell"] or ""
                name = whole if found["python"] else whole.rsplit("/", 1)[-1]
                yield name.rsplit(".", 1)[-1] if found["python"] else name.rsplit(".", 1)[0]
                yield from (found["parts"] or "").replace(",", " ").split()
