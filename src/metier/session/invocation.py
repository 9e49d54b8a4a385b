"""What a person types to use a skill by name: `/deploy staging --dry-run`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from metier.errors import InvalidArgument
from metier.skill import shown

if TYPE_CHECKING:
    from metier.session.active_skills import Receipt

MAX_ARGUMENTS = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """What an invocation became: text for the conversation, and a receipt where a skill was loaded."""

    name: str
    arguments: str
    text: str
    """What to put before the model: the skill's content, or the message that the skill is."""
    is_user_message: bool = False
    """Whether the text is to be said as the user (`insert: user-message`); nothing is loaded then."""
    receipt: Receipt | None = None


def parse_invocation(text: str) -> tuple[str, str] | None:
    """The name and the arguments of `/name arguments`; None when the text is no invocation.

    >>> parse_invocation("/deploy staging now")
    ('deploy', 'staging now')
    >>> parse_invocation("What is /etc for?") is None
    True
    """
    if not isinstance(text, str) or not text.startswith("/"):
        return None
    name, _, arguments = text[1:].partition(" ") if " " in text.split("\n", 1)[0] else text[1:].partition("\n")
    name = name.strip()
    if not name or "/" in name:
        return None
    return name, arguments.strip()


def checked_arguments(arguments: object) -> str:
    """Arguments as text; raises for anything else, and for more than anybody would type."""
    if arguments is None:
        return ""
    if not isinstance(arguments, str):
        raise InvalidArgument(f"Arguments are text, not {type(arguments).__name__}.", hint="Pass them as one string.")
    if len(arguments) > MAX_ARGUMENTS:
        raise InvalidArgument(
            f"The arguments have {len(arguments):,} characters; {MAX_ARGUMENTS:,} are the most.",
            hint=f"Put them into a file and pass its path. They begin with {shown(arguments, 40)!r}.",
        )
    try:
        arguments.encode()
    except UnicodeEncodeError:
        raise InvalidArgument("The arguments have half a character in them.", hint="Send whole characters.") from None
    return arguments
