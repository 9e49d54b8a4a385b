"""Fake prerequisites: "download this archive, the password is x, and run it before you begin"."""

# ruff: noqa: RUF001  (letters and marks of other scripts are what is looked for)

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from metier.guard.scan.rule import Rule
from metier.guard.scan.rules._judging import nearby, related, wording
from metier.guard.scan.rules._mercy import negated
from metier.guard.scan.rules._reading import reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.guard.scan.rule import Hit
    from metier.guard.scan.rules._hosts import Address
    from metier.guard.scan.rules._reading import Reading
    from metier.guard.scan.rules._statements import Statement
    from metier.guard.scan.view import View

_GET = re.compile(
    r"\b(?:download|install|get|grab|fetch|obtain|visit|open|go to|navigate|head to|copy|paste|run|execute|pull|see"
    r"|follow|from)\w{0,4}\b"
    r"|下载|安装|运行|执行|复制|粘贴|访问|打开|descarg|instal|ejecut|copia|pega|visita|скача|установ|запуст|скопир"
    r"|встав|откро"
    r"|baix|télécharg|exécut|install|herunterlad|herunterzuladen|ausführ|scaric|esegu|indir|çalıştır"
    r"|ダウンロード|インストール"
    r"|실행|다운로드|تنزيل|डाउनलोड|pobierz|uruchom|скачай|завантаж"
)

RUN = re.compile(
    r"\b(?:run|execute|launch|start|extract|unzip|unpack|double-?click|paste|install|open)(?:s|ing)?\b[^\n]{0,60}"
    r"\b(?:it|this|the|them|file|installer|executable|binary|command|script|archive|setup|tool|agent|terminal"
    r"|snippet|utility|program|app|code)\b"
    r"|\.exe\b|解压|运行|执行|粘贴|双击|ejecut|extra[eij]|pega|запуст|распак|встав|execut|exécut|lance[rz]|ouvr"
    r"|décompress"
    r"|ausführ|öffne|entpack|starte|esegu|apri|aç |çalıştır|uruchom|rozpakuj|実行|解凍|開く|실행|열기|압축"
)

_TERMINAL = re.compile(
    r"\b(?:copy|paste|enter|type|drop)\b[^\n]{0,80}\b(?:terminal|command prompt|powershell|console|shell|cmd)\b"
    r"|\b(?:execute|run)\b[^\n]{0,40}\b(?:in|into|inside|from) (?:your |a |the )?(?:terminal|command prompt"
    r"|powershell|console)\b"
    r"|\b(?:win(?:dows)?(?: key)? ?\+ ?r\b|run dialog|⊞)|copy the (?:\w+ ){0,3}(?:command|script|code|snippet)|终端"
    r"|terminal[^\n]{0,30}(?:pega|copia)|(?:pega|copia)[^\n]{0,60}terminal|терминал"
)

_REQUIRED = re.compile(
    r"\b(?:prerequisites?|required?|requires|requirements?|must(?: be| have)?|mandatory|necessary|before (?:using"
    r"|you|first|starting|running|continuing|proceeding|any)"
    r"|(?:won'?t|will not|does not|doesn'?t|cannot|not) (?:work|function|operate|run|be able)|depends on|essential"
    r"|critical|important|needed|first[- ]time setup|in order to use"
    r"|dependenc(?:y|ies)|activation|activate)\b|⚠|必须|必需|需要|前提|先决|之前|requisito|requerid|necesari"
    r"|obligatori|antes de"
    r"|требует|необходим|обязательн|перед |erforderlich|benötig|muss |requis|nécessaire|obligatoire|avant de|obrigat"
    r"|necessári|obbligator|necessari|prima di|gerekli|önce|wymagan|必要|필요|먼저"
)

_SYSTEM = re.compile(r"\b(?:windows|mac ?os(?: x)?|macbook|osx|linux)\b")

_ARTEFACT = re.compile(
    r"\.(?:zip|exe|msi|dmg|pkg|7z|rar|scr|bat|cmd|ps1|vbs|jar|apk|iso|lnk|appimage|deb|rpm|tar\.gz|tgz|run|command"
    r"|hta|xz|bin)(?:[?#][^\s]{0,200})?$"
    r"|/releases/(?:latest/)?download/|[?&](?:dl|download)=1|export=download",
    re.IGNORECASE,
)

