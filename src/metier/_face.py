"""`metier.Library` and `metier.Session`: the library and its sessions, with what all the rooms offer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier.find import library as find_room
from metier.guard.machine import machine_environment
from metier.library import Caller

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self

    from metier._session import Session
    from metier.library import Place
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

    def __init__(self, places: Iterable[Place], **options: Any) -> None:
        """Make a library of places, as whoever acts in the environment of this machine sees it."""
        super().__init__(places, **options)
        self._caller = Caller(environment=machine_environment(None))

    def as_caller(self, *, agent: str | None = None, tenant: str | None = None, environment: str | None = None) -> Self:
        """The same library as somebody sees it: skills whose scope leaves them out are as good as absent.

        Raises `Refused` for another environment than the one that administrators say this machine is in.
        """
        return super().as_caller(agent=agent, tenant=tenant, environment=machine_environment(environment))

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
