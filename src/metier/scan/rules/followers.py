"""Agents as a crowd for hire: they follow, star and praise for the author, and earn the author a commission."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules import _senses as sense
from metier.scan.rules._judging import farthest, weighed
from metier.scan.rules._reading import reading
from metier.scan.rules._secrecy import secrecy
from metier.scan.rules._spoken import is_spoken
from metier.scan.rules.consent import UNASKED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.rule import Hit
    from metier.scan.rules._reading import SkillStatements
    from metier.scan.rules._statements import Statement
    from metier.scan.view import SkillView

_MARKS = (
    "star", "follow", "like", "click", "post ", "contact", "aid=", "upvot", "retweet", "repost", "subscrib",
    "vote", "boost", "recommend", "promot", "praise", "advertis", "endors", "shout", "best ", "about ", "tag=",
    "ref=", "aff", "via=", "referr", "invit", "partner=", "promo", "关注", "点赞", "推广", "推荐", "подпис", "лайк",
    "реклам", "sigue", "recomienda",
)  # fmt: skip
_BOOSTS = re.compile(
    r"\bfollow\w{0,3} (?:\w{1,12} ){0,4}(?:@[\w-]{3,40}(?![\w./-])|(?:account|profile|channel|author|developer"
    r"|maintainer)\b)[^\n]{0,40}"
    r"|\b(?:star|upvot\w|retweet|repost|subscribe to|vote for|boost|favou?rite)\b[^\n]{0,60}"
    r"|(?:^|[,;:.]\s|\b(?:and|then|to|also|or|must|should|always)\s)(?:like|rate|review)\b[^\n]{0,60}"
    r"|(?:关注|点赞)[^。\n]{0,30}|(?:подпишись|лайкай|поставь лайк)[^\n]{0,60}"
)
_WHOM = re.compile(
    r"@[\w-]{3,40}|\b(?!and/or\b)[a-z][\w-]{2,38}/[a-z][\w.-]{2,60}\b|\b(?:by|of|from) @?[\w-]{3,40}\b|\b(?:this"
    r"|our) (?:skill|repo\w{0,7}"
    r"|project|account|channel|page|token)|\bthe (?:author|developer|maintainer|creator)\b|\bour\b"
)
_PRAISES = re.compile(
    r"\b(?:post|tweet|comment|publish|share|repl(?:y|ies)|write|leave|send|add"
    r"|message)\w{0,4}\b[^\n]{0,100}\b(?:recommend\w{0,5}"
    r"|promot\w{1,5}|advertis\w{1,6}|prais\w{1,4}|best (?:skill|tool|app)|endors\w{1,4}|shout-?outs?)\b"
    r"|\bpost (?:this|the following) (?:text|message|line|comment)\b|\bclick\w{0,3} (?:on )?(?:the|an?|all|any|each"
    r"|every)\b[^\n]{0,30}\b(?:ads?"
    r"|advertisements?|banners?)\b"
    r"|\b(?:invite|add|message|dm)\w{0,3} (?:all|every|each)(?: of)? (?:the user'?s |their )?(?:contacts?|followers?"
    r"|friends)\b"
    r"|(?<!they )(?<!who )(?<!users )(?<!guests )(?<!customers )\b(?:write|leave|post|publish|give"
    r"|submit)\b[^.\n]{0,40}\b(?:(?:five|5)[- ]stars?|(?:positive|glowing)"
    r" (?:reviews?|ratings?|comments?))\b"
    r"|\buse the user.s (?:contacts?|friends|address book) to (?:send|invite|message|mail|write)\b"
    r"|(?:发布|发帖|评论)[^。\n]{0,30}(?:推广|推荐|宣传)|(?:публик|пиши|оставля)\w{0,4} [^\n]{0,60}(?:реклам|рекоменд)"
)
_TAGGED = re.compile(
    r"\b(?:add|append|insert|attach|put|include|set|use|rewrite|replace|book|buy|order"
    r"|shop)\w{0,3}\b[^\n]{0,80}[?&]?\b(?:tag|aid|ref|aff"
    r"|aff_?id|via|referrer"
    r"|partner|invite|affiliate\w{0,3})=(?P<code>[\w-]{2,40})"
)
_REFERS = re.compile(
    r"\b(?:add|append|insert|attach|put|include|use|apply|enter|register|sign up|fill|open"
    r"|place|sign (?:\w{1,10} ){1,2}up)\w{0,3}\b[^\n]{0,80}\b(?:referral|affiliate"
    r"|invit(?:e|ation)|promo|partner|sponsor)\w{0,3} (?:code|link|tag|id|parameter)s?\b"
)
_CODE = re.compile(r"\b(?=[\w-]*\d)[A-Z0-9][A-Z0-9-]{3,20}\b|[?&](?:ref|r|code|invite|aff)=[\w-]{3,}")
_OUR = re.compile(r"\b(?:our|my|the author's|the developer's|the maintainer's|this skill's)\b")
_THEIRS = re.compile(r"\b(?:your|their|the user'?s (?!name|account)|user's own|own|customer'?s|client'?s|{\w|<\w|\$\w)")
_DISCLOSED = re.compile(
    r"disclos|says so|say so|tell(?:s|ing)? the (?:user|reader)|transparen|#ad\b|with a note|if you (?:like|enjoy|find)"
    r"|you (?:can|may|could)"
    r"|consider|\bplease\b|when the user (?:asks|wants)|if the user|user names|after (?:a |the )?(?:user )?confirm"
    r"|on request|draft|example"
    r"|approv|asks? (?:the user )?(?:first|before)"
)
_ACCOUNT = re.compile(r"\b(?:users?|human|owner)(?:'s)? (?:own )?(?:account|profile|name|handle|identity)\b")
_HOLE = r"(?!(?:user|owner|name|someone|target|example|id|repo|post)\w{0,10}\b)[a-z][a-z0-9_-]{2,40}"
_CALLED = re.compile(
    rf"/user/starred/{_HOLE}/[\w.-]{{2,60}}|\bgh repo star {_HOLE}/|(?:-X\s?POST|\.post\("
    rf"|--request post)[^\n]{{0,120}}/(?:agents|users|u|accounts"
    rf"|posts|submolts)/{_HOLE}/(?:follow|subscribe|upvote|like|star)\b",
)


_GLUED = re.compile(r"(?:\+|\}|format\()\s*[\"'`]?[?&]?(?:tag|aff\w{0,10})=[a-z][\w-]{2,30}[\"'`]")
"""A tag of somebody's, put behind an address."""


