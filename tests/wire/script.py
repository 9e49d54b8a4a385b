"""The conversation that every provider has: what is asked, what skills there are, and what the model does each time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

TASK = "Fill in the order form, then write to the customer."
CUT = "Fill in the form, and be cut off."
"""A task whose first answer breaks off in the middle of a tool call."""
GREETING = "Say hello."
ANSWER = "The form is filled in and the letter is written."
RULES = "You are the clerk of a small shop."
"""What the agent is told before any skill."""

FORMS_BODY = "Take every field from the list in references/fields.md, and leave none out."
LETTERS_BODY = "Write three sentences at most, and sign with the name of the shop."
FIELDS = "The fields are: customer, article, amount."

SKILLS = {
    "forms": {
        "SKILL.md": f"---\nname: forms\ndescription: Fills in forms.\nallowed-tools: Read\n---\n{FORMS_BODY}\n",
        "references/fields.md": f"{FIELDS}\n",
    },
    "letters": {"SKILL.md": f"---\nname: letters\ndescription: Writes letters.\n---\n{LETTERS_BODY}\n"},
    "taxes": {"SKILL.md": "---\nname: taxes\ndescription: Works out taxes.\n---\nRound to whole cents.\n"},
}

WEB = "web_lookup"
"""A tool that the agent has from elsewhere, and that `forms` does not allow."""

TURNS: Sequence[Sequence[tuple[str, dict[str, Any]]]] = [
    [("skills_load", {"skills": ["forms"]})],
    [("skills_read", {"path": "references/fields.md", "skill": "forms"}), (WEB, {"query": "what is a form"})],
    [("skills_load", {"skills": ["letters"], "mode": "replace"})],
    [("skills_unload", {"all": True})],
]
"""What the model calls at each turn, before it answers: it loads, reads and is refused, switches, and unloads."""

ACTIVE = ["", "forms", "forms", "letters", ""]
"""The skill that is active when each request is sent."""
BODIES = {"forms": FORMS_BODY, "letters": LETTERS_BODY}


def write_skills(folder: Path) -> Path:
    """The skills on disk."""
    for name, files in SKILLS.items():
        for path, text in files.items():
            file = folder / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    return folder


def fixtures(wire: str, model: str) -> list[dict[str, Any]]:
    """The script as the model of a wire reads it."""
    # Gemini ends a turn with STOP whatever is in it, and the server would say something that Google's library refuses.
    ended = {"finishReason": "stop"} if wire == "gemini" else {}
    made: list[dict[str, Any]] = []
    said = 0
    for turn in TURNS:
        made.append(_fixture(model, TASK, {"toolCalls": _calls(turn), **ended}, turnIndex=said))
        # In Responses every call is an item of its own, and counts as something that was said.
        said += len(turn) if wire == "openai-responses" else 1
    made.append(_fixture(model, TASK, {"content": ANSWER}, turnIndex=said))
    made.append(_fixture(model, GREETING, {"content": "Hello."}))
    made.append({**_fixture(model, CUT, {"toolCalls": _calls(TURNS[0]), **ended}), "truncateAfterChunks": 2})
    return made


def _fixture(model: str, message: str, response: dict[str, Any], **match: Any) -> dict[str, Any]:
    return {"match": {"model": model, "userMessage": message, **match}, "response": response}


def _calls(turn: Sequence[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    return [{"name": name, "arguments": arguments} for name, arguments in turn]
