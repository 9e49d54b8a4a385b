"""`metier shell`: the virtual shell, for people and for programs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from metier.cli.shell import missing_end

Call = Callable[..., tuple[int, str, str]]
Talk = Callable[..., tuple[int, str, str]]
Write = Callable[..., Path]


@pytest.fixture
def interpreter() -> None:
    """What the shell needs is here."""
    pytest.importorskip("bashkit")


@pytest.fixture
def skills(write_skill: Write, tmp_path: Path) -> Path:
    root = tmp_path / "skills"
    for name in ("alpha", "beta"):
        write_skill(root / name)
        (root / name / "scripts").mkdir()
        (root / name / "scripts" / "hi.sh").write_text(f'echo "hi from {name} $*"\n')
    return root


@pytest.fixture
def talk(metier: Call, skills: Path, interpreter: None) -> Talk:
    """Calls the shell with text on its input."""

    def run(text: str | bytes, *options: str | Path) -> tuple[int, str, str]:
        return metier("--skills", skills, "shell", *options, given=text)

    return run


@pytest.fixture
def once(metier: Call, skills: Path, interpreter: None) -> Call:
    """Runs one command line, in this process."""

    def call(command: str, *options: str | Path) -> tuple[int, str, str]:
        return metier("--skills", skills, "shell", *options, "-c", command)

    return call


# --- one command --------------------------------------------------------------------------------------------------


def test_one_command_gives_its_output_and_its_exit_code(once: Call) -> None:
    assert once("echo out; echo err >&2; exit 5") == (5, "out\n", "err\n")


def test_skills_are_mounted_and_cannot_be_written(once: Call) -> None:
    assert once("ls /.sandbox/skills; pwd") == (0, "alpha\nbeta\n/workspace\n", "")
    assert once("sh /.sandbox/skills/alpha/scripts/hi.sh there")[:2] == (0, "hi from alpha there\n")
    code, _, err = once("echo x > /.sandbox/skills/alpha/SKILL.md")
    assert code != 0 and err


def test_only_what_is_named_is_mounted(once: Call) -> None:
    assert once("ls /.sandbox/skills", "--skill", "beta")[:2] == (0, "beta\n")
    code, out, err = once("ls", "--skill", "gamma")
    assert (code, out) == (1, "")
    assert "[skill-not-found]" in err


def test_nothing_of_this_machine_is_there(once: Call, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    code, out, _ = once(f"cat {tmp_path}/secret; ls {tmp_path}")
    assert code != 0 and out == ""


def test_a_program_gets_one_object(once: Call) -> None:
    code, out, err = once("echo hi; exit 3", "--json")
    shape = json.loads(out)
    assert (code, err) == (3, "")
    assert (shape["exit_code"], shape["stdout"], shape["runner"], shape["timed_out"]) == (3, "hi\n", "virtual", False)


def test_a_command_that_takes_too_long_is_ended(once: Call) -> None:
    code, out, err = once("echo begun; while true; do :; done", "--timeout", "0.5")
    assert (code, out) == (124, "begun\n")
    assert "0.5 seconds" in err


# --- many commands ------------------------------------------------------------------------------------------------


def test_what_one_command_does_is_there_for_the_next(talk: Talk) -> None:
    text = "cd /tmp\nx=5\nf() {\n  echo $((x * 2)) $(pwd)\n}\nf\n"
    assert talk(text) == (0, "10 /tmp\n", "")


def test_a_command_goes_on_until_it_is_finished(talk: Talk) -> None:
    text = 'if true; then\necho "one\ntwo"\nfi\n\n# a remark\ncat <<END | tr a-z A-Z\nhere "is\nEND\n'
    assert talk(f"{text}for i in 1 2\ndo echo $i; done\n") == (0, 'one\ntwo\nHERE "IS\n1\n2\n', "")


def test_what_never_finishes_is_run_at_the_end_of_the_input(talk: Talk) -> None:
    code, out, err = talk("echo first\nif true; then\necho never\n")
    assert (code, out) == (2, "first\n")
    assert "syntax error" in err


@pytest.mark.parametrize(
    "text", ["exit 4\necho no\n", "false || exit 4\necho no\n", "if true; then exit 4; fi\necho no"]
)
def test_exit_ends_it_wherever_it_stands(talk: Talk, text: str) -> None:
    assert talk(f"echo yes\n{text}") == (4, "yes\n", "")


@pytest.mark.parametrize("text", ["(exit 4)", "true || exit 4", "echo exit", "exit)", "f() { exit 4; }"])
def test_an_exit_that_is_not_reached_ends_nothing(talk: Talk, text: str) -> None:
    code, out, _ = talk(f"{text}\necho went on; true\n")
    assert code == 0
    assert out.endswith("went on\n")


def test_the_exit_code_is_that_of_the_last_command(talk: Talk) -> None:
    assert talk("true\nfalse\n")[0] == 1
    assert talk("false\ntrue\n")[0] == 0
    assert talk("")[0] == 0


def test_a_program_gets_a_line_for_each_command(talk: Talk) -> None:
    code, out, err = talk("echo a\nno-such-command\ncat <<E\nb\nE\n", "--json")
    assert (code, err) == (0, "")
    assert [(shape["exit_code"], shape["stdout"]) for shape in map(json.loads, out.splitlines())] == [
        (0, "a\n"),
        (127, ""),
        (0, "b\n"),
    ]


def test_what_cannot_be_run_is_said_and_the_next_is_read(talk: Talk) -> None:
    code, out, err = talk(f"echo {'x' * 1_100_000}\necho next\n")
    assert (code, out) == (0, "next\n")
    assert "error [shell-command-too-long]" in err
    code, out, _ = talk(f"echo {'x' * 1_100_000}\necho next\n", "--json")
    failed, following = map(json.loads, out.splitlines())
    assert failed["error"]["code"] == "shell-command-too-long" and following["stdout"] == "next\n"


def test_input_that_is_no_text_is_no_traceback(talk: Talk) -> None:
    code, out, err = talk(b"echo '\xff\xfe'\necho next\n")
    assert (code, out.splitlines()[-1]) == (0, "next")
    assert "Traceback" not in err


@pytest.mark.usefixtures("interpreter")
def test_a_large_library_is_not_mounted_as_a_whole(forked: list[str], write_skill: Write, tmp_path: Path) -> None:
    for number in range(60):
        write_skill(tmp_path / "many" / f"skill-{number:02}")
    done = subprocess.run(
        [*forked, "--skills", str(tmp_path / "many"), "shell"],
        input=b"ls /.sandbox/skills | wc -l\n",
        capture_output=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout.split()) == (0, [b"50"])
    assert done.stderr == b"50 skills below /.sandbox/skills, 10 more are not: `--skill NAME` mounts one.\n"


@pytest.mark.usefixtures("interpreter")
def test_skills_that_nobody_vouches_for_are_mounted_when_they_are_named(
    metier: Call, write_skill: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path / ".agents/skills/found")
    monkeypatch.chdir(tmp_path)
    assert "found" not in metier("shell", "-c", "ls /.sandbox/skills")[1]
    assert metier("shell", "--skill", "found", "-c", "ls /.sandbox/skills")[1] == "found\n"


def test_a_link_in_a_skill_leads_nowhere(once: Call, skills: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    try:
        (skills / "alpha" / "link").symlink_to(tmp_path / "secret")
    except OSError:
        pytest.skip("links need a privilege here")
    code, out, _ = once("cat /.sandbox/skills/alpha/link", "--skill", "alpha")
    assert code != 0 and out == ""


# --- a workspace --------------------------------------------------------------------------------------------------


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "sub").mkdir(parents=True)
    (folder / "one.txt").write_text("one\n")
    (folder / "sub" / "two.txt").write_text("two\n")
    return folder


def files(folder: Path) -> dict[str, str]:
    found = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_text() for path in found if path.is_file()}


def test_a_folder_is_worked_on_as_a_copy(once: Call, work: Path) -> None:
    before = files(work)
    assert once("cat one.txt sub/two.txt; echo x > one.txt; rm -r sub", "--workspace", work) == (0, "one\ntwo\n", "")
    assert files(work) == before


def test_what_changed_is_written_back_where_somebody_says_so(once: Call, work: Path) -> None:
    code, _, err = once(
        "echo 1 > one.txt; rm sub/two.txt; mkdir new; echo 3 > new/three.txt", "--workspace", work, "--write-back"
    )
    assert (code, err) == (0, "4 paths written back.\n")
    assert files(work) == {"one.txt": "1\n", "new/three.txt": "3\n"}


@pytest.mark.usefixtures("interpreter")
def test_what_somebody_else_changed_meanwhile_stays(forked: list[str], skills: Path, work: Path) -> None:
    child = subprocess.Popen(
        [*forked, "--skills", str(skills), "shell", "--workspace", str(work), "--write-back"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write(b"echo here\n")
    child.stdin.flush()
    assert child.stdout.readline() == b"here\n"
    (work / "one.txt").write_text("meanwhile\n")
    child.communicate(b"echo 2 > sub/two.txt\n", timeout=60)
    assert child.returncode == 0
    assert files(work) == {"one.txt": "meanwhile\n", "sub/two.txt": "2\n"}


def test_what_runs_elsewhere_later_is_not_written(once: Call, work: Path) -> None:
    code, _, err = once(
        "mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit; echo 1 > one.txt", "--workspace", work, "--write-back"
    )
    assert code == 1
    assert "not written: /.git/hooks/pre-commit: it is protected" in err
    assert not (work / ".git" / "hooks").exists()
    assert (work / "one.txt").read_text() == "1\n"


@pytest.mark.covers("SEC-1", "SEC-3")
def test_what_a_protected_link_leads_to_is_not_written(once: Call, work: Path) -> None:
    (work / "vs").mkdir()
    (work / ".vscode").symlink_to("vs")
    code, _, err = once(
        "echo evil > vs/tasks.json; mkdir -p sub; echo evil > sub/AGENTS.md", "--workspace", work, "--write-back"
    )
    assert code == 1
    assert "not written: /vs/tasks.json: it is protected" in err
    assert "not written: /sub/AGENTS.md: it is protected" in err
    assert not (work / "vs" / "tasks.json").exists()


@pytest.mark.each("options", [("--write-back",), ("--workspace", "nowhere"), ("--timeout", "0")])
def test_wrong_usage_is_two(once: Call, options: tuple[str, ...]) -> None:
    assert once("ls", *options)[:2] == (2, "")


def test_programs_are_handed_to_the_sandbox_and_bring_their_changes_back(once: Call) -> None:
    from metier.run.selection import native_runner

    if not native_runner().capabilities().isolates_files:
        pytest.skip("this machine has no sandbox for programs")
    code, out, err = once('python3 -c \'open("made", "w").write("by python")\'; cat made')
    assert (code, out, err) == (0, "by python", "")


# --- a terminal ---------------------------------------------------------------------------------------------------


class Screen:
    """A person at a terminal: types, and reads until something is there."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.seen = b""
        self._at = 0

    def type(self, text: bytes) -> None:
        os.write(self._descriptor, text)

    def until(self, text: bytes) -> None:
        while (found := self.seen.find(text, self._at)) < 0:
            chunk = os.read(self._descriptor, 65_536)
            assert chunk, self.seen
            self.seen += chunk
        # What follows may have come together with it.
        self._at = found + len(text)

    def rest(self) -> None:
        with contextlib.suppress(OSError):
            while chunk := os.read(self._descriptor, 65_536):
                self.seen += chunk


