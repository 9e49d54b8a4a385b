"""The files that instructions mention as files of the skill, as authors write them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from metier._suggest import suggestion

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from metier.skill.skill import Hooks

_MAX_REFERENCES = 500
_NEAR = 80
"""Characters of a line before a path that are looked at."""

_FENCED = re.compile(r"^[ \t]*(```|~~~).*?^[ \t]*\1", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(
    r"\s*(?:[$>]\s+)?(?:(?:python3?|bash|sh|node|ruby|perl|deno\s+run|npx\s+tsx|uv\s+run)\s+)(?:-\S+\s+|python3?\s+)*"
    r"[\"']?(?:\$\{?(?:CLAUDE_)?SKILL_DIR\}?/|\{baseDir\}/|\./)?(scripts/[\w./-]*\w\.\w{1,8})"
)
_LONGEST_COMMAND = 400
_LINK = re.compile(r"\]\(<?([^)\s>#?]+)")
_NOT_A_FILE = re.compile(r"[a-zA-Z][\w+.-]*:|/|#|<|\{|\$")
_PATH = re.compile(r"(?<![\w./~$}{@\\:-])(?:\./)?((?:[\w-]+/)*[\w-]+(?:\.[\w-]+)*\.([A-Za-z]\w{0,7}))(?![\w/\\({<-])")
_ROOT = re.compile(r"^(?:\$\{?(?:CLAUDE_)?SKILL_DIR\}?|\{baseDir\})/")
_OWN_FOLDERS = frozenset({"scripts", "references", "assets", "templates"})
"""Folders that the format of skills names: who writes of one means that of the skill."""
_FOR_TEXTS = frozenset({"docs", "doc", "reference", "resources", "guides", "examples", "workflows"})
"""Folders that many skills keep texts in; projects have them too, mostly with more folders below."""
_ASKED = re.compile(
    r"(?:\b(?:see|read|consult|load|refer\s+to|follow|described\s+in|documented\s+in|details?\s+in)\s+"
    r"(?:(?:the|this|also|file|full|first)\s+)*)[*_`'\"]*$",
    re.IGNORECASE,
)
_LISTED = re.compile(r"\s*(?:[-*+]|[0-9]{1,4}[.)])\s+(?:\[[ xX]\]\s+)?[*_`'\"]*")
_SAID = re.compile(r"[*_`'\"]*\s*(?:\([^()]{0,80}\)\s*)?(?:[:=][*_]*|[-\u2013\u2014])\s*\w")
_THEIRS = re.compile(
    r"[^.]{0,60}\b(?:if\s+(?:it\s+|they\s+)?(?:exists?|present|available|found|there)|workspace|"
    r"(?:project|repo(?:sitory)?)(?:'s)?\s+root|(?:the|your|their)\s+(?:project|repo(?:sitory)?|codebase))\b",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(r"YYYY|XXX|NNN|MM-DD|TIMESTAMP")
_TEXTS = frozenset({"md", "mdx", "rst"})
_OF_PROJECTS = frozenset(
    {
        *("readme", "claude", "agents", "gemini", "skill", "changelog", "contributing", "license", "security", "todo"),
        *("plan", "spec", "design", "tasks", "notes", "memory", "roadmap", "architecture", "requirements", "robots"),
        *("llms", "conventions", "copilot-instructions", "code_of_conduct", "governance", "proposal", "report"),
        "index",
    }
)
"""Texts that most projects have, or that agents write: who tells to read one means that of the user."""


class Reference(NamedTuple):
    """A path that is mentioned, and the line of its first mention, counted from 0."""

    path: str
    line: int


def references_in(text: str, paths: Iterable[str]) -> list[Reference]:
    """The paths that a text mentions as files of its skill, whose files are `paths`; each once, in order.

    A path counts where it is a link, where its folder is one that skills or this skill have, where somebody is told to
    read it, where it stands in a list with what is in it, and where a line of code runs it as a script. Others are
    mostly files of whoever uses the skill.

    >>> references_in("See docs/api.md.\\n- limits.md: how much\\nEdit `src/app.ts`.", [])
    [Reference(path='docs/api.md', line=0), Reference(path='limits.md', line=1)]
    """
    text = _FENCED.sub(lambda block: "\n".join(map(_script_in, block[0].split("\n"))), text)
    text = _without_comments(text)
    folders = _OWN_FOLDERS | {path.partition("/")[0] for path in paths if "/" in path}
    places: dict[str, int] = {}
    for path, place in _mentions(text, folders):
        if len(places) >= _MAX_REFERENCES:
            break
        places[path] = min(place, places.get(path, place))
    found: list[Reference] = []
    line = start = 0
    for path, place in sorted(places.items(), key=lambda item: (item[1], item[0])):
        line += text.count("\n", start, place)
        start = place
        found.append(Reference(path, line))
    return found


def _without_comments(text: str) -> str:
    """A text of as many lines; by hand, as a pattern takes the square of the time for comments that never end."""
    parts: list[str] = []
    at = 0
    while (begin := text.find("<!--", at)) >= 0 and (end := text.find("-->", begin)) >= 0:
        parts += (text[at:begin], "\n" * text.count("\n", begin, end))
        at = end + 3
    return "".join((*parts, text[at:]))


def _script_in(line: str) -> str:
    """The script of the skill that a line of a code block runs; what else stands in code may be of anywhere."""
    command = _COMMAND.match(line[:_LONGEST_COMMAND])
    return command[1] if command else ""


def _mentions(text: str, folders: frozenset[str]) -> Iterator[tuple[str, int]]:
    for match in _LINK.finditer(text):
        path = match[1].removeprefix("./")
        if not _NOT_A_FILE.match(path):
            yield path, match.start()
    for match in _PATH.finditer(text):
        path, suffix = match[1], match[2]
        if "/" in path and path.partition("/")[0] in folders:
            yield path, match.start()
        elif suffix.lower() in _TEXTS and path.rpartition("/")[2].partition(".")[0].lower() not in _OF_PROJECTS:
            # No more than is near: a line may have a million characters, and as many paths.
            before = text[max(0, match.start() - _NEAR) : match.start()].rpartition("\n")[2]
            after = text[match.end() : match.end() + 2 * _NEAR].partition("\n")[0]
            folder, _, name = path.rpartition("/")
            is_listed = not folder and _LISTED.fullmatch(before) and _SAID.match(after)
            is_marked = folder in _FOR_TEXTS and before.endswith(("`", "`./")) and after.startswith("`")
            is_meant = is_listed or is_marked or _ASKED.search(before)
            if is_meant and not _THEIRS.match(after) and not _PLACEHOLDER.search(name):
                yield path, match.start()


def hook_files(hooks: Hooks) -> list[str]:
    """The files of the skill that its hooks name: paths that commands begin with, and those below its own folders."""
    commands = [hooks.pre, hooks.post]
    commands += [hook.command for groups in hooks.events.values() for group in groups for hook in group.hooks]
    found: dict[str, None] = {}
    for command in filter(None, commands):
        for number, word in enumerate(re.split(r"[\s'\"]+", command.strip("'\" \t\n"))):
            path = _ROOT.sub("", word).removeprefix("./")
            is_below = path.partition("/")[0] in _OWN_FOLDERS if number else "/" in path
            is_named = is_below or _ROOT.match(word) is not None
            if is_named and not _NOT_A_FILE.match(path) and not path.startswith(("~", "../")):
                found[path] = None
    return list(found)


def is_there(path: str, paths: Iterable[str]) -> bool:
    """Whether a path is a file of the skill, or a folder, or the bare name of a file in one."""
    bare, folder = "/" not in path, f"{path.rstrip('/')}/"
    return any(one == path or one.startswith(folder) or (bare and one.endswith(f"/{path}")) for one in paths)


def closest(path: str, paths: Iterable[str]) -> str | None:
    """The file that a mistyped path most likely means: one of its name elsewhere, or one that is written alike."""
    known = list(paths)
    name = path.rpartition("/")[2].lower()
    same = [one for one in known if one.rpartition("/")[2].lower() == name]
    return same[0] if len(same) == 1 else suggestion(path, known, cutoff=0.75)
