"""What a real bash does with commands that the rules let pass.

Commands are put together from fragments, and those that pass are run by bash in a scratch folder, where every program
only writes its name to a log. Nothing that is not allowed may ever be in that log, and no file may change.
"""

from __future__ import annotations

import os
import random
import shutil
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from metier.guard.tool_rules.matching import forbids, permits
from metier.skill.tool_rules import parse_rules

BASH, DASH = shutil.which("bash"), shutil.which("dash")
COMMANDS = [50, pytest.param(500, marks=pytest.mark.slow)]
"""How many commands that pass are run in each test."""
BATCH = 50

pytestmark = pytest.mark.skipif(BASH is None or os.name != "posix", reason="needs a real bash to compare with")

STUBS = "[ cat cd curl echo export false git printf pwd read rm set sh shopt status tee test true unset x".split()  # noqa: SIM905
REAL = {name: shutil.which(name) for name in ("bash", "env", "find", "xargs")}

SEEDS = [
    "git status",
    "git log --oneline | git shortlog",
    "git add . && git commit -m 'a b'",
    'git commit -m "a $x b"',
    "for x in a b; do git log $x; done",
    "if git a; then git b; else git c; fi",
    "while git a; do git b; done",
    "case a in a|b) git a;; *) git b;; esac",
    "(git a; git b) & git c",
    "{ git a; git b; } 2>&1 > /dev/null",
    "! git a || git b",
    "git a <<'EOF' && git b\ncurl x\nEOF\ngit c",
    "git a <<EOF\nsome text\nEOF",
    "git a <<< 'curl x'",
    "git a \\\n  b # c",
    "git a 'b'\"c\"d\\ e",
    "git a $'b\\nc' {d,e} *.f ~",
    "[[ -f a && -n $z ]] && git a",
    "cat <<EOF\n$z\nEOF\ngit a",
    'echo "${z/a/b}" "${z[@]}"',
]
WRAPPED = [
    *SEEDS,
    "git a > out/x",
    "git a >> out/y 2>&1",
    "find . -name 'a*' -exec git a {} \\;",
    "find . -name a -exec git a {} + -exec git b \\;",
    "git a | xargs git add",
    "xargs -I{} git add {} <<< 'a b'",
    "xargs -Ia git add a <<< 'curl x'",
    "xargs -n 1 env git add <<< 'a b'",
    "env git a",
    "env -u x -- git a b",
    "bash -c 'git a; git b'",
    'bash -ec "git a | git b" x y',
    "for x in a b; do find . -name $x -exec git a {} \\;; done",
    'for x in *; do find "./$x" -name a; done',
    "find . -name *.f -newer $z",
    "for x in git a; do env git $x; done",
]
FRAGMENTS = [
    " ", " ", " ", "\n", "\t", ";", "&", "&&", "||", "|", "|&", "(", ")", "{ ", "; }", "'", '"', "\\", "\\\n", "`",
    "$(", "$((", "))", "${", "}", "$", "$x", "${x}", "$@", "$#", "$_", "$'", '$"', "#", " #", "!", "! ", "~", "*", "?",
    "[", "]", "[[ ", " ]]", "=", "x=", "x=1 ", "<", ">", ">>", ">|", "<>", "&>", ">&", "2>&1", ">&-", "<(", ">(", "<<<",
    "<<EOF\n", "<<'EOF'\n", "<<-EOF\n", "\nEOF\n", "EOF", "/dev/null", "a", "-c", "--", "-x", "-exec ", "{}", "{a,b}",
    "git", "git ", "curl", "curl x", "; curl x", "\ncurl x", "rm", "cat ", "echo ", "tee y", "if ", "then ", "else ",
    "fi", "for x in a b", "; do ", "; done", "while ", "case a in ", "a) ", ";;", " esac", "f() ", "function f ",
    "time ", "coproc ", "eval ", "exec ", "command ", "builtin ", "export x=", "set -- curl", "env ", "xargs ",
    "find . ", "-$x", "$IFS", "${z}", "-e*", "curl ", "exec",
    "bash ", "sh -c ", "bash -c ", "-I{} ", "-n 1 ", "in", "do", "done", ",", "..", "\\;", "+", "-i ", "é",
]  # fmt: skip


