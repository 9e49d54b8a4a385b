"""Code that pays somebody whom nobody named: a part of each payment, another receiver, an approval without an end."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules._functions import functions_in
from metier.scan.rules._judging import weighed
from metier.scan.rules._reading import reading
from metier.scan.rules._secrecy import secrecy
from metier.scan.rules.consent import UNASKED
from metier.scan.rules.favours import WALLET

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from metier.scan.rule import Hit
    from metier.scan.rules._reading import SkillStatements
    from metier.scan.rules._statements import Statement
    from metier.scan.view import SkillView

_FEE_NAME = re.compile(
    r"\b\w{0,20}(?:fee|tip|dev|treasury|donat\w{1,4}|commission|referr\w{1,4}|collector|skim)_?(?:wallet|address|addr"
    r"|account"
    r"|receiver|recipient|pubkey|to)?\w{0,12}[\"']?\s*[:=][^\n]{0,40}[\"'](?P<to>[^\"'\n]{26,64})[\"']",
    re.IGNORECASE,
)
_PAYS = re.compile(
    r"systemprogram\.transfer|send_?transaction\(|send_?raw_?\w{3,20}\(|\.transfer\(|transfer_?checked|sendtransfer"
    r"|\.send\(\{"
    r"|transferinstruction|send_token|\bpay\(",
    re.IGNORECASE,
)
_TURNED = re.compile(r"^\s*(?:to|recipient|dest\w{0,10}|receiver|address|payee)\s*=\s*(?P<to>[A-Z][A-Z_0-9]{2,40})\b")
"""The receiver becomes another one."""
_MAX = re.compile(
    r"\bapprove\([^\n]{0,160}(?:maxuint|max_uint|max-uint|2\s?\*\*\s?256|uint256\)\.max|0xf{40,}|1157920892373161954)",
    re.IGNORECASE,
)
_PAID = re.compile(
    r"\b(?:topubkey|to_pubkey|toaddress|to_address|recipient|receiver|payee)[\"']?\s*[:=]\s*(?:new\s+)?(?:\w{1,20}\.)?(?:publickey|pubkey"
    r"|from_string|address)?\(?\s*(?P<to>[A-Za-z_]\w{0,40}(?:\.[A-Za-z_]\w{0,40})?)\b",
    re.IGNORECASE,
)
"""Somebody who is paid, by the name of a constant."""
_SPELT = re.compile(
    r"\[\s*(?:(?:0x[0-9a-f]{1,2}|\d{1,3})\s*,\s*){19,31}(?:0x[0-9a-f]{1,2}|\d{1,3})\s*\]", re.IGNORECASE
)
"""As many numbers as an address has bytes."""
_TO_TEXT = re.compile(
    r"tostring\(\s*16|\.hex\(|hexlify|b58encode|bs58\.encode|[\"']0x[\"']\s*\+|new publickey\(", re.IGNORECASE
)
_HANDED = frozenset(
    {"address", "addr", "to", "recipient", "receiver", "wallet", "payee", "dest", "destination", "iban"}
)
_COINS = re.compile(
    r"\b(?:w?eth|w?bnb|w?btc|w?sol|usd[ct]|dai|matic|native|zero|null|burn|mint|token|contract|router|factory|program|vault"
    r"|multicall|permit)\w{0,20}",
    re.IGNORECASE,
)
"""What addresses are called that belong to nobody: coins, and programs on a chain."""
_NEAR = 12
"""Lines of a page around a command that are about it."""


def _skimmed(view: SkillView) -> Iterator[Hit]:
    """A script that pays a part to somebody whom the page does not name."""
    read = reading(view)
    if not read.has(*_PAY_MARKS, "address", "wallet"):
        return
    for statements in read.files.values():
        code = [one for one in statements if one.script]
        if code:
            yield from _in_script(code, read)
        elif any(read.sees(one, _APPROVAL_MARKS) for one in statements):
            yield from _in_page(statements, read)


def _in_script(code: Sequence[Statement], read: SkillStatements) -> Iterator[Hit]:
    if code[0].language in _DATA or not any(read.sees(one, _RECEIVER_MARKS) for one in code):
        return
    fixed = [one for one in code if len(one.text) < 1_000 and _names_somebody(one)]
    pays = any(_PAYS.search(one.text) or _MAX.search(one.text) for one in code if read.sees(one, _PAY_MARKS))
    if fixed:
        yield from _replaced(code, fixed)
        if pays:
            yield from _now_and_then(code, fixed)
    if not pays:
        return
    told = any(_TOLD.search(other.low) for other in read.told("prose", "row"))
    for one in code:
        if len(one.text) > 1_000:
            continue
        named = _FEE_NAME.search(one.text)
        if named is not None and WALLET.search(named["to"]):
            yield one.hit(one.text, "medium" if told else "high")
        elif (turned := _TURNED.search(one.text)) is not None and _is_fixed(turned["to"], fixed):
            yield one.hit(one.text, "high")
        elif (paid := _PAID.search(one.text)) is not None and _is_fixed(paid["to"], fixed):
            yield one.hit(one.text, "medium" if told else "high")
        elif _MAX.search(one.text) and fixed:
            said = any("approv" in other.low or "allowance" in other.low for other in read.told("prose", "row"))
            yield one.hit(one.text, "low" if said else "high")
    spelt = next((one for one in code if one.text.count(",") >= 19 and _SPELT.search(one.text)), None)
    if spelt is not None and any(abs(one.line - spelt.line) <= 3 and _TO_TEXT.search(one.text) for one in code):
        yield spelt.hit(spelt.text, "high", "It puts the address of a receiver together from numbers.")


def _replaced(code: Sequence[Statement], fixed: Sequence[Statement]) -> Iterator[Hit]:
    """A function that is given an address and returns another one, which is always the same."""
    for function in functions_in(code):
        if function.given.isdisjoint(_HANDED):
            continue
        for one in code[function.begin + 1 : function.end]:
            back = _BACK.match(one.text)
            other = back is not None and back["what"] not in function.given and _is_fixed(back["what"], fixed)
            if back is not None and other and not _COINS.match(back["what"]):
                yield one.hit(one.text, "high", "It returns another address than the one it was given.")


_BACK = re.compile(r"\s*return\s+(?P<what>[A-Za-z_]\w{0,40})(?:[\[.(][^\n]{0,80})?(?:\s+if\b[^\n]{0,120})?\s*;?\s*$")


_AT_TIMES = re.compile(
    r"\bif\b[^\n]{0,120}(?:%\s*\d{1,4}\s*={2,3}|\brandom\w{0,4}\b|\brandint\(|\brandrange\(|datetime|\btime\."
    r"|new date\(|gethours)",
    re.IGNORECASE,
)
"""A condition that is about no payment: every fourth one, one in ten, at night."""
_NAME = re.compile(r"(?<![\w.\"'])[A-Z][A-Z0-9_]{2,40}\b")
_DONE_WITH = re.compile(
    r"\b(?:return|to|dest\w{0,10}|recipient|receiver|payee|path|route|target|address)\b", re.IGNORECASE
)


def _now_and_then(code: Sequence[Statement], fixed: Sequence[Statement]) -> Iterator[Hit]:
    """An address that stands in the script takes the place of another one from time to time."""
    for index, one in enumerate(code):
        if "if" not in one.text or len(one.text) > 1_000 or not _AT_TIMES.search(one.text):
            continue
        for other in code[index : index + 3]:
            names = {name for name in _NAME.findall(other.text[:1_000]) if not _COINS.match(name)}
            if _DONE_WITH.search(other.text) and any(_is_fixed(name, fixed) for name in names):
                yield other.hit(other.text, "high", "From time to time it pays another address than it was given.")
                break


def _in_page(statements: Sequence[Statement], read: SkillStatements) -> Iterator[Hit]:
    """An approval without an end to an address that the page brings along, where nobody is to be asked."""
    for one in statements:
        if one.kind != "code" or one.warned or not read.sees(one, _APPROVAL_MARKS) or not _MAX.search(one.text):
            continue
        near = [other for other in statements if abs(other.line - one.line) <= _NEAR and not other.warned]
        unasked = any(
            UNASKED.search(other.low) or secrecy(other.low) for other in near if other.kind in ("prose", "row")
        )
        if unasked and any(WALLET.search(other.text) for other in near):
            yield one.hit(one.text, weighed("high", one, None, read))


def _names_somebody(one: Statement) -> bool:
    return ("=" in one.text or ":" in one.text) and WALLET.search(one.text) is not None


def _is_fixed(name: str, fixed: Sequence[Statement]) -> bool:
    """Whether a name, or its field, is given an address in the code."""
    word, _, part = name.partition(".")
    return any(
        re.match(rf"\s*(?:\w{{3,8}}\s+){{0,2}}{word}\s*(?::\s*\w+\s*)?=", one.text)
        and (not part or re.search(rf"\b{part}\b", one.text))
        for one in fixed
    )


_TOLD = re.compile(r"\b(?:fee|tip|commission|donation)s?\b")
_PAY_MARKS = ("transfer", "send", "pay(", "approve(")
_APPROVAL_MARKS = ("approve(",)
_RECEIVER_MARKS = (*_PAY_MARKS, "address", "recipient", "receiver", "payee", "wallet", "iban", "pubkey")
_DATA = frozenset({"json", "yaml", "toml", "ini", "cfg", "conf", "lock", "xml", "properties", "markdown", "html"})
"""Files that only hold something."""


RULES = (
    ScanRule(
        id="MONEY_SKIMMED",
        ast="AST03",
        category="privilege_tool_authority_abuse",
        severity="high",
        message="Code pays, or lets spend, somebody whom the user did not name.",
        hint="Find out whose address it is. Pay nothing with it until each receiver is shown and confirmed.",
        check=_skimmed,
    ),
)
