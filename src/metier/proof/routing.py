"""The tier of routing: prompts that should bring a skill up, and those that should not.

Each prompt is searched in the whole library as agents search it, by words alone, so that the answer is the same on
every machine. A prompt that should bring the skill up passes when the skill is among the first `top`. One that should
not passes unless the skill is plainly meant: first, ahead of the next by a tenth, and with a third of the words of the
prompt in its name or description. A search has a first result for nearly every prompt; alone that says nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from metier._lazy import dataclass
from metier.find.finder import Finder
from metier.find.query import Query
from metier.proof.report import CaseResult, TierResult
from metier.skill import shown

if TYPE_CHECKING:
    from metier import Library
    from metier.find.ranking import MatchedField
    from metier.find.results import Result
    from metier.proof.subject import TestSubject
    from metier.proof.suite import RoutingCase

DEEPEST = 50
"""The worst rank that is looked at; beyond it a skill counts as not found."""
AHEAD = 0.1
"""The least margin by which a skill that should not come up must lead to be plainly meant."""
MEANT = 1 / 3
"""The least share of the words of such a prompt that its name and description must have."""
_WORDS = 3


class TellingWord(NamedTuple):
    """A word of a prompt that counts more for another skill than for the one under test."""

    word: str
    more: float
    there: MatchedField
    here: MatchedField | None
    """Where the skill under test has it; None where it does not."""


def run_routing(library: Library, subject: TestSubject) -> TierResult:
    """Search the library with each prompt of the suite."""
    cases = subject.suite.routing
    if not cases:
        return TierResult.of("routing", [], reason="The suite has no case of this tier.")
    library = _with_subject(library, subject)
    if subject.name not in library:
        return TierResult.of("routing", [], reason="Its scope keeps it from whoever tests: name an agent of it.")
    entry = library.get(subject.name)
    found: list[CaseResult] = []
    for case in cases:
        id_ = case.id or shown(case.prompt, 80)
        if entry.is_hidden_from_models:
            found.append(_hidden(id_, case))
        else:
            found.append(_case_result(id_, case, Routed.of(Finder(library.index), case.prompt, subject.name)))
    return TierResult.of("routing", found, data={"skills": len(library)})


def _with_subject(library: Library, subject: TestSubject) -> Library:
    """The library in which the skill under test answers to its name: the given one, or one with its copy in it."""
    if subject.name in library and library.get(subject.name).location == subject.location:
        return library
    from metier import Library
    from metier.library import Place
    from metier.source import open_source

    # Nothing stands above what administrators have deployed, and under its name nothing else is searched.
    copy = Place(layer="enterprise", source=open_source(subject.root / "skills"))
    return Library([copy, *library.places], cache=False)


def _hidden(id_: str, case: RoutingCase) -> CaseResult:
    if not case.should_trigger:
        return CaseResult(id=id_, verdict="passed", data={"rank": None})
    return CaseResult(
        id=id_,
        verdict="failed",
        reason="Models never find it: it is for people only.",
        hint="Take `disable-model-invocation` out of it, or the prompt out of the suite.",
        data={"rank": None},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """The result of a search for one prompt, as one skill sees it."""

    prompt: str
    own: Result | None
    """The skill itself; None when nothing of the prompt is in it."""
    rank: int | None
    """None when it is not among the first."""
    other: Result | None
    """The skill that stands at the head, or behind it the next, of all others."""

    @classmethod
    def of(cls, finder: Finder, prompt: str, name: str, k: int = DEEPEST) -> Routed:
        """Search for a prompt with the eyes of a skill."""
        found = finder.explain(prompt, k)
        rank = next((rank for rank, one in enumerate(found, 1) if one.name == name), None)
        own = found[rank - 1] if rank else next(iter(finder.explain(prompt, 1, names=[name])), None)
        return cls(prompt=prompt, own=own, rank=rank, other=next((one for one in found if one.name != name), None))

    @property
    def margin(self) -> float:
        """The lead over the other in shares of the higher score: from -1, when nothing of the prompt is here, to 1."""
        if self.rank == 1 and self.own is not None and self.own.score >= 1:
            return 1.0  # it was asked for by its name
        own, other = (0.0 if one is None else one.points for one in (self.own, self.other))
        return (own - other) / (max(own, other) or 1.0)

    @property
    def is_plainly_meant(self) -> bool:
        """Whether the skill is first, by a margin, with much of what the prompt says in its name and description."""
        if self.rank != 1 or self.own is None or self.margin < AHEAD:
            return False
        said = sum(word.field in ("name", "description") for word in self.own.words)
        return said >= MEANT * len(Query.of_prompt(self.prompt).stems)

    @property
    def telling(self) -> list[TellingWord]:
        """The words that decide for the other skill, the most telling first: where it has them, and where this one."""
        here = {word.word: word for word in self.own.words} if self.own is not None else {}
        found = []
        for word in self.other.words if self.other is not None else ():
            mine = here.get(word.word)
            if (more := word.score - (mine.score if mine else 0.0)) > 0:
                found.append(TellingWord(word.word, round(more, 2), word.field, mine.field if mine else None))
        return sorted(found, key=lambda one: (-one.more, one.word))[:_WORDS]

    def as_data(self) -> dict[str, Any]:
        """The data of a case."""
        return {
            "rank": self.rank,
            "score": None if self.own is None else self.own.score,
            "margin": round(self.margin, 3),
            "confused_with": None if self.other is None or self.rank == 1 else self.other.name,
            "next": None if self.other is None or self.rank != 1 else self.other.name,
            "matched": [{"word": word.word, "in": word.field} for word in (self.own.words if self.own else ())[:10]],
            "decided_by": [one._asdict() for one in self.telling],
        }


def _case_result(id_: str, case: RoutingCase, routed: Routed) -> CaseResult:
    data = routed.as_data()
    if case.should_trigger:
        if routed.rank is not None and routed.rank <= case.top:
            return CaseResult(id=id_, verdict="passed", data=data)
        return CaseResult(id=id_, verdict="failed", reason=_missed(case, routed), hint=_advice(routed), data=data)
    if not routed.is_plainly_meant or routed.own is None:
        return CaseResult(id=id_, verdict="passed", data=data)
    words = _words([word.word for word in routed.own.words if word.field in ("name", "description")])
    return CaseResult(
        id=id_,
        verdict="failed",
        reason=f"It comes first, and should not come up: {words} in its name and description.",
        hint="Say more precisely what it is for, without these words where they are not needed, "
        "or add a skill that this prompt is for.",
        data=data,
    )


def _missed(case: RoutingCase, routed: Routed) -> str:
    if not Query.of_prompt(case.prompt).stems:
        return "The prompt has no word to search for."
    where = f"Rank {routed.rank}" if routed.rank else f"Not among the first {DEEPEST}"
    if routed.other is None:
        return "No skill has a word of the prompt."
    because = "; ".join(_format_telling(one, routed.other.name) for one in routed.telling)
    return f"{where}, wanted {case.top}. First is {shown(routed.other.name)}: {because or 'as good by its words'}."


def _format_telling(one: TellingWord, other: str) -> str:
    word, name = shown(one.word, 60), shown(other)
    if one.there == "order":
        return f"'{word}' stands together in the body of {name}"
    if one.here is None:
        return f"'{word}' is in the {one.there} of {name} and not here"
    return f"'{word}' weighs more in the {one.there} of {name} than in the {one.here} here"


def _advice(routed: Routed) -> str:
    absent = [
        one.word
        for one in routed.telling
        if one.here in (None, "body") and one.there != "order" and not one.word[:1].isdigit()
    ]
    if routed.other is None:
        return "Write what people say for it in the description."
    if not absent:
        return f"Say in the description how it differs from {shown(routed.other.name)}, in words that people use."
    return (
        f"Where people say {_words(absent, 'or')} and mean this skill, write it in its description; "
        f"where they mean {shown(routed.other.name)}, change the prompt."
    )


def _words(words: list[str], link: str = "and") -> str:
    quoted = [f"'{shown(word, 60)}'" for word in dict.fromkeys(words)][:5]
    if not quoted:
        return "nothing"
    return f"{', '.join(quoted[:-1])} {link} {quoted[-1]}" if len(quoted) > 1 else quoted[0]
