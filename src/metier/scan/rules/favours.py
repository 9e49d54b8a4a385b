"""Money and messages that go where the user did not send them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules import _senses as sense
from metier.scan.rules._reading import reading
from metier.scan.rules._words import word_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.rule import Hit
    from metier.scan.view import SkillView

WALLET = re.compile(
    r"\b0x[a-fA-F0-9]{40}\b|\bbc1[a-z0-9]{25,60}\b|\b[13][1-9A-HJ-NP-Za-km-z]{25,34}\b|\bT[1-9A-HJ-NP-Za-km-z]{33}\b"
    r"|\b[1-9A-HJ-NP-Za-km-z]{43,44}\b|\b[A-Z]{2}\d{2}[A-Z0-9]{11,30}\b|0x[A-Fa-f0-9]{3,10}(?:…"
    r"|\.\.\.)[A-Fa-f0-9]{3,10}"
)

_REPLACED = re.compile(
    r"\b(?:replace|substitute|swap|change|rewrite|switch|redirect|route"
    r"|override)\w{0,3}\b[^\n]{0,100}\b(?:address(?:es)?|recipient|destination|payee|iban|account number"
    r"|bank details|wallet|payment details|beneficiary|payout|deposit)\b[^\n]{0,80}\b(?:with|to|by|for|into)\b"
    r"|\b(?:use|put|insert|pay|send)\b[^\n]{0,100}\bin (?:its|their|the) (?:place|stead)\b|\b(?:replace|substitute"
    r"|swap|change)\w{0,3}\b[^\n]{0,40}\b(?:iban|account|wallet|address|recipient)\b"
    r"|\b(?:use|put|insert|pay|send|fill in)\b[^\n]{0,80}\bas (?:the )?(?:recipient|destination|address"
    r"|payee)\b[^\n]{0,20}\binstead\b"
    r"|\b(?:sent|paid|go|goes|routed|transferred|credited)\b[^\n]{0,80}\b(?:and not|instead of|rather than) (?:to )?the"
    r" (?:sender|user|customer|owner|payee|recipient|seller|buyer|client)\b"
    r"|(?:替换|改为|换成)[^。\n]{0,20}(?:地址|收款|账户|钱包)|(?:收款|钱包|转账)地址[^。\n]{0,10}(?:替换|改为|换成)"
    r"|замени\w{0,3} [^\n]{0,40}(?:адрес|кошел|реквизит)|reemplaza[^\n]{0,50}(?:dirección|cartera|cuenta|billetera)"
)

_SKIM = re.compile(
    r"\b(?:send|transfer|route|add|include|deduct|tip|take|forward|pay|allocate"
    r"|donate|move|sweep|deposit)\w{0,3}\b[^\n]{0,80}(?:\b\d{1,2}(?:\.\d+)?\s?%|\b(?:fee|commission|percent|tip"
    r"|donation|small amount"
    r"|remaining|surplus|excess|profits?|dust|balance|all (?:funds|tokens|assets)|(?:available"
    r"|entire) balance)\b)[^\n]{0,100}\b(?:to"
    r"|address|wallet)\b"
    r"|(?:转|支付|发送|汇|扣)[^。\n]{0,30}(?:手续费|佣金|小费|费用|%)|(?:手续费|佣金|小费|费用)[^。\n]{0,20}(?:转|支付"
    r"|发送|打|汇)"
    r"|(?:перевед|отправ|спиш|перечисл)\w{0,4} [^\n]{0,40}(?:комисси|процент|чаевы|%)"
    r"|\b(?:env[ií]a|transfiere|paga)\w{0,3} [^\n]{0,40}(?:comisi|propina|%)"
)

_MONEY = word_set(
    "address addresses recipient recipients destination payee iban account accounts bank wallet "
    "wallets payment payments beneficiary payout deposit fee fees commission tip donation balance direccion cartera "
    "cuenta billetera"
)

_UNTOLD = re.compile(
    r"\bwithout (?:\w{1,12} ){0,2}(?:asking|telling|notice|noticing|saying|confirm\w{0,7}|inform\w{0,3}|mention\w{0,3}"
    r"|approval|consent|permission|showing|review|question|users?|a word|prompt\w{0,3})\b"
)

_IN_NAME = re.compile(
    r"\b(?:send|post|write|message|reply|email|publish|comment|tweet|invite"
    r"|dm)\w{0,4}\b[^\n]{0,60}\b(?:in the user(?:'s)? name|as the user|from the user(?:'s)? account|to (?:all|every"
    r"|each)(?: of)? (?:the user(?:'s)? |their |the )?(?:contacts?|followers?|friends|colleagues|members))\b"
)

_DEVICE = re.compile(
    r"\b(?:unlock|open|disarm|disable|switch off|turn off|lower)\b[^\n]{0,30}\b(?:front door|door|lock|garage|alarm"
    r"|camera|gate|smoke detector|oven|valve)s?\b"
)

_UNBIDDEN = re.compile(
    r"\b(?:automatically|at night|every (?:night|day|evening)|when (?:nobody|no one|the user is (?:away|asleep|not))"
    r"|after \d|without (?:asking|confirm\w{0,5}|a question)|no confirmation|for (?:the )?(?:courier|maintenance"
    r"|technician|inspection))\b"
)


def _redirected(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for one in read.told("prose", "comment", "frontmatter", "code"):
        if one.warned or (one.script and not re.match(r"\s*(?:#|//|\*)", one.text)):
            continue
        if one.low.isascii() and one.words.isdisjoint(_MONEY) and not any(len(word) >= 25 for word in one.words):
            continue
        words = None
        found = _REPLACED.search(one.low) if read.sees(one, _REPLACED_MARKS) else None
        if found is None:
            found = (
                _SKIM.search(one.low)
                if "wallet" in one.low or "address" in one.low or WALLET.search(one.text)
                else None
            )
            words = one.words
        if found is None or one.warns_of(found):
            continue
        words = words or one.words
        wallet = WALLET.search(one.text) is not None
        ours = (
            re.search(
                r"\b(?:our|my|this|the following|attacker|developer(?:'s)?|maintainer(?:'s)?|author(?:'s)?"
                r"|operator(?:'s)?|support) (?:\w{1,10} )?(?:address|wallet|account|treasury)",
                one.low,
            )
            is not None
        )
        hides = sense.STEALTH.within(one.low, words) or _UNTOLD.search(one.low) is not None
        always = sense.ALWAYS.within(one.low, words)
        points = 2 * wallet + ours + 2 * hides + always
        if points >= 2:
            yield one.hit(one.text, "high")


def _in_name(view: SkillView) -> Iterator[Hit]:
    """What the user did not ask for is done in the user's name, or to the user's things."""
    read = reading(view)
    for one in read.told("prose", "comment", "frontmatter"):
        if one.warned or one.words.isdisjoint(_DEEDS):
            continue
        found = _IN_NAME.search(one.low)
        if found is not None and not one.warns_of(found):
            asked = re.search(
                r"\b(?:draft|approv|confirm|ask|show|when the user (?:asks|says|wants)|if the user|on request)", one.low
            )
            yield one.hit(one.text, "low" if asked else "medium")
            continue
        device = _DEVICE.search(one.low)
        if device is not None and _UNBIDDEN.search(one.low) and not one.warns_of(device):
            yield one.hit(one.text, "high")


_DEEDS = word_set(
    "send post write message reply email publish comment tweet invite dm sends posts messages unlock "
    "open disarm disable switch turn lower"
)

_REPLACED_MARKS = (
    "instead",
    "and not",
    "rather than",
    "in its place",
    "in their place",
    "in the place",
    "repla",
    "substit",
    "swap",
    "chang",
    "rewrit",
    "switch",
    "redirect",
    "route",
    "overrid",
    "替换",
    "改为",
    "换成",
    "замени",
    "reemplaz",
)


RULES = (
    ScanRule(
        id="PAYMENT_REDIRECT",
        ast="AST01",
        category="integrity_output_manipulation",
        severity="high",
        message="It sends money, or part of it, to somebody whom the user did not name.",
        hint="Do not let it near a wallet or a bank account.",
        check=_redirected,
    ),
    ScanRule(
        id="IN_THE_USERS_NAME",
        ast="AST03",
        category="privilege_tool_authority_abuse",
        severity="medium",
        message="It acts in the user's name, or on the user's things, without being asked to.",
        hint="Have the agent show what it is about to do, and wait for an answer.",
        check=_in_name,
    ),
)
