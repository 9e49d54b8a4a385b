"""What all policy files together say, each value with the line that set it."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from metier.guard.policy.rules import CAPABILITY_NAMES, DEFAULT_RULES, RuleIndex
from metier.skill.listing import Listings
from metier.skill.patterns import may_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.guard.decision import Outcome
    from metier.guard.policy.compound_types import AutoApproval, NotifyCommand
    from metier.guard.policy.file import Origin, PolicyFile, PolicyProblem
    from metier.guard.policy.program import Policy
    from metier.guard.policy.rules import PolicyRule
    from metier.guard.policy.value_types import Located
    from metier.skill.tool_rules import ToolRule

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_PLUGIN_APPROVAL: Mapping[str, Origin | None] = MappingProxyType(dict.fromkeys(CAPABILITY_NAMES))


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalTerms:
    """Who approves of skills, and for how long."""

    approvers: tuple[str, ...] = ("role:reviewer",)
    """`role:reviewer`, `user:ada`, `agent:bot`; a role includes the ones above it."""
    self_approval: bool = True
    """Whether somebody may approve of what they asked for themselves."""
    quorum: int = 1
    expires: int | None = None
    """Seconds; None: it does not run out."""
    auto: AutoApproval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTerms:
    """What is asked of whatever is installed."""

    digest: bool = False
    pinned: bool = False
    signature: tuple[str, ...] = ("oms", "sigstore", "none")
    """The signatures that count, the best first; without `none`, one is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanSettings:
    """Which scanners look at skills."""

    engines: tuple[str, ...] = ("core",)
    commands: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    """For each scanner that is not our own, the command that writes SARIF, with `{dir}` for the skill's folder."""
    rescan_after: int | None = None
    """Seconds."""
    suppressions: str | None = None
    """The file with findings that somebody answers for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """How records are kept."""

    max_output: int = 8_192
    checkpoint_every: int = 100
    key: str | None = None
    """The file with the key that checkpoints are signed with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What policy files say to what runs; None where they have no opinion."""

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
class ToolLayer:
    """The tool rules of one policy file."""

    origin: Origin
    allow: tuple[ToolRule, ...] | None = None
    """The only calls there may be; None restricts nothing."""
    ask: tuple[ToolRule, ...] = ()
    deny: tuple[ToolRule, ...] = ()
    lines: Mapping[tuple[str, str], int] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectivePolicy:
    """What holds: the policy files of all layers, merged so that a weaker one only tightens.

    >>> DEFAULT.mode, DEFAULT.on_error, sorted(DEFAULT.needs_approval("plugin"))[:2]
    ('enforce', 'deny', ['external-downloads', 'file-write'])
    """

    mode: Literal["off", "audit", "enforce"] = "enforce"
    on_error: Outcome = "deny"
    digest: str = ""
    """The sha256 of all files together."""
    store: str | None = None
    """Where approvals, quarantines and the audit trail are; None leaves that to the environment."""
    environment: str | None = None
    """The one environment that this machine is in; None leaves that to whoever acts."""
    files: tuple[PolicyFile, ...] = ()
    """The strongest first."""
    problems: tuple[PolicyProblem, ...] = ()
    """What is wrong with the files."""
    errors: tuple[PolicyProblem, ...] = ()
    """Those that make files broken, so that `on_error` decides."""
    ignored: tuple[PolicyProblem, ...] = ()
    """What files say in vain, as it would loosen what a stronger one says."""
    require_approval_for: frozenset[str] = frozenset()
    """What every skill needs an approval for; see `needs_approval` for those of one layer."""
    approval: ApprovalTerms = field(default_factory=ApprovalTerms)
    sources_allow: tuple[tuple[Origin, tuple[str, ...]], ...] = ()
    """Lists of sources, each with its line; something must be on all of them."""
    sources_deny: tuple[tuple[Origin, str], ...] = ()
    sources_require: SourceTerms = field(default_factory=SourceTerms)
    skills_allow: tuple[tuple[Origin, tuple[str, ...]], ...] = ()
    skills_deny: tuple[tuple[Origin, str], ...] = ()
    listing: Listings = field(default_factory=Listings)
    """The listing modes of skills."""
    pins: Mapping[str, tuple[Located, ...]] = field(default_factory=lambda: _NOTHING)
    reserved: Mapping[str, Origin] = field(default_factory=lambda: _NOTHING)
    """Names that only the enterprise layer may define, each with its line."""
    enterprise_names: Literal["allow", "reserve"] = "reserve"
    """Whether other layers may have skills of the names that the enterprise layer has."""
    tool_layers: tuple[ToolLayer, ...] = ()
    allowed_tools: Mapping[str, Located] = field(default_factory=lambda: _NOTHING)
    """Layer, source or folder to whether the `allowed-tools` of its skills are `advisory` or `enforced`."""
    rules: tuple[PolicyRule, ...] = DEFAULT_RULES
    """Deny before ask before allow, and the rules of stronger layers before those of weaker ones."""
    run: RunSettings = field(default_factory=RunSettings)
    """The most that anything may do, by the opinions of all files."""
    granted: RunSettings = field(default_factory=RunSettings)
    """What the strongest file grants to a program that has no policy of its own."""
    scan: ScanSettings = field(default_factory=ScanSettings)
    audit: AuditSettings = field(default_factory=AuditSettings)
    notify: NotifyCommand | None = None
    """The program that tells people that something waits for them."""
    values: Mapping[str, Any] = field(default_factory=lambda: _NOTHING, repr=False)
    """Every key to its value, for whoever shows them; empty where there is no file."""
    origins: Mapping[str, tuple[Origin, ...]] = field(default_factory=lambda: _NOTHING, repr=False)
    """For each key that a file has set the lines that did, several where what they say adds up."""
    required: Mapping[str, Origin | None] = field(default_factory=lambda: _NOTHING, repr=False)
    """What every skill needs an approval for, each with its line."""
    required_of_plugins: Mapping[str, Origin | None] = field(default_factory=lambda: _PLUGIN_APPROVAL, repr=False)
    """The same for skills of the plugin layer."""
    strict_rules: RuleIndex = field(init=False, repr=False, compare=False)
    """Those of the rules that deny or ask."""

    def __post_init__(self) -> None:
        strict = (rule for rule in self.rules if rule.effect != "allow")
        object.__setattr__(self, "strict_rules", RuleIndex(strict))

    @property
    def network_tools(self) -> tuple[str, ...]:
        """The tools that reach the network."""
        return self._tools("tools.network")

    @property
    def write_tools(self) -> tuple[str, ...]:
        """The tools that change files."""
        return self._tools("tools.write")

    def _tools(self, key: str) -> tuple[str, ...]:
        found: tuple[Located, ...] | None = self.values.get(key)
        return usual_tools(key) if found is None else tuple(one.text for one in found)

    def origin(self, key: str) -> Origin | None:
        """The line that set a key, of several the strongest; None where no file has an opinion that counts."""
        return next(iter(self.origins.get(key, ())), None)

    def needs_approval(self, layer: str) -> Mapping[str, Origin | None]:
        """What a skill of a layer needs an approval for, each with the line that says so; None is the default."""
        return self.required_of_plugins if layer == "plugin" else self.required

    def pins_of(self, name: str, source: str = "") -> tuple[tuple[str, Origin | None], ...]:
        """The digests that a skill is pinned to; its content must be each of them."""
        return tuple(
            (pin.text, pin.origin)
            for pattern, pins in self.pins.items()
            if may_name(pattern, name, source)
            for pin in pins
        )

    def narrow(self, policy: Policy | None) -> Policy:
        """A program's policy, tightened by the files; without one, what the strongest file grants.

        A program that has a policy of its own decides what it grants, and files narrow that. What it leaves open, such
        as `network` and `hooks`, the strongest file grants too.
        """
        from metier.guard.policy.intersect import intersect

        return intersect(policy, self.run, self.granted)


DEFAULT = EffectivePolicy(digest=f"sha256:{sha256().hexdigest()}")
"""What holds where there is no policy file at all."""


@functools.cache
def usual_tools(key: str) -> tuple[str, ...]:
    """The tools of a class where no policy names them."""
    from metier.scan.capabilities import NETWORK_TOOLS, WRITE_TOOLS

    return NETWORK_TOOLS if key == "tools.network" else WRITE_TOOLS
