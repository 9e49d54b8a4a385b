"""The policy that a program sets in code, its closed form, and what it and policy files make of `allowed-tools`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from metier._lazy import dataclass, field, pattern
from metier.errors import InvalidArgument
from metier.guard.decision import Enforcement
from metier.guard.files.protected_names import PROTECTED
from metier.library.places import LAYERS, copied_into
from metier.skill import shown
from metier.skill.names import glob_matches
from metier.skill.tool_rules import parse_rules
from metier.source import FolderSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from metier.guard.decision import Origin, Outcome
    from metier.guard.policy.effective import EffectivePolicy
    from metier.library import Place

Rules: TypeAlias = str | Sequence[str]
"""Tool rules as a person writes them: `"Read, Bash(git:*)"`, or a list of such."""

ALLOWED_TOOLS = "tools.allowed-tools"
"""The key of policy files that decides whether the `allowed-tools` of skills restrict calls."""
LEFT_OPEN = ("hooks", "unchecked", "injection")
"""The fields that a program may leave to the policy files."""
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_CLOSED = {**dict.fromkeys(LEFT_OPEN, "deny"), "network": "none", "paths": (), "secrets": _NOTHING}
_OUTCOMES = ("allow", "ask", "deny")
_CHOICES = {
    "unchecked": ("allow", "deny"),
    **dict.fromkeys(("untrusted", "scripts", "unsandboxed", "hooks", "injection", "script_reads"), _OUTCOMES),
    "network": ("none", "restricted", "host"),
}
NEEDS = ("files", "network", "hosts", "descendants", "memory", "processes", "disk", "calls")
LIMITS = ("seconds", "output_bytes", "memory_bytes", "processes", "file_bytes", "disk_bytes", "open_files")
_HOST = pattern(r"(?:\*\.)?[^\s*/@?#]{1,300}")
VARIABLE = pattern(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The settings of a program: allowed, asked or denied. They narrow what skills may do, and never widen it.

    >>> Policy(deny="Bash(curl:*), WebFetch", untrusted="deny").untrusted
    'deny'
    """

    allow: Rules | None = None
    """The only tool calls there may be; None restricts nothing."""
    ask: Rules = ()
    """Tool calls that somebody must agree to first."""
    deny: Rules = ()
    """Tool calls that never happen."""
    blocked: Sequence[str] = ()
    """Skills, by name or digest, that are not shown, loaded, read or run, also where they are active already."""
    untrusted: Outcome = "ask"
    """Loading, by a model, of a skill that nobody vouches for; its scripts are treated no better."""
    scripts: Outcome = "allow"
    """Running a script of a skill, or a command of our own Bash."""
    unsandboxed: Outcome = "deny"
    """Running anything in a runner that isolates nothing."""
    hooks: Outcome | None = None
    """Running the hooks that a skill declares. None leaves it to the policy files, and where they say nothing, it is
    denied; so do the next two."""
    unchecked: Literal["allow", "deny"] | None = None
    """Using a skill without the check that it declares, its hook `pre`, where that may not run."""
    injection: Outcome | None = None
    """Running the commands that a skill's instructions inject their output from."""
    script_reads: Outcome = "deny"
    """Reading a script instead of running it: it costs context and gains nothing."""
    allowed_tools: Mapping[str, Literal["advisory", "enforced"]] = field(default_factory=lambda: _NOTHING)
    """Layer, source or folder, such as `"plugin"`, `"acme-*"` or `".claude/skills"`, to whether the `allowed-tools` of
    its skills restrict calls. Of several that fit, and of what policy files say, the strictest holds; without any, they
    are advisory in folders of other clients and enforced everywhere else."""
    network: Literal["none", "restricted", "host"] | None = None
    """The most that anything reaches: nothing, the `hosts`, or all that this machine reaches. None leaves it to the
    policy files, and where they say nothing, it is nothing."""
    hosts: Sequence[str] = ()
    """The most hosts: `api.example.com`, `*.example.com`, `example.com:8443`. Where the network is restricted, an empty
    list is nobody."""
    paths: Sequence[str] | None = None
    """Folders and files that a skill gets if it asks for them by `allowed-paths`: `/data` to read, `/project:rw` to
    write too. A protected name of a workspace, such as `.git:rw`, lets tools and commands write there as well. None
    leaves it to the policy files; so does the next."""
    secrets: Mapping[str, Sequence[str]] | None = None
    """Skill, by name or digest, to the names of the secrets that its scripts get if it asks for them."""
    require: Sequence[str] = ()
    """The needs that a runner must enforce, or nothing runs: files, network, hosts, descendants, memory, processes,
    disk or calls."""
    limits: Mapping[str, float] = field(default_factory=lambda: _NOTHING)
    """The limits of everything that runs, such as `{"seconds": 60, "memory_bytes": 2**30}`: the most seconds, and
    in place of the defaults the rest."""

    def __post_init__(self) -> None:
        for message, hint in _problems(self):
            raise InvalidArgument(message, hint=hint)


