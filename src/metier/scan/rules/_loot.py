"""What is of worth to a thief, as code takes hold of it: places, names, and patterns that find it in anything."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rules._prizes import ENVIRONMENT, JOINED, SESSION, WALLET_NAME
from metier.scan.rules.exfiltration import is_store

if TYPE_CHECKING:
    from metier.scan.rules._statements import Statement

_WALLET = re.compile(
    rf"(?:process\.env\.|os\.environ(?:\.get)?[\[(]\s*[\"']|getenv\(\s*[\"']|\$\{{?|\$env:)\w{{0,30}}(?:{WALLET_NAME})\b"
    rf"|(?:\b(?:input|prompt|getpass|ask|question|password|text)\(|\bread-host\b|\bread\s+-\w*\s)[^\n]{{0,80}}"
    rf"(?:{WALLET_NAME.replace('_?', '[ _-]?')})\b",
    re.IGNORECASE,
)
_DOTENV = re.compile(
    r"(?:cat|open\(|read(?:file(?:sync)?|_text|_bytes)?\(|path\(|get-content|gc|<|@|cp|-T|--upload-file|grep\b[^\n]{0,60}"
    r"|tar\b[^\n]{0,80}|zip\b[^\n]{0,80}|base64)\s*[\"'(]?[^\s\"']{0,60}\.env(?!\.(?:example|sample|template|dist|schema)\b)"
    r"(?:\.[\w*]{1,20}|\*)?(?:[\"'\s)|;]|$)|\bfind\s[^\n]{0,80}\.env\b|[\"']\.env[\"']\s*\)?[\s,\]]"
    r"|dotenv_values\("
    r"|dotenv\.parse\(",
    re.IGNORECASE,
)
_ONE_OF_IT = re.compile(r"dotenv_values\([^\n()]{0,60}\)\s*(?:\[\s*|\.get\(\s*)[\"'](?P<key>\w{2,60})[\"']")
"""A setting by its name, and not the file."""
_MEMORY = re.compile(
    r"[\"'/](?:memory|soul|user)\.md[\"']|\.(?:openclaw|clawdbot|moltbot)[\"'/]+(?:agents|workspace|memory)\b"
    r"|\.claude[\"'/]+(?:projects|history)\b|\.codex[\"'/]+sessions\b",
    re.IGNORECASE,
)
"""What an agent remembers of the one it works for, and what was said to it."""
_SHAPES = re.compile(
    r"sk-(?:ant-|proj-)?\[|ghp_\[|gh\[pous\]_|akia\[|xox\[|aiza\[|-----begin \S{0,12} ?private key"
    r"|\[1-9a-hj-np-z\]\{8[78]",
    re.IGNORECASE,
)
"""Patterns that find keys in whatever text there is."""
_CLIPBOARD = re.compile(
    r"[\"'`(\s](?:pbpaste|wl-paste|xsel\s+-\w{0,3}o|xclip\b[^\n]{0,30}-o)\b|get-clipboard\b|pyperclip\.paste\(|clipboard\.readtext"
    r"|clipboardy\.read",
    re.IGNORECASE,
)
"""What was copied last: whatever a manager of passwords gave."""


def is_prize(one: Statement) -> bool:
    """Whether a line takes what no service needs to be told."""
    text = one.text
    return (
        is_store(one)
        or SESSION.search(text) is not None
        or is_memory(one)
        or ENVIRONMENT.search(text) is not None
        or _WALLET.search(text) is not None
        or is_dotenv(one)
        or finds_keys(one)
        or is_clipboard(one)
    )


def is_memory(one: Statement) -> bool:
    """Whether a line names what an agent remembers, or what was said to it."""
    return _MEMORY.search(JOINED.sub("/", one.text[:1_000])) is not None


def is_dotenv(one: Statement) -> bool:
    """Whether a line takes a whole file of settings."""
    if _DOTENV.search(one.text) is None:
        return False
    picked = _ONE_OF_IT.search(one.text)
    return picked is None or re.search(WALLET_NAME, picked["key"], re.IGNORECASE) is not None


def finds_keys(one: Statement) -> bool:
    """Whether a line has a pattern that finds keys in whatever text there is."""
    return _SHAPES.search(one.text) is not None


def is_clipboard(one: Statement) -> bool:
    """Whether a line takes what was copied."""
    return _CLIPBOARD.search(one.text) is not None


def is_its_own(source: Statement, key: str) -> bool:
    """Whether one setting, picked by its name out of all that there are, is what a program is set up with."""
    if is_store(source) or re.search(WALLET_NAME, key, re.IGNORECASE):
        return False
    return ENVIRONMENT.search(source.text) is not None or is_dotenv(source)


def is_for(key: str, hosts: str, source: Statement) -> bool:
    """Whether a setting, picked out of a file of settings, is named after the host that it is for."""
    brand = key.split("_")[0].lower()
    return (
        ".env" in source.low and len(brand) >= 4 and brand in hosts and not re.search(WALLET_NAME, key, re.IGNORECASE)
    )
