"""Secrets that the user is asked for, or that are gathered, and that go to an address in the next sentence."""

# ruff: noqa: RUF001  (letters and marks of other scripts are what is looked for)

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules import _senses as sense
from metier.scan.rules._mercy import negated
from metier.scan.rules._passages import named_by_author, passages
from metier.scan.rules._prizes import STORE
from metier.scan.rules._reading import reading
from metier.scan.rules._spoken import is_spoken
from metier.scan.rules.covert import SENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.rule import Hit
    from metier.scan.rules._passages import Passage
    from metier.scan.rules._reading import SkillStatements
    from metier.scan.rules._statements import Statement
    from metier.scan.view import SkillView

_NEVER_ASKED = (
    r"(?:seed|recovery|backup|mnemonic|secret) (?:phrases?|words)|mnemonics?\b|private keys?\b|session cookies?\b"
    r"|\b(?:12|24|twelve|twenty-four)(?: or 24)?[ -]words?\b|bank(?:ing)? (?:password|pin|login|credentials|access)"
    r"|\b(?:cvv|cvc)\b|card numbers?\b|(?:login|system|mac|macos|windows|sudo|admin|account|master|keychain|e-?mail"
    r"|icloud|google|paypal|apple id|mailbox|inbox|mail|normal|regular|real|usual|actual|main) passwords?\b"
    r"|passwords? \((?:the )?(?:\w{1,10} )?(?:normal|regular|real|usual|one they|one you)"
    r"|(?:backup|recovery|rescue|emergency) codes?\b|(?:two-factor|2fa|mfa|totp) (?:backup|recovery|secrets?|seeds?)"
    r"|(?:account name|user ?name|e-?mail(?: address)?) and (?:the )?password\b"
    r"|(?:icloud|apple|google|gmail|outlook|microsoft|instagram|facebook|amazon|ebay|whatsapp|bank(?:ing)?|paypal"
    r"|broker\w{0,3}"
    r"|exchange|mail)\b[^.;\n]{0,40}\bpasswords?\b|passwords? (?:for|of|to) (?:their |the |your )?(?:online )?(?:bank"
    r"|mail|inbox"
    r"|e-?mail|broker|exchange|apple|google)\w{0,5}\b|passwords?\b[^.;\n]{0,40}\b(?:\d-digit|six-digit|two-factor|2fa"
    r"|otp|tan|sms"
    r"|text message)\b"
    r"|助记词|私钥|银行(?:卡|密码)|(?:支付|登录|邮箱|账户|账号)密码|сид[- ]фраз|приватн\w{0,4} ключ|парол\w{0,3}"
    r"|номер карты"
    r"|frase (?:semilla|de recuperación)|clave (?:privada|de acceso|bancaria)|contraseña|banca (?:online|en línea)"
    r"|frase[- ]semente|chave privada|senha|phrase (?:de récupération|secrète)|clé privée|mot de passe"
    r"|wiederherstellungs\w{0,8}|privaten? schlüssel|passwort|kennwort"
    r"|备用(?:验证)?码|恢复码|резервны\w{1,2} код|códigos? de (?:respaldo|recuperación)|codes? de secours"
    r"|シードフレーズ|秘密鍵|パスワード|시드 ?구문|개인 ?키|비밀번호"
)
_ASKED = re.compile(
    r"(?:\b(?:ask|request|prompt|have|let|get|obtain|collect|need|require|enter|paste|type|provide|give|supply|share"
    r"|input|pide|pedir|solicita|introdu[cz]\w{1,5}|peça|demande\w{0,2}|saisi\w{1,3}|frag\w{1,3}|bitte|eingeben)"
    rf"\w{{0,3}}\b|请|输入|提供|запроси|попроси|введ|укаж|入力|입력)[^.;\n]{{0,80}}?(?P<what>{_NEVER_ASKED})"
)
_CARRIED = re.compile(
    r"phrase|mnemonic|seed|words|secret|priv\w{0,4}_?key|passw\w{0,6}|\bpass\b|\bpwd|\bpin\b|\botp\b|\bcvv|\bcvc|card"
    r"|clave"
    r"|contrase|senha|cookie|backup|codes?\b|\bapp_?pass|助记词|私钥|密码|парол",
    re.IGNORECASE,
)
_PASSED = re.compile(
    r"\b(?:pass|register|hand|relay|give|check|validate|verify|share|call|put|link|import|test|exchange|look|load"
    r"|restore|unlock"
    r"|store|save)\w{0,3}\b"
)
_IT = re.compile(r"\b(?:it|them|both|these|this|lo|los|la|las)\b|其|它|его|их|(?:[aeií])l[oa]s?\b")
_ASKED_MARKS = (
    "phrase", "mnemonic", "word", "backup code", "recovery code", "rescue code", "emergency code",
    "2fa", "备用", "恢复码", "код", "código",
    "private key", "bank", "cvv", "cvc", "card", "cookie", "frase", "clave", "contrase",
    "banca", "password", "chave", "senha",
    "clé", "mot de", "schlüssel", "kennwort", "助记词", "私钥", "密码", "银行", "фраз",
    "ключ", "парол", "карты", "フレーズ", "秘密鍵", "パスワード", "구문", "키", "비밀번호",
)  # fmt: skip


