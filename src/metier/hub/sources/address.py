"""The address of a source, as a person writes it and as policies, locks and records name it."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import quote, unquote

from metier._hosts import authority, split_authority
from metier._lazy import dataclass, pattern, replace
from metier.errors import InvalidArgument
from metier.skill import shown
from metier.source.source import ARCHIVE_SUFFIXES, absolute, expanded

if TYPE_CHECKING:
    from collections.abc import Callable

Kind: TypeAlias = Literal["dir", "git", "archive", "well-known", "marketplace", "apm", "pypi", "oci"]

_URL = pattern(r"([a-z][a-z0-9+.-]*)://(?:([^/?#]*)@)?([^/?#]*)(.*)")
_SHORT = pattern(r"([A-Za-z0-9][\w.-]*/[A-Za-z0-9_][\w.-]*)((?:/+[\w.-]+)*)/*")
_SCP = pattern(r"(?:([\w.-]+)@)?([\w.-]+):(?!//|:)(/?)(.+)")
_TREE = pattern(r"(https?://[^/]+(?:/[^/]+){2}|https?://[^/]+(?:/[^/]+)+/-)/(tree|blob)/([^/]+)(?:/(.*))?")
"""A folder or a file as GitHub and GitLab show it; with `/-/`, the repository may lie in groups of groups."""
_FORGES = ("github.com", "gitlab.com", "bitbucket.org", "codeberg.org")
_PORTS = {"https": 443, "http": 80, "ssh": 22, "git": 9418}
_BARE = ("HEAD", "objects", "refs")
"""The names by which git knows a bare repository."""
_HINT = (
    "Write owner/repo, a git address such as git+https://host/repo, an https archive, ./folder, oci:..., or pypi:..."
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
        if self.kind == "well-known" and self.location.startswith("https://"):
            return f"well-known:{self.location[8:]}"
        return f"{self.kind}{'+' if '://' in self.location else ':'}{self.location}"


def parse_address(text: str, *, ref: str = "") -> SourceAddress:
    """The address that a person wrote; `ref` is a state that was given beside it.

    >>> parse_address("https://example.com/pdf.skill").kind, parse_address("git@example.com:acme/skills.git").location
    ('archive', 'ssh://git@example.com/acme/skills.git')
    """
    text = text.strip()
    is_plain = 0 < len(text) <= _MAX and text.isprintable() and not text.startswith("-")
    if not is_plain or (" " in text and not os.path.exists(expanded(text))):
        raise _no_source(text)
    found = _parsed(text)
    if ref:
        if found.ref and found.ref != ref:
            raise InvalidArgument(
                f"The address names {shown(found.ref)!r}, and --ref names {shown(ref)!r}.",
                hint="Leave one of them out.",
            )
        found = replace(found, ref=ref)
    if found.ref.startswith("-") or not found.ref.isprintable():
        raise InvalidArgument(f"{shown(found.ref)!r} is no name of a state.", hint="Name a branch, a tag or a commit.")
    if ".." in found.path.split("/"):
        raise InvalidArgument(f"{shown(found.path)!r} leads out of the source.", hint="Name a folder in it.")
    return found


def _parsed(text: str) -> SourceAddress:
    for beginning, read in _KINDS_WRITTEN.items():
        if text.startswith(beginning):
            return read(text.removeprefix(beginning))
    if _URL.match(text):
        return _of_url(text)
    is_local = os.path.exists(expanded(text))
    if is_local or text.startswith((".", "/", "~")) or (os.sep == "\\" and ":" in text[:3]):
        return _of_path(text, is_local=is_local)
    plain, _, folder = text.partition("#")
    plain, _, ref = plain.partition("@")
    short = _SHORT.fullmatch(plain)
    if short is not None:
        location = f"https://github.com/{short[1].removesuffix('.git')}"
        return SourceAddress(kind="git", location=location, ref=ref, path=_folder(short[2], folder))
    if _SCP.fullmatch(text):
        return _of_git(text)
    raise _no_source(text)


def _of_path(text: str, *, is_local: bool) -> SourceAddress:
    """A folder, an archive, or a repository: a bare one, or one that is followed by `@REF` or `#PATH`."""
    plain, _, folder = (text, "", "") if is_local else text.partition("#")
    plain, _, ref = (plain, "", "") if is_local or os.path.exists(expanded(plain)) else plain.partition("@")
    path = absolute(expanded(plain))
    is_bare = all(os.path.exists(os.path.join(path, name)) for name in _BARE)
    if is_bare or (not is_local and os.path.exists(os.path.join(path, ".git"))):
        location = f"file://{quote(path.replace(os.sep, '/'), safe='/')}"
        return SourceAddress(kind="git", location=location, ref=ref, path=_folder(folder))
    file = text if is_local else text.partition("#")[0]
    if file.lower().endswith(ARCHIVE_SUFFIXES) and not os.path.isdir(absolute(expanded(file))):
        return _of_file("archive", text)
    return SourceAddress(kind="dir", location=absolute(expanded(text)))


def _of_url(text: str) -> SourceAddress:
    """An address that does not say its kind: it is one of git, where it looks like one, or of a file, or of a site."""
    plain = text.partition("#")[0].partition("?")[0]
    scheme, host, path = split_url(plain)
    if scheme in ("ssh", "git"):
        return _of_git(text)
    tree = _TREE.fullmatch(plain)
    if tree is not None:
        ref, path = unquote(tree[3]), _folder(unquote(tree[4] or ""))
        if tree[2] == "blob":
            path = path.rpartition("/")[0]  # a skill is the folder of its SKILL.md
        return replace(_of_git(tree[1].removesuffix("/-")), ref=ref, path=path)
    if path.lower().endswith(ARCHIVE_SUFFIXES):
        return _of_file("archive", text)
    if path.endswith("marketplace.json"):
        return _of_file("marketplace", text)
    is_git = host in _FORGES or path.endswith(".git") or path.partition("@")[0].endswith(".git")
    return _of_git(text) if is_git else _of_site(text)


def _of_git(text: str) -> SourceAddress:
    """A git address, which may end with `@REF` and with `#PATH`."""
    plain, _, folder = text.partition("#")
    scp = None if "://" in plain else _SCP.fullmatch(plain)
    if scp is not None:
        # Without a slash it begins at the home folder of that user; forges, whose user is `git`, have only one place.
        start = "/" if scp[3] or scp[1] == "git" else "/~/"
        plain = f"ssh://{f'{scp[1]}@' if scp[1] else ''}{scp[2]}{start}{scp[4]}"
    scheme, host, rest = split_url(plain)
    path, ref = _split_ref(rest, is_file=scheme == "file")
    path = path.rstrip("/")
    if not path.startswith("/"):
        raise InvalidArgument(f"{shown(text, 200)!r} names no repository.", hint=_HINT)
    if host.rpartition("@")[2] in _FORGES:
        path = path.removesuffix(".git")
    return SourceAddress(kind="git", location=f"{scheme}://{host}{path}", ref=ref, path=_folder(folder))


def _split_ref(path: str, *, is_file: bool) -> tuple[str, str]:
    """A path and the ref behind its first `@`, as refs may have one too; on the disk, the first behind a folder."""
    at = path.find("@")
    ends = [len(path), *(end for end, character in enumerate(path) if character == "@")] if is_file else []
    end = next((end for end in ends if os.path.isdir(unquote(path[:end]))), len(path) if at < 0 else at)
    return path[:end], path[end + 1 :]


def _of_file(kind: Kind, text: str) -> SourceAddress:
    """A folder, or a file that may end with `#sha256=DIGEST`, `#PATH`, or both and `&` between."""
    is_web = _URL.match(text) is not None
    if kind == "dir" or (not is_web and os.path.exists(expanded(text))):
        return SourceAddress(kind=kind, location=absolute(expanded(text)))
    location, _, fragment = text.partition("#")
    digest = path = ""
    for part in filter(None, fragment.split("&")):
        if part.startswith("sha256="):
            digest = f"sha256:{part[7:].lower()}"
        else:
            path = part.removeprefix("subdirectory=").strip("/")
    where = _web_url(location) if is_web else absolute(expanded(location))
    return SourceAddress(kind=kind, location=where, ref=digest, path=path)


def _of_site(text: str) -> SourceAddress:
    """A web site that announces skills, which may end with `/.well-known/agent-skills/NAME` or with `#NAME`."""
    plain, _, name = (text if "://" in text else f"https://{text}").partition("#")
    base, marker, below = _web_url(plain.partition("?")[0]).partition("/.well-known/")
    folder, _, rest = below.partition("/")
    if marker and folder not in ("agent-skills", "skills"):
        raise InvalidArgument(f"{shown(text, 200)!r} is no index of skills.", hint="Name the site alone.")
    named = rest.partition("/")[0].removesuffix("index.json")
    return SourceAddress(kind="well-known", location=base.rstrip("/"), path=name or named)


def _of_package(kind: Kind, mark: str, text: str) -> SourceAddress:
    """The address of a package in a registry, which may end with `@VERSION`, `==VERSION` or, for OCI, `:TAG`."""
    start = text.rfind("/") + 1
    name, _, ref = text[start:].partition("@" if "@" in text[start:] else mark)
    location = (text[:start] + name).rstrip("/")
    if not location:
        raise InvalidArgument(f"{kind}: names nothing.", hint=_HINT)
    return SourceAddress(kind=kind, location=_web_url(location) if kind == "apm" else location, ref=ref)


_KINDS_WRITTEN: dict[str, Callable[[str], SourceAddress]] = {
    "git+": _of_git,
    "dir:": partial(_of_file, "dir"),
    **dict.fromkeys(("archive:", "archive+"), partial(_of_file, "archive")),
    **dict.fromkeys(("marketplace:", "marketplace+"), partial(_of_file, "marketplace")),
    **dict.fromkeys(("well-known:", "well-known+"), _of_site),
    "apm+": partial(_of_package, "apm", "@"),
    "pypi:": partial(_of_package, "pypi", "=="),
    **dict.fromkeys(("oci://", "oci:"), partial(_of_package, "oci", ":")),
}
"""The beginnings by which an address says its kind, and the reader of the rest."""


def _web_url(text: str) -> str:
    """A URL in the one form in which policies know its host.

    >>> _web_url("https://Example.COM.:443/a?b")
    'https://example.com/a?b'
    """
    scheme, host, rest = split_url(text)
    if not host:
        raise _no_source(text)
    return f"{scheme}://{host}{rest}"


def split_url(text: str) -> tuple[str, str, str]:
    """The scheme of a URL, its host in one form, with a port where that is no usual one, and the rest.

    Only ssh has a user, and nothing has a password: addresses are written into locks and records.
    """
    url = _URL.fullmatch(text)
    if url is None:
        raise _no_source(text)
    scheme, user, host, rest = url.groups()
    if user is not None and (scheme != "ssh" or not user or ":" in user or user.startswith("-")):
        raise InvalidArgument(
            "An address has no password and no token: it is written into locks and records.",
            hint="Leave it out: git has credential helpers, other sources ~/.netrc and METIER_REGISTRY_TOKENS.",
        )
    if scheme == "file" and not host:
        return scheme, "", rest
    if scheme not in _PORTS:
        hint = "Use https://, ssh://, git+file:// or a path."
        raise InvalidArgument(f"Skills are not fetched by {shown(scheme)}:// from there.", hint=hint)
    try:
        name, port = split_authority(host)
    except ValueError:
        raise InvalidArgument(f"{shown(text, 200)!r} has no host that is one.", hint=_HINT) from None
    host = authority(name, None if port == _PORTS[scheme] else port)
    return scheme, f"{user}@{host}" if user else host, rest


def _folder(*parts: str) -> str:
    """A folder in a source, without slashes around it and without `.`.

    >>> _folder("/skills/", "./pdf")
    'skills/pdf'
    """
    return "/".join(part for part in "/".join(parts).split("/") if part not in ("", "."))


def _no_source(text: str) -> InvalidArgument:
    return InvalidArgument(f"{shown(text, 200)!r} is no address of a source.", hint=_HINT)
