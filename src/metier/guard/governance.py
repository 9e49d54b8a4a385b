"""Policy files and the store, as they hold right now for a project on this machine.

They only tighten: an action that the program's own policy denies is denied, whatever is approved.
"""

from __future__ import annotations

import functools
import itertools
import operator
import os
import threading
from typing import TYPE_CHECKING, NamedTuple

from metier._cache import BoundedCache, cached_property
from metier._lazy import logger, replace
from metier._paths import default_cache_folder, is_inside
from metier.errors import MetierError, StoreUnavailable
from metier.guard import open_stores
from metier.guard.decision import Actor
from metier.guard.open_stores import Registry, open_store, peek_store, remember, require_store, store_paths, was_there
from metier.guard.policy.files import Policies, path_exists
from metier.library.places import default_config_folder, is_node, named_enterprise_places, node_skills_folder
from metier.skill.listing import Listings
from metier.store.location import default_store, parse_address

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from metier.guard.audit.log import AuditLog, AuditRecord
    from metier.guard.audit.store_log import StoreLog
    from metier.guard.decision import Action, Subject
    from metier.guard.policy.effective import EffectivePolicy
    from metier.guard.policy.program import ClosedPolicy, Policy
    from metier.guard.program_layer import ProgramLayer
    from metier.store import GovernanceState, Store, TenantScope
    from metier.store.location import StoreAddress

log = logger("metier.guard")

_NOBODY = Actor()
_NO_LISTINGS = Listings()
_KEPT = 16
_SERIOUS = frozenset({"high", "critical"})
_TENANTS = 1_000
_ASKED_ABOUT = frozenset({"load", "run", "hook", "inject"})
"""Points before which a node asks its server, where policy wants that."""


class InForce(NamedTuple):
    """The state of policy files and store at one moment, which decisions about actors of one tenant are made under."""

    effective: EffectivePolicy
    """The policy of all files together."""
    states: tuple[GovernanceState, ...]
    """The states of the store: for the whole installation and, behind it, for the tenant; then those of a server."""
    tenant: str | None
    """The tenant of the actor that it was seen for."""

    def for_actor(self, actor: Actor) -> InForce | None:
        """The same, for an actor of the same tenant; None for any other, about whom it says nothing."""
        return self if self.tenant == actor.tenant else None


