"""A marketplace as a source: a list of plugins, each of which may lie in a source of its own.

A plugin that lies elsewhere is fetched only when somebody chooses it, through the same seam as if its address had been
written; it is recorded with that address, and policies decide about that address and about the marketplace.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from metier._lazy import replace
from metier.hub.sources.archive import read_content
from metier.hub.sources.fetch import Fetched, Resolved
from metier.hub.sources.fetch import fetch as fetch_source
from metier.hub.sources.fetch import resolve as resolve_source
from metier.hub.sources.fields import few
from metier.hub.sources.folder import folder_tree
from metier.hub.sources.http import JSON, Download, sha256_of
from metier.hub.sources.layout import candidates_by_layout, unopened
from metier.hub.sources.plugin_manifest import MARKETPLACE, MAX_MANIFEST_BYTES, parse_marketplace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from metier.hub.sources.address import SourceAddress
    from metier.hub.sources.fetch import Candidate, Transfer


def resolve(address: SourceAddress, transfer: Transfer) -> Resolved:
    """The list as it is now: its digest is its state."""
    content = _read(address.location, transfer)
    return Resolved(address=address, revision=sha256_of(content.body), data=content)


@contextlib.contextmanager
def fetch(resolved: Resolved, transfer: Transfer) -> Iterator[Fetched]:
    """The plugins of a marketplace, and the skills of those that lie beside its file."""
    location = resolved.address.location
    content = resolved.data if isinstance(resolved.data, Download) else _read(location, transfer)
    if location.endswith(f"/{MARKETPLACE}") and os.path.isfile(location):
        yield candidates_by_layout(folder_tree(location.removesuffix(MARKETPLACE)), resolved)
        return
    plugins, warnings = parse_marketplace(content.body, resolved.address)
    alone = [plugin.name for plugin in plugins if plugin.source is None]
    warning = (
        f"Plugins that lie in the same repository as the marketplace are left out: {', '.join(alone[:20])}. "
        "Add them from the repository."
    )
    yield Fetched(
        resolved=resolved,
        candidates=[unopened(plugin) for plugin in plugins if plugin.source is not None],
        warnings=(*few(warnings), *((warning,) if alone else ()), *content.warnings),
    )


@contextlib.contextmanager
def opened(fetched: Fetched, names: Iterable[str], transfer: Transfer | None = None) -> Iterator[Fetched]:
    """The same skills, with those of the plugins that names mean in place of these plugins.

    A name means a plugin by its own name, or as in `skill@plugin`.
    """
    meant = {name.rpartition("@")[2] for name in names}
    found: list[Candidate] = []
    warnings = list(fetched.warnings)
    with contextlib.ExitStack() as stack:
        for candidate in fetched.candidates:
            if candidate.source is None or not candidate.is_plugin or candidate.folder not in meant:
                found.append(candidate)
                continue
            resolved = resolve_source(candidate.source, transfer)
            inner = stack.enter_context(fetch_source(resolved, transfer))
            warnings += inner.warnings
            found += [
                replace(
                    one,
                    package=candidate.package,
                    version=one.version or candidate.version,
                    source=candidate.source,
                    resolved=resolved,
                )
                for one in _own_skills(candidate, candidate.source, inner.candidates)
            ]
        yield replace(fetched, candidates=found, warnings=tuple(warnings))


def _own_skills(plugin: Candidate, address: SourceAddress, found: Sequence[Candidate]) -> list[Candidate]:
    """The skills of a plugin, out of all in its source: those that are listed, else by its manifest, else in `skills`.

    A plugin of a marketplace has its skills itself: lists of other plugins are not followed any further.
    """
    skills = [one for one in found if not one.is_plugin]
    holders = ["/".join(filter(None, (address.path, folder))) for folder in plugin.folders or ("skills",)]
    own = [one for one in skills if any(not at or one.path == at or one.path.startswith(f"{at}/") for at in holders)]
    if plugin.folders:
        return own
    return [one for one in skills if one.package] or own or skills


def _read(location: str, transfer: Transfer) -> Download:
    return read_content(location, "the marketplace", transfer, types=JSON, most=MAX_MANIFEST_BYTES)
