"""Attacks through the network, and through sockets of the machine."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from functools import partial
from typing import Any

from tests.run.attacks.inside.tools import A, attack, attempt, begun, each


@attack
def net_addresses() -> None:
    """Loopback under its other names, and without a connection made first."""
    begun()

    def connect(family: int, address: Any, protocol: int = 0) -> None:
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_STREAM, protocol) as out:
            out.settimeout(0.3)
            out.connect(address)

    for host in ("127.0.0.2", "0.0.0.0", "localhost"):
        connect(socket.AF_INET, (host, A["tcp"]))
    connect(socket.AF_INET, ("127.0.0.1", A["tcp"]), 262)  # multipath
    if A["tcp6"]:
        connect(socket.AF_INET6, ("::1", A["tcp6"]))
    connect(socket.AF_INET6, ("::ffff:127.0.0.1", A["tcp"]))
    with contextlib.suppress(OSError), socket.socket() as out:
        out.settimeout(0.3)
        out.sendto(b"fast", 0x20000000, ("127.0.0.1", A["tcp"]))


@attack
def net_route() -> None:
    """Whether there is a way to anywhere; asking sends nothing."""

    def source() -> str:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            out.connect(("192.0.2.1", 9))
            return str(out.getsockname()[0])

    attempt(source)


@attack
def net_raw() -> None:
    each(
        {
            name: partial(socket.socket, family, kind, protocol)
            for name, family, kind, protocol in (
                ("raw", socket.AF_INET, socket.SOCK_RAW, 1),
                ("raw 6", socket.AF_INET6, socket.SOCK_RAW, 58),
                ("packet", 17, socket.SOCK_RAW, 0),
                ("packet datagram", 17, socket.SOCK_DGRAM, 0),
                ("tipc", 30, socket.SOCK_RAW, 0),
                ("xdp", 44, socket.SOCK_RAW, 0),
                ("qipcrtr", 42, socket.SOCK_DGRAM, 0),
                ("smc", 43, socket.SOCK_STREAM, 0),
                ("kcm", 41, socket.SOCK_DGRAM, 0),
                ("vsock datagram", 40, socket.SOCK_DGRAM, 0),
            )
        }
    )


@attack
def net_netlink() -> None:
    """The machine's connections, from the kernel."""

    def ask() -> str:
        with socket.socket(16, socket.SOCK_RAW, 4) as out:  # sock_diag
            out.settimeout(0.5)
            body = struct.pack("=BBBBI", 2, 6, 0, 0, 0xFFFFFFFF) + b"\0" * 48
            out.send(struct.pack("=IHHII", 16 + len(body), 20, 0x301, 1, 0) + body)
            data = out.recv(65_536)
            return "listeners" if struct.pack(">H", A["tcp"]) in data else "none"

    attempt(ask, lambda answer: answer == "listeners")


@attack
def net_unix_datagram() -> None:
    begun()
    for path in (A["dgram"], A["ws"] + "/dgram-link"):
        with contextlib.suppress(OSError):
            if path.endswith("-link"):
                os.symlink(A["dgram"], path)
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"exfil", path)


@attack
def net_unix_link() -> None:
    """A way to the socket through the workspace."""
    begun()
    for make, path in ((os.symlink, A["ws"] + "/service"), (os.link, A["ws"] + "/service2")):
        with contextlib.suppress(OSError):
            make(A["usock"], path)
            socket.socket(socket.AF_UNIX).connect(path)


@attack
def net_listen_abstract() -> None:
    begun()
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as server:
        server.bind("\0" + A["listening"])
        server.listen()
        time.sleep(0.5)


@attack
def net_known_sockets() -> None:
    """Services that give away the machine: buses, agents, containers."""
    paths = (
        "/run/dbus/system_bus_socket", "/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/nscd/socket",
        "/run/systemd/private", "/run/podman/podman.sock", "/tmp/.X11-unix/X0", f"/run/user/{os.getuid()}/bus",
        "/run/snapd.socket", "/run/systemd/notify", "/dev/log", "/run/systemd/journal/socket",
    )  # fmt: skip

    def connect(path: str, kind: int) -> None:
        with socket.socket(socket.AF_UNIX, kind) as out:
            out.settimeout(0.5)
            out.connect(path)

    each(
        {
            f"{path} {kind}": partial(connect, path, kind)
            for path in paths
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)
        }
    )