@pytest.fixture
def person(
    command: list[str], skills: Path, interpreter: None
) -> Iterator[Callable[..., tuple[Screen, subprocess.Popen[bytes]]]]:
    if sys.platform == "win32":
        pytest.skip("there are no pseudo-terminals here")
    import pty

    ours, theirs = pty.openpty()
    started: list[subprocess.Popen[bytes]] = []

    def begin(*options: str) -> tuple[Screen, subprocess.Popen[bytes]]:
        started.append(
            subprocess.Popen(
                [*command, "--skills", str(skills), "shell", *options],
                env={**os.environ, "TERM": "dumb"},
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                start_new_session=True,
            )
        )
        os.close(theirs)
        return Screen(ours), started[0]

    yield begin
    os.close(ours)
    for child in started:
        child.kill()
        child.wait()


Person = Callable[..., tuple[Screen, "subprocess.Popen[bytes]"]]


def test_a_person_gets_a_prompt_with_the_folder_and_another_for_what_goes_on(person: Person) -> None:
    screen, child = person()
    screen.until(b"/workspace $ ")
    assert b"2 skills below /.sandbox/skills." in screen.seen
    screen.type(b"cd /tmp\n")
    screen.until(b"/tmp $ ")
    screen.type(b"if true; then\n")
    screen.until(b"> ")
    screen.type(b"echo answer$((40 + 2)); fi\n")
    screen.until(b"answer42")
    screen.until(b"/tmp $ ")
    # No command acts on the terminal.
    screen.type(b"printf 'a\\033[2Jb\\n'\n")
    screen.until(b"a\\x1b[2Jb")
    screen.until(b"/tmp $ ")
    screen.type(b"\x04")
    screen.rest()
    assert child.wait(timeout=60) == 0
    assert b"\x1b[2J" not in screen.seen


