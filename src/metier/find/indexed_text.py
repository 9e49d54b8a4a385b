"""Indexed text: the fields and the body of a skill as the stems that are searched."""

from __future__ import annotations

import json
import os
from codecs import utf_16_le_decode, utf_16_le_encode
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from metier.find.index_database import checked_count
from metier.find.lexicon import codes_of, letters_in
from metier.find.ranking import (
    ABOUT_LENGTH_MATTERS,
    BODY_LENGTH_MATTERS,
    NAME_WEIGHT,
    counted_words,
    length_norm,
    levels_of,
    word_count,
)
from metier.find.tokenizer import split_stems, words
from metier.skill import Scope
from metier.skill.document import parse
from metier.skill.openai_yaml import OPENAI_YAML
from metier.source.source import SkillFileError, read_skill

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from metier.find.lexicon import Letters
    from metier.library import Entry, Place
    from metier.library.snapshot import CallerView
    from metier.skill import Skill


MAX_TEXT = 64 * 1024
"""The characters of a body that are indexed; 99 in 100 are shorter than half of it."""
MAX_ABOUT = 8 * 1024
"""The characters that are indexed of what a skill says of itself; descriptions may have a thousand."""
_USUAL_ABOUT, _USUAL_BODY = 60, 650
"""The usual number of words; the true means are not known while they are being counted."""


class IndexedText(NamedTuple):
    """The text of a skill that is indexed."""

    key: str
    stamp: str
    """Differs when the content does."""
    name: str
    about: str = ""
    """Its description, when to use it, tags and triggers."""
    body: str = ""
    tags: tuple[str, ...] = ()
    scope: str = ""
    """The scope as text; "" for anyone. Words are counted apart for each scope, so that hidden skills do not count."""
    unlisted: bool = False
    """Whether it is not for models to find."""
    needs: str = ""
    """The requirements, as text."""


class EncodedStems(NamedTuple):
    """The stems of a skill as the index keeps them: one letter for each."""

    name: str
    about: str
    body: str
    about_length: int
    """The number of words that a skill says of itself, where the name counts more than once."""
    length: int
    """The number of words of the body."""

    @classmethod
    def unpacked(cls, name: bytes, about: bytes, body: bytes, about_length: int, length: int) -> EncodedStems:
        """Words as they lie in the file."""
        # Two bytes for most letters, and read many times as fast as UTF-8.
        decoded, whole = utf_16_le_decode, ("strict", True)
        texts = decoded(name, *whole)[0], decoded(about, *whole)[0], decoded(body, *whole)[0]
        return cls(*texts, checked_count(about_length), checked_count(length))

    def packed(self) -> tuple[bytes, bytes, bytes, int, int]:
        """Words as they lie in the file."""
        name, about, body = (utf_16_le_encode(part)[0] for part in (self.name, self.about, self.body))
        return name, about, body, self.about_length, self.length

    def counted(self) -> CountedStems:
        """The same with the counts of each letter."""
        name, about, body = (codes_of(letters_in(part)) for part in (self.name, self.about, self.body))
        return CountedStems(self, _counted_about(name, about), Counter(body))


class CountedStems(NamedTuple):
    """The stems of a skill, and how often it has each letter, by its code."""

    stems: EncodedStems
    about: Mapping[int, int]
    """In what it says of itself."""
    body: Mapping[int, int]

    def levels(self) -> tuple[dict[int, int], dict[int, int]]:
        """The level of each count, in what a skill says of itself and in its body."""
        norm = length_norm(self.stems.about_length / _USUAL_ABOUT, ABOUT_LENGTH_MATTERS)
        about = levels_of(set(self.about.values()), norm)
        norm = length_norm(self.stems.length / _USUAL_BODY, BODY_LENGTH_MATTERS)
        return about, levels_of(set(self.body.values()), norm)


def encoded(texts: Sequence[IndexedText], letters: Letters) -> list[CountedStems]:
    """The stems of some skills with their letters, and the counts of each letter."""
    # Step by step for all of them: what a step looks things up in stays in the cache of the processor meanwhile.
    parted = [words(text.body[:MAX_TEXT]) for text in texts]
    bodies = [list(map(letters.__getitem__, one)) for one in parted]
    counts = [letters.count(body) for body in bodies]
    return [_encoded(*each, letters) for each in zip(texts, bodies, counts, strict=True)]


