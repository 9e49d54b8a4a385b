"""All statements of a skill, read once for all rules."""

from __future__ import annotations

import re
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

from metier._lazy import dataclass, field
from metier._regex_cache import kept_regex
from metier.scan.deobfuscation import assigned_in
from metier.scan.name_lists import sense
from metier.scan.page_statements import statements_of
from metier.scan.stance import about_security
from metier.scan.view import once_a_skill

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from metier.scan.statement import Statement
    from metier.scan.view import SkillView, ViewFile


@dataclass(frozen=True)
class SkillStatements:
    """All statements of a skill, and what it is about."""

    view: SkillView
    statements: tuple[Statement, ...]
    subject: str
    """Name and description, in lower case."""
    about_security: bool
    files: dict[str, tuple[Statement, ...]] = field(default_factory=dict)
    doubts: dict[tuple[str, str, bool], int] = field(default_factory=dict)
    """How little is known of who answers at an address."""

    @cached_property
    def low(self) -> str:
        """All that it says, in lower case, to look into before looking closely."""
        return "\n".join(statement.low for statement in self.statements)

    @cached_property
    def apis(self) -> str:
        """What is called an API in it, each once with what stands before."""
        return "\n".join({f"{before[-100:]}_api" for before in self.low.split("_api")[:-1]})

    @cached_property
    def squashed(self) -> str:
        """Name and description without anything between the letters."""
        return re.sub(r"[^a-z0-9]", "", self.subject)

    @cached_property
    def named(self) -> frozenset[str]:
        """The words of its name that have at least three letters."""
        return frozenset(re.findall(r"[a-z0-9]{3,}", self.view.name.lower())) - _ANYTHING

    @cached_property
    def words(self) -> frozenset[str]:
        """What it calls itself, in words of at least three letters."""
        front = self.view.frontmatter
        texts = [
            self.view.name,
            self.view.description,
            *(str(front.get(key, "")) for key in ("homepage", "author", "title")),
        ]
        meta = front.get("metadata")
        if isinstance(meta, dict):
            texts.append(str(meta)[:2_000])
        return frozenset(re.findall(r"[a-z0-9]{3,}", " ".join(texts).lower()[:6_000]))

    @cached_property
    def starts(self) -> list[int]:
        """Where in `low` each statement begins."""
        return list(accumulate((len(one.low) + 1 for one in self.statements[:-1]), initial=0))


_ANYTHING = frozenset(
    {"api", "app", "the", "for", "and", "get", "data", "file", "skill", "agent", "tool", "code", "web"}
)
"""What a skill may be called that says nothing of who made it."""


@once_a_skill
def reading(view: SkillView) -> SkillStatements:
    """The view taken apart."""
    subject = f"{view.name} {view.description}".lower()
    security = about_security(subject)
    settings = {
        name: assigned_in(file.text)
        for file in view.files
        if file.role in ("script", "config") and len(file.text) < _SETTINGS
        if "=" in file.text and len(name := file.path.rpartition("/")[2]) > 3
    }
    page = view.instructions.text if view.instructions is not None else ""
    files = {
        file.path: tuple(statements_of(file, security, _variables(file, settings), is_run=_is_run(file.path, page)))
        for file in view.files
    }
    statements = tuple(one for some in files.values() for one in some)
    _put_in(statements)
    return SkillStatements(view, statements, subject, security, files)


_RUNS = kept_regex(r"(?<![\w-])(?:(?:ba|z)?sh|source|python3?|node|perl|follow|obey|execute)[ ]{1,40}[\"'`]?(?:\./)?\Z")
_GOES_ON = kept_regex(r"[\w./-]")
_SETTINGS = 20_000
"""Characters of a file of settings that scripts may read."""


def _is_run(path: str, page: str) -> bool:
    """Whether the instructions have somebody run a file."""
    at = page.find(path) if len(path) >= 3 else -1
    while at >= 0:
        end = at + len(path)
        if _RUNS.search(page[max(0, at - 60) : at]) is not None and _GOES_ON.match(page, end) is None:
            return True
        at = page.find(path, end)
    return False


def _variables(file: ViewFile, settings: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """What files set that a script of the shell names."""
    if file.role != "script" or file.language != "shell":
        return {}
    return {
        variable: value
        for name, variables in settings.items()
        if name in file.text and not file.path.endswith(name)
        for variable, value in variables.items()
    }


def _put_in(statements: Iterable[Statement]) -> None:
    """Write the place after each name that the prose of a skill gives to one, in sentences that say only the name.

    Where "the almanac" is a file of keys, a sentence on it is one on the keys.
    """
    prose = [one for one in statements if one.kind in ("prose", "row") and len(one.text) <= _LONGEST_SENTENCE]
    lows = [one.low for one in prose]
    defining = [low for low in lows if ("/" in low or ".env" in low) and _PLACE_MARKS.search(low) is not None]
    found = [pair for low in defining for pair in sense("definitions-by-name").findall(low)]
    found += [(name, place) for low in defining for place, name in sense("definitions-by-place").findall(low)]
    places: dict[str, str] = {}
    for name, place in found[:_MOST_NAMES]:
        places.setdefault(name, place.rstrip(".,;:"))
    if not places:
        return
    named = re.compile(rf"\bthe ({'|'.join(sorted(map(re.escape, places), key=len, reverse=True))})\b")
    for one in prose:
        said = named.search(one.low)
        if said is not None and (place := places[said[1]]) not in one.low:
            one.text = f"{one.text[: said.end()]} ({place}){one.text[said.end() :]}"
            one.low = one.text.lower()


_MOST_NAMES = 12
_LONGEST_SENTENCE = 400
_PLACE_MARKS = kept_regex(r"://|~/|\$home/|\.(?:env|aws|ssh)\b")
