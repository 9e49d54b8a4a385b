"""Whether an attack worked, judged from outside wherever that can be seen there.

What an attack prints of itself counts only where nothing outside could tell: a file that it wrote to a folder of its
own under the name of the host's is no breach, and one that it wrote to the host is a breach whatever it prints.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.run.attacks.stage import HOST_WRITTEN, STARTUP, Stage

MB = 1024 * 1024
LIMITS: dict[str, Any] = {
    "seconds": 4.0,
    "memory_bytes": 512 * MB,
    "processes": 100,
    "file_bytes": 64 * MB,
    "disk_bytes": 150 * MB,
    "output_bytes": 1 * MB,
}
PAUSE = 0.03
"""Seconds between two looks at an attack."""

LATE = 2.0
"""Seconds after its time limit by which a job must be gone; other work on the machine is part of it."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What the processes of an attack used at one moment."""

    at: float
    processes: int
    memory: int
    disk: int
    available: int
    """Memory that the whole machine has left."""


@dataclass(slots=True, kw_only=True)
class Trial:
    """One attempt, when it is over."""

    name: str
    stage: Stage
    answer: dict[str, Any]
    """What the caller told, or nothing if it did not live to."""
    is_caller_alive: bool
    seconds: float
    limit: float
    samples: list[Sample] = field(default_factory=list)
    reached: list[str] = field(default_factory=list)
    """What could be connected to from outside while it ran."""
    may_refuse: bool = False
    """Whether the runner cannot run the attack at all."""

    @property
    def output(self) -> str:
        return f"{self.answer.get('stdout', '')}\n{self.answer.get('stderr', '')}"

    @property
    def claim(self) -> str:
        """What the attack says of its success."""
        return next((line for line in self.output.splitlines() if line.startswith("BREACH:")), "")

    @property
    def has_run(self) -> bool:
        """Whether the attack began at all: one that never did was not blocked, but not made."""
        told = ("BREACH:", "SAFE:", "SPIN", "SLEEP", "BEGUN")
        return (
            not self.is_caller_alive
            or any(word in self.output for word in told)
            or '.py", line' in self.answer.get("stderr", "")
            or (self.name in SILENT and (self.answer.get("killed_by") is not None or "it exceeds" in self.output))
            # Whatever it did, it did for all its time.
            or self.answer.get("killed_by") == "timeout"
            # The interpreter looks at the whole text before it begins.
            or (self.answer.get("exit_code") == 1 and self.name.startswith("s_bomb"))
        )


class Watch:
    """Looks at the processes and files of an attack while it runs."""

    def __init__(self, stage: Stage, *, disk: bool) -> None:
        self._stage, self._disk = stage, disk
        self._ended = threading.Event()
        self._before = meminfo("Shmem")
        self.samples: list[Sample] = []
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def close(self) -> list[Sample]:
        self._ended.set()
        self._thread.join()
        return self.samples

    def _look(self) -> None:
        while not self._ended.wait(PAUSE):
            pids = self._stage.processes()
            disk = self._stage.disk_used() if self._disk else 0
            # Files in memory belong to no process.
            memory = max(sum(_private_memory(pid) for pid in pids), meminfo("Shmem") - self._before)
            self.samples.append(Sample(time.monotonic(), len(pids), memory, disk, meminfo("MemAvailable")))


