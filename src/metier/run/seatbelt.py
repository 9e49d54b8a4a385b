"""The sandbox of macOS: jobs run by `sandbox-exec` under a profile that denies all that is not named in it.

It keeps a job from files and from the network. It has no processes or limits of its own: a process that leaves the
job's group can outlive it, and how much a job uses is not bounded but in time and output. Of this module the profile is
tested as text, and the way a job takes with a stand-in for the program; neither has been tried on a Mac. A profile that
does not hold there is found out by the runner itself, which then runs nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import socket
import sys
import tempfile
import threading
from typing import TYPE_CHECKING

from metier._paths import is_inside, safe_rmtree
from metier.errors import FileMissing, InvalidArgument, IsolationMissing, MetierError
from metier.guard.files.protected_names import CLOSED_IN_REPOSITORY, PROTECTED, REPOSITORY
from metier.guard.files.protected_places import find_protected_places
from metier.run.environment import base_environment, programs_behind
from metier.run.job import Job, JobPath, Limits, Runner, RunnerCapabilities, not_started
from metier.run.plain import PlainRunner
from metier.run.protection import conclude, protect
from metier.run.proxy import AllowListProxy, Contacts, address_check, proxy_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from metier.run.job import Outcome, OutputLine


SANDBOX_EXEC = "/usr/bin/sandbox-exec"
_PROBE_SECONDS = 5.0

_SYSTEM = (
    "/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/libexec", "/usr/share", "/usr/local", "/opt/homebrew",
    "/opt/local", "/nix/store", "/System/Library", "/System/Cryptexes", "/System/Volumes/Preboot/Cryptexes",
    "/Library/Apple", "/Library/Developer", "/Library/Frameworks", "/Library/Java", "/Library/Perl", "/Library/Ruby",
    "/Applications/Xcode.app", "/private/var/db/dyld", "/private/var/db/timezone", "/private/var/select",
    "/private/etc/ssl", "/private/etc/paths.d", "/dev/fd",
)  # fmt: skip
_SYSTEM_FILES = (
    # The loader reads the root itself; what is in it stays closed.
    "/", "/etc", "/tmp", "/var", "/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/stdin", "/dev/stdout",
    "/dev/stderr", "/dev/dtracehelper", "/private/etc/bashrc", "/private/etc/group", "/private/etc/hosts",
    "/private/etc/localtime", "/private/etc/passwd", "/private/etc/paths", "/private/etc/profile",
    "/private/etc/protocols", "/private/etc/services", "/private/etc/shells", "/private/etc/zprofile",
    "/private/etc/zshenv", "/private/etc/zshrc", "/private/var/db/xcode_select_link",
)  # fmt: skip
_DATA = ("/opt/homebrew/var", "/usr/local/var", "/opt/local/var")
"""Data folders of databases and the like, among the programs."""
_FACTS = (
    "hw.", "machdep.cpu.", "kern.argmax", "kern.hostname", "kern.iossupportversion", "kern.maxfilesperproc",
    "kern.maxproc", "kern.ngroups", "kern.osproductversion", "kern.osrelease", "kern.ostype", "kern.osvariant_status",
    "kern.osversion", "kern.secure_kernel", "kern.usrstack64", "kern.version", "machdep.ptrauth_enabled",
    "security.mac.lockdown_mode_state", "sysctl.proc_cputype", "sysctl.proc_translated", "vm.loadavg",
)  # fmt: skip
"""Facts that a job may ask the kernel; a name with a dot at its end is a prefix. Nothing about other processes, whose
environment can be read in the same way."""
_SERVICES = (
    "com.apple.logd", "com.apple.system.logger", "com.apple.system.notification_center",
    "com.apple.system.opendirectoryd.libinfo", "com.apple.system.opendirectoryd.membership",
)  # fmt: skip
_NETWORK_SERVICES = (
    "com.apple.SystemConfiguration.DNSConfiguration", "com.apple.SystemConfiguration.configd", "com.apple.networkd",
    "com.apple.trustd.agent",
)  # fmt: skip


class SeatbeltRunner(Runner):
    """Runs jobs under a profile of `sandbox-exec`; where that does not work, it runs nothing.

    Each job has a folder of its own for temporary files, which goes with it.
    """

    def __init__(self, program: str = SANDBOX_EXEC) -> None:
        self._program = program
        self._plain = PlainRunner()
        self._lock = threading.Lock()
        self._works: bool | None = None

    name = "native"

    def capabilities(self) -> RunnerCapabilities:
        """The guarantees that are enforced here, found by trying, once."""
        with self._lock:
            if self._works is None:
                self._works = os.access(self._program, os.X_OK) and self._holds()
        if not self._works:
            return RunnerCapabilities(how="sandbox-exec does not work here")
        return RunnerCapabilities(isolates_files=True, isolates_network=True, filters_hosts=True, how="sandbox-exec")

    def run_blocking(
        self,
        job: Job,
        *,
        should_stop: Callable[[], bool] | None = None,
        on_output: Callable[[OutputLine], None] | None = None,
    ) -> Outcome:
        """Run a job to its end; `should_stop` is asked some twenty times a second, and ends it."""
        if not self.capabilities().isolates_files:
            raise IsolationMissing(
                "This machine has no sandbox for programs: sandbox-exec does not work here.",
                hint="It comes with macOS, and does not work inside of another sandbox.",
                missing=["files", "network"],
            )
        contacts = Contacts()
        try:
            with self._prepared(job, contacts) as prepared, contextlib.ExitStack() as held:
                protections = protect(job, _places(job, ""), held, is_closable=False)
                outcome = self._plain.run_blocking(prepared, should_stop=should_stop, on_output=on_output)
                outcome = conclude(outcome, protections)
        except MetierError as error:
            return not_started(error, self.name)
        return dataclasses.replace(outcome, runner=self.name, contacts=contacts.seen())

    @contextlib.contextmanager
    def _prepared(self, job: Job, contacts: Contacts) -> Iterator[Job]:
        """The job that runs another one under its profile."""
        program = _program(job)
        with contextlib.ExitStack() as held:
            scratch = held.enter_context(_scratch())
            env: dict[str, str] = {**job.env, "TMPDIR": scratch}
            port: int | None = None
            # An empty list is nobody, which needs no proxy.
            if job.network == "restricted" and job.hosts:
                listener = held.enter_context(socket.create_server(("127.0.0.1", 0)))
                port = listener.getsockname()[1]
                permits = address_check(may_be_private=job.may_reach_private)
                held.enter_context(
                    AllowListProxy(listener, job.hosts, on_decision=contacts.note, permits_address=permits)
                )
                env |= proxy_variables(port)
            text = profile(job, scratch=scratch, programs=_programs(program), proxy_port=port)
            argv = (self._program, "-p", text, "--", program, *job.argv[1:])
            yield dataclasses.replace(job, argv=argv, env=env)

    def _holds(self) -> bool:
        """Whether a job starts under a profile, and is kept from a file that it was not given and from the network."""
        with _scratch() as folder, _scratch() as elsewhere, socket.create_server(("127.0.0.1", 0)) as listener:
            secret = os.path.join(elsewhere, "secret")
            with open(secret, "w") as file:
                file.write("secret")
            door = f"/dev/tcp/127.0.0.1/{listener.getsockname()[1]}"

            def ends_well(*argv: str) -> bool:
                job = Job(argv=argv, folder=folder, limits=Limits(seconds=_PROBE_SECONDS))
                wrapped = (self._program, "-p", profile(job), "--", *argv)
                return self._plain.run_blocking(dataclasses.replace(job, argv=wrapped)).is_success

            return (
                ends_well("/bin/bash", "-c", "echo > mine")
                and not ends_well("/bin/cat", secret)
                and not ends_well("/bin/bash", "-c", f": < {door}")
            )


def profile(job: Job, *, scratch: str = "", programs: Iterable[str] = (), proxy_port: int | None = None) -> str:
    """The profile for a job, as the last rule that fits counts.

    `scratch` is a folder for its temporary files, `programs` are more that it may read and run, and `proxy_port` is the
    one port of this machine that it may connect to. Raises for a place that cannot be given.

    >>> text = profile(Job(argv=("true",), folder="/usr"))
    >>> text.startswith('(version 1)\\n(deny default)\\n'), "network" in text
    (True, False)
    """
    places = _places(job, scratch)
    # Both a link and what it leads to are looked at on the way to a program.
    programs = tuple(dict.fromkeys(each for path in programs for each in (path, os.path.realpath(path))))
    lines = [
        "(version 1)",
        "(deny default)",
        "(allow process-exec process-fork)",
        "(allow signal process-info* (target same-sandbox))",
        "(allow ipc-posix-sem)",
        _rule("allow sysctl-read", *map(_fact, _FACTS)),
        _rule("allow mach-lookup", *_filters("global-name", _SERVICES)),
        _rule("allow file-read* file-map-executable", *_filters("subpath", (*_SYSTEM, *programs))),
        _rule("allow file-read*", *_filters("literal", _SYSTEM_FILES)),
        _rule("deny file-read*", *_filters("subpath", _DATA)),
        _rule("allow file-write*", *_filters("literal", ("/dev/null", "/dev/zero", "/dev/stdout", "/dev/stderr"))),
        '(allow file-write-data (subpath "/dev/fd"))',
        # To find out where it is, a program looks at the folders above.
        _rule("allow file-read-metadata", *_filters("literal", _above((*programs, *(place.path for place in places))))),
        *_place_rules(places),
        *_network_rules(job, proxy_port),
        # These two change what is in a file through a descriptor that was opened for reading.
        "(deny system-fcntl (fcntl-command 80 110))",
    ]
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    """Text as a string of a profile, which nothing in it can end.

    >>> print(quoted('/a "b" (c)'))
    "/a \\"b\\" (c)"
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + '"'


