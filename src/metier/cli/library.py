"""The library that a command works on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from metier.errors import SourceUnavailable
from metier.library import Library

if TYPE_CHECKING:
    import argparse


def library_of(options: argparse.Namespace) -> Library:
    """The folders named with `--skills`, else the places of this machine, user and project."""
    folders = [*(options.skills_before or []), *(getattr(options, "skills_after", None) or [])]
    cache = not (options.no_cache_before or getattr(options, "no_cache_after", False))
    if folders:
        return Library.from_folder(*folders, cache=cache)
    try:
        here = os.getcwd()
    except FileNotFoundError:
        raise SourceUnavailable("The working folder was removed.", hint="Change into a folder that exists.") from None
    return Library.discover(here, cache=cache)
