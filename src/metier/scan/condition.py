"""The conditions of rules: `asks and after(12, sends and host >= stranger)`.

A condition is about one statement, a sentence of prose or a line of code. Names in it are terms of the rule, lexicons,
or facts about the statement. Functions ask the same of other statements:

| written | holds if |
|---|---|
| `a and b`, `a or b`, `not a` | as said |
| `near(a)` | `a` holds for this statement or one of the three before or after it; `near(6, a)` for six |
| `before(n, a)`, `after(n, a)` | `a` holds for one of the `n` statements before, or this one and `n` after it |
| `passage(a)` | `a` holds for a statement below the same heading |
| `file(a)`, `skill(a)` | `a` holds for a statement of the file, or of the skill |
| `count(a, b, 2 c) >= 2` | at least two of them hold; `c` counts twice |
| `negated(t)` | the statement says the term, and speaks against it: "never send it" |
| `quoted(t)` | the statement says the term right after a quotation mark |
| `bound(t, a)` | the name that `t` has in brackets is given its value in a statement of the file, of which `a` holds |
| `lead(t)` | what introduces the list, the table or the code that it is a part of says the term |
| `bidden(t, u)` | one clause, titles of links aside, says all of these terms, and does not speak against the first |
| `host >= stranger` | it names an address: `host >= known`, `own`, `stranger`, `odd`, `nobody` |
| `receiver >= stranger` | the same of addresses and mailboxes |
| `host` | it names an address |
| `leads(sink, tunnel)` | it names an address of one of these kinds |
| `own-service` | its address is that of a service for everybody, by whose name the skill is called |
| `prose`, `code`, `row` | it is a sentence, a line of code, or a row of a table |
| `comment`, `frontmatter` | it is a remark that readers do not see, or stands in the frontmatter |
| `script` | it stands in a script, and not in a page |
| `words` | it is language: prose, a remark in code, or a fence without code |
| `order` | it tells somebody to do something |
| `hinted`, `bad-company` | words in or around it, or what introduces it, call it something to look out for |
| `mentioned` | it tells what attackers do, or only names what others run, as a list of signs does |
| `warned` | it stands among many signs of attacks that a page on security lists |
| `security` | the skill says that security is what it is about |
| `veiled` | quotes, escapes or the like hid a command in it |
| `wallet-address` | it names an account that money can be sent to |
| `otherwise` | always; for the last line of `grade` |
| `long` | it has more than 400 characters |
| `bundle` | its file has more than 2,000 statements, where everything stands somewhere |
| `lock-file` | it stands in a file in which a package manager keeps which versions it chose |
| `template` | it stands in a file that is edited and not read, such as HTML or SVG |
| `settings` | it is a line of JSON, YAML or TOML, in a fence or in a file of its own |
| `program` | it is a line of a programming language, and no command |
| `followed` | it is code that the matcher `flow` read by its structure |
| `own-name` | it calls the skill by its name |
| `real-host` | somebody could be at its address, which is not one that examples of attacks use |
| `odd-host` | its address is one that costs nothing, or is called like a brand, whoever it is related to |
| `vendor` | its address has the name of what the skill is about for its own, with nothing added |
| `unrun-test` | it stands in a file of tests that nothing in the skill has run |
| `packaged` | its address leads to a project that is its own owner and that a package manager has, too |
| `setting-up` | it stands below a heading about what to do first, such as "Installation" |
| `lone-host` | no other statement of the skill names the host or mailbox of a stranger that it names |
| `own-key` | the one key that it names is called like the host that it names, as keys are by who gives them |
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from metier._lazy import dataclass
from metier._regex_cache import kept_regex
from metier.scan.facts import COSTLY, FACTS, OF_ADDRESSES
from metier.scan.hosts import SHADY
from metier.scan.masks import pieces, spread
from metier.scan.stance import negated
from metier.scan.text import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from metier.scan.facts import Test
    from metier.scan.term import Term
    from metier.scan.text import SkillText

Select: TypeAlias = "Callable[[SkillText, int], int]"

LEVELS = {"none": -1, "known": 0, "own": 1, "stranger": 2, "odd": 3, "nobody": 4}
"""How little is known of who answers at an address: `own` is called like the skill, `nobody` is anybody's at once."""
MAX_NEAR = 60
_MAX_WEIGHT = 9
_MAX_DEPTH = 24
_MAX_LOOKS = 20_000
"""Statements that may be looked at for one, where `near` and the like stand inside of each other."""
_SCOPES = ("near", "before", "after")
_WIDE = ("passage", "file", "skill")
_TOKEN = kept_regex(r"\s*(>=|[a-z][a-z0-9-]*|\d{1,3}|[(),])")
_WORDS = frozenset({"and", "or", "not"})
_PARSES = 9
"""The cost of a fact for which a script is parsed."""
_LINK = kept_regex(r"\[[^\]\n]{1,80}\]\((?![a-z]{2,8}:)[^)\n]{1,200}\)")
"""A link to another page of the same documentation: its words are a title, and no order."""
_PATH = kept_regex(r"(https?://[^\s/]{1,253})/[^\s?#]+")
"""An address, whose words say where something lies and not what is to be done."""
_CLAUSE = kept_regex(r"[;|\uff1b]")
_GIVEN = kept_regex(r"\s*(?:\w{3,8}\s+){0,2}([a-z_]\w{0,60})\s*(?::\s*\w+\s*)?=")
"""A name that is given a value."""
_NO_TERMS: frozenset[Term] = frozenset()
_QUOTES = tuple("\"'\u201c\u2018\u300c`")


