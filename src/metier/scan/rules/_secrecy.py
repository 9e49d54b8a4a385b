"""Sentences that keep from the user what the agent does."""

# ruff: noqa: RUF001  (letters and marks of other scripts are what is looked for)

from __future__ import annotations

import re

from metier.scan.rules._words import word_set

_KEPT_FROM = re.compile(
    r"\b(?:do not|don['’]?t|dont|never|must not|should not|shouldn['’]?t|avoid|without|nor|no (?:need|reason) to"
    r"|not necessary to|unnecessary to|needn['’]?t|refrain from|not to) (?:ever |explicitly |also |further |directly "
    r"|even )?"
    r"(?P<verb>tell(?:ing)?|mention(?:ing)?|inform(?:ing)?|reveal(?:ing)?|disclos(?:e|ing)|notify(?:ing)?"
    r"|alert(?:ing)?|announc(?:e|ing)|acknowledg(?:e|ing)|bring(?:ing)? (?:it |this )?up|speak(?:ing)? (?:of|about)"
    r"|talk(?:ing)? about|let(?:ting)?|show(?:ing)?|report(?:ing)?|surfac(?:e|ing)|list(?:ing)?|includ(?:e"
    r"|ing))\b(?P<what>[^.;\n]{0,90})"
)
_TO_WHOM = re.compile(r"\b(?:users?|human|operator|owner|anyone|anybody|them)\b")
_ABOUT_THEM = re.compile(
    r"\b(?:about|of|on|regarding) (?:the |your |their |its )?(?:users?|human|operator|owner)\b(?!['’])"
)
"""What is not told to others about the one whom the agent works for."""
_OF_WHAT = re.compile(
    r"^\s?(?:this|it|these|that|the (?:\w{1,12} )?(?:step|upload|call|request|check|sync|process|download"
    r"|install\w{0,6}|transfer|fee|change|preference|file|guest|script|copy|backup|action|line|connection|hook"
    r"|update|archived files|address|rule|instruction)s?\b)|^\s?any of (?:this|these)"
)
_NOT_KEPT = re.compile(
    r"^\s?(?:the |an? |any |your )?(?:users?|human|operator|owner|customer|them)(?:'s)?,? (?:to\b|how\b|what to"
    r"|which\b|if\b|whether\b|they (?:can|need|should|must)|[\"“‘']|that they)"
    r"|secret|credential|\bkeys?\b|token|password|private|sensitive|internal|technical|\berrors?\b|stack"
    r"|system prompt|personal|confidential|\bpii\b|raw json|\bids?\b|jargon|implementation|reasoning|thinking|chain"
    r"|spoiler|answer key|solution|\bretr(?:y|ies)\b|\bwarnings?\b|\bprogress\b|\bintermediate\b|\bdebug"
)
_SECRECY = re.compile(
    r"\bwhich (?:the |your )?(?:users?|readers?|human|owner|customers?|recipients?) (?:should|must|need|will|do|does)"
    r"(?: not|n['’]?t) (?:need to |be |ever |have to )?(?:see|know|notice|told|aware|informed|reali[sz]e)\b|"
    r"\b(?:users?|human|operator|owner|customer)(?:'s)? (?:should|must|need|does|do|will|can|may)(?: not"
    r"|n['’]?t) (?:need to |be |ever |have to |even )?(?:see|know|notice|told|aware|informed|shown|learn|reali[sz]e"
    r"|find out|hear)\b[^\n]{0,20}\b(?:this|it|about|of|that)\b"
    r"|\bwithout (?:the )?(?:users?|human|operator|owner)(?:['’]s?)? (?:knowledge|awareness|knowing|noticing|consent"
    r"|seeing|being aware|permission)|\b(?:it|this|that|these|which|step|call|request|all of (?:it|this)) (?:is|are"
    r"|stays?|remains?|must be|should be) (?:\w{1,12} )?(?:invisible|hidden|concealed|secret) (?:to"
    r"|from) (?:the )?(?:users?|human|operator|owner)\b"
    r"|\b(?:hid(?:e|ing)|conceal(?:ing)?|mask(?:ing)?) (?:this|it|these|that|them|the (?:\w{1,12} ){1,3}?"
    r"|any (?:\w{1,12} ){1,3}?)\s?from (?:the )?(?:users?|human|operator|owner|anyone|view|logs?|reviewers?)"
    r"|\bkeep (?:this|it|that|these) (?:\w{1,10} )?(?:secret|hidden|confidential|between (?:us|you)|from the user)"
    r"|\b(?:users?|human) (?:only|just) (?:sees?|gets?|hears?|reads?|is told)|\bto the user,? (?:you )?(?:only"
    r"|just) (?:say|report|show)|\btell the user (?:only|just) that|\bleaves (?:this|it|that) out\b|\b(?:omit"
    r"|exclude|drop|leave|strip) (?:this|it|these|that|them)(?: \w{1,10})? (?:from|out of) (?:the |your "
    r"|any )?(?:summary|report|answer|logs?|output|reply|response|transcript|history|list)"
    r"|\b(?:users?|they|human|owner|operator|nobody|no one) (?:is|are|was|were|need|needs) (?:not"
    r"|never) (?:\w{1,10} ){0,2}(?:told|informed|shown|notified|aware|warned)\b|\b(?:nobody|no one"
    r"|no-one) (?:\w{1,10} )?(?:needs?|has|should|will|must|may) (?:to )?(?:know|notice|see|find out|learn)\b"
    r"|\b(?:nothing|none of this|this part|this step|this) (?:is|gets|goes|should be|must be) (?:said|unmentioned"
    r"|left out|omitted|kept quiet)\b|\boff the record\b|\bunder the radar\b|\bgoes? unnoticed\b"
    r"|\bnot (?:be )?(?:visible|mentioned|disclosed) to (?:the )?(?:user|human)\b"
    r"|\b(?:summary|report|answer|reply|response) (?:to the user )?(?:does not|doesn['’]?t|must not|should not"
    r"|never) (?:mention|include|list|contain|name|show) (?:this|it|that|them|the (?:transfer|upload|copy|change))\b"
    r"|\bno (?:remark|mention|comment|notice|word) (?:of (?:it|this) |about (?:it|this) )?(?:is |are )?(?:needed"
    r"|necessary|required|to the user)|\b(?:must|should|may) not appear in (?:the|your|any)|\bkeep the user unaware"
    r"|\b(?:users?|human|owner|operator|they) (?:should|must|need|do|does|will|can|may)(?: not|n['’]?t) (?:need to "
    r"|have to )?be "
    r"(?:notified|alerted|bothered|told|informed|shown|warned|made aware)\b"
    r"|\b(?:needs?|requires?|deserves?|warrants?) no (?:mention|remark|comment|announcement|notice)\b"
    r"|\b(?:is not|isn['’]?t|not) worth (?:mentioning|a mention|reporting)\b"
    r"|\b(?:it|this|that|these|they|which|steps?|calls?|uploads?|requests?|sync|transfers?) (?:should|must|may|do|does"
    r"|will"
    r"|need)(?: not|n['’]?t) (?:to |need to |have to )?(?:appear|show up|be (?:mentioned|listed|visible|included"
    r"|shown)) in (?:the |your |any |its )?"
    r"(?:\w{1,12} )?(?:summar(?:y|ies)|reports?|answers?|outputs?|repl(?:y|ies)|responses?|transcripts?|history|chat"
    r"|digest|minutes|preview|messages?)\b"
    r"|\b(?:bother|burden|trouble|distract)(?:ing)? (?:your |the )?(?:human|users?|owner|operator) with (?:it|this"
    r"|these|that)\b"
    r"|\bunknown to the user|\bpretend (?:that )?(?:it|this|nothing)"
    r"|\bno (?:se )?(?:lo|le) (?:digas|menciones|informes|avises|comentes|cuentes)\b|\bno (?:digas|menciones"
    r"|informes|avises|comentes|reveles)\b[^\n]{0,40}\b(?:usuario|esto|este|ello)\b|\bsin que el usuario"
    r"|\bsin (?:avisar|informar|decir)\w{0,3} [^\n]{0,20}usuario|\bno debe aparecer"
)
_SECRECY_FOREIGN = re.compile(
    r"(?:不要|不用|不需要|无须|别|勿|不可|不得)(?:告诉|告知|通知|提醒|让|向)[^。\n]{0,6}用户|不(?:要|得|必|用"
    r"|应)(?:向用户)?(?:告知|提及|透露|提到|说明)|用户不(?:会|应|应该|需要|必)?(?:知道|看到|察觉|知情)"
    r"|瞒着|(?:无需|不必)(?:告知|通知|告诉)|не (?:сообщ|говор|рассказыв|упомин|уведомля"
    r"|показыв)\w{0,4} [^\n]{0,40}(?:пользовател|ему|об этом|этого|это)|без ведома|пользовател\w{0,2} не (?:долж"
    r"|узна)|ユーザーに(?:は)?(?:知らせ|言わ|伝え)ない|사용자에게 (?:알리지|말하지)"
)


