"""The strongest runner here that keeps a job from what it must be kept from, or an error that says what is missing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from metier.errors import InvalidArgument, IsolationMissing
from metier.run import (
    NEEDS,
    AutoRunner,
    Job,
    Network,
    Outcome,
    OutputLine,
    Runner,
    RunnerCapabilities,
    selection,
)
from metier.run.job import check_needs, missing

ALL: dict[str, Any] = {field.name: True for field in fields(RunnerCapabilities) if field.name != "how"}
EVERYTHING = RunnerCapabilities(**ALL)
LITTLE = RunnerCapabilities(isolates_files=True, isolates_network=True, kills_descendants=True)


class Pretended:
    """A runner that says what it was told to say."""

    def __init__(self, name: str, capabilities: RunnerCapabilities, *, runs: bool = True) -> None:
        self._name, self._capabilities, self._runs = name, capabilities, runs

    @property
    def name(self) -> str:
        return self._name

    def capabilities(self) -> RunnerCapabilities:
        return self._capabilities

    def runs(self, job: Job) -> bool:
        return self._runs

    def run_blocking(
        self,
        job: Job,
        *,
        should_stop: Callable[[], bool] | None = None,
        on_output: Callable[[OutputLine], None] | None = None,
    ) -> Outcome:
        if on_output is not None:
            on_output(OutputLine(stream="stdout", text=self._name))
        return Outcome(exit_code=0, stdout=str(should_stop is not None), runner=self._name)

    async def run(self, job: Job, *, on_output: Callable[[OutputLine], None] | None = None) -> Outcome:
        return self.run_blocking(job, on_output=on_output)


class Here(AutoRunner):
    """A machine with these runners."""

    def __init__(self, native: Pretended, virtual: Pretended | None = None, **more: Any) -> None:
        super().__init__(**more)
        self._here, self._shell = native, virtual or Pretended("virtual", RunnerCapabilities(), runs=False)

    @property
    def native(self) -> Runner:
        return self._here

    @property
    def virtual(self) -> Any:
        return self._shell


def job(**more: Any) -> Job:
    return Job(argv=("true",), folder="/", **more)


def native(capabilities: RunnerCapabilities) -> Pretended:
    return Pretended("native", capabilities)


def virtual(capabilities: RunnerCapabilities = EVERYTHING, *, runs: bool = True) -> Pretended:
    return Pretended("virtual", capabilities, runs=runs)


def without(*names: str) -> RunnerCapabilities:
    lacking: dict[str, Any] = dict.fromkeys(names, False)
    return replace(EVERYTHING, **lacking)


@pytest.mark.each(
    ("capabilities", "network", "hosts", "lacking"),
    [
        (EVERYTHING, "none", (), ()),
        (EVERYTHING, "restricted", ("a.example",), ()),
        (LITTLE, "none", (), ()),
        (LITTLE, "host", (), ()),
        (LITTLE, "restricted", (), ()),
        (LITTLE, "restricted", ("a.example",), ("hosts",)),
        (RunnerCapabilities(), "none", (), ("files", "network")),
        (RunnerCapabilities(), "host", (), ("files",)),
        (RunnerCapabilities(), "restricted", (), ("files", "network")),
        (RunnerCapabilities(), "restricted", ("a.example",), ("files", "hosts")),
        (without("isolates_network"), "none", (), ("network",)),
        (without("isolates_files"), "host", (), ("files",)),
    ],
)
def test_what_a_job_needs_follows_from_what_it_may_reach(
    capabilities: RunnerCapabilities, network: Network, hosts: tuple[str, ...], lacking: tuple[str, ...]
) -> None:
    assert missing(job(network=network, hosts=hosts), capabilities) == lacking


@pytest.mark.each("name", NEEDS)
def test_whatever_is_required_must_hold(name: str) -> None:
    field, kept_from = NEEDS[name]
    machine = Here(native(without(field)), required=[name])
    with pytest.raises(IsolationMissing) as caught:
        machine.choose(job())
    assert caught.value.context["missing"] == [name]
    assert kept_from in caught.value.message
    assert "metier doctor" in caught.value.hint
    assert Here(native(EVERYTHING), required=[name]).choose(job()).name == "native"


def test_each_requirement_is_a_capability() -> None:
    assert {field for field, _ in NEEDS.values()} <= {field.name for field in fields(RunnerCapabilities)}


@pytest.mark.each("name", ["", "Files", "isolates_files", "nothing"])
def test_what_cannot_be_required_is_an_error(name: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        AutoRunner(required=[name])
    assert "files" in caught.value.hint
    assert check_needs(["disk", "files"]) == ("disk", "files")


def test_all_that_is_missing_is_named() -> None:
    with pytest.raises(IsolationMissing) as caught:
        Here(native(RunnerCapabilities()), required=["memory", "disk"]).choose(
            job(network="restricted", hosts=("a.example",))
        )
    assert caught.value.context["missing"] == ["files", "hosts", "memory", "disk"]


def test_a_job_without_a_sandbox_runs_as_it_is() -> None:
    machine = Here(native(EVERYTHING), virtual(), required=["files"])
    assert machine.choose(job(sandbox=False)).name == "plain"
    assert Here(native(RunnerCapabilities())).choose(job(sandbox=False)).name == "plain"


def test_no_job_in_a_sandbox_runs_as_it_is() -> None:
    for capabilities in (EVERYTHING, LITTLE):
        assert Here(native(capabilities)).choose(job()).name == "native"
    with pytest.raises(IsolationMissing):
        Here(native(RunnerCapabilities())).choose(job())


@pytest.mark.each(
    ("machine", "chosen"),
    [
        (Here(native(EVERYTHING), virtual()), "native"),
        (Here(native(without("hides_files")), virtual()), "virtual"),
        (Here(native(without("hides_files")), virtual(runs=False)), "native"),
        (Here(native(without("hides_files")), virtual(RunnerCapabilities())), "native"),
        (Here(native(without("hides_files"))), "native"),
        (Here(native(RunnerCapabilities()), virtual()), "virtual"),
        (Here(native(without("limits_disk")), virtual(), required=["disk"]), "virtual"),
        (Here(native(without("filters_calls")), virtual(without("filters_calls"))), "native"),
    ],
)
def test_the_strongest_is_taken(machine: AutoRunner, chosen: str) -> None:
    assert machine.choose(job()).name == chosen


def test_a_shell_that_lacks_the_same_is_no_way_out() -> None:
    for shell in (virtual(runs=False), virtual(RunnerCapabilities()), None):
        with pytest.raises(IsolationMissing):
            Here(native(RunnerCapabilities()), shell).choose(job())


def test_what_was_chosen_runs_the_job() -> None:
    machine = Here(native(EVERYTHING))
    told: list[OutputLine] = []
    outcome = machine.run_blocking(job(), should_stop=lambda: False, on_output=told.append)
    assert (outcome.runner, outcome.stdout, [line.text for line in told]) == ("native", "True", ["native"])
    outcome = anyio.run(lambda: machine.run(job(), on_output=told.append))
    assert (outcome.runner, len(told)) == ("native", 2)
    assert machine.capabilities() == EVERYTHING
    assert machine.name == "auto"


def test_what_cannot_be_enforced_is_not_run() -> None:
    machine = Here(native(RunnerCapabilities()))
    with pytest.raises(IsolationMissing):
        machine.run_blocking(job())
    with pytest.raises(IsolationMissing):
        anyio.run(lambda: machine.run(job()))


def test_here_a_plain_job_is_plain_and_a_real_one_is_sandboxed(tmp_path: Path) -> None:
    runner = AutoRunner()
    plain = Job(argv=(sys.executable, "-c", "print(1)"), folder=str(tmp_path), sandbox=False)
    assert (runner.run_blocking(plain).stdout.strip(), runner.run_blocking(plain).runner) == ("1", "plain")
    sandboxed = Job(argv=("echo", "1"), folder=str(tmp_path))
    try:
        outcome = runner.run_blocking(sandboxed)
    except IsolationMissing as error:
        assert error.context["missing"]
        assert not runner.native.capabilities().isolates_files
        return
    assert outcome.stdout == "1\n"
    assert outcome.runner in ("native", "virtual")
    assert runner.native is runner.native
    assert selection.native_runner().name == "native"
