"""While a skill is active, every tool sees the verified copy of it, at the path that the model was told."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.tables import crossed

from metier import Guard, Library, Policy, Session
from metier.guard import MemoryLog
from metier.run import NativeRunner, PlainRunner, Runner

Write = Callable[..., Path]

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="links and shells as POSIX has them"),
    pytest.mark.covers("SEC-5"),
]

TOOLS = ("Read", "Glob", "Grep", "Bash")
FREE = Policy(unsandboxed="allow", script_reads="allow", injection="allow", hooks="allow")


# Root has no use for bubblewrap: it makes no user of its own for a job.
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
RUNNERS = ["namespaces", *([] if IS_ROOT else ["bubblewrap"]), "landlock", "plain"]
has_view = pytest.mark.parametrize(
    "runner", [name for name in RUNNERS if name not in ("landlock", "plain")], indirect=True
)


everywhere = pytest.mark.parametrize("runner", RUNNERS, indirect=True)
"""For a test of what each way has code of its own for; `make test-slow` tries all else in each, too."""


@pytest.fixture(params=[RUNNERS[0], *(pytest.param(name, marks=pytest.mark.slow) for name in RUNNERS[1:])])
def runner(request: pytest.FixtureRequest) -> Runner:
    """Each way in which commands are run here."""
    if request.param == "plain":
        return PlainRunner()
    from metier.run.native.runner import why_not, works

    if not works(request.param):
        pytest.skip(why_not())
    return NativeRunner(tier=request.param)


class World:
    """A skill that was loaded, and whose files have changed since."""

    def __init__(self, folder: Path, workspace: Path, session: Session) -> None:
        self.folder = folder
        self.workspace = workspace
        self.session = session
        self.root = session.loaded.one().root
        self._tools = session.executor(builtin=TOOLS)

    def call(self, tool: str, **arguments: Any) -> str:
        """What a tool gives, or why it does not."""
        result = self._tools.execute_blocking(tool, arguments)
        return f"{result.result or ''}{'' if result.success else f'{result.error} {result.hint}'}"

    def change(self) -> None:
        """Change all that the skill is."""
        for name in ("SKILL.md", "scripts/x.sh", "scripts/x.py", "notes.md"):
            (self.folder / name).write_text((self.folder / name).read_text().replace("approved", "changed"))
        (self.folder / "added.md").write_text("changed")
        (self.folder / "scripts" / "added.sh").write_text("echo changed")


def begin(folder: Path, workspace: Path, runner: Runner | None, log: MemoryLog | None = None, **options: Any) -> World:
    guard = Guard(options.pop("policy", FREE), audit=log)
    library = Library.from_folder(folder.parent)
    session = library.session(guard=guard, workspace=workspace, runner=runner, skills=[folder.name], **options)
    return World(folder, workspace, session)


def make_skill(write_skill: Write, folder: Path, **options: Any) -> Path:
    options.setdefault("body", "It was approved. Its files are in ${SKILL_DIR} and ${CLAUDE_SKILL_DIR}.")
    write_skill(folder, **options)
    (folder / "scripts").mkdir()
    (folder / "scripts" / "x.sh").write_text("echo approved\n")
    (folder / "scripts" / "x.py").write_text("print('approved')\n")
    (folder / "notes.md").write_text("approved\n")
    (folder / "node_modules").mkdir()
    (folder / "node_modules" / "e.sh").write_text("echo changed\n")
    return folder


@pytest.fixture
def outside(tmp_path: Path, write_skill: Write, runner: Runner, log: MemoryLog) -> World:
    """A skill whose folder lies outside of the workspace."""
    (tmp_path / "work").mkdir()
    world = begin(make_skill(write_skill, tmp_path / "skills" / "a"), tmp_path / "work", runner, log)
    world.change()
    return world


@pytest.fixture
def inside(tmp_path: Path, write_skill: Write, runner: Runner, log: MemoryLog) -> World:
    """A skill of the project that is the workspace."""
    folder = make_skill(write_skill, tmp_path / "work" / ".claude" / "skills" / "a")
    world = begin(folder, tmp_path / "work", runner, log)
    world.change()
    return world


WAYS = [
    "python3 {root}/scripts/x.py",
    "sh {root}/scripts/x.sh",
    "cd {root} && python3 scripts/x.py",
    "cd {root}/scripts; sh ./x.sh",
    "source {root}/scripts/x.sh",
    "PYTHONPATH={root}/scripts python3 -c 'import x'",
    "cat {root}/scripts/x.py | python3",
    "cp -r {root} here && sh here/scripts/x.sh",
    "cat {root}/SKILL.md {root}/notes.md",
    "python3 < {root}/scripts/x.py",
    "tar c -C {root} . | tar xO ./notes.md",
]


@everywhere
@pytest.mark.each("command", WAYS, every=3)
def test_a_command_sees_what_was_approved_at_the_root_that_was_told(outside: World, command: str) -> None:
    output = outside.call("Bash", command=command.format(root=outside.root))
    assert "approved" in output
    assert "changed" not in output


@everywhere
@pytest.mark.each("path", ["node_modules/e.sh", "scripts/added.sh", "added.md"])
def test_what_is_in_no_digest_is_not_there(outside: World, path: str) -> None:
    output = outside.call("Bash", command=f"sh {outside.root}/{path}; ls -R {outside.root}")
    assert "changed" not in output
    assert path.rpartition("/")[2] not in output.replace(f"{outside.root}/{path}", "")
    assert "not found" in outside.call("Read", file_path=f"{outside.root}/{path}")


@pytest.mark.each("command", [*WAYS, "sh {root}/node_modules/e.sh", "sh {root}/scripts/added.sh", "ls {root}"])
def test_the_folder_that_a_skill_was_loaded_from_is_not_where_commands_find_it(
    outside: World, log: MemoryLog, command: str
) -> None:
    before = len(log.records)
    output = outside.call("Bash", command=command.format(root=outside.folder))
    assert "changed" not in output
    assert f"Use the same path in {outside.root}" in output
    (record,) = [one for one in log.records[before:] if one.event == "run"]
    assert (record.decision, record.skill) == ("deny", "a")


@pytest.mark.each(
    "command",
    [
        *WAYS,
        "sh {root}/node_modules/e.sh",
        "sh {root}/scripts/added.sh",
        "cd .claude/skills && sh a/scripts/x.sh",
        "cd .claude; cd skills; cd a; cd scripts; sh x.sh",
        "cd .claude/skills/a && cat notes.md",
        "sh .claude/../.claude/skills/a/scripts/x.sh",
    ],
)
def test_files_of_the_workspace_do_not_run_as_the_skill_that_was_loaded_from_them(inside: World, command: str) -> None:
    output = inside.call("Bash", command=command.format(root=inside.folder))
    assert "changed" not in output
    assert "approved" in output or "No such file" in output or "not found" in output


@crossed(("library", ["work", "link", "other"]), ("way", ["work", "link", "other"]), one_in=3)
def test_a_workspace_that_goes_by_several_names_shows_the_approved_skill_by_each(
    tmp_path: Path, write_skill: Write, runner: Runner, library: str, way: str
) -> None:
    make_skill(write_skill, tmp_path / "work" / "skills" / "a")
    for name in ("link", "other"):
        (tmp_path / name).symlink_to(tmp_path / "work")
    world = begin(tmp_path / library / "skills" / "a", tmp_path / "link", runner)
    world.change()
    for folder in ("skills/a", f"{tmp_path / way}/skills/a"):
        command = f"cd {folder}; cat notes.md; sh scripts/x.sh; sh node_modules/e.sh; sh scripts/added.sh"
        assert "changed" not in world.call("Bash", command=command)
    if runner.capabilities().hides_files:
        told = world.call("Bash", command="cat s*/*/notes.md; cd -P .; pwd; cat s*/*/notes.md s*/*/added.md")
        assert ("approved" in told, "changed" in told) == (True, False)


@has_view
def test_keys_in_a_workspace_that_goes_by_several_names_are_hidden_by_each(
    tmp_path: Path, write_skill: Write, runner: Runner
) -> None:
    folder = make_skill(write_skill, tmp_path / "work" / "skills" / "a")
    (tmp_path / "work" / ".ssh").mkdir()
    (tmp_path / "work" / ".ssh" / "id").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "work")
    world = begin(folder, tmp_path / "link", runner)
    command = f"cat .ssh/id {tmp_path}/*/.ssh/id; cd -P .; cat .ssh/id; echo done"
    output = world.call("Bash", command=command)
    assert ("done" in output, "secret" in output) == (True, False)


MOUNTED_TWICE = """
import subprocess, sys
from metier import Guard, Library, Policy
from metier.run import NativeRunner
for case in sys.argv[1:]:
    bound, at, library, workspace, changed = case.split(":")
    subprocess.run(["mount", "--bind", bound, at], check=True)
    with Library.from_folder(library).session(
        guard=Guard(Policy()), workspace=workspace, runner=NativeRunner(), skills=["a"]
    ) as session:
        with open(changed + "/notes.md", "w") as file:
            file.write("changed")
        told = session.executor(builtin=["Bash"]).execute_blocking("Bash", {"command": "cat s*/a/notes.md"})
    print(repr(told.result), flush=True)
