"""What holds for every command: exit codes, streams, terminals, and never a traceback."""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metier import __version__
from metier.cli import main
from metier.cli.commands import COMMANDS as TABLE
from metier.cli.commands import GROUPS, OTHER_NAMES

Call = Callable[..., tuple[int, str, str]]
Process = Callable[..., subprocess.CompletedProcess[bytes]]
Terminal = Callable[..., tuple[int, str]]
Write = Callable[..., Path]

COMMANDS = (
    *("list", "show", "catalog", "validate", "new", "run", "shell", "trust", "untrust", "doctor", "demo", "completion"),
)
posix_only = pytest.mark.skipif(sys.platform == "win32", reason="this is how POSIX systems do it")
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="this is how Linux does it")


@pytest.fixture
def skills(write_skill: Write, tmp_path: Path) -> Path:
    for name in ("alpha", "beta"):
        write_skill(tmp_path / "skills" / name, description=f"Does {name}: 技能.")
    return tmp_path / "skills"


# --- exit codes and usage ------------------------------------------------------------------------------------


def test_alone_it_says_what_it_can_do(metier: Call) -> None:
    code, out, err = metier()
    assert (code, err) == (0, "")
    everyday = [name for name, command in TABLE.items() if command.everyday]
    assert 12 <= len(everyday) <= 18
    for name, command in TABLE.items():
        assert bool(re.search(rf"^ +{name} ", out, re.MULTILINE)) == command.everyday or name in GROUPS
        assert re.search(rf"\b{name}\b", out)
    assert "exit codes: 0 fine, 1 problems found, 2 wrong usage" in out


