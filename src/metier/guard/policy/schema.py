"""The schema of policy files: one row for each key, with its value type and its field in `EffectivePolicy`.

Reading, merging, showing and documentation follow from the rows.
"""

from __future__ import annotations

import functools
import os
import re
from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass, replace
from metier._paths import is_inside
from metier.errors import InvalidArgument
from metier.guard.policy.compound_types import (
    TOOL_RULE_EXAMPLE,
    approvers,
    auto_approval,
    enforcements,
    engines,
    limits,
    listing_modes,
    notify_command,
    packs,
    pins,
    secrets,
    source_signers,
    tool_rules,
)
from metier.guard.policy.effective import DEFAULT
from metier.guard.policy.program import LIMITS, NEEDS, Policy, split_mode
from metier.guard.policy.rule_parser import rule_list
from metier.guard.policy.rules import CAPABILITY_NAMES
from metier.guard.policy.value_types import (
    allow_lists,
    choice,
    deny_list,
    duration,
    flag,
    number,
    one_of,
    subset_list,
    text,
    texts,
)
from metier.skill import shown
from metier.skill.tool_rules import parse_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from metier.guard.policy.value_types import ValueType

APPROVABLE = (*CAPABILITY_NAMES, "new-capability")
"""The capabilities that `require-approval-for` can name."""
SIGNATURES = ("oms", "sigstore", "none")
TESTED_TIERS = ("form", "routing", "scripts", "rules")
"""The kinds of tests that `skills.require-tests` can name."""
_SECTION_FIELDS = {
    **{name: name for name in ("run", "scan", "audit")},
    "skill-policy.approval": "approval",
    "sources.require": "sources_require",
}
"""Sections that are objects of their own in `EffectivePolicy`, and their fields."""


@dataclass(frozen=True)
class Key:
    """One key of a policy file."""

    name: str
    type: ValueType[Any]
    about: str
    """One sentence for the reference."""
    field: str | None = None
    """The field of `EffectivePolicy` that holds its setting, where it is not called like the key (`skills_deny`, or
    `run.hosts` in a section of its own); "" for no field."""
    raw_default: Any = None
    """The default, where it is not that of the field."""
    is_grant: bool = False
    """Whether only the strongest file may set it at all."""
    is_for_administrators: bool = False
    """Whether only administrators may loosen it."""
    is_fact: bool = False
    """Whether it is a fact about the machine, which administrators state."""
    is_of_machine: bool = False
    """Whether it names a program, a file or a database, so that a policy for many machines cannot set it."""
    if_unknown: str | None = None
    """The value of a file that is known in part alone; a key that has one counts in a broken file as in a sound one."""

    @functools.cached_property
    def path(self) -> tuple[str, ...]:
        """The names that lead to its field; empty for no field."""
        if self.field is not None:
            return tuple(self.field.split(".")) if self.field else ()
        section, _, name = self.name.rpartition(".")
        path = (_SECTION_FIELDS[section], name) if section in _SECTION_FIELDS else (self.name.replace(".", "_"),)
        return tuple(part.replace("-", "_") for part in path)

    @functools.cached_property
    def default(self) -> Any:
        """The value where no file has an opinion; None for no opinion."""
        if self.raw_default is not None or not self.path:
            return self.raw_default
        return functools.reduce(getattr, self.path, DEFAULT)


def _problem_in_policy(field: str) -> Callable[[str], str]:
    """The check of one list of a `Policy`: programs and files may grant the same."""

    def problem_of(entry: str) -> str:
        try:
            Policy(**{field: [entry]})  # type: ignore[arg-type]
        except InvalidArgument as error:
            return f"{shown(entry)!r}. {error.message.rstrip('.')}"
        return ""

    return problem_of


def _covers_host(entry: str, other: str) -> bool:
    from metier import _hosts  # imported when lists are compared, as it takes a while

    return _hosts.covers_host(entry, other)


def _normal_host(entry: str) -> str:
    """A host as it is compared: lower case, without the dot at the end, which may stand before a port."""
    return re.sub(r"\.(?=(?::\d+)?\Z)", "", entry.lower())


