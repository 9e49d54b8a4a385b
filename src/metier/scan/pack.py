"""Packs of rules: folders of YAML files, read, checked against a JSON Schema, and made ready to be applied.

A file has `rules`, `lexicons`, or both. Rules of every pack can use the lexicons of the core pack and of their own.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from metier._paths import open_plain
from metier._regex_cache import kept_regex
from metier._suggest import suggestions
from metier.errors import RulesInvalid
from metier.scan.pack_yaml import YamlProblem, read_yaml
from metier.scan.phrase import PhraseError, regex_of
from metier.scan.prefilter import BEGIN, END, common, ways_of
from metier.scan.regex_cost import LEXICON, problem_of
from metier.scan.words import BETWEEN
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping

    from metier.scan.condition import Condition
    from metier.scan.pack_yaml import YamlContent
    from metier.scan.prefilter import Ways
    from metier.scan.term import Term

CORE = Path(__file__).parent / "packs" / "core"
SCHEMA = Path(__file__).parent / "packs" / "schema.json"
FORMAT = 10
"""Of what is kept of a pack; another one is never read."""
MAX_FILES = 200
MAX_BYTES = 1024 * 1024
"""Of one file."""
MAX_PACK_BYTES = 4 * MAX_BYTES
MAX_REGEX = 20_000
"""Characters of an expression, with all that it names."""
_MARK = kept_regex(f"[{BEGIN}{END}]")
_REGEX = kept_regex(r"/(?P<regex>.*)/(?P<cased>c?)", re.DOTALL)
_SYNTAX = "`metier scan rules show --syntax` says how it is written."


class PackFile(NamedTuple):
    """A file of a pack, as it lies in its folder."""

    path: str
    data: bytes


def files_of(folder: str | os.PathLike[str]) -> tuple[PackFile, ...]:
    """The YAML files of a pack, sorted by path; links are not followed."""
    top = os.fspath(folder)
    found: list[PackFile] = []
    size = 0
    for root, folders, names in os.walk(top):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.endswith((".yaml", ".yml")) and not name.startswith("."):
                path = os.path.join(root, name)
                found.append(PackFile(os.path.relpath(path, top).replace(os.sep, "/"), _read(path)))
                size += len(found[-1].data)
                if len(found) > MAX_FILES or size > MAX_PACK_BYTES:
                    limits = f"{MAX_FILES} files or {MAX_PACK_BYTES:,} bytes"
                    raise RulesInvalid(f"The pack {shown(top, 300)} has more than {limits}.", hint="Make two of it.")
    if not found:
        hint = "A pack is a folder with `*.yaml` files; `metier scan rules new DIR ID` begins one."
        raise RulesInvalid(f"There are no rules in {shown(top, 300)}.", hint=hint)
    return tuple(sorted(found))


def _read(path: str) -> bytes:
    try:
        with open_plain(path) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(0, "it is no plain file")
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise RulesInvalid(
            f"{shown(path, 300)} cannot be read: {error.strerror}.",
            hint="It must be a file itself, not a link, that you may read.",
        ) from None
    if len(data) > MAX_BYTES:
        raise RulesInvalid(f"{shown(path, 300)} is larger than {MAX_BYTES:,} bytes.", hint="Make two files of it.")
    return data


def digest_of(files: Iterable[PackFile]) -> str:
    """The digest that a policy pins a pack by: of the names and the content of all files."""
    whole = hashlib.sha256()
    for file in files:
        line = f"{file.path}\0{hashlib.sha256(file.data).hexdigest()}\n"
        whole.update(line.encode(errors="surrogateescape"))
    return f"sha256:{whole.hexdigest()}"


def compiled(files: Iterable[PackFile], core: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The rules and lexicons of files as plain data, with phrases translated.

    `core` is the core pack, compiled, for any other one: its lexicons can be used, and its names are taken.
    """
    entries = entries_of(files, is_core=core is None)
    if core is not None:
        _require_foreign(entries, core)
    own = {name: {"terms": one["terms"], "file": one["file"]} for name, one in entries.lexicons.items()}
    dictionary = _Dictionary(own, json.loads(core["lexicons"]) if core is not None else None)
    return {
        "format": FORMAT,
        "lexicons": json.dumps(own),
        "lists": {name: one["words"] for name, one in entries.lists.items()},
        "senses": {
            name: dictionary.add(f"{_at(one)}, the lexicon {name}", one["terms"])
            for name, one in entries.lexicons.items()
        },
        "rules": [_compiled_rule(rule, dictionary) for rule in entries.rules.values()],
        **dictionary.index(),
    }


