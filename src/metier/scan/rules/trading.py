"""Money that moves without the one whose it is: endless approvals, coins bought unasked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules import _senses as sense
from metier.scan.rules._judging import weighed
from metier.scan.rules._reading import reading
from metier.scan.rules._secrecy import secrecy
from metier.scan.rules._spoken import spoken
from metier.scan.rules.consent import UNASKED
from metier.scan.rules.favours import WALLET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.rule import Hit
    from metier.scan.rules._statements import Statement
    from metier.scan.view import SkillView

_MARKS = (
    "approv", "allowance", "unlimited", "infinite", "uint256", "buy", "purchas", "portfolio", "invest", "swap", "stake",
    "behalf", "sign", "mint", "token", "wallet", "transfer", "confirm", "купи", "подпис", "买入", "授权",
    "签名", "compra",
)  # fmt: skip
_ENDLESS = re.compile(
    r"\b(?:approv\w{1,4}|grant|set|sign|give|request|allow)\w{0,3}\b[^\n]{0,60}\b(?:unlimited|infinite|max(?:imum"
    r"|uint\w{0,5})?"
    r"|uint256)\b|\b(?:unlimited|infinite|max(?:imum)?) (?:token )?(?:allowance|approval|spend\w{0,4})\b"
    r"|无限(?:额度)?授权"
)
_BUYS = re.compile(
    r"\b(?:buy|purchase|hold|keep|allocate|invest|swap|convert|accumulate|stake)\w{0,4}\b[^\n]{0,100}"
    r"|买入[^。\n]{0,40}|купи\w{0,3} [^\n]{0,60}|\bcompra\w{0,2} [^\n]{0,60}"
)
_COIN = re.compile(r"\$[A-Z][A-Z0-9]{1,9}\b")
_ON_BEHALF = re.compile(
    r"\b(?:answer|confirm|accept|approve|click|reply|respond|agree|sign)(?:s"
    r"|ing)?\b(?:(?! not )[^\n]){0,60}\b(?:on (?:the |your )?"
    r"(?:users?|human|owner|their|his|her)(?:'s)? behalf|yourself|automatically)\b"
)
_DIALOG = re.compile(
    r"\b(?:confirm\w{0,7}|dialog\w{0,3}|prompts?|approvals?|popups?|wallet|transactions?|permissions?)\b"
)
_SIGNS_ALL = re.compile(
    r"\b(?:sign|submit|broadcast|approve|execute)\b[^\n]{0,20}\b(?:every|each|any|all"
    r"|whatever)\b[^\n]{0,30}\b(?:transactions?|messages?"
    r"|requests?|payloads?|orders?|permits?)\b"
)
_ALONE = re.compile(r"\b(?:autonomous\w{0,2}|on its own|by itself|unattended|hands[- ]free)\b")
_ASKED = re.compile(
    r"\b(?:after|once|when|if|until|only) (?:the )?(?:users?|human|owner|they) (?:\w{1,10} )?(?:confirm|approv|agree"
    r"|ask|say|want|request"
    r"|ha[sv]e?|names?|chooses?)|\bask(?:ing)? (?:the user |them )?(?:first|before|for confirm)|\bwait for\b"
    r"|after (?:a |the )?confirm|\b(?:pause|stop|wait) (?:\w{1,10} )?to confirm\b"
)


def _moved(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for one in spoken(read):
        if one.warned or not read.sees(one, _MARKS):
            continue
        if _points(one) >= 3 and not _ASKED.search(one.low):
            yield one.hit(one.text, weighed("high", one, None, read))


def _points(one: Statement) -> int:
    """How much speaks for money that moves unasked."""
    low = one.low
    unasked = UNASKED.search(low) is not None or secrecy(low) is not None or _ALONE.search(low) is not None
    always = sense.ALWAYS.within(low, one.words) or re.search(r"\bevery (?:run|trade|swap)|\blater\b", low) is not None
    fixed = WALLET.search(one.text) is not None
    points = 0
    for found, weight in (
        (_ENDLESS.search(low), 1),
        (_SIGNS_ALL.search(low), 2),
        (_ON_BEHALF.search(low) if _DIALOG.search(low) else None, 3),
        (_BUYS.search(low) if _COIN.search(one.text) or fixed else None, 1),
    ):
        if found is not None and not one.warns_of(found):
            points = max(points, weight)
    return points + 2 * unasked + always + fixed if points else 0


RULES = (
    ScanRule(
        id="MONEY_UNASKED",
        ast="AST03",
        category="privilege_tool_authority_abuse",
        severity="high",
        message="It moves money, or lets others move it, without the user's word.",
        hint="Do not let it near a wallet. Have each payment and each approval shown and confirmed.",
        check=_moved,
    ),
)
