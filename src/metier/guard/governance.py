"""Policy files, approvals and quarantines, as they tighten what a guard decides.

Nothing here loosens: what a guard's own policy denies is denied, whatever is approved.
"""

from __future__ import annotations

import functools
import os
import threading
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from metier._log import logger
from metier._paths import is_inside
from metier.errors import MetierError, StoreUnavailable
from metier.guard.decision import Action, Actor, Decision
from metier.guard.inspection import SuppressionFile
from metier.guard.notify import notifying
from metier.guard.open_stores import open_store, peek_store, remember, require_store, trail_at, was_there
from metier.guard.policy.files import Policies
from metier.guard.verdict import STRICTNESS, asking, strictest, watched
from metier.skill.listing import Listings
from metier.store import GovernanceState, default_store
from metier.store.location import parse_address

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from metier.guard.audit.log import AuditLog, AuditRecord
    from metier.guard.decision import Subject
    from metier.guard.decision_context import DecisionContext
    from metier.guard.inspection import Inspector
    from metier.guard.policy.effective import EffectivePolicy
    from metier.guard.policy.program import ClosedPolicy, Policy
    from metier.guard.policy.tool_layers import ToolLayers
    from metier.guard.verdict import Verdict
    from metier.guard.visibility import Visibility
    from metier.store import Approval, Install, ScanRow, Store, TenantScope

log = logger("metier.guard")

_NOBODY = Actor()
_NO_STATE = GovernanceState()
_NO_LISTINGS = Listings()
UNREADABLE = GovernanceState(is_readable=False)
"""Stands for a store that cannot be used."""
_KEPT = 16
_SERIOUS = frozenset({"high", "critical"})
_TENANTS = 1_000


