"""A release in a git repository: a commit that holds its files, and a tag `NAME/vVERSION` that never moves."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from metier.errors import InvalidArgument, MetierError, SourceUnavailable
from metier.hub.publish.release import require_new
from metier.hub.sources.git_process import repository
from metier.skill import shown

if TYPE_CHECKING:
    from metier.hub.publish.release import Release
    from metier.hub.sources.address import SourceAddress
    from metier.hub.sources.fetch import Transfer
    from metier.hub.sources.git_process import GitRepository

_FOLDER = "skills"
"""The folder of the repository that skills lie in, where the address names none."""
_NEW = "refs/heads/metier-release"
_MODES = {"file": b"100644", "exec": b"100755"}


def push_release(
    release: Release, address: SourceAddress, transfer: Transfer, *, by: str, reason: str = "", dry_run: bool = False
) -> tuple[str, str]:
    """Commit a release to a branch, tag it, and push both in one step; the tag and the commit.

    Nothing is checked out, and no hook runs but those of the target. Raises `SkillExists` where its tag is there. A
    dry run only looks at the branches and tags.
    """
    tag = f"{release.name}/v{release.version}"
    with repository(address.location, transfer) as git:
        refs = _refs(git, address.location)
        start = f"refs/tags/{release.name}/v"
        require_new(release, (name.removeprefix(start) for name in refs if name.startswith(start)))
        branch = f"refs/heads/{address.ref}" if address.ref else refs.get("HEAD", "refs/heads/main")
        if not branch.startswith("refs/heads/") or (address.ref and refs and branch not in refs):
            raise InvalidArgument(
                f"{shown(address.location, 300)} has no branch {shown(address.ref)!r}.", hint="Name a branch of it."
            )
        parent = refs.get(branch, "")
        if len(parent) > 40:
            raise InvalidArgument("The repository has SHA-256 names.", hint="Use one with SHA-1 names.")
        if dry_run:
            return tag, ""
        if parent:
            # Folders alone: files of others are neither needed nor read.
            git.fetch("--depth=1", "origin", parent, filter="blob:none")
        message = f"Publish {release.name} {release.version}\n\n{reason}".strip()
        folder = f"{address.path or _FOLDER}/{release.name}"
        git.run("fast-import", "--quiet", given=_stream(release, folder, parent, _committer(git, by), message))
        commit = git.run("rev-parse", "--verify", _NEW).decode().strip()
        config = {"push.recurseSubmodules": "no", "push.gpgSign": "false", "remote.origin.promisor": "true"}
        names = (f"{_NEW}:{branch}", f"{_NEW}:refs/tags/{tag}")
        try:
            git.run("push", "--quiet", "--atomic", "origin", *names, config=config)
        except SourceUnavailable as error:
            why = error.context.get("reason", error.message)
            raise SourceUnavailable(
                f"Nothing was published: {shown(address.location, 300)} did not take it. {why}",
                hint="Try again if somebody pushed meanwhile; else check that you may push.",
            ) from None
    return tag, commit


def _refs(git: GitRepository, location: str) -> dict[str, str]:
    """The branches and tags of a repository with their commits; `HEAD` is the name of its main branch."""
    found: dict[str, str] = {}
    for line in git.run("ls-remote", "--symref", "--", location).decode(errors="replace").splitlines():
        value, _, name = line.partition("\t")
        if value.startswith("ref: ") or name != "HEAD":
            found[name] = value.removeprefix("ref: ")
    return found


def _committer(git: GitRepository, by: str) -> bytes:
    """The name and the address that git knows the user by; else the name of the person."""
    try:
        identity = git.run("var", "GIT_COMMITTER_IDENT", config={"user.useConfigOnly": "true"}).strip()
        return identity.rpartition(b">")[0] + b">"
    except MetierError:
        name = "".join(letter for letter in by if letter.isprintable() and letter not in "<>") or "metier"
        return f"{name} <>".encode()


def _stream(release: Release, folder: str, parent: str, committer: bytes, message: str) -> bytes:
    """The commands of `git fast-import` for one commit."""

    def data(text: bytes) -> bytes:
        return b"data %d\n%b\n" % (len(text), text)

    def quoted(path: str) -> bytes:
        return b'"%b"' % path.replace("\\", "\\\\").replace('"', '\\"').encode(errors="surrogateescape")

    parts = [b"commit %b\ncommitter %b %d +0000\n" % (_NEW.encode(), committer, int(time.time()))]
    parts += [data(message.encode(errors="replace") + b"\n"), b"from %b\n" % parent.encode() if parent else b""]
    parts.append(b"D %b\n" % quoted(folder))
    for path, (mode, content) in sorted(release.files.items()):
        parts += [b"M %b inline %b\n" % (_MODES[mode], quoted(f"{folder}/{path}")), data(content)]
    return b"".join(parts)
