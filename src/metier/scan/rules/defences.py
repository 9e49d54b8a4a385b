"""The system's own defences, switched off or stepped over."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules import _senses as sense
from metier.scan.rules._judging import doubt, farthest, nearby, weighed, wording
from metier.scan.rules._reading import reading
from metier.scan.rules._words import word_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.finding import Severity
    from metier.scan.rule import Hit
    from metier.scan.rules._reading import SkillStatements
    from metier.scan.rules._statements import Statement
    from metier.scan.view import SkillView

_OFF = re.compile(
    r"spctl\s+--(?:master|global)-disable|csrutil\s+disable|set-mppreference\s[^\n]{0,80}-(?:disable\w+"
    r"|exclusion\w+)|add-mppreference\s[^\n]{0,60}-exclusion|sc(?:\.exe)?\s+(?:stop|config)\s+windefend"
    r"|netsh\s+advfirewall\s+set\s+\w+\s+state\s+off|setenforce\s+0|\bselinux=disabled"
    r"|launchctl\s+(?:unload|bootout)[^\n]{0,80}(?:xprotect|mrt|malwarebytes|crowdstrike|sentinel|jamf|falcon"
    r"|little ?snitch)|(?:pkill|killall|systemctl\s+stop)\s[^\n]{0,40}(?:falcon|sentinel|clamav|clamd|auditd|osquery"
    r"|wazuh|crowdstrike|defender|xprotect)"
    r"|history\s+-c\b|unset\s+histfile|histfile=/dev/null|histsize=0|>\s*~?/?\S{0,40}\.bash_history|wevtutil\s+cl\b"
    r"|clear-eventlog|rm\s+-rf?\s+/var/log|bcdedit\s[^\n]{0,60}(?:recoveryenabled\s+no|ignoreallfailures)"
    r"|vssadmin\s+delete\s+shadows|amsiutils|amsiinitfailed",
    re.IGNORECASE,
)
_MARK_OFF = re.compile(
    r"xattr\s+-\w*[cd]\w*\s[^\n]{0,120}|xattr\s+-cr?\b|unblock-file\b|com\.apple\.quarantine", re.IGNORECASE
)
_SUDO = re.compile(
    r"nopasswd\s*:\s*all|>>?\s*/etc/sudoers|/etc/sudoers\.d/|chmod\s+(?:-\w+\s+)?(?:[0-7]?777|u\+s|4755|\+s)\s+(?:/"
    r"|/bin/\S*|/usr/\S*|/etc\S*)(?:\s|$)|usermod\s+-aG\s+(?:sudo|wheel|docker)\s"
    r"|chown\s+root\S*\s[^\n]{0,60}chmod\s+[ug]?\+s|net\s+localgroup\s+administrators\s[^\n]{0,40}/add",
    re.IGNORECASE,
)
_SAID = re.compile(
    r"\b(?:disable|turn off|switch off|deactivate|pause|stop|bypass|whitelist|exclude|add an? (?:exclusion"
    r"|exception))\w{0,3}\b[^.,/\n]{0,40}\b(?:anti-?virus|defender|gatekeeper|firewall|sip\b|system integrity"
    r"|smart ?screen|real-?time protection|edr|security software|xprotect|quarantine|selinux|apparmor|uac)\b"
    r"|\b(?:anti-?virus|defender|gatekeeper|security software|smart ?screen|browser"
    r"|chrome)\b[^\n]{0,60}\b(?:false positive|may (?:flag|warn|block|complain)|will (?:flag|warn|block)"
    r"|ignore (?:the|any|this) warning|click (?:\"|')?(?:more info|run anyway|keep anyway|allow))\b"
    r"|\b(?:run anyway|keep anyway|open anyway)\b|right-click[^\n]{0,40}\bopen\b[^\n]{0,60}\b(?:warning"
    r"|unidentified|bypass|gatekeeper)|关闭(?:杀毒|防火墙|安全软件|防护)|отключ\w{0,4} (?:антивирус|защитник"
    r"|брандмауэр)"
    r"|desactiva\w{0,2} (?:el )?(?:antivirus|firewall|defender)"
)
_GUARDS = word_set(
    "antivirus anti-virus virus defender gatekeeper firewall sip system smartscreen smart screen "
    "real-time realtime edr security xprotect quarantine selinux apparmor uac anyway browser chrome right-click"
)
_MARKS = (
    "spctl",
    "csrutil",
    "mppreference",
    "windefend",
    "advfirewall",
    "setenforce",
    "selinux",
    "launchctl",
    "pkill",
    "killall",
    "systemctl",
    "hist",
    "wevtutil",
    "eventlog",
    "/var/log",
    "bcdedit",
    "vssadmin",
    "amsi",
    "falcon",
    "sentinel",
)
_DOWNLOADS = re.compile(r"\bcurl\b|\bwget\b|download|\.dmg\b|\.pkg\b|\.exe\b|\.zip\b|releases/|下载|скача|descarg")


def _off(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for statements in read.files.values():
        for index, one in enumerate(statements):
            if one.kind in ("code", "prose") and read.sees(one, _MARKS):
                found = _OFF.search(one.text)
                if found is not None and one.kind == "prose":
                    fetched = _FETCHED_HERE.search(wording(nearby(statements, index, 4, 3, 10))) is not None
                    bids = fetched and not read.about_security
                    yield one.hit(one.text, weighed("high" if bids else "low", one, found, read))
                    continue
                if found is not None:
                    server = re.search(r"setenforce|history|/var/log", found[0], re.I) and not one.script
                    yield one.hit(found[0], weighed("low" if server else "high", one, found, read))
                    continue
            if (
                ("xattr" in one.low or "unblock-file" in one.low or "quarantine" in one.low)
                and (marked := _MARK_OFF.search(one.text)) is not None
                and ("-" in marked[0] or "unblock" in marked[0].lower())
            ):
                near = nearby(statements, index, 6, 3, 14)
                far = farthest(near, read)
                fetched = any(_DOWNLOADS.search(other.low) for other in near)
                told = re.search(r"xattr\s+-\w*[cd]|unblock", marked[0], re.IGNORECASE) is not None
                severity: Severity = (
                    "high"
                    if told and fetched and (far >= 2 or _is_the_authors(near, read))
                    else "medium"
                    if told and fetched and (one.script or far == 1)
                    else "low"
                )
                yield one.hit(marked[0], weighed(severity, one, marked, read))
            elif (
                one.kind in ("prose", "comment", "frontmatter")
                and (not one.words.isdisjoint(_GUARDS) or not one.low.isascii())
                and (said := _SAID.search(one.low)) is not None
            ):
                near = nearby(statements, index, 4, 3, 10)
                low = wording(near)
                fetched = bool(_DOWNLOADS.search(low))
                first = re.search(r"\b(?:before|first|temporarily|must|required|need to)\b|之前|перед|antes", one.low)
                severity = (
                    "high"
                    if (fetched and (first or "false positive" in low or "anyway" in low))
                    or (fetched and farthest(near, read) >= 2)
                    else "medium"
                    if fetched
                    else "low"
                )
                yield one.hit(one.text, weighed(severity, one, said, read) if not read.about_security else "low")


_FETCHED_HERE = re.compile(r"\bdownload|\bcurl\b|\bwget\b|\.dmg\b|\.pkg\b|下载|скача|descarg")


def _is_the_authors(near: list[Statement], read: SkillStatements) -> bool:
    """Whether an image of a disk or an installer comes from a host that only the skill's author vouches for."""
    return any(
        place.kind in ("unknown", "free") and doubt(place, read) >= 1 and _INSTALLER.search(place.path)
        for one in near
        for place in one.places
    )


