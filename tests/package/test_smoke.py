"""The wheel alone, in an empty environment without compilers, on the oldest and the newest Python: every command."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.package.conftest import ROOT, program

from metier.cli.commands import COMMANDS

COMPILERS = ("cc", "gcc", "c++", "g++", "cpp", "clang", "tcc", "rustc", "cargo", "ld", "as", "cmake", "make", "ninja")
WAVE = """\
---
name: wave
description: Waves at people. Use when somebody leaves.
metadata:
  version: 1.0.0
---

Wave.
"""
READING = """\
{"session_id": "s", "cwd": "/", "hook_event_name": "PreToolUse", "tool_name": "Read", "tool_input": {"file_path": "x"}}
"""


class Use(NamedTuple):
    """A command line as somebody types it, what it says, how it ends, and its standard input."""

    line: str
    prints: str
    code: int = 0
    given: str = ""


USES = [
    Use("help add", "metier add anthropics/skills"),
    Use("completion bash", "argcomplete"),
    Use("new greet --into shared --description 'Greets people. Use when somebody arrives.'", "SKILL.md"),
    Use("validate shared/greet", "no errors"),
    Use("scan shared/greet", "nothing of severity high"),
    Use("scan rules list", "INSTRUCTION_OVERRIDE"),
    Use("add ./shared greet --to project --yes", "is installed"),
    Use("lock --check", "1 skill as locked"),
    Use("outdated", "what its sources have"),
    Use("update --all --yes", "up to date"),
    Use("install", "as locked"),
    Use("trust", "are trusted"),
    Use("list", "greet"),
    Use("search 'greet somebody'", "greet"),
    Use("show greet", "SKILL.md"),
    Use("catalog", "greet"),
    Use("listing greet", "listed"),
    Use("sync --to out", "6 added"),
    Use("pack shared/greet --to greet.zip", "greet.zip"),
    Use("registry build shared --to site", "1 release"),
    Use("publish wave --to ./registry", "wave 1.0.0 is published"),
    Use("history greet", "VERSION"),
    Use("rollback greet", "no earlier version", 2),
    Use("test shared/greet --tier form", "1 skill, no failures"),
    Use("score greet", "1 skill, "),
    Use("feedback greet --helped", "greet"),
    Use("stats", "SKILL"),
    Use("replay --all", "session"),
    Use("propose list", "No proposal waits"),
    Use("run csv-analyst peek_csv.py --runner plain -- table.csv", "amount"),
    Use("packages", "No script"),
    Use("init --dry-run", "client"),
    Use("protect claude-code --user", "PreToolUse"),
    Use("hook claude-code", "{", given=READING),
    Use("protect claude-code --user --remove", "claude-code"),
    Use("session greet", "unloaded greet"),
    Use("explain greet --command 'git log'", "git log"),
    Use("policy show", "run.limits"),
    Use("approve list", "Nobody waits"),
    Use("waiting", "Nothing waits"),
    Use("quarantine list", "quarantine"),
    Use("deploy shared/greet --reason 'A trial'", "greet"),
    Use("user list", "Nobody was added"),
    Use("audit verify", "all as they were written"),
    Use("store check", "as it should be"),
    Use("doctor", "6 skills to use, 1 shadowed"),
    Use("api GET me", "metier login", 1),
    Use("login http://127.0.0.1:1", "No token says who you are", 1),
    Use("logout", "no node of a server", 1),
    Use("node status", "no node of a server", 1),
    Use("demo", "A thousand skills"),
    Use("untrust", "no longer trusted"),
    Use("remove greet --yes", "is removed"),
    # What needs an extra says which.
    Use("agents", "pip install 'metier[agent]'", 1),
    Use("ask hello --model test", "pip install 'metier[agent]'", 2),
    Use("chat --model test", "pip install 'metier[agent]'", 2),
    Use("mcp", "pip install 'metier[mcp]'", 2),
    Use("serve", "pip install 'metier[server]'", 2),
    Use("shell -c 'echo hi'", "pip install 'metier[shell]'", 1),
]


def test_every_command_is_used() -> None:
    lines = [f"{use.line} " for use in USES]
    assert {line.partition(" ")[0] for line in lines} <= COMMANDS.keys()
    assert [name for name in COMMANDS if not any(line.startswith(f"{name} ") for line in lines)] == []


def version_of(python: str) -> tuple[int, ...]:
    """The version of an interpreter; empty where it does not start, as the stand-ins of managers of versions may."""
    command = [python, "-I", "-c", "import sys; print(*sys.version_info[:3])"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return tuple(map(int, done.stdout.split())) if done.returncode == 0 else ()


def interpreters() -> list[str]:
    """The oldest and the newest Python here of those that the package is made for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = [each.rpartition(" ")[2] for each in project["classifiers"] if " :: Python :: 3." in each]
    found = {tuple(sys.version_info[:3]): sys.executable}
    managed = Path(os.path.expanduser(f"~{os.environ.get('USER', 'root')}"), ".pyenv", "versions")
    for minor in named:
        on_path = shutil.which(f"python{minor}")
        for python in ([on_path] if on_path else []) + [str(p) for p in managed.glob(f"{minor}.*/bin/python{minor}")]:
            found.setdefault(version_of(python), python)
    found.pop((), None)
    return [found[version] for version in sorted({min(found), max(found)})]


