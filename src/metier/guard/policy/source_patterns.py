"""Matches a source such as `git+https://github.com/acme/skills` against patterns of `sources.allow` and `sources.deny`.

A pattern that allows is taken as narrowly as it can be, and one that denies as widely: in `git+https://*.acme.com/*`
the first star is part of a host and never of a path behind another host.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from metier.skill.names import glob_matches

_ODD = re.compile(r"[\\\s\x00-\x1f\x7f]|%2e|%2f|%5c|(?:^|/)\.\.(?:/|$)", re.IGNORECASE)
"""Characters by which different programs see different places."""
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
    wanted, given = _split(pattern), _split(source)
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
    wanted, given = pattern.casefold(), source.casefold()
    return any(glob_matches(f"{wanted.rstrip('/')}{more}", given) for more in ("", "/*", ":*", "?*", "#*", "@*"))


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
