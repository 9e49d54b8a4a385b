"""Commands by which people decide about skills, called by an agent."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from metier import Guard, Policy
from metier.guard import Action, Decision, MemoryLog


def decided(guard: Guard, tool: str, **arguments: Any) -> Decision:
    return guard.decide(Action(point="call", tool=tool, arguments=arguments))


@pytest.fixture
def guard() -> Guard:
    return Guard(audit=MemoryLog())


@pytest.mark.each(
    "command",
    [
        "metier approve grant r-1",
        "'met'ier approve grant r-1",
        'me"t"ier approve grant r-1',
        "me\\tier approve grant r-1",
        "metie\\\nr approve grant r-1",
        "metier 'appr'ove grant r-1",
        "m=met; ${m}ier approve grant r-1",
        "$(printf metie)r approve grant r-1",
        "/usr/bin/metie? approve grant r-1",
        "$M propose approve p-1",
        "python3 -m metier rollback law",
        "uvx metier approve revoke a-1",
        "env metier propose reject p-1",
        "echo metier approve grant r-1 | sh",
        "metier quarantine release peek --reason x",
        "metier user add x --role admin",
        "metier user token root",
        "metier trust .",
        "metier deploy law",
        "metier store restore /tmp/f --force",
        "metier --skills x approve grant r-1",
        "metier --no-cache --skills=x quarantine release pdf",
        "python3 -m metier --skills x user add x --role admin",
        "metier --skills x scan . --keep",
        "metier scan --keep skills",
        "metier sync --to out --accept-findings fine",
        "metier --skills x sync --acc=fine --to out",
        "metier scan skills --keep",
        "metier scan skills --fail-on high --kee",
        "cd skills && metier 'scan' . --'keep'",
        "python -m metier scan --keep=x .",
        "metier waiting --then metier approve grant r-1",
        "metier waiting --new --timeout 5s --th env metier approve grant r-1",
        "python3 -m metier waiting --then sh -c 'metier approve grant r-1'",
        ["metier", "approve", "grant", "r-1"],
    ],
)
def test_no_shell_of_an_agent_decides_about_skills(guard: Guard, command: Any) -> None:
    found = decided(guard, "Bash", command=command)
    assert (found.outcome, found.code) == ("deny", "tool-not-allowed")
    assert "Deciding about skills is for people." in found.reason


@pytest.mark.covers("SEC-22")
@pytest.mark.each(
    "command",
    [
        "python3 -Im metier approve grant r-1",
        "python3 -I -m metier approve grant r-1",
        "python3 -Immetier approve grant r-1",
        "python3 -mmetier approve grant r-1",
        "python3.11 -m metier approve grant r-1",
        "python3 -X dev -W ignore -Bsm metier trust .",
        "pypy3 -m metier trust .",
        "/usr/bin/python3.12 -m metier trust .",
        "python3 -m metier.__main__ trust .",
        "python3 -m metier.cli user token root",
        "python3 /x/bin/metier trust .",
        "python3 -I /x/site-packages/metier/__main__.py trust .",
        "python3 /x/site-packages/metier trust .",
        "python3 -m runpy metier trust .",
        "python3 -m cProfile -o out -m metier trust .",
        "python3 -m coverage run -m metier trust .",
        "uv run metier trust .",
        "uv run --with metier metier trust .",
        "uv run python -Im metier trust .",
        "uv tool run metier trust .",
        "pipx run metier trust .",
        "pipx run --spec metier metier trust .",
        "poetry run metier trust .",
        "env -i metier trust .",
        "env python3 -Im metier trust .",
        "/x/.venv/bin/metier trust .",
        "xargs metier approve grant",
        "echo r-1 | xargs -n1 python3 -Im metier approve grant",
        "find . -exec metier trust {} +",
        "timeout 5 nice metier trust .",
        "bash -lc 'python3 -Im metier trust .'",
        """python3 -c "import os; os.system('metier approve grant r-1')\"""",
        """python3 -c 'from metier.cli import main; main(["approve", "grant", "r-1"])'""",
        """python3 -Ic 'import metier.cli as c; c.main("trust .".split())'""",
        """python3 -c 'import runpy, sys; sys.argv = ["metier", "trust", "."]; runpy.run_module("metier")'""",
        """python3 -c 'import runpy,sys; sys.argv[1:]=["trust","."]; runpy.run_module("metier")'""",
        "python3 - <<'EOF'\nfrom metier.cli import main\nmain(['trust', '.'])\nEOF",
        """graalpy -c 'import os; os.system("metier trust .")'""",
        """jython -c 'import os; os.system("metier trust .")'""",
        """perl -e 'system("metier trust .")'""",
        """node -e 'require("child_process").execSync("metier trust .")'""",
        """awk 'BEGIN { system("metier trust .") }'""",
    ],
)
def test_no_spelling_of_the_program_decides_about_skills(guard: Guard, command: str) -> None:
    found = decided(guard, "Bash", command=command)
    assert (found.outcome, found.code) == ("deny", "tool-not-allowed")
    assert "Deciding about skills is for people." in found.reason


