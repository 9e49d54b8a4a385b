"""Every key that a policy file can have: what it is for, what its value is, and what holds without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from metier.guard.policy.allowed_tools import EnforcementMap
from metier.guard.policy.compound_types import (
    Approvers,
    AutoApprovals,
    Engine,
    Engines,
    Limits,
    NotifyCommandType,
    Secrets,
    Tools,
    covers_host,
    covers_path,
    plain_host,
    wrong_for_policy,
)
from metier.guard.policy.rule_parser import Rules
from metier.guard.policy.rules import CAPABILITY_NAMES, DEFAULT_RULES
from metier.guard.policy.value_types import (
    AllowLists,
    Choice,
    Denied,
    Duration,
    Flag,
    Modes,
    Number,
    Pins,
    Text,
    Within,
)
from metier.skill import shown
from metier.skill.tool_rules import parse_rules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.guard.policy.value_types import Kind

APPROVABLE = (*CAPABILITY_NAMES, "new-capability")
"""What `require-approval-for` can name."""
NEEDS = ("files", "network", "hosts", "descendants", "memory", "processes", "disk", "calls")
SIGNATURES = ("oms", "sigstore", "none")
LIMITS = ("seconds", "output_bytes", "memory_bytes", "processes", "file_bytes", "disk_bytes", "open_files")


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a policy file."""

    name: str
    kind: Kind[Any]
    default: Any
    """What holds where no file has an opinion; None for no opinion."""
    about: str
    """One sentence for the reference."""


def _one_of(*words: str) -> Any:
    return lambda text: "" if text in words else f"{shown(text)!r}, which is none of {', '.join(words)}"


def _wrong_rule(text: str) -> str:
    return f"{shown(text)!r}, which is no rule" if any(rule.is_malformed for rule in parse_rules(text)) else ""


def _wrong_source(text: str) -> str:
    return "" if ":" in text or text == "*" else f"{shown(text)!r}, which names no kind of source"


