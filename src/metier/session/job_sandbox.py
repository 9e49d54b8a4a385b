"""The jobs of a session: run by its runner, with what policy grants and no more, its secrets kept secret."""

from __future__ import annotations

import functools
import hashlib
import os
from typing import TYPE_CHECKING

from metier._lazy import replace
from metier._paths import is_inside
from metier.errors import IsolationMissing, MetierError
from metier.guard import Action
from metier.guard.audit.redaction import redact
from metier.guard.decision import STRICTNESS, refuse
from metier.guard.files.git_settings import committer_variables, repository_elsewhere
from metier.guard.policy.program import granted_names, split_mode
from metier.hints import Hint, for_anybody
from metier.run.job import JobPath
from metier.session.command_attribution import NamedPaths, folders_of
from metier.session.resource_grants import (
    asked_places,
    covering_places,
    hidden_paths,
    holds_home,
    kept_folders,
    limits_under,
    network_grant,
    own_folders,
    workspace_places,
)
from metier.session.sandboxed_runner import SandboxedRunner
from metier.session.secrets import secrets_for
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from metier.guard import Decision
    from metier.guard.audited_action import AuditedAction
    from metier.run import Job, Outcome, Runner
    from metier.run.job import OutputLine
    from metier.session.active_skills import ActiveSkill, ActiveSkills
    from metier.session.context import By, SessionContext
    from metier.session.copies import Copies
    from metier.session.resource_grants import NetworkGrant
    from metier.session.secret_scrubbing import MaskedLines, Masks, NewFiles
    from metier.session.secrets import SecretProvider


_MOST_NOTES = 16
_MAX_COMMAND = 2_000