class Governance:
    """The policy files of a project, and the store with approvals, quarantines and records.

    >>> from metier.guard.policy.files import Policies
    >>> ours = Governance(Policies(texts=[("enterprise", "skills: {deny: [miner]}")]), store=None)
    >>> ours.effective.skills_deny[0][0]
    'miner'
    """

    def __init__(self, policies: Policies | None = None, *, store: str | None = "default") -> None:
        """The files of `policies`, by default all that count here, and the store at an address; None is no store."""
        self.policies = policies or Policies.discover()
        self._url = default_store() if store == "default" else store
        self._is_named = store != "default" or bool(os.environ.get("METIER_STORE"))
        self._whole: TenantScope | None = None
        self._seen: BoundedCache[str, tuple[tuple[object, ...], int]] = BoundedCache(_TENANTS)
        self._numbers = itertools.count()
        self._noted: set[object] = set()
        self._narrowed: tuple[object, object, ClosedPolicy] | None = None

    @classmethod
    def default(cls, project: str | os.PathLike[str] | None = None) -> Governance:
        """The governance of a program that begins here, and works in a project: one for all of its guards."""
        here, there = _here(), os.path.abspath(project) if project is not None else None
        key = (here, there, *map(os.environ.get, _VARIABLES))
        with _keeping:
            found = _governances.get(key)
            if found is None:
                starts = (None,) if there is None or there == here else (None, there)
                found = _governances[key] = cls(Policies.discover(*starts))
            return found

    # --- what holds now -----------------------------------------------------------------------------------------------

    @property
    def effective(self) -> EffectivePolicy:
        """The policy of all files together."""
        return self.policies.current()

    @property
    def url(self) -> str | None:
        """The address of the store; one in an administrator's policy outranks every program and variable."""
        return self._url_by(self.policies.found())

    @property
    def address(self) -> StoreAddress | None:
        """The parts of the address of the store."""
        url = self.url
        return parse_address(url) if url is not None else None

    def _url_by(self, effective: EffectivePolicy | None) -> str | None:
        return effective.store if effective is not None and effective.store else self._url

    def version_for(self, actor: Actor = _NOBODY) -> int:
        """A number that changes with every policy file, and every approval or quarantine that counts for an actor."""
        effective = self.policies.found()
        return self._number_of(effective, self.states(actor, effective), actor)

    def look(self, actor: Actor) -> tuple[int, InForce]:
        """`version_for` and `in_force` of the same moment, by one look at files and store."""
        found = self.in_force(actor)
        return self._number_of(found.effective, found.states, actor), found

    def _number_of(self, effective: EffectivePolicy | None, states: tuple[GovernanceState, ...], actor: Actor) -> int:
        seen = (effective if effective is not None and effective.files else None, *states)
        tenant = actor.tenant or ""
        kept = self._seen.get(tenant)
        if kept is None or len(kept[0]) != len(seen) or not all(map(operator.is_, seen, kept[0])):
            # Never the number of an earlier state, also when that was forgotten.
            kept = self._seen[tenant] = (seen, next(self._numbers))
        return kept[1]

    @property
    def log(self) -> AuditLog | None:
        """The audit log in the store, where records go unless somebody chose another one."""
        url = self.url
        if url is None:
            return None
        settings = self.policies.current().audit
        key = (url, settings.checkpoint_every, settings.key)
        found = _logs.items.get(key)
        if found is None:
            from metier.guard.audit.store_log import StoreLog

            found = _logs.add(key, StoreLog(url, every=settings.checkpoint_every, key=settings.key))
        return found

    @property
    def insists_on_records(self) -> bool:
        """Whether nothing may happen that cannot be recorded: an administrator's policy, or a server's, is in force."""
        effective = self.policies.current()
        if self.policies.node is not None:
            return True
        return effective.mode == "enforce" and any(file.layer == "enterprise" for file in effective.files)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths that decide about skills on this machine: policy files, folders of ours and clients', the store."""
        from metier.library.clients import moved_folders

        files = (*(place.path for place in self.policies.places), *named_enterprise_places(), *self.own_folders)
        files += moved_folders(os.path.expanduser("~"))
        files += (node_skills_folder(),) if is_node() else ()
        if runtime := os.environ.get("XDG_RUNTIME_DIR"):
            files += (os.path.join(runtime, "metier"),)  # the socket of the process that hooks ask
        if self.url is None:
            return files
        effective = self.policies.current()
        named = (effective.scan.suppressions, effective.audit.key, self.store_file)
        return (*files, *(path for path in named if path is not None))

    @property
    def own_folders(self) -> tuple[str, ...]:
        """The folders that we make where they are not there: settings, what is trusted, the index, and of the store."""
        address = self.address
        found = (default_config_folder(), default_cache_folder(), address.folder if address is not None else None)
        return tuple(os.fspath(folder) for folder in found if folder is not None)

    def secret_paths(self, workspace: str) -> tuple[str, ...]:
        """The store, where it is on this machine, keys, tokens, the index, the journal: nobody but us reads them.

        The folder of the store is hidden as a whole, unless it has the workspace in it.
        """
        from metier.guard.audit.checkpoints import default_key_path

        named, address = self.policies.current().audit.key, self.address
        found = (default_config_folder(), os.path.dirname(default_key_path()), default_cache_folder(), named)
        keys = tuple(os.fspath(path) for path in found if path is not None)
        if address is None:
            return keys
        folder = os.fspath(address.folder)
        inner = (os.path.join(folder, name) for name in ("audit", "blobs", "proposals"))
        files = (f"{address.target}{end}" for end in ("", "-wal", "-shm", "-journal"))
        whole = () if is_inside(os.path.realpath(workspace), os.path.realpath(folder)) else (folder,)
        return (*keys, *whole, *inner, *(files if address.kind == "sqlite" else ()))

    @property
    def store_file(self) -> str | None:
        """The file of a store that is one: SQLite makes others beside it, and believes what they say."""
        address = self.address
        return address.target if address is not None and address.kind == "sqlite" else None

    def scope(self, actor: Actor = _NOBODY) -> TenantScope:
        """The scope of an actor in the store, which is made where there is none yet."""
        url = self.url
        if url is None:
            raise StoreUnavailable("There is no store here.", hint="Set METIER_STORE to where it is to be.")
        return open_store(url).of(actor.tenant or "")

    def known_scope(self, actor: Actor) -> TenantScope | None:
        """The scope of an actor in the store, if there is one."""
        store = self.store()
        return store.of(actor.tenant or "") if store is not None else None

    # --- the store ----------------------------------------------------------------------------------------------------

    def store(self, effective: EffectivePolicy | None = None) -> Store | None:
        """The store, if there is one: to decide makes none."""
        effective = effective or self.policies.found()
        url = self._url_by(effective)
        if url is None or self._is_without_store(effective):
            return None
        found = open_stores.OPEN.items.get(url)
        if found is not None:
            return found
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

    def states(self, actor: Actor, effective: EffectivePolicy | None = None) -> tuple[GovernanceState, ...]:
        """The blocks, approvals and installs in the store, for the whole installation and for the actor's tenant.

        On a node those of its server follow.
        """
        effective = effective or self.policies.found()
        node = self.policies.node
        if node is None:
            return self._stored_states(actor, effective)
        most = effective.nodes_lease if effective is not None else None
        return (*self._stored_states(actor, effective), *node.states(most))

    def _stored_states(self, actor: Actor, effective: EffectivePolicy | None) -> tuple[GovernanceState, ...]:
        store = open_stores.OPEN.items.get(self._url_by(effective) or "")
        if store is None and self._is_without_store(effective):
            return _no_states()
        try:
            store = store or self.store(effective)
            if store is None:
                return _no_states()
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
            return _no_states(is_readable=False)

    def _is_without_store(self, effective: EffectivePolicy | None) -> bool:
        """Whether one look at the disk tells that nobody ever kept anything here."""
        if self._is_named or (effective is not None and effective.files):
            return False
        return self._url not in open_stores.OPEN.items and not any(map(path_exists, self._store_paths))

    @cached_property
    def _store_paths(self) -> tuple[str, ...]:
        """The paths that tell whether there is, or was, a store; decisions look at them as long as there is none."""
        return store_paths(self._url) if self._url is not None else ()

    def in_force(self, actor: Actor, effective: EffectivePolicy | None = None) -> InForce:
        """The policy and the state of the store that hold right now for an actor."""
        effective = effective or self.policies.current()
        return InForce(effective, self.states(actor, effective), actor.tenant)

    def in_force_for(self, action: Action, actor: Actor, found: InForce | None = None) -> InForce | None:
        """`in_force` where anything beyond the defaults could have a say; None where nothing has, as mostly.

        `found` is what a caller has just seen to be in force; one of another tenant is not used.
        """
        found = (found and found.for_actor(actor)) or self.in_force(actor)
        if found.effective.nodes_online == "required" and action.point in _ASKED_ABOUT:
            found = self._confirm(found, actor)
        if found.effective.files or any(map(_has_say, found.states)):
            return found
        subject = action.skill
        if subject is None:
            return None
        if subject.reserved_by is not None or (action.point in ("run", "hook") and _may_need_packages(subject)):
            return found
        return found if (subject.layer == "plugin" or not subject.trusted) and not subject.is_bundled else None

    def asks_server(self, action: Action) -> bool:
        """Whether the server of this node is asked before an action, which takes a while."""
        if action.point not in _ASKED_ABOUT:
            return False
        return self.policies.current().nodes_online == "required" and self.policies.node is not None

    def _confirm(self, found: InForce, actor: Actor) -> InForce:
        """The state once the server of this node was asked, with the fault where it does not answer."""
        node = self.policies.node
        if node is None or node.binding is None:
            return found
        from metier.guard.node.exchange import confirm
        from metier.guard.node.faults import OFFLINE

        if confirm(node.binding):
            return self.in_force(actor)
        last = found.states[-1]
        return found._replace(states=(*found.states[:-1], replace(last, fault=last.fault or OFFLINE)))

    def in_force_for_lists(self, actor: Actor, *, has_reserved: bool) -> InForce | None:
        """`in_force` where some skill may have to be kept from a list; None where nothing can be against any.

        `has_reserved` says whether the name of one of them belongs to another of the enterprise layer.
        """
        effective = self.policies.found()
        if effective is None and not has_reserved and self._is_without_store(None):
            return None
        states = self.states(actor, effective)
        if any(state.blocked or state.installs or state.has_refusals or state.managed for state in states):
            return self.in_force(actor, effective)
        has_files = effective is not None and bool(effective.files)
        if not has_files and not has_reserved:
            return None
        return InForce(effective or self.policies.current(), states, actor.tenant)

    def recorded_tests(self, actor: Actor) -> Mapping[str, Mapping[str, str]]:
        """The results of tests on record, by digest: verdicts by tier, and `score`."""
        effective = self.policies.found()
        if self._is_without_store(effective) and self.policies.node is None:
            return {}
        found: dict[str, Mapping[str, str]] = {}
        for state in self.states(actor, effective):
            found.update(state.tested)
        return found

    def known_severity(self, actor: Actor, digest: str) -> str:
        """The worst finding on record for a content, `none` where nothing serious is; nothing is scanned for it."""
        try:
            scope = self.known_scope(actor)
            if scope is None or _SERIOUS.isdisjoint(scope.scans.severities(digest).values()):
                return "none"
            rows = scope.scans.latest(digest)
        except MetierError:
            return "none"
        from metier.guard.inspection import current_suppressions
        from metier.guard.scan_records import recorded_severity
        from metier.scan.finding import rank

        suppressions = current_suppressions(self.effective.scan.suppressions)
        return max((recorded_severity(row, suppressions) for row in rows), key=rank, default="none")

    # --- what policy files say ----------------------------------------------------------------------------------------

    @property
    def listings(self) -> Listings:
        """The listing modes that policy files set, as far as policy is enforced."""
        effective = self.policies.found()
        return effective.listing if effective is not None and effective.mode == "enforce" else _NO_LISTINGS

    @property
    def may_take_long(self) -> bool:
        """Whether a decision about a skill may have to look into its files, or write something down."""
        effective = self.policies.current()
        return bool(effective.files) or self.states(_NOBODY, effective) != _no_states()

    @property
    def looks_at_rivals(self) -> bool:
        """Whether a rule asks which layers have a skill of the same name."""
        return any(rule.collides_with for rule in self.policies.current().rules)

    def has_noted(self, effective: EffectivePolicy, program: ProgramLayer, actor: Actor) -> bool:
        """Whether the policies of a decision are in the store already, so that nothing has to be written for them."""
        return self._has_noted_files(effective) and self._has_noted_program(program, actor)

    def _has_noted_files(self, effective: EffectivePolicy) -> bool:
        return not effective.files or effective.digest in self._noted

    def _has_noted_program(self, program: ProgramLayer, actor: Actor) -> bool:
        if not program.digest or (actor.tenant, program.digest) in self._noted:
            return True
        try:
            return self.store() is None
        except MetierError:
            return True

    def note_policy(
        self,
        effective: EffectivePolicy,
        program: ProgramLayer,
        actor: Actor,
        record: Callable[[AuditRecord], None],
    ) -> None:
        """Keep the policy files that a decision was made under, and the program's own policy, each under its digest.

        That happens once, where there is a store to keep them.
        """
        try:
            if not self._has_noted_files(effective):
                self._noted.add(effective.digest)
                from metier.guard.side_effects import note_policy

                if self.store() is not None:
                    note_policy(self.scope(actor), effective, actor, record)
            if not self._has_noted_program(program, actor):
                self._noted.add((actor.tenant, program.digest))
                self.scope(actor).policies.keep(program.digest, "program", "", program.text)
        except MetierError as error:
            log.warning("the policy in force could not be kept: %s", error)

    @property
    def names_deciders(self) -> bool:
        """Whether it is settled who decides: people were added to the store, or an administrator's policy is in force.

        From then on deciding is for those people, and a program's answer in their place is at most a request.
        """
        if self.insists_on_records:
            return True
        try:
            store = self.store()
        except StoreUnavailable:
            return True  # nobody can tell
        return store is not None and store.has_people

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


