"""A proposal as a page of Markdown, for whoever reads files rather than the store.

All of it is a stranger's text. Each part stands in a fence that is longer than any in it, with control characters
shown, so that nothing in it can pass for a part of the page.
"""

from __future__ import annotations

import contextlib
import os
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from metier.errors import StoreUnavailable
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from metier.hub.review_base import ReviewBase
    from metier.store import Proposal, TenantScope

_FENCE = re.compile(r"`{3,}")
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
_MOST_TRIES = 10_000
_MAX_NAME = 128


def page_of(scope: TenantScope, proposal: Proposal) -> Path:
    """The path of a proposal's page, outside of every skill."""
    return _path(scope, proposal.skill, datetime.fromisoformat(proposal.created_at))


def _path(scope: TenantScope, skill: str, made: datetime) -> Path:
    name = skill.partition("@")[0][:_MAX_NAME]
    stamp = f"{made.astimezone(UTC):%Y%m%dT%H%M%S}{made.microsecond // 1000:03d}Z"
    return scope.store.folder / "proposals" / f"{name}-{stamp}.md"


@contextlib.contextmanager
def reserved_page(scope: TenantScope, skill: str) -> Iterator[tuple[str, Path]]:
    """A moment at which no other proposal for the skill was made, and the page for it, removed if the block fails."""
    made = datetime.now(UTC)
    made = made.replace(microsecond=made.microsecond // 1000 * 1000)
    for _ in range(_MOST_TRIES):
        path = _path(scope, skill, made)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, _FLAGS, 0o600))
            break
        except FileExistsError:
            made += timedelta(milliseconds=1)
        except OSError as error:
            raise StoreUnavailable(
                f"{path} cannot be written: {error.strerror}.", hint="Check the disk and its permissions."
            ) from None
    else:
        raise StoreUnavailable(f"There are too many proposals in {path.parent}.", hint="Move the old ones away.")
    try:
        yield made.isoformat(timespec="milliseconds"), path
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink()
        raise


def page(proposal: Proposal, basis: ReviewBase) -> str:
    """The page: what is new about what the skill can do, who proposes it, the diff, why, and what speaks for it."""
    new = ", ".join(proposal.capabilities_new)
    parts = [
        f"# Proposal {proposal.id}: {_inline(proposal.skill)}",
        "",
        f"**New capabilities: {new}**" if new else "No new capabilities.",
        "",
        *((f"**{basis.note}**", "") if basis.note else ()),
        f"- Kind: {proposal.kind}",
        f"- Author: {proposal.author_kind} `{_inline(proposal.author)}`",
        *((f"- On behalf of: user `{_inline(proposal.on_behalf_of)}`",) if proposal.on_behalf_of else ()),
        f"- Made: {proposal.created_at}",
        f"- Folder: `{_inline(proposal.location)}`",
        f"- Content now: {proposal.base_digest or 'none'}",
        f"- Content then: {proposal.proposed_digest}",
        f"- Decide: `metier propose show {proposal.id}`",
        "",
        "## Diff",
        "",
        _fenced(proposal.diff, "diff"),
        "",
        "## Justification",
        "",
        _fenced(proposal.justification, "text"),
        "",
        "## Evidence",
        "",
    ]
    parts += [f"{_fenced(text, 'text')}\n" for text in proposal.evidence] or ["None was given.\n"]
    return "\n".join(parts)


def shown_lines(text: str) -> str:
    """A stranger's text of several lines, with whatever acts on a reader's screen shown instead.

    >>> shown_lines("one\\ttab\\n\\x1b[2Jtwo")
    'one\\ttab\\n\\\\x1b[2Jtwo'
    """
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    lines = ("\t".join(shown(part, len(part)) for part in line.split("\t")) for line in text.split("\n"))
    return "\n".join(lines)


def _fenced(text: str, language: str) -> str:
    text = shown_lines(text)
    longest = max(map(len, _FENCE.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.removesuffix(chr(10))}\n{fence}"


def _inline(text: str) -> str:
    return shown(text, 1_000).replace("`", "'")
