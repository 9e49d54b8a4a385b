"""Runs the attacks as a skill's script under a runner, as an unprivileged user, and tells which were blocked.

    python -m tests.run.attacks.driver native:namespaces [COLUMN ...] [--set issue|more|shell|all]
                                       [--only NAME,...] [--skip NAME,...] [--json | --markdown | --page PAGE]

A column is `plain`, `virtual`, or `native` with the means that it is to use: `native:landlock`, `native:namespaces`,
`native:bubblewrap`. Started as root, it goes on as another user, with copies of what it needs where that one can read.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import math
import os
import queue
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.run.attacks.judge import ALONE, LIMITS, Trial, Watch, outside, verdict
from tests.run.attacks.shell import COMMANDS, command
from tests.run.attacks.stage import Ears, Stage, base, host_tmp
from tests.run.attacks.stage import alone as nobody_else

ROOT = Path(__file__).resolve().parents[3]
ATTACKS = ROOT.parent / "shared" / "bench" / "attacks" / "attack.py"
HERE = Path(__file__).resolve().parent
COLUMNS = ("plain", "native:landlock", "native:namespaces", "native:bubblewrap", "virtual")
PATH = "/usr/local/bin:/usr/bin:/bin"
FIRST_USER = 61_184
MOST_USERS = 4_000
"""Users that belong to nobody, of whom each process takes one: what is left of it then is what the attacks left."""
LANES = 2
"""Attacks that run at once."""
LEAST_IN_LANE = 6
"""Attacks for which it is worth to start another caller."""
IN_TMP = {"fs_write_host_tmp", "fs_read_host_tmp", "m_fs_list_tmp", "s_read_tmp", "s_list_parents"}
"""Attacks on names in the machine's folder for temporary files, of which there is one."""
LONG = 30.0
"""Seconds for many attacks."""
SHORT = 1.5
"""Seconds for attacks that could last as long as they may."""
SHORTEST = 1.0
"""Seconds for attacks that do last as long as they may."""
ALONE_IN_SHELL = "virtual:alone"
"""The virtual shell without anybody to hand programs over to."""
TOGETHER = 5
"""Attacks for which it is worth to make them on one stage and in one start of the interpreter."""
APART = {
    "m_fs_odd_files", "m_fs_deep", "m_fs_replace_workspace", "m_fs_link_race", "m_fs_git_moved", "m_fs_startup_files",
    "ok_exit_code", "ok_stdin", "ok_multiproc", "s_kill", "s_bomb_disk", "s_bomb_output", "s_write_root",
    "s_run_background", "s_net_listen",
}  # fmt: skip
"""Those of `SHARING` that leave the stage such that the next one would not find what it is after, or that are about
the job as a whole."""
SHARING = (
    "fs_",
    "net_",
    "ker_",
    "ok_",
    "m_fs_",
    "m_net_",
    "m_ker_",
    "s_read_",
    "s_list_",
    "s_write_",
    "s_env",
    "s_proc_",
    "s_stat_",
    "s_who",
    "s_trap",
    "s_run_",
    "s_net_",
)
SHARING_TOO = {
    "proc_read_victim_env", "proc_see_cmdlines", "proc_ptrace", "proc_env_scrub", "proc_fd_leak", "proc_no_new_privs",
    "proc_kill_victim", "m_proc_limits_of_victim", "m_proc_priority_of_victim", "m_proc_see_victim",
    "m_proc_namespaces", "m_proc_join_namespaces", "m_proc_raise_limits", "m_proc_unbounded", "m_proc_privileges",
}  # fmt: skip
"""Attacks that can be made one after the other on the same stage: either the stage is untouched afterwards, or they are
made again in smaller groups and at last alone, as is each that says that it worked."""
WORKING = {"native:landlock": {"fs_chmod"}}
"""Attacks that change the stage under a runner, which others would have to be made again for."""
LASTING = {
    "res_cpu_spin", "res_sleep_forever", "m_proc_stop_parent", "m_proc_stubborn", "s_bomb_files", "s_crash_eval",
    "s_hang_loop", "s_hang_sleep", "s_run_background",
}  # fmt: skip
"""Attacks that last until they are ended."""


class Result(NamedTuple):
    """What became of one attack."""

    name: str
    verdict: str
    evidence: str
    seconds: float


