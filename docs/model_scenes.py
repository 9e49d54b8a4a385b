"""The situations in which texts for models are provoked, and what a model does in each of them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from metier.guard import Policy
from metier.guard.approvals.quarantine import quarantine
from metier.store import Person
from metier.testing import skill

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from metier import Session
    from metier.guard.question import Approve

    Step = tuple[Any, ...]
    """A step of a model: the name of an action of a dialect and its values, or `call`, a tool and its arguments."""

BUILTIN = ("Read", "Write", "Edit", "Glob", "Grep", "Bash", "WebFetch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A situation, and what a model does in it."""

    title: str
    steps: Sequence[Step]
    policy: Policy = field(default_factory=lambda: Policy(unsandboxed="allow"))
    file: str = ""
    """The text of a policy file of the user's."""
    options: Mapping[str, Any] = field(default_factory=dict)
    prepare: Callable[[Session, Path], None] | None = None
    """Changes the scene before the last step."""
    approve: Approve | None = None
    is_trusted: bool = True
    store: bool = False
    builtin: Sequence[str] = BUILTIN


ACTIONS: Mapping[str, Mapping[str, Callable[..., tuple[str, dict[str, Any]]]]] = {
    "runtime": {
        "load": lambda name: ("skills_load", {"skills": [name], "mode": "add"}),
        "unload": lambda name: ("skills_unload", {"skills": [name]}),
        "read": lambda name, path: ("skills_read", {"skill": name, "path": path}),
        "run": lambda name, script: ("skills_run", {"skill": name, "script": script}),
        "find": lambda words: ("skills_search", {"query": words}),
    },
    "tool": {
        "load": lambda name: ("skill", {"skill_name": name}),
        "unload": lambda name: ("skill", {"skill_name": name, "action": "unload"}),
        "read": lambda name, path: ("skill", {"skill_name": name, "action": "read", "args": path}),
        "run": lambda name, script: ("skill", {"skill_name": name, "action": "run", "args": script}),
        "find": lambda words: ("skill", {"skill_name": words, "action": "search"}),
    },
    "registry": {
        "load": lambda name: ("read_skill", {"skill_id": name}),
        "read": lambda name, path: ("read_skill_resource", {"skill_id": name, "path": path}),
        "find": lambda words: ("list_skills", {"query": words}),
    },
    "sandbox": {
        "load": lambda name: ("get_skill", {"skill_name": name}),
        "find": lambda words: ("get_skill", {"skill_name": words}),
    },
}
"""The calls of each dialect by action; an action that is not there cannot be done."""

LOAD = ("load", "reports")
RUN = ("run", "reports", "scripts/total.py")
BASH = ("call", "Bash", {"command": "ls"})


def _calls(tool: str, *arguments: Mapping[str, Any]) -> tuple[Step, ...]:
    return tuple(("call", tool, one) for one in arguments)


def _block(session: Session, _: Path) -> None:
    session.guard.block("reports")


def _break(_: Session, skills: Path) -> None:
    (skills / "reports" / "SKILL.md").write_text("---\nname: [\n")


def _remove(_: Session, skills: Path) -> None:
    (skills / "reports" / "SKILL.md").unlink()


def _rename(_: Session, skills: Path) -> None:
    (skills / "reports" / "SKILL.md").write_text("---\nname: other\ndescription: Is another.\n---\nOther.\n")


def _quarantine(session: Session, _: Path) -> None:
    scope = session.guard.governance.scope(session.context.actor)
    quarantine(scope, Person(name="ada", roles=frozenset({"admin"})), "name", "reports", reason="It is odd.")


def _spoil_store(session: Session, skills: Path) -> None:
    (skills.parent / "store.db").write_bytes(b"no database" * 100)


