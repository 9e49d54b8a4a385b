"""Layers and the order in which they count."""

from __future__ import annotations

from typing import cast

import pytest

from metier import Library
from metier.errors import InvalidArgument
from metier.library import LAYERS, Layer, Place
from metier.source import MemorySource


def place(layer: Layer, body: str) -> Place:
    text = f"---\nname: deploy\ndescription: Deploys.\n---\n{body}"
    return Place(layer=layer, source=MemorySource.of({"SKILL.md": text}, name=f"{layer}-source"))


@pytest.mark.covers("O-22")
def test_the_layers_from_the_strongest_to_the_weakest() -> None:
    assert LAYERS == ("enterprise", "personal", "project", "plugin")


@pytest.mark.covers("O-22")
@pytest.mark.each("layer", ["", "Enterprise", "system", "unknown"])
def test_an_unknown_layer_is_refused_with_the_known_ones(layer: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Place(layer=cast("Layer", layer), source=MemorySource({}))
    assert "enterprise, personal, project, plugin" in caught.value.hint


@pytest.mark.each("strong", range(4))
def test_every_layer_outranks_all_below_it(strong: int) -> None:
    places = [place(layer, layer) for layer in reversed(LAYERS[strong:])]
    assert Library(places, cache=False).document("deploy").body == LAYERS[strong]


def test_the_order_below_enterprise_can_be_chosen() -> None:
    order: tuple[Layer, ...] = ("enterprise", "project", "personal", "plugin")
    places = [place("personal", "personal"), place("project", "project")]
    assert Library(places, cache=False, order=order).document("deploy").body == "project"


@pytest.mark.each(
    "order",
    [
        ("personal", "enterprise", "project", "plugin"),
        ("enterprise", "personal", "project"),
        ("enterprise", "personal", "project", "project"),
        ("enterprise", "personal", "project", "plugin", "plugin"),
        (),
    ],
)
def test_an_order_that_does_not_begin_with_enterprise_or_is_incomplete_is_refused(order: tuple[str, ...]) -> None:
    with pytest.raises(InvalidArgument, match="layer order"):
        Library([], cache=False, order=cast("tuple[Layer, ...]", order))


@pytest.mark.covers("O-24", "S-01")
def test_a_library_of_nothing_is_empty() -> None:
    library = Library([], cache=False)
    assert (len(library), library.entries(), list(library), library.findings()) == (0, (), [], ())