class NotHere(Exception):
    """A runner, or what an unprivileged user would need, is missing on this machine."""


def names(script: Path) -> list[str]:
    """The attacks that a script knows."""
    done = subprocess.run([_interpreter(), str(script), "list", "{}"], capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout))


@contextlib.contextmanager
def copies() -> Iterator[Path]:
    """A folder with copies of everything that is needed, where the user can read it who attacks."""
    folder = Path(tempfile.mkdtemp(prefix="metier-attacks-", dir=base()))
    try:
        _copy(folder)
        if os.geteuid() == 0:
            user = _user()
            for path, folders, files in os.walk(folder):
                for name in ("", *folders, *files):
                    os.chown(os.path.join(path, name), user, user, follow_symlinks=False)
        folder.chmod(0o755)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _user() -> int:
    return FIRST_USER + os.getpid() % MOST_USERS if os.geteuid() == 0 else os.geteuid()


def attack(
    column: str, folder: Path, *, which: str = "issue", only: Sequence[str] = (), skip: Sequence[str] = ()
) -> dict[str, Any]:
    """Run the attacks under one runner, from such copies, as an unprivileged user in a process of its own."""
    user, is_root = _user(), os.geteuid() == 0
    who: dict[str, Any] = {"user": user, "group": user, "extra_groups": []} if is_root else {}
    try:
        env = {"PATH": PATH, "HOME": str(folder / "home"), "LANG": "C.UTF-8", "PYTHONPATH": str(folder)}
        command = [_python(user), "-s", "-m", "tests.run.attacks.driver", "--inside", column, "--set", which]
        done = subprocess.run(
            [*command, "--only", ",".join(only), "--skip", ",".join(skip)],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            timeout=280,
            check=False,
            **who,
        )
        if done.returncode != 0:
            raise RuntimeError(f"the driver for {column} ended with {done.returncode}: {done.stdout[-2000:]}")
        report: dict[str, Any] = json.loads(done.stdout)
        if "missing" in report:
            raise NotHere(report["missing"])
        if is_root:
            report["left"] = [*report["left"], *_of(user)]
        return report
    finally:
        if is_root:
            for pid, _ in _running(user):
                with contextlib.suppress(OSError):
                    os.kill(pid, 9)
            for left in _files(user):
                subprocess.run(["rm", "-rf", left], check=False)


def _copy(folder: Path) -> None:
    """Everything that is needed, where any user can read it."""
    import importlib.util

    import metier

    shutil.copytree(Path(str(metier.__file__)).parent, folder / "metier", ignore=shutil.ignore_patterns("bundled"))
    package = folder / "tests" / "run" / "attacks"
    package.mkdir(parents=True)
    for file in HERE.glob("*.py"):
        if not file.name.startswith("test_"):
            shutil.copy(file, package)
    scripts = folder / "scripts"
    within = scripts / "more" / package.relative_to(folder) / "inside"
    shutil.copytree(HERE / "inside", within, ignore=shutil.ignore_patterns("__pycache__"))
    for part in (package, *package.parents[:2], within, *within.parents[:3]):
        (part / "__init__.py").touch()
    for name in ("more.py", "together.py"):
        shutil.copy(HERE / name, scripts / "more")
    (scripts / "none").mkdir()
    if ATTACKS.exists():
        (scripts / "issue").mkdir()
        shutil.copy(ATTACKS, scripts / "issue")
        shutil.copy(HERE / "together.py", scripts / "issue")
    (folder / "home").mkdir()
    (folder / "neighbour.txt").write_text("CANARY beside the library's code\n")
    shell = importlib.util.find_spec("bashkit")
    if shell is not None and shell.origin is not None:
        shutil.copytree(Path(shell.origin).parent, folder / "bashkit")


@functools.cache
def _python(user: int) -> str:
    """An interpreter that this user can start."""
    who: dict[str, Any] = {"user": user, "group": user, "extra_groups": []} if os.geteuid() == 0 else {}
    check = "import sys; sys.exit(sys.version_info < (3, 11))"
    for candidate in (
        getattr(sys, "_base_executable", sys.executable),
        sys.executable,
        shutil.which("python3", path=PATH),
    ):
        if candidate:
            with contextlib.suppress(OSError):
                if (
                    subprocess.run(
                        [candidate, "-c", check], cwd="/", capture_output=True, check=False, **who
                    ).returncode
                    == 0
                ):
                    return str(candidate)
    raise NotHere("no Python from 3.11 on that an unprivileged user can start")