_PINS = f"skills: {{pins: {{reports: 'sha256:{'a' * 64}'}}}}"
_NO_SCRIPTS = Policy(unsandboxed="allow", scripts="deny")
_ASKED_SCRIPTS = Policy(unsandboxed="allow", scripts="ask")
SCENES: Sequence[Scene] = (
    Scene(title="A skill is loaded", steps=[LOAD, ("load", "reports"), ("load", "needs"), ("unload", "reports")]),
    Scene(title="A skill is looked for", steps=[("find", "totals of a month"), ("find", "zzz")]),
    Scene(title="A name that nothing answers to", steps=[("load", name) for name in ("raports", "zzz", " ", "../x")]),
    Scene(
        title="An agent that may know of one skill", steps=[("load", "needs")], options={"names": frozenset({"narrow"})}
    ),
    Scene(title="A skill for people", steps=[("load", "release")]),
    Scene(title="A skill that is empty", steps=[("load", "empty")]),
    Scene(title="A skill with a check that may not run", steps=[("load", "checked")]),
    Scene(
        title="A skill with a check that fails",
        steps=[("load", "checked")],
        policy=Policy(hooks="allow", unsandboxed="allow"),
    ),
    Scene(title="A skill of its own agent, where there is none", steps=[("load", "forked")]),
    Scene(title="More skills than may be active", steps=[LOAD, ("load", "needs")], options={"max_active": 1}),
    Scene(title="A skill that nobody vouches for", steps=[LOAD], is_trusted=False, policy=Policy(untrusted="deny")),
    Scene(title="A skill that nobody vouches for, to be asked about", steps=[LOAD], is_trusted=False),
    Scene(title="A skill that the program blocks", steps=[LOAD, LOAD], prepare=_block),
    Scene(title="A skill that policy denies", steps=[LOAD], file="skills: {deny: [reports]}"),
    Scene(title="A skill that policy does not list", steps=[LOAD], file="skills: {allow: [narrow]}"),
    Scene(title="A skill that policy turned off", steps=[LOAD], file="skills: {listing: {reports: off}}"),
    Scene(title="A name that is reserved", steps=[LOAD], file="skills: {reserved: [reports]}"),
    Scene(
        title="A content that policy does not pin",
        steps=[LOAD],
        file=_PINS,
    ),
    Scene(
        title="A skill without the tests that policy requires",
        steps=[LOAD],
        file="skills: {require-tests: [form], require-score: 60}",
    ),
    Scene(
        title="A rule against a skill",
        steps=[LOAD],
        file="rules: [{id: R1, point: activate, effect: deny, reason: Not here.}]",
    ),
    Scene(
        title="A rule that asks about a skill",
        steps=[LOAD],
        file="rules: [{id: R1, point: activate, effect: ask, reason: It is new.}]",
        store=True,
    ),
    Scene(
        title="An approval of the content is needed",
        steps=[LOAD],
        file="skill-policy: {require-approval-for: [scripts]}",
        store=True,
    ),
    Scene(title="A policy file that cannot be read", steps=[LOAD], file="nonsense: [\n"),
    Scene(
        title="A scanner of policy's has not looked",
        steps=[LOAD],
        file="scan: {engines: [core, {name: other, command: 'other {dir}'}]}",
        store=True,
    ),
    Scene(
        title="Files of a skill",
        steps=[
            ("read", "reports", "references/fields.md"),
            LOAD,
            *(("read", "reports", path) for path in ("references/fields.md", "references/none.md", "../x", "assets")),
            ("read", "reports", "assets/logo.bin"),
            ("read", "reports", "scripts/total.py"),
            ("read", "zzz", "a.md"),
        ],
    ),
    Scene(
        title="Scripts of a skill",
        steps=[
            RUN,
            LOAD,
            *(("run", "reports", f"scripts/{name}") for name in ("total.py", "fail.py", "none.py", "odd.xyz")),
            ("run", "reports", "../x.py"),
            ("run", "reports", "references/fields.md"),
            ("run", "reports", "scripts/total.py 'a"),
        ],
    ),
    Scene(
        title="Scripts that the program denies", steps=[LOAD, RUN], policy=Policy(unsandboxed="allow", scripts="deny")
    ),
    Scene(
        title="Scripts that the program asks about",
        steps=[LOAD, RUN],
        policy=Policy(unsandboxed="allow", scripts="ask"),
    ),
    Scene(title="Scripts that a policy file denies", steps=[LOAD, RUN, BASH], file="run: {scripts: deny}"),
    Scene(title="Scripts that a policy file asks about", steps=[LOAD, RUN, BASH], file="run: {scripts: ask}"),
    Scene(title="Nothing isolates", steps=[LOAD, RUN, BASH], policy=Policy()),
    Scene(
        title="Something is required that nothing enforces",
        steps=[LOAD, RUN, BASH],
        policy=Policy(unsandboxed="allow", require=["calls"]),
    ),
    Scene(
        title="Tools that a skill does not allow",
        steps=[
            ("load", "narrow"),
            *_calls("Write", {"file_path": "a.txt", "content": "a"}),
            *_calls("Bash", {"command": "curl example.com"}, {"command": "git status && rm a"}),
        ],
    ),
    Scene(
        title="Tools that policy denies or asks about",
        steps=[BASH, *_calls("Write", {"file_path": "a.txt", "content": "a"})],
        policy=Policy(deny="Bash(ls:*)", ask="Write"),
    ),
    Scene(
        title="Tools that a policy file denies or asks about",
        steps=[BASH, *_calls("Write", {"file_path": "a.txt", "content": "a"})],
        file="tools: {deny: ['Bash(ls:*)'], ask: [Write]}",
    ),
    Scene(
        title="Tools that do not exist, and arguments that do not fit",
        steps=[("call", "Raed", {}), ("call", "nothing", {}), ("call", "Read", {}), ("call", "Read", "{no json")],
    ),
    Scene(
        title="Commands by which people decide",
        steps=_calls("Bash", {"command": "metier approve grant 12"}, {"command": "metier trust ."}),
    ),
    Scene(
        title="Files of the workspace",
        steps=[
            *_calls("Read", {"file_path": "none.md"}, {"file_path": "/etc/shadow"}, {"file_path": "."}),
            *_calls("Write", *({"file_path": path, "content": "x"} for path in (".git/hooks/x", "../x", "folder"))),
            *_calls("Edit", {"file_path": "a.md", "old_string": "zzz", "new_string": "y"}),
            *_calls("Edit", {"file_path": "a.md", "old_string": "", "new_string": "y"}),
            *_calls("Grep", {"pattern": "("}),
            *_calls("Glob", {"pattern": "../*"}, {"pattern": "*", "path": "none"}),
            *_calls("Bash", {"command": "exit 3"}, {"command": " "}, {"command": "ls", "cwd": "none"}),
        ],
    ),
    Scene(
        title="Files of the workspace, where Read and Edit are all there is",
        steps=[
            *_calls("Read", {"file_path": "none.md"}),
            *_calls("Edit", {"file_path": "a.md", "old_string": "", "new_string": "y"}),
        ],
        builtin=("Read", "Edit"),
    ),
    Scene(
        title="Proposals",
        steps=[
            *_calls("propose_skill_update", {"skill": "zzz", "diff": "", "justification": "It is wrong."}),
            *_calls("propose_skill_update", {"skill": "reports", "diff": "no diff", "justification": "It is wrong."}),
            *_calls("propose_skill", {"name": "Bad Name", "files": {"a": "b"}, "justification": "It is needed."}),
            *_calls("propose_skill", {"name": "fine", "files": {"SKILL.md": ""}, "justification": "It is needed."}),
        ],
        options={"proposals": True},
        store=True,
    ),
    Scene(
        title="Drafts",
        steps=[
            *_calls("write_skill", {"name": "Bad Name", "description": "", "body": ""}),
            *_calls("write_skill", {"name": "fine", "description": "Does it.", "body": "Do it."}),
            *_calls("validate_skill", {"folder": "none"}, {"folder": "fine"}),
            *_calls("propose_draft", {"folder": "none", "justification": "It is needed."}),
        ],
        store=True,
    ),
    Scene(
        title="Scripts that somebody was asked about, and said no to",
        steps=[LOAD, RUN, BASH],
        policy=_ASKED_SCRIPTS,
        approve=lambda action, decision: False,
    ),
    Scene(title="A skill in quarantine", steps=[LOAD, LOAD], prepare=_quarantine, store=True),
    Scene(title="A store that cannot be read", steps=[LOAD], prepare=_spoil_store, store=True),
    Scene(title="A conversation that has ended", steps=[LOAD, RUN], prepare=lambda session, _: session.close()),
    Scene(
        title="A large file",
        steps=[
            *_calls("Read", {"file_path": "large.txt"}, {"file_path": "large.txt", "limit": 1}),
            *_calls("Write", {"file_path": "huge.txt", "content": "x" * 12_000_000}),
        ],
    ),
    Scene(
        title="A page of the web",
        steps=_calls("WebFetch", {"url": "https://example.com"}, {"url": "nonsense"}),
    ),
    Scene(title="A skill that is broken while it is used", steps=[LOAD, LOAD], prepare=_break),
    Scene(title="A skill that becomes another", steps=[LOAD, LOAD], prepare=_rename),
    Scene(title="A skill that is removed", steps=[LOAD, LOAD], prepare=_remove),
)


@cache
def _skills() -> Mapping[str, Mapping[str, str | bytes]]:
    return {
        "reports": skill(
            "reports",
            "Read references/fields.md, then run scripts/total.py.",
            description="Adds up the totals of a month.",
            files={
                "references/fields.md": "Name and amount.\n",
                "scripts/total.py": "print(42)\n",
                "scripts/fail.py": "raise SystemExit(3)\n",
                "scripts/odd.xyz": "?\n",
                "assets/logo.bin": b"\0\1\xff",
            },
        ),
        "needs": skill("needs", description="Builds on reports.", requires=["reports"]),
        "narrow": skill("narrow", description="Looks at history.", allowed_tools="Read, Bash(git:*)"),
        "release": skill("release", description="Releases.", disable_model_invocation=True),
        "checked": skill("checked", description="Is checked first.", hooks={"pre": "false"}),
        "forked": skill("forked", description="Works by itself.", context="fork"),
        "empty": {"SKILL.md": "\n"},  # a file of no bytes is waited for
    }


def write_skills(folder: Path) -> None:
    """Write the skills that all scenes have."""
    for name, files in _skills().items():
        for path, content in files.items():
            file = folder / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)
            os.utime(file, (1, 1))  # what somebody may still be writing is read with more care
