"""What an attack finds: secrets, victims and listeners that stand for a host, planted fresh for each attempt."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pty
import secrets
import selectors
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

HOST_SECRET = Path("/tmp/sbx_host_secret")
HOST_WRITTEN = Path("/tmp/sbx_pwned.txt")
FILLING = ("/tmp", "/dev/shm", "/var/tmp")
"""Where attacks try to fill the machine, with names that begin with `sbx_fill`."""

STARTUP = (".envrc", ".vscode/tasks.json")
"""Files of the workspace from which other programs start something."""

_IPC_CREAT, _IPC_RMID = 0o1000, 0
_SECRET_SIZE = 61
"""Of the file whose size an attack asks for: no other file has just that size."""


def base() -> str:
    """A folder two levels deep that everybody can write to: one attack counts on a workspace three levels deep."""
    for folder in ("/var/tmp", "/tmp"):
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    return tempfile.gettempdir()


class Ears:
    """Servers on loopback and on Unix sockets that remember who spoke to them, and answer with a secret."""

    def __init__(self, folder: Path, token: str) -> None:
        self.heard: list[str] = []
        self._answer = token.encode()
        self._selector = selectors.DefaultSelector()
        self._open: list[socket.socket] = []
        self.stream_path = str(folder / "service.sock")
        self.datagram_path = str(folder / "log.sock")
        self.abstract = f"metier-attacks-{secrets.token_hex(8)}"
        self.tcp = self._listen("tcp", socket.AF_INET, ("127.0.0.1", 0))[1]
        self.tcp6 = self._listen("tcp6", socket.AF_INET6, ("::1", 0))[1] if _has_ipv6() else 0
        self.udp = self._bind("udp", socket.AF_INET, ("127.0.0.1", 0))[1]
        self._listen("unix", socket.AF_UNIX, self.stream_path)
        self._listen("abstract", socket.AF_UNIX, "\0" + self.abstract)
        self._bind("unix datagram", socket.AF_UNIX, self.datagram_path)
        self._control, told = socket.socketpair()
        self._open += [self._control, told]
        self._selector.register(told, selectors.EVENT_READ, "control")
        self._has_settled = threading.Event()
        self._thread = threading.Thread(target=self._listen_on, daemon=True)
        self._thread.start()

    def settle(self) -> None:
        """Wait until all that was said so far has been heard."""
        self._has_settled.clear()
        self._control.send(b"settle")
        self._has_settled.wait(10)

    def close(self) -> None:
        self._control.send(b"stop")
        self._thread.join()
        for opened in self._open:
            opened.close()
        self._selector.close()

    def _listen(self, name: str, family: int, address: object) -> tuple[str, int]:
        server = socket.socket(family, socket.SOCK_STREAM)
        server.bind(address)  # type: ignore[arg-type]
        server.listen()
        return self._add(name, server)

    def _bind(self, name: str, family: int, address: object) -> tuple[str, int]:
        server = socket.socket(family, socket.SOCK_DGRAM)
        server.bind(address)  # type: ignore[arg-type]
        return self._add(name, server)

    def _add(self, name: str, server: socket.socket) -> tuple[str, int]:
        self._open.append(server)
        self._selector.register(server, selectors.EVENT_READ, name)
        return server.getsockname()[:2] if server.family != socket.AF_UNIX else ("", 0)

    def _listen_on(self) -> None:
        while True:
            ready = {str(key.data): key.fileobj for key, _ in self._selector.select()}
            told = ready.pop("control", None)
            while ready:
                for name, server in ready.items():
                    assert isinstance(server, socket.socket)
                    with contextlib.suppress(OSError):
                        self._serve(name, server)
                ready = {str(key.data): key.fileobj for key, _ in self._selector.select(0) if key.data != "control"}
            if isinstance(told, socket.socket):
                if told.recv(100) == b"stop":
                    return
                self._has_settled.set()

    def _serve(self, name: str, server: socket.socket) -> None:
        if server.type == socket.SOCK_DGRAM:
            data, sender = server.recvfrom(1_000)
            self.heard.append(f"{name}: {data[:40]!r}")
            if sender:
                server.sendto(self._answer, sender)
            return
        spoken, _ = server.accept()
        self.heard.append(f"{name}: a connection")
        with spoken:
            spoken.settimeout(0.2)
            if name.startswith("tcp"):
                with contextlib.suppress(TimeoutError):
                    spoken.recv(1_000)
            spoken.sendall(self._answer)


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


class Victim:
    """A process of the same user with a secret in its environment and one in its arguments."""

    def __init__(self, token: str) -> None:
        self._process = subprocess.Popen(
            # It notes a signal that nobody else minds, and ends with its input.
            ["sh", "-c", "trap 'echo heard' URG; exec 3<&0; cat <&3 & until wait $!; do :; done", "sh", "CANARY-ARG"],
            env={"CANARY": token, "PATH": os.environ["PATH"]},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self.pid = self._process.pid
        self.state = self._state()

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def has_heard(self) -> bool:
        assert self._process.stdout is not None
        return bool(self._process.stdout.read())

    def changes(self) -> list[str]:
        """What somebody changed about it: how it is scheduled, what it may use."""
        now = self._state()
        return [f"{what} is {now[what]}, was {was}" for what, was in self.state.items() if now[what] != was]

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _state(self) -> dict[str, object]:
        if not self.is_alive():
            return {"alive": False}
        return {
            "alive": True,
            "niceness": os.getpriority(os.PRIO_PROCESS, self.pid),
            "scheduling": os.sched_getscheduler(self.pid),
            "processors": sorted(os.sched_getaffinity(self.pid)),
            "limits": Path(f"/proc/{self.pid}/limits").read_text().split("Max open files")[1].split("\n")[0].split(),
        }


class Stage:
    """The folders, files and processes that one attempt is made on."""

    def __init__(self, ears: Ears, scripts: Path, token: str, code: Path) -> None:
        self.ears, self.token = ears, token
        start = f"{base()}/metier-attack-{secrets.token_hex(6)}"
        self._start = start
        self.ws, self.home, self.other, self.skill, self.library = (
            Path(f"{start}-{name}") for name in ("ws", "home", "other", "skill", "library")
        )
        for folder in (self.ws, self.home, self.other, self.skill, self.library):
            folder.mkdir(mode=0o755)
        (self.home / ".ssh").mkdir()
        (self.home / ".ssh" / "id_test").write_text(token.ljust(_SECRET_SIZE - 1) + "\n")
        for name in (".bashrc", "delete_me", "trunc_me", "chmod_me"):
            (self.home / name).write_text("# as it was\n")
        (self.home / "chmod_me").chmod(0o600)
        (self.other / "secret.txt").write_text(token + "\n")
        (self.ws / "link_home").symlink_to(self.home)
        (self.ws / ".git" / "hooks").mkdir(parents=True)
        (self.ws / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        (self.ws / ".git" / "config").write_text("[core]\n\tbare = false\n")
        (self.ws / ".vscode").mkdir()
        for name in STARTUP:
            (self.ws / name).write_text("as it was\n")
        (self.skill / "SKILL.md").write_text("---\nname: demo\ndescription: A demo.\n---\nDo it.\n")
        # With what the interpreter made of them, which it would have to make again for each attack.
        shutil.copytree(scripts, self.skill / "scripts")
        (self.skill / "scripts" / "helper.py").write_text("VALUE = 1\n")
        (self.library / "__init__.py").write_text("VALUE = 1\n")
        self.code = code
        self._is = self._picture()
        self.victim = Victim(token)
        self.shmkey = secrets.randbelow(1 << 30) + 1
        self._shm = _shared_memory(self.shmkey, token)
        self._master, self._slave = _terminal()
        self.bindport = _free_port()
        self.listening = f"metier-attacks-{secrets.token_hex(8)}"

    def arguments(self, caller: int, *, skill: str = "") -> str:
        """What an attack is told about the place, as JSON; the skill may be seen elsewhere than it is."""
        return json.dumps(
            {
                "home": str(self.home),
                "other": str(self.other),
                "ws": str(self.ws),
                "skill": skill or str(self.skill),
                "library": str(self.library),
                "code": str(self.code),
                "tcp": self.ears.tcp,
                "tcp6": self.ears.tcp6,
                "udp": self.ears.udp,
                "usock": self.ears.stream_path,
                "dgram": self.ears.datagram_path,
                "abstract": self.ears.abstract,
                "listening": self.listening,
                "victim": self.victim.pid,
                "bindport": self.bindport,
                "shmkey": self.shmkey,
                "tty": os.ttyname(self._slave) if self._slave >= 0 else "",
                "runner": caller,
            }
        )

    def changes(self) -> list[str]:
        """What was added, changed, marked or removed outside the workspace, and the workspace itself."""
        now = self._picture()
        names = sorted({*now, *self._is})
        return [f"{name} is not as it was" for name in names if now.get(name) != self._is.get(name)]

    def terminal_heard(self) -> str:
        """What somebody wrote to a terminal of this user."""
        if self._master < 0:
            return ""
        os.set_blocking(self._master, False)
        try:
            return os.read(self._master, 1_000).decode(errors="replace")
        except OSError:
            return ""

    def processes(self) -> list[int]:
        """The processes of the attack: their arguments, or those that they were forked from, name the workspace."""
        return processes_with(str(self.ws))

    def disk_used(self) -> int:
        """Bytes that the workspace takes on the disk, and what was written to the machine's shared folders."""
        shared = sum(file.stat().st_blocks * 512 for file in _filled())
        return _disk_used(str(self.ws)) + shared

    def close(self) -> None:
        for pid in self.processes():
            with contextlib.suppress(OSError):
                os.kill(pid, 9)
        self.victim.close()
        for descriptor in (self._master, self._slave):
            if descriptor >= 0:
                os.close(descriptor)
        _remove_shared_memory(self._shm)
        _remove_kernel_objects(self.shmkey + 1)
        # Not `rmtree`, which gives up on folders that are deeper than Python can call.
        parent, name = os.path.split(self._start)
        folders = [os.path.join(parent, entry) for entry in os.listdir(parent) if entry.startswith(f"{name}-")]
        if subprocess.run(["rm", "-rf", *folders], capture_output=True, check=False).returncode != 0:
            subprocess.run(["chmod", "-R", "u+rwX", *folders], capture_output=True, check=False)
            subprocess.run(["rm", "-rf", *folders], check=False)
        for file in _filled():
            if file.is_dir():
                shutil.rmtree(file, ignore_errors=True)
            else:
                file.unlink(missing_ok=True)

    def _picture(self) -> dict[str, object]:
        """Everything about the planted files that an attack could change."""
        seen: dict[str, object] = {}
        for root in (self.home, self.other, self.skill, self.library):
            for folder, _, files in os.walk(root):
                for path in (folder, *(os.path.join(folder, file) for file in files)):
                    about = os.lstat(path)
                    seen[path] = (about.st_mode, about.st_size, about.st_ino, about.st_nlink, about.st_mtime_ns)
                    with contextlib.suppress(OSError):
                        seen[path + " (attributes)"] = os.listxattr(path, follow_symlinks=False)
        about = os.lstat(self.ws)
        seen[str(self.ws)] = (about.st_mode, about.st_ino)
        return seen


