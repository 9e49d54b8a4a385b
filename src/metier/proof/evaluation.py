"""Evaluations: all trials of a skill, arm beside arm with each executor, and what follows from them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from metier._lazy import logger, replace
from metier.errors import BudgetExceeded, MetierError
from metier.proof.clients import CLIENT_PROGRAMS
from metier.proof.graders import grade_all, reason_of, verdict_of
from metier.proof.judge import Judge
from metier.proof.lift import summarize_trials
from metier.proof.report import CaseResult, TierResult
from metier.proof.subject import files_without_tests, write_files
from metier.proof.trial import Transcript, Trial
from metier.proof.trial_result import NOT_RUN, TrialResult
from metier.skill import FolderPackage, shown
from metier.skill.package import files_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from metier.proof.behaviour import BehaviourSettings
    from metier.proof.report import Verdict
    from metier.proof.subject import TestSubject
    from metier.proof.suite import BehaviourCase, Note
    from metier.proof.trial import Arm, TrialRunner

log = logger("metier.proof")

SCRIPTED = "scripted"
"""The executor whose trials are no evidence for or against a skill."""
_HOW = "Give the case `steps`, or run it with a model: `metier test NAME --tier behaviour --with openai:gpt-5`."


async def evaluate(subject: TestSubject, settings: BehaviourSettings) -> TierResult:
    """Run the trials of all cases, and compare the arms."""
    spent = settings.budget.spent
    problems: list[Note] = []
    runners = list(_make_runners(subject, settings, problems))
    results = await _Work(subject, settings).run(runners)
    unkept = list(_write_recordings(subject, runners)) if settings.record else []
    by_runner = {runner.name: [one for one in results if one.runner == runner.name] for runner in runners}
    summaries = {name: summarize_trials(found, settings.bound) for name, found in by_runner.items() if found}
    cases = [
        *(CaseResult(id=note.path, verdict="failed", reason=note.message) for note in problems),
        *unkept,
        *(result for case in subject.suite.behaviour for result in _case_results(case, runners, results, settings)),
        *(lift.as_case(name) for name, one in summaries.items() if name != SCRIPTED for lift in one.lifts),
    ]
    data: dict[str, Any] = {"runners": {name: summary.as_dict() for name, summary in summaries.items()}}
    # What an author has written for both arms says nothing of the difference between them.
    whole = summarize_trials((one for one in results if one.runner != SCRIPTED), settings.bound)
    if lift := next((one for one in whole.lifts if one.over == "without"), None):
        data |= {"verdict": lift.comparison.verdict, "lift": lift.as_dict()}
    return TierResult.of("behaviour", cases, cost=settings.budget.spent - spent, data=data)


def _make_runners(subject: TestSubject, settings: BehaviourSettings, problems: list[Note]) -> Iterator[TrialRunner]:
    for one in settings.runners or ("scripted", "recorded"):
        if not isinstance(one, str):
            yield one
        elif one == "recorded" or one.startswith("recorded:"):
            from metier.proof.recordings import RecordedRunner, read_recordings

            recordings, wrong = read_recordings(subject.files)
            problems += wrong
            models = dict.fromkeys(each.model for each in recordings)
            wanted = [one.removeprefix("recorded:")] if ":" in one else models or [""] * bool(settings.runners)
            yield from (RecordedRunner(model, recordings) for model in wanted)
        elif one.partition(":")[0] in CLIENT_PROGRAMS:
            from metier.proof.client_runner import ClientRunner

            client, _, model = one.partition(":")
            yield ClientRunner(client, model=model)
        else:
            from metier.proof.agent_runner import ModelRunner, ScriptedRunner

            yield ScriptedRunner() if one == SCRIPTED else ModelRunner(one, price=settings.prices.get(one))


class _Work:
    """The trials of one skill."""

    def __init__(self, subject: TestSubject, settings: BehaviourSettings) -> None:
        self._subject = subject
        self._settings = settings
        self._judge = _make_judge(subject, settings)
        self._folders = _arm_folders(subject, settings)
        self._sources = {path: data for path, (mode, data) in subject.files.items() if mode != "link"}

    async def run(self, runners: Iterable[TrialRunner]) -> list[TrialResult]:
        """Run all trials, arm beside arm, so that whatever changes with time meets all of them alike."""
        plan = [
            (runner, case, arm, number)
            for number, case, runner, arm in itertools.product(
                range(self._settings.repeats), self._subject.suite.behaviour, runners, self._folders
            )
            if not runner.refusal(case, arm, number)
        ]
        results: list[TrialResult | None] = [None] * len(plan)
        limiter = anyio.CapacityLimiter(self._settings.concurrency)

        async def run(place: int) -> None:
            async with limiter:
                results[place] = await self._run_trial(*plan[place])

        async with anyio.create_task_group() as group:
            for place in range(len(plan)):
                group.start_soon(run, place)
        return [one for one in results if one is not None]

    async def _run_trial(self, runner: TrialRunner, case: BehaviourCase, arm: Arm, number: int) -> TrialResult:
        transcript = await self._transcript(runner, case, arm, number)
        result = TrialResult(
            case=case.id, runner=runner.name, arm=arm, number=number, verdict="skipped", transcript=transcript
        )
        if transcript.error.startswith(NOT_RUN):
            return replace(result, reason=transcript.error)
        grades = await grade_all(case.assertions, transcript, self._judge, case)
        verdict = "failed" if transcript.error else verdict_of(grades)
        # The files of all trials together may be more than fits.
        slim = replace(transcript, before={}, after={})
        reason = transcript.error or reason_of(grades)
        return replace(result, grades=grades, verdict=verdict, reason=reason, transcript=slim)

    async def _transcript(self, runner: TrialRunner, case: BehaviourCase, arm: Arm, number: int) -> Transcript:
        budget = self._settings.budget
        try:
            budget.require_time()
            workspace = await anyio.to_thread.run_sync(self._subject.workspace, case.environment.files)
            trial = Trial(
                case=case,
                arm=arm,
                skill=self._subject.name,
                folder=self._folders[arm],
                neighbours=self._settings.neighbours,
                workspace=workspace,
                sources=self._sources,
                number=number,
                max_cost=self._settings.max_trial_cost,
                max_seconds=min(case.timeout, budget.seconds_left),
                budget=budget,
            )
            found = await runner.run(trial)
        except BudgetExceeded as error:
            return Transcript(error=f"budget: {error.message}")
        except Exception as error:
            # Executors are given from outside, and a trial that fails must not end the others.
            log.exception("a trial failed")
            return Transcript(error=f"model: {shown(f'{type(error).__name__}: {error}', 500)}")
        if found.error.startswith("timeout:") and budget.seconds_left <= 0:
            return replace(found, error=f"budget: {found.error}")
        return found


def _make_judge(subject: TestSubject, settings: BehaviourSettings) -> Judge | None:
    if settings.judge is None:
        return None
    ask = settings.judge
    if isinstance(ask, str):
        from metier.proof.agent_runner import judge_of

        ask = judge_of(ask, settings.budget, settings.prices.get(ask))
    return Judge(ask, subject.suite.calibration)


def _arm_folders(subject: TestSubject, settings: BehaviourSettings) -> dict[Arm, Path | None]:
    """The folder of the skill in each arm that is run."""
    folders: dict[Arm, Path | None] = {"with": subject.folder}
    if "without" in settings.arms:
        folders["without"] = None
    if "previous" in settings.arms and subject.name in settings.previous:
        package = FolderPackage(settings.previous[subject.name])
        target = subject.root / "previous" / subject.name
        write_files(target, files_without_tests(files_of(package, package.digest()), subject.suite))
        folders["previous"] = target
    return folders


def _write_recordings(subject: TestSubject, runners: Iterable[TrialRunner]) -> Iterator[CaseResult]:
    """Keep the answers of models; the results of trials that were paid for stay where that fails."""
    from metier.proof.agent_runner import ModelRunner
    from metier.proof.recordings import Recording, write_recording

    file = Path(subject.location)
    folder = file if file.is_dir() else file.parent
    for runner in runners:
        for (case, arm), trials in runner.recorded.items() if isinstance(runner, ModelRunner) else ():
            in_order = tuple(trials[number] for number in sorted(trials))
            recording = Recording(case=case, arm=arm, model=runner.name, trials=in_order)
            try:
                write_recording(folder, recording)
            except (MetierError, OSError) as error:
                why = error.message if isinstance(error, MetierError) else f"It cannot be written: {error.strerror}."
                yield CaseResult(id=f"recording of {case} {arm} [{runner.name}]", verdict="failed", reason=why)


def _case_results(
    case: BehaviourCase, runners: Sequence[TrialRunner], results: Sequence[TrialResult], settings: BehaviourSettings
) -> Iterator[CaseResult]:
    """The result of a case with each executor that can run it; those that somebody chose say why they cannot."""
    used = {one.runner for one in results}
    is_run = False
    for runner in runners:
        own = [one for one in results if one.case == case.id and one.runner == runner.name]
        name = f"{case.id} [{runner.name}]" if len(used) > 1 or settings.runners else case.id
        if any(one.arm == "with" for one in own):
            is_run = True
            yield _case_result(name, own, settings)
        elif settings.runners:
            reason = runner.refusal(case, "with", 0)
            yield CaseResult(id=name, verdict="skipped", reason=reason)
    if not is_run and not settings.runners:
        reason = "The case has no steps for a scripted model, and nobody has recorded it."
        yield CaseResult(id=case.id, verdict="skipped", reason=reason, hint=_HOW)


def _case_result(name: str, results: Sequence[TrialResult], settings: BehaviourSettings) -> CaseResult:
    """The result of a case with one executor: that of its trials with the skill."""
    own = [one for one in results if one.arm == "with"]
    run = [one for one in own if one.verdict != "skipped"]
    failed = [one for one in run if one.verdict == "failed"]
    unread = sum(one.is_unread for one in run)
    verdict: Verdict = "passed"
    reason = f"The skill was not read in {unread} of {len(run)} trials." if unread else ""
    if not run:
        verdict, reason = "skipped", own[0].reason
    elif len(run) - len(failed) < settings.min_pass_rate * len(run):
        verdict = "failed"
        reason = f"{len(failed)} of {len(run)} trials failed: {failed[0].reason}" if len(run) > 1 else failed[0].reason
    return CaseResult(
        id=name,
        verdict=verdict,
        reason=reason,
        seconds=sum(one.transcript.seconds for one in results),
        data={"runner": own[0].runner, "unread": unread, "trials": [one.as_dict() for one in results]},
    )
