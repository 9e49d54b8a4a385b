"""One load of skills into a session: each is decided about, read in one consistent state, and then takes effect."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from metier._lazy import logger, replace
from metier.errors import ActivationFailed, InvalidArgument, MetierError, Refused, SkillChanged
from metier.guard import Action, Subject
from metier.guard.audited_action import failure_code
from metier.guard.decision import refuse
from metier.guard.inspection import findings_together
from metier.hints import WITHOUT_IT, Hint, for_people, invoke_skill
from metier.run import job_environment
from metier.session.active_skills import MAX_NESTING, active_skill, is_same, is_same_load, subject_of
from metier.session.events import Event
from metier.session.injection import find_commands, inject
from metier.session.substitution import named_values, render, split_arguments, standard_variables, substitute
from metier.skill import FolderPackage, shown
from metier.skill.skill_requirement import parse_skill_requirement
from metier.skill.tool_rules import parse_rules, unknown_tools

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from metier.guard import Decision
    from metier.guard.audited_action import AuditedAction
    from metier.library import Entry
    from metier.library.document_cache import PackageDigest
    from metier.session.active_skills import ActiveSkill
    from metier.session.context import By, SessionParts
    from metier.session.injection import InjectedCommand
    from metier.session.substitution import Segment
    from metier.skill import Document, PackageListing
log = logger("metier.session")

_ATTEMPTS = 3


class LoadTransaction:
    """One load, from the decisions about its skills to the moment it takes effect or is abandoned."""

    def __init__(self, parts: SessionParts, by: By, arguments: str) -> None:
        self._parts = parts
        self._context = parts.context
        self._known = parts.known
        self._loaded = parts.loaded
        self._by = by
        self._arguments = arguments
        self._wanted: dict[str, Entry | None] = {}
        self._bare: set[str] = set()
        self._entered: set[str] = set()
        self._decided: dict[str, PackageDigest] = {}
        self._audited_actions: list[tuple[AuditedAction, str]] = []
        """With the name of the skill that each is about."""
        self._hooked: list[ActiveSkill] = []
        self._copied: list[ActiveSkill] = []
        self._noted: dict[str, list[str]] = {}
        self.together: list[str] = []
        """What the skills do with others that are active."""
        self._beside: dict[str, Subject] = {}
        """The skills that were decided about before, by their names."""

    def _with_dependencies(self, entries: Sequence[Entry]) -> list[Entry]:
        """The skills with those that they require before them; raises `ActivationFailed` for a cycle."""
        found: dict[str, Entry] = {}

        def add(entry: Entry, chain: tuple[str, ...]) -> None:
            path = " -> ".join((*chain, entry.name))
            if entry.name in chain:
                raise ActivationFailed(
                    f"Skill {entry.name!r} requires itself: {path} is a cycle.",
                    hint="Remove one of these `requires`.",
                    name=entry.name,
                )
            if len(chain) > MAX_NESTING:
                raise ActivationFailed(
                    f"The skills that {chain[0]!r} requires are nested too deep: {path}.",
                    hint=f"At most {MAX_NESTING} may build on one another.",
                    name=entry.name,
                )
            if entry.name not in found:
                for text in entry.skill.requires:
                    add(self._required(entry, text), (*chain, entry.name))
                found[entry.name] = entry

        for entry in entries:
            add(entry, ())
        return list(found.values())

    def _required(self, entry: Entry, text: str) -> Entry:
        """The skill that another one requires; raises `ActivationFailed` for a version that is not what it needs."""
        requirement = parse_skill_requirement(text)
        found = self._known.find(requirement.reference, by=self._by)
        if not requirement.allows(found.skill.version):
            raise ActivationFailed(
                f"Skill {entry.name!r} needs {requirement}, and {found.skill.version or 'no version'} is here.",
                hint=for_people("`metier update` may bring it.", model=WITHOUT_IT),
                name=entry.name,
            )
        return found

    def prepare(self, names: Sequence[str], *, is_bound: bool = False) -> list[ActiveSkill]:
        """The skills, decided about and read; raises, with a record for each, when one of them cannot be loaded.

        Those that are bound count beside as many others as may be active.
        """
        try:
            self._wanted = dict.fromkeys(names)
            entries = list({(id(entry.place), entry.key): entry for entry in map(self._find, names)}.values())
            if self._context.options.dependencies == "load":
                entries = self._with_dependencies(entries)
            self._require_few(entries, is_bound=is_bound)
            decided = [(entry, self._enter(entry)) for entry in entries]
            return [self._prepared(entry, digest) for entry, digest in decided]
        except BaseException as error:
            self._abandon(error)
            raise

    @contextlib.contextmanager
    def committed(self) -> Iterator[None]:
        """While the load is put in force; when that fails, it comes to nothing."""
        try:
            yield
        except BaseException as error:
            self._abandon(error)
            raise
        active = tuple([one.label for one in self._loaded.held])
        for audited, _ in self._audited_actions:
            audited.close(success=True, active=active)

    def note(self, text: str) -> None:
        """Say something more in the records of the load."""
        for audited, name in self._audited_actions:
            audited.runs_with(notes=(*self._noted.get(name, ()), text))

    def require_unchanged(self, loaded: Sequence[ActiveSkill]) -> None:
        """Raise unless every skill is still there and not blocked: that may have changed while it was read."""
        context, known = self._context, self._known
        for one in loaded:
            entry = context.index.get(known.handle(one.entry))
            if not is_same(entry, one.entry):
                raise SkillChanged(
                    f"Skill {one.name!r} was replaced while it was loaded.", hint="Load it again.", name=one.name
                )
            excluded = context.guard.excluded_skills(
                context.actor, by="host", has_reserved=entry.reserved_by is not None
            )
            if excluded is not None and excluded(subject_of(entry, one.digest)):
                nested = self._loaded.is_nested
                action = known.load_action(entry, one.digest, self._by, nested=nested)
                raise context.guard.decide(action, context.actor).as_error()

    def render(self, entry: Entry, digest: str) -> str:
        """The text of a skill that is a message of the user's, with the content that was decided about."""
        active, document = self._begun(entry, digest)
        values = named_values(document.skill.arguments, split_arguments(self._arguments))
        text = ""
        try:
            self._check(active)
            text = render(
                self._injected(document, active),
                document.skill.arguments,
                values,
                variables=self._variables(active.root) | {"ARGUMENTS": self._arguments},
            ).text
        finally:
            self._tidy_up()
            if active.root not in text:
                # A message that names it is read for as long as the session lasts.
                self._parts.copies.forget(active)
        return text

    def _find(self, name: str) -> Entry:
        entry = self._known.find(name, by=self._by)
        self._wanted[name] = entry
        if "@" not in name:
            self._bare.add(entry.name)
        return entry

    def _require_few(self, entries: Sequence[Entry], *, is_bound: bool) -> None:
        most, names = self._context.options.max_active, {entry.name for entry in entries}
        if len(names) < len(entries):
            raise InvalidArgument(
                "Two skills of one name cannot be active at once.", hint="Load one of them, by name@source."
            )
        others = 0 if is_bound else len(names - self._loaded.bound)
        if others > most:
            raise too_many(others, most)

    def _enter(self, entry: Entry) -> str:
        """The digest of what was decided about."""
        context, known = self._context, self._known
        context.emit(Event(kind="loading", skill=entry.name, message=f"Loading {entry.name} ..."))
        content = self._decided[entry.name] = context.index.content(entry)
        digest = content.digest
        # From here on the guard records what becomes of it.
        self._entered.add(entry.name)
        action = known.load_action(entry, digest, self._by, nested=self._loaded.is_nested)
        beside = {one.name: one.subject for one in self._loaded.held} | self._beside
        beside.pop(entry.name, None)
        action = replace(action, beside=tuple(beside.values()))
        audited = context.guard.enter(action, context.actor)
        self._audited_actions.append((audited, entry.name))
        notes = self._noted[entry.name] = [*self._notes(entry, digest), *self._notes_together(action)]
        if notes:
            audited.runs_with(notes=notes)
            log.warning("loading %s: %s", entry.name, " ".join(notes))
        audited.require()
        if entry.skill.insert == "user-message":
            raise ActivationFailed(
                f"Skill {entry.name!r} is a message of the user's and cannot be active.",
                hint=invoke_skill(entry.name),
                name=entry.name,
            )
        return digest

    def _notes(self, entry: Entry, digest: str) -> list[str]:
        """Notes for people about a load: findings of scanners, other skills of its name, tools that are not known."""
        context, index = self._context, self._context.index
        found: list[str] = []
        severity = context.guard.governance.known_severity(context.actor, digest)
        if severity in ("high", "critical"):
            found.append(f"Skill {entry.name!r} has findings of severity {severity}.")
            context.emit(Event(kind="noted", skill=entry.name, message=found[-1]))
        if self._loaded.is_inline(entry):
            found.append(f"Skill {entry.name!r} asks for an agent of its own, and is loaded into this conversation.")
            context.emit(Event(kind="noted", skill=entry.name, message=found[-1]))
        if entry.layer == "plugin" and entry.name in self._bare:
            rest = index.snapshot.view(index.caller).rest
            others = [one for one in rest if one.name == entry.name and one.layer == "plugin" and one.shadowed_by]
            if others:
                named = ", ".join(one.reference for one in others)
                found.append(f"Several packages define {entry.name!r}: this is {entry.reference}, not {named}.")
        known = self._known.machine
        own = set(map(known.tool_name, known.tools or ()))
        unknown = [name for name in unknown_tools(entry.skill.allowed_tools) if known.tool_name(name) not in own]
        if unknown:
            found.append(f"Its allowed-tools name tools that are not known: {shown(', '.join(unknown), 300)}.")
        return found

    def _notes_together(self, action: Action) -> list[str]:
        """Notes about what the skill does with another one that is active, or is loaded with it."""
        if action.skill is None:
            return []
        self._beside[action.skill.name] = action.skill
        settings = self._context.guard.governance.effective.scan
        subjects = (*action.beside, action.skill)
        try:
            together = findings_together(subjects, settings, is_known_enough=settings.together == "low")
        except MetierError:
            return []  # what cannot be scanned is for rules of policy to decide about
        self.together += [found.message for found in together]
        for message in self.together[len(self.together) - len(together) :]:
            self._context.emit(Event(kind="noted", skill=action.skill.name, message=message))
        return [f"{found.severity} {found.rule}: {found.message}" for found in together]

    def again(self, entry: Entry, digest: str) -> ActiveSkill:
        """A skill that was loaded before, in a session that goes on. Its check is made again, as whatever says that it
        was made may come from anywhere."""
        active, document = self._begun(entry, digest)
        try:
            self._check(active)
            return self._with_body(active, document)
        except BaseException:
            self._tidy_up()
            self._parts.loader.forget_copies(self._copied)
            raise

    def _prepared(self, entry: Entry, digest: str) -> ActiveSkill:
        active, document = self._begun(entry, digest)
        loaded = self._loaded.open
        for one in loaded:
            same = (one.digest, one.arguments) == (active.digest, self._arguments)
            if same and is_same(one.entry, entry) and not one.is_stale:
                return one
        if not any(is_same_load(one, active) for one in loaded):
            self._check(active)
        return self._with_body(active, document)

    def _check(self, active: ActiveSkill) -> None:
        """Run the check of a skill that has one; raises where it fails, or does not run."""
        if active.skill.hooks is None:
            return
        self._hooked.append(active)
        try:
            self._parts.hooks.before_load(active, self._context.actor)
        except Refused:
            # What never began has nothing to tidy up.
            self._hooked.remove(active)
            raise

    def _begun(self, entry: Entry, decided: str) -> tuple[ActiveSkill, Document]:
        context = self._context
        document, digest, listing = self._read(entry)
        if digest != decided:
            # Whoever allowed it, and whatever was approved, was about other content: asking takes as long as it takes.
            raise SkillChanged(
                f"Skill {entry.name!r} was changed after it was decided whether it may be loaded.",
                hint="Load it again.",
                name=entry.name,
            )
        root = self._parts.copies.keep(entry, digest, listing)
        for audited, name in self._audited_actions:
            if name == entry.name:
                audited.note_copy(root)
        where = {"root": root, "workspace": context.workspace, "session": context.id}
        begun = active_skill(entry, document.skill, digest, listing, context.guard, **where)
        active = replace(begun, arguments=self._arguments, by=self._by)
        self._copied.append(active)
        return active, document

    def _with_body(self, active: ActiveSkill, document: Document) -> ActiveSkill:
        injected = self._injected(document, active)
        if isinstance(injected, str) and not self._arguments and "$" not in injected and "{" not in injected:
            return replace(active, body=injected)
        body = substitute(
            injected,
            variables=self._variables(active.root),
            arguments=self._arguments,
            declared=document.skill.arguments,
        )
        return replace(active, body=body.text)

    def _read(self, entry: Entry) -> tuple[Document, str, PackageListing]:
        """Instructions, digest and files of one and the same state of the package."""
        index = self._context.index
        decided = self._decided.pop(entry.name, None)
        for _ in range(_ATTEMPTS):
            before, decided = decided or index.content(entry), None
            handle = self._known.handle(entry)
            document = index.document(handle)
            listing = index.listing(entry, before)
            after = index.content(entry)
            # The digest alone could be that of a state before and after the one whose text was read.
            if document.sha256 in before.texts and after.digest == before.digest and is_same(index.get(handle), entry):
                if after is before:
                    index.keep_listing(entry, before, listing)
                return document, before.digest, listing
        raise SkillChanged(
            f"The files of skill {entry.name!r} are being changed.", hint="Load it again.", name=entry.name
        )

    def _injected(self, document: Document, active: ActiveSkill) -> str | Sequence[Segment]:
        """The body with what its commands print, where policy lets them run; a record for each of them."""
        wanted = [command for marker in find_commands(document.body) for command in marker.commands]
        if not wanted:
            return document.body
        context, parts = self._context, self._parts

        def against(words: list[str]) -> str | None:
            """The reason for which a call of Bash with it would be refused."""
            decision = parts.calls.decide("Bash", {"command": words}, active.ceiling)
            return None if decision.is_allowed else decision.reason

        action = Action(
            point="inject",
            skill=active.subject,
            # Whoever is asked sees what would be run.
            arguments={"commands": wanted},
            by="host",
            isolated=parts.sandbox.isolates(active),
        )
        # A skill that is not on disk came over some wire: its commands are nobody's to run.
        decision = context.guard.settle(action, context.actor)
        if not isinstance(active.entry.package, FolderPackage):
            reason = "A skill that is not on this disk has no commands to run here."
            decision = refuse("injection", reason, code="injection-denied")
        if decision.code == "approval-pending":
            # Nothing is loaded while somebody is being asked: the load is made again with the answer.
            raise decision.as_error()
        rules = document.skill.allowed_tools
        with contextlib.ExitStack() as used:
            if decision.is_allowed:
                used.enter_context(parts.copies.of(active))
            injected = inject(
                document.body,
                rules=None if rules is None else parse_rules(rules),
                enabled=decision.is_allowed,
                because=decision.reason,
                runner=parts.sandbox.runner_for_skill(active, isolated=action.isolated),
                folder=context.workspace,
                env=job_environment(workspace=context.workspace, skill_dir=active.root, session_id=context.id),
                roots=(active.root,),
                against=against,
            )
        for command in injected.commands:
            self._record(command, replace(action, command=command.command), decision)
        return injected.segments

    def _record(self, command: InjectedCommand, action: Action, decision: Decision) -> None:
        """One record, and for a command that was not run an event, for what the instructions asked to have run."""
        context = self._context
        code = "" if command.is_success else f"command-{command.result}"
        if decision.is_allowed and command.result == "blocked":
            decision = refuse("injection", command.text.strip("[]"), code=code)
        audited = context.guard.audit(action, context.actor, decision)
        audited.close(success=command.is_success, code=code, duration_ms=command.duration_ms, runner=command.runner)
        if command.result == "blocked" and action.skill is not None:
            context.emit(Event(kind="refused", skill=action.skill.name, code=code, message=decision.reason))

    def _variables(self, root: str) -> dict[str, str]:
        context = self._context
        return standard_variables(
            workspace=context.workspace, skill_dir=root, session_id=context.id, user=context.actor.user
        )

    def _tidy_up(self) -> None:
        """Run `post` for each skill whose `pre` began something, where it is not used after all, or no longer."""
        for active in self._hooked:
            self._parts.hooks.after_unload(active, self._context.actor)

    def _abandon(self, error: BaseException) -> None:
        context = self._context
        code = failure_code(error)
        try:
            self._tidy_up()
        finally:
            self._parts.loader.forget_copies(self._copied)
            wanted = (
                Subject(name=shown(name)) if entry is None else subject_of(entry)
                for name, entry in self._wanted.items()
            )
            for subject in dict.fromkeys(wanted):
                if subject.name not in self._entered:
                    # What was asked for beside it, or is not there, was asked for all the same.
                    action = Action(point="load", skill=subject, by=self._by)
                    decision = context.guard.decide(action, context.actor)
                    audited = context.guard.audit(action, context.actor, decision)
                    self._audited_actions.append((audited, subject.name))
            for audited, name in self._audited_actions:
                audited.close(success=False, code=code)
                context.emit(Event(kind="refused", skill=name, code=code, message=str(error)))


def too_many(count: int, most: int) -> InvalidArgument:
    """The error for more skills than may be active."""
    return InvalidArgument(
        f"{count} skills would be active; {most} are the most.",
        hint=Hint(
            "Load fewer, or unload some first.", model=("Get fewer, or end some first with {unload}.", "Get fewer.")
        ),
    )
