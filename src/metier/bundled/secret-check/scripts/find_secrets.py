#!/usr/bin/env python3
"""Look for leaked credentials in files: known key formats, assignments and random strings.

What is found is never printed: only its place, its kind, its length and at most four characters.
"""

from __future__ import annotations

import argparse
import codecs
import hashlib
import io
import json
import math
import os
import re
import sys
import tomllib
from collections import Counter
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

SKIPPED_FOLDERS = {".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox"}
SKIPPED_FOLDERS |= {".mypy_cache", ".ruff_cache", ".pytest_cache"}
ARCHIVES = {".zip", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".tar", ".jar", ".whl"}
RISKY_NAMES = ["id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", ".netrc", "_netrc", ".pgpass"]
RISKY_NAMES += [".git-credentials", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk"]
LOCK_FILES = ["*.lock", "*-lock.json", "*-lock.yaml", "go.sum", "*.min.js", "*.map", "*.svg"]
MOST = 500  # findings kept of each confidence
RANDOM_A_FILE = 5  # a file with more random strings than this is data, not a leak
ROUNDS = 20_000  # makes guessing a short password from a baseline slow
ALLOW = "secret-check: allow"
RULES = Path(__file__).resolve().parent.parent / "assets" / "rules.toml"
RANK = {"low": 0, "medium": 1, "high": 2}

KEYWORDS = ["pass", "secret", "token", "key", "credential"]
ASSIGNMENT = re.compile(
    r"(?:pass(?:wor|w)?d|pass(?:phrase|code)|secret|token|credentials?|"
    r"(?:api|access|private|auth)[_-]?key)[\w.-]{0,20}[\"']?[ \t]{0,4}(?::=|=>|[:=])[ \t]{0,4}"
    r"(?:(?P<quote>[\"'`])(?P<quoted>[^\"'`\s]{6,200})(?P=quote)|(?P<bare>[^\s\"'`,;(){}\[\]]{8,200}+)"
    r"(?=\s|$))",
    re.IGNORECASE,
)
RANDOM = re.compile(r"[\"'`=\s:](?P<v>[A-Za-z0-9+/_-]{32,120}={0,2})(?=[\"'`\s,;]|$)", re.MULTILINE)
# Only words too long to occur in a random key by chance.
MADE_UP = re.compile(r"example|placeholder|redacted|your[_-]|x{6,}|\*{3}|\.{3}|…", re.IGNORECASE)
PLACEHOLDER = re.compile(
    r"example|placeholder|change[_-]?me|your[_-]|dummy|sample|redacted|replace|insert|todo|fake|"
    r"x{4,}|\*{3,}|\.{3}|…|^<|^\$|\$\{|\{\{|%\(|"
    r"^(?:true|false|none|null|undefined|string|required|(?:my)?(?:pass(?:word|wd)?|pwd|secret)$)",
    re.IGNORECASE,
)
CODE = re.compile(r"^[a-z_]\w*(?:[.:]{1,2}\w+)+$|^[A-Z]\w*\.[A-Z]\w*$|\(|\)|^self\.|^[/.~@]|::|://")
WORDS = re.compile(r"^[A-Za-z]+(?:[_./-][A-Za-z]+)*\d{0,2}$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The look of one kind of key, and plain texts that are quick to rule it out by."""

    name: str
    hints: list[str]
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A place where a credential seems to stand. The credential itself is not kept here."""

    rule: str
    confidence: str
    path: str
    line: int
    preview: str
    fingerprint: str


@dataclass
class Search:
    """What has been found so far, and what was not looked at."""

    rules: list[Rule]
    known: frozenset[str] = frozenset()
    minimum: str = "low"
    findings: list[Finding] = field(default_factory=list)
    kept: Counter[str] = field(default_factory=Counter)
    files: int = 0
    ignored: int = 0
    allowed: int = 0
    skipped: list[dict[str, str]] = field(default_factory=list)
    left_off: int = 0

    def read_text(self, text: str, path: str) -> None:
        """Look through one text and keep what is new."""
        self.files += 1
        taken: list[tuple[int, int]] = []
        random = 0
        for rule, confidence, start, secret in candidates(text, path, self.rules):
            end = start + len(secret)
            random += rule == "random-string"
            if random > RANDOM_A_FILE or len(taken) >= MOST:
                self.left_off += 1
                continue
            if any(start < stop and end > begin for begin, stop in taken):
                continue  # a more specific rule has it already
            taken.append((start, end))
            line_start = text.rfind("\n", 0, start) + 1
            line_end = text.find("\n", start)
            if ALLOW in text[line_start : line_end if line_end >= 0 else None]:
                self.allowed += 1
                continue
            self.add(rule, confidence, path, text.count("\n", 0, start) + 1, secret)

    def add(self, rule: str, confidence: str, path: str, line: int, secret: str) -> None:
        """Keep a finding unless the baseline knows it."""
        if RANK[confidence] < RANK[self.minimum]:
            return
        if self.kept[confidence] >= MOST:
            self.left_off += 1
            return
        found = Finding(
            rule=rule,
            confidence=confidence,
            path=path,
            line=line,
            preview=redact(secret),
            fingerprint=fingerprint(rule, path, secret),
        )
        if found.fingerprint in self.known:
            self.ignored += 1
        else:
            self.kept[confidence] += 1
            self.findings.append(found)

    def skip(self, path: str, why: str) -> None:
        self.skipped.append({"path": path, "why": why})


def read_rules(path: Path) -> list[Rule]:
    """Read the rules; ValueError or KeyError if the file does not hold any."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))["rule"]
        return [Rule(name=rule["name"], hints=rule["hints"], pattern=re.compile(rule["pattern"])) for rule in found]
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None


def candidates(text: str, path: str, rules: list[Rule]) -> Iterator[tuple[str, str, int, str]]:
    """Yield (rule, confidence, position, secret), the surest rules first."""
    for rule in rules:
        if not any(hint in text for hint in rule.hints):
            continue
        for found in rule.pattern.finditer(text):
            if "v" not in rule.pattern.groupindex:
                if not MADE_UP.search(found[0]):
                    yield rule.name, "high", found.start(), found[0]
            elif not PLACEHOLDER.search(found["v"]):
                confidence = "low" if WORDS.match(found["v"]) else "medium"
                yield rule.name, confidence, found.start("v"), found["v"]
    lowered = text.lower()
    named = any(word in lowered for word in KEYWORDS)
    for found in ASSIGNMENT.finditer(text) if named else ():
        group = "quoted" if found["quoted"] else "bare"
        if is_secret_value(found[group], quoted=group == "quoted"):
            yield "assigned-secret", "medium", found.start(group), found[group]
    if any(fnmatch(Path(path).name, pattern) for pattern in LOCK_FILES):
        return
    for found in RANDOM.finditer(text):
        value = found["v"]
        mixed = all(re.search(part, value) for part in ("[a-z]", "[A-Z]", r"\d"))
        if mixed and entropy(value) >= 4.3 and not PLACEHOLDER.search(value):
            yield "random-string", "low", found.start("v"), value


def is_secret_value(value: str, quoted: bool) -> bool:
    """Tell a literal credential from a placeholder, a word or a piece of code."""
    if PLACEHOLDER.search(value) or CODE.search(value):
        return False
    if WORDS.match(value) and not (quoted and entropy(value) >= 3.6):
        return False
    return entropy(value) >= (2.3 if quoted else 2.8)


def entropy(text: str) -> float:
    """Measure how random a text is, in bits a character."""
    size = len(text)
    return -sum(n / size * math.log2(n / size) for n in Counter(text).values())


def redact(secret: str) -> str:
    """Keep at most the first four characters, and none of a short secret."""
    shown = "" if len(secret) < 20 or secret.startswith("-----") else secret[:4]
    return f"{shown}… ({len(secret)} characters)"


def fingerprint(rule: str, path: str, secret: str) -> str:
    """Name a finding without its line, so that moving it within the file does not matter."""
    salt = f"{rule}\0{path}".encode("utf-8", "surrogateescape")
    key = hashlib.pbkdf2_hmac("sha256", secret.encode("utf-8", "replace"), salt, ROUNDS)
    return key.hex()[:32]


def decode(data: bytes) -> str | None:
    """Decode text; None for a binary file."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    return None if b"\0" in data[:8192] else data.decode("utf-8", "replace")


def walk(root: Path, search: Search) -> Iterator[Path]:
    """Yield the files below a folder in a stable order, without following links."""

    def note(error: OSError) -> None:
        search.skip(str(error.filename), error.strerror or "cannot be read")

    for folder, names, files in os.walk(root, onerror=note):
        names[:] = sorted(name for name in names if name not in SKIPPED_FOLDERS)
        yield from (Path(folder, name) for name in sorted(files))


def read_file(path: Path, shown: str, search: Search, max_bytes: int) -> None:
    """Look at one file's name and, if it is text of a sensible size, at what it says."""
    try:
        if path.is_symlink() or not path.is_file():
            return search.skip(shown, "a link or a special file")
        if any(fnmatch(path.name, pattern) for pattern in RISKY_NAMES):
            search.add("risky-file", "medium", shown, 0, path.name)
        if path.suffix.lower() in ARCHIVES:
            return search.skip(shown, "an archive: unpack it and search it too")
        if path.stat().st_size > max_bytes:
            return search.skip(shown, f"larger than {max_bytes} bytes")
        text = decode(path.read_bytes())
    except OSError as error:
        return search.skip(shown, error.strerror or "cannot be read")
    if text is not None:
        search.read_text(text, shown)
    return None


def read_baseline(path: Path) -> frozenset[str]:
    """Read the fingerprints of findings that were judged before."""
    data = json.loads(path.read_text(encoding="utf-8"))
    return frozenset(str(entry["fingerprint"]) for entry in data["findings"])


def describe(out: dict[str, Any]) -> Iterator[str]:
    """Lay the findings out as lines of text."""
    for found in out["findings"]:
        place = f"{found['path']}:{found['line']}" if found["line"] else found["path"]
        yield f"{found['confidence']:<7}{found['rule']:<20}{place}  {found['preview']}"
    yield f"{len(out['findings'])} findings in {out['files']} files"
    if out["ignored_by_baseline"] or out["allowed_inline"]:
        yield f"{out['ignored_by_baseline']} more in the baseline"
        yield f"{out['allowed_inline']} more allowed inline"
    if out["findings_left_off"]:
        yield f"{out['findings_left_off']} more were left off"
    if out["skipped_count"]:
        yield f"{out['skipped_count']} files were not searched, such as:"
    yield from (f"  {entry['path']}: {entry['why']}" for entry in out["skipped"])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0],
        epilog="example: python3 scripts/find_secrets.py . --baseline known-secrets.json --json\n"
        "         git log -p --all | python3 scripts/find_secrets.py -\n"
        "exit codes: 0 nothing found; 1 something found; 2 wrong usage",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("path", help="a folder, a file, or - for the standard input")
    parser.add_argument("--baseline", type=Path, help="a JSON file of findings to ignore")
    parser.add_argument("--rules", type=Path, default=RULES, help="a TOML file of key formats")
    parser.add_argument("--write-baseline", type=Path, help="write what is found, redacted")
    parser.add_argument("--min-confidence", choices=["low", "medium", "high"], default="low")
    parser.add_argument("--exclude", action="append", default=[], help="a pattern such as docs/*")
    parser.add_argument("--max-bytes", type=int, default=10_000_000, help="skip larger files")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    options = parser.parse_args()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    reading = options.rules
    try:
        search = Search(rules=read_rules(options.rules), minimum=options.min_confidence)
        if reading := options.baseline:
            search.known = read_baseline(options.baseline)
    except (OSError, ValueError, KeyError, TypeError) as error:
        parser.error(f"{reading} cannot be read: {error}")
    root = Path(options.path)
    if options.path == "-":
        search.read_text(sys.stdin.buffer.read().decode("utf-8", "replace"), "-")
    elif root.is_dir():
        for path in walk(root, search):
            shown = path.relative_to(root).as_posix()
            if not any(fnmatch(shown, pattern) for pattern in options.exclude):
                read_file(path, shown, search, options.max_bytes)
    elif root.exists():
        read_file(root, root.name, search, options.max_bytes)
    else:
        parser.error(f"{root} does not exist")
    search.findings.sort(key=lambda found: (-RANK[found.confidence], found.path, found.line))
    out = {
        "files": search.files,
        "findings": [asdict(found) for found in search.findings],
        "findings_left_off": search.left_off,
        "ignored_by_baseline": search.ignored,
        "allowed_inline": search.allowed,
        "skipped_count": len(search.skipped),
        "skipped": search.skipped[:20],
    }
    if options.write_baseline:
        try:
            baseline = json.dumps({"findings": out["findings"]}, indent=1) + "\n"
            options.write_baseline.write_text(baseline, encoding="utf-8")
        except OSError as error:
            parser.error(f"--write-baseline {options.write_baseline}: {error.strerror}")
    print(json.dumps(out, ensure_ascii=False, indent=1) if options.json else "\n".join(describe(out)))
    return 1 if search.findings else 0


if __name__ == "__main__":
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)
