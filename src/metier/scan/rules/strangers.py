"""Weak signs that add up around a place where anybody could be.

One sentence after the other can be harmless. That work leads to a host that nobody vouches for, that something is
fetched and started there, that data goes there, that nobody is to hear of it: together they are an attack, whatever
words it uses.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules import _places
from metier.scan.rules import _senses as sense
from metier.scan.rules._hosts import mailboxes
from metier.scan.rules._judging import doubt, nearby, related, weighed, wording, words_among
from metier.scan.rules._mercy import negated
from metier.scan.rules._reading import reading
from metier.scan.rules._secrecy import secrecy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.finding import Severity
    from metier.scan.rule import Hit
    from metier.scan.rules._hosts import HostAddress
    from metier.scan.rules._reading import SkillStatements
    from metier.scan.rules._statements import Statement
    from metier.scan.view import SkillView

_LISTED = re.compile(
    r"\s*[\"']?(?:homepage|url|repository|source|documentation|docs|author|license|website|icon|repo|support)\b"
)
_REFERENCES = re.compile(
    r"resource|reference|link|see also|further|learn more|credit|example|sample|demo|inspiration|source|bibliograph"
    r"|portfolio|author|about|related|参考|资源|链接"
)
_PROGRAM = re.compile(
    r"\b[\w.-]{2,60}\.(?:exe|msi|dmg|pkg|iso|lnk|scr|bat|vbs|hta|crx|xpi|apk|appimage)\b|\.(?:exe|msi|dmg|pkg)\b"
)
_GETS = re.compile(
    r"\b(?:download|install|installer|setup file|plug-?in|extension|add-?on|companion|helper app|client"
    r"|connector)\w{0,3}\b|下载|安装|скача|установ|descarg|instal|télécharg|herunterlad|baix|scaric"
    r"|indir|ダウンロード|다운로드"
    r"|pobierz"
)
_STARTS = re.compile(
    r"\b(?:run|start|launch|execute|open|unpack|extract|unzip|double-?click|apply|import|load)\b|运行|执行|打开"
    r"|解压|запуст"
    r"|откро|распак|ejecut|abr[ei]|exécut|lance[rz]|ouvr|ausführ|starte|öffne|esegu|apri|実行|開|실행|uruchom"
)
_PRESSES = re.compile(
    r"\b(?:must|required|mandatory|before you|before any|first|otherwise|won'?t work|will not work|cannot"
    r"|ask the user|tell the user|have the user|wait until|until they|only then)\b|必须|先|обязательн|сначала|debe"
    r"|primero"
)
_IMPORT = re.compile(r"\s*(?:from\s+[\w.]{2,100}\s+import\s|import\s+[\w.]{2,100}\s*(?:as\s|$))")
"""Modules have names with dots, like hosts."""
_STOOD_IN = re.compile(r"://example\.|/x{3,}$|[A-Z]{3,}[_-][A-Z]{3,}")
"""Addresses with something in them that the reader is to replace."""
_SAMPLE = re.compile(r"://(?:192\.0\.2|198\.51\.100|203\.0\.113)\.\d{1,3}\b|[/.]example-\w")
"""Addresses that documentation uses; in a sample of a program they stand for the reader's own."""
_CONTACT = re.compile(r"\b(?:reported to|report (?:\w{1,12} ){0,4}to|contact|reach out)\b")
_LEARN = re.compile(r"\b(?:learn more|see also|more info\w{0,8}|docs?)\b:?")
_SERVICES = _places.SINK | _places.TUNNEL | _places.PASTE | _places.SHARE
_WEIGHT = {2: 0.5, 3: 2.0, 4: 3.0}


def _doubtful(one: Statement, read: SkillStatements) -> tuple[int, HostAddress | None]:
    worst: tuple[int, HostAddress | None] = (0, None)
    for place in (*one.places, *(mailboxes(one.text) if one.kind != "frontmatter" else ())):
        value = doubt(place, read)
        if value > worst[0]:
            worst = (value, place)
    return worst


