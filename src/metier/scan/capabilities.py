"""What a skill can do, read from its files: the capabilities that an approval grants.

They are a pure function of a content digest: the same files always have the same capabilities, whoever asks. They say
what is there and not whether it is bad, and err on the side of seeing too much.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass, field
from metier.scan import capability_patterns
from metier.scan.capability_patterns import matches, tool_class
from metier.scan.reading import view_of
from metier.skill import canonical_field, shown
from metier.skill.script_packages import LANGUAGES, declaring_files
from metier.skill.tool_rules import parse_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from metier.scan.capability_patterns import ToolClass
    from metier.scan.view import SkillView, ViewFile
    from metier.skill import Package, Skill

CAPABILITIES = (
    "external-downloads",
    "file-write",
    "hooks",
    "inline-exec",
    "network-tools",
    "opaque-files",
    "packages",
    "scripts",
    "shell-instructions",
)
"""Everything that a skill can be found to do, sorted."""

NETWORK_TOOLS = ("WebFetch", "WebSearch", "ExternalAPI", "Bash(curl *)", "Bash(wget *)", "Bash(git push *)")
"""The tools that reach the network, unless a policy names others."""
WRITE_TOOLS = ("Write", "Edit", "Bash(rm *)")
"""The tools that change files, unless a policy names others."""

MAX_EVIDENCE = 10
"""Places that are named for one capability."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A place that shows a capability."""

    path: str
    line: int
    text: str = ""
    """What stands there, as it may be shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What one revision of a skill can do.

    >>> from metier.skill import MemoryPackage
    >>> found = infer(MemoryPackage({"SKILL.md": "Run `scripts/x.py`.", "scripts/x.py": "print(1)"}))
    >>> found.names, found.evidence["scripts"][0].path
    (('scripts',), 'scripts/x.py')
    """

    names: tuple[str, ...] = ()
    """Sorted."""
    evidence: Mapping[str, tuple[Evidence, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """For each name the places that show it, at most ten."""
    scripts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The path of every script and the sha256 of its content, in hexadecimal digits."""
    declared: tuple[str, ...] = ()
    """What the frontmatter itself says that the skill does, whether it was found or not; sorted."""

    @property
    def undeclared(self) -> tuple[str, ...]:
        """What was found and could have been declared, but was not."""
        return tuple(name for name in self.names if name in _CAN_BE_DECLARED and name not in self.declared)

    def as_dict(self) -> dict[str, Any]:
        """The shape that `--json` prints and that the store keeps."""
        return {
            "names": list(self.names),
            "evidence": {
                name: [{"path": shown(at.path, 4_096), "line": at.line, "text": at.text} for at in places]
                for name, places in self.evidence.items()
            },
            "scripts": dict(self.scripts),
            "declared": list(self.declared),
            "undeclared": list(self.undeclared),
        }


_CAN_BE_DECLARED = ("file-write", "hooks", "network-tools", "scripts", "shell-instructions")


def infer(
    package: Package, *, network: Sequence[str] = NETWORK_TOOLS, write: Sequence[str] = WRITE_TOOLS
) -> Capabilities:
    """The capabilities of a package; `network` and `write` are the tools of these classes, as a policy names them."""
    return infer_from(view_of(package), network=network, write=write)


def infer_from(
    view: SkillView, *, network: Sequence[str] = NETWORK_TOOLS, write: Sequence[str] = WRITE_TOOLS
) -> Capabilities:
    """The capabilities of a skill that was already read."""
    found = _Evidence()
    classes = {"network-tools": tool_class(tuple(network)), "file-write": tool_class(tuple(write))}
    for file in view.files:
        _look_at(file, classes, found)
    # A declaration that nobody can read is one all the same.
    texts = {opaque.path: "?" for opaque in view.opaque} | {file.path: file.text for file in view.files}
    for path, kind in declaring_files(texts, lambda path: texts[path].encode()).items():
        found.add("packages", path, 1, f"declares packages of {LANGUAGES[kind]}")
    for opaque in view.opaque:
        found.add("opaque-files", opaque.path, 1, opaque.why)
    instructions = view.instructions
    declared: dict[str, str] = {}
    if view.skill is not None and instructions is not None:
        declared = _declared(view.skill, classes)
        for name, said in declared.items():
            # A tool that it may use is a capability; a permission to run scripts is none without a script.
            if name != "scripts":
                found.add(name, instructions.path, *_line_of_field(said, instructions))
    return Capabilities(
        names=tuple(sorted(found.places)),
        evidence=MappingProxyType({name: tuple(found.places[name]) for name in sorted(found.places)}),
        scripts=MappingProxyType(
            {file.path: view.hashes.get(file.path, "") for file in view.files if file.role == "script"}
        ),
        declared=tuple(sorted(declared)),
    )


def new_in(after: Iterable[str] | Capabilities, before: Iterable[str] | Capabilities | None) -> tuple[str, ...]:
    """The capabilities that one revision has and an earlier one had not; all of them when there was none.

    >>> new_in(["scripts", "hooks"], ["scripts"])
    ('hooks',)
    """
    return tuple(sorted(_names(after) - _names(before or ())))


def _names(capabilities: Iterable[str] | Capabilities) -> set[str]:
    return set(capabilities.names if isinstance(capabilities, Capabilities) else capabilities)


class _Evidence:
    """Places by capability, bounded."""

    def __init__(self) -> None:
        self.places: dict[str, list[Evidence]] = {}

    def add(self, name: str, path: str, line: int, text: str) -> None:
        places = self.places.setdefault(name, [])
        place = Evidence(path, line, shown(text.strip()))
        if len(places) < MAX_EVIDENCE and place not in places:
            places.append(place)

    def search(self, name: str, sign: Callable[[str], Iterator[int]], path: str, text: str, line: int) -> None:
        """Add the lines on which a sign is found, each once; `line` is the one that the text begins on."""
        places = self.places.get(name, [])
        if len(places) >= MAX_EVIDENCE:
            return
        start = end = -1
        for at in sign(text):
            if start <= at < end:
                continue
            start = text.rfind("\n", 0, at + 1) + 1
            end = text.find("\n", start) % (len(text) + 1)
            self.add(name, path, line + text.count("\n", 0, start), text[max(start, at - 40) : min(end, at + 200)])
            if len(self.places[name]) >= MAX_EVIDENCE:
                return


_IN_SCRIPTS = matches(capability_patterns.NETWORK_IN_SCRIPTS)
_WRITES = {True: matches(capability_patterns.WRITES_IN_SHELL), False: matches(capability_patterns.WRITES_IN_SCRIPTS)}
_INLINE = matches(capability_patterns.INLINE_EXEC)
_SPANS = matches(capability_patterns.SHELL_SPAN)
_LINES = matches(capability_patterns.SHELL_LINE)


def _look_at(file: ViewFile, classes: Mapping[str, ToolClass], found: _Evidence) -> None:
    is_script = file.role == "script"
    if is_script:
        found.add("scripts", file.path, 1, file.language)
        found.search("network-tools", _IN_SCRIPTS, file.path, file.text, 1)
        found.search("file-write", _WRITES[file.language == "shell"], file.path, file.text, 1)
    if file.role == "instructions":
        found.search("inline-exec", _INLINE, file.path, file.text, 1)
    for part in file.parts:
        if not part.text or part.text.isspace():
            continue
        place = (file.path, part.text, part.line)
        for name, tools in classes.items():
            if part.kind in ("prose", "comment"):
                found.search(name, tools.in_prose, *place)
            found.search(name, tools.in_code, *place)
        if part.kind in ("prose", "comment"):
            found.search("shell-instructions", _SPANS, *place)
        elif part.kind == "code" and file.role in ("instructions", "markdown", "other"):
            if part.language in capability_patterns.SHELLS:
                found.add("shell-instructions", file.path, part.line, part.text.strip().partition("\n")[0])
            elif not part.language:
                found.search("shell-instructions", _LINES, *place)
        found.search("external-downloads", capability_patterns.downloads, *place)


def _declared(skill: Skill, classes: Mapping[str, ToolClass]) -> dict[str, str]:
    """What the fields of a skill say that it does, and which field says so."""
    found: dict[str, str] = {}
    for rule in parse_rules(skill.allowed_tools):
        if rule.tool == "bash":
            found.setdefault("shell-instructions", "allowed-tools")
            if rule.pattern is None or capability_patterns.RUNS_SCRIPTS.match(rule.pattern):
                found.setdefault("scripts", "allowed-tools")
        for name, tools in classes.items():
            if tools.declares(rule):
                found.setdefault(name, "allowed-tools")
    if skill.hooks is not None and (skill.hooks.pre or skill.hooks.post or skill.hooks.events):
        found["hooks"] = "hooks"
    if skill.execution is not None:
        found.setdefault("scripts", "execution")
        if skill.execution.network in ("restricted", "host") or skill.execution.hosts:
            found.setdefault("network-tools", "execution")
        if any(not path.endswith(":ro") for path in skill.execution.allowed_paths):
            found.setdefault("file-write", "execution")
    if skill.compatibility and capability_patterns.needs_network(skill.compatibility):
        found.setdefault("network-tools", "compatibility")
    return found


def _line_of_field(field: str, instructions: ViewFile) -> tuple[int, str]:
    """The line of the frontmatter on which a field stands, however it is spelled."""
    for part in instructions.parts:
        if part.kind == "frontmatter":
            for number, text in enumerate(part.text.split("\n")):
                if canonical_field(text.partition(":")[0].strip()) == field:
                    return part.line + number, text
            return part.line, field
    return 1, field