def _asked_for(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    if not read.has(*_ASKED_MARKS):
        return
    for passage in passages(read):
        if not any(one.places for one in passage):
            continue
        for index, one in enumerate(passage):
            if one.bad_company or not is_spoken(one) or not read.sees(one, _ASKED_MARKS):
                continue
            wanted = (_ASKED.search(one.low), _asked_in_list(one), _REFUSED.search(one.low))
            if not any(_is_asked(found, one) for found in wanted):
                continue
            if any(_hands_on(other, read) for other in passage[index : index + 12]):
                yield one.hit(one.text, "high")
                break


def _is_asked(found: re.Match[str] | None, one: Statement) -> bool:
    if found is None or one.warns_of(found):
        return False
    return not negated(found.string[: found.start("what")][-140:])


_REFUSED = re.compile(
    r"(?P<what>\b(?:instead of|rather than|not|no) (?:an? |the )?app(?:lication)?[- ](?:specific )?passwords?\b"
    r"|\bapp(?:lication)?[- ](?:specific )?passwords?\b(?=[^.;\n]{0,20}\b(?:cause|won['’]?t|will not|do(?:es)? not"
    r"|don['’]?t"
    r"|doesn['’]?t|fail|are not|aren['’]?t|is not|isn['’]?t|break|cannot|can['’]?t)\b))"
)
"""The password that was made for programs is not good enough: it is the other one that is wanted."""


def _asked_in_list(one: Statement) -> re.Match[str] | None:
    """What an item of a list has, when the sentence before the list asks for what follows."""
    if not one.lead.endswith(":"):
        return None
    return _ASKED.search(f"{one.lead[-80:]} {_NUMBER.sub('', one.low)}")


_NUMBER = re.compile(r"^[\s>]*(?:[-*+•]|\d{1,3}[.)])\s+")


def _hands_on(one: Statement, read: SkillStatements) -> bool:
    """Whether what was asked for goes to an address here."""
    if not one.places or named_by_author((one,), read) < 1:
        return False
    if not is_spoken(one):
        return SENT.search(one.text) is not None and _CARRIED.search(one.text) is not None
    if not (_PASSED.search(one.low) or sense.SEND.within(one.low, one.words)) or (
        _CARRIED.search(one.low) is None and _IT.search(one.low) is None
    ):
        return False
    return not one.warns_of(re.search(r"\b(?:send|sent|post|submit|upload|transmit)\w{0,4}\b", one.low))


_IN_FULL = re.compile(
    r"\b(?:full|plain|clear|actual|unmasked|complete|real|unredacted) values?\b|\bin (?:plain|clear) ?text\b"
    r"|\bwith (?:their |the )?values\b|\bnames and (?:their )?values\b|\band their values\b"
    r"|\b(?:no need to|do not|don['’]?t) (?:mask|redact|censor|anonymi[sz]e|shorten)\b"
    r"|\bwithout (?:masking|redacting|censoring|anonymi[sz]ing|shortening)\b"
    r"|\b(?:masking|redacting|redacted)\b[^.;\n]{0,40}\b(?:breaks?|match(?:es)? badly|fails?|useless|spoils?)\b"
    r"|完整(?:的)?值|不要(?:脱敏|打码)|полны\w{1,2} значени|sin (?:ocultar|enmascarar)|valores completos"
)
_NEVER = re.compile(r"\b(?:never|not|don['’]?t|without|no|avoid)\b[^.;:]{0,80}$")
_FULL_MARKS = ("value", "mask", "redact", "censor", "anonymi", " text", "脱敏", "完整", "значен", "valores")
_TOKEN = re.compile(
    r"\b(?:ntn_|secret_|ghp_|github_pat_|glpat-|xox[bpas]-|sk-(?:proj-|ant-)?|pat[A-Za-z0-9]{14}\.|lin_api_|figd_"
    r"|dop_v1_|hf_)"
    r"(?!x{3}|\.\.|your|<)(?=[\w-]{0,60}\d)[\w-]{20,}"
)
"""A key that the author wrote into the page: what is left with it is left with the author."""


def _in_full(view: SkillView) -> Iterator[Hit]:
    """Secrets with their values, gathered and sent to an address, or left with a key that the author wrote down."""
    read = reading(view)
    if not read.has(*_FULL_MARKS):
        return
    for passage in passages(read):
        one = next((one for one in passage if read.sees(one, _FULL_MARKS) and _bids_full(one)), None)
        if one is None or not _has_secrets(passage):
            continue
        if any(_takes(other, read) for other in passage) or any(_TOKEN.search(other.text) for other in passage):
            yield one.hit(one.text, "high")


def _bids_full(one: Statement) -> bool:
    found = _IN_FULL.search(one.low)
    return found is not None and not one.bad_company and not _NEVER.search(one.low[: found.start()][-100:])


def _has_secrets(passage: Passage) -> bool:
    return any(sense.SECRET.within(one.low, one.words) or STORE.search(one.text) for one in passage)


def _takes(one: Statement, read: SkillStatements) -> bool:
    if named_by_author((one,), read) < 1:
        return False
    return SENT.search(one.text) is not None or sense.SEND.within(one.low, one.words)


_KEPT_IN = re.compile(r"(?:>|\btee\b|\s-o)\s*(?P<file>[~/$][^\s;|&`\"']{3,80})")
_KEEPS = (">", "tee ", " -o")


def _left_in_file(view: SkillView) -> Iterator[Hit]:
    """A store of secrets is written to a file, and the file is sent, whatever stands between."""
    read = reading(view)
    if not read.has(*_KEEPS) or not read.has("@/", "@~", "@$", " /", " ~/"):
        return
    kept: set[str] = set()
    for passage in passages(read):
        for one in passage:
            if one.bad_company:
                continue
            written = _KEPT_IN.search(one.text) if ">" in one.text or "-o" in one.text or "tee" in one.text else None
            if written is not None and STORE.search(one.text):
                kept.add(written["file"].rstrip(".,;:)"))
            named = one.places and any(f"@{file}" in one.text or f" {file} " in one.text for file in kept)
            if named and SENT.search(one.text) and named_by_author((one,), read) >= 1:
                yield one.hit(one.text, "high")


def _entrusted(view: SkillView) -> Iterator[Hit]:
    yield from _asked_for(view)
    yield from _in_full(view)
    yield from _left_in_file(view)


RULES = (
    ScanRule(
        id="SECRET_ENTRUSTED",
        ast="AST01",
        category="credential_access",
        severity="high",
        message="It asks for a secret, or gathers secrets with their values, and passes them on to an address.",
        hint="Do not type it in. Nobody who serves a user needs the words of a wallet or the password of a bank.",
        check=_entrusted,
    ),
)
