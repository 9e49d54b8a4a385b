"""A shell whose streams are a connection: whoever is at the other end of it types here.

In every language it takes three things close together: something connects, a shell is started by its name, and the
streams of the one become those of the other. What the host is called does not matter.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rules._judging import weighed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from metier.scan.rule import Hit
    from metier.scan.rules._reading import SkillStatements
    from metier.scan.rules._statements import Statement

_APART = 15
"""Lines between which they belong together."""
_CONNECTS = re.compile(
    r"socket\.create_connection\(|\.connect\(\s*\(|socket\.socket\(|\bnet\.(?:connect|createconnection|dial\w{0,7})\("
    r"|new net\.socket\(|\btls\.(?:connect|dial)\(|tcpsocket\.(?:new|open)\b|tcpstream::connect|tcpclient|fsockopen\("
    r"|stream_socket_client\(|new socket\(|\bconnect\(\s*\w{1,20}\s*,|socket\.tcp\(|/inet/tcp/"
    r"|asyncio\.open_connection\(|io::socket",
    re.IGNORECASE,
)
_CONNECT_MARKS = (
    "create_connection", "connect", "socket", "dial", "tcpstream", "tcpclient", "fsockopen", "/inet/tcp",
)  # fmt: skip
_HERE = re.compile(r"localhost|127\.0\.0\.1|::1\b|af_unix|\.sock\b", re.IGNORECASE)
_SHELL = re.compile(
    r"[\"'`(\[\s](?:/(?:usr/)?bin/)?(?:ba|z|da|k|a)?sh(?:[\"'`]|\s+-i\b)|[\"'`](?:cmd|powershell|pwsh)(?:\.exe)?[\"'`]"
    r"|/bin/(?:ba|z|da|k)?sh\b",
    re.IGNORECASE,
)
_SHELL_MARKS = ('sh"', "sh'", "sh`", "sh -i", "/bin/", "cmd", "powershell", "pwsh")
_JOINS = re.compile(
    r"\bstdin\s*=\s*(?!(?:asyncio\.)?(?:subprocess\.)?(?:pipe|devnull|none|sys\.|slave|tty|pty|open|f\b|fh\b|io\b))\w{1,40}\b"
    r"|\bdup2\(|\.pipe\(\s*\w{1,40}\.stdin|\.stdout\.pipe\(\s*(?!process\b)\w|\.stdin\s*=\s*(?!os\.|nil|strings|bytes|null)\w"
    r"|\.reopen\(|\bopen\s*\(?\s*std(?:in|out)\s*,\s*[\"'][<>]&|0\s*=>\s*\$|from_raw_fd|getoutputstream\("
    r"|pty\.spawn\(|->redirect\(",
    re.IGNORECASE,
)
_JOIN_MARKS = (
    "stdin", "dup2", ".pipe(", "reopen(", "stdout,", "0 =>", "0=>", "raw_fd", "getoutputstream", "pty.spawn",
    "redirect",
)  # fmt: skip


def handed_out(code: Sequence[Statement], read: SkillStatements) -> Iterator[Hit]:
    """Where a shell is started whose streams are a connection to somewhere else."""
    shells = [one for one in code if read.sees(one, _SHELL_MARKS) and _SHELL.search(one.text)]
    if not shells:
        return
    connects = [
        one
        for one in code
        if read.sees(one, _CONNECT_MARKS) and _CONNECTS.search(one.text) and not _HERE.search(one.text)
    ]
    joins = [one for one in code if read.sees(one, _JOIN_MARKS) and _JOINS.search(one.text)] if connects else []
    for one in shells if joins else ():
        if all(any(abs(one.line - other.line) <= _APART for other in others) for others in (connects, joins)):
            yield one.hit(one.text, weighed("critical", one, None, read))
            return