"""


if IS_ROOT:  # nobody else can mount anything where the sandbox of a job still works

    @pytest.mark.slow
    def test_a_skill_that_is_mounted_in_the_workspace_too_is_covered_there(tmp_path: Path, write_skill: Write) -> None:
        from metier.run.native.runner import why_not, works

        if not works("namespaces"):
            pytest.skip(why_not())
        cases = []
        for number, (skills, library, bound, at) in enumerate(
            [
                ("work/skills", "other/skills", "work", "other"),
                ("work/skills", "other", "work/skills", "other"),
                ("skills", "skills", "skills", "work/skills"),
                ("skills", "skills", "skills/a", "work/skills/a"),
            ]
        ):
            top = tmp_path / str(number)
            for name in ("work", "other", at):
                (top / name).mkdir(parents=True, exist_ok=True)
            folder = make_skill(write_skill, top / skills / "a")
            cases.append(":".join(map(str, (top / bound, top / at, top / library, top / "work", folder))))
        command = ["unshare", "--mount", sys.executable, "-c", MOUNTED_TWICE, *cases]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.stdout.splitlines() == [repr("approved")] * len(cases), done


@has_view
def test_a_skill_of_the_workspace_that_cannot_be_verified_any_more_is_not_there(inside: World) -> None:
    shutil.rmtree(inside.root)
    output = inside.call("Bash", command="find . -name x.sh -exec sh {} +; cat .cl*/sk*/a/no*; echo done")
    said = output.replace("have changed since", "")
    assert ("done" in said, "changed" in said) == (True, False), output


@has_view
def test_where_a_job_has_a_view_no_command_sees_what_became_of_a_skill(inside: World) -> None:
    for command in (
        "find . -name x.sh -exec sh {} +",
        "grep -r changed . || echo approved",
        "cat $(ls -d .cl*)/sk*/a/no*",
    ):
        output = inside.call("Bash", command=command)
        assert ("approved" in output, "changed" in output) == (True, False), command


def test_what_is_protected_in_a_folder_of_a_skill_is_seen_as_it_was_approved(
    tmp_path: Path, write_skill: Write, runner: Runner
) -> None:
    folder = make_skill(write_skill, tmp_path / "work" / "kept" / "a")
    names = ("AGENTS.md", ".npmrc", "scripts/.envrc")
    for name in names:
        (folder / name).write_text("approved\n")
    world = begin(folder, tmp_path / "work", runner)
    for name in (*names, ".bashrc", ".mcp.json"):
        (folder / name).write_text("changed\n")
    (folder / ".vscode").mkdir()
    at = world.root if not runner.capabilities().hides_files else "kept/a"
    output = world.call("Bash", command=f"cd {at}; cat {' '.join(names)} .bashrc .mcp.json; ls -A; echo done")
    assert ("approved\napproved\napproved" in output, "changed" in output) == (True, False)
    assert ".vscode" not in output
    assert "done" in output


@has_view
def test_a_skill_of_the_workspace_whose_scripts_may_not_run_is_not_there_for_commands(
    tmp_path: Path, write_skill: Write, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "policy.yaml").write_text("version: 1\nrules:\n  - {point: script-run, skill: a, effect: deny}\n")
    monkeypatch.setenv("METIER_POLICY", str(tmp_path / "policy.yaml"))
    folder = make_skill(write_skill, tmp_path / "work" / ".claude" / "skills" / "a")
    world = begin(folder, tmp_path / "work", runner)
    output = world.call("Bash", command="ls *; find . -name 'x.*' -exec sh {} +; cat .cl*/s*/*/scr*/*; echo done")
    assert ("done" in output, "approved" in output) == (True, False)


def test_a_workspace_that_is_the_folder_of_a_skill_can_be_worked_in(
    tmp_path: Path, write_skill: Write, runner: Runner
) -> None:
    folder = make_skill(write_skill, tmp_path / "skills" / "a")
    world = begin(folder, folder, runner)
    world.change()
    assert "changed" in world.call("Bash", command="cat added.md")
    output = world.call("Bash", command="sh scripts/x.sh; cat SKILL.md")
    assert ("approved" in output) == runner.capabilities().hides_files


def test_files_are_read_and_searched_as_they_were_approved(outside: World) -> None:
    assert "approved" in outside.call("Read", file_path=f"{outside.root}/SKILL.md")
    assert "approved" in outside.call("Read", file_path=f"{outside.root}/notes.md")
    assert outside.call("Glob", pattern="**/*", path=outside.root).split() == [
        "SKILL.md", "notes.md", "scripts/x.py", "scripts/x.sh",
    ]  # fmt: skip
    assert "changed" not in outside.call("Grep", pattern=".", path=outside.root)
    assert "leaves the workspace" in outside.call("Read", file_path=f"{outside.folder}/notes.md")


def test_a_command_can_work_in_the_root(outside: World) -> None:
    assert outside.call("Bash", command="sh scripts/x.sh; pwd", cwd=outside.root).split() == ["approved", outside.root]


def test_all_that_a_model_is_told_names_the_same_root(outside: World) -> None:
    session, root = outside.session, outside.root
    item = session.parts.loader.receipt().active[0]
    told = session.prompt.content()
    assert (item.root_dir, item.location) == (root, f"{root}/SKILL.md")
    assert f'root="{root}"' in told
    assert f"Its files are in {root} and {root}." in told
    assert f'root="{root}"' in session.instructions()
    for dialect in ("runtime", "tool", "registry", "sandbox"):
        tools = session.executor(dialect=dialect)
        shown = [str(tool.definition) if hasattr(tool, "definition") else tool.description for tool in tools.registry]
        loading = {"runtime": ("skills_load", {"skills": ["a"]}), "tool": ("skill", {"skill_name": "a"})}
        loading |= {"registry": ("read_skill", {"skill_id": "a"}), "sandbox": ("get_skill", {"skill_name": "a"})}
        result = tools.execute_blocking(*loading[dialect])
        assert str(outside.folder) not in f"{result.result} {result.data}", dialect
        assert dialect == "sandbox" or str(outside.folder) not in "".join(shown)


def test_reading_serves_what_was_loaded_and_says_that_it_changed(outside: World) -> None:
    for path in ("notes.md", f"{outside.root}/notes.md"):
        found = outside.session.read(path)
        assert (found.content, found.is_stale) == ("approved\n", True)
    assert [file.path for file in outside.session.loaded.one().listing.files] == [
        "SKILL.md", "notes.md", "scripts/x.py", "scripts/x.sh",
    ]  # fmt: skip


def test_a_copy_that_was_changed_is_mended_before_any_tool_sees_it(outside: World) -> None:
    (outside.folder / "scripts" / "added.sh").unlink()
    (outside.folder / "added.md").unlink()
    for path in outside.folder.rglob("*"):
        if path.is_file() and "node_modules" not in path.parts:
            path.write_text(path.read_text().replace("changed", "approved"))
    for spoil in ("write", "add", "remove"):
        script = Path(outside.root, "scripts", "x.sh")
        if spoil == "write":
            script.chmod(0o644)
            script.write_text("echo changed")
        elif spoil == "add":
            (script.parent / "__pycache__").mkdir()
            (script.parent / "__pycache__" / "x.sh").write_text("echo changed")
        else:
            script.unlink()
        output = outside.call("Bash", command=f"cat {outside.root}/scripts/*.sh {outside.root}/scripts/__pycache__/*")
        assert ("approved" in output, "changed" in output) == (True, False), spoil
        assert "approved" in outside.call("Read", file_path=str(script))


@everywhere
def test_a_skill_that_cannot_be_verified_any_more_is_not_there_and_it_is_said(outside: World) -> None:
    shutil.rmtree(outside.root)
    assert "not found" in outside.call("Read", file_path=f"{outside.root}/notes.md")
    assert "No such file" in outside.call("Bash", command=f"cat {outside.root}/notes.md")
    for call in (outside.session.read, outside.session.run_blocking):
        with pytest.raises(Exception, match="have changed since it was loaded") as caught:
            call("scripts/x.sh")
        assert getattr(caught.value, "hint", "") == "Load it again."


def test_links_that_lead_out_of_a_skill_lead_nowhere(tmp_path: Path, write_skill: Write, runner: Runner) -> None:
    folder = make_skill(write_skill, tmp_path / "skills" / "a")
    (tmp_path / "secret").write_text("changed")
    (folder / "up").symlink_to("../../secret")
    (folder / "whole").symlink_to(tmp_path)
    (folder / "modules").symlink_to("node_modules")
    (folder / "fine.md").symlink_to("notes.md")
    (tmp_path / "work").mkdir()
    world = begin(folder, tmp_path / "work", runner)
    output = world.call("Bash", command=f"cd {world.root}; cat up whole/secret; sh modules/e.sh; cat fine.md")
    assert ("approved" in output, "changed" in output) == (True, False)


def test_hooks_and_commands_in_instructions_run_from_the_root_that_is_told(
    tmp_path: Path, write_skill: Write, runner: Runner
) -> None:
    more = "allowed-tools: Bash\nhooks:\n  pre: scripts/tell.sh\n"
    folder = tmp_path / "skills" / "a"
    write_skill(folder, more=more, body="Told: !`sh ${SKILL_DIR}/tell.sh` !`env`")
    (folder / "scripts").mkdir()
    (folder / "scripts" / "tell.sh").write_text('printf %s "$SKILL_DIR" > told')
    (tmp_path / "work").mkdir()
    os.chmod(tmp_path / "work", 0o777)
    world = begin(folder, tmp_path / "work", runner)
    assert (tmp_path / "work" / "told").read_text() == world.root
    assert f"SKILL_DIR={world.root}\n" in world.session.prompt.content()


def test_a_skill_whose_message_is_sent_leads_to_a_verified_copy(tmp_path: Path, write_skill: Write) -> None:
    folder = make_skill(
        write_skill, tmp_path / "skills" / "a", more="insert: user-message\n", body="See ${SKILL_DIR}/notes.md"
    )
    (tmp_path / "work").mkdir()
    session = Library.from_folder(folder.parent).session(workspace=tmp_path / "work")
    sent = session.invoke("/a")
    assert sent is not None
    told = Path(sent.text.removeprefix("See ").strip())
    (folder / "notes.md").write_text("changed")
    assert told.read_text() == "approved\n"
    session.close()
    assert not told.exists()


@pytest.mark.covers("SEC-14")
def test_a_search_passes_over_the_scripts_that_reading_refuses(tmp_path: Path, write_skill: Write) -> None:
    folder = make_skill(write_skill, tmp_path / "work" / ".claude" / "skills" / "a")
    world = begin(folder, tmp_path / "work", None, policy=Policy(unsandboxed="allow"))
    for path in (world.root, str(folder), "."):
        found = world.call("Grep", pattern="approved", path=path)
        assert "notes.md:1:approved" in found
        assert "x.sh:1" not in found
        assert "[Scripts of skills were passed over: run them instead of reading them]" in found
    for tool, name in (("Grep", "path"), ("Read", "file_path")):
        refused = world.call(
            tool, **{name: f"{world.root}/scripts/x.sh"}, **({"pattern": "."} if tool == "Grep" else {})
        )
        assert "run it instead of reading it" in refused
    assert world.call("Glob", pattern="scripts/*", path=world.root).split() == ["scripts/x.py", "scripts/x.sh"]


@pytest.mark.covers("SEC-14")
def test_policy_may_let_scripts_be_searched(tmp_path: Path, write_skill: Write) -> None:
    (tmp_path / "work").mkdir()
    world = begin(make_skill(write_skill, tmp_path / "skills" / "a"), tmp_path / "work", None)
    assert "scripts/x.sh:1:echo approved" in world.call("Grep", pattern="echo", path=world.root)


HIDDEN = "plain\x1b]0;title\x07 \u202ereversed \U000e0041tag\r\nnext\tline\n"
SHOWN = "plain\\x1b]0;title\\x07 \\u202ereversed \\U000e0041tag\r\nnext\tline\n"


@pytest.mark.covers("SEC-22")
def test_what_acts_on_a_screen_or_hides_is_shown_to_whoever_reads_a_file(tmp_path: Path, write_skill: Write) -> None:
    folder = make_skill(write_skill, tmp_path / "skills" / "a")
    (folder / "hidden.md").write_bytes(HIDDEN.encode())
    (folder / "scripts" / "say.py").write_text(f"import sys; sys.stdout.buffer.write({HIDDEN.encode()!r})")
    (tmp_path / "work").mkdir()
    world = begin(folder, tmp_path / "work", PlainRunner())
    tools = world.session.executor()
    read = tools.execute_blocking("skills_read", {"path": "hidden.md"})
    assert SHOWN in read.result
    assert "base64 gives all as it is" in read.result
    assert SHOWN in tools.execute_blocking("skills_run", {"script": "scripts/say.py"}).result["stdout"]
    assert SHOWN in world.call("Read", file_path=f"{world.root}/hidden.md")
    assert SHOWN.strip() in world.call("Bash", command=f"cat {world.root}/hidden.md")
    assert SHOWN.splitlines()[0] in world.call("Grep", pattern="plain", path=world.root)
    assert world.session.read("hidden.md").content == HIDDEN, "a program gets it as it is"


@pytest.mark.covers("SEC-22")
@pytest.mark.parametrize(
    "text",
    [
        "caf\xe9\xa0\u3000\u4e16\u754c",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\U0001f468\u200d\U0001f469\ufe0f",
        "a\r\nb\tc\n",
    ],
)
def test_ordinary_text_stays_as_it_is(tmp_path: Path, write_skill: Write, text: str) -> None:
    folder = make_skill(write_skill, tmp_path / "skills" / "a")
    (folder / "text.md").write_bytes(text.encode())
    (tmp_path / "work").mkdir()
    world = begin(folder, tmp_path / "work", None)
    read = world.session.executor().execute_blocking("skills_read", {"path": "text.md"})
    assert f">\n{text}\n</skill_resource>" in read.result
    assert world.call("Read", file_path=f"{world.root}/text.md") == text


def test_sessions_that_nobody_has_any_more_hold_up_no_other(tmp_path: Path, write_skill: Write) -> None:
    for name in ("a", "b"):
        write_skill(tmp_path / "skills" / name)
    # What is dropped in a circle goes whenever the interpreter looks for it: here, while a copy is laid aside.
    program = f"""
import gc, os
from metier import Library
library = Library.from_folder({str(tmp_path / "skills")!r})
circle = [library.session(skills=["a"])]
circle.append(circle)
gc.disable()
del circle
rename, found = os.rename, []
os.rename = lambda *paths: (found.append(gc.collect()), rename(*paths))
with library.session(skills=["b"]) as session:
    print(session.active[0].name)
print(max(found) > 0)
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, timeout=60, capture_output=True, text=True)
    assert done.stdout == "b\nTrue\n"
