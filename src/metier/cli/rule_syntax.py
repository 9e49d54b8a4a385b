"""The syntax of rules, from the docstrings of the code that reads them."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

from metier.cli.output import table
from metier.scan import condition, phrase
from metier.scan.facts import FACTS
from metier.scan.matchers import matcher, matcher_names
from metier.scan.pack import CORE, entries_of, files_of
from metier.scan.text import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.cli.output import Style


def rows_of(text: str) -> list[tuple[str, str]]:
    """The rows of the table in a docstring, as people read them.

    >>> rows_of("| written | matches |\\n|---|---|\\n| `(a\\\\|b)` | one |")
    [('(a|b)', 'one')]
    """
    cells = re.findall(r"^\|((?:\\.|[^|\\])*)\|((?:\\.|[^|\\])*)\|$", text, re.MULTILINE)
    read = [(_unescaped(written), _unescaped(means)) for written, means in cells]
    return [(written, means) for written, means in read if not set(written) <= {"-"} and written != "written"]


def _unescaped(cell: str) -> str:
    return re.sub(r"\\(.)", r"\1", cell).replace("`", "").strip()


def syntax_shape() -> dict[str, Any]:
    """All that phrases and conditions are made of, with the matchers and our lexicons."""
    lexicons = entries_of(files_of(CORE), is_core=True).lexicons
    return {
        "phrases": dict(rows_of(phrase.__doc__ or "")),
        "conditions": dict(rows_of(condition.__doc__ or "")),
        "facts": [*KINDS, *FACTS],
        "matchers": {name: _about(name) for name in matcher_names()},
        "lexicons": {name: lexicons[name]["meaning"] for name in sorted(lexicons)},
    }


def _about(name: str) -> str:
    return " ".join((inspect.getdoc(matcher(name)) or "").split())


def syntax(style: Style) -> str:
    """The same as a page of text."""
    return "\n".join(_lines(style))


def _lines(style: Style) -> Iterator[str]:
    shape = syntax_shape()
    heads = (
        ("Phrases", "phrases", ("written", "matches")),
        ("Conditions", "conditions", ("written", "holds if")),
        ("Matchers, for what takes more than words", "matchers", ("matcher", "what it looks for, and its options")),
        ("Lexicons, for phrases and conditions", "lexicons", ("lexicon", "meaning")),
    )
    for title, key, head in heads:
        yield style.strong(title)
        yield table(style, head, list(shape[key].items()))
        yield ""
    yield style.dim("`metier scan rules show LEXICON` lists the phrases of a lexicon.")
