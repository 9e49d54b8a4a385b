"""The reasons why a rule finds an example or does not, by the terms of its condition."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from metier.scan.condition import LEVELS
from metier.scan.finding import rank
from metier.scan.pack import CORE, entries_of, files_of
from metier.scan.reading import view_of
from metier.scan.rule_book import looks_at
from metier.scan.skill_statements import reading

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from metier.scan.condition import Condition
    from metier.scan.rule_book import Rule, RuleBook
    from metier.scan.statement import Statement
    from metier.scan.term import Term
    from metier.scan.text import SkillText
    from metier.skill import Package

_TOKEN = re.compile(r"[a-z][a-z0-9-]*|[(),]|[^a-z(),]+")
_LEVEL = re.compile(r"(host|receiver) >= ([a-z]+)")
_NEGATED = re.compile(r"negated\(([a-z][a-z0-9-]*)\)")
_NAME = re.compile(r"[a-z][a-z0-9-]*")
_MILD = frozenset({"fixture", "counterexample", "quotation", "teaching", "warning", "report"})
_NAMED_PHRASES = 3
_TEXT = 120


def reasons_missed(book: RuleBook, entry: Mapping[str, Any], package: Package, stance: str) -> list[str]:
    """The reasons why a rule does not find an example as grave as it should; `stance` is that of its finding."""
    return _Example(book, entry, package).missed(stance)


def reasons_found(book: RuleBook, entry: Mapping[str, Any], package: Package) -> list[str]:
    """The reasons why a rule finds an example."""
    return _Example(book, entry, package).found()


class _Sentence(NamedTuple):
    """A statement of the example, by its place."""

    text: SkillText
    at: int

    @property
    def statement(self) -> Statement:
        return self.text.statements[self.at]

    def find(self, term: Term) -> re.Match[str] | None:
        """The place at which it says a term."""
        return self.text.find(term, self.at)

    def __str__(self) -> str:
        one = self.statement
        text = one.text if len(one.text) <= _TEXT else f"{one.text[:_TEXT]} …"
        return f"{one.path}:{one.line}, `{text}`"


class _Example:
    """One example under one rule."""

    def __init__(self, book: RuleBook, entry: Mapping[str, Any], package: Package) -> None:
        self._book = book
        self._entry = entry
        self._rule: Rule = next(rule for rule in book.rules if rule.id == entry["id"])
        self._terms: Mapping[str, Term] = book.terms[entry["id"]]
        self._conditions: dict[str, Condition] = {}
        text = book.text(reading(view_of(package)))
        self._sentences = [_Sentence(text, at) for at in range(len(text.statements))]

    def missed(self, stance: str) -> list[str]:
        if self._rule.when is None:
            return [f"The matcher `{self._rule.matcher}` finds nothing in it with these options."]
        if not self._sentences:
            return ["There is no text in it that is read."]
        parts = split(self._entry["when"], "and")
        lacking = {sentence: self._lacking(parts, sentence) for sentence in self._sentences}
        whole = [sentence for sentence in self._sentences if not lacking[sentence]]
        if whole:
            return [reason for sentence in whole[:2] for reason in self._taken_away(sentence, stance)]
        nearest = min(self._sentences, key=lambda one: (len(lacking[one]), _is_frontmatter(one)))
        held = [part for part in parts if part not in lacking[nearest]]
        said = f", which has {_joined(f'`{part}`' for part in held)}" if held else ""
        reasons = [f"The nearest is {nearest}{said}."]
        reasons += [f"Missing: {self._why_not(part, nearest)}." for part in lacking[nearest]]
        return reasons

    def found(self) -> list[str]:
        if self._rule.when is None:
            return [f"The matcher `{self._rule.matcher}` finds it with these options."]
        reasons = []
        for sentence in self._sentences:
            if self._rule.when.condition.holds(*sentence) and looks_at(self._rule.where, *sentence):
                matches = [
                    (term.name, found[0])
                    for term in self._rule.when.condition.anchors
                    if (found := sentence.find(term))
                ]
                said = _joined(f"`{name}` by {text!r}" for name, text in matches)
                reasons.append(f"{sentence} says {said}." if said else f"The condition holds for {sentence}.")
                if unless := self._entry.get("unless"):
                    why = "; ".join(self._why_not(part, sentence) for part in split(unless, "or"))
                    reasons.append(f"`unless` does not hold: {why}.")
        reasons.append("Let a term be narrower, add one that is needed, or say in `unless` what makes it harmless.")
        return reasons[-3:]

    def _holds(self, condition: str, sentence: _Sentence) -> bool:
        return self._condition(condition).holds(*sentence)

    def _condition(self, text: str) -> Condition:
        """A condition, which is kept: texts remember the answers of those that look far."""
        if text not in self._conditions:
            self._conditions[text] = self._book.condition(text, self._terms)
        return self._conditions[text]

    def _lacking(self, parts: Sequence[str], sentence: _Sentence) -> list[str]:
        return [part for part in parts if not self._holds(part, sentence)]

    def _taken_away(self, sentence: _Sentence, stance: str) -> Iterator[str]:
        """The reasons why a sentence that the condition holds for counts for less, or for nothing."""
        rule, one = self._rule, sentence.statement
        begun = f"`when` holds for {sentence}, but"
        if not looks_at(rule.where, *sentence):
            yield f"{begun} the rule does not look there: `where` is {', '.join(rule.where)}."
        elif rule.unless is not None and rule.unless.condition.holds(*sentence):
            held = [part for part in split(self._entry["unless"], "or") if self._holds(part, sentence)]
            yield f"{begun} `unless` takes it away: {_joined(self._why(part, sentence) for part in held)}."
        elif rule.stance and "any" not in rule.stance and one.stance not in rule.stance:
            yield f"{begun} it is said as `{one.stance}`, and `stance` wants {' or '.join(rule.stance)}."
        else:
            graded = next((severity for severity, later in rule.grade if later.condition.holds(*sentence)), "")
            if rule.grade and not graded:
                yield f"{begun} no condition of `grade` does: add `low: otherwise`, or a condition that fits."
            elif graded and rank(graded) < rank(rule.severity):
                yield f"{begun} `grade` calls it {graded}: no condition of a graver one holds."
            elif (stance or one.stance) in _MILD or one.stance in _MILD:
                yield (
                    f"{begun} it is said as `{stance or one.stance}`, which weighs less than an order. "
                    "Word the example as an order, or write `stance: [any]` if that is no excuse."
                )
            else:
                yield f"{begun} another finding of the same rule counts in its place (`once`)."

    def _why(self, part: str, sentence: _Sentence) -> str:
        found = self._match(part, sentence)
        return f"it says `{part}` by {found[0]!r}" if found is not None else f"`{part}` holds"

    def _match(self, name: str, sentence: _Sentence) -> re.Match[str] | None:
        term = self._term(name)
        return sentence.find(term) if term is not None else None

    def _why_not(self, part: str, sentence: _Sentence) -> str:
        part = _bare(part)
        choices = split(part, "or")
        if len(choices) > 1:
            return f"none of these holds: {'; '.join(self._why_not(one, sentence) for one in choices)}"
        both = split(part, "and")
        if len(both) > 1:
            return _joined(self._why_not(one, sentence) for one in self._lacking(both, sentence))
        if part.startswith("not "):
            return f"`{part}` does not hold, as {self._why(_bare(part[4:]), sentence)}"
        if (level := _LEVEL.fullmatch(part)) is not None:
            return self._why_no_address(part, level[1], sentence)
        if part.startswith("count("):
            counted = [one for one in _arguments(part) if self._holds(one, sentence)]
            return f"`{part}`, of which {_joined(f'`{one}`' for one in counted) or 'none'} holds"
        if (asked := _NEGATED.fullmatch(part)) is not None and (found := self._match(asked[1], sentence)) is not None:
            return f"`{part}`, as no negation that it knows stands before {found[0]!r}"
        term = self._term(part)
        if term is None:
            return f"`{part}` does not hold here"
        other = next((one for one in self._sentences if one.find(term) is not None), None)
        if other is not None:
            return f"`{part}`, which is said elsewhere ({other}): `near({part})` or `file({part})` would look there"
        return f"`{part}` ({self._phrases(part, sentence)})"

    def _term(self, name: str) -> Term | None:
        if _NAME.fullmatch(name) is None:
            return None
        triggers = self._condition(name).anchors
        return triggers[0] if triggers else None

    def _why_no_address(self, part: str, kind: str, sentence: _Sentence) -> str:
        level = sentence.text.doubt(sentence.at) if kind == "host" else sentence.text.receiver(sentence.at)
        if level < 0:
            return f"`{part}`: it names no address"
        name = next(name for name, value in LEVELS.items() if value == level)
        return f"`{part}`: its address is `{name}`"

    def _phrases(self, name: str, sentence: _Sentence) -> str:
        """The phrases of a term that is not said, the one first that comes nearest."""
        phrases = self._written(name)
        words = set(re.findall(r"[\w'’-]+", sentence.statement.low))  # noqa: RUF001
        best = max(phrases, key=lambda phrase: _nearness(phrase, words), default="")
        if best and _nearness(best, words) > 0:
            missing = [word for word in _words_of(best) if not _is_among(word, words)]
            if missing:
                return f"nearest is `{_short(best)}`, without {_joined(map(repr, missing))}"
            return f"nearest is `{_short(best)}`, whose words stand in another order, or too far apart"
        shown = ", ".join(f"`{_short(phrase)}`" for phrase in phrases[:_NAMED_PHRASES])
        return f"it says none of its phrases: {shown}{' ...' if len(phrases) > _NAMED_PHRASES else ''}"

    def _written(self, name: str) -> list[str]:
        term = self._entry.get("terms", {}).get(name)
        if term is None:
            term = entries_of(files_of(CORE), is_core=True).lexicons.get(name, {}).get("terms", [])
        return list(map(str, term if isinstance(term, list) else [one for some in term.values() for one in some]))


def split(condition: str, word: str) -> list[str]:
    """The parts of a condition that a word joins, outside of brackets.

    >>> split("a and (b and c) and not d", "and"), split("a and b or c", "and"), split("a and b or c", "or")
    (['a', '(b and c)', 'not d'], ['a and b or c'], ['a and b', 'c'])
    """
    condition = " ".join(condition.split())
    parts, depth = [""], 0
    for token in _TOKEN.findall(condition):
        depth += (token == "(") - (token == ")")
        if depth == 0 and token == "or" and word == "and":
            return [condition]
        if depth == 0 and token == word:
            parts.append("")
        else:
            parts[-1] += token
    return [part.strip() for part in parts]


def _bare(part: str) -> str:
    """A part without the brackets around all of it."""
    while part.startswith("(") and part.endswith(")"):
        depth = 0
        for at, letter in enumerate(part):
            depth += (letter == "(") - (letter == ")")
            if depth == 0 and at < len(part) - 1:
                return part
        part = part[1:-1].strip()
    return part


def _arguments(call: str) -> list[str]:
    """The arguments of a call."""
    inner = call[call.index("(") + 1 : call.rindex(")")]
    parts, depth = [""], 0
    for token in _TOKEN.findall(inner):
        depth += (token == "(") - (token == ")")
        if depth == 0 and token == ",":
            parts.append("")
        else:
            parts[-1] += token
    return [part.strip() for part in parts]


def _is_frontmatter(sentence: _Sentence) -> bool:
    return sentence.statement.kind == "frontmatter"


def _words_of(phrase: str) -> list[str]:
    """The words that a phrase needs, as far as they are plain: `send*` stands for its beginning."""
    if phrase.startswith("/"):
        return []
    plain = re.sub(r"\[[^\]]*\]|<[^>]*>|\.{2,3}\d*|\b_\b", " ", phrase.lower())
    return [word for word in re.findall(r"\([^()]*\)\*?|[\w'’-]+\*?", plain) if word]  # noqa: RUF001


def _is_among(word: str, words: set[str]) -> bool:
    """Whether a word of a phrase, or one of its choices, is said."""
    is_open = word.endswith("*")
    for choice in word.rstrip("*").strip("()").split("|"):
        inner = [one for one in choice.split() if one]
        if inner and all(any(said == one or (is_open and said.startswith(one)) for said in words) for one in inner):
            return True
    return False


def _nearness(phrase: str, words: set[str]) -> float:
    needed = _words_of(phrase)
    return sum(_is_among(word, words) for word in needed) / len(needed) if needed else 0.0


def _short(phrase: str) -> str:
    return phrase if len(phrase) <= 60 else f"{phrase[:60]} …"


def _joined(parts: Any) -> str:
    """`a`, `b` and `c`."""
    *first, last = [*parts] or [""]
    return f"{', '.join(first)} and {last}" if first else last
