"""Decisions that are explained: nothing happens, and nothing is recorded."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from metier._lazy import replace
from metier.dialect import CONTROL_TOOLS
from metier.guard import Subject
from metier.guard.policy_question import PolicyQuestion, answer
from metier.hub.registry.deployment import find_deployment, location_of_release
from metier.hub.skill_location import subject_in
from metier.serve.api.answers import ApiAnswer, ApiBody
from metier.serve.api.context import Context
from metier.serve.api.credentials import CallerOf, require
from metier.serve.api.problems import documented
from metier.serve.api.routing import new_router
from metier.store import TenantScope

router = new_router(prefix="/api/v1/decisions", tag="policy")
_WORKSPACE = "/workspace"
"""The folder that relative paths start from: no folder of the server."""
Short = Annotated[str, Field(max_length=300)]
Outcome = Literal["allow", "ask", "deny"]


class QuestionBody(ApiBody):
    """An action that is asked about."""

    skill: Short = Field("", description="The name of a deployed skill.")
    layer: Literal["", "enterprise", "personal", "project", "plugin"] = Field(
        "", description="The layer of a skill that is not deployed."
    )
    point: Short = Field("", description="Empty: the point that follows from the rest, such as `activate`.")
    tool: Short = Field("", description="A call of this tool, while the skill is active.")
    arguments: dict[str, Any] | None = None
    command: Annotated[str, Field(max_length=65_536)] | None = Field(
        None, description="A command for the shell, in place of a tool and its arguments."
    )
    script: Annotated[str, Field(max_length=4_096)] = ""
    source: Annotated[str, Field(max_length=4_096)] = Field("", description="An installation from there.")
    by: Literal["model", "user", "host"] = "model"
    agent: Short | None = None
    environment: Short | None = None


class OriginAnswer(ApiAnswer):
    """The line of a policy."""

    layer: str
    path: str
    line: int
    key: str


class ConsideredAnswer(ApiAnswer):
    """The decision of one check that has a say."""

    check: str
    decision: Outcome
    reason: str
    code: str
    origin: OriginAnswer | None


class ExplanationAnswer(ApiAnswer):
    """The decision about an action, with its reasons."""

    about: str
    decision: Outcome
    would: Outcome | None = Field(description="The outcome that a policy which only watches would enforce.")
    reason: str
    rule: str
    hint: str
    mode: str
    policy: str
    considered: list[ConsideredAnswer]


@router.post(
    "/explain",
    **require("viewer"),
    summary="Why something would be allowed, asked about or denied",
    responses=documented(404, 409),
)
def explain_decision(caller: CallerOf, context: Context, body: QuestionBody) -> ExplanationAnswer:
    question = PolicyQuestion(**body.model_dump(), tenant=caller.scope.tenant or None)
    if question.command is not None:
        question = replace(question, tool="", arguments=None)
    about, explanation = answer(
        context.guard(caller.scope.tenant),
        question,
        _subject(caller.scope, question) if question.skill else None,
        workspace=_WORKSPACE,
        is_control=question.tool in CONTROL_TOOLS,
    )
    return ExplanationAnswer.model_validate({"about": about, **explanation.as_dict()})


def _subject(scope: TenantScope, question: PolicyQuestion) -> Subject:
    """The deployed skill of a name; one that only its layer is given of need not be there."""
    name, _, source = question.skill.partition("@")
    if question.layer:
        return Subject(name=name, source=source, layer=question.layer)
    where = scope if scope.deployments.get(name) is not None else scope.store.of()
    deployed = find_deployment(where, name)
    home = location_of_release(deployed.namespace, deployed.name)
    return subject_in(home, where.revisions.files(deployed.digest), deployed.digest)
