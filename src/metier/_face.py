"""`metier.Library` and `metier.Session`: the library and its sessions, with what all the rooms offer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier.find import library as find_room

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier._session import Session
    from metier.session import Sessions


class Library(find_room.Library):
    """All skills that exist here: searched, shown, and loaded into sessions.

    >>> library = Library.from_files({"SKILL.md": "---\\nname: pdf-forms\\ndescription: Fill forms.\\n---\\nOpen it."})
    >>> [result.name for result in library.search("fill in a form")]
    ['pdf-forms']
    >>> session = library.session()
    >>> session.load("pdf-forms").changed
    ('pdf-forms',)
    """

    def session(self, **options: Any) -> Session:
        """A session: what one conversation has loaded. Options are those of `Session`."""
        from metier._session import Session

        return Session(self, **options)

    def sessions(self, **options: Any) -> Sessions[Session]:
        """The sessions of a program that has many conversations, each kept for as long as it is used."""
        from metier._session import Session
        from metier.session import Sessions

        return Sessions(self, Session, **options)

    def resume(self, state: Mapping[str, Any] | str | bytes, **options: Any) -> Session:
        """Go on with a session that was saved by `Session.save`."""
        from metier._session import Session

        return Session.resume(self, state, **options)
