"""Checks of a call in a client beside those of the guard: commands that the client runs with nothing around them."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

from metier._lazy import pattern, replace
from metier._paths import is_inside, real_path
from metier.guard import Action
from metier.guard.decision import refuse
from metier.guard.files.file_access import protection_hint, protection_reason
from metier.guard.files.file_check import file_targets
from metier.guard.remedies import BLOCKED, POLICY
from metier.hints import WITHOUT_IT, for_people
from metier.library.clients import CLIENTS, hook_settings
from metier.serve.client_hooks.client_skills import absolute_path, named_paths
from metier.serve.client_hooks.commands import closed_path
from metier.serve.client_hooks.protocols import PROTOCOLS
from metier.serve.client_hooks.written_paths import written_paths
from metier.session.active_skills import subject_of
from metier.session.resource_grants import skill_folders
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from metier import Session
    from metier.guard import Actor, Decision
    from metier.guard.decision import Ceiling
    from metier.guard.files.file_access import FileAccess
    from metier.guard.policy.effective import EffectivePolicy
    from metier.serve.client_hooks.client_skills import ClientSkills
    from metier.serve.client_hooks.commands import CommandReading
    from metier.serve.client_hooks.event import HookEvent

_PATCH = pattern(r"(?s)\*\*\* Begin Patch.*\*\*\* End Patch")


class CallChecks:
    """The checks of the calls of one conversation: each gives a decision against a call, or None."""

    def __init__(self, session: Session, skills: ClientSkills) -> None:
        self._session = session
        self._guard = session.guard
        self._skills = skills

    def against_broken_policy(self) -> Decision | None:
        """The refusal of every call while a policy file cannot be read: what it forbids is not known."""
        effective = self._effective
        if not effective.errors or effective.protect_fail == "open" or effective.mode != "enforce":
            return None
        problem = effective.errors[0]
        reason = f"A policy file cannot be used. {problem.message}"
        return refuse("protect.fail", reason, code="policy-unreadable", hint=POLICY, origin=problem.origin)

    def against_files(self, event: HookEvent, reading: CommandReading | None) -> Decision | None:
        """The refusal of a call that names a file of a blocked skill, or by a command a place that is closed to it."""
        if reading is None:
            written = file_targets(event.tool, event.arguments).written
            changed = [absolute_path(path, event.folder) for path in written if "\0" not in path]
            return self._against_hook_settings(changed) or self._against_blocked(named_paths(event, reading))
        if reading.is_cut:
            return refuse(
                "too many words", "The command is too long to be read.", code="invalid-argument", hint=WITHOUT_IT
            )
        against = self.against_reading(reading.paths)
        if against is not None or reading.is_reading:
            return against
        if "client_hooks" in reading.plain:
            return refuse(
                "client hooks", "No tool speaks for its own client.", code="tool-not-allowed", hint=WITHOUT_IT
            )
        if reading.is_interactive and PROTOCOLS[event.client].types_unseen:
            reason = f"What {CLIENTS[event.client].title} types into a running program, nobody can check."
            return refuse(
                "client hooks", reason, code="tool-not-allowed", hint="Give the program its commands at once."
            )
        # A script of a skill that is only started is not written by that.
        started = {path for path, _ in reading.started if any(self._skills.owners([path]))}
        changed = [path for path in written_paths(reading) if path not in started]
        found = closed_path(changed, self._access)
        return self._against_hook_settings(changed) or (_refuse_closed(*found) if found is not None else None)

    def _against_hook_settings(self, paths: Iterable[str]) -> Decision | None:
        """The refusal of changing what has this client ask us: a policy that grants `.claude` does not mean that."""
        if not self._access.grants:  # their names close them
            return None
        project = self._session.context.workspace
        settings = [real_path(one) for one in hook_settings(os.path.expanduser("~"), project)]
        folders = {os.path.dirname(one) for one in settings if os.path.lexists(one)}
        found = (path for path in paths if path in folders or any(is_inside(path, one) for one in settings))
        return next((_refuse_closed(path, path) for path in found), None)

    def against_reading(self, paths: Iterable[str]) -> Decision | None:
        """The refusal of reading files: of a blocked skill, or with keys and passwords."""
        access = self._access
        hidden = next((path for path in paths if access.hides(path)), None)
        if hidden is not None:
            return refuse("protected files", f"{shown(hidden, 300)!r} is closed to tools.", code="file-refused")
        return self._against_blocked(paths)

    def _against_blocked(self, paths: Iterable[str]) -> Decision | None:
        for entry in self._skills.owners(paths):
            if self._guard.is_excluded(subject_of(entry, self._skills.digest(entry)), self._actor):
                return refuse("blocked skill", f"Skill {entry.name!r} is blocked.", code="skill-blocked", hint=BLOCKED)
        return None

    def against_scripts(
        self, event: HookEvent, reading: CommandReading
    ) -> tuple[Decision | None, Mapping[str, Any] | None]:
        """The refusal of a command that runs a script of a skill, or the arguments by which it runs in a sandbox."""
        if reading.is_reading:
            return None, None
        wanted, effective = self._effective.protect_scripts, self._effective
        started = dict(reading.started)
        for entry in self._skills.owners(reading.paths):
            # A script that a client runs is not isolated; that counts where policy says something about it.
            isolated = wanted != "allow" or effective.run.unsandboxed is None
            subject = subject_of(entry, self._skills.digest(entry))
            run = Action(point="run", skill=subject, command=shown(reading.text, 2_000), isolated=isolated)
            decision = self._guard.settle(run, self._actor)
            if not decision.is_allowed:
                return decision, None
            if wanted == "allow":
                continue
            folder = real_path(os.path.dirname(entry.location))
            script = next((path for path in started if is_inside(path, folder)), None)
            name = self._session.parts.known.handle(entry)
            path = os.path.relpath(script, folder) if script else "SCRIPT"
            words, command = started.get(script or "") or (), event.arguments.get("command")
            instead = shlex.join([*_program(), "run", name, path, "--", *words])
            can_rewrite = script is not None and started[script] is not None and isinstance(command, str)
            if wanted == "sandbox" and can_rewrite and PROTOCOLS[event.client].can_rewrite:
                return None, {**event.arguments, "command": instead}
            return refuse(
                f"protect.scripts: {wanted}",
                f"Scripts of skill {entry.name!r} run in a sandbox only.",
                code="isolation-missing",
                hint=for_people(f"Run `{instead}`.", model=f"Run `{_braced(instead)}` instead."),
                origin=effective.origin("protect.scripts"),
            ), None
        return None, None

    def against_patch(self, event: HookEvent, reading: CommandReading, ceilings: Iterable[Ceiling]) -> Decision | None:
        """The refusal of a command with a patch: Codex takes it out of that, and changes the files itself."""
        patch = _PATCH.search(reading.text)
        if patch is None:
            return None
        action = self._session.calls.action("apply_patch", {"command": patch[0]}, (), *ceilings)
        decision = self._guard.settle(replace(action, workspace=event.folder), self._actor)
        return None if decision.is_allowed else decision

    @property
    def _access(self) -> FileAccess:
        context = self._session.context
        return self._guard.files.access(context.workspace, skill_folders(context.index))

    @property
    def _actor(self) -> Actor:
        return self._session.context.actor

    @property
    def _effective(self) -> EffectivePolicy:
        return self._guard.governance.effective


def _program() -> list[str]:
    """The words that start this program, whatever is on the PATH of a client."""
    return [sys.executable, "-I", "-m", "metier"]


def _braced(text: str) -> str:
    """A text that is part of a template."""
    return text.replace("{", "{{").replace("}", "}}")


def _refuse_closed(path: str, place: str) -> Decision:
    return refuse(
        "protected files", protection_reason(path, place), code="protected-place", hint=protection_hint(place)
    )
