"""Files that run without being called: by a test runner, a package manager, an editor, a shell or an agent."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from metier.scan.rule import Hit, ScanRule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from metier.scan.finding import Severity
    from metier.scan.view import SkillView, ViewFile


class _When(NamedTuple):
    """A file that something runs by itself: what does, how much that weighs, and where in the file it shows."""

    name: re.Pattern[str]
    who: str
    severity: Severity
    shows: Callable[[ViewFile], tuple[int, str, Severity | None] | None]


# Code that fetches, decodes or evaluates something has no place in what is only loaded.
_ACTS = re.compile(
    r"\b(?:os\.(?:system|popen)|requests\.(?:get|post)|urlopen|urlretrieve|socket\.socket|b64decode|curl|wget)\b"
    r"|\b(?:eval|exec)\("
)


def _always(file: ViewFile) -> tuple[int, str, Severity | None]:
    return 1, file.text.strip().partition("\n")[0], None


def _if_it_acts(file: ViewFile) -> tuple[int, str, Severity | None]:
    """What is only loaded weighs little; what starts something when it is loaded weighs more."""
    found = _ACTS.search(file.text)
    return (*_line_at(file.text, found.start()), "medium") if found is not None else _always(file)


def _installs(file: ViewFile) -> tuple[int, str, Severity | None] | None:
    """The scripts of a package.json that run when it is installed."""
    scripts = _json(file).get("scripts")
    if not isinstance(scripts, dict):
        return None
    for name in ("preinstall", "install", "postinstall"):
        command = scripts.get(name)
        if isinstance(command, str) and command.strip():
            line, _ = _line_at(file.text, max(0, file.text.find(f'"{name}"')))
            is_bad = _FETCHES.search(command) and not keeps_house(command)
            return line, f"{name}: {command}", "high" if is_bad else None
    return None


def keeps_house(command: str) -> bool:
    """Whether a command runs a line of code that only sees to files and folders: no address, process or decoding.

    >>> keeps_house("node -e fs.mkdirSync('cache')"), keeps_house("node -e eval(code)"), keeps_house("curl get.sh | sh")
    (True, False, False)
    """
    inline = re.search(r"\b(?:node\s+-e|python3?\s+-c)\b", command)
    return inline is not None and not _REACHES_OUT.search(command)


_REACHES_OUT = re.compile(
    r"\b(?:curl|wget|eval|base64|powershell|iwr|sh|bash|https?|net|dns|tls|child_process|exec\w*|spawn\w*|fork|fetch"
    r"|atob|buffer|from_?char_?code|function|process\.env|environ\w*|getenv|urllib\w*|requests|socket|subprocess"
    r"|system|popen|import_module|__import__|homedir|expanduser|ssh|aws|npmrc|vm|globalthis|bytes|chr|codecs|zlib"
    r"|marshal|pickle)\b|://|\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|import\(|require\([^)'\"]|~/|\.\./",
    re.IGNORECASE,
)


_FETCHES = re.compile(
    r"\b(?:curl|wget|node\s+-e|python3?\s+-c|eval|base64|powershell|iwr|bash\s+-c|sh\s+-c)\b|https?://"
)


def _on_opening(file: ViewFile) -> tuple[int, str, Severity | None] | None:
    found = re.search(r"\"runOn\"\s{0,20}:\s{0,20}\"folderOpen\"", file.text)
    severity: Severity | None = "high" if _FETCHES.search(file.text) else None
    return (*_line_at(file.text, found.start()), severity) if found is not None else None


def _with_hooks(file: ViewFile) -> tuple[int, str, Severity | None]:
    """Settings of an agent: rules for tools weigh little, commands more, and switching its guard off most."""
    found = re.search(r"\"(?:bypassPermissions|skipDangerousModePermissionPrompt)\"", file.text)
    if found is not None:
        return *_line_at(file.text, found.start()), "high"
    found = re.search(r"\"(?:hooks|apiKeyHelper|statusLine|enableAllProjectMcpServers)\"", file.text)
    if found is not None:
        return *_line_at(file.text, found.start()), "high" if _FETCHES.search(file.text) else "medium"
    return _always(file)


def _imports(file: ViewFile) -> tuple[int, str, Severity | None] | None:
    """The lines of a .pth file that are code and not paths."""
    found = re.search(r"^import[ \t;]", file.text, re.MULTILINE)
    return (*_line_at(file.text, found.start()), None) if found is not None else None


def _plugins(file: ViewFile) -> tuple[int, str, Severity | None] | None:
    found = re.search(r"^\s{0,20}addopts[^\n]{0,200}\s-p[ \t=]", file.text, re.MULTILINE)
    return (*_line_at(file.text, found.start()), None) if found is not None else None


def _creates(file: ViewFile) -> tuple[int, str, Severity | None] | None:
    found = re.search(r"\"(?:initialize|onCreate|updateContent|postCreate|postStart|postAttach)Command\"", file.text)
    return (*_line_at(file.text, found.start()), None) if found is not None else None


def _named(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?:^|.*/)(?:{pattern})$", re.IGNORECASE | re.DOTALL)


_WHEN = (
    _When(_named(r"(?:site|user)customize\.py"), "Python runs it at every start", "high", _always),
    _When(_named(r"[^/]+\.pth"), "Python runs its imports at every start", "high", _imports),
    _When(_named(r"conftest\.py"), "pytest runs it before any test", "low", _if_it_acts),
    _When(_named(r"pytest\.ini|tox\.ini|setup\.cfg|pyproject\.toml"), "pytest loads its plugins", "low", _plugins),
    _When(_named(r"setup\.py"), "pip runs it when it installs the folder", "low", _if_it_acts),
    _When(_named(r"package\.json"), "npm runs its scripts when it installs", "medium", _installs),
    _When(_named(r"binding\.gyp"), "npm builds it when it installs", "medium", _always),
    _When(_named(r"\.vscode/tasks\.json"), "the editor runs it when the folder is opened", "medium", _on_opening),
    _When(
        _named(r"\.devcontainer(?:/[^/]+)?/?devcontainer\.json"), "the editor runs it in a container", "low", _creates
    ),
    _When(_named(r"\.envrc"), "direnv runs it when the folder is entered", "low", _if_it_acts),
    _When(_named(r"\.(?:bashrc|bash_profile|profile|zshrc|zshenv|zprofile)"), "a shell runs it", "low", _if_it_acts),
    _When(_named(r"\.(?:claude|codex|gemini)/settings(?:\.local)?\.json"), "an agent obeys it", "low", _with_hooks),
    _When(_named(r"\.?mcp\.json|\.cursor/mcp\.json"), "an agent starts the servers that it names", "low", _always),
    _When(_named(r"(?:\.git/hooks|\.husky|\.githooks)/[^/.]+"), "git runs it", "low", _if_it_acts),
)


def _check(view: SkillView) -> Iterator[Hit]:
    for file in view.files:
        for when in _WHEN:
            if when.name.match(file.path):
                shown = when.shows(file)
                if shown is not None:
                    line, text, severity = shown
                    yield Hit(
                        file.path,
                        line,
                        text,
                        f"The file runs without being called: {when.who}.",
                        severity or when.severity,
                    )
                break


def _line_at(text: str, at: int) -> tuple[int, str]:
    """The number of the line around a place, and what stands on it from there on."""
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    return text.count("\n", 0, at) + 1, text[start : end if end >= 0 else len(text)][:400].strip()


def _json(file: ViewFile) -> dict[str, Any]:
    try:
        value = json.loads(file.text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


RULE = ScanRule(
    id="AUTORUN_FILE",
    ast="AST02",
    category="execution_code_delivery",
    severity="medium",
    message="The file runs without being called.",
    hint="Read it before you run, install, open or test anything in the skill's folder.",
    check=_check,
)
