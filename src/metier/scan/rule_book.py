"""All rules of some packs, ready to be applied to a skill."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from functools import cache, cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from metier._lazy import dataclass, field, replace
from metier._regex_cache import kept_regex
from metier.errors import RulesInvalid
from metier.scan.condition import read_condition
from metier.scan.finding import MAX_HITS, MAX_TEXT, rank
from metier.scan.judging import judged
from metier.scan.masks import pieces, places_in
from metier.scan.matchers import matcher, matcher_names
from metier.scan.name_lists import core_words
from metier.scan.pack_store import core_digest, core_pack
from metier.scan.rule import ScanRule
from metier.scan.skill_statements import reading
from metier.scan.term import Term
from metier.scan.text import SkillText
from metier.scan.together import FACTS
from metier.scan.words import WordIndex
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from metier.scan.condition import Condition
    from metier.scan.finding import Severity
    from metier.scan.rule import Hit
    from metier.scan.skill_statements import SkillStatements
    from metier.scan.view import SkillView

_BEFORE = 60
"""Characters that are shown before what was found, where that would else be cut off."""
_NAME = kept_regex(r"[a-z][a-z0-9-]*")
time_is_up: ContextVar[Callable[[], bool]] = ContextVar("time_is_up", default=lambda: False)
"""Whether the time that a skill may take is over, as rules ask between each other."""
PLACES = ("instructions", "references", "scripts", "manifests", "hidden")
"""Where a rule looks."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rule:
    """One thing to look for, as its entry in a pack says."""

    id: str
    title: str
    severity: Severity
    category: str
    owasp: str
    meaning: str
    advice: str
    harmless: str = ""
    """What would make it harmless."""
    where: tuple[str, ...] = PLACES
    stance: tuple[str, ...] = ()
    when: LaterCondition | None = None
    needs: tuple[frozenset[Term], ...] = ()
    """Terms of which a skill must say one of each group for `when` to hold anywhere in it."""
    unless: LaterCondition | None = None
    grade: tuple[tuple[Severity, LaterCondition], ...] = ()
    once: str = ""
    """Reported once in a `passage`, a `file` or a `skill`; at each place when empty."""
    sums_up: Literal["", "line", "skill"] = ""
    """Whether it only weighs what other rules find, too: at the same line, or in the whole skill."""
    matcher: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    terms: Mapping[str, Term] = field(default_factory=dict)
    """For its matcher."""
    names: tuple[tuple[Term, str], ...] = ()
    """The words by which a finding names what was found, each with the term that says it."""
    names_within: int = 0
    """Statements before and behind it in which it looks for them, too."""
    pack: str = "core"


class LaterCondition:
    """A condition that is read when it is first asked: most rules lack words in a skill and need not know theirs."""

    def __init__(self, read: Callable[[], Condition]) -> None:
        self._read = read

    @cached_property
    def condition(self) -> Condition:
        """The condition itself."""
        return self._read()


_NONE: Mapping[str, str] = MappingProxyType({})


def _range(first: int, own: Sequence[int]) -> range:
    return range(first + own[0], first + own[1])


def _fact(name: str, when: Condition) -> Rule:
    """A rule that finds nothing by itself: where a statement shows something that is told of the skill."""
    stance = ("order", "command", "description")
    return Rule(
        id=name,
        title=name,
        severity="info",
        category="",
        owasp="",
        meaning="",
        advice="",
        stance=stance,
        when=LaterCondition(lambda: when),
        needs=when.needs,
    )


class _Last(threading.local):
    """The skill that a thread looked at last: threads that scan at the same time must not undo each other's work."""

    view: SkillView | None = None
    found: Mapping[str, list[Hit]] = {}
    failed: Mapping[str, Exception] = {}


