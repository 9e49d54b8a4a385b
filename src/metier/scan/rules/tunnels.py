"""Ways into the machine from outside: tunnels to its log-in, and accounts for somebody else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules._hosts import mailboxes
from metier.scan.rules._judging import weighed
from metier.scan.rules._reading import reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.finding import Severity
    from metier.scan.rule import Hit
    from metier.scan.view import SkillView

_MARKS = (
    "ssh ", "autossh", "ngrok", "cloudflared", "tailscale", "useradd", "adduser", "net user", "net localgroup", "tmate",
    "tunnel", "frpc", "bore ", "sshx", "ttyd", "pinggy", "localtunnel", "dscl", "chpasswd",
)  # fmt: skip
_LOG_IN = r"(?:localhost|127\.0\.0\.1|0\.0\.0\.0)?:?(?:22|3389|5900|5985)\b"
_TUNNEL = re.compile(
    rf"\b(?:auto)?ssh\b[^\n|;]{{0,120}}\s-\w{{0,6}}R\s?\S{{0,40}}:{_LOG_IN}[^\n|;]{{0,80}}\s(?:[\w.-]{{1,40}}@)?[\w-]{{1,60}}\.[\w.-]{{2,80}}"
    rf"|\b(?:ngrok|bore|pinggy|localtunnel|zrok)\b[^\n|;]{{0,40}}\b(?:tcp|local|share)\s+{_LOG_IN}"
    rf"|\bcloudflared\b[^\n|;]{{0,80}}(?:ssh|rdp|tcp)://{_LOG_IN}|\bcloudflared\s+service\s+install\s+ey\w{{20,}}"
    r"|\btailscale\s+up\b[^\n|;]{0,80}--auth-?key[= ]\"?tskey-\w{6,}|\btmate\s+-\w{0,4}F|\bsshx\s+-q",
    re.IGNORECASE,
)
_ACCOUNT = re.compile(
    r"\b(?:useradd|adduser|usermod)\b[^\n|;]{0,80}\b(?:sudo|wheel|admin|docker)\b[^\n|;]{0,40}"
    r"|\bnet\s+user\s+[\w-]{2,30}\s+\S{4,40}\s+/add"
    r"|\bnet\s+localgroup\s+administrators\s+[\w-]{2,30}\s+/add"
    r"|echo\s+[\"'][\w-]{2,30}:\S{4,40}[\"']\s*\|\s*(?:sudo\s+)?chpasswd",
    re.IGNORECASE,
)
_SAID = re.compile(
    r"\b(?:open|start|create|set up|establish|run)\w{0,3}\b[^\n]{0,40}\btunnel\b[^\n]{0,120}\b(?:report|send|share|give"
    r"|tell|post|mail)\w{0,3}\b"
)


def _opened(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    if not read.has(*_MARKS):
        return
    for one in read.statements:
        if not read.sees(one, _MARKS):
            continue
        tunnel = _TUNNEL.search(one.text)
        account = _ACCOUNT.search(one.text) if tunnel is None else None
        if tunnel is not None:
            yield one.hit(tunnel[0], weighed("low" if "@$" in tunnel[0] else "high", one, tunnel, read))
        elif account is not None and one.kind == "code":
            # Images and servers are set up with accounts, too; a password in the text is nobody's own.
            severity: Severity = "high" if re.search(r"chpasswd|/add|-p\s", one.low) else "low"
            yield one.hit(account[0], weighed(severity, one, account, read))
        elif (
            one.kind == "prose"
            and not one.warned
            and (said := _SAID.search(one.low)) is not None
            and (one.places or any(mailboxes(one.text)) or re.search(r"\b(?:support|us|author|developer)\b", one.low))
            and not one.warns_of(said)
        ):
            yield one.hit(one.text, "high")


RULES = (
    ScanRule(
        id="WAY_IN",
        ast="AST01",
        category="persistence_control",
        severity="high",
        message="It opens a way for somebody else to log in to this machine.",
        hint="Do not run it. Close the tunnel and remove the account if it ran.",
        check=_opened,
    ),
)
