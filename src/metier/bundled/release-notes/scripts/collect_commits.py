#!/usr/bin/env python3
"""Collect the commits since a tag, grouped by what they mean to a reader of release notes.

Conventional commits are read by their prefix, others by the first word of their subject. E-mail
addresses are never printed.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUPS = {
    "breaking": "Breaking changes",
    "security": "Security",
    "features": "New",
    "fixes": "Fixed",
    "performance": "Faster",
    "removed": "Removed and deprecated",
    "docs": "Documentation",
    "dependencies": "Dependencies",
    "internal": "Internal",
    "other": "Other",
}
PREFIXES = {
    "feat": "features",
    "feature": "features",
    "fix": "fixes",
    "bugfix": "fixes",
    "hotfix": "fixes",
    "perf": "performance",
    "docs": "docs",
    "doc": "docs",
    "deps": "dependencies",
    "security": "security",
    "sec": "security",
    "revert": "other",
    "deprecate": "removed",
    "remove": "removed",
    **dict.fromkeys(["build", "chore", "ci", "refactor", "style", "test", "tests"], "internal"),
}
WORDS = [
    ("security", r"CVE-\d+|security|vulnerab|sanitiz|xss\b|injection\b"),
    ("dependencies", r"(bump|upgrade|pin|update) .*(depend|version|from v?\d|to v?\d)|bump\b"),
    ("docs", r"docs?\b|document|readme|changelog|typo|fix(es|ed)? (a )?typo"),
    ("internal", r"refactor|rename|clean|tidy|reformat|format|lint|tests?\b|test:|ci\b|move\b"),
    ("internal", r"(add|fix|improve|update)\w* .*\btests?\b|release\b|prepare\b|merge\b|wip\b"),
    ("fixes", r"fix|repair|correct|resolv|handle\b|prevent|avoid|stop\b|don'?t|do not|restore"),
    ("performance", r"speed|faster|optimi[sz]|cache\b|reduce (the )?(memory|time|alloc)"),
    ("removed", r"remov|drop|delet|deprecat"),
    ("features", r"add|allow|support|introduc|implement|new\b|enable|let\b|make\b|expose|create"),
]
FIRST_WORDS = [(group, re.compile(pattern, re.IGNORECASE)) for group, pattern in WORDS]
CONVENTIONAL = re.compile(r"(?P<type>[A-Za-z]+)(?:\((?P<scope>[^)]*)\))?(?P<bang>!)?:\s+(?P<text>.+)")
BREAKING = re.compile(r"^BREAKING[ -]CHANGES?:\s*(.+(?:\n(?!\s*$|[A-Za-z-]+: ).+)*)", re.MULTILINE)
REVERTS = re.compile(r"This reverts commit ([0-9a-f]{7,64})")
REFERENCE = re.compile(r"(?<![\w&])#\d+\b|\bGH-\d+\b|\b(?!CVE-|UTF-|SHA-|ISO-)[A-Z]{2,10}-\d+\b")
PULL_REQUEST = re.compile(r"Merge (?:pull request|branch|remote-tracking branch)\b")
FIELDS = ["%H", "%P", "%aN", "%as", "%(trailers:key=Co-authored-by,valueonly,separator=%x1f)", "%B"]


class Unusable(Exception):
    """The commits cannot be collected; the message says why."""


@dataclass(slots=True, kw_only=True)
class Commit:
    """One commit, as release notes need it."""

    hash: str
    subject: str
    group: str
    date: str
    authors: list[str]
    type: str | None = None
    scope: str | None = None
    breaking: list[str] = field(default_factory=list)
    references: list[str] = field(default_factory=list)


def git(repo: Path, *arguments: str, check: bool = True) -> str:
    """Run git without a pager or a prompt and return what it printed."""
    environment = os.environ | {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            ["git", "--no-pager", "-C", str(repo), *arguments],
            capture_output=True,
            env=environment,
            stdin=subprocess.DEVNULL,
            timeout=120,
        )
    except FileNotFoundError:
        raise Unusable("git is not installed") from None
    except subprocess.TimeoutExpired:
        raise Unusable("git took longer than two minutes: narrow the range") from None
    if check and done.returncode:
        raise Unusable(done.stderr.decode(errors="replace").strip() or "git failed")
    return done.stdout.decode("utf-8", errors="replace") if not done.returncode else ""


def resolve(repo: Path, name: str) -> str:
    """Turn a tag, a branch or a hash into a commit's full hash."""
    if name.startswith("-"):
        raise Unusable(f"{name!r} is not a tag, a branch or a commit")
    found = git(repo, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", check=False)
    if not found:
        tags = git(repo, "tag", "--sort=-creatordate").split()[:5]
        recent = f"; the latest tags are {', '.join(tags)}" if tags else "; there are no tags"
        raise Unusable(f"{name!r} is not a tag, a branch or a commit{recent}")
    return found.strip()


def previous_tag(repo: Path, until: str) -> str | None:
    """Find the latest tag before this commit, passing over tags on the commit itself."""
    describe = ("describe", "--tags", "--abbrev=0")
    return git(repo, *describe, f"{until}^", check=False).strip() or None


def classify(subject: str) -> str:
    """Guess the group of a subject that has no conventional prefix."""
    return next((group for group, pattern in FIRST_WORDS if pattern.match(subject)), "other")


def parse(record: list[str]) -> Commit:
    """Read one commit from the fields that git printed."""
    commit_hash, parents, author, date, trailers, message = record
    subject, _, body = message.strip().partition("\n")
    if " " in parents and PULL_REQUEST.match(subject):
        # The title of a merged pull request stands in the body of its merge commit.
        title = next((line for line in body.splitlines() if line.strip()), "")
        number = "".join(REFERENCE.findall(subject)[:1])
        subject = f"{title.strip()} ({number})" if title and number else title.strip() or subject
    found = CONVENTIONAL.match(subject)
    breaking = [" ".join(text.split()) for text in BREAKING.findall(body)]
    co_authors = [name.split("<")[0].strip() for name in trailers.split("\x1f")]
    commit = Commit(
        hash=commit_hash[:10],
        subject=subject,
        group=classify(subject),
        date=date,
        authors=list(dict.fromkeys(name for name in [author, *co_authors] if name)),
        references=list(dict.fromkeys(REFERENCE.findall(message)))[:10],
    )
    if found and found["type"].lower() in PREFIXES:
        commit.type, commit.scope = found["type"].lower(), found["scope"] or None
        commit.subject, commit.group = found["text"], PREFIXES[found["type"].lower()]
        if commit.scope and commit.scope.startswith("deps"):
            commit.group = "dependencies"
        if found["bang"] and not breaking:
            breaking = [found["text"]]
    if breaking:
        commit.group, commit.breaking = "breaking", breaking
    return commit


def drop_reverted(records: list[list[str]]) -> tuple[list[list[str]], int]:
    """Leave out a commit and its revert when both are in the range: a reader saw neither."""
    hashes = [record[0] for record in records]
    gone: set[str] = set()
    for commit_hash, *_, message in records:  # newest first, so that a reverted revert is skipped
        found = REVERTS.search(message)
        target = next((h for h in hashes if found and h.startswith(found[1])), None)
        if target and commit_hash not in gone:
            gone |= {commit_hash, target}
    return [record for record in records if record[0] not in gone], len(gone)


def collect(options: argparse.Namespace) -> dict[str, Any]:
    """Read the range and describe it as plain data."""
    repo: Path = options.repo
    if not repo.is_dir():
        raise Unusable(f"{repo} is not a folder")
    if git(repo, "rev-parse", "--is-inside-work-tree", "--is-bare-repository", check=False) == "":
        raise Unusable(f"{repo} is not a git repository")
    if not git(repo, "rev-parse", "--verify", "--quiet", "HEAD", check=False):
        return {"since": None, "until": options.until, "commits": 0}
    until = resolve(repo, options.until)
    since_name = options.since or previous_tag(repo, until)
    since = resolve(repo, since_name) if since_name else None
    chosen = f"{since}..{until}" if since else until
    merges = ["--first-parent"] if options.first_parent else ["--no-merges"]
    output = git(
        repo,
        "log",
        "-z",
        "--no-show-signature",
        f"--max-count={options.limit + 1}",
        f"--format=tformat:{'%x00'.join(FIELDS)}",
        *merges,
        chosen,
        "--",
        *options.path,
    )
    parts = output.split("\0")
    size = len(FIELDS)
    records = [parts[i : i + size] for i in range(0, len(parts) - size + 1, size)]
    truncated = len(records) > options.limit
    records, reverted = drop_reverted(records[: options.limit])
    commits = [parse(record) for record in records]
    authors = Counter(name for commit in commits for name in commit.authors)
    earlier = set(git(repo, "log", "--format=%aN", since).splitlines()) if since else set()
    stat = ("diff", "--no-ext-diff", "--no-textconv", "--shortstat")
    groups = {name: [c for c in commits if c.group == name] for name in GROUPS}
    return {
        "since": since_name,
        "until": options.until,
        "commits": len(commits),
        "truncated": truncated,
        "reverted_and_left_out": reverted,
        "conventional_share": round(sum(c.type is not None for c in commits) / len(commits), 2) if commits else 0.0,
        "changes": git(repo, *stat, since, until, "--", *options.path).strip() if since else "",
        "authors": [{"name": name, "commits": count} for name, count in authors.most_common(100)],
        "new_authors": [name for name in authors if name not in earlier] if since else [],
        "groups": {name: [compact(commit) for commit in found] for name, found in groups.items() if found},
    }


def compact(commit: Commit) -> dict[str, Any]:
    """Leave out what is empty, and the group, which is the key that the commit stands under."""
    kept = {key: value for key, value in asdict(commit).items() if value and key != "group"}
    return kept | {"subject": commit.subject[:300]}


def describe(out: dict[str, Any]) -> Iterator[str]:
    """Lay the collection out as Markdown to write from."""
    yield f"# {out['since'] or 'the beginning'} to {out['until']}: {out['commits']} commits"
    yield from (f"\n{line}" for line in [out["changes"]] if line)
    if out["truncated"]:
        yield "\nOlder commits were left out: raise --limit to see them."
    for name, commits in out["groups"].items():
        yield f"\n## {GROUPS[name]}\n"
        for commit in commits:
            scope = f"{commit['scope']}: " if "scope" in commit else ""
            missing = [r for r in commit.get("references", []) if r not in commit["subject"]]
            more = f" [{' '.join(missing)}]" if missing else ""
            names = ", ".join(commit["authors"])
            yield f"- {scope}{commit['subject']}{more} ({commit['hash']}, {names})"
            notes = [note for note in commit.get("breaking", []) if note != commit["subject"]]
            yield from (f"  - BREAKING: {note[:500]}" for note in notes)
    yield "\n## People\n"
    new = set(out["new_authors"])
    for author in out["authors"]:
        first = ", first contribution" if author["name"] in new else ""
        yield f"- {author['name']} ({author['commits']}{first})"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0],
        epilog="example: python3 scripts/collect_commits.py --repo . --since v1.2.0 --json\n"
        "exit codes: 0 collected; 1 there are no commits; 2 the range cannot be read",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--repo", type=Path, default=Path(), help="the repository (default: here)")
    parser.add_argument("--since", help="tag or commit to start after (default: the last tag)")
    parser.add_argument("--until", default="HEAD", help="tag or commit to end with")
    parser.add_argument("--path", action="append", default=[], help="only changes below this path")
    parser.add_argument("--limit", type=int, default=500, help="most commits to read")
    parser.add_argument("--first-parent", action="store_true", help="read merged pull requests, not their commits")
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    options = parser.parse_args()
    if options.limit < 1:
        parser.error("--limit takes a positive number")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        out = collect(options)
    except Unusable as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if not out["commits"]:
        print(f"no commits since {out['since'] or 'the beginning'}", file=sys.stderr)
    elif not options.json:
        print("\n".join(describe(out)))
    if options.json:
        print(json.dumps(out, ensure_ascii=False, indent=1))
    return 0 if out["commits"] else 1


if __name__ == "__main__":
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code)
