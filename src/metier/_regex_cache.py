"""Regular expressions whose compiled code is kept, as making it takes most of the time of a process that uses many.

`re` has no way to keep what it compiled, so this uses the function by which it makes a pattern of code, and which
checks that code. Where anything is not as expected, expressions are compiled as always.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sys
from array import array
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from metier._paths import default_cache_folder, open_own, write_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    kept_regex = re.compile
else:

    class kept_regex:  # noqa: N801  (it is called like `re.compile`)
        """An expression that is made when it is first used, of kept code where there is some."""

        def __init__(self, regex: str, flags: int = 0) -> None:
            self._arguments = regex, int(flags)

        def __getattr__(self, name: str) -> Any:
            made = compiled(*self._arguments)
            for method in ("findall", "finditer", "fullmatch", "match", "search", "split", "sub"):
                setattr(self, method, getattr(made, method))
            return getattr(made, name)


_MOST = 12_000
"""Expressions that are kept; where more are used, those of earlier versions are in the way, and all begins anew."""
_MAX_BYTES = 64 * 1024 * 1024
_ENOUGH = 8
"""New expressions for which the file is written again, or an eighth of those that it has."""


class _Code:
    """The code that the file has, and what was compiled since."""

    def __init__(self) -> None:
        self._index: dict[str, list[Any]] = {}
        self._blob = b""
        self._new: dict[str, tuple[re.Pattern[str], bytes]] = {}
        folder = default_cache_folder()
        version = f"{sys.implementation.cache_tag}-{sys.hexversion:x}-{sys.byteorder}"
        self._path = os.path.join(folder, "regex", f"{version}.bin") if folder is not None else ""
        if self._path:
            with contextlib.suppress(OSError), open_own(self._path) as file:
                digest, _, whole = file.read(_MAX_BYTES).partition(b"\n")
                if digest == _digest(whole):
                    head, _, self._blob = whole.partition(b"\n")
                    self._index = json.loads(head)

    def pattern(self, regex: str, flags: int, rewrite: Callable[[str], str] | None) -> re.Pattern[str]:
        how = _version_of(rewrite) if rewrite is not None else ""
        key = hashlib.sha256(f"{flags}{how} {regex}".encode(errors="surrogatepass")).hexdigest()
        kept = self._index.get(key)
        if kept is not None:
            start, end, all_flags, groups, names = kept
            with contextlib.suppress(Exception):  # whatever is wrong with what was kept, it can be made anew
                return _pattern_of(regex, all_flags, array("I", self._blob[start:end]).tolist(), groups, names)
        regex = rewrite(regex) if rewrite is not None else regex
        if not self._path:
            return re.compile(regex, flags)
        if len(self._index) + len(self._new) >= _MOST:
            self._index, self._new, self._blob = {}, {}, b""
        try:
            parsed = import_module("re._parser").parse(regex, flags)
            code = import_module("re._compiler")._code(parsed, flags)
            state = parsed.state
            made = _pattern_of(regex, flags | state.flags, code, state.groups - 1, state.groupdict)
        except (ImportError, AttributeError, TypeError):
            return re.compile(regex, flags)
        self._new[key] = made, array("I", code).tobytes()
        return made

    def keep(self) -> None:
        """Write the file again if enough is new."""
        if len(self._new) < max(_ENOUGH, len(self._index) // 8):
            return
        blob = bytearray(self._blob)
        for key, (made, code) in self._new.items():
            self._index[key] = [len(blob), len(blob) + len(code), made.flags, made.groups, dict(made.groupindex)]
            blob += code
        self._new, self._blob = {}, bytes(blob)
        if len(blob) < _MAX_BYTES // 2:
            whole = json.dumps(self._index).encode() + b"\n" + self._blob
            with contextlib.suppress(OSError):
                os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
                write_file(self._path, _digest(whole) + b"\n" + whole)


@cache
def _version_of(rewrite: Callable[[str], str]) -> str:
    """A function by its name and its module's digest: another version of it makes another expression."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        module: Any = sys.modules[rewrite.__module__]
        return f"{rewrite.__name__} {hashlib.sha256(module.__loader__.get_data(module.__file__)).hexdigest()}"
    return rewrite.__name__


def _pattern_of(regex: str, flags: int, code: list[int], groups: int, names: Mapping[str, int]) -> re.Pattern[str]:
    by_number: list[str | None] = [None] * (groups + 1)
    for name, number in names.items():
        by_number[number] = name
    found: re.Pattern[str] = import_module("_sre").compile(regex, flags, code, groups, dict(names), tuple(by_number))
    return found


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest().encode()


_code: _Code | None = None


def compiled(regex: str, flags: int = 0, *, rewrite: Callable[[str], str] | None = None) -> re.Pattern[str]:
    """The pattern of an expression, of kept code where there is some; `rewrite` makes one that finds the same faster.

    >>> compiled("(?P<a>b+)c").fullmatch("bbc")["a"]
    'bb'
    """
    global _code
    if _code is None:
        _code = _Code()
    return _code.pattern(regex, flags, rewrite)


def keep() -> None:
    """Keep the code of what was compiled, for the next process."""
    if _code is not None:
        _code.keep()
