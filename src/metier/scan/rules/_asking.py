"""What is said around an address: that something is to be got there, and run, and why it has to be."""

# ruff: noqa: RUF001  (letters and marks of other scripts are what is looked for)

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from metier._lazy import dataclass
from metier.scan.rules._judging import nearby, wording

if TYPE_CHECKING:
    from metier.scan.rules._statements import Statement

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

_PRESSED = re.compile(
    r"\b(?:do not|don['’]?t|never) (?:\w{1,12} ){0,2}(?:create|continue|proceed|start|answer|begin|run|use|work"
    r"|go on)\w{0,3} (?:\w{1,12} ){0,3}(?:before|until|without)|\bwait (?:until|for) (?:they|the user|it)|\breassure"
    r"|\bsend the user|\b(?:ask|tell|instruct|have|direct|guide"
    r"|urge) (?:the )?users? (?:to )?(?:(?!how\b|before\b|whether\b|if\b|which\b)\w{1,12} ){0,2}(?:download|install"
    r"|run|open|visit|paste|execute)"
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

_UNREAD = re.compile(
    r"\b(?:copy button|(?:what(?:ever)? is (?:in|on)|contents? of|from|in) (?:the|your) clipboard"
    r"|clipboard (?:contents?|into)"
    r"|copied (?:command|line|text|snippet|code))\b"
)
"""A command that a page puts into the hands of whoever runs it, unread."""
_CODED = re.compile(
    r"\b(?:code|pin|key|pw)\b[\s:=\"'(-]{1,4}(?!is\b|and\b|or\b|to\b|for\b|in\b|that\b|you\b|from\b|with\b|of\b"
    r"|the\b|as\b|at\b|on\b|should\b|must\b)[\w-]{2,20}\b"
)

FILE = re.compile(r"\b[\w.-]{2,60}\.(?:zip|exe|msi|dmg|pkg|7z|rar|scr|bat|vbs|hta|jar|iso)\b")

_COMPONENT = re.compile(
    r"\b[\w-]{0,30}(?:driver|provider|authtool|auth tool|agent|core|helper|runtime|companion|bridge|connector|daemon"
    r"|cli|utility|client|component|module)\b"
    r"[^\n]{0,60}\b(?:required|must|needs?|installed|running|needed|necessary)\b"
)

ARCHIVE = re.compile(
    r"\b(?:zip|rar|7z|7-?zip|archive|extract|unpack|unzip|unrar|decompress)\w{0,3}\b|\.(?:zip|rar|7z)\b|解压|压缩包"
    r"|archivo|архив|распак|extra[eij]|arquivo|archiv"
)


@dataclass(frozen=True, slots=True)
class Around:
    """What is said around an address, whichever it is."""

    gets: bool
    """Whether something is to be got, or a place to be visited."""
    runs: bool
    """Whether something is to be run."""
    started: bool
    """Whether it is in the very sentence that something is to be run, or a file to be run has a name nearby."""
    pressing: bool
    """Whether it is asked for as nobody does who has nothing to hide: against warnings, with a password, by hand."""
    weight: float

    @staticmethod
    def of(statements: tuple[Statement, ...], index: int) -> Around:
        """What is said around one of the statements of a file."""
        one = statements[index]
        return _around(wording(nearby(statements, index, 3, 3, 9), one), one.low, f"{one.heading} {one.lead}")


@lru_cache(maxsize=64)  # lines that repeat have the same around them, and whoever wants to cost time repeats lines
def _around(low: str, own: str, above: str) -> Around:
    if _GET.search(low) is None:
        return _NOTHING
    terminal = _TERMINAL.search(low) is not None
    runs = RUN.search(low) is not None
    presses = (
        (1.0, _PRESSED.search(low)),
        (1.0, _GRANTS.search(low)),
        (1.5, _ANYWAY.search(low)),
        (1.5, "hxxp" in own or "[.]" in own),
        (1.0, _CODED.search(own) and ARCHIVE.search(low)),
        (1.5, terminal),
        (2.5, terminal and _UNREAD.search(low)),
    )
    signs = (
        (1.0, not terminal and runs),
        (1.0, _REQUIRED.search(f"{above} {low}")),
        (0.5, _SYSTEM.search(low)),
        (0.5, _COMPONENT.search(low)),
    )
    return Around(
        gets=True,
        runs=runs,
        started=terminal or RUN.search(own) is not None or FILE.search(low) is not None,
        pressing=any(sign for _, sign in presses),
        weight=sum(weight for weight, sign in (*presses, *signs) if sign),
    )


_NOTHING = Around(gets=False, runs=False, started=False, pressing=False, weight=0.0)
