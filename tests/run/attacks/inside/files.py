"""Attacks on files: those of the host, of the skill, and those that others start from."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
import stat
import struct
import threading
import time
from functools import partial

from tests.run.attacks.inside.tools import (
    LIBC,
    A,
    attack,
    attempt,
    begun,
    breach,
    call,
    checked,
    each,
    exchange,
    has_secret,
    processes,
    read,
    silently,
    verdict,
    write,
)


@attack
def fs_suid_chmod() -> None:
    path = A["ws"] + "/tool"
    write(path)
    attempt(lambda: os.chmod(path, 0o6755), lambda _: bool(os.stat(path).st_mode & 0o6000))


@attack
def fs_suid_create() -> None:
    def create() -> int:
        os.umask(0)
        os.close(os.open(A["ws"] + "/created", os.O_CREAT | os.O_WRONLY, 0o6755))
        os.mkdir(A["ws"] + "/folder", 0o6777)
        return os.stat(A["ws"] + "/created").st_mode & 0o6000

    attempt(create, bool)


@attack
def fs_suid_openat2() -> None:
    how = struct.pack("QQQ", os.O_CREAT | os.O_WRONLY, 0o6755, 0)

    def create() -> int:
        os.umask(0)
        os.close(call("openat2", -100, (A["ws"] + "/created2").encode(), how, len(how)))
        return os.stat(A["ws"] + "/created2").st_mode & 0o6000

    attempt(create, bool)


@attack
def fs_suid_mknod() -> None:
    def create() -> int:
        os.umask(0)
        os.mknod(A["ws"] + "/made", stat.S_IFREG | 0o6755)
        return os.stat(A["ws"] + "/made").st_mode & 0o6000

    attempt(create, bool)


@attack
def fs_suid_fchmod() -> None:
    path = (A["ws"] + "/tool2").encode()
    write(path.decode())
    descriptor = os.open(path, os.O_RDONLY)

    def change() -> int:
        silently(
            lambda: os.fchmod(descriptor, 0o6755),
            lambda: call("fchmodat2", -100, path, 0o6755, 0),
            lambda: call("fchmodat2", descriptor, b"", 0o6755, 0x1000),
        )
        return os.stat(path).st_mode & 0o6000

    attempt(change, bool)


@attack
def fs_capabilities() -> None:
    path = A["ws"] + "/capable"
    write(path)
    rights = struct.pack("<IIIII", 0x02000001, 0xFFFFFFFF, 0, 0, 0)
    attempt(lambda: os.setxattr(path, "security.capability", rights))


@attack
def fs_device() -> None:
    each(
        {
            kind: partial(os.mknod, f"{A['ws']}/{kind}", mode | 0o666, number)
            for kind, mode, number in (
                ("memory", stat.S_IFCHR, os.makedev(1, 1)),
                ("null", stat.S_IFCHR, os.makedev(1, 3)),
                ("disk", stat.S_IFBLK, os.makedev(8, 0)),
            )
        }
    )


@attack
def fs_odd_files() -> None:
    """Files that hang whoever opens them."""
    begun()
    for number in range(20):
        with contextlib.suppress(OSError):
            os.mkfifo(f"{A['ws']}/fifo{number}")
        with contextlib.suppress(OSError):
            socket.socket(socket.AF_UNIX).bind(f"{A['ws']}/socket{number}")
    os.mkdir(A["ws"] + "/closed", 0)
    os.symlink("loop", A["ws"] + "/loop")


@attack
def fs_deep() -> None:
    """Folders deeper than any path can say, and than a program can call itself."""
    begun()
    for _ in range(2_000):
        os.mkdir("d" * 100)
        os.chdir("d" * 100)
    write("bottom")


@attack
def fs_replace_workspace() -> None:
    begun()
    os.chdir("/")
    silently(
        lambda: os.rename(A["ws"], A["ws"] + "-away"),
        lambda: os.rename(A["ws"], A["ws"] + "/inside"),
        lambda: exchange(A["ws"], A["home"]),
        lambda: os.symlink(A["home"], A["ws"]),
    )


@attack
def fs_link_race() -> None:
    """Swap a folder for a link to the home while writing into it."""
    begun()
    folder, link = A["ws"] + "/swap", A["ws"] + "/swap-link"
    os.mkdir(folder)
    os.symlink(A["home"], link)
    stop = False

    def swap() -> None:
        while not stop:
            silently(partial(exchange, folder, link))

    thread = threading.Thread(target=swap)
    thread.start()
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        silently(partial(write, folder + "/raced"))
    stop = True
    thread.join()


@attack
def fs_skill_hardlink() -> None:
    """A second name for a file of the skill, where writing is allowed."""

    def link() -> None:
        os.link(A["skill"] + "/scripts/helper.py", A["ws"] + "/helper.py")
        write(A["ws"] + "/helper.py")

    attempt(link)


@attack
def fs_skill_rename() -> None:
    each(
        {
            "file out": lambda: os.rename(A["skill"] + "/scripts/helper.py", A["ws"] + "/stolen.py"),
            "folder out": lambda: os.rename(A["skill"] + "/scripts", A["ws"] + "/stolen"),
            "the skill": lambda: os.rename(A["skill"], A["ws"] + "/skill"),
            "file in": lambda: os.rename(A["ws"] + "/.envrc", A["skill"] + "/new.py"),
            "delete": lambda: os.unlink(A["skill"] + "/scripts/helper.py"),
        }
    )


@attack
def fs_skill_marks() -> None:
    path = A["skill"] + "/scripts/helper.py"
    each(
        {
            "mode": lambda: os.chmod(path, 0o777),
            "times": lambda: os.utime(path, (1, 1)),
            "attribute": lambda: os.setxattr(path, "user.pwned", b"1"),
        }
    )


@attack
def fs_skill_truncate() -> None:
    path = A["skill"] + "/scripts/helper.py"
    each(
        {
            "open to read, cut": lambda: os.close(os.open(path, os.O_RDONLY | os.O_TRUNC)),
            "truncate": lambda: os.truncate(path, 0),
            "through /proc": lambda: os.truncate(f"/proc/self/fd/{os.open(path, os.O_RDONLY)}", 0),
            "reopen": lambda: os.open(f"/proc/self/fd/{os.open(path, os.O_RDONLY)}", os.O_RDWR),
        }
    )


@attack
def fs_home_marks() -> None:
    path = A["home"] + "/.ssh/id_test"
    each(
        {
            "times": lambda: os.utime(path, (1, 1)),
            "attribute": lambda: os.setxattr(path, "user.pwned", b"1"),
            "owner": lambda: os.chown(path, os.getuid(), os.getgid()),
            "mode of the folder": lambda: os.chmod(A["home"], 0o777),
        }
    )


@attack
def fs_home_exchange() -> None:
    write(A["ws"] + "/mine")
    attempt(lambda: exchange(A["ws"] + "/mine", A["home"] + "/.bashrc"))


@attack
def fs_home_tmpfile() -> None:
    """A file without a name, given one outside."""

    def link() -> None:
        descriptor = os.open(A["ws"], os.O_TMPFILE | os.O_WRONLY, 0o600)
        os.write(descriptor, b"pwned")
        checked(
            LIBC.linkat(-100, f"/proc/self/fd/{descriptor}".encode(), -100, (A["home"] + "/linked").encode(), 0x400)
        )

    attempt(link)


@attack
def fs_git_hook() -> None:
    begun()
    with contextlib.suppress(OSError):
        write(A["ws"] + "/.git/hooks/pre-commit", "#!/bin/sh\necho pwned\n")


@attack
def fs_git_config() -> None:
    begun()
    with contextlib.suppress(OSError):
        write(A["ws"] + "/.git/config", "[core]\n\tfsmonitor = echo pwned\n")


@attack
def fs_git_moved() -> None:
    """The repository's folder moved away and another put in its place."""
    begun()
    with contextlib.suppress(OSError):
        os.rename(A["ws"] + "/.git", A["ws"] + "/.git-old")
        os.makedirs(A["ws"] + "/.git/hooks")
        write(A["ws"] + "/.git/config", "pwned")
        write(A["ws"] + "/.git/hooks/pre-commit", "pwned")