def meminfo(name: str) -> int:
    """What the kernel says of the machine's memory, in bytes."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name + ":"))


def _private_memory(pid: int) -> int:
    """What a process has for itself, and the tables by which it finds it."""
    try:
        statuses = [Path(f"/proc/{pid}/task/{task}/status").read_text() for task in os.listdir(f"/proc/{pid}/task")[:3]]
    except OSError:
        return 0
    return max(
        sum(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(("RssAnon", "VmPTE")))
        for status in statuses
    )


def verdict(trial: Trial, seen: list[str] | None = None) -> tuple[str, str]:
    """`blocked`, `breached` or `error`, and the evidence; what was seen outside, if somebody has looked already."""
    evidence = outside(trial) if seen is None else seen
    if trial.name.startswith("ok_"):
        return _control(trial, evidence)
    evidence, special = list(evidence), SPECIAL.get(trial.name)
    if special is not None and (found := special(trial)):
        evidence.append(found)
    if trial.name not in OUTSIDE and trial.claim:
        evidence.append(trial.claim)
    if evidence:
        return "breached", "; ".join(evidence)[:300]
    if not trial.has_run and not trial.may_refuse:
        facts = {
            name: trial.answer.get(name)
            for name in ("error", "exit_code", "killed_by", "stderr")
            if trial.answer.get(name)
        }
        return "error", f"it never began: {facts}"[:300]
    return "blocked", " ".join(trial.output.split())[:120]


def _control(trial: Trial, seen: list[str]) -> tuple[str, str]:
    wrong = list(seen)
    code = trial.answer.get("exit_code")
    if not trial.answer.get("stdout", "").startswith("OK"):
        wrong.append(f"it said {trial.output.strip()[-300:]!r} {trial.answer.get('error', '')}")
    if code != (7 if trial.name == "ok_exit_code" else 0):
        wrong.append(f"exit {code}, ended by {trial.answer.get('killed_by')}")
    if trial.name == "ok_write_ws" and not (trial.stage.ws / "out.txt").exists():
        wrong.append("what it wrote is not in the workspace")
    return ("failed", "; ".join(wrong)) if wrong else ("works", "")


def outside(trial: Trial, names: Sequence[str] = ()) -> list[str]:
    """What holds for every attack: nothing outside has changed, heard anything, or still runs.

    A trial may be one of many attacks, which `names` names.
    """
    stage, found = trial.stage, []
    if not trial.is_caller_alive:
        found.append("the caller was killed or hangs")
    if trial.seconds > trial.limit + LATE:
        found.append(f"it took {trial.seconds:.1f} s")
    found += _left_behind(stage)
    found += stage.changes()
    found += [f"heard by {who}" for who in stage.ears.heard]
    if not stage.victim.is_alive():
        found.append("the victim was killed")
    else:
        found += [f"the victim's {change}" for change in stage.victim.changes()]
        if stage.victim.has_heard():
            found.append("the victim got a signal")
    if stage.token in trial.output:
        found.append("the secret came out")
    if stage.terminal_heard():
        found.append("it wrote to the terminal")
    # What a runner adds about the end of a job is not the job's.
    if trial.answer.get("kept", 0) > LIMITS["output_bytes"] + 4_096:
        found.append(f"{trial.answer['kept']} characters of output were kept")
    # Files that are brought back pass through the caller; output must not.
    most = 32 * MB if trial.name.startswith(("m_out", "res_output")) else 64 * MB
    if trial.answer.get("grown", 0) > most:
        found.append(f"the caller grew by {trial.answer['grown'] // MB} MB")
    if "fs_write_host_tmp" in (trial.name, *names) and HOST_WRITTEN.exists():
        found.append(f"{HOST_WRITTEN} was written")
    if trial.name.startswith("s_"):
        found += [f"it knows {fact!r}" for fact in host_facts() if fact in trial.output]
    if trial.reached:
        found.append(f"from outside one reaches {', '.join(sorted(set(trial.reached)))}")
    found += _planted(stage)
    return found


@functools.cache
def host_facts() -> tuple[str, ...]:
    """Lines that only this machine has, and that nothing but this machine's own files would say."""
    facts = [os.uname().release]
    for path, count in {
        "/etc/passwd": 4,
        "/proc/version": 1,
        "/proc/meminfo": 1,
        "/proc/sys/kernel/random/boot_id": 1,
    }.items():
        with contextlib.suppress(OSError):
            # The first user is the same everywhere.
            facts += [line for line in Path(path).read_text().splitlines()[:count] if not line.startswith("root:")]
    return tuple(facts)


