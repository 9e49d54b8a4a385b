"""Public names of a package that are imported, and patterns that are compiled, when they are first used."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # true for type checkers; importing `typing` for it would double the cost of `import metier`
if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    pattern = re.compile
    from typing import Any
else:

    class pattern:  # noqa: N801  (it is called like `re.compile`)
        """A regular expression that is compiled when it is first used; most commands use few of all there are."""

        def __init__(self, *arguments: Any) -> None:
            self._arguments = arguments

        def __getattr__(self, name: str) -> Any:
            import re

            compiled = re.compile(*self._arguments)
            for method in ("findall", "finditer", "fullmatch", "match", "search", "split", "sub"):
                setattr(self, method, getattr(compiled, method))
            return getattr(compiled, name)


def lazy_names(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` for the names that a package imports below `if TYPE_CHECKING:`.

    That block lists each name once, for type checkers and for this function. It never runs, so that `import metier`
    loads none of it, but its code object still has every module of the block followed by the names taken from it.
    """
    homes: dict[str, str] = {}
    module = ""
    for name in sys._getframe(1).f_code.co_names:
        if "." in name:
            module = name if name.startswith("metier.") and name != __name__ else ""
        elif name == "lazy_names" or name == "__name__":
            module = ""
        elif module:
            homes[name] = module

    def get(name: str) -> object:
        module = homes.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        __import__(module)
        value = getattr(sys.modules[module], name)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted({*homes, *vars(sys.modules[package])}), sorted(homes)