def _problems(policy: Policy) -> Iterator[tuple[str, str]]:
    """The problems of a policy, each with its hint."""
    for name, known in _CHOICES.items():
        value = getattr(policy, name)
        if value not in known and not (value is None and name in (*LEFT_OPEN, "network")):
            yield f"{name} is {value!r:.80} in a policy.", f"It is one of {', '.join(known)}."
    for name in ("blocked", "hosts", "paths", "require"):
        texts = getattr(policy, name)
        if isinstance(texts, str) or not (_is_texts(texts) or (texts is None and name == "paths")):
            yield f"{name} is a list of texts in a policy.", f'Write {name}=["..."].'
    for name in ("allow", "ask", "deny"):
        rules = getattr(policy, name)
        if not (rules is None and name == "allow") and not _is_texts(rules):
            yield f"{name} is {rules!r:.80} in a policy.", f'Write {name}="Read, Bash(git:*)", or a list of such.'
        wrong = [rule.text for rule in parse_rules(rules) if rule.is_malformed]
        if wrong:
            hint = "A rule is `Tool` or `Tool(pattern)`, with every parenthesis closed."
            yield f"{name} has the rule {shown(wrong[0])!r} in a policy, which cannot be read.", hint
    if not isinstance(policy.allowed_tools, Mapping) or not all(
        isinstance(one, str) and word in ("advisory", "enforced") for one, word in policy.allowed_tools.items()
    ):
        hint = 'Write allowed_tools={"plugin": "advisory", ".claude/skills": "enforced"}.'
        yield "allowed_tools is a map of layers, sources or folders in a policy.", hint
    for host in policy.hosts:
        if not _HOST.fullmatch(host) or not host.isprintable():
            hint = "Write api.example.com, *.example.com or example.com:8443, and no URL."
            yield f"{shown(host)!r} is no host in a policy.", hint
    for path in policy.paths or ():
        if not _is_granted_path(path):
            hint = (
                "Write an absolute path, as it is, and `:rw` behind it if it may be written; or a protected name of a "
                "workspace with it, such as `.git:rw`."
            )
            yield f"{shown(path)!r} cannot be granted by a policy.", hint
    for need in policy.require:
        if need not in NEEDS:
            yield f"{shown(need)!r} cannot be required by a policy.", f"It can be {', '.join(NEEDS)}."
    secrets: Any = {} if policy.secrets is None else policy.secrets
    if not isinstance(secrets, Mapping) or not all(
        isinstance(skill, str)
        and not isinstance(names, str)
        and _is_texts(names)
        and all(map(VARIABLE.fullmatch, names))
        for skill, names in secrets.items()
    ):
        yield "secrets is a map of skills to names in a policy.", 'Write secrets={"deploy": ["API_TOKEN"]}.'
    for name, most in policy.limits.items() if isinstance(policy.limits, Mapping) else [("limits", None)]:
        if name not in LIMITS or not _is_positive(most) or (name != "seconds" and not isinstance(most, int)):
            hint = f"Give numbers above 0 for {', '.join(LIMITS)}; all but the seconds are whole."
            yield f"{shown(str(name))!r} is no limit in a policy, or its value is none.", hint


class ClosedPolicy(Policy):
    """A policy that leaves nothing open: `guard.policy` is one.

    >>> ClosedPolicy.of(Policy(hooks="allow")).hooks, ClosedPolicy.of(Policy()).hooks
    ('allow', 'deny')
    """

    __slots__ = ()
    hooks: Outcome
    unchecked: Literal["allow", "deny"]
    injection: Outcome
    network: Literal["none", "restricted", "host"]
    paths: Sequence[str]
    secrets: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, policy: Policy) -> ClosedPolicy:
        """A policy in which everything that it left open is denied, and nothing granted."""
        settings = {name: getattr(policy, name) for name in Policy.__slots__}
        for name, value in _CLOSED.items():
            if settings[name] is None:
                settings[name] = value
        return cls(**settings)