def _place_rules(places: tuple[JobPath, ...]) -> Iterator[str]:
    writable = [place.path for place in places if place.is_writable]
    held: dict[str, None] = {}
    for place in places:
        rule = "allow file-read* file-map-executable"
        if place.is_writable:
            yield _rule(f"{rule} file-write*", *_filters("subpath", (place.path,)))
            continue
        inside = [folder for folder in writable if is_inside(place.path, folder)]
        # What is only protected may not even be there.
        denied = "deny file-read* file-write*" if place.is_hidden else "deny file-write*"
        yield _rule(rule if not inside else denied, *_filters("subpath", (place.path,)))
        if inside:
            held |= dict.fromkeys(path for path in _above((place.path,)) if any(is_inside(path, top) for top in inside))
    if held:
        # Moved away, a folder would take what is in it to a path that no rule is about.
        yield _rule("deny file-write-unlink", *_filters("literal", held))


def _network_rules(job: Job, proxy_port: int | None) -> Iterator[str]:
    if job.network == "host":
        # Not the sockets of this machine's services, which are files.
        yield '(allow network-outbound (remote ip "*:*") (literal "/private/var/run/mDNSResponder"))'
        yield '(allow network-inbound network-bind (local ip "*:*"))'
        yield _rule("allow mach-lookup", *_filters("global-name", _NETWORK_SERVICES))
        yield '(allow file-read* (literal "/private/etc/resolv.conf") (literal "/private/var/run/resolv.conf"))'
    elif proxy_port is not None:
        yield f'(allow network-outbound (remote ip "localhost:{int(proxy_port)}"))'