_PROGRAM = re.compile(
    r"\.(?:exe|msi|dmg|pkg|scr|iso|lnk|crx|xpi|bat|cmd|ps1|vbs|hta|jar|apk|appimage|command|img)(?:[?#][^\s]{0,200})?$",
    re.IGNORECASE,
)

_PRESSED = re.compile(
    r"\b(?:do not|don['’]?t|never) (?:\w{1,12} ){0,2}(?:create|continue|proceed|start|answer|begin|run|use|work"
    r"|go on)\w{0,3} (?:\w{1,12} ){0,3}(?:before|until|without)|\bwait (?:until|for) (?:they|the user|it)|\breassure"
    r"|\bsend the user|\b(?:ask|tell|instruct|have|direct|guide"
    r"|urge) (?:the )?users? (?:to )?(?:\w{1,12} ){0,2}(?:download|install|run|open|visit|paste|execute)"
    r"|\bskipped (?:the|this|it)|\bnot on (?:the |npm|pypi|brew|github|any )|\bcannot be (?:put|shipped|included"
    r"|bundled|published)|\bregistry refuses|\bonly takes|\bsilent install|/verysilent|/quiet\b|-allowuntrusted"
)

_GRANTS = re.compile(
    r"\b(?:accessibility|screen recording|full disk access|microphone|all (?:your )?data on all websites"
    r"|developer mode|administrator rights|admin password|system password)\b"
)

_ANYWAY = re.compile(
    r"run anyway|open anyway|keep anyway|more info|smart ?screen|gatekeeper|cannot be verified"
    r"|unidentified developer|--master-disable|quarantine|antivirus|false positive|defender"
)

_CODED = re.compile(
    r"\b(?:code|pin|key|pw)\b[\s:=\"'(-]{1,4}(?!is\b|and\b|or\b|to\b|for\b|in\b|that\b|you\b|from\b|with\b|of\b"
    r"|the\b|as\b|at\b|on\b|should\b|must\b)[\w-]{2,20}\b"
)

_FILE = re.compile(r"\b[\w.-]{2,60}\.(?:zip|exe|msi|dmg|pkg|7z|rar|scr|bat|vbs|hta|jar|iso)\b")

_BRAND = re.compile(r"open-?claw|clawd|claw-?hub|molt-?bot|claude|anthropic|codex|openai|cursor|copilot|gemini|chatgpt")

_BRANDS_OWN = re.compile(
    r"^(?:openclaw|clawdbot|anthropics?|openai|getcursor|google-gemini|google|github|microsoft|steipete)$"
)

_COMPONENT = re.compile(
    r"\b[\w-]{0,30}(?:driver|provider|authtool|auth tool|agent|core|helper|runtime|companion|bridge|connector|daemon"
    r"|cli|utility|client|component|module)\b"
    r"[^\n]{0,60}\b(?:required|must|needs?|installed|running|needed|necessary)\b"
)

ARCHIVE = re.compile(
    r"\b(?:zip|rar|7z|7-?zip|archive|extract|unpack|unzip|unrar|decompress)\w{0,3}\b|\.(?:zip|rar|7z)\b|解压|压缩包"
    r"|archivo|архив|распак|extra[eij]|arquivo|archiv"
)

_LISTED = re.compile(
    r"\s*[\"']?(?:homepage|url|repository|source|documentation|docs|author|license|website|icon|repo)\b"
)

_PIPED = re.compile(r"\|\s{0,3}(?:sudo )?(?:(?:ba|z)?sh\b|iex\b)")
_OFFERS = re.compile(r"download|install|setup|\bget\b|update|client|driver|bridge|agent", re.IGNORECASE)

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


def _untrusted(view: View) -> Iterator[Hit]:
    read = reading(view)
    for statements in read.files.values():
        for index, one in enumerate(statements):
            if (
                not one.places
                or one.warned
                or _is_program(one)
                or (one.kind == "frontmatter" and _LISTED.match(one.low))
            ):
                continue
            around = _Around.of(statements, index)
            if not around.gets:
                continue
            # The same host counts once, so that a line of nothing but addresses costs no more than any other.
            places = {(place.host, _ARTEFACT.search(place.path) is None): place for place in one.places}
            meant = [one_place for one_place in places.values() if not _spoken_against(one, one_place)]
            score = max((_score(one, place, around, read) for place in meant), default=0.0)
            if score >= 3.5:
                yield one.hit(one.text, "high")


