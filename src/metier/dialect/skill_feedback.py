"""The tool by which a model says whether a skill helped."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from metier.dialect.dialects import FEEDBACK_TOOL, SkillTool, schema, text
from metier.tools import DEFAULT_TIMEOUT, ToolResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier import Session

_FEEDBACK = schema(
    ("skill", "helped"),
    skill=text("The name of the skill that you have used."),
    helped={"type": "boolean", "description": "Whether its instructions helped with the task."},
    comment=text("What was wrong, missing or good, in a sentence. Nothing of what the user said."),
)


def feedback_tool(session: Session) -> SkillTool:
    """Return the tool `skills_feedback` for a session, whose guard has the store of feedback.

    >>> from metier import Library
    >>> feedback_tool(Library.from_files().session()).name
    'skills_feedback'
    """
    about = "Say whether a skill helped, once you are done with it: its authors read that. Nothing else changes."
    return SkillTool(FEEDBACK_TOOL, about, _FEEDBACK, partial(_give, session), timeout=DEFAULT_TIMEOUT)


async def _give(session: Session, arguments: Mapping[str, Any]) -> ToolResult:
    name, comment = arguments["skill"].strip(), arguments.get("comment", "")
    give = partial(session.feedback, name, helped=arguments["helped"], comment=comment, by="model")
    feedback = await session.guard.in_thread(give)
    return ToolResult(success=True, result={"feedback": feedback.id}, data={"feedback": feedback.id})
