"""Scripts that attack the machine are stopped, and ordinary ones work, under every runner that says so.

Most tests run a whole set of attacks as an unprivileged user; see `driver`.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
ATTACKS = ROOT.parent / "shared" / "bench" / "attacks" / "attack.py"
PAGE = ROOT / "docs" / "explanation" / "sandbox.md"
needs_attacks = pytest.mark.skipif(not ATTACKS.exists(), reason="the attacks of the benchmark are not here")
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="the native runner and its attacks are for Linux")

LANDLOCK_CANNOT = {"fs_chmod", "fs_stat_probe"}
"""What Landlock alone leaves open: to mark and to measure files that it does not let anybody open."""

SLOW = {
    "m_disk_many_files", "m_disk_fallocate", "m_disk_reserve", "m_proc_long_look", "m_proc_slow_watchers",
    "m_proc_stop_self", "m_proc_fork_tree", "m_proc_no_streams", "m_mem_tmp", "m_mem_dev_shm", "m_mem_orphans",
    "m_mem_headless", "m_mem_page_tables", "m_mem_empty_files", "m_mem_memfd", "m_mem_sockets", "m_mem_shared_hidden",
    "m_disk_deleted", "m_fs_deep", "m_proc_churn_wide", "m_out_both", "m_out_lines", "m_mem_shared_map",
    "m_disk_children", "m_proc_churn", "m_proc_starve_watchers", "m_proc_disguise", "m_proc_subreaper",
    "m_proc_stop_parent", "m_proc_stubborn_exit", "m_proc_late_writer", "m_proc_trace_others",
    "m_proc_memory_of_others", "m_proc_core_dump", "m_proc_threads", "m_fs_link_race", "m_fs_odd_files",
    "m_fs_git_moved", "m_out_stderr", "res_memory_multi", "res_many_big_files", "res_sleep_forever",
    "res_cpu_spin", "res_big_file", "proc_read_parent_env", "m_proc_stubborn", "res_memory", "proc_fork_bomb",
    "proc_orphan", "m_proc_kill_watchers", "m_proc_sibling", "m_proc_descriptors_of_others", "m_out_bytes",
    "m_fs_startup_files", "ok_multiproc", "ok_stdin", "ok_exit_code",
}  # fmt: skip
"""Attacks that take as long as they are given, or the machine for themselves, or that need a sandbox of their own and
have one in `make test` that is after the same."""
SLOW_IN_SHELL = {
    "s_crash_bc", "s_crash_eval", "s_crash_function", "s_bomb_braces", "s_bomb_files", "s_bomb_disk", "s_hang_loop",
    "s_hang_input", "s_hang_sleep", "s_crash_jq", "s_run_background", "s_net_listen",
}  # fmt: skip
"""The same of those on the virtual shell."""
ONCE = {
    "fs_write_bashrc", "fs_write_dotdot", "fs_read_other", "net_bind_tcp", "net_odd_families", "proc_env_scrub",
    "proc_no_new_privs", "proc_orphan", "res_cpu_spin", "res_sleep_forever", "res_memory", "res_big_file",
    "res_many_big_files", "res_output_flood", "ker_mount", "ker_keyring", "ker_userfaultfd_perf_bpf",
    "proc_fork_bomb", "ok_exit_code", "ok_stdin", "ok_threads",
}  # fmt: skip
"""Those of the benchmark that the same part of every native runner stops or allows, or that differ from another one
only by a name: under one runner is enough."""


Attack = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def attacked() -> Iterator[Attack]:
    """Tells what became of the attacks under a runner; skips where the driver says that something is missing."""
    from tests.run.attacks.driver import NotHere, attack, copies

    with copies() as folder:

        def go(column: str, which: str, *, only: Collection[str] = (), skip: Collection[str] = ()) -> dict[str, Any]:
            try:
                report = attack(column, folder, which=which, only=sorted(only), skip=sorted(skip))
            except NotHere as error:
                pytest.skip(str(error)[-300:])
            assert report["left"] == [], "processes or files stayed behind"
            return report

        yield go


def with_verdict(report: dict[str, Any], *verdicts: str) -> dict[str, str]:
    return {one["name"]: one["evidence"] for one in report["results"] if one["verdict"] in verdicts}


def names(report: dict[str, Any], prefix: str = "") -> set[str]:
    return {one["name"] for one in report["results"] if one["name"].startswith(prefix)}


def not_stopped(report: dict[str, Any]) -> dict[str, str]:
    """Attacks that worked, and those that were never made, with what shows it."""
    return with_verdict(report, "breached", "error")


def landlock_version() -> int:
    number = {"x86_64": 444, "aarch64": 444}.get(platform.machine())
    return ctypes.CDLL(None).syscall(number, None, 0, 1) if number else -1


def has_namespaces() -> bool:
    """Whether an ordinary user may make them here."""
    who: dict[str, Any] = {"user": 61_184, "group": 61_184, "extra_groups": []} if os.geteuid() == 0 else {}
    if shutil.which("unshare") is None:
        return False
    done = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "true"], capture_output=True, **who)
    return done.returncode == 0


# One of each way of seeing, and what even a plain process is kept from.
SEEN = {"fs_write_home", "net_udp", "proc_read_victim_env", "proc_kill_victim"}
SEEN_TOO = {
    "fs_read_ssh", "fs_stat_probe", "fs_write_skill", "fs_delete", "fs_truncate", "fs_chmod", "net_tcp_loopback",
    "net_unix_abstract", "res_memory_multi", "ker_userns",
}  # fmt: skip
KEPT = {"proc_env_scrub", "proc_fd_leak"}
KEPT_TOO = {"proc_orphan", "res_output_flood"}


@needs_linux
@needs_attacks
@pytest.mark.parametrize(
    ("work", "kept", "controls"),
    [
        (SEEN, KEPT, {"ok_python"}),
        pytest.param(SEEN | SEEN_TOO, KEPT | KEPT_TOO, {"ok_python", "ok_exit_code"}, marks=pytest.mark.slow),
    ],
    ids=["some", "all"],
)
def test_the_driver_sees_attacks_that_work(
    attacked: Attack, work: set[str], kept: set[str], controls: set[str]
) -> None:
    report = attacked("plain", "issue", only=work | kept | controls)
    assert set(with_verdict(report, "breached")) == work
    assert set(with_verdict(report, "blocked")) == kept
    # The first look at many of them at once sees as much.
    assert set(report["claimed"]) == work - {"res_memory_multi"}
    assert set(with_verdict(report, "works")) == controls, with_verdict(report, "failed")


@needs_linux
@needs_attacks
@pytest.mark.covers("O-70", "O-71", "O-72")
def test_namespaces_stop_attacks_without_any_package(attacked: Attack) -> None:
    if not has_namespaces():
        pytest.skip("no namespaces for ordinary users here")
    report = attacked("native:namespaces", "all", skip=SLOW)
    assert len(names(report, "m_")) >= 40
    assert not_stopped(report) == {}
    assert len(with_verdict(report, "works")) == 9, with_verdict(report, "failed")


@needs_linux
@needs_attacks
@pytest.mark.slow
def test_namespaces_stop_attacks_that_take_their_time(attacked: Attack) -> None:
    if not has_namespaces():
        pytest.skip("no namespaces for ordinary users here")
    report = attacked("native:namespaces", "all", only=SLOW)
    assert names(report) == SLOW
    assert not_stopped(report) == {}
    assert set(with_verdict(report, "works")) == {"ok_multiproc", "ok_stdin", "ok_exit_code"}


@needs_linux
@needs_attacks
@pytest.mark.parametrize(
    ("skip", "working"), [(ONCE | SLOW, 8), pytest.param(set(), 12, marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_bubblewrap_stops_every_attack(attacked: Attack, skip: set[str], working: int) -> None:
    if shutil.which("bwrap", path="/usr/local/bin:/usr/bin:/bin") is None:
        pytest.skip("bubblewrap is not installed")
    report = attacked("native:bubblewrap", "issue", skip=skip)
    assert not_stopped(report) == {}
    assert len(with_verdict(report, "works")) == working, with_verdict(report, "failed")


@needs_linux
@needs_attacks
@pytest.mark.parametrize(
    ("skip", "working"),
    [((ONCE | SLOW) - {"ok_multiproc"}, 8), pytest.param(set(), 11, marks=pytest.mark.slow)],
    ids=["some", "all"],
)
def test_landlock_alone_leaves_open_only_what_it_cannot_know(attacked: Attack, skip: set[str], working: int) -> None:
    if landlock_version() < 6:
        pytest.skip("Landlock is not there, or too old to keep a job from signals")
    report = attacked("native:landlock", "issue", skip=skip)
    assert set(not_stopped(report)) <= LANDLOCK_CANNOT, not_stopped(report)
    # Semaphores of several processes lie in a folder that all programs of a user share, and so are not there.
    assert set(with_verdict(report, "failed")) == {"ok_multiproc"}
    assert len(with_verdict(report, "works")) == working


HANDED_OVER = {
    "fs_write_home", "fs_write_symlink", "fs_read_ssh", "fs_hardlink", "fs_rename_out", "fs_stat_probe",
    "fs_proc_root", "net_tcp_loopback", "net_unix_path", "proc_kill_parent", "proc_fd_leak", "ker_userns",
}  # fmt: skip


@needs_linux
@needs_attacks
@pytest.mark.parametrize(
    "more",
    [
        set(),
        pytest.param({"proc_read_parent_env", "proc_orphan", "res_memory", "res_output_flood"}, marks=pytest.mark.slow),
    ],
    ids=["some", "all"],
)
def test_what_the_virtual_shell_hands_over_is_stopped_as_well(attacked: Attack, more: set[str]) -> None:
    pytest.importorskip("bashkit")
    controls = {"ok_python", "ok_write_ws", "ok_read_skill", "ok_stdin", "ok_sqlite"}
    report = attacked("virtual", "issue", only=HANDED_OVER | more | controls)
    assert names(report) == HANDED_OVER | more | controls
    assert not_stopped(report) == {}
    assert set(with_verdict(report, "works")) == controls, with_verdict(report, "failed")


@needs_linux
@needs_attacks
def test_without_anybody_to_hand_over_to_no_attack_even_begins(attacked: Attack) -> None:
    pytest.importorskip("bashkit")
    report = attacked("virtual:alone", "issue", only=["fs_write_home", "fs_read_ssh", "net_udp", "proc_kill_victim"])
    assert len(with_verdict(report, "blocked")) == 4, not_stopped(report)


@needs_linux
def test_nothing_of_the_host_is_seen_from_the_virtual_shell(attacked: Attack) -> None:
    pytest.importorskip("bashkit")
    report = attacked("virtual", "shell", skip=SLOW_IN_SHELL)
    assert len(names(report, "s_")) >= 62
    assert not_stopped(report) == {}


@needs_linux
@pytest.mark.slow
def test_the_virtual_shell_ends_attacks_that_take_their_time(attacked: Attack) -> None:
    pytest.importorskip("bashkit")
    report = attacked("virtual", "shell", only=SLOW_IN_SHELL)
    assert names(report) == SLOW_IN_SHELL
    assert not_stopped(report) == {}


@needs_attacks
def test_the_page_has_a_row_for_every_attack() -> None:
    listed = json.loads(subprocess.check_output([sys.executable, str(ATTACKS), "list", "{}"]))
    rows = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert len(listed) == 60
    assert set(listed) <= rows


def test_the_page_names_the_further_attacks() -> None:
    more = [sys.executable, "-m", "tests.run.attacks.more", "list", "{}"]
    listed = json.loads(subprocess.check_output(more, cwd=ROOT))
    rows = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert set(listed) <= rows