class RuleBook:
    """Rules of packs, with one automaton for the words of all of them."""

    def __init__(
        self,
        packs: Iterable[tuple[str, Mapping[str, Any]]],
        facts: Mapping[str, str] = _NONE,
        words: WordIndex | None = None,
    ) -> None:
        """`words` has those of the core pack, where that is the only one."""
        self._words = WordIndex() if words is None else words
        self.rules: list[Rule] = []
        self.terms: dict[str, Mapping[str, Term]] = {}
        """The terms of each rule, by its id."""
        self._senses: dict[str, range] = {}
        self._terms: dict[str, Term] = {}
        """The lexicons that conditions name, as terms: of the others no word is looked for."""
        self._last = _Last()
        for name, pack in packs:
            first = self._words.add_pack(pack) if words is None else 0
            self._senses.update((sense, _range(first, own)) for sense, own in pack["senses"].items())
            self.rules += [self._rule(name, rule, first) for rule in pack["rules"]]
        self._facts = [_fact(name, self.condition(text, {})) for name, text in facts.items()]
        """What is told of a skill beside its findings."""
        self._in_order = (*sorted(self.rules, key=lambda rule: rule.sums_up == "skill"), *self._facts)
        self._kinds = {rule.id: (rule.category, rule.severity) for rule in self.rules}

    def _rule(self, pack: str, data: Mapping[str, Any], first: int) -> Rule:
        own = {name: Term(name, _range(first, some), self._words) for name, some in data["terms"].items()}
        self.terms[data["id"]] = own

        def named(name: str) -> Term:
            term = own.get(name) or self._lexicon(name)
            assert term is not None  # else its condition was refused when the pack was compiled
            return term

        def later(text: str) -> LaterCondition:
            for name in _NAME.findall(text):
                self._lexicon(name)  # so that its words are looked for
            return LaterCondition(partial(self.condition, text, own))

        if "matcher" in data and data["matcher"] not in matcher_names():
            where = f"{data['file']}:{data['line']}, {data['id']}"
            hint = "`metier scan rules show --syntax` lists all matchers."
            raise RulesInvalid(f"{where}: there is no matcher {data['matcher']!r}.", hint=hint)
        return Rule(
            id=data["id"],
            title=data["title"],
            severity=data["severity"],
            category=data["category"],
            owasp=data["owasp"],
            meaning=data["meaning"],
            advice=data["advice"],
            harmless=data.get("harmless", ""),
            where=tuple(data.get("where", PLACES)),
            stance=tuple(data.get("stance", ())),
            when=later(data["when"]) if "when" in data else None,
            needs=tuple(frozenset(map(named, group)) for group in data["needs"]),
            unless=later(data["unless"]) if "unless" in data else None,
            grade=tuple((severity, later(text)) for severity, text in data.get("grade", {}).items()),
            once=data.get("once", ""),
            sums_up=data.get("sums-up", ""),
            matcher=data.get("matcher", ""),
            options=data.get("options", {}),
            terms=own,
            names=tuple((named(name), words) for name, words in data.get("names", {}).items()),
            names_within=data.get("names-within", 0),
            pack=pack,
        )

    def condition(self, text: str, terms: Mapping[str, Term]) -> Condition:
        """The condition of a text, with the terms of a rule and all lexicons."""
        return read_condition(text, lambda name: terms.get(name) or self._lexicon(name))

    def _lexicon(self, name: str) -> Term | None:
        if name not in self._terms and name in self._senses:
            self._terms[name] = Term(name, self._senses[name], self._words)
        return self._terms.get(name)

    def text(self, read: SkillStatements) -> SkillText:
        """The statements of a skill as the conditions of these rules ask about them."""
        return SkillText(read, self._words)

    def hits(self, read: SkillStatements) -> tuple[dict[str, list[Hit]], dict[str, Exception]]:
        """The findings of the rules, and the errors of those that failed, by their ids."""
        text, failed = self.text(read), dict[str, Exception]()
        text.rules = self._kinds
        is_late = text.is_late = time_is_up.get()
        for rule in self._in_order:
            if not rule.matcher and not text.may_say(rule.needs):
                continue
            if is_late():
                break
            try:
                found = rule.when.condition.bound(text) if rule.when is not None else 0
                hits = list(_hits(rule, text, found)) if found else []
                if rule.matcher:
                    hits += matcher(rule.matcher)(text, rule)
            except Exception as error:  # whatever it is, the other rules are applied
                failed[rule.id] = error
                continue
            if hits:
                text.found[rule.id] = hits
        return text.found, failed

    def hits_of(self, name: str, view: SkillView) -> Iterable[Hit]:
        """What one rule finds in a skill; all of them look when the first is asked. Raises what a rule raised."""
        last = self._last
        if last.view is not view:
            last.found, last.failed = self.hits(reading(view))
            last.view = view
        if name in last.failed:
            raise last.failed[name]
        return last.found.get(name, ())

    def scan_rules(self, source: str) -> tuple[ScanRule, ...]:
        """Each rule as the scanner applies it; `source` is the digest of its pack."""
        return tuple(
            ScanRule(
                id=rule.id,
                ast=rule.owasp,
                category=rule.category,
                severity=rule.severity,
                message=rule.meaning,
                hint=rule.advice,
                check=partial(self.hits_of, rule.id),
                title=rule.title,
                harmless=rule.harmless,
                sums_up=rule.sums_up,
                source=source,
                keeps_time=True,
            )
            for rule in self.rules
        )