def processes_with(text: str) -> list[int]:
    """The living processes in whose arguments something stands."""
    wanted = text.encode()
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, IndexError):
            said = _read(f"/proc/{entry}/cmdline")
            tasks = [f"/proc/{entry}"] if wanted in said else []
            if not said and _state(f"/proc/{entry}") == b"Z":
                # A process whose first thread has ended looks dead, and its other threads do not.
                threads = [f"/proc/{entry}/task/{name}" for name in os.listdir(f"/proc/{entry}/task")]
                tasks = [thread for thread in threads if wanted in _read(f"{thread}/cmdline")]
            if any(_state(task) not in (b"Z", b"X") for task in tasks):
                found.append(int(entry))
    return found


def _state(task: str) -> bytes:
    return _read(f"{task}/stat").rpartition(b")")[2].split()[0]


def _read(path: str) -> bytes:
    """What a file of the kernel's says; all of them are read for each look, so that it must cost little."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(descriptor, 65_536)
        while data and (more := os.read(descriptor, 65_536)):
            data += more
        return data
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def host_tmp(token: str) -> Iterator[None]:
    """A secret in the machine's own folder for temporary files, whose name all attempts share: one at a time."""
    with alone("tmp"):
        for path in (HOST_SECRET, HOST_WRITTEN):
            path.unlink(missing_ok=True)
        HOST_SECRET.write_text(token + "\n")
        try:
            yield
        finally:
            for path in (HOST_SECRET, HOST_WRITTEN):
                path.unlink(missing_ok=True)