class Governance:
    """What policy files, approvals and quarantines say to an action.

    >>> from metier.guard import Action, Actor, Subject
    >>> from metier.guard.policy.files import Policies
    >>> ours = Governance(Policies(texts=[("enterprise", "skills: {deny: [miner]}")]), store=None)
    >>> ours.considered(Action(point="load", skill=Subject(name="miner")))[0].rule
    'skills.deny (<enterprise policy 1>:1 (enterprise))'
    """

    def __init__(self, policies: Policies | None = None, *, store: str | None = "default") -> None:
        """The files of `policies`, by default all that count here, and the store at an address; None is no store."""
        self.policies = policies or Policies.discover()
        self._url = default_store() if store == "default" else store
        self._is_named = store != "default" or bool(os.environ.get("METIER_STORE"))
        self._whole: TenantScope | None = None
        self._seen: dict[str, tuple[tuple[object, ...], int]] = {}
        self._version = 0
        self._looking = threading.Lock()
        self._noted: set[str] = set()
        self._narrowed: tuple[object, object, ClosedPolicy] | None = None
        self._tools: tuple[object, ToolLayers] | None = None
        self._suppressions = SuppressionFile()

    @classmethod
    def default(cls, project: str | os.PathLike[str] | None = None) -> Governance:
        """What counts for a program that begins here, and works in a project: one for all of its guards."""
        here, there = _here(), os.path.abspath(project) if project is not None else None
        key = (here, there, *map(os.environ.get, _VARIABLES))
        with _keeping:
            found = _governances.get(key)
            if found is None:
                starts = (None,) if there is None or there == here else (None, there)
                found = _governances[key] = cls(Policies.discover(*starts))
                while len(_governances) > _KEPT:
                    _governances.popitem(last=False)
            return found

    # --- what holds now -----------------------------------------------------------------------------------------------

    @property
    def effective(self) -> EffectivePolicy:
        """What all policy files say together."""
        return self.policies.current()

    @property
    def url(self) -> str | None:
        """Where the store is: where an administrator's policy says, and no program and no variable says otherwise."""
        return self._url_by(self.policies.found())

    def _url_by(self, effective: EffectivePolicy | None) -> str | None:
        return effective.store if effective is not None and effective.store else self._url

    @property
    def policy_digest(self) -> str:
        """The digest of all policy files together."""
        return self.policies.current().digest

    def version_for(self, actor: Actor = _NOBODY) -> int:
        """Changes whenever a policy file, or an approval or quarantine that counts for whoever acts, changed."""
        seen = (self.policies.current(), *self._states(actor))
        tenant = actor.tenant or ""
        kept = self._seen.get(tenant)
        if kept is None or len(kept[0]) != len(seen) or any(a is not b for a, b in zip(seen, kept[0], strict=True)):
            with self._looking:
                if self._seen.get(tenant) is kept:
                    if len(self._seen) >= _TENANTS:
                        self._seen.clear()
                    # Never the number of an earlier state, also when that was forgotten.
                    self._version += bool(kept) or bool(self._seen)
                    self._seen[tenant] = (seen, self._version)
                return self._seen[tenant][1]
        return kept[1]

    @property
    def log(self) -> AuditLog | None:
        """Where records go where nobody says otherwise: the trail in the store."""
        url = self.url
        if url is None:
            return None
        settings = self.policies.current().audit
        return trail_at(url, settings.checkpoint_every, settings.key)

    @property
    def insists_on_records(self) -> bool:
        """Whether nothing may happen that cannot be recorded: an administrator's policy is in force."""
        effective = self.policies.current()
        return effective.mode == "enforce" and any(file.layer == "enterprise" for file in effective.files)

    @property
    def paths(self) -> tuple[str, ...]:
        """All that decides about skills on this machine: policy files, our own folders, and the store."""
        from metier.library.places import named_enterprise_places

        files = (*(place.path for place in self.policies.places), *named_enterprise_places(), *self.own_folders)
        store = self.store_file
        if self.url is None:
            return files
        effective = self.policies.current()
        named = (path for path in (effective.scan.suppressions, effective.audit.key) if path is not None)
        return (*files, *named, *((store,) if store is not None else ()))

    @property
    def own_folders(self) -> tuple[str, ...]:
        """The folders that we make where they are not there: settings, what is trusted, the index, and of the store."""
        from metier.library.index_cache import default_cache_folder
        from metier.library.trust import default_config_folder

        url, cache = self.url, default_cache_folder()
        of_store = (os.fspath(parse_address(url).folder),) if url is not None else ()
        return (os.fspath(default_config_folder()), *((cache,) if cache is not None else ()), *of_store)

    def secret_paths(self, workspace: str) -> tuple[str, ...]:
        """The store, where it is on this machine, keys, tokens, the index, the journal: nobody but us reads them.

        The folder of the store is hidden as a whole, unless it has the workspace in it.
        """
        from metier.guard.audit.checkpoints import default_key_file
        from metier.library.index_cache import default_cache_folder
        from metier.library.trust import default_config_folder

        named, cache = self.policies.current().audit.key, default_cache_folder()
        found = (os.fspath(default_config_folder()), os.fspath(default_key_file().parent), cache, named)
        keys = tuple(path for path in found if path is not None)
        url = self.url
        if url is None:
            return keys
        address = parse_address(url)
        folder = os.fspath(address.folder)
        inner = (os.path.join(folder, name) for name in ("audit", "blobs", "proposals"))
        files = (f"{address.target}{end}" for end in ("", "-wal", "-shm", "-journal"))
        whole = () if is_inside(os.path.realpath(workspace), os.path.realpath(folder)) else (folder,)
        return (*keys, *whole, *inner, *(files if address.kind == "sqlite" else ()))

    @property
    def store_file(self) -> str | None:
        """The file of a store that is one: SQLite makes others beside it, and believes what they say."""
        url = self.url
        address = parse_address(url) if url is not None else None
        return address.target if address is not None and address.kind == "sqlite" else None

    def scope(self, actor: Actor = _NOBODY) -> TenantScope:
        """What the store keeps for whoever acts; makes the store where there is none yet."""
        url = self.url
        if url is None:
            raise StoreUnavailable("There is no store here.", hint="Set METIER_STORE to where it is to be.")
        return open_store(url).of(actor.tenant or "")

    def _store(self, effective: EffectivePolicy | None = None) -> Store | None:
        """The store, if there is one: to decide makes none."""
        url = self._url_by(effective or self.policies.found())
        if url is None:
            return None
        try:
            found = peek_store(url)
        except StoreUnavailable:
            is_left = was_there(url) or os.path.lexists(parse_address(url).target)
            if self._is_named or self.insists_on_records or is_left:
                raise
            return None  # nobody has ever kept anything where nothing can be
        if found is None:
            require_store(url)
        return found

    def _states(self, actor: Actor, effective: EffectivePolicy | None = None) -> tuple[GovernanceState, ...]:
        """What is blocked and approved, for the whole installation and for the tenant of whoever acts."""
        try:
            store = self._store(effective)
            if store is None:
                return (_NO_STATE,)
            whole = self._whole
            if whole is None or whole.store is not store:
                whole = self._whole = store.of("")
            common = whole.state()
            if common.blocked or common.installs or common.has_refusals:
                remember(store.url)
            return (common, store.of(actor.tenant).state()) if actor.tenant else (common,)
        except StoreUnavailable as error:
            # What is approved and what is in quarantine cannot be told, and must not be guessed.
            log.warning("nothing begins while the store cannot be used: %s", error)
            return (UNREADABLE,)

    def narrowed(self, policy: Policy | None) -> ClosedPolicy:
        """A program's policy within what policy files allow; without one, what the strongest file grants."""
        effective, kept = self.policies.current(), self._narrowed
        if kept is not None and kept[0] is effective and kept[1] is policy:
            return kept[2]
        if not effective.files:
            from metier.guard.policy.program import ClosedPolicy, Policy

            found = ClosedPolicy.of(policy or Policy())
        elif effective.mode == "enforce":
            found = effective.narrow(policy)
        else:
            # A policy that only watches takes nothing away; what it grants is granted.
            from metier.guard.policy.effective import RunSettings

            found = replace(effective, run=RunSettings()).narrow(policy)
        self._narrowed = (effective, policy, found)
        return found

    # --- deciding -----------------------------------------------------------------------------------------------------

    def tightened(self, own: Decision, action: Action, actor: Actor) -> Decision:
        """A decision, or a stricter one; where both ask, one question is about both."""
        case = self.case(action, actor)
        if not self._says_anything(case):
            return own
        verdicts = self._verdicts(case)
        worst = strictest(verdicts)
        if worst is None:
            return own
        if worst.is_automatic and own.outcome == "allow":
            return replace(worst.as_decision(), is_automatic=True)
        if worst.outcome == "allow":
            return own
        if case.effective.mode != "enforce" and not worst.is_switch:
            return watched(own, worst) if case.effective.mode == "audit" else own
        if STRICTNESS[worst.outcome] < STRICTNESS[own.outcome]:
            return own
        found = asking(verdicts) if worst.outcome == "ask" else worst.as_decision()
        if own.outcome == "ask" and own.rule != found.rule:
            found = replace(found, reason=f"{own.reason} {found.reason}")
        return found

    def considered(self, action: Action, actor: Actor = _NOBODY) -> list[Verdict]:
        """Everything that has something to say, in the order it was looked at."""
        return self._verdicts(self.case(action, actor))

    def _says_anything(self, case: DecisionContext) -> bool:
        """Whether anything beyond the defaults could have a say: mostly nothing has, which is told at once."""
        effective = case.effective
        if effective.files or any(
            state.blocked or state.approvals or state.installs or state is UNREADABLE for state in case.states
        ):
            return True
        subject = case.subject
        if subject is None:
            return False
        if subject.reserved_by is not None:
            return True
        return (subject.layer == "plugin" or not subject.trusted) and not case.is_bundled

    def _verdicts(self, case: DecisionContext) -> list[Verdict]:
        from metier.guard.checks import CHECKS

        found = [verdict for check in CHECKS for verdict in check(case)]
        if case.action.point == "call":
            tools = self._tool_layers(case.effective)
            if tools:
                found.extend(tools.verdicts(case))
        return found

    def _tool_layers(self, effective: EffectivePolicy) -> ToolLayers:
        kept = self._tools
        if kept is None or kept[0] is not effective:
            from metier.guard.policy.tool_layers import ToolLayers

            kept = self._tools = (effective, ToolLayers(effective))
        return kept[1]

    def case(
        self,
        action: Action,
        actor: Actor,
        effective: EffectivePolicy | None = None,
        states: tuple[GovernanceState, ...] = (),
    ) -> DecisionContext:
        """An action with everything that may have to be known to decide about it."""
        from metier.guard.decision_context import DecisionContext

        effective = effective or self.policies.current()
        states = states or self._states(actor, effective)
        scans = functools.partial(self._scans, actor)
        decided = functools.partial(self._decided, actor)
        replaces = functools.partial(self._replaces, actor)
        suppressions = functools.partial(self._suppressions.current, effective.scan.suppressions)
        return DecisionContext(action, actor, effective, states, _examiner(), scans, suppressions, decided, replaces)

    def _decided(self, actor: Actor, digest: str) -> Sequence[Approval]:
        """All that was decided about a content, and what was taken back of it."""
        store = self._store()
        return store.of(actor.tenant or "").approvals.of(digest) if store is not None else ()

    def _replaces(self, actor: Actor, install: Install, digest: str) -> bool:
        """Whether a content was put in its place by somebody who was killed before that was on record."""
        from metier.guard.content_records import announced

        store = self._store()
        tenants = dict.fromkeys((actor.tenant or "", "")) if store is not None else ()
        return any(announced(store.of(tenant), install, digest) for tenant in tenants if store is not None)

    def _scans(self, actor: Actor, digest: str) -> Sequence[ScanRow]:
        store = self._store()
        return store.of(actor.tenant or "").scans.latest(digest) if store is not None else ()

    def known_severity(self, actor: Actor, digest: str) -> str:
        """The worst that scanners are on record to have found in a content, `none` where nothing serious is.

        Nothing is scanned for it.
        """
        try:
            store = self._store()
            kept = store.of(actor.tenant or "").scans.severities(digest) if store is not None else {}
            rows = self._scans(actor, digest) if _SERIOUS.intersection(kept.values()) else ()
        except MetierError:
            return "none"
        if not rows:
            return "none"
        from metier.guard.scan_records import recorded_severity
        from metier.scan.finding import rank

        suppressions = self._suppressions.current(self.effective.scan.suppressions)
        return max((recorded_severity(row, suppressions) for row in rows), key=rank)

    # --- what is there ------------------------------------------------------------------------------------------------

    def visibility(self, actor: Actor, *, by: Literal["model", "host"], has_reserved: bool) -> Visibility | None:
        """A predicate for skills that must not be used, or that models must not be told of; None where all may.

        Made once for a list of skills: it judges all of them by one state of policy and store. `has_reserved` says
        whether there is one among them whose name belongs to another of the enterprise layer.
        """
        effective, states = self.policies.found(), self._states(actor)
        says_nothing = (effective is None or not effective.files) and not has_reserved
        if says_nothing and not any(state.blocked or state.installs or state.has_refusals for state in states):
            return None
        if effective is None:
            effective = self.policies.current()
        from metier.guard.visibility import Visibility

        return Visibility(lambda action: self.case(action, actor, effective, states), effective, states, by=by)

    @property
    def listings(self) -> Listings:
        """The listing modes that policy files set, as far as policy is enforced."""
        effective = self.policies.found()
        return effective.listing if effective is not None and effective.mode == "enforce" else _NO_LISTINGS

    def may_reach(self, subject: Subject, actor: Actor) -> bool:
        """Whether a skill needs no approval for the network, or has it."""
        case = self.case(Action(point="run", skill=subject), actor)
        wanted = "network-tools" in case.required and case.effective.mode == "enforce"
        return not wanted or "network-tools" in case.standing.grants

    @property
    def may_take_long(self) -> bool:
        """Whether a decision about a skill may have to look into its files, or write something down."""
        return bool(self.policies.current().files) or self._states(_NOBODY) != (_NO_STATE,)

    @property
    def looks_at_rivals(self) -> bool:
        """Whether a rule wants to know which layers have a skill of the same name."""
        return any(rule.collides_with for rule in self.policies.current().rules)

    @property
    def has_noted_policy(self) -> bool:
        """Whether the policy files in force are kept already, so that nothing has to be written for them."""
        effective = self.policies.current()
        return not effective.files or effective.digest in self._noted

    def note_policy(self, actor: Actor, keep: Callable[[AuditRecord], None]) -> None:
        """Keep the policy files that a decision was made under, once, where there is a store to keep them."""
        if self.has_noted_policy:
            return
        effective = self.policies.current()
        self._noted.add(effective.digest)
        from metier.guard.side_effects import note_policy

        try:
            if self._store() is not None:
                note_policy(self.scope(actor), effective, actor, keep)
        except MetierError as error:
            log.warning("the policy in force could not be kept: %s", error)

    # --- what follows -------------------------------------------------------------------------------------------------

    @property
    def names_deciders(self) -> bool:
        """Whether it is settled who decides: people were added to the store, or an administrator's policy is in force.

        From then on deciding is for those people, and what a program says in their place is at most a request.
        """
        if self.insists_on_records:
            return True
        try:
            store = self._store()
        except StoreUnavailable:
            return True  # nobody can tell
        return store is not None and store.has_people

    def against_answer(self, action: Action, actor: Actor, decision: Decision, source: str) -> str | None:
        """The reason against taking an answer from a source, and for waiting; None where it may count."""
        from metier.guard.side_effects import against_answer

        return against_answer(self, self.case(action, actor), decision, source)

    def settled(
        self,
        action: Action,
        actor: Actor,
        first: Decision,
        decision: Decision,
        keep: Callable[[AuditRecord], None],
    ) -> Decision:
        """The decision once everything that follows from it is written down: a request, an approval, a quarantine."""
        from metier.guard.side_effects import settled

        try:
            with notifying(self.effective):
                return settled(self, self.case(action, actor), first, decision, keep)
        except MetierError as error:
            log.warning("what follows from a decision could not be written down: %s", error)
            if not decision.is_allowed:
                return decision
            return Decision(
                outcome="deny",
                reason=f"{decision.reason} It could not be written down: {error.message}",
                rule=decision.rule,
                code=error.code,
                hint=error.hint,
            )


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""  # the folder was removed


_VARIABLES = (
    *("HOME", "USERPROFILE", "PROGRAMDATA", "METIER_POLICY", "METIER_STORE", "METIER_DATA"),
    *("XDG_DATA_HOME", "LOCALAPPDATA", "APPDATA"),
)
"""What says where policy files and the store are."""
_governances: OrderedDict[object, Governance] = OrderedDict()
_keeping = threading.Lock()


@functools.cache
def _examiner() -> Inspector:
    """One for all: what it keeps is true of a content wherever that is."""
    from metier.guard.inspection import Inspector

    return Inspector()
