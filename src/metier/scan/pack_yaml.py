"""YAML that strangers wrote as rules: read within limits, without aliases, and with the line of everything."""

from __future__ import annotations

from typing import Any, NamedTuple

from metier.skill import shown

_MAX_DEPTH = 12
_MAX_EVENTS = 100_000


class YamlProblem(ValueError):
    """A text that cannot be used; the message says why, and `line` where, counted from 1."""

    def __init__(self, why: str, line: int) -> None:
        super().__init__(why)
        self.line = line


class YamlContent(NamedTuple):
    """What a text says, and where."""

    value: Any
    node: Any

    def line(self, *path: object) -> int:
        """The line of what a path of keys and indexes leads to, or as far as it leads; counted from 1."""
        node = self.node
        for step in path:
            if node is not None and node.id == "sequence" and isinstance(step, int) and step < len(node.value):
                node = node.value[step]
            elif node is not None and node.id == "mapping":
                node = next((value for key, value in node.value if key.value == step), node)
        return int(node.start_mark.line) + 1 if node is not None else 1


def read_yaml(data: bytes, *, has_aliases: bool = False) -> YamlContent:
    """The content of a file, which may have aliases if it is our own; raises `YamlProblem`.

    >>> read_yaml(b"rules: []").value
    {'rules': []}
    """
    import yaml

    loader_type: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader = None
    try:
        text = data.decode("utf-8-sig")
        _require_simple(loader_type(text), has_aliases)
        loader = loader_type(text)
        node = loader.get_single_node()
        if node is None:
            return YamlContent(None, None)
        _require_single_keys(node)
        return YamlContent(loader.construct_document(node), node)
    except UnicodeDecodeError as error:
        raise YamlProblem("is no UTF-8 text", data.count(b"\n", 0, error.start) + 1) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        why = shown(str(error.problem or error.context or "cannot be read"), 200)
        raise YamlProblem(f"is no YAML: {why}", mark.line + 1 if mark is not None else 1) from None
    except (yaml.YAMLError, ValueError, OverflowError, TypeError, LookupError, AttributeError) as error:
        if isinstance(error, YamlProblem):
            raise
        raise YamlProblem(f"is no YAML: {shown(str(error), 200)}", 1) from None
    finally:
        if loader is not None:
            loader.dispose()


def _require_simple(loader: Any, has_aliases: bool) -> None:
    """Count events, which takes no stack, before anything is made of them."""
    depth = count = 0
    try:
        while loader.check_event():
            event = loader.get_event()
            name, line = type(event).__name__, event.start_mark.line + 1
            count += 1
            if count > _MAX_EVENTS:
                raise YamlProblem("has too many entries for one file", line)
            if not has_aliases and getattr(event, "anchor", None) is not None:
                raise YamlProblem(f"has an anchor or an alias, `{shown(str(event.anchor), 40)}`: write it out", line)
            if name in ("MappingStartEvent", "SequenceStartEvent"):
                depth += 1
                if depth > _MAX_DEPTH:
                    raise YamlProblem("is nested too deeply", line)
            elif name in ("MappingEndEvent", "SequenceEndEvent"):
                depth -= 1
    finally:
        loader.dispose()


def _require_single_keys(node: Any) -> None:
    seen: set[str] = set()
    for item in node.value if node.id in ("sequence", "mapping") else ():
        if node.id == "sequence":
            _require_single_keys(item)
            continue
        key, value = item
        if key.id != "scalar" or key.tag != "tag:yaml.org,2002:str":
            raise YamlProblem("has a key that is no word: put it between quotation marks", key.start_mark.line + 1)
        if key.value in seen:
            raise YamlProblem(f"has `{shown(key.value, 60)}` twice in one place", key.start_mark.line + 1)
        seen.add(key.value)
        _require_single_keys(value)
