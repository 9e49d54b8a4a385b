"""Attacks with content that nobody approved: what docs/explanation/governance.md promises, tried from outside.

- What is approved is a digest: one changed byte, in any file, has no approval.
- One root: while a skill is active, every tool sees a verified copy of exactly what has that digest. What somebody does
  to it is mended before the next use, or the use is refused.
- Commands see that copy too where the folder of a skill lies in the workspace, by every path that leads there.

All that comes in beside what was approved says EVIL: a case is lost if that ever comes back, or leaves a trace.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import mcp
import pytest
from tests.governance.conftest import Typed
from tests.serve.clients import talk

from metier import Guard, Library, Policy, Session
from metier.dialect import DialectName
from metier.errors import MetierError, Refused
from metier.guard import MemoryLog
from metier.guard.guard import current_user
from metier.run import NativeRunner
from metier.serve.mcp import SkillServer

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="links and shells as POSIX has them"),
    pytest.mark.covers("SEC-5"),
]

Metier = Callable[..., tuple[int, str, str]]
EVIL = "EVIL7b3"
FREE = Policy(unsandboxed="allow", script_reads="allow")
NEEDED = "version: 1\nskill-policy: {require-approval-for: [scripts]}\n"
FILES = {
    "SKILL.md": "---\nname: tool\ndescription: A tool.\n---\nIt is good.\n",
    "lib.sh": "hello() { echo good; }\n",
    "helper.py": "WORD = 'good'\n",
    "scripts/say.sh": '. "$SKILL_DIR/lib.sh"; hello\n',
    "scripts/say.py": "import os, sys\nsys.path[:0] = [os.environ['SKILL_DIR']]\nimport helper\nprint(helper.WORD)\n",
    "references/notes.md": "good notes\n",
    "package.json": '{"name": "good"}\n',
}
LIB, SAY, NOTES = "lib.sh", "scripts/say.sh", "references/notes.md"


def put(path: Path, text: str = f"echo {EVIL}\n", mode: int = 0o755) -> None:
    """Write a file, whatever was there, and whoever may not write to it."""
    for folder in (*reversed(path.parent.parents), path.parent):
        folder.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(mode)


def replace(path: Path, make: Callable[[Path], object]) -> None:
    """Have something else where a file or a folder was."""
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
    make(path)


def unnoticed(path: Path) -> None:
    """Other bytes of the same number, at the same times."""
    status, mode = path.stat(), path.stat().st_mode
    path.chmod(0o644)
    path.write_text(f"hello() {{ {EVIL};}}\n".ljust(status.st_size)[: status.st_size])
    path.chmod(mode)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def poisoned(folder: Path) -> Path:
    """A folder beside it with nothing good in it."""
    other = folder.parent.parent / f"poisoned-{folder.name}"
    for name in FILES:
        put(other / name, FILES[name].replace("good", EVIL))
    return other


def sparse(path: Path) -> None:
    put(path, EVIL)
    os.truncate(path, 8 << 30)


def linked(folder: Path, name: str) -> None:
    target = poisoned(folder) / name
    replace(folder / name, lambda path: path.symlink_to(target))


def linked_hard(folder: Path, name: str) -> None:
    target = poisoned(folder) / name
    replace(folder / name, lambda path: os.link(target, path))


CHANGES: dict[str, Callable[[Path], object]] = {
    "instructions": lambda folder: put(folder / "SKILL.md", FILES["SKILL.md"].replace("good", EVIL)),
    "a hidden file": lambda folder: put(folder / ".hidden"),
    "what a script uses": lambda folder: put(folder / LIB, f"hello() {{ echo {EVIL}; }}\n"),
    "a module of a script": lambda folder: put(folder / "helper.py", f"WORD = '{EVIL}'\n"),
    "a reference": lambda folder: put(folder / NOTES, EVIL),
    "a script beside": lambda folder: put(folder / "scripts" / "new.sh"),
    "a script": lambda folder: put(folder / SAY),
    "an empty file": lambda folder: put(folder / "empty", ""),
    "a module of that name": lambda folder: put(folder / "helper" / "__init__.py", f"WORD = '{EVIL}'\n"),
    "installed modules": lambda folder: put(folder / "node_modules" / "x" / "index.js"),
    "installed modules among scripts": lambda folder: put(folder / "scripts" / "node_modules" / "go.sh"),
    "bytecode": lambda folder: put(folder / "__pycache__" / "helper.cpython-311.pyc", EVIL),
    "a repository": lambda folder: put(folder / ".git" / "hooks" / "pre-commit"),
    "an environment": lambda folder: put(folder / ".venv" / "bin" / "python"),
    "what desktops leave": lambda folder: put(folder / ".DS_Store"),
    "a mode": lambda folder: (folder / LIB).chmod(0o755),
    "a mode that nobody may": lambda folder: (folder / LIB).chmod(0o4755),
    "a mode that closes": lambda folder: (folder / NOTES).chmod(0),
    "a name": lambda folder: (folder / LIB).rename(folder / "lib2.sh"),
    "a file less": lambda folder: (folder / LIB).unlink(),
    "a link elsewhere": lambda folder: linked(folder, LIB),
    "a hard link elsewhere": lambda folder: linked_hard(folder, LIB),
    "a folder that is a link": lambda folder: linked(folder, "scripts"),
    "a link inside": lambda folder: replace(folder / LIB, lambda path: path.symlink_to(NOTES)),
    "a pipe": lambda folder: replace(folder / LIB, os.mkfifo),
    "a pipe beside": lambda folder: os.mkfifo(folder / "pipe"),
    "a folder in its place": lambda folder: replace(folder / LIB, Path.mkdir),
    "a file of no end": lambda folder: sparse(folder / "huge"),
    "a file of no end in its place": lambda folder: sparse(folder / NOTES),
    "line ends": lambda folder: put(folder / LIB, FILES[LIB].replace("\n", "\r\n"), 0o644),
    "bytes alone": lambda folder: unnoticed(folder / LIB),
    "a name with a line end": lambda folder: put(folder / "scripts" / "a\nb.sh"),
    "all of it": lambda folder: replace(folder, lambda path: path.symlink_to(poisoned(folder))),
    "nothing any more": lambda folder: shutil.rmtree(folder),
}


class World:
    """A skill of which a person approved."""

    def __init__(self, folder: Path, work: Path) -> None:
        self.folder, self.work = folder, work
        self.restore()
        with self.session(approve=Typed()) as session:
            session.load("tool")
            for script in ("scripts/say.sh", "scripts/say.py"):
                assert session.run_blocking(script).stdout == "good\n"

    def restore(self) -> None:
        """Have the skill as it was approved."""
        if self.folder.is_symlink():
            self.folder.unlink()
        shutil.rmtree(self.folder, ignore_errors=True)
        for name, text in FILES.items():
            put(self.folder / name, text, 0o644)

    def spoil(self) -> None:
        """Change all that there is, and add more."""
        for name, text in FILES.items():
            put(self.folder / name, text.replace("good", EVIL))
        for name in (
            "new.sh",
            "later.md",
            "scripts/new.sh",
            "node_modules/x/index.js",
            "__pycache__/helper.py",
            ".env",
        ):
            put(self.folder / name)

    def session(self, policy: Policy = FREE, **options: Any) -> Session:
        """A session of that user."""
        return Library.from_folder(self.folder.parent, cache=False).session(
            guard=Guard(policy, audit=MemoryLog(), **options), workspace=self.work, user=current_user()
        )


@pytest.fixture
def world(own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A skill outside of the workspace."""
    (own_home / ".metier").mkdir()
    (own_home / ".metier" / "policy.yaml").write_text(NEEDED)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return World(tmp_path / "skills" / "tool", tmp_path / "work")


