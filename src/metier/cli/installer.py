"""The flow that `metier add`, `update` and `install` share: plan skills, show them, ask, install, report."""

from __future__ import annotations

import contextlib
import functools
from argparse import Namespace
from typing import TYPE_CHECKING, Any

import metier
from metier._lazy import replace
from metier.cli import identity
from metier.cli.exit_codes import FINE, PROBLEMS, exit_code_of
from metier.cli.identity import acting, looking, may_decide
from metier.cli.install_view import installed_shape, plan_shape, print_installed, print_plan
from metier.cli.output import Progress, plural, print_warning
from metier.cli.parser import library_of
from metier.cli.sync import folder_shape, print_steps
from metier.errors import InvalidArgument, MetierError, PackagesMissing, SignerChanged
from metier.hints import for_person

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from metier.hub.install_plan import InstallPlan
    from metier.hub.installation import Installed
    from metier.hub.skill_location import SkillLocation
    from metier.hub.sources.fetch import Candidate, Resolved
    from metier.hub.sync import Synced
    from metier.library.clients import Client
    from metier.library.lock_file import LockFile
    from metier.store import Person, TenantScope


def asks_first(options: Namespace, hint: str) -> bool:
    """Tell whether somebody is to be asked before anything is changed; raises where nobody is here."""
    if options.yes or getattr(options, "dry_run", False) or getattr(options, "frozen", False):
        return False
    if options.json or not identity.is_at_terminal():
        raise InvalidArgument("Nobody is here to be asked.", hint=hint)
    return True


@contextlib.contextmanager
def installing(options: Namespace, hint: str) -> Iterator[Installer]:
    """Open the store for a command that installs skills; `hint` is for where nobody is here to be asked."""
    # An exception from signatures is a decision about a skill: a shell that a model has makes none.
    is_exception = bool(options.allow_unsigned or options.accept_signer)
    store = looking(options) if getattr(options, "dry_run", False) else acting(options, decides=is_exception)
    with Progress() as progress, store as (scope, person):
        yield Installer(options, scope, person, progress, hint)