def soup(chance: random.Random, seeds: list[str]) -> str:
    """A command made of fragments, or one that was right until some were put into it."""
    parts = list(chance.choice(seeds)) if chance.random() < 0.8 else ["git "]
    for _ in range(chance.choice((1, 1, 2, 2, 3, 4, 6))):
        at = chance.randint(0, len(parts))
        parts[at : at + chance.choice((0, 0, 0, 1, 2))] = [chance.choice(FRAGMENTS)]
    return "".join(parts)


@dataclass
class Bash:
    """A bash whose programs only say that they were started."""

    root: Path
    log: Path = field(init=False)
    work: Path = field(init=False)

    def __post_init__(self) -> None:
        self.log, self.work = self.root / "log", self.root / "work"
        programs = self.root / "bin"
        programs.mkdir(parents=True)
        for name in STUBS:
            self._write(programs / name, "exit $((RANDOM % 2))")
        for name, path in REAL.items():
            self._write(programs / name, f'exec {path} "$@"')
        self.driver = self.root / "driver"
        # Builtins would leave no trace, so most are switched off and found among the programs.
        self.driver.write_text(
            f"command_not_found_handle() {{ printf '?%s\\n' \"$1\" >> {self.log}; return $((RANDOM % 2)); }}\n"
            "export -f command_not_found_handle\n"
            "ulimit -t 10\n"
            "FUNCNEST=20\n"
            "while IFS= read -r -d '' line; do\n"
            f"  ( cd {self.work} && enable -n [ cd echo export false pwd read set shopt test true unset &&"
            ' eval "$line"; wait ) < /dev/null > /dev/null 2>&1\n'
            "done\n"
        )
        self.reset()

    def _write(self, path: Path, last: str) -> None:
        path.write_text(f"#!{BASH}\nprintf '%s\\n' \"${{0##*/}}\" >> {self.log}\n{last}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def reset(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        (self.work / "out").mkdir(parents=True)
        for name in ("-exec", "a", "b", "c.f"):
            (self.work / name).write_text("a\n")

    def files(self) -> set[tuple[str, str]]:
        """Every file outside `out`, with what is in it."""
        found = [path for path in self.work.rglob("*") if path.is_file() and path.parent.name != "out"]
        return {(str(path.relative_to(self.work)), path.read_text(errors="replace")) for path in found}

    def run(self, commands: list[str]) -> set[str]:
        """The programs that the commands started."""
        self.log.write_text("")
        environment = {"PATH": str(self.root / "bin"), "HOME": str(self.work), "LC_ALL": "C.UTF-8"}
        subprocess.run(
            [str(BASH), "--norc", "--noprofile", str(self.driver)],
            input="".join(f"{command}\0" for command in commands).encode(),
            env=environment,
            capture_output=True,
            timeout=120,
            check=False,
        )
        return set(self.log.read_text(errors="replace").split("\n")) - {""}


class Dash(Bash):
    """The same with the shell that is `sh` on many systems, and reads some of what bash reads differently."""

    def run(self, commands: list[str]) -> set[str]:
        self.log.write_text("")
        environment = {"PATH": str(self.root / "bin"), "HOME": str(self.work), "LC_ALL": "C.UTF-8"}
        for command in commands:
            subprocess.run(
                # A loop ends that waits for a program that does not exist.
                [str(DASH), "-c", 'ulimit -t 2; exec "$0" -c "$1"', str(DASH), command],
                cwd=self.work,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=60,
                check=False,
            )
        return set(self.log.read_text(errors="replace").split("\n")) - {""}


def passing(rules: str, workspace: Path, seeds: list[str], seed: int, count: int) -> Iterator[list[str]]:
    """Batches of commands that the rules allow."""
    chance = random.Random(seed)
    allow = parse_rules(rules)
    batch: list[str] = []
    found = 0
    while found < count:
        command = soup(chance, seeds)
        if permits(allow, "Bash", {"command": command}, workspace=str(workspace)).allowed:
            batch.append(command)
            found += 1
            if len(batch) == BATCH or found == count:
                yield batch
                batch = []


def wrong(bash: Bash, batch: list[str], allowed: set[str]) -> list[str]:
    """Those of the commands that start something else, or change a file."""
    before = bash.files()
    if bash.run(batch) <= allowed and bash.files() == before:
        return []
    found = []
    for command in batch:
        bash.reset()
        started = bash.run([command])
        if not started <= allowed or bash.files() != before:
            found.append(f"{command!r} started {sorted(started)}")
    bash.reset()
    return found or [f"one of {batch!r}"]


def check_allowed(bash: Bash, seed: int, count: int) -> None:
    for batch in passing("Bash(git:*)", bash.work, SEEDS, seed, count):
        found = wrong(bash, batch, {"git"})
        assert not found, found


def check_wrapped(bash: Bash, seed: int, count: int) -> None:
    rules = "Bash(git:*) Bash(xargs:*) Bash(env:*) Bash(find:*) Bash(bash:*) Write(out/**)"
    usual = bash.run(["bash -lc 'git a'"])  # what the profile of this machine starts too
    for batch in passing(rules, bash.work, WRAPPED, seed, count):
        found = wrong(bash, batch, {"git", "xargs", "env", "find", "bash", *usual})
        assert not found, found


def check_forbidden(bash: Bash, seed: int, count: int) -> None:
    chance = random.Random(seed)
    deny = parse_rules("Bash(curl:*)")
    left = count
    while left > 0:
        batch = [soup(chance, WRAPPED) for _ in range(BATCH)]
        batch = [line for line in batch if "\0" not in line and forbids(deny, "Bash", {"command": line}) is None]
        left -= len(batch)
        started = bash.run(batch)
        if "curl" in started:
            culprits = [line for line in batch if "curl" in bash.run([line])]
            raise AssertionError(f"not forbidden: {culprits or batch!r}")
        bash.reset()


no_dash = pytest.mark.skipif(DASH is None, reason="there is no dash here")
SHELLS = [Bash, pytest.param(Dash, marks=[no_dash, pytest.mark.slow])]


@pytest.mark.covers("O-33")
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("commands", COMMANDS)
def test_a_shell_starts_nothing_but_what_is_allowed(shell: type[Bash], commands: int, tmp_path: Path) -> None:
    check_allowed(shell(tmp_path / "bash"), 1, commands)


@pytest.mark.covers("O-33")
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("commands", COMMANDS)
def test_programs_that_start_others_start_nothing_but_what_is_allowed(
    shell: type[Bash], commands: int, tmp_path: Path
) -> None:
    check_wrapped(shell(tmp_path / "bash"), 2, commands)


@pytest.mark.parametrize("shell", [Bash, pytest.param(Dash, marks=no_dash)])
@pytest.mark.parametrize("commands", COMMANDS)
def test_a_shell_never_starts_what_is_forbidden(shell: type[Bash], commands: int, tmp_path: Path) -> None:
    check_forbidden(shell(tmp_path / "bash"), 3, commands)


def test_the_programs_of_this_test_are_seen_when_they_start(tmp_path: Path) -> None:
    bash = Bash(tmp_path / "bash")
    assert bash.run(["git a; echo b | curl c", "x() { rm a; }; x"]) == {"git", "echo", "curl", "rm"}
    assert bash.run(["xargs git <<< a", "bash -c 'sh x'", "nowhere"]) == {"xargs", "git", "bash", "sh", "?nowhere"}
    assert wrong(bash, ["git a > x"], {"git"}) != []
