"""Our part of a file of a client: data that are merged into what is there, or a whole text; put in and taken out."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass
from metier.cli.client_files import change_file, place_of, remove_folder
from metier.cli.json_text import json_data, rewritten
from metier.cli.undo_record import UndoRecord, json_text_of_user, plain_text_of_user
from metier.errors import FileRefused

if TYPE_CHECKING:
    from metier.cli.client_files import FileChange


_MARK, _HEAD = "`metier protect ", 400
"""Words in the first characters of a file that is ours as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """One file of a client, and our part of it."""

    path: str
    """The file in a home, or in a project."""
    content: dict[str, Any] | str | None
    """Data for a JSON file, or the text of a file of our own; None where nothing of ours is to be in it."""
    is_removed: bool = False
    """Whether it is to be taken out."""
    whole: frozenset[str] = frozenset()
    """Keys whose values are only written where the file has none, as a part of them might loosen what is set there."""
    is_optional: bool = False
    """Whether it is only written to a file that is there."""

    @property
    def _wanted(self) -> dict[str, Any] | str | None:
        return None if self.is_removed else self.content

    def change(self, *, is_user: bool, dry_run: bool) -> FileChange:
        """Put our part into the file, or take it out; in a `dry_run` nothing is written."""
        root, file = place_of(self.path, is_user=is_user)
        if not dry_run and self._wanted is not None:
            os.makedirs(root, exist_ok=True)
        found = change_file(root, file, lambda text: self._changed(file, text), dry_run=dry_run, prepare=self._prepare)
        record = UndoRecord.load(file)
        if not dry_run and self._wanted is None and record is not None:
            for folder in record.folders:
                remove_folder(root, folder)
            record.delete()
        return found

    def _prepare(self, change: FileChange) -> None:
        """Write down how to undo a change, before it is made."""
        if self._wanted is None or change.after is None:
            return
        record = UndoRecord.load(change.file)
        UndoRecord(
            file=change.file,
            before=self._text_of_user(change.file, change.before, record),
            after=change.after,
            earlier=change.before,
            folders=_missing_folders(change) or (record.folders if record is not None else ()),
        ).save()

    def _changed(self, file: str, text: str | None) -> str | None:
        record = UndoRecord.load(file)
        others = self._text_of_user(file, text, record)
        wanted = self._wanted
        if wanted is None or (self.is_optional and text is None):
            return others
        if isinstance(wanted, str):
            if record is None and not _has_only_comments(others or ""):
                raise FileRefused("It is not one that `metier protect` wrote.", hint="Give it another name.")
            return wanted + (others or "")
        data = json_data(others or "")
        there = data.keys() if isinstance(data, dict) else ()
        ours = {key: one for key, one in wanted.items() if key not in self.whole.intersection(there)}
        merged = _merged(data, ours, ())
        if text is not None and _ordered(json_data(text)) == _ordered(merged):
            return text
        return rewritten(others or "", merged)

    def _text_of_user(self, file: str, text: str | None, record: UndoRecord | None) -> str | None:
        if file.endswith((".json", ".jsonc")):
            return json_text_of_user(text, record)
        if record is not None or text is None:
            return plain_text_of_user(text, record)
        # A colleague's, or one whose record is lost: ours if it is what would be written.
        if text == self.content:
            return None
        if _MARK in text[:_HEAD]:
            raise FileRefused("It is of another `metier protect`.", hint="Look at it, delete it, and try again.")
        return text


def _has_only_comments(text: str) -> bool:
    return all(line.startswith(("//", "#")) for line in text.splitlines() if line.strip())


def _missing_folders(change: FileChange) -> tuple[str, ...]:
    """The folders that writing a file makes, the innermost first."""
    missing = []
    folder = os.path.dirname(change.file)
    while len(folder) > len(change.root) and not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return tuple(missing)


def _merged(there: Any, ours: Any, path: tuple[str, ...]) -> Any:
    """The data with ours: objects are merged, lists get what they lack, and a value that is there stays."""
    if isinstance(ours, dict):
        if not isinstance(there, dict):
            raise _wrong_kind("object", path)
        both = {key: _merged(there[key], value, (*path, key)) for key, value in ours.items() if key in there}
        return {**there, **ours, **both}
    if isinstance(ours, list):
        if not isinstance(there, list):
            raise _wrong_kind("list", path)
        return [*there, *(item for item in ours if item not in there)]
    return there


def _wrong_kind(kind: str, path: tuple[str, ...]) -> FileRefused:
    return FileRefused(f"It has no {kind} for {'.'.join(path) or 'its settings'}.", hint="Mend it, and try again.")


def _ordered(value: Any) -> Any:
    """A value with every list in one order, so that those are equal which differ in that alone."""
    if isinstance(value, dict):
        return {key: _ordered(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted(map(_ordered, value), key=lambda item: json.dumps(item, sort_keys=True))
    return value
