"""What an agent hears, says and keeps, passed on: its conversation, its prompts, the folder it lives in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules._judging import farthest, nearby, weighed
from metier.scan.rules._reading import reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.rule import Hit
    from metier.scan.rules._reading import SkillStatements
    from metier.scan.rules._statements import Statement
    from metier.scan.view import SkillView

_HOOKS = ("userpromptsubmit", "pretooluse", "posttooluse", "sessionstart", "sessionend", "subagentstop", "stop_hook")
"""Moments at which an agent runs a command that was set for it."""
_POSTS_INPUT = re.compile(
    r"\bcurl\b[^\n]{0,200}\s(?:-d|--data\S{0,12}|-T|--upload-file|-F)\s*[\"'=]?(?:\S{0,20}@)?-(?=[\s\"'\\]|$)"
    r"|\|\s*(?:nc|ncat)\s|\b(?:requests|httpx)\.post\([^\n]{0,200}stdin|\bwget\b[^\n]{0,120}--post-file[= ]-"
    r"|\bcurl\b[^\n]{0,300}\$\((?:cat|jq)\b",
    re.IGNORECASE,
)
"""A command that hands on what it is given."""
_POST_MARKS = ("curl", "| nc", "|nc", "ncat", "stdin", "wget")
_HEARD = re.compile(
    r"[<{\[](?:the |full |whole |entire |complete |last |your |current |all |raw |every ){0,3}"
    r"(?:user(?:'s)?[ _-]?(?:message|prompt|input|text)|(?:assistant|model|agent|ai)(?:'s)?[ _-]?(?:answer|reply"
    r"|response|output|message|text)|answer|reply|conversation|transcript|chat(?:[ _-]?(?:history|log))?|messages"
    r"|history|dialog(?:ue)?|(?:contents?|text)(?: of [^>}\]\n]{0,40})?files?[^>}\]\n]{0,40})[^>}\]\n]{0,40}[>}\]]",
    re.IGNORECASE,
)
"""A hole in a command where something is to be put that was said."""
_SENDS = ("curl", "post", "fetch(", "webhook", "wget", "http")
_WHO = re.compile(
    r"\$\(\s*(?:whoami|hostname|id -un)\s*\)|\$\{?(?:USER|HOSTNAME|HOST|LOGNAME)\b|gethostname|getuser", re.I
)
_REMOTE = re.compile(
    r"\bgit\b[^\n]{0,40}\b(?:remote|clone|push)\b[^\n]{0,80}https?://[^\s/@:]{0,60}:?[\w.~-]{8,}@", re.I
)
"""A repository whose password stands in the text."""
_HOMES = (".openclaw", ".clawdbot", ".claude", ".codex", ".cursor", ".gemini", ".config", ".ssh", ".aws", "add -a -f")


def _relayed(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    if read.has(*_HOOKS):
        yield from _hooked(read)
    for one in read.statements:
        if one.warned or one.kind not in ("code", "prose"):
            continue
        if read.sees(one, _SENDS) and len(_HEARD.findall(one.text)) >= (1 if _WHO.search(one.text) else 2):
            if farthest((one,), read) >= 1:
                yield one.hit(one.text, weighed("high", one, None, read))
        elif read.sees(one, _REMOTES) and (found := _REMOTE.search(one.text)) is not None and read.has(*_HOMES):
            yield one.hit(found[0], weighed("high", one, found, read))


_REMOTES = ("git ",)


def _hooked(read: SkillStatements) -> Iterator[Hit]:
    """A command for each prompt or answer that sends it to somebody."""
    for statements in read.files.values():
        if not any(read.sees(one, _HOOKS) for one in statements):
            continue
        for index, one in enumerate(statements):
            if one.warned or not read.sees(one, _POST_MARKS) or not _POSTS_INPUT.search(one.text):
                continue
            near: list[Statement] = nearby(statements, index, 6, 2, 12)
            if any(read.sees(other, _HOOKS) for other in near) and farthest((one,), read) >= 1:
                yield one.hit(one.text, weighed("high", one, None, read))


RULES = (
    ScanRule(
        id="CONVERSATION_PASSED_ON",
        ast="AST01",
        category="data_exfiltration_disclosure",
        severity="high",
        message="What is said to the agent, or what it keeps, is passed on to somebody.",
        hint="Ask who reads it there. Remove the hook, the command or the repository.",
        check=_relayed,
    ),
)