class ConditionError(ValueError):
    """A condition that cannot be read; the message says why."""


def _anything(text: SkillText) -> int:
    return text.everything


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition, or a part of one, ready to be asked of many statements at once."""

    select: Select
    """Those of some statements that it holds for."""
    bound: Callable[[SkillText], int] = _anything
    """The statements that it may hold for, by words and kinds alone, without looking closely."""
    anchors: tuple[Term, ...] = ()
    """The terms that the statement itself may say, in the order in which they are written."""
    cost: int = 0
    """The least is asked first: facts, then terms, then addresses, then other statements."""
    is_anchored: bool = False
    """Whether every statement that it holds for says one of some words."""
    needs: tuple[frozenset[Term], ...] = ()
    """Terms of which the skill must say one of each group somewhere for it to hold anywhere."""
    width: int = 0
    """How many terms its bound looks up."""
    term: Term | None = None
    """The term that its bound looks up, if that is all."""

    def holds(self, text: SkillText, at: int) -> bool:
        """Whether it holds for one statement."""
        return self.select(text, 1 << at) != 0

    def find(self, text: SkillText, among: int) -> int:
        """Those of some statements that it holds for, where most are ruled out by their words."""
        among &= self.bound(text)
        return self.select(text, among) if among else 0


def read_condition(text: str, resolve: Callable[[str], Term | None]) -> Condition:
    """The condition of a text; `resolve` returns the term of the rule, or the lexicon, by a name."""
    reader = _Reader(text, resolve)
    whole = reader.either()
    if reader.token:
        raise ConditionError(f"has `{reader.token}` where nothing more is expected")
    return whole


def _by_cost(parts: Sequence[Condition]) -> list[Select]:
    return [part.select for part in sorted(parts, key=lambda part: part.cost)]


def _any_of(parts: Sequence[Condition]) -> Condition:
    selects = _by_cost(parts)

    def select(text: SkillText, among: int) -> int:
        found = 0
        for one in selects:
            found |= one(text, among & ~found)
            if found == among:
                break
        return found

    terms = frozenset(part.term for part in parts if part.term is not None)
    bounds = [part.bound for part in parts if part.term is None]
    needs = [min(part.needs, key=len, default=_NO_TERMS) for part in parts]

    def bound(text: SkillText) -> int:
        found, may = 0, text.may
        for term in may.keys() & terms:
            found |= may[term]
        for one in bounds:
            found |= one(text)
        return found

    is_anchored = all(part.is_anchored for part in parts)
    return _joined(select, bound, parts, is_anchored, (_NO_TERMS.union(*needs),) if all(needs) else ())


def _all_of(parts: Sequence[Condition]) -> Condition:
    selects = _by_cost(parts)

    def select(text: SkillText, among: int) -> int:
        for one in selects:
            among = one(text, among)
            if not among:
                return 0
        return among

    # The fewer terms there are, the less is looked up before most is ruled out.
    terms = [part.term for part in parts if part.term is not None]
    others = sorted((part for part in parts if part.term is None), key=lambda part: part.width)
    bounds = [part.bound for part in others if part.bound is not _anything]

    def bound(text: SkillText) -> int:
        found, may = text.everything, text.may
        for term in terms:
            if term not in may:
                return 0
            found &= may[term]
        for one in bounds:
            found &= one(text)
            if not found:
                break
        return found

    needs = tuple(dict.fromkeys(group for part in parts for group in part.needs))
    return _joined(select, bound, parts, any(part.is_anchored for part in parts), needs)


def _joined(
    select: Select,
    bound: Callable[[SkillText], int],
    parts: Sequence[Condition],
    is_anchored: bool,
    needs: tuple[frozenset[Term], ...],
) -> Condition:
    anchors = tuple(dict.fromkeys(term for part in parts for term in part.anchors))
    cost, width = max(part.cost for part in parts), sum(part.width for part in parts)
    return Condition(select, bound, anchors, cost, is_anchored, needs, width)


def _of_kind(name: str, *, is_not: bool = False) -> Condition:
    """The statements that are of a kind, or are not."""

    def bound(text: SkillText) -> int:
        return text.everything & ~text.kinds[name] if is_not else text.kinds[name]

    return Condition(lambda text, among: among & bound(text), bound)


def _of_term(term: Term, holds: Test | None = None, cost: int = 1, *, is_anchor: bool = False) -> Condition:
    """The statements that say a term, and for which something more holds."""

    def select(text: SkillText, among: int) -> int:
        said = text.says(term, among)
        return said if holds is None or not said else text.where(said, holds)

    anchors = (term,) if is_anchor else ()
    needs = (frozenset((term,)),)
    return Condition(select, lambda text: text.may.get(term, 0), anchors, cost, term.is_anchored, needs, 1, term)


def _of_fact(holds: Test, cost: int = 0, *, is_addressed: bool = False) -> Condition:
    """The statements for which a fact holds; only those that may name an address, if it is about that."""
    bound = (lambda text: text.addressed) if is_addressed else _anything
    return Condition(lambda text, among: text.where(among, holds), bound, cost=cost)


def _tokens(text: str) -> Iterator[str]:
    at = 0
    for found in _TOKEN.finditer(text):
        if found.start() != at:
            break
        yield found[1]
        at = found.end()
    if text[at:].strip():
        raise ConditionError(f"cannot be read from `{text[at:].strip()[:30]}` on")


class _Reader:
    """A condition, read from left to right."""

    def __init__(self, text: str, resolve: Callable[[str], Term | None]) -> None:
        self._tokens = _tokens(" ".join(text.split()))
        self._resolve = resolve
        self._depth = 0
        self._looks = 1
        self.token = ""
        self._advance()

    def _advance(self) -> str:
        """The token before the next one, which is read; an empty one is the end."""
        token, self.token = self.token, next(self._tokens, "")
        return token

    def _expect(self, token: str) -> None:
        if self.token != token:
            raise ConditionError(f"needs `{token}` where it has `{self.token or 'its end'}`")
        self._advance()

    def either(self) -> Condition:
        parts = [self._both()]
        while self.token == "or":
            self._advance()
            parts.append(self._both())
        return _any_of(parts) if len(parts) > 1 else parts[0]

    def _both(self) -> Condition:
        parts = [self._negation()]
        while self.token == "and":
            self._advance()
            parts.append(self._negation())
        return _all_of(parts) if len(parts) > 1 else parts[0]

    def _negation(self) -> Condition:
        if self.token != "not":
            return self._atom()
        self._advance()
        if self.token in KINDS:
            return _of_kind(self._advance(), is_not=True)
        part = self._atom()
        return Condition(lambda text, among: among & ~part.select(text, among), cost=part.cost)

    def _atom(self) -> Condition:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ConditionError("has too many brackets inside brackets")
        part = self._inner_atom()
        self._depth -= 1
        return part

    def _inner_atom(self) -> Condition:
        name = self._advance()
        if name == "(":
            part = self.either()
            self._expect(")")
            return part
        if not name or not name[0].isalpha() or name in _WORDS:
            raise ConditionError(f"has `{name or 'its end'}` where a name is expected")
        if self.token == "(":
            self._advance()
            if name == "count":
                return self._count()
            part = self._call(name)
            self._expect(")")
            return part
        if self.token == ">=":
            return self._level(name)
        return self._named(name)

    def _named(self, name: str) -> Condition:
        term = self._resolve(name)
        if term is not None:
            return _of_term(term, is_anchor=True)
        if name in KINDS:
            return _of_kind(name)
        if name not in FACTS:
            raise ConditionError(f"names `{name}`, which is neither a term, a lexicon nor a fact")
        if name in OF_ADDRESSES:
            return _of_fact(FACTS[name], cost=2, is_addressed=True)
        if name in COSTLY:
            return _of_fact(FACTS[name], cost=2)
        if name == "followed":
            return _of_fact(FACTS[name], cost=_PARSES)
        return _of_fact(FACTS[name])

    def _level(self, name: str) -> Condition:
        if name not in ("host", "receiver"):
            raise ConditionError(f"compares `{name}`, which has no levels: `host` and `receiver` have")
        self._advance()
        level = LEVELS.get(self._advance())
        if level is None:
            raise ConditionError(f"compares `{name}` with something other than {', '.join(LEVELS)}")
        if name == "host":
            return _of_fact(lambda text, at: text.doubt(at) >= level, cost=2, is_addressed=level >= 0)
        return _of_fact(lambda text, at: text.receiver(at) >= level, cost=2, is_addressed=level >= 0)

    def _call(self, name: str) -> Condition:
        match name:
            case "negated":
                term = self._term(name)
                return _of_term(term, lambda text, at: _is_negated(text, term, at))
            case "quoted":
                term = self._term(name)
                return _of_term(term, lambda text, at: _is_quoted(text, term, at))
            case "lead":
                term = self._term(name)
                return _of_fact(lambda text, at: _is_led_by(text, term, at), cost=1)
            case "bound":
                return self._bound()
            case "bidden":
                return self._bidden()
            case "leads":
                return self._leads()
        if name in _WIDE:
            return _anywhere(name, self.either())
        if name in _SCOPES:
            return self._close(name)
        raise ConditionError(f"calls `{name}`, which is not there")

    def _close(self, name: str) -> Condition:
        reach = 3
        if self.token.isdigit():
            reach = min(int(self._advance()), MAX_NEAR)
            self._expect(",")
        before = self._looks
        self._looks *= 2 * reach + 1
        if self._looks > _MAX_LOOKS:
            raise ConditionError(f"looks too far: `{name}` inside of others like it")
        inner = self.either()
        self._looks = before
        ahead, behind = (reach if name != "after" else 0), (reach if name != "before" else 0)

        def select(text: SkillText, among: int) -> int:
            hits = inner.find(text, spread(among, ahead, behind) & text.everything)
            return text.where(
                among & spread(hits, behind, ahead), lambda text, at: text.is_close(at, hits, ahead, behind)
            )

        def bound(text: SkillText) -> int:
            hits = inner.bound(text)
            return spread(hits, behind, ahead) & text.everything if hits else 0

        return Condition(select, bound, cost=3, needs=inner.needs, width=inner.width)

    def _term(self, function: str) -> Term:
        """The term that a function asks about."""
        asked = self._advance()
        term = self._resolve(asked)
        if term is None:
            raise ConditionError(f"asks `{function}` of `{asked}`, which is neither a term nor a lexicon")
        return term

    def _bidden(self) -> Condition:
        terms = [self._term("bidden")]
        while self.token == ",":
            self._advance()
            terms.append(self._term("bidden"))
        said, asked = _all_of([_of_term(term) for term in terms]), tuple(terms)
        return Condition(
            lambda text, among: text.where(said.select(text, among), lambda text, at: _is_bidden(text, asked, at)),
            said.bound,
            asked,
            cost=1,
            is_anchored=said.is_anchored,
            needs=said.needs,
            width=said.width,
        )

    def _bound(self) -> Condition:
        term = self._term("bound")
        self._expect(",")
        inner = self.either()
        return _of_term(term, lambda text, at: _is_bound(text, term, at, inner), cost=3)

    def _leads(self) -> Condition:
        kinds = {self._advance()}
        while self.token == ",":
            self._advance()
            kinds.add(self._advance())
        if not kinds <= SHADY:
            raise ConditionError(f"asks for an address of another kind than {', '.join(sorted(SHADY))}")
        return _of_fact(
            lambda text, at: any(place.kind in kinds for place in text.statements[at].places), cost=2, is_addressed=True
        )

    def _weighed(self) -> tuple[int, Condition]:
        weight = min(int(self._advance()), _MAX_WEIGHT) if self.token.isdigit() else 1
        return weight, self.either()

    def _count(self) -> Condition:
        weighed = [self._weighed()]
        while self.token == ",":
            self._advance()
            weighed.append(self._weighed())
        self._expect(")")
        self._expect(">=")
        if not self.token.isdigit():
            raise ConditionError("needs a number after `count(...) >=`")
        least = max(int(self._advance()), 1)

        def enough(masks: Sequence[tuple[int, int]]) -> int:
            """The statements in so many masks: `found[n]` are those in more than n of the ones before."""
            found = [0] * least
            for weight, mask in masks:
                for _ in range(weight):
                    for level in range(least - 1, 0, -1):
                        found[level] |= found[level - 1] & mask
                    found[0] |= mask
            return found[-1]

        return Condition(
            lambda text, among: enough([(weight, part.find(text, among)) for weight, part in weighed]),
            lambda text: enough([(weight, part.bound(text)) for weight, part in weighed]),
            cost=4,
            width=sum(part.width for _, part in weighed),
        )


def _anywhere(scope: str, inner: Condition) -> Condition:
    """Whether a condition holds for a statement of the passage, the file or the skill."""

    def cover(text: SkillText, among: int, hits: Callable[[int], int]) -> int:
        found = 0
        for stretch in text.stretches(scope, among):
            found |= stretch.mask if any(map(hits, pieces(stretch.mask))) else 0
        return found & among

    return Condition(
        lambda text, among: cover(text, among, lambda stretch: inner.find(text, stretch)),
        lambda text: text.everything if inner.bound(text) else 0,
        cost=4,
        needs=inner.needs,
        width=inner.width,
    )


def _is_negated(text: SkillText, term: Term, at: int) -> bool:
    """Whether a statement speaks against what it says."""
    found = text.find(term, at)
    return found is not None and negated(found.string[max(0, found.start() - 140) : found.start()].lower())


def _is_quoted(text: SkillText, term: Term, at: int) -> bool:
    """Whether a quotation mark stands before what it says."""
    found = text.find(term, at)
    return found is not None and found.string[max(0, found.start() - 1) : found.start()] in _QUOTES


def _is_led_by(text: SkillText, term: Term, at: int) -> bool:
    """Whether what introduces a statement says a term, and ends with a colon."""
    lead = text.statements[at].lead
    return lead.endswith(":") and term.search(lead) is not None


def _is_bidden(text: SkillText, terms: tuple[Term, ...], at: int) -> bool:
    """Whether a clause of a statement says all terms, and does not speak against the first."""
    clauses = _clauses(text.statements[at].low)
    if not clauses:
        return not _is_negated(text, terms[0], at)
    return _bids(clauses, tuple((term, text.phrases_of(term, at)) for term in terms))


@lru_cache(maxsize=512)
def _clauses(low: str) -> tuple[str, ...]:
    """The clauses of a sentence without titles of links; none where all of it is one."""
    said = _PATH.sub(r"\1/", _LINK.sub(" ", low)) if "/" in low else low
    return () if said == low and _CLAUSE.search(low) is None else tuple(_CLAUSE.split(said))


@lru_cache(maxsize=512)
def _bids(clauses: tuple[str, ...], terms: tuple[tuple[Term, tuple[int, ...]], ...]) -> bool:
    """Whether one of some clauses says all terms by some of their phrases, and does not speak against the first."""
    for clause in clauses:
        found = [term.first(phrases, clause, clause) for term, phrases in terms]
        if found[0] is not None and None not in found and not negated(clause[: found[0].start()][-140:]):
            return True
    return False


def _is_bound(text: SkillText, term: Term, at: int, inner: Condition) -> bool:
    """Whether the name, or the field, that a term puts in brackets is given its value where a condition holds."""
    found = text.find(term, at)
    if found is None or not found.lastindex:
        return False
    name, _, part = found[1].lower().partition(".")

    def gives(text: SkillText, at: int) -> bool:
        low = text.statements[at].low
        given = _GIVEN.match(low)
        return given is not None and given[1] == name and (not part or re.search(rf"\b{part}\b", low) is not None)

    return inner.select(text, text.where(inner.bound(text) & text.file_of(at).mask, gives)) != 0