_INSTALLER = re.compile(r"\.(?:dmg|pkg|app\.zip|zip|command|mpkg)(?:[?#.,;]|$)", re.IGNORECASE)


def _raised(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for one in read.told("code"):
        found = _SUDO.search(one.text) if read.sees(one, _SUDO_MARKS) else None
        if found is not None:
            open_door = re.search(r"nopasswd\s*:\s*all|sudoers|\+s|administrators", found[0], re.I)
            all_of_it = re.search(r"all\s*=\s*\(all(?::all)?\)\s*nopasswd\s*:\s*all", one.low)
            severity: Severity = (
                "high" if all_of_it and one.script else "medium" if open_door and (all_of_it or one.script) else "low"
            )
            yield one.hit(found[0], weighed(severity, one, found, read))
    for one in read.told("prose", "comment", "frontmatter"):
        if one.warned or one.words.isdisjoint({"sudo", "root", "administrator", "admin"}):
            continue
        found = re.search(
            r"\b(?:always |must |should )?(?:run|execute|launch|start|use)\w{0,3}\b[^\n]{0,40}\b(?:as (?:root"
            r"|administrator|admin)|with (?:sudo|root|admin\w{0,10}) (?:privileges|rights|access|permissions)?)",
            one.low,
        )
        words = one.words
        if found is not None and (
            sense.STEALTH.within(one.low, words)
            or re.search(
                r"\b(?:every|all|any) (?:\w{1,10} ){0,2}commands?\b|enter (?:your"
                r"|the user'?s?) (?:\w{1,10} )?password|ask (?:the user )?for (?:their|the"
                r"|your) (?:\w{1,10} )?password",
                one.low,
            )
        ):
            yield one.hit(one.text, weighed("medium", one, found, read))


_SUDO_MARKS = ("nopasswd", "sudoers", "chmod", "usermod", "chown", "localgroup")


RULES = (
    ScanRule(
        id="DEFENCES_OFF",
        ast="AST01",
        category="defense_evasion_obfuscation",
        severity="high",
        message="It has the system's protection switched off or its warnings ignored.",
        hint="Leave the protection on. Honest software works with it.",
        check=_off,
    ),
    ScanRule(
        id="RIGHTS_RAISED",
        ast="AST03",
        category="privilege_tool_authority_abuse",
        severity="medium",
        message="It takes more rights on the machine than a skill needs.",
        hint="Do not run it as root. Ask for the one thing that needs it.",
        check=_raised,
    ),
)