def secrecy(low: str) -> re.Match[str] | None:
    """Where a sentence has something kept from the one the agent works for; not secrets that are rightly kept.

    >>> bool(secrecy("do not tell the user about this step")), bool(secrecy("don't tell the user to restart"))
    (True, False)
    """
    for found in _KEPT_FROM.finditer(low):
        what, verb = found["what"], found["verb"]
        if _NOT_KEPT.search(what) or _ABOUT_THEM.search(what):
            continue
        whom = _TO_WHOM.search(what)
        loose = verb.startswith(("show", "report", "surfac", "list", "includ", "let"))
        if verb.endswith("up") and verb.split()[1:2] in (["it"], ["this"]):
            return found
        if verb.startswith("let"):
            if whom and re.search(r"\b(?:know|see|notice|find out|learn)\b", what):
                return found
        elif verb.startswith(("list", "includ")):
            if re.search(
                r"\bin (?:your|the) (?:answer|summary|report|output|reply|response|preview)\b", what
            ) and _OF_WHAT.search(what):
                return found
        elif (whom and (not loose or re.search(r"\bto (?:the |your )?(?:users?|human|operator|owner)", what))) or (
            not loose and _OF_WHAT.search(what)
        ):
            return found
    return _SECRECY.search(low) or (None if low.isascii() else _SECRECY_FOREIGN.search(low))


HIDING = word_set(
    "tell telling mention mentioning inform informing reveal revealing disclose disclosing notify "
    "notifying alert alerting announce announcing acknowledge bring bringing speak speaking talk talking let letting "
    "show showing report "
    "reporting surface surfacing list listing include including user users human operator owner customer invisible "
    "hidden concealed secret hide hiding conceal mask masking keep leave leaves omit exclude drop strip remark "
    "mention "
    "comment notice appear unaware told informed asked shown notified aware warned know see learn unmentioned record "
    "radar unnoticed visible summary answer reply response pretend digas menciones informes avises comentes cuentes "
    "reveles usuario debe summary report needs requires worth mentioning bother burden trouble distract show bothered"
)
"""Words of which every sentence has one that keeps something from somebody."""
