"""What comes back by itself: scheduled, started at log-in, or let in by a key."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules import _senses as sense
from metier.scan.rules._judging import farthest, weighed, wording, words_among
from metier.scan.rules._reading import reading
from metier.scan.rules._secrecy import secrecy
from metier.scan.rules._words import word_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.finding import Severity
    from metier.scan.rule import Hit
    from metier.scan.rules._reading import SkillStatements
    from metier.scan.rules._statements import Statement
    from metier.scan.view import SkillView

_PLACE = re.compile(
    r"\bcrontab\s+(?:-|\S+\s*$|<)|\|\s*crontab\b|/etc/cron|/var/spool/cron|@reboot\b|launchagents|launchdaemons"
    r"|launchctl\s+(?:load|bootstrap)|systemctl\s+(?:--user\s+)?enable|/etc/systemd/system|\.config/systemd/user"
    r"|\.config/autostart|/etc/rc\.local|/etc/profile\.d|/etc/ld\.so\.preload|ld_preload="
    r"|schtasks(?:\.exe)?\s+/create|register-scheduledtask|new-scheduledtask|currentversion\\+run"
    r"|start menu\\+programs\\+startup|reg(?:\.exe)?\s+add\b[^\n]{0,80}\\+run\b"
    r"|new-itemproperty\b[^\n]{0,80}\\+run\b|sitecustomize|usercustomize|\.pth[\"'\s]|prompt_command="
    r"|core\.hookspath|init\.templatedir|\.git/hooks/|loginwindow\b|loginhook",
    re.IGNORECASE,
)
_RC = re.compile(
    r"(?:>>|tee\s+-a|add-content|open\([^\n]{0,60}|appendfile\w{0,4}\([^\n]{0,60}|write_text\("
    r"|cat\s*>>)\s*[\"']?[^\s\"'|;&]{0,60}(?:\.(?:bash|zsh)rc|\.(?:bash_)?profile|\.zprofile|\.zshenv|\.zlogin"
    r"|config\.fish|\.bash_login|\$profile)\b",
    re.IGNORECASE,
)
_KEYS = re.compile(r"authorized_keys", re.IGNORECASE)
_PUBLIC_KEY = re.compile(r"\b(?:ssh-(?:rsa|ed25519|dss)|ecdsa-sha2-\S{4,20})\s+AAAA[A-Za-z0-9+/]{4,}")
_WHOLE_KEY = re.compile(
    r"\bssh-ed25519\s+AAAAC3NzaC1lZDI1NTE5AAAAI(?P<ed>[A-Za-z0-9+/]{43})(?![\w+/])|\bssh-(?:rsa|dss)\s+AAAAB3NzaC1[\w+/]{200,}"
    r"|\becdsa-sha2-\S{4,20}\s+AAAAE2VjZHNhLXNoYTIt[\w+/]{80,}"
)
"""A key that opens something, and not one that shows where the reader's own goes."""
_LOADS = re.compile(
    r"\b(?:curl|wget|iwr|irm|invoke-webrequest|nc|ncat|base64|eval|python3?\s+-c|node\s+-e|bash\s+-[ci]|/dev/tcp"
    r"|requests\.get|urlopen|fetch)\b",
    re.IGNORECASE,
)
_HIDDEN_PATH = re.compile(
    r"/tmp/\.\w|/var/tmp/\.?\w|/dev/shm/|~/\.(?:cache|local/share|config)/\.\w|\$home/\.(?:cache|local/share)/\.\w"
    r"|appdata\\\w{2,12}\\temp|com\.apple\.[\w.]{3,40}\.plist|/library/\.\w",
    re.IGNORECASE,
)
_ALIAS = re.compile(
    r"\b(?:alias|function)\s+(?:sudo|ssh|git|npm|pip3?|curl|claude|codex|openclaw|ls|cd|su|gpg|docker|kubectl"
    r"|aws)\s*(?:=|\(\))",
    re.IGNORECASE,
)
_SAID = re.compile(
    r"\b(?:cron ?jobs?|crontab|launch ?agents?|launch ?daemons?|systemd|startup (?:item|script|folder|entry|task"
    r"|hook)s?|login items?|scheduled tasks?|background (?:service|process|daemon|job|agent)|autostart|shell profile"
    r"|bashrc|zshrc|run at (?:boot|login|startup)|authorized_keys|git hooks?|registry run)\b|计划任务|开机启动|定时任务"
    r"|автозапуск|планировщик|cron|inicio automático"
)
_NAMES = word_set(
    "cron cronjob crontab jobs job launch launchagent launchagents launchdaemon systemd startup login "
    "scheduled background autostart shell bashrc .bashrc zshrc .zshrc boot authorized_keys git registry inicio"
)
_MARKS = (
    "cron",
    "@reboot",
    "launch",
    "systemctl",
    "systemd",
    "autostart",
    "rc.local",
    "profile",
    "preload",
    "schtasks",
    "scheduledtask",
    "\\\\run",
    "startup",
    "sitecustomize",
    "usercustomize",
    ".pth",
    "prompt_command",
    "hookspath",
    "templatedir",
    "hooks/",
    "login",
    "rc",
    "alias",
    "function",
    "zshenv",
    "config.fish",
    "currentversion",
)
_STAYS = re.compile(
    r"\b(?:surviv\w{1,4}|even (?:if|after|when)|after (?:reboot|restart|uninstall|removal|the skill)"
    r"|reinstall\w{0,3} itself|re-?add\w{0,3}|restor\w{1,4} (?:it|itself)|keep(?:s)? (?:it )?(?:alive|running)"
    r"|uninstall\w{0,4}|cannot be (?:stopped|removed)|re-?creat\w{1,4})\b|重新安装|自启|пережи|восстан"
)


