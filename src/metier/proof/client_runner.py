"""Trials in real client programs, headless, each in a home folder of its own that is removed afterwards.

The boundary: a client gets nothing of its user but the variables of its row in `CLIENT_PROGRAMS`. Its tool calls are
decided by our guard, through hooks that fail closed, and the trace is what the guard recorded in a store of that home.
A hook is no sandbox: scripts of skills run in ours, and other commands as the client runs them.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from metier._aliases import TOOLS
from metier._json_object import object_of
from metier._lazy import replace
from metier._paths import safe_rmtree
from metier.errors import BudgetExceeded, IntegrityFailed, MetierError
from metier.guard.tool_rules.arguments import COMMAND_ARGUMENTS, PATH_ARGUMENTS
from metier.library.clients import CLIENTS
from metier.proof.client_home import make_home
from metier.proof.clients import client_command, client_program
from metier.proof.trace import has_whole_arguments, loaded_digest
from metier.proof.trial import TracedCall, Transcript
from metier.proof.workspace_files import read_workspace
from metier.run import PlainRunner
from metier.skill import shown
from metier.skill.tool_rules import canonical_tool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from metier.guard import AuditRecord
    from metier.proof.client_home import ClientHome
    from metier.proof.clients import ClientOutput
    from metier.proof.suite import BehaviourCase
    from metier.proof.trial import Arm, Trial
    from metier.run import Outcome

_TITLES = {name.lower(): name for name in TOOLS.values()}


class ClientRunner:
    """Trials in a client program, such as `claude-code`; with `model`, in one that is told which model to use."""

    def __init__(self, client: str, *, model: str = "") -> None:
        self.client = client
        self.model = model
        self._program = client_program(client)
        self._title = CLIENTS[client].title

    @property
    def name(self) -> str:
        """The name of the client, and of the model that it is told to use."""
        return f"{self.client}:{self.model}" if self.model else self.client

    def refusal(self, case: BehaviourCase, arm: Arm, number: int) -> str:
        """The reason why it cannot run a trial: it is not there, has no key, or cannot give a case what that needs."""
        if sys.platform == "win32":
            return f"{self._title} runs trials on Linux and macOS."
        try:
            client_command(self.client)
        except MetierError as error:
            return f"{error.message} {error.hint}"
        if not any(os.environ.get(key) for key in self._program.keys):
            return f"{self._title} has no key: set {' or '.join(self._program.keys)}."
        environment = case.environment
        needs = {
            "a clock": environment.now,
            "variables for scripts": environment.env,
            "mocks of its own tools": [one for one in environment.mocks if not one.tool.startswith("mcp__")],
        }
        unfit = next((need for need, is_needed in needs.items() if is_needed), "")
        return f"{self._title} cannot be given {unfit}: use a model through our own agent." if unfit else ""

    async def run(self, trial: Trial) -> Transcript:
        """Run a trial to its end or its limits."""
        from anyio.to_thread import run_sync

        begin = time.monotonic()
        before = await run_sync(read_workspace, trial.workspace)
        folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="metier-client-")))
        try:
            found = await self._run_in(folder, trial)
        except BudgetExceeded as error:
            found = Transcript(error=f"budget: {error.message}")
        except IntegrityFailed as error:
            found = Transcript(error=f"integrity: {error.message}")
        except (MetierError, OSError) as error:
            found = Transcript(error=f"model: {self._title}: {shown(str(error), 500)}")
        finally:
            await run_sync(safe_rmtree, os.fspath(folder))
        after = await run_sync(read_workspace, trial.workspace)
        return replace(
            found,
            before=before.files,
            after=after.files,
            left_out=after.left_out,
            model=found.model or self.model,
            seconds=time.monotonic() - begin,
        )

    async def _run_in(self, folder: Path, trial: Trial) -> Transcript:
        from anyio.to_thread import run_sync

        options = self._program.options
        worst = trial.max_cost
        if worst is None and trial.budget.money is not None:
            worst = trial.budget.money_left
        # A client that knows no limit of money has no worst case, and is refused where money is limited.
        async with trial.budget.hold(worst if "cost" in options else None) as hold:
            values = {"turns": str(trial.case.max_turns), "model": self.model}
            values["cost"] = "" if worst is None else f"{worst:.6f}"
            home = await run_sync(make_home, self.client, folder, trial, values)
            more = [word for name, words in options.items() if home.values.get(name) for word in words]
            command = [*client_command(self.client), *self._program.arguments]
            command += [word.format_map(home.values) for word in more]
            outcome = await PlainRunner().run(home.job(command, trial.case.prompt.encode(), trial.max_seconds))
            output = self._program.read(_events_in(outcome.stdout))
            hold.cost = output.cost
        return await run_sync(self._transcript, trial, home, outcome, output)

    def _transcript(self, trial: Trial, home: ClientHome, outcome: Outcome, output: ClientOutput) -> Transcript:
        records = home.records()
        calls = tuple(_traced_call(record) for record in records if record.event in ("call", "load", "run"))
        paths = list(_skill_paths(calls, home))
        digest = "" if trial.folder is None else loaded_digest(records, trial.skill)
        return Transcript(
            answer=output.answer,
            exit_code=outcome.exit_code,
            stderr=outcome.stderr,
            calls=calls,
            skill_read=bool(digest),
            digest=digest,
            model=output.model,
            input_tokens=output.input_tokens,
            output_tokens=output.output_tokens,
            cost=output.cost,
            turns=output.turns,
            paths=len(paths),
            path_errors=sum(not (home.skills / path).exists() for _, path in paths),
            script_reads=sum(tool == "Read" and path.split("/")[1] == "scripts" for tool, path in paths),
            violations=sum(call.outcome == "refused" for call in calls),
            error=self._error_of(outcome, output, has_calls=bool(calls)),
        )

    def _error_of(self, outcome: Outcome, output: ClientOutput, *, has_calls: bool) -> str:
        if outcome.timed_out:
            return f"timeout: {self._title} came to no end in {outcome.duration_ms / 1000:.0f} seconds."
        if output.error:
            return shown(output.error, 500)
        if outcome.is_truncated:
            return f"model: {self._title} printed too much."
        if outcome.exit_code:
            last = (outcome.stderr.strip().splitlines() or ["it said no more"])[-1]
            return f"model: {self._title} ended with exit code {outcome.exit_code}: {shown(last, 300)}"
        if not output.ends:
            return f"model: {self._title} did not say that it is done."
        if output.ends > 1:
            # A program that it started can write into its output, but cannot keep it from writing its own end.
            return f"integrity: {self._title} said {output.ends} times that it is done."
        if output.calls and not has_calls:
            return f"integrity: {self._title} made calls that our guard was not asked about."
        return ""


def _events_in(output: str) -> list[dict[str, Any]]:
    """The objects among lines of JSON."""
    return [event for line in output.splitlines() if (event := object_of(line)) is not None]


def _traced_call(record: AuditRecord) -> TracedCall:
    """A call, load or run as our own agent has it: clients have other names for the same tools and arguments."""
    outcome: Literal["ok", "failed", "refused"] = "refused" if record.decision != "allow" else "ok"
    if record.event == "load":
        return TracedCall(tool="skills_load", arguments={"skills": [record.skill]}, outcome=outcome, code=record.code)
    if record.event == "run":
        script, *args = record.command.split(" ")
        outcome = "failed" if outcome == "ok" and not record.success else outcome
        arguments: dict[str, Any] = {"script": script, "args": args}
        return TracedCall(
            tool="skills_run", arguments=arguments, outcome=outcome, code=record.code, result=record.output
        )
    tool = _TITLES.get(canonical_tool(record.tool), record.tool)
    arguments = object_of(record.arguments) or {}
    names = {"Bash": COMMAND_ARGUMENTS, **dict.fromkeys(("Read", "Write", "Edit"), PATH_ARGUMENTS)}.get(tool, ())
    if given := next((one for one in names if one in arguments), ""):
        value = arguments.pop(given)
        value = shlex.join(map(str, value)) if isinstance(value, list) else value
        arguments["command" if tool == "Bash" else "file_path"] = value
    is_whole = has_whole_arguments(record)
    return TracedCall(tool=tool, arguments=arguments, is_whole=is_whole, outcome=outcome, code=record.code)


def _skill_paths(calls: Iterable[TracedCall], home: ClientHome) -> Iterator[tuple[str, str]]:
    """The tool and the path, from the folder of skills, of every file of a skill that calls name."""
    folders = (str(home.skills), f"~/{home.skills.relative_to(home.folder)}")
    part = r"[^\s'\"`;|&()<>,*?$/]+"
    named = re.compile(f"(?:{'|'.join(map(re.escape, folders))})/({part}(?:/{part})+)")
    for call in calls:
        for value in call.arguments.values():
            for found in named.finditer(value if isinstance(value, str) else ""):
                yield call.tool, found[1]
