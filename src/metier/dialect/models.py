"""Models for skills that ask for one by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

from metier._lazy import logger
from metier.skill import shown

log = logger("metier.dialect")

Model = TypeVar("Model")

Named: TypeAlias = Mapping[str, Model | str] | Callable[[str], Model | str | None]
"""The models that skills may ask for by name (`model: opus`), or a function that knows them."""


class Switch(Generic[Model]):
    """Finds the models that skills ask for: those that the host names, or without any, those of the same provider.

    A skill never chooses another company, as that would read the whole conversation. What is not available is told
    in the log, once, and is no model.

    >>> Switch({"opus": "claude-opus-5"}).find("opus")
    'claude-opus-5'
    """

    def __init__(
        self,
        models: Named[Model] | None = None,
        *,
        make: Callable[[str], Model] | None = None,
        sibling: Callable[[str, Model], Model] | None = None,
    ) -> None:
        """`make` makes a model of what the host names by text; `sibling` finds another of the provider of one."""
        self._models = models
        self._make = make
        self._sibling = sibling
        self._made: dict[str, Any] = {}
        self._siblings: dict[str, tuple[Any, Any]] = {}
        self._told: set[str] = set()

    def find(self, name: str | None, own: Any = None) -> Any | None:
        """The model of that name for an agent whose own model is given; None where it has none, or none is named."""
        if not name:
            return None
        try:
            return self._resolve(name, own)
        except Exception as error:
            # Providers raise errors of their own where something is missing.
            if name not in self._told:
                self._told.add(name)
                log.warning("the model %r that a skill asks for is not available: %s", shown(name, 100), error)
            return None

    def _resolve(self, name: str, own: Any) -> Any:
        # What is made is kept: each model has connections of its own.
        if self._models is None and self._sibling is not None:
            before, found = self._siblings.get(name, (None, None))
            if found is None or before is not own:
                found = self._sibling(name, own)
                self._siblings[name] = (own, found)
            return found
        models = self._models or {}
        known = models(name) if callable(models) else models.get(name)
        if known is None:
            raise LookupError("it is not among the models that the host names")
        if self._make is None or not isinstance(known, str):
            return known
        if known not in self._made:
            self._made[known] = self._make(known)
        return self._made[known]
