"""Files that are to become a skill: whether they make one, and keeping them with what is known of them."""

from __future__ import annotations

import os
import unicodedata
from typing import TYPE_CHECKING

from metier.errors import FileRefused, SkillInvalid
from metier.guard.content_records import keep_revision
from metier.hints import for_anybody, for_people
from metier.scan.capabilities import infer
from metier.skill import MAX_SKILL_BYTES, MemoryFile, MemoryPackage, shown
from metier.skill.package import MAX_FILES, checked_path, digest_of_files
from metier.skill.validate import NOT_DEPLOYABLE, check
from metier.source.unpack import is_portable_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metier.guard.policy.effective import EffectivePolicy
    from metier.skill import Diagnostic, Document
    from metier.skill.package import FileMode, Files
    from metier.store import Revision, TenantScope


_MAX_LINKS = 40


def package_of(files: Files) -> MemoryPackage:
    """The files as a package that can be looked into; links, which have no content of their own, are left out."""
    return MemoryPackage(
        {path: MemoryFile(data, mode == "exec") for path, (mode, data) in files.items() if mode != "link"}
    )


def require_sound(files: Files) -> None:
    """Raise `FileRefused` unless these files can lie together in one folder of their own, on every system."""
    if len(files) > MAX_FILES:
        raise FileRefused(f"There are {len(files):,} files; a skill has at most {MAX_FILES:,}.", hint="Remove some.")
    alike: dict[str, str] = {}
    for path, (mode, _) in files.items():
        if not all(map(is_portable_name, path.split("/"))):
            raise FileRefused(f"{shown(path)!r} has a name that Windows cannot store.", hint="Rename it.", path=path)
        if "/".join(checked_path(path)) != path:
            raise FileRefused(f"{shown(path)!r} is no plain path.", hint="Write it as in references/api.md.", path=path)
        for end in (at for at, character in enumerate(path) if character == "/"):
            if path[:end] in files:
                raise FileRefused(
                    f"{shown(path[:end])!r} is a file, and {shown(path)!r} would lie in it.",
                    hint="Rename one of them.",
                    path=path,
                )
        other = alike.setdefault(unicodedata.normalize("NFC", path).casefold(), path)
        if other != path:
            raise FileRefused(
                f"{shown(other)!r} and {shown(path)!r} are the same file on many systems.",
                hint="Rename one of them.",
                path=path,
            )
        if mode == "link":
            led = _led_to(path, files)
            # Whoever goes through a link to a folder that it lies in never comes to an end.
            is_folder = any(other.startswith(f"{led}/") for other in files) and not path.startswith(f"{led}/")
            if led not in files and not is_folder:
                raise _leads_nowhere(path)


def without_links(files: Files) -> dict[str, tuple[FileMode, bytes]]:
    """The files with a copy in place of each link; raises `FileRefused` for one that leads to no file of the skill.

    >>> without_links({"a": ("file", b"A"), "b": ("link", b"a")})
    {'a': ('file', b'A'), 'b': ('file', b'A')}
    """
    found = dict(files)
    for path, (mode, _) in files.items():
        if mode == "link":
            led = _led_to(path, files)
            if led not in files:
                raise _leads_nowhere(path)
            found[path] = files[led]
    return found


def _led_to(link: str, files: Files) -> str:
    """The path that a link leads to, by whatever links and folders it goes; empty where it leaves the skill."""
    at, waiting, followed = link.split("/")[:-1], link.split("/")[-1:], 0
    while waiting:
        part = waiting.pop()
        if part == "..":
            if not at:
                return ""
            at.pop()
            continue
        mode, data = files.get("/".join((*at, part)), ("file", b""))
        if mode != "link":
            at.append(part)
            continue
        followed += 1
        to = os.fsdecode(data)
        if to.startswith("/") or followed > _MAX_LINKS:
            return ""
        waiting.extend(reversed([part for part in to.split("/") if part not in ("", ".")]))
    return "/".join(at)


def _leads_nowhere(link: str) -> FileRefused:
    return FileRefused(
        f"{shown(link)!r} is a link that leads to no file of the skill.",
        hint="Replace it by a copy of the file.",
        path=link,
    )


def keep_files(
    scope: TenantScope, effective: EffectivePolicy, skill: str, files: Files, *, parent: str = "", is_whole: bool = True
) -> Revision:
    """Keep a content of a skill, called `name@source`, so that it can be shown and brought back.

    Policy says which tools count as reaching the network or writing files, and so what the content can do. Without
    `is_whole`, what is known of the content is kept, and not the content itself.
    """
    return keep_revision(
        scope,
        skill,
        digest_of_files(files),
        files,
        skill=_document(files, folder=skill.partition("@")[0])[0].skill,
        capabilities=infer(package_of(files), network=effective.network_tools, write=effective.write_tools),
        parent=parent,
        is_whole=is_whole,
    )


def capabilities_of(revision: Revision | None) -> tuple[str, ...]:
    """The capabilities of a content; none where there is no content."""
    return tuple(revision.capabilities.get("names", ())) if revision is not None else ()


def require_skill(files: Files, name: str, *, deployable: bool = False) -> None:
    """Raise `SkillInvalid` unless files make a skill of a name; with `deployable`, one that had nothing to be forgiven.

    Either is what `metier validate` says of them.
    """
    document, found = _document(files, folder=name)
    wrong = [note for note in found if note.severity == "error" or (deployable and note.code == NOT_DEPLOYABLE)]
    if wrong:
        raise SkillInvalid(
            f"It would be no valid skill. {list_diagnostics(wrong)}",
            hint=for_people(
                "Correct this; `metier validate` shows all there is to say.", model="Correct this and try again."
            ),
            findings=[note.as_json() for note in wrong],
        )
    if document.skill.name != name:
        raise SkillInvalid(
            f"It would be called {shown(document.skill.name)!r}, not {shown(name)!r}.",
            hint=f"Write `name: {shown(name)}`.",
        )


def _document(files: Files, *, folder: str) -> tuple[Document, list[Diagnostic]]:
    file = skill_file(files)
    return check(files[file][1], package_of(files), folder=folder, file=file)


def skill_file(files: Files) -> str:
    """The path of the SKILL.md among files, however it is spelled; raises `SkillInvalid` where they have none."""
    file = next((path for path in ("SKILL.md", *files) if path in files and path.lower() == "skill.md"), None)
    mode, data = files[file] if file is not None else ("link", b"")
    if file is None or mode == "link" or len(data) > MAX_SKILL_BYTES:
        raise SkillInvalid(
            "There would be no SKILL.md.", hint=f"A skill has one, with at most {MAX_SKILL_BYTES:,} bytes."
        )
    return file


def list_diagnostics(found: Sequence[Diagnostic]) -> str:
    """Diagnostics in one paragraph."""
    return " ".join(
        f"{f'Line {note.line}: ' if note.line else ''}{for_anybody(note.message, note.hint)}" for note in found[:10]
    )