def signs_of(files: Iterable[PackFile], begin: tuple[str, ...]) -> dict[str, Any]:
    """The lists of the core pack, and the lexicons whose names begin so, for those who need no rules.

    Of each phrase there are the expression, whether upper case counts, and groups of words of each of which a match has
    one: a blank stands for where a word begins or ends.
    """
    entries = entries_of(files, is_core=True)
    dictionary = _Dictionary({name: {"terms": one["terms"]} for name, one in entries.lexicons.items()}, None)
    return {
        "lists": {name: one["words"] for name, one in entries.lists.items()},
        "senses": {
            name: [
                (regex, is_cased, _written(common(ways_of(regex, is_cased=is_cased))))
                for regex, is_cased in dictionary.translated(name, one["terms"])
            ]
            for name, one in entries.lexicons.items()
            if name.startswith(begin)
        },
    }


def _written(groups: Iterable[Iterable[str]]) -> list[list[str]]:
    return [[_MARK.sub(" ", word) for word in sorted(group)] for group in groups]


class PackEntries(NamedTuple):
    """The entries of a pack as they are written, each with its `file` and `line`."""

    rules: dict[str, dict[str, Any]]
    lexicons: dict[str, dict[str, Any]]
    lists: dict[str, dict[str, Any]]


def entries_of(files: Iterable[PackFile], *, is_core: bool = False) -> PackEntries:
    """The rules, lexicons and lists of files, by their names."""
    found = PackEntries({}, {}, {})
    for file in files:
        content = _content(file, is_core)
        for at, rule in enumerate(content.value.get("rules", ())):
            entry = {**rule, "file": file.path, "line": content.line("rules", at)}
            _add(found.rules, rule["id"], entry, "rule")
        for name, one in content.value.get("lexicons", {}).items():
            _add(found.lexicons, name, {**one, "file": file.path, "line": content.line("lexicons", name)}, "lexicon")
        for name, one in content.value.get("lists", {}).items():
            _add(found.lists, name, {**one, "file": file.path, "line": content.line("lists", name)}, "list")
    return found


def _add(entries: dict[str, dict[str, Any]], name: str, entry: dict[str, Any], kind: str) -> None:
    if name in entries:
        raise RulesInvalid(
            f"{_at(entry)}: there is a {kind} called {name} already, at {_at(entries[name])}.", hint="Rename one."
        )
    entries[name] = entry


def _at(entry: Mapping[str, Any]) -> str:
    return f"{shown(entry['file'], 200)}:{entry['line']}"


def _require_foreign(entries: PackEntries, core: Mapping[str, Any]) -> None:
    """Refuse the names of the core pack, and what would change how its rules judge."""
    taken = {*(rule["id"] for rule in core["rules"]), "SCAN_FAILED"}
    for name, entry in entries.rules.items():
        if name in taken:
            hint = "Give it a name of your own, such as one that begins with the name of your organisation."
            raise RulesInvalid(f"{_at(entry)}: the rule {name} comes with Métier.", hint=hint)
    for name, entry in entries.lexicons.items():
        if name in core["senses"]:
            hint = f"Use it as it is, by `<{name}>`, or give yours another name."
            raise RulesInvalid(f"{_at(entry)}: the lexicon {name} comes with Métier.", hint=hint)
    for name, entry in entries.lists.items():
        raise RulesInvalid(f"{_at(entry)}: the list {name} is in no core pack.", hint="Write it as a lexicon.")


def _compiled_rule(rule: dict[str, Any], dictionary: _Dictionary) -> dict[str, Any]:
    where = f"{_at(rule)}, {rule['id']}"
    _check_rule(rule, where)
    if dictionary.is_foreign:
        _check_options(rule, where)
    terms = {name: dictionary.add(f"{where}, {name}", term) for name, term in rule.get("terms", {}).items()}
    kept = {key: value for key, value in rule.items() if key not in ("terms", "examples")}
    return {**kept, "terms": terms, "needs": _needs(rule, where, {*terms, *dictionary.names})}


