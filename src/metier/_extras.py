"""Optional parts that are missing or too old: which versions are needed, and what installs them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from metier.errors import PartMissing
from metier.hints import install

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def optional(what: str, package: str, *, extra: str) -> Iterator[None]:
    """Surrounds imports of an optional package: where one fails, `PartMissing` names the extra to install.

    >>> with optional("Skills for it", "no-such-framework", extra="agent"):
    ...     import no_such_framework
    Traceback (most recent call last):
    metier.errors.PartMissing: Skills for it need no-such-framework, which is not installed.
    hint: pip install 'metier[agent]'
    """
    try:
        yield
    except ImportError as error:
        if isinstance(error, PartMissing) or (error.name or "").partition(".")[0] == "metier":
            raise
        raise _missing(what, package, extra, error) from None


def _missing(what: str, package: str, extra: str, error: ImportError) -> PartMissing:
    """The error for an import that failed: says which version is here, and which our own extra asks for."""
    from importlib import metadata

    wanted, hint = f"{package}{_asked_for(package, extra)}", install(f"metier[{extra}]")
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:
        return PartMissing(f"{what} need {wanted}, which is not installed.", hint=hint, package=package)
    return PartMissing(
        f"{what} need {wanted}; {package} {version} is installed, and does not have it all: {error}.",
        hint=hint,
        package=package,
        version=version,
    )


def _asked_for(package: str, extra: str) -> str:
    """The versions of a package that our own extra asks for; empty where nothing is known of it."""
    import re
    from importlib import metadata

    try:
        lines = metadata.requires("metier") or []
    except metadata.PackageNotFoundError:
        return ""
    name, of = re.escape(package), re.escape(extra)
    found = re.compile(rf"{name}(?:\[[^]]*\])?\s*([<>=!~][^;]*?)\s*;.*extra\s*==\s*['\"]{of}['\"]")
    matches = (found.fullmatch(line.strip()) for line in lines)
    # The lower bound first, as people write it.
    return next((",".join(sorted(match[1].split(","), reverse=True)) for match in matches if match), "")