@cache
def core_book() -> RuleBook:
    """The rules that come with the package."""
    return RuleBook([("core", core_pack())], FACTS, core_words())


def pack_book(name: str, pack: Mapping[str, Any]) -> RuleBook:
    """The rules of another pack, which may use the lexicons of the core pack."""
    book = RuleBook([("core", {**core_pack(), "rules": ()}), (name, pack)])
    lines = {rule["id"]: f"{rule['file']}:{rule['line']}" for rule in pack["rules"]}
    for rule in book.rules:
        if rule.when is not None and not rule.when.condition.is_anchored:
            raise RulesInvalid(
                f"{lines[rule.id]}, {rule.id}: its condition holds for statements without any word to look for.",
                hint="Let it need a term each of whose phrases has a word of two letters or more.",
            )
    return book


@cache
def core_rules() -> tuple[ScanRule, ...]:
    """The rules of the core pack, each as the scanner applies it."""
    return core_book().scan_rules(core_digest())


def _hits(rule: Rule, text: SkillText, found: int) -> Iterator[Hit]:
    """What the condition of a rule finds among statements; nothing more where enough is as grave as the rule itself."""
    if len(rule.where) < len(PLACES):
        found &= text.at_places(rule.where)
    once: set[int] = set()
    grave = 0
    for some in pieces(found):
        for at, severity in _graded(rule, text, some) if some else ():
            if rule.once:
                scope = next(text.stretches(rule.once, 1 << at)).start
                if scope in once:
                    continue
                once.add(scope)
            hit = _hit(rule, text, at, severity)
            grave += rank(hit.severity or rule.severity) >= rank(rule.severity)
            yield hit
            if grave > MAX_HITS:
                return


def _graded(rule: Rule, text: SkillText, found: int) -> list[tuple[int, Severity]]:
    """Those of some statements that the condition of a rule holds for, each with how grave that is."""
    assert rule.when is not None
    found = rule.when.condition.select(text, found)
    if found and rule.unless is not None:
        found &= ~rule.unless.condition.select(text, found)
    if found and rule.stance and "any" not in rule.stance:
        found = text.where(found, lambda text, at: text.statements[at].stance in rule.stance)
    if not found or not rule.grade:
        return [(at, rule.severity) for at in places_in(found)] if found else []
    graded: list[tuple[int, Severity]] = []
    for severity, later in rule.grade:
        some = later.condition.select(text, found)
        graded += [(at, severity) for at in places_in(some)]
        found &= ~some
        if not found:
            break
    return sorted(graded)


def _hit(rule: Rule, text: SkillText, at: int, severity: Severity) -> Hit:
    """The finding of a rule at a statement, in its context."""
    one = text.statements[at]
    anchors = rule.when.condition.anchors if rule.when is not None else ()
    matches = [match for term in anchors if (match := text.find(term, at)) is not None]
    anchor = next(iter(matches), None)
    stance: str = one.stance
    if rule.stance != ("any",):
        severity, stance = judged(severity, one, anchor, text.read)
    hit = one.hit(one.text, severity, at=anchor.start() if anchor is not None else -1)
    shows, first = hit.text, min((match.start() for match in matches), default=0)
    if not one.breaks and first > _BEFORE and max(match.end() for match in matches) > MAX_TEXT:
        shows = "…" + one.text[one.text.rfind(" ", 0, first - _BEFORE) + 1 :]
    elif shows.endswith(":"):
        shows = " ".join([shows, *(each.text for each in text.statements[at + 1 : at + 4] if each.path == one.path)])
    return replace(hit, text=shows[:400], stance=stance, message=_message(rule, text, at) if rule.names else "")


def _message(rule: Rule, text: SkillText, at: int) -> str:
    """The meaning of a rule, with the things that were found at a statement, or around it with their lines."""
    found: dict[str, str] = {}
    own, statements = text.statements[at], text.statements
    around = range(max(0, at - rule.names_within), min(len(statements), at + rule.names_within + 1))
    for place in sorted(around, key=lambda place: abs(place - at)):
        one = statements[place]
        for term, words in rule.names if one.path == own.path else ():
            if match := text.find(term, place):
                said = words.replace("{}", f"`{shown(one.text[match.start() : match.end()].strip(), 60)}`")
                found.setdefault(words, said + (f" (line {one.line})" if one.line != own.line else ""))
    return f"{rule.meaning} Here: {', '.join(found.values())}." if found else ""


def looks_at(where: tuple[str, ...], text: SkillText, at: int) -> bool:
    """Whether a statement is at one of these places."""
    return bool(text.at_places(where) & 1 << at)