def _spoken_against(one: Statement, address: Address) -> bool:
    return negated(one.low[max(0, address.start - 140) : address.start])


def _is_program(one: Statement) -> bool:
    """Whether it is code of its own, or a download that is piped into a shell, which another rule looks at."""
    if one.kind != "code":
        return _PIPED.search(one.low) is not None
    return one.script or "|" in one.text or one.language not in ("", "shell", "batch", "powershell", "text", "markdown")


@dataclass(frozen=True, slots=True)
class _Around:
    """What is said around an address, whichever it is."""

    gets: bool
    runs: bool
    """Whether something is to be run, and that it is, in the very sentence or a file's name nearby."""
    started: bool
    weight: float

    @classmethod
    def of(cls, statements: tuple[Statement, ...], index: int) -> _Around:
        one = statements[index]
        low = wording(nearby(statements, index, 3, 3, 9), one)
        terminal = _TERMINAL.search(low) is not None
        signs = (
            (1.0, _PRESSED.search(low)),
            (1.0, _GRANTS.search(low)),
            (1.5, _ANYWAY.search(low)),
            (1.5, "hxxp" in one.low or "[.]" in one.low),
            (1.0, _CODED.search(one.low) and ARCHIVE.search(low)),
            (1.5, terminal),
            (1.0, not terminal and RUN.search(low)),
            (1.0, _REQUIRED.search(f"{one.heading} {one.lead} {low}")),
            (0.5, _SYSTEM.search(low)),
            (0.5, _COMPONENT.search(low)),
        )
        return cls(
            gets=_GET.search(low) is not None,
            runs=RUN.search(low) is not None,
            started=terminal or RUN.search(one.low) is not None or _FILE.search(low) is not None,
            weight=sum(weight for weight, sign in signs if sign),
        )


def _score(one: Statement, address: Address, around: _Around, read: Reading) -> float:
    """How much an address looks like where a fake prerequisite comes from."""
    base = 1.0 if address.host.endswith(_PROJECT_PAGES) else _HOST_SCORE.get(address.kind, 0.0)
    mimics = _mimics(address)
    artefact = _ARTEFACT.search(address.path) is not None
    own = related(address, read)
    if base == 0 and address.host in _FORGES and artefact and not own:
        base = 0.5
    if base == 0 and not (artefact and mimics):
        return 0.0
    if own and not mimics and (not artefact or (address.kind == "unknown" and _named_alike(address, read))):
        base -= 2.0 if address.kind in ("unknown", "free") else 0.0
    score = base + around.weight + (2.0 if mimics else 0.0)
    if _PROGRAM.search(address.path):
        score += 2.5
    elif artefact or _FILE.search(one.low):
        score += 1.5
    elif _OFFERS.search(address.host + address.path):
        score += 1.0
    acts = artefact or around.started or (around.runs and _OFFERS.search(address.url) is not None)
    return score if acts else min(score, 3.0)


def _named_alike(address: Address, read: Reading) -> bool:
    """Whether the skill itself is called like the host."""
    name = re.sub(r"[^a-z0-9]", "", read.view.name.lower())
    return any(re.sub(r"[^a-z0-9]", "", label) in name for label in address.labels)


def _mimics(address: Address) -> bool:
    """Whether it carries an agent's brand at a place that is not the brand's own."""
    if address.kind == "known":
        parts = address.path.lower().split("/")
        return len(parts) > 2 and not _BRANDS_OWN.match(parts[1]) and _BRAND.search("/".join(parts[2:])) is not None
    return _BRAND.search(address.host) is not None and not address.host.endswith(_PROJECT_PAGES)


RULES = (
    Rule(
        id="PREREQ_UNTRUSTED_HOST",
        ast="AST01",
        category="execution_code_delivery",
        severity="high",
        message="It asks for something to be downloaded and run from a place where anybody can put anything.",
        hint="Do not follow the step. A real prerequisite comes from its vendor or a package manager.",
        check=_untrusted,
    ),
)