def _encoded(
    text: IndexedText, codes: Sequence[int], counted: tuple[Counter[int], int], letters: Letters
) -> CountedStems:
    name, about = split_stems(text.name), split_stems(text.about[:MAX_ABOUT])
    of_name, of_about = letters.said(name), letters.said(about)
    body, unspaced = counted
    stems = EncodedStems(
        name=letters.text(of_name),
        about=letters.text(of_about),
        body=letters.text(codes),
        about_length=NAME_WEIGHT * word_count(name) + word_count(about),
        length=counted_words(body.total() - unspaced, unspaced),
    )
    return CountedStems(stems, _counted_about(of_name, of_about), body)


def _counted_about(name: Iterable[int], about: Iterable[int]) -> Counter[int]:
    counts = Counter(about)
    for code in name:
        counts[code] += NAME_WEIGHT
    return counts


_SEARCHED_EXTRAS = ("category", "title", "summary", "short-description", "short_description")


def stamp_of(entry: Entry) -> str:
    """The identity of a skill's file and of its `agents/openai.yaml`, as text that can be compared."""
    return ",".join(map(str, (*entry.identity, *_beside(entry))))


def _beside(entry: Entry) -> tuple[int, ...]:
    if entry.place.source.root is None:
        return ()
    try:
        status = os.stat(f"{os.path.dirname(entry.location)}/{OPENAI_YAML}")
    except (OSError, ValueError):
        return ()
    return (status.st_size, status.st_mtime_ns)


def key_of(entry: Entry) -> str:
    """The key of a skill as text that a database can keep: file names need not be valid Unicode."""
    return storable(entry.key)


def storable(text: str) -> str:
    """Text that can be encoded, another one for each text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "\0" + text.encode(errors="backslashreplace").decode()  # no file name begins like this
    return text


def text_of(entry: Entry) -> IndexedText:
    """The text of a skill to index; without its body when that cannot be read just now."""
    skill, body, stamp = entry.skill, "", stamp_of(entry)
    try:
        data, _ = read_skill(entry.place.source, entry.key)
    except SkillFileError:
        stamp = ""  # no file's: it is tried again
    else:
        body = parse(data, folder=entry.folder).body[:MAX_TEXT]
    return IndexedText(
        key=key_of(entry),
        stamp=stamp,
        name=storable(entry.name),
        about=about_of(skill),
        body=body,
        tags=tuple(storable(tag) for tag in skill.tags),
        scope=scope_text(skill.scope),
        unlisted=skill.disable_model_invocation
        or skill.insert == "user-message"
        or entry.openai_metadata.is_for_people_only,
        needs=entry.requirements.as_text(),
    )


def about_of(skill: Skill) -> str:
    """The frontmatter of a skill as text to search in."""
    written = skill.declared_name if skill.declared_name != skill.name else None
    parts = [skill.description, skill.when_to_use, *skill.tags, *skill.triggers, written]
    for fields in (skill.extra, skill.metadata):
        parts.extend(str(fields[key]) for key in _SEARCHED_EXTRAS if isinstance(fields.get(key), str))
    return "\n".join(dict.fromkeys(part for part in parts if part))


def scope_text(scope: Scope | None) -> str:
    """A scope as text, the same for the same scope."""
    if scope is None:
        return ""
    parts = (scope.agents, scope.tenants, scope.environments)
    return json.dumps([None if part is None else sorted(set(part)) for part in parts])


def scope_of(text: str) -> Scope | None:
    """The scope of such a text; raises ValueError for any other."""
    if not text:
        return None
    agents, tenants, environments = (None if part is None else tuple(part) for part in json.loads(text))
    return Scope(agents=agents, tenants=tenants, environments=environments)


def meant(view: CallerView, place: Place, name: str, key: str) -> Entry | None:
    """The skill that a row of an index stands for, if it is the one that answers to its name for the caller."""
    entry = view.active.get(name)
    return entry if entry is not None and entry.place is place and key_of(entry) == key else None