class _TermName(NamedTuple):
    """A term by its name alone: conditions are read with it before anybody looks for its phrases."""

    name: str
    is_anchored: bool = True


def _needs(rule: Mapping[str, Any], where: str, names: Container[str]) -> list[list[str]]:
    """Terms of which a skill must say one of each group for a rule's condition to hold; refuses what cannot be read.

    With them most rules need not read their conditions.
    """
    from metier.scan.condition import ConditionError, read_condition  # which ask for lists of the core pack

    def read(text: str) -> Condition:
        try:
            return read_condition(text, lambda name: cast("Term", _TermName(name)) if name in names else None)
        except ConditionError as error:
            hint = "`metier scan rules show --syntax` says how conditions are written."
            raise RulesInvalid(f"{where}: the condition `{shown(text, 200)}` {error}.", hint=hint) from None

    if "unless" in rule:
        read(rule["unless"])
    for text in (*rule.get("grade", {}).values(), *rule.get("names", ())):
        read(text)
    groups = read(rule["when"]).needs if "when" in rule else ()
    return [sorted(term.name for term in group) for group in groups]


def _check_rule(rule: Mapping[str, Any], where: str) -> None:
    """Refuse what a rule says to no effect: a term that nothing asks about, or text that is read as a path."""
    conditions = " ".join(
        (rule.get("when", ""), rule.get("unless", ""), *rule.get("grade", {}).values(), *rule.get("names", {}))
    )
    asked = set(re.findall(r"[a-z][a-z0-9-]*", conditions))
    unused = [] if "matcher" in rule else [name for name in rule.get("terms", ()) if name not in asked]
    if unused:
        raise RulesInvalid(
            f"{where}: no condition names the term `{shown(unused[0], 60)}`.",
            hint="Name it in `when`, `unless` or `grade`, or take it out.",
        )
    for example in (*rule["examples"]["match"], *rule["examples"]["pass"]):
        for path in example if isinstance(example, dict) else ():
            if re.search(r"[./]|^[A-Z]+$", path) is None:
                raise RulesInvalid(
                    f"{where}: an example is read as a file that is called {shown(path, 60)!r}.",
                    hint="Text with a colon in it stands between quotation marks.",
                )


_EXPRESSIONS = ("of", "names", "why", "pattern", "least", "beside")
"""Options of matchers that are regular expressions."""


def _check_options(rule: Mapping[str, Any], where: str) -> None:
    """Refuse options of a matcher that could take very long, or that name a term which the rule does not have."""
    options = rule.get("options", {}) if rule.get("matcher") in ("files", "characters") else {}
    for entry in (options, *options.get("files", ()), *options.get("characters", ())):
        for key in (key for key in _EXPRESSIONS if key in entry):
            try:
                re.compile(entry[key])
                why = problem_of(entry[key])
            except (re.error, RecursionError, OverflowError) as error:
                why = f"is no regular expression: {shown(str(error), 200)}"
            if why:
                raise RulesInvalid(f"{where}: the option `{key}`, {shown(entry[key], 80)!r}, {why}.", hint=_SYNTAX)
        if unknown := [name for name in entry.get("says", ()) if name not in rule.get("terms", ())]:
            hint = "Write its phrases below `terms`."
            raise RulesInvalid(f"{where}: the rule has no term `{shown(unknown[0], 60)}`.", hint=hint)


def _content(file: PackFile, is_core: bool) -> YamlContent:
    where = shown(file.path, 200)
    try:
        content = read_yaml(file.data, has_aliases=is_core)
    except YamlProblem as problem:
        hint = "Mend the line. Text with a colon, a bracket or a `*` in it stands between quotation marks."
        raise RulesInvalid(f"{where}:{problem.line} {problem}.", hint=hint) from None
    try:
        # A key that is misspelt is missing, too: the misspelling says more.
        flaw = min(_schema().iter_errors(content.value), key=lambda one: one.kind.name != _UNKNOWN, default=None)
    except ValueError as error:
        hint = "A date, for one, stands between quotation marks."
        raise RulesInvalid(f"{where}: it has a value that is no text: {shown(str(error), 200)}.", hint=hint) from None
    if flaw is not None:
        path = list(flaw.instance_path)
        rule = content.value["rules"][path[1]] if path[:1] == ["rules"] and len(path) > 1 else None
        named = f", {shown(str(rule.get('id', 'a rule')), 60)}" if isinstance(rule, dict) else ""
        inner = ".".join(map(str, path[2:] if named else path))
        line = content.line(*path, *(flaw.kind.value[:1] if flaw.kind.name == _UNKNOWN else ()))
        place = f"{where}:{line}{named}{f', `{shown(inner, 100)}`' if inner else ''}"
        why, hint = _explained(flaw)
        raise RulesInvalid(f"{place}: {why}.", hint=hint)
    return content._replace(value=content.value or {})


