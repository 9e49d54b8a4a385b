"""`skills-lock.json`: the lock file of `npx skills`, written beside ours so that a project can be used with both."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any
from unicodedata import combining, normalize

from metier._json_object import read_object
from metier._paths import locked_folder, write_file
from metier.errors import LockInvalid
from metier.skill import shown
from metier.skill.package import sha256

if TYPE_CHECKING:
    from metier.library.lock_file import LockedSkill
    from metier.skill.package import Files

SKILLS_LOCK_NAME = "skills-lock.json"
VERSION = 1
MAX_BYTES = 16 * 1024 * 1024
_NOT_HASHED = frozenset({".git", "node_modules"})
_ORDER = {each: place for place, each in enumerate(" _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789")}
"""The order that JavaScript's `localeCompare` has for characters before letters."""


def computed_hash(files: Files) -> str:
    """The hash that `npx skills` writes for the files of a skill: SHA-256 of all paths and contents in its order.

    >>> computed_hash({"SKILL.md": ("file", b"hello")})[:8]
    '15ee0148'
    """
    total = sha256()
    for path in sorted(files, key=_collation_key):
        mode, data = files[path]
        if mode != "link" and _NOT_HASHED.isdisjoint(path.split("/")[:-1]):
            total.update(path.encode(errors="surrogateescape"))
            total.update(data)
    return total.hexdigest()


def _collation_key(text: str) -> tuple[object, ...]:
    """Compare as `localeCompare` does: by letters, then by accents, then small letters before capitals."""
    plain = normalize("NFD", text)
    letters = [each for each in plain if not combining(each)]
    first = [(0, _ORDER[each], "") if each in _ORDER else (1, 0, each.casefold()) for each in letters]
    accents = [each if combining(each) else "" for each in plain]
    return first, accents, [each != each.lower() for each in letters], text


def entry_of(skill: LockedSkill, files: Files) -> dict[str, Any]:
    """The entry of a skill, as `npx skills` would write it."""
    kind, _, location = skill.source.partition("+" if "://" in skill.source else ":")
    entry: dict[str, Any] = {"source": location}
    host, _, repository = location.partition("://")[2].partition("/")
    if kind == "git":
        host = host.rpartition("@")[2].lower()
        known = {"github.com": "github", "gitlab.com": "gitlab"}.get(host)
        entry["sourceType"] = known or "git"
        if known and location.startswith(("https://", "http://")):
            entry["source"] = repository.removesuffix(".git")
        else:
            entry["sourceUrl"] = location
    elif kind == "well-known":
        site = location.rpartition("://")[2].partition("/")[0]
        entry |= {"source": site.partition(":")[0], "sourceType": "well-known"}
    else:
        entry["sourceType"] = "local" if kind == "dir" else kind
    if skill.ref:
        entry["ref"] = skill.ref
    if kind == "git":
        entry["skillPath"] = f"{skill.path}/SKILL.md" if skill.path else "SKILL.md"
    return entry | {"computedHash": computed_hash(files)}


def change_skills_lock(folder: str, changes: dict[str, dict[str, Any] | None]) -> None:
    """Set entries by the names of their skills, or remove those with None; all others stay as they are.

    Keys that somebody else added to an entry stay too. A file that cannot be read is left alone: `LockInvalid`, also
    where there is no change.
    """
    path = os.path.join(folder, SKILLS_LOCK_NAME)
    with locked_folder(folder, SKILLS_LOCK_NAME):
        lock = _read(path)
        skills = dict(lock["skills"])
        for name, entry in changes.items():
            if entry is None:
                skills.pop(name, None)
            else:
                before = skills.get(name)
                kept = {key: before[key] for key in before if key not in _OURS} if isinstance(before, dict) else {}
                skills[name] = entry | kept
        if skills == lock["skills"]:
            return
        # In the order of JavaScript, which compares UTF-16.
        order = sorted(skills, key=lambda name: name.encode("utf-16-be", errors="surrogatepass"))
        lock["skills"] = {name: skills[name] for name in order}
        data = json.dumps(lock, indent=2, ensure_ascii=False).encode(errors="surrogatepass") + b"\n"
        try:
            write_file(path, data, mode=0o666, alone=True)
        except OSError as error:
            raise _invalid(path, error.strerror or "it cannot be written") from None


_OURS = frozenset({"source", "sourceUrl", "ref", "sourceType", "skillPath", "computedHash"})


def _read(path: str) -> dict[str, Any]:
    try:
        lock = read_object(path, most=MAX_BYTES)
    except ValueError as problem:
        raise _invalid(path, str(problem)) from None
    if lock is None:
        return {"version": VERSION, "skills": {}}
    if not isinstance(lock.get("skills"), dict):
        raise _invalid(path, "it has no table of skills")
    if lock.get("version") != VERSION:
        raise _invalid(path, f"its version is not {VERSION}")
    return lock


def _invalid(path: str, problem: str) -> LockInvalid:
    return LockInvalid(
        f"{shown(path, 300)} was left as it is: {problem}.", hint="Repair it, or delete it and add again.", path=path
    )
