"""Archives that are locked so that nobody looks inside."""

# ruff: noqa: RUF001  (letters and marks of other scripts are what is looked for)

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules._asking import ARCHIVE, RUN
from metier.scan.rules._judging import nearby, wording
from metier.scan.rules._reading import reading
from metier.scan.rules._words import word_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.finding import Severity
    from metier.scan.rule import Hit
    from metier.scan.view import SkillView


_PASSWORD = re.compile(
    r"(?:\b(?:password|passwd|pass(?:phrase|code)?(?!\s+--?[a-z])|pwd|pw|zip (?:key|pw)|(?:secret|magic|code"
    r"|unlock) ?(?:word|phrase)|(?:archive|unlock|extraction"
    r"|unpack)"
    r" (?:key|code|word)|contraseña|clave|парол[ья]|senha|passwort|kennwort|hasło|şifre|mot de passe"
    r"|parola d['’]ordine)\b"
    r"|密码|解压码|口令|提取码|パスワード|비밀번호|암호)"
    r"(?:\s{0,2}(?:is|[;,] ?(?:type|enter|use|it is)|for (?:the |this )?\w{1,12}|to (?:extract|unzip|open)|es|—|-|:|="
    r"|：|为"
    r"|是)){0,3}[\s:：=*_`\"'“(\[-]{0,6}(?P<value>[\w.@!#$%^&+-]{2,40})"
)

_NO_PASSWORD = word_set(
    "protected protect is for the required field manager managers hash hashes reset policy or "
    "and to in of if from your a an "
    "with when that which can it this them through along directly these both each all into over will encrypted "
    "encryption secured based prompt option authentication auth as on by not must"
)

_PASSWORD_OPTION = re.compile(
    r"\b(?:unzip\s+(?:-\w\s+)*-P\s*\S|7z[az]?\s+[xe]\s[^\n]{0,120}-p\S|unrar\s+[xe]\s[^\n]{0,80}-p\S"
    r"|bsdtar\b[^\n]{0,60}--passphrase)"
)

_CHANGES = re.compile(
    r"\bdownload|https?://|\.(?:exe|msi|dmg|pkg)\b|下载|descarg|скача|releases|baix|télécharg|herunterlad"
)

_SAID_OTHERWISE = re.compile(
    r"\((?:code|pw|pass|key|pin)[:= ]{1,3}\w{2,20}\)|\b(?:code|pw|pin|using"
    r"|unlock\w{0,5})(?: is)?\s?[:=] ?[\"']?\w{2,20}\b"
    r"|\b(?:protected|encrypted|locked)\b[\w -]{0,30}\b(?:zip|archive|rar|7z|file)\b\s?\([\"'`]?(?!windows|mac|linux"
    r"|zip|rar"
    r"|7z|optional|see|x64|arm|recommended|aes)[\w-]{2,20}[\"'`]?\)"
    r"|\b(?:protected|encrypted|locked|secured) (?:with|by) (?!a\b|an\b|the\b|your\b|our\b|password|aes|gpg|pgp|age\b)"
    r"[\"'`]?(?=[\w-]{0,20}\d)[\w-]{2,20}\b"
    r"|\b(?:opens?|unlocks?|unpacks?|extracts?|decrypts?) (?:only )?(?:with|using|by) ?[:=] ?[\"'`]?[\w-]{2,20}\b"
    r"|\b(?:extract|unpack|open|unzip|unlock)\w{0,3} (?:it |them |the \w{1,10} )?(?:with"
    r"|using) the (?:\w{1,10} )?(?:key|code|pin"
    r"|word)\b"
    r"|\b(?:to|for) (?:open|opening|unpack|unpacking|extract|extracting|unlock|unlocking"
    r"|unzip)\b[^.;\n]{0,20}\b(?:enter"
    r"|type|use)\s[\"'`]?(?=[\w-]{0,20}\d)[\w-]{2,20}\b"
)
"""The same without the word for it."""
_SAYS_CODE = (
    "code", "pw", "pass", "key", "pin", "using", "unlock", "protected", "encrypted", "locked", "secured",
    "to open", "opens", "decrypt",
    "unpack", "extract", "unzip",
)  # fmt: skip
_SAYS_PASSWORD = (
    "pass", "pwd", "pw ", "pw:", "pw=", " key", "密码", "解压码", "口令", "提取码", "contrase", "clave", "парол",
    "senha", "code", "pin", "mot de", "kennwort", "secret", "magic", "hasło", "şifre",
    "parola", "パスワード", "비밀번호", "암호",
)  # fmt: skip
_ARCHIVES = (
    "zip", "rar", "7z", "archive", "extract", "unpack", "decompress", "archiv", "extra", "arquivo", "解压", "压缩包",
    "архив", "распак",
)  # fmt: skip
"""What stands on every page that `ARCHIVE` finds something on."""
_OPENS = ("unzip", "7z", "unrar", "bsdtar")


def _password(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    if not read.has(*_ARCHIVES) or not read.has(*_SAYS_PASSWORD, *_SAYS_CODE, *_OPENS):
        return
    for statements in read.files.values():
        for index, one in enumerate(statements):
            hinted = one.kind != "code" and read.sees(one, _SAYS_PASSWORD)
            literal = (
                next((found for found in _PASSWORD.finditer(one.low) if found["value"] not in _NO_PASSWORD), None)
                if hinted
                else None
            )
            if (
                literal is None
                and one.kind == "prose"
                and read.sees(one, _SAYS_CODE)
                and ARCHIVE.search(one.low) is not None
            ):
                literal = _SAID_OTHERWISE.search(one.low)
            option = _PASSWORD_OPTION.search(one.text) if any(mark in one.low for mark in _OPENS) else None
            if option is None and (literal is None or (one.kind == "code" and one.script)):
                continue
            low = wording(nearby(statements, index, 2, 2, 6), one)
            local = (
                ARCHIVE.search(one.low)
                and RUN.search(low)
                and re.search(r"\b(?:this folder|bundled|included|renamed|shipped|same folder|assets?/|bin/)\b", low)
            )
            if not ARCHIVE.search(low if literal is None else one.low + " " + low) or not (
                _CHANGES.search(low) or local
            ):
                continue
            hit = option or literal
            severity: Severity = "info" if one.warns_of(hit) else "high"
            yield one.hit(one.text, severity)


RULES = (
    ScanRule(
        id="PASSWORD_PROTECTED_ARCHIVE",
        ast="AST01",
        category="execution_code_delivery",
        severity="high",
        message="It asks for an archive to be opened with a password, which keeps virus scanners from looking inside.",
        hint="Do not open the archive. Honest software is not handed out in locked archives.",
        check=_password,
    ),
)
