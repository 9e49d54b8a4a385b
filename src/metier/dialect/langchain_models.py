"""Chat models of LangChain for skills that ask for one by name."""

from __future__ import annotations

from typing import Any, TypeAlias

from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel

from metier.dialect import models as named

Models: TypeAlias = named.Named[BaseChatModel]
"""The models that skills may ask for by name (`model: opus`), or a function that knows them."""


class LangChainModelSwitch(named.Switch[BaseChatModel]):
    """Finds the models that skills ask for: those that the host names, or without any, those of the same provider."""

    def __init__(self, models: Models | None = None) -> None:
        super().__init__(models, make=lambda name: init_chat_model(name), sibling=self._renamed)
        self._known: dict[tuple[type[Any], str], str | None] = {}

    def _renamed(self, name: str, own: BaseChatModel) -> BaseChatModel:
        """The agent's own model under another name: same account, same address."""
        field = next((one for one in ("model_name", "model") if one in type(own).model_fields), None)
        key = (type(own), name)
        if field is not None and key not in self._known:
            # Only to learn whose it is: its credentials and address need not be those of the agent's own.
            made = init_chat_model(name)
            self._known[key] = getattr(made, field) if type(made) is type(own) else None
        known = self._known.get(key)
        if field is None or known is None:
            raise LookupError("it is not of the agent's own provider; the host names others by `models=`")
        return own.model_copy(update={field: known})
