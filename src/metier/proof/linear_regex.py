"""Regular expressions of suites: searched for in linear time, whoever wrote the expression and the text.

The engine is the one of the JSON Schema validator, so there is no look-around, and no reference to a group. `^` and `$`
stand for the beginning and the end of each line.
"""

from __future__ import annotations

import functools
from typing import Any

MAX_REGEX = 2_000
"""Characters of an expression."""
_MAX_COMPILED = 2**19
"""Bytes of what it is made into: making more takes long."""


def regex_problem(regex: str) -> str:
    """The reason why an expression cannot be used; empty if it can.

    >>> regex_problem("^[0-9]+$"), regex_problem("(?=a)b")
    ('', 'is no regular expression without look-around and references to groups, or repeats too much')
    """
    if len(regex) > MAX_REGEX:
        return f"has more than {MAX_REGEX:,} characters"
    try:
        _validator(regex)
    except ValueError:
        return "is no regular expression without look-around and references to groups, or repeats too much"
    return ""


def regex_found(regex: str, text: str) -> bool:
    """Whether an expression that can be used is found somewhere in a text.

    >>> regex_found("^total: [0-9]+$", "rows: 3\\ntotal: 12")
    True
    """
    return bool(_validator(regex).is_valid(text.encode(errors="replace").decode()))


@functools.lru_cache(maxsize=64)
def _validator(regex: str) -> Any:
    import jsonschema_rs

    options = jsonschema_rs.RegexOptions(size_limit=_MAX_COMPILED)
    return jsonschema_rs.validator_for({"pattern": f"(?m){regex}"}, pattern_options=options)