def test_control_c_ends_the_running_command_and_nothing_else(person: Person) -> None:
    screen, child = person("--timeout", "60")
    screen.until(b"/workspace $ ")
    screen.type(b"echo begun$((1 + 1)); while true; do :; done\n")
    screen.until(b"begun2")
    os.kill(child.pid, signal.SIGINT)
    screen.until(b"The command was stopped.")
    screen.until(b"/workspace $ ")
    screen.type(b"exit 6\n")
    screen.rest()
    assert child.wait(timeout=60) == 6


# --- without what it needs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_json", [False, True])
def test_without_the_interpreter_it_says_what_to_install(
    metier: Call, skills: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    import importlib.util

    real = importlib.util.find_spec
    hidden: Any = lambda name, *more: None if name == "bashkit" else real(name, *more)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", hidden)
    code, out, err = metier("--skills", skills, "shell", "-c", "ls", *(["--json"] if as_json else []))
    assert code == 1
    if as_json:
        assert json.loads(out)["error"]["code"] == "shell-unavailable"
    else:
        assert out == "" and "[shell-unavailable]" in err
    assert "pip install 'metier[shell]'" in (out if as_json else err)


# --- what goes on in the next line --------------------------------------------------------------------------------


@pytest.mark.each(
    "text",
    [
        "if true; then", "if true; then\necho hi", "for i in 1 2; do", "while true; do echo", "until false",
        "case x in", "case x in a) echo", "f() {", "f()", "{ echo", "( echo", "echo $(ls", "echo ${x", "echo `ls",
        "echo a |", "echo a &&", "echo a ||", "echo a \\", "echo $((1+", "[[ a ==", "list=(1 2", "echo 'a",
        "echo 'a' 'b", 'echo "a', 'echo "a" "b',
    ],
)  # fmt: skip
def test_more_is_awaited(text: str) -> None:
    assert missing_end(text) == "more"


@pytest.mark.each(
    ("text", "delimiter"),
    [("cat <<END", "END"), ("cat <<'E' | wc\na", "E"), ("cat <<-X\n\ta\n", "X"), ('echo "$(cat <<E\nx', "E")],
)
def test_the_end_of_a_here_document_is_awaited(text: str, delimiter: str) -> None:
    assert missing_end(text) == delimiter


@pytest.mark.each(
    "text",
    [
        "", "ls", "echo a & ", "echo a \\\\", "cat <<E\na\nE", "cat <<-X\n\ta\n\tX", "case x in a) echo;; esac",
        "f() {\n echo\n}", "list=(1\n2)", '# "remark', "echo it\\'s", ")", "}", "fi", "done", "echo ;;", "echo a; )",
        "if x; then y; fi )", "a=$(cat <<E\nx\nE\n)", "time",
    ],
)  # fmt: skip
def test_nothing_is_awaited_where_it_can_be_run_or_is_wrong(text: str) -> None:
    assert missing_end(text) == ""


# --- what policy bars ---------------------------------------------------------------------------------------------


@pytest.fixture
def denied(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own_home / "policy.yaml").write_text("skills: {deny: [beta]}\n")
    monkeypatch.setenv("METIER_POLICY", str(own_home / "policy.yaml"))


def test_a_skill_that_policy_denies_is_refused_as_by_run(metier: Call, skills: Path, once: Call, denied: None) -> None:
    run = metier("--skills", skills, "run", "beta", "scripts/hi.sh")
    assert once("ls /.sandbox/skills", "--skill", "beta") == run
    assert "[skill-denied]" in run[2]
    code, out, _ = once("true", "--skill", "beta", "--json")
    assert (code, json.loads(out)["error"]["code"]) == (1, "skill-denied")
    assert once("ls /.sandbox/skills", "--skill", "alpha") == (0, "alpha\n", "")


def test_a_skill_in_quarantine_is_refused(metier: Call, skills: Path, once: Call) -> None:
    assert metier("quarantine", "add", "beta", "--reason", "It was bad.")[0] == 0
    code, out, err = once("ls /.sandbox/skills", "--skill", "beta")
    assert (code, out) == (1, "")
    assert "[skill-quarantined]" in err


def test_what_policy_bars_is_not_among_those_that_nobody_named(once: Call, talk: Talk, denied: None) -> None:
    assert once("ls /.sandbox/skills") == (0, "alpha\n", "")
    assert talk("true\n")[2] == "1 skill below /.sandbox/skills, 1 more are not: `--skill NAME` mounts one.\n"


def test_what_has_to_be_approved_first_is_refused_and_waits(
    metier: Call, once: Call, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_home / "policy.yaml").write_text("skill-policy: {require-approval-for: [scripts]}\n")
    monkeypatch.setenv("METIER_POLICY", str(own_home / "policy.yaml"))
    code, out, err = once("ls /.sandbox/skills", "--skill", "beta")
    assert (code, out) == (4, "")
    assert "[approval-needed]" in err
    assert "beta" in metier("approve", "list")[1]
    assert "beta" not in once("ls /.sandbox/skills")[1]
