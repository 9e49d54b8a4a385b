"""Queries: words, phrases, names, and the filters `tag:` and `layer:`."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from metier._lazy import dataclass, field, pattern, replace
from metier.find.tokenizer import split_stems, stems
from metier.library import LAYERS
from metier.skill import slug

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.library import Layer

MAX_QUERY = 16 * 1024
"""The characters of a query that count; more than the longest prompts people write by hand."""
MAX_STEMS = 256
MAX_PHRASES = 16
_MAX_NAME = 128

_FILTER = pattern(r'(?<!\S)(tag|layer):(?:"([^"\n]+)"|([^\s"]+))(?!\S)', re.IGNORECASE)
_QUOTED = pattern(r'"([^"\n]{2,300})"|“([^”\n]{2,300})”')
_INVOKED = pattern(r"(?<!\S)[/$]([^\s/$]{1,100})(?!\S)")
_WORD = pattern(r"[^\W_]+(?:[-_][^\W_]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query taken apart.

    >>> query = Query.read('fill "tax forms" tag:pdf')
    >>> query.stems, query.phrases, query.tags
    (('fill', 'tax', 'form'), (('tax', 'form'),), ('pdf',))
    """

    text: str = ""
    """The query as written, without the filters."""
    stems: tuple[str, ...] = ()
    """Each word once, in order."""
    parts: frozenset[str] = frozenset()
    """Stems that are only parts of a longer identifier. They are looked for in what a skill says of itself; bodies
    are full of code, in which half of `ShoppingCart` says nothing."""
    pairs: tuple[tuple[str, str], ...] = ()
    """Neighbours, in order."""
    written: Mapping[str, str] = field(default_factory=dict)
    """Stem to the word it was made of, to show."""
    meant: Mapping[str, str] = field(default_factory=dict)
    """Stem that was added for a mistyped word, to that word."""
    phrases: tuple[tuple[str, ...], ...] = ()
    only_phrases: bool = False
    """Whether there is nothing but phrases, which then all must occur."""
    names: tuple[str, ...] = ()
    """Names of skills that it may spell out, the likeliest first."""
    tags: tuple[str, ...] = ()
    layers: tuple[Layer, ...] = ()

    @classmethod
    def read(cls, text: str) -> Query:
        """The query that a person or a model typed to search."""
        tags: list[str] = []
        layers: list[Layer] = []

        def take(found: re.Match[str]) -> str:
            value = (found[2] or found[3]).strip()
            if found[1].lower() == "tag" and value:
                tags.append(value.casefold())
                return " "
            known = next((layer for layer in LAYERS if layer == value.lower()), None)
            if known is None:
                return found[0]  # no filter but words: `layer:order` asks for neither of ours
            layers.append(known)
            return " "

        # A filter holds wherever it stands; only of the words it is enough to look at the first.
        text = _FILTER.sub(take, text)[:MAX_QUERY]
        phrases = [tuple(stems(found[1] or found[2])) for found in _QUOTED.finditer(text)]
        outside = stems(_QUOTED.sub(" ", text))
        return replace(
            cls.of_prompt(text),
            phrases=tuple(dict.fromkeys(phrase for phrase in phrases if phrase))[:MAX_PHRASES],
            only_phrases=bool(phrases) and any(phrases) and not outside,
            tags=tuple(dict.fromkeys(tags)),
            layers=tuple(dict.fromkeys(layers)),
        )

    @classmethod
    def of_prompt(cls, text: str) -> Query:
        """A prompt that was not written to search: nothing in it is a filter."""
        text = text[:MAX_QUERY]
        sequence = stems(text)
        every = list(dict.fromkeys(split_stems(text)))[:MAX_STEMS]
        known = set(every)
        pairs = dict.fromkeys(pair for pair in itertools.pairwise(sequence) if known.issuperset(pair))
        invoked = _INVOKED.search(text)
        return cls(
            text=text,
            stems=tuple(every),
            parts=frozenset(known.difference(sequence)),
            pairs=tuple(pairs),
            written=_written(text, known),
            names=_names(text, invoked[1] if invoked else None),
        )


def _written(text: str, known: set[str]) -> dict[str, str]:
    """The spelling of each stem where it first occurs."""
    found: dict[str, str] = {}
    for match in _WORD.finditer(text):
        for word in re.split("[-_]", match[0]):
            for stem in split_stems(word):
                if stem in known:
                    found.setdefault(stem, word.lower())
    return found


def _names(text: str, invoked: str | None) -> tuple[str, ...]:
    """Names it may spell out: after a slash, or the whole of it."""
    found = [slug(invoked)] if invoked else []
    whole = text.strip()
    if len(whole) <= _MAX_NAME:
        found.append(slug(whole))
    return tuple(dict.fromkeys(name for name in found if name))
