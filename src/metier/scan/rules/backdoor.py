"""Programs that let somebody else in, listen, or work for somebody else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import Hit, ScanRule
from metier.scan.rules._judging import farthest, weighed
from metier.scan.rules._programs import code_together
from metier.scan.rules._reading import reading
from metier.scan.rules.shells import handed_out

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.finding import Severity
    from metier.scan.rules._statements import Statement
    from metier.scan.view import SkillView

_SHELL = re.compile(
    r"(?:ba|z|da|k)?sh\s+-i\s*(?:>|<|[0-9]?>&)\s*&?\s*/dev/(?:tcp|udp)/|/dev/(?:tcp"
    r"|udp)/[^\s/]{1,100}/[0-9$]\S{0,8}\s*(?:0>&1|<&|>&|2>&1)|exec\s+[0-9]+<>\s*/dev/tcp/"
    r"|\b(?:nc|ncat|netcat)(?:\.exe|\.traditional)?\s+(?:-\w+\s+|\S+\s+\d+\s+){0,5}-\w{0,4}[ec]\s+[\"']?(?:/bin/|cmd"
    r"|(?:ba|z)?sh|powershell)|mkfifo\s[^\n]{0,200}\b(?:nc|ncat|netcat|openssl)\b|\bsocat\b[^\n]{0,160}\bexec:"
    r"|\bdup2\(\s*\w{1,20}\.fileno\(\)|pty\.spawn\(\s*[\"']/bin/|new-object\s+(?:system\.)?net\.sockets\.tcpclient"
    r"|fsockopen\([^\n]{0,100}(?:exec|shell_exec|proc_open|/bin/sh)|tcpsocket\.(?:new|open)\([^\n]{0,160}(?:exec"
    r"|/bin/|popen)"
    r"|net\.(?:connect|socket)\([^\n]{0,200}child_process|child_process[^\n]{0,120}(?:/bin/sh"
    r"|cmd\.exe)[^\n]{0,120}\.pipe\(|use\s+socket;[^\n]{0,200}exec|\bmsfvenom\b[^\n]{0,200}\|\s*(?:ba)?sh"
    r"|sliver-client|\bchisel\s+client\b[^\n]{0,100}\bR:",
    re.IGNORECASE,
)

_SOCKET_AND_SHELL = re.compile(
    r"subprocess\.(?:call|popen|run|check_output)|os\.popen|os\.system|child_process|execsync|exec\(|spawn\("
    r"|/bin/(?:ba)?sh|cmd\.exe",
    re.IGNORECASE,
)

_SOCKET = re.compile(
    r"socket\.socket\(|net\.(?:socket|connect|createconnection)\(|\.connect\(\(|websocket", re.IGNORECASE
)

_LOOP = re.compile(
    r"while\s+(?:true|1|:)|while\s*\(\s*(?:true|1)|for\s*\(\s*;;|setinterval\(|schedule\.every|threading\.timer"
    r"|loop\s*\{|time\.sleep\(",
    re.IGNORECASE,
)

_ASKS = re.compile(
    r"requests\.get\(|urlopen\(|httpx\.get\(|\bfetch\(|axios\.get\(|\bcurl\s|\bwget\s|https?\.get\(|\.recv\("
    r"|invoke-restmethod|\birm\b",
    re.IGNORECASE,
)

_OBEYS = re.compile(
    r"\bexec\(|\beval\(|os\.system\(\s*(?![\"'])|subprocess\.\w{2,12}\(\s*(?:\w+\s*,\s*shell\s*=\s*true"
    r"|\w+(?:\.\w+\(\))?\s*[,)])|shell\s*=\s*true|execsync\(\s*(?![\"'`])|child_process\.exec\(\s*(?![\"'`])"
    r"|\beval\s+[\"']?\$|(?:ba|z)?sh\s+-c\s+[\"']?\$|\|\s*(?:ba|z)?sh\b|new function\(|iex\b|popen\(\s*(?![\"'])",
    re.IGNORECASE,
)

_ASK_MARKS = ("get(", "urlopen", "fetch(", "curl ", "wget ", "recv(", "invoke-restmethod", "irm ")

_OBEY_MARKS = (
    "exec", "eval", "os.system", "subprocess", "shell", "sh -c", "|", "function(", "iex", "popen(",
)  # fmt: skip

_GATE = re.compile(
    r"\b(?:if|elif|when|unless|case)\b[^\n]{0,200}(?:hexdigest\(\)|digest\(\s*[\"'](?:hex|base64)[\"']\s*\)|\bmd5\(|\bsha1\()[^\n]{0,40}"
    r"(?:\.startswith\(|===?\s|\.slice\(|\[:)",
    re.IGNORECASE,
)
"""Only who knows a word gets further, and the script does not tell which."""
_GATE_MARKS = ("digest(", "md5(", "sha1(")
_WHATEVER = re.compile(
    r"shell\s*=\s*true|os\.(?:system|popen)\(\s*(?![\"'f])|\bexecsync\(\s*(?![\"'`])|(?<![.\w])(?:exec|eval)\(\s*(?![\"'`])"
    r"|child_process\.exec\(\s*(?![\"'`])|shell_exec\(\s*\$",
    re.IGNORECASE,
)
"""A command that is whatever a name holds."""

_SOCKET_MARKS = ("socket", "net.", ".connect((")

_SAID = re.compile(
    r"\b(?:open|establish|create|start|spawn|initiate|set up|connect)\w{0,3}\b[^\n]{0,30}\b(?:reverse shell"
    r"|backdoor|bind shell|command[- ]and[- ]control|c2 (?:channel|server|beacon))\b|обратн\w{0,3} (?:шелл|оболочк)"
    r"|反弹\s?shell|shell inversa"
)

_POLLS = re.compile(
    r"\b(?:poll|check|query|contact|ping|fetch|listen)\w{0,3}\b[^\n]{0,80}\b(?:for (?:new |pending |further "
    r"|additional |remote )?(?:commands?|tasks?|instructions?|orders?|jobs?)|and (?:then )?(?:execute|run|perform"
    r"|follow|carry out|complete|do) (?:any|whatever|the|all|each|every|what))\b"
    r"|\b(?:poll|check|query|contact|fetch)\w{0,3}\b[^\n]{0,120}\b(?:complete|do|perform|execute|work through"
    r"|carry out) (?:each|every|any|all|the) "
    r"(?:tasks?|jobs?|orders?|items?)\b"
)


def _reverse_shell(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for one in read.told():
        found = _SHELL.search(one.text) if read.sees(one, _MARKS) else None
        if found is not None:
            severity: Severity = (
                "low"
                if read.about_security and not one.script and one.kind != "frontmatter" and "install" not in one.heading
                else "critical"
            )
            yield one.hit(found[0], weighed(severity, one, found, read))
        elif (
            one.kind != "code"
            and (
                "shell" in one.low
                or "backdoor" in one.low
                or "c2" in one.words
                or "command" in one.low
                or "шелл" in one.low
            )
            and (said := _SAID.search(one.low)) is not None
        ):
            yield one.hit(one.text, "low" if read.about_security else weighed("high", one, said, read))
    if read.has("stdin", "dup2", ".pipe(", "reopen(", "stdout", "0 =>", "raw_fd", "pty.spawn", "getoutputstream"):
        for code in code_together(read):
            yield from handed_out(code, read)


_MARKS = (
    "/dev/tcp",
    "/dev/udp",
    "nc ",
    "ncat",
    "netcat",
    "mkfifo",
    "socat",
    "dup2",
    "pty.spawn",
    "tcpclient",
    "fsockopen",
    "tcpsocket",
    "child_process",
    "net.",
    "use socket",
    "msfvenom",
    "sliver",
    "chisel",
    "nc.",
)


def _apart(some: list[Statement], others: list[Statement]) -> int:
    """How many lines lie between the closest of them; both are in the order of their lines."""
    least, at = 1 << 30, 0
    for one in some:
        while at + 1 < len(others) and others[at + 1].line <= one.line:
            at += 1
        least = min(least, *(abs(one.line - other.line) for other in others[at : at + 2]))
    return least


def _obeys(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for file, statements in read.files.items():
        code = [one for one in statements if one.kind == "code" and one.script]
        asks = [one for one in code if read.sees(one, _ASK_MARKS) and _ASKS.search(one.text)]
        obeys = [one for one in code if read.sees(one, _OBEY_MARKS) and _OBEYS.search(one.text)] if asks else []
        if asks and obeys and any(_LOOP.search(one.text) for one in code):
            far = farthest(code, read, none=-1)
            tight = _apart(asks, obeys) <= 12
            fed = any(
                re.search(r"\.(?:text|content|json\(\)|read\(\))|recv|command|cmd|task", one.low) for one in obeys
            )
            if tight and (far >= 2 or far < 0) and fed and not read.about_security:
                yield Hit(file, obeys[0].line, obeys[0].text, "", "high" if far >= 2 else "medium")
        gate = next((one for one in code if read.sees(one, _GATE_MARKS) and _GATE.search(one.text)), None)
        if gate is not None and any(0 < one.line - gate.line <= 5 and _WHATEVER.search(one.text) for one in code):
            yield Hit(file, gate.line, gate.text, "It runs what it is told by whoever knows a password.", "high")
        sockets = [one for one in code if read.sees(one, _SOCKET_MARKS) and _SOCKET.search(one.text)]
        shells = [one for one in code if _SOCKET_AND_SHELL.search(one.text)] if sockets else []
        takes = any(re.search(r"\.recv\(|on\([\"']data", one.low) for one in code) if sockets and shells else False
        if takes and not read.about_security and _apart(sockets, shells) <= 15:
            yield Hit(file, shells[0].line, shells[0].text, "", "high")
    for one in read.told("prose", "comment", "frontmatter"):
        found = _POLLS.search(one.low) if one.places else None
        if found is not None and not one.warned:
            far = farthest((one,), read, none=-1)
            obeyed = re.search(r"\b(?:execut|run|perform|follow|carry out|obey|complete|work through)", one.low)
            again = re.search(r"\b(?:every|each) (?:\d{1,3} )?(?:minute|hour|day|start)|\bpoll", one.low)
            if far >= 3 or (far == 2 and obeyed) or (far == 1 and obeyed and again):
                yield one.hit(one.text, "high" if obeyed else "medium")


RULES = (
    ScanRule(
        id="REVERSE_SHELL",
        ast="AST01",
        category="persistence_control",
        severity="critical",
        message="It hands a shell on this machine to somebody else.",
        hint="Do not run it. If it ran, take the machine off the network and look for what else was left.",
        check=_reverse_shell,
    ),
    ScanRule(
        id="COMMAND_CHANNEL",
        ast="AST01",
        category="persistence_control",
        severity="high",
        message="It keeps asking an address for commands and does what comes back.",
        hint="Do not run it. Whoever owns the address owns the machine.",
        check=_obeys,
    ),
)
