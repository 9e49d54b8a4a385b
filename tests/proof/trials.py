"""A skill with cases of behaviour, and models of which everything is known, for tests of trials."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from metier.proof.behaviour import BehaviourSettings, run_behaviour
from metier.proof.report import CaseResult, TierResult
from metier.proof.subject import TestSubject, subject_of
from metier.proof.suite import Assertion, BehaviourCase, Environment, ModelStep, Suite, TextMatch
from metier.testing import library, skill

Act = str | tuple[str, Mapping[str, Any]]
"""A text or a call of a model."""

CHECK = "import sys\nprint('accepted', *sys.argv[1:])\n"
FORMS = skill(
    "forms",
    "Write the form to form.txt, then run scripts/check.py.",
    description="Fills in forms.",
    files={"scripts/check.py": CHECK, "references/fields.md": "customer, article\n"},
)
LOAD = ("skills_load", {"skills": ["forms"]})
WRITE = ("Write", {"file_path": "form.txt", "content": "customer: Ada\n"})
RUN = ("skills_run", {"script": "scripts/check.py", "args": ["Ada"]})
WRITTEN = Assertion(kind="file", target="form.txt", match=TextMatch(contains=("Ada",)))
READ = Assertion(kind="skill-read")

FILL = BehaviourCase(
    id="fill",
    prompt="Fill in the form for Ada.",
    environment=Environment(files={"order.txt": b"Ada\n"}),
    assertions=(WRITTEN, READ),
    steps=(ModelStep(calls=(LOAD,)), ModelStep(calls=(WRITE, RUN)), ModelStep(say="It is filled in.")),
    steps_without=(ModelStep(say="I have no form."),),
)


@contextmanager
def subject(
    *cases: BehaviourCase, files: Mapping[str, str | bytes] = FORMS, into: Path | None = None
) -> Iterator[TestSubject]:
    """The skill under test, with these cases."""
    (entry,) = library(files, into=into)
    with subject_of(entry, Suite(behaviour=cases)) as found:
        yield found


def behaviour_of(
    *cases: BehaviourCase, files: Mapping[str, str | bytes] = FORMS, into: Path | None = None, **settings: Any
) -> TierResult:
    """The tier of the skill with these cases."""
    with subject(*cases, files=files, into=into) as found:
        return run_behaviour(found, BehaviourSettings(**settings))


def case_of(result: TierResult, id_: str = "fill") -> CaseResult:
    """The result of one case, with any executor."""
    return next(case for case in result.cases if case.id.partition(" [")[0] == id_)


def lift_of(result: TierResult, over: str = "no skill") -> CaseResult:
    """The lift over an arm."""
    return next(case for case in result.cases if case.id.startswith(f"lift over {over}"))


def model_of(
    act: Callable[[str, bool, int], Sequence[Act]],
    *,
    name: str = "fake",
    usage: RequestUsage | None = None,
) -> FunctionModel:
    """A model that decides by the prompt, whether it has the skill, and how often it was answered by a tool."""

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        parts = [part for message in messages for part in message.parts]
        prompt = next(str(part.content) for part in parts if isinstance(part, UserPromptPart))
        turn = sum(isinstance(message, ModelResponse) for message in messages)
        steps = act(prompt, "Fills in forms." in (info.instructions or ""), turn)
        made = [TextPart(one) if isinstance(one, str) else ToolCallPart(one[0], dict(one[1])) for one in steps]
        response = ModelResponse(parts=made)
        if usage is not None:
            response.usage = usage
        return response

    return FunctionModel(answer, model_name=name)


def does_as_told(prompt: str, has_skill: bool, turn: int) -> Sequence[Act]:
    """Fill in the form with the skill, and nothing without it."""
    with_skill: Sequence[Sequence[Act]] = ([LOAD], [WRITE, RUN], ["It is filled in."])
    return with_skill[turn] if has_skill else ["I have no form."]
