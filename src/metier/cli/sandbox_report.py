"""The report on the sandboxes of this machine: the limits that each runner enforces, and the steps to more."""

from __future__ import annotations

import importlib.util
import os
import platform
from typing import TYPE_CHECKING, Any

import metier.run
from metier._lazy import dataclass, replace
from metier.run.job import NEEDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from metier.run.job import RunnerCapabilities

KEEPS_FROM = {
    **NEEDS,
    "hiding": ("hides_files", "finding out that other files exist"),
    "others": ("isolates_processes", "seeing and signalling other processes"),
}
"""A name for each capability, the capability, and what it keeps a script from."""
_SETTINGS = {
    "kernel.unprivileged_userns_clone": ("0", "sudo sysctl kernel.unprivileged_userns_clone=1"),
    "user.max_user_namespaces": ("0", "sudo sysctl user.max_user_namespaces=15000"),
    "kernel.apparmor_restrict_unprivileged_userns": (
        "1",
        "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
}
"""Settings of Linux that forbid namespaces: the value that does, and what allows them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The properties of a Linux machine that decide which sandboxes it has."""

    tier: str | None
    """The kind of sandbox that can be made; None if none can be."""
    landlock: int = 0
    """The version of Landlock, 0 if there is none."""
    has_bubblewrap: bool = False
    settings: tuple[str, ...] = ()
    """Settings, of `_SETTINGS`, that forbid namespaces."""


def runners() -> list[dict[str, Any]]:
    """Describe each runner: the limits that it enforces here, its means, and the steps to more. Never raises."""
    return [_runner("native", _native_runner), _runner("virtual", _virtual_runner), _runner("plain", _plain_runner)]


def advice(facts: Facts) -> Iterator[str]:
    """List the steps by which a Linux machine enforces more.

    >>> list(advice(Facts(tier="namespaces", landlock=7)))
    []
    >>> next(advice(Facts(tier="landlock", landlock=7, settings=("user.max_user_namespaces",))))
    'Namespaces are forbidden here by user.max_user_namespaces. Allow them: sudo sysctl user.max_user_namespaces=15000'
    """
    if facts.tier in (None, "landlock"):
        for name in facts.settings:
            yield f"Namespaces are forbidden here by {name}. Allow them: {_SETTINGS[name][1]}"
        if not facts.settings:
            yield "Namespaces are forbidden here. In a container, its own settings do that, such as a seccomp profile."
        if not facts.has_bubblewrap:
            yield "Or install bubblewrap, which may be allowed what others are not."
        if facts.tier is None and not facts.landlock:
            yield "A kernel of 5.13 or later with Landlock is enough too."
    elif not facts.landlock:
        yield "Boot a kernel of 5.13 or later with Landlock for a second wall around files."


def _runner(name: str, found: Callable[[], tuple[RunnerCapabilities, list[str]]]) -> dict[str, Any]:
    try:
        capabilities, steps = found()
    except Exception as error:  # whatever a machine does to a probe, the other findings are worth having
        capabilities, steps = (
            metier.run.RunnerCapabilities(how=f"it cannot be told: {error or type(error).__name__}"),
            [],
        )
    return {
        "name": name,
        "isolates": capabilities.isolates_files,
        "how": capabilities.how,
        "enforces": {key: bool(getattr(capabilities, field)) for key, (field, _) in KEEPS_FROM.items()},
        "next": steps,
    }


def _native_runner() -> tuple[RunnerCapabilities, list[str]]:
    from metier.run.native.runner import BEST, probe
    from metier.run.selection import native_runner

    if platform.system() == "Linux":
        probe(BEST)  # and believe no earlier process
    runner = native_runner()
    capabilities = runner.capabilities()
    if platform.system() != "Linux":
        return capabilities, [] if capabilities.isolates_files else ["Programs run in a sandbox on Linux and macOS."]
    steps = list(advice(_facts(getattr(runner, "tier", None))))
    if capabilities.isolates_files and not capabilities.limits_processes:
        steps.append("Run it as an ordinary user: no limit on processes binds root.")
    return capabilities, steps


def _facts(tier: str | None) -> Facts:
    from metier.run.native import bubblewrap, kernel

    return Facts(
        tier=tier,
        landlock=kernel.landlock_version() if kernel.SUPPORTED else 0,
        has_bubblewrap=bubblewrap.found() is not None,
        settings=tuple(name for name, (forbids, _) in _SETTINGS.items() if _setting(name) == forbids),
    )


def _setting(name: str) -> str:
    try:
        with open(os.path.join("/proc/sys", *name.split("."))) as file:
            return file.read(100).strip()
    except OSError:
        return ""


def _virtual_runner() -> tuple[RunnerCapabilities, list[str]]:
    capabilities = metier.run.VirtualRunner().capabilities()
    return capabilities, ["pip install 'metier[shell]'"] if importlib.util.find_spec("bashkit") is None else []


def _plain_runner() -> tuple[RunnerCapabilities, list[str]]:
    return replace(metier.run.PlainRunner().capabilities(), how="a plain process, only where somebody asks for it"), []
