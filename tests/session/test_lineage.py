"""Where an agent stands among those that started one another."""

from __future__ import annotations

import pytest

from metier.errors import ActivationFailed, InvalidArgument
from metier.session import Lineage


@pytest.mark.covers("O-78")
def test_a_child_is_one_deeper_and_knows_its_parent_and_root() -> None:
    root = Lineage()
    assert (root.depth, root.max_depth, root.parent_id, root.root_id, root.chain) == (0, 2, None, None, ())
    child = root.child("a")
    grandchild = child.child("b")
    assert (child.depth, child.parent_id, child.root_id, child.chain) == (1, root.id, root.id, ("a",))
    assert (grandchild.depth, grandchild.parent_id, grandchild.root_id) == (2, child.id, root.id)
    assert grandchild.chain == ("a", "b")
    assert len({root.id, child.id, grandchild.id}) == 3


@pytest.mark.covers("O-78")
def test_chains_of_siblings_are_independent() -> None:
    root = Lineage()
    assert (root.child("a").chain, root.child("b").chain, root.chain) == (("a",), ("b",), ())


@pytest.mark.covers("O-78")
def test_too_deep_is_refused_with_the_chain() -> None:
    with pytest.raises(ActivationFailed) as caught:
        Lineage().child("a").child("b").child("c")
    assert "Maximum sub-agent depth (2) exceeded" in str(caught.value)
    assert "a -> b" in str(caught.value)


@pytest.mark.covers("O-78")
def test_a_maximum_of_zero_forbids_all() -> None:
    with pytest.raises(ActivationFailed):
        Lineage(max_depth=0).child("a")


@pytest.mark.covers("O-78")
@pytest.mark.each("values", [{"depth": -1}, {"max_depth": -1}])
def test_negative_values_are_refused(values: dict[str, int]) -> None:
    with pytest.raises(InvalidArgument):
        Lineage(**values)  # type: ignore[arg-type]
