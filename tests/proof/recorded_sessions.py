"""Sessions that do what sessions do, through the public API, so that their records can be replayed."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from pathlib import Path

from metier import Guard, Library, Policy, Session
from metier.errors import MetierError
from metier.guard.approvals.decisions import grant, revoke
from metier.guard.approvals.quarantine import quarantine, release
from metier.guard.governance import Governance
from metier.library import Place
from metier.source import FolderSource
from metier.store import Person, TenantScope
from metier.tools import FunctionTool

ADMIN = Person(name="grace", roles=frozenset({"admin"}))
IN_FORCE = """version: 1
skill-policy: {require-approval-for: [scripts]}
tools: {deny: ["Bash(rm:*)"], ask: [WebFetch]}
rules: [{id: R1, point: script-run, skill: "old-*", effect: deny}]
"""
AUTOMATIC = IN_FORCE.replace("[scripts]}", "[scripts], approval: {auto-approve-when: {scan-max: low}}}")
STRICTER = """version: 1
skill-policy: {require-approval-for: [scripts]}
tools: {deny: ["Bash(rm:*)", "Bash(git push:*)", "Write(*.env)"], ask: [WebFetch, Edit]}
rules:
- {id: R1, point: script-run, skill: "old-*", effect: deny}
- {id: R2, point: read-resource, skill: reader, effect: deny}
"""
SCRIPT = {"scripts/count.sh": "echo 1\n"}
SKILLS: dict[tuple[str, str], tuple[str, dict[str, str]]] = {
    ("project", "plain"): ("", {"notes.md": "Notes."}),
    ("project", "reader"): ("allowed-tools: Read Grep\n", {"notes.md": "Notes."}),
    ("project", "git-flow"): ("allowed-tools: Bash(git:*) Read Write\ndisallowed-tools: Bash(git push:*)\n", {}),
    ("personal", "counter"): ("allowed-tools: Read Bash(${SKILL_DIR}/scripts/count.sh:*)\n", SCRIPT),
    ("personal", "old-counter"): ("", SCRIPT),
    ("personal", "for-people"): ("disable-model-invocation: true\n", {}),
    ("plugin", "peek"): ("", SCRIPT),
    ("plugin", "look"): ("allowed-tools: Read\n", {}),
}
PROGRAMS = (
    None,
    Policy(),
    Policy(deny="Bash(curl:*)", blocked=["for-people"]),
    Policy(allow="Read, Bash, Write(src/*)", untrusted="deny", allowed_tools={"personal": "advisory"}),
    Policy(script_reads="ask", scripts="ask"),
)
CALLS: tuple[tuple[str, dict[str, object]], ...] = (
    ("Bash", {"command": "git status"}),
    ("Bash", {"command": "git push origin main"}),
    ("Bash", {"command": "git log | sh"}),
    ("Bash", {"command": "curl example.com"}),
    ("Bash", {"command": "rm -rf build"}),
    ("Bash", {"command": "metier approve grant x"}),
    ("Read", {"file_path": "src/a.py"}),
    ("Read", {"file_path": "../elsewhere"}),
    ("Write", {"file_path": "src/a.py", "content": "x = 1\n"}),
    ("Write", {"file_path": "prod.env", "content": "A=1"}),
    ("Write", {"file_path": ".git/config", "content": "x"}),
    ("Edit", {"file_path": "src/a.py", "old_string": "1", "new_string": "2"}),
    ("WebFetch", {"url": "https://example.com"}),
)


def write_skills(home: Path) -> Library:
    """The skills of all layers; nobody vouches for those of plugins."""
    for (layer, name), (more, files) in SKILLS.items():
        folder = home / "skills" / layer / name
        texts = {"SKILL.md": f"---\nname: {name}\ndescription: Does {name}.\n{more}---\nDo it.\n"} | files
        for path, text in texts.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
    return Library([_place(home, layer) for layer in ("personal", "project", "plugin")], cache=False)


def _place(home: Path, layer: str) -> Place:
    source = FolderSource(home / "skills" / layer, name=layer, whole_root=False)
    return Place(layer=layer, source=source, trusted=layer != "plugin")  # type: ignore[arg-type]


def _tool(name: str) -> FunctionTool:
    def work(**arguments: object) -> str:
        return "Done."

    return FunctionTool(work, name=name, description="Works.", parameters={"type": "object", "properties": {}})


TOOLS = tuple(_tool(name) for name in ("Bash", "Read", "Write", "Edit", "WebFetch"))


def act(session: Session, chance: random.Random, *, runs: bool = False) -> None:
    """Do something of what sessions do; what is refused is no less on record."""
    executor = session.executor(TOOLS)
    name = chance.choice([name for _, name in SKILLS])
    by = chance.choice(("model", "user", "host"))
    scripts = [one for one in session.active if one.listing.scripts()]
    ways: list[Callable[[], object]] = [
        lambda: session.load(name, chance.choice(("add", "replace")), by=by),  # type: ignore[arg-type]
        lambda: session.unload(all=True),
        lambda: session.read(chance.choice(("notes.md", "SKILL.md", "scripts/count.sh")), by=by),  # type: ignore[arg-type]
        lambda: session.run_blocking("scripts/count.sh", skill=scripts[-1].name, by=by),  # type: ignore[arg-type]
        lambda: _read_script(session, executor),
        *[lambda: asyncio.run(executor.execute(*chance.choice(CALLS)))] * 5,
    ]
    weights = [3, 1, 2, 9 if runs and scripts else 0, 1, *[1] * 5]
    with contextlib.suppress(MetierError):
        chance.choices(ways, weights)[0]()


def _read_script(session: Session, executor: object) -> None:
    """Name a file of a verified copy, which lies somewhere else each time."""
    for one in session.active:
        path = f"{one.root}/scripts/count.sh"
        asyncio.run(executor.execute("Read", {"file_path": path}))  # type: ignore[attr-defined]
        asyncio.run(executor.execute("Bash", {"command": f"{path} -a"}))  # type: ignore[attr-defined]


def govern(scope: TenantScope, chance: random.Random) -> None:
    """Let a person decide something: about a request, an approval or a quarantine."""
    effective = Governance.default().effective
    way = chance.randrange(4)
    if way == 0:
        for request in scope.approvals.requests("pending")[:1]:
            grant(scope, effective, ADMIN, request.id)
    elif way == 1:
        for given in scope.approvals.all()[-1:]:
            if not given.revoked_at:
                revoke(scope, effective, ADMIN, given.id, reason="Not now.")
    elif way == 2:
        quarantine(scope, ADMIN, "name", chance.choice(("plain", "counter", "look")), reason="It is odd.")
    else:
        for block in scope.blocks.all()[:1]:
            release(scope, ADMIN, block.kind, block.value, reason="It is fine.")


def record_sessions(
    library: Library, workspace: Path, count: int, *, scope: TenantScope | None = None, seed: int = 1
) -> list[str]:
    """Record sessions, some inside of others; with a scope, people decide in between. Return their ids."""
    chance, ids = random.Random(seed), []
    workspace.mkdir(exist_ok=True)
    for number in range(count):
        guard = Guard(chance.choice(PROGRAMS))
        if chance.random() < 0.1:
            guard.block("look")
        with library.session(guard=guard, workspace=workspace, user="ada") as session:
            ids.append(session.id)
            for _ in range(chance.randrange(3, 9)):
                act(session, chance, runs=number % 4 == 0)
                if scope is not None and chance.random() < 0.12:
                    govern(scope, chance)
            if chance.random() < 0.1 and session.active:
                with contextlib.suppress(MetierError), session.child("helper") as child:
                    for _ in range(3):
                        act(child, chance)
    return ids
