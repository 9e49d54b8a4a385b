"""Files that are to become a skill: whether they make one, and keeping them with what is known of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.errors import SkillInvalid
from metier.guard.content_records import keep_revision
from metier.hints import for_anybody, for_people
from metier.hub.contents import package_of
from metier.scan.capabilities import infer
from metier.skill import MAX_SKILL_BYTES, shown
from metier.skill.contents import digest_of_files
from metier.skill.lint import NOT_DEPLOYABLE, check

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metier.guard.policy.effective import EffectivePolicy
    from metier.skill import Diagnostic, Document
    from metier.skill.contents import Files
    from metier.store import Revision, Scope


def keep_files(
    scope: Scope, effective: EffectivePolicy, skill: str, files: Files, *, parent: str = "", is_whole: bool = True
) -> Revision:
    """Keep a content of a skill, called `name@source`, so that it can be shown and brought back.

    Policy says which tools count as reaching the network or writing files, and so what the content can do. Without
    `is_whole`, what is known of the content is kept, and not the content itself.
    """
    return keep_revision(
        scope,
        skill,
        digest_of_files(files),
        files,
        skill=_document(files, folder=skill.partition("@")[0])[0].skill,
        capabilities=infer(package_of(files), network=effective.network_tools, write=effective.write_tools),
        parent=parent,
        is_whole=is_whole,
    )


def capabilities_of(revision: Revision | None) -> tuple[str, ...]:
    """What a content can do; nothing where there is none."""
    return tuple(revision.capabilities.get("names", ())) if revision is not None else ()


def require_skill(files: Files, name: str, *, deployable: bool = False) -> None:
    """Raise `SkillInvalid` unless files make a skill of a name; with `deployable`, one that had nothing to be forgiven.

    Either is what `metier validate` says of them.
    """
    document, found = _document(files, folder=name)
    wrong = [note for note in found if note.severity == "error" or (deployable and note.code == NOT_DEPLOYABLE)]
    if wrong:
        raise SkillInvalid(
            f"It would be no valid skill. {listed(wrong)}",
            hint=for_people(
                "Correct this; `metier validate` shows all there is to say.", model="Correct this and try again."
            ),
            findings=[note.as_json() for note in wrong],
        )
    if document.skill.name != name:
        raise SkillInvalid(
            f"It would be called {shown(document.skill.name)!r}, not {shown(name)!r}.",
            hint=f"Write `name: {shown(name)}`.",
        )


def _document(files: Files, *, folder: str) -> tuple[Document, list[Diagnostic]]:
    file = next((path for path in ("SKILL.md", *files) if path in files and path.lower() == "skill.md"), None)
    mode, data = files[file] if file is not None else ("file", b"")
    if file is None or mode == "link" or len(data) > MAX_SKILL_BYTES:
        raise SkillInvalid(
            "There would be no SKILL.md.", hint=f"A skill has one, with at most {MAX_SKILL_BYTES:,} bytes."
        )
    return check(data, package_of(files), folder=folder, file=file)


def listed(found: Sequence[Diagnostic]) -> str:
    """Diagnostics in one paragraph."""
    return " ".join(
        f"{f'Line {note.line}: ' if note.line else ''}{for_anybody(note.message, note.hint)}" for note in found[:10]
    )
