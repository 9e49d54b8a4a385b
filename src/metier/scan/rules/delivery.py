"""Code that comes from elsewhere and is run at once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules._judging import doubt, weighed
from metier.scan.rules._kinds import odd
from metier.scan.rules._places import MAKERS
from metier.scan.rules._reading import reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.finding import Severity
    from metier.scan.rule import Hit
    from metier.scan.rules._hosts import HostAddress
    from metier.scan.rules._reading import SkillStatements
    from metier.scan.rules._statements import Statement
    from metier.scan.view import SkillView

_GET = r"(?:curl(?:\.exe)?|wget|aria2c|iwr|irm|invoke-webrequest|invoke-restmethod|lwp-download)\b"
_SHELL = (
    r"(?:sudo\s+(?:-\S{1,20}\s+){0,3})?(?:env\s+\S{1,60}\s+)?(?:/(?:usr/)?(?:local/)?bin/)?"
    r"(?:(?:ba|z|da|k|fi|a|tc|c)?sh\b(?![^\s\"'`);&|>.,:!?])|(?:ba|z)?sh\s+-|(?:python[23]?|node|perl|ruby|php"
    r"|osascript|pwsh|powershell)"
    r"(?=\s*(?:$|-\s*$|-\s|[\"'`);&]))|iex\b|invoke-expression\b)"
)
_PIPE = re.compile(rf"\b{_GET}[^\n|]{{0,400}}(?:\|[^\n|]{{0,100}}){{0,3}}\|\s*{_SHELL}", re.IGNORECASE)
_PIPED = re.compile(
    rf"\b(?:ba|z|da)?sh\s+-[a-z]*c\s+[\"'`]?\s*(?:\$\(|`)\s*{_GET}"
    rf"|(?:\b(?:ba|z|da)?sh|\bsource|\beval|\bpython3?|(?:^|\s)\.)\s+(?:-\S{{1,10}}\s+){{0,2}}<\(\s*{_GET}"
    rf"|\beval\s+[\"']?(?:\$\(|`)\s*{_GET}"
    r"|\b(?:iex|invoke-expression)\b[^\n]{0,120}(?:\biwr\b|\birm\b|invoke-webrequest|invoke-restmethod"
    r"|downloadstring|net\.webclient)"
    r"|downloadstring\([^\n]{0,300}\|\s*(?:iex|invoke-expression)"
    r"|\bmshta(?:\.exe)?\s+[\"']?https?:|\bregsvr32\b[^\n]{0,80}https?:|\brundll32\b[^\n]{0,120}https?:"
    r"|\bmsiexec\b[^\n]{0,60}https?:|\bcertutil(?:\.exe)?\b[^\n]{0,60}-urlcache|\bbitsadmin\b[^\n]{0,80}/transfer"
    r"|\b(?:exec|eval)\(\s*(?:compile\(\s*)?(?:requests\.get|urllib\.request\.urlopen|urlopen|httpx\.get"
    r"|await\s+\(?\s*(?:await\s+)?fetch)\b"
    r"|new\s+function\(\s*(?:await\s+)?[^\n]{0,60}\bfetch\(|\bdo\s+shell\s+script\s+[\"'][^\n]{0,40}\bcurl\b"
    r"|\b(?:os\.system|subprocess\.\w{2,12}|execsync|exec|spawn|system"
    r"|popen)\(\s*\[?[\"'fr]{0,2}[\"'][^\n]{0,20}\bcurl\b[^\n]{0,300}\|\s*(?:ba|z)?sh\b",
    re.IGNORECASE,
)
_SAVED = re.compile(
    rf"\b{_GET}[^\n]{{0,300}}\s(?:-\w{{0,5}}[oO]|--output(?:-document)?|-outfile|>)\s*[\"']?(?P<file>[^\s\"';&"
    rf"|]{{1,120}})",
    re.IGNORECASE,
)
_FETCHED = re.compile(rf"\b(?:{_GET}|urlretrieve\(|requests\.get\(|urlopen\()", re.IGNORECASE)
_RUN = re.compile(
    r"\bchmod\s+(?:\S{1,10}\s+)?(?:\+x|[0-7]{0,1}7[0-7]{2}|u\+x|a\+x)|(?:^|[;&|]\s*)(?:sudo\s+)?(?:ba|z)?sh\s+(?:\./"
    r"|/tmp/|\$|~)"
    r"|(?:^|[;&|]\s*)(?:sudo\s+)?(?:nohup\s+)?(?:\./|/tmp/|/var/tmp/)[\w.-]+|\bstart-process\b"
    r"|\bopen\s+(?:-a\s+\S+\s+)?\S{1,80}\.(?:dmg|pkg|app|command)"
    r"|\binstaller\s+-pkg|\bmsiexec\b|\bstart\s+\S{1,60}\.exe|os\.chmod\([^\n]{0,80}0o?7"
    r"|subprocess\.\w{2,12}\(\s*\[\s*[\"'](?:/tmp|\./)",
    re.IGNORECASE,
)
_MARKS_SAVED = ("curl", "wget", "aria2c", "iwr", "irm ", "invoke-", "urlretrieve", "requests.get", "urlopen", "lwp-")
_MARKS = (
    "curl", "wget", "aria2c", "iwr", "irm ", "invoke-", "iex", "mshta", "certutil", "msiexec", "bitsadmin", "exec(",
    "eval(", "new function", "downloadstring", "rundll32", "regsvr32", "lwp-",
)  # fmt: skip
_SEVERITY: tuple[Severity, ...] = ("info", "low", "medium", "high", "critical")


def _piped(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for one in read.told():
        found = _piping(one) if read.sees(one, _MARKS) else None
        if found is not None:
            yield one.hit(found[0], weighed(_by_host(one, read), one, found, read))


def _piping(one: Statement) -> re.Match[str] | None:
    return ("|" in one.text and _PIPE.search(one.text)) or _PIPED.search(one.text)


def _by_host(one: Statement, read: SkillStatements) -> Severity:
    """How bad it is to run what comes from there; an address that is not told could be any."""
    found = list(one.places)
    if not found:
        return (
            "low" if re.search(r"\b(?:curl|wget|irm|iwr)\s*\||[$<{]|\.\.\.|\bURL\b|example\.", one.text) else "medium"
        )
    worst = max(found, key=lambda address: doubt(address, read))
    value = _strangeness(worst, read)
    if value == 3 and _is_of_the_vendor(worst, read):
        return "medium"
    if value == 1 and worst.kind == "known" and "git" in worst.host and not _is_of_a_maker(worst):
        return "medium"
    return _SEVERITY[value]


def _strangeness(address: HostAddress, read: SkillStatements) -> int:
    """The doubt about an address that code comes from: to be called like the skill is worth nothing there."""
    return max(3, doubt(address, read)) if address.kind in ("unknown", "free") else doubt(address, read)


def _is_of_the_vendor(address: HostAddress, read: SkillStatements) -> bool:
    """Whether an installer comes from the host that has the skill's name for its own, with nothing added to it."""
    name, _, ending = address.host.rpartition(".")
    if address.kind != "unknown" or not address.secure or odd(address.host) or not name.isalpha() or len(name) < 4:
        return False
    return name in read.words or f"{name}{ending}" in read.named


