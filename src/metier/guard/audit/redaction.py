"""Redaction of secrets: passwords, tokens and keys are replaced in texts for records and listeners.

It recognises secrets by their names and by the form of well-known tokens. It catches mistakes; it does not prove
that a text holds no secret.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

MARK = "[REDACTED]"

_MAX_DEPTH = 64
_SECRET_NAMES = (
    "apikey", "accesskey", "accesskeyid", "secretkey", "privatekey", "signingkey", "encryptionkey", "accountkey",
    "secret", "password", "passwd", "passphrase", "passcode", "token", "credential", "credentials", "authorization",
    "cookie", "dbpwd", "userpwd", "connectionstring",
)  # fmt: skip
"""Endings of the names of secrets, without case, hyphens and underscores: `GITHUB_TOKEN`, `client-secret`."""

_HINTS = (
    "key", "secret", "pass", "token", "credential", "pwd", "authorization", "cookie", "bearer", "://", "connection",
    "sk-", "_live_", "_test_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "akia", "asia", "xox",
    "aiza", "npm_", "hf_", "mtr_", "pypi-", "eyj", "-----begin",
)  # fmt: skip
"""Every known secret has one of these; most texts have none, and searching for them is fast."""

_MAX_REST = 8 * 1024
"""The part of a text that waits for its end: longer than any secret of these forms."""

# Every repetition is bounded or cannot fail after it has begun, so that no text takes more than linear time.
_SECRET = r"""
    (?P<block>-----BEGIN\ [A-Z ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?-----)
        [\s\S]*?(?:-----END\ [A-Z ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?-----|\Z)
  | (?P<url>(?<![a-z0-9])[a-z][a-z0-9+.-]{1,20}://)[^\s/@"'<>]{1,512}@
  | (?P<header>(?:authorization|cookie)\\?["']?[ \t]{0,8}[:=][ \t]{0,8}\\?["']?)(?!\[REDACTED\])
        (?:(?:basic|bearer|token|digest|negotiate|apikey)[ \t]{1,8})?[^\s"'\\;]+(?:;[ \t]?[^\s"'\\;]+)*
  | (?P<bearer>(?<![a-z0-9])bearer[ \t]{1,8})(?!\[REDACTED\])[a-z0-9._~+/=-]{8,}
  | (?P<key>
        (?:api[_-]?key | access[_-]?key(?:[_-]?id)? | (?:secret|private|signing|encryption|account)[_-]?key
           | secret | password | passwd | passphrase | passcode | token | credentials? | (?<=[_-])pwd
           | connection[_-]?string )
        \\?["']?[ \t]{0,8}(?:=>|:=|[:=])[ \t]{0,8} )
    (?!\\?["']?\[REDACTED\])
    (?: (?P<escaped>\\["'])[^"'\\\n]*(?:\\["'])?
      | (?P<double>")[^"\\\n]*(?:\\.[^"\\\n]*)*"?
      | (?P<single>')[^'\\\n]*(?:\\.[^'\\\n]*)*'?
      | [^\s,;&"'<>(){}\[\]]+ )
  | (?P<token>(?<![a-zA-Z0-9]))(?-i:
        sk-[A-Za-z0-9_-]{16,}
      | (?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}
      | gh[pousr]_[A-Za-z0-9]{20,}
      | github_pat_[A-Za-z0-9_]{20,}
      | glpat-[A-Za-z0-9_-]{20,}
      | (?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])
      | xox[abeprs]-[A-Za-z0-9-]{10,}
      | AIza[A-Za-z0-9_-]{35}
      | npm_[A-Za-z0-9]{30,}
      | hf_[A-Za-z0-9]{30,}
      | mtr_[A-Za-z0-9_-]{40,}
      | pypi-[A-Za-z0-9_-]{40,}
      | (?<![_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*
    )
"""


# Compiled when a text may first hold a secret: most commands never see one, and would take longer to start.
@functools.cache
def _secret() -> re.Pattern[str]:
    return re.compile(_SECRET, re.VERBOSE | re.IGNORECASE)


@functools.cache
def _hint() -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, _HINTS)), re.IGNORECASE)


def redact(text: str) -> str:
    """Return the text with `[REDACTED]` in place of each secret.

    >>> redact('api_key="abc" password: hunter2 TOKEN=xyz')
    'api_key="[REDACTED]" password: [REDACTED] TOKEN=[REDACTED]'
    >>> redact("git clone https://me:hunter2@example.com/x")
    'git clone https://[REDACTED]@example.com/x'
    """
    plain = text.casefold()
    for hint in _HINTS:  # without a generator, which would take longer than the search
        if hint in plain:
            return _secret().sub(_replace, text)
    return text


class Redactor:
    """Redacts a text that comes in pieces: the possible beginning of a secret waits for the next piece.

    >>> redactor = Redactor()
    >>> [redactor.feed(piece) for piece in ("All is we", "ll. The pass", "word: hun", "ter2\\nDone")]
    ['All is ', 'well. The ', '', 'password: [REDACTED]\\n']
    >>> redactor.rest()
    'Done'
    """

    def __init__(self) -> None:
        self._rest = ""

    def feed(self, piece: str) -> str:
        """Return the text that can be shown after this piece."""
        text = self._rest + piece
        cut = _safe_length(text) if len(text) <= _MAX_REST else len(text)
        self._rest = text[cut:]
        return redact(text[:cut])

    def rest(self) -> str:
        """Return the rest at the end of the text."""
        rest, self._rest = self._rest, ""
        return redact(rest)


def _safe_length(text: str) -> int:
    """Return the length of the beginning that no later piece can make part of a secret."""
    begun = [match.start() for match in re.finditer(r"-----BEGIN ", text, re.IGNORECASE)]
    if begun and not re.search(r"-----END [^\n]*\n", text[begun[-1] :], re.IGNORECASE):
        return text.rfind("\n", 0, begun[-1]) + 1
    # All other secrets begin with a word that has a hint in it, and end with the line.
    line = text.rfind("\n") + 1
    hint = _hint().search(text, line)
    end = hint.start() if hint else len(text)
    return max(line, text.rfind(" ", line, end) + 1, text.rfind("\t", line, end) + 1)


def redact_value(value: Any) -> Any:
    """Return a JSON value with all texts redacted; a value whose key names a secret is redacted whatever it is.

    >>> redact_value({"user": "me", "clientSecret": "abc", "urls": ["https://a:b@c/"]})
    {'user': 'me', 'clientSecret': '[REDACTED]', 'urls': ['https://[REDACTED]@c/']}
    """
    return _redact_at(value, 0)


def names_secret(name: str) -> bool:
    """Return whether a name says that its value is a secret.

    >>> names_secret("GITHUB_TOKEN"), names_secret("max_tokens")
    (True, False)
    """
    return name[-64:].lower().replace("_", "").replace("-", "").replace(" ", "").endswith(_SECRET_NAMES)


def _redact_at(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return redact(value)
    if not isinstance(value, Mapping | list | tuple | set | frozenset):
        return value
    if depth >= _MAX_DEPTH:
        return MARK
    if isinstance(value, Mapping):
        return {
            redact(key) if isinstance(key, str) else key: MARK
            if isinstance(key, str) and names_secret(key) and inner not in (None, "", True, False)
            else _redact_at(inner, depth + 1)
            for key, inner in value.items()
        }
    items = [_redact_at(item, depth + 1) for item in value]
    return tuple(items) if isinstance(value, tuple) else items


def _replace(found: re.Match[str]) -> str:
    kind = found.lastgroup
    if kind == "url":
        return f"{found['url']}{MARK}@"
    quote = found["escaped"] or found["double"] or found["single"] or ""
    before = found["key"] or found["header"] or found["bearer"] or ""
    return f"{before}{quote}{MARK}{quote}"
