"""Keys of other services, gathered from where they lie and passed on "to be analysed", whoever's host it is.

A service is told its own key, by the one who calls it. What it does not need are the keys to all the others: the files
they lie in, the sign-in of a session, the configuration of an agent.
"""

# ruff: noqa: RUF001  (letters and marks of other scripts are what is looked for)

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules import _senses as sense
from metier.scan.rules._judging import doubt
from metier.scan.rules._mercy import negated
from metier.scan.rules._passages import named_by_author, passages
from metier.scan.rules._reading import reading
from metier.scan.rules._spoken import is_spoken
from metier.scan.rules.covert import SENT, SENT_MARKS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.rule import Hit
    from metier.scan.rules._passages import Passage
    from metier.scan.rules._reading import SkillStatements
    from metier.scan.rules._statements import Statement
    from metier.scan.view import SkillView

_TAKEN = re.compile(
    r"\b(?:collect|gather|read|copy|copies|extract|dump|look (?:up|in|for|at)|find|grab|pull|include|bundle|take|load"
    r"|concatenate|scan|harvest|pick up|list|locate|reúne|recopila|lee|extrae|recoge|rassemble|lis|sammle|lies|leia"
    r"|reúna)\w{0,4}\b|读取|收集|提取|获取|собер|прочита|извлек|найд|収集|読み|수집"
)
_FILES = re.compile(
    r"\b(?:every|all|any|each|whatever|both)\b[^.;\n]{0,40}(?:\.env\b|\benv files?\b|\bdotenv"
    r"|\bconfig(?:uration)? files?"
    r"|\bcredential files?)|\.env(?:\*|\.\*)|\.env\b[^.;\n]{0,40}(?:,|\band\b|&)[^.;\n]{0,40}(?:\.env|\.aws"
    r"|openclaw\.json"
    r"|\.npmrc|\.netrc|auth\.json|config)|\bopenclaw\.json|\.codex/auth|\.claude/\.credentials|\.claude\.json"
    r"|auth-profiles\.json|\.config/(?:anthropic|openai|gh/hosts|gcloud)|(?:所有|全部|每个)[^。\n]{0,8}\.env"
    r"|всех файл\w{0,2}"
    r" \.env|archivos \.env|fichiers \.env|\.env-dateien"
)
"""Where the keys of many lie."""
_KEYS = re.compile(
    r"\bapi[ _-]?keys?\b|\b(?:their|its|the|all|access|auth|bearer|provider|with) (?:\w{1,12} )?(?:keys?|tokens?"
    r"|credentials|secrets?)\b|\bcontents?\b|\bvalues\b|密钥|令牌|凭证|ключ|токен|claves?\b|clés?\b|schlüssel|chaves?"
    r"|キー|키\b"
)
_OF_ALL = re.compile(
    r"\b(?:api[ _-]?keys?|keys|tokens|credentials|secrets|logins)\b[^.;\n]{0,20}\b(?:of|for|from) (?:all|each|every|the"
    r"|any) (?:\w{1,12} )?(?:providers?|services?|vendors?|models?|accounts?)\b"
    r"|\b(?:all|each|every) (?:\w{1,12} )?providers?\b[^.;\n]{0,30}\b(?:api[ _-]?keys?|keys|tokens|credentials)\b"
    r"|\bproviders?\b[^.;\n]{0,60}[`\"']?\bapi_?keys?\b|\bapi_?keys?\b[`\"']?[^.;\n]{0,30}\bof (?:each|every|all)\b"
)
"""The keys of all services at once."""
_SESSIONS: dict[str, tuple[str, ...]] = {
    "gh auth token": ("github", "ghcr.io"),
    "glab auth": ("gitlab",),
    "gcloud auth print": ("googleapis", "google", "run.app", "cloudfunctions.net", "gcr.io", "pkg.dev", "appspot"),
    "az account get-access-token": ("azure", "microsoft", "windows.net", "office.com", "dynamics.com", "powerbi"),
    "aws configure": ("amazonaws",),
    "heroku auth:token": ("heroku",),
    "npm token": ("npmjs",),
}
"""Commands that tell the sign-in of a session, and the hosts that it is for."""
_CARRIES = re.compile(
    r"\$\{?\w{0,20}(?:token|key|secret|cred|tok|auth|pat)\w{0,10}\}?|\$\((?:gh|gcloud|az|aws|op)\s", re.I
)
_MARKS = (
    ".env", "key", "token", "credential", "secret", "auth", "openclaw.json", ".claude", "密钥", "令牌", "ключ", "токен",
    "clave", "clé", "schlüssel",
)  # fmt: skip
_UNSENT = re.compile(
    r"\b(?:names? only|only (?:the )?names|never|not|without) (?:\w{1,10} ){0,3}(?:values?|keys?|secrets?|contents?"
    r"|tokens?)\b"
    r"|\bredact|\bmask(?:ed|ing)?\b|\bplaceholder"
)


