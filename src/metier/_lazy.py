"""Names that are imported when they are first used.

A room's `__init__` lists what it offers; this keeps `import metier` from paying for all of it at once.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # what type checkers take for true; `typing` alone would double the cost of `import metier`
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def lazy_names(package: str, names: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package whose names live in the modules that `names` says."""

    def get(name: str) -> object:
        module = names.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        __import__(module)
        value = getattr(sys.modules[module], name)
        setattr(sys.modules[package], name, value)
        return value

    def listed() -> list[str]:
        return sorted({*names, *vars(sys.modules[package])})

    return get, listed
