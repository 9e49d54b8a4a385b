"""Frontmatter as other programs read it: with the types that YAML 1.2 gives to values, as JSON holds them.

The rest of Métier reads every value as the text that was written. A host compares what it is told of a skill with what
it finds in the file by a YAML parser of its own, so here `1.10` is a number, and a date and `yes` are text.
"""

from __future__ import annotations

import functools
import json
import re
from typing import Any

from metier.errors import SkillInvalid

_TAG = "tag:yaml.org,2002:"
_NULL = re.compile(r"(?:~|null|Null|NULL|)$")
_BOOL = re.compile(r"(?:true|True|TRUE|false|False|FALSE)$")
_INT = re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$")
_FLOAT = re.compile(
    r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)


def typed_mapping(block: str) -> dict[str, Any]:
    """The fields of a frontmatter; raises `SkillInvalid` where JSON cannot hold them.

    The block must have been found neither too large nor too deep by `check_strictly`.

    >>> typed_mapping("name: a\\nversion: 1.10\\nday: 2026-01-02\\nok: yes")
    {'name': 'a', 'version': 1.1, 'day': '2026-01-02', 'ok': 'yes'}
    """
    import yaml

    try:
        found = yaml.load(block.replace("\r\n", "\n"), Loader=_loader())
        if not isinstance(found, dict):
            raise TypeError
        read: dict[str, Any] = json.loads(json.dumps(found, allow_nan=False))
        return read
    except (yaml.YAMLError, TypeError, ValueError, RecursionError):
        raise SkillInvalid(
            "Its frontmatter has values that JSON cannot hold.", hint="Use texts, numbers, lists and maps."
        ) from None


@functools.cache
def _loader() -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader: Any = type("CoreLoader", (base,), {"yaml_implicit_resolvers": {}})
    digits = "-+0123456789"
    loader.add_implicit_resolver(f"{_TAG}null", _NULL, ["~", "n", "N", ""])
    loader.add_implicit_resolver(f"{_TAG}bool", _BOOL, list("tTfF"))
    loader.add_implicit_resolver(f"{_TAG}int", _INT, list(digits))
    loader.add_implicit_resolver(f"{_TAG}float", _FLOAT, list(f"{digits}."))
    loader.add_constructor(f"{_TAG}int", lambda self, node: _whole(self.construct_scalar(node)))
    # JSON has no infinity, and `float` does not read it as YAML writes it.
    loader.add_constructor(f"{_TAG}float", lambda self, node: float(self.construct_scalar(node)))
    return loader


def _whole(text: str) -> int:
    return int(text, 0) if text.startswith(("0o", "0x")) else int(text)
