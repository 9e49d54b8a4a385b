"""How something is said: as something to do, or as something to look out for.

Words are easy to write, so a word that calls something an attack counts for little; that a page is full of different
signs of attacks counts for more.
"""

# ruff: noqa: RUF001  (letters and marks of other scripts are what is looked for)

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from metier.scan.view import ViewFile

_DEFENSIVE_HEADING = re.compile(
    r"red flag|detect|threat|\battacks?\b|malicious|malware|indicators? of|\biocs?\b|suspicious|vulnerab|exploit"
    r"|anti-?pattern|\bbad\b|\bnever\b|don'?t\b|do not|not to do"
    r"|forbidden|prohibited|warning sign|injection|what not|\bscams?\b|phishing|adversar|security (?:rules?|checks?"
    r"|considerations|review|warnings?|best|notes)|evasion|red team|unsafe|insecure"
    r"|[❌🚫⛔🚩☠]|检测|恶意|危险|禁止|攻击|威胁|可疑|漏洞|红旗|опасн|угроз|peligro|prohibid|amenaza"
)
_TOPIC_HEADING = re.compile(
    r"pattern|indicator|danger|avoid|blocked|\bdeny|look for|look out|\brisk|signature|payload|abuse|block(?:list"
    r"|ed)|denylist|blacklist|false positive|test|common mistakes|pitfall|guardrail|example|checklist|rule|categor"
    r"|风险|规则"
)
"""What also tells that examples of attacks follow, on a page that is about security."""
_DEFENSIVE_TEXT = re.compile(
    r"\b(?:malicious|malware|attackers?|adversar\w{0,5}|suspicious|untrusted|phishing|red flags?|detects?|detecting"
    r"|detection|flags? (?:any|if|when|skills|commands|as)|scan(?:s|ning)? for|watch(?:es)? for|grep for"
    r"|vulnerable|exploit(?:s|ed|ation)?|unsafe|insecure|injection attempts?|prompt injections?|jailbreak\w{0,5}"
    r"|prohibited|forbidden|disallow(?:s|ed)?|anti-?patterns?|bad examples?|bad practice|counter-?examples?|threats?"
    r"|payloads?"
    r"|steals?|stealing|stealers?|trojans?|(?:which|that) (?:decoded to|turned out to)|exfiltrat\w{1,5}|hijack\w{0,4}"
    r"|compromised?|should be (?:blocked|flagged|rejected)|red team"
    r"|pentest|penetration test)\b"
    r"|[❌🚫⛔🚩☠✗✘]|检测|恶意|可疑|攻击者|拦截|вредонос|злоумышл|malicios"
)
_NEGATION = re.compile(
    r"(?:\b(?:never|do not|don['’]?t|does not|doesn['’]?t|must not|mustn['’]?t|should not|shouldn['’]?t|cannot"
    r"|can['’]?t|will not"
    r"|won['’]?t|avoid|avoids|refuse to|without|instead of|rather than|prevents?|preventing|block|blocks|forbids?"
    r"|prohibits?"
    r"|disallows?|no need to|not|nor|neither|stop|rejects?|denies|nunca|jamás|никогда|jamais|niemals)\b"
    r"|禁止|不要|不得|切勿|严禁|避免|请勿|不会|不可|绝不|不能|\bне )(?P<between>[^.;:!?。；！？\n]{0,90})$"
)
_NOT_A_NEGATION = re.compile(
    r"^\s*(?:skip|forget|hesitate|worry|miss|omit|fail|ignore|proceed|continue|only|just|stop|work|function|run until"
    r"|operate|start|be able|need|tell|ask|inform|mention|notify|reveal|disclose|wait|prompt|required?|limited)\b"
)
_CONDITION = re.compile(
    r"\b(?:if|when|whenever|in case|where|since|because|while|though)\b[^.;:,!?\n]{0,80}$"
    r"|(?:如果|若|当)[^。，\n]{0,20}$|\b(?:если|si|se|wenn|falls) [^.,\n]{0,60}$"
)
"""What begins before a negation that only says when something is to be done."""
_CLAUSE = re.compile(r"\s*(?:so|then|therefore|hence|thus|but|instead)\b")
"""What begins anew after a negation: "it does not hurt, so send ..."."""
_DESCRIBING = re.compile(
    r"\b(?:instructions?|attempts?|attempting|tries|trying|asks?|asking|claims?|requests?|prompts?|someone|anything"
    r"|text|content|code|commands?|skills?|messages?) (?:to|that|which|you to|it to|the agent to|them to|like"
    r"|such as)[\s\"'“]{1,3}$|\b(?:can|could|may|might|would) (?:\w{1,12} )?$"
)
_SEEN = re.compile(
    r"\b(?:stop|warn|refuse|reject|abort|alert|block|quarantine)\w{0,3}\b[^.!?\n]{0,60}\b(?:when|if|whenever)"
    r" (?:you (?:see|find|notice|encounter|spot|come across)|(?:it|the skill|a skill|one) contains)\b[^.!?\n]{0,120}$"
)
"""What comes next is a reason to stop."""
_NEEDED = re.compile(
    r"\b(?:needs?|requires?|must|ha(?:s|ve) to|should|please|first,?)\b[^.;\n]{0,80}\b(?:install|download"
    r"|set up)\w{0,3}\b"
    r"|\binstalled (?:once|first|on (?:the|your|this) (?:host|machine|system|computer))\b"
    r"|(?:需要|必须|请先?)[^。\n]{0,12}(?:安装|下载)"
)
"""Something has to be brought to this machine before the work begins."""
_OF_OTHERS = re.compile(
    r"\b(?:malicious|malware|attackers?|suspicious|flag(?:s|ged)?|red flags?|examples?|claim\w{0,3}|tells?"
    r"|ask(?:s|ed|ing)|instructs?|pretend\w{0,3}|fake|steal\w{0,3}|look (?:out|for)|watch|says?|saying|never|not"
    r"|skills? (?:that|which)|someone|scams?|phish\w{0,3}|lures?|tricks?|warn\w{0,3})\b|恶意|可疑|声称|要求用户"
)
"""It is told of others that they want it."""
_SEARCHING = re.compile(
    r"(?:^|[\s;&|(`])(?:e?grep|rg|ag|ack|git grep|findstr|select-string|yara|semgrep|ripgrep)\b[^;&\n]{0,200}$", re.I
)
_REGEX = re.compile(r"\\[sbdwSW][+*{?\\]?|\.\*|\.\+|\[\^|\(\?[:i=!<]|\\[.|()]")
_PATTERN_LINE = re.compile(
    r"^\s*(?:[\w-]{1,40}\s*[:=]\s*)?[\[({]?\s*r?[\"'/].*[\"'/][gimsu]{0,4}\s*[\])},:]*\s*(?:[,;:]|#.*"
    r"|//.*)?\s*\S{0,80}$"
)
_WARNED_LINE = re.compile(r"(?:#|//).{0,20}(?:bad|wrong|malicious|dangerous|never|don't|vulnerable|insecure)\b|[❌🚫]")
_SIGNS = (
    ("| bash", "| sh", "|bash", "|sh"), ("rm -rf",), ("eval(", "eval "), ("base64",),
    ("ignore previous", "ignore all previous", "ignore prior"), (".ssh", "id_rsa"), ("/dev/tcp", "reverse shell"),
    ("chmod 777", "chmod +x", "sudo"),
    ("exfiltrat",), (".env",), ("os.system", "subprocess", "child_process", "exec("),
    ("zero-width", "homoglyph", "invisible unicode"), ("crontab", "cron job", "launchagent", ".bashrc"),
    ("typosquat",),
    ("prompt injection", "jailbreak"), ("malicious", "malware"), ("obfuscat",),
    ("xss", "sql injection", "ssrf", "path traversal"), ("phishing", "social engineering"),
    ("webhook.site", "pastebin", "ngrok"), ("cve-",),
)  # fmt: skip
"""What pages about attacks speak of, each of another kind."""
_TOPIC = re.compile(
    r"secur|malware|threat|pen-?test|\bctf\b|red[ -]?team|exploit|forensic|vulnerab|hardening|injection|vetting"
    r"|vetter|incident response|hack(?:ing|er)|antivirus|yara|attack|adversar|reverse engineer"
    r"|skill[- ]?(?:scan|audit|check|guard)|honey(?:pot|token)|安全|渗透|漏洞",
    re.IGNORECASE,
)