@pytest.fixture(scope="session")
def programs_without_compilers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A folder with links to the programs of this machine but for those that compile."""
    folder = tmp_path_factory.mktemp("programs")
    for place in os.environ["PATH"].split(os.pathsep):
        for file in Path(place).iterdir() if Path(place).is_dir() else ():
            name = file.name.rpartition("-gnu-")[2]
            if not name.startswith(COMPILERS) and not (folder / file.name).is_symlink():
                (folder / file.name).symlink_to(file)
    yield str(folder)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="programs are linked and found as on a Unix")
@pytest.mark.parametrize("which", ["oldest", "newest"])
def test_every_command_of_the_wheel_works_where_nothing_can_be_compiled(
    which: str, dist: Path, programs_without_compilers: str, tmp_path: Path
) -> None:
    python = interpreters()[0 if which == "oldest" else -1]
    home, work, environment = tmp_path / "home", tmp_path / "work", tmp_path / "env"
    for folder in (home, work, tmp_path / "everybody"):
        folder.mkdir()
    path = os.pathsep.join([str(environment / "bin"), programs_without_compilers])
    assert not any(shutil.which(name, path=path) for name in ("cc", "gcc", "clang"))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("METIER_", "XDG_", "PYTHON"))}
    # Each of them is asked in a place of its own, and none of its texts is broken for a narrow terminal.
    env = {**kept, "HOME": str(home), "PATH": path, "METIER_ENTERPRISE": str(tmp_path / "everybody"), "COLUMNS": "200"}
    (wheel,) = dist.glob("*.whl")
    uv = program("uv")
    for words in (
        ["venv", "--quiet", "--python", python, str(environment)],
        [
            "pip",
            "install",
            "--quiet",
            "--python",
            str(environment / "bin" / "python"),
            "--only-binary",
            ":all:",
            str(wheel),
        ],
    ):
        done = subprocess.run([uv, *words], env={**env, "UV_PYTHON_DOWNLOADS": "never"}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    (work / "table.csv").write_text("name,amount\nada,3\n")
    (work / "wave").mkdir()
    (work / "wave" / "SKILL.md").write_text(WAVE)
    wrong = []
    for line, prints, code, given in [*(Use(f"{name} --help", "usage: metier") for name in COMMANDS), *USES]:
        command = [str(environment / "bin" / "metier"), *shlex.split(line)]
        done = subprocess.run(
            command, cwd=work, env=env, input=given, capture_output=True, encoding="utf-8", timeout=120
        )
        if done.returncode != code or prints not in done.stdout + done.stderr or "Traceback" in done.stderr:
            wrong.append(f"{line}: {done.returncode}\n{done.stdout[-600:]}{done.stderr[-600:]}")
    assert not wrong, f"Python {'.'.join(map(str, version_of(python)))}\n" + "\n".join(wrong)