def used(session: Session) -> Iterator[object]:
    """All that a skill gives to a model that uses it."""
    root = session.loaded.one().root
    tools = session.executor(builtin=["Bash", "Read", "Grep", "Glob"])
    yield session.prompt.content()
    calls: list[tuple[str, dict[str, Any]]] = [
        ("skills_run", {"script": "scripts/say.sh"}),
        ("skills_run", {"script": "scripts/say.py"}),
        ("skills_read", {"path": NOTES}),
        ("Read", {"file_path": f"{root}/{NOTES}"}),
        ("Grep", {"pattern": EVIL, "path": root}),
        ("Glob", {"pattern": "**/*", "path": root}),
        ("Bash", {"command": f"cd {root}; . ./lib.sh; hello; timeout 5 cat $(find . -type f) < /dev/null"}),
    ]
    for call in calls:
        result = tools.execute_blocking(*call)
        yield result.result if result.success else result.error
        if not result.success:
            assert result.code not in (None, "tool-failed"), (call, result.error)


@pytest.mark.each("what", CHANGES, every=4)
def test_what_changed_before_it_is_loaded_is_not_used(world: World, what: str) -> None:
    world.restore()
    CHANGES[what](world.folder)
    with world.session() as session:
        try:
            session.load("tool")
        except MetierError:
            return
        for given in used(session):
            assert EVIL not in str(given)