def _places(job: Job, scratch: str) -> tuple[JobPath, ...]:
    """The places of a job, by their real paths; each comes after those that it is inside of."""
    given = [_checked(place) for place in job.places]
    folder = _checked(JobPath(job.folder, is_writable=True))
    if not any(is_inside(folder.path, place.path) for place in given):
        given.append(folder)
    for place in tuple(given):
        if place.is_writable:
            names = [name for name in PROTECTED if name not in job.grants]
            names += [f"{name}/{part}" for name in REPOSITORY if name in job.grants for part in CLOSED_IN_REPOSITORY]
            found = find_protected_places(place.path, job.grants, with_packages=True, with_other_names=True)
            paths = (*(os.path.join(place.path, name) for name in names), *found.links, *found.closed)
            given += [JobPath(path) for path in dict.fromkeys(paths)]
    if scratch:
        given.append(_checked(JobPath(scratch, is_writable=True)))
    return tuple(sorted(dict.fromkeys(given), key=lambda place: (place.path.count("/"), place.is_writable)))


def _checked(place: JobPath) -> JobPath:
    real = place.real_path()
    if place.at and os.path.normpath(place.at) != os.path.normpath(place.path):
        raise InvalidArgument(
            f"{place.path!r:.200} cannot be shown as {place.at!r:.200}: here a job sees files where they are.",
            hint="Give it to the job under its own path.",
            path=place.path,
        )
    if real == "/":
        raise InvalidArgument("No job can be given all files of this machine.", hint="Name a folder below the root.")
    return JobPath(real, is_writable=place.is_writable, is_hidden=place.is_hidden)