def _lasting(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for statements in read.files.values():
        for index, one in enumerate(statements):
            if one.kind == "code" or (one.kind == "prose" and "crontab" in one.low):
                if not read.sees(one, _MARKS):
                    continue
                if _PLACE.search(one.text) or _RC.search(one.text):
                    near = [
                        other
                        for other in statements[max(0, index - 4) : index + 12]
                        if abs(other.line - one.line) <= 16 and other.kind == one.kind
                    ]
                    yield one.hit(one.text, weighed(_gravity(one, near, read), one, None, read))
                elif _ALIAS.search(one.text) and (_LOADS.search(one.text) or _HIDDEN_PATH.search(one.text)):
                    yield one.hit(one.text, weighed("high", one, None, read))
            elif (
                not one.warned and (not one.words.isdisjoint(_NAMES) or not one.low.isascii()) and _SAID.search(one.low)
            ):
                severity = _said(statements, index, read)
                if severity is not None:
                    yield one.hit(one.text, severity)


def _gravity(one: Statement, near: list[Statement], read: SkillStatements) -> Severity:
    """How bad it is to be started again: by what is started."""
    text = " ".join(other.text for other in near)
    far_here = farthest((one,), read)
    far = farthest(near, read)
    loads = _LOADS.search(one.text) is not None
    piped = re.search(r"\|\s*(?:ba|z|da)?sh\b|\beval\b|base64\s+-|/dev/tcp", one.text, re.I) is not None
    if (
        (far_here >= 3 and loads)
        or (piped and far_here != 0 and (loads or far_here))
        or (piped and re.search(r"base64|/dev/tcp", one.text))
    ):
        return "high"
    if _HIDDEN_PATH.search(text) and (loads or far >= 2 or _LOADS.search(text)):
        return "high"
    if (far_here == 2 and loads) or (far >= 3 and _LOADS.search(text)):
        return "high"
    return "medium" if _HIDDEN_PATH.search(one.text) and "plist" not in one.low else "low"


def _said(statements: tuple[Statement, ...], index: int, read: SkillStatements) -> Severity | None:
    one = statements[index]
    if read.about_security and re.match(r"\s*(?:[-*•\d.]+\s+)?[\w /-]{2,40}:", one.text):
        return None
    near = [
        other
        for other in statements[max(0, index - 1) : index + 3]
        if abs(other.line - one.line) <= 6 and not other.warned
    ]
    low = wording(near, one)
    words = words_among(near)
    if not re.search(
        r"\bschedul(?:e|ed|ing)\b|\b(?:add|create|install|set up|register|write|configure|append|place|enable|put|drop"
        r"|load)\w{0,4}\b|添加|创建|安装|добав|созда|установ|añad|crea|instal",
        one.low,
    ):
        return None
    far = farthest(near, read)
    hides = 1 + (secrecy(low) is not None or sense.STEALTH.within(one.low, one.words))
    points = hides * sense.STEALTH.within(low, words) + 2 * (_STAYS.search(low) is not None) + (far >= 2) + (far >= 3)
    points += (
        re.search(r"\b(?:fetch|download|pull|curl|remote|latest|execut\w{1,4} whatever|commands? from)\b", low)
        is not None
    )
    return (
        "high"
        if points >= 3 or (points == 2 and (far >= 2 or sense.STEALTH.within(one.low, one.words)))
        else "medium"
        if points == 2
        else None
    )


_FETCHED_KEY = re.compile(r"\b(?:curl|wget)\b[^\n]{0,120}://[^\s$<{]{4,200}\.keys?\b")


def _let_in(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    if not read.has("authorized_keys"):
        return
    for statements in read.files.values():
        for index, one in enumerate(statements):
            if not _KEYS.search(one.text):
                continue
            near = " ".join(
                other.text for other in statements[max(0, index - 5) : index + 4] if abs(other.line - one.line) <= 8
            )
            writes = re.search(r">>|tee|append|add|write|open\(|echo|insert|cat\b", one.low)
            far = farthest((one,), read)
            severity: Severity = (
                "high" if writes and (_PUBLIC_KEY.search(near) or far >= 2 or _FETCHED_KEY.search(one.low)) else "low"
            )
            key = _WHOLE_KEY.search(near) if severity == "high" and one.kind == "code" else None
            if key is not None and not one.warned and (key["ed"] is None or len(set(key["ed"])) >= 16):
                # Whatever a page is about, whoever wrote it has the other half of the key.
                yield one.hit(one.text, "high")
            else:
                yield one.hit(one.text, weighed(severity, one, None, read))


RULES = (
    ScanRule(
        id="PERSISTENCE",
        ast="AST01",
        category="persistence_control",
        severity="high",
        message="It makes the system start something again and again, also when the skill is gone.",
        hint="Look at what is started. Remove the entry if you did not ask for it.",
        check=_lasting,
    ),
    ScanRule(
        id="LETS_A_KEY_IN",
        ast="AST01",
        category="persistence_control",
        severity="high",
        message="It lets the owner of a key log in to this machine.",
        hint="Do not run it. Remove the key from authorized_keys if it did.",
        check=_let_in,
    ),
)
