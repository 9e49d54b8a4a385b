"""Matches a source such as `git+https://github.com/acme/skills` against patterns of `sources.allow` and `sources.deny`.

A pattern that allows is taken as narrowly as it can be, and one that denies as widely: in `git+https://*.acme.com/*`
the first star is part of a host and never of a path behind another host.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import NamedTuple

from metier._hosts import canonical_host
from metier.skill.names import glob_matches

_ODD = re.compile(r"[\\\s\x00-\x1f\x7f]|%2e|%2f|%5c|(?:^|/)\.\.(?:/|$)", re.IGNORECASE)
"""Characters by which different programs see different places."""
_USER = re.compile(r"//[^/@]*@")
_DEFAULT_PORT = re.compile(r"\.*(?::(?:443|80|22|9418)?)?$")
"""Dots and ports behind a host that change nothing about which host it is."""
_LOCAL = re.compile(r"(dir:|archive:|marketplace:|git\+file://)(.*)", re.IGNORECASE | re.DOTALL)
"""The kinds of sources that may lie on this machine, and their paths."""
_HOSTED = ("well-known", "marketplace", "oci", "mcp")
"""Kinds of sources that begin with a host though they have no `//`."""


class _Source(NamedTuple):
    kind: str
    host: str
    path: str


def allows_source(pattern: str, source: str) -> bool:
    """Whether an allowing pattern certainly matches a source.

    >>> allows_source("git+https://github.com/acme/*", "git+https://github.com/acme/skills")
    True
    >>> allows_source("git+https://*.acme.com/*", "git+https://evil.test/.acme.com/x")
    False
    """
    if _ODD.search(source) or not source.isprintable():
        return False
    if pattern == "*":
        return True
    wanted, given = _split(_with_real_folder(pattern, is_pattern=True)), _split(_with_real_folder(source))
    if not glob_matches(wanted.kind, given.kind):
        return False
    if wanted.host == "" and wanted.path == "*":
        return True
    if given.host and not wanted.host:
        # `*:*.acme.com` was written without saying which kind of source has a host.
        host, slash, path = wanted.path.partition("/")
        wanted = _Source(wanted.kind, host.lower(), f"{slash}{path}")
    return glob_matches(wanted.host, given.host) and glob_matches(wanted.path, given.path)


def denies_source(pattern: str, source: str) -> bool:
    """Whether a denying pattern matches a source, or a parent of it.

    >>> denies_source("*:*.vercel.app", "git+https://evil.vercel.app/skills"), denies_source("dir:/a", "dir:/ab")
    (True, False)
    """
    named = source if "@" in pattern else _USER.sub("//", source, count=1)
    return any(
        glob_matches(f"{wanted.rstrip('/')}{more}", given)
        for wanted, given in {
            (pattern.casefold(), source.casefold()),
            (_one_spelling(pattern), _one_spelling(named)),
            (_with_real_folder(pattern, is_pattern=True).casefold(), _with_real_folder(source).casefold()),
        }
        for more in ("", "/*", ":*", "?*", "#*", "@*")
    )


def _with_real_folder(text: str, *, is_pattern: bool = False) -> str:
    """A folder as `~`, `..` and links lead to it; of a pattern, what is before its first star. All else as it is.

    >>> _with_real_folder("dir:/srv/../no-such/./skills/*", is_pattern=True)
    'dir:/no-such/skills/*'
    """
    local = _LOCAL.fullmatch(text)
    if local is None:
        return text
    kind, path = local[1], os.path.expanduser(local[2])
    if kind.endswith("//"):
        from urllib.parse import unquote

        path = unquote(path)
    end = path.rfind("/", 0, path.find("*")) if is_pattern and "*" in path else len(path)
    if not os.path.isabs(path[:end]):
        return text
    try:
        return f"{kind.lower()}{os.path.realpath(path[:end]).rstrip('/')}{path[end:]}"
    except (OSError, ValueError):  # no path at all
        return text


def _one_spelling(text: str) -> str:
    """A source or pattern in the spelling that servers take all others for.

    >>> _one_spelling("git+https://GitHub.com.:443//good/../%65vil/./skills")
    'git+https://github.com/evil/skills'
    """
    from posixpath import normpath
    from unicodedata import normalize
    from urllib.parse import unquote

    for _ in range(3):  # some servers decode what was decoded already
        text = unquote(text)
    kind, colon, rest = normalize("NFKC", text).casefold().replace("\\", "/").partition(":")
    start, host = "//" if rest.startswith("//") else "", ""
    if start or kind in _HOSTED:
        host, _, rest = rest.removeprefix("//").partition("/")
        host, rest = _DEFAULT_PORT.sub("", host), f"/{rest}"
        with contextlib.suppress(ValueError):  # or it is no host, as with stars
            host = canonical_host(host) if host.startswith("[") else host.encode("idna").decode()
    path = normpath(f"/{rest.lstrip('/')}")
    if kind.startswith("git+"):
        path = path.removesuffix(".git")
    if kind == "pypi":
        path = re.sub(r"[-_.]+", "-", path)
    return f"{kind}{colon}{start}{host}{path if rest.startswith('/') else path[1:]}"


def _split(text: str) -> _Source:
    kind, _, rest = text.partition(":")
    kind = kind.lower()
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
    elif kind in _HOSTED:
        host, slash, path = rest.partition("/")
    else:
        return _Source(kind, "", rest)
    return _Source(kind, host.lower(), f"{slash}{path}".rstrip("/") if not path else f"{slash}{path}")
