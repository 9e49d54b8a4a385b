"""`metier sync`."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import metier.hub
from metier.cli.identity import require_person
from metier.cli.output import Style, plural, print_json
from metier.cli.parser import Parser, library_of
from metier.errors import InvalidArgument
from metier.hints import for_person

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from metier.hub import Step, Synced

_MARKS = {"added": "+", "updated": "~", "removed": "-", "refused": "!", "conflict": "!", "failed": "!"}
_PAINTS = {"+": Style.good, "~": Style.good, "-": Style.warn, "!": Style.bad}


def add(parser: Parser) -> None:
    parser.example("metier sync --to .claude/skills,.agents/skills --dry-run")
    parser.library()
    parser.option(
        "--to",
        "DIR,...",
        "the folders to write to; what others put there is never changed (repeatable)",
        action="append",
    )
    parser.option(
        "--client",
        "CLIENT,...",
        "write to the folder in which a client looks for the skills of a project, such as cursor (repeatable)",
        action="append",
    )
    parser.flag("--user", "with --client: to its folder for all your projects")
    parser.option(
        "--only",
        "NAME,...",
        "just these skills; others stay as they are (repeatable)",
        action="append",
        complete="names",
    )
    parser.flag("--remove", "take away what sync wrote there; what somebody changed since then stays")
    parser.flag("--dry-run", "only say what would be done")
    parser.accept_findings("write skills")
    parser.json()


def run(options: Namespace) -> int:
    folders = list(dict.fromkeys([*several(options.to), *_folders_of_clients(options)]))
    only = several(options.only)
    if not folders:
        raise InvalidArgument(
            "No folder was named.", hint="Write `--to .claude/skills,.agents/skills`, or `--client claude-code,codex`."
        )
    if options.only is not None and not only:
        raise InvalidArgument("No skill was named.", hint="Write `--only NAME,...`, or leave it out for all.")
    accepted = options.accept_findings.strip()
    if accepted:
        require_person()
    library = library_of(options)
    done = [
        metier.hub.sync_to(
            library, folder, only=only, dry_run=options.dry_run, accept_findings=accepted, remove=options.remove
        )
        for folder in folders
    ]
    if options.json:
        print_json({"dry_run": options.dry_run, "folders": [folder_shape(one) for one in done]})
    else:
        for one in done:
            print_steps(one, is_dry_run=options.dry_run)
    return 0 if all(one.is_fine for one in done) else 1


def _folders_of_clients(options: Namespace) -> Iterator[str]:
    """The folders in which clients look for skills: those of this project, or with `--user` the user's own."""
    from metier.library.clients import CLIENTS, in_home
    from metier.library.places import home_folder, project_root

    names = several(options.client)
    if options.user and not names:
        raise InvalidArgument("--user goes with --client.", hint="Add --client NAME, or leave --user out.")
    home = home_folder()
    if options.user and home is None:
        raise InvalidArgument("You have no home folder here.", hint="Leave out --user.")
    for name in names:
        client = CLIENTS.get(name)
        folders = () if client is None else client.personal if options.user else client.project
        if not folders:
            known = ", ".join(one.name for one in CLIENTS.values() if one.project)
            raise InvalidArgument(f"{name!r} is no client with a folder of skills.", hint=f"There are {known}.")
        yield in_home(folders[0], home) if options.user and home else str(project_root(Path.cwd()) / folders[0])


def several(texts: Sequence[str] | None) -> list[str]:
    """Words that stand behind an option, once each: separated by commas, or by giving the option again."""
    words = [word.strip() for text in texts or () for word in text.split(",")]
    return list(dict.fromkeys(word for word in words if word))


def folder_shape(done: Synced) -> dict[str, object]:
    """A folder that was written to, as JSON has it."""
    return {"folder": done.folder, "ok": done.is_fine, "skills": done.steps}


def print_steps(done: Synced, *, is_dry_run: bool = False) -> None:
    """Say what was written into a folder, and why something was not."""
    style = Style(sys.stdout)
    for step in done.steps:
        mark = _MARKS.get(step.done)
        if mark is not None:
            reason = f"  {style.dim(Style.text(step.reason, 1_000))}" if step.reason and not step.is_problem else ""
            print(f"{_PAINTS[mark](style, mark)} {Style.text(step.skill)}{reason}")
    for step in done.steps:
        if step.is_problem or step.done in ("left out", "kept"):
            _explain(step)
    counts = Counter(step.done for step in done.steps)
    said = ", ".join(f"{count:,} {kind}" for kind, count in counts.items()) or "nothing to do"
    would = " Nothing was written: this was a dry run." if is_dry_run else ""
    print(style.dim(f"{Style.text(done.folder, 4_096)}: {plural(len(done.steps), 'skill')}, {said}.{would}"))


def _explain(step: Step) -> None:
    style = Style(sys.stderr)
    paint = style.bad if step.is_problem else style.warn
    words = f"{Style.text(step.skill)}: {Style.text(step.reason, 1_000)} {Style.text(for_person(step.hint), 1_000)}"
    print(f"{paint(step.done)}: {words.rstrip()}", file=sys.stderr)
