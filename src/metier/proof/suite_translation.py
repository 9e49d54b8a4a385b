"""Suites of other tools, translated into our own format by the table of variants.

A translation loses nothing in silence: what code cannot check stays as a sentence, and what is not used is noted.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any, NamedTuple

from metier._lazy import dataclass, field, pattern
from metier.proof.suite_checks import CHECK_ROLES, CheckTranslator, first_of, items_of
from metier.proof.suite_files import SuiteProblem, input_path
from metier.proof.suite_variants import (
    FILE_NAME_KEYS,
    FILE_SOURCE_KEYS,
    FILE_TEXT_KEYS,
    TRUTH,
    WRAPPERS,
    plain_key,
    roles_of,
)
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from metier.proof.suite_files import SuiteSource

MAX_KEYS = 200
"""Of a case: a mapping with more is something else."""
MAX_ASSERTIONS = 200
"""Of one case."""
_PATH = pattern(r"[\w.-]+(?:/[\w.-]+)*\.(?:md|txt)")
_ROUTES = pattern(r"trigger|routing|route|activation")


class TranslatedCase(NamedTuple):
    """A case in our own format, and where it came from."""

    section: str
    value: dict[str, Any]
    at: tuple[object, ...]


class _Part(NamedTuple):
    """A part of a case, by the roles that its key may have."""

    roles: tuple[str, ...]
    key: str
    value: Any
    at: tuple[object, ...]


@dataclass(slots=True, kw_only=True)
class SuiteTranslator:
    """Finds the cases of one file, whatever shape it has, and translates them."""

    source: SuiteSource
    skill: str
    """The name of the skill, by which a case says where its prompt belongs."""
    cases: list[TranslatedCase] = field(default_factory=list)
    suite_skill: str = ""
    """The name that the file gives the skill."""
    _unused: dict[str, list[tuple[object, ...]]] = field(default_factory=dict)

    def translate(self, value: Any) -> None:
        """Translate all that a file says, and note what was not used."""
        self._read(value, (), None)
        for places in self._unused.values():
            at = places[0]
            more = f", here and in {len(places) - 1:,} other places" if len(places) > 1 else ""
            name = next((str(step) for step in reversed(at) if isinstance(step, str)), "this")
            self.source.note(f"{shown(name, 60)!r} is not used{more}.", *at, is_error=False)

    def _leave(self, *at: object) -> None:
        place = ".".join("*" if isinstance(step, int) else str(step) for step in at)
        self._unused.setdefault(place, []).append(at)

    def _read(self, value: Any, at: tuple[object, ...], should_trigger: bool | None) -> None:
        """Read the cases of a part of a file; `should_trigger` is the name of the list that they stand in."""
        if isinstance(value, dict) and _is_case(value):
            self._add_case(value, at, should_trigger)
        elif isinstance(value, dict):
            # Beside the cases of the skill itself there are those of other ones.
            is_mine = bool(self.skill) and _has_prompts(value.get(self.skill), is_listed=False)
            for key, one in value.items():
                if is_mine and key != self.skill and not roles_of(key):
                    self._leave(*at, key)
                else:
                    self._read_member(key, one, (*at, key), should_trigger)
        elif isinstance(value, list):
            for number, one in enumerate(value):
                if isinstance(one, str) and should_trigger is not None:
                    self._add("routing", {"prompt": one, "should_trigger": should_trigger}, (*at, number))
                else:
                    self._read(one, (*at, number), should_trigger)
        else:
            self._leave(*at)

    def _read_member(self, key: str, value: Any, at: tuple[object, ...], should_trigger: bool | None) -> None:
        roles = roles_of(key)
        if "suite-skill" in roles and isinstance(value, str):
            self.suite_skill = self.suite_skill or value
        elif "skip" in roles:
            self._leave(*at)
        elif "negative" in roles and _has_prompts(value, is_listed=True):
            self._read(value, at, False)
        elif "positive" in roles and _has_prompts(value, is_listed=True):
            self._read(value, at, True)
        elif _has_prompts(value, is_listed=should_trigger is not None):
            self._read(value, at, should_trigger)
        else:
            self._leave(*at)

    def _add(self, section: str, value: dict[str, Any], at: tuple[object, ...]) -> None:
        self.cases.append(TranslatedCase(section, value, at))

    def _add_case(self, value: dict[str, Any], at: tuple[object, ...], should_trigger: bool | None) -> None:
        parts = list(_parts(value, at))
        used: set[tuple[object, ...]] = set()
        prompt = self._prompt(parts, used)
        if not prompt:
            self.source.note("The case has no prompt: a conversation of several turns is none.", *at, is_error=False)
            return
        case: dict[str, Any] = {**_identity(parts, used), "prompt": prompt}
        triggers = self._trigger(parts, used, should_trigger)
        if triggers is None and any(
            "trigger" in part.roles and not isinstance(part.value, list | dict) for part in parts
        ):
            self.source.note("It is not said whether the prompt should bring the skill up.", *at, is_error=False)
            return
        behaviour = self._behaviour(parts, used if triggers is not False else set())
        if triggers is not None:
            self._add("routing", {**case, "should_trigger": triggers}, at)
        if triggers is None or (triggers and behaviour.get("assertions")):
            self._add("evals", {**case, **behaviour}, at)
        elif triggers:
            used -= {part.at for part in parts if {"output", "files"} & set(part.roles)}
        for part in parts:
            if part.at not in used:
                self._leave(*part.at)

    def _prompt(self, parts: list[_Part], used: set[tuple[object, ...]]) -> str:
        """The prompt of a case: its own, that of a file, or the only message of a user."""
        for role in ("prompt", "prompt-file", "maybe-prompt", "turns"):
            for part in parts:
                if role in part.roles:
                    text = _only_message(part.value) if role == "turns" else part.value
                    if isinstance(text, str) and text.strip():
                        used.add(part.at)
                        return self._file_text(text) if role != "turns" else text
        return ""

    def _file_text(self, text: str) -> str:
        """The text of the file that a prompt names, or the prompt itself."""
        if not _PATH.fullmatch(text):
            return text
        try:
            path = self.source.files.locate(text, self.source.folder)[1][0]
            return self.source.files.read(path).decode("utf-8-sig", errors="replace") or text
        except SuiteProblem:
            return text

    def _trigger(self, parts: list[_Part], used: set[tuple[object, ...]], should_trigger: bool | None) -> bool | None:
        """Whether a prompt should bring the skill up; None for a case of behaviour."""
        is_open = self._is_routing() or not any({*CHECK_ROLES, "output"} & set(part.roles) for part in parts)
        for role in ("trigger", "no-trigger", "maybe", "routed-to"):
            for part in parts:
                truth = _truth(part.value) if role in part.roles and (role != "maybe" or is_open) else None
                if truth is None and role in part.roles and (role == "routed-to" or part.key.startswith("should_")):
                    truth = self._is_routed_here(part.value)
                if truth is not None:
                    used.add(part.at)
                    return truth is not (role == "no-trigger")
            if role == "no-trigger" and should_trigger is not None:
                return should_trigger
        for part in parts if self._is_routing() else ():
            if part.key in ("expected", "expect") and (truth := self._is_routed_here(part.value)) is not None:
                used.add(part.at)
                return truth
        return None

    def _is_routing(self) -> bool:
        return _ROUTES.search(self.source.path.rpartition("/")[2].lower()) is not None

    def _is_routed_here(self, value: Any) -> bool | None:
        """Whether the skills that a prompt belongs to include this one; None where neither can be told."""
        names = value if isinstance(value, list) else [value]
        if (truth := _truth(value)) is not None or value is None:
            return truth or False
        if not self.skill or not all(isinstance(name, str) and " " not in name for name in names):
            return None
        return self.skill in names

    def _behaviour(self, parts: list[_Part], used: set[tuple[object, ...]]) -> dict[str, Any]:
        """The parts of a case of behaviour besides its prompt."""
        result: dict[str, Any] = {}
        assertions: list[Any] = []
        checks = CheckTranslator(leave=self._leave, regex_problem=self.source.files.regex_problem)
        for part in parts:
            if part.at in used:
                continue
            role = next((one for one in part.roles if one in CHECK_ROLES), "")
            if "output" in part.roles or ("maybe" in part.roles and part.key != "category"):
                if isinstance(part.value, str) and "expected_output" not in result and part.value.strip():
                    result["expected_output"] = part.value
                    used.add(part.at)
            elif "files" in part.roles and "files" not in result:
                files = _files(part.value, self.source.folder)
                if files or not part.value:
                    result.update({"files": files} if files else {})
                    used.add(part.at)
            elif {"timeout", "max_turns"} & set(part.roles):
                most = 3_600 if "timeout" in part.roles else 1_000
                if isinstance(part.value, int) and 0 < part.value <= most:
                    result[part.roles[0]] = part.value
                    used.add(part.at)
            elif role and (found := list(checks.assertions(role, part.value, part.at))):
                assertions += found
                used.add(part.at)
            elif role and part.value in ([], {}, "", None):
                used.add(part.at)
        if len(assertions) > MAX_ASSERTIONS:
            message = f"The case has more than {MAX_ASSERTIONS} assertions: the others are left out."
            self.source.note(message, *parts[0].at[:-1])
        return {**result, "assertions": assertions[:MAX_ASSERTIONS]} if assertions else result


def _is_case(value: dict[str, Any]) -> bool:
    """Whether a mapping is a case: it has a prompt, or a text that may be one beside another part of a case."""
    if len(value) > MAX_KEYS:
        return False
    parts = list(_parts(value, ()))
    if any(
        {"prompt", "prompt-file"} & set(part.roles) and _is_text(part.value) and part.value.strip() for part in parts
    ):
        return True
    others = any({*part.roles} - {"maybe-prompt", "id", "name", "suite-skill", "skip", "maybe"} for part in parts)
    maybe = any("maybe" in part.roles and part.key.startswith("expect") for part in parts)
    return (others or maybe) and any(
        ("maybe-prompt" in part.roles and isinstance(part.value, str) and part.value.strip())
        or ("turns" in part.roles and isinstance(part.value, list) and part.value)
        for part in parts
    )


def _parts(value: dict[str, Any], at: tuple[object, ...], depth: int = 0) -> Iterator[_Part]:
    for key, one in value.items():
        if (
            plain_key(key) in WRAPPERS
            and isinstance(one, dict)
            and depth < 2
            and len(one) <= MAX_KEYS
            and _has_roles(one)
        ):
            yield from _parts(one, (*at, key), depth + 1)
        else:
            yield _Part(roles_of(key), plain_key(key), one, (*at, key))


def _has_roles(value: dict[str, Any]) -> bool:
    return any({*roles_of(key)} - {"maybe-prompt", "name", "id", "maybe"} for key in value)


def _has_prompts(value: Any, *, is_listed: bool, depth: int = 0) -> bool:
    """Whether there are cases in a part of a file; a list of texts has some if its name says what they are."""
    if depth > 4:
        return False
    if isinstance(value, list):
        return any(
            (is_listed and isinstance(one, str)) or _has_prompts(one, is_listed=False, depth=depth + 1) for one in value
        )
    if isinstance(value, dict):
        return _is_case(value) or any(
            _has_prompts(
                one, is_listed=is_listed or bool({"positive", "negative"} & set(roles_of(key))), depth=depth + 1
            )
            for key, one in value.items()
        )
    return False


def _identity(parts: Iterable[_Part], used: set[tuple[object, ...]]) -> dict[str, Any]:
    """The id of a case: its id, after a number also its name, or its name alone."""
    found: dict[str, _Part] = {}
    for part in parts:
        for role in ("id", "name"):
            if (
                role in part.roles
                and role not in found
                and isinstance(part.value, str | int)
                and len(str(part.value)) < 100
            ):
                found[role] = part
    if "id" in found and not str(found["id"].value).isdecimal():
        found.pop("name", None)
    used.update(part.at for part in found.values())
    text = " ".join(str(found[role].value) for role in ("id", "name") if role in found).strip()
    return {"id": text} if text else {}


def _truth(value: Any) -> bool | None:
    return value if isinstance(value, bool) else TRUTH.get(plain_key(value)) if isinstance(value, str) else None


def _only_message(value: Any) -> str:
    """The message of a user, where there is one alone."""
    messages = []
    for one in value if isinstance(value, list) else ():
        if isinstance(one, dict) and str(one.get("role", "user")) in ("user", "human"):
            one = first_of(one, ("content", "text", "message", "user", "prompt", "input"))[1]
        elif isinstance(one, dict):
            continue
        messages.append(one)
    return messages[0] if len(messages) == 1 and isinstance(messages[0], str) else ""


def _files(value: Any, folder: str) -> list[str] | dict[str, Any]:
    """The files of a case, as paths or as a mapping of contents; empty where they cannot be understood."""
    if isinstance(value, str) or (isinstance(value, list) and all(isinstance(one, str) for one in value)):
        return [_origin(path, folder) for path in items_of(value) if path.strip()]
    if isinstance(value, dict) and all(isinstance(one, str | dict) for one in value.values()):
        value = [{**({"content": one} if isinstance(one, str) else one), "path": name} for name, one in value.items()]
    files: dict[str, Any] = {}
    for one in value if isinstance(value, list) else ():
        name, text, origin = (
            first_of(one, keys, _is_text)[1] for keys in (FILE_NAME_KEYS, FILE_TEXT_KEYS, FILE_SOURCE_KEYS)
        )
        origin = one if isinstance(one, str) else origin or (name if text is None else None)
        if origin is None and text is None:
            return {}
        target = name or input_path(str(origin), folder).rpartition("/")[2] or "file"
        files[target] = text if text is not None else {"from": _origin(str(origin), folder) or "."}
    return files


def _origin(path: str, folder: str) -> str:
    """The path of a file, which may be relative to the folder of the suite."""
    return posixpath.normpath(posixpath.join(folder, path)) if path.startswith("../") else path


def _is_text(value: Any) -> bool:
    return isinstance(value, str)