class JobSandbox:
    """The maker of complete jobs for one session."""

    def __init__(
        self,
        context: SessionContext,
        loaded: ActiveSkills,
        copies: Copies,
        runner: Runner | None,
        provider: SecretProvider | None,
    ) -> None:
        self.context = context
        """The session that its jobs belong to."""
        self._loaded = loaded
        self._copies = copies
        self._runner = runner
        self._provider = provider
        self._mount = context.options.mount

    @property
    def runner(self) -> Runner:
        """The runner of scripts and hooks: unless one was given, the strongest sandbox that this machine has."""
        return self._runner or _default_runner()

    def isolates(self, active: ActiveSkill | None = None, job_at: Callable[[str], Job] | None = None) -> bool:
        """Whether what runs now, for a skill or for nobody in particular, is kept from this machine.

        `job_at` makes the job, of a copy of the skill: on a machine without a sandbox for programs, one that needs
        nothing but a shell can still be run virtually.
        """
        context, runner = self.context, self.runner
        execution = active.skill.execution if active is not None else None
        if execution is not None and execution.sandbox is False and context.guard.policy.unsandboxed == "allow":
            return False
        if runner.capabilities().isolates_files:
            return True
        from metier.run.selection import AutoRunner

        if active is None or job_at is None or not isinstance(runner, AutoRunner):
            return False
        with self._copies.of(active) as root:
            sandboxed = self.for_skill(job_at(root), active, isolated=True)
            try:
                runner.choose(sandboxed.job)
            except IsolationMissing:
                return False
            return True

    def for_skill(self, job: Job, active: ActiveSkill, *, isolated: bool, gets_secrets: bool = False) -> SandboxedJob:
        """A job of a skill. It goes by policy as it is now: call it when the guard agreed, while the copy is held."""
        context, policy = self.context, self.context.guard.policy
        secrets: Mapping[str, str] = {}
        notes: tuple[str, ...] = ()
        if gets_secrets and policy.secrets:
            secrets, notes = secrets_for(active, policy, self._provider)
        packages, variables = self._packages(active, isolated=isolated)
        env = {**job.env, **variables, **secrets}
        job = replace(job, limits=limits_under(policy, job.limits), env=env, sandbox=isolated)
        if not isolated:
            return SandboxedJob(self, replace(job, network="host"), secrets, notes)
        execution = active.skill.execution
        kept = kept_folders(context.index, context.guard, (active, *self._loaded.live()))
        asked = execution.allowed_paths if execution is not None else ()
        places, withheld = asked_places(asked, policy, workspace=context.workspace, kept=kept)
        if not context.guard.may_reach(active.subject, context.actor):
            policy = replace(policy, network="none")
        reach = network_grant(policy, [execution])
        asked_names = {path for path, mode in map(split_mode, asked) if mode != "ro"}
        grants = tuple(sorted(granted_names(policy.paths) & asked_names))
        workspace = self._workspace(kept, grants)
        job = replace(
            job,
            places=(*workspace, *places, JobPath(active.root), *packages),
            env={**self._committer(grants), **job.env},
            grants=grants,
            network=reach.network,
            hosts=reach.hosts,
        )
        return SandboxedJob(self, job, secrets, (*_protection_notes(workspace), *withheld, *reach.notes, *notes))

    def for_command(
        self, job: Job, *, isolated: bool, has_places: bool = False, agreed: Collection[str] = ()
    ) -> SandboxedJob:
        """A job that belongs to no skill: it sees the verified copies of the active ones, and reaches what each leaves.

        One that `has_places` of its own sees nothing else. Skills whose scripts may not run are not there for it,
        unless somebody `agreed` to those of that name.
        """
        context, policy = self.context, self.context.guard.policy
        job = replace(job, limits=limits_under(policy, job.limits), sandbox=isolated)
        active = self._loaded.live()
        if not isolated:
            # It sees all that there is, so that the copies had better be what they are said to be.
            return SandboxedJob(self, replace(job, network="host"), {}, self._verified(active)[1])
        reach = self._reach(active)
        with_scripts = (one for one in active if one.listing.scripts() and one.name not in agreed)
        barred = [one for one in with_scripts if not self._decided(one, job, isolated=isolated).is_allowed]
        hidden = {path for one in barred for path in folders_of(one, self._mount)}
        places = tuple(place for place in job.places if place.path not in hidden)
        notes = [f"Skill {one.name!r} is not there for commands: its scripts may not run." for one in barred]
        grants = tuple(sorted(granted_names(policy.paths)))
        variables: dict[str, str] = {}
        if not has_places:
            kept = kept_folders(context.index, context.guard, active)
            seen = [one for one in active if one.root not in hidden and not holds_home(one.folder)]
            verified, problems = self._verified(seen)
            notes += problems
            workspace = self._workspace(kept, grants, barred)
            notes += _protection_notes(workspace)
            packages, variables, lacking = self._packages_of_named(job, verified)
            notes += lacking
            places = (*workspace, *(JobPath(one.root) for one in verified), *packages)
        env = {**self._committer(grants), **job.env, **variables}
        job = replace(job, places=places, env=env, grants=grants, network=reach.network, hosts=reach.hosts)
        return SandboxedJob(self, job, {}, tuple(notes))

    def _packages(self, one: ActiveSkill, *, isolated: bool) -> tuple[tuple[JobPath, ...], dict[str, str]]:
        """The environments of what its scripts import, as places of a job, and the variables that lead there."""
        kinds = one.package_kinds
        if not kinds:
            return (), {}
        from metier.run.packages import mounted, packages_for

        folders = packages_for(one.name, one.digest, kinds)
        return mounted(folders, one.root, has_view=isolated and self._has_view)

    def _packages_of_named(
        self, job: Job, actives: Sequence[ActiveSkill]
    ) -> tuple[list[JobPath], dict[str, str], list[str]]:
        """The same of all skills that a command runs something of, and a sentence for each that lacks them."""
        places: list[JobPath] = []
        variables: dict[str, str] = {}
        notes: list[str] = []
        for one in NamedPaths(job.argv, job.folder).attributed(actives, self._mount):
            try:
                more, found = self._packages(one, isolated=True)
            except MetierError as error:
                notes.append(for_anybody(error, error.hint))
                continue
            places += more
            for name, path in found.items():
                variables[name] = os.pathsep.join(filter(None, (variables.get(name), path)))
        return places, variables, notes

    @property
    def _has_view(self) -> bool:
        return self.runner.capabilities().hides_files

    def reachable_hosts(self) -> tuple[str, ...] | None:
        """The hosts that belong to no skill in particular and may be reached now; None is every public one.

        Raises `Refused` where none may.
        """
        reach = self._reach(self._loaded.live())
        if reach.network == "none":
            raise refuse(
                "run.network",
                "Policy lets no host be reached, or an active skill does not.",
                code="host-not-granted",
                hint="Do without it, or tell the user: `run.network` and `run.hosts` of the policy grant hosts.",
            ).as_error()
        return None if reach.network == "host" else reach.hosts

    def _reach(self, active: Sequence[ActiveSkill]) -> NetworkGrant:
        """The part of the network that policy grants and every active skill leaves."""
        guard = self.context.guard
        policy = guard.policy
        if not all(guard.may_reach(one.subject, self.context.actor) for one in active):
            policy = replace(policy, network="none")
        return network_grant(policy, [one.skill.execution for one in active])

    def _committer(self, grants: Collection[str]) -> dict[str, str]:
        """The variables of the committer, for a job that may commit."""
        return committer_variables(self.context.workspace) if ".git" in grants else {}

    def _verified(self, actives: Iterable[ActiveSkill]) -> tuple[list[ActiveSkill], tuple[str, ...]]:
        """The skills that have a verified copy, and a sentence for each that has none."""
        verified: list[ActiveSkill] = []
        notes: list[str] = []
        for one, problem in self._copies.verified(actives):
            if problem is None:
                verified.append(one)
            else:
                self._loaded.is_stale(one)
                notes.append(f"Skill {one.name!r} is not there for commands: {for_anybody(problem, problem.hint)}")
        return verified, tuple(notes)

    def _workspace(
        self, kept: Iterable[str], grants: Collection[str], barred: Sequence[ActiveSkill] = ()
    ) -> tuple[JobPath, ...]:
        """The workspace; where skills were loaded from folders in it, their copies are seen there, if that can be.

        Of skills that are `barred`, or that cannot be verified any more, nothing is.
        """
        context = self.context
        hidden = hidden_paths(context.guard, context.workspace)
        kept = (*kept, *own_folders(context.guard, context.workspace))
        places = workspace_places(context.workspace, kept, hidden, context.guard.policy.paths, grants=grants)
        if not self.runner.capabilities().hides_files:
            return places
        repository = repository_elsewhere(context.workspace)
        if repository is not None and not is_inside(os.path.realpath(context.workspace), repository):
            places = (*places, JobPath(repository))  # so that git works in a work tree and in a submodule
        found = covering_places(context.workspace, self._loaded.live())
        if not found:
            return places
        verified, _ = self._verified({one.name: one for one, _ in found}.values())
        shown = {one.name for one in verified} - {one.name for one in barred}
        closed = [place.seen_at for place in places if place.is_hidden]
        covering = [
            place if one.name in shown else JobPath(place.seen_at, is_hidden=True)
            for one, place in found
            if one.name not in shown or os.path.exists(place.path)
            if not any(is_inside(place.seen_at, path) for path in closed)
        ]
        # What else is closed in such a folder is not there at all.
        rest = [place for place in places if not any(is_inside(place.seen_at, one.seen_at) for one in covering)]
        return (*rest, *covering)

    def strictest(self, job: Job, *, isolated: bool, by: By = "host") -> ActiveSkill | None:
        """The skill that a command runs something of; of several, the one that most is against."""
        attributed = NamedPaths(job.argv, job.folder).attributed(self._loaded.live(), self._mount)
        found = [(one, self._decided(one, job, isolated=isolated, by=by)) for one in attributed]
        return max(found, key=lambda pair: STRICTNESS[pair[1].outcome])[0] if found else None

    def require_scripts(
        self, job: Job, *, isolated: bool, by: By = "host", agreed: Collection[str] = (), is_virtual: bool = False
    ) -> None:
        """Raise `Refused`, with a record, where a command runs something of a skill whose scripts may not run.

        That is so too for what lies in the folder that a skill was loaded from, instead of in its verified copy: nobody
        has approved it. In the virtual shell there is no such folder.
        """
        context, named = self.context, NamedPaths(job.argv, job.folder)
        against: list[tuple[ActiveSkill, Decision]] = []
        for one in named.attributed(self._loaded.live(), self._mount):
            decision = self._decided(one, job, isolated=isolated, by=by)
            if one.name in agreed or decision.is_allowed:
                continue
            if decision.outcome == "ask":
                decision = decision.with_hint(f"Run the script as a script of skill {one.name!r}: that asks.")
            against.append((one, decision))
        loaded_from = () if is_virtual else named.loaded_from(self._loaded.live(), context.workspace)
        against += [(one, _unverified(one)) for one in loaded_from if not self._covers(one, isolated)]
        for one, decision in against[:1]:
            action = _run_of(one, job, isolated=isolated, by=by)
            context.guard.audit(action, context.actor, decision).close()
            raise decision.as_error()

    def _covers(self, one: ActiveSkill, isolated: bool) -> bool:
        """Whether a job sees the verified copy of a skill where it was loaded from."""
        context = self.context
        if not isolated or not self._has_view:
            return False
        return bool(covering_places(context.workspace, (one,)))

    def _decided(self, one: ActiveSkill, job: Job, *, isolated: bool, by: By = "host") -> Decision:
        return self.context.guard.decide(_run_of(one, job, isolated=isolated, by=by), self.context.actor)

    def for_shell(self, job: Job, shell: Runner) -> SandboxedJob:
        """A command line for the virtual shell, which reaches nothing."""
        job = replace(job, limits=limits_under(self.context.guard.policy, job.limits))
        return SandboxedJob(self, job, {}, (), shell)

    def runner_for_commands(self, *, have_places: bool = False) -> SandboxedRunner:
        """A runner for the Bash tool, and for programs inside the virtual shell, which have places of their own.

        Policy is asked about each job, as it may have changed since the tool was made. Programs of the virtual shell
        are answered as a shell does where they cannot be started.
        """

        def sandboxed(job: Job) -> SandboxedJob:
            isolated = self.isolates()
            action = Action(point="run", command=" ".join(job.argv), by="host", isolated=isolated)
            if not self.context.guard.decide(action, self.context.actor).is_allowed:
                # The call was decided about, and this was not: it is asked and recorded by itself.
                with self.context.audited(action):
                    pass
            self.require_scripts(job, isolated=isolated)
            return self.for_command(job, isolated=isolated, has_places=have_places)

        return SandboxedRunner(self, sandboxed, answers=have_places)

    def runner_for_skill(self, active: ActiveSkill, *, isolated: bool) -> SandboxedRunner:
        """A runner for jobs of a skill, about which the guard has decided."""
        return SandboxedRunner(self, lambda job: self.for_skill(job, active, isolated=isolated))