def _may_need_packages(subject: Subject) -> bool:
    """Whether scripts of a skill declare packages, or nobody can tell."""
    if subject.entry is None or not subject.digest:
        return False
    from metier.skill.script_packages import declared_packages

    try:
        return bool(declared_packages(subject.entry.package, subject.digest, subject.copy))
    except MetierError:
        return True


def _has_say(state: GovernanceState) -> bool:
    return bool(state.blocked or state.approvals or state.installs or state.managed or not state.is_readable)


@functools.cache
def _no_states(*, is_readable: bool = True) -> tuple[GovernanceState, ...]:
    from metier.store import GovernanceState

    return (GovernanceState(is_readable=is_readable),)


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""  # the folder was removed


_VARIABLES = (
    *("HOME", "USERPROFILE", "PROGRAMDATA", "METIER_POLICY", "METIER_STORE", "METIER_DATA"),
    *("XDG_DATA_HOME", "LOCALAPPDATA", "APPDATA", "METIER_CONFIG", "XDG_CONFIG_HOME"),
)
"""The variables that name the places of policy files and store, and of what is noted of a store elsewhere."""
_governances: BoundedCache[object, Governance] = BoundedCache(_KEPT)
_keeping = threading.Lock()
_logs: Registry[tuple[str, int, str | None], StoreLog] = Registry()
