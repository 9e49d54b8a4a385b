"""The library that a command works on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.library import Library

if TYPE_CHECKING:
    import argparse


def library_of(options: argparse.Namespace) -> Library:
    """The folders named with `--skills`, else the places of this machine, user and project."""
    folders = [*(options.skills_before or []), *(getattr(options, "skills_after", None) or [])]
    cache = not (options.no_cache_before or getattr(options, "no_cache_after", False))
    if folders:
        return Library.from_folder(*folders, cache=cache)
    return Library.discover(cache=cache)