@functools.cache
def _default_runner() -> Runner:
    """One for all sessions of this process, as it keeps what it found out about the machine."""
    from metier.run.selection import AutoRunner

    return AutoRunner()


def close_with(audited: AuditedAction, outcome: Outcome) -> None:
    """Write the record of something that ran."""
    written = hashlib.sha256(outcome.stdout.encode(errors="surrogatepass") + b"\0")
    written.update(outcome.stderr.encode(errors="surrogatepass"))
    audited.close(
        success=outcome.is_success,
        code="cancelled" if outcome.killed_by == "cancel" else "",
        exit_code=outcome.exit_code,
        runner=outcome.runner,
        contacts=outcome.contacts,
        output=f"{outcome.stdout}{outcome.stderr}",
        output_digest=f"sha256:{written.hexdigest()}",
    )


def _protection_notes(workspace: Sequence[JobPath]) -> list[str]:
    place = workspace[0]
    if place.is_writable:
        return []
    return [f"The workspace {shown(place.path, 200)} lies in a protected place: it is only read."]


def _run_of(one: ActiveSkill, job: Job, *, isolated: bool, by: By) -> Action:
    command = " ".join(job.argv)[:_MAX_COMMAND]
    return Action(point="run", skill=one.subject, command=command, by=by, isolated=isolated)


