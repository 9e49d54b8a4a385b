"""The addresses of skills and their files: `skill://pdf-forms/references/fields.md`."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote, unquote

from metier.errors import FileRefused
from metier.skill import shown

SCHEME = "skill://"
MAX_URI = 8_192
# What RFC 3986 lets stand for itself in a segment; everything else is written by its code.
_PLAIN = "!$&'()*+,;=:@~"


class SkillUri(NamedTuple):
    """The skill that a URI names, and a path inside it, which is empty for its folder."""

    skill: str
    path: str


def uri_of(skill: str, path: str = "") -> str:
    """The URI of a skill's folder, or of a file or folder in it.

    >>> uri_of("pdf-forms", "references/two words.md")
    'skill://pdf-forms/references/two%20words.md'
    """
    root = f"{SCHEME}{quote(skill, safe='')}"
    return f"{root}/{quote(path, safe='/' + _PLAIN)}" if path else root


def parse_uri(uri: str) -> SkillUri:
    """Parse a URI; raise `FileRefused` for one that is not written as `uri_of` writes it.

    >>> parse_uri("skill://pdf-forms/SKILL.md")
    SkillUri(skill='pdf-forms', path='SKILL.md')
    """
    if not uri.startswith(SCHEME) or len(uri) > MAX_URI:
        raise _refused(uri)
    try:
        segments = [unquote(segment, errors="strict") for segment in uri.removeprefix(SCHEME).split("/")]
    except UnicodeDecodeError:
        raise _refused(uri) from None
    address = SkillUri(segments[0], "/".join(segments[1:]))
    # One address for one file: an escaped slash, a dot segment or a query would make two.
    if not all(segments) or {".", ".."}.intersection(segments) or uri_of(*address) != uri:
        raise _refused(uri)
    return address


def _refused(uri: str) -> FileRefused:
    return FileRefused(
        f"{shown(uri, 200)!r} is no address of a skill's file.",
        hint="Write skill://NAME/PATH as it is listed; a path stays inside its skill.",
        path=uri[:200],
    )
