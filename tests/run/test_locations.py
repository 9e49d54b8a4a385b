"""Wherever the virtual environment and the interpreter lie, and by whatever links they are reached."""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import metier
from metier.run import NativeRunner, environment

pytestmark = [
    pytest.mark.covers("ENV-2"),
    pytest.mark.skipif(sys.platform != "linux", reason="sandboxes are made by Linux"),
]
BASE = os.path.realpath(sys.base_prefix)
PROGRAM = os.path.basename(os.path.realpath(sys.executable))
HERE = """
import json, sys
from metier.run import AutoRunner, Job, VirtualRunner, command_for
from metier.run.virtual import VirtualShell

folder = sys.argv[1]
with VirtualShell() as shell, VirtualRunner() as runner:
    said = shell.execute("echo $((6 * 7))")
    able = runner.capabilities()
job = Job(argv=command_for(folder + "/where.py"), folder=folder)
ran = AutoRunner().run_blocking(job) if AutoRunner().capabilities().isolates_files else None
print(json.dumps([said.stdout, able.isolates_files, None if ran is None else [ran.exit_code, ran.stdout, ran.stderr]]))
"""


def make_environment(folder: Path, *, home: str = f"{BASE}/bin", is_copy: bool = False) -> Path:
    """A virtual environment with the packages of this one."""
    packages = folder / "lib" / "python{}.{}".format(*sys.version_info) / "site-packages"
    packages.mkdir(parents=True)
    (folder / "bin").mkdir()
    source = str(Path(metier.__file__).parents[1])
    (packages / "all.pth").write_text("\n".join([source, *site.getsitepackages()]))
    (folder / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = false\n")
    program = folder / "bin" / "python3"
    if is_copy:
        shutil.copy(f"{home}/{PROGRAM}", program)
    else:
        program.symlink_to(f"{home}/{PROGRAM}")
    return program


def plain(folder: Path) -> Path:
    return make_environment(folder / "venv")


def link_to_environment(folder: Path) -> Path:
    program = make_environment(folder / "elsewhere" / "venv")
    (folder / "venv").symlink_to(program.parents[1])
    return folder / "venv" / "bin" / "python3"


def link_to_programs(folder: Path) -> Path:
    program = make_environment(folder / "elsewhere")
    (folder / "venv").mkdir()
    for name in ("lib", "pyvenv.cfg"):
        (program.parents[1] / name).rename(folder / "venv" / name)
        (program.parents[1] / name).symlink_to(folder / "venv" / name)
    (folder / "venv" / "bin").symlink_to(program.parent)
    return folder / "venv" / "bin" / "python3"


def link_to_project(folder: Path) -> Path:
    make_environment(folder / "real" / "project" / "venv")
    (folder / "project").symlink_to(folder / "real" / "project")
    return folder / "project" / "venv" / "bin" / "python3"


def links_in_a_chain(folder: Path) -> Path:
    """As tools make it that install interpreters side by side: `current`, to a minor version, to one of its patches."""
    (folder / "3.x").symlink_to(BASE)
    (folder / "current").symlink_to("3.x")
    program = make_environment(folder / "venv", home=f"{folder}/current/bin")
    (program.parent / "python").symlink_to("python3")
    return program.parent / "python"


def copy_of_the_program(folder: Path) -> Path:
    return make_environment(folder / "venv", is_copy=True)


def blanks_and_letters(folder: Path) -> Path:
    return make_environment(folder / "mit Blank, äöü 日本" / "venv")


@pytest.mark.parametrize(
    "made",
    [
        links_in_a_chain,
        copy_of_the_program,
        *(
            pytest.param(made, marks=pytest.mark.slow)
            for made in (plain, link_to_environment, link_to_programs, link_to_project, blanks_and_letters)
        ),
    ],
)
def test_the_shell_and_scripts_work_from_any_environment(made: Callable[[Path], Path], tmp_path: Path) -> None:
    folder = tmp_path.resolve()
    if made is copy_of_the_program and os.path.realpath(sys.base_exec_prefix) == "/usr":
        pytest.skip("a copy of the system's interpreter finds its library without its environment")
    program = made(folder)
    (folder / "work").mkdir(mode=0o777)
    (folder / "work" / "where.py").write_text("import json, sys; print(json.dumps([sys.base_prefix, sys.prefix]))")
    done = subprocess.run(
        [program, "-c", HERE, folder / "work"],
        capture_output=True,
        text=True,
        timeout=120,
        env={"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(folder), "LANG": "C.UTF-8"},
    )
    assert done.returncode == 0, done.stderr
    shell, claims, script = json.loads(done.stdout)
    assert (shell, claims) == ("42\n", True)
    if NativeRunner().tier is None:
        assert script is None
        return
    code, out, err = script
    assert code == 0, err
    base, prefix = json.loads(out)
    assert os.path.realpath(base) == BASE
    assert os.path.realpath(prefix).startswith(str(folder)), "the environment is the script's too"


def test_what_is_started_without_an_environment_is_named_by_its_real_path() -> None:
    assert environment.own_python() == os.path.realpath(environment.own_python())
    assert not os.path.exists(os.path.join(os.path.dirname(os.path.dirname(environment.own_python())), "pyvenv.cfg"))


def test_a_program_leads_to_others_by_links_and_by_the_settings_of_its_environment(tmp_path: Path) -> None:
    program = links_in_a_chain(tmp_path)
    behind = environment.programs_behind(str(program))
    assert behind[0] == str(program)
    assert {str(program.parent / "python3"), f"{tmp_path}/current/bin/{PROGRAM}"} < set(behind)
    assert os.path.realpath(program) in behind


@pytest.mark.parametrize("home", ["", "relative/bin", "{folder}/without/bin", "/no/such/folder", "\0"])
def test_settings_that_name_no_interpreter_lead_nowhere(home: str, tmp_path: Path) -> None:
    (tmp_path / "without" / "bin").mkdir(parents=True)
    (tmp_path / "without" / "lib").mkdir()
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "pyvenv.cfg").write_text(f"home = {home.format(folder=tmp_path)}\n")
    (tmp_path / "venv" / "bin" / "python3").touch()
    program = str(tmp_path / "venv" / "bin" / "python3")
    assert environment.programs_behind(program) == tuple(dict.fromkeys((program, os.path.realpath(program))))


def test_links_that_lead_in_a_circle_end_somewhere(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert {str(tmp_path / "a"), str(tmp_path / "b")} <= set(environment.programs_behind(str(tmp_path / "a")))
