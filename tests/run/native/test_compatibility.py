"""Ordinary scripts find what they expect of a machine."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.run.native.conftest import in_one_sandbox

from metier.run import JobPath, Outcome, command_for

Run = Callable[..., Outcome]
IS_ROOT = not hasattr(os, "geteuid") or os.geteuid() == 0
TIERS_WITH_A_VIEW = ["namespaces"] if IS_ROOT else ["namespaces", "bubblewrap"]
has_view = pytest.mark.parametrize("tier", TIERS_WITH_A_VIEW, indirect=True)

PROGRAMS = {
    "threads": """
import threading
found = []
threads = [threading.Thread(target=lambda: found.append(1)) for _ in range(10)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len(found) == 10
""",
    "temporary files": """
import tempfile, os
with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as other:
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        file.write(b"x"), other.write(b"y")
        assert os.listdir(folder) == [os.path.basename(file.name)]
assert not os.path.exists(folder)
""",
    "a database": """
import sqlite3
with sqlite3.connect("data.db") as base:
    base.execute("pragma journal_mode=wal")
    base.execute("create table t (a)")
    base.executemany("insert into t values (?)", [(at,) for at in range(100)])
    assert base.execute("select sum(a) from t").fetchone() == (4950,)
base.close()
""",
    "pipelines": """
import subprocess
done = subprocess.run("seq 100 | grep 7 | sort -r | head -1", shell=True, capture_output=True, text=True, check=True)
assert done.stdout == "97\\n", done
""",
    "an event loop": """
import asyncio
async def main():
    process = await asyncio.create_subprocess_exec("echo", "hi", stdout=asyncio.subprocess.PIPE)
    assert (await process.communicate())[0] == b"hi\\n"
asyncio.run(main())
""",
    "mapped memory": """
import mmap
with open("map", "wb+") as file:
    file.truncate(100_000)
    with mmap.mmap(file.fileno(), 0) as area:
        area[:5] = b"hello"
assert open("map", "rb").read(5) == b"hello"
""",
    "locks of files": """
import fcntl
with open("lock", "w") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    fcntl.lockf(file, fcntl.LOCK_EX)
""",
    "archives": """
import shutil, os
os.makedirs("in/deep", exist_ok=True)
open("in/deep/file", "w").write("x")
for kind in ("zip", "gztar"):
    shutil.unpack_archive(shutil.make_archive("packed", kind, "in"), "out-" + kind)
    assert open(f"out-{kind}/deep/file").read() == "x"
""",
    "text in any language": """
import locale, os, sys
assert sys.stdout.encoding.lower() == sys.getfilesystemencoding() == "utf-8"
assert locale.getpreferredencoding().lower() == "utf-8"
open("名前 ✓", "w").write("日本")
assert "名前 ✓" in os.listdir(".")
""",
    "what it may do": """
import os
assert os.path.expanduser("~") == os.getcwd()
assert os.access(".", os.R_OK | os.W_OK | os.X_OK)
""",
    "random numbers and clocks": """
import os, secrets, time, uuid
assert len(os.urandom(16)) == 16 and secrets.token_hex() != secrets.token_hex() and uuid.uuid4()
time.sleep(0.001), time.monotonic(), time.time()
assert os.cpu_count() >= 1
""",
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@in_one_sandbox
def test_programs_of_python_work(python: Run, program: str) -> None:
    outcome = python(program)
    assert (outcome.stderr, outcome.exit_code) == ("", 0)


@has_view
def test_python_shares_work_among_processes(python: Run) -> None:
    program = """
import multiprocessing
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(abs, range(-3, 0)))
    lock, value = multiprocessing.Lock(), multiprocessing.Value("i", 0)
    with lock:
        value.value += 1
    print(value.value)
