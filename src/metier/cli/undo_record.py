"""Records of what `metier protect` changed in files of clients, so that it can be undone byte for byte.

Each record holds a file as it was and as it was written. A file that nobody touched since gets its old text back. In
one that was edited, the edits are kept: our data are taken out, or, of a file that is no JSON, our text. Without a
record, as for a colleague's file, our hooks are known by their command.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

from metier._json_object import value_at
from metier._lazy import asdict, dataclass
from metier._paths import open_own, short_digest, write_file
from metier.cli.hook_files import is_our_hook
from metier.cli.json_text import json_data, rewritten
from metier.errors import FileRefused
from metier.library.places import default_config_folder

_ABSENT = object()
_MOST_BYTES = 20_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoRecord:
    """A file as it was before, and as it was written; None is no file."""

    file: str
    before: str | None
    after: str | None
    earlier: str | None = None
    """The text that `after` takes the place of, which is still there if nothing was written in the end."""
    folders: tuple[str, ...] = ()
    """The folders that were made for it, the innermost first."""

    @classmethod
    def load(cls, file: str) -> UndoRecord | None:
        """The record of a file; None where there is none that can be used."""
        try:
            with open_own(_path_of(file)) as opened:
                found = json.loads(opened.read(_MOST_BYTES))
            before, after, earlier = (found[name] for name in ("before", "after", "earlier"))
            folders = tuple(found["folders"])
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return None
        is_sound = all(one is None or isinstance(one, str) for one in (before, after, earlier, *folders))
        if not is_sound or found["file"] != file:
            return None
        return cls(file=file, before=before, after=after, earlier=earlier, folders=folders)

    def save(self) -> None:
        """Write the record for this user alone: files of clients may hold secrets."""
        path, data = _path_of(self.file), asdict(self)
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            write_file(path, json.dumps(data).encode(), exact_mode=0o600, sync=True)
        except OSError as error:
            raise FileRefused(
                f"{path} cannot be written, so that {self.file} could not be given back later: {error.strerror}.",
                hint="Check its permissions, or set METIER_CONFIG to a folder of yours.",
                path=path,
            ) from None

    def is_text(self, text: str | None) -> bool:
        """Whether a text is one that this record knows as a whole."""
        return text in (self.before, self.after, self.earlier)

    def delete(self) -> None:
        """Remove the record."""
        with contextlib.suppress(OSError):
            os.unlink(_path_of(self.file))


def _path_of(file: str) -> str:
    return os.path.join(default_config_folder(), "protected", f"{short_digest(os.fsencode(file), 32)}.json")


def plain_text_of_user(text: str | None, record: UndoRecord | None) -> str | None:
    """The text of a file that is ours as a whole, without ours: the lines that somebody added."""
    if text is None or record is None:
        return text
    if record.is_text(text):
        return record.before
    ours = (record.after or "").removesuffix(record.before or "")
    head, found, rest = text.partition(ours)
    if not found:
        raise FileRefused(
            "Lines that `metier protect` wrote were changed by hand.",
            hint="Keep what you need of it elsewhere, delete it, and try again.",
        )
    return head + rest if (head + rest).strip() else record.before


def json_text_of_user(text: str | None, record: UndoRecord | None) -> str | None:
    """The text of a JSON file without what `metier protect` wrote."""
    if text is None or (record is not None and record.is_text(text)):
        return text if record is None else record.before
    now = json_data(text)
    before: Any = _ABSENT
    if record is not None:
        before, after = json_data(record.before or ""), json_data(record.after or "")
    else:
        hooks = value_at(now, "hooks")
        after = {"hooks": {event: [] for event in hooks} if isinstance(hooks, dict) else {}}
    wanted = _stripped(before, after, now)
    wanted = {} if wanted is _ABSENT else wanted
    if wanted == now:
        return text
    found = rewritten(text, wanted)
    is_new = record is not None and record.before is None
    return None if is_new and not "".join(found.split()).strip("{}") else found


def _stripped(before: Any, after: Any, now: Any) -> Any:
    """The data of a file without what was added between two earlier states of it."""
    if isinstance(now, dict) and isinstance(after, dict):
        old = before if isinstance(before, dict) else {}
        inner = {
            key: _stripped(old.get(key, _ABSENT), after[key], value) if key in after else value
            for key, value in now.items()
        }
        kept: Any = {key: value for key, value in inner.items() if value is not _ABSENT}
    elif isinstance(now, list) and isinstance(after, list):
        added = [item for item in after if not isinstance(before, list) or item not in before]
        kept = [rest for item in now if (rest := _rest_of_item(item, added)) is not _ABSENT]
    else:
        return _ABSENT if before is _ABSENT and now == after else now
    return _ABSENT if before is _ABSENT and not kept and now else kept


def _rest_of_item(item: Any, added: list[Any]) -> Any:
    """An item of a list without ours: it may be ours, or a group of hooks with ours among others."""
    if item in added:
        added.remove(item)
        return _ABSENT
    if is_our_hook(item):
        return _ABSENT
    hooks = value_at(item, "hooks")
    if isinstance(hooks, list) and any(map(is_our_hook, hooks)):
        others = [hook for hook in hooks if not is_our_hook(hook)]
        return {**item, "hooks": others} if others else _ABSENT
    return item
