"""Files of active skills: text by lines, anything else as base64, never more than asked for."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from metier._lazy import dataclass, replace
from metier._telemetry import describe_skill
from metier.errors import FileMissing, FileRefused, InvalidArgument
from metier.guard import Action
from metier.session.events import Event
from metier.skill import FolderPackage, shown
from metier.skill.package import relative_to_root
from metier.tools.patch import line_range, split_lines

if TYPE_CHECKING:
    from typing import Unpack

    from metier.session.active_skills import ActiveSkill, ActiveSkills
    from metier.session.context import By, SessionContext
    from metier.session.copies import Copies

Encoding: TypeAlias = Literal["text", "base64"]

MAX_BYTES = 256 * 1024


class ReadOptions(TypedDict, total=False):
    """The part of a file to read, and the form it is returned in."""

    encoding: Encoding
    """`text`, or `base64` for what is no text."""
    start: int | None
    """The first line, from 1."""
    end: int | None
    """The line after the last."""
    limit: int
    """Bytes that are returned at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A file of a skill, or the part of it that was asked for."""

    skill: str
    path: str
    content: str
    encoding: Encoding
    size: int
    """Bytes of the whole file."""
    lines: int | None = None
    """Lines of the whole file; None for what is no text."""
    truncated: bool = False
    """Whether some of what was asked for is left out because it is too long."""
    is_stale: bool = False
    """Whether the skill's files have changed since it was loaded."""

    def as_dict(self) -> dict[str, Any]:
        """The resource as JSON holds it."""
        found: dict[str, Any] = {
            "skill": self.skill,
            "path": self.path,
            "encoding": self.encoding,
            "size": self.size,
            "content": self.content,
        }
        if self.lines is not None:
            found["lines"] = self.lines
        return found | {key: True for key, on in (("truncated", self.truncated), ("stale", self.is_stale)) if on}


class SkillFiles:
    """Reads files of the active skills of one session, from their verified copies."""

    def __init__(self, context: SessionContext, loaded: ActiveSkills, copies: Copies) -> None:
        self._context = context
        self._loaded = loaded
        self._copies = copies
        self._read: set[tuple[str, str]] = set()

    @property
    def paths_read(self) -> frozenset[tuple[str, str]]:
        """The files that were read, each with the skill it belongs to."""
        return frozenset(self._read)

    def read(self, path: str, skill: str | None = None, *, by: By = "host", **options: Unpack[ReadOptions]) -> Resource:
        """Return a file, as `Session.read` does; its path may begin with the root that the model was told."""
        one = self._loaded.one(skill, by=by)
        path = relative_to_root(path, one.root)
        where = path if isinstance(path, str) else ""
        instead = where if by == "model" and one.listing.is_script(where) else ""
        action = Action(point="read", skill=one.subject, path=where, command=instead, by=by)
        with self._context.audited(action), self._copies.of(one):
            resource = read_resource(one, path, **options)
        self._read.add((one.name, resource.path))
        describe_skill(one.entry.description, one.entry.location)
        self._context.emit(Event(kind="read", skill=one.name, message=f"Read {shown(path)} of {one.name}."))
        return replace(resource, is_stale=True) if self._loaded.is_stale(one) else resource


def read_resource(
    active: ActiveSkill,
    path: str,
    *,
    encoding: Encoding = "text",
    start: int | None = None,
    end: int | None = None,
    limit: int = MAX_BYTES,
) -> Resource:
    """A file of the verified copy of a skill; `start` is the first line, from 1, and `end` the line after the last.

    What is not UTF-8 text comes as base64 whatever was asked for, and says so.
    """
    if encoding not in ("text", "base64"):
        raise InvalidArgument(f"There is no encoding {encoding!r}.", hint="Encodings are text and base64.")
    for name, number in (("start", start), ("end", end)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
            raise InvalidArgument(f"{name} is {number!r}.", hint="Lines are counted from 1.")
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InvalidArgument(f"A limit of {limit!r} bytes cannot be.", hint="Give a number of bytes.")
    try:
        data = FolderPackage(active.root).read(path)
    except FileMissing:
        if any(file.kind == "link" and file.path == path for file in active.listing.files):
            raise FileRefused(
                f"{path!r} is a link that leads outside the skill (path traversal).",
                hint="Replace the link by a copy of the file.",
                path=path,
            ) from None
        raise
    text = _text_of(data) if encoding == "text" else None
    if text is None:
        # Whole groups of three bytes, so that what is cut can still be decoded.
        kept = data if len(data) <= limit else data[: max(limit // 3 * 3, 3)]
        return Resource(
            skill=active.name,
            path=path,
            content=base64.b64encode(kept).decode("ascii"),
            encoding="base64",
            size=len(data),
            truncated=len(kept) < len(data),
        )
    content = text if start is None and end is None else line_range(text, start or 1, end)
    encoded = content.encode()
    cut = encoded[:limit].decode(errors="ignore") if len(encoded) > limit else content
    return Resource(
        skill=active.name,
        path=path,
        content=cut,
        encoding="text",
        size=len(data),
        lines=len(split_lines(text)),
        truncated=len(encoded) > limit,
    )


def _text_of(data: bytes) -> str | None:
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
