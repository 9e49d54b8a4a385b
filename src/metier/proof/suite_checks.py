"""Assertions of other tools, translated into ours: what code cannot check stays as a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass, pattern
from metier.proof.suite_files import SuiteProblem, relative_path
from metier.proof.suite_variants import (
    ANSWERS,
    LABEL_KEYS,
    PATH_KEYS,
    SENTENCE_KEYS,
    TYPE_KEYS,
    TYPES,
    VALUE_KEYS,
    plain_key,
    roles_of,
)

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator

SENTENCE_ROLES = {"sentences", "rejected", "by-name"}
CHECK_ROLES = {"contains", "any", "excludes", "regex", "called", "not-called", "artifacts", *SENTENCE_ROLES}
"""The roles of keys below which assertions stand."""
MAX_SENTENCE = 1_000
MAX_TEXTS = 100
_REJECTED = "Must not occur: "
_LITERAL = pattern(r"[\\.+*?()|\[\]{}^$#&~-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckTranslator:
    """Translates the assertions of one file."""

    leave: Callable[..., None]
    """Takes the place of each part that is not used."""
    regex_problem: Callable[[str], str]
    """Says why an expression cannot be used."""

    def assertions(self, role: str, value: Any, at: tuple[object, ...]) -> Iterator[Any]:
        """The assertions that a part of a case is, in our own format."""
        if role in SENTENCE_ROLES:
            if role == "by-name":
                yield from self._by_name({str(at[-1]): value}, at[:-1], "")
            else:
                yield from self._sentences(value, at, _REJECTED if role == "rejected" else "")
            return
        if role == "any" and isinstance(value, list) and any(isinstance(one, list) for one in value):
            for one in value:
                yield from self.assertions(role, one, at)
            return
        texts = texts_of(value)
        if role in ("called", "not-called"):
            names = texts or [name for one in items_of(value) for name in texts_of(first_of(one, ("tool", "name"))[1])]
            yield from ({role: name} if len(name) <= MAX_SENTENCE else _sentence(f"{role}: {name}") for name in names)
        elif role == "artifacts":
            yield from (_file_check("file", text, {}) or _sentence(f"There is {text}") for text in texts)
        elif texts:
            yield self._text_check(role, texts) or _sentence(f"{role}: {', '.join(texts)}")

    def _sentences(self, value: Any, at: tuple[object, ...], begin: str) -> Iterator[Any]:
        if isinstance(value, str):
            if value.strip():
                yield _sentence(begin + value)
        elif isinstance(value, list):
            for number, one in enumerate(value):
                yield from self._sentences(one, (*at, number), begin)
        elif isinstance(value, dict):
            yield from self._check(value, at, begin)
        elif value is not None:
            self.leave(*at)

    def _check(self, value: dict[str, Any], at: tuple[object, ...], begin: str) -> Iterator[Any]:
        """The assertion that a mapping is: by its type, by its keys, or by the sentence in it."""
        plain = {plain_key(key): one for key, one in value.items()}
        if plain.get("expected") is False:
            begin = begin or _REJECTED
        type_key, type_name = first_of(plain, TYPE_KEYS, lambda one: isinstance(one, str) and plain_key(one) in TYPES)
        if type_name and not begin and (check := self._typed_check(plain_key(type_name), type_key, plain)):
            yield check
            unused = {"name", "description", "title"} & plain.keys()
        elif found := [
            check
            for key, one in value.items()
            for role in roles_of(key)
            if role in CHECK_ROLES - SENTENCE_ROLES and not begin
            for check in self.assertions(role, one, (*at, key))
        ]:
            yield from found
            unused = {key for key in plain if not (CHECK_ROLES - SENTENCE_ROLES) & set(roles_of(key))}
        else:
            key, text = first_of(plain, SENTENCE_KEYS, lambda one: isinstance(one, str) and bool(one.strip()))
            if not key and any(name in plain for name in LABEL_KEYS):
                key = "all"
                text = "; ".join(f"{name}: {one}" for name, one in plain.items() if isinstance(one, str | int | list))
            yield from [_sentence(begin + text)] if key else self._by_name(value, at, begin)
            unused = {one for one in plain if one != key} if key not in ("", "all") else set()
        for name in value:
            if plain_key(name) in unused:
                self.leave(*at, name)

    def _by_name(self, value: dict[str, Any], at: tuple[object, ...], begin: str) -> Iterator[Any]:
        """The sentences of a mapping by name: `{"uses_tests": true, "speaks": "German"}`."""
        for name, one in value.items():
            words = plain_key(name).replace("_", " ") or name
            if one is True:
                yield _sentence(begin + words)
            elif texts := texts_of(one):
                yield from (_sentence(f"{begin}{words}: {text}") for text in texts)
            else:
                self.leave(*at, name)

    def _condition(self, condition: str, texts: list[str]) -> dict[str, Any] | None:
        """Conditions on a text; None for expressions that cannot be searched for."""
        if condition == "icontains":
            texts = [f"(?i){_LITERAL.sub(_escape, text)}" for text in texts]
        elif condition == "any":
            texts = ["(?i)" + "|".join(_LITERAL.sub(_escape, text) for text in texts)]
        elif condition == "equals":
            return {condition: texts[0]}
        elif condition != "regex":
            return {condition: texts} if len(texts) <= MAX_TEXTS else None
        return None if len(texts) > MAX_TEXTS or any(self.regex_problem(text) for text in texts) else {"regex": texts}

    def _text_check(self, condition: str, texts: list[str]) -> dict[str, Any] | None:
        found = self._condition(condition, texts)
        return {"answer": found} if found is not None else None

    def _typed_check(self, type_name: str, type_key: str, value: dict[str, Any]) -> dict[str, Any] | None:
        """The assertion of a mapping with a type that the table has; None where parts of it cannot be used."""
        kind, condition = TYPES[type_name]
        rest = {key: one for key, one in value.items() if key != type_key}
        texts = next((found for key in VALUE_KEYS if (found := texts_of(rest.get(key)))), [])
        path = next((one for key in PATH_KEYS if isinstance(one := rest.get(key), str)), "")
        if kind == "skill-read":
            return {"skill-read": True}
        if kind == "judge":
            sentence = ", ".join(texts) or str(rest.get("description", ""))
            return {"judge": sentence} if sentence.strip() and len(sentence) <= MAX_SENTENCE else None
        if not texts and not (kind in ("file", "no-file") and path and not condition):
            return None
        if kind in ("called", "not-called"):
            return {kind: texts[0]} if len(texts) == 1 and len(texts[0]) <= MAX_SENTENCE else None
        match = self._condition(condition, texts) if condition else {}
        if kind == "answer" and plain_key(path) in ANSWERS:
            return {"answer": match} if match is not None else None
        return _file_check("file" if kind == "answer" else kind, path or (texts[0] if not condition else ""), match)


def first_of(value: Any, keys: Iterable[str], fits: Any = lambda one: one is not None) -> tuple[str, Any]:
    """The first of some keys that a mapping has with a value that fits, and that value."""
    found = value if isinstance(value, dict) else {}
    return next(((key, found[key]) for key in keys if key in found and fits(found[key])), ("", None))


def items_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def texts_of(value: Any) -> list[str]:
    """The texts of a text, a number or a list of them; none for anything else."""
    items = items_of(value)
    is_plain = all(isinstance(one, str | int | float) and not isinstance(one, bool) for one in items)
    return [str(one) for one in items if str(one).strip()] if is_plain else []


def _sentence(text: str) -> dict[str, str]:
    return {"text": text.strip()}


def _escape(match: re.Match[str]) -> str:
    return f"\\{match[0]}"


def _file_check(kind: str, path: str, found: dict[str, Any] | None) -> dict[str, Any] | None:
    """An assertion about a file; None where the path is a pattern, or leaves the workspace."""
    try:
        plain = relative_path(path)
    except SuiteProblem:
        return None
    if found is None or any(one in plain for one in "*?{<[ ") or len(plain) > MAX_SENTENCE:
        return None
    return {kind: {"path": plain, **found} if kind == "file" else plain}
