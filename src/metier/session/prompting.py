"""What a session says to a model before every call, composed anew only when something changed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from metier.session.instructions import SEPARATOR, active_block, brief_rules, compose, fitting, rules

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from metier.library import Entry
    from metier.session.active import ActiveSkill
    from metier.session.state import State
    from metier.session.vocabulary import Vocabulary

_KEPT = 16


class Prompting:
    """The texts of one session. They depend on the library, the guard, what is active, and the prompt."""

    def __init__(self) -> None:
        self._texts: dict[Hashable, tuple[tuple[ActiveSkill, ...], Any]] = {}
        self._keeping = threading.Lock()

    def instructions(
        self, session: State, active: tuple[ActiveSkill, ...], prompt: str | None, words: Vocabulary
    ) -> str:
        """Rules, catalog and active skills; empty when there is nothing to say."""
        return str(
            self._kept(
                ("instructions", prompt, words, session.epoch),
                active,
                lambda: self._instructions(session, active, prompt, words),
            )
        )

    def catalog(
        self,
        session: State,
        active: tuple[ActiveSkill, ...],
        prompt: str | None,
        words: Vocabulary,
        *,
        with_active: bool = False,
        around: str = "",
        **options: Any,
    ) -> str:
        """What may be loaded; the active skills are not repeated where their instructions stand beside it.

        `with_active` names them all the same, for a text that must not change with what is active. `around` is the
        text that stands around it, which the budget counts too.
        """
        shown = active if session.options.delivery == "instructions" and not with_active else ()
        key = (
            "catalog",
            prompt,
            words,
            tuple(one.name for one in shown),
            around,
            tuple(options.items()),
            session.epoch,
        )

        def make() -> str:
            names = self.names(session, shown)
            asked = {"search_tool": words.search, "listing": session.listings, "machine": session.machine, **options}
            budget = session.options.budget - len(around.encode())
            return str(session.library.catalog(budget, query=prompt, names=names, **asked))

        return str(self._kept(key, (), make))

    def names(self, session: State, without: tuple[ActiveSkill, ...]) -> frozenset[str] | None:
        """The only names that may be shown; None when nothing restricts them."""
        is_hidden = session.hiding()
        if is_hidden is None and not without:
            return session.options.names
        left_out = frozenset(one.name for one in without)
        key = ("names", left_out, session.epoch)
        found: frozenset[str] = self._kept(key, (), lambda: _visible(session, is_hidden) - left_out)
        return found

    def _instructions(
        self, session: State, active: tuple[ActiveSkill, ...], prompt: str | None, words: Vocabulary
    ) -> str:
        how = fitting(session.options.budget, rules(words), brief_rules(words))
        catalog = self.catalog(session, active, prompt, words, around=how + SEPARATOR)
        if not catalog and not active:
            return ""
        return compose(
            how if catalog else rules(words, has_catalog=False),
            catalog,
            active_block(active, words, with_bodies=session.options.delivery == "instructions", bound=session.bound),
        )

    def _kept(self, key: Hashable, active: tuple[ActiveSkill, ...], make: Callable[[], Any]) -> Any:
        # Two threads may make the same text twice; neither gets one that was made of other skills.
        found = self._texts.get(key)
        if found is None or found[0] is not active:
            found = (active, make())
            with self._keeping:
                self._texts[key] = found
                while len(self._texts) > _KEPT:
                    del self._texts[next(iter(self._texts))]
        return found[1]


def _visible(session: State, is_hidden: Callable[[Entry], bool] | None) -> frozenset[str]:
    names = frozenset(entry.name for entry in session.library if is_hidden is None or not is_hidden(entry))
    return names if session.options.names is None else names & session.options.names
