"""Findings that somebody takes responsibility for: which, why, who says so, and until when.

```yaml
- rule: REMOTE_PIPE_TO_SHELL
  path: references/install.md      # as `*.md` or `references/*`, too; all files when left out
  reason: The installer of our own toolchain, from our own host.
  by: dana
  expires: 2027-03-31
```

A `fingerprint` narrows it to one place and a `digest` to one content of a skill.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass
from metier._regex_cache import kept_regex
from metier.errors import PolicyInvalid
from metier.skill import shown
from metier.skill.yaml_block import BlockError, parse_yaml

if TYPE_CHECKING:
    from metier.scan.finding import Finding

_FIELDS = ("rule", "path", "fingerprint", "digest", "reason", "by", "expires")
_NEEDED = ("rule", "reason", "by", "expires")
_MOST = 500
_RULE = kept_regex(r"[A-Za-z0-9_./:-]{1,200}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression:
    """Findings that do not count, for a reason and for a time.

    >>> one = read_suppressions("[{rule: X, reason: ours, by: dana, expires: 2020-01-31}]")[0]
    >>> one.is_expired(datetime(2020, 1, 31, 23, tzinfo=UTC)), one.is_expired(datetime(2020, 2, 1, tzinfo=UTC))
    (False, True)
    """

    rule: str
    path: str = "*"
    """A pattern for paths in which `*` stands for anything, slashes included."""
    fingerprint: str = ""
    digest: str = ""
    reason: str
    by: str
    expires: datetime
    """From then on it does not count."""

    @property
    def said(self) -> str:
        """Who suppressed it, why and until when, in one line."""
        last = (self.expires - timedelta(microseconds=1)).date()
        return f"{shown(self.reason, 200)} ({shown(self.by, 80)}, until {last})"

    def is_expired(self, now: datetime) -> bool:
        """Whether its time is over."""
        return now >= self.expires

    def covers(self, found: Finding, digest: str) -> bool:
        """Whether it is about a finding in the content of this digest; its time is another matter."""
        return (
            self.rule == found.rule
            and (not self.fingerprint or self.fingerprint == found.fingerprint)
            and (not self.digest or self.digest == digest)
            and fnmatchcase(found.path, self.path)
        )


def read_suppressions(text: str, *, where: str = "suppressions") -> tuple[Suppression, ...]:
    """The suppressions of a YAML text; raises `PolicyInvalid`, with the line, for the first that cannot count."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    try:
        value = parse_yaml(text).value
    except BlockError as error:
        raise _invalid(where, error.line + 1, f"is no YAML: {error.problem}", "Mend the line.") from None
    if isinstance(value, dict) and list(value) == ["suppressions"]:
        value = value["suppressions"]
    if value in (None, ""):
        return ()
    if not isinstance(value, list):
        raise _invalid(where, 1, "is not a list of suppressions", "Begin each with `- rule:`.")
    import yaml

    # The text has been read once, within bounds; now for the line on which each item begins.
    node: Any = yaml.compose(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))
    items = node.value if node.id == "sequence" else node.value[0][1].value
    lines = [item.start_mark.line + 1 for item in items]
    if len(value) > _MOST:
        raise _invalid(where, lines[_MOST], f"has more than {_MOST} suppressions", "Mend what they hide.")
    return tuple(_suppression(item, where, line) for item, line in zip(value, lines, strict=True))


def _suppression(item: Any, where: str, line: int) -> Suppression:
    if not isinstance(item, dict):
        raise _invalid(where, line, "has something that is no suppression", "Write `rule:`, `reason:` and so on.")
    for key, value in item.items():
        if key not in _FIELDS:
            hint = f"A suppression has {', '.join(_FIELDS)}."
            raise _invalid(where, line, f"has a suppression with an unknown `{shown(key, 40)}`", hint)
        if not isinstance(value, str):
            raise _invalid(where, line, f"has a suppression whose `{key}` is no text", "Write it on one line.")
    given = {key: value.strip() for key, value in item.items() if value.strip()}
    for key in _NEEDED:
        if key not in given:
            hint = f"Add `{key}:`. Whoever reads it must know what it is about, why, who answers for it and how long."
            raise _invalid(where, line, f"has a suppression without `{key}`", hint)
    if not _RULE.fullmatch(given["rule"]):
        raise _invalid(where, line, "has a suppression of no rule", "Write the id of a rule as findings show it.")
    return Suppression(**{**given, "expires": _moment(given["expires"], where, line)})


def _moment(text: str, where: str, line: int) -> datetime:
    """The moment from which on a suppression does not count: the end of a day, or a time of its own."""
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
            return datetime.combine(date.fromisoformat(text), time(), UTC) + timedelta(days=1)
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        said = f"has a suppression whose `expires` is no date: {shown(text, 40)}"
        raise _invalid(where, line, said, "Write it as 2027-03-31.") from None


def _invalid(where: str, line: int, what: str, hint: str) -> PolicyInvalid:
    return PolicyInvalid(f"{where}, line {line}: the file {what}.", hint=hint, path=where, line=line)