def _program(job: Job) -> str:
    """The path of a job's program, as `sandbox-exec` has an exit code of its own for one that is not there."""
    if not job.argv or not all(isinstance(part, str) for part in job.argv) or not job.argv[0]:
        raise InvalidArgument("A job needs a program, and arguments that are text.", hint="Name a program.")
    name = job.argv[0]
    if "/" in name:
        path = os.path.join(job.folder, name)
        found = path if "\0" not in path and os.path.isfile(path) and os.access(path, os.X_OK) else None
    else:
        found = shutil.which(name, path={**base_environment(job.folder), **job.env}["PATH"])
    if found is None:
        raise FileMissing(
            f"Cannot start {name[:200]!r}: there is no such program.", hint="Install it, or name another."
        )
    return found


def _programs(program: str) -> tuple[str, ...]:
    """The folders that a program, and the Python of this process, are installed in; itself if unknown."""
    home = os.path.realpath(os.path.expanduser("~"))
    found: dict[str, None] = dict.fromkeys((sys.prefix, sys.base_prefix))
    for path in programs_behind(program):
        prefix, folder = os.path.split(os.path.dirname(path))
        is_shared = is_inside(home, prefix) or prefix == os.path.join(home, ".local")
        is_installed = folder == "bin" and os.path.isdir(os.path.join(prefix, "lib"))
        found[prefix if is_installed and not is_shared else path] = None
    return tuple(path for path in found if not is_inside(home, os.path.realpath(path)))


@contextlib.contextmanager
def _scratch() -> Iterator[str]:
    """A folder of one's own, which is gone afterwards, whatever a job made of it."""
    folder = os.path.realpath(tempfile.mkdtemp(prefix="metier-job-"))
    try:
        yield folder
    finally:
        safe_rmtree(folder)


def _rule(what: str, *filters: str) -> str:
    return f"({what} {' '.join(filters)})"


def _filters(kind: str, values: Iterable[str]) -> list[str]:
    return [f"({kind} {quoted(value)})" for value in values]


def _fact(name: str) -> str:
    return f"({'sysctl-name-prefix' if name.endswith('.') else 'sysctl-name'} {quoted(name)})"


def _above(paths: Iterable[str]) -> list[str]:
    """All folders above some paths."""
    found: dict[str, None] = {"/": None}
    for path in paths:
        while (path := os.path.dirname(path)) not in found:
            found[path] = None
    return list(found)
