"""Commands as a shell or an interpreter would read them, whatever quotes, escapes and variables they are hidden in."""

from __future__ import annotations

import re

_MAX = 8_000
"""Characters that a command may grow to when its variables are put in."""
_MAX_VARIABLES = 200

_MARKS = (
    "''",
    '""',
    "IFS",
    "\\",
    "$",
    "+",
    "chr(",
    "fromCharCode",
    "^",
    "[::-1]",
    "','",
    '","',
    "', '",
    '", "',
    "=",
    "`",
)
_COMMAND = re.compile(
    r"\b(?:curl|wget|bash|base64|eval|exec|iex|invoke-expression|powershell|python3?|nc|netcat|/bin/sh|https?|system"
    r"|subprocess|__import__|b64decode|child_process|osascript|id_rsa|id_ed25519|environ)\b|\.ssh/|\.aws/",
    re.IGNORECASE,
)
_ASSIGNMENT = re.compile(
    r"""^[ \t]*(?:export[ \t]+|local[ \t]+|const[ \t]+|let[ \t]+|var[ \t]+|set[ \t]+|\$)?
        ([A-Za-z_]\w{0,60})[ \t]?=[ \t]?
        (?:"([^"$`\\]{0,300})"|'([^'\\]{0,300})'|([^\s"'`$;&|(){}<>]{1,300}))[ \t]*;?[ \t]*$""",
    re.VERBOSE,
)
_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w{0,60})\}?|%([A-Za-z_]\w{0,60})%")
_EMPTY_QUOTES = re.compile(r"""(?<=[\w/.])(?:''|"")(?=[\w/.])""")
_SHORT_QUOTES = re.compile(r"""\b([a-z]{1,6})(["'])([a-z]{1,6})\2([a-z]{0,6})\b""")
_SUM = re.compile(r"""(["'])[ \t]{0,4}\+[ \t]{0,4}(["'])""")
_HEX = re.compile(r"(?:\\x[0-9a-fA-F]{2}){2,}|(?:\\u00[0-9a-fA-F]{2}){2,}|(?:\\[0-3][0-7]{2}){3,}")
_ANSI = re.compile(r"\$'([^'\n]{1,300})'")
_ONE_HEX = re.compile(r"\\x([0-9a-fA-F]{2})|\\u00([0-9a-fA-F]{2})|\\([0-3][0-7]{2})")
_CHARS = re.compile(r"(?:chr\(\d{2,3}\)[ \t]{0,3}[+,.][ \t]{0,3}){2,}chr\(\d{2,3}\)", re.IGNORECASE)
_CODES = re.compile(
    r"fromCharCode\(((?:[ \t]{0,3}(?:0x[0-9a-fA-F]{2,3}|[0-9]{2,3})[ \t]{0,3},){2,}"
    r"[ \t]{0,3}(?:0x[0-9a-fA-F]{2,3}|[0-9]{2,3}))"
    r"[ \t]{0,3}\)"
)
_LETTERS = re.compile(r"""(?:(["'])[^"'\\]{1,12}\1[ \t]{0,2},[ \t]{0,2}){2,40}(["'])[^"'\\]{1,12}\2(?=[ \t]{0,2}\])""")
_ESCAPED_LETTER = re.compile(r"(?<=[a-z])[\\^`](?=[a-z])", re.IGNORECASE)
_REVERSED = re.compile(
    r"""(["'])([^"'\n]{4,2000})\1[ \t]{0,2}(?:\)[ \t]{0,2})?\[::-1\]"""
    r"""|(["'])([^"'\n]{4,2000})\3\.split\((["'])\5\)\.reverse\(\)"""
)