@pytest.mark.each("what", CHANGES, every=6)
def test_what_somebody_does_to_the_copy_is_mended_or_refused(world: World, what: str) -> None:
    world.restore()
    with world.session() as session:
        session.load("tool")
        root = Path(session.loaded.one().root)
        root.chmod(0o755)
        for folder in ("scripts", "references"):
            (root / folder).chmod(0o755)
        CHANGES[what](root)
        for given in used(session):
            assert EVIL not in str(given)
    shutil.rmtree(root.parent.parent / f"poisoned-{root.name}", ignore_errors=True)


TOOLS: list[tuple[str, dict[str, str]]] = [
    *(
        ("skills_read", {"path": path})
        for path in (NOTES, "references/later.md", "later.md", "./later.md", "x/../later.md")
    ),
    *(("skills_read", {"path": path}) for path in ("{folder}/later.md", "references//later.md", "new.sh", ".env")),
    *(("skills_run", {"script": path}) for path in ("scripts/say.sh", "scripts/new.sh", "new.sh", "scripts/../new.sh")),
    *(("skills_run", {"script": path}) for path in ("{folder}/scripts/new.sh", "../tool/scripts/new.sh")),
    *(("Read", {"file_path": path}) for path in ("{root}/lib.sh", "{root}/later.md", "{folder}/later.md")),
    *(("Read", {"file_path": path}) for path in ("../skills/tool/lib.sh", "{root}/../../../{folder}/lib.sh")),
    *(("Grep", {"pattern": "EVIL", "path": path}) for path in ("{root}", "{folder}", "..", "{root}/..")),
    *(("Glob", {"pattern": pattern, "path": "{root}"}) for pattern in ("**/new*", "../**", "*.env", "node_modules/**")),
]
COMMANDS = [
    "cd {root}; . ./lib.sh; hello; ls -RA",
    "PYTHONPATH={root} python3 -c 'import helper; print(helper.WORD)'",
    "cp -r {root} copy; cat copy/*.* copy/*/*",
    "tar c -C {root} . | tar xO",
    "cat {root}/new.sh; sh {root}/scripts/new.sh; cat {root}/node_modules/x.js",
    "cd {root}; git log; git status",
    "cat {folder}/lib.sh",
    "cat {root}/../../*/tool/new.sh ../skills/*/new.sh",
    "f={folder}; cat ${{f%tool}}tool/new.sh",
    "cd {folder} && sh scripts/new.sh",
    "BASH_ENV={folder}/new.sh bash -c true",
    "ENV={folder}/new.sh sh -i -c true",
    "ln -s {folder} there; cat there/new.sh",
    "grep -rs EVIL7b / --include=new.sh --include=lib.sh | grep -v grep",
    "echo 'echo EV''IL7b3' > {root}/lib.sh; cat {root}/lib.sh",
    "rm -rf {root}; mv {folder} {root}; cat {root}/lib.sh",
    "mount --bind {folder} {root}; cat {root}/lib.sh",
    "unshare -rm mount --bind {folder} {root}; cat {root}/lib.sh",
    "python3 -c \"import runpy; runpy.run_path('{root}/__pycache__/helper.py')\"",
    "make -f {folder}/new.sh; awk -f {folder}/new.sh; sed -f {folder}/new.sh /dev/null; perl {folder}/new.sh",
    "cat /proc/self/root{folder}/new.sh /proc/1/root{folder}/new.sh /proc/$$/cwd/../skills/tool/new.sh",
]
INSIDE = [
    ". skills/tool/lib.sh; hello",
    "sh skills/tool/scripts/new.sh; cat skills/tool/new.sh skills/tool/.env",
    "cat s*/t*/lib.sh s*/*/new.sh",
    "cd skills; cd tool; cat lib.sh new.sh",
    "cat skills/tool/node_modules/x.js",
    "cp -r skills copy; cat copy/tool/*.*",
    "tar c skills | tar xO",
    "PYTHONPATH=skills/tool python3 -c 'import helper; print(helper.WORD)'",
    "ln -s skills/tool q; cat q/lib.sh q/new.sh",
    "mv skills s9; cat s9/tool/new.sh",
    "git init -q r; cp -r skills r; cd r; git add -A; git grep EVIL",
    "echo x > skills/tool/lib.sh; cat skills/tool/lib.sh",
    "find . -name new.sh -exec sh {{}} +; find . -type f -exec cat {{}} +",
    "cat $PWD/skills/tool/new.sh /proc/self/cwd/skills/tool/lib.sh",
    "grep -r EVIL7 .",
]