_UNKNOWN = "additionalProperties"
_WRITTEN = {
    "id": "An id has capital letters, digits and underscores, such as ACME_PRICE_LIST.",
    "owasp": "Write AST01 to AST10, a place in the OWASP Agentic Skills Top 10.",
    **dict.fromkeys(("says", "message"), "Between curly brackets stand only the words that the matcher fills in."),
}


def _explained(flaw: Any) -> tuple[str, str]:
    """The problem of an entry, and the hint about it."""
    value = flaw.kind.value
    match flaw.kind.name:
        case "additionalProperties":
            schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
            known = {*schema["properties"], *schema["$defs"]["rule"]["properties"], "match", "pass", "words"}
            close = suggestions(str(value[0]), sorted(known), 1)
            known_text = "`metier scan rules new DIR ID` writes a rule with the usual keys."
            hint = f"Did you mean `{close[0]}`?" if close else known_text
            return f"there is no key {shown(str(value[0]), 60)!r} here", hint
        case "required":
            return (
                f"`{value}` is missing",
                "`metier scan rules new DIR ID` writes a rule with everything that one needs.",
            )
        case "enum":
            return f"it cannot be {shown(str(flaw.instance), 60)!r}", f"Write one of {', '.join(flaw.kind.options)}."
        case "anyOf":
            return (
                "it needs a `when` or a `matcher`",
                "`when: TERM and TERM` says what a sentence must say.",
            )
        case "oneOf":
            hint = "Phrases stand in a list, each behind a `-`, alone or by language (`en:`, `de:`)."
            return "it is not written as it must be", hint
        case "pattern" | "propertyNames" if str(next(iter(flaw.instance_path[-1:]), "")) not in _WRITTEN:
            return shown(flaw.message, 300), "Names have small letters, digits and hyphens: `price-list`."
        case _:
            last = str(next(iter(flaw.instance_path[-1:]), ""))
            hint = "`metier scan rules new DIR ID` writes a rule with everything that one needs."
            return shown(flaw.message, 300), _WRITTEN.get(last, hint)


@cache
def _schema() -> Any:
    import jsonschema_rs

    return jsonschema_rs.validator_for(json.loads(SCHEMA.read_text(encoding="utf-8")))


