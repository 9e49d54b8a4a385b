"""The effective policy: the typed settings that hold, with their defaults, and the lines that set them.

Each setting is declared here, by a field with its default, and in `schema.py`, by the key that sets it.
"""

from __future__ import annotations

import functools
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

from metier._lazy import dataclass, field
from metier.guard.policy.rules import CAPABILITY_NAMES, DEFAULT_RULES, RuleIndex
from metier.skill.listing import Listings
from metier.skill.names import may_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.guard.decision import Origin, Outcome
    from metier.guard.policy.file import Located, PolicyFile, PolicyProblem
    from metier.guard.policy.program import ClosedPolicy, Policy
    from metier.guard.policy.rules import PolicyRule
    from metier.guard.policy.value_types import Allowed
    from metier.scan.pack_store import PackRef
    from metier.skill.tool_rules import ToolRule

NOTIFY_KINDS = ("request", "proposal", "quarantine")


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoApproval:
    """The conditions for approval without a person: all of them must hold."""

    signer: tuple[str, ...] = ()
    """The signers, one of whom must have signed it; empty: it need not be signed."""
    scan_max: str | None = None
    """The worst severity that scanners may have found: `none`, `info`, `low`, `medium` and so on."""
    no_new_capabilities: bool = False
    """Whether it must have no capability that the version approved before did not have."""
    origin: Origin | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalTerms:
    """The section `skill-policy.approval`: who approves of skills, and for how long."""

    approvers: tuple[str, ...] = ("role:reviewer",)
    """`role:reviewer`, `user:ada`, `agent:bot`; a role includes the ones above it."""
    self_approval: bool = True
    """Whether a person may approve of their own request."""
    quorum: int = 1
    expires: int | None = None
    """Seconds; None: it does not expire."""
    auto: AutoApproval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTerms:
    """The section `sources.require`: conditions for what is installed."""

    digest: bool = False
    pinned: bool = False
    signature: tuple[str, ...] = ("oms", "sigstore", "none")
    """The signatures that count, the best first; without `none`, one is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanEngine:
    """A scanner: the built-in one, `core`, or a command that writes SARIF."""

    name: str
    command: str = ""
    """With `{dir}` for the folder of the skill; empty for `core`."""


@dataclass(frozen=True, kw_only=True)
class ScanSettings:
    """The section `scan`."""

    engines: tuple[ScanEngine, ...] = (ScanEngine(name="core"),)
    packs: tuple[PackRef, ...] = ()
    """Packs of rules beside our own, each held to a digest."""
    rescan_after: int | None = None
    """Seconds."""
    suppressions: str | None = None
    """The file with suppressed findings."""
    together: Literal["off", "low", "medium", "high"] = "low"
    """The severity of two skills of which one takes secrets and the other sends; `off` for none."""

    @functools.cached_property
    def commands(self) -> Mapping[str, str]:
        """The command of each scanner that is not built in."""
        return {one.name: one.command for one in self.engines if one.command}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """The section `audit`."""

    max_output: int = 8_192
    max_arguments: int = 2_000
    """Characters of the arguments of a tool call; whoever wants calls to be replayed keeps more."""
    checkpoint_every: int = 100
    key: str | None = None
    """The file with the key that checkpoints are signed with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """The section `run`; None where no file has an opinion."""

    untrusted: Outcome | None = None
    scripts: Outcome | None = None
    unsandboxed: Outcome | None = None
    hooks: Outcome | None = None
    unchecked: Literal["allow", "deny"] | None = None
    injection: Outcome | None = None
    script_reads: Outcome | None = None
    network: Literal["none", "restricted", "host"] | None = None
    hosts: tuple[str, ...] | None = None
    paths: tuple[str, ...] | None = None
    secrets: Mapping[str, tuple[str, ...]] | None = None
    require: tuple[str, ...] | None = None
    limits: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyCommand:
    """The program that is started when an item begins to wait for a decision."""

    run: tuple[str, ...]
    """The program, by an absolute path or a name on the PATH, and its arguments."""
    kinds: tuple[str, ...] = NOTIFY_KINDS
    seconds: int = 10
    """The time after which the program is ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLayer:
    """The tool rules of one policy file."""

    origin: Origin
    allow: tuple[ToolRule, ...] | None = None
    """The only calls there may be; None restricts nothing."""
    ask: tuple[ToolRule, ...] = ()
    deny: tuple[ToolRule, ...] = ()
    lines: Mapping[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class EffectivePolicy:
    """The policy files of all layers, merged so that a weaker one only tightens.

    Each is equal to itself alone, and a key of caches for that reason.

    >>> DEFAULT.mode, DEFAULT.on_error, sorted(DEFAULT.needs_approval("plugin"))[:2]
    ('enforce', 'deny', ['external-downloads', 'file-write'])
    """

    # The settings, one field for each row of the schema.
    mode: Literal["off", "audit", "enforce"] = "enforce"
    on_error: Outcome = "deny"
    store: str | None = None
    """The address of the store; None leaves that to the environment."""
    environment: str | None = None
    """The one environment of this machine; None leaves that to the caller."""
    required: Mapping[str, Origin | None] = field(default_factory=dict, repr=False)
    """The capabilities that need an approval in every skill, each with its line."""
    approval: ApprovalTerms = field(default_factory=ApprovalTerms)
    sources_allow: tuple[Allowed, ...] = ()
    """Lists of sources; a source must be on all of them."""
    sources_deny: tuple[Located, ...] = ()
    sources_require: SourceTerms = field(default_factory=SourceTerms)
    sources_signers: Mapping[str, tuple[Located, ...]] = field(default_factory=dict)
    """Sources, and the signers one of whom must have signed what comes from there."""
    skills_allow: tuple[Allowed, ...] = ()
    skills_deny: tuple[Located, ...] = ()
    listing: Listings = field(default_factory=Listings)
    """The listing modes of skills."""
    pins: Mapping[str, tuple[Located, ...]] = field(default_factory=dict)
    reserved: Mapping[str, Origin] = field(default_factory=dict)
    """Names that only the enterprise layer may define, each with its line."""
    enterprise_names: Literal["allow", "reserve"] = "reserve"
    """Whether other layers may have skills of the names that the enterprise layer has."""
    skills_require_score: int = 0
    """The least score of a skill that is used."""
    skills_require_tests: tuple[str, ...] = ()
    """The tiers of tests that a skill must have passed to be used."""
    proposals_no_test_worse: bool = False
    """Whether no change is applied by which a test fails that passed before."""
    allowed_tools: Mapping[str, Located] = field(default_factory=dict)
    """Layer, source or folder to whether the `allowed-tools` of its skills are `advisory` or `enforced`."""
    rules: tuple[PolicyRule, ...] = DEFAULT_RULES
    """Deny before ask before allow, and the rules of stronger layers before those of weaker ones."""
    run: RunSettings = field(default_factory=RunSettings)
    """The most that anything may do, by the opinions of all files."""
    scan: ScanSettings = field(default_factory=ScanSettings)
    audit: AuditSettings = field(default_factory=AuditSettings)
    usage_queries: Literal["text", "none"] = "none"
    """Whether texts of searches that found nothing are kept."""
    usage_keep_days: int = 400
    """The days that usage is known of one by one."""
    notify: NotifyCommand | None = None
    protect_fail: Literal["open", "closed"] | None = None
    """A tool call of a protected client that nothing can be decided about; None where no file has an opinion."""
    protect_scripts: Literal["allow", "sandbox", "refuse"] = "allow"
    """A script of a skill that a protected client starts itself."""
    protect_skills: Literal["prompt", "conversation"] = "conversation"
    """How long the rules of a skill hold in a protected client."""

    nodes_lease: int | None = None
    """Seconds that the state of a node holds without its server; None leaves that to the server."""
    nodes_offline: Literal["ask", "read-only", "deny"] = "deny"
    """The fate of actions on a node after its lease."""
    nodes_online: Literal["optional", "required"] = "optional"
    """Whether a node asks its server before each load and run."""

    # The files, and values that follow from several settings.
    files: tuple[PolicyFile, ...] = ()
    """The strongest first."""
    digest: str = ""
    """The sha256 of all files together."""
    problems: tuple[PolicyProblem, ...] = ()
    """The problems of the files."""
    errors: tuple[PolicyProblem, ...] = ()
    """The problems that make files broken, so that `on_error` decides."""
    ignored: tuple[PolicyProblem, ...] = ()
    """Settings without effect, as they would loosen those of a stronger file."""
    required_of_plugins: Mapping[str, Origin | None] = field(
        default_factory=functools.partial(dict.fromkeys, CAPABILITY_NAMES), repr=False
    )
    """The capabilities that need an approval in skills of the plugin layer."""
    tool_layers: tuple[ToolLayer, ...] = ()
    """The tool rules of each file."""
    granted: RunSettings = field(default_factory=RunSettings)
    """The grants of the strongest file to a program that has no policy of its own."""
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Every key to its value, to be shown; empty where there is no file."""
    origins: Mapping[str, tuple[Origin, ...]] = field(default_factory=dict, repr=False)
    """The lines that set a key, several where their values add up."""

    @functools.cached_property
    def strict_rules(self) -> RuleIndex:
        """The rules that deny or ask."""
        return RuleIndex(rule for rule in self.rules if rule.effect != "allow")

    @functools.cached_property
    def network_tools(self) -> tuple[str, ...]:
        """The tools that reach the network."""
        return self._tools("tools.network")

    @functools.cached_property
    def write_tools(self) -> tuple[str, ...]:
        """The tools that change files."""
        return self._tools("tools.write")

    def _tools(self, key: str) -> tuple[str, ...]:
        found: tuple[Located, ...] | None = self.values.get(key)
        return default_tools(key) if found is None else tuple(one.text for one in found)

    def origin(self, key: str) -> Origin | None:
        """The line that set a key, of several the strongest; None where no file has an opinion that counts."""
        return next(iter(self.origins.get(key, ())), None)

    def needs_approval(self, layer: str) -> Mapping[str, Origin | None]:
        """The capabilities that need an approval in skills of a layer, each with its line; None is the default."""
        return self.required_of_plugins if layer == "plugin" else self.required

    def pins_of(self, name: str, source: str = "") -> tuple[Located, ...]:
        """The digests that a skill is pinned to; its content must be each of them."""
        return tuple(pin for pattern, pins in self.pins.items() if may_name(pattern, name, source) for pin in pins)

    def narrow(self, policy: Policy | None) -> ClosedPolicy:
        """A program's policy, tightened by the files; without one, the grants of the strongest file.

        A program that has a policy of its own decides on its grants, and files narrow them. Settings that it leaves
        open, such as `network` and `hooks`, the strongest file grants too.
        """
        from metier.guard.policy.intersect import intersect

        return intersect(policy, self.run, self.granted)


DEFAULT = EffectivePolicy(digest=f"sha256:{sha256().hexdigest()}")
"""The effective policy without any policy file."""


@functools.cache
def default_tools(key: str) -> tuple[str, ...]:
    """The tools of a class where no policy names them."""
    from metier.scan.capabilities import NETWORK_TOOLS, WRITE_TOOLS

    return NETWORK_TOOLS if key == "tools.network" else WRITE_TOOLS
