"""`metier run`: a script of a skill, run by a person."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.tables import thinned

from metier.run.selection import native_runner

Call = Callable[..., tuple[int, str, str]]
Terminal = Callable[..., tuple[int, str]]
Write = Callable[..., Path]

REFERENCE = Path(__file__).parents[2] / "docs/reference/json.md"
posix_only = pytest.mark.skipif(sys.platform == "win32", reason="the scripts are for POSIX shells")
pytestmark = posix_only


@pytest.fixture(scope="session")
def caged() -> None:
    """There is a sandbox for programs on this machine."""
    if not native_runner().capabilities().isolates_files:
        pytest.skip("this machine has no sandbox for programs")


@pytest.fixture
def skills(write_skill: Write, tmp_path: Path) -> Path:
    root = tmp_path / "skills"
    write_skill(root / "tools")
    scripts = root / "tools" / "scripts"
    (scripts / "deep").mkdir(parents=True)
    (scripts / "say.sh").write_text('echo "out $*"\necho "err" >&2\nexit "${CODE:-0}"\n')
    (scripts / "twin.sh").write_text("echo upper\n")
    (scripts / "deep" / "twin.sh").write_text("echo deeper\n")
    (scripts / "deep" / "only.sh").write_text("echo only\n")
    (scripts / "add.py").write_text("import sys\nprint(sum(map(int, sys.argv[1:])))\n")
    (scripts / "odd.rb").write_text("puts 1\n")
    (scripts / "loud.sh").write_text("printf 'title \\033]0;x\\007 and \\033[2J\\tend\\n'\n")
    (scripts / "slow.sh").write_text("echo begun\nsleep 30 &\nsleep 30\n")
    (scripts / "keep.sh").write_text('echo "kept" > note.txt\npwd\n')
    return root


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def run(metier: Call, skills: Path, work: Path) -> Call:
    """Runs a script of the skill `tools`, without a sandbox unless another runner is asked for."""

    def call(script: str, *more: str, runner: str | None = "plain") -> tuple[int, str, str]:
        chosen = ("--runner", runner) if runner else ()
        return metier("--skills", skills, "run", "tools", script, "--workspace", work, *chosen, *more)

    return call


def of(called: tuple[int, str, str]) -> dict[str, Any]:
    """What was printed as JSON, and nothing beside it."""
    shape = json.loads(called[1])
    assert isinstance(shape, dict)
    assert called[2] == ""
    return shape


# --- what it does ------------------------------------------------------------------------------------------------


@pytest.mark.covers("O-69")
def test_each_stream_goes_to_its_own_and_the_exit_code_is_the_scripts(run: Call) -> None:
    assert run("scripts/say.sh", "--env", "CODE=7", "--", "a b", "-x", "--", "--json") == (
        7,
        "out a b -x -- --json\n",
        "err\n",
    )


@pytest.mark.covers("O-69")
@pytest.mark.usefixtures("caged")
@thinned("runner", [None, "auto", "native"], one_in=3)
def test_by_default_it_runs_in_a_sandbox(run: Call, work: Path, runner: str | None) -> None:
    shape = of(run("add.py", "--json", "--", "20", "22", runner=runner))
    assert (shape["exit_code"], shape["stdout"], shape["runner"]) == (0, "42\n", "native")
    assert of(run("keep.sh", "--json", runner=runner))["stdout"] == f"{work}\n"
    assert (work / "note.txt").read_text() == "kept\n"


def test_a_shell_script_runs_virtually(run: Call, work: Path) -> None:
    pytest.importorskip("bashkit")
    shape = of(run("keep.sh", "--json", runner="virtual"))
    assert (shape["exit_code"], shape["runner"]) == (0, "virtual")
    assert (work / "note.txt").read_text() == "kept\n"


@pytest.mark.each(
    "words",
    [
        ("--json", "1", "2"),
        ("1", "2", "--json"),
        ("1", "--json", "2"),
        ("--json", "--", "1", "2"),
        ("1", "--json", "--", "2"),
    ],
    every=2,
)
def test_arguments_stand_where_people_put_them(run: Call, words: tuple[str, ...]) -> None:
    assert of(run("add.py", *words))["stdout"] == "3\n"


@pytest.mark.each(
    ("name", "said"), [("only.sh", "only\n"), ("scripts/deep/only.sh", "only\n"), ("scripts/twin.sh", "upper\n")]
)
def test_a_name_alone_is_enough_where_no_other_has_it(run: Call, name: str, said: str) -> None:
    assert run(name) == (0, said, "")


def test_a_name_that_two_scripts_have_is_wrong_usage(run: Call) -> None:
    code, out, err = run("twin.sh")
    assert (code, out) == (2, "")
    assert "scripts/deep/twin.sh, scripts/twin.sh" in err


def test_what_is_written_comes_as_it_is_written(forked: list[str], skills: Path, work: Path) -> None:
    child = subprocess.Popen(
        [*forked, "--skills", str(skills), "run", "tools", "slow.sh", "--workspace", str(work), "--runner", "plain"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"begun\n", "while the script still sleeps"
    started = time.monotonic()
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out, err) == (130, b"", b"Stopped.\n")
    assert time.monotonic() - started < 15, "the script was ended, and not waited for"


@pytest.mark.covers("USE-6")
@pytest.mark.usefixtures("caged")
def test_the_limits_of_a_policy_are_told_as_those_of_the_policy(
    run: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\nrun:\n  limits: {seconds: 0.5}\n")
    monkeypatch.setenv("METIER_POLICY", str(policy))
    code, _, err = run("slow.sh", "--timeout", "20", runner=None)
    assert code == 124
    assert "ended: It took longer than 0.5 seconds" in err
    assert "`run.limits.seconds`" in err and "--timeout S" not in err


@pytest.mark.covers("O-70", "G-36")
@pytest.mark.usefixtures("caged")
def test_a_script_that_takes_too_long_ends_with_124(run: Call) -> None:
    started = time.monotonic()
    # It has begun by then, however slow the machine is.
    code, out, err = run("slow.sh", "--timeout", "2", runner=None)
    assert (code, out) == (124, "begun\n")
    assert "ended: It took longer than 2 seconds" in err and "`--timeout S`" in err
    assert time.monotonic() - started < 15
    shape = of(run("slow.sh", "--timeout", "0.1", "--json", runner=None))
    assert (shape["exit_code"], shape["timed_out"], shape["killed_by"]) == (124, True, "timeout")


@pytest.mark.covers("G-36")
def test_output_beyond_the_cap_is_flagged(run: Call, skills: Path) -> None:
    (skills / "tools" / "scripts" / "flood.py").write_text("print('x' * 300_000)\n")
    shape = of(run("flood.py", "--json"))
    assert (shape["truncated"], len(shape["stdout"])) == (True, 256 * 1024)
    code, out, err = run("flood.py")
    assert (code, len(out)) == (0, 256 * 1024)
    assert "not complete: 262,144 bytes" in err


def test_a_reader_that_has_seen_enough_ends_the_script(
    forked: list[str], skills: Path, work: Path, tmp_path: Path
) -> None:
    audit = tmp_path / "audit.jsonl"
    (skills / "tools" / "scripts" / "endless.sh").write_text("while sleep 0.05; do echo again; done\n")
    child = subprocess.Popen(
        [
            *forked,
            "--skills",
            str(skills),
            "run",
            "tools",
            "endless.sh",
            "--workspace",
            str(work),
            "--runner",
            "plain",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "METIER_AUDIT": str(audit)},
    )
    assert child.stdout is not None and child.stderr is not None
    assert child.stdout.readline() == b"again\n"
    child.stdout.close()
    with child.stderr:
        assert child.stderr.read() == b""
    assert child.wait(timeout=25) == 0, "long before its time is over"
    (ran,) = (record for record in map(json.loads, audit.read_text().splitlines()) if record["event"] == "run")
    assert (ran["code"], ran["success"]) == ("cancelled", False)


# --- terminals ----------------------------------------------------------------------------------------------------


def test_a_script_cannot_act_on_the_terminal(terminal: Terminal, skills: Path, work: Path) -> None:
    code, seen = terminal("--skills", skills, "run", "tools", "loud.sh", "--workspace", work, "--runner", "plain")
    assert code == 0
    assert "title \\x1b]0;x\\x07 and \\x1b[2J\tend\r\n" in seen
    assert "\x1b" not in seen


def test_a_program_gets_the_bytes_as_they_are(run: Call) -> None:
    assert run("loud.sh")[1] == "title \x1b]0;x\x07 and \x1b[2J\tend\n"


def test_somebody_who_waits_is_told_how_long(terminal: Terminal, skills: Path, work: Path) -> None:
    (skills / "tools" / "scripts" / "wait.sh").write_text("sleep 1.5\necho done\n")
    code, seen = terminal(
        "--skills", skills, "run", "tools", "wait.sh", "--workspace", work, "--runner", "plain", env={"NO_COLOR": "1"}
    )
    assert code == 0
    told = r"\r\x1b\[Kscripts/wait\.sh: \d s, Ctrl-C ends it"
    assert re.search(rf"({told})+\r\x1b\[Kdone\r\n", seen), "and it is taken away again"


# --- what it gets -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("caged")
def test_what_a_skill_asks_for_and_does_not_get_is_said(
    metier: Call, skills: Path, work: Path, write_skill: Write
) -> None:
    write_skill(skills / "tools", more="execution:\n  network: restricted\n  allow-hosts: [api.example.com]\n")
    arguments = ("--skills", skills, "run", "tools", "only.sh", "--workspace", work)
    code, out, err = metier(*arguments)
    assert (code, out) == (0, "only\n")
    assert "note: It asked for the network (restricted) and got none." in err
    assert "`--network restricted --host api.example.com`" in err
    code, out, err = metier(*arguments, "--network", "none")
    assert "hint" not in err, "whoever says none means none"


@pytest.mark.usefixtures("caged")
def test_the_network_is_there_for_whoever_asks_for_it(run: Call, skills: Path) -> None:
    (skills / "tools" / "scripts" / "lo.py").write_text(
        "import socket, sys\nsocket.create_connection(('127.0.0.1', int(sys.argv[1])), 5).close()\nprint('reached')\n"
    )
    import socket

    with socket.create_server(("127.0.0.1", 0)) as service:
        port = str(service.getsockname()[1])
        code, out, _ = run("lo.py", "--network", "host", "--", port, runner="native")
        assert (code, out) == (0, "reached\n")
        code, out, err = run("lo.py", "--", port, runner="native")
        assert (code, out) == (1, "")
        assert "Error" in err


@pytest.mark.usefixtures("caged")
def test_variables_of_whoever_calls_it_are_not_there(run: Call, skills: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "secret")
    (skills / "tools" / "scripts" / "env.sh").write_text("env\n")
    code, out, _ = run("env.sh", "--env", "GIVEN=a=b", runner=None)
    assert code == 0
    assert "GIVEN=a=b\n" in out and "MY_TOKEN" not in out


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.each(
    ("arguments", "code", "error"),
    [
        (("nothing.sh",), 1, "file-missing"),
        (("scripts/../../x.sh",), 1, "file-refused"),
        (("SKILL.md",), 1, "file-missing"),
        (("./SKILL.md",), 1, "file-refused"),
        (("odd.rb",), 1, "script-unsupported"),
        (("say.sh", "--env", "NOTHING"), 2, "invalid-argument"),
        (("say.sh", "--env", "LD_PRELOAD=x"), 2, "invalid-argument"),
        (("say.sh", "--", "x" * 100_000), 2, "invalid-argument"),
        (("say.sh", "--network", "none"), 2, "invalid-argument"),
        (("say.sh", "--host", "example.com"), 2, "invalid-argument"),
    ],
)
def test_what_cannot_be_run_is_said_with_a_code_and_what_to_do(
    run: Call, arguments: tuple[str, ...], code: int, error: str
) -> None:
    script, *more = arguments
    found, out, err = run(script, *more)
    assert (found, out) == (code, "")
    assert f"error [{error}]: " in err and "\nhint: " in err
    at = more.index("--") if "--" in more else len(more)
    found, out, err = run(script, *more[:at], "--json", *more[at:])
    assert (found, err) == (code, "")
    shape = json.loads(out)["error"]
    assert shape["code"] == error and shape["message"] and shape["hint"]


@pytest.mark.each(
    "words",
    [
        (),
        ("tools",),
        ("tools", "say.sh", "--runner", "docker"),
        ("tools", "say.sh", "--network", "all"),
        ("tools", "say.sh", "--timeout", "0"),
        ("tools", "say.sh", "--timeout", "601"),
        ("tools", "say.sh", "--timeout", "nan"),
        ("tools", "say.sh", "--timeout", "soon"),
        ("tools", "say.sh", "--unknown", "x"),
        ("tools", "--", "say.sh"),
    ],
)
def test_wrong_usage_is_two(metier: Call, skills: Path, words: tuple[str, ...]) -> None:
    code, out, err = metier("--skills", skills, "run", *words)
    assert (code, out) == (2, "")
    assert "usage: metier" in err


@pytest.mark.parametrize("network", ["none", "host"])
def test_a_list_of_hosts_must_mean_something(metier: Call, skills: Path, network: str) -> None:
    code, _, err = metier(
        "--skills",
        skills,
        "run",
        "tools",
        "say.sh",
        "--network",
        network,
        "--host",
        "example.com",
        "--runner",
        "native",
    )
    assert code == 2
    assert "`--network restricted`" in err


def test_a_skill_that_is_not_there_is_named(metier: Call, skills: Path) -> None:
    code, _, err = metier("--skills", skills, "run", "tolls", "say.sh")
    assert code == 1
    assert "Did you mean 'tools'?" in err


@pytest.mark.usefixtures("caged")
def test_a_skill_that_nobody_vouches_for_needs_a_word(
    metier: Call, write_skill: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_skill(tmp_path / ".agents/skills/found")
    (tmp_path / ".agents/skills/found/scripts").mkdir()
    (tmp_path / ".agents/skills/found/scripts/hi.sh").write_text("echo hi\n")
    code, out, err = metier("run", "found", "hi.sh")
    assert (code, out) == (1, "")
    assert "[skill-untrusted]" in err and "`metier trust DIR`" in err and "`--untrusted`" in err
    assert metier("run", "found", "hi.sh", "--untrusted")[:2] == (0, "hi\n")
    assert metier("trust")[0] == 0
    assert metier("run", "found", "hi.sh")[:2] == (0, "hi\n")


def test_what_waits_for_an_approval_names_the_request_and_not_trust(
    metier: Call, write_skill: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("metier.cli.run.at_terminal", lambda: None)
    (tmp_path / ".metier").mkdir()
    (tmp_path / ".metier/policy.yaml").write_text("version: 1\nskill-policy: {require-approval-for: [scripts]}\n")
    write_skill(tmp_path / "skills/found")
    (tmp_path / "skills/found/scripts").mkdir()
    (tmp_path / "skills/found/scripts/hi.sh").write_text("echo hi\n")
    code, _, err = metier("run", "found", "hi.sh", "--skills", tmp_path / "skills")
    assert (code, "[approval-needed]" in err) == (4, True)
    assert "`metier approve show r-" in err
    assert "`metier approve grant r-" in err
    assert "Ask the user" not in err  # it is the user who reads it
    _, _, of_tenant = metier("run", "found", "hi.sh", "--skills", tmp_path / "skills", "--tenant", "acme")
    command = of_tenant.partition("`metier ")[2].partition("`")[0].split()
    assert command[-2:] == ["--tenant", "acme"]
    assert metier(*command)[0] == 0, "it shows the request that it names"
    assert metier("quarantine", "add", "found", "--reason", "x")[0] == 0
    code, _, err = metier("run", "found", "hi.sh", "--skills", tmp_path / "skills")
    assert (code, "`metier quarantine list`" in err) == (1, True)
    assert "metier trust" not in err and "--untrusted" not in err


def test_without_a_sandbox_nothing_runs_and_it_is_said_how_to_go_on(run: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    from metier.run import PlainRunner

    # What `native` means on a machine that has none.
    monkeypatch.setattr("metier.run.selection.native_runner", PlainRunner)
    code, out, err = run("add.py", "--json", "1", runner="native")
    assert (code, err) == (1, "")
    shape = json.loads(out)["error"]
    assert shape["code"] == "isolation-missing"
    assert "`metier doctor`" in shape["hint"] and "`--runner plain`" in shape["hint"]


def test_without_the_interpreter_virtual_says_what_to_install(
    metier: Call, skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "bashkit" else real(name, *more)
    )
    code, out, err = metier("--skills", skills, "run", "tools", "say.sh", "--runner", "virtual")
    assert (code, out) == (1, "")
    assert "[shell-unavailable]" in err and "pip install 'metier[shell]'" in err


def test_each_run_leaves_a_record(run: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METIER_AUDIT", str(tmp_path / "audit.jsonl"))
    assert run("say.sh", "--env", "CODE=3")[0] == 3
    assert run("nothing.sh")[0] == 1
    records = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    ran, refused = (record for record in records if record["event"] == "run")
    assert (ran["decision"], ran["exit_code"], ran["by"], ran["runner"]) == ("allow", 3, "user", "plain")
    assert (refused["decision"], refused["code"]) == ("deny", "file-missing")


def test_nothing_is_left_behind(run: Call, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    assert run("say.sh")[0] == 0
    assert run("say.sh", "--env", "NOTHING")[0] == 2
    assert os.listdir(tmp_path / "temporary") == [] and os.listdir(work) == []


def test_the_reference_names_every_key_of_the_json(run: Call) -> None:
    described = REFERENCE.read_text(encoding="utf-8").partition("## `metier run")[2].partition("\n## ")[0]
    keys = of(run("only.sh", "--json"))
    assert {"exit_code", "stdout", "stderr", "truncated", "timed_out", "runner", "duration_ms"} <= keys.keys()
    assert [key for key in keys if not re.search(rf'[`"]{key}[`"]', described)] == []


@pytest.mark.usefixtures("caged")
def test_what_it_is_given_to_read_is_passed_on_when_that_is_asked_for(
    forked: list[str], skills: Path, work: Path
) -> None:
    (skills / "tools" / "scripts" / "read.sh").write_text("cat; echo end\n")
    words = [*forked, "--skills", str(skills), "run", "tools", "read.sh", "--workspace", str(work)]
    for more, expected in (["--stdin"], b"one\ntwo\nend\n"), ([], b"end\n"):
        done = subprocess.run([*words, *more], input=b"one\ntwo\n", capture_output=True, timeout=60)
        assert (done.returncode, done.stdout) == (0, expected), done.stderr


@pytest.mark.usefixtures("caged")
def test_whoever_ends_the_command_ends_the_script(command: list[str], skills: Path, work: Path, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    (skills / "tools" / "scripts" / "wait.sh").write_text("echo begun; touch begun; sleep 60\n")
    words = [*command, "--skills", str(skills), "run", "tools", "wait.sh", "--workspace", str(work)]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "TMPDIR": str(temporary)}
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.terminate()
        assert process.wait(timeout=60) == 143
    assert os.listdir(temporary) == []


@pytest.mark.each("words", [("--network", "host"), ("--network", "restricted"), ("--host", "example.com")])
def test_the_virtual_shell_has_no_network_to_give(run: Call, words: tuple[str, ...]) -> None:
    code, out, err = run("only.sh", *words, runner="virtual")
    assert (code, out) == (2, "")
    assert "no network" in err


@pytest.mark.usefixtures("caged")
def test_the_users_policy_file_grants_a_name_to_scripts(run: Call, skills: Path, work: Path, own_home: Path) -> None:
    (skills / "tools" / "scripts" / "edit.sh").write_text("mkdir .vscode; echo {} > .vscode/tasks.json\n")
    asks = "execution:\n  allowed-paths: ['.vscode:rw']\n"
    (skills / "tools" / "SKILL.md").write_text(f"---\nname: tools\ndescription: Does it.\n{asks}---\nDo it.\n")
    assert run("edit.sh", runner=None)[0] != 0
    (own_home / ".metier").mkdir()
    (own_home / ".metier" / "policy.yaml").write_text('version: 1\nrun: {paths: [".vscode:rw"]}\n')
    assert (run("edit.sh", runner=None)[0], (work / ".vscode" / "tasks.json").exists()) == (0, True)


@pytest.mark.each("command", ["run", "session", "explain", "shell"])
def test_a_workspace_that_is_not_there_is_an_error_and_is_not_made(tmp_path: Path, metier: Call, command: str) -> None:
    rest = {"run": ["csv-analyst", "peek_csv.py"], "explain": ["--command", "ls"]}.get(command, [])
    code, _, err = metier(command, "--workspace", str(tmp_path / "typo"), *rest)
    assert (code, "There is no folder" in err) == (2, True)
    assert not (tmp_path / "typo").exists()
