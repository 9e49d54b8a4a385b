"""`metier validate`."""

from __future__ import annotations

import contextlib
import os
import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any, NamedTuple

import metier
import metier.source
from metier.cli.output import Progress, Style, plural, print_diagnostics, print_json
from metier.cli.parser import Parser
from metier.cli.policy_view import unknown_tool_warnings
from metier.errors import ArchiveRefused, MetierError, SourceUnavailable
from metier.hints import for_person

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.skill import Diagnostic, Package
    from metier.source import Source, SourceDiagnostic


class ValidationResult(NamedTuple):
    """The diagnostics of one skill."""

    path: str
    name: str | None
    diagnostics: list[Diagnostic]
    is_skill: bool = True
    """False for what is said about a place rather than about a skill in it."""

    @property
    def ok(self) -> bool:
        return not any(found.severity == "error" for found in self.diagnostics)

    def as_json(self) -> dict[str, Any]:
        found = [diagnostic.as_json() for diagnostic in self.diagnostics]
        return {"path": self.path, "name": self.name, "ok": self.ok, "diagnostics": found}


def add(parser: Parser) -> None:
    parser.example("metier validate ./my-skill --strict")
    parser.option(
        "paths",
        "PATH",
        "a SKILL.md, a skill's folder, a folder of skills, an archive (default: the skills that are here)",
        nargs="*",
    )
    parser.flag("--strict", "the specification decides: its violations are errors")
    parser.flag("--portable", "strict, and the rules of places skills are uploaded to")
    parser.json()


def run(options: Namespace) -> int:
    paths = [_path_of(name) for name in options.paths] or _paths_here()
    verdicts: list[ValidationResult] = []
    style = Style(sys.stdout)
    seen: set[str] = set()
    missing = [path for path in paths if not os.path.lexists(metier.source.expanded(path))]
    if len(missing) == len(paths):
        raise SourceUnavailable(
            f"There is no {missing[0]!r}.", hint="Name a SKILL.md, a folder, an archive, or a skill of `metier list`."
        )
    for path in paths:
        if path in missing:
            # Wrong usage, but the others are checked all the same.
            note = metier.Diagnostic("file-unreadable", None, (path, "there is nothing of that name"))
            verdicts.append(ValidationResult(path, None, [note], False))
            continue
        for verdict in _check_path(path, strict=options.strict, portable=options.portable):
            if verdict.path not in seen:
                seen.add(verdict.path)
                verdicts.append(verdict)
    verdicts = _with_last_good(verdicts)
    ok = all(verdict.ok for verdict in verdicts)
    if options.json:
        print_json({"ok": ok, "skills": [verdict.as_json() for verdict in verdicts]})
        return 2 if missing else 0 if ok else 1
    for verdict in verdicts:
        if verdict.diagnostics or len(verdicts) <= 20:
            mark = style.good("✓") if verdict.ok else style.bad("✗")
            print(f"{mark} {style.strong(Style.text(verdict.name or '?'))} {style.dim(Style.text(verdict.path))}")
            print_diagnostics(style, verdict.diagnostics)
    skills = sum(verdict.is_skill for verdict in verdicts)
    bad = sum(not verdict.ok for verdict in verdicts)
    errors = "no errors" if not bad else f"{bad:,} with errors" if skills else plural(bad, "error")
    said = f"{plural(skills, 'skill')}, {errors}."
    print(style.bad(said) if bad else style.good(said))
    return 2 if missing else 0 if ok else 1


def _path_of(named: str) -> str:
    """A path, or the folder of the skill of that name."""
    if not os.path.lexists(metier.source.expanded(named)) and os.path.basename(named) == named:
        with contextlib.suppress(MetierError):
            found = os.path.dirname(metier.Library.discover().get(named).location)
            return found if os.path.isdir(found) else named
    return named