def revealed(line: str, variables: dict[str, str]) -> tuple[str, bool]:
    """A line of code with what it hides in sight, and whether it hid a command; literals that it names are kept.

    >>> revealed("c''url${IFS}-s x | b\\\\ash", {})
    ('curl -s x | bash', True)
    >>> revealed("$A -s x", {"A": "curl"})
    ('curl -s x', False)
    """
    if not any(mark in line for mark in _MARKS):
        return line, False
    if "=" in line and len(line) < 600:
        for part in line.split(";"):
            assigned = _ASSIGNMENT.match(part)
            if assigned is not None and len(variables) < _MAX_VARIABLES:
                variables[assigned[1]] = assigned[2] or assigned[3] or assigned[4] or ""
    text = line
    if "$" in text or "%" in text:
        text = re.sub(r"\$\{?IFS(?:%\?\?)?\}?(?:\$\d)?", " ", text) if "IFS" in text else text
        text = _VARIABLE.sub(lambda found: variables.get(found[1] or found[2], found[0]), text)[:_MAX]
    # A variable that holds a command is nothing special; a command that comes out of several pieces is.
    pieces = re.search(r"\$\{?\w+\}?\$\{?\w", line) is not None and _count(text) > _count(line) + _whole(
        line, variables
    )
    put_in = line if pieces else text
    text = _unescaped(text)
    if "''" in text or '""' in text:
        text = _EMPTY_QUOTES.sub("", text)
    text = _counted(text, _ESCAPED_LETTER, "") if any(mark in text for mark in "\\^`") else text
    text = _rejoined(text) if "'" in text or '"' in text else text
    hid = "IFS" in line or (text is not put_in and _count(text) > _count(put_in))
    return text, hid and _count(text) > _count(line)


def _whole(line: str, variables: dict[str, str]) -> int:
    """How many commands come out of a variable each, all of them, as the base of an address does."""
    held = {name: _count(value) for name, value in variables.items() if name in line}
    return sum(held.get(found[1] or found[2], 0) for found in _VARIABLE.finditer(line))


def _unescaped(text: str) -> str:
    if "$'" in text:
        text = _ANSI.sub(lambda found: _ONE_HEX.sub(_letter, found[1]), text)
    if "\\" in text:
        text = _HEX.sub(lambda found: _ONE_HEX.sub(_letter, found[0]), text)
    if "+" in text:
        text = _SUM.sub(lambda found: "" if found[1] == found[2] else found[0], text)
    if "chr(" in text.lower():
        text = _CHARS.sub(lambda found: repr("".join(map(_char, re.findall(r"\d+", found[0])))), text)
    if "fromCharCode" in text:
        text = _CODES.sub(lambda found: repr("".join(_char(code.strip()) for code in found[1].split(","))), text)
    if "','" in text or '","' in text or "', '" in text or '", "' in text:
        text = _LETTERS.sub(_joined, text)
    if "[::-1]" in text or ".reverse()" in text:
        text = _REVERSED.sub(lambda found: repr((found[2] or found[4])[::-1]), text)
    return text


def _rejoined(text: str) -> str:
    """Words that are cut by quotes, put together when a command comes out."""
    changed = _SHORT_QUOTES.sub(r"\1\3\4", text)
    return changed if changed != text and _count(changed) > _count(text) else text


def _counted(text: str, pattern: re.Pattern[str], by: str) -> str:
    changed = pattern.sub(by, text)
    return changed if _count(changed) > _count(text) else text


def _count(text: str) -> int:
    return sum(1 for _ in _COMMAND.finditer(text))


def _letter(found: re.Match[str]) -> str:
    code = int(found[1] or found[2], 16) if found[1] or found[2] else int(found[3], 8)
    return chr(code) if 32 <= code < 127 else " "


def _joined(found: re.Match[str]) -> str:
    """A list of short texts as the one text that they make, when a command comes out."""
    text = "".join(re.findall(r"""["']([^"'\\]{1,12})["']""", found[0]))
    return repr(text) if _count(text) > _count(found[0]) else found[0]


def _char(code: str) -> str:
    number = int(code, 0) if not code.startswith("0") or code[:2] in {"0x", "0X"} else int(code, 10)
    return chr(number) if 32 <= number < 127 else " "
