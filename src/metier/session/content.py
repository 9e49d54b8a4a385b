"""How the text of a skill is put before a model: inside an element of its own that it cannot close.

Instructions are Markdown and stay readable: nothing in them is escaped but the few tags that the texts around them are
made of, and those that a host or a provider might take for its own. So a body that writes `</skill_content>` or
`<available_skills>` says so in its own element, and nowhere else.
"""

from __future__ import annotations

import html
import os
from typing import TYPE_CHECKING

from metier.find.render import one_line
from metier.session.supporting import initial_context
from metier.skill.containment import contained

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metier.session.active import ActiveSkill

MARKER = "<skill_content "
"""What every piece of skill content begins with: hosts that compact a history can look for it."""
MAX_LISTED_FILES = 50


def attribute(text: str) -> str:
    """Text for the value of an attribute, on one line."""
    return contained(html.escape(one_line(text), quote=True))


def skill_content(
    active: ActiveSkill, *, run_tool: str | None = None, read_tool: str | None = None, root: str = ""
) -> str:
    """A skill as a model gets it: its instructions, its files, and what to know about both.

    `root` is where its files are for the model, if that is not where they are on disk.
    """
    root = root or active.root
    head = f'<skill_content name="{attribute(active.name)}" digest="{active.digest}" root="{attribute(root)}">'
    # Authors write `${SKILL_DIR}`, in whose place stands where the skill was loaded from.
    body = active.body.replace(active.root, root) if os.path.isabs(active.root) else active.body
    context = initial_context(body, root, active.listing)
    parts = [head, "<skill_body>", contained(context.content), "</skill_body>"]
    resources = skill_resources(active)
    if resources:
        parts.append(resources)
    parts.append("<skill_notes>")
    parts.extend(notes(active, root, run_tool=run_tool, read_tool=read_tool))
    parts.extend(attribute(line) for line in context.section().splitlines())
    parts.append("</skill_notes>")
    parts.append("</skill_content>")
    return "\n".join(parts)


def skill_resources(active: ActiveSkill) -> str:
    """The list of a skill's files, bounded; empty when it has none but its SKILL.md."""
    files = [file for file in active.listing.files if file.kind not in ("skill", "link")]
    if not files:
        return ""
    lines = [f'<skill_file kind="{file.kind}">{attribute(file.path)}</skill_file>' for file in files[:MAX_LISTED_FILES]]
    more = len(files) - MAX_LISTED_FILES
    if more > 0 or active.listing.stopped_at:
        lines.append(f'<skill_more count="{max(more, 0)}"/>')
    return "\n".join(("<skill_resources>", *lines, "</skill_resources>"))


def notes(active: ActiveSkill, root: str, *, run_tool: str | None, read_tool: str | None) -> Iterable[str]:
    """What to know about a skill, in sentences of ours."""
    name = attribute(active.name)
    yield f"Relative paths in this skill start at {attribute(root)}, in its reference files too."
    if run_tool and active.listing.scripts():
        yield f'Run its scripts with {run_tool} (skill "{name}"); do not read them first.'
    if read_tool and any(file.kind not in ("skill", "script", "link") for file in active.listing.files):
        yield f'Read its other files with {read_tool} (skill "{name}") when its instructions point to them.'
    if active.skill.allowed_tools is not None:
        allowed = ", ".join(map(attribute, active.skill.allowed_tools)) or "none"
        if active.ceiling.advisory:
            yield f"It was written for these tools, and does not restrict others: {allowed}."
        else:
            yield f"While it is active, only these tools are allowed: {allowed}."
    if active.skill.disallowed_tools:
        forbidden = ", ".join(map(attribute, active.skill.disallowed_tools))
        yield f"While it is active, these are not allowed: {forbidden}."
    if active.skill.compatibility:
        yield f"It says of what it needs: {attribute(active.skill.compatibility)}"
    if active.skill.requires:
        needed = ", ".join(map(attribute, active.skill.requires))
        yield f"It builds on these skills, which are not loaded by themselves: {needed}."
    if active.skill.hooks is not None and not active.hooks_run:
        yield "It declares hooks, which are not run here."
    if active.is_stale:
        yield "Its files have changed since it was loaded; load it again to use them."
