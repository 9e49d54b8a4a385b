"""Skills that are bound to an agent when it is made: their instructions become part of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier._lazy import logger
from metier.errors import InvalidArgument, SkillNotFound
from metier.skill.untrusted_text import escape_tags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metier.library import SkillLookup

log = logger("metier.session")


def bound_instructions(
    library: SkillLookup,
    uses_skills: Sequence[str] = (),
    *,
    agent: str = "",
    prompt: str = "",
    instructions: str = "",
    lenient: bool = False,
) -> str:
    """The instructions of an agent: its prompt file, the bodies of its skills in order, its inline instructions.

    An unknown skill is an error that names agent and skill; with `lenient` it is a warning, and is left out.

    >>> from metier import Library
    >>> library = Library.from_files({"SKILL.md": "---\\nname: greet\\ndescription: Greets.\\n---\\nSay hello."})
    >>> print(bound_instructions(library, ["greet"], prompt="Be kind.", instructions="Be brief."))
    Be kind.
    <BLANKLINE>
    Say hello.
    <BLANKLINE>
    Be brief.
    """
    if isinstance(uses_skills, str):
        raise InvalidArgument("uses_skills is a list of names.", hint=f"Write uses_skills=[{uses_skills!r}].")
    bodies = []
    for name in uses_skills:
        try:
            bodies.append(escape_tags(library.document(name).body))
        except SkillNotFound as error:
            problem = f"Agent {agent!r} uses skill {name!r}, which was not found."
            if not lenient:
                raise SkillNotFound(problem, hint=error.hint, agent=agent, name=name) from None
            log.warning("%s", problem)
    parts = (prompt, *bodies, instructions)
    return "\n\n".join(part for part in parts if part)
