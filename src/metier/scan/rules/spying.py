"""Programs that watch people, or work for somebody else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import Hit, ScanRule
from metier.scan.rules._judging import weighed
from metier.scan.rules._reading import reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.finding import Severity
    from metier.scan.view import SkillView

_KEYLOGGER = re.compile(
    r"pynput(?:\.keyboard|\s+import\s+keyboard)|keyboard\.(?:on_press|hook|record|listener)\(|pyxhook"
    r"|setwindowshookex|getasynckeystate|cgeventtapcreate|\biohook\b|node-global-key-listener|/dev/input/event"
    r"|xinput\s+test|logkeys\b|keylogger",
    re.IGNORECASE,
)

_CLIPBOARD = re.compile(
    r"pyperclip\.(?:copy|paste)|clipboard(?:y)?\.(?:write|read)|pbcopy|pbpaste|xclip|set-clipboard|get-clipboard",
    re.IGNORECASE,
)

_COIN = re.compile(
    r"\^?\(?(?:bc1|0x\[a-f|\[13\]\[a-km|t1|\[1-9a-hj-np-z\])|\b(?:bc1[a-z0-9]{20,}|0x[a-f0-9]{40})\b", re.IGNORECASE
)

_MINER = re.compile(
    r"\bxmrig\b|stratum\+(?:tcp|ssl|tls)://|\bcpuminer\b|\bminerd\b|\bccminer\b|\bethminer\b|\bnbminer\b"
    r"|\bt-rex\b[^\n]{0,40}-a\b|\bphoenixminer\b|coinhive|cryptonight|\brandomx\b|(?:supportxmr|nanopool|minexmr"
    r"|moneroocean|hashvault|2miners|f2pool|nicehash)\.\w{2,6}|--donate-level"
    r"|-o\s+\S{3,80}:\d{3,5}\s+-u\s+[48][0-9AB][1-9A-HJ-NP-Za-km-z]{20,}",
    re.IGNORECASE,
)

_MINES = re.compile(
    r"\b(?:run|start|launch|install|use|spare|idle|background)\w{0,4}\b[^\n]{0,60}\b(?:miner|mining|mine (?:monero"
    r"|crypto|xmr|bitcoin))\b"
)


_KEY_MARKS = (
    "pynput", "keyboard", "xhook", "windowshook", "iohook", "keylog", "logkeys", "key-listener", "getasynckey",
    "/dev/input", "xinput", "cgeventtap",
)  # fmt: skip
_CLIP_MARKS = ("clip", "pbcopy", "pbpaste")
_MINER_MARKS = (
    "miner", "mining", "mine ", "xmrig", "stratum", "coinhive", "cryptonight", "randomx", "nanopool", "f2pool",
    "hashvault", "moneroocean", "xmr", "nicehash", "donate-level", "t-rex", "-u 4", "-u 8",
)  # fmt: skip


def _listens(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    if read.has(*_KEY_MARKS):
        sends = read.has("requests.post", "urlopen", "fetch(", "socket", "smtplib", "curl ", "webhook")
        for one in read.told("code"):
            found = _KEYLOGGER.search(one.text) if read.sees(one, _KEY_MARKS) else None
            if found is not None:
                severity: Severity = (
                    "high" if sends and one.script else "medium" if one.script and "log" in one.low else "low"
                )
                yield one.hit(found[0], weighed(severity, one, found, read))
    if not read.has(*_CLIP_MARKS):
        return
    for file, statements in read.files.items():
        code = [one for one in statements if one.kind == "code" and one.script]
        first = next((one for one in code if read.sees(one, _CLIP_MARKS) and _CLIPBOARD.search(one.text)), None)
        if first is not None and any(_COIN.search(one.text) for one in code):
            yield Hit(file, first.line, first.text, "It watches the clipboard for coin addresses.", "high")


def _mines(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for one in read.told():
        if not read.sees(one, _MINER_MARKS):
            continue
        found = _MINER.search(one.text) or (_MINES.search(one.low) if one.kind != "code" else None)
        if found is not None and not _DUG_FOR.search(one.low):
            runs = one.kind == "code" or _STARTED.search(one.low)
            severity: Severity = "high" if runs and (one.kind == "code" or _UNSEEN.search(one.low)) else "low"
            yield one.hit(found[0], weighed(severity, one, found, read))


_DUG_FOR = re.compile(
    r"data mining|text mining|process mining|mining (?:pool )?(?:stocks?|compan|industr|data|sector|difficulty|reward)"
)
_STARTED = re.compile(r"\b(?:run|start|launch|install|download|background|idle)\w{0,4}\b")
_UNSEEN = re.compile(r"background|idle|silent|quiet|xmrig|stratum")


RULES = (
    ScanRule(
        id="LISTENS_IN",
        ast="AST01",
        category="credential_access",
        severity="high",
        message="It watches the keyboard or the clipboard.",
        hint="Do not run it unless that is what the skill is for, and look where the record goes.",
        check=_listens,
    ),
    ScanRule(
        id="COIN_MINER",
        ast="AST01",
        category="resource_availability_abuse",
        severity="high",
        message="It mines coins on this machine.",
        hint="Do not run it, unless the coins are yours.",
        check=_mines,
    ),
)
