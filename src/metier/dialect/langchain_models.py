"""Which chat model of LangChain a skill gets that asks for one by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel

from metier._log import logger
from metier.skill import shown

log = logger("metier.dialect")

Models: TypeAlias = Mapping[str, BaseChatModel | str] | Callable[[str], BaseChatModel | str | None]
"""The models that skills may ask for by name (`model: opus`), or a function that knows them."""


class Switch:
    """Finds the models that skills ask for: those that the host names, or without any, those of the same provider.

    A skill never chooses another company, as that would read the whole conversation. What is not available is told
    in the log, once, and is no model.
    """

    def __init__(self, models: Models | None = None) -> None:
        self._models = models
        self._found: dict[tuple[type[Any], str], str | None] = {}
        self._told: set[str] = set()

    def find(self, name: str, own: BaseChatModel) -> BaseChatModel | None:
        """The model of that name for an agent whose own model is given; None where it has none."""
        try:
            if self._models is None:
                return self._sibling(name, own)
            known = self._models(name) if callable(self._models) else self._models.get(name)
            if known is None:
                raise LookupError("it is not among the models that the host names")
            return init_chat_model(known) if isinstance(known, str) else known
        except Exception as error:
            # Packages of providers raise errors of their own where something is missing.
            if name not in self._told:
                self._told.add(name)
                log.warning("the model %r that a skill asks for is not available: %s", shown(name, 100), error)
            return None

    def _sibling(self, name: str, own: BaseChatModel) -> BaseChatModel:
        """The agent's own model under another name: same account, same address."""
        field = next((one for one in ("model_name", "model") if one in type(own).model_fields), None)
        key = (type(own), name)
        if field is not None and key not in self._found:
            # Only to learn whose it is: its credentials and address need not be those of the agent's own.
            made = init_chat_model(name)
            self._found[key] = getattr(made, field) if type(made) is type(own) else None
        found = self._found.get(key)
        if field is None or found is None:
            raise LookupError("it is not of the agent's own provider; the host names others by `models=`")
        return own.model_copy(update={field: found})
