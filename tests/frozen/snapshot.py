"""How this version reads the skills and policies of a release, as plain data that can be compared.

    python -m tests.frozen.snapshot

freezes the version in pyproject.toml: it takes the skills, policies and cases of the release before where it has none
of its own, and writes snapshot.json. That of a version that CHANGELOG.md no longer calls unreleased stays as it is.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from packaging.version import Version

from metier.cli import main

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SNAPSHOT = "snapshot.json"
OF_A_SKILL = (
    *("name", "description", "display_name", "digest", "status", "hidden_from_models", "version", "tags"),
    *("fields", "extra", "body_lines"),
)
# Those that a wider view of a skill needs: one skill is for this agent in this environment alone.
SEEN_BY = ("--agent", "clerk", "--environment", "production")


def releases() -> list[Path]:
    """The folders of frozen releases, the oldest first."""
    return sorted((path.parent for path in HERE.glob(f"*/{SNAPSHOT}")), key=lambda path: Version(path.name))


@contextlib.contextmanager
def alone(policies: Sequence[Path]) -> Iterator[None]:
    """Nothing of this machine and this user counts, and these files are the policy."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("METIER_", "XDG_", "CLAUDE"))}
        own = {"HOME": home, "USERPROFILE": home, "METIER_POLICY": os.pathsep.join(map(str, policies))}
        data = {"METIER_CACHE": f"{home}/cache", "METIER_DATA": f"{home}/data", "XDG_CONFIG_HOME": f"{home}/config"}
        before = Path.cwd()
        os.chdir(home)
        try:
            with mock.patch.dict(os.environ, {**kept, **own, **data}, clear=True):
                yield
        finally:
            os.chdir(before)


def ask(*words: str) -> Any:
    """The JSON that a command prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        main([*words, "--json"])
    return json.loads(out.getvalue())


def read_skills(folder: Path) -> dict[str, Any]:
    """Each skill of a release by its path: its fields, its digest, and what is said about it."""
    found = {}
    for row in ask("list", "--all", "--no-cache", "--skills", str(folder), *SEEN_BY):
        path = Path(row["location"]).parent.relative_to(folder).as_posix()
        about = row
        if row["status"] == "active":
            about = ask("show", row["reference"], "--no-cache", "--skills", str(folder), *SEEN_BY)
        found[path] = {key: about[key] for key in OF_A_SKILL if key in about}
        found[path]["diagnostics"] = [[each["severity"], each["code"], each["line"]] for each in about["diagnostics"]]
        found[path]["files"] = [[each["path"], each["kind"]] for each in about.get("files", [])]
    return found


def read_policies(folder: Path, files: Sequence[Path]) -> dict[str, Any]:
    """What policy files are read as, and what is decided by them in each case of a release."""
    cases = json.loads((folder / "cases.json").read_text("utf-8"))
    with alone(files):
        problems = ask("policy", "check", *map(str, files))["problems"]
        values = ask("policy", "show")["values"]
        decisions = {}
        for case, words in cases.items():
            given = ask("policy", "explain", *words, "--skills", str(folder / "skills"), *SEEN_BY)
            rule = given["rule"].replace(f"{folder}{os.sep}", "").replace(os.sep, "/")
            decisions[case] = [given["decision"], given["would"], rule]
    return {
        "problems": [[each["severity"], each["key"], each["line"]] for each in problems],
        "values": {key: each["value"] for key, each in values.items()},
        "decisions": decisions,
    }


def policies_of(folder: Path) -> list[str]:
    """The policy files of a release, one by one, and two of them together: the stronger, and one that only tightens."""
    return [*sorted(file.stem for file in (folder / "policies").glob("*.yaml")), "strict+team"]


def read_part(folder: Path, part: str) -> Any:
    """The skills of a release, or what one of its policies decides."""
    if part == "skills":
        with alone([]):
            return read_skills(folder / "skills")
    return read_policies(folder, [folder / "policies" / f"{name}.yaml" for name in part.split("+")])


def differences(then: Any, now: Any, path: str = "") -> Iterator[str]:
    """What a release said and this version does not; what this version says beyond it is no difference.

    >>> list(differences({"a": {"b": 1}, "c": [1]}, {"a": {"b": 2, "new": 3}, "c": [1]}))
    ['a/b: 1 became 2']
    """
    if isinstance(then, dict) and isinstance(now, dict):
        for key, value in then.items():
            yield from differences(value, now.get(key), f"{path}/{key}" if path else key)
    elif then != now:
        yield f"{path}: {json.dumps(then, ensure_ascii=False)} became {json.dumps(now, ensure_ascii=False)}"


def freeze() -> int:
    """Write the snapshot of the version that this is; 1 where it has been released."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    folder, before = HERE / version, releases()
    if (folder / SNAPSHOT).exists() and f"## {version} (unreleased)" not in (ROOT / "CHANGELOG.md").read_text("utf-8"):
        print(f"{version} is released, and stays as it was: a difference is accepted in differences.toml.")
        return 1
    if not folder.exists():
        shutil.copytree(before[-1], folder, ignore=shutil.ignore_patterns(SNAPSHOT))
    found = {part: read_part(folder, part) for part in ("skills", *policies_of(folder))}
    (folder / SNAPSHOT).write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8", newline="\n")
    print(f"{folder.relative_to(ROOT)}/{SNAPSHOT}")
    return 0


if __name__ == "__main__":
    sys.exit(freeze())