def _with_last_good(verdicts: list[ValidationResult]) -> list[ValidationResult]:
    """The verdicts, with a note on each file in whose place agents here are served its last good version."""
    if not any(found.severity != "info" for verdict in verdicts for found in verdict.diagnostics):
        return verdicts
    stale = {
        os.path.realpath(entry.location): entry
        for entry in metier.Library.discover().snapshot.entries
        if entry.is_stale
    }
    notes = {path: [one for one in entry.diagnostics if one.code == "stale"] for path, entry in stale.items()}
    return [
        verdict._replace(diagnostics=[*verdict.diagnostics, *notes.get(os.path.realpath(verdict.path), ())])
        for verdict in verdicts
    ]


def _paths_here() -> list[str]:
    """The skills of the working folder: one that it is, those in it, or those of its project folders."""
    from metier.library.clients import PROJECT_FOLDERS

    found = ["."] if metier.source.FolderSource(os.path.abspath(".")).find_skills().found else []
    if not os.path.exists("SKILL.md"):
        found += [path for path in PROJECT_FOLDERS if os.path.isdir(path)]
    if not found:
        raise SourceUnavailable(
            "There is no skill here.",
            hint="Name a SKILL.md, a folder or an archive; `metier list` shows the skills of all places.",
        )
    return found


def _check_path(path: str, *, strict: bool, portable: bool) -> Iterator[ValidationResult]:
    from metier.skill.validate import check
    from metier.source.source import SkillFileError, read_skill

    try:
        source, keys, findings = skills_at(path)
    except ArchiveRefused as error:
        said = (error.message.rstrip("."), for_person(error.hint).rstrip("."))
        yield ValidationResult(path, None, [metier.Diagnostic("archive-refused", None, said)], False)
        return
    for finding in findings:
        yield ValidationResult(finding.where, None, [finding.diagnostic], False)
    if not keys:
        yield ValidationResult(path, None, [metier.Diagnostic("no-skill", None, (path,))], False)
        return
    progress = Progress("Checking", len(keys))
    for key in keys:
        progress.step()
        location = source.location(key)
        try:
            data, _ = read_skill(source, key)
        except SkillFileError as problem:
            yield ValidationResult(location, None, [problem.diagnostic])
            continue
        document, found = check(
            data,
            source.package(key),
            folder=folder_of(source, key),
            file=key.rpartition("/")[2],
            strict=strict,
            portable=portable,
        )
        found += unknown_tool_warnings(document.skill)
        if not (strict or portable):
            found += _undeclared(source.package(key))
        yield ValidationResult(location, document.skill.name, found)
    progress.end()


def _undeclared(package: Package) -> list[Diagnostic]:
    """Diagnostics about capabilities that the frontmatter does not declare; none where files cannot be read."""
    from metier.scan.declaration import declaration_diagnostics
    from metier.scan.reading import view_of

    with contextlib.suppress(MetierError):
        return declaration_diagnostics(view_of(package))
    return []


def folder_of(source: Source, key: str) -> str:
    """The folder that a name must match; a skill at the root of an archive has none, whatever the archive is called."""
    return "" if isinstance(source, metier.source.ArchiveSource) and "/" not in key else source.folder(key)


def skills_at(path: str) -> tuple[Source, list[str], tuple[SourceDiagnostic, ...]]:
    """The source of a path, the keys of the skills in it, and what there is to say about the place."""
    path = metier.source.expanded(path)
    if os.path.basename(path).lower() == "skill.md":
        return metier.source.FolderSource(os.path.dirname(os.path.abspath(path))), [os.path.basename(path)], ()
    source = metier.source.open_source(path)
    if isinstance(source, metier.source.FolderSource) and not os.path.isdir(path):
        raise SourceUnavailable(
            f"{path!r} is neither a folder, an archive nor a SKILL.md.", hint="Name one of these.", path=path
        )
    scan = source.find_skills()
    return source, sorted(scan.found), scan.findings