def attempted(session: Session, folder: Path, commands: list[str]) -> Iterator[tuple[str, str]]:
    """What comes of each attempt of a model that knows where the skill was loaded from."""
    tools = session.executor(builtin=["Bash", "Read", "Grep", "Glob"])
    named = {"root": session.loaded.one().root, "folder": str(folder)}
    calls: list[tuple[str, dict[str, str]]] = [*TOOLS, *(("Bash", {"command": command}) for command in commands)]
    for tool, arguments in calls:
        given = {name: value.format(**named) for name, value in arguments.items()}
        result = tools.execute_blocking(tool, given)
        assert result.code != "tool-failed", (given, result.error)
        yield (
            f"{tool} {given}",
            f"{result.result} {result.data}".replace(str(given), "").replace(given.get("command", "-"), ""),
        )


def test_whatever_changes_after_it_is_loaded_a_model_has_what_was_approved(world: World) -> None:
    with world.session() as session:
        session.load("tool")
        world.spoil()
        given = dict(attempted(session, world.folder, COMMANDS))
        assert [attempt for attempt in given if EVIL in given[attempt]] == []
        assert sum("good" in one for one in given.values()) > 5, "what was approved can still be used"
        with pytest.raises(Refused):
            world.session().load("tool")


@pytest.mark.parametrize(
    ("library", "workspace"),
    [
        ("work", "link"),
        *(
            pytest.param(*names, marks=pytest.mark.slow)
            for names in (("work", "work"), ("link", "work"), ("link", "link"))
        ),
    ],
)
def test_in_the_workspace_too_commands_have_what_was_approved(
    own_home: Path, tmp_path: Path, workspace: str, library: str
) -> None:
    from metier.run.native.runner import why_not

    if not NativeRunner().capabilities().hides_files:
        pytest.skip(why_not())
    (own_home / ".metier").mkdir()
    (own_home / ".metier" / "policy.yaml").write_text(NEEDED)
    (tmp_path / "work").mkdir()
    (tmp_path / "link").symlink_to("work")
    world = World(tmp_path / library / "skills" / "tool", tmp_path / workspace)
    with world.session() as session:
        session.load("tool")
        world.spoil()
        names = [f"cat {tmp_path}/{name}/skills/tool/*.sh" for name in ("work", "link")]
        commands = [*INSIDE, *names, "cd -P .; cat s*/t*/*"]
        lost = [attempt for attempt, given in attempted(session, world.folder, commands) if EVIL in given]
        # What is read as a file of the workspace is one; no command runs it.
        assert [attempt for attempt in lost if attempt.startswith(("Bash", "skills_"))] == []


