"""The address of a source, as a person writes it and as policies, locks and records name it."""

from __future__ import annotations

import os
from typing import Literal, TypeAlias, get_args

from metier._lazy import dataclass, pattern
from metier.errors import InvalidArgument
from metier.skill import shown
from metier.source.source import absolute, expanded

Kind: TypeAlias = Literal["dir", "git", "archive", "well-known", "marketplace", "apm", "pypi", "oci"]
KINDS: tuple[Kind, ...] = get_args(Kind)

ARCHIVES = (".zip", ".skill", ".tar.gz", ".tgz", ".tar")
_SHORT = pattern(r"([A-Za-z0-9][\w.-]*/[A-Za-z0-9_][\w.-]*)((?:/[\w.-]+)*)")
_GITHUB_TREE = pattern(r"(https://[^/]+/[^/]+/[^/]+)/(?:-/)?tree/([^/]+)(?:/(.*))?")
_SCP = pattern(r"(?:[\w.-]+@)?([\w.-]+):(?!//)(.+)")
_SCHEME = pattern(r"([a-z][a-z0-9+.-]*)://")
_PREFIXES: dict[str, Kind] = {"apm+": "apm", "pypi:": "pypi", "oci://": "oci", "oci:": "oci"}
_HINT = (
    "Write owner/repo, a git address such as git+https://host/repo, an https archive, a folder, oci:..., or pypi:..."
)
_MAX = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAddress:
    """A source, a state of it and a folder in it.

    >>> parse_address("acme/skills/pdf@v2")
    SourceAddress(kind='git', location='https://github.com/acme/skills', ref='v2', path='pdf')
    >>> parse_address("acme/skills").name
    'git+https://github.com/acme/skills'
    """

    kind: Kind
    location: str
    """An absolute path, a URL, or the name of a distribution or repository."""
    ref: str = ""
    """The wanted state: a branch, a tag, a commit, a version or a digest; empty for the newest."""
    path: str = ""
    """The folder in it in which skills are looked for; empty for all of it."""

    @property
    def name(self) -> str:
        """The source as policies, locks and records name it, without state and folder."""
        if self.kind == "well-known":
            return f"well-known:{self.location.partition('://')[2]}"
        return f"{self.kind}{'+' if '://' in self.location else ':'}{self.location}"


def parse_address(text: str, *, ref: str = "") -> SourceAddress:
    """The address that a person wrote; `ref` is a state that was given beside it.

    >>> parse_address("https://example.com/pdf.skill").kind, parse_address("git@example.com:acme/skills.git").location
    ('archive', 'ssh://git@example.com/acme/skills.git')
    """
    text = text.strip()
    is_plain = 0 < len(text) <= _MAX and text.isprintable() and not text.startswith("-")
    if not is_plain or (" " in text and not os.path.exists(expanded(text))):
        raise InvalidArgument(f"{shown(text, 200)!r} is no address of a source.", hint=_HINT)
    found = _parsed(text)
    if ref:
        if found.ref and found.ref != ref:
            raise InvalidArgument(
                f"The address names {shown(found.ref)!r}, and --ref names {shown(ref)!r}.",
                hint="Leave one of them out.",
            )
        found = SourceAddress(kind=found.kind, location=found.location, ref=ref, path=found.path)
    if found.ref.startswith("-") or not found.ref.isprintable():
        raise InvalidArgument(f"{shown(found.ref)!r} is no name of a state.", hint="Name a branch, a tag or a commit.")
    if ".." in found.path.split("/"):
        raise InvalidArgument(f"{shown(found.path)!r} leads out of the source.", hint="Name a folder in it.")
    return found