def enforcement_of(
    place: Place, effective: EffectivePolicy, program: Mapping[str, str], folder: str = ""
) -> Enforcement:
    """The enforcement of `allowed-tools` in a place, or for the skill of a folder in it: the strictest that fits.

    Other clients read the field as "approved in advance". In their folders it is advisory by default: a call outside of
    the list is recorded as such and not refused. Everywhere else it is enforced, also for a copy that `metier sync`
    made in another client's folder. In neither case does it grant anything.
    """
    fitting: list[tuple[str, str, Origin | None]] = []
    entries = [(written, one.text, one.origin) for written, one in effective.allowed_tools.items()]
    entries += [(written, word, None) for written, word in program.items()]
    for written, word, origin in entries:
        if word == "advisory":
            # The lists of enterprise skills are enforced unless administrators say otherwise themselves.
            counts = place.layer != "enterprise" or (origin is not None and origin.layer == "enterprise")
        else:
            counts = origin is None or effective.mode == "enforce"
        if counts and _fits(written, place):
            fitting.append((written, word, origin))
    if fitting:
        written, word, origin = max(fitting, key=lambda entry: entry[1] == "enforced")
        where = str(origin) if origin is not None else "the program's policy"
        because = f"{ALLOWED_TOOLS} says so for {shown(written)!r} ({where})"
        return Enforcement(word="advisory" if word == "advisory" else "enforced", because=because)
    if not place.client:
        return Enforcement(word="enforced", because=f"{ALLOWED_TOOLS} says nothing else")
    if folder and isinstance(place.source, FolderSource) and folder in copied_into(place.source.root):
        return Enforcement(word="enforced", because="it is a copy that `metier sync` made of a skill from elsewhere")
    because = f"its folder belongs to {place.client}, and {ALLOWED_TOOLS} says nothing else"
    return Enforcement(word="advisory", because=because)


def _fits(written: str, place: Place) -> bool:
    """Whether a pattern matches a place: its layer, the name of its source, or a folder where it has a slash."""
    if written in LAYERS:
        return place.layer == written
    if "/" not in written:
        return glob_matches(written, place.name or place.source.name)
    if not isinstance(place.source, FolderSource):
        return False
    root = os.path.abspath(place.source.root).replace(os.sep, "/")
    wanted = os.path.expanduser(written).replace(os.sep, "/").rstrip("/")
    return glob_matches(wanted if wanted.startswith("/") else f"*/{wanted}", root)


def split_mode(path: str) -> tuple[str, Literal["ro", "rw", ""]]:
    """A granted or requested path, split from the `:ro` or `:rw` behind it.

    >>> split_mode("/project:rw"), split_mode("/data")
    (('/project', 'rw'), ('/data', ''))
    """
    if path.endswith(":rw"):
        return path[:-3], "rw"
    return (path[:-3], "ro") if path.endswith(":ro") else (path, "")


def granted_names(paths: Iterable[str]) -> frozenset[str]:
    """The protected names among the granted paths, which may be written in every workspace.

    >>> sorted(granted_names(["/data", ".git:rw", "AGENTS.md:rw"]))
    ['.git', 'AGENTS.md']
    """
    modes = map(split_mode, paths)
    return frozenset(path for path, mode in modes if mode == "rw" and path in PROTECTED)


def _is_granted_path(text: str) -> bool:
    """Whether a policy can grant a path: an absolute one, never the whole machine, or a protected name to write."""
    path, _ = split_mode(text)
    return bool(granted_names([text])) or (
        os.path.isabs(path)
        and path.isprintable()
        and ".." not in re.split(r"[/\\]", path)
        and os.path.normpath(path).strip("/") != ""
    )


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")


def _is_texts(value: object) -> bool:
    """Whether a value is text, or a collection of texts."""
    if isinstance(value, str):
        return True
    return isinstance(value, list | tuple | set | frozenset) and all(isinstance(item, str) for item in value)