def _left_behind(stage: Stage) -> list[str]:
    """Processes that live on: those that die of their own within a moment were killed already."""
    deadline = time.monotonic() + 0.5
    while (alive := stage.processes()) and time.monotonic() < deadline:
        time.sleep(0.01)
    if alive:
        return [f"{len(alive)} processes live on"]
    beat = stage.ws / "heartbeat"
    if beat.exists():
        size = beat.stat().st_size
        time.sleep(0.35)
        if beat.stat().st_size > size:
            return ["its heart still beats"]
    return []


def _planted(stage: Stage) -> list[str]:
    """Files in the workspace that would harm whoever uses it later."""
    if stage.ws.is_symlink() or not (stage.ws / ".git" / "config").is_file():
        return ["the workspace was replaced"]
    found = []
    for name in os.listdir(stage.ws):
        about = os.lstat(stage.ws / name)
        if stat.S_ISREG(about.st_mode) and about.st_mode & (stat.S_ISUID | stat.S_ISGID):
            found.append(f"{name} in the workspace changes the user that runs it")
        if stat.S_ISCHR(about.st_mode) or stat.S_ISBLK(about.st_mode):
            found.append(f"{name} in the workspace is a device")
        if name.startswith("core"):
            found.append("a core dump lies in the workspace")
    if os.listdir(stage.ws / ".git" / "hooks"):
        found.append("a git hook lies in the workspace")
    for name in STARTUP:
        if not (stage.ws / name).is_file() or (stage.ws / name).read_text() != "as it was\n":
            found.append(f"{name} in the workspace was changed")
    if "pwned" in (stage.ws / ".git" / "config").read_text():
        found.append("the workspace's git configuration was changed")
    return found


def _held(trial: Trial, most: int, seconds: float, value: Callable[[Sample], int]) -> bool:
    """Whether something was above a bound for so long, and for as many looks as that time has on an idle machine.

    Where others have the processors, whoever looks here comes as late as the supervisor that is judged.
    """
    since, looks = None, 0
    for sample in trial.samples:
        if value(sample) <= most:
            since, looks = None, 0
            continue
        since, looks = sample.at if since is None else since, looks + 1
        if sample.at - since >= seconds and looks > seconds / (1.5 * PAUSE):
            return True
    return False


def _memory(trial: Trial) -> str:
    # A bound on the memory of many processes is kept by somebody who looks at it now and then; for one, by the kernel.
    seconds = 0.2 if trial.name == "res_memory" else 0.4
    if _held(trial, 640 * MB, seconds, lambda sample: sample.memory):
        return f"it held {max(sample.memory for sample in trial.samples) // MB} MB"
    return ""


def _kernel_memory(trial: Trial) -> str:
    """Buffers of the kernel, which nobody's size shows: only that the machine has less, and that nobody ended it."""
    if "HELD" not in trial.output:
        return ""
    before = max((sample.available for sample in trial.samples[:5]), default=0)
    if _held(trial, 640 * MB, 0.4, lambda sample: before - sample.available):
        return f"the machine had {(before - min(sample.available for sample in trial.samples)) // MB} MB less"
    return ""


def _filled(trial: Trial) -> str:
    return _memory(trial) or _disk(trial)


def _code(trial: Trial) -> str:
    """What it left in the code that runs it."""
    written = trial.stage.code / f"pwned-{trial.stage.ws.name}"
    found = "a file in the library's own code" if written.exists() else ""
    written.unlink(missing_ok=True)
    return found


def _disk(trial: Trial) -> str:
    used = max((sample.disk for sample in trial.samples), default=0)
    used = max(used, trial.stage.disk_used())
    return f"it took {used // MB} MB of disk" if used > 2.5 * LIMITS["disk_bytes"] else ""


def _one_file(trial: Trial) -> str:
    big = trial.stage.ws / "big"
    return f"a file of {big.stat().st_size // MB} MB" if big.exists() and big.stat().st_size > 64 * MB else ""


def _processes(trial: Trial) -> str:
    most = max((sample.processes for sample in trial.samples), default=0)
    return f"{most} processes at once" if most > 150 else ""