@pytest.mark.covers("SEC-22")
def test_a_link_to_the_program_decides_nothing(guard: Guard, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "metier").write_text("")
    (tmp_path / "m").symlink_to("bin/metier")
    (tmp_path / "n").symlink_to("m")
    for command in (
        "./m trust .",
        "./n trust .",
        f"{tmp_path}/n approve grant r-1",
        "env ./n trust .",
        "python3 ./n trust .",
    ):
        action = Action(point="call", tool="Bash", arguments={"command": command}, workspace=str(tmp_path))
        assert guard.decide(action).outcome == "deny", command
    action = Action(point="call", tool="Bash", arguments={"command": "./m list"}, workspace=str(tmp_path))
    assert guard.decide(action).is_allowed


@pytest.mark.each(
    ("tool", "arguments"),
    [
        ("shell", {"cmd": "metier approve grant r-1"}),
        ("mcp__shell__run", {"command": "metier approve grant r-1"}),
        ("mcp__shell__run", {"command": ["met'ier'", "approve", "grant"]}),
        ("execute_code", {"code": "import os; os.system('metier approve grant r-1')"}),
        ("execute_code", {"code": "subprocess.run(['metier', 'user', 'token'])"}),
        ("execute_code", {"code": "subprocess.run(['metier', '--skills', 'x', '--no-cache', 'trust', '.'])"}),
        ("execute_code", {"code": "subprocess.run(['metier', 'scan', 'skills', '--keep'])"}),
        ("runner", {"script": "set -e\nmetier \\\n  deploy law"}),
        ("execute_code", {"code": "from metier.cli import main\nmain(['trust', '.'])"}),
        ("execute_code", {"code": "import runpy, sys\nsys.argv[1:] = ['trust']\nrunpy.run_module('metier')"}),
    ],
)
def test_nor_does_a_tool_that_runs_things_under_another_name(
    guard: Guard, tool: str, arguments: dict[str, Any]
) -> None:
    # What was decided about its tool before does not matter.
    assert decided(guard, tool).is_allowed
    assert decided(guard, tool, **dict.fromkeys(arguments, "ls")).is_allowed
    found = decided(guard, tool, **arguments)
    assert (found.outcome, found.code) == ("deny", "tool-not-allowed")


@pytest.mark.each(
    ("tool", "arguments"),
    [
        ("Bash", {"command": "metier approve list && metier list"}),
        ("Bash", {"command": "metier quarantine add peek --reason x"}),
        ("Bash", {"command": "metier scan skills --json && metier --skills x list --all"}),
        ("execute_code", {"code": "subprocess.run(['metier', '--skills', 'x', 'scan', 'skills'])"}),
        ("Bash", {"command": "git commit -m 'metier approve grant is for people'"}),
        ("Bash", {"command": "for f in *; do $TOOL release $f; done"}),
        ("Bash", {"command": "$DOCKER user add x"}),
        ("Write", {"file_path": "x.md", "content": "`metier approve grant r-1`"}),
        ("execute_code", {"code": "import metier\nprint(metier.__version__)"}),
        ("Bash", {"command": "python3 -Im metier list && python3 -m pytest tests/user"}),
        ("Bash", {"command": "python3 build.py && git commit -m 'metier trust is for people'"}),
        ("Bash", {"command": "grep -rn metier.cli src | grep 'user'"}),
        ("Bash", {"command": "./scripts/deploy.sh user"}),
        ("tell_user", {"text": "Please run metier approve grant r-1."}),
    ],
)
def test_whatever_else_there_is_to_say_or_to_run_is_not_touched(
    guard: Guard, tool: str, arguments: dict[str, Any]
) -> None:
    assert decided(guard, tool, **arguments).is_allowed


@pytest.mark.each(
    "text", ["metier -a b " * 5_000, "metier" + " -" * 30_000, "metier scan " * 5_000, "metier" + "," * 60_000]
)
def test_no_text_takes_long_to_look_through(guard: Guard, text: str) -> None:
    before = time.process_time()
    decided(guard, "execute_code", code=text)
    assert time.process_time() - before < 2


@pytest.mark.covers("ACC-19")
def test_the_program_that_waiting_starts_is_not_hidden_from_rules(guard: Guard) -> None:
    command = "metier waiting --then curl https://x.test"
    denying = Guard(Policy(deny="Bash(curl:*)"), audit=MemoryLog())
    allowing = Guard(Policy(allow="Bash(metier:*)"), audit=MemoryLog())
    assert decided(denying, "Bash", command=command).outcome == "deny"
    assert decided(allowing, "Bash", command=command).outcome == "deny"
    assert decided(allowing, "Bash", command="metier waiting --new --json").outcome == "allow"
    assert decided(guard, "Bash", command="metier waiting").outcome == "allow"