@attack
def fs_startup_files() -> None:
    """Files that others start from: changed, removed, replaced, with the folder that they are in."""
    begun()
    mine = A["ws"] + "/mine"
    write(mine, "pwned")
    for name in ("/.envrc", "/.vscode/tasks.json"):
        path = A["ws"] + name
        silently(
            partial(write, path),
            partial(os.rename, mine, path),
            partial(exchange, mine, path),
            partial(os.unlink, path),
            partial(os.rename, A["ws"] + "/.vscode", A["ws"] + "/.vscode-old"),
            partial(os.truncate, path, 0),
        )


@attack
def fs_library() -> None:
    """The code of the library that runs this."""
    each(
        {
            "change": lambda: write(A["library"] + "/__init__.py", "# pwned"),
            "add": lambda: write(A["library"] + "/pwned.py"),
            "the code": lambda: write(f"{A['code']}/pwned-{os.path.basename(A['ws'])}"),
            "prefix": lambda: write(os.path.dirname(os.__file__) + "/pwned.pth"),
        }
    )


@attack
def fs_beside_library() -> None:
    """What lies beside the code of the library, which whoever watches over the job may have to read."""
    attempt(lambda: read(os.path.dirname(A["code"]) + "/neighbour.txt"), has_secret)


@attack
def fs_handles() -> None:
    def by_handle() -> str:
        handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + b"\0" * 128)
        mount = ctypes.c_int()
        call("name_to_handle_at", -100, A["ws"].encode(), handle, ctypes.addressof(mount), 0)
        root = os.open(A["ws"], os.O_RDONLY)
        # The root of most file systems has the number 2.
        for number in (2, 128, 64, 1):
            wanted = struct.pack("IiII", 8, 1, number, 0) + b"\0" * 120
            with contextlib.suppress(OSError):
                found = call("open_by_handle_at", root, ctypes.create_string_buffer(wanted), os.O_RDONLY)
                inner = os.open(A["home"].lstrip("/") + "/.ssh/id_test", os.O_RDONLY, dir_fd=found)
                return os.read(inner, 100).decode()
        return "no handle opens"

    attempt(by_handle, has_secret)


