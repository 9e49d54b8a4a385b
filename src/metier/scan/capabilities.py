"""What a skill can do, read from its files: the capabilities that an approval grants.

They are a pure function of a content digest: the same files always have the same capabilities, whoever asks. They say
what is there and not whether it is bad, and err on the side of seeing too much.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from metier._lazy import dataclass, field
from metier._regex_cache import kept_regex
from metier.scan.name_lists import sense
from metier.scan.pack_store import PLACES_OF_SIGNS, core_signs
from metier.scan.reading import view_of
from metier.scan.view import once_a_skill
from metier.skill import canonical_field, shown
from metier.skill.script_packages import LANGUAGES, declaring_files
from metier.skill.tool_rules import parse_rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from metier.scan.view import SkillView, ViewFile
    from metier.skill import Package, Skill
    from metier.skill.tool_rules import ToolRule

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
    return infer_from(view_of(package), network=tuple(network), write=tuple(write))


@once_a_skill
def infer_from(
    view: SkillView, *, network: Sequence[str] = NETWORK_TOOLS, write: Sequence[str] = WRITE_TOOLS
) -> Capabilities:
    """The capabilities of a skill that was already read."""
    signs = _signs(tuple(network), tuple(write))
    found = _Evidence(signs)
    for file in view.files:
        found.look_at(file)
    # A declaration that nobody can read is one all the same.
    texts = {opaque.path: "?" for opaque in view.opaque} | {file.path: file.text for file in view.files}
    for path, kind in declaring_files(texts, lambda path: texts[path].encode()).items():
        found.add("packages", path, 1, f"declares packages of {LANGUAGES[kind]}")
    for opaque in view.opaque:
        found.add("opaque-files", opaque.path, 1, opaque.why)
    instructions = view.instructions
    declared: dict[str, str] = {}
    if view.skill is not None and instructions is not None:
        declared = _declared(view.skill, signs)
        for name, said in declared.items():
            # A tool that it may use is a capability; a permission to run scripts is none without a script.
            if name != "scripts":
                found.add(name, instructions.path, *line_of_field(said, instructions))
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
    names = [one.names if isinstance(one, Capabilities) else one or () for one in (after, before)]
    return tuple(sorted({*names[0]} - {*names[1]}))


class _Sign(NamedTuple):
    """An expression that shows a capability."""

    capability: str
    regex: re.Pattern[str]
    is_cased: bool
    groups: Sequence[Sequence[str]]
    """Words in small letters, with a blank where a word begins or ends. A line that it matches has one of each."""


def _tool_sign(capability: str, rule: ToolRule) -> tuple[str, _Sign] | None:
    """The sign of a tool, and where it is: the `WebFetch` tool in prose, or a command that begins as a rule does."""
    place, words, ends = "anywhere", _words(rule), r"(?=[ \t\\]|[.,;:!?)`]*(?:\s|$))"
    if rule.pattern is None:
        place, words, ends = "in-prose", [rule.text], r"(?:`|[ \t]{1,4}tool\b)"
    if not words or not (rule.text.isidentifier() if rule.pattern is None else rule.tool == "bash"):
        return None
    regex = r"[ \t]{1,8}".join(map(re.escape, words)).join((r"(?<![\w./-])", ends))
    groups = [[f" {word} "] for word in re.findall("[a-z0-9_]+", " ".join(words).lower())]
    return place, _Sign(capability, kept_regex(regex, re.MULTILINE), is_cased=True, groups=groups)


def _words(rule: ToolRule) -> list[str]:
    """The words that a command begins with: `git push *` and `git push:*` begin with two."""
    return [word for word in re.split(r"[\s:]+", rule.pattern or "") if word and "*" not in word]


class _Signs:
    """All signs, by the words that tell of them, so that a text is gone over once for all of them."""

    def __init__(self, network: Sequence[str], write: Sequence[str]) -> None:
        import ahocorasick

        self._rules = {"network-tools": parse_rules(list(network)), "file-write": parse_rules(list(write))}
        pack = core_signs()
        signs = [
            (place, _Sign(name, kept_regex(regex, re.MULTILINE), is_cased, groups))
            for place in PLACES_OF_SIGNS
            for name in CAPABILITIES
            for regex, is_cased, groups in pack["senses"].get(f"{place}-{name}", ())
        ]
        signs += filter(None, (_tool_sign(name, rule) for name, rules in self._rules.items() for rule in rules))
        self._at: dict[str, list[tuple[int, _Sign]]] = {}
        """The signs of each place, each with the bits of its groups."""
        telling: dict[str, int] = {}
        bit = 1
        for place, sign in signs:
            bits = 0
            # Marks and other letters are found as fast without asking first whether a line has them.
            for group in (group for group in sign.groups if all(map(_PLAIN_WORD.fullmatch, group))):
                telling |= {word: telling.get(word, 0) | bit for word in group}
                bits, bit = bits | bit, bit << 1
            self._at.setdefault(place, []).append((bits, sign))
        self._automaton: Any = ahocorasick.Automaton()
        for word, bits in telling.items():
            self._automaton.add_word(word, bits)
        self._automaton.make_automaton()
        self.of = lru_cache(4096)(self._of)

    def classes_of(self, own: ToolRule) -> Iterator[str]:
        """The capabilities that a rule of a skill declares; the whole of Bash is no sign of anything in it."""
        words = _words(own)
        for name, rules in self._rules.items():
            wanted = [_words(rule) for rule in rules if rule.names(own.tool)]
            if any(not some or (words and all(map(str.__eq__, some, words))) for some in wanted):
                yield name

    def _of(self, place: str, has: int, full: frozenset[str]) -> tuple[_Sign, ...]:
        """The signs of a place that a line may have by the bits of its words; by 0, those that ask for no words.

        Those of capabilities in `full` are left out.
        """
        signs = (sign for bits, sign in self._at.get(place, ()) if bits & has == bits and (bits or not has))
        return tuple(sign for sign in signs if sign.capability not in full)

    def bits_of_lines(self, text: str) -> dict[int, int]:
        """The bits of the lines of a text that have words of signs; lines are counted from 0."""
        low = text.lower()
        plain = low.encode("ascii", "replace").translate(_LETTERS).decode()
        found: dict[int, int] = {}
        line = at = 0
        for end, bits in self._automaton.iter(f" {plain} "):
            line, at = line + low.count("\n", at, end - 1), end - 1
            found[line] = found.get(line, 0) | bits
        return found


_PLAIN_WORD = kept_regex(" ?[a-z0-9_]+ ?")
_LETTERS = bytes(code if chr(code).isalnum() or chr(code) == "_" else 32 for code in range(128)).ljust(256)
"""A blank for each character that is not of a word."""
_signs = cache(_Signs)


class _Evidence:
    """Places by capability, bounded."""

    def __init__(self, signs: _Signs) -> None:
        self.places: dict[str, list[Evidence]] = {}
        self._full: frozenset[str] = frozenset()
        """Capabilities of which enough places are known."""
        self._signs = signs

    def add(self, name: str, path: str, line: int, text: str) -> None:
        places = self.places.setdefault(name, [])
        place = Evidence(path, line, shown(text.strip()))
        if len(places) < MAX_EVIDENCE and place not in places:
            places.append(place)
        if len(places) == MAX_EVIDENCE:
            self._full |= {name}

    def look_at(self, file: ViewFile) -> None:
        """Add what a file shows."""
        lines = self._signs.bits_of_lines(file.text)
        if file.role == "script":
            self.add("scripts", file.path, 1, file.language)
            kind = "in-shell" if file.language == "shell" else "in-programs"
            self._search(("in-scripts", kind), file.path, file.text, lines)
        elif file.role == "instructions":
            self._search(("in-instructions",), file.path, file.text, lines)
        has_comments = "<!--" in file.text
        for part in file.parts:
            if not part.text or part.text.isspace():
                continue
            places: tuple[str, ...] = ("anywhere",)
            own = lines
            if part.kind in ("prose", "comment"):
                places = ("anywhere", "in-prose")
                if part.kind == "comment" or has_comments:
                    # Where a comment was taken out, a line has words that it has not in the file.
                    own = {at + part.line - 1: bits for at, bits in self._signs.bits_of_lines(part.text).items()}
            elif part.kind == "code" and file.role in ("instructions", "markdown", "other"):
                if part.language in ("shell", "powershell", "batch"):
                    self.add("shell-instructions", file.path, part.line, part.text.strip().partition("\n")[0])
                elif not part.language:
                    places = ("anywhere", "in-code")
            self._search(places, file.path, part.text, own, part.line - 1)

    def _search(self, places: Iterable[str], path: str, text: str, bits_of: Mapping[int, int], first: int = 0) -> None:
        """Add the lines of a text that have a sign of some places, each once; `first` is the line it begins on."""
        telling = [at for at in range(first, first + text.count("\n") + 1) if at in bits_of]
        lines: list[str] = []
        for place in places:
            shown: dict[int, list[_Sign]] = {}
            for sign in self._signs.of(place, 0, self._full):
                for number in _lines_of(sign.regex, text):
                    shown.setdefault(first + number, []).append(sign)
            for at in sorted({*shown, *telling}) if shown else telling:
                signs = (*shown.get(at, ()), *(self._signs.of(place, bits_of[at], self._full) if at in bits_of else ()))
                if not signs:
                    continue
                lines = lines or text.split("\n")
                starts: dict[str, int] = {}
                for name, regex, is_cased, _ in signs:
                    line = lines[at - first]
                    if found := regex.search(line if is_cased else line.lower()):
                        starts[name] = min(found.start(), starts.get(name, found.start()))
                for name, start in starts.items():
                    self.add(name, path, at + 1, lines[at - first][max(0, start - 40) : start + 200])


def _lines_of(regex: re.Pattern[str], text: str) -> Iterator[int]:
    """The lines of a text, counted from 0, on which an expression is found."""
    line = at = 0
    for found in regex.finditer(text):
        line, at = line + text.count("\n", at, found.end()), found.end()
        yield line


def _declared(skill: Skill, signs: _Signs) -> dict[str, str]:
    """What the fields of a skill say that it does, and which field says so."""
    found: dict[str, str] = {}
    for rule in parse_rules(skill.allowed_tools):
        if rule.tool == "bash":
            found.setdefault("shell-instructions", "allowed-tools")
            if rule.pattern is None or any(map(sense("runs-scripts").search, rule.pattern.split("\n"))):
                found.setdefault("scripts", "allowed-tools")
        for name in signs.classes_of(rule):
            found.setdefault(name, "allowed-tools")
    if skill.hooks is not None and (skill.hooks.pre or skill.hooks.post or skill.hooks.events):
        found["hooks"] = "hooks"
    if skill.execution is not None:
        found.setdefault("scripts", "execution")
        if skill.execution.network in ("restricted", "host") or skill.execution.hosts:
            found.setdefault("network-tools", "execution")
        if any(not path.endswith(":ro") for path in skill.execution.allowed_paths):
            found.setdefault("file-write", "execution")
    if skill.compatibility and _needs_network(skill.compatibility.lower()):
        found.setdefault("network-tools", "compatibility")
    return found


def _needs_network(low: str) -> bool:
    """Whether the words about compatibility ask for a network."""
    needs = sense("needs-network").finditer(low)
    return any(not sense("needs-none").search(low[max(0, found.start() - 20) : found.start()]) for found in needs)


def line_of_field(field: str, instructions: ViewFile) -> tuple[int, str]:
    """The line of the frontmatter on which a field stands, however it is spelled."""
    for part in instructions.parts:
        if part.kind == "frontmatter":
            for number, text in enumerate(part.text.split("\n")):
                if canonical_field(text.partition(":")[0].strip()) == field:
                    return part.line + number, text
            return part.line, field
    return 1, field
