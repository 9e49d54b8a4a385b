"""The matcher `flow`: data that gets from a source to a sink in scripts, judged by cases.

| option | meaning |
|---|---|
| `from` | senses of sources: what the core pack's `calls-from-`, `objects-from-`, `places-` and `keys-` end with |
| `to` | kinds of sinks: what `calls-to-` ends with |
| `signing` | senses that count, too, where they only say who one is |
| `says` | the finding, with `{what}`, `{source}`, `{host}` and `{sink}` |
| `cases` | severities with what must hold, `from`, `host`, `script`, `security`, `language`,
`stays`, `apart` (source and sink are on different lines); the first that fits counts |

Terms of the rule that the matcher asks for: `source` and `sink`, without words of which no code is read; `account`,
what a script says that holds a key or number of an account, so that even a service that people know is nobody's;
`stays`, the page's promise that data stays there.

A case's `host` lists levels of who answers at the address (see conditions); `none` where no address is told. `of` says
which address is meant: that of the `sink`, which is the default, or that of the `source`.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from metier._lazy import replace
from metier.scan.condition import LEVELS
from metier.scan.hosts import addresses
from metier.scan.judging import doubt, weighed
from metier.scan.masks import mask_of, pieces, places_in
from metier.scan.name_lists import sense
from metier.scan.skill_statements import reading
from metier.scan.view import once_a_skill

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from metier.scan.flow.taint import Arrival
    from metier.scan.rule import Hit
    from metier.scan.rule_book import Rule
    from metier.scan.skill_statements import SkillStatements
    from metier.scan.term import Term
    from metier.scan.text import SkillText
    from metier.scan.view import SkillView

_LANGUAGES = frozenset({"python", "javascript", "typescript", "shell"})
_NAMES = {level: name for name, level in LEVELS.items()}
_Places: TypeAlias = frozenset[tuple[str, str]]
"""Files with a language of the code in them."""


def match_flow(text: SkillText, rule: Rule) -> Iterator[Hit]:
    """Data that gets from a source to a sink."""
    options, seen = rule.options, set()
    arrivals = _arrivals(text.read.view, _wanted(text, rule))
    stays = bool(arrivals) and "stays" in rule.terms and _says(text, rule.terms["stays"])
    has_account = cache(lambda path: "account" in rule.terms and _is_said_in(text, path, rule.terms["account"]))
    for one in arrivals:
        senses = options.get("signing", ()) if one.mark.signs else options["from"]
        if one.mark.sense in options["from"] and one.mark.sense in senses and one.kind in options["to"]:
            hit = _judged(one, text, rule, stays, has_account)
            if hit is not None and (hit.path, hit.line) not in seen:
                seen.add((hit.path, hit.line))
                yield hit


def _judged(one: Arrival, text: SkillText, rule: Rule, stays: bool, has_account: Callable[[str], bool]) -> Hit | None:
    """What the first case that fits says of data that gets to a sink."""
    mark, read = one.mark, text.read
    statements = read.files[one.path]
    statement = statements[max(0, bisect_right(statements, one.line, key=lambda each: each.line) - 1)]
    level, host = _farthest(mark.where if rule.options.get("of") == "source" else one.where, read)
    if level < 0:
        level, host = _farthest_apart(read.view, one.path)
    if level == 0 and host and has_account(one.path):
        level = LEVELS["nobody"]
    brand = mark.key.partition("_")[0].lower()
    if len(brand) >= 4 and brand in host:
        return None  # a setting that is called like the host is for the host
    facts = {
        "from": mark.sense,
        "host": _NAMES[level],
        "script": statement.script,
        "language": one.language,
        "apart": (mark.path, mark.line) != (one.path, one.line),
        "security": read.about_security,
        "stays": stays,
    }
    case = next((case for case in rule.options["cases"] if _fits(case, facts)), None)
    if case is None or case["severity"] == "none":
        return None
    source, sink = f"{mark.path}:{mark.line}", f"{one.path}:{one.line}"
    told = {"what": mark.shown, "source": source, "sink": sink, "host": host or "an address that is not told"}
    hit = statement.hit(statement.text, weighed(case["severity"], statement, None, read))
    return replace(hit, message=rule.options["says"].format_map(told), line=one.line, stance=statement.stance)


def _fits(case: Mapping[str, Any], facts: Mapping[str, object]) -> bool:
    wanted = {name: some if isinstance(some, list) else [some] for name, some in case.items() if name != "severity"}
    return all(facts[name] in some for name, some in wanted.items())


@once_a_skill
def is_followed(view: SkillView, path: str, language: str) -> bool:
    """Whether the code of a language in a file is read by its structure."""
    from metier.scan.flow.reader import read_scripts

    return language in _LANGUAGES and bool(read_scripts(view, {(path, language)}))


def _wanted(text: SkillText, rule: Rule) -> _Places:
    """Files and languages whose code has words of a source and of a sink, or of one where a script has the other."""
    masks = {name: text.may.get(rule.terms[name], 0) & text.kinds["code"] for name in ("source", "sink")}
    if not all(masks.values()):
        return frozenset()
    source, sink = (_saying(text, rule.terms[name], mask) for name, mask in masks.items())
    scripts = {(file.path, file.language) for file in text.read.view.files if file.role == "script"}
    return source | sink if source and sink and scripts & (source | sink) else source & sink


def _place(text: SkillText, at: int) -> tuple[str, str]:
    return text.statements[at].path, text.statements[at].language or "shell"


def _saying(text: SkillText, term: Term, mask: int) -> _Places:
    """The files and languages that say a term."""
    found: dict[tuple[str, str], list[int]] = {}
    for at in places_in(mask):
        found.setdefault(_place(text, at), []).append(at)
    masks = {place: mask_of(some, len(text.statements)) for place, some in found.items() if place[1] in _LANGUAGES}
    return frozenset(place for place in masks if any(text.says(term, some) for some in pieces(masks[place])))


@once_a_skill
def _arrivals(view: SkillView, wanted: _Places) -> Sequence[Arrival]:
    """Data that gets to sinks in some files and languages."""
    if not wanted:
        return ()
    from metier.scan.flow.reader import read_scripts
    from metier.scan.flow.taint import Flow

    return Flow(read_scripts(view, wanted)).arrivals()


def _text_of(view: SkillView, path: str) -> str:
    return next(file.text for file in view.files if file.path == path)


@once_a_skill
def _farthest_apart(view: SkillView, path: str) -> tuple[int, str]:
    """The same of all of a file, whose hosts may be named apart from the rest of an address."""
    return _farthest(sense("before-a-host-apart").sub("https://", _text_of(view, path)), reading(view))


def _farthest(where: str, read: SkillStatements) -> tuple[int, str]:
    """How little is known of the most doubtful address in a text, and its host."""
    places = [place for place in addresses(where, bare=True) if place.host[:1] not in "{$"]
    return max(((doubt(place, read), place.host) for place in places), default=(-1, ""))


def _is_said_in(text: SkillText, path: str, term: Term) -> bool:
    return term.search(_text_of(text.read.view, path)) is not None


def _says(text: SkillText, term: Term) -> bool:
    """Whether the page says a term."""
    page = text.read.view.instructions
    said = text.read.files.get(page.path, ()) if page is not None else ()
    return any(one.kind != "code" and term.search(one.text) is not None for one in said)