class _Dictionary:
    """Lexicons by name, translated when they are first used."""

    def __init__(self, own: Mapping[str, Any], core: Mapping[str, Any] | None) -> None:
        self._raw = {**(core or {}), **own}
        self._core = core
        """The lexicons of the core pack, for another pack, whose phrases must take no long time on any text."""
        self.is_foreign = core is not None
        self._regexes: dict[str, str] = {}
        self.names = self._raw.keys()
        self._open: list[str] = []
        self._phrases: list[tuple[str, bool]] = []
        self._words: dict[str, list[str]] = {}
        """By word the ways that it tells of: the phrase and the other groups, with commas between them."""
        self._groups: dict[tuple[str, ...], int] = {}
        self._without_words: list[int] = []

    def index(self) -> dict[str, Any]:
        """The phrases, and how they are found by words: see `WordIndex`."""
        number = {word: place for place, word in enumerate(self._words)}
        return {
            "phrases": BETWEEN.join(regex for regex, _ in self._phrases),
            "cased": [phrase for phrase, (_, is_cased) in enumerate(self._phrases) if is_cased],
            "without-words": self._without_words,
            "words": BETWEEN.join(number),
            "ways": [" ".join(ways) for ways in self._words.values()],
            "groups": [" ".join(str(number[word]) for word in group) for group in self._groups],
        }

    def regex(self, name: str) -> str:
        """All terms of a lexicon as one expression, for phrases that name it."""
        if name not in self._raw:
            raise PhraseError(f"names the lexicon <{name}>, which is not there")
        if name in self._open:
            raise PhraseError(f"names the lexicon <{name}>, which names itself")
        if name not in self._regexes:
            self._open.append(name)
            self._regexes[name] = self._joined(name, self.regex)
            self._open.pop()
        return self._regexes[name]

    def add(self, where: str, term: Any) -> tuple[int, int]:
        """Add the phrases of a term; returned are the number of its first phrase, and of the one after its last."""
        first = len(self._phrases)
        for regex, is_cased in self.translated(where, term):
            self._add_ways(len(self._phrases), ways_of(regex, is_cased=is_cased))
            self._phrases.append((regex, is_cased))
        return first, len(self._phrases)

    def translated(self, where: str, term: Any) -> Iterator[tuple[str, bool]]:
        """The expressions of a term, each with whether upper case counts."""
        for phrase in _phrases(term):
            try:
                regex, is_cased = _translated(phrase, self.regex)
                if self._core is not None and (
                    problem := problem_of(_translated(phrase, self._outline, is_outline=True)[0])
                ):
                    raise PhraseError(problem)
            except PhraseError as error:
                raise RulesInvalid(f"{where}: the phrase {shown(phrase, 80)!r} {error}.", hint=_SYNTAX) from None
            except re.error as error:  # flags or names of groups, which only an expression of its own may have
                why = f"is no regular expression with all that it names: {shown(str(error), 200)}"
                raise RulesInvalid(f"{where}: the phrase {shown(phrase, 80)!r} {why}.", hint=_SYNTAX) from None
            yield regex, is_cased

    def _add_ways(self, phrase: int, ways: Ways) -> None:
        if not all(ways):
            self._without_words.append(phrase)
            return
        for first, *others in ways:
            groups = [self._groups.setdefault(tuple(sorted(group)), len(self._groups)) for group in others]
            for word in sorted(first):
                self._words.setdefault(word, []).append(",".join(map(str, (phrase, *groups))))
            for word in (word for group in others for word in sorted(group)):
                self._words.setdefault(word, [])

    def _outline(self, name: str) -> str:
        """A lexicon where time is estimated: those of the core pack were measured, and count as a word."""
        own = "x" if self._core is not None and name in self._core else self._joined(name, self._outline, outline=True)
        return f"{LEXICON}(?:{own})"

    def _joined(self, name: str, lexicon: Callable[[str], str], *, outline: bool = False) -> str:
        # What is matched with upper case as it stands cannot be part of what is not.
        phrases = [phrase for phrase in _phrases(self._raw[name]["terms"]) if not phrase.endswith("/c")]
        regex = "|".join(_translated(phrase, lexicon, is_outline=outline)[0] for phrase in phrases)
        if not regex or len(regex) > MAX_REGEX:
            raise PhraseError(f"names the lexicon <{name}>, which is too long, or empty, as part of a phrase")
        return regex


def _translated(phrase: str, lexicon: Callable[[str], str], *, is_outline: bool = False) -> tuple[str, bool]:
    """The expression of a phrase, and whether upper case counts in it."""
    written = _REGEX.fullmatch(phrase)
    if written is None:
        regex = regex_of(phrase, lexicon, is_outline=is_outline)
    else:
        regex = re.sub(r"<([a-z][a-z0-9-]{0,40})>", lambda found: f"(?:{lexicon(found[1])})", written["regex"])
    if len(regex) > MAX_REGEX:
        raise PhraseError("is too long, with all that it names")
    if BETWEEN in regex:
        raise PhraseError("has a character that no text has")
    try:
        if written is not None:
            re.compile(regex)
    except (re.error, RecursionError, OverflowError) as error:
        raise PhraseError(f"is no regular expression: {shown(str(error), 200)}") from None
    return regex, written is not None and bool(written["cased"])


def _phrases(term: Any) -> Iterator[str]:
    """The phrases of a term, whichever language they stand below."""
    for item in term if isinstance(term, list) else [one for some in term.values() for one in some]:
        yield str(item)