def _is_of_a_maker(address: HostAddress) -> bool:
    """Whether a project at a forge belongs to an account that people know."""
    return address.path.lower().lstrip("/").partition("/")[0] in MAKERS


def _saved_and_run(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    if not read.has("chmod", "/tmp/", "./", "start-process", "installer -pkg", "msiexec", "open ", ".exe"):
        return
    for statements in read.files.values():
        for index, one in enumerate(statements):
            if not read.sees(one, _MARKS_SAVED) or not _FETCHED.search(one.text):
                continue
            saved = _SAVED.search(one.text)
            after = [other for other in statements[index : index + 6] if other.line - one.line <= 10]
            runs = next((other for other in after if _RUN.search(other.text)), None)
            kept = (
                saved is not None
                or re.search(r"\s-\w*O\b|urlretrieve|wget|write_bytes|\.write\(", one.text) is not None
            )
            if runs is None or not kept:
                continue
            places = list(one.places)
            worst = max((_strangeness(address, read) for address in places), default=1)
            severity: Severity = ("info", "info", "low", "high", "critical")[worst]
            yield one.hit(one.text, weighed(severity, one, None, read))


RULES = (
    ScanRule(
        id="REMOTE_PIPE_TO_SHELL",
        ast="AST01",
        category="execution_code_delivery",
        severity="high",
        message="It runs code straight from an address, unseen and different whenever the host wants it.",
        hint="Do not run it. Get the tool from its own vendor or a package manager, with a version and a checksum.",
        check=_piped,
    ),
    ScanRule(
        id="DOWNLOAD_AND_RUN",
        ast="AST01",
        category="execution_code_delivery",
        severity="high",
        message="It downloads a file and runs it.",
        hint="Do not run it. Find out who offers the file, and check it against a published checksum.",
        check=_saved_and_run,
    ),
)
