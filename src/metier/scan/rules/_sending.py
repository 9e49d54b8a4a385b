"""Lines of code that send something over the network."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from metier.scan.rules._reading import SkillStatements
    from metier.scan.rules._statements import Statement

_SINK = re.compile(
    r"requests\.(?:post|put|patch|request)\(|\.put\(\s*(?:f?[\"'`]|\w{1,30}\s*,)|new image\(\)|httpsconnection\("
    r"|conn\w{0,8}\.request\(|httpx\.(?:post|put|request)\(|\.post\(|urlopen\("
    r"|urllib\.request\.request\(|\bfetch\(|axios(?:\.(?:post|put|request))?\(|https?\.request\(|https?\.get\("
    r"|requests\.get\(|xmlhttprequest|sendbeacon\(|new websocket\(|websocket\.create"
    r"|\bcurl(?:\.exe)?\b[^\n]{0,400}[\s\"'](?:-d|--data\S{0,20}|-F|--form\S{0,10}|-T|--upload-file|--json|-X\s*(?:post"
    r"|put))\b|\bcurl\b[^\n]{0,300}(?:\$\(|`|@-|\$\{?\w)|\bwget\b[^\n]{0,300}--(?:post|body|method)|\b(?:nc|ncat"
    r"|netcat)\s+(?:-\w+\s+)*\S+\s+\d{2,5}|/dev/tcp/|\bscp\s|\brsync\s[^\n]{0,200}[@:]|smtplib|ftplib|paramiko"
    r"|dns\.resolver|\bnslookup\s|\bdig\s+[^\n]{0,80}\$|gethostbyname\(|invoke-(?:restmethod"
    r"|webrequest)\b[^\n]{0,300}-method\s+[\"']?(?:post|put)|\birm\b[^\n]{0,200}-method|uploadstring\(|uploaddata\("
    r"|socket\.create_connection|\.connect\(\(|sendmail|net\.connect\(|net\.createconnection|http\.post\(|reqwest"
    r"|ureq::post|\brclone\s+(?:copy|sync|move)\b|tojson\(\s*secrets\s*\)",
    re.IGNORECASE,
)

_SINK_HINTS = (
    "post(", "put(", "patch(", "request(", "urlopen", "fetch(", "axios", "get(", "xmlhttp", "sendbeacon",
    "websocket", "curl", "wget", "nc ", "ncat", "netcat", "/dev/tcp", "scp ", "rsync", "smtp", "ftp", "paramiko",
    "dns", "nslookup", "dig ", "gethostby", "invoke-", "irm ", "upload", "socket", "connect(", "sendmail",
    "createconnection", "reqwest", "httpsconnection", "image(", "ureq", "rclone", "secrets",
)  # fmt: skip


def sends_off(one: Statement, read: SkillStatements) -> bool:
    """Whether a line of code sends something over the network."""
    return read.sees(one, _SINK_HINTS) and read.holds(_sends, one)


def _sends(one: Statement) -> bool:
    return _SINK.search(one.text) is not None