USES: dict[str, Callable[[Session], object]] = {
    "load": lambda session: session.load("tool"),
    "load again": lambda session: (session.load("tool"), session.prompt.content()),
    "by a model": lambda session: session.load("tool", by="model"),
    "invoke": lambda session: session.invoke("/tool"),
    "activate": lambda session: session.parts.loader.activate("tool"),
    "fork": lambda session: session.fork("tool"),
    "child": lambda session: session.child("helper", bound=["tool"]).prompt.content(),
}
DIALECTS: dict[DialectName, list[tuple[str, dict[str, Any]]]] = {
    "runtime": [("skills_load", {"skills": ["tool"]}), ("skills_read", {"path": NOTES, "skill": "tool"})],
    "registry": [
        ("read_skill", {"skill_id": "tool"}),
        ("read_skill_resource", {"skill_id": "tool", "resource_name": NOTES}),
    ],
    "tool": [("skill", {"skill_name": "tool"})],
    "sandbox": [("get_skill", {"skill_name": "tool"})],
}


@pytest.mark.each("use", USES)
def test_no_use_of_a_skill_takes_what_was_not_approved(world: World, use: str) -> None:
    world.spoil()
    with world.session() as session, contextlib.suppress(MetierError):
        assert EVIL not in str(USES[use](session))


def test_no_dialect_gives_what_was_not_approved(world: World) -> None:
    world.spoil()
    for dialect, calls in DIALECTS.items():
        with world.session() as session:
            tools = session.executor(dialect=dialect)
            for call in calls:
                result = tools.execute_blocking(*call)
                assert (result.success, EVIL in f"{result.result}") == (False, False), (call, result)


def test_no_client_gets_over_mcp_what_was_not_approved(world: World) -> None:
    world.spoil()
    library = Library.from_folder(world.folder.parent, cache=False)

    async def use(client: mcp.Client) -> list[str]:
        given = [str(await client.list_tools()), str(await client.list_resources()), str(await client.list_prompts())]
        given.append(str(await client.call_tool("skills_load", {"skills": ["tool"]})))
        paths = (*FILES, "later.md", ".env")
        asking: list[Callable[[], Awaitable[object]]] = [
            functools.partial(client.get_prompt, "tool", {}),
            *(functools.partial(client.read_resource, f"skill://tool/{path}") for path in paths),
        ]
        for asked in asking:
            try:
                given.append(str(await asked()))
            except Exception as error:
                given.append(str(error))
        return given

    server = SkillServer(library, workspace=world.work, audit=MemoryLog(), user=current_user())
    with contextlib.closing(server):
        assert all(EVIL not in given for given in talk(server, use))


@pytest.mark.each(
    "words",
    [
        ("run", "tool", "scripts/say.sh"),
        ("session", "tool"),
        ("ask", "use tool", "--model", "test"),
        ("sync", "--to", "{out}"),
        ("run", "tool", "scripts/new.sh"),
    ],
)
def test_no_command_uses_what_was_not_approved(
    world: World, metier: Metier, tmp_path: Path, words: tuple[str, ...]
) -> None:
    world.spoil()
    out = tmp_path / "out"
    _, given, said = metier(
        "--skills", world.folder.parent, *(word.format(out=out) for word in words), given="/tool\nrun tool say.sh\n"
    )
    assert EVIL not in given + said
    assert not [path for path in out.rglob("*") if path.is_file() and EVIL in path.read_text()]


@pytest.mark.covers("SEC-14")
def test_a_script_is_run_and_not_read(world: World) -> None:
    with world.session(Policy(unsandboxed="allow")) as session:
        session.load("tool")
        tools = session.executor(builtin=["Read", "Grep"])
        for root in (session.loaded.one().root, str(world.folder)):
            for path in ("scripts/say.sh", "scripts/../scripts/say.sh", "scripts//say.py", "./scripts/say.sh"):
                for call in (
                    ("Read", {"file_path": f"{root}/{path}"}),
                    ("Grep", {"pattern": ".", "path": f"{root}/{path}"}),
                    ("Grep", {"pattern": ".", "path": f"{root}/scripts"}),
                    ("Grep", {"pattern": ".", "path": root}),
                    ("skills_read", {"path": f"{root}/{path}"}),
                    ("skills_read", {"path": path}),
                ):
                    result = tools.execute_blocking(*call)
                    assert "SKILL_DIR" not in f"{result.result}", call
