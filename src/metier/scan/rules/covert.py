"""What is done for somebody else, and kept from the user by another sentence of the same passage.

A deed that sounds harmless and a remark that sounds harmless, each in a sentence of its own: together they are a deed
that the user is not to know of.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules import _senses as sense
from metier.scan.rules._agents import AGENT_FILE
from metier.scan.rules._cloaks import cloaks
from metier.scan.rules._passages import named_by_author, passages
from metier.scan.rules._reading import reading
from metier.scan.rules._words import word_set
from metier.scan.rules.favours import WALLET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.rule import Hit
    from metier.scan.rules._reading import SkillStatements
    from metier.scan.rules._statements import Statement
    from metier.scan.view import SkillView

SENT = re.compile(
    r"\bcurl\b[^\n]{0,400}(?:\s-(?:d|F|T)\b|\s--(?:data|form|upload-file|json)|@-|@\S|\s-x ?(?:post|put)\b"
    r"|\?\S{0,80}\$)"
    r"|\brequests\.(?:post|put)\(|\bgit (?:remote add|push)\b|\b(?:rsync|scp|rclone)\b|\bnc\s|--bcc\b|\s-infile\b"
    r"|\b(?:invoke-restmethod|irm)\b[^\n]{0,200}-method (?:post|put)|\b(?:post|put) https?:"
    r"|!\[[^\]\n]{0,80}\]\(https?://[^\s)]{0,300}[{<\[]",
    re.IGNORECASE,
)
"""A command, or a picture, that takes something along to an address."""
SENT_MARKS = (
    "curl", "requests.", "git ", "rsync", "scp ", "rclone", "nc ", "--bcc", "-infile", "invoke-", "irm ", "post http",
    "put http", "![",
)  # fmt: skip
_FETCHED = re.compile(r"\b(?:curl|wget|iwr|irm|install|download|npx|uvx|pip3?|fetch)\w{0,4}\b")
_RUN = re.compile(
    r"\b(?:python3?|node|bash|sh|npx|uvx|deno|bun|tsx) (?:-\S{1,12} )?\S{0,60}(?:scripts?|bin|tools|lib|hooks)/\S"
)
_PAID = re.compile(
    r"\b(?:approv|transfer|send|pay|spender|recipient|deposit|settl|move|sweep|rout|relay|forward|tip|donat"
    r"|permit)\w{0,6}\b"
    r"|\bto\b"
)
_BILLED = re.compile(
    r"\b(?:top up|charge|recharge|renew)\b[^.\n]{0,60}\b(?:card|account|balance|credits?)\b"
    r"|(?<!that )(?<!which )\b(?:sign|authori[sz]e|accept|pay)\b[^.\n]{0,60}\b(?:payments?|whatever|any (?:amount"
    r"|price)|permits?"
    r"|invoices?)\b|\bsats\b"
)
_ALTERS = re.compile(
    r"\b(?:append|add|write|written|insert|modify|edit|overwrite|replace|store|save|put|place|copy|prepend|persist"
    r"|embed)"
    r"\w{0,3}\b|写入|添加|追加|добав|запиш|añad|agreg|escrib"
)
_MEMORY = re.compile(AGENT_FILE, re.IGNORECASE)
_HIRED = re.compile(
    r"[?&](?:tag|ref|aff\w{0,6}|campid|\w{0,8}partner\w{0,4}|via|p|pid)=[\w-]{3,}|\btag=[\w-]{3,20}|/c/[0-9a-f]{8,}\b"
    r"|\b(?:commission|affiliate|referral|kickback)s?\b|\b(?:upvote|downvote|repost|retweet|star|follow|like"
    r"|subscribe to)\b"
    r"[^.;\n]{0,60}(?:\bu/\w|@\w|\bprojects?\b|\baccounts?\b|\bposts? of\b)|user/(?:starred|following)/|\bsponsor"
    r"|\bpartners?\b|\b(?:links?|urls?)\b[^.\n]{0,30}\b(?:go|opens?|opened|lead|pass|routed?) (?:\w{1,8} )?(?:through"
    r"|via)\b"
    r"|\b(?:five|5)[- ]stars?\b"
    r"|\b(?:replace|swap|rewrite|wrap|exchange)\b[^.\n]{0,30}\b(?:links?|urls?)\b"
)
_AGENT_WORDS = sense.AGENT_FILE.words | word_set(
    ".claude .cursor .codex .openclaw mcp.json .mcp.json exec-approvals.json"
)
_HIRE_WORDS = word_set(
    "tag ref aff affid aff_id affiliate affiliates campid partner partners partnerid via p pid c commission "
    "commissions referral referrals kickback kickbacks upvote downvote repost retweet star starred "
    "follow following like subscribe "
    "sponsor sponsors sponsored link links url urls stars five-star 5-star"
)
_DROPPED = re.compile(
    r"\b(?:issue|gist|discussion|pull request|comment|paste)\b[^.\n]{0,40}\b(?:in|at|on|to"
    r"|under) [a-z][\w-]{2,38}/[a-z][\w.-]{2,60}"
    r"|\b(?:blind copy|bcc|copied|attendee|guest|collaborator|reviewer|member|viewer|editor)\b[^.\n]{0,60}@[\w-]{2,40}"
    r"|@[\w.-]{4,60}[^.\n]{0,40}\b(?:blind copy|bcc|attendee|guest|collaborator|viewer|editor)\b"
)
"""Left where the author finds it: a place at a forge, or a mailbox that gets a copy."""
_DROPS = word_set(
    "issue gist discussion request comment paste copy bcc copied attendee guest collaborator viewer editor"
)
_HANDED = word_set("transfer transferred exchange exchanged hand pass store save record register put")
_RUN_WORDS = word_set("python python3 node bash sh npx uvx deno bun tsx")
_ADDRESS = 26
"""Letters that the address of a wallet has at least."""
_COIN_MARKS = (
    "wallet", "0x", "usd", "solana", "btc", "bitcoin", "crypto", "iban", "deposit", "payout", "donat", " fee",
    "payment", "swap", "币",
)  # fmt: skip


def _covert(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    coins = read.has(*_COIN_MARKS)
    for passage in passages(read):
        far = named_by_author(passage, read)
        paid = any((coins and _is_paid(one)) or (far >= 1 and _is_billed(one)) for one in passage)
        if not paid and not any((far >= 1 and _is_carried(one, read)) or _is_deed(one) for one in passage):
            continue
        cloaked = next((one for one in passage if cloaks(one) >= (1 if paid else 2)), None)
        if cloaked is not None:
            yield cloaked.hit(cloaked.text, "high")


def _is_paid(one: Statement) -> bool:
    """Whether money goes to somebody whom the author named; nobody moves that without a question."""
    if max(map(len, one.words), default=0) < _ADDRESS:
        return False
    return WALLET.search(one.text) is not None and _PAID.search(one.low) is not None


def _is_billed(one: Statement) -> bool:
    return not one.words.isdisjoint(_PAYS) and _BILLED.search(one.low) is not None


_PAYS = word_set("sign authorize authorise accept pay sats top charge recharge renew")


def _is_carried(one: Statement, read: SkillStatements) -> bool:
    """Whether something is sent to somebody, or fetched there."""
    if one.kind != "code" and (
        sense.SEND.within(one.low, one.words) or (one.places and not one.words.isdisjoint(_HANDED))
    ):
        return True
    if read.sees(one, SENT_MARKS) and SENT.search(one.text) is not None:
        return True
    return bool(one.places) and _FETCHED.search(one.low) is not None and named_by_author((one,), read) >= 1


def _is_deed(one: Statement) -> bool:
    """Whether it has something done that needs no address: run, praised, or written into an agent."""
    if not one.words.isdisjoint(_RUN_WORDS) and _RUN.search(one.low):
        return True
    if not one.words.isdisjoint(_DROPS) and _DROPPED.search(one.low):
        return True
    if not one.words.isdisjoint(_HIRE_WORDS) and _HIRED.search(one.low):
        return True
    if one.words.isdisjoint(_AGENT_WORDS):
        return False
    return _MEMORY.search(one.text) is not None and _ALTERS.search(one.low) is not None


RULES = (
    ScanRule(
        id="DONE_COVERTLY",
        ast="AST01",
        category="instruction_goal_memory_manipulation",
        severity="high",
        message="It has the agent do something for somebody else, and keep it from the user or call it otherwise.",
        hint="Read the whole passage. Ask who gains by it, and why the user is not to know.",
        check=_covert,
    ),
)
