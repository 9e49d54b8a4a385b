"""What a session says to a model before every call, composed anew only when something changed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from metier.session.instructions import active_block, compose, rules

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
        **options: Any,
    ) -> str:
        """What may be loaded; the active skills are not repeated where their instructions stand beside it.

        `with_active` names them all the same, for a text that must not change with what is active.
        """
        shown = active if session.options.delivery == "instructions" and not with_active else ()
        key = ("catalog", prompt, words, tuple(one.name for one in shown), tuple(options.items()), session.epoch)

        def make() -> str:
            names = self.names(session, shown)
            asked: dict[str, Any] = {"budget": session.options.budget, "pins": session.options.pins}
            asked |= {"search_tool": words.search, "bare": _bare(session), **options}
            catalog = session.library.catalog(query=prompt, names=names, **asked)
            return str(catalog)

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
        catalog = self.catalog(session, active, prompt, words)
        if not catalog and not active:
            return ""
        return compose(
            rules(words, has_catalog=bool(catalog)),
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


def _bare(session: State) -> frozenset[str]:
    """The skills that policy shows by their name alone."""
    naming_only = session.guard.governance.naming_only()
    if naming_only is None:
        return frozenset()
    return frozenset(entry.name for entry in session.library if naming_only(entry.name, entry.source))