@attack
def fs_descriptors() -> None:
    """Any descriptor that came along."""
    found = []
    for descriptor in range(3, 1_024):
        try:
            about = os.fstat(descriptor)
        except OSError:
            continue
        try:
            what = os.readlink(f"/proc/self/fd/{descriptor}")
        except OSError:
            what = oct(about.st_mode)
        found.append(f"{descriptor} {what}")
    verdict(found)


@attack
def fs_descriptor_climb() -> None:
    """From any folder that came along, upwards to the root, and into the home."""

    def climb() -> str:
        for descriptor in [*range(64), os.open(A["ws"], os.O_RDONLY), os.open("/", os.O_RDONLY)]:
            with contextlib.suppress(OSError):
                if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                    continue
                for _ in range(12):
                    descriptor = os.open("..", os.O_PATH | os.O_DIRECTORY, dir_fd=descriptor)
                inner = os.open(A["home"].lstrip("/") + "/.ssh/id_test", os.O_RDONLY, dir_fd=descriptor)
                return os.read(inner, 100).decode()
        return "nothing"

    attempt(climb, has_secret)


@attack
def fs_proc_roots() -> None:
    """The root and working folders of every process in sight."""
    seen = ""
    for pid in ["1", "self", "thread-self", str(A["runner"]), str(os.getppid()), *processes()]:
        for place in ("root", "cwd/../../.."):
            with contextlib.suppress(OSError):
                seen += read(f"/proc/{pid}/{place}{A['home']}/.ssh/id_test")
    verdict(["through another process"] if has_secret(seen) else [])


@attack
def fs_devices_open() -> None:
    found = []
    with contextlib.suppress(OSError):
        for name in os.listdir("/dev"):
            with contextlib.suppress(OSError):
                about = os.stat(f"/dev/{name}")
                is_disk = stat.S_ISBLK(about.st_mode)
                if is_disk or name in ("mem", "kmem", "port", "kmsg", "fuse", "kvm", "vsock", "vhost-vsock", "uinput"):
                    os.close(os.open(f"/dev/{name}", os.O_RDONLY | os.O_NONBLOCK))
                    found.append(name)
    verdict(found)


@attack
def fs_kernel_files() -> None:
    """Settings of the kernel, opened to be written; nothing is written."""
    paths = (
        "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/kernel/modprobe", "/proc/sys/vm/drop_caches",
        "/proc/sys/kernel/hostname", "/proc/sys/net/ipv4/ip_forward", "/sys/kernel/mm/ksm/run", "/sys/power/state",
        "/sys/kernel/uevent_helper", "/sys/fs/cgroup/release_agent", "/sys/fs/cgroup/memory/release_agent",
        "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/cgroup.procs", "/proc/1/oom_score_adj",
    )  # fmt: skip
    each({path: partial(os.open, path, os.O_WRONLY) for path in paths})


@attack
def fs_cgroup_make() -> None:
    def make(folder: str) -> None:
        os.mkdir(folder + "/pwned")
        os.rmdir(folder + "/pwned")

    folders = ["/sys/fs/cgroup"]
    with contextlib.suppress(OSError):
        folders += [entry.path for entry in os.scandir("/sys/fs/cgroup") if entry.is_dir()]
    each({folder: partial(make, folder) for folder in folders})


@attack
def fs_list_tmp() -> None:
    attempt(lambda: os.listdir("/tmp"), lambda names: "sbx_host_secret" in names)


@attack
def fs_list_parent() -> None:
    """The names of what lies beside the workspace."""
    parent, name = os.path.split(A["home"])
    attempt(lambda: os.listdir(parent), lambda names: name in names)


@attack
def fs_exists() -> None:
    """Whether something is there, by the kind of refusal."""

    def differ() -> bool:
        answers = []
        for path in (A["home"] + "/.ssh/id_test", A["home"] + "/.ssh/id_nobody"):
            try:
                os.close(os.open(path, os.O_RDONLY))
                answers.append(0)
            except OSError as error:
                answers.append(error.errno or 0)
        return answers[0] != answers[1]

    attempt(differ, bool)


@attack
def fs_watch() -> None:
    """Be told of what happens to files that it cannot open."""

    def watch() -> int:
        descriptor = LIBC.inotify_init()
        number = int(LIBC.inotify_add_watch(descriptor, (A["home"] + "/.ssh/id_test").encode(), 0xFFF))
        if number < 0:
            raise OSError(ctypes.get_errno(), "inotify")
        return number

    attempt(watch)


@attack
def fs_terminal() -> None:
    begun()
    if A["tty"]:
        with contextlib.suppress(OSError):
            descriptor = os.open(A["tty"], os.O_RDWR | os.O_NOCTTY)
            os.write(descriptor, b"pwned\n")
    for path in ("/dev/tty", "/dev/console", "/dev/tty0"):
        with contextlib.suppress(OSError):
            fcntl.ioctl(os.open(path, os.O_RDWR | os.O_NOCTTY), 0x5412, b"x")  # TIOCSTI
            breach(path)
