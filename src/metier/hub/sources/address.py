"""The address of a source, as a person writes it and as policies, locks and records name it."""

from __future__ import annotations

import os
from typing import Literal, TypeAlias

from metier._lazy import dataclass, pattern
from metier.errors import InvalidArgument
from metier.skill import shown
from metier.source.source import absolute, expanded

Kind: TypeAlias = Literal["dir", "git", "archive", "well-known", "marketplace", "apm", "pypi", "oci"]

ARCHIVES = (".zip", ".skill", ".tar.gz", ".tgz", ".tar")
_SHORT = pattern(r"([A-Za-z0-9][\w.-]*/[A-Za-z0-9_][\w.-]*)((?:/+[\w.-]+)*)/*")
_TREE = pattern(r"(https?://[^/]+(?:/[^/]+){2}|https?://[^/]+(?:/[^/]+)+/-)/(tree|blob)/([^/]+)(?:/(.*))?")
"""A folder or a file as GitHub and GitLab show it; with `/-/`, the repository may lie in groups of groups."""
_SCP = pattern(r"(?:([\w.-]+)@)?([\w.-]+):(?!//|:)(/?)(.+)")
_GIT_URL = pattern(r"(https|http|ssh|git|file)://(?:([^/@]*)@)?([^/@]*)(/.*)")
_HOST = pattern(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?(?::[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](?::[0-9]{1,5})?")
_PORTS = {"https": ":443", "http": ":80", "ssh": ":22", "git": ":9418"}
_FORGES = ("github.com", "gitlab.com", "bitbucket.org", "codeberg.org")
_BARE = ("HEAD", "objects", "refs")
"""The names by which git knows a bare repository."""
_SCHEME = pattern(r"([a-z][a-z0-9+.-]*)://")
_PREFIXES: dict[str, Kind] = {"apm+": "apm", "pypi:": "pypi", "oci://": "oci", "oci:": "oci"}
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
    if text.startswith(("well-known:", "well-known+")):
        return _of_site(text[11:] if "://" in text else f"https://{text[11:]}")
    if text.startswith("dir:"):
        return SourceAddress(kind="dir", location=absolute(expanded(text[4:])))
    for kind_of_file in ("archive", "marketplace"):
        if text.startswith((f"{kind_of_file}:", f"{kind_of_file}+")):
            rest = text[len(kind_of_file) + 1 :]
            if kind_of_file == "archive" and _SCHEME.match(rest):
                return _of_archive(rest)
            return SourceAddress(kind=kind_of_file, location=_url_or_file(rest))
    scheme = _SCHEME.match(text)
    if scheme is not None:
        return _of_url(scheme[1], text)
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
    raise InvalidArgument(f"{shown(text, 200)!r} is no address of a source.", hint=_HINT)


def _of_path(text: str, *, is_local: bool) -> SourceAddress:
    """A folder, an archive, or a repository: a bare one, or one that is followed by `@REF` or `#PATH`."""
    plain, _, folder = (text, "", "") if is_local else text.partition("#")
    plain, _, ref = (plain, "", "") if is_local or os.path.exists(expanded(plain)) else plain.partition("@")
    path = absolute(expanded(plain))
    is_bare = all(os.path.exists(os.path.join(path, name)) for name in _BARE)
    if is_bare or (not is_local and os.path.exists(os.path.join(path, ".git"))):
        return SourceAddress(kind="git", location=f"file://{_quoted(path)}", ref=ref, path=_folder(folder))
    path = absolute(expanded(text))
    kind: Kind = "archive" if text.lower().endswith(ARCHIVES) and not os.path.isdir(path) else "dir"
    return SourceAddress(kind=kind, location=path)


def _of_url(scheme: str, text: str) -> SourceAddress:
    if scheme in ("ssh", "git"):
        return _of_git(text)
    if scheme not in ("https", "http"):
        raise InvalidArgument(
            f"Skills are not fetched by {shown(scheme)}://.", hint="Use https://, ssh://, git+file:// or a path."
        )
    plain = text.partition("#")[0].partition("?")[0]
    host = plain.partition("://")[2].partition("/")[0].lower()
    if "@" in host:
        raise _has_secret()
    tree = _TREE.fullmatch(plain)
    if tree is not None:
        return _of_tree(tree[1].removesuffix("/-"), tree[3], tree[4] or "", is_file=tree[2] == "blob")
    if plain.lower().endswith(ARCHIVES):
        return _of_archive(text)
    if plain.endswith("marketplace.json"):
        return SourceAddress(kind="marketplace", location=_web_url(text))
    if host in _FORGES or ".git" in (plain[-4:], plain.partition("@")[0][-4:]):
        return _of_git(text)
    return _of_site(text)


def _of_archive(text: str) -> SourceAddress:
    """The address of an archive, which may end with `#sha256=DIGEST`, with `#PATH`, or with both and `&` between."""
    location, _, fragment = text.partition("#")
    digest = path = ""
    for part in filter(None, fragment.split("&")):
        if part.startswith("sha256="):
            digest = f"sha256:{part[7:].lower()}"
        else:
            path = part.removeprefix("subdirectory=").strip("/")
    return SourceAddress(kind="archive", location=_web_url(location), ref=digest, path=path)


def _of_site(text: str) -> SourceAddress:
    """A web site that announces skills, which may end with `/.well-known/agent-skills/NAME` or with `#NAME`."""
    plain, _, name = text.partition("#")
    base, marker, below = _web_url(plain.partition("?")[0]).partition("/.well-known/")
    folder, _, rest = below.partition("/")
    if marker and folder not in ("agent-skills", "skills"):
        raise InvalidArgument(f"{shown(text, 200)!r} is no index of skills.", hint="Name the site alone.")
    named = rest.partition("/")[0]
    return SourceAddress(
        kind="well-known", location=base.rstrip("/"), path=name or ("" if named == "index.json" else named)
    )


def _web_url(text: str) -> str:
    """A URL in the one form in which policies know its host.

    >>> _web_url("https://Example.COM.:443/a?b")
    'https://example.com/a?b'
    """
    from urllib.parse import urlsplit, urlunsplit

    from metier._hosts import authority, split_authority

    try:
        parts = urlsplit(text)
        if "@" in parts.netloc:
            raise _has_secret()
        host, port = split_authority(parts.netloc)
    except ValueError:
        raise InvalidArgument(f"{shown(text, 200)!r} has no host that is one.", hint=_HINT) from None
    default = {"https": 443, "http": 80}.get(parts.scheme)
    return urlunsplit(parts._replace(netloc=authority(host, None if port == default else port)))


def _of_tree(location: str, ref: str, path: str, *, is_file: bool) -> SourceAddress:
    from urllib.parse import unquote

    found = _of_git(location)
    path = _folder(unquote(path))
    if is_file:
        path = path.rpartition("/")[0]  # a skill is the folder of its SKILL.md
    return SourceAddress(kind="git", location=found.location, ref=unquote(ref), path=path)


def _of_git(text: str) -> SourceAddress:
    """A git address, which may end with `@REF` and with `#PATH`; it never has a password."""
    plain, _, folder = text.partition("#")
    scp = None if "://" in plain else _SCP.fullmatch(plain)
    if scp is not None:
        # Without a slash it begins at the home folder of that user; forges, whose user is `git`, have only one place.
        start = "/" if scp[3] or scp[1] == "git" else "/~/"
        plain = f"ssh://{f'{scp[1]}@' if scp[1] else ''}{scp[2]}{start}{scp[4]}"
    url = _GIT_URL.fullmatch(plain)
    if url is None or not (not url[3] if url[1] == "file" else _HOST.fullmatch(url[3])):
        raise InvalidArgument(f"{shown(text, 200)!r} is no git address.", hint=_HINT)
    scheme, user, host, rest = url.groups()
    if user is not None and (scheme != "ssh" or not user or ":" in user or user.startswith("-")):
        raise _has_secret()
    path, _, ref = _split_ref(rest, is_file=scheme == "file")
    host = host.lower().removesuffix(_PORTS.get(scheme, " "))
    if host in _FORGES:
        path = path.rstrip("/").removesuffix(".git")
    location = f"{scheme}://{f'{user}@' if user else ''}{host}{path.rstrip('/')}"
    if not path.strip("/"):
        raise InvalidArgument(f"{shown(text, 200)!r} names no repository.", hint=_HINT)
    return SourceAddress(kind="git", location=location, ref=ref, path=_folder(folder))


def _split_ref(path: str, *, is_file: bool) -> tuple[str, str, str]:
    """A path and the ref behind its first `@`, as refs may have one too; on the disk, the first behind a folder."""
    if is_file:
        from urllib.parse import unquote

        ends = [at for at, character in enumerate(path) if character == "@"]
        for end in (len(path), *ends):
            if os.path.isdir(unquote(path[:end])):
                return path[:end], "@", path[end + 1 :]
    return path.partition("@")


def _folder(*parts: str) -> str:
    """A folder in a source, without slashes around it and without `.`.

    >>> _folder("/skills/", "./pdf")
    'skills/pdf'
    """
    return "/".join(part for part in "/".join(parts).split("/") if part not in ("", "."))


def _has_secret() -> InvalidArgument:
    return InvalidArgument(
        "An address has no password and no token: it is written into locks and records.",
        hint="Leave it out, and give git a credential helper.",
    )


def _quoted(path: str) -> str:
    from urllib.parse import quote

    return quote(path.replace(os.sep, "/"), safe="/")


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
    return SourceAddress(kind=kind, location=_web_url(location) if kind == "apm" else location, ref=ref)


def _url_or_file(text: str) -> str:
    return _web_url(text) if _SCHEME.match(text) else absolute(expanded(text))
