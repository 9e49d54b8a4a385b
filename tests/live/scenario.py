"""What real models are asked to do with skills, and what is counted of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import anyio
from pydantic_ai import Agent
from pydantic_ai.exceptions import AgentRunError
from pydantic_ai.models import Model
from pydantic_ai.usage import UsageLimits

from metier.dialect.pydantic_ai import Skills
from metier.guard import AuditRecord, MemoryLog, Policy
from metier.proof.model_table import ModelRow
from metier.run import PlainRunner
from metier.testing import library, skill

TARGET = 0.05
"""The share of paths that a model may get wrong."""
AT_ONCE = 4
MAX_REQUESTS = 20
PATH_ERRORS = frozenset({"file-missing", "file-refused"})

CHECK = """\
import sys
fields = dict(argument.split("=", 1) for argument in sys.argv[1:])
missing = {"customer", "article", "amount", "country"} - set(fields)
if missing:
    sys.exit("missing: " + ", ".join(sorted(missing)))
print("accepted as", "-".join((fields["country"], fields["article"], fields["amount"])))
"""

FORMS = skill(
    "order-forms",
    "Fill in an order form:\n\n"
    "1. Read [the fields](references/fields.md); it points to other files that you need.\n"
    "2. Check the form with `scripts/check.py`, one argument `name=value` for each field.\n"
    "3. Answer with the line that the script prints, and nothing else.\n",
    description="Fills in and checks the order forms of the shop. Use it for every order.",
    allowed_tools="Read",
    files={
        "references/fields.md": "Fields: customer, article, amount, country.\n\n"
        "The country is a code of [this list](codes/countries.md).\n"
        "Articles are numbered as in [the catalogue](../assets/articles.csv).\n",
        "references/codes/countries.md": "- AT: Austria\n- FR: France\n- PT: Portugal\n",
        "assets/articles.csv": "name,number\nteapot,417\nlantern,523\nladder,688\n",
        "scripts/check.py": CHECK,
    },
)
LETTERS = skill("letters", "Write three sentences at most.", description="Writes letters to customers.")
TAXES = skill("taxes", "Round to whole cents.", description="Works out taxes.")

COUNTRIES = {"Austria": "AT", "France": "FR", "Portugal": "PT"}
ARTICLES = {"teapot": "417", "lantern": "523", "ladder": "688"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One order, and what the script says of it when the form is right."""

    text: str
    expected: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one model did with all tasks."""

    model: str
    tasks: int
    done: int
    """Tasks whose answer is right."""
    loaded: int
    """Tasks for which the skill was loaded."""
    paths: int
    """Files that it asked to read and scripts that it asked to run."""
    path_errors: int
    """Those that are not where it said."""
    script_reads: int
    """Times it wanted to read a script instead of running it."""
    refused: int
    """Calls of a tool that the skill does not allow."""
    tokens: int
    """Tokens of all tasks that came to an end."""
    failures: tuple[str, ...]
    """What ended a task before its end."""

    @property
    def share(self) -> float:
        """The share of paths that were wrong."""
        return self.path_errors / self.paths if self.paths else 0.0

    @property
    def row(self) -> ModelRow:
        """The row of the model in the table of all models."""
        return ModelRow(
            model=self.model,
            trials=self.tasks,
            passed=self.done,
            paths=self.paths,
            path_errors=self.path_errors,
            script_reads=self.script_reads,
            violations=self.refused,
            tokens=self.tokens / self.tasks,
            cost=None,
        )

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON holds it."""
        return {**asdict(self), "share": round(self.share, 4), "target": TARGET}


def tasks(count: int) -> list[Task]:
    """So many orders, each another one for as long as that goes."""
    made = []
    for number in range(count):
        country, code = list(COUNTRIES.items())[number % len(COUNTRIES)]
        article, key = list(ARTICLES.items())[number // len(COUNTRIES) % len(ARTICLES)]
        amount = number + 2
        text = f"Fill in the order form: {amount} times the {article}, for Maria Costa in {country}."
        made.append(Task(text=text, expected=f"accepted as {code}-{key}-{amount}"))
    return made


async def measure(model: Model, asked: Iterable[Task], folder: Path) -> Measured:
    """Have a model do tasks, each in a conversation of its own."""
    todo = list(asked)
    skills = library(FORMS, LETTERS, TAXES, into=folder / "skills")
    limiter = anyio.CapacityLimiter(AT_ONCE)
    answers: dict[int, str] = {}
    tokens: dict[int, int] = {}
    failures: dict[int, str] = {}
    logs = [MemoryLog() for _ in todo]

    async def do(number: int, task: Task) -> None:
        workspace = folder / f"work-{number}"
        workspace.mkdir()
        capability = Skills(
            skills,
            audit=logs[number],
            policy=Policy(unsandboxed="allow"),
            runner=PlainRunner(),
            workspace=workspace,
        )
        agent = Agent(model, capabilities=[capability], tools=[web_lookup])
        async with limiter:
            try:
                run = await agent.run(task.text, usage_limits=UsageLimits(request_limit=MAX_REQUESTS))
                answers[number] = run.output
                tokens[number] = run.usage.total_tokens
            except AgentRunError as error:
                failures[number] = f"{type(error).__name__}: {error}"

    async with anyio.create_task_group() as group:
        for number, task in enumerate(todo):
            group.start_soon(do, number, task)
    return Measured(
        model=model.model_name,
        tasks=len(todo),
        done=sum(task.expected in answers.get(number, "") for number, task in enumerate(todo)),
        loaded=sum(any(_is_load(record) for record in log.records) for log in logs),
        paths=_count(logs, lambda record: record.event in ("read", "run")),
        path_errors=_count(logs, lambda record: record.event in ("read", "run") and record.code in PATH_ERRORS),
        script_reads=_count(logs, lambda record: record.event == "read" and record.code == "script-read"),
        refused=_count(logs, lambda record: record.event == "call" and record.code == "tool-not-allowed"),
        tokens=sum(tokens.values()),
        failures=tuple(failures[number] for number in sorted(failures)),
    )


def web_lookup(query: str) -> str:
    """Look something up on the web.

    Args:
        query: What to look up.
    """
    return f"Nothing was found for {query!r}."


def _is_load(record: AuditRecord) -> bool:
    return record.event == "load" and record.skill == "order-forms" and record.decision == "allow"


def _count(logs: Iterable[MemoryLog], fits: Any) -> int:
    return sum(bool(fits(record)) for log in logs for record in log.records)
