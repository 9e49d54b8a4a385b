"""Scripts that run what they fetched: tomorrow it can be something else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules._flows import carried
from metier.scan.rules._judging import doubt, farthest, weighed
from metier.scan.rules._programs import with_imports
from metier.scan.rules._reading import reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from metier.scan.finding import Severity
    from metier.scan.rule import Hit
    from metier.scan.rules._reading import SkillStatements
    from metier.scan.rules._statements import Statement
    from metier.scan.view import SkillView

_FETCHES = re.compile(
    r"requests\.(?:get|post|request)\(|urlopen\(|urlretrieve\(|httpx\.(?:get|post)\(|(?:session|client)\.(?:get|post)\("
    r"|(?<![.\w])fetch\(|axios(?:\.(?:get|post|request))?\(|https?(?:[\"']\))?\.(?:get|request)\(|\bgot\(|downloadstring\("
    r"|invoke-(?:restmethod|webrequest)|\birm\s|\biwr\s|=[\"']?\$\(\s*(?:curl|wget)\s|=[\"']?`(?:curl|wget)\s"
    r"|net::http",
    re.IGNORECASE,
)
_FETCH_MARKS = (
    "get(", "post(", "request(", "urlopen", "urlretrieve", "fetch(", "axios", "got(", "downloadstring", "invoke-",
    "irm ", "iwr ", "$(curl", "$( curl", "$(wget", "`curl", "`wget", "net::http",
)  # fmt: skip
_RUNS = re.compile(
    r"(?<![.\w])exec\(|(?<![.\w])eval\(|\bnew function\(|vm\.(?:runin\w{3,16}|script|compilefunction)\(|runpy\."
    r"|exec_module\("
    r"|module\._compile\(|\._compile\(|instance_eval|class_eval|\beval\s+[\"']?\$|(?:\biex|invoke-expression)\b"
    r"|loadstring\("
    r"|marshal\.loads\(|pickle\.loads?\(|joblib\.load\(|torch\.load\((?![^\n]{0,80}weights_only\s*=\s*true)"
    r"|dill\.loads?\(|types\.functiontype\(",
    re.IGNORECASE,
)
_RUN_MARKS = (
    "exec(", "eval(", "function(", "vm.", "runpy", "exec_module", "_compile(", "_eval", "eval ", "iex", "invoke-expr",
    "loadstring", "marshal", "pickle", "joblib", "torch.load", "dill.", "functiontype", "system(", "shell=true",
    "shell = true", "popen(", "execsync(", "child_process", "sh -c", "getoutput", "getstatus", "sh\"", "sh'", "cmd",
    "subprocess.", "spawn(", "run(", "call(",
)  # fmt: skip
_COMMANDS = re.compile(
    r"(?:os\.system|\bgetoutput|\bgetstatusoutput)\(\s*(?P<a>[\w.\[\]\"']{1,60})\s*\)"
    r"|subprocess\.\w{2,14}\(\s*(?P<b>[\w.\[\]\"']{1,60})\s*,[^\n]{0,100}shell\s*=\s*true"
    r"|os\.popen\(\s*(?P<c>[\w.\[\]\"']{1,60})\s*\)|(?:execsync|child_process\.exec"
    r"|(?<![.\w])exec)\(\s*(?P<d>[\w.\[\]\"']{1,60})\s*[,)]"
    r"|(?:ba|z)?sh\s+-c\s+[\"']?(?P<e>\$\{?\w{1,60})"
    r"|[\"'](?:/bin/)?(?:ba|z)?sh[\"']\s*,\s*\[?\s*[\"']-c[\"']\s*,\s*(?P<f>[\w.\[\]]{1,60})"
    r"|[\"']cmd(?:\.exe)?[\"']\s*,\s*\[?\s*[\"']/c[\"']\s*,\s*(?P<g>[\w.\[\]]{1,60})"
    r"|subprocess\.\w{2,14}\(\s*(?:shlex\.split\(\s*(?P<h>\w{1,40})|(?P<i>\w{1,40})\.split\(\))",
    re.IGNORECASE,
)
"""Commands that are, all of them, what a name holds."""


_WHOLE = re.compile(r"\w\(\s*(?:await\s+)?[\w.\[\]\"']{1,60}\s*[,)]|\w\s+[\"']?\$\{?\w{1,60}\}?[\"']?\s*$")
"""A call with a name as what it is given."""


def _run(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    if read.has(*_PICKLE_MARKS):
        yield from _thawed(read)
    if not read.has(*_FETCH_MARKS) or not read.has(*_RUN_MARKS):
        return
    yield from _at_once(read)
    for code in with_imports(read):
        fetches = {id(one) for one in code if read.sees(one, _FETCH_MARKS) and _FETCHES.search(one.text)}
        if not fetches:
            continue
        runs = {
            id(one)
            for one in code
            if read.sees(one, _RUN_MARKS) and (_RUNS.search(one.text) or _COMMANDS.search(one.text))
        }
        if not runs:
            continue
        far = farthest(code, read, none=-1)
        for _, call in carried(code, _among(fetches), _among(runs)):
            one = call[0]
            if id(one) not in runs and not _WHOLE.search(one.text):
                continue  # a function that runs things is given something that only has a part of it
            severity: Severity = "high" if far >= 1 else "medium" if one.script else "low"
            yield one.hit(one.text, weighed(severity, one, None, read))


def _at_once(read: SkillStatements) -> Iterator[Hit]:
    """A command that is a small program: it fetches, and runs what it got."""
    for one in read.told("code"):
        if one.script or not read.sees(one, _INLINE) or not read.sees(one, _FETCH_MARKS):
            continue
        ran = _RUNS.search(one.text) if _FETCHES.search(one.text) else None
        if ran is not None and farthest((one,), read) >= 1:
            yield one.hit(one.text, weighed("high", one, ran, read))


_INLINE = ("node -e", "node --eval", "python -c", "python3 -c", "perl -e", "ruby -e", "php -r", "bun -e", "deno eval")


_PICKLE_MARKS = ("pickle", "joblib", "torch.load", "dill.")
_THAWS = re.compile(
    r"\b(?:c?pickle|joblib|dill|cloudpickle)\.(?:loads?|unpickler)\(|torch\.load\((?![^\n]{0,120}weights_only\s*=\s*true)"
    r"|read_pickle\(",
    re.IGNORECASE,
)
_FROZEN = re.compile(r"\.(?:pkl|pickle|joblib|dill|pt|pth)\b", re.IGNORECASE)
"""Files that are programs: to load one runs whatever it says."""


def _thawed(read: SkillStatements) -> Iterator[Hit]:
    """A script that loads what it has from a stranger as if it were data."""
    for statements in read.files.values():
        code = [one for one in statements if one.script and read.sees(one, _PICKLE_MARKS)]
        loads = next((one for one in code if _THAWS.search(one.text)), None)
        if loads is None:
            continue
        for one in statements:
            frozen = any(_FROZEN.search(place.path) and doubt(place, read) >= 2 for place in one.places)
            if frozen and not one.warned:
                yield one.hit(one.text, weighed("high", one, None, read))


def _among(ids: set[int]) -> Callable[[Statement], bool]:
    return lambda one: id(one) in ids


RULES = (
    ScanRule(
        id="RUNS_WHAT_IT_FETCHED",
        ast="AST07",
        category="execution_code_delivery",
        severity="high",
        message="It fetches text from an address and runs it as code; nobody can review what that will be.",
        hint="Put the code into the skill, where it can be reviewed and pinned.",
        check=_run,
    ),
)
