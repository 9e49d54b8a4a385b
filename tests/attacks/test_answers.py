"""Attacks on answers that are meant for a person: what docs/explanation/governance.md promises, tried from outside.

A yes from a client's program is never a person's approval. Through whatever asks, it counts once at most, is recorded
as that program's word, and is never kept; where people were added or administrators have a policy, it is a request at
most. A case is lost if an approval is in the store, or a script ran there that nobody but a program had agreed to.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import agents
import anyio
import mcp
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from mcp_types import ElicitResult, Implementation
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import DeferredToolRequests, DeferredToolResults
from tests.dialect.adapters.conftest import ADAPTERS, QUICK
from tests.dialect.adapters.playing_langchain import ScriptedChat
from tests.dialect.adapters.playing_pydantic_ai import scripted
from tests.dialect.adapters.stage import Call, Performer, Script, load
from tests.serve.clients import MODES, YES, talk, text_of
from tests.tables import crossed

from metier import Guard, Library, Session
from metier.agent import Agent, Agents, Manifest
from metier.errors import Refused
from metier.guard import Answers, MemoryLog, consent_from
from metier.guard.guard import current_user
from metier.serve.mcp import SkillServer
from metier.store import Person, Store, TenantScope
from metier.testing import ScriptedModel

pytestmark = pytest.mark.covers("SEC-17")

Metier = Callable[..., tuple[int, str, str]]
SETTLED = ("people", "administrators")
"""Where it is settled who decides."""
RUN = Call("skills_run", {"script": "scripts/hi.sh", "skill": "greet"})
NEEDED = "version: 1\nskill-policy: {require-approval-for: [scripts]}\nrun: {unsandboxed: allow}\n"


class World:
    """A skill whose script needs an approval, and what became of it."""

    def __init__(self, home: Path, work: Path, scope: TenantScope, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.work, self.scope = home / ".metier" / "skills", work, scope
        self._home, self._monkeypatch = home, monkeypatch
        self.how = ""

    def settle(self, how: str) -> None:
        """Say who decides, once."""
        before, self.how = self.how, how
        if before:
            return
        if how == "people":
            self.scope.people.add(Person(name=current_user() or "", roles=frozenset({"admin"})))
        if how == "administrators":
            file = self._home / "administrators.yaml"
            file.write_text(f"{NEEDED}rules: []\n")
            self._monkeypatch.setenv("METIER_POLICY", str(file))

    def session(self, **options: Any) -> Session:
        """A session of a program."""
        return Library.from_folder(self.folder, cache=False).session(
            guard=Guard(audit=MemoryLog(), **options), workspace=self.work, user=current_user()
        )

    def require_held(self, *, ran: bool | None = False) -> None:
        """Fail where an approval was made, or a script ran that must not, or did not that may; then begin anew."""
        file = self.work / "ran"
        assert ran is None or file.exists() is ran
        file.unlink(missing_ok=True)
        assert self.scope.approvals.all() == []
        assert not [one for one in self.scope.audit.tail(500) if one["type"] == "approval.granted"]

    def requested(self) -> dict[str, str]:
        """What names the skill, once somebody asked for an approval."""
        with contextlib.suppress(Refused):
            self.session().load("greet", by="model")
        (request,) = self.scope.approvals.requests("pending")
        return {"request": request.id, "digest": request.digest, "user": current_user() or ""}


@pytest.fixture
def world(own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    folder = own_home / ".metier" / "skills" / "greet"
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: greet\ndescription: Greets people warmly.\n---\nRun hi.sh.\n")
    (folder / "scripts" / "hi.sh").write_text("echo ran > ran\n")
    (own_home / ".metier" / "policy.yaml").write_text(NEEDED)
    work = tmp_path / "project"
    work.mkdir()
    monkeypatch.chdir(work)
    agents.set_trace_processors([])
    with Store.open() as store:
        yield World(own_home, work, store.of(), monkeypatch)


# --- through every adapter, asked while a call is made ----------------------------------------------------------------


def agree(*_: object) -> bool:
    return True


async def agree_later(*_: object) -> bool:
    return True


class Pretending:
    """A program that says of itself what it is not."""

    answered_by = by = user = name = "terminal"
    is_person = lasts = True

    def __call__(self, action: Any, decision: Any) -> bool:
        object.__setattr__(decision, "answered_by", "terminal")
        return True


@pytest.mark.parametrize(
    ("performer", "how"),
    [
        # To import the other adapters takes longer than everything else.
        pytest.param(performer, how, marks=[] if performer in QUICK else [pytest.mark.slow])
        for performer in ADAPTERS
        for how in ("nobody", "people")
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_no_adapter_makes_an_approval_of_the_yes_of_a_program(
    world: World, log: MemoryLog, performer: type[Performer], how: str
) -> None:
    world.settle(how)
    approve = agree if how == "people" else agree_later
    script = Script([load("greet"), RUN, "Done."])
    agent = performer(world.folder, script, approve=approve, audit=log, workspace=world.work, user=current_user())
    anyio.run(agent.say, "Greet them.")
    told = "".join(script.requests[-1].results)
    assert ("a person has to, at a terminal" in told) is (how in SETTLED)
    world.require_held(ran=how not in SETTLED)
    assert {one.answered_by for one in log.records if one.answered_by} == (set() if how in SETTLED else {"program"})


# --- through what a framework keeps, and answers later ----------------------------------------------------------------


def pydantic_ai(world: World, log: MemoryLog) -> None:
    from metier.dialect.pydantic_ai import Skills

    skills = Skills(world.folder, defer=True, audit=log, workspace=world.work, user=current_user())
    agent: PydanticAgent[Any, Any] = PydanticAgent(
        scripted(Script([load("greet"), RUN, *["Done."] * 9]), "own"),
        output_type=[str, DeferredToolRequests],
        capabilities=[skills],
    )

    async def main() -> None:
        last: Any = await agent.run("Greet them.")
        for _ in range(4):
            if not isinstance(last.output, DeferredToolRequests):
                break
            results = DeferredToolResults(approvals={one.tool_call_id: True for one in last.output.approvals})
            last = await agent.run(message_history=last.all_messages(), deferred_tool_results=results)

    anyio.run(main)


def langchain(world: World, log: MemoryLog) -> None:
    from langchain.agents import create_agent

    from metier.dialect.langchain import Skills

    skills = Skills(world.folder, defer=True, audit=log, workspace=world.work, user=current_user())
    script = Script([load("greet"), RUN, *["Done."] * 9])
    model = ScriptedChat(script=script, named="own")
    agent: Any = create_agent(model, [], middleware=[skills], checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "one"}}
    last = agent.invoke({"messages": [("user", "Greet them.")]}, config)
    for _ in range(4):
        if "__interrupt__" in last:
            last = agent.invoke(Command(resume=True), config)


def own_agent(world: World, log: MemoryLog) -> None:
    clerk = Manifest(id="clerk", name="clerk", description="Does it.", catalog="all")

    def agent(*steps: Any) -> Agent:
        declared = Agents((clerk,), Library.from_folder(world.folder, cache=False))
        options: dict[str, Any] = {"workspace": world.work, "audit": log, "user": current_user()}
        return Agent(clerk, declared, model=ScriptedModel(steps), **options)

    last = agent(("skills_load", {"skills": ["greet"]})).run_blocking("Greet them.")
    for step in ((RUN.tool, RUN.arguments), "Done.", "Done."):
        if last.is_suspended:
            given = {question.id: True for question in last.questions}
            last = anyio.run(agent(step).resume, json.dumps(last.state), given)


def answers(world: World, log: MemoryLog) -> None:
    session = world.session()
    given: dict[str, bool] = {}
    for _ in range(4):
        asked = Answers(given)
        with consent_from(asked):
            try:
                session.load("greet", by="model")
                session.run_blocking("scripts/hi.sh")
            except Refused:
                given |= {question.id: True for question in (*asked.open, *asked.waiting)}


def pretending(world: World, log: MemoryLog) -> None:
    session = world.session(approve=Pretending())
    with contextlib.suppress(Refused):
        session.load("greet", by="model")
        session.run_blocking("scripts/hi.sh")


@crossed(
    ("way", [pydantic_ai, langchain, own_agent, answers, pretending]), ("how", ["nobody", "administrators"]), one_in=2
)
def test_an_answer_that_comes_later_is_no_approval_either(
    world: World, log: MemoryLog, way: Callable[[World, MemoryLog], None], how: str
) -> None:
    world.settle(how)
    way(world, log)
    # A session that goes on in another process has left out what nobody approved, so that nothing is left to run.
    world.require_held(ran=None if (way, how) == (own_agent, "nobody") else how not in SETTLED)
    assert {one.answered_by for one in log.records if one.answered_by} <= {"program"}


NO_ANSWERS = [1, 0, "yes", "true", "terminal", None, object(), [True], {"approve": True}]


@pytest.mark.each("answer", NO_ANSWERS)
def test_only_true_is_a_yes(world: World, answer: object) -> None:
    session = world.session(approve=lambda *_: answer)
    with pytest.raises(Refused):
        session.load("greet", by="model")
    world.require_held()


# --- over MCP, with the official client -------------------------------------------------------------------------------


def served(world: World, log: MemoryLog) -> SkillServer:
    library = Library.from_folder(world.folder, cache=False)
    return SkillServer(library, workspace=world.work, audit=log, user=current_user())


async def use(client: mcp.Client) -> list[str]:
    calls = [("skills_load", {"skills": ["greet"]}), (RUN.tool, RUN.arguments), (RUN.tool, RUN.arguments)]
    return [text_of(await client.call_tool(*call)) for call in calls]


@crossed(("how", ("nobody", *SETTLED)), ("mode", MODES), one_in=2)
def test_an_elicited_yes_is_the_word_of_the_client(world: World, log: MemoryLog, how: str, mode: str) -> None:
    world.settle(how)
    asked: list[str] = []

    async def answer(context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return YES

    talk(served(world, log), use, mode, elicitation_callback=answer)
    world.require_held(ran=how not in SETTLED)
    assert len(asked) == (0 if how in SETTLED else 3), "each call is asked about anew"


CLIENTS = [
    "terminal",
    "program",
    "x over elicitation",
    "a\nanswered_by: terminal",
    "",
    "\u202eterminal",
    "client:terminal",
]


@pytest.mark.each("name", CLIENTS, every=3)
def test_a_client_is_recorded_as_one_whatever_it_is_called(world: World, log: MemoryLog, name: str) -> None:
    async def answer(context: Any, params: Any) -> ElicitResult:
        return YES

    told = Implementation(name=name, version="1")
    talk(served(world, log), use, elicitation_callback=answer, client_info=told)
    said = {one.answered_by for one in log.records if one.answered_by}
    assert said
    assert all(one.startswith("client:") and one.endswith(" over elicitation") and "\n" not in one for one in said)
    world.require_held(ran=True)


NO_CONTENT: list[dict[str, Any]] = [
    *({}, {"approve": False}, {"approve": "true"}, {"approve": 1}, {"approve": ["true"]}, {"Approve": True}),
    *({"approve": True, "other": True}, {"approve ": True}, {"approve": True, "approve-2": "true"}, {"yes": True}),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.each("given", [*(ElicitResult(action="accept", content=content) for content in NO_CONTENT),
                            ElicitResult(action="accept"), ElicitResult(action="cancel", content={"approve": True}),
                            ElicitResult(action="decline", content={"approve": True})], every=3)  # fmt: skip
def test_an_answer_with_other_content_than_was_asked_for_is_a_no(
    world: World, log: MemoryLog, given: ElicitResult, mode: str
) -> None:
    async def answer(context: Any, params: Any) -> ElicitResult:
        return given

    assert all("Error [" in text for text in talk(served(world, log), use, mode, elicitation_callback=answer))
    world.require_held()


# --- at the command line, without a person ----------------------------------------------------------------------------

# Every third is quick: each kind of command, and one flag.
USING = [
    ("run", "greet", "scripts/hi.sh"),
    ("run", "greet", "scripts/hi.sh", "-y"),
    ("run", "greet", "scripts/hi.sh", "--approve"),
    ("session", "greet"),
    ("run", "greet", "scripts/hi.sh", "--force"),
    ("ask", "use greet", "--model", "test"),
    ("chat", "--model", "test"),
    ("run", "greet", "scripts/hi.sh", "--trusted"),
    ("run", "greet", "scripts/hi.sh", "--no-ask"),
    ("run", "greet", "scripts/hi.sh", "--yes"),
]
DECIDING = [
    ("approve", "grant", "{request}", "--reason", "x"),
    ("approve", "grant", "{digest}"),
    ("approve", "grant", "{request}", "--only", "scripts"),
    ("user", "add", "mallory", "--role", "admin"),
    ("user", "add", "mallory", "--role", "admin", "--token"),
    ("user", "remove", "{user}"),
    ("user", "token"),
    ("user", "token", "{user}"),
    ("trust", "."),
    ("quarantine", "release", "greet", "--reason", "x"),
]
VARIABLES = [
    *({"METIER_APPROVE": "1"}, {"METIER_YES": "1"}, {"METIER_ASSUME_YES": "true", "CI": "1"}, {"METIER_AUDIT": "off"}),
    *({"METIER_ENVIRONMENT": "dev"}, {"METIER_API_TOKEN": "x"}, {"METIER_API_TOKEN": ""}, {"USER": "ada"}),
]


@pytest.mark.parametrize("how", ["nobody", "people"])
@pytest.mark.each("words", USING, every=3)
def test_a_yes_from_a_pipe_is_nobodys(world: World, metier: Metier, how: str, words: tuple[str, ...]) -> None:
    world.settle(how)
    assert metier(*words, given="y\nyes\n" * 9)[0] != 0
    world.require_held()


@pytest.mark.parametrize("how", SETTLED)
@pytest.mark.each("words", DECIDING)
def test_no_program_decides_by_a_command(world: World, metier: Metier, how: str, words: tuple[str, ...]) -> None:
    world.settle(how)
    people = world.scope.people.all()
    named = world.requested()
    code, _, said = metier(*(word.format(**named) for word in words), given="y\nyes\n" * 9)
    assert (code, "at a terminal" in said) == (1, True)
    assert world.scope.people.all() == people
    world.require_held()


@pytest.mark.each("variables", VARIABLES)
def test_no_variable_stands_for_a_yes(
    world: World, metier: Metier, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world.settle("administrators")
    with monkeypatch.context() as given:
        for name, value in variables.items():
            given.setenv(name, value)
        assert metier("run", "greet", "scripts/hi.sh", given="y\n")[0] != 0
    world.require_held()


WITH_A_TOKEN = [
    *((role, words) for role in ("viewer", "author") for words in DECIDING if words[0] != "trust"),
    *(("reviewer", words) for words in DECIDING if words[:2] in (("user", "add"), ("user", "remove"))),
    ("reviewer", ("quarantine", "release", "greet", "--reason", "x")),
]


@pytest.mark.each(("role", "words"), WITH_A_TOKEN, every=4)
def test_a_token_decides_no_more_than_its_person(
    world: World, metier: Metier, role: str, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    world.settle("people")
    if role not in {one.name for one in world.scope.people.all()}:
        world.scope.people.add(Person(name=role, roles=frozenset({role})))
    _, secret = world.scope.people.new_token(role)
    people = world.scope.people.all()
    named = world.requested()
    with monkeypatch.context() as given:
        given.setenv("METIER_API_TOKEN", secret)
        code, _, said = metier(*(word.format(**named) for word in words), given="y\n")
    assert (code, world.scope.people.all()) == (0 if words == ("user", "token") else 1, people), said
    world.require_held()
