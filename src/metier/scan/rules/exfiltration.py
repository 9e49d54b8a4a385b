"""Commands and scripts that take secrets and send them off."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules._judging import doubt, weighed
from metier.scan.rules._mercy import in_quotes
from metier.scan.rules._names import setting_in
from metier.scan.rules._prizes import ENVIRONMENT, ENVIRONMENT_MARKS, JOINED, STORE, STORE_MARKS
from metier.scan.rules._programs import code_together
from metier.scan.rules._reach import reach
from metier.scan.rules._reading import reading
from metier.scan.rules._sending import sends_off

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from metier.scan.finding import Severity
    from metier.scan.rule import Hit
    from metier.scan.rules._reading import SkillStatements
    from metier.scan.rules._statements import Statement
    from metier.scan.view import SkillView

_KEY_FILE = re.compile(
    r"(?:cat|open\(|read(?:file(?:sync)?|_text|_bytes)?\(|path\(|source|<|@|cp|tar\b[^\n]{0,80}|zip\b[^\n]{0,80}"
    r"|base64)\s*[\"'(]?[^\s\"']{0,60}\.env\b|dotenv|load_dotenv|os\.getenv\(|os\.environ(?:\.get)?[\[(]"
    r"|process\.env\.\w*(?:key|token|secret|pass)|\$\{?\w*(?:api_?key|token|secret|password|private_?key)\w*\}?"
    r"|private_?key|seed_?phrase|mnemonic",
    re.IGNORECASE,
)

_WALLET_KEY = re.compile(
    r"private_?key|secret_?key|seed_?phrase|\bmnemonic|fromsecretkey|window\.(?:solana|ethereum)"
    r"|localstorage\.getitem|document\.cookie|wallet\.(?:export|privatekey|mnemonic)",
    re.IGNORECASE,
)

_MACHINE = re.compile(
    r"socket\.gethostname|platform\.(?:node|uname)|getpass\.getuser|os\.hostname\(|os\.userinfo\(|\$\(\s*(?:whoami"
    r"|hostname|uname|id|ifconfig|ip a)\b|`(?:whoami|hostname|uname -a|id)`|\$\{?hostname\b|%computername%"
    r"|\$env:computername|ifconfig\.me|api\.ipify|psutil\.",
    re.IGNORECASE,
)

_FILES = re.compile(
    r"os\.walk\(|\.rglob\(|glob\.glob\(|\bfind\s+(?:~|\$home|/home|/users|/)\S*\s|path\.home\(\)|expanduser\("
    r"|homedir\(\)|shutil\.make_archive|zipfile\.zipfile|tarfile\.open|\btar\s+-?c\w*\s|clipboard|imagegrab"
    r"|screencapture",
    re.IGNORECASE,
)

_FILE_UP = re.compile(r"@(?:~|/|\$|\.)[^\s\"']*|-T\s*(?:~|/|\$)\S|--upload-file\s")


def is_store(one: Statement) -> bool:
    """Whether it names a place where keys or passwords lie, also in parts that are put together."""
    if STORE.search(one.text) is not None:
        return True
    joined = JOINED.sub("/", one.text) if len(one.text) < 1_000 else one.text
    return joined != one.text and STORE.search(joined) is not None


_BUNDLE = 2_000
"""Lines of a script beyond which it is a bundle of many, where everything stands somewhere."""


def _taken(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for code in code_together(read):
        sinks = {id(one) for one in code if sends_off(one, read)}
        if not sinks:
            continue
        value = reach(code, code, read)
        for index, one in enumerate(code):
            severity = _one(one, id(one) in sinks, value, read)
            if severity == "high" and id(one) not in sinks and _passed_over(code[max(0, index - 6) : index + 1]):
                severity = "medium"
            if severity == "high" and ".env" in one.low and id(one) not in sinks and _looks_up_its_own(code):
                severity = "medium"  # what becomes of it is followed by a rule of its own
            if severity == "high" and len(code) > _BUNDLE and not one.places and not _is_of_worth(one):
                severity = "low"
            if severity is not None:
                yield one.hit(one.text, weighed(severity, one, None, read))


def _looks_up_its_own(code: Sequence[Statement]) -> bool:
    """Whether settings are looked up in a file by names, each of which is that of a host that is called."""
    keys = {key for one in code if (key := setting_in(one.text))}
    hosts = " ".join(place.host for one in code for place in one.places)
    return bool(keys) and all(len(brand := key.split("_")[0]) >= 4 and brand.lower() in hosts for key in keys)


def _is_of_worth(one: Statement) -> bool:
    """Whether it takes what only thieves want, so that it does not matter how far away it is sent."""
    return STORE.search(one.text) is not None or ENVIRONMENT.search(one.text) is not None


def _passed_over(code: Sequence[Statement]) -> bool:
    """Whether a list of names, the last line of which is given, says what to leave alone."""
    return in_quotes(code[-1].text.strip()) and any(_LEFT_ALONE.search(one.text) for one in code)


_LEFT_ALONE = re.compile(
    r"\b\w{0,20}(?:skip|exclude|ignore|deny|forbid|sensitive)\w{0,20}\b[^\n=]{0,20}=\s*[\[({]", re.IGNORECASE
)


def _one(one: Statement, sends: bool, value: int, read: SkillStatements) -> Severity | None:
    store = read.sees(one, STORE_MARKS) and read.holds(is_store, one)
    whole = not store and read.sees(one, ENVIRONMENT_MARKS) and ENVIRONMENT.search(one.text) is not None
    if "tojson" in one.low and re.search(r"tojson\(\s*secrets\s*\)", one.low):
        return "high"
    if sends:
        here = max((doubt(address, read) for address in one.places), default=value)
        if (store or whole) and here < 0 and not one.script:
            return "low"
        if (store or whole) and here != 0:
            return "critical" if here >= 3 else "high"
        if here >= 3 and (_FILE_UP.search(one.text) or _MACHINE.search(one.text)):
            return "high"
        if (
            here >= 3
            and _KEY_FILE.search(one.text)
            and not (here == 3 and re.search(r"authorization|x-api-key", one.low))
        ):
            return "high" if here == 4 else "medium"
    if store and re.search(r"(?:gh|gcloud|aws)\s+(?:auth|configure)\b", one.text, re.IGNORECASE) and not one.script:
        return "low"
    if store:
        return "high" if value >= 2 else "medium" if value < 0 and one.script else "low"
    if whole:
        return "high" if value >= 3 else "medium" if value == 2 or (value < 0 and one.script) else "low"
    if value >= 2 and one.script and _WALLET_KEY.search(one.text):
        return "high" if value >= 3 else "medium"
    if value >= 4 and (_KEY_FILE.search(one.text) or _MACHINE.search(one.text) or _FILES.search(one.text)):
        return "high" if one.script or _MACHINE.search(one.text) else "medium"
    if (
        value == 3
        and one.script
        and (_MACHINE.search(one.text) or _FILES.search(one.text) or _KEY_FILE.search(one.text))
    ):
        return "medium"
    return None


RULES = (
    ScanRule(
        id="CRED_PATH_AND_NETWORK",
        ast="AST01",
        category="credential_access",
        severity="high",
        message="It reads where keys, passwords or the whole environment are kept, and talks to the network.",
        hint="Do not run it. Find out what of this it sends, and rotate the secrets if it ran.",
        check=_taken,
    ),
)
