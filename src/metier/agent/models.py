"""The model that an agent runs on, what it lacks to run, and a model without a key that shows the wiring."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, TypeAlias

from metier._extras import optional
from metier.errors import ModelMissing
from metier.hints import install
from metier.session import MARKER
from metier.skill import shown

with optional("Agents", "pydantic-ai-slim", extra="agent"):
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
    from pydantic_ai.models import Model, infer_model
    from pydantic_ai.models.function import DeltaToolCall, FunctionModel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models.function import AgentInfo


VARIABLE = "METIER_MODEL"
"""The variable that names the model of agents that declare none."""
TEST = "test"
"""The name of the model that answers without one."""

PROVIDERS = ("anthropic", "google", "openai")
"""Providers of models that an extra of ours, such as `metier[agent-openai]`, brings together with agents."""

_WAYS = (
    "Say which: `--model openai:gpt-5`, or METIER_MODEL=openai:gpt-5, or `model: openai:gpt-5` in agent.yaml. "
    "`--model test` shows the wiring without a model."
)
_MAX_QUERY = 400
_MAX_SHOWN = 160

_Step: TypeAlias = "str | tuple[str, dict[str, Any]]"


def choose_model(given: Model | str | None = None, declared: str | None = None) -> Model:
    """The model to run on: the one that was given, else declared, else named by METIER_MODEL.

    >>> choose_model("test", "openai:gpt-5").model_name
    'test'
    """
    chosen = given or declared or os.environ.get(VARIABLE, "").strip()
    if not chosen:
        raise ModelMissing("No model is configured.", hint=_WAYS)
    return model_of(chosen)


def model_of(name: Model | str) -> Model:
    """The model of a name such as `openai:gpt-5`; raises `ModelMissing` with what to install or to set."""
    if isinstance(name, Model):
        return name
    if name == TEST:
        return trial_model()
    try:
        return infer_model(name)
    except ImportError as error:
        raise _missing(name, error, _installing(str(error))) from None
    except Exception as error:
        # Providers raise errors of their own where credentials are missing.
        found = re.search(r"`([A-Z][A-Z0-9_]+)`", str(error))
        hint = f"Set {found[1]}, or choose another model." if found else _WAYS
        raise _missing(name, error, hint) from None


def _installing(message: str) -> str:
    """The hint where the library of a model's provider is missing: our own extra, where there is one."""
    found = re.search(r"pydantic-ai-slim\[([a-z0-9-]+)\]", message)
    if found is None:
        return "Install what the message names."
    return install(f"metier[agent-{found[1]}]" if found[1] in PROVIDERS else found[0])


def _missing(name: str, error: Exception, hint: str) -> ModelMissing:
    # What comes after the first sentence is for programs that call pydantic-ai themselves.
    why = re.split(r"(?<=[\w)`'])\.\s| or pass it via ", str(error), maxsplit=1)[0].rstrip(".")
    return ModelMissing(f"The model {shown(name, 100)!r} cannot be used: {shown(why, 300)}.", hint=hint, model=name)


def trial_model() -> Model:
    """A model that understands nothing: it finds the best skill for a task, loads it, and says what it saw.

    The same task gives the same answer, so it shows that skills, tools and rules are wired as they should be.
    """
    return FunctionModel(_answered, stream_function=_streamed, model_name=TEST)


async def _answered(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    step = _step(messages, info)
    return ModelResponse(parts=[TextPart(step) if isinstance(step, str) else ToolCallPart(*step)])


async def _streamed(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
    step = _step(messages, info)
    if isinstance(step, str):
        for word in re.findall(r"\s*\S+", step):
            yield word
    else:
        yield {0: DeltaToolCall(name=step[0], json_args=json.dumps(step[1]))}


def _step(messages: Sequence[ModelMessage], info: AgentInfo) -> _Step:
    """The next step: search, load the first result, answer."""
    task, results = _since_asked(messages)
    tools = [tool.name for tool in info.function_tools]
    there = _skills_in(info.instructions or "") + _skills_in(task)
    if there:
        return _test_answer(tools, f"It was given {_quoted(there)}.")
    if not results:
        if "skills_search" not in tools:
            return _test_answer(tools, "There are no skills for it.")
        return "skills_search", {"query": task[:_MAX_QUERY], "k": 1}
    tool, text = results[-1]
    if tool == "skills_search":
        names = _listed_names(text)
        if names:
            return "skills_load", {"skills": names[:1]}
        return _test_answer(tools, f"It searched the skills, and none fits: {shown(text, _MAX_SHOWN)}")
    loaded = _skills_in(text)
    if not loaded:
        return _test_answer(tools, f"It loaded the skill that fits best, and was told: {shown(text, _MAX_SHOWN)}")
    begin = shown(" ".join(re.sub(r"<[^>]*>", " ", text).split()), _MAX_SHOWN)
    return _test_answer(tools, f"It loaded {_quoted(loaded)}, whose content begins: {begin}")


def _test_answer(tools: Sequence[str], seen: str) -> str:
    offered = f"It was offered {len(tools)} tools: {', '.join(tools)}." if tools else "It was offered no tools."
    return f"This is the test model, which shows the wiring and does not do the task. {seen} {offered}"


def _since_asked(messages: Sequence[ModelMessage]) -> tuple[str, list[tuple[str, str]]]:
    """The last question of the user, and the results of tools since."""
    task = ""
    results: list[tuple[str, str]] = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, UserPromptPart):
                task, results = part.content if isinstance(part.content, str) else "", []
            elif isinstance(part, ToolReturnPart):
                results.append((part.tool_name, part.model_response_str()))
    return task, results


def _skills_in(text: str) -> list[str]:
    """The skills whose content is in a text."""
    return re.findall(rf'{re.escape(MARKER)}[^>]{{0,200}}?name="([^"]{{1,200}})"', text)


def _listed_names(text: str) -> list[str]:
    try:
        return [item["name"] for item in json.loads(text)["skills"]]
    except (ValueError, TypeError, KeyError):
        return []


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in dict.fromkeys(names))