def _unverified(one: ActiveSkill) -> Decision:
    return refuse(
        "verified copy",
        f"Files in the folder that skill {one.name!r} was loaded from may not be those that were approved.",
        code="file-refused",
        hint=f"Use the same path in {one.root}, which holds what was loaded.",
    )


class SandboxedJob:
    """A job with all that it gets, ready to be run once by the session's runner."""

    def __init__(
        self,
        sandbox: JobSandbox,
        job: Job,
        secrets: Mapping[str, str],
        notes: tuple[str, ...],
        runner: Runner | None = None,
    ) -> None:
        self.job = job
        self._by = runner
        self._sandbox = sandbox
        self._names = tuple(secrets)
        more = len(notes) - _MOST_NOTES
        self._notes = notes if more <= 0 else (*notes[:_MOST_NOTES], f"There is more of the kind, {more} times.")
        self._masks: Masks | None = None
        self._lines: MaskedLines | None = None
        self._new_files: NewFiles | None = None
        if secrets:
            from metier.session.secret_scrubbing import Masks

            self._masks = Masks(secrets.values())

    def announce(self, audited: AuditedAction) -> None:
        """Say in the record what it runs with."""
        audited.runs_with(network=self.job.network, secrets=self._names, notes=self._notes)
        if self._masks is not None:
            hide = self._masks.hide
            audited.hide = lambda text: redact(hide(text))

    async def run(self, on_output: Callable[[OutputLine], None] | None = None) -> Outcome:
        """Run it without holding up the event loop."""
        from anyio.to_thread import run_sync

        tell = self._begin(on_output)
        try:
            # Finding out what this machine can do takes a moment, the first time.
            runner = await run_sync(self._runner)
            return self._end(await runner.run(self.job, on_output=tell))
        except MetierError as error:
            raise self._without_secrets(error) from None

    def run_blocking(
        self,
        on_output: Callable[[OutputLine], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> Outcome:
        """Run it and wait."""
        tell = self._begin(on_output)
        try:
            return self._end(self._runner().run_blocking(self.job, should_stop=should_stop, on_output=tell))
        except MetierError as error:
            raise self._without_secrets(error) from None

    def _runner(self) -> Runner:
        """The runner for it; raises `IsolationMissing` if that does not keep it from what it must be kept from."""
        from metier.hints import NO_ISOLATION
        from metier.run.job import NEEDS, missing
        from metier.run.selection import AutoRunner

        runner, required = self._by or self._sandbox.runner, self._sandbox.context.guard.policy.require
        if isinstance(runner, AutoRunner):
            runner = runner.choose(self.job)
        lacking = missing(self.job, runner.capabilities(), required)
        if not self.job.sandbox:
            # Somebody let it run with nothing around it, but for what is always required.
            lacking = tuple(name for name in lacking if name in required)
        if lacking:
            raise IsolationMissing(
                f"Nothing here can keep this job from {' or '.join(NEEDS[name][1] for name in lacking)}.",
                hint=NO_ISOLATION,
                missing=list(lacking),
            )
        return runner

    def _begin(self, on_output: Callable[[OutputLine], None] | None) -> Callable[[OutputLine], None] | None:
        """The listener of its output, which sees no secret; the files that are there already are remembered."""
        if self._masks is None:
            return on_output
        from metier.session.secret_scrubbing import MaskedLines, NewFiles

        self._new_files = NewFiles(self._sandbox.context.workspace)
        self._lines = MaskedLines(self._masks, on_output) if on_output is not None else None
        return self._lines

    def _end(self, outcome: Outcome) -> Outcome:
        """The outcome with notes, and without secrets in it and in the files that are new."""
        refused = [contact.split()[0] for contact in outcome.contacts if not contact.endswith(" listed")]
        notes = (*self._notes, *outcome.notes, *(f"It was kept from {host}." for host in refused[:_MOST_NOTES]))
        if self._lines is not None:
            self._lines.finish(is_cut=outcome.is_truncated or outcome.killed_by is not None)
        if self._masks is not None and self._new_files is not None:
            notes = (*notes, *self._new_files.hide(self._masks))
            outcome = self._masks.hide_in(outcome)
        return replace(outcome, notes=notes) if notes else outcome

    def _without_secrets(self, error: MetierError) -> MetierError:
        if self._masks is None:
            return error
        hint = error.hint.mapped(self._masks.hide) if isinstance(error.hint, Hint) else self._masks.hide(error.hint)
        masked = type(error)(self._masks.hide(error.message), hint=hint, **error.context)
        masked.code = error.code
        return masked
