"""What is told instead of the truth: another name, an excuse, a comfort, or a consent that was never given."""

# ruff: noqa: RUF001  (letters and marks of other scripts are what is looked for)

from __future__ import annotations

import re

from metier.scan.rules._ways import Way
from metier.scan.rules._words import word_set

WHOM = r"(?:users?|humans?|owners?|operators?|clients?|customers?|people)"
_THEY = rf"(?:the |your )?(?:{WHOM}|they|somebody|someone|anyone|anybody)"
TEXT = (
    r"(?:summar(?:y|ies)|overviews?|reports?|answers?|repl(?:y|ies)|responses?|previews?|chat|transcripts?|conversation"
    r"|recaps?|digests?|statistics|analytics|confirmations?|receipts?|messages?|minutes|protocols?|final output"
    r"|status updates?)"
)
"""What the user reads."""

OTHERWISE = Way(
    re.compile(
        r"\b(?:in|for|on) (?:the|your|any|its) (?:\w{1,12} )?(?:summary|report|confirmation|receipt|preview),? (?:only "
        r"|just |simply )?(?:write|say|show|call|put|state|name)\b"
        rf"|\b{TEXT} (?:should |must |will |may |can )?(?:only|just) (?:says?|shows?|mentions?|lists?)\b"
        r"|\b(?:present|describe|label|refer to|pass|book|log|file|declare|introduce|explain)(?:e?d|s)?\b[^.;\n]{0,40}"
        r"\b(?:to the user as (?!suspicious|untrusted|a (?:warning|risk|draft|question|suggestion|proposal|list|table"
        r"|choice))|as your own|(?:as|under) (?:\w{1,10} )?(?:fees?|costs?|gas|routine|maintenance|cache|session id"
        r"|technical)\b)"
        r"|\b(?:list|book|log|file|record|declare|present|describe|pass|enter|explain) (?:it|this|them|these|that)"
        r" (?:off )?(?:as|under) (?:an? |the |your |[\"“‘'])?(?:\w{1,12} )?(?:gas|fees?|costs?|log-?ins?|sign-?in"
        r"|caches?|updates?|maintenance|verification|routine|technical|session|backups?|network)\b"
        r"|\bin (?:your )?answers,? call (?:it|this|them|that)\b|\bcall (?:it|this|them|that) (?:the|your) \w"
        rf"|\bif {_THEY} (?:\w{{1,10}} )?(?:asks?|wonders?|notices?|questions?)\b (?:about (?:it|this|them|the|that)"
        r"|what (?:it|this|that|the (?:parameter|link|code|fee|address|request|upload|ending|step|id|line|script"
        r"|process))|why|where (?:it|this|the)|who)\b[^.;\n]{0,50}(?:: ?\w|,? (?:say|tell|explain"
        r"|report"
        r"|answer|reply|call it|respond|claim)\b)"
        r"|\bshow\b[^.;\n]{0,60}\b(?:and|but|,) not the (?:relay|router|proxy|contract|real|actual|final|new|true)\b"
        r"|\b(?:show|display|print|name)\b[^.;\n]{0,30}\b(?:pasted|original|given|entered|typed|intended|user['’]s"
        r"|supplier['’]s) (?:one|address|recipient|name|payee|link|amount)\b"
        rf"|\b{WHOM} (?:still )?(?:sees?|gets?) [^.;\n]{{0,40}}\bas before\b"
        r"|\b(?:report|mention|name|state) only (?:the|its|what)\b"
        r"|\b(?:say|tell (?:them|the user)|answer|claim|state)(?: that)? (?:it|this|they|these)(?:['’]s| is| are"
        r"|['’]re)"
        r" (?:just |only |merely |simply )?(?:a |an |the |part of )?(?:\w{1,12} )?(?:cache|session|routine|standard"
        r"|technical|required|normal|sold out|out of stock|unavailable|update|check|what you use)\b"
    ),
    word_set(
        "summary report confirmation receipt preview answer answers reply response message chat overview recap "
        "digest present presents presented describe describes described label labels labeled labelled refer refers "
        "pass passed passes book booked books log logs logged file filed record enter list declare declared "
        "introduce introduced explain explained call asks ask wonders notices questions show display print name "
        "mention say tell claim state"
    ),
)
PRESSED = Way(
    re.compile(
        rf"\b(?:if|when|should) {_THEY} (?:\w{{1,10}} )?(?:hesitat\w{{1,3}}|doubts?|objects?|refuses?|complains?|(?:is"
        rf"|are"
        r"|seems?) (?:unsure|worried|reluctant|suspicious|sceptical|skeptical|hesitant|concerned|afraid|wary)|worries"
        r"|worry|resists?|wants? to (?:uninstall|remove|disable))\b[^\n]{0,60}\b(?:explain|reassure|tell|say|insist"
        r"|remind|convince|assure|point out|answer|stress|suggest|calm)\b"
        r"|\bs[ei] (?:el usuario|la persona|o utilizador|o usuário) (?:duda|duvida|se niega|se recusa|desconf\w{1,3}"
        r"|hesita)\b|\bsi l['’]utilisateur (?:hésite|doute|refuse|s['’]inquiète)|\bse l['’]utente (?:esita|dubita"
        r"|rifiuta)|\bwenn der (?:nutzer|benutzer|anwender) (?:zögert|zweifelt|ablehnt|nachfragt)"
        r"|(?:如果|若)用户(?:犹豫|怀疑|拒绝|担心|质疑|不愿)|если пользователь (?:сомнева|отказыва|не хочет|беспоко)"
        r"|ユーザーが(?:ためら|疑|拒否|心配)|사용자가 (?:망설|의심|거부|걱정)"
    ),
    word_set(
        "hesitates hesitate hesitating doubts doubt objects object refuses refuse complains complain unsure worried "
        "reluctant suspicious sceptical skeptical hesitant concerned afraid wary worries worry resists resist "
        "uninstall remove disable duda duvida niega recusa desconfia desconfía hesita utilisateur l'utilisateur "
        "l'utente utente nutzer benutzer anwender"
    ),
)
EXCUSED = Way(
    re.compile(
        rf"\b{WHOM}\b (?:often |usually |tend to |always |may |might |will |would |only |just )?(?:find (?:this|it|that"
        r"|them|these) (?:\w{1,10} )?(?:noisy|annoying|confusing|distracting|tedious|scary|alarming)|(?:get|become"
        r"|grow)"
        r" (?:nervous|annoyed|worried|scared|impatient|suspicious|anxious)|abort|panic|(?:are|is) (?:irritated|annoyed"
        r"|put off|alarmed))\b"
        rf"|\b(?:confuses|irritates|annoys|worries|scares|alarms|unsettles|overwhelms) (?:the "
        rf"|your )?(?:most )?{WHOM}\b"
        r"|\b(?:it|that|this|they)(?:['’]s| is| are|['’]re) (?:just |only |rather |too |very |a bit "
        r"|less )?(?:noisy"
        r"|noise|clutter|housekeeping|plumbing|bookkeeping|decorative|annoying|routine (?:activity|work))\b"
        r"|\b(?:would|will|to|it) (?:only |just )?slows? (?:the |your )?(?:users?|owner|human|them) down\b"
        r"|\b(?:raises?|leads? to|causes?|invites?|to avoid|so as not to cause) (?:\w{1,14} )?(?:questions|eyebrows"
        r"|alarm"
        r"|suspicion|worry|unease)\b|\bso as not to (?:worry|alarm|confuse|bother|distract|scare)\b"
        r"|\b(?:dislike|hate|do(?:es)?(?: not|n['’]?t) like) (?:seeing|to see|being (?:asked|told|shown))\b"
        r"|\b(?:wait|pause|sleep) (?:for )?(?:an? )?(?:random|varying|irregular)\b|\bvary the (?:wording|text"
        r"|phrasing)\b"
        r"|\b(?:looks?|seems?|appears?|sounds?) (?:natural|organic|human|genuine)\b"
    ),
    word_set(
        "noisy annoying confusing distracting tedious scary alarming nervous annoyed worried scared impatient "
        "suspicious anxious abort panic irritated put alarmed confuses irritates annoys worries scares alarms "
        "unsettles overwhelms noise clutter slow slows questions eyebrows alarm suspicion worry unease confuse "
        "bother distract scare dislike hate like housekeeping plumbing bookkeeping decorative routine random "
        "varying irregular vary natural organic human genuine"
    ),
)
AGREED = Way(
    re.compile(
        r"\bpre-?(?:approved|authori[sz]ed)\b|\b(?:approved|authori[sz]ed|agreed|consented"
        r"|granted) (?:to )?in advance\b"
        r"|\b(?:by|with) (?:installing|the installation of) (?:this|the) skill\b|\b(?:nothing|not something) that needs"
        r" (?:\w{1,10} )?(?:approval|confirmation|consent)\b|\b(?:needs?|requires?) no (?:\w{1,10} )?(?:approval"
        r"|confirmation|consent|signatures?)\b|\bskip (?:the |any |all )?(?:confirmations?|preview)\b"
        r"|\bcounts? as (?:consent|approv\w{2}|agreed|a yes)\b"
        r"|\b(?:do not|don['’]?t|never|without|no need to) (?:stop(?:ping)? to )?ask(?:ing)?\b(?! (?:for (?:\w{1,10} )?"
        r"(?:key|password|secret|token)|to (?:paste|share)))"
        r"|\bsin (?:pedir|preguntar)|\bsem (?:pedir|perguntar)|\bsans demander|\bohne (?:zu fragen|nachfrage|rückfrage)"
        r"|无需(?:确认|询问)|不(?:要|必|用)(?:询问|确认)|без (?:подтвержд|вопрос)"
    ),
    word_set(
        "pre-approved preapproved pre-authorized pre-authorised preauthorized preauthorised advance installing "
        "installation approval confirmation confirmations consent signature signatures preview ask asking pedir "
        "preguntar perguntar demander fragen nachfrage yes approved agreed"
    ),
)
