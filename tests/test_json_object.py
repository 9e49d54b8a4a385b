"""JSON that others wrote has a bound on its levels, whatever the parser of this Python takes."""

from __future__ import annotations

import pytest

from metier._json_object import MOST_LEVELS, parse_object
from metier.store.canonical_json import parse_strict


@pytest.mark.parametrize("levels", [MOST_LEVELS, MOST_LEVELS + 1, 60_000])
@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a":', "}")])
def test_an_object_has_at_most_so_many_levels(levels: int, begin: str, end: str) -> None:
    text = f'{{"a":{begin * (levels - 1)}1{end * (levels - 1)}}}'
    if levels > MOST_LEVELS:
        with pytest.raises(ValueError, match="it is no JSON"):
            parse_object(text.encode(), most=len(text))
        assert parse_strict(text) is None
    else:
        assert parse_object(text.encode(), most=len(text)) == parse_strict(text)


def test_many_parts_beside_each_other_are_no_levels() -> None:
    text = f'{{"a":[{"[],{}," * 1_000}1]}}'
    found = parse_object(text.encode(), most=len(text))
    assert len(found["a"]) == 2_001 and parse_strict(text) == found