def _gathered(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    if not read.has("http") or not read.has(*_MARKS):
        return
    lends = read.has(*_SESSIONS)
    for passage in passages(read):
        if not any(one.places for one in passage) or not any(read.sees(one, _MARKS) for one in passage):
            continue
        told = _hoard(passage, read) or (_lent(passage, read) if lends else None)
        if told is not None:
            yield told.hit(told.text, "high")


def _hoard(passage: Passage, read: SkillStatements) -> Statement | None:
    """A sentence that has the keys of many gathered, where the passage passes on what was gathered."""
    for index, one in enumerate(passage):
        if one.bad_company or one.kind == "row" or not is_spoken(one) or not read.sees(one, _MARKS):
            continue
        all_of_them = _OF_ALL.search(one.low)
        found = all_of_them or _FILES.search(one.low)
        if found is None or one.warns_of(found) or _UNSENT.search(one.low):
            continue
        if all_of_them is None and not _TAKEN.search(one.low):
            continue
        near = passage[max(0, index - 4) : index + 8]
        if all_of_them is None and not any(_KEYS.search(other.low) for other in near if is_spoken(other)):
            continue
        if any(_passes_on(other, read) for other in near) and not any(
            _UNSENT.search(other.low) for other in near if is_spoken(other)
        ):
            return one
    return None


def _passes_on(one: Statement, read: SkillStatements) -> bool:
    if one.bad_company or not one.places or named_by_author((one,), read) < 1:
        return False
    if not is_spoken(one) or (read.sees(one, SENT_MARKS) and SENT.search(one.text)):
        return read.sees(one, SENT_MARKS) and _FILE.search(one.text) is not None
    found = _SENDS.search(one.low)
    return (
        found is not None
        and sense.SEND.within(one.low, one.words)
        and not negated(one.low[max(0, found.start() - 140) : found.start()])
        and (_IT.search(one.low) is not None or read.sees(one, _MARKS))
    )


_FILE = re.compile(r"@-|@[\"'$~/.<]|=@|\s-T\s|--upload-file|files\s*=|-infile|providers|keys?[\"']?\s*:|\.env", re.I)
_SENDS = re.compile(
    r"\b(?:send|post|upload|submit|transmit|forward|report|pass|push|envía|sube|envi)\w{0,5}\b|发送|上传|提交|отправ"
    r"|переда"
    r"|\benv[ií]|envoy|envoie|sende|schick|送信|전송"
)
_IT = re.compile(
    r"\b(?:it|them|both|these|this|the (?:result|report|list|bundle|file|json|output|data))\b|[^\x00-\x7f]"
)


def _lent(passage: Passage, read: SkillStatements) -> Statement | None:
    """A command that takes the sign-in of a session along to a host that is not the one it is for."""
    homes = tuple(
        home
        for mark, homes in _SESSIONS.items()
        if any(mark in one.low for one in passage if not one.bad_company)
        for home in homes
    )
    if not homes:
        return None
    for one in passage:
        if one.bad_company or is_spoken(one) or not one.places or not _CARRIES.search(one.text):
            continue
        if _SENDS_ALONG.search(one.low) and all(
            doubt(place, read) >= 1 and not any(home in place.host for home in homes) for place in one.places
        ):
            return one
    return None


_SENDS_ALONG = re.compile(r"\b(?:curl|wget|http|https|requests\.\w{3,6}|fetch|irm|iwr|invoke-\w{8,12})\b")


RULES = (
    ScanRule(
        id="KEYS_GATHERED",
        ast="AST01",
        category="credential_access",
        severity="high",
        message="It has the keys of other services gathered from where they lie and passed on to an address.",
        hint="Do not use it. A service needs its own key and no other; rotate those that were sent.",
        check=_gathered,
    ),
)
