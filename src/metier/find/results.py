"""Results of a search: skills with their scores and reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier._lazy import dataclass
from metier.find.tokenizer import split_stems

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from metier.find.query import Query
    from metier.find.ranking import Fit, WordScore
    from metier.library import Entry, Layer


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A skill that fits a query.

    >>> from metier import Library
    >>> library = Library.from_files({"SKILL.md": "---\\nname: pdf-forms\\ndescription: Fill forms.\\n---\\nOpen it."})
    >>> result = library.search("fill a pdf")[0]
    >>> result.name, result.why.split("; ")[:2]
    ('pdf-forms', ['name: pdf', 'description: fill'])
    """

    name: str
    score: float
    """Between 0 and 1, to compare results of one query; 1 is the skill that was asked for by its name."""
    why: str
    """The words of the query and the fields in which they were found."""
    entry: Entry
    words: tuple[WordScore, ...] = ()
    """The score word for word, the most telling first; only of a search that explains."""

    @property
    def points(self) -> float:
        """The sum of what its words gave, by which skills are ranked; of a search that explains."""
        return sum(word.score for word in self.words)

    @property
    def description(self) -> str:
        """The purpose of the skill and when to use it."""
        return self.entry.description

    @property
    def layer(self) -> Layer:
        """The layer of its place."""
        return self.entry.layer


_WORDS_SHOWN = 5
_NEAR_ENOUGH_TO_SAY = 0.5


def result_of(entry: Entry, fit: Fit, query: Query, words: Sequence[WordScore] = ()) -> Result | None:
    """A skill with its score and reasons; None when it does not fit after all."""
    if query.only_phrases and len(fit.phrases) < len(query.phrases):
        return None
    is_named = entry.name in query.names
    if is_named:
        score = 1.0 if entry.name == query.names[0] else 0.99
    elif not query.stems:
        score = 1.0  # nothing but filters, and they all hold
    elif fit.score > 0:
        score = round(fit.score / (fit.score + 20), 4)
    else:
        return None
    telling = tuple(sorted(words, key=lambda word: (-word.score, word.word)))
    why = _why(fit, query, entry, named=is_named)
    return Result(name=entry.name, score=score, why=why, entry=entry, words=telling)


def _why(fit: Fit, query: Query, entry: Entry, *, named: bool) -> str:
    """The reasons in the words of the query, or of the name for a word that was mistyped."""
    own = {stem: word for word in entry.name.split("-") for stem in split_stems(word)} if query.meant else {}
    parts = ["asked for by name"] if named else []
    parts.extend(f'phrase: "{" ".join(query.written.get(stem, stem) for stem in phrase)}"' for phrase in fit.phrases)
    in_body = fit.in_body - fit.in_name - fit.in_about
    for label, found in (("name", fit.in_name), *_parts_of_about(entry, fit.in_about), ("body", in_body)):
        words = list(dict.fromkeys(_format_word(stem, query, own) for stem in query.stems if stem in found))
        if words:
            more = f" and {len(words) - _WORDS_SHOWN} more" if len(words) > _WORDS_SHOWN else ""
            parts.append(f"{label}: {', '.join(words[:_WORDS_SHOWN])}{more}")
    parts.extend(f"tag: {tag}" for tag in query.tags[:_WORDS_SHOWN])
    parts.extend(f"layer: {layer}" for layer in query.layers)
    if fit.nearness >= _NEAR_ENOUGH_TO_SAY or not parts:
        parts.append("similar meaning")
    return "; ".join(parts)


def _format_word(stem: str, query: Query, own: Mapping[str, str]) -> str:
    """A word of the query, or the word that was meant by a mistyped one."""
    if stem in query.meant:
        return f"{own.get(stem, stem)} (for {query.meant[stem]})"
    return query.written.get(stem, stem)


def _parts_of_about(entry: Entry, found: set[str]) -> list[tuple[str, set[str]]]:
    """The words that stand in the description, and those only in other fields."""
    skill = entry.skill
    parts: list[tuple[str, set[str]]] = []
    fields = (
        ("description", skill.description),
        ("when to use", skill.when_to_use or ""),
        ("tags", "\n".join(skill.tags)),
        ("triggers", "\n".join(skill.triggers)),
    )
    for label, text in fields:
        here = found.intersection(split_stems(text)) if found and text else set()
        found = found - here
        parts.append((label, here))
    parts.append(("fields", found))
    return parts