def _parsed(text: str) -> SourceAddress:
    for prefix, kind in _PREFIXES.items():
        if text.startswith(prefix):
            return _of_registry(kind, text[len(prefix) :])
    if text.startswith("git+"):
        return _of_git(text[4:])
    if text.startswith("well-known:"):
        rest = text[11:].rstrip("/")
        return SourceAddress(kind="well-known", location=rest if "://" in rest else f"https://{rest}")
    if text.startswith("dir:"):
        return SourceAddress(kind="dir", location=absolute(expanded(text[4:])))
    for kind_of_file in ("archive", "marketplace"):
        if text.startswith((f"{kind_of_file}:", f"{kind_of_file}+")):
            if kind_of_file == "archive" and _SCHEME.match(text[8:]):
                return _of_archive(text[8:])
            return SourceAddress(kind=kind_of_file, location=_url_or_file(text[len(kind_of_file) + 1 :]))
    scheme = _SCHEME.match(text)
    if scheme is not None:
        return _of_url(scheme[1], text)
    local = os.path.exists(expanded(text))
    if local or text.startswith((".", "/", "~")) or (os.sep == "\\" and ":" in text[:3]):
        path = absolute(expanded(text))
        kind_here: Kind = "archive" if text.lower().endswith(ARCHIVES) and not os.path.isdir(path) else "dir"
        return SourceAddress(kind=kind_here, location=path)
    plain, _, ref = text.partition("@")
    short = _SHORT.fullmatch(plain)
    if short is not None:
        return SourceAddress(
            kind="git",
            location=f"https://github.com/{short[1].removesuffix('.git')}",
            ref=ref,
            path=short[2].strip("/"),
        )
    if _SCP.fullmatch(text):
        return _of_git(text)
    raise InvalidArgument(f"{shown(text, 200)!r} is no address of a source.", hint=_HINT)


def _of_url(scheme: str, text: str) -> SourceAddress:
    if scheme in ("ssh", "git"):
        return _of_git(text)
    if scheme not in ("https", "http"):
        raise InvalidArgument(
            f"Skills are not fetched by {shown(scheme)}://.", hint="Use https://, ssh://, git+file:// or a path."
        )
    plain = text.partition("#")[0].partition("?")[0]
    tree = _GITHUB_TREE.fullmatch(plain)
    if tree is not None:
        return SourceAddress(
            kind="git", location=tree[1].removesuffix(".git"), ref=tree[2], path=(tree[3] or "").strip("/")
        )
    if plain.lower().endswith(ARCHIVES):
        return _of_archive(text)
    if plain.endswith("marketplace.json"):
        return SourceAddress(kind="marketplace", location=text)
    host = plain.partition("://")[2].partition("/")[0].lower()
    if plain.endswith(".git") or host in ("github.com", "gitlab.com", "bitbucket.org", "codeberg.org"):
        return _of_git(text)
    return SourceAddress(kind="well-known", location=text.rstrip("/"))


def _of_archive(text: str) -> SourceAddress:
    """The address of an archive, which may end with `#sha256=DIGEST`, with `#PATH`, or with both and `&` between."""
    location, _, fragment = text.partition("#")
    digest = path = ""
    for part in filter(None, fragment.split("&")):
        if part.startswith("sha256="):
            digest = f"sha256:{part[7:].lower()}"
        else:
            path = part.removeprefix("subdirectory=").strip("/")
    return SourceAddress(kind="archive", location=location, ref=digest, path=path)


def _of_git(text: str) -> SourceAddress:
    """A git address, which may end with `@REF` and with `#PATH`."""
    text, _, path = text.partition("#")
    scp = None if "://" in text else _SCP.fullmatch(text)
    user = text.partition("@")[0] if scp is not None and "@" in text.partition(":")[0] else ""
    if scp is not None:
        text = f"ssh://{f'{user}@' if user else ''}{scp[1]}/{scp[2].lstrip('/')}"
    elif "://" not in text:
        raise InvalidArgument(f"{shown(text, 200)!r} is no git address.", hint=_HINT)
    start = text.rfind("/")
    head, at, ref = text[start:].partition("@")
    location = text[:start] + head
    return SourceAddress(kind="git", location=location.rstrip("/"), ref=ref if at else "", path=path.strip("/"))


def _of_registry(kind: Kind, text: str) -> SourceAddress:
    """The address of a package in a registry, which may end with `@VERSION` or, for OCI, with `:TAG`."""
    start = text.rfind("/") + 1
    name, at, ref = text[start:].partition("@")
    if kind == "oci" and not at:
        name, _, ref = name.partition(":")
    elif kind == "pypi" and not at:
        name, _, ref = name.partition("==")
    location = (text[:start] + name).rstrip("/")
    if not location:
        raise InvalidArgument(f"{kind}: names nothing.", hint=_HINT)
    return SourceAddress(kind=kind, location=location, ref=ref)


def _url_or_file(text: str) -> str:
    return text if _SCHEME.match(text) else absolute(expanded(text))