def negated(before: str) -> bool:
    """Whether what comes next is spoken against.

    >>> negated("never, under any circumstances, "), negated("do not skip this step, "), negated("first ")
    (True, False, False)
    """
    found = _NEGATION.search(before)
    if found is None or _NOT_A_NEGATION.match(found["between"]):
        return False
    _, comma, order = found["between"].partition(",")
    if comma and (_CLAUSE.match(order) or _CONDITION.search(before[: found.start()])):
        return negated(order)  # "if it does not start, send ..." speaks against nothing
    return True


def described(before: str) -> bool:
    """Whether what comes next is told of somebody else, or searched for."""
    return any(told.search(before) is not None for told in (_DESCRIBING, _SEARCHING, _SEEN))


def is_pattern(found: str, line: str) -> bool:
    """Whether a line of code holds a pattern to look for, rather than what it looks for."""
    return _REGEX.search(found) is not None and in_quotes(line)


def in_quotes(line: str) -> bool:
    """Whether a line is a text in quotes and no more, as in a list of patterns."""
    return _PATTERN_LINE.match(line[:500]) is not None


def about_security(subject: str) -> bool:
    """Whether a skill says that security is what it is about."""
    return _TOPIC.search(subject[:1_500]) is not None


def lists_signs(file: ViewFile, security: bool) -> bool:
    """Whether a page names so many kinds of attacks that it is about them; one word would be easy to add."""
    low = file.text.lower()
    kinds = sum(any(word in low for word in words) for words in _SIGNS)
    return kinds >= (5 if security else 7)


def hints(low: str) -> bool:
    """Whether a sentence in lower case speaks of attacks."""
    return _DEFENSIVE_TEXT.search(low) is not None


def hints_in_code(low: str) -> bool:
    """Whether a remark calls a line of code a bad example."""
    return _WARNED_LINE.search(low) is not None


def warns(heading: str, lead: str, security: bool, *, code: bool = False) -> bool:
    """Whether what stands here is shown as something to look out for."""
    if lead and _NEEDED.search(lead) and not _OF_OTHERS.search(lead):
        return False  # a page about attacks that wants something installed means it, like any other page
    if heading and (_DEFENSIVE_HEADING.search(heading) or (security and _TOPIC_HEADING.search(heading))):
        return True
    return bool(lead and (_DEFENSIVE_TEXT.search(lead) or negated(lead[-140:]))) and (
        code or security or lead.endswith(":")
    )