_OUTCOME = Choice("allow", "ask", "deny")
_SOURCES = '["dir:*", "git+https://github.com/acme/*"]'
_SKILLS = '["pdf", "crypto-*@*"]'
_ALL_KEYS = (
    Key("version", Choice("1"), "1", "The version of this format: 1."),
    Key("strict", Flag(), False, "Whether a key that nobody knows is an error."),
    Key(
        "store",
        Text("the address of a store, such as postgresql://db.example.com/metier"),
        None,
        "Where approvals, quarantines and the audit trail are, whatever the environment says.",
    ),
    Key(
        "machine.environment",
        Text("the name of an environment, such as production"),
        None,
        "The environment that this machine is in, for administrators to say: whoever names another one is refused, and "
        "who names none is in it.",
    ),
    Key("mode", Choice("off", "audit", "enforce"), "enforce", "`audit` decides and records, but blocks nothing."),
    Key(
        "on-error",
        Choice("allow", "ask", "deny"),
        "deny",
        "What happens to loading, running and installing where a policy file cannot be read or a scanner fails.",
    ),
    Key(
        "skill-policy.require-approval-for",
        Denied(f"[{', '.join(APPROVABLE[:3])}]", _one_of(*APPROVABLE)),
        (),
        "What a skill can do only after somebody approved of exactly this content. Without it, that is so for all "
        "capabilities of skills in the plugin layer.",
    ),
    Key("skill-policy.approval.bind", Choice("digest"), "digest", "What an approval is bound to: the content."),
    Key("skill-policy.approval.approvers", Approvers(), ("role:reviewer",), "Who may approve."),
    Key("skill-policy.approval.self-approval", Choice("allow", "deny"), "allow", "Approving one's own request."),
    Key("skill-policy.approval.quorum", Number(1, 100, strict=max), 1, "How many people must approve."),
    Key("skill-policy.approval.expires", Duration(), None, "How long an approval counts."),
    Key(
        "skill-policy.approval.auto-approve-when",
        AutoApprovals(),
        None,
        "What is approved without a person; all conditions must hold.",
    ),
    Key("sources.allow", AllowLists(_SOURCES, _wrong_source), (), "Where skills may come from; `[]` is nowhere."),
    Key("sources.deny", Denied(_SOURCES, _wrong_source), (), "Where skills never come from."),
    Key("sources.require.digest", Flag(), False, "Whether what is installed must name its content."),
    Key("sources.require.pinned", Flag(), False, "Whether what is installed must name an exact version."),
    Key(
        "sources.require.signature",
        Within("[oms, none]", _one_of(*SIGNATURES)),
        SIGNATURES,
        "The signatures that count, the best first; without `none`, one is needed.",
    ),
    Key("skills.allow", AllowLists(_SKILLS), (), "The only skills there may be; `[]` is none."),
    Key("skills.deny", Denied(_SKILLS), (), "Skills that are not there."),
    Key(
        "skills.listing",
        Modes(),
        (),
        "How much models are shown of skills: `pinned`, `listed`, `name-only`, `manual` (only a person may start it) "
        "or `off`. Of one file the most precise pattern counts; between files the strictest of name-only, manual, off.",
    ),
    Key("skills.pins", Pins(), {}, "The only content that a skill may have."),
    Key("skills.reserved", Denied("[data-handling]"), (), "Names that only the enterprise layer may define."),
    Key(
        "skills.enterprise-names",
        Choice("allow", "reserve"),
        "reserve",
        "Whether another layer may have a skill of a name that the enterprise layer has, or one that looks like it. "
        "Only an administrator's file can allow it, and without that it is reserved in every mode.",
    ),
    Key("tools.network", Denied(Tools.example, _wrong_rule), None, "Tools that reach the network."),
    Key("tools.write", Denied(Tools.example, _wrong_rule), None, "Tools that change files."),
    Key("tools.allow", Tools(), (), "The only tool calls there may be."),
    Key("tools.ask", Tools(), (), "Tool calls that somebody must agree to first."),
    Key("tools.deny", Tools(), (), "Tool calls that never happen."),
    Key(
        "tools.allowed-tools",
        EnforcementMap(),
        {},
        "Whether `allowed-tools` of skills are `enforced` or `advisory`, by layer, source or folder. Without it they "
        "are advisory in folders of other clients and enforced everywhere else.",
    ),
    Key("rules", Rules(), DEFAULT_RULES, "Rules: deny before ask before allow."),
    Key("scan.engines", Engines(), (Engine("core"),), "The scanners that look at skills."),
    Key("scan.rescan-after", Duration(), None, "How long what a scanner said counts."),
    Key("scan.suppressions", Text("the path of a file"), None, "The file with findings that somebody answers for."),
    Key("audit.redact", Choice("true"), "true", "Secrets are taken out of records, always: `true`."),
    Key("audit.max-output", Number(0, 2**30, strict=min), 8_192, "Bytes of output that a record keeps."),
    Key("audit.checkpoint-every", Number(1, 1_000_000, strict=min), 100, "Records between two signed checkpoints."),
    Key("audit.key", Text("the path of a key"), None, "The key that checkpoints are signed with."),
    Key(
        "notify",
        NotifyCommandType(),
        None,
        "The program that is started when a request, a proposal or a quarantine begins to wait. A project's file names "
        "none, and of several files the strongest counts.",
    ),
    Key("run.untrusted", _OUTCOME, None, "Loading, by a model, of a skill that nobody vouches for."),
    Key("run.scripts", _OUTCOME, None, "Running a script of a skill, or a command of our own Bash."),
    Key("run.unsandboxed", _OUTCOME, None, "Running anything in a runner that isolates nothing."),
    Key("run.hooks", _OUTCOME, None, "Running the hooks that a skill declares."),
    Key(
        "run.unchecked",
        Choice("allow", "deny"),
        None,
        "Using a skill without the check that it declares, its hook `pre`, where that may not run.",
    ),
    Key("run.injection", _OUTCOME, None, "Running the commands that a skill's instructions inject their output from."),
    Key("run.script-reads", _OUTCOME, None, "Reading a script instead of running it."),
    Key("run.network", Choice("host", "restricted", "none"), None, "The most that anything reaches."),
    Key(
        "run.hosts",
        Within("[api.example.com]", wrong_for_policy("hosts"), covers=covers_host, plain=plain_host),
        None,
        "The most hosts that anything reaches.",
    ),
    Key(
        "run.paths",
        Within('["/data", "/project:rw"]', wrong_for_policy("paths"), covers=covers_path),
        None,
        "Folders and files that a skill gets if it asks for them.",
    ),
    Key("run.secrets", Secrets(), None, "The secrets that the scripts of a skill get if it asks for them."),
    Key("run.require", Denied("[files]", _one_of(*NEEDS)), None, "What a runner must enforce, or nothing runs."),
    Key("run.limits", Limits(*LIMITS), None, "How much anything that runs may use."),
)

KEYS: Mapping[str, Key] = {key.name: key for key in _ALL_KEYS}
"""All keys by their names, in the order of the reference."""
SECTIONS = frozenset(name.rsplit(".", depth)[0] for name in KEYS for depth in range(1, name.count(".") + 1))
"""What keys are in."""
RUN_KEYS = tuple(name for name in KEYS if name.startswith("run."))


def names_below(section: str) -> list[str]:
    """The names that may stand in a section; in none, at the top.

    >>> names_below("sources")
    ['allow', 'deny', 'require']
    """
    prefix = f"{section}." if section else ""
    names = (name[len(prefix) :].split(".")[0] for name in KEYS if name.startswith(prefix))
    return list(dict.fromkeys(names))