def _added_up(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for statements in read.files.values():
        told = [one for one in statements if not one.warned and not one.script]
        for index, one in enumerate(told):
            if (one.kind == "frontmatter" and _LISTED.match(one.low)) or one.kind == "row":
                continue
            if one.kind == "code" and _IMPORT.match(one.text):
                continue
            value, place = _doubtful(one, read)
            if value < 2 or place is None or negated(one.low[max(0, place.start - 140) : place.start]):
                continue
            near = nearby(told, index, 2, 2, 6)
            points = _points(one, near, place, value, read)
            if points >= 3:
                severity: Severity = "high" if points >= 4 else "medium"
                yield one.hit(one.text, weighed(severity, one, None, read), at=place.start)


def _points(one: Statement, near: list[Statement], place: HostAddress, value: int, read: SkillStatements) -> float:
    """How many signs stand around a place, weighed by how rarely honest skills show them there."""
    low = wording(near, one)
    words = words_among(near)
    points = _WEIGHT[value]
    # To fetch from a stranger with `curl` is no more than to look; from nobody it is a sign.
    sends = sense.SEND.within(low, words) if value >= 3 else sense.SEND.within(one.low, one.words - {"curl"})
    private = sense.SECRET.within(low, words) or sense.CONTEXT.within(one.low, one.words)
    signs = (
        (2.0, _PROGRAM.search(low)), (1.0, _GETS.search(low)), (1.0, _STARTS.search(one.low)),
        (0.5, _PRESSES.search(low)),
        (1.0, sends), (1.0, sends and private), (2.0, secrecy(low)), (0.5, sense.ALWAYS.within(one.low, one.words)),
        (0.5, sense.TAKE.within(one.low, one.words)), (1.0, sense.STEALTH.within(low, words)),
    )  # fmt: skip
    points += sum(weight for weight, sign in signs if sign)
    if place.kind not in ("free", "address", "paste") and related(place, read):
        points -= 1.0 if place.kind == "unknown" else 2.5
    if _REFERENCES.search(one.heading) and not sends:
        points -= 1.5
    if place.kind == "sink" and re.search(r"\btest", f"{one.heading} {low}") and not sense.SECRET.within(low, words):
        points -= 2.5
    if _STOOD_IN.search(place.url) or (_is_sample(one) and _SAMPLE.search(place.url)):
        points -= 2.0
    if "@" in place.url and _CONTACT.search(one.low) and not sense.SECRET.within(low, words):
        points -= 2.5
    if one.kind == "code" and one.language not in ("", "text", "shell") and _LEARN.search(one.low):
        points -= 2.0
    if place.path in ("", "/") and place.host in _SERVICES:
        points -= 2.5  # the service is named, and nobody's place at it
    if place.kind == "free" and place.path in ("", "/") and not sends and not _GETS.search(one.low):
        points -= 1.0
    return points


def _is_sample(one: Statement) -> bool:
    """Whether it is a line of a program that a page shows, and no command."""
    return one.kind == "code" and one.language in ("go", "typescript", "javascript", "rust", "java", "hcl", "terraform")


def _script(view: SkillView) -> Iterator[Hit]:
    """A script that talks to a place where anybody could be."""
    read = reading(view)
    for statements in read.files.values():
        used = ""
        for one in statements:
            if (
                one.script
                and one.places
                and not one.warned
                and (any(place.kind != "known" for place in one.places))
                and not re.match(r"\s*(?:#|//|\*|\"\"\"|<!--)", one.text)
            ):
                value, place = _doubtful(one, read)
                if not used and _is_test(one.path, statements, read):
                    break
                # Once for all of a file: for each of its lines, it would take a square of the time.
                used = used or " ".join(other.low for other in statements)[:200_000]
                if value >= 4 and place is not None and place.kind not in ("short", "share"):
                    yield one.hit(one.text, "high" if place.kind in ("address", "sink", "tunnel") else "medium")
                elif value >= 2 and _loads_code(used):
                    yield one.hit(one.text, "high")
                elif value == 3:
                    yield one.hit(one.text, _by_use(used))


_TEST = re.compile(r"(?:^|/)(?:test_[^/]+|[^/]+[._-](?:test|spec)\.\w{1,4}|__tests__/[^/]+)$")


def _is_test(path: str, statements: tuple[Statement, ...], read: SkillStatements) -> bool:
    """Whether a script only tries another one out: it is called so, and nothing in the skill has it run."""
    if not _TEST.search(path.lower()):
        return False
    name = path.lower().rsplit("/", 1)[-1]
    return read.low.count(name) == sum(one.low.count(name) for one in statements)


@lru_cache(maxsize=1)
def _loads_code(used: str) -> bool:
    return (
        re.search(r"importlib|(?<![.\w])(?:exec|eval)\(|runpy|__import__\(|new function\(|vm\.run", used) is not None
        and re.search(r"\.text\b|\.read\(\)|\.content\b", used) is not None
    )


@lru_cache(maxsize=1)
def _by_use(used: str) -> Severity:
    runs = re.search(
        r"(?<![.\w])(?:exec|eval)\(|shell=true|os\.system|child_process|\|\s*(?:ba)?sh\b|chmod|base64", used
    )
    takes = re.search(
        r"environ|process\.env|\.ssh|\.env\b|home\(\)|expanduser|homedir|gethostname|whoami|clipboard|getpass", used
    )
    return "medium" if runs or takes else "low"


RULES = (
    ScanRule(
        id="SIGNS_ADD_UP",
        ast="AST01",
        category="execution_code_delivery",
        severity="high",
        message="Several things that are harmless alone come together around a place where anybody could be.",
        hint="Find out who is behind the address, and whether the skill needs it, before you follow the step.",
        check=_added_up,
        sums_up="line",
    ),
    ScanRule(
        id="SCRIPT_CALLS_STRANGER",
        ast="AST01",
        category="data_exfiltration_disclosure",
        severity="medium",
        message="A script talks to a place where anybody could be.",
        hint="Read what the script sends there and what it does with the answer.",
        check=_script,
    ),
)