"""
    outcome = python(program)
    assert (outcome.stdout, outcome.stderr) == ("[3, 2, 1]\n1\n", "")


@has_view
def test_a_terminal_can_be_opened(python: Run) -> None:
    outcome = python("import pty, sys; sys.exit(pty.spawn(['sh', '-c', 'test -t 1 && tty && stty size; exit 3']) >> 8)")
    assert outcome.exit_code == 3, outcome
    assert outcome.stdout.startswith("/dev/pts/")


SCRIPTS = {
    "its own streams by name": ("echo a > /dev/stdout; echo b > /dev/stderr; cat /dev/stdin", "a\nin\n", "b\n"),
    "descriptors by name": ("exec 7>&1; echo a > /dev/fd/7; echo b | cat /dev/fd/0", "a\nb\n", ""),
    "processes as files": ("diff <(echo a) <(echo a) && cat <(echo b) && echo c | tee >(cat >/dev/null)", "b\nc\n", ""),
    "text in place": ("cat <<< here; cat <<END\nthere\nEND\n", "here\nthere\n", ""),
    "pipelines": ("set -o pipefail; yes | head -2; echo ${PIPESTATUS[0]} | tr 1 x", "y\ny\nx4x\n", ""),
    "background": ("sleep 0.01 & wait $!; echo $?; (exit 3) & wait $! || echo $?", "0\n3\n", ""),
    "traps": ("trap 'echo bye' EXIT; echo hi", "hi\nbye\n", ""),
    "tools": ("echo 'b 2\na 1' | sort | awk '{print $2}' | sed s/1/x/ | xargs -n1 echo | tr -d '\\n'", "x2", ""),
    "find": ("mkdir -p a/b; touch a/b/c; find . -type f | tar cf - -T - | tar tf -", "./a/b/c\n", ""),
    "time": ("TZ=Asia/Tokyo date -d @0 +%H; date -d @0 +%H", "09\n00\n", ""),
}


@pytest.mark.parametrize(("script", "out", "err"), SCRIPTS.values(), ids=SCRIPTS)
@in_one_sandbox
def test_scripts_of_shells_work(sh: Run, script: str, out: str, err: str) -> None:
    outcome = sh(script, stdin=b"in\n", env={"TZ": "UTC"})
    assert (outcome.stdout, outcome.stderr) == (out, err)


def test_the_time_zone_is_the_hosts(sh: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    time.tzset()
    try:
        assert sh("date +%Z -d @0").stdout == "NZST\n"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_names_of_users_are_known(sh: Run, tier: str) -> None:
    import pwd

    if tier != "namespaces" and os.geteuid() not in {user.pw_uid for user in pwd.getpwall()}:
        pytest.skip("this machine does not know the name of this user either")
    outcome = sh("whoami && id -un && id -gn && python3 -c 'import getpass; getpass.getuser()' && ls -l . && echo ~")
    assert (outcome.exit_code, outcome.stderr) == (0, "")


@in_one_sandbox
@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_node_works(run: Run, workspace: Path) -> None:
    script = workspace / "main.mjs"
    script.write_text(
        """
import fs from "node:fs"; import os from "node:os"; import { execFileSync } from "node:child_process";
import { Worker } from "node:worker_threads";
fs.writeFileSync("made", execFileSync("echo", ["hi"]));
fs.mkdtempSync(os.tmpdir() + "/x-");
const worker = new Worker("require('worker_threads').parentPort.postMessage(6 * 7)", { eval: true });
worker.on("message", (message) => console.log(message, fs.readFileSync("made", "utf8").trim()));
"""
    )
    outcome = run(*command_for(str(script)))
    assert (outcome.stdout, outcome.stderr) == ("42 hi\n", "")


@in_one_sandbox
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run.sh", 'echo "ran $1 in $PWD"\n'),
        ("run.py", "import os, sys, neighbour\nprint('ran', sys.argv[1], 'in', os.getcwd())\n"),
        ("名前 x.sh", 'echo "ran $1 in $PWD"\n'),
    ],
)
def test_a_script_of_a_skill_runs_in_the_workspace(
    run: Run, workspace: Path, tmp_path: Path, name: str, text: str
) -> None:
    skill = tmp_path.resolve() / "skill"
    skill.mkdir()
    (skill / "neighbour.py").write_text("")
    (skill / name).write_text(text, encoding="utf-8")
    places = (JobPath(str(workspace), is_writable=True), JobPath(str(skill)))
    outcome = run(*command_for(str(skill / name)), "well", places=places)
    assert (outcome.stdout, outcome.stderr) == (f"ran well in {workspace}\n", "")
    assert sorted(os.listdir(skill)) == sorted(["neighbour.py", name])


@has_view
def test_a_virtual_environment_in_the_workspace_works(run: Run, sh: Run, workspace: Path) -> None:
    made = run(sys.executable, "-m", "venv", "--without-pip", "env")
    assert made.exit_code == 0, made
    assert sh('./env/bin/python -c "import sys; print(sys.prefix)"').stdout == f"{workspace}/env\n"