def _true_size(trial: Trial) -> str:
    size = (trial.stage.home / ".ssh" / "id_test").stat().st_size
    return f"it knows the size {size}" if trial.claim == f"BREACH:{size}" else ""


def _kernel_objects(trial: Trial) -> str:
    """Shared memory, queues and semaphores outlive whoever made them."""
    found = []
    for kind in ("shm", "msg", "sem"):
        try:
            rows = Path(f"/proc/sysvipc/{kind}").read_text().splitlines()[1:]
        except OSError:
            continue
        if any(row.split()[0] == str(trial.stage.shmkey + 1) for row in rows):
            found.append(kind)
    return f"{', '.join(found)} of System V stay behind" if found else ""


SPECIAL: dict[str, Callable[[Trial], str]] = {
    "fs_stat_probe": _true_size,
    "proc_fork_bomb": _processes,
    "res_memory": _memory,
    "res_memory_multi": _memory,
    "res_big_file": _one_file,
    "res_many_big_files": _disk,
    "m_proc_fork_tree": _processes,
    "m_mem_memfd": _memory,
    "m_mem_shared_map": _memory,
    "m_mem_tmp": _filled,
    "m_mem_dev_shm": _filled,
    "m_fs_library": _code,
    "m_mem_orphans": _memory,
    "m_mem_headless": _memory,
    "m_mem_page_tables": _memory,
    "m_mem_shared_hidden": _memory,
    "m_mem_sockets": _kernel_memory,
    "m_disk_children": _disk,
    "m_disk_fallocate": _disk,
    "m_disk_reserve": _disk,
    "m_disk_many_files": _disk,
    "m_ker_sysv_left": _kernel_objects,
}
"""More that can be seen of an attack from outside."""

OUTSIDE = {
    "fs_write_home", "fs_write_bashrc", "fs_write_symlink", "fs_write_dotdot", "fs_write_skill", "fs_write_host_tmp",
    "fs_hardlink", "fs_delete", "fs_rename_out", "fs_truncate", "fs_chmod", "fs_stat_probe",
    "net_tcp_loopback", "net_udp", "net_dns", "net_bind_tcp", "net_unix_path", "net_unix_abstract",
    "proc_kill_victim", "proc_kill_parent", "proc_orphan",
    "res_memory", "res_memory_multi", "res_big_file", "res_many_big_files", "res_output_flood",
    "m_mem_memfd", "m_mem_shared_map", "m_mem_tmp", "m_mem_dev_shm", "m_mem_orphans", "m_mem_sockets",
    "m_mem_headless", "m_mem_page_tables", "m_mem_shared_hidden",
    "m_disk_children", "m_disk_fallocate", "m_disk_many_files", "m_disk_reserve", "m_ker_sysv_left",
}  # fmt: skip
"""Attacks whose success is seen from outside alone: their own word does not count."""

SILENT = {
    "proc_fork_bomb", "res_memory", "res_memory_multi", "res_many_big_files", "res_output_flood", "m_out_stderr",
    "s_crash_bc", "s_crash_eval", "s_crash_function", "s_crash_jq", "s_bomb_text", "s_bomb_files", "s_bomb_disk",
}  # fmt: skip
"""Attacks that can be ended before they say anything."""

ALONE = {
    "proc_fork_bomb", "res_memory", "res_memory_multi", "res_big_file", "res_many_big_files",
    "m_proc_fork_tree", "m_proc_long_look", "m_proc_signal_all", "m_proc_slow_watchers", "m_proc_threads",
    "m_mem_dev_shm", "m_mem_empty_files", "m_mem_headless", "m_mem_memfd", "m_mem_orphans", "m_mem_page_tables",
    "m_mem_shared_hidden", "m_mem_shared_map", "m_mem_sockets", "m_mem_tmp",
    "m_disk_children", "m_disk_deleted", "m_disk_fallocate", "m_disk_many_files", "m_disk_reserve",
}  # fmt: skip
"""Attacks on what the whole machine shares, watched while nothing else runs."""
