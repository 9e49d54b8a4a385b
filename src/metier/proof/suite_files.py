"""The files of a skill that a suite is made of: read within limits, and named in notes with their lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass, field
from metier.errors import MetierError
from metier.proof.linear_regex import regex_problem
from metier.proof.suite import Note
from metier.scan.pack_yaml import YamlContent, YamlProblem, read_yaml
from metier.skill import shown
from metier.skill.package import checked_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.skill import Package

MAX_FILE_BYTES = 4 * 1024 * 1024
"""Of one file that a suite names."""
MAX_TOTAL_BYTES = 64 * 1024 * 1024
MAX_REGEXES = 500
"""Of one suite: each takes some time to check."""
MAX_DEPTH = 40
MAX_NOTES = 100
"""Notes about one file; more of them say nothing more."""
_MAX_BITS = 1_000
"""Of a number: a larger one is neither a float nor, as a text, known to end."""
_MAX_NAME, _MAX_PATH = 255, 2_000
"""Bytes of the name of a file, and characters of a path."""
_INPUT_FOLDERS = ("files", "fixtures", "inputs")


class SuiteProblem(ValueError):
    """A part of a suite that cannot be used; the message is a sentence."""


@dataclass(slots=True, kw_only=True)
class SuiteFiles:
    """The files of a skill, as far as its suite needs them."""

    package: Package
    names: dict[str, None] = field(default_factory=dict)
    """The files that are part of the suite: those that were read, and lie beside it."""
    _regexes: dict[str, str] = field(default_factory=dict, repr=False)
    _paths: frozenset[str] | None = field(default=None, repr=False)
    _folders: dict[str, list[str]] | None = field(default=None, repr=False)
    _bytes: int = field(default=0, repr=False)

    def paths(self) -> frozenset[str]:
        """All paths of the skill."""
        if self._paths is None:
            self._paths = frozenset(file.path for file in self.package.listing().files)
        return self._paths

    def _below(self, folder: str) -> list[str]:
        """The paths below a folder, of which there are as many as a suite names: each folder is listed once."""
        if self._folders is None:
            self._folders = {}
            for path in sorted(self.paths()):
                top = path
                while top := top.rpartition("/")[0]:
                    self._folders.setdefault(top, []).append(path)
        return self._folders.get(folder, [])

    def read(self, path: str, limit: int = MAX_FILE_BYTES) -> bytes:
        """The content of a file; raises `SuiteProblem`."""
        try:
            data = self.package.read(path, limit=limit)
        except (MetierError, OSError) as error:
            message = error.message if isinstance(error, MetierError) else "It cannot be read."
            raise SuiteProblem(shown(message, 300)) from None
        self._bytes += len(data)
        if self._bytes > MAX_TOTAL_BYTES:
            raise SuiteProblem(f"The suite names files of more than {MAX_TOTAL_BYTES:,} bytes.")
        return data

    def regex_problem(self, regex: str) -> str:
        """The reason why an expression of the suite cannot be used; empty if it can."""
        if regex not in self._regexes:
            if len(self._regexes) == MAX_REGEXES:
                return f"is one of more than {MAX_REGEXES} expressions of the suite"
            self._regexes[regex] = regex_problem(regex)
        return self._regexes[regex]

    def locate(self, path: str, folder: str) -> tuple[str, list[str]]:
        """A path as a suite in `folder` means it, of the skill or beside the suite, and the files that are there.

        These are one file, or all of a folder. Raises `SuiteProblem` if there are none.
        """
        plain = relative_path(path)
        for base in ("", f"{folder}/", *(f"{folder}/{name}/" for name in _INPUT_FOLDERS)):
            full = (base + plain).lstrip("/")
            found = [full] if full in self.paths() else self._below(full)
            if found:
                self.names.update(dict.fromkeys(one for one in found if folder and one.startswith(f"{folder}/")))
                return full, found
        raise SuiteProblem(f"There is no file {shown(path, 200)!r} in the skill.")


def relative_path(path: str) -> str:
    """A path that stays where it is relative to; raises `SuiteProblem`."""
    try:
        segments = checked_path(path)
    except MetierError as error:
        raise SuiteProblem(shown(error.message, 300)) from None
    if any(len(one.encode(errors="surrogatepass")) > _MAX_NAME for one in segments) or len(path) > _MAX_PATH:
        raise SuiteProblem(f"The path {shown(path, 60)!r} is too long.")
    return "/".join(segments)


def input_path(path: str, folder: str) -> str:
    """The path that a file of the suite has in a workspace.

    >>> input_path("evals/files/data/a.csv", "evals"), input_path("assets/logo.png", "evals")
    ('data/a.csv', 'assets/logo.png')
    """
    for base in (*(f"{folder}/{name}" for name in _INPUT_FOLDERS), folder):
        if path == base or path.startswith(f"{base}/"):
            return path.removeprefix(base).lstrip("/")
    return path


@dataclass(slots=True, kw_only=True)
class SuiteSource:
    """One file of a suite, with the notes about it."""

    path: str
    data: bytes
    files: SuiteFiles
    notes: list[Note] = field(default_factory=list)
    _content: YamlContent | None = field(default=None, repr=False)

    @property
    def folder(self) -> str:
        """The folder that it lies in, relative to the skill."""
        return self.path.rpartition("/")[0]

    def note(self, message: str, *at: object, is_error: bool = True) -> None:
        """Note a problem with the part that a path of keys and indexes leads to."""
        if len(self.notes) == MAX_NOTES:
            self.notes.append(Note(message="There is more to say about this file.", path=self.path, is_error=is_error))
        if len(self.notes) < MAX_NOTES:
            place = shown(".".join(map(str, at)), 200)
            self.notes.append(Note(message=message, path=self.path, line=self.line(*at), at=place, is_error=is_error))

    def line(self, *at: object) -> int:
        """The line of a part; 0 where that cannot be told."""
        if self._content is None:
            try:
                self._content = read_yaml(self.data)
            except YamlProblem:
                self._content = YamlContent(None, None)
        return self._content.line(*at) if self._content.node is not None else 0

    def value(self) -> Any:
        """The content as plain JSON values; raises `SuiteProblem`."""
        import json

        if not self.path.endswith((".yaml", ".yml")):
            try:
                text = self.data.decode("utf-8-sig")
                if self.path.endswith(".jsonl"):
                    return plain_value([json.loads(line) for line in text.split("\n") if line.strip()])
                return plain_value(json.loads(text))
            except (ValueError, RecursionError) as error:
                if isinstance(error, SuiteProblem):
                    raise
                where = f" in line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
                raise SuiteProblem(f"It is no JSON{where}.") from None
        try:
            self._content = read_yaml(self.data)
        except YamlProblem as problem:
            raise SuiteProblem(f"It {problem}, in line {problem.line}.") from None
        return plain_value(self._content.value)


def plain_value(value: Any, depth: int = 0) -> Any:
    """A value as JSON has it, with moments in ISO 8601; raises `SuiteProblem`."""
    if depth > MAX_DEPTH:
        raise SuiteProblem("It is nested too deeply.")
    if isinstance(value, dict):
        return {_plain_text(key): plain_value(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list):
        return [plain_value(each, depth + 1) for each in value]
    if isinstance(value, str):
        return _plain_text(value)
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise SuiteProblem("It has a number that is too large.")
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and value - value == 0:
        return value
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise SuiteProblem(f"It has a value that JSON does not have: {shown(repr(value), 60)}.")


def _plain_text(text: str) -> str:
    """A text without halves of characters, which no file can hold."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def fits(path: str, others: Mapping[str, bytes]) -> bool:
    """Whether a file can be there beside others, none of which is a folder of another."""
    return not any(one == path or one.startswith(f"{path}/") or path.startswith(f"{one}/") for one in others)
