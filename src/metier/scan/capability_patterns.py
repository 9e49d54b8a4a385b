"""How commands and tools look in text: the signs that a skill can do something.

Every pattern is bounded, or anchored so that no stretch of text is gone over twice: the text may be anybody's.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from metier.skill.tool_rules import parse_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from metier.skill.tool_rules import ToolRule

SHELLS = ("shell", "powershell", "batch")
"""The languages whose code in instructions is commands to run."""

# Patterns that begin with plain letters are found many times faster than those that begin with a choice, so commands
# are looked for by one word of them and the rest is checked there.
_URL = re.compile(r"https?://")
_BRINGS = re.compile(
    r"\b(?:curl|wget|aria2c|invoke-webrequest|invoke-restmethod|iwr|irm|start-bitstransfer|certutil)\b"
    r"|\b(?:download|install)|下载|安装|descarg|télécharg|herunterlad|скача|установ|ダウンロード"
)
_ADDRESS = re.compile(r"[^\s)>\]\"'`]{0,300}")
_IN_ADDRESSES = frozenset("abcdefghijklmnopqrstuvwxyz0123456789./?&%~+-")
_ARCHIVE = re.compile(r"\.(?:zip|tar\.[gx]z|tgz|7z|rar|exe|msi|dmg|pkg|deb|rpm|appimage|jar|apk|ps1|sh|bat)(?![\w-])")
_INSTALLERS = re.compile(
    r"(?<![\w./-])(?:pip3?|pipx|uv|npm|pnpm|yarn|bun|brew|apt|apt-get|dnf|yum|apk|cargo|gem|conda|winget|choco|scoop|go)"
    r"(?:[ \t]{1,4}(?:-[\w-]{1,20}|pip|tool|global)){0,3}[ \t]{1,8}$"
)
_INSTALLS = [(word, re.compile(rf"{word}[ \t]{{1,8}}[\w@.\"'/~\[-]")) for word in ("install", "add", "get", "i")]
_RUNS = [
    (words, re.compile(rf"{words}[ \t]{{1,8}}[\w@./~$\"'-]"))
    for words in ("npx", "uvx", "bunx", "pnpm dlx", "yarn dlx", "pipx run", "git clone", "gh repo clone", "docker pull")
]


def downloads(text: str) -> Iterator[int]:
    """Where something comes from outside: a file, an archive, a package.

    >>> list(downloads("See https://example.com, then pip install x"))
    [34]
    """
    text = text.lower()
    if "://" in text:
        yield from _once_a_line(text, _URL, _brings)
    for word, pattern in _INSTALLS:
        if word in text and (len(word) > 1 or " i " in text or " i\t" in text or "\ti" in text):
            yield from _once_a_line(text, pattern, _installs)
    for words, pattern in _RUNS:
        if words in text:
            yield from _once_a_line(text, pattern, _stands_alone)


def _once_a_line(text: str, pattern: re.Pattern[str], holds: Callable[[str, re.Match[str]], bool]) -> Iterator[int]:
    """Where a pattern is found and something more holds, at most once a line."""
    past = -1
    for found in pattern.finditer(text):
        if found.start() >= past and holds(text, found):
            yield found.start()
            past = text.find("\n", found.start()) % (len(text) + 1)


def _brings(text: str, found: re.Match[str]) -> bool:
    """Whether an address is of something to bring: by the words before it on its line, or by its own end."""
    at = found.start()
    if at and text[at - 1] in _IN_ADDRESSES:
        return False  # within another address, which was looked at
    before = text[max(text.rfind("\n", max(0, at - 200), at) + 1, at - 200) : at]
    if _BRINGS.search(before):
        return True
    address = _ADDRESS.match(text, found.end())
    return address is not None and _ARCHIVE.search(address[0]) is not None


def _installs(text: str, found: re.Match[str]) -> bool:
    return _INSTALLERS.search(text, max(0, found.start() - 100), found.start()) is not None


def _stands_alone(text: str, found: re.Match[str]) -> bool:
    before = text[found.start() - 1 : found.start()]
    return not before.isalnum() and before not in ("_", ".", "/", "-")


NETWORK_IN_SCRIPTS = re.compile(
    r"^[ \t]*(?:import|from)[ \t]+(?:requests|urllib|urllib3|httpx|aiohttp|http\.client|socket|websockets?|paramiko"
    r"|ftplib|smtplib|boto3)\b"
    r"|\b(?:fetch|axios|XMLHttpRequest|WebSocket)[ \t]?[.(]"
    r"|\b(?:require\(|from[ \t]{1,8})[\"'](?:node:)?(?:https?|net|axios|got|node-fetch|undici)[\"']"
    r"|/dev/(?:tcp|udp)/|(?<![\w./-])(?:nc|ncat|ssh|scp|sftp|rsync|telnet|socat)[ \t]{1,8}[\w@-]"
    r"|\b(?:Invoke-WebRequest|Invoke-RestMethod|Net\.WebClient|Net::HTTP|LWP::|open-uri|net/http|reqwest)\b",
    re.MULTILINE,
)
WRITES_IN_SCRIPTS = re.compile(
    r"\bopen\([^\n)]{1,200}?,[ \t]{0,8}(?:mode[ \t]{0,8}=[ \t]{0,8})?[\"'][wax]"
    r"|\.write_(?:text|bytes)\(|\bshutil\.(?:copy|move|rmtree)|\bos\.(?:remove|unlink|rename|replace|makedirs|mkdir)\("
    r"|\.(?:unlink|mkdir|touch|rmdir)\("
    r"|\b(?:writeFile|appendFile|createWriteStream|rm|unlink|mkdir|rename)(?:Sync)?\("
    r"|\b(?:Set-Content|Out-File|Add-Content|Remove-Item|New-Item)\b|\bFile\.(?:write|open)\b",
)
WRITES_IN_SHELL = re.compile(
    r"(?:^|[;&|][ \t]{0,8}|[ \t])(?:tee|mv|cp|mkdir|touch|chmod|rm|sed[ \t]{1,8}-i)[ \t]{1,8}[\w./~$\"'-]"
    r"|(?:^|[^<>=\-&|0-9])>{1,2}[ \t]{0,8}(?!/dev/null)[\w./~$\"'{]",
    re.MULTILINE,
)

_PROGRAMS = (
    r"bash|sh|zsh|curl|wget|git|npm|npx|pnpm|yarn|pip3?|uv|uvx|python3?|node|deno|docker|kubectl|make|cargo|brew"
    r"|apt(?:-get)?|chmod|gh|aws|gcloud"
)
SHELL_LINE = re.compile(
    rf"^[ \t]*(?:[$%#>][ \t]{{1,8}})?(?:sudo[ \t]{{1,8}})?(?:{_PROGRAMS}|go|export|source|cd|mkdir"
    r"|rm|cp|mv|cat|terraform|metier)"
    r"[ \t]{1,8}[\w./~$\"'@-]",
    re.MULTILINE,
)
"""A line of code in no language that is a command."""
SHELL_SPAN = re.compile(
    rf"`(?:[$%][ \t]{{1,8}})?(?:sudo[ \t]{{1,8}})?(?:{_PROGRAMS}|\./[\w./-]{{1,80}}|(?:scripts|bin)/[\w./-]{{1,80}})"
    r"[ \t][^`\n]{1,300}`"
    r"|\|[ \t]{0,8}(?:sudo[ \t]{1,8})?(?:(?:ba|z|da|k)?sh|iex|python3?|node|perl)"
    r"(?=[ \t]*(?:$|[.,;:!?)`\"']|-|to\b|and\b))"
    rf"|\b[Uu]sing[ \t]{{1,8}}(?:{_PROGRAMS})\b"
    rf"|\b(?:[Rr]un|[Ee]xecute|[Tt]ype|[Ii]nvoke|[Ii]ssue|[Ee]nter|[Cc]ommand):?[ \t]{{1,8}}(?:sudo[ \t]{{1,8}})?"
    rf"(?:(?:{_PROGRAMS})[ \t]{{1,8}}(?:[-~./$\"'@]|https?:|\w{{1,20}}[ \t]{{1,8}}[-~./$\"'@\w]|install\b|clone\b)"
    r"|echo[ \t]{1,8}[^\n|>]{1,300}[|>])",
    re.MULTILINE,
)
"""A command in running text: between backticks, or without them where the words around it make it one."""
INLINE_EXEC = re.compile(r"(?:^|(?<=\s))!`[ \t]*[^`\s][^`\n]*`|^[ \t>]*(?:`{3,}|~{3,})[ \t]*![ \t]*$", re.MULTILINE)
"""A command that is run while instructions are loaded; a fence with `!` for a language is a block of them."""

RUNS_SCRIPTS = re.compile(
    r"\S{0,200}(?:python|node|deno|bun|bash|sh|zsh|ruby|perl|pwsh|uv)\d?(?![\w-])|\S{0,200}/|\S+\.\w+"
)
"""A command of `allowed-tools` that runs a script: by an interpreter, or by its path."""
_ONLINE = re.compile(r"\b(?:network|internet|online)\b", re.IGNORECASE)
_NOT = re.compile(r"\b(?:no|not|without|never|neither|nor)\b", re.IGNORECASE)


def needs_network(text: str) -> bool:
    """Whether the words about compatibility ask for a network.

    >>> needs_network("Needs internet access."), needs_network("No packages and no network.")
    (True, False)
    """
    return any(not _NOT.search(text, max(0, at.start() - 20), at.start()) for at in _ONLINE.finditer(text))


class ToolClass:
    """The tools of one class, and how they look in text: `` `WebFetch` ``, or a command that begins as the rule does.

    >>> list(ToolClass(["Bash(git push *)"]).in_code("then git push origin"))
    [5]
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._rules = parse_rules(list(texts))
        tools = [rule.text for rule in self._rules if rule.pattern is None and rule.text.isidentifier()]
        # Each with what stands in every place where it is found, which is looked for first, as that takes no time.
        self._tools = [(tool, re.compile(rf"{tool}(?:`|[ \t]{{1,4}}tool\b)")) for tool in tools]
        commands = [_words(rule) for rule in self._rules if rule.tool == "bash"]
        ends = r"(?=[ \t\\]|[.,;:!?)`]*(?:\s|$))"
        self._commands = [
            (words[0], re.compile(r"[ \t]{1,8}".join(map(re.escape, words)) + ends, re.MULTILINE))
            for words in commands
            if words
        ]

    def in_prose(self, text: str) -> Iterator[int]:
        """Where a text speaks of one of the tools."""
        for tool, pattern in self._tools:
            if tool in text:
                yield from _once_a_line(text, pattern, _stands_alone)

    def in_code(self, text: str) -> Iterator[int]:
        """Where a text has one of the commands."""
        for word, pattern in self._commands:
            if word in text:
                yield from _once_a_line(text, pattern, _stands_alone)

    def declares(self, own: ToolRule) -> bool:
        """Whether a rule of a skill is about a tool of the class; the whole of Bash is no sign of anything in it."""
        return any(rule.names(own.tool) and _overlap(_words(rule), _words(own)) for rule in self._rules)


def _words(rule: ToolRule) -> list[str]:
    """The words that a command begins with: `git push *` and `git push:*` begin with two."""
    return [word for word in re.split(r"[\s:]+", rule.pattern or "") if word and "*" not in word]


def _overlap(wanted: list[str], own: list[str]) -> bool:
    return not wanted or (bool(own) and all(a == b for a, b in zip(wanted, own, strict=False)))


@functools.lru_cache(maxsize=64)
def tool_class(texts: tuple[str, ...]) -> ToolClass:
    """A class of tools, made once."""
    return ToolClass(texts)


def matches(pattern: re.Pattern[str]) -> Callable[[str], Iterator[int]]:
    """Where a pattern is found in a text, as a sign like the others."""
    return lambda text: _once_a_line(text, pattern, lambda _text, _found: True)