@pytest.mark.each("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(metier: Call, command: str) -> None:
    code, out, err = metier(command, "--help")
    assert (code, err) == (0, "")
    assert "example:\n  " in out


def test_the_version_is_printed(metier: Call) -> None:
    assert metier("--version") == (0, f"metier {__version__}\n", "")


@pytest.mark.each(
    "arguments",
    [
        ["nonsense"],
        ["list", "--nonsense"],
        ["list", "extra", "b"],
        ["show"],
        ["show", "--instructions"],
        ["show", "a", "b", "c"],
        ["new"],
        ["completion"],
        ["--skills"],
        ["list", "--skills"],
        [""],
        ["lis"],
        ["-x"],
        ["untrust", "--list"],
    ],
)
def test_wrong_usage_is_two_and_shows_the_right_one(metier: Call, arguments: list[str]) -> None:
    code, out, err = metier(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("usage: metier")
    assert "error: " in err


@pytest.mark.covers("USE-6")
@pytest.mark.each(
    ("arguments", "usage", "said"),
    [
        (["list", "--jsno"], "usage: metier list ", "unrecognized arguments: --jsno (did you mean --json?)"),
        (["audit", "tail", "--nonsense"], "usage: metier audit tail ", "unrecognized arguments: --nonsense"),
        (["audit", "tial"], "usage: metier audit ", "did you mean `metier audit tail`?"),
        (["lsit"], "usage: metier ", "did you mean `metier list`?"),
        (["Validat"], "usage: metier ", "did you mean `metier validate`?"),
        (["scaffold"], "usage: metier ", "did you mean `metier new`?"),
        (["ls"], "usage: metier ", "did you mean `metier list`?"),
        (["lint"], "usage: metier ", "did you mean `metier validate`?"),
        (["check"], "usage: metier ", "did you mean `metier validate`?"),
        (["logs"], "usage: metier ", "did you mean `metier audit tail`?"),
        (["import", "x"], "usage: metier ", "did you mean `metier add`?"),
        (["run", "builder"], "usage: metier run ", "required: SCRIPT (`metier show NAME` lists those of a skill)\n"),
        (["zzzzzz"], "usage: metier ", "`metier help --all` lists them"),
    ],
)
def test_wrong_usage_is_told_with_what_was_meant(metier: Call, arguments: list[str], usage: str, said: str) -> None:
    code, out, err = metier(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(usage)
    assert said in err


@pytest.mark.covers("USE-6")
@pytest.mark.each("words", [[], ["list"], ["policy", "check"]])
def test_help_is_a_command_too(metier: Call, words: list[str]) -> None:
    assert metier("help", *words) == metier(*words, "--help")


def test_help_describes_all_commands_by_group(metier: Call) -> None:
    code, out, err = metier("help", "--all")
    assert (code, err) == (0, "")
    for group in GROUPS:
        assert f"\n{group}: " in out
    for name in {*COMMANDS, *TABLE}:
        assert re.search(rf"^ +{name} ", out, re.MULTILINE)


def test_help_for_a_command_that_is_not_there_says_what_was_meant(metier: Call) -> None:
    code, out, err = metier("help", "polici")
    assert (code, out) == (2, "")
    assert "did you mean `metier policy`?" in err


def test_every_word_of_another_tool_leads_to_a_command_that_is_there(metier: Call) -> None:
    for name, words in OTHER_NAMES.items():
        assert metier(*name.split(), "--help")[0] == 0, name
        assert not {*words.split()} & {*COMMANDS}


@pytest.mark.each(
    ("arguments", "exit_code", "error"),
    [
        (["show", "gone"], 1, "skill-not-found"),
        (["list", "--skills", "nowhere"], 2, "source-unavailable"),
        (["search", "x", "--skills", "nowhere"], 2, "source-unavailable"),
        (["validate", "nowhere"], 2, "source-unavailable"),
        (["run", "gone", "x.py"], 1, "skill-not-found"),
        (["approve", "show", "r-gone"], 1, "request-not-found"),
        (["approve", "grant", "r-gone"], 1, "request-not-found"),
        (["propose", "withdraw", "p-gone"], 1, "proposal-not-found"),
        (["quarantine", "add", "x"], 2, "invalid-argument"),
        (["policy", "show", "gone"], 2, "invalid-argument"),
        (["policy", "explain", "gone"], 1, "skill-not-found"),
        (["audit", "search", "--since", "never"], 2, "invalid-argument"),
        (["audit", "verify", "--file", "nowhere"], 2, "invalid-argument"),
        (["history", "gone"], 1, "skill-not-found"),
        (["scan", "nowhere/at/all"], 2, "source-unavailable"),
        (["user", "remove", "nobody"], 1, "person-not-found"),
        (["store", "restore", "nowhere.zip"], 2, "invalid-argument"),
    ],
)
def test_what_goes_wrong_is_json_on_standard_output_for_who_asks_for_json(
    metier: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], exit_code: int, error: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = metier(*arguments, "--json")
    found = json.loads(out)["error"]
    assert (code, found["code"], err) == (exit_code, error, "")
    assert found["message"]
    assert found["hint"]
    assert len(out.splitlines()) == 1  # also for who reads line by line
    told = metier(*arguments)
    assert (told[0], told[1]) == (exit_code, "")
    assert told[2].startswith(f"error [{error}]: ")


@pytest.mark.each(
    ("arguments", "message"),
    [
        (["add"], "the following arguments are required: SOURCE"),
        (["add", "./x", "--to", "nowhere"], "argument --to: invalid choice: 'nowhere'"),
        (["lock", "--chek"], "unrecognized arguments: --chek (did you mean --check?)"),
        (["approve", "grnat"], "did you mean `metier approve grant`?"),
        (["lsit"], "did you mean `metier list`?"),
    ],
)
def test_wrong_usage_is_json_too(metier: Call, arguments: list[str], message: str) -> None:
    code, out, err = metier(*arguments, "--json")
    found = json.loads(out)["error"]
    assert (code, found["code"], err) == (2, "invalid-argument", "")
    assert message in found["message"]
    assert "--help`" in found["hint"]
    assert metier(*arguments)[2].startswith("usage: metier")


def test_what_the_system_refuses_is_json_too(metier: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(importlib.import_module("metier.cli.list"), "run", refuse)
    code, out, err = metier("list", "--json")
    assert (code, err) == (2, "")
    assert "No space left on device" in json.loads(out)["error"]["message"]


@pytest.mark.parametrize(
    ("command", "words"), [("approve", "list, show, grant, deny, revoke"), ("audit", "tail, search, verify")]
)
def test_a_verb_that_is_missing_is_told_with_those_there_are(metier: Call, command: str, words: str) -> None:
    code, out, err = metier(command)
    assert (code, out) == (2, "")
    assert f"error: a verb is missing: {words}" in err


def test_the_module_is_the_command(skills: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "metier", "--skills", str(skills), "list"], capture_output=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"NAME ")


_words = st.one_of(
    st.sampled_from(["list", "show", "help", "validate", "doctor", "completion", "trust", "untrust", "bash"]),
    st.sampled_from(["--all", "--json", "--strict", "--portable", "--skills", "--no-cache", "--list", "--version"]),
    st.sampled_from(["--", "-", "-h", "--help", "--js", "--skills=", "--skills=nowhere", "-1", "--=", "@", "@x", "%s"]),
    st.sampled_from(["alpha", "beta", "broken", "alpha@skills", "SKILL.md", "../x", "no/such", "skills", "", " "]),
    st.sampled_from(["x" * 10_000, "--" + "x" * 10_000, "\x1b[2J", "a\nb", "\udcff\udc80", "٣", "\u202e", "{0}"]),
    st.text(st.characters(exclude_characters="\0/\\.~", exclude_categories=["Cs"]), max_size=20),
).filter(lambda word: word not in ("new", "demo"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arguments=st.lists(_words, max_size=6))
def test_whatever_is_typed_the_answer_is_an_exit_code(
    arguments: list[str], skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(skills.parent)
    (skills / "broken").mkdir(exist_ok=True)
    (skills / "broken" / "SKILL.md").write_bytes(b"")
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            assert main(["--skills", str(skills), *arguments]) in (0, 1, 2)
        except SystemExit as leaving:
            assert leaving.code in (0, 2)


# --- streams -----------------------------------------------------------------------------------------------------


@posix_only
def test_a_reader_that_has_seen_enough_causes_no_complaint(
    forked: list[str], write_skill: Write, tmp_path: Path
) -> None:
    for number in range(300):
        write_skill(tmp_path / f"skill-{number}", description="word " * 90)
    with subprocess.Popen(
        [*forked, "--skills", str(tmp_path), "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline().startswith(b"NAME ")
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(timeout=60) == 0


_OUTPUTS = [
    ["list"],
    ["list", "--json"],
    ["show", "alpha"],
    ["show", "alpha", "--instructions"],
    ["doctor"],
    ["completion", "bash"],
]
_BEFORE_ANY_COMMAND: list[list[str]] = [["--help"], ["--version"], []]
_ANEW = [["list"], *_BEFORE_ANY_COMMAND]
"""Commands for which an interpreter is started: how it ends is in question, which is the same for all others."""


def _into(command: list[str], skills: Path, arguments: list[str], stdout: int) -> tuple[int, bytes]:
    done = subprocess.run(
        [*command, "--skills", str(skills), *arguments], stdout=stdout, stderr=subprocess.PIPE, timeout=60
    )
    return done.returncode, done.stderr


@posix_only
@pytest.mark.each("arguments", [*_OUTPUTS, *_BEFORE_ANY_COMMAND], every=2)
def test_a_reader_that_is_gone_causes_no_complaint(
    command: list[str], forked: list[str], skills: Path, arguments: list[str]
) -> None:
    command = command if arguments in _ANEW else forked
    theirs, ours = os.pipe()
    os.close(theirs)
    try:
        assert _into(command, skills, arguments, ours) == (0, b"")
    finally:
        os.close(ours)


@linux_only
@pytest.mark.each("arguments", [*_OUTPUTS, *_BEFORE_ANY_COMMAND], every=2)
def test_a_full_disk_is_a_problem_in_one_sentence(
    command: list[str], forked: list[str], skills: Path, arguments: list[str]
) -> None:
    command = command if arguments in _ANEW else forked
    with open("/dev/full", "wb") as full:
        code, err = _into(command, skills, arguments, full.fileno())
    assert code in (1, 2)
    assert b"Traceback" not in err
    assert b"Exception ignored" not in err
    assert b"No space left" in err


@posix_only
@pytest.mark.each(
    "arguments",
    [["list"], ["show", "alpha"], ["show", "alpha", "--instructions"], ["doctor"], ["validate", "."]],
    every=4,
)
def test_without_a_standard_output_there_is_no_traceback(
    command: list[str], skills: Path, arguments: list[str]
) -> None:
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", *command, "--skills", str(skills), *arguments]
    done = subprocess.run(shell, cwd=skills, stderr=subprocess.PIPE, timeout=60)
    assert b"Traceback" not in done.stderr
    assert done.returncode in (0, 1, 2)


@posix_only
def test_without_a_standard_error_the_exit_code_says_it(command: list[str], skills: Path) -> None:
    shell = ["sh", "-c", 'exec "$@" 2>&-', "sh", *command, "--skills", str(skills), "show", "nothing"]
    assert subprocess.run(shell, stdout=subprocess.DEVNULL, timeout=60).returncode == 1


@pytest.mark.each(
    ("env", "arguments"),
    [
        ({"PYTHONIOENCODING": "ascii"}, ["doctor"]),
        ({"PYTHONIOENCODING": "ascii"}, ["list"]),
        ({"PYTHONIOENCODING": "ascii"}, ["show", "技能"]),
        ({"PYTHONIOENCODING": "ascii"}, ["show", "alpha"]),
        ({"LC_ALL": "C", "PYTHONUTF8": "0"}, ["show", "技能"]),
        ({"LC_ALL": "C"}, ["show", "技能"]),
    ],
    every=4,
)
def test_an_encoding_that_cannot_say_it_does_not_matter(
    process: Process, skills: Path, env: dict[str, str], arguments: list[str]
) -> None:
    done = process("--skills", skills, *arguments, env=env)
    assert done.returncode == (1 if "技能" in arguments else 0)
    assert b"Traceback" not in done.stderr


def test_json_is_json_in_an_encoding_that_cannot_say_it(process: Process, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "alpha", description="Café 技能 🎉.")
    done = process("--skills", tmp_path, "list", "--json", env={"PYTHONIOENCODING": "ascii"})
    assert json.loads(done.stdout)[0]["description"] == "Café 技能 🎉."


# --- interruptions and surroundings ------------------------------------------------------------------------------


def test_an_interruption_is_no_traceback(metier: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(options: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib.import_module("metier.cli.list"), "run", interrupted)
    assert metier("list") == (130, "", "Stopped.\n")


@posix_only
def test_control_c_stops_it_at_once_and_leaves_nothing_behind(forked: list[str], tmp_path: Path) -> None:
    import fcntl

    with subprocess.Popen(
        [*forked, "demo"],
        env={**os.environ, "PYTHONUNBUFFERED": "1", "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    ) as child:
        assert child.stdout is not None
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            # It has more to say than fits, and so cannot be through before the signal comes.
            fcntl.fcntl(child.stdout, fcntl.F_SETPIPE_SZ, 4_096)
        while b"2. Odd ones" not in child.stdout.readline():
            assert child.poll() is None
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=60)
        assert (child.returncode, err) == (130, b"Stopped.\n")
    assert list(tmp_path.iterdir()) == []


@posix_only
@pytest.mark.parametrize(
    "arguments",
    [
        ["list"],
        ["doctor"],
        ["show", "alpha"],
        ["new", "alpha"],
        ["validate", "alpha"],
        *(
            pytest.param(arguments)
            for arguments in (["trust"], ["untrust"], ["trust", "x"], ["validate", "."], ["--skills", ".", "list"])
        ),
    ],
    ids=" ".join,
)
def test_a_working_folder_that_was_removed_is_wrong_usage(
    metier: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    code, out, err = metier(*arguments)
    assert (code, out) == (2, "")
    assert "\nhint: " in err


@posix_only
def test_a_removed_working_folder_does_not_matter_when_nothing_is_looked_for_in_it(
    command: list[str], skills: Path, tmp_path: Path
) -> None:
    shell = ["sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", *command, "--skills", str(skills), "list"]
    (tmp_path / "gone").mkdir()
    done = subprocess.run(shell, cwd=tmp_path / "gone", capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


@posix_only
@pytest.mark.each("arguments", [["list"], ["doctor"], ["trust", "skills"]])
def test_a_user_without_a_home_is_no_traceback(
    metier: Call, skills: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    import pwd

    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.chdir(skills.parent)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert metier(*arguments)[0] in (0, 2)


# --- colour and terminals -------------------------------------------------------------------------------------------


def test_a_pipe_gets_no_colour(process: Process, skills: Path) -> None:
    assert b"\x1b" not in process("--skills", skills, "list").stdout


def test_colour_can_be_forced_into_a_pipe(process: Process, skills: Path) -> None:
    assert b"\x1b[1malpha" in process("--skills", skills, "list", env={"FORCE_COLOR": "1"}).stdout
    assert b"\x1b[31merror" in process("--skills", skills, "show", "x", env={"FORCE_COLOR": "1"}).stderr


def test_json_has_no_colour_even_when_it_is_forced(process: Process, skills: Path) -> None:
    done = process("--skills", skills, "list", "--json", env={"FORCE_COLOR": "1"})
    assert b"\x1b" not in done.stdout
    json.loads(done.stdout)


def test_a_terminal_gets_colour(terminal: Terminal, skills: Path) -> None:
    code, out = terminal("--skills", skills, "list")
    assert code == 0
    assert "\x1b[1malpha" in out


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_gets_no_colour_where_none_is_wanted(terminal: Terminal, skills: Path, env: dict[str, str]) -> None:
    code, out = terminal("--skills", skills, "list", env=env)
    assert code == 0
    assert "\x1b" not in out


def test_an_empty_wish_for_no_colour_is_none(terminal: Terminal, skills: Path) -> None:
    assert "\x1b[1malpha" in terminal("--skills", skills, "list", env={"NO_COLOR": ""})[1]


def _columns(line: str) -> int:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", line)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in plain)


@pytest.mark.each("columns", [60, 80, 81, 200])
def test_a_description_takes_three_lines_of_a_terminal_at_most(
    terminal: Terminal, write_skill: Write, tmp_path: Path, columns: int
) -> None:
    write_skill(tmp_path / "ascii", description="word " * 200)
    write_skill(tmp_path / "wide", description="技能" * 400)
    write_skill(tmp_path / "mixed", description="a技b能 é🎉" * 100)
    code, out = terminal("--skills", tmp_path, "list", columns=columns)
    assert code == 0
    lines = out.splitlines()[1:10]
    assert all(columns * 2 // 3 <= _columns(line) <= columns for line in lines)
    assert [line.endswith("…") for line in lines] == [False, False, True] * 3


def test_the_width_may_be_said_by_the_environment(terminal: Terminal, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "alpha", description="word " * 100)
    _, out = terminal("--skills", tmp_path, "list", columns=200, env={"COLUMNS": "50"})
    assert max(map(_columns, out.splitlines()[:2])) in (49, 50)


@pytest.mark.each("columns", ["0", "-5", "1", "²", "nonsense", "99999999999999999999"])
def test_a_width_that_makes_no_sense_does_not_matter(terminal: Terminal, skills: Path, columns: str) -> None:
    code, out = terminal("--skills", skills, "list", columns=0, env={"COLUMNS": columns})
    assert code == 0
    assert "alpha" in out
    code, out = terminal("list", "--help", columns=0, env={"COLUMNS": columns})
    assert code == 0
    assert "--skills" in out


def test_wide_characters_do_not_shift_the_columns(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    for name in ("alpha", "技能", "cafe\u0301"):
        write_skill(tmp_path / name, description="Does it.")
    _, out, _ = metier("--skills", tmp_path, "list")
    starts = {_columns(line.partition("project")[0]) for line in out.splitlines()[1:-1]}
    assert len(starts) == 1


def test_a_long_name_leaves_the_table_within_the_terminal(
    terminal: Terminal, write_skill: Write, tmp_path: Path
) -> None:
    write_skill(tmp_path / ("技" * 64), description="Does it.")
    _, out = terminal("--skills", tmp_path, "list", columns=80)
    assert all(_columns(line) <= 80 for line in out.splitlines()[:2])


# --- words of a stranger -------------------------------------------------------------------------------------------

_HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e\x08\r"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A skill that says everything in escape sequences, and two more that are broken or unreadable."""
    if sys.platform == "win32":
        pytest.skip("such names cannot be written here")
    root = tmp_path / "hostile"
    folder = root / f"evil{_HOSTILE}"
    (folder / "scripts").mkdir(parents=True)
    text = json.dumps(_HOSTILE)[1:-1]
    (folder / "SKILL.md").write_text(
        f'---\nname: "evil {text}"\ndescription: "Does {text}\\nit"\nlicense: "{text}"\n"key {text}": "{text}"\n'
        f'metadata: {{"{text}": ["{text}"]}}\nallowed-tools: ["{text}"]\ntags: ["{text}"]\n---\n'
        f"# Title {_HOSTILE}\n\nBody {_HOSTILE}\n\n[x](<{_HOSTILE}.md>) scripts/gone.py\n",
        encoding="utf-8",
        newline="",
    )
    (folder / "scripts" / f"run{_HOSTILE}.py").write_text(f"def broken(:  # {_HOSTILE}\n", encoding="utf-8")
    (folder / "raw.txt").write_text(f"raw {_HOSTILE}\n", encoding="utf-8")
    (root / f"broken{_HOSTILE}").mkdir()
    (root / f"broken{_HOSTILE}" / "SKILL.md").write_bytes(b"")
    (root / f"link{_HOSTILE}").symlink_to(f"nowhere{_HOSTILE}")
    return root


_ACTING = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.mark.parametrize(
    "arguments",
    [
        ["list"],
        ["list", "--all"],
        ["show", "{name}"],
        ["show", "{name}", "--instructions"],
        ["show", "{name}", "raw.txt"],
        ["show", "{name}", "gone\x1b[2J"],
        ["show", "{name}\x1b[2J", "--instructions"],
        ["doctor"],
        ["validate", "{folder}"],
        ["validate", "{folder}", "--strict"],
        ["validate", "{folder}", "--portable"],
        ["validate", "{folder}\x1b[2J"],
        ["new", "\x1b[2J"],
        ["trust", "{folder}\x1b[2J"],
        *(pytest.param(arguments) for arguments in (["list", "--json"], ["show", "{name}", "--json"])),
    ],
    ids=lambda arguments: " ".join(arguments).replace("\x1b", "ESC"),
)
def test_what_acts_on_a_terminal_is_shown_and_never_sent(
    terminal: Terminal, metier: Call, hostile: Path, arguments: list[str]
) -> None:
    names = [shape["name"] for shape in json.loads(metier("--skills", hostile, "list", "--json")[1])]
    (name,) = names
    words = [word.format(name=name, folder=hostile) for word in arguments]
    code, out = terminal("--skills", hostile, *words, columns=300, env={"NO_COLOR": "1"})
    assert code in (0, 1, 2)
    assert _ACTING.search(out) is None, repr(out)
    assert "\r" not in out.replace("\r\n", "")


def test_a_tab_in_a_file_reaches_the_terminal(terminal: Terminal, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "alpha", body="a\tb\n\nc")
    assert terminal("--skills", tmp_path, "show", "alpha", "--instructions") == (0, "a\tb\r\n\r\nc\r\n")


def test_a_program_that_reads_gets_the_bytes_as_they_are(process: Process, write_skill: Write, tmp_path: Path) -> None:
    file = write_skill(tmp_path / "alpha")
    (file.parent / "raw.bin").write_bytes(b"\x1b[2J\xff\r\n")
    assert process("--skills", tmp_path, "show", "alpha", "raw.bin").stdout == b"\x1b[2J\xff\r\n"


@pytest.mark.parametrize(("command", "is_short"), [("list", True), ("mcp", False), ("chat", False), ("shell", False)])
def test_only_a_short_command_looks_for_garbage_less_often(
    monkeypatch: pytest.MonkeyPatch, command: str, is_short: bool
) -> None:
    thresholds = list[tuple[int, ...]]()
    monkeypatch.setattr(gc, "set_threshold", lambda *given: thresholds.append(given))
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(sys, "argv", ["metier", command, "--no-such-option"])
    with pytest.raises(SystemExit):
        main()
    assert bool(thresholds) is is_short
