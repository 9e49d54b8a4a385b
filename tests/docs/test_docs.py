"""Every code block of the documentation is run, or checked for what it is."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import mcp.client.stdio  # noqa: F401  # keeps the streams of whoever imports it first: not those of one test
import pytest
import yaml
from tests.conftest import variables

from metier.cli import main
from metier.cli.parser import parse

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md")])
FENCE = re.compile(r"^```(?P<language>\w+)(?: file=(?P<file>\S+))?\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)

SLOW = {
    f"docs/how-to/{name}.md"
    for name in ("agents", "approvals", "audit", "proposals", "scan", "search", "telemetry", "testing")
}
"""Pages whose blocks need seconds: they start agents and other programs, or call dozens of commands."""

DECIDING = re.compile(r"\b(user add|user token|approve grant|quarantine release|propose approve|rollback|deploy) ")


class Block(NamedTuple):
    language: str
    file: str | None
    code: str
    line: int


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(match["language"], match["file"], match["code"], text.count("\n", 0, match.start()) + 1)
        for match in FENCE.finditer(text)
    ]


@pytest.fixture
def path(programs: Path) -> str:
    """Where programs are found by somebody who has installed the command; most of its calls need not start anew."""
    return os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])


@pytest.mark.covers("USE-11")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] if page.relative_to(ROOT).as_posix() in SLOW else [])
        for page in PAGES
    ],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_each_block_of_a_page_runs_alone(
    page: Path, path: str, tmp_path: Path, homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder and a home of its own, with the files that the page shows before it and nothing else."""
    monkeypatch.setenv("PATH", path)
    assert page.read_text(encoding="utf-8").count("\n```") % 2 == 0, "a fence is not closed"
    before = tuple(sys.path)
    files: dict[str, str] = {}
    wrong: list[str] = []
    for number, block in enumerate(blocks_of(page)):
        if block.file is not None:
            files[block.file] = block.code
            continue
        work = tmp_path / str(number)
        if block.language in ("python", "console"):
            for variable, folder in variables(next(homes)).items():
                monkeypatch.setenv(variable, folder)
            write(files, work)
            monkeypatch.chdir(work)
            monkeypatch.setattr(sys, "path", [str(work), *before])
        try:
            run(block, work)
        except Exception as error:
            wrong.append(f"{page.relative_to(ROOT)}:{block.line}: {type(error).__name__}: {error}")
        for name in [name for name in files if name.endswith(".py")]:
            sys.modules.pop(name.removesuffix(".py"), None)
    assert not wrong, "\n".join(wrong)


@pytest.mark.covers("USE-11")
def test_the_text_names_each_file_that_a_page_shows() -> None:
    """The name that a fence has is seen by nobody who reads the page."""
    unnamed = [
        f"{page.relative_to(ROOT)}:{block.line} {block.file}"
        for page in PAGES
        for block in blocks_of(page)
        if block.file and block.file not in FENCE.sub("", page.read_text(encoding="utf-8"))
    ]
    assert unnamed == []


def write(files: dict[str, str], work: Path) -> None:
    work.mkdir()
    for name, text in files.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text, encoding="utf-8")


def run(block: Block, work: Path) -> None:
    if block.language == "python":
        run_python(block.code)
    elif block.language == "console":
        run_console(block.code, work)
    elif block.language == "sh":
        check_make_targets(block.code)
    elif block.language == "json":
        json.loads(block.code)
    elif block.language == "toml":
        tomllib.loads(block.code)
    elif block.language == "yaml":
        yaml.safe_load(block.code)
    else:
        assert block.language == "text", f"nobody runs {block.language}"


def run_python(code: str) -> None:
    """Run code that may `await` at its top level, as in a notebook."""
    names: dict[str, Any] = {"__name__": "docs"}
    found = eval(compile(code, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    if inspect.iscoroutine(found):
        asyncio.run(found)


def run_console(code: str, work: Path) -> None:
    """Commands after `$ `, each with the output it must give; `...` stands for anything."""
    for part in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        status, out, err = (called if is_plain(command) else started)(command, work)
        assert status == 0, f"{command}: exit {status}: {err}"
        pattern = re.escape(expected.strip()).replace(r"\.\.\.", ".*?")
        assert re.fullmatch(pattern, out.strip(), flags=re.DOTALL), f"{command} printed:\n{out}"


def is_plain(command: str) -> bool:
    """Whether neither a shell nor a terminal is asked for, so that a call in this process does the same."""
    return command.startswith("metier ") and not re.search(r"[|&;<>$`*?~\\#]", command) and not DECIDING.search(command)


def started(command: str, work: Path) -> tuple[int, str, str]:
    # Plugins that frameworks bring would be loaded into every pytest, though nothing here uses them.
    env = {**os.environ, "NO_COLOR": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    with typed() if DECIDING.search(command) else contextlib.nullcontext(subprocess.DEVNULL) as stdin:
        done = subprocess.run(
            ["bash", "-c", command], cwd=work, env=env, stdin=stdin, capture_output=True, text=True, timeout=60
        )
    return done.returncode, done.stdout, done.stderr


def called(command: str, work: Path) -> tuple[int, str, str]:
    assert work == Path.cwd()
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with (
        pytest.MonkeyPatch.context() as patch,
        open(os.devnull, encoding="utf-8") as stdin,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.setenv("NO_COLOR", "1")
        patch.setattr(sys, "stdin", stdin)
        patch.setattr(sys, "__stdin__", stdin)
        try:
            code = main(shlex.split(command)[1:])
        except SystemExit as leaving:
            code = int(leaving.code or 0)
    said, complained = (stream.buffer.getvalue().decode() for stream in (out, err))
    return code, said, complained


@contextlib.contextmanager
def typed() -> Iterator[int]:
    """The input of a command that somebody types: of what people decide, a script decides nothing."""
    if not hasattr(os, "openpty"):
        yield subprocess.DEVNULL
        return
    keyboard, terminal = os.openpty()
    try:
        yield terminal
    finally:
        os.close(terminal)
        os.close(keyboard)


def check_make_targets(code: str) -> None:
    for line in code.splitlines():
        command = line.partition("#")[0].split()
        assert command[0] == "make"
        subprocess.run([*command, "--dry-run"], cwd=ROOT, check=True, capture_output=True, timeout=60)


def test_the_reference_pages_are_up_to_date(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    monkeypatch.setattr(sys, "argv", ["generate.py", "--check"])
    import generate

    assert generate.main() == 0, capsys.readouterr().err


def test_the_first_screen_says_how_to_install_it_add_a_skill_protect_a_client_and_equip_an_agent() -> None:
    screen = "\n".join((ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:30])
    lines, agent = (match["code"].splitlines() for match in list(FENCE.finditer(screen))[:2])
    commands = [line.partition("#")[0].split() for line in lines]
    assert [words[:2] for words in commands] == [["pipx", "install"], ["metier", "add"], ["metier", "protect"]]
    for words in commands[1:]:
        parse(words[1:], Namespace())  # ends the program where there is no such command
    assert [bool(line) for line in agent].count(True) == 3


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)} -> {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#:\s]+)\)", FENCE.sub("", page.read_text(encoding="utf-8")))
        if not (page.parent / target).exists()
    ]
    assert broken == []