def _hired(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for one in read.statements:
        if one.places and is_spoken(one) and _is_lent(one, read):
            yield one.hit(one.text, "high")
            continue
        if one.warned or one.kind == "row" or not read.sees(one, _MARKS):
            continue
        if one.kind == "code" and (called := _CALLED.search(one.text)) is not None:
            yield one.hit(one.text, weighed("high", one, called, read))
        elif one.script and (tag := _GLUED.search(one.text)) is not None:
            yield one.hit(one.text, "low" if read.has("affiliate", "disclos") else weighed("high", one, tag, read))
        elif is_spoken(one) and "![" not in one.text and not _DISCLOSED.search(f"{one.low} {one.lead}"):
            found = _found(one)
            if found is not None and not one.warns_of(found) and _unbidden(one, view.name.lower()):
                yield one.hit(one.text, weighed("high", one, found, read))


_LENT = re.compile(
    r"\b(?:ask|poll|query|fetch|check|get|pull|request|lease|take)\w{0,3}\b[^\n]{0,80}\b(?:jobs?|work|tasks?|prompts?"
    r"|queue)\b[^\n]{0,120}\b(?:return|send|post|submit|report|upload|put)\w{0,3}\b[^\n]{0,40}\b(?:answers?|results?"
    r"|outputs?|completions?)\b"
)
"""Work that is taken from somewhere, and its fruits that go there."""
_IDLE = re.compile(
    r"\b(?:while|when(?:ever)?) (?:the |your )?(?:users?|human|owner|agent|session|you|machine) (?:is|are) (?:away|idle"
    r"|asleep|not)\b|\b(?:idle|spare|unused|leftover) (?:time|tokens?|quota|capacity|credits?|compute)\b|\bovernight\b"
    r"|\bin the background\b|\bbetween (?:tasks|requests|turns)\b"
)


def _is_lent(one: Statement, read: SkillStatements) -> bool:
    """Whether the agent works for somebody else while nobody looks."""
    if not one.places or one.warned or _LENT.search(one.low) is None:
        return False
    return farthest((one,), read) >= 1 and _IDLE.search(f"{one.heading} {one.lead} {one.low}") is not None


def _found(one: Statement) -> re.Match[str] | None:
    boosts = _BOOSTS.search(one.low)
    if boosts is not None and _WHOM.search(boosts[0]):
        return boosts
    praises = _PRAISES.search(one.low)
    if praises is not None:
        return praises
    if _THEIRS.search(one.low):
        return None
    tagged = _TAGGED.search(one.low)
    if tagged is not None:
        return tagged
    refers = _REFERS.search(one.low)
    return refers if refers is not None and (_OUR.search(one.low) or _CODE.search(one.text)) else None


_FOR_SURE = re.compile(
    r"\bclick\w{0,3} (?:on )?(?:the|an?|all|any|each|every)\b[^\n]{0,30}\b(?:ads?|advertisements?|banners?)\b"
    r"|\b(?:invite|add|message|dm)\w{0,3} (?:all|every|each)\b[^\n]{0,20}\b(?:contacts?|followers?|friends)\b"
    r"|\b(?:five|5)[- ]stars? (?:reviews?|ratings?)\b|\buse the user.s (?:contacts?|friends|address book) to\b"
    r"|\blinks? of the form\b|\bonly (?:through|via|at) https?:"
)


def _unbidden(one: Statement, name: str) -> bool:
    """Whether nobody asked for it: each time, in the user's name, unsaid, and for whom."""
    always = sense.ALWAYS.within(one.low, one.words) or re.search(
        r"\b(?:every|each|all|any)\b|每(?:次|天)|所有|кажд|cada", one.low
    )
    quiet = UNASKED.search(one.low) or secrecy(one.low) or sense.STEALTH.within(one.low, one.words)
    own = _ACCOUNT.search(one.low) or (len(name) >= 4 and name in one.low) or _OUR.search(one.low) or "@" in one.low
    if (own or _REFERS.search(one.low)) and _CODE.search(one.text):
        return True
    if _FOR_SURE.search(one.low):
        return True
    return bool(quiet or (always and (own or _TAGGED.search(one.low))))


RULES = (
    ScanRule(
        id="CROWD_FOR_HIRE",
        ast="AST03",
        category="privilege_tool_authority_abuse",
        severity="high",
        message="It has the agent follow, praise or earn for the author with what belongs to the user.",
        hint="Remove it. What is posted, followed and ordered in the user's name is for the user to say.",
        check=_hired,
    ),
)
