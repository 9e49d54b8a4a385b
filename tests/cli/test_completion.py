"""Shell completion, in a real shell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Call = Callable[..., tuple[int, str, str]]
Write = Callable[..., Path]

# What bash does when somebody presses the tab key: set these variables, call the function, offer its reply.
_SCRIPT = """
eval "$SCRIPT"
complete -p metier > /dev/null || exit 9
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9
_python_argcomplete metier
for word in "${COMPREPLY[@]}"; do printf '%s\\n' "${word% }"; done
"""


@pytest.fixture(scope="module")
def script(programs: Path) -> str:
    """The script that the command prints for bash."""
    if shutil.which("bash") is None or not Path(sys.executable).with_name("metier").exists():
        pytest.skip("bash or the installed command is missing")
    command = [str(programs / "metier"), "completion", "bash"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.fixture
def shell(script: str, programs: Path) -> dict[str, str]:
    """What there is in a shell of somebody who has set completion up, with a command that passes no descriptor on."""
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {"PATH": path, "SCRIPT": script, "ARGCOMPLETE_USE_TEMPFILES": "1"}


@pytest.fixture
def complete(shell: dict[str, str], tmp_path: Path) -> Callable[[str], list[str]]:
    """The words that bash offers after a line."""

    def offer(line: str) -> list[str]:
        done = subprocess.run(
            ["bash", "--norc", "-c", _SCRIPT, "bash", line],
            env={**os.environ, **shell},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    return offer


@pytest.fixture
def skills(write_skill: Write, tmp_path: Path) -> Path:
    for name in ("deploy", "deliver", "review"):
        write_skill(tmp_path / "skills" / name)
    (tmp_path / "skills/deploy/scripts").mkdir()
    (tmp_path / "skills/deploy/scripts/run.py").write_text("run")
    return tmp_path / "skills"


def test_commands_complete(complete: Callable[[str], list[str]], shell: dict[str, str]) -> None:
    # The installed command: an interpreter that is started, and a descriptor for its answer.
    shell["PATH"] = shell["PATH"].partition(os.pathsep)[2]
    del shell["ARGCOMPLETE_USE_TEMPFILES"]
    assert {"list", "show", "catalog", "validate", "new", "trust", "untrust", "doctor", "demo", "completion"} <= set(
        complete("metier ")
    )
    assert complete("metier va") == ["validate"]


@pytest.mark.each(
    "line",
    ["metier --skills skills show ", "metier show --skills skills ", "metier --no-cache show --skills=skills "],
)
def test_names_of_skills_complete(complete: Callable[[str], list[str]], skills: Path, line: str) -> None:
    assert [word for word in complete(line) if not word.startswith("-")] == ["deliver", "deploy", "review"]


def test_a_name_that_was_begun_is_completed(complete: Callable[[str], list[str]], skills: Path) -> None:
    assert complete("metier --skills skills show de") == ["deliver", "deploy"]
    assert complete("metier --skills skills show dep") == ["deploy"]


def test_names_of_the_default_places_complete(complete: Callable[[str], list[str]]) -> None:
    assert complete("metier show csv") == ["csv-analyst"]


def test_files_of_a_skill_complete(complete: Callable[[str], list[str]], skills: Path) -> None:
    assert complete("metier --skills skills show deploy s") == ["scripts/run.py"]


@pytest.mark.each(
    ("line", "offered"),
    [
        ("run deploy s", ["scripts/run.py", "scripts/walk.sh"]),
        ("run deploy scripts/w", ["scripts/walk.sh"]),
        ("run deploy w", ["walk.sh"]),
        ("run de", ["deliver", "deploy"]),
        ("run deploy run.py --runner ", ["auto", "native", "virtual", "plain"]),
        ("run deploy run.py --network r", ["restricted"]),
        ("run deploy run.py --time", ["--timeout"]),
        ("shell --skill re", ["review"]),
    ],
    every=2,
)
def test_what_is_to_be_run_completes(
    complete: Callable[[str], list[str]], skills: Path, line: str, offered: list[str]
) -> None:
    (skills / "deploy/scripts/walk.sh").write_text("walk")
    assert sorted(complete(f"metier --skills skills {line}")) == sorted(offered)


def test_options_complete(complete: Callable[[str], list[str]]) -> None:
    assert complete("metier validate --st") == ["--strict"]


@pytest.mark.parametrize("line", ["metier --skills nowhere show x", "metier --skills skills show nothing s"])
def test_where_nothing_can_be_offered_nothing_is_said(
    complete: Callable[[str], list[str]], skills: Path, line: str
) -> None:
    assert complete(line) == []


@pytest.mark.each("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_each_shell(metier: Call, shell: str) -> None:
    code, out, err = metier("completion", shell)
    assert (code, err) == (0, "")
    assert "metier" in out
    assert "argcomplete" in out.lower()


def test_an_unknown_shell_is_wrong_usage(metier: Call) -> None:
    code, _, err = metier("completion", "tcsh")
    assert code == 2
    assert "bash" in err