def _covers_path(entry: str, other: str) -> bool:
    """Whether one granted path includes another.

    >>> _covers_path("/data", "/data/in"), _covers_path("/data", "/data:rw"), _covers_path("/data:rw", "/data")
    (True, False, True)
    """
    path, mode = split_mode(entry)
    inner, inner_mode = split_mode(other)
    path, inner = os.path.normpath(path), os.path.normpath(inner)
    return (mode == "rw" or inner_mode != "rw") and is_inside(inner, path)


def _rule_problem(entry: str) -> str:
    return f"{shown(entry)!r}, which is no rule" if any(rule.is_malformed for rule in parse_rules(entry)) else ""


def _source_problem(entry: str) -> str:
    return "" if ":" in entry or entry == "*" else f"{shown(entry)!r}, which names no kind of source"


def _tighten_offline(base: str, value: str) -> tuple[str, str]:
    """The stricter of two words: `ask` and `read-only` each allow what the other does not, and both together nothing.

    >>> _tighten_offline("ask", "read-only"), _tighten_offline("read-only", "read-only")[0]
    (('deny', ''), 'read-only')
    """
    is_looser = base == "deny" != value
    return base if base == value else "deny", f"`{value}` is less strict than `deny`" if is_looser else ""


_OUTCOME = choice("allow", "ask", "deny")
_SOURCES = '["dir:*", "git+https://github.com/acme/*"]'
_SKILLS = '["pdf", "crypto-*@*"]'
_ALL_KEYS = (
    Key("version", choice("1"), "The version of this format: 1.", field="", raw_default="1"),
    Key("strict", flag(), "Whether a key that nobody knows is an error.", field="", raw_default=False),
    Key(
        "store",
        text("the address of a store, such as postgresql://db.example.com/metier"),
        "Where approvals, quarantines and the audit log are, whatever the environment says.",
        is_of_machine=True,
    ),
    Key(
        "machine.environment",
        text("the name of an environment, such as production"),
        "The environment that this machine is in, for administrators to say: whoever names another one is refused, and "
        "who names none is in it.",
        field="environment",
        is_fact=True,
        is_of_machine=True,
    ),
    Key(
        "mode",
        choice("off", "audit", "enforce"),
        "`audit` decides and records, but blocks nothing.",
        if_unknown="enforce",
    ),
    Key(
        "on-error",
        choice("allow", "ask", "deny"),
        "What happens to loading, running and installing where a policy file cannot be read or a scanner fails.",
        if_unknown="deny",
    ),
    Key(
        "skill-policy.require-approval-for",
        deny_list(f"[{', '.join(APPROVABLE[:3])}]", one_of(*APPROVABLE), setting=dict),
        "What a skill can do only after somebody approved of exactly this content. Without it, that is so for all "
        "capabilities of skills in the plugin layer.",
        field="required",
    ),
    Key(
        "skill-policy.approval.bind",
        choice("digest"),
        "What an approval is bound to: the content.",
        field="",
        raw_default="digest",
    ),
    Key("skill-policy.approval.approvers", approvers(), "Who may approve."),
    Key(
        "skill-policy.approval.self-approval",
        replace(choice("allow", "deny"), setting="allow".__eq__),
        "Approving one's own request.",
        raw_default="allow",
    ),
    Key("skill-policy.approval.quorum", number(1, 100, strict=max), "How many people must approve."),
    Key("skill-policy.approval.expires", duration(), "How long an approval counts."),
    Key(
        "skill-policy.approval.auto-approve-when",
        auto_approval(),
        "What is approved without a person; all conditions must hold.",
        field="approval.auto",
    ),
    Key("sources.allow", allow_lists(_SOURCES, _source_problem), "Where skills may come from; `[]` is nowhere."),
    Key("sources.deny", deny_list(_SOURCES, _source_problem), "Where skills never come from."),
    Key("sources.require.digest", flag(), "Whether what is installed must name its content."),
    Key("sources.require.pinned", flag(), "Whether what is installed must name an exact version."),
    Key(
        "sources.require.signature",
        subset_list("[oms, none]", one_of(*SIGNATURES)),
        "The signatures that count, the best first; without `none`, one is needed, also of what is published.",
    ),
    Key(
        "sources.signers",
        source_signers(_source_problem),
        "Sources, and the signers one of whom must have signed what is installed from there, or published there.",
    ),
    Key("skills.allow", allow_lists(_SKILLS), "The only skills there may be; `[]` is none."),
    Key("skills.deny", deny_list(_SKILLS), "Skills that are not there."),
    Key(
        "skills.listing",
        listing_modes(),
        "How much models are shown of skills: `pinned`, `listed`, `name-only`, `manual` (only a person may start it) "
        "or `off`. Of one file the most precise pattern counts; between files the strictest of name-only, manual, off.",
        field="listing",
        raw_default=(),
    ),
    Key("skills.pins", pins(), "The only content that a skill may have.", field="pins"),
    Key(
        "skills.reserved",
        deny_list("[data-handling]", setting=dict),
        "Names that only the enterprise layer may define.",
        field="reserved",
    ),
    Key(
        "skills.enterprise-names",
        choice("allow", "reserve"),
        "Whether another layer may have a skill of a name that the enterprise layer has, or one that looks like it. "
        "Only an administrator's file can allow it, and without that it is reserved in every mode.",
        field="enterprise_names",
        is_for_administrators=True,
    ),
    Key(
        "skills.require-score",
        number(0, 100, strict=max),
        "The least score that a skill must have to be used, as `metier score` recorded it for exactly this content.",
    ),
    Key(
        "skills.require-tests",
        deny_list("[form, rules]", one_of(*TESTED_TIERS), setting=texts),
        "The tiers of tests that exactly this content must have passed to be used, as `metier test` recorded it.",
    ),
    Key(
        "proposals.no-test-worse",
        flag(),
        "Whether a change is applied only once the tests of the skill were run before and after it, and none that "
        "passed before fails after it.",
    ),
    Key("tools.network", deny_list(TOOL_RULE_EXAMPLE, _rule_problem), "Tools that reach the network.", field=""),
    Key("tools.write", deny_list(TOOL_RULE_EXAMPLE, _rule_problem), "Tools that change files.", field=""),
    Key("tools.allow", tool_rules(), "The only tool calls there may be.", field="", raw_default=()),
    Key("tools.ask", tool_rules(), "Tool calls that somebody must agree to first.", field="", raw_default=()),
    Key("tools.deny", tool_rules(), "Tool calls that never happen.", field="", raw_default=()),
    Key(
        "tools.allowed-tools",
        enforcements(),
        "Whether `allowed-tools` of skills are `enforced` or `advisory`, by layer, source or folder. Without it they "
        "are advisory in folders of other clients and enforced everywhere else.",
        field="allowed_tools",
    ),
    Key("rules", rule_list(), "Rules: deny before ask before allow."),
    Key("scan.engines", engines(), "The scanners that look at skills.", is_of_machine=True),
    Key(
        "scan.packs",
        packs(),
        "Packs of rules beside our own, each with the digest of what it is; those of all files count. A project adds "
        "only folders of its own.",
        is_of_machine=True,
    ),
    Key("scan.rescan-after", duration(), "How long what a scanner said counts."),
    Key(
        "scan.suppressions",
        text("the path of a file", is_path=True),
        "The file with findings that somebody answers for.",
        is_of_machine=True,
    ),
    Key(
        "scan.together",
        choice("off", "low", "medium", "high"),
        "How grave it is that a skill which reads secrets is active together with one that sends what it is given. "
        "Above `low`, every load waits for that to be found out; `low` takes what is known of skills by then.",
        is_for_administrators=True,
    ),
    Key(
        "audit.redact",
        choice("true"),
        "Secrets are taken out of records, always: `true`.",
        field="",
        raw_default="true",
    ),
    Key("audit.max-output", number(0, 2**30, strict=min), "Bytes of output that a record keeps."),
    Key(
        "audit.max-arguments",
        number(0, 65_536, strict=min),
        "Characters of the arguments of a tool call that a record keeps; what is cut off cannot be replayed.",
    ),
    Key("audit.checkpoint-every", number(1, 1_000_000, strict=min), "Records between two signed checkpoints."),
    Key(
        "audit.key",
        text("the path of a key", is_path=True),
        "The key that checkpoints are signed with.",
        is_of_machine=True,
    ),
    Key(
        "usage.queries",
        choice("text", "none"),
        "Whether `metier stats` keeps the texts of searches that found nothing, or only counts them.",
    ),
    Key(
        "usage.keep-days",
        number(1, 36_500, strict=min),
        "Days that `metier stats` knows one by one; those before are added up by month, and their texts forgotten.",
    ),
    Key(
        "notify",
        notify_command(),
        "The program that is started when a request, a proposal or a quarantine begins to wait. A project's file names "
        "none, and of several files the strongest counts.",
        is_of_machine=True,
    ),
    Key(
        "protect.fail",
        choice("open", "closed"),
        "What becomes of a tool call of a protected client about which nothing can be decided, as our program is gone "
        "or fails. Without it, `closed` where administrators have a policy, else `open`.",
    ),
    Key(
        "protect.scripts",
        choice("allow", "sandbox", "refuse"),
        "A script of a skill that a protected client starts itself: `sandbox` has it run by `metier run` in its place.",
    ),
    Key(
        "protect.skills",
        choice("prompt", "conversation"),
        "How long the rules of a skill hold in a protected client: to the next message of the user, or to the end.",
    ),
    Key(
        "nodes.lease",
        duration(),
        "How long a node may go on with what its server said last, without reaching it; never longer than the server "
        "lets it.",
    ),
    Key(
        "nodes.offline",
        replace(choice("ask", "read-only", "deny"), tighten=_tighten_offline),
        "What becomes of everything on a node after that time: somebody is asked each time, skills are loaded and read "
        "and nothing runs or changes (`read-only`), or nothing happens.",
    ),
    Key(
        "nodes.online",
        choice("optional", "required"),
        "Whether a node asks its server before each load and run, and refuses them without an answer.",
    ),
    Key("run.untrusted", _OUTCOME, "Loading, by a model, of a skill that nobody vouches for."),
    Key("run.scripts", _OUTCOME, "Running a script of a skill, or a command of our own Bash."),
    Key("run.unsandboxed", _OUTCOME, "Running anything in a runner that isolates nothing."),
    Key("run.hooks", _OUTCOME, "Running the hooks that a skill declares."),
    Key(
        "run.unchecked",
        choice("allow", "deny"),
        "Using a skill without the check that it declares, its hook `pre`, where that may not run.",
    ),
    Key("run.injection", _OUTCOME, "Running the commands that a skill's instructions inject their output from."),
    Key("run.script-reads", _OUTCOME, "Reading a script instead of running it."),
    Key("run.network", choice("host", "restricted", "none"), "The most that anything reaches.", is_grant=True),
    Key(
        "run.hosts",
        subset_list("[api.example.com]", _problem_in_policy("hosts"), covers=_covers_host, normalise=_normal_host),
        "The most hosts that anything reaches.",
        is_grant=True,
    ),
    Key(
        "run.paths",
        subset_list('["/data", "/project:rw"]', _problem_in_policy("paths"), covers=_covers_path),
        "Folders and files that a skill gets if it asks for them.",
        is_grant=True,
    ),
    Key("run.secrets", secrets(), "The secrets that the scripts of a skill get if it asks for them.", is_grant=True),
    Key(
        "run.require",
        deny_list("[files]", one_of(*NEEDS), setting=texts),
        "What a runner must enforce, or nothing runs.",
    ),
    Key("run.limits", limits(*LIMITS), "How much anything that runs may use."),
)

KEYS: Mapping[str, Key] = {key.name: key for key in _ALL_KEYS}
"""All keys by their names, in the order of the reference."""
SECTIONS = frozenset(name.rsplit(".", depth)[0] for name in KEYS for depth in range(1, name.count(".") + 1))
"""The names of the sections that hold keys."""
RUN_KEYS = tuple(name for name in KEYS if name.startswith("run."))


def names_below(section: str) -> list[str]:
    """The names that may stand in a section; "" for the top.

    >>> names_below("sources")
    ['allow', 'deny', 'require', 'signers']
    """
    prefix = f"{section}." if section else ""
    names = (name[len(prefix) :].split(".")[0] for name in KEYS if name.startswith(prefix))
    return list(dict.fromkeys(names))