@contextlib.contextmanager
def alone(what: str) -> Iterator[None]:
    """Wait until nobody else on this machine does the same; the kernel ends it with this process."""
    with socket.socket(socket.AF_UNIX) as lock:
        waiting = threading.Event()
        while True:
            try:
                lock.bind(f"\0metier-attacks-alone-{what}")
                break
            except OSError:
                waiting.wait(0.05)
        yield


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _terminal() -> tuple[int, int]:
    try:
        return pty.openpty()
    except OSError:
        return -1, -1


def _shared_memory(key: int, token: str) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    number = int(libc.shmget(key, 64, _IPC_CREAT | 0o600))
    if number < 0:
        return number
    libc.shmat.restype = ctypes.c_void_p
    libc.shmdt.argtypes = [ctypes.c_void_p]
    address = libc.shmat(number, None, 0)
    ctypes.memmove(address, token.encode(), len(token))
    libc.shmdt(address)
    return number


def _remove_shared_memory(number: int) -> None:
    if number >= 0:
        ctypes.CDLL(None).shmctl(number, _IPC_RMID, None)


def _remove_kernel_objects(key: int) -> None:
    libc = ctypes.CDLL(None)
    # None of them minds a number that is none.
    libc.shmctl(libc.shmget(key, 0, 0), _IPC_RMID, None)
    libc.msgctl(libc.msgget(key, 0), _IPC_RMID, None)
    libc.semctl(libc.semget(key, 0, 0), 0, _IPC_RMID)


def _filled() -> list[Path]:
    return [Path(folder, name) for folder in FILLING for name in _listed(folder) if name.startswith("sbx_fill")]


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _disk_used(folder: str) -> int:
    total, pending = 0, [folder]
    while pending:
        with contextlib.suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
    return total
