"""Files by the dozen that leave: a repository, somebody's documents, read one after the other and sent to a stranger.

A service that works on files is given the one that the user names. Whoever walks through a folder and sends what lies
in it has to be known; that a host is called like the skill is enough for that only where the page does not say that
everything stays on the machine.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules._flows import carried
from metier.scan.rules._judging import farthest, nearby, weighed
from metier.scan.rules._programs import with_imports
from metier.scan.rules._reach import into_account, reach
from metier.scan.rules._reading import reading
from metier.scan.rules._sending import sends_off

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from metier.scan.finding import Severity
    from metier.scan.rule import Hit
    from metier.scan.rules._reading import SkillStatements
    from metier.scan.rules._statements import Statement
    from metier.scan.view import SkillView

_WALKS = re.compile(
    r"os\.walk\(|os\.scandir\(|os\.listdir\(|\.rglob\(|\.iterdir\(|\.glob\(\s*[\"'`][^\"'`\n]{0,40}\*|\bglob\.i?glob\("
    r"|\bglob(?:sync)?\(\s*[\"'`]|readdir(?:sync)?\(|git[\"',\s\[]{1,6}ls-files|dir\.glob\(|filepath\.walk|walkdir::"
    r"|\bfast-?glob\b",
    re.IGNORECASE,
)
_WALK_MARKS = ("walk", "scandir", "listdir", "glob", "iterdir", "readdir", "ls-files")
_READS = re.compile(
    r"readfile(?:sync)?\(|\.read_(?:text|bytes)\(|\bopen\(|\.open\(|createreadstream\(|\.add\(|\.write\(|file\.read\("
    r"|file_get_contents\(|base64\.b64encode\(",
    re.IGNORECASE,
)
_READ_MARKS = (
    "readfile",
    "read_text",
    "read_bytes",
    "open(",
    "createreadstream",
    ".add(",
    ".write(",
    "file.read",
    "file_get",
)
_STAYS = re.compile(
    r"(?:100 ?%|\b(?:fully|entirely|completely|purely|everything|works|all (?:analysis|processing|work|data|files)))"
    r"[^\n.]{0,30}\b(?:local(?:ly)?|offline|on (?:your|the|this|their) (?:own )?(?:machine|device|computer))\b"
    r"|\bnothing\b[^\n.]{0,30}\b(?:leaves|is sent|is uploaded)\b"
    r"|\b(?:never|not|no)\b[^\n.]{0,30}\b(?:leaves? (?:your|the|this) (?:own )?(?:machine|device|computer|laptop|disk)"
    r"|uploaded|sent (?:anywhere|out))"
    r"|完全?本地|本地(?:运行|处理)|离线(?:运行|处理)|(?:полностью|только) локально|(?:100 ?%|totalmente) local"
)
"""A promise that what is worked on stays where it is."""
_WHOLE = re.compile(
    r"\.read_bytes\(|\bopen\([^\n]{1,80}[\"']rb[\"']|\.open\(\s*[\"']rb|readfile(?:sync)?\(\s*[\w.\[\]]{1,60}\s*\)"
    r"|createreadstream\(",
    re.IGNORECASE,
)
"""A file that is taken as it is."""
_UPLOADS = re.compile(
    r"\bcurl\b[^\n]{0,300}(?:(?:-F\s*|--form\s+)[\"']?[\w.-]{1,30}=@|--data-binary\s+[\"']?@(?!-)|-T\s|--upload-file\s)"
)
_UNSEEN = re.compile(r"(?:>|&>)\s*/dev/null(?:\s+2>&1)?\s*&(?!&|>)|\bnohup\b[^\n]{0,300}&\s*\)?\s*$")
"""Nothing of it is shown, and nobody waits for it."""
_ONE_BY_ONE = re.compile(
    r"\bfor\s+\w{1,20}\s+in\b[^\n]{0,200};\s*do\b|\bxargs\b|\bfind\b[^\n]{0,200}-exec\b|\bwhile\s+read\b"
)
_MAX_LINES = 2_000
_HOME = re.compile(
    r"(?:~|\$home|\$\{home\}|%userprofile%)[/\\](?:documents|downloads|desktop|pictures)\b"
    r"|\b(?:documents|downloads|desktop) (?:and|or|folders?)\b",
    re.IGNORECASE,
)


def _sent_off(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    if read.has("@"):
        yield from _uploaded(read)
    if not read.has(*_WALK_MARKS, *_READ_MARKS):
        return
    stays: bool | None = None
    for code in with_imports(read):
        if code[0].script and not _is_bundle(code) and any(sends_off(one, read) for one in code):
            if stays is None:
                stays = _promised(read)
            yield from _in(code, stays, read)


def _promised(read: SkillStatements) -> bool:
    """Whether the page itself says that what is worked on stays where it is."""
    page = read.view.instructions
    said = read.files.get(page.path, ()) if page is not None else ()
    return any(one.kind != "code" and _STAYS.search(one.low) is not None for one in said)


def _is_bundle(code: Sequence[Statement]) -> bool:
    """Whether a script was put together by a program, so that one short name stands for many things."""
    return len(code) > _MAX_LINES or any(len(one.text) > _MAX_LINES for one in code)


def _in(code: Sequence[Statement], stays: bool, read: SkillStatements) -> Iterator[Hit]:
    def walks(one: Statement) -> bool:
        return read.sees(one, _WALK_MARKS) and _WALKS.search(one.text) is not None

    def reads(one: Statement) -> bool:
        return read.sees(one, _READ_MARKS) and _READS.search(one.text) is not None

    contents = {id(call[0]) for _, call in carried(code, walks, reads)}
    if stays:
        contents |= {id(one) for one in code if read.sees(one, _READ_MARKS) and _WHOLE.search(one.text)}
    around = reach(code, code, read)
    seen: set[int] = set()
    for _, call in carried(code, lambda one: id(one) in contents, lambda one: sends_off(one, read)):
        one = call[0]
        if id(one) in seen or not any(_GIVES.search(other.text) for other in call):
            continue
        seen.add(id(one))
        here = reach(call, code, read) if any(other.places for other in call) else around
        if here == 0 and into_account(call, code, read):
            here = 4
        if here >= 1:
            severity: Severity = "high" if here >= 2 or stays else "low"
            yield one.hit(one.text, weighed(severity, one, None, read))


_GIVES = re.compile(
    r"\bbody\b|\b(?:data|json|files|content)\s*=|\.(?:post|put|patch|send|sendall|write|end)\(|method\W{1,6}(?:post|put|patch)\b|upload"
    r"|\s-[dFT]\b|--(?:data|form)|@-|urlopen\(\s*\w{1,40}\s*[,)]",
    re.IGNORECASE,
)
"""A request that has something in it, and not only an address."""


def _uploaded(read: SkillStatements) -> Iterator[Hit]:
    """Commands that upload files one by one, or where nobody sees that they do."""
    for statements in read.files.values():
        for index, one in enumerate(statements):
            if "curl" not in one.low or one.warned or not _UPLOADS.search(one.text):
                continue
            far = farthest((one,), read, none=-1)
            if far < 0 and one.script:
                far = reach(statements, statements, read)
            unseen = one.script and _UNSEEN.search(one.text) is not None
            near = nearby(statements, index, 6, 4, 10)
            swept = _ONE_BY_ONE.search(one.text) is not None and any(_HOME.search(other.text) for other in near)
            if (unseen and far >= 1) or (swept and far >= 2):
                yield one.hit(one.text, weighed("high", one, None, read))


RULES = (
    ScanRule(
        id="FILES_SENT_OFF",
        ast="AST01",
        category="data_exfiltration_disclosure",
        severity="high",
        message="It goes through a folder and sends the files in it to a place that nobody vouches for.",
        hint="Do not run it where there are files that are not meant for whoever owns that place.",
        check=_sent_off,
    ),
)
