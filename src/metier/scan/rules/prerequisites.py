"""Fake prerequisites: "download this archive, the password is x, and run it before you begin"."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules._asking import FILE, Around
from metier.scan.rules._judging import related
from metier.scan.rules._kinds import odd
from metier.scan.rules._mercy import negated
from metier.scan.rules._reading import reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.rule import Hit
    from metier.scan.rules._hosts import HostAddress
    from metier.scan.rules._reading import SkillStatements
    from metier.scan.rules._statements import Statement
    from metier.scan.view import SkillView


_ARTEFACT = re.compile(
    r"\.(?:zip|exe|msi|dmg|pkg|7z|rar|scr|bat|cmd|ps1|vbs|jar|apk|iso|lnk|appimage|deb|rpm|tar\.gz|tgz|run|command"
    r"|hta|xz|bin)(?:[?#][^\s]{0,200})?$"
    r"|/releases/(?:latest/)?download/|[?&](?:dl|download)=1|export=download",
    re.IGNORECASE,
)

_IMAGE = re.compile(r"\.(?:png|jpe?g|gif|svg|webp|ico)(?:\?[^\s]{0,400})?$", re.IGNORECASE)

_PROGRAM = re.compile(
    r"\.(?:exe|msi|dmg|pkg|scr|iso|lnk|crx|xpi|bat|cmd|ps1|vbs|hta|jar|apk|appimage|command|img)(?:[?#][^\s]{0,200})?$",
    re.IGNORECASE,
)


_BRAND = re.compile(r"open-?claw|clawd|claw-?hub|molt-?bot|claude|anthropic|codex|openai|cursor|copilot|gemini|chatgpt")

_BRANDS_OWN = re.compile(
    r"^(?:openclaw|clawdbot|anthropics?|openai|getcursor|google-gemini|google|github|microsoft|steipete)$"
)


_LISTED = re.compile(
    r"\s*[\"']?(?:homepage|url|repository|source|documentation|docs|author|license|website|icon|repo)\b"
)

_PIPED = re.compile(r"\|\s{0,3}(?:sudo )?(?:(?:ba|z)?sh\b|iex\b)")
_OFFERS = re.compile(r"download|install|setup|\bget\b|update|client|driver|bridge|agent", re.IGNORECASE)

_DOCUMENTATION = re.compile(
    r"^(?:docs?|developers?|dev|help|support|learn|wiki|api)\.|/(?:docs?|documentation|api-reference|reference|articles?"
    r"|blog|wiki|tutorials?|guides?|learn|help|support|kb|faq|specs?)(?:/|$)|\.(?:md|rst)$",
    re.IGNORECASE,
)
_FETCHES = re.compile(
    r"\b(?:curl|wget|aria2c|iwr|irm|invoke-\w+|start-\w+|certutil|bitsadmin|mshta|msiexec|open|xdg-open|start|explorer"
    r"|git|pip3?|npm|npx|uvx?|brew|installer|hdiutil|powershell|pwsh|cmd)\b"
)
_CALLS = re.compile(r"\s(?:-x\s?(?:post|put|patch|delete|get)|--request|-h\s|--header|-d\s|--data|--json|-f\s\S+=)")
_SAVES = re.compile(r"\s(?:-\w{0,5}o\b|--output|-outfile|--remote-name)|>\s*\S")
_PACKAGED = re.compile(
    r"\b(?:brew|apt|apt-get|dnf|yum|pacman|apk|winget|choco|scoop|port|pipx?|pip3|npm|cargo|conda|snap|flatpak|uv tool)"
    r"\s(?:-\S{1,20}\s){0,3}(?:install|add|-s)\s(?P<names>[^\n|;&]{1,200})"
)

_INDICATORS = re.compile(
    r"\bindicators?\b|\biocs?\b|malicious|suspicious|block ?list|known[- ]bad|red flags?|threats?\b"
)

_FORGES = frozenset(
    {
        "github.com",
        "raw.githubusercontent.com",
        "objects.githubusercontent.com",
        "gitlab.com",
        "bitbucket.org",
        "codeberg.org",
        "gitee.com",
        "sourceforge.net",
    }
)

_PROJECT_PAGES = (".github.io", ".gitlab.io", ".gitbook.io", ".notion.site", ".hf.space")
"""Where projects have their pages; named after an account that somebody had to make."""

_HOST_SCORE = {
    "paste": 4.0,
    "short": 3.0,
    "address": 4.0,
    "share": 3.0,
    "tunnel": 3.0,
    "free": 2.0,
    "unknown": 1.0,
}


def _untrusted(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for statements in read.files.values():
        for index, one in enumerate(statements):
            if (
                not one.places
                or one.warned
                or _is_program(one)
                or _is_indicator(one)
                or (one.kind == "frontmatter" and _LISTED.match(one.low))
            ):
                continue
            # The same host counts once, so that a line of nothing but addresses costs no more than any other.
            places = {(place.host, _ARTEFACT.search(place.path) is None): place for place in one.places}
            if all(place.kind not in _HOST_SCORE and is_page for (_, is_page), place in places.items()):
                continue
            around = Around.of(statements, index)
            if not around.gets:
                continue
            meant = [
                place
                for place in places.values()
                if not _spoken_against(one, place) and not _is_call(one, place) and not _IMAGE.search(place.path)
            ]
            score = max((_score(one, place, around, read) for place in meant), default=0.0)
            if score >= 3.5:
                yield one.hit(one.text, "high")


def _spoken_against(one: Statement, address: HostAddress) -> bool:
    return negated(one.low[max(0, address.start - 140) : address.start])


def _is_program(one: Statement) -> bool:
    """Whether it is code of its own, or a download that is piped into a shell, which another rule looks at."""
    if one.kind != "code":
        return _PIPED.search(one.low) is not None
    return one.script or "|" in one.text or one.language not in ("", "shell", "batch", "powershell", "text", "markdown")


def _is_indicator(one: Statement) -> bool:
    """Whether it is a row in a table of what to look out for: names of hosts, and nothing to open."""
    return (
        one.kind == "row"
        and "://" not in one.text
        and all(len(place.path) <= 1 for place in one.places)
        and _INDICATORS.search(one.heading) is not None
    )


def _is_call(one: Statement, address: HostAddress) -> bool:
    """Whether a command only talks to an address, or hands it on, and gets nothing there that could be run."""
    if one.kind != "code" or one.language != "shell" or _ARTEFACT.search(address.path) or _SAVES.search(one.low):
        return False
    return not _FETCHES.search(one.low) or _CALLS.search(one.low) is not None


def _score(one: Statement, address: HostAddress, around: Around, read: SkillStatements) -> float:
    """How much an address looks like where a fake prerequisite comes from."""
    base = 1.0 if address.host.endswith(_PROJECT_PAGES) else _HOST_SCORE.get(address.kind, 0.0)
    mimics = _mimics(address)
    artefact = _ARTEFACT.search(address.path) is not None
    own = related(address, read) or _is_short_name(address, read)
    if base == 0 and address.host in _FORGES and artefact and not own and not _is_packaged(address, around, read):
        base = 0.5
    if base == 0 and not (artefact and mimics):
        return 0.0
    if own and not mimics and (not artefact or (address.kind == "unknown" and _named_alike(address, read))):
        base -= 2.0 if address.kind in ("unknown", "free") else 0.0
    score = base + around.weight + (2.0 if mimics else 0.0)
    if _PROGRAM.search(address.path):
        score += 2.5
    elif artefact or FILE.search(one.low):
        score += 1.5
    elif _OFFERS.search(address.host + address.path):
        score += 1.0
    if address.kind == "unknown" and not artefact and not mimics and not around.pressing and _is_page(one, address):
        return min(score, 3.0)
    acts = artefact or around.started or (around.runs and _OFFERS.search(address.url) is not None)
    return score if acts else min(score, 3.0)


def _is_page(one: Statement, address: HostAddress) -> bool:
    """Whether it is a page to read, at a host like any other: documentation, or one that offers nothing."""
    if not address.secure or odd(address.host) or FILE.search(one.low):
        return False
    if _DOCUMENTATION.search(address.host) or _DOCUMENTATION.search(address.path):
        return True
    return not _OFFERS.search(address.host + address.path)


def _is_short_name(address: HostAddress, read: SkillStatements) -> bool:
    """Whether a host has a name of three letters that the skill has, too; longer ones are found within words."""
    labels = address.host.split(".")
    return address.kind == "unknown" and len(labels[-2]) == 3 and labels[-2] in read.words


def _is_packaged(address: HostAddress, around: Around, read: SkillStatements) -> bool:
    """Whether a project at a forge is its own owner, and the skill says which package manager has it, too.

    Anybody can call an account like a project, but nobody can have it in a package manager for that.
    """
    owner, _, rest = address.path.lower().lstrip("/").partition("/")
    if around.pressing or not owner or rest.partition("/")[0] != owner or _BRAND.search(owner):
        return False
    return any(owner in re.split(r"[\s.,`'\"()/]+", found["names"]) for found in _PACKAGED.finditer(read.low))


def _named_alike(address: HostAddress, read: SkillStatements) -> bool:
    """Whether the skill itself is called like the host."""
    name = re.sub(r"[^a-z0-9]", "", read.view.name.lower())
    return any(re.sub(r"[^a-z0-9]", "", label) in name for label in address.labels)


def _mimics(address: HostAddress) -> bool:
    """Whether it carries an agent's brand at a place that is not the brand's own."""
    if address.kind == "known":
        parts = address.path.lower().split("/")
        return len(parts) > 2 and not _BRANDS_OWN.match(parts[1]) and _BRAND.search("/".join(parts[2:])) is not None
    return _BRAND.search(address.host) is not None and not address.host.endswith(_PROJECT_PAGES)


RULES = (
    ScanRule(
        id="PREREQ_UNTRUSTED_HOST",
        ast="AST01",
        category="execution_code_delivery",
        severity="high",
        message="It asks for something to be downloaded and run from a place where anybody can put anything.",
        hint="Do not follow the step. A real prerequisite comes from its vendor or a package manager.",
        check=_untrusted,
    ),
)