class Installer:
    """A person who installs skills by one command, on the terms of its options, and the results of that."""

    def __init__(self, options: Namespace, scope: TenantScope, person: Person, progress: Progress, hint: str) -> None:
        from metier.guard.approvals.roles import is_approver
        from metier.hub.install_plan import source_permit
        from metier.hub.sources.fetch import Transfer

        self.options, self.scope, self.person, self.progress, self._hint = options, scope, person, progress, hint
        self._is_dry_run, self._is_frozen = (getattr(options, name, False) for name in ("dry_run", "frozen"))
        self._is_update = options.command == "update"
        self._approves = not self._is_frozen and may_decide(scope.store)
        self.guard, self.library = metier.Guard(), library_of(options)
        self._effective = self.guard.governance.effective
        self._is_approver = is_approver(person, self._effective.approval.approvers)
        self.transfer = Transfer(progress=progress.transfer, permit=source_permit(self.guard, person, scope))
        self.is_source_limited = bool(self._effective.sources_allow or self._effective.sources_deny)
        """Whether policy says which sources skills may come from."""
        self.warnings: list[str] = []
        self.problems: list[tuple[str, MetierError]] = []
        """Errors, each with the name of its skill or source."""
        self.changed: list[str] = []
        """The names of skills that have another content now."""
        self.shape: dict[str, Any] = {}
        """The JSON that all of these commands print."""

    @property
    def asks(self) -> bool:
        """Whether somebody is here, and is to be asked before anything is changed."""
        with contextlib.suppress(InvalidArgument):
            return asks_first(self.options, self._hint)
        return False

    def plan(self, candidate: Candidate, resolved: Resolved, lock: LockFile, **terms: Any) -> InstallPlan:
        """Plan a skill; where its signer changed, a person at the terminal who may accept that is asked.

        `terms` are those of `InstallTerms` that no option sets.
        """
        from metier.hub.install_plan import InstallTerms, plan_install

        options = self.options
        wishes = InstallTerms(
            accept_findings=options.accept_findings,
            allow_unsigned=options.allow_unsigned,
            accept_signer=options.accept_signer,
            progress=self.progress.say,
            **terms,
        )
        planned = functools.partial(
            plan_install, self.scope, self.guard, self.person, candidate, resolved, lock=lock, library=self.library
        )
        plan = planned(terms=wishes)
        self.progress.end()
        if plan.decision.code == SignerChanged.code and self._accepts_signer(plan):
            plan = planned(terms=replace(wishes, accept_signer=f"accepted at the terminal by {self.person.name}"))
        return plan

    def _accepts_signer(self, plan: InstallPlan) -> bool:
        from metier.cli.terminal import ask_yes

        if not self.asks or not self._is_approver:
            return False
        print_warning(f"{plan.skill.name}: {plan.decision.reason}")
        return ask_yes(f"Do you know why, and accept it for {plan.skill.name}?")

    def lacks_approval(self, home: SkillLocation, digest: str, packages: Sequence[str]) -> bool:
        """Whether this command would approve of a content and its packages, and nobody has yet."""
        from metier.hub.installation import is_approved

        is_asked = self._approves and self._is_approver and not self._is_update
        return is_asked and not is_approved(self.scope, self._effective, home, digest, packages)

    def carry_out(
        self,
        plans: Sequence[InstallPlan],
        verb: str,
        *,
        otherwise: str = "Nothing was changed.",
        is_whole: bool = False,
        clients: Callable[[], Sequence[Client]] = tuple,
    ) -> int:
        """Show plans, ask, install, and report; the exit code.

        Where one is refused the others are installed, unless they are a whole. `otherwise` is said where there was
        nothing to do. `clients` gives those that get copies, beside those that have some.
        """
        waiting = [
            plan
            for plan in plans
            if not plan.is_unchanged or self.lacks_approval(plan.home, plan.digest, plan.packages.lines)
        ]
        shown = plans if is_whole else waiting
        is_text, shapes = not self.options.json, {}
        if is_text:
            for text in self.warnings:
                print_warning(text)
            for plan in shown:
                print_plan(plan)
        else:
            shapes = {plan.home.location: plan_shape(plan) for plan in shown}
        refused = [plan.decision.as_error() for plan in plans if not plan.decision.is_allowed]
        done: list[Installed] = []
        if not self._is_dry_run and ((is_whole and refused) or self._is_agreed(verb, waiting)):
            done = self._installed(plans, is_whole=is_whole)
        changed = [one for one in done if not one.plan.is_unchanged]
        copies = self._copies(done, clients()) if is_whole and done else self._copies(changed)
        reported = [one for one in done if is_whole or one.plan in waiting]
        for one in reported:
            if is_text:
                print_installed(one, verb, tells_approval=not self._is_frozen)
            else:
                shapes[one.plan.home.location] |= installed_shape(one)
        if is_text:
            for copy in copies:
                print_steps(copy)
            for name, why in self.problems:
                print_warning(f"{name}: {why.message} {for_person(why.hint)}".rstrip())
            if not reported:
                print("Nothing was changed." if waiting or self.problems else otherwise)
        self.changed = [one.plan.skill.name for one in changed]
        copied = [folder_shape(copy) for copy in copies]
        self.shape = {"dry_run": self._is_dry_run, "skills": list(shapes.values()), "copies": copied}
        codes = [exit_code_of(why) for why in (*refused, *(why for _, why in self.problems))]
        return max([*codes, FINE if all(copy.is_fine for copy in copies) else PROBLEMS])

    def _is_agreed(self, verb: str, waiting: Sequence[InstallPlan]) -> bool:
        from metier.cli.terminal import ask_yes

        plans = [plan for plan in waiting if plan.decision.is_allowed]
        if not plans or not asks_first(self.options, self._hint):
            return True
        what, they = (plans[0].skill.name, "it") if len(plans) == 1 else (plural(len(plans), "skill"), "they")
        if all(plan.is_unchanged for plan in plans):
            return ask_yes(f"Approve of what {what} can do?")
        return ask_yes(f"{verb} {what}, and approve of what {they} can do?")

    def _installed(self, plans: Sequence[InstallPlan], *, is_whole: bool) -> list[Installed]:
        from metier.hub.installation import install

        done: list[Installed] = []
        # One that is refused comes first: of a whole, none is installed then.
        for plan in sorted(plans, key=lambda plan: plan.decision.is_allowed):
            # An update that brings nothing new of a skill was not agreed to, and approves of nothing.
            approves = self._approves and not (self._is_update and plan.is_unchanged)
            try:
                one = install(self.scope, self.person, self.guard, plan, approves=approves)
            except MetierError as error:
                if is_whole:
                    raise
                if plan.decision.is_allowed:  # else the plan says so
                    self.problems.append((plan.skill.name, error))
                continue
            done.append(one)
            if one.packages_problem:
                lacking = PackagesMissing(f"Its scripts lack their packages. {one.packages_problem}")
                self.problems.append((plan.skill.name, lacking))
        return done

    def _copies(self, done: Sequence[Installed], clients: Sequence[Client] = ()) -> list[Synced]:
        from metier.hub.client_copies import copy_to_clients

        copies = []
        for layer in dict.fromkeys(one.plan.home.layer for one in done):
            names = [one.plan.skill.name for one in done if one.plan.home.layer == layer]
            library = library_of(self.options)  # as it is now
            accepted = self.options.accept_findings
            copies += copy_to_clients(library, clients, names, layer=layer, accept_findings=accepted)
        return copies