def _running(user: int) -> list[tuple[int, str]]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            if entry.name.isdigit() and entry.stat().st_uid == user:
                text = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if (entry / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX":
                    found.append((int(entry.name), text))
    return found


def _of(user: int) -> list[str]:
    """What is left of a user that nobody else is: processes, and files where everybody can write."""
    deadline = time.monotonic() + 3
    while (running := _running(user)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return [*(f"process {pid}: {text[:100]}" for pid, text in running), *_files(user)]


def _files(user: int) -> list[str]:
    found = []
    for folder in ("/tmp", "/var/tmp", "/dev/shm"):
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    is_ours = entry.stat(follow_symlinks=False).st_uid == user
                    if is_ours and not entry.name.startswith("metier-attacks-"):
                        found.append(entry.path)
    return found


class Lane:
    """A caller and what listens for its attacks; one attack at a time."""

    def __init__(self, column: str, root: Path, number: int) -> None:
        self.token = f"CANARY-{secrets.token_hex(12)}"
        self._column, self._root = column, root
        self._is_virtual = column.startswith("virtual")
        self._folder = Path(tempfile.mkdtemp(prefix=f"metier-attack-lane-{number}-", dir=base()))
        self._folder.chmod(0o755)
        (self._folder / "secret.txt").write_text(self.token)
        self._ears = Ears(self._folder, self.token)
        self._caller: subprocess.Popen[str] | None = None
        self.how = self._start()

    def attack(self, name: str) -> Result:
        """Make one attempt on a fresh stage; where it could not even begin, as when others fill the disk, another."""
        result = self._attempt(name)
        return self._attempt(name) if result.verdict == "error" else result

    def attack_together(self, names: Sequence[str]) -> tuple[list[Result], list[str]]:
        """Make many attempts on one stage; those that were certainly stopped, and those that say that they worked."""
        stage = self._stage(names[0])
        try:
            with host_tmp(self.token) if IN_TMP.intersection(names) else contextlib.nullcontext():
                return self._on_one(stage, names)
        finally:
            stage.close()

    def _stage(self, name: str) -> Stage:
        self._ears.heard.clear()
        scripts = self._root / "scripts" / _scripts(name)
        return Stage(self._ears, scripts, self.token, self._root / "metier")

    def _on_one(self, stage: Stage, names: Sequence[str]) -> tuple[list[Result], list[str]]:
        caller = self._running()
        limits = {**LIMITS, "seconds": LONG}
        answers: list[dict[str, Any]] = []
        whole: dict[str, Any] = {"stdout": "", "stderr": ""}
        started = time.monotonic()
        with _knocking(stage) as reached:
            for words in self._words_together(stage, names, caller.pid):
                answer = self._ask(self._job(stage, words, limits), LONG)
                if answer is None or answer.get("killed_by"):
                    return [], []
                answers.append(answer)
                whole |= {"stdout": whole["stdout"] + answer.get("stdout", ""),
                          "stderr": whole["stderr"] + answer.get("stderr", "")}  # fmt: skip
        seconds = time.monotonic() - started
        self._ears.settle()
        if len(names) > len(answers):
            with contextlib.suppress(ValueError):
                answers = [json.loads(line) for line in whole["stdout"].splitlines()]
        trials = [
            Trial(name=name, stage=stage, answer=answer, is_caller_alive=True, seconds=seconds, limit=LONG)
            for name, answer in zip(names, answers, strict=False)
        ]
        all_of_them = Trial(
            name=names[0], stage=stage, answer=whole, is_caller_alive=True, seconds=seconds, limit=LONG, reached=reached
        )
        seen = outside(all_of_them, names)
        results = [Result(trial.name, *verdict(trial, []), round(seconds / len(names), 2)) for trial in trials]
        claimed = [trial.name for trial in trials if trial.claim]
        return [] if seen else [one for one in results if one.verdict in ("blocked", "works")], claimed

    def _attempt(self, name: str) -> Result:
        stage = self._stage(name)
        try:
            if name in IN_TMP:
                with host_tmp(self.token):
                    return self._on(stage, name)
            return self._on(stage, name)
        finally:
            stage.close()

    def close(self) -> None:
        self._end()
        self._ears.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _on(self, stage: Stage, name: str) -> Result:
        caller = self._running()
        limits = dict(LIMITS)
        if name in LASTING:
            limits["seconds"] = SHORTEST
        elif name.startswith(("m_fs", "m_net", "m_proc", "s_")):
            limits["seconds"] = SHORT
        asked = self._job(stage, self._words(stage, name, caller.pid), limits)
        watch = Watch(stage, disk=name != "m_disk_many_files") if name in ALONE else None
        with _knocking(stage) as reached:
            started = time.monotonic()
            answer = self._ask(asked, limits["seconds"])
            seconds = time.monotonic() - started
        self._ears.settle()
        trial = Trial(
            name=name,
            stage=stage,
            answer=answer or {},
            is_caller_alive=answer is not None,
            seconds=seconds,
            limit=limits["seconds"],
            samples=watch.close() if watch is not None else [],
            reached=reached,
            may_refuse=self._column == ALONE_IN_SHELL,
        )
        what, evidence = verdict(trial)
        return Result(name, what, evidence, round(seconds, 2))

    def _job(self, stage: Stage, words: list[str], limits: dict[str, Any]) -> dict[str, Any]:
        return {
            "argv": words,
            "folder": str(stage.ws),
            "stdin": "input-data",
            "limits": limits,
            "places": [{"path": str(stage.skill)}, {"path": str(stage.ws), "is_writable": True}],
            "secret": str(stage.other / "secret.txt"),
        }

    def _words(self, stage: Stage, name: str, caller: int) -> list[str]:
        """The command that is the attack."""
        if name.startswith("s_"):
            return ["bash", "-c", command(name, self._told(stage, caller))]
        return self._python(self._script(stage, name), name, self._told(stage, caller))

    def _words_together(self, stage: Stage, names: Sequence[str], caller: int) -> Iterator[list[str]]:
        """The commands that are many attacks of one kind."""
        if names[0].startswith("s_"):
            yield from (self._words(stage, name, caller) for name in names)
            return
        together = str(stage.skill / "scripts" / "together.py")
        yield self._python(together, self._script(stage, names[0]), ",".join(names), self._told(stage, caller))

    def _told(self, stage: Stage, caller: int) -> str:
        return stage.arguments(caller, skill=f"/.sandbox/skills/{stage.skill.name}" if self._is_virtual else "")

    def _script(self, stage: Stage, name: str) -> str:
        return str(stage.skill / "scripts" / ("more.py" if name.startswith("m_") else "attack.py"))

    def _python(self, *words: str) -> list[str]:
        return ["bash", "-c", 'python3 "$@"', "bash", *words] if self._is_virtual else [_interpreter(), *words]

    def _running(self) -> subprocess.Popen[str]:
        if self._caller is None:
            self._start()
        assert self._caller is not None
        return self._caller

    def _start(self) -> str:
        with open(self._folder / "caller.log", "ab") as log:
            self._caller = subprocess.Popen(
                [
                    sys.executable,
                    "-s",
                    "-m",
                    "tests.run.attacks.caller",
                    self._column,
                    str(self._folder / "secret.txt"),
                ],
                env={**os.environ, "CANARY": self.token},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                # What it starts can then be ended with it.
                start_new_session=True,
            )
        first = self._answer(30.0) or {"missing": (self._folder / "caller.log").read_text()[-1000:]}
        if "missing" in first:
            self._end()
            raise NotHere(str(first["missing"]))
        return str(first["ready"])

    def _ask(self, asked: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        assert self._caller is not None and self._caller.stdin is not None
        with contextlib.suppress(OSError):
            self._caller.stdin.write(json.dumps(asked) + "\n")
            self._caller.stdin.flush()
        answer = self._answer(seconds + 8.0)
        if answer is None:
            self._end()
        return answer

    def _answer(self, seconds: float) -> dict[str, Any] | None:
        """The caller's next line; None if it is dead, or says nothing for so long."""
        assert self._caller is not None and self._caller.stdout is not None
        line: list[str] = []
        reader = threading.Thread(target=lambda out: line.append(out.readline()), args=(self._caller.stdout,))
        reader.start()
        reader.join(seconds)
        if reader.is_alive():
            self._caller.kill()
            reader.join()
        return dict(json.loads(line[0])) if line and line[0].endswith("\n") else None

    def _end(self) -> None:
        caller, self._caller = self._caller, None
        if caller is None:
            return
        assert caller.stdin is not None and caller.stdout is not None
        with contextlib.suppress(OSError):
            caller.stdin.close()
        try:
            caller.wait(10)
        except subprocess.TimeoutExpired:
            caller.kill()
            caller.wait()
        caller.stdout.close()


def _scripts(name: str) -> str:
    """The folder with the script that makes an attack."""
    return {"m_": "more", "s_": "none"}.get(name[:2], "issue")


def _is_shared(name: str) -> bool:
    return name in SHARING_TOO or (name.startswith(SHARING) and name not in APART)


def _interpreter() -> str:
    return shutil.which("python3", path=PATH) or sys.executable


@contextlib.contextmanager
def _knocking(stage: Stage) -> Iterator[list[str]]:
    """Try from outside to reach what the attack may listen on, again and again."""
    reached: list[str] = []
    ended = threading.Event()

    def knock() -> None:
        while not ended.wait(0.1):
            for family, address in (
                (socket.AF_INET, ("127.0.0.1", stage.bindport)),
                (socket.AF_UNIX, "\0" + stage.listening),
            ):
                with contextlib.suppress(OSError), socket.socket(family) as visitor:
                    visitor.settimeout(0.2)
                    visitor.connect(address)
                    reached.append("a port" if family == socket.AF_INET else "an abstract socket")

    thread = threading.Thread(target=knock, daemon=True)
    thread.start()
    try:
        yield reached
    finally:
        ended.set()
        thread.join()


def inside(column: str, which: str, only: Sequence[str], skip: Sequence[str]) -> dict[str, Any]:
    """All attacks under one runner, by this user."""
    root = Path.cwd()
    wanted: list[str] = []
    if which in ("issue", "all") and (root / "scripts" / "issue").exists():
        wanted += names(root / "scripts" / "issue" / "attack.py")
    if which in ("more", "all"):
        wanted += names(root / "scripts" / "more" / "more.py")
    if which == "shell" and column.startswith("virtual"):
        # Only there: on this machine some of them would do what they say.
        wanted += COMMANDS
    wanted = [name for name in wanted if (not only or name in only) and name not in skip]
    lanes: list[Lane] = []
    results: dict[str, Result] = {}
    claimed: list[str] = []
    try:
        lanes.append(Lane(column, root, 0))
        for kind in ("issue", "more", "none"):
            names_of_kind = [
                name
                for name in wanted
                if _is_shared(name) and _scripts(name) == kind and name not in WORKING.get(column, ())
            ]
            rounds = [names_of_kind]
            while rounds:
                round_ = rounds.pop()
                if len(round_) >= TOGETHER:
                    stopped, worked = lanes[0].attack_together(round_)
                    results.update((result.name, result) for result in stopped)
                    claimed += worked
                    if not stopped:
                        # One that works hides that others do not.
                        middle = len(round_) // 2
                        rounds += [round_[:middle], round_[middle:]]
        left = [name for name in wanted if name not in results]
        for number in range(1, min(LANES, math.ceil(len(left) / LEAST_IN_LANE))):
            lanes.append(Lane(column, root, number))
        waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
        # Those that last as long as they may come first, so that nobody waits for one of them at the end.
        for name in sorted(left, key=lambda name: name not in LASTING):
            if name not in ALONE:
                waiting.put(name)

        def work(lane: Lane) -> None:
            with contextlib.suppress(queue.Empty):
                while True:
                    name = waiting.get_nowait()
                    results[name] = lane.attack(name)

        threads = [threading.Thread(target=work, args=(lane,)) for lane in lanes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        heavy = [name for name in wanted if name in ALONE]
        with nobody_else("machine") if heavy else contextlib.nullcontext():
            for name in heavy:
                results[name] = lanes[0].attack(name)
        how = lanes[0].how
    finally:
        for lane in lanes:
            lane.close()
    lost = [name for name in wanted if name not in results]
    if lost:
        raise RuntimeError(f"no result for {', '.join(lost)}")
    told = [results[name]._asdict() for name in wanted]
    return {"column": column, "how": how, "results": told, "claimed": claimed, "left": []}


def tables(reports: Sequence[dict[str, Any]]) -> list[str]:
    """The results in Markdown: one table that counts, one for the attacks of the benchmark, one for ours."""
    found = {report["column"]: {one["name"]: one["verdict"] for one in report["results"]} for report in reports}
    counted = ["| runner | attacks of the benchmark | attacks of ours | ordinary programs |", "|---|---|---|---|"]
    for column, verdicts in found.items():
        ours = {name: verdict for name, verdict in verdicts.items() if name.startswith("m_")}
        programs = {name: verdict for name, verdict in verdicts.items() if name.startswith("ok_")}
        theirs = {name: verdict for name, verdict in verdicts.items() if name not in {*ours, *programs}}
        cells = (_count(theirs, "blocked"), _count(ours, "blocked"), _count(programs, "works"))
        counted.append(f"| {column} | {' | '.join(cells)} |")
    names = list(dict.fromkeys(name for verdicts in found.values() for name in verdicts))
    return [
        "\n".join(counted),
        _table(found, [name for name in names if not name.startswith("m_")]),
        _table(found, [name for name in names if name.startswith("m_")]),
    ]


def _count(verdicts: dict[str, str], wanted: str) -> str:
    return f"{list(verdicts.values()).count(wanted)} of {len(verdicts)}" if verdicts else ""


def _table(found: dict[str, dict[str, str]], names: list[str]) -> str:
    rows = [f"| attack | {' | '.join(found)} |", "|---|" + "---|" * len(found)]
    for name in names:
        cells = [verdicts.get(name, "") for verdicts in found.values()]
        shown = [f"**{cell}**" if cell not in ("blocked", "works") else cell for cell in cells]
        rows.append(f"| `{name}` | {' | '.join(shown)} |")
    return "\n".join(rows)


def put_into(page: Path, fresh: list[str]) -> None:
    """Replace the tables of a page by others."""
    text = page.read_text(encoding="utf-8")
    found = list(re.finditer(r"^\| (?:runner|attack) \|.*\n(?:\|.*\n)+", text, flags=re.MULTILINE))
    for old, new in reversed(list(zip(found, fresh, strict=True))):
        text = f"{text[: old.start()]}{new}\n{text[old.end() :]}"
    page.write_text(text, encoding="utf-8")


def summary(report: dict[str, Any]) -> str:
    """What came out, in a line."""
    verdicts = [result["verdict"] for result in report["results"]]
    attacks = [result for result in report["results"] if not result["name"].startswith("ok_")]
    controls = len(verdicts) - len(attacks)
    text = f"{report['column']}: {verdicts.count('blocked')} of {len(attacks)} attacks blocked"
    return text + (f", {verdicts.count('works')} of {controls} controls work" if controls else "")


def main() -> int:
    """Run, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("columns", nargs="*", default=list(COLUMNS))
    parser.add_argument("--set", choices=("issue", "more", "shell", "all"), default="issue")
    parser.add_argument("--only", default="")
    parser.add_argument("--skip", default="")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--page", type=Path, help="a page in Markdown whose tables are to be those of this run")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    only, skip = ([name for name in text.split(",") if name] for text in (options.only, options.skip))
    if options.inside:
        try:
            print(json.dumps(inside(options.columns[0], options.set, only, skip)))
        except NotHere as error:
            print(json.dumps({"missing": str(error)}))
        return 0
    reports = []
    with copies() as folder:
        for column in options.columns:
            try:
                reports.append(attack(column, folder, which=options.set, only=only, skip=skip))
            except NotHere as error:
                print(f"{column}: not here: {error}", file=sys.stderr)
    if options.page is not None:
        put_into(options.page, tables(reports))
    elif options.json:
        print(json.dumps(reports, indent=2))
    elif options.markdown:
        print("\n\n".join(tables(reports)))
    else:
        for report in reports:
            for result in report["results"]:
                evidence = ascii(result["evidence"][:150])[1:-1]
                print(f"{result['verdict']:<9} {result['name']:<29} {result['seconds']:>5.2f} s  {evidence}")
            print(summary(report), f"({report['how']})")
            for left in report["left"]:
                print("left behind:", left)
    return 0 if reports else 3


if __name__ == "__main__":
    sys.exit(main())
